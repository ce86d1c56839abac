"""Drawn studies that have raters of their own: streaks that most take for lesions; discs and cups.

The discs stand in for fundus photographs with seven raters, whose true borders nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from raters.arrays import Flags, Floats, Labels
from raters.confusion.counts import count, normalise
from raters.errors import RatersError
from raters.simulate.backend import Source
from raters.simulate.phantoms import Image, Rng, Space, phantom_study, streak_parts
from raters.simulate.shape import Mask, Shape, generator, smooth_noise
from raters.simulate.specs import How
from raters.simulate.study import described, given_cases
from raters.study.backend import RawMask
from raters.study.study import Study

Draw = Callable[..., Labels]
"""Draws labels from what a rater sees of a case, and randomness (`rng`)."""


class DrawnRaters(Source):
    """Draws what each rater marks, the same whenever it is asked for.

    Args:
        study: Where images and true masks come from.
        raters: How each rater draws, by name.
        given: Who draws which case, `(cases, raters)`.
        seed: Randomness; each draw depends on it, the name of the case and the name of the rater.
        seen: What raters see of the case of a name; by default its true mask.
    """

    def __init__(
        self,
        study: Study,
        raters: Mapping[str, Draw],
        given: Flags,
        seed: int,
        seen: Callable[[str], Labels] | None = None,
    ) -> None:
        super().__init__(study)
        self.raters = raters
        self._given, self._seed, self._seen = given, seed, seen

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Draw the mask of a rater, or give the true one; None if the rater was not asked."""
        truth = super().mask(case, None)
        if rater is None or truth is None:
            return truth
        if not self._given[case, list(self.raters).index(rater)]:
            return None
        name = str(self.study.index.ids[case])
        rng = generator(self._seed, name, rater)
        drawn = self.raters[rater](self._looked_at(name, truth), rng=rng)
        return RawMask(drawn, truth.geometry, f"simulated rater {rater!r}", coded=True)

    def true_confusion(self, case: int, draws: int = 16) -> Floats:
        """Count the confusion `(raters, L, L)` of all raters on a case over independent draws."""
        truth, size = super().mask(case, None), len(self.study.classes)
        assert truth is not None  # all phantoms have one
        name = str(self.study.index.ids[case])
        seen, counts = self._looked_at(name, truth), np.zeros((len(self.raters), size, size))
        for k, (rater, draw) in enumerate(self.raters.items()):
            rng = generator(self._seed, name, rater, "confusion")
            drawn = np.stack([draw(seen, rng=rng) for _ in range(draws)])
            counts[k] = count(drawn, truth.values, size).sum(axis=0)
        return normalise(counts, "identity")

    def _looked_at(self, name: str, truth: RawMask) -> Labels:
        return truth.values if self._seen is None else self._seen(name)


def _with_raters(
    truth: Study,
    raters: Mapping[str, Draw],
    said: Mapping[str, str],
    assign: How,
    seed: int,
    seen: Callable[[str], Labels] | None = None,
) -> Study:
    """Make the study of phantoms with labels by raters; `said` is how each draws, in words."""
    given = given_cases(truth, tuple(raters), assign, seed)
    return replace(
        truth,
        backend=DrawnRaters(truth, raters, given, seed, seen),
        raters=tuple(raters),
        about=described(truth, said, assign, seed),
        rows=None,
        _classes=truth.classes,
    )


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
    said = dict.fromkeys(CAREFUL, "marks both lesions")
    said |= dict.fromkeys(CARELESS, "overlooks faint lesions, marks streaks")
    raters = {name: partial(_mark_streaks, careful=name in CAREFUL) for name in said}
    return _with_raters(truth, raters, said, assign, seed, partial(_parts, tuple(shape), seed))


def _parts(space: Space, seed: int, name: str) -> Labels:
    """Return what is where in a case, which its true mask does not tell: faint lesions, streaks."""
    return streak_parts(space, generator(seed, name))[1]


def _mark_streaks(parts: Labels, careful: bool, rng: Rng) -> Labels:
    careless = (1, 3) if rng.random() < SEES_STREAK else (1,)
    marked = np.isin(parts, (1, 2) if careful else careless)
    return (marked ^ (rng.random(parts.shape) < SLIP)).astype(np.int16)


BIASES = (3.0, 4.0, -4.0, 5.0, 6.0)
"""How far the five biased raters draw outwards, in pixels; most of them do, so a vote does too."""

NOISE = 1.5
"""The standard deviation of a border along its way, in pixels."""

WITHIN = 1.0
"""How far a careful rater's border is off at most, in pixels."""

SMALLEST = 48
"""The least side of an image: a cup drawn 6 pixels too small is still there."""


