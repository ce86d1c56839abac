"""Challenges with several raters: QUBIQ, multiple sclerosis (ISBI 2015), Gleason grades (2019)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from raters.core.classes import Classes, LabelClass
from raters.core.geometry import Geometry, plane
from raters.core.wording import many
from raters.datasets.base import Dataset, folders_in, grouped, listed, of_all, of_named
from raters.study.backend import Axes, Image, LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study


@dataclass(frozen=True)
class Structure:
    """What the challenge says of a structure.

    Attributes:
        tasks: How many tasks it has.
        raters: How many experts drew each case.
        train: How many cases are in Training.
        val: How many cases are in Validation, numbered on from those; None if not known.
        spatial_dims: Whether cases are slices or volumes.
        modalities: How many channels images have.
    """

    tasks: int
    raters: int
    train: int
    val: int | None = None
    spatial_dims: int = 2
    modalities: int = 1


STRUCTURES = {
    "brain-growth": Structure(1, 7, 34, 5),
    "brain-tumor": Structure(3, 3, 28, 4, modalities=4),
    "kidney": Structure(1, 3, 20, 4),
    "pancreas": Structure(1, 2, 40, spatial_dims=3),
    "pancreatic-lesion": Structure(1, 2, 22, spatial_dims=3),
    "prostate": Structure(2, 6, 48, 7),
}
SPLITS = {"train": "Training", "val": "Validation"}

_MASK = re.compile(r"(task\d+)_seg(\d+)\.nii(?:\.gz)?")
_ANONYMOUS = (
    "raters are anonymous: the challenge does not say whether rater1 of one case is the same "
    "person as rater1 of the next"
)


def read_qubiq(source: Path) -> Study:
    """Open the only task that the source has, or the one that its last name chooses."""
    place = QUBIQ.place(source)
    folder, task = _one_task(place, None if place == source else source.name)
    name = _name(folder)
    known = STRUCTURES[name]
    cases = {id_: _files(case, task, known.raters) for id_, case in _cases(folder).items()}
    files = list(cases.values())
    flat = known.spatial_dims == 2
    drawn = name if known.tasks == 1 else f"{name} {task}"
    return Study(
        SliceFiles(files, known.modalities) if flat else FilesBackend(files, LabelRules()),
        # Volumes are called case1-1, case1-2, ...: perhaps they are of one patient.
        CaseIndex.of(
            list(cases),
            [case.partition("-")[0] for case in cases],
            [case.partition("/")[0] for case in cases],
        ),
        tuple(f"rater{k}" for k in range(1, known.raters + 1)),
        about=QUBIQ.about(f"{name}, {task}", _ANONYMOUS, *_notes(cases, known, task)),
        _classes=Classes((LabelClass("background", 0), LabelClass(drawn, 1, also=(255,)))),
    )


# What is there.


def _name(folder: Path) -> str:
    return folder.absolute().name


def _one_task(place: Path, chosen: str | None) -> tuple[Path, str]:
    """Find the task that is meant: its structure's folder, and its name.

    Raises:
        RatersError: that lists the tasks, where there are several or the chosen one is not there.
    """
    own = _name(place) in STRUCTURES
    folders = [place] if own else [f for f in folders_in(place) if f.name in STRUCTURES]
    if not folders:
        raise QUBIQ.missing(place / next(iter(STRUCTURES)))
    found = [(folder, task) for folder in folders for task in _tasks(folder)]
    wanted = [one for one in found if chosen in (None, one[1])]
    if len(wanted) != 1:
        names = [f"{_name(folder)}/{task}" for folder, task in wanted or found]
        missing = "" if wanted else f"no {chosen}, only "
        last, task = (wanted or found)[-1]
        example = place / task if own else place / last.name / task
        raise QUBIQ.wrong(
            f"found {missing}the tasks {', '.join(names)}, expected one: "
            f"raters prepare qubiq {example} -o study/",
            place,
        )
    return wanted[0]


def _tasks(folder: Path) -> list[str]:
    """Return the tasks that any case of a structure has masks for."""
    cases = _cases(folder).values()
    found = sorted({task for case in cases for task, _ in _masks(case)})
    if not found:
        raise QUBIQ.missing(next(iter(cases)) / "task01_seg01.nii.gz")
    return found


def _cases(folder: Path) -> dict[str, Path]:
    """Return the folders of all cases by name, `train/case01`."""
    if not any((folder / name).is_dir() for name in SPLITS.values()):
        raise QUBIQ.missing(folder / "Training")
    found = {
        f"{split}/{case.name}": case
        for split, name in SPLITS.items()
        for case in folders_in(folder / name, r"case.+")
    }
    if not found:
        first = next(name for name in SPLITS.values() if (folder / name).is_dir())
        raise QUBIQ.missing(folder / first / "case01")
    return found


def _masks(case: Path) -> dict[tuple[str, int], Path]:
    """Return the masks of a case by task and number of the rater."""
    matches = ((_MASK.fullmatch(path.name), path) for path in listed(case, ".nii", ".gz"))
    return {(match[1], int(match[2])): path for match, path in matches if match is not None}


def _files(case: Path, task: str, raters: int) -> CaseFiles:
    """Return the image and the masks of a case; some raters may have drawn none."""
    drawn = {rater: path for (own, rater), path in _masks(case).items() if own == task}
    if not drawn:
        raise QUBIQ.missing(case / f"{task}_seg01.nii.gz")
    for rater, path in drawn.items():
        if not 1 <= rater <= raters:
            message = f"found a mask of rater {rater}, expected raters 1 to {raters}"
            raise QUBIQ.wrong(message, path)
    masks = {f"rater{rater}": {"": path} for rater, path in sorted(drawn.items())}
    return CaseFiles(masks, {"": QUBIQ.need_nifti(case / "image.nii.gz")})


def _notes(cases: Mapping[str, CaseFiles], known: Structure, task: str) -> Iterator[str]:
    """Note which cases and masks are not there."""
    for split, official, first in (("train", known.train, 1), ("val", known.val, known.train + 1)):
        found = [case for case in cases if case.startswith(f"{split}/")]
        if official is None or len(found) == official:
            continue
        if known.val is None:  # how cases are numbered is not known
            yield of_all(len(found), official, f"{SPLITS[split]} cases")
        else:
            names = [f"{split}/case{k:02d}" for k in range(first, first + official)]
            yield of_named(found, names, f"{SPLITS[split]} cases")
    masks = {
        f"{case}/{task}_seg{k:02d}": f"rater{k}" in files.masks
        for case, files in cases.items()
        for k in range(1, known.raters + 1)
    }
    yield of_named([name for name, there in masks.items() if there], list(masks), "masks")


# Slices.


class SliceFiles(FilesBackend):
    """Slices in files that may have a third axis: of length 1, or for the modalities of an image.

    The files of a case are one slice: masks take the geometry of the image where they have its
    shape, as the challenge compares them array by array.
    """

    def __init__(self, cases: Sequence[CaseFiles], modalities: int) -> None:
        super().__init__(cases, LabelRules())
        self._channels = modalities

    def image(self, case: int, ndim: Axes = None) -> Image | None:
        """Read the image; a third axis becomes the channels."""
        image = super().image(case, ndim)
        if image is None:
            return None
        array = image.array
        if array.ndim == 4:
            array = np.moveaxis(array, -1, 1).reshape(-1, *array.shape[1:3])
        if len(array) != self._channels:
            message = f"found {many(len(array), 'slice')}, expected {self._channels} "
            words = "(one for each modality)" if self._channels > 1 else "(2D)"
            raise QUBIQ.wrong(message + words, Path(image.source))
        return Image(array, _flat(image.geometry), image.source)

    def image_grid(self, case: int, ndim: Axes = None) -> tuple[Geometry, str] | None:
        """Return the grid of the image in its plane."""
        found = super().image_grid(case, ndim)
        return None if found is None else (_flat(found[0]), found[1])

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read one rater's mask; a third axis of length 1 is dropped."""
        mask = super().mask(case, rater)
        if mask is None:
            return None
        if mask.values.ndim == 3 and mask.values.shape[2] == 1:
            mask = replace(mask, values=mask.values[..., 0], geometry=_flat(mask.geometry))
        grid = self.image_grid(case)
        if grid is None or grid[0].shape != mask.geometry.shape:
            return mask
        return replace(mask, geometry=grid[0])


