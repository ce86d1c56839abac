"""Raters who hand in coarse annotations: who they are for a specification, and what they draw."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from raters.arrays import Labels
from raters.errors import RatersError
from raters.simulate.coarse import LEVELS, draw_area, draw_boxes, draw_scribbles, refuse_share
from raters.simulate.layers import Layers
from raters.simulate.specs import Spec, annotations_of
from raters.study.annotations import Annotation
from raters.study.classes import Classes

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
        >>> from raters.simulate.specs import parse_raters
        >>> (spec,) = parse_raters("ann=level3")
        >>> [str(rater.name) for rater in coarse_raters(spec, Classes.of(["ground", "vessel"]))]
        ['ann', 'ann [negative]']
        >>> (spec,) = parse_raters("negative@0.5")
        >>> several = coarse_raters(spec, Classes.of(["ground", "road", "tree"]))
        >>> [(rater.name, rater.targets, rater.share) for rater in several]
        [('negative-road', (1,), 0.5), ('negative-tree', (2,), 0.5)]
    """
    foreground = tuple(range(1, len(classes))) if target is None else (target,)
    kinds = annotations_of(spec)
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
    amount = _severity(spec, severity, usual=SEVERITY if level is None else 0.0)
    raters = []
    for kind in kinds:
        for targets in [foreground] if kind == "positive" else [(k,) for k in foreground]:
            several = kind == "negative" and len(classes) > 2
            name = f"{spec.name}-{classes.names[targets[0]]}" if several else spec.name
            whose = name if kind == kinds[0] else f"{name} [{kind}]"
            raters.append(CoarseRater(whose, kind, targets, amount, share, level))
    return raters


def _severity(spec: Spec, given: float | None, usual: float) -> float:
    amount = next((x for x in (spec.amount, given) if x is not None), usual)
    if not 0 <= amount < math.inf:
        raise RatersError(f"found the severity {amount} for {spec.name!r}, expected 0 or more")
    return amount
