"""ISBI 2015 MS: lesions of multiple sclerosis at several time points, drawn by two raters."""

from __future__ import annotations

import re
from pathlib import Path

from raters.datasets.base import Dataset, folders_in, listed, of_named
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.classes import Classes
from raters.study.study import Study

MODALITIES = ("flair", "mprage", "pd", "t2")
RATERS = {"rater1": "mask1", "rater2": "mask2"}

_VISITS = {"training01": 4, "training02": 4, "training03": 5, "training04": 4, "training05": 4}
_OFFICIAL = [f"{subject}_{k:02d}" for subject, n in _VISITS.items() for k in range(1, n + 1)]
_PARTS = {
    "preprocessed": re.compile(rf"(training\d+_\d+)_({'|'.join(MODALITIES)})_pp\.nii(\.gz)?"),
    "masks": re.compile(r"(training\d+_\d+)_(mask[12])\.nii(\.gz)?"),
}


def read(source: Path) -> Study:
    """Open all time points of all subjects; the time points of a subject are one group."""
    subjects = folders_in(ISBI2015.need(source), r"training\d+")
    if not subjects:
        raise ISBI2015.missing(source / "training01")
    cases = {name: _files(subject, name) for subject in subjects for name in _visits(subject)}
    return Study(
        FilesBackend(list(cases.values()), LabelRules(), modalities=MODALITIES),
        CaseIndex.of(list(cases), [name.partition("_")[0] for name in cases]),
        tuple(RATERS),
        channels=MODALITIES,
        about=ISBI2015.about(of_named(cases, _OFFICIAL, "time points")),
        _classes=Classes.of(["background", "lesion"]),
    )


def _visits(subject: Path) -> list[str]:
    """Return the time points that any file of a subject is of."""
    found = set()
    for part, pattern in _PARTS.items():
        for path in listed(ISBI2015.need(subject / part), ".nii", ".gz"):
            match = pattern.fullmatch(path.name)
            if match is not None:
                found.add(match[1])
    if not found:
        raise ISBI2015.missing(subject / "preprocessed" / f"{subject.name}_01_flair_pp.nii")
    strange = sorted(name for name in found if name.partition("_")[0] != subject.name)
    if strange:
        message = f"found files of {strange[0]}, expected files of {subject.name} only"
        raise ISBI2015.wrong(message, subject)
    return sorted(found)


def _files(subject: Path, name: str) -> CaseFiles:
    """Return the files of a time point, all of which must be there."""
    images, masks = subject / "preprocessed", subject / "masks"
    return CaseFiles(
        {r: {"": ISBI2015.need_nifti(masks / f"{name}_{m}.nii")} for r, m in RATERS.items()},
        {m: ISBI2015.need_nifti(images / f"{name}_{m}_pp.nii") for m in MODALITIES},
    )


ISBI2015 = Dataset(
    name="isbi2015-ms",
    title="ISBI 2015 longitudinal challenge (MSLSC): lesions of multiple sclerosis in brain MRI",
    raters="2 named raters (rater1, rater2)",
    licence="see the challenge's terms",
    citation=(
        "A. Carass et al.: Longitudinal multiple sclerosis lesion segmentation: resource and "
        "challenge. NeuroImage 148, 2017. doi:10.1016/j.neuroimage.2016.12.064"
    ),
    layout="""
SOURCE/
  training01/ .. training05/    a subject each, with 4 time points; training03 has 5
    preprocessed/               training01_01_{flair,mprage,pd,t2}_pp.nii, training01_02_..., ...
    masks/                      training01_01_mask1.nii and training01_01_mask2.nii: 0 and 1
                                (each file also packed, .nii.gz)
""",
    where="https://smart-stats-tools.org/lesion-challenge-2015 (after registration)",
    read=read,
    form="canonical",
)
