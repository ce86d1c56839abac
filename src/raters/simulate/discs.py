"""Drawn discs and cups by seven raters: two careful and five biased ones, or seven alike.

A stand-in for fundus photographs with seven raters, whose true borders nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raters.arrays import Flags, Floats, Labels
from raters.confusion.counts import count, normalise
from raters.errors import RatersError
from raters.simulate.backend import Source
from raters.simulate.noise import generator, smooth_noise
from raters.simulate.phantoms import Image, Rng, phantom_study
from raters.simulate.shape import Mask, Shape
from raters.simulate.specs import How
from raters.simulate.study import described, given_cases
from raters.study.backend import RawMask
from raters.study.study import Study

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
    who = hands(equal)
    names = tuple(hand.name for hand in who)
    given = given_cases(truth, names, assign, seed)
    return replace(
        truth,
        backend=DiscRaters(truth, who, given, seed),
        raters=names,
        about=described(truth, {hand.name: str(hand) for hand in who}, assign, seed),
        rows=None,
        _classes=truth.classes,
    )


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


class DiscRaters(Source):
    """Draws the borders of each rater, the same whenever it is asked for."""

    def __init__(self, study: Study, who: Sequence[Hand], given: Flags, seed: int) -> None:
        super().__init__(study)
        self.hands = {hand.name: hand for hand in who}
        self._given, self._seed = given, seed

    @property
    def raters(self) -> tuple[str, ...]:
        """The names of the raters."""
        return tuple(self.hands)

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Draw the mask of a rater, or give the true one; None if the rater was not asked."""
        truth = super().mask(case, None)
        if rater is None or truth is None:
            return truth
        if not self._given[case, self.raters.index(rater)]:
            return None
        rng = generator(self._seed, self._name(case), rater)
        drawn = draw_borders(truth.values, self.hands[rater], rng)
        return RawMask(drawn, truth.geometry, f"simulated rater {rater!r}", coded=True)

    def true_confusion(self, case: int, draws: int = 16) -> Floats:
        """Count the confusion `(raters, 3, 3)` of all raters on a case over independent draws."""
        truth = super().mask(case, None)
        assert truth is not None  # all phantoms have one
        counts = np.zeros((len(self.hands), 3, 3))
        for k, hand in enumerate(self.hands.values()):
            rng = generator(self._seed, self._name(case), hand.name, "confusion")
            drawn = np.stack([draw_borders(truth.values, hand, rng) for _ in range(draws)])
            counts[k] = count(drawn, truth.values, 3).sum(axis=0)
        return normalise(counts, "identity")

    def _name(self, case: int) -> str:
        return str(self.study.index.ids[case])
