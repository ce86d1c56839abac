"""BraTS: gliomas in MRI; whole volumes of 2019 and 2020, and the slices that pixel-cm takes.

Of the slices the paper (section 4.2, appendix A.3) says: axial slices of the 259 cases of high
grade, split by case into 1,600 for training, 300 for validation and 500 for testing; all four
modalities; the centre of 192 x 192; zero mean and unit variance per case and modality. It does not
say which slices, nor over which voxels the mean is taken. Here slices are drawn at random, with a
fixed seed, from those with tumour, and mean and variance are those of the brain (voxels not 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Ints
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.geometry import Geometry, plane
from raters.core.progress import ordered_map
from raters.datasets.base import Dataset, Lazy, folders_in, of_all, of_named
from raters.study.backend import Axes, Image, LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend, refuse_other_grid
from raters.study.cases import CaseIndex, assign_splits
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


SIDE = 192
"""How many rows and columns are kept."""

SPLITS = {"train": 1600, "val": 300, "test": 500}
"""How many slices the paper has in each split."""

SEED = 0

Place = tuple[int, int]
"""Where a slice is: the number of its case, and its number along the third axis."""


def slice_study(dataset: Dataset, cases: Mapping[str, CaseFiles], *notes: str) -> Study:
    """Make the study of chosen slices; all references are read once, one at a time, to choose."""
    names = list(cases)
    store = volumes(list(cases.values()))
    places = choose(names, list(ordered_map(lambda k: _with_tumour(store, k), range(len(names)))))
    chosen = [place for split in places.values() for place in split]
    index = CaseIndex.of(
        [f"{names[case]}/{k:03d}" for case, k in chosen],
        [names[case] for case, _ in chosen],
        [split for split, found in places.items() for _ in found],
    )
    about = dataset.about(
        f"slices with tumour, drawn with the seed {SEED}; images have zero mean and unit variance "
        "over the brain of their case",
        of_all(len(chosen), sum(SPLITS.values()), "slices"),
        *notes,
    )
    backend = SlicesBackend(store, chosen)
    return Study(backend, index, (), channels=MODALITIES, about=about, _classes=CLASSES)


def choose(names: Sequence[str], slices: Sequence[Ints]) -> dict[str, list[Place]]:
    """Choose slices for each split: cases are dealt to splits first, then slices are drawn.

    Args:
        names: The names of the cases.
        slices: The numbers of the slices with tumour, for each case.

    Returns:
        The slices of each split, at most as many as `SPLITS` says, in the order of the cases.

    Example:
        >>> found = choose(["a", "b", "c"], [np.arange(9)] * 3)
        >>> {split: {case for case, _ in places} for split, places in found.items()}
        {'train': {2}, 'val': {0}, 'test': {1}}
    """
    split_of = assign_splits(names, SPLITS, SEED)
    rng = np.random.default_rng(SEED)
    found = {}
    for split, wanted in SPLITS.items():
        cases = [k for k, own in enumerate(split_of) if own == split]
        pool = [(case, int(k)) for case in cases for k in slices[case]]
        found[split] = [pool[n] for n in sorted(rng.permutation(len(pool))[:wanted].tolist())]
    return found


def _with_tumour(store: FilesBackend, case: int) -> NDArray[np.intp]:
    """Return the numbers of the slices whose centre has tumour."""
    mask = store.mask(case, None)
    assert mask is not None  # every case has a reference
    return np.flatnonzero(centre(mask.values, mask.source).any(axis=(0, 1)))


def centre(volume: Array, file: str) -> Array:
    """Return the centre of all slices, `(..., rows, columns, slices)`.

    Raises:
        RatersError: The slices are smaller than that.
    """
    rows, columns = _corner(volume.shape[-3:], file)
    return volume[..., rows : rows + SIDE, columns : columns + SIDE, :]


def _corner(shape: tuple[int, ...], file: str) -> tuple[int, int]:
    if len(shape) != 3 or min(shape[:2]) < SIDE:
        found = " x ".join(map(str, shape))
        message = f"found shape {found}, expected slices of at least {SIDE} x {SIDE}"
        raise RatersError(message, kind="dataset", file=file)
    return (shape[0] - SIDE) // 2, (shape[1] - SIDE) // 2


def standardised(volume: Array, slices: Sequence[int], file: str) -> Array:
    """Return slices of one modality with zero mean and unit variance over the whole brain.

    The brain is where voxels are not 0; outside it stays 0. Over all voxels, the mean would tell
    how much of the volume is empty more than how bright the brain is.

    Example:
        >>> volume = np.array([[[0, 2], [4, 6]]])
        >>> standardised(volume, [1], "")[..., 0].round(2)
        array([[-1.22,  1.22]], dtype=float32)
    """
    brain = volume[volume != 0]
    if not brain.size or brain.min() == brain.max():
        found = f"nothing but {brain[0]} in the brain" if brain.size else "nothing but 0"
        raise RatersError(f"found {found}, expected an image", kind="dataset", file=file)
    mean = brain.mean(dtype=np.float64)
    deviation = brain.std(dtype=np.float64)
    part = volume[..., list(slices)]
    return np.where(part != 0, (part - mean) / deviation, 0).astype(np.float32)


@dataclass(frozen=True)
class _Chosen:
    """The chosen slices of one case: `(slices, channels, rows, columns)`, `(slices, rows, ...)`."""

    images: Array
    masks: Array
    grid: Geometry
    image_file: str
    mask_file: str


class SlicesBackend(FilesBackend):
    """Slices that are cut from volumes when they are asked for.

    A case is read once for all of its slices that come one after another. Only the chosen slices
    of the last few cases are kept.
    """

    def __init__(self, store: FilesBackend, places: Sequence[Place]) -> None:
        super().__init__([store.cases[case] for case, _ in places], store.rules)
        self._store = store
        self._places = places
        self._slices: dict[int, list[int]] = defaultdict(list)
        for case, k in places:
            self._slices[case].append(k)
        self._read = Lazy(len(store.cases), self._cut)
        self._lock = Lock()  # two threads would read the same volumes at once

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the reference of a slice; there are no raters."""
        if rater is not None:
            return None
        chosen, n = self._of(case)
        return RawMask(chosen.masks[n], chosen.grid, chosen.mask_file)

    def image(self, case: int, ndim: Axes = None) -> Image:  # noqa: ARG002
        """Return all modalities of a slice."""
        chosen, n = self._of(case)
        return Image(chosen.images[n], chosen.grid, chosen.image_file)

    def image_grid(self, case: int, ndim: Axes = None) -> tuple[Geometry, str]:  # noqa: ARG002
        """Return the grid of a slice."""
        chosen, _ = self._of(case)
        return chosen.grid, chosen.image_file

    def _of(self, case: int) -> tuple[_Chosen, int]:
        volume, k = self._places[case]
        with self._lock:
            return self._read[volume], self._slices[volume].index(k)

    def _cut(self, case: int) -> _Chosen:
        """Read a case, and keep the chosen slices of it."""
        slices = self._slices[case]
        image = self._store.image(case)
        mask = self._store.mask(case, None)
        assert image is not None and mask is not None  # every case has both
        refuse_other_grid(mask.geometry, mask.source, image.geometry, image.source, "one grid")
        paths = self._store.cases[case].images
        parts = [
            standardised(channel, slices, str(paths[name]))
            for name, channel in zip(MODALITIES, image.array, strict=True)
        ]
        images = centre(np.stack(parts), image.source)
        masks = centre(mask.values, mask.source)[..., slices]
        moved = np.eye(3)  # to the corner of the centre
        moved[:2, 2] = _corner(image.geometry.shape, image.source)
        affine = image.geometry.affine
        grid = Geometry((SIDE, SIDE), None if affine is None else plane(affine) @ moved)
        slices_first = np.moveaxis(images, -1, 0), np.moveaxis(masks, -1, 0)
        return _Chosen(*slices_first, grid, image.source, mask.source)