def _flat(grid: Geometry) -> Geometry:
    """Return a grid without its third axis."""
    if len(grid.shape) < 3:
        return grid
    return Geometry(grid.shape[:2], None if grid.affine is None else plane(grid.affine))


QUBIQ = Dataset(
    name="qubiq",
    title="QUBIQ challenge: structures in brain, kidney, pancreas and prostate by several experts",
    raters="2 to 7 experts, anonymous: perhaps not the same person across cases",
    licence="see the challenge's terms",
    citation=(
        "H. B. Li et al.: QUBIQ: uncertainty quantification for biomedical image segmentation "
        "challenge. arXiv:2405.18435, 2024."
    ),
    layout="""
SOURCE/                         one of its tasks is chosen: SOURCE/prostate/task02, SOURCE/kidney
  brain-growth/, brain-tumor/, kidney/, pancreas/, pancreatic-lesion/, prostate/
    Training/case<nn>/          image.nii.gz
                                task<nn>_seg<rr>.nii.gz: 0 and 1, by task and rater
    Validation/case<nn>/        the same
""",
    where=(
        "https://qubiq.grand-challenge.org/participation/ (2020) and "
        "https://qubiq21.grand-challenge.org/participation/ (2021: also pancreas)"
    ),
    read=read_qubiq,
    form="canonical",
    anonymous=True,
    part=r"task\d+",
)


