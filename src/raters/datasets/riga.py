"""RIGA: optic disc and cup in fundus images of three collections, by six ophthalmologists."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from raters.datasets.base import Dataset, listed, of_all
from raters.datasets.cup_and_disc import CLASSES, by_values
from raters.study.backend import LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.pattern import natural_key
from raters.study.study import CaseIndex, Study

RATERS = tuple(f"rater{k}" for k in range(1, 7))
SPLITS = {"BinRushed": "train", "MESSIDOR": "train", "Magrabia": "test"}
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


def read(source: Path) -> Study:
    """Open whichever of the two copies with masks the source is."""
    RIGA.need(source)
    tables = {name: source / _TABLE.format(name) for name in SPLITS}
    if any(table.exists() for table in tables.values()):
        return _study(_read_tables(source, tables), _MRNET)
    if not (source / "RIGA").is_dir() and any(
        path for depth in range(4) for path in source.glob(f"{'*/' * depth}*prime.*")
    ):
        raise RIGA.wrong(f"{_DRAWINGS}. {RIGA.expected()}", source)
    RIGA.need(source / "RIGA")
    return _study(_read_plus(source), _PLUS)


def _study(cases: Cases, values: _Values) -> Study:
    counts = Counter(collection for collection, _ in cases.values())
    notes = (of_all(counts[name], number, f"{name} images") for name, number in _IMAGES.items())
    index = CaseIndex.of(list(cases), splits=[SPLITS[name] for name, _ in cases.values()])
    backend = _Masks([files for _, files in cases.values()], values)
    return Study(backend, index, RATERS, about=RIGA.about(*notes), _classes=CLASSES)


class _Masks(FilesBackend):
    """Masks of two values, for the rim and for the cup."""

    def __init__(self, cases: list[CaseFiles], values: _Values) -> None:
        super().__init__(cases, LabelRules())
        self._values = values

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read a rater's rim and cup."""
        files = {} if rater is None else self.cases[case].masks.get(rater, {})
        return by_values(files[""], *self._values) if files else None


# RIGA+.


def _read_plus(source: Path) -> Cases:
    cases: Cases = {}
    masks = RIGA.need(source / "RIGA-mask")
    for folder in sorted((source / "RIGA").glob("*/*/")):
        collection = folder.parent.name.partition("_")[0]
        if collection not in SPLITS or folder.name == _WITHOUT:
            continue
        own = RIGA.need(masks / folder.parent.name / folder.name)
        for image in sorted(listed(folder, ".tif"), key=lambda path: natural_key(path.stem)):
            name = f"{folder.parent.name}/{folder.name}/{image.stem}"
            drawn = {
                rater: {"": RIGA.need(own / f"{image.stem}-{k}.tif")}
                for k, rater in enumerate(RATERS, 1)
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
        for image, final in _rows(table):
            if _FINAL not in final:
                message = f"found the mask {final!r}, expected {_FINAL!r} in its path"
                raise RIGA.wrong(message, table)
            masks = {
                rater: {"": RIGA.need(source / final.replace(_FINAL, f"Rater{k}"))}
                for k, rater in enumerate(RATERS, 1)
            }
            name = str(Path(image).with_suffix(""))
            if name in cases:
                raise RIGA.wrong(f"found the image {image!r} twice, expected once", table)
            cases[name] = collection, CaseFiles(masks, {"": RIGA.need(source / image)})
    return cases


def _rows(table: Path) -> list[tuple[str, str]]:
    """Return image and mask of the rows of the final label, one per image, with `/` in paths."""
    try:
        with open(table, encoding="gbk", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RIGA.wrong(f"not a table: {error}", table) from None
    found = list(rows[0]) if rows else []
    for column in _COLUMNS:
        if column not in found:
            listed_columns = ", ".join(map(str, found)) or "no rows"
            raise RIGA.wrong(f"found {listed_columns}, expected a column {column!r}", table)
    pairs = [(row["imgName"], row["maskName"]) for row in rows if row["rater"] in ("0", "0.0")]
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
    read=read,
    form="canonical",
)
