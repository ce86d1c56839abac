"""LabelMe scenes: class labels by crowd workers, on features of a VGG network."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from raters.arrays import Array, Labels
from raters.datasets.arrays import SourceArrays, class_study, rows_of_answers
from raters.datasets.base import Dataset, of_all
from raters.study.classes import Classes
from raters.study.study import CaseIndex, Study

# The numbers are those of the paper's list: the size of each class over all 2,688 images (260,
# 308, 356, 292, 328, 360, 374, 410) is that of the scene in the original collection.
CLASSES = (
    "highway", "inside city", "tall building", "street", "forest", "coast", "mountain",
    "open country",
)  # fmt: skip
_SPLITS = {"train": 1000, "valid": 500, "test": 1188}
_WORKERS, _NOBODY = 59, -1


def read(source: Path) -> Study:
    """Open answers to the train images; valid and test images have their true class only."""
    features, truths, files = [], [], []
    for split in _SPLITS:
        truth_file = LABELME.need(source / f"LabelMe_Z_{split}.txt")
        feature_file = LABELME.need(source / f"LabelMe_VGG_avg_{split}.npy")
        truths.append(_truth(truth_file))
        features.append(_features(feature_file, len(truths[-1]), truth_file))
        files += [truth_file, feature_file]
    answers_file = LABELME.need(source / "answers.txt")
    answers = _answers(answers_file, len(truths[0]))
    sizes = [len(truth) for truth in truths]
    splits = [split for split, size in zip(_SPLITS, sizes, strict=True) for _ in range(size)]
    names = [f"{s}/{k:04d}" for s, size in zip(_SPLITS, sizes, strict=True) for k in range(size)]
    notes = (
        of_all(len(names), sum(_SPLITS.values()), "images"),
        of_all(answers.shape[1], _WORKERS, "workers"),
    )
    return class_study(
        SourceArrays([*files, answers_file], [], None, np.concatenate(features)),
        CaseIndex.of(names, splits=splits),
        Classes.of(list(CLASSES)),
        LABELME.about(*notes),
        np.concatenate(truths),
        raters=[f"worker{k}" for k in range(answers.shape[1])],
        answers=rows_of_answers(answers),
    )


def _numbers(path: Path) -> Labels:
    """Read whole numbers, `(rows, columns)`, and reject what is no class."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty file: its shape is rejected below
            table = np.loadtxt(path, dtype=float, ndmin=2)
    except (ValueError, OSError) as error:
        raise LABELME.wrong(f"found no table of numbers: {error}", path) from None
    whole = np.isin(table, range(_NOBODY, len(CLASSES)))
    if not whole.all():
        value = table[~whole][0]
        message = (
            f"found the label {value:g}, expected 0 to {len(CLASSES) - 1}, or -1 for no answer"
        )
        raise LABELME.wrong(message, path)
    return table.astype(np.int16)


def _truth(path: Path) -> Labels:
    table = _numbers(path)
    if table.shape[1] != 1:
        raise LABELME.wrong(f"found {table.shape[1]} columns, expected one label per line", path)
    return table[:, 0]


def _answers(path: Path, images: int) -> Labels:
    table = _numbers(path)
    if len(table) != images:
        message = f"found {len(table):,} lines, expected {images:,} as in LabelMe_Z_train.txt"
        raise LABELME.wrong(message, path)
    return table


def _features(path: Path, images: int, truth: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise LABELME.wrong(f"not a whole array: {error}", path) from None
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
    read=read,
    form="packed",
)
