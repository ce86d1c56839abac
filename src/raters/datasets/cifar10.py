"""CIFAR-10: small photographs of ten classes, with the human labels of CIFAR-10N where present."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Labels
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.datasets.base import (
    Dataset,
    Lazy,
    SourceArrays,
    class_study,
    first_there,
    listed,
    of_all,
)
from raters.datasets.files import Download, load_pickle, load_torch_pickle
from raters.simulation.classes import CIFAR_CLASSES as CLASSES
from raters.study.backend import Backend, LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study

RATERS = ("human1", "human2", "human3")

_BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
_FOLDER = "cifar-10-batches-py"
_ARCHIVE = "cifar-10-python.tar.gz"
_HUMAN_TABLE = "cifar10n.csv"
_HUMAN_TORCH = "CIFAR-10_human.pt"
_COLUMNS = ("path", "class", *RATERS)
_PICTURES = (".jpg", ".jpeg", ".png")
_SIDE = 32
_OFFICIAL = 60_000
_NOBODY = -1


@dataclass(frozen=True)
class _Pictures:
    """Images with their class; `names` are paths such as train/cat/0001.jpg, or '' in batches."""

    inputs: Backend
    cases: list[str]
    splits: list[str]
    labels: Labels
    names: list[str]


def read(source: Path) -> Study:
    """Open the batches, image folders or a zip of them, with human labels that lie beside."""
    pictures = _pictures(source)
    humans = _humans(source if source.is_dir() else source.parent, pictures)
    has_humans = humans is not None
    dense = np.zeros((len(pictures.cases), 0), np.int16) if humans is None else humans
    notes = [of_all(len(pictures.cases), _OFFICIAL, "images")]
    if has_humans:
        notes.append("human1 to human3 (CIFAR-10N) are anonymous columns, each by many workers")
    return class_study(
        pictures.inputs,
        CaseIndex.of(pictures.cases, splits=pictures.splits),
        Classes.of({name: name for name in CLASSES}),
        CIFAR10.about(*notes),
        pictures.labels,
        raters=RATERS if has_humans else (),
        answers=dense,
    )


def _pictures(source: Path) -> _Pictures:
    """Recognise the source by what is there."""
    archives = listed(source, ".zip") if source.is_dir() else []
    candidates = [source / _FOLDER, source / _ARCHIVE, source / "train", *archives]
    found = source if source.is_file() else first_there(candidates)
    if found is None and (source / _BATCHES[0]).exists():
        return _from_batches(source)
    if found is None:
        raise CIFAR10.missing(source / _FOLDER)
    if found.name == "train":
        return _from_folders(source)
    return _from_zip(found) if zipfile.is_zipfile(found) else _from_batches(found)


# The python batches: pickles of arrays, in a folder or a tar archive.


def _from_batches(source: Path) -> _Pictures:
    data = []
    labels = []
    splits = []
    for name in _BATCHES:
        with _open_batch(source, name) as (file, shown):
            rows, numbers = _batch(load_pickle(file, shown), shown)
        data.append(rows)
        labels.append(numbers)
        splits += ["test" if name == "test_batch" else "train"] * len(rows)
    images = np.concatenate(data).reshape(-1, 3, _SIDE, _SIDE)
    files = [source / name for name in _BATCHES] if source.is_dir() else [source]
    numbers = np.concatenate(labels)
    train = splits.count("train")
    cases = []
    for position, split in enumerate(splits):
        number = position - train if split == "test" else position
        cases.append(f"{split}/{number:05d}")

    inputs = SourceArrays(files, [], None, images)
    return _Pictures(inputs, cases, splits, numbers, [""] * len(cases))


@contextmanager
def _open_batch(source: Path, name: str) -> Iterator[tuple[Any, Path]]:
    if source.is_dir():
        path = CIFAR10.need(source / name)
        with open(path, "rb") as file:
            yield file, path
        return
    shown = source / _FOLDER / name
    try:
        with tarfile.open(source) as archive:
            yield archive.extractfile(f"{_FOLDER}/{name}"), shown
    except KeyError:
        raise CIFAR10.wrong(
            f"found no {_FOLDER}/{name} in it. {CIFAR10.expected()}", source
        ) from None
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CIFAR10.wrong(f"not a whole tar archive: {error}", source) from None


def _batch(content: Any, path: Path) -> tuple[NDArray[np.uint8], Labels]:  # noqa: ANN401
    """Check what a batch holds; its keys are bytes where Python 3 wrote it."""
    items = content.items() if isinstance(content, dict) else ()
    batch = {key.decode("latin1") if isinstance(key, bytes) else str(key): v for key, v in items}
    if not {"data", "labels"} <= set(batch):
        found = ", ".join(sorted(batch)) or type(content).__name__
        raise CIFAR10.wrong(f"found {found}, expected the keys data and labels", path)
    data = np.asarray(batch["data"])
    labels = np.asarray(batch["labels"])
    width = 3 * _SIDE * _SIDE
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != width:
        message = f"found data {data.dtype} {data.shape}, expected uint8 (images, {width})"
        raise CIFAR10.wrong(message, path)
    if labels.shape != (len(data),):
        message = f"found {labels.size:,} labels, expected {len(data):,}: one per image"
        raise CIFAR10.wrong(message, path)
    return data, _class_numbers(labels, path)


def _class_numbers(labels: Array, path: Path) -> Labels:
    wrong = labels[(labels < 0) | (labels >= len(CLASSES))] if labels.dtype.kind in "iu" else labels
    if len(wrong):
        raise CIFAR10.wrong(f"found the label {wrong[0]!r}, expected 0 to 9", path)
    return labels.astype(np.int16)


# Image folders, and a zip of them.


def _from_folders(source: Path) -> _Pictures:
    names = []
    for split in ("train", "test"):
        folder = CIFAR10.need(source / split)
        for path in sorted(p for p in folder.iterdir() if p.is_dir()):
            names += [f"{split}/{path.name}/{p.name}" for p in listed(path, *_PICTURES)]
    files = [CaseFiles(images={"": source / name}) for name in names]
    return _by_name(FilesBackend(files, LabelRules()), names, source)


def _from_zip(path: Path) -> _Pictures:
    with zipfile.ZipFile(path) as archive:
        pictures = [n for n in archive.namelist() if n.lower().endswith(_PICTURES)]
    members = {"/".join(n.split("/")[-3:]): n for n in pictures}
    names = sorted(n for n in members if n.split("/")[0] in ("train", "test"))
    if not names:
        message = f"found no train/<class>/<image> in it. {CIFAR10.expected()}"
        raise CIFAR10.wrong(message, path)
    images = Lazy(len(names), _zip_reader(path, [members[name] for name in names]))
    return _by_name(SourceArrays([path], [], None, images), names, path)


def _zip_reader(path: Path, members: list[str]) -> Any:  # noqa: ANN401
    """Make a function that reads the picture at a position; the archive is opened once."""
    archive = zipfile.ZipFile(path)
    lock = Lock()

    def picture(position: int) -> NDArray[np.uint8]:
        from PIL import Image

        name = members[position]
        with CIFAR10.reading(path / name, "cannot be read", zipfile.BadZipFile):
            with lock:
                content = archive.read(name)
            with Image.open(io.BytesIO(content)) as image:
                return np.moveaxis(np.asarray(image.convert("RGB")), -1, 0)

    return picture


def _by_name(inputs: Backend, names: list[str], source: Path) -> _Pictures:
    """Take split and class from paths such as train/cat/0001.jpg."""
    parts = [name.split("/") for name in names]
    number = {name: k for k, name in enumerate(CLASSES)}
    stray = next((p for p in parts if p[1] not in number), None)
    if stray is not None:
        message = f"found the class {stray[1]!r}, expected one of {', '.join(CLASSES)}"
        raise CIFAR10.wrong(message, source / stray[0] / stray[1])
    cases = [name.rpartition(".")[0] for name in names]
    twice = next((c for c, after in pairwise(cases) if c == after), None)
    if twice is not None:
        raise CIFAR10.wrong(f"found two images named {twice!r}, expected one", source)
    labels = np.array([number[p[1]] for p in parts], np.int16)
    return _Pictures(inputs, cases, [p[0] for p in parts], labels, names)


# Human labels of the train images.


def _humans(folder: Path, pictures: _Pictures) -> Labels | None:
    """Read the labels of CIFAR-10N that lie beside, `(cases, 3)`; None if there are none."""
    table = folder / _HUMAN_TABLE
    torch = first_there([folder / _HUMAN_TORCH, folder / "data" / _HUMAN_TORCH])
    by_name = bool(pictures.names[0])
    if by_name and table.exists():
        return _from_table(table, pictures)
    if not by_name and torch is not None:
        return _from_torch(torch, pictures)
    misfit = torch if by_name else first_there([table])
    if misfit is not None:
        if by_name:
            have = "image folders"
            need = _HUMAN_TABLE
        else:
            have = "batches"
            need = _HUMAN_TORCH
        raise CIFAR10.wrong(
            f"found it beside {have}, which do not tell which label is of which image; "
            f"expected {need} there (or no human labels)",
            misfit,
        )
    return None


def _from_table(path: Path, pictures: _Pictures) -> Labels:
    """Read `path,class,human1,human2,human3`; images match by path."""
    frame = CIFAR10.table(path)
    if tuple(frame.columns) != _COLUMNS:
        found = ",".join(map(str, frame.columns))
        raise CIFAR10.wrong(f"found columns {found}, expected {','.join(_COLUMNS)}", path)
    number = {name: k for k, name in enumerate(CLASSES)} | {"": _NOBODY}
    for column in _COLUMNS[1:]:
        unknown = frame.loc[~frame[column].isin(list(number)), column]
        if len(unknown):
            message = f"found {unknown.iloc[0]!r} in column {column}, expected a class of CIFAR-10"
            raise CIFAR10.wrong(message, path)
    position = {name: k for k, name in enumerate(pictures.names)}
    rows = frame[frame["path"].isin(list(position))]
    if not len(rows):
        message = f"found paths such as {frame['path'].iloc[:1].tolist()}, none of an image here"
        raise CIFAR10.wrong(message, path)
    places = rows["path"].map(position).to_numpy()
    _same_truth(rows["class"].map(number).to_numpy(), pictures.labels[places], path)
    dense = np.full((len(pictures.cases), len(RATERS)), _NOBODY, np.int16)
    for k, rater in enumerate(RATERS):
        dense[places, k] = rows[rater].map(number).to_numpy()
    return dense


def _from_torch(path: Path, pictures: _Pictures) -> Labels:
    """Read the file of the authors: labels in the order of the train batches."""
    content = load_torch_pickle(path)
    keys = ("clean_label", *(f"random_label{k}" for k in (1, 2, 3)))
    found = list(content) if isinstance(content, dict) else []
    missing = next((key for key in keys if key not in found), None)
    if missing is not None:
        listed_keys = ", ".join(map(str, found)) or type(content).__name__
        raise CIFAR10.wrong(f"found {listed_keys}, expected a key {missing!r}", path)
    columns = [np.asarray(content[key]).reshape(-1) for key in keys]
    train = pictures.splits.count("train")
    for key, column in zip(keys, columns, strict=True):
        if len(column) != train:
            message = f"found {len(column):,} labels in {key}, expected {train:,} train images"
            raise CIFAR10.wrong(message, path)
    _same_truth(columns[0], pictures.labels[:train], path)
    dense = np.full((len(pictures.cases), len(RATERS)), _NOBODY, np.int16)
    for k, column in enumerate(columns[1:]):
        dense[:train, k] = _class_numbers(column, path)
    return dense


def _same_truth(found: Array, expected: Array, path: Path) -> None:
    """Reject human labels of other images: their own column of true classes tells."""
    differing = int(np.sum(found != expected))
    if differing:
        message = (
            f"found another true class than the images have in {differing:,} of "
            f"{len(expected):,} rows, expected none: these labels are of other images"
        )
        raise RatersError(message, kind="dataset", file=path)


CIFAR10 = Dataset(
    name="cifar10",
    title="CIFAR-10 photographs, with the human labels of CIFAR-10N where present",
    raters="3 anonymous columns (CIFAR-10N), or none",
    licence="CIFAR-10: free for research with citation; CIFAR-10N labels: CC BY-NC 4.0",
    citation=(
        "A. Krizhevsky: Learning multiple layers of features from tiny images. 2009. "
        "J. Wei, Z. Zhu, H. Cheng, T. Liu, G. Niu, Y. Liu: Learning with noisy labels revisited: "
        "a study using real-world human annotations. ICLR 2022."
    ),
    layout="""
SOURCE: one of
  cifar-10-python.tar.gz                 or the folder it is in
  cifar-10-batches-py/                   data_batch_1 .. data_batch_5, test_batch
  train/<class>/*.jpg, test/<class>/*    image folders (jpg or png), or a .zip of them
and beside it, for human labels of the train images
  CIFAR-10_human.pt                      with the batches (the file of CIFAR-10N's authors)
  cifar10n.csv                           with image folders: path,class,human1,human2,human3
""",
    where="https://www.cs.toronto.edu/~kriz/cifar.html and github.com/UCSC-REAL/cifar-10-100n",
    read=read,
    form="packed",
    anonymous=True,
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            _ARCHIVE,
            "md5:c58f30108f718f92721af3b95e74349a",
            170_498_071,
        ),
    ),
)
