"""Raters who draw masks of several classes: the outlines of each, or of one target class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Labels
from raters.core.classes import MISSING
from raters.simulation.masks import Drawer, mix_up
from raters.simulation.shape import Mask, Shape


class Layers:
    """A true mask of class numbers `(*space)` with the shape of each class, computed once.

    Attributes:
        truth: Class numbers; MISSING stays MISSING in all that is drawn.
        num_classes: The number of classes; by default the highest in the mask and those below.
        case: The name of the case, where raters need it.
    """

    def __init__(
        self, truth: NDArray[np.generic], num_classes: int | None = None, case: str = ""
    ) -> None:
        self.truth: Labels = np.asarray(truth, np.int16)
        self.case = case
        # One count finds all: np.unique would sort the pixels.
        counts = np.bincount((self.truth.ravel() + 1).astype(np.intp))
        present = np.flatnonzero(counts) - 1
        self.foreground: list[int] = [int(k) for k in present if k > 0]
        self.has_gaps = bool(present[0] == MISSING) if len(present) else False
        self.classes = num_classes or max([1, *self.foreground]) + 1
        self._shapes: dict[int, Shape] = {}
        self._rests: dict[int, Shape] = {}
        self._beside: dict[int, Labels | None] = {}
        self._below: dict[int, NDArray[np.intp] | None] = {}

    def shape(self, k: int) -> Shape:
        """The region of a class."""
        if k not in self._shapes:
            self._shapes[k] = Shape(self.truth == k)
        return self._shapes[k]

    def rest(self, k: int) -> Shape:
        """The region of all other classes together."""
        if k not in self._rests:
            self._rests[k] = Shape((self.truth != k) & (self.truth != MISSING))
        return self._rests[k]

    def beside(self, k: int) -> Labels | None:
        """The class of the nearest pixel that is not of class `k`; None if that is background."""
        if k not in self._beside:
            self._beside[k] = None
            if len(self.foreground) > 1:
                places = _nearest((self.truth != k) & (self.truth != MISSING))
                flat = self.truth.ravel()
                nothing = np.zeros_like(self.truth)
                self._beside[k] = nothing if places is None else flat[places]
        return self._beside[k]

    def below(self, k: int) -> NDArray[np.intp] | None:
        """Where the nearest pixel of a lower class is, as positions in the flat mask."""
        if k not in self._below:
            self._below[k] = _nearest((self.truth < k) & (self.truth != MISSING))
        return self._below[k]


def _nearest(wanted: Mask) -> NDArray[np.intp] | None:
    from scipy.ndimage import distance_transform_edt

    if not wanted.any():
        return None
    places = distance_transform_edt(~wanted, return_distances=False, return_indices=True)
    return np.asarray(np.ravel_multi_index(tuple(places), wanted.shape))


def draw_classes(
    truth: NDArray[np.generic] | Layers,
    drawer: Drawer,
    severity: float,
    rng: np.random.Generator,
    target: int | None = None,
    num_classes: int | None = None,
) -> Labels:
    """Draw a mask of class numbers as a rater would who errs in the drawer's way.

    With a target (pixel-cm, section 4.2) only the outline of that class moves: what it gains it
    takes from any class, what it loses goes to the class of the nearest pixel that is not of it
    (a cup that is drawn too small leaves disc). Without a target each foreground class is drawn,
    and the border between two of them is drawn once, with the class of the higher number: a
    class gains from and loses to lower classes only. Where whole objects are left out ('blank',
    'miss-small') one sees what is drawn of the nearest lower class: disc for a missed cup, and
    background where the disc is missed too. 'wrong' mixes classes up where the study has several
    foreground classes (`mix_up`). MISSING pixels stay MISSING.

    Args:
        truth: Class numbers `(*space)`; `Layers` share distances between calls.
        drawer: One of `DRAWERS`.
        severity: How much to err; 0 gives the truth.
        rng: Randomness.
        target: The class to err on; by default every foreground class.
        num_classes: The number of classes of the study.

    Example:
        >>> from raters.simulation.masks import DRAWERS
        >>> truth = np.zeros((16, 16), np.int16)
        >>> truth[3:13, 3:13], truth[6:10, 6:10] = 1, 2
        >>> drawn = draw_classes(truth, DRAWERS["over"], 1, np.random.default_rng(0), target=2)
        >>> bool((drawn == 2).sum() > 16), bool(((drawn == 0) == (truth == 0)).all())
        (True, True)
    """
    layers = truth if isinstance(truth, Layers) else Layers(truth, num_classes)
    chosen = [k for k in layers.foreground if target is None or k == target]
    drawn = layers.truth.copy()
    if severity == 0:
        return drawn
    if drawer.mixes_classes and layers.classes > 2:
        for k in chosen:
            mix_up(drawn, layers.truth, layers.shape(k), k, layers.classes, severity, rng)
        return drawn
    seed = int(rng.integers(2**63))
    for k in chosen:  # ascending, so that where two classes grow the higher one wins
        # The same hand draws all classes: a shift moves all of them the same way.
        mask = drawer(layers.shape(k), severity, np.random.default_rng(seed))
        if target is not None:
            _put_alone(drawn, layers, k, mask)
        elif drawer.erases:
            _erase(drawn, layers, k, mask)
        else:
            _put_in_order(drawn, layers, k, mask)
    if layers.has_gaps:
        drawn[layers.truth == MISSING] = MISSING
    return drawn


def _put_alone(drawn: Labels, layers: Layers, k: int, mask: Mask) -> None:
    """Gain from any class, lose to the nearest."""
    lost = layers.shape(k).mask & ~mask
    beside = layers.beside(k)
    drawn[lost] = 0 if beside is None else beside[lost]
    drawn[mask] = k


def _erase(drawn: Labels, layers: Layers, k: int, mask: Mask) -> None:
    """Show what is drawn of the nearest lower class; lower classes were drawn before."""
    lost = layers.shape(k).mask & ~mask
    below = layers.below(k) if len(layers.foreground) > 1 else None
    drawn[lost] = 0 if below is None else drawn.ravel()[below[lost]]


def _put_in_order(drawn: Labels, layers: Layers, k: int, mask: Mask) -> None:
    """Gain from lower classes, lose to the nearest class if it is lower."""
    lost = layers.shape(k).mask & ~mask
    beside = layers.beside(k)
    if beside is None:
        drawn[lost] = 0
    else:
        lost &= beside < k
        drawn[lost] = beside[lost]
    drawn[mask & (layers.truth < k)] = k
