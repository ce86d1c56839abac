"""CHASE_DB1: retinal vessels of children, drawn by two observers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from raters.datasets.arrays import grouped
from raters.datasets.base import Dataset, listed, of_all
from raters.study.classes import Classes, LabelClass
from raters.study.study import Study

OBSERVERS = ("1stHO", "2ndHO")

_NAME = re.compile(r"Image_(\d+)[LR]")
_OFFICIAL = 28


def read(source: Path) -> Study:
    """Open the masks of both observers; both eyes of a child are one group."""
    from raters.study.read import read as read_study

    images = [p.stem for p in listed(CHASE.need(source), ".jpg") if _NAME.fullmatch(p.stem)]
    if not images:
        raise CHASE.missing(source / "Image_01L.jpg")
    _check_whole(source, images)
    study = read_study(
        f"{source}/{{case}}_{{rater}}.png",
        images=f"{source}/{{case}}.jpg",
        values=Classes((LabelClass("background", 0), LabelClass("vessel", 255, also=(1,)))),
        raters=OBSERVERS,
        cases=images,
    )
    study = grouped(study, lambda case: _NAME.fullmatch(case)[1])  # type: ignore[index]
    return replace(study, about=CHASE.about(of_all(len(study), _OFFICIAL, "images")))


def _check_whole(source: Path, images: list[str]) -> None:
    """Reject an image without a mask by each observer, and a mask without an image."""
    for name in images:
        for observer in OBSERVERS:
            CHASE.need(source / f"{name}_{observer}.png")
    for mask in listed(source, ".png"):
        name, _, observer = mask.stem.rpartition("_")
        if observer in OBSERVERS:
            CHASE.need(source / f"{name}.jpg")


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
    read=read,
    form="canonical",
)