_MRI = ("flair", "mprage", "pd", "t2")
_MASK_OF = {"rater1": "mask1", "rater2": "mask2"}

_VISITS = {"training01": 4, "training02": 4, "training03": 5, "training04": 4, "training05": 4}
_ALL_VISITS = [f"{subject}_{k:02d}" for subject, n in _VISITS.items() for k in range(1, n + 1)]
_PARTS = {
    "preprocessed": re.compile(rf"(training\d+_\d+)_({'|'.join(_MRI)})_pp\.nii(\.gz)?"),
    "masks": re.compile(r"(training\d+_\d+)_(mask[12])\.nii(\.gz)?"),
}


def read_isbi(source: Path) -> Study:
    """Open all time points of all subjects; the time points of a subject are one group."""
    subjects = folders_in(ISBI2015.need(source), r"training\d+")
    if not subjects:
        raise ISBI2015.missing(source / "training01")
    cases = {name: _visit_files(subject, name) for subject in subjects for name in _visits(subject)}
    return Study(
        FilesBackend(list(cases.values()), LabelRules(), modalities=_MRI),
        CaseIndex.of(list(cases), [name.partition("_")[0] for name in cases]),
        tuple(_MASK_OF),
        channels=_MRI,
        about=ISBI2015.about(of_named(cases, _ALL_VISITS, "time points")),
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


def _visit_files(subject: Path, name: str) -> CaseFiles:
    """Return the files of a time point, all of which must be there."""
    images = subject / "preprocessed"
    masks = subject / "masks"
    return CaseFiles(
        {r: {"": ISBI2015.need_nifti(masks / f"{name}_{m}.nii")} for r, m in _MASK_OF.items()},
        {m: ISBI2015.need_nifti(images / f"{name}_{m}_pp.nii") for m in _MRI},
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
    read=read_isbi,
    form="canonical",
)


GRADES = {0: "background", 1: "benign", 3: "grade 3", 4: "grade 4", 5: "grade 5", 6: "benign (6)"}
_SIX = "value 6 is kept as a class of its own; the challenge counts 0, 1 and 6 as benign"
_CORE_FOLDERS = ("images", "Train Imgs", "Train_imgs", "train")
_CORES = 244
_PATHOLOGISTS = 6


def read_gleason(source: Path) -> Study:
    """Open the maps of all pathologists; a core that one did not grade is MISSING there."""
    from raters.study.read import read as read_study

    for k in range(1, _PATHOLOGISTS + 1):
        GLEASON.need(source / f"Maps{k}_T")
    images = GLEASON.need(*(source / name for name in _CORE_FOLDERS))
    study = read_study(
        f"{source}/Maps{{rater}}_T/{{case}}_classimg_nonconvex.png",
        images=f"{images}/{{case}}.jpg",
        values=Classes.of(GRADES),
    )
    assert isinstance(study.backend, FilesBackend)
    cases = [
        CaseFiles({f"pathologist{r}": m for r, m in files.masks.items()}, files.images)
        for files in study.backend.cases
    ]
    study = grouped(study, lambda case: case.partition("_")[0])
    return replace(
        study,
        backend=FilesBackend(cases, study.rules),
        raters=tuple(f"pathologist{r}" for r in study.raters),
        about=GLEASON.about(_SIX, of_all(len(study), _CORES, "images")),
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
    read=read_gleason,
    form="canonical",
)
