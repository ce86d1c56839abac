"""What the BraTS data sets share: four modalities, three parts of a tumour, one reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from raters.datasets.base import Dataset
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.classes import Classes
from raters.study.study import CaseIndex, Study

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
