"""BraTS 2019: gliomas in MRI, as whole volumes, and as the slices that pixel-cm learns from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raters.datasets.base import Dataset, folders_in, of_all
from raters.datasets.brats import CITATION, RATERS, case_files, volume_study
from raters.study.backend_files import CaseFiles
from raters.study.study import Study

OFFICIAL = {"HGG": 259, "LGG": 76}
"""How many cases of high and low grade the training data has."""


def read(source: Path) -> Study:
    """Open the whole volumes of all grades that are there, or of the one that SOURCE names."""
    found = {grade: _cases(BRATS2019, source, grade) for grade in OFFICIAL}
    if not any(found.values()):
        raise BRATS2019.missing(source / "HGG")
    notes = (of_all(len(cases), OFFICIAL[g], f"{g} cases") for g, cases in found.items())
    return volume_study(BRATS2019, found["HGG"] | found["LGG"], *notes)


def read_slices(source: Path) -> Study:
    """Open 2D slices with tumour of the cases of high grade, cropped and normalised."""
    from raters.datasets.brats2019_slices import SPLITS, slice_study

    cases = _cases(SLICES, source, "HGG")
    if not cases:
        raise SLICES.missing(source / "HGG")
    if len(cases) < len(SPLITS):
        message = f"found {len(cases)} HGG cases, expected one at least for each of {len(SPLITS)}"
        raise SLICES.wrong(f"{message} splits", source)
    return slice_study(SLICES, cases, of_all(len(cases), OFFICIAL["HGG"], "HGG cases"))


def _cases(dataset: Dataset, source: Path, grade: str) -> dict[str, CaseFiles]:
    """Return the files of all cases of a grade; none where the grade is not there."""
    named = source.absolute().name
    if named in OFFICIAL and named != grade:
        return {}
    folder = source if named == grade else source / grade
    if not folder.exists():
        return {}
    found = folders_in(folder)
    if not found:
        raise dataset.missing(folder / "<case>")
    return {f"{grade}/{case.name}": case_files(dataset, case) for case in found}


BRATS2019 = Dataset(
    name="brats2019",
    title="BraTS 2019: gliomas in brain MRI, four modalities, whole volumes",
    raters=RATERS,
    licence="see the challenge's terms",
    citation=CITATION,
    layout="""
SOURCE/                      as MICCAI_BraTS_2019_Data_Training/; or SOURCE is HGG/ or LGG/ itself
  HGG/<case>/                259 cases of high grade
    <case>_{flair,t1,t1ce,t2}.nii.gz
    <case>_seg.nii.gz        0, 1 (necrotic and non-enhancing core), 2 (oedema), 4 (enhancing)
  LGG/<case>/                76 cases of low grade, where they are there (not for the slices)
                             (each file also unpacked, .nii)
""",
    where="https://www.med.upenn.edu/cbica/brats2019/data.html (after registration)",
    read=read,
    form="canonical",
)
SLICES = replace(
    BRATS2019,
    name="brats2019-slices",
    title="BraTS 2019: 2,400 slices of high-grade gliomas as pixel-cm takes them",
    read=read_slices,
    form="packed",
)
