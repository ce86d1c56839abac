"""How slices of volumes are shown: as radiologists look at them, with letters at the edges.

The only place that turns a volume: image, masks, predictions and maps go through one `View`, so
that they turn together, and a head looks the same in whatever order its voxels were saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from raters.arrays import Array, Floats
from raters.errors import RatersError

THICKER = 1.5
"""How many times the next spacing the largest one must have to be the one between slices."""

_ENDS = (("L", "R"), ("P", "A"), ("I", "S"))
"""The letters of the world axes of RAS, where they are negative and where they are positive."""
_PLANES = ("sagittal", "coronal", "axial")
"""By the world axis that goes through the plane."""


class Letters(NamedTuple):
    """Which side of the patient is at which edge of a picture."""

    left: str
    right: str
    top: str
    bottom: str


@dataclass(frozen=True)
class View:
    """Turns volumes `(i, j, k)` into slices `(slices, rows, columns)`; nothing is copied.

    Attributes:
        order: The axes of the volume that become slices, rows and columns.
        flipped: Which of these three run backwards.
        plane: 'axial', 'coronal' or 'sagittal'; '' where the orientation is unknown.
        letters: The sides of the patient at the edges; None where unknown.
    """

    order: tuple[int, int, int]
    flipped: tuple[bool, bool, bool]
    plane: str = ""
    letters: Letters | None = None

    def turn(self, array: Array, lead: int = 0) -> Array:
        """Return `(..., slices, rows, columns, ...)` of a volume whose space begins at axis `lead`.

        Example:
            >>> view = view_of((2, 3, 1))
            >>> view.turn(np.arange(6).reshape(2, 3, 1))[0].tolist()
            [[2, 5], [1, 4], [0, 3]]
        """
        space = [lead + axis for axis in self.order]
        turned = np.transpose(array, [*range(lead), *space, *range(lead + 3, array.ndim)])
        backwards = tuple(lead + k for k, back in enumerate(self.flipped) if back)
        return np.asarray(np.flip(turned, backwards))

    def place(self, number: int, space: Sequence[int]) -> int:
        """Return where slice `number` of the file is among the slices, and back."""
        length = space[self.order[0]]
        if not 0 <= number < length:
            raise RatersError(f"found slice {number}, expected 0 to {length - 1}")
        return length - 1 - number if self.flipped[0] else number

    def name(self, place: int, space: Sequence[int]) -> str:
        """Name a slice by its number in the file: 'axial slice 12'."""
        return f"{self.plane} slice {self.place(place, space)}".strip()

    def aspect(self, spacing: Sequence[float]) -> float:
        """Return the height of a pixel over its width."""
        return spacing[self.order[1]] / spacing[self.order[2]]


def view_of(space: Sequence[int], affine: ArrayLike | None = None, axis: int | None = None) -> View:
    """Report how a volume is shown.

    With an affine, slices are axial, unless the spacing along one axis is at least `THICKER`
    times that along both others: then they are the planes that were acquired. They are drawn in
    the radiological convention: axial and coronal slices have the patient's right on the left of
    the picture, sagittal ones anterior; anterior (axial) or superior is at the top. In other
    words, pictures run to the left (L), to the back (P) and down (I) of the patient. Slices run
    to the right, to the front and up. An oblique volume is named by its nearest axes.

    Without an affine slices are counted on the last axis; the first one runs to the right, the
    second one upwards. A NIfTI file that says nothing of the patient (both form codes are 0)
    counts as one without.

    Args:
        space: The shape of the volume.
        affine: Voxel indices to millimetres (RAS), 4 x 4.
        axis: The axis that slices are counted on, if not as above.

    Example:
        >>> lps = view_of((4, 4, 4), np.diag([-1, -1, 1, 1]))
        >>> lps.plane, "".join(lps.letters), lps.flipped
        ('axial', 'RLAP', (False, False, False))
        >>> thick = view_of((4, 4, 4), np.diag([-1, 3, 1, 1]))
        >>> thick.plane, "".join(thick.letters)
        ('coronal', 'RLSI')
    """
    if axis not in (None, 0, 1, 2):
        raise RatersError(f"found axis {axis}, expected 0, 1 or 2")
    known = None if affine is None else np.asarray(affine, np.float64)
    nearest = None if known is None or _says_nothing(known, space) else _nearest_axes(known)
    if known is None or nearest is None:
        across = 2 if axis is None else axis
        columns, rows = (k for k in range(3) if k != across)
        return View((across, rows, columns), (False, True, False))
    world, ahead = nearest
    across = _across(known, world) if axis is None else axis
    columns, rows = sorted((k for k in range(3) if k != across), key=world.__getitem__)
    (right, left), (bottom, top) = _ENDS[world[columns]], _ENDS[world[rows]]
    return View(
        (across, rows, columns),
        (not ahead[across], ahead[rows], ahead[columns]),
        _PLANES[world[across]],
        Letters(left, right, top, bottom),
    )


def _nearest_axes(affine: Floats) -> tuple[list[int], list[bool]] | None:
    """Return the world axis that each axis runs along, and whether it runs ahead (to R, A or S)."""
    import nibabel

    if affine.shape != (4, 4) or not np.isfinite(affine).all():
        return None
    nearest = nibabel.orientations.io_orientation(affine)  # type: ignore[no-untyped-call]
    if not np.isfinite(nearest).all():
        return None  # an axis without a direction: a broken header
    return nearest[:, 0].astype(int).tolist(), (nearest[:, 1] > 0).tolist()


def _across(affine: Floats, world: list[int]) -> int:
    """Return the axis to count slices on: the acquired one if thick, else up and down."""
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    *_, next_one, thickest = np.sort(spacing)
    return int(spacing.argmax()) if thickest >= THICKER * next_one else world.index(2)


def _says_nothing(affine: Floats, space: Sequence[int]) -> bool:
    """Return whether nibabel made it up for a file without any: x turned round, centred."""
    if affine.shape != (4, 4):
        return True
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    made_up = np.diag([-spacing[0], *spacing[1:], 1.0])
    made_up[:3, 3] = -made_up[:3, :3] @ ((np.array(space) - 1) / 2)
    return bool(np.allclose(affine, made_up, rtol=1e-6, atol=1e-6))


def draw_letters(panel: Axes, letters: Letters | None) -> None:
    """Write the sides of the patient at the edges of a panel."""
    from matplotlib.patheffects import Normal, Stroke

    if letters is None:
        return
    places = {"left": (0.02, 0.5), "right": (0.98, 0.5), "top": (0.5, 0.98), "bottom": (0.5, 0.02)}
    for edge, (x, y) in places.items():
        across = "ha" if edge in ("left", "right") else "va"
        look: dict[str, Any] = {"color": "white", "fontsize": 9, "fontweight": "bold"}
        look |= {"ha": "center", "va": "center", across: edge, "transform": panel.transAxes}
        text = panel.text(x, y, getattr(letters, edge), **look)
        text.set_path_effects([Stroke(linewidth=2, foreground="black"), Normal()])
