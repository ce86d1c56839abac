"""Finds the severity at which a drawn rater has the mean Dice that is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Labels
from raters.errors import RatersError
from raters.simulate.layers import Layers, draw_classes
from raters.simulate.masks import Drawer

TOLERANCE = 0.002
ACCEPTED = 0.01
_FIRST = 64  # images for the search; all of them only correct what it finds
_DRAWS = 1000  # few images are drawn repeatedly
_MOST_PIXELS = 1e7  # to draw for one mean Dice

Score = Callable[[float], float]
Scored = tuple[float, float]


def calibrate(
    drawer: Drawer,
    truths: Sequence[NDArray[np.generic]],
    mean_dice: float,
    rng: np.random.Generator,
    target: int | None = None,
    num_classes: int | None = None,
) -> float:
    """Find the severity whose mean Dice against the truth is the asked one.

    A bracketing search with common random numbers: every severity is tried with the same draws,
    so that the mean Dice falls as the severity rises. It is found on a part of the images and
    corrected on all. Images without foreground say nothing and are left out.

    Args:
        drawer: How the rater errs.
        truths: Class numbers `(*space)` a case; a few hundred are enough.
        mean_dice: The mean Dice over images to reach, between 0 and 1; in an image it is the
            mean over the foreground classes that it has (only the target, if there is one).
        rng: Randomness.
        target: The class to err on; by default every foreground class.
        num_classes: The number of classes of the study.

    Raises:
        RatersError: if the drawer cannot reach it on these images; it says what can be reached.

    Example:
        >>> from raters.simulate.masks import DRAWERS
        >>> mask = np.zeros((32, 32), int)
        >>> mask[8:24, 10:20] = 1
        >>> severity = calibrate(DRAWERS["under"], [mask], 0.8, np.random.default_rng(0))
        >>> 1 < severity < 3
        True
    """
    scored = DiceOf(drawer, truths, rng, target, num_classes)
    return find_severity(scored.first, scored.all, mean_dice, scored.limit, repr(drawer.name))


class DiceOf:
    """The mean Dice of a drawer as a function of its severity, with common random numbers."""

    def __init__(
        self,
        drawer: Drawer,
        truths: Sequence[NDArray[np.generic]],
        rng: np.random.Generator,
        target: int | None = None,
        num_classes: int | None = None,
    ) -> None:
        layers = [Layers(truth, num_classes) for truth in truths]
        kept = [x for x in layers if (x.foreground if target is None else target in x.foreground)]
        if not kept:
            what = "foreground" if target is None else f"pixels of class {target}"
            raise RatersError(f"found no {what} in {len(layers)} masks, expected some to draw on")
        pixels = sum(x.truth.size for x in kept)
        passes = min(math.ceil(_DRAWS / len(kept)), max(1, int(_MOST_PIXELS / pixels)))
        order = rng.permutation(len(kept))
        self._layers = [kept[k] for _ in range(passes) for k in order]
        self._seeds = rng.integers(2**63, size=len(self._layers)).tolist()
        self._drawer, self._target = drawer, target
        self.limit = 4.0 * max(max(x.truth.shape) for x in kept)

    def first(self, severity: float) -> float:
        """Mean Dice over the first images."""
        return self._mean(severity, _FIRST)

    def all(self, severity: float) -> float:
        """Mean Dice over all images."""
        return self._mean(severity, len(self._layers))

    def _mean(self, severity: float, number: int) -> float:
        scores = []
        for layers, seed in zip(self._layers[:number], self._seeds, strict=False):
            rng = np.random.default_rng(seed)
            drawn = draw_classes(layers, self._drawer, severity, rng, self._target)
            scores.append(dice(drawn, layers.truth, layers.foreground, self._target))
        return float(np.mean(scores))


def dice(
    drawn: Labels, truth: Labels, foreground: Sequence[int], target: int | None = None
) -> float:
    """Return the mean Dice over the foreground classes of the truth, or that of the target."""
    scores = []
    for k in foreground if target is None else [target]:
        a, b = drawn == k, truth == k
        both = np.count_nonzero(a & b)
        scores.append(2 * both / (np.count_nonzero(a) + np.count_nonzero(b)))
    return sum(scores) / len(scores)


def find_severity(
    first: Score, whole: Score, wanted: float, limit: float, who: str, most: float = 1.0
) -> float:
    """Find where a falling score is the wanted one: roughly by `first`, then exactly by `whole`.

    Args:
        first: A score that is quick to compute.
        whole: The score that counts.
        wanted: The score to reach.
        limit: The highest severity to try.
        who: Whose score it is, for the error.
        most: The score at severity 0.

    Raises:
        RatersError: that says which scores can be reached.
    """
    if wanted == most:
        return 0.0
    if 0 <= wanted < most:
        low, high = _bracket(first, wanted, 1.0, limit)
        if high[1] <= wanted or whole(limit) <= wanted + ACCEPTED:
            guess, _ = _search(first, wanted, low, high)
            low, high = _bracket(whole, wanted, max(guess, 1e-3), limit)  # 0 has no neighbours
            found, reached = _search(whole, wanted, low, high)
            if abs(reached - wanted) <= ACCEPTED:
                return found
    raise RatersError(
        f"found the mean Dice {wanted:g} for {who}, expected one from {whole(limit):.2f} "
        f"to {most:.2f}: that is what can be reached on these masks"
    )


def _bracket(score: Score, wanted: float, guess: float, limit: float) -> tuple[Scored, Scored]:
    """Return two severities with their scores, one at or above the wanted score, one below."""
    low = high = (guess, score(guess))
    step = 1.15
    while high[1] > wanted and high[0] < limit:
        further = min(step * high[0], limit)
        low, high, step = high, (further, score(further)), step**2
    while low[1] < wanted and low[0] > 0:
        nearer = low[0] / step if low[0] > 1e-3 else 0.0
        low, high, step = (nearer, score(nearer)), low, step**2
    return low, high


def _search(score: Score, wanted: float, low: Scored, high: Scored) -> Scored:
    """Narrow the interval by a straight line between its ends, but by a tenth at least."""
    middle, reached = low if abs(low[1] - wanted) < abs(high[1] - wanted) else high
    for _ in range(30):
        if abs(reached - wanted) < TOLERANCE:
            break
        drop = low[1] - high[1]
        part = min(max((low[1] - wanted) / drop, 0.1), 0.9) if drop > 0 else 0.5
        middle = low[0] + part * (high[0] - low[0])
        reached = score(middle)
        low, high = ((middle, reached), high) if reached > wanted else (low, (middle, reached))
    return middle, reached
