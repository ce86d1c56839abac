"""Simulated raters who draw masks: how much each errs, and the study that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raters.arrays import Labels
from raters.errors import RatersError
from raters.simulate.assign import How
from raters.simulate.backend import MaskRater, SimulatedMasks
from raters.simulate.calibrate import DiceOf, calibrate, find_severity
from raters.simulate.masks import DRAWERS, drawer_of
from raters.simulate.noise import generator
from raters.simulate.specs import Spec
from raters.simulate.study import described, given_cases
from raters.study.backend import LabelRules
from raters.study.study import Study

_MOST_CASES = 500  # to calibrate on
_MOST_PIXELS = 2e7


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
) -> Study:
    """Make the study; only what calibration needs is read."""
    for spec in specs:
        drawer_of(spec.kind)  # rejects unknown kinds before anything is read
    number = None if target is None else _class_number(source, target)
    given = given_cases(source, len(specs), assign, seed)
    raters = _Severities(source, seed, number).of(specs, amounts)
    said = {r.name: f"{r.drawer.name} at severity {r.severity:.4g}" for r in raters}
    about = described(source, said, assign, seed)
    if target is not None:
        about["simulated raters"] += f"; target {target}"
    return replace(
        source,
        backend=SimulatedMasks(source, raters, given, seed, number),
        raters=tuple(said),
        rules=LabelRules(),
        about=about,
        problems=(),
        rows=None,
        _classes=source.classes,
        _chosen=None,
    )


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
        self._source, self._seed, self._target = source, seed, target
        self._truths: list[Labels] = []

    def of(self, specs: Sequence[Spec], amounts: Amounts) -> list[MaskRater]:
        raters = [self._rater(spec, amounts) for spec in specs]
        if amounts.group_dice is None:
            return raters
        free = [_is_free(spec) and spec.kind != "blank" for spec in specs]
        factor = self._factor(raters, free, amounts.group_dice)
        return [
            replace(rater, severity=factor * rater.severity) if scaled else rater
            for rater, scaled in zip(raters, free, strict=True)
        ]

    def _rater(self, spec: Spec, amounts: Amounts) -> MaskRater:
        drawer = DRAWERS[spec.kind]
        if spec.amount is not None:
            return MaskRater(spec.name, drawer, spec.amount)
        wanted = spec.mean_dice
        if wanted is None and amounts.severity is not None:
            return MaskRater(spec.name, drawer, amounts.severity)
        if wanted is None:
            wanted = drawer.usual if amounts.mean_dice is None else amounts.mean_dice
        if spec.kind == "blank":  # no search: its mean Dice is 1 - severity
            return MaskRater(spec.name, drawer, 1 - wanted)
        rng = generator(self._seed, "calibrate", spec.name)
        severity = calibrate(
            drawer, self._sample(), wanted, rng, self._target, len(self._source.classes)
        )
        return MaskRater(spec.name, drawer, severity)

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
        for k in generator(self._seed, "calibration cases").permutation(order):
            truth = self._source[int(k)].reference
            if truth is not None and self._has_foreground(truth):
                self._truths.append(truth)
                pixels += truth.size
            if len(self._truths) >= _MOST_CASES or (pixels > _MOST_PIXELS):
                break
        if not self._truths:
            raise RatersError(
                f"found no true mask with foreground in {len(self._source):,} cases, expected a "
                "study with references or a pattern of true masks such as 'truth/{case}.png'",
                kind="empty",
            )
        return self._truths

    def _has_foreground(self, truth: Labels) -> bool:
        return bool((truth > 0).any() if self._target is None else (truth == self._target).any())


def _is_free(spec: Spec) -> bool:
    return spec.amount is None and spec.mean_dice is None
