"""A drawn study in which most raters err alike: they overlook faint lesions and mark streaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from raters.arrays import Flags, Floats, Labels
from raters.confusion.counts import count, normalise
from raters.simulate.backend import Source
from raters.simulate.noise import generator
from raters.simulate.phantoms import Rng, Space, phantom_study, streak_parts
from raters.simulate.specs import How
from raters.simulate.study import described, given_cases
from raters.study.backend import RawMask
from raters.study.study import Study

CAREFUL, CARELESS = ("careful1", "careful2"), ("careless1", "careless2", "careless3")
SEES_STREAK = 0.8
"""How often a careless rater takes the streak of an image for a lesion."""

SLIP = 0.005
"""The share of pixels that any rater labels wrongly, each at random."""


def streak_study(
    cases: int, shape: Sequence[int] = (40, 40), seed: int = 0, assign: How = "all"
) -> Study:
    """Return drawn images with a bright lesion, a faint lesion and a streak, by five raters.

    Two raters mark both lesions. Three overlook the faint one, and each of them takes the streak
    for a lesion four times in five, independently of the others: at most places that raters
    dispute the majority errs, and only that the two agree with each other everywhere tells who is
    right. A vote, and EM that starts from it, believe the majority.

    Args:
        cases: How many images to draw.
        shape: Their shape, 2D or 3D, at least 16 along each axis.
        seed: Randomness; each case depends on it and on its own name only.
        assign: Who labels which case, see `raters.simulate.specs`.

    Example:
        >>> from raters.simulate import true_confusion
        >>> study = streak_study(3)
        >>> study
        Study(segmentation, 3 cases, 5 raters, 2 classes)
        >>> lesion = true_confusion(study, 0)[:, 1, 1]       # how much of the lesions each finds
        >>> bool(lesion[:2].min() > 0.98), bool(lesion[2:].max() < 0.9)
        (True, True)
    """
    truth = phantom_study("streaks", cases, shape, seed)
    names = (*CAREFUL, *CARELESS)
    given = given_cases(truth, names, assign, seed)
    said = {
        name: "marks both lesions" if name in CAREFUL else "overlooks faint lesions, marks streaks"
        for name in names
    }
    return replace(
        truth,
        backend=StreakRaters(truth, tuple(shape), given, seed),
        raters=names,
        about=described(truth, said, assign, seed),
        rows=None,
        _classes=truth.classes,
    )


class StreakRaters(Source):
    """Draws what each rater marks, the same whenever it is asked for."""

    def __init__(self, study: Study, space: Space, given: Flags, seed: int) -> None:
        super().__init__(study)
        self.raters = (*CAREFUL, *CARELESS)
        self._space, self._given, self._seed = space, given, seed

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Draw the mask of a rater, or give the true one; None if the rater was not asked."""
        if rater is None:
            return super().mask(case, None)
        if not self._given[case, self.raters.index(rater)]:
            return None
        rng = generator(self._seed, self._name(case), rater)
        drawn = self._marked(self._parts(case), rater, rng)
        geometry = self.study[case].geometry
        return RawMask(drawn, geometry, f"simulated rater {rater!r}", coded=True)

    def true_confusion(self, case: int, draws: int = 16) -> Floats:
        """Count the confusion `(raters, 2, 2)` of all raters on a case over independent draws."""
        parts = self._parts(case)
        lesions = np.isin(parts, (1, 2)).astype(np.int16)
        counts = np.zeros((len(self.raters), 2, 2))
        for k, rater in enumerate(self.raters):
            rng = generator(self._seed, self._name(case), rater, "confusion")
            drawn = np.stack([self._marked(parts, rater, rng) for _ in range(draws)])
            counts[k] = count(drawn, lesions, 2).sum(axis=0)
        return normalise(counts, "identity")

    def _name(self, case: int) -> str:
        return str(self.study.index.ids[case])

    def _parts(self, case: int) -> Labels:
        return streak_parts(self._space, generator(self._seed, self._name(case)))[1]

    def _marked(self, parts: Labels, rater: str, rng: Rng) -> Labels:
        sees = rng.random() < SEES_STREAK
        careless = (1, 3) if sees else (1,)
        marked = np.isin(parts, (1, 2) if rater in CAREFUL else careless)
        return (marked ^ (rng.random(self._space) < SLIP)).astype(np.int16)
