"""Gleason 2019: prostate tissue cores, graded pixel by pixel by up to six pathologists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raters.datasets.base import Dataset, first_there, grouped, of_all
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.classes import Classes
from raters.study.study import Study

CLASSES = {0: "background", 1: "benign", 3: "grade 3", 4: "grade 4", 5: "grade 5", 6: "benign (6)"}
_SIX = "value 6 is kept as a class of its own; the challenge counts 0, 1 and 6 as benign"
_IMAGES = ("images", "Train Imgs", "Train_imgs", "train")
_OFFICIAL, _PATHOLOGISTS = 244, 6


def read(source: Path) -> Study:
    """Open the maps of all pathologists; a core that one did not grade is MISSING there."""
    from raters.study.read import read as read_study

    for k in range(1, _PATHOLOGISTS + 1):
        GLEASON.need(source / f"Maps{k}_T")
    images = first_there(source / name for name in _IMAGES)
    if images is None:
        raise GLEASON.missing(source / _IMAGES[0])
    study = read_study(
        f"{source}/Maps{{rater}}_T/{{case}}_classimg_nonconvex.png",
        images=f"{images}/{{case}}.jpg",
        values=Classes.of(CLASSES),
    )
    study = grouped(_named(study), lambda case: case.partition("_")[0])
    return replace(study, about=GLEASON.about(_SIX, of_all(len(study), _OFFICIAL, "images")))


def _named(study: Study) -> Study:
    """Call rater k of the folder names 'pathologist k'."""
    assert isinstance(study.backend, FilesBackend)
    cases = [
        CaseFiles({f"pathologist{r}": m for r, m in files.masks.items()}, files.images)
        for files in study.backend.cases
    ]
    return replace(
        study,
        backend=FilesBackend(cases, study.rules),
        raters=tuple(f"pathologist{r}" for r in study.raters),
    )


GLEASON = Dataset(
    name="gleason2019",
    title="Gleason 2019 challenge: prostate tissue cores with Gleason grades by pixel",
    raters="6 named pathologists, 3 to 6 per image",
    licence="non-commercial research, terms of the challenge",
    citation=(
        "G. Nir et al.: Automatic grading of prostate cancer in digitized histopathology images: "
        "learning from multiple experts. Medical Image Analysis 50, 2018. "
        "D. Karimi et al.: Deep learning-based Gleason grading of prostate cancer from "
        "histopathology images. IEEE Journal of Biomedical and Health Informatics 24(5), 2020."
    ),
    layout="""
SOURCE/
  Maps1_T/ .. Maps6_T/    <core>_classimg_nonconvex.png: 0, 1, 3, 4, 5, 6 by pixel, where graded
  images/                 <core>.jpg, e.g. slide001_core003.jpg; also 'Train Imgs/' as unpacked
""",
    where="https://gleason2019.grand-challenge.org/",
    read=read,
    form="canonical",
)
