"""QU-BraTS 2020: the training data of BraTS 2020, whose third task asks for uncertainty."""

from __future__ import annotations

from pathlib import Path

from raters.datasets.base import Dataset, folders_in, of_named
from raters.datasets.brats import CITATION, RATERS, case_files, volume_study
from raters.study.study import Study

MISNAMED = {"BraTS20_Training_355": ("W39_1998.09.19_Segm.nii",)}
"""Cases whose segmentation was released under another name."""

_OFFICIAL = [f"BraTS20_Training_{k:03d}" for k in range(1, 370)]


def read(source: Path) -> Study:
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
    read=read,
    form="canonical",
)
