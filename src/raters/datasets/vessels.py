"""Vessels in fundus images: CHASE_DB1 by two observers, and LES-AV, also as arteries and veins."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from raters.core.classes import MISSING, Classes, LabelClass
from raters.datasets.base import CodedFiles, Dataset, coded, grouped, listed, of_all
from raters.io import formats
from raters.study.backend import LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.pattern import natural_key
from raters.study.study import Study

OBSERVERS = ("1stHO", "2ndHO")

_NAME = re.compile(r"Image_(\d+)[LR]")
_CHASE_IMAGES = 28


def read_chase(source: Path) -> Study:
    """Open the masks of both observers; both eyes of a child are one group."""
    from raters.study.read import read as read_study

    images = [p.stem for p in listed(CHASE.need(source), ".jpg") if _NAME.fullmatch(p.stem)]
    if not images:
        raise CHASE.missing(source / "Image_01L.jpg")
    for name in images:
        for observer in OBSERVERS:
            CHASE.need(source / f"{name}_{observer}.png")
    for mask in listed(source, ".png"):
        name, _, observer = mask.stem.rpartition("_")
        if observer in OBSERVERS:
            CHASE.need(source / f"{name}.jpg")
    study = read_study(
        f"{source}/{{case}}_{{rater}}.png",
        images=f"{source}/{{case}}.jpg",
        values=Classes((LabelClass("background", 0), LabelClass("vessel", 255, also=(1,)))),
        raters=OBSERVERS,
        cases=images,
    )
    study = grouped(study, lambda case: _NAME.fullmatch(case)[1])  # type: ignore[index]
    return replace(study, about=CHASE.about(of_all(len(study), _CHASE_IMAGES, "images")))


CHASE = Dataset(
    name="chase-db1",
    title="CHASE_DB1 retinal vessels in fundus images of 14 children",
    raters="2 named observers (1stHO, 2ndHO)",
    licence="CC BY 4.0",
    citation=(
        "M. M. Fraz et al.: An ensemble classification-based approach applied to retinal blood "
        "vessel segmentation. IEEE Transactions on Biomedical Engineering 59(9), 2012."
    ),
    layout="""
SOURCE/
  Image_01L.jpg          01L and 01R are the two eyes of one child
  Image_01L_1stHO.png    vessels by the first observer
  Image_01L_2ndHO.png    vessels by the second observer
  ...                    28 images
""",
    where="https://researchinnovation.kingston.ac.uk/en/datasets/chasedb1-retinal-vessel-reference-dataset-4/",
    read=read_chase,
    form="canonical",
)


COLOURS = {(0, 0, 0): 0, (255, 0, 0): 1, (0, 0, 255): 2, (0, 255, 0): 3, (255, 255, 255): MISSING}
"""Red arteries, blue veins, green where they cross; white vessels are of unknown kind."""

_FOV = "masks/ (the field of view) is not used: outside it the reference is background"
_LES_AV_IMAGES = 22


def read_vessels(source: Path) -> Study:
    """Open the images with the mask of all vessels as reference."""
    images, masks = _pairs(LES_AV, source, "vessel-segmentations")
    classes = Classes((LabelClass("background", 0), LabelClass("vessel", 255, also=(1,))))
    return _study(LES_AV, FilesBackend(_files(images, masks), LabelRules()), images, classes)


def read_kinds(source: Path) -> Study:
    """Open the images with arteries, veins and crossings as reference."""
    images, masks = _pairs(KINDS, source, "arteries-and-veins")
    classes = Classes.of(["background", "artery", "vein", "crossing"])
    note = "vessels drawn white (of unknown kind) are MISSING"
    return _study(KINDS, CodedFiles(_files(images, masks), _by_colour), images, classes, note)


def _by_colour(path: Path) -> RawMask:
    """Turn a picture `(3, rows, columns)` into class numbers."""
    picture = formats.read_image(path).array
    if picture.ndim != 3 or len(picture) != 3:
        message = f"found shape {picture.shape}, expected three channels (red, green, blue)"
        raise KINDS.wrong(message, path)
    values = np.full(picture.shape[1:], np.iinfo(np.int16).min, np.int16)
    for colour, number in COLOURS.items():
        values[(picture == np.array(colour)[:, None, None]).all(0)] = number
    unknown = values < MISSING
    if unknown.any():
        found = tuple(int(v) for v in picture[:, unknown][:, 0])
        known = "black, red, blue, green and white"
        message = f"found the colour {found} in {int(unknown.sum()):,} pixels, expected {known}"
        raise KINDS.wrong(message, path)
    return coded(values, path)


def _pairs(dataset: Dataset, source: Path, folder: str) -> tuple[list[Path], list[Path]]:
    """Match images and masks by name, and reject one without the other."""
    images = sorted(
        listed(dataset.need(source / "images"), ".png"), key=lambda p: natural_key(p.stem)
    )
    if not images:
        raise dataset.missing(source / "images" / "15.png")
    masks = [dataset.need(source / folder / image.name) for image in images]
    for mask in listed(source / folder, ".png"):
        dataset.need(source / "images" / mask.name)
    return images, masks


def _files(images: list[Path], masks: list[Path]) -> list[CaseFiles]:
    pairs = zip(images, masks, strict=True)
    return [CaseFiles(images={"": image}, reference={"": mask}) for image, mask in pairs]


def _study(
    dataset: Dataset, backend: FilesBackend, images: list[Path], classes: Classes, note: str = ""
) -> Study:
    about = dataset.about(note, _FOV, of_all(len(images), _LES_AV_IMAGES, "images"))
    index = CaseIndex.of([image.stem for image in images])
    return Study(backend, index, (), about=about, _classes=classes)


LES_AV = Dataset(
    name="les-av",
    title="LES-AV fundus images with vessels",
    raters="none (reference only: simulate raters or derive coarse labels)",
    licence="scientific use, with citation",
    citation=(
        "J. I. Orlando, J. Barbosa Breda, K. van Keer, M. B. Blaschko, P. J. Blanco, C. A. Bulant: "
        "Towards a glaucoma risk index based on simulated hemodynamics from fundus images. MICCAI "
        "2018."
    ),
    layout="""
SOURCE/
  images/                 15.png, ...: 22 images of 22 patients
  vessel-segmentations/   15.png, ...: 0 and 255                          (les-av)
  arteries-and-veins/     15.png, ...: red, blue, green, white on black   (les-av-kinds)
""",
    where="https://figshare.com/articles/dataset/LES-AV_dataset/11857698",
    read=read_vessels,
    form="canonical",
)
KINDS = replace(
    LES_AV,
    name="les-av-kinds",
    title="LES-AV fundus images with arteries, veins and crossings",
    read=read_kinds,
)
