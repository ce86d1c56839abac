"""MNIST: handwritten digits as classes, as masks of their strokes, and drawn wrongly (pixel-cm)."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array
from raters.core.classes import Classes
from raters.datasets.base import Dataset, Lazy, SourceArrays, class_study, masks_study, of_all
from raters.datasets.files import Download
from raters.study.backend_files import FilesBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study

THRESHOLD = 127
"""Brighter pixels belong to the digit."""

_PARTS = {"train": ("train", 60_000), "test": ("t10k", 10_000)}
_PIXELS = {"train": "6510e85a72c3e9475c492d559d3770d2", "t10k": "240610fa99e73bfa49df8e7fc24d3206"}
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
_DOWNLOADS = (
    ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
    ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
    ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
    ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
)
_BYTES = 8  # the type of an idx file that holds unsigned bytes


def read_classes(source: Path) -> Study:
    """Open the digits with their class as reference."""
    images, labels, index, files, note = _read(MNIST, source)
    inputs = SourceArrays(files, [], None, images)
    classes = Classes.of({k: str(k) for k in range(10)})
    return class_study(inputs, index, classes, MNIST.about(note), labels)


def read_masks(source: Path) -> Study:
    """Open the digits with the mask of their strokes as reference: pixels above 127."""
    images, _, index, files, note = _read(MASKS, source)
    strokes = Lazy(len(images), lambda k: (images[k, 0] > THRESHOLD).astype(np.int8))
    return masks_study(
        files,
        index,
        Classes.of(["background", "digit"]),
        MASKS.about(f"the reference is image > {THRESHOLD}", note),
        images=images,
        reference=strokes,
    )


def _read(dataset: Dataset, source: Path) -> tuple[Array, Array, CaseIndex, list[Path], str]:
    images = []
    labels = []
    names = []
    splits = []
    files = []
    for split, (prefix, _) in _PARTS.items():
        image_file = _find(dataset, source, prefix, "images")
        label_file = _find(dataset, source, prefix, "labels")
        pictures = read_idx(image_file, 3)
        classes = read_idx(label_file, 1)
        _refuse_other_digits(pictures, image_file, prefix)
        if len(pictures) != len(classes):
            message = (
                f"found {len(classes):,} labels, expected {len(pictures):,} as in {image_file}"
            )
            raise MNIST.wrong(message, label_file)
        if len(classes) and classes.max() > 9:
            raise MNIST.wrong(f"found the label {classes.max()}, expected 0 to 9", label_file)
        images.append(pictures)
        labels.append(classes)
        names += [f"{split}/{k:05d}" for k in range(len(classes))]
        splits += [split] * len(classes)
        files += [image_file, label_file]
    note = of_all(len(names), sum(count for _, count in _PARTS.values()), "images")
    index = CaseIndex.of(names, splits=splits)
    return np.concatenate(images)[:, np.newaxis], np.concatenate(labels), index, files, note


def _refuse_other_digits(images: NDArray[np.uint8], path: Path, prefix: str) -> None:
    """Reject data sets that go by the same file names and sizes, such as Fashion-MNIST."""
    if len(images) != dict(_PARTS.values())[prefix]:
        return
    found = hashlib.md5(images.tobytes(), usedforsecurity=False).hexdigest()
    if found != _PIXELS[prefix]:
        message = (
            f"found other images than MNIST's {len(images):,} (md5 of the pixels {found}, "
            f"expected {_PIXELS[prefix]}); Fashion-MNIST and others have the same file names"
        )
        raise MNIST.wrong(message, path)


def _find(dataset: Dataset, source: Path, prefix: str, kind: str) -> Path:
    """Find a file under the names that it goes by, unpacked or not."""
    dimensions = 3 if kind == "images" else 1
    stems = [f"{prefix}-{kind}{dot}idx{dimensions}-ubyte" for dot in "-."]
    folders = [source, source / "raw", source / "MNIST" / "raw"]
    names = []
    for folder in folders:
        for stem in stems:
            names += [folder / f"{stem}.gz", folder / stem]
    return dataset.need(*names)


def read_idx(path: Path, ndim: int) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, packed with gzip or not.

    Raises:
        RatersError: The header says something else than the file holds.
    """
    with MNIST.reading(path, "cannot be unpacked", zlib.error):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header = 4 + 4 * ndim
    expected = bytes([0, 0, _BYTES, ndim])
    if content[:4] != expected or len(content) < header:
        found = content[:4].hex(" ") or "nothing"
        message = f"found {found} at its start, expected {expected.hex(' ')} (an idx file of bytes)"
        raise MNIST.wrong(message, path)
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", ndim, 4))
    size = int(np.prod(shape, dtype=np.int64))
    if len(content) - header != size:
        message = (
            f"found {len(content) - header:,} bytes after the header, expected {size:,} "
            f"for {' x '.join(map(str, shape))} as the header says"
        )
        raise MNIST.wrong(message, path)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


