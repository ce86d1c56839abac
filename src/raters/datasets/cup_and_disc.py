"""Optic disc and cup: REFUGE and RIGA, as background 0, rim (disc without cup) 1, cup 2."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from raters.core.arrays import Array, Flags, Labels
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.whole_numbers import value_counts
from raters.datasets.base import CodedFiles, Dataset, coded, folders_in, listed, of_all
from raters.io import formats
from raters.metrics.surface import bounding_box
from raters.study.backend import RawMask
from raters.study.backend_files import CaseFiles
from raters.study.cases import CaseIndex
from raters.study.pattern import natural_key
from raters.study.study import Study

CLASSES = Classes.of(["background", "rim", "cup"])
BACKGROUND, RIM, CUP = range(3)
_INSIDE = 0.5  # the least share of a cup that lies in the disc, where the two were drawn apart


def combined(disc: Path, cup: Path) -> RawMask:
    """Read two masks, and put the cup into the disc; what of it lies outside is cup all the same.

    Raises:
        RatersError: Most of the cup lies outside the disc, or it is larger than the disc.
    """
    in_disc = _drawn(disc)
    in_cup = _drawn(cup)
    if in_disc.shape != in_cup.shape:
        message = f"found shape {in_cup.shape}, expected {in_disc.shape} as in {disc}"
        raise RatersError(message, kind="geometry", file=cup)
    size = int(in_cup.sum())
    inside = int((in_cup & in_disc).sum())
    if size > int(in_disc.sum()) or inside < _INSIDE * size:
        message = (
            f"found a cup of {size:,} pixels, {inside:,} of them in the disc of "
            f"{int(in_disc.sum()):,} ({disc.name}), expected it inside the disc"
        )
        raise RatersError(message, kind="dataset", file=cup)
    values = np.where(in_cup, CUP, np.where(in_disc, RIM, BACKGROUND)).astype(np.int16)
    return coded(values, cup)


def _drawn(path: Path) -> Flags:
    """Read where a mask of 0 and one other value, 1 or 255, is not 0."""
    values = formats.read_labels(path).array
    found = sorted(value_counts(values.astype(np.uint8) if values.dtype == bool else values))
    if not set(found) <= {0, 1} and not set(found) <= {0, 255}:
        listed = ", ".join(map(str, found[:5]))
        message = f"found the values {listed}, expected 0 and 255 (or 1) in a mask of one structure"
        raise RatersError(message, kind="unknown-value", file=path)
    return np.asarray(values != 0)


def by_values(path: Path, rim: int | None, cup: int) -> RawMask:
    """Read a mask that holds the rim and the cup as two values.

    Args:
        path: The file.
        rim: The value of the rim; None takes every value but 0 and the cup's.
        cup: The value of the cup.

    Raises:
        RatersError: There are other values, or the rim lies inside the cup: the two are swapped.
    """
    found = formats.read_labels(path).array
    stray = [] if rim is None else sorted(value_counts(found).keys() - {0, rim, cup})
    if stray:
        message = f"found the value {stray[0]}, expected 0, {rim} (rim) and {cup} (cup)"
        raise RatersError(message, kind="unknown-value", file=path)
    values: Labels = np.where(found == cup, CUP, np.where(found != 0, RIM, 0)).astype(np.int16)
    if _within(values == RIM, values == CUP):
        message = (
            f"found the rim inside the cup (value {cup}), expected it around the cup: are these "
            "the values of another copy?"
        )
        raise RatersError(message, kind="dataset", file=path)
    return coded(values, path)


def _within(inner: Array, outer: Array) -> bool:
    """Return whether the box around one region lies inside that of another, on all four sides."""
    if not inner.any() or not outer.any():
        return False
    sides = zip(bounding_box(inner), bounding_box(outer), strict=True)
    return all(own.start > other.start and own.stop < other.stop for own, other in sides)


REFUGE_RATERS = tuple(f"annotator{k}" for k in range(1, 8))
_FOLDERS = {"Training-400": "train", "Validation-400": "val", "Test-400": "test"}
_EACH = 400
_STRUCTURES = ("disc", "cup")
_RULE = "a pixel in the cup is cup, also where the same annotator's disc leaves it out"


def read_refuge(source: Path) -> Study:
    """Open the masks of all annotators; an image without one of them is rejected."""
    REFUGE.need(source)
    cases: dict[str, tuple[str, CaseFiles]] = {}
    for folder, split in _FOLDERS.items():
        for place in folders_in(source / folder):
            cases[f"{split}/{place.name}"] = split, _refuge_files(place)
    if not cases:
        raise REFUGE.missing(source / next(iter(_FOLDERS)))
    counts = Counter(split for split, _ in cases.values())
    notes = (of_all(counts[split], _EACH, f"{split} images") for split in _FOLDERS.values())
    index = CaseIndex.of(list(cases), splits=[split for split, _ in cases.values()])
    backend = CodedFiles([files for _, files in cases.values()], combined)
    return Study(backend, index, REFUGE_RATERS, about=REFUGE.about(_RULE, *notes), _classes=CLASSES)


def _refuge_files(place: Path) -> CaseFiles:
    masks = {
        rater: {
            what: REFUGE.need(place / f"{place.name}_seg_{what}_{k}.png") for what in _STRUCTURES
        }
        for k, rater in enumerate(REFUGE_RATERS, 1)
    }
    return CaseFiles(masks, {"": REFUGE.need(place / f"{place.name}.jpg")})


REFUGE = Dataset(
    name="refuge",
    title="REFUGE fundus images with optic disc and cup, by seven annotators",
    raters="7 glaucoma experts, by number",
    licence="the copy: Apache-2.0; images: see the terms of the REFUGE challenge",
    citation=(
        "J. I. Orlando et al.: REFUGE challenge: a unified framework for evaluating automated "
        "methods for glaucoma assessment from fundus photographs. Medical Image Analysis 59, 2020. "
        "H. Fang et al.: REFUGE2 challenge: a treasure trove for multi-dimension analysis and "
        "evaluation in glaucoma screening. arXiv:2202.08994, 2022."
    ),
    layout="""
