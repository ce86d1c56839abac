"""Music genres: songs labelled by crowd workers, on features of the sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.datasets.arrays import SourceArrays, class_study
from raters.datasets.base import Dataset, of_all
from raters.study.classes import Classes
from raters.study.pattern import natural_key
from raters.study.study import CaseIndex, Study

if TYPE_CHECKING:
    import pandas as pd

CLASSES = (
    "blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock",
)  # fmt: skip
_FEATURES, _SONGS, _WORKERS = 124, 1000, 44


def read(source: Path) -> Study:
    """Open 700 songs with answers and 300 test songs with their true genre only."""
    import pandas as pd

    files = [MUSIC.need(source / f"music_genre_{part}.csv") for part in ("mturk", "gold", "test")]
    crowd, gold, test = (_table(path, crowd=k == 0) for k, path in enumerate(files))
    songs = pd.concat([gold, test], ignore_index=True)
    twice = songs.loc[songs["id"].duplicated(), "id"]
    if len(twice):
        raise MUSIC.wrong(f"found the song {twice.iloc[0]!r} twice, expected once", files[1])
    place = {song: k for k, song in enumerate(gold["id"])}
    stray = crowd.loc[~crowd["id"].isin(list(place)), "id"]
    if len(stray):
        raise MUSIC.wrong(
            f"found the song {stray.iloc[0]!r}, which is not in {files[1].name}", files[0]
        )
    workers = sorted(set(crowd["annotator"]), key=natural_key)
    rater, genre = ({n: k for k, n in enumerate(names)} for names in (workers, CLASSES))
    answers = (crowd["id"].map(place), crowd["annotator"].map(rater), crowd["class"].map(genre))
    features = songs[_columns()].to_numpy(np.float32)
    notes = of_all(len(songs), _SONGS, "songs"), of_all(len(workers), _WORKERS, "workers")
    return class_study(
        SourceArrays(files, [], None, features),
        CaseIndex.of(list(songs["id"]), splits=["train"] * len(gold) + ["test"] * len(test)),
        Classes.of({name: name for name in CLASSES}),
        MUSIC.about(*notes),
        songs["class"].map(genre).to_numpy(),
        raters=workers,
        answers=answers,
    )


def _columns() -> list[str]:
    return [f"feature{k}" for k in range(_FEATURES)]


def _table(path: Path, crowd: bool) -> pd.DataFrame:
    """Read a table and check its columns and genres."""
    import pandas as pd

    kept = ["id", *(["annotator"] if crowd else []), "class"]
    try:
        frame = pd.read_csv(path, dtype=dict.fromkeys(kept, str), keep_default_na=False)
    except (ValueError, OSError) as error:
        raise MUSIC.wrong(f"not a table: {error}", path) from None
    for column in (*kept, *_columns()):
        if column not in frame.columns:
            found = ", ".join(map(str, frame.columns[:4]))
            message = f"found {len(frame.columns)} columns ({found}, ...), expected {column!r}"
            raise MUSIC.wrong(message, path)
    text = next((c for c in _columns() if frame[c].dtype.kind not in "iuf"), None)
    if text is not None:
        raise MUSIC.wrong(f"found text in column {text!r}, expected numbers", path)
    unknown = frame.loc[~frame["class"].isin(CLASSES), "class"]
    if len(unknown):
        message = f"found the genre {unknown.iloc[0]!r}, expected one of {', '.join(CLASSES)}"
        raise MUSIC.wrong(message, path)
    return frame


MUSIC = Dataset(
    name="music-genre",
    title="Songs in 10 genres, labelled by crowd workers, on features of the sound",
    raters="44 crowd workers (Amazon Mechanical Turk)",
    licence="research use, with citation",
    citation=(
        "F. Rodrigues, F. Pereira, B. Ribeiro: Learning from multiple annotators: distinguishing "
        "good from random labelers. Pattern Recognition Letters 34(12), 2013. "
        "G. Tzanetakis, P. Cook: Musical genre classification of audio signals. 2002 (the songs)."
    ),
    layout="""
SOURCE/
  music_genre_mturk.csv   id, annotator, feature0 .. feature123, class: one row per answer
  music_genre_gold.csv    id, feature0 .. feature123, class: the true genre of the 700 songs
  music_genre_test.csv    the same for 300 further songs
""",
    where="http://fprodrigues.com/ and github.com/shahanaibrahimosu/end-to-end-crowdsourcing",
    read=read,
    form="packed",
)
