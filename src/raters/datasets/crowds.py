"""Class labels by crowd workers, on features: scenes of LabelMe and genres of music."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.core.arrays import Array, Labels
from raters.core.classes import Classes
from raters.datasets.base import Dataset, SourceArrays, class_study, of_all
from raters.study.cases import CaseIndex
from raters.study.pattern import natural_key
from raters.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

# The numbers are those of the paper's list: the size of each class over all 2,688 images (260,
# 308, 356, 292, 328, 360, 374, 410) is that of the scene in the original collection.
SCENES = (
    "highway",
    "inside city",
    "tall building",
    "street",
    "forest",
    "coast",
    "mountain",
    "open country",
)
_SPLITS = {"train": 1000, "valid": 500, "test": 1188}
_SCENE_WORKERS = 59
_NOBODY = -1


def read_labelme(source: Path) -> Study:
    """Open answers to the train images; valid and test images have their true class only."""
    features = []
    truths = []
    files = []
    for split in _SPLITS:
        truth_file = LABELME.need(source / f"LabelMe_Z_{split}.txt")
        feature_file = LABELME.need(source / f"LabelMe_VGG_avg_{split}.npy")
        truths.append(_truth(truth_file))
        features.append(_scene_features(feature_file, len(truths[-1]), truth_file))
        files += [truth_file, feature_file]
    answers_file = LABELME.need(source / "answers.txt")
    answers = _numbers(answers_file)
    if len(answers) != len(truths[0]):
        found = f"{len(answers):,} lines"
        expected = f"{len(truths[0]):,} as in LabelMe_Z_train.txt"
        raise LABELME.wrong(f"found {found}, expected {expected}", answers_file)
    sizes = [len(truth) for truth in truths]
    splits = [split for split, size in zip(_SPLITS, sizes, strict=True) for _ in range(size)]
    names = [f"{s}/{k:04d}" for s, size in zip(_SPLITS, sizes, strict=True) for k in range(size)]
    notes = (
        of_all(len(names), sum(_SPLITS.values()), "images"),
        of_all(answers.shape[1], _SCENE_WORKERS, "workers"),
    )
    return class_study(
        SourceArrays([*files, answers_file], [], None, np.concatenate(features)),
        CaseIndex.of(names, splits=splits),
        Classes.of(list(SCENES)),
        LABELME.about(*notes),
        np.concatenate(truths),
        raters=[f"worker{k}" for k in range(answers.shape[1])],
        answers=answers,
    )


def _numbers(path: Path) -> Labels:
    """Read whole numbers, `(rows, columns)`, and reject what is no class."""
    with LABELME.reading(path, "found no table of numbers"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty file: its shape is rejected below
        table = np.loadtxt(path, dtype=float, ndmin=2)
    whole = np.isin(table, range(_NOBODY, len(SCENES)))
    if not whole.all():
        value = table[~whole][0]
        message = f"found the label {value:g}, expected 0 to {len(SCENES) - 1}, or -1 for no answer"
        raise LABELME.wrong(message, path)
    return table.astype(np.int16)


def _truth(path: Path) -> Labels:
    table = _numbers(path)
    if table.shape[1] != 1:
        raise LABELME.wrong(f"found {table.shape[1]} columns, expected one label per line", path)
    return table[:, 0]


def _scene_features(path: Path, images: int, truth: Path) -> Array:
    with LABELME.reading(path, "not a whole array"):
        array: Array = np.load(path, allow_pickle=False)
    if array.ndim != 2 or len(array) != images:
        message = f"found shape {array.shape}, expected ({images}, features) as in {truth.name}"
        raise LABELME.wrong(message, path)
    return array


LABELME = Dataset(
    name="labelme",
    title="LabelMe scenes in 8 classes, labelled by crowd workers, on VGG features",
    raters="59 crowd workers",
    licence="research use, with citation",
    citation=(
        "F. Rodrigues, F. Pereira: Deep learning from crowds. AAAI 2018. F. Rodrigues, "
        "M. Lourenço, B. Ribeiro, F. Pereira: Learning supervised topic models for classification "
        "and regression from crowds. IEEE TPAMI 39(12), 2017."
    ),
    layout="""
SOURCE/
  answers.txt                                 a line per image, a column per worker; -1 for none
  LabelMe_Z_{train,valid,test}.txt            the true class, 0 to 7, a line per image
  LabelMe_VGG_avg_{train,valid,test}.npy      features (images, 512)
""",
    where="http://fprodrigues.com/publications/deep-crowds/ and github.com/fmenat/PyLearningCrowds",
    read=read_labelme,
    form="packed",
)


GENRES = (
    "blues",
    "classical",
    "country",
    "disco",
    "hiphop",
    "jazz",
    "metal",
    "pop",
    "reggae",
    "rock",
)
_SONG_FEATURES = 124
_SONGS = 1000
_SONG_WORKERS = 44


def read_music(source: Path) -> Study:
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
    rater, genre = ({n: k for k, n in enumerate(names)} for names in (workers, GENRES))
    answers = (crowd["id"].map(place), crowd["annotator"].map(rater), crowd["class"].map(genre))
    features = songs[_columns()].to_numpy(np.float32)
    notes = of_all(len(songs), _SONGS, "songs"), of_all(len(workers), _SONG_WORKERS, "workers")
    return class_study(
        SourceArrays(files, [], None, features),
        CaseIndex.of(list(songs["id"]), splits=["train"] * len(gold) + ["test"] * len(test)),
        Classes.of({name: name for name in GENRES}),
        MUSIC.about(*notes),
        songs["class"].map(genre).to_numpy(),
        raters=workers,
        answers=answers,
    )


def _columns() -> list[str]:
    return [f"feature{k}" for k in range(_SONG_FEATURES)]


def _table(path: Path, crowd: bool) -> pd.DataFrame:
    """Read a table and check its columns and genres."""
    kept = ["id", *(["annotator"] if crowd else []), "class"]
    frame = MUSIC.table(path, dtype=dict.fromkeys(kept, str))
    for column in (*kept, *_columns()):
        if column not in frame.columns:
            found = ", ".join(map(str, frame.columns[:4]))
            message = f"found {len(frame.columns)} columns ({found}, ...), expected {column!r}"
            raise MUSIC.wrong(message, path)
    text = next((c for c in _columns() if frame[c].dtype.kind not in "iuf"), None)
    if text is not None:
        raise MUSIC.wrong(f"found text in column {text!r}, expected numbers", path)
    unknown = frame.loc[~frame["class"].isin(GENRES), "class"]
    if len(unknown):
        message = f"found the genre {unknown.iloc[0]!r}, expected one of {', '.join(GENRES)}"
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
    read=read_music,
    form="packed",
)
