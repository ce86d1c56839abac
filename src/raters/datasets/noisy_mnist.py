"""Noisy MNIST masks: digits drawn too thick, too thin and wrongly, published with pixel-cm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raters.datasets.base import Dataset, of_all
from raters.study.backend_files import FilesBackend
from raters.study.classes import Classes
from raters.study.study import Study

THRESHOLD = 127
"""Brighter pixels of the grey masks belong to the digit."""

_SPLITS = ("train", "validate", "test")
_ROLES = ("Gaussian", "GT", "Over", "Under", "Wrong")
_GOOD = "Good"
_OFFICIAL = 100


def read(source: Path) -> Study:
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
        have = {
            *files.masks,
            *(["Gaussian"] if files.images else []),
            *(["GT"] if files.reference else []),
        }
        for role in _ROLES:
            if role not in have:
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
    read=read,
    form="packed",
)