SOURCE/  (REFUGE-MultiRater, as unpacked)
  Training-400/, Validation-400/, Test-400/
    <image>/                                    e.g. 0826/
      <image>.jpg
      <image>_seg_disc_1.png .. _seg_disc_7.png   the disc with the cup, 0 and 255
      <image>_seg_cup_1.png .. _seg_cup_7.png     the cup
""",
    where="https://huggingface.co/datasets/realslimman/REFUGE-MultiRater",
    read=read_refuge,
    form="canonical",
)


RIGA_RATERS = tuple(f"rater{k}" for k in range(1, 7))
RIGA_SPLITS = {"BinRushed": "train", "MESSIDOR": "train", "Magrabia": "test"}
"""Which split a collection is, as in MRNet and prism."""

_IMAGES = {"BinRushed": 195, "MESSIDOR": 460, "Magrabia": 95}
_Values = tuple[int | None, int]
_PLUS: _Values = (255, 128)
_MRNET: _Values = (None, 255)
"""The values of rim and cup; None is any other but 0, as MRNet's own loader has it."""
_TABLE = "Glaucoma_multirater_{}.csv"
_COLUMNS = ("imgName", "maskName", "rater")
_FINAL = "FinalLabel"
_WITHOUT = "Unlabeled"  # photographs of MESSIDOR that RIGA+ adds for domain adaptation
_DRAWINGS = (
    "found the original drawings of RIGA (outlines in copies of the photographs, '...prime' beside "
    "'...-1' to '...-6'), expected masks: RIGA+ has them"
)

Cases = dict[str, tuple[str, CaseFiles]]
"""By case: the collection, and the files."""


def read_riga(source: Path) -> Study:
    """Open whichever of the two copies with masks the source is."""
    RIGA.need(source)
    tables = {name: source / _TABLE.format(name) for name in RIGA_SPLITS}
    if any(table.exists() for table in tables.values()):
        return _riga_study(_read_tables(source, tables), _MRNET)
    if not (source / "RIGA").is_dir() and any(
        path for depth in range(4) for path in source.glob(f"{'*/' * depth}*prime.*")
    ):
        raise RIGA.wrong(f"{_DRAWINGS}. {RIGA.expected()}", source)
    RIGA.need(source / "RIGA")
    return _riga_study(_read_plus(source), _PLUS)


def _riga_study(cases: Cases, values: _Values) -> Study:
    counts = Counter(collection for collection, _ in cases.values())
    notes = (of_all(counts[name], number, f"{name} images") for name, number in _IMAGES.items())
    index = CaseIndex.of(list(cases), splits=[RIGA_SPLITS[name] for name, _ in cases.values()])
    read = partial(by_values, rim=values[0], cup=values[1])
    backend = CodedFiles([files for _, files in cases.values()], read)
    return Study(backend, index, RIGA_RATERS, about=RIGA.about(*notes), _classes=CLASSES)