MNIST = Dataset(
    name="mnist",
    title="MNIST handwritten digits",
    raters="none (true class only: simulate raters)",
    licence="CC BY-SA 3.0",
    citation=(
        "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to document "
        "recognition. Proceedings of the IEEE 86(11), 1998."
    ),
    layout="""
SOURCE/  (or SOURCE/MNIST/raw/)
  train-images-idx3-ubyte.gz   60,000 images; each file also unpacked, without .gz
  train-labels-idx1-ubyte.gz
  t10k-images-idx3-ubyte.gz    10,000 images
  t10k-labels-idx1-ubyte.gz
""",
    where=f"{_MIRROR}/ (a mirror of yann.lecun.com/exdb/mnist)",
    read=read_classes,
    form="packed",
    downloads=tuple(Download(f"{_MIRROR}/{f}", f, f"md5:{d}", size) for f, d, size in _DOWNLOADS),
)
MASKS = replace(
    MNIST,
    name="mnist-masks",
    title="MNIST handwritten digits, as masks of their strokes",
    raters="none (true mask only: simulate raters)",
    read=read_masks,
)


_SPLITS = ("train", "validate", "test")
_ROLES = ("Gaussian", "GT", "Over", "Under", "Wrong")
_GOOD = "Good"
_OFFICIAL = 100


def read_noisy(source: Path) -> Study:
    """Open the three simulated raters and 'Good', who draws the reference."""
    from raters.study.read import read as read_study

    for split in _SPLITS:
        for role in _ROLES:
            NOISY.need(source / split / role)
    study = read_study(
        f"{source}/{{split}}/{{rater}}/{{case}}_{{rater}}.tif",
        images=f"{source}/{{split}}/Gaussian/{{case}}_Gaussian.tif",
        reference=f"{source}/{{split}}/GT/{{case}}_GT.tif",
        values=Classes.of(["background", "digit"]),
        threshold=THRESHOLD,
        raters=_ROLES[2:],
    )
    note = f"the reference is GT > {THRESHOLD}; the rater {_GOOD} is the reference"
    about = NOISY.about(note, of_all(len(study), _OFFICIAL, "images"))
    return replace(_with_good(study, source), about=about)


def _with_good(study: Study, source: Path) -> Study:
    """Let the reference serve as a rater too, and reject a case that lacks a file."""
    assert isinstance(study.backend, FilesBackend)
    for case, files in zip(study.index.ids, study.backend.cases, strict=True):
        have = {"Gaussian": files.images, "GT": files.reference, **files.masks}
        for role in _ROLES:
            if not have.get(role):
                split, _, name = case.partition("/")
                raise NOISY.missing(source / split / role / f"{name}_{role}.tif").at(case=case)
    cases = [replace(f, masks={_GOOD: f.reference} | f.masks) for f in study.backend.cases]
    backend = FilesBackend(cases, study.rules)
    return replace(study, backend=backend, raters=(_GOOD, *study.raters))


NOISY = Dataset(
    name="noisy-mnist",
    title="Noisy MNIST masks: 100 digits with simulated raters",
    raters="3 simulated (Over, Under, Wrong) and Good, who draws the reference",
    licence="as its repository (research use); digits: CC BY-SA 3.0",
    citation=(
        "L. Zhang, R. Tanno, M.-C. Xu, C. Jin, J. Jacob, O. Ciccarelli, F. Barkhof, "
        "D. C. Alexander: Disentangling human error from the ground truth in segmentation of "
        "medical images. NeurIPS 2020."
    ),
    layout="""
SOURCE/
  train/, validate/, test/
    Gaussian/    <n>_Gaussian.tif: the noisy image, 3 channels
    GT/          <n>_GT.tif: the truth in grey
    Over/, Under/, Wrong/    <n>_Over.tif, ...: the masks of three raters
""",
    where="https://github.com/moucheng2017/Learn_Noisy_Labels_Medical_Images",
    read=read_noisy,
    form="packed",
)
