"""BraTS: gliomas in MRI; whole volumes of 2019 and 2020, and the slices that pixel-cm takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from raters.datasets.base import Dataset, folders_in, of_all, of_named
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.classes import Classes
from raters.study.study import Study

MODALITIES = ("flair", "t1", "t1ce", "t2")
CLASSES = Classes.of(
    {0: "background", 1: "necrotic and non-enhancing core", 2: "oedema", 4: "enhancing"}
)
RATERS = "none (reference only: simulate raters)"
CITATION = (
    "B. H. Menze et al.: The multimodal brain tumor image segmentation benchmark (BRATS). IEEE "
    "Transactions on Medical Imaging 34(10), 2015. "
    "S. Bakas et al.: Advancing The Cancer Genome Atlas glioma MRI collections with expert "
    "segmentation labels and radiomic features. Scientific Data 4, 2017. "
    "S. Bakas et al.: Identifying the best machine learning algorithms for brain tumor "
    "segmentation, progression assessment, and overall survival prediction in the BRATS "
    "challenge. arXiv:1811.02629, 2018."
)


def case_files(dataset: Dataset, folder: Path, *other_segs: str) -> CaseFiles:
    """Return the files of a case, all of which must be there.

    Args:
        dataset: Whose error says what is missing.
        folder: The folder of the case, called as its files are.
        other_segs: Other names that the reference may have.
    """
    segs = (f"{folder.name}_seg.nii.gz", *other_segs)
    return CaseFiles(
        images={m: dataset.need_nifti(folder / f"{folder.name}_{m}.nii.gz") for m in MODALITIES},
        reference={"": dataset.need_nifti(*(folder / name for name in segs))},
    )


def volumes(cases: Sequence[CaseFiles]) -> FilesBackend:
    """Return the store of whole cases."""
    return FilesBackend(cases, LabelRules(), modalities=MODALITIES)


def volume_study(dataset: Dataset, cases: Mapping[str, CaseFiles], *notes: str) -> Study:
    """Make the study of whole cases, with the segmentation as reference."""
    return Study(
        volumes(list(cases.values())),
        CaseIndex.of(list(cases)),
        (),
        channels=MODALITIES,
        about=dataset.about(*notes),
        _classes=CLASSES,
    )


OFFICIAL = {"HGG": 259, "LGG": 76}
"""How many cases of high and low grade the training data has."""


def read_2019(source: Path) -> Study:
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
    read=read_2019,
    form="canonical",
)
SLICES = replace(
    BRATS2019,
    name="brats2019-slices",
    title="BraTS 2019: 2,400 slices of high-grade gliomas as pixel-cm takes them",
    read=read_slices,
    form="packed",
)


MISNAMED = {"BraTS20_Training_355": ("W39_1998.09.19_Segm.nii",)}
"""Cases whose segmentation was released under another name."""

_OFFICIAL = [f"BraTS20_Training_{k:03d}" for k in range(1, 370)]


def read_2020(source: Path) -> Study:
    """Open the whole volumes of all cases."""
    folders = folders_in(QU_BRATS2020.need(source), r"BraTS20_Training_\d+")
    if not folders:
        raise QU_BRATS2020.missing(source / _OFFICIAL[0])
    cases = {f.name: case_files(QU_BRATS2020, f, *MISNAMED.get(f.name, ())) for f in folders}
    return volume_study(QU_BRATS2020, cases, of_named(cases, _OFFICIAL, "cases"))


QU_BRATS2020 = Dataset(
    name="qu-brats2020",
    title="QU-BraTS 2020: gliomas in brain MRI, the training data of BraTS 2020",
    raters=RATERS,
    licence="see the challenge's terms",
    citation=(
        "R. Mehta et al.: QU-BraTS: MICCAI BraTS 2020 challenge on quantifying uncertainty in "
        "brain tumor segmentation - analysis of ranking scores and benchmarking results. Journal "
        f"of Machine Learning for Biomedical Imaging, 2022:026. {CITATION}"
    ),
    layout="""
SOURCE/                           as MICCAI_BraTS2020_TrainingData/
  BraTS20_Training_001/ .. 369/   a case each
    BraTS20_Training_001_{flair,t1,t1ce,t2}.nii.gz
    BraTS20_Training_001_seg.nii.gz
                                  0, 1 (necrotic and non-enhancing core), 2 (oedema), 4 (enhancing);
                                  in 355 also W39_1998.09.19_Segm.nii, as it was released
                                  (each file also unpacked, .nii)
""",
    where="https://www.med.upenn.edu/cbica/brats2020/data.html (after registration)",
    read=read_2020,
    form="canonical",
)