# RIGA+.


def _read_plus(source: Path) -> Cases:
    cases: Cases = {}
    masks = RIGA.need(source / "RIGA-mask")
    for folder in sorted((source / "RIGA").glob("*/*/")):
        collection = folder.parent.name.partition("_")[0]
        if collection not in RIGA_SPLITS or folder.name == _WITHOUT:
            continue
        own = RIGA.need(masks / folder.parent.name / folder.name)
        for image in sorted(listed(folder, ".tif"), key=lambda path: natural_key(path.stem)):
            name = f"{folder.parent.name}/{folder.name}/{image.stem}"
            drawn = {
                rater: {"": RIGA.need(own / f"{image.stem}-{k}.tif")}
                for k, rater in enumerate(RIGA_RATERS, 1)
            }
            cases[name] = collection, CaseFiles(drawn, {"": image})
        for mask in listed(own, ".tif"):
            RIGA.need(folder / f"{mask.stem.rpartition('-')[0]}.tif")
    if not cases:
        raise RIGA.missing(source / "RIGA/BinRushed/BinRushed1/image1.tif")
    return cases


# The copy of MRNet.


def _read_tables(source: Path, tables: dict[str, Path]) -> Cases:
    cases: Cases = {}
    for collection, table in tables.items():
        if not table.exists():
            continue
        for image, final in _riga_rows(table):
            if _FINAL not in final:
                message = f"found the mask {final!r}, expected {_FINAL!r} in its path"
                raise RIGA.wrong(message, table)
            masks = {
                rater: {"": RIGA.need(source / final.replace(_FINAL, f"Rater{k}"))}
                for k, rater in enumerate(RIGA_RATERS, 1)
            }
            name = str(Path(image).with_suffix(""))
            if name in cases:
                raise RIGA.wrong(f"found the image {image!r} twice, expected once", table)
            cases[name] = collection, CaseFiles(masks, {"": RIGA.need(source / image)})
    return cases


def _riga_rows(table: Path) -> list[tuple[str, str]]:
    """Return image and mask of the rows of the final label, one per image, with `/` in paths."""
    rows = RIGA.table(table, encoding="gbk")
    for column in _COLUMNS:
        if column not in rows or rows.empty:
            found = "no rows" if rows.empty else ", ".join(rows.columns)
            raise RIGA.wrong(f"found {found}, expected a column {column!r}", table)
    final = rows[rows["rater"].isin(["0", "0.0"])]
    pairs = list(zip(final["imgName"], final["maskName"], strict=True))
    if not pairs:
        raise RIGA.wrong("found no row of rater 0 (the final label), expected one per image", table)
    return [(image.replace("\\", "/"), mask.replace("\\", "/")) for image, mask in pairs]


RIGA = Dataset(
    name="riga",
    title="RIGA fundus images with optic disc and cup, by six ophthalmologists",
    raters="6 ophthalmologists, by number",
    licence="CC BY-NC 4.0 (RIGA); see the terms of the copy",
    citation=(
        "A. Almazroa et al.: Retinal fundus images for glaucoma analysis: the RIGA dataset. "
        "Medical Imaging 2018: Imaging Informatics for Healthcare, Research, and Applications. "
        "doi:10.7302/Z23R0R29. RIGA+: S. Hu, Z. Liao, Y. Xia: Domain specific convolution and high "
        "frequency reconstruction based unsupervised domain adaptation for medical image "
        "segmentation. MICCAI 2022. MRNet: W. Ji et al.: Learning calibrated medical image "
        "segmentation via multi-rater agreement modeling. CVPR 2021."
    ),
    layout="""
SOURCE: one of
  RIGA+
    RIGA/<collection>/<part>/<image>.tif         BinRushed, Magrabia, MESSIDOR_Base1 to Base3
    RIGA-mask/<collection>/<part>/<image>-1.tif  .. <image>-6.tif: 255 rim, 128 cup
  DiscRegion, as MRNet gives it
    Glaucoma_multirater_<collection>.csv         BinRushed, Magrabia, MESSIDOR: imgName, maskName,
                                                 rater; a row with rater 0 per image
    <maskName, with Rater1 .. Rater6 for FinalLabel>   255 cup, other values but 0 rim
""",
    where=(
        "https://zenodo.org/record/6325549 (RIGA+); github.com/jiwei0921/MRNet (DiscRegion); "
        "https://doi.org/10.7302/Z23R0R29 (the original drawings)"
    ),
    read=read_riga,
    form="canonical",
)
