"""The raters who draw on a true mask, by name; a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.simulate import objects, outlines, strokes
from raters.simulate.shape import Mask, Shape


@dataclass(frozen=True)
class Drawer:
    """A way to err on a mask; call it with a mask, a severity and randomness.

    Attributes:
        name: How the rater is asked for.
        about: What the rater does, in a few words.
        unit: What a severity of 1 is; pixels are voxels in 3D, whatever their spacing.
        usual: The mean Dice against the truth that it has by default.
        draw: The function.
        mixes_classes: Whether it mixes up classes where there are several (`draw_classes`).
        erases: Whether it leaves out whole objects; what is below shows (`draw_classes`).

    Example:
        >>> mask = np.zeros((9, 9), bool)
        >>> mask[3:6, 3:6] = True
        >>> drawn = DRAWERS["over"](mask, 1.5, np.random.default_rng(0))
        >>> bool((drawn & mask).sum() == 9 < drawn.sum())
        True
        >>> bool((DRAWERS["over"](mask, 0, np.random.default_rng(0)) == mask).all())
        True
    """

    name: str
    about: str
    unit: str
    usual: float
    draw: Callable[[Shape, float, np.random.Generator], Mask]
    mixes_classes: bool = False
    erases: bool = False

    def __call__(
        self, mask: NDArray[np.generic] | Shape, severity: float, rng: np.random.Generator
    ) -> Mask:
        """Draw; severity 0 and a mask without foreground give the mask itself.

        Args:
            mask: The true mask `(*space)`; a `Shape` shares its distances between calls.
            severity: How much to err, 0 or more.
            rng: Randomness.
        """
        if not 0 <= severity < np.inf:
            raise RatersError(
                f"found the severity {severity} for {self.name!r}, expected 0 or more"
            )
        shape = mask if isinstance(mask, Shape) else Shape(mask)
        if severity == 0 or shape.is_empty:
            return shape.mask.copy()
        return self.draw(shape, float(severity), rng)


_ALL = (
    Drawer("good", "faithful, a little shaky", "pixel", 0.95, outlines.wobble),
    Drawer("over", "draws too much", "pixel", 0.7, outlines.over),
    Drawer("under", "draws too little", "pixel", 0.7, outlines.under),
    Drawer("wrong", "too much, fractures", "pixel", 0.6, strokes.wrong, mixes_classes=True),
    Drawer("blank", "hands in nothing", "probability", 0.0, objects.blank, erases=True),
    Drawer("thin", "strokes too thin", "half thickness", 0.7, outlines.thin),
    Drawer("thicken", "strokes too thick", "half thickness", 0.7, outlines.thicken),
    Drawer("swell", "swollen at one place", "power", 0.9, strokes.swell),
    Drawer("fracture", "strokes broken", "pixel", 0.85, strokes.fracture),
    Drawer("shift", "right form, wrong place", "pixel", 0.7, outlines.shift),
    Drawer("smooth", "cuts corners", "pixel", 0.85, outlines.smooth),
    Drawer("jitter", "shaky outline", "pixel", 0.8, outlines.wobble),
    Drawer("miss-small", "misses small objects", "pixel", 0.85, objects.miss_small, erases=True),
    Drawer("left-right", "good on the left, too much right", "pixel", 0.8, outlines.good_left),
    Drawer("right-left", "good on the right, too much left", "pixel", 0.8, outlines.good_right),
)

DRAWERS: dict[str, Drawer] = {drawer.name: drawer for drawer in _ALL}
"""The first five are pixel-cm's (Appendix A.1); thin to fracture follow Morpho-MNIST."""


def drawer_of(name: str) -> Drawer:
    """Find a drawer by its name.

    Raises:
        RatersError: that lists the names.
    """
    if name not in DRAWERS:
        raise RatersError(f"found the rater {name!r}, expected one of {', '.join(DRAWERS)}")
    return DRAWERS[name]
