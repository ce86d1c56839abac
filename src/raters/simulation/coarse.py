"""Coarse annotations of a true mask: drawings of what is and is not, scribbles, boxes; raters.

L. Zhang et al.: Emerging semantic segmentation from positive and negative coarse label learning,
sections 4.2, 4.5 and 4.6. The paper gives the kinds of error and the shares of the area, not the
amounts; those are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats, Labels
from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError
from raters.simulation.layers import Layers
from raters.simulation.masks import DRAWERS
from raters.simulation.shape import Mask, Shape, smooth_noise
from raters.simulation.specs import COARSE, Spec
from raters.study.annotations import Annotation

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The shares of the area that are drawn at levels 1 (nearly a scribble) to 5 (nearly all)."""


def rough(shape: Shape, pixels: float, rng: np.random.Generator) -> Mask:
    """Draw too much by about `pixels` and leave small fractures; 0 draws the mask."""
    return DRAWERS["wrong"](shape, pixels, rng)


def near_a_centre(drawn: Mask, share: float, within: Mask, rng: np.random.Generator) -> Mask:
    """Keep a share of a drawing: the pixels nearest to a random centre (section 4.5).

    The number of pixels is the share of the drawing's, rounded, and at least one; of pixels
    equally near the first in array order are kept.

    Args:
        drawn: The drawing `(*space)`.
        share: The part of its area to keep, above 0 and at most 1.
        within: Where the centre may lie: the true mask.
        rng: Randomness of the centre.

    Example:
        >>> line = np.ones((1, 10), bool)
        >>> kept = near_a_centre(line, 0.3, line, np.random.default_rng(0))
        >>> kept.sum(), np.ptp(np.flatnonzero(kept))
        (np.int64(3), np.int64(2))
    """
    refuse_share(share)
    places = np.argwhere(within if within.any() else drawn)
    if not len(places):
        return drawn.copy()
    centre = places[rng.integers(len(places))]
    away = ((np.argwhere(drawn) - centre) ** 2).sum(axis=1)
    return _first(drawn, -away, share)


