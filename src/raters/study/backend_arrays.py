"""Studies held in arrays: in memory, or memory-mapped from the packed form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.backend import Axes, Image, RawMask
from raters.study.classes import MISSING
from raters.study.geometry import Geometry


class Arrays(Protocol):
    """One array per case, or None: a list, an array with one row per case, or a view of one."""

    def __len__(self) -> int: ...

    def __getitem__(self, case: int, /) -> NDArray[Any] | None: ...


class ArraysBackend:
    """Masks and images that are arrays already, class numbers and MISSING in the masks.

    Args:
        raters: The names along the second axis of `labels`.
        labels: `(cases, raters, *space)`, or a sequence of `(raters, *space)`; None for none.
        images: `(cases, channels, *space)`, or a sequence of `(channels, *space)` or None.
        reference: `(cases, *space)`, or a sequence of `(*space)` or None.
        affines: One affine per case, or None.
    """

    def __init__(
        self,
        raters: Sequence[str],
        labels: Arrays | None,
        images: Arrays | None = None,
        reference: Arrays | None = None,
        affines: Arrays | None = None,
    ) -> None:
        self._column = {name: k for k, name in enumerate(raters)}
        self._labels, self._images, self._reference = labels, images, reference
        self._affines = affines

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the labels of one rater, or the reference."""
        if rater is None:
            array = None if self._reference is None else self._reference[case]
        else:
            labels = None if self._labels is None else self._labels[case]
            array = None if labels is None else labels[self._column[rater]]
        if array is None:
            return None
        values = np.asarray(array)
        who = "the reference" if rater is None else f"rater {rater!r}"
        return RawMask(values, self._grid(case, values.shape), f"{who} of case {case}", coded=True)

    def labelled(self, case: int, rater: str | None) -> bool:
        """Return whether a rater (None: the reference) labelled anything; often one look tells."""
        store = self._reference if rater is None else self._labels
        if store is None:
            return False
        array = getattr(store, "look", store.__getitem__)(case)
        if array is None:
            return False
        mask = array if rater is None else array[self._column[rater]]
        return bool(mask.size) and bool(mask.flat[0] != MISSING or (mask != MISSING).any())

    def image(self, case: int, ndim: Axes) -> Image | None:  # noqa: ARG002
        """Return the image of a case."""
        array = None if self._images is None else self._images[case]
        if array is None:
            return None
        array = np.asarray(array)
        return Image(array, self._grid(case, array.shape[1:]), f"the image of case {case}")

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image."""
        image = self.image(case, ndim)
        return None if image is None else (image.geometry, image.source)

    def files(self, case: int) -> list[Path]:  # noqa: ARG002
        """Arrays come from no files."""
        return []

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        return {"images": self._images is not None, "reference": self._reference is not None}

    def _grid(self, case: int, shape: tuple[int, ...]) -> Geometry:
        return Geometry(shape, None if self._affines is None else self._affines[case])


def refuse_bad_labels(labels: Any, num_classes: int, what: str) -> None:  # noqa: ANN401
    """Reject class numbers outside `-1 .. classes - 1` and anything that is not an integer.

    Raises:
        RatersError: that names the value found.
    """
    for case, array in enumerate(labels):
        if array is None:
            continue
        array = whole_labels(array, what, case)
        if array.size and not (int(array.min()) >= -1 and int(array.max()) < num_classes):
            raise RatersError(
                f"found {what} from {array.min()} to {array.max()} in case {case}, "
                f"expected -1 (missing) to {num_classes - 1} for {num_classes} classes"
            )


def whole_labels(given: Any, what: str, case: int) -> NDArray[Any]:  # noqa: ANN401
    """Return labels as an array; reject anything that is not an integer."""
    array = np.asarray(given)
    if array.dtype.kind in "iub":
        return array
    nan = array.dtype.kind == "f" and bool(np.isnan(array).any())
    hint = "" if array.dtype.kind == "f" else "; raters.read takes a frame of other labels"
    raise RatersError(
        f"found {'NaN in ' if nan else ''}{what} of type {array.dtype} in case {case}, expected "
        f"whole numbers from 0, and -1 for missing{hint}"
    )