@dataclass(frozen=True)
class Hand:
    """How a rater draws borders.

    Attributes:
        name: The rater's name.
        bias: By how many pixels borders lie outside of the true ones; negative: inside.
        noise: The standard deviation around it along a border, in pixels.
        most: How far a border may be off the true one.
    """

    name: str
    bias: float
    noise: float
    most: float = np.inf

    def offset(self, space: tuple[int, ...], rng: Rng) -> Image:
        """Draw how far outwards the border goes at each place."""
        width = max(2.0, min(space) / 12)
        moved = self.bias + self.noise * smooth_noise(space, width, rng)
        return moved.clip(-self.most, self.most)

    def __str__(self) -> str:
        if np.isfinite(self.most):
            return f"within {self.most:g} pixel"
        where = "outwards" if self.bias > 0 else "inwards"
        biased = f"{abs(self.bias):g} pixels {where}, " if self.bias else ""
        return f"{biased}noise {self.noise:g}"


def hands(equal: bool = False) -> tuple[Hand, ...]:
    """Return the seven raters.

    Example:
        >>> [(hand.name, str(hand)) for hand in hands()[1:4]]
        [('careful2', 'within 1 pixel'), ('biased1', '3 pixels outwards, noise 1.5'), \
('biased2', '4 pixels outwards, noise 1.5')]
        >>> [hand.name for hand in hands(equal=True)][:2]
        ['equal1', 'equal2']
    """
    if equal:
        return tuple(Hand(f"equal{k}", 0.0, NOISE) for k in range(1, 8))
    careful = [Hand(f"careful{k}", 0.0, WITHIN / 2, WITHIN) for k in (1, 2)]
    biased = [Hand(f"biased{k}", bias, NOISE) for k, bias in enumerate(BIASES, 1)]
    return (*careful, *biased)


def disc_study(
    cases: int,
    shape: Sequence[int] = (64, 64),
    seed: int = 0,
    assign: How = "all",
    equal: bool = False,
) -> Study:
    """Return drawn optic discs in noise, as rim and cup (disc = rim + cup), by seven raters.

    Two raters draw both borders within one pixel. Five have a bias of their own, 3 to 6 pixels
    outwards or inwards, and a noise of 1.5: four of them draw too much, so that the vote's border
    lies about two pixels outside. The image shows the true borders. In the variant with equal
    raters all seven are unbiased with the same noise, and nobody deserves more weight.

    Args:
        cases: How many images to draw.
        shape: Their shape, 2D or 3D, at least 48 along each axis.
        seed: Randomness; each case depends on it and on its own name only.
        assign: Who labels which case, see `raters.simulate.specs`.
        equal: Seven raters alike.

    Example:
        >>> from raters.simulate import true_confusion
        >>> study = disc_study(3)
        >>> study, study.classes.names
        (Study(segmentation, 3 cases, 7 raters, 3 classes), ('background', 'rim', 'cup'))
        >>> background = true_confusion(study, 0)[:, 0, 0]   # how much of it each leaves free
        >>> bool(background[:2].min() > 0.95), bool(background[6] < 0.8)
        (True, True)
    """
    if min(shape) < SMALLEST:
        raise RatersError(
            f"found the shape {'x'.join(map(str, shape))}, expected at least {SMALLEST} along each "
            "axis: raters are off by up to 6 pixels"
        )
    truth = phantom_study("discs", cases, shape, seed)
    who = {hand.name: hand for hand in hands(equal)}
    raters = {name: partial(draw_borders, hand=hand) for name, hand in who.items()}
    return _with_raters(truth, raters, {n: str(hand) for n, hand in who.items()}, assign, seed)


def draw_borders(truth: Labels, hand: Hand, rng: Rng) -> Labels:
    """Draw disc and cup with the borders of a rater; the cup never leaves the disc.

    Example:
        >>> truth = np.zeros((1, 20), int)
        >>> truth[0, 4:16], truth[0, 8:12] = 1, 2
        >>> draw_borders(truth, Hand("ann", 2, 0), np.random.default_rng(0))[0]
        array([0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0],
              dtype=int16)
    """
    disc, cup = (_moved(truth >= k, hand, rng) for k in (1, 2))
    return (disc.astype(np.int16) + (cup & disc)).astype(np.int16)


def _moved(mask: Mask, hand: Hand, rng: Rng) -> Mask:
    shape = Shape(mask)
    offset = hand.offset(shape.space, rng)
    return mask.copy() if shape.is_empty else np.asarray(shape.distance + offset > 0)


STUDIES: dict[str, tuple[str, Callable[..., Study]]] = {
    "streaks": ("streaks", streak_study),
    "discs": ("discs", disc_study),
    "discs-equal": ("discs", partial(disc_study, equal=True)),
}
"""The phantom of each study, and the function of number, shape, seed and `assign` that makes it."""
