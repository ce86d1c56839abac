"""Raters who draw masks: the severity that has an asked mean Dice, and the study they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Labels
from raters.core.errors import RatersError
from raters.core.wording import first_repeated
from raters.simulation.backend import DrawingRater, MaskRater
from raters.simulation.coarse import coarse_raters
from raters.simulation.layers import Layers, draw_classes
from raters.simulation.masks import DRAWERS, Drawer, drawer_of
from raters.simulation.shape import generator
from raters.simulation.specs import COARSE, How, Spec
from raters.simulation.study import drawn_study, given_cases
from raters.study.annotations import UNMARKED, Unmarked
from raters.study.study import Study

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
        >>> from raters.simulation.masks import DRAWERS
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
        self._drawer = drawer
        self._target = target
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
        a = drawn == k
        b = truth == k
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
        wanted: The score to reach; one that cannot be reached is refused.
        limit: The highest severity to try.
        who: Whose score it is, for the error.
        most: The score at severity 0.
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
        low = high
        high = (further, score(further))
        step = step**2
    while low[1] < wanted and low[0] > 0:
        nearer = low[0] / step if low[0] > 1e-3 else 0.0
        high = low
        low = (nearer, score(nearer))
        step = step**2
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
        if reached > wanted:
            low = (middle, reached)
        else:
            high = (middle, reached)
    return middle, reached


_MOST_CASES = 500  # to calibrate on
_SAMPLE_PIXELS = 2e7


@dataclass(frozen=True)
class Amounts:
    """How much raters err who have no amount of their own; see `simulate`."""

    severity: float | None = None
    mean_dice: float | None = None
    group_dice: float | None = None

    def __post_init__(self) -> None:
        said = [x for x in (self.severity, self.mean_dice, self.group_dice) if x is not None]
        if len(said) > 1:
            raise RatersError("found several of severity, mean_dice, group_dice, expected one")
        if self.severity is not None and not 0 <= self.severity < math.inf:
            raise RatersError(f"found the severity {self.severity}, expected 0 or more")


def simulate_masks(
    source: Study,
    specs: Sequence[Spec],
    amounts: Amounts,
    assign: How,
    seed: int,
    target: str | None,
    unmarked: Unmarked | None = UNMARKED,
) -> Study:
    """Make the study; only what calibration needs is read."""
    for spec in specs:
        if spec.kind not in COARSE:
            drawer_of(spec.kind)  # rejects unknown kinds before anything is read
    number = None if target is None else _class_number(source, target)
    coarse = {
        spec.name: coarse_raters(spec, source.classes, number, amounts.severity)
        for spec in specs
        if spec.kind in COARSE
    }
    names = [r.name for spec in specs for r in coarse.get(spec.name, [spec])]
    twice = first_repeated(names)
    if twice is not None:  # the name of a class may be added to a name
        raise RatersError(f"found two raters named {twice!r}, expected other names: 'ann=over'")
    given = given_cases(source, names, assign, seed)
    drawers = [spec for spec in specs if spec.kind not in COARSE]
    drawn = {r.name: r for r in _Severities(source, seed, number).of(drawers, amounts)}
    raters: list[DrawingRater] = []
    for spec in specs:
        raters += coarse.get(spec.name) or [drawn[spec.name]]
    return drawn_study(source, raters, assign, seed, unmarked, target, given)


def _class_number(source: Study, target: str) -> int:
    names = source.classes.names
    if target not in names[1:]:
        raise RatersError(
            f"found the target {target!r}, expected a foreground class: {', '.join(names[1:])}"
        )
    return names.index(target)


class _Severities:
    """Decides how severe each rater is, reading true masks only if one has to be calibrated."""

    def __init__(self, source: Study, seed: int, target: int | None) -> None:
        self._source = source
        self._seed = seed
        self._target = target
        self._truths: list[Labels] = []

    def of(self, specs: Sequence[Spec], amounts: Amounts) -> list[MaskRater]:
        raters = [self._rater(spec, amounts) for spec in specs]
        if amounts.group_dice is None or not raters:
            return raters
        free = [s.amount is None and s.mean_dice is None and s.kind != "blank" for s in specs]
        factor = self._factor(raters, free, amounts.group_dice)
        return [
            replace(rater, severity=factor * rater.severity) if scaled else rater
            for rater, scaled in zip(raters, free, strict=True)
        ]

    def _rater(self, spec: Spec, amounts: Amounts) -> MaskRater:
        drawer = DRAWERS[spec.kind]
        severity = spec.amount
        wanted = spec.mean_dice
        if severity is None and wanted is None:
            severity = amounts.severity
            wanted = drawer.usual if amounts.mean_dice is None else amounts.mean_dice
        if severity is None and wanted is not None:
            rng = generator(self._seed, "calibrate", spec.name)
            classes = len(self._source.classes)
            severity = 1 - wanted  # the mean Dice of 'blank' is 1 - severity: no search
            if spec.kind != "blank":
                severity = calibrate(drawer, self._sample(), wanted, rng, self._target, classes)
        assert severity is not None  # it was said, or found
        return MaskRater(spec.name, drawer, severity, self._target)

    def _factor(self, raters: list[MaskRater], free: list[bool], wanted: float) -> float:
        """Find the factor on the free severities at which all raters' mean Dice is the wanted."""
        classes = len(self._source.classes)
        scores = [
            DiceOf(r.drawer, self._sample(), generator(self._seed, r.name), self._target, classes)
            for r in raters
        ]

        def mean(factor: float, first: bool) -> float:
            found = []
            for rater, score, scaled in zip(raters, scores, free, strict=True):
                severity = rater.severity * (factor if scaled else 1)
                found.append(score.first(severity) if first else score.all(severity))
            return float(np.mean(found))

        return find_severity(
            lambda factor: mean(factor, True),
            lambda factor: mean(factor, False),
            wanted,
            scores[0].limit,
            "the group",
            most=mean(0.0, False),
        )

    def _sample(self) -> list[Labels]:
        """Read the true masks of some cases, chosen by their names."""
        if self._truths:
            return self._truths
        order = sorted(range(len(self._source)), key=self._source.cases.__getitem__)
        pixels = 0
        t = self._target
        for k in generator(self._seed, "calibration cases").permutation(order):
            truth = self._source[int(k)].reference
            if truth is not None and (truth > 0 if t is None else truth == t).any():
                self._truths.append(truth)
                pixels += truth.size
            if len(self._truths) >= _MOST_CASES or (pixels > _SAMPLE_PIXELS):
                break
        if not self._truths:
            raise RatersError(
                f"found no true mask with foreground in {len(self._source):,} cases, expected a "
                "study with references or a pattern of true masks such as 'truth/{case}.png'",
                kind="empty",
            )
        return self._truths
