"""Drawn studies that have raters of their own: streaks that most take for lesions; discs and cups.

The discs stand in for fundus photographs with seven raters, whose true borders nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from raters.core.arrays import Labels
from raters.core.errors import RatersError
from raters.simulation.layers import Layers
from raters.simulation.phantoms import Image, Rng, Space, phantom_study, streak_parts
from raters.simulation.shape import Mask, Shape, generator, smooth_noise
from raters.simulation.specs import How
from raters.simulation.study import drawn_study
from raters.study.annotations import Annotation
from raters.study.study import Study

CAREFUL = ("careful1", "careful2")
CARELESS = ("careless1", "careless2", "careless3")
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
        assign: Who labels which case, see `raters.simulation.specs`.

    Example:
        >>> from raters.simulation import true_confusion
        >>> study = streak_study(3)
        >>> study
        Study(segmentation, 3 cases, 5 raters, 2 classes)
        >>> lesion = true_confusion(study, 0)[:, 1, 1]       # how much of the lesions each finds
        >>> bool(lesion[:2].min() > 0.98), bool(lesion[2:].max() < 0.9)
        (True, True)
    """
    raters = [StreakRater(name, seed) for name in (*CAREFUL, *CARELESS)]
    return drawn_study(phantom_study("streaks", cases, shape, seed), raters, assign, seed)


@dataclass(frozen=True)
class StreakRater:
    """A rater of streaks, and the seed of the phantoms."""

    name: str
    seed: int
    annotation: Annotation = "mask"

    def draw(self, layers: Layers, rng: Rng) -> Labels:
        """Mark what a careful or a careless rater takes for lesions."""
        parts = _parts(layers.truth.shape, self.seed, layers.case)
        careless = (1, 3) if rng.random() < SEES_STREAK else (1,)
        marked = np.isin(parts, (1, 2) if self.name in CAREFUL else careless)
        return (marked ^ (rng.random(parts.shape) < SLIP)).astype(np.int16)

    def __str__(self) -> str:
        careful = self.name in CAREFUL
        return "marks both lesions" if careful else "overlooks faint lesions, marks streaks"


@lru_cache(maxsize=4)
def _parts(space: Space, seed: int, name: str) -> Labels:
    """Return what is where in a case, which its true mask does not tell: faint lesions, streaks."""
    return streak_parts(space, generator(seed, name))[1]


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
    annotation: Annotation = "mask"

    def draw(self, layers: Layers, rng: Rng) -> Labels:
        """Draw both borders of a case."""
        return draw_borders(layers.truth, self, rng)

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
    *,
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
        assign: Who labels which case, see `raters.simulation.specs`.
        equal: Seven raters alike.

    Example:
        >>> from raters.simulation import true_confusion
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
    return drawn_study(phantom_study("discs", cases, shape, seed), hands(equal), assign, seed)


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