def deepest(drawn: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Keep a share of a drawing: what lies deepest, so the middle of thick vessels comes first.

    The depth is the distance to the outline, with a smooth noise of half a pixel for the hand.

    Example:
        >>> bar = np.zeros((7, 40), bool)
        >>> bar[1:6] = True
        >>> kept = deepest(bar, 0.2, np.random.default_rng(0))
        >>> int(kept.sum()), bool(kept[3].mean() > 0.7)
        (40, True)
    """
    refuse_share(share)
    if not drawn.any():
        return drawn.copy()
    shape = Shape(drawn)
    hand = smooth_noise(shape.space, max(2.0, float(np.mean(shape.space)) / 14), rng)
    return _first(drawn, (shape.distance + hand / 2)[drawn], share)


def _first(drawn: Mask, rank: NDArray[np.generic], share: float) -> Mask:
    """Keep the share of a drawing's pixels that rank highest; `rank` is of each pixel of it."""
    number = max(1, round(share * len(rank))) if len(rank) else 0
    order = np.argsort(-np.asarray(rank, np.float64), kind="stable")[:number]
    kept = np.zeros(drawn.size, bool)
    kept[np.flatnonzero(drawn)[order]] = True
    return kept.reshape(drawn.shape)


def scribble(shape: Shape, rng: np.random.Generator) -> Mask:
    """Draw one line through each connected object, a pixel wide, never outside.

    It leads from one random pixel to another along the shortest way, where a step costs the
    less the deeper inside it is.

    Example:
        >>> mask = np.zeros((9, 20), bool)
        >>> mask[2:7, 2:18] = True
        >>> line = scribble(Shape(mask), np.random.default_rng(0))
        >>> bool(line.any()), bool((line & ~mask).any())
        (True, False)
    """
    from scipy.ndimage import find_objects
    from skimage.graph import route_through_array

    lines = np.zeros_like(shape.mask)
    numbers, sizes = shape.objects
    for k, box in enumerate(find_objects(numbers), 1):
        inside = numbers[box] == k
        start, end = np.argwhere(inside)[rng.integers(sizes[k - 1], size=2)]
        cost = np.where(inside, 1 / np.maximum(shape.distance[box], 0.5), -1)  # -1: no way there
        way, _ = route_through_array(cost, start, end)  # type: ignore[no-untyped-call]
        lines[box][tuple(np.transpose(way))] = True
    return lines


def boxes(shape: Shape) -> Mask:
    """Fill the bounding box of each connected object; boxes that overlap or touch become one.

    For a mask cannot tell two such boxes from one region that is none.

    Example:
        >>> boxes(Shape(np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]))).astype(int)
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [0, 0, 0, 1]])
    """
    from scipy.ndimage import find_objects, label

    filled = np.zeros_like(shape.mask)
    before = -1
    parts = shape.objects[0]
    while filled.sum() > before:
        before = int(filled.sum())
        for box in find_objects(parts):
            filled[box] = True
        parts, _ = label(filled)
    return filled


def draw_area(
    layers: Layers,
    target: int,
    severity: float,
    rng: np.random.Generator,
    share: float = 1.0,
    level: int | None = None,
    negative: bool = False,
) -> Labels:
    """Mark where a class is said to be, or not to be: `target` where drawn, 0 unmarked.

    A negative drawing is the positive one of all other classes together, with the same errors.

    Args:
        layers: The true classes.
        target: The class to draw.
        severity: By how much too much is drawn, and how wide fractures are, in mean half
            thicknesses of the class; 0 draws the mask.
        rng: Randomness.
        share: The part of the drawing that is kept, about a random centre inside what is drawn.
        level: 1 to 5 keeps a part of `LEVELS` instead, from the middle outwards.
        negative: Draw where the class is not.

    Example:
        >>> truth = np.zeros((16, 16), int)
        >>> truth[4:12, 4:12] = 1
        >>> marks = draw_area(Layers(truth), 1, 0, np.random.default_rng(0), share=0.5)
        >>> int(marks.sum()), bool(marks[truth == 0].any())
        (32, False)
        >>> rest = Layers(np.array([[0, 1, 2, 2]]))
        >>> draw_area(rest, 2, 0, np.random.default_rng(0), negative=True)
        array([[2, 2, 0, 0]], dtype=int16)
    """
    shape = layers.rest(target) if negative else layers.shape(target)
    # The reduction has randomness of its own: all shares of one seed keep parts of one drawing.
    hand, part = rng.spawn(2)
    # Of the class also in a negative drawing: thin strokes would not survive what a wide
    # background does.
    drawn = rough(shape, severity * layers.shape(target).half_thickness, hand)
    if layers.has_gaps:
        drawn = drawn & (layers.truth != MISSING)
    if level is not None:
        drawn = deepest(drawn, LEVELS[level - 1], part)
    elif share < 1:
        drawn = near_a_centre(drawn, share, shape.mask, part)
    return np.where(drawn, target, 0).astype(np.int16)


def draw_scribbles(layers: Layers, classes: list[int], rng: np.random.Generator) -> Labels:
    """Mark the background and each of the classes by lines inside: class numbers, else MISSING.

    Example:
        >>> truth = np.array([[0, 0, 0, 1, 1, 1]])
        >>> marks = draw_scribbles(Layers(truth), [1], np.random.default_rng(0))
        >>> bool((marks == truth)[marks >= 0].all()), sorted(set(marks[marks >= 0].tolist()))
        (True, [0, 1])
    """
    marks = np.full_like(layers.truth, MISSING)
    for k in (0, *classes):
        marks[scribble(layers.shape(k), rng)] = k
    return marks


def draw_boxes(layers: Layers, classes: list[int]) -> Labels:
    """Mark the bounding box of each object with its class, the higher class where two overlap.

    Example:
        >>> draw_boxes(Layers(np.array([[0, 1, 0], [2, 1, 1]])), [1, 2])
        array([[0, 1, 1],
               [2, 1, 1]], dtype=int16)
    """
    marks = np.zeros_like(layers.truth)
    for k in sorted(classes):
        marks[boxes(layers.shape(k))] = k
    return marks


def refuse_share(share: float) -> None:
    """Refuse a share of the area that leaves nothing or more than there is."""
    if not 0 < share <= 1:
        raise RatersError(
            f"found the share {share:g} of the area, expected a number above 0 and at most 1, "
            "as in 'positive@0.5'"
        )


def transition_of(counts: NDArray[np.generic]) -> Floats:
    """Turn counts of denied classes into `M[t, o] = p('it is not o' | true t, rightly said)`.

    Its diagonal is zero: a denial of the true class is an error, which the confusion has.

    Args:
        counts: How often class `o` was denied where `t` is true, `(L, L)`.

    Returns:
        `(L, L)`, rows sum to one; of a class with no such label all others are alike.

    Example:
        >>> transition_of(np.array([[0, 1, 1], [0, 0, 0], [0, 3, 1]]))
        array([[0. , 0.5, 0.5],
               [0.5, 0. , 0.5],
               [0. , 1. , 0. ]])
    """
    size = len(counts)
    right = np.where(np.eye(size, dtype=bool), 0, counts).astype(np.float64)
    total = right.sum(axis=1, keepdims=True)
    others = (1 - np.eye(size)) / (size - 1)
    return np.where(total > 0, right / np.where(total > 0, total, 1), others)


SEVERITY = 0.5
"""By how many half thicknesses positive and negative drawings are too large, where nobody says."""


@dataclass(frozen=True)
class CoarseRater:
    """A rater who hands in drawings of one kind.

    Attributes:
        name: The rater's name in the study.
        annotation: What the drawings mean.
        targets: The classes that are drawn; one for negative drawings.
        severity: How far positive and negative drawings are too large, in half thicknesses.
        share: The part of the area that they keep.
        level: Their level from 1 to 5, in place of a share.
    """

    name: str
    annotation: Annotation
    targets: tuple[int, ...]
    severity: float = 0.0
    share: float = 1.0
    level: int | None = None

    def draw(self, layers: Layers, rng: np.random.Generator) -> Labels:
        """Draw as files hold it: class numbers where marked, 0 (of scribbles MISSING) elsewhere."""
        if self.annotation == "scribble":
            return draw_scribbles(layers, list(self.targets), rng)
        if self.annotation == "box":
            return draw_boxes(layers, list(self.targets))
        how = (self.severity, rng, self.share, self.level, self.annotation == "negative")
        # Of pixels that two drawings reach the higher class is kept, as of boxes.
        drawn = [draw_area(layers, target, *how) for target in self.targets]
        return np.asarray(np.max(drawn, axis=0))

    def __str__(self) -> str:
        if self.annotation in ("scribble", "box"):
            return {"scribble": "scribbles", "box": "boxes"}[self.annotation]
        part = f"{self.share if self.level is None else LEVELS[self.level - 1]:g} of the area"
        return f"{self.annotation} at severity {self.severity:.4g}, {part}"


def coarse_raters(
    spec: Spec, classes: Classes, target: int | None = None, severity: float | None = None
) -> list[CoarseRater]:
    """Return the raters that a specification stands for.

    Of several foreground classes a positive drawing, scribbles and boxes mark all; each class has a
    negative drawing of its own, by a rater who is named after it, as one map cannot exclude two
    classes at a pixel. A level is a positive and a negative drawing.

    Args:
        spec: One of `COARSE`.
        classes: The classes of the study.
        target: The only class to draw; by default each.
        severity: The severity of drawings that name none; 0.5 by default, 0 of levels.

    Raises:
        RatersError: for an amount or a share that the kind does not have.

    Example:
        >>> from raters.simulation.specs import parse_raters
        >>> (spec,) = parse_raters("ann=level3")
        >>> [str(rater.name) for rater in coarse_raters(spec, Classes.of(["ground", "vessel"]))]
        ['ann', 'ann [negative]']
        >>> (spec,) = parse_raters("negative@0.5")
        >>> several = coarse_raters(spec, Classes.of(["ground", "road", "tree"]))
        >>> [(rater.name, rater.targets, rater.share) for rater in several]
        [('negative-road', (1,), 0.5), ('negative-tree', (2,), 0.5)]
    """
    foreground = tuple(range(1, len(classes))) if target is None else (target,)
    kinds = COARSE[spec.kind]
    if kinds[0] in ("scribble", "box"):
        if spec.amount is not None or spec.share is not None:
            raise RatersError(f"found a number for {spec.name!r}, expected {spec.kind!r} alone")
        return [CoarseRater(spec.name, kinds[0], foreground)]
    level = int(spec.kind[-1]) if spec.kind.startswith("level") else None
    if level is not None and spec.share is not None:
        raise RatersError(
            f"found the share {spec.share:g} for {spec.name!r}, expected {spec.kind!r} alone: "
            f"it is a share of {LEVELS[level - 1]:g}"
        )
    share = 1.0 if spec.share is None else spec.share
    refuse_share(share)
    usual = SEVERITY if level is None else 0.0
    amount = next((x for x in (spec.amount, severity) if x is not None), usual)
    if not 0 <= amount < math.inf:
        raise RatersError(f"found the severity {amount} for {spec.name!r}, expected 0 or more")
    raters = []
    for kind in kinds:
        for targets in [foreground] if kind == "positive" else [(k,) for k in foreground]:
            several = kind == "negative" and len(classes) > 2
            name = f"{spec.name}-{classes.names[targets[0]]}" if several else spec.name
            whose = name if kind == kinds[0] else f"{name} [{kind}]"
            raters.append(CoarseRater(whose, kind, targets, amount, share, level))
    return raters
