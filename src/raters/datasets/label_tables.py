"""Tables of class labels: Dawid and Skene's anaesthetists, and any table of images and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raters.core.errors import RatersError
from raters.datasets.base import Dataset, listed, of_all
from raters.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

READINGS = ("patient", "observer", "occasion", "label")

_CLASSES = {k: str(k) for k in (1, 2, 3, 4)}
_PATIENTS = 45
_OBSERVERS = 5
_READINGS = 315


def read_anaesthetists(source: Path) -> Study:
    """Open the table; readings of one patient by one observer are all kept, occasions are not."""
    from raters.study.read import read as read_study

    path = source if source.is_file() else ANAESTHETIST.need(source / "anaesthetist.csv")
    _check_columns(path)
    study = read_study(path, task="patient", worker="observer", values=_CLASSES)
    notes = (
        "repeated readings by one observer are kept; the column occasion is not",
        of_all(len(study), _PATIENTS, "patients"),
        of_all(len(study.raters), _OBSERVERS, "observers"),
        of_all(len(study.triplets), _READINGS, "readings"),
    )
    return replace(study, about=ANAESTHETIST.about(*notes))


def _check_columns(path: Path) -> None:
    found = ANAESTHETIST.table(path, encoding="utf-8-sig", nrows=0).columns.str.strip()
    if sorted(found) != sorted(READINGS):
        message = f"found columns {', '.join(found)}, expected {', '.join(READINGS)}"
        raise ANAESTHETIST.wrong(message, path)


ANAESTHETIST = Dataset(
    name="anaesthetist",
    title="Dawid and Skene's anaesthetists: fitness of 45 patients on a scale of 1 to 4",
    raters="5 anaesthetists, one of them three times",
    licence="published table (facts), with citation",
    citation=(
        "A. P. Dawid, A. M. Skene: Maximum likelihood estimation of observer error-rates using "
        "the EM algorithm. Applied Statistics 28(1), 1979."
    ),
    layout="""
SOURCE/  (or the file itself)
  anaesthetist.csv    patient,observer,occasion,label: a row per reading, labels 1 to 4
""",
    where="the paper's Table 1; as text in github.com/dallascard/dawid_skene",
    read=read_anaesthetists,
    form="packed",
)


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


def read_image_table(source: Path) -> Study:
    """Open the table with its images; a row without annotator and label only lists an image."""
    path = _table(source)
    frame, found = _read(path)
    frame[_FILE] = [str(IMAGE_TABLE.need(path.parent / name)) for name in frame[found["image"]]]
    frame[found["image"]] = _names(frame[found["image"]].tolist())
    # Rows without annotator and label are those of someone who gave no label.
    nobody = (frame[found["annotator"]] == "") & (frame[found["label"]] == "")
    someone = frame.loc[~nobody, found["annotator"]]
    if len(someone):
        frame.loc[nobody, found["annotator"]] = someone.iloc[0]
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
    return replace(study, about=IMAGE_TABLE.about())


def _table(source: Path) -> Path:
    """Find the only table of a folder; a file is taken itself."""
    if source.is_file():
        return source
    files = listed(IMAGE_TABLE.need(source), ".csv")
    found = IMAGE_TABLE.only(files, source, "table: name the file")
    if found is None:
        return IMAGE_TABLE.need(source / "labels.csv")
    return found


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read the table as texts; return also which column holds what."""
    frame = IMAGE_TABLE.table(path, encoding="utf-8-sig").rename(columns=str.strip)
    frame = frame.apply(lambda column: column.str.strip())
    found = {}
    for what, names in COLUMNS.items():
        name = next((name for name in names if name in frame.columns), None)
        if name is not None:
            found[what] = name
        elif what in _NEEDED:
            have = ", ".join(frame.columns)
            message = f"found columns {have}, expected one called {' or '.join(names)}"
            raise IMAGE_TABLE.wrong(message, path)
    empty = frame.index[frame[found["image"]] == ""]
    if len(empty):
        message = f"found no image in row {empty[0] + 1} (the header not counted), expected a path"
        raise IMAGE_TABLE.wrong(message, path)
    return frame, found


def _names(images: Sequence[str]) -> list[str]:
    """Name cases as their images, without the ending where that leaves them different.

    Example:
        >>> _names(["p1/a.png", "p1/a.png", "p2/a.png"]), _names(["a.png", "a.jpg"])
        (['p1/a', 'p1/a', 'p2/a'], ['a.png', 'a.jpg'])
    """
    short = [Path(image).with_suffix("").as_posix() for image in images]
    return short if len(set(short)) == len(set(images)) else list(images)


IMAGE_TABLE = Dataset(
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
    read=read_image_table,
    form="packed",
)
