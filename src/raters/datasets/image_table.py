"""A table of image, annotator and class: anything like the cardiac views of global-cm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raters.datasets.base import Dataset, listed
from raters.errors import RatersError
from raters.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "image": ("image", "path", "file", "filename"),
    "annotator": ("annotator", "rater", "worker", "reader", "sonographer"),
    "label": ("label", "class", "view", "answer"),
    "true": ("true", "true_class", "reference", "truth", "gold"),
    "group": ("group", "patient"),
    "split": ("split",),
}
"""What a table may hold, and the names of its columns; the first that a table has is taken."""

_NEEDED = ("image", "annotator", "label")
_FILE = "file of the image"


def read(source: Path) -> Study:
    """Open the table with its images; a row without annotator and label only lists an image."""
    path = _table(source)
    frame, found = _read(path)
    frame[_FILE] = [str(TABLE.need(path.parent / name)) for name in frame[found["image"]]]
    frame[found["image"]] = _names(frame[found["image"]].tolist())
    _list_unlabelled(frame, found["annotator"], found["label"])
    try:
        study = Study.from_frame(
            frame,
            task=found["image"],
            worker=found["annotator"],
            label=found["label"],
            wide=False,
            reference=found.get("true"),
            group=found.get("group"),
            split=found.get("split"),
            images=_FILE,
        )
    except RatersError as error:
        raise error.at(file=path) from None
    return replace(study, about=TABLE.about())


def _table(source: Path) -> Path:
    """Find the only table of a folder; a file is taken itself."""
    if source.is_file():
        return source
    files = listed(TABLE.need(source), ".csv")
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise TABLE.wrong(f"found {names}, expected one table: name the file", source)
    return files[0] if files else TABLE.need(source / "labels.csv")


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read the table as texts; return also which column holds what."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise TABLE.wrong(f"not a table: {error}", path) from None
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    frame = frame.apply(lambda column: column.str.strip())
    found = {}
    for what, names in COLUMNS.items():
        name = next((name for name in names if name in frame.columns), None)
        if name is not None:
            found[what] = name
        elif what in _NEEDED:
            have = ", ".join(frame.columns)
            message = f"found columns {have}, expected one called {' or '.join(names)}"
            raise TABLE.wrong(message, path)
    empty = frame.index[frame[found["image"]] == ""]
    if len(empty):
        message = f"found no image in row {empty[0] + 1} (the header not counted), expected a path"
        raise TABLE.wrong(message, path)
    return frame, found


def _names(images: Sequence[str]) -> list[str]:
    """Name cases as their images, without the ending where that leaves them different.

    Example:
        >>> _names(["p1/a.png", "p1/a.png", "p2/a.png"]), _names(["a.png", "a.jpg"])
        (['p1/a', 'p1/a', 'p2/a'], ['a.png', 'a.jpg'])
    """
    short = [Path(image).with_suffix("").as_posix() for image in images]
    return short if len(set(short)) == len(set(images)) else list(images)


def _list_unlabelled(frame: pd.DataFrame, annotator: str, label: str) -> None:
    """Let rows without annotator and label be rows of someone who gave no label."""
    nobody = (frame[annotator] == "") & (frame[label] == "")
    someone = frame.loc[~nobody, annotator]
    if len(someone):
        frame.loc[nobody, annotator] = someone.iloc[0]


TABLE = Dataset(
    name="image-table",
    title="Images with class labels by annotators, from a table",
    raters="the annotators that the table names",
    licence="that of the images and labels in the table",
    citation="that of the images and labels in the table",
    layout="""
SOURCE/  (or the table itself)
  labels.csv       image,annotator,label: a row per label; any name, if it is the only table
                   image      the file, relative to the table
                   annotator  or rater, worker, reader, sonographer
                   label      or class, view, answer
                   true       or true_class, reference, truth, gold (optional): the true class
                   group      or patient (optional): never torn apart by a split
                   split      (optional): train, val, test
  ...              the images, all of one shape and type
""",
    where="your own",
    read=read,
    form="packed",
)
