"""Sections of single methods: what negative drawings exclude (coarse), recurrences (prism).

`raters.report.run.SECTIONS` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from raters import plots
from raters.arrays import Floats
from raters.confusion import count_case, normalise
from raters.errors import RatersError
from raters.plots import style
from raters.report.blocks import Block, Section, figure, section, table
from raters.report.findings import apart
from raters.report.run_pass import weighted
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model


@dataclass(frozen=True)
class Excluded:
    """What is known of negative drawings of several classes.

    Attributes:
        raters: The names of those who draw them.
        classes: Names of the classes.
        transition: M, `(raters, L, L)`: what is excluded by whom would have said a class.
        said: A, what they would have said of each true class; None without cases.
        counted: How often 'not q' was said of a true class t, `(raters, L, L)`, by the reference;
            None without any.
    """

    raters: Sequence[str]
    classes: Sequence[str]
    transition: Floats
    said: Floats | None = None
    counted: Floats | None = None

    @property
    def excluded(self) -> Floats | None:
        """How often 'not q' is expected of a true class, `A M`."""
        return None if self.said is None else self.said @ self.transition

    @property
    def true_excluded(self) -> Floats | None:
        """The same as it was counted."""
        return None if self.counted is None else normalise(self.counted)

    @property
    def true_transition(self) -> Floats | None:
        """The target of M: what right exclusions of each true class are."""
        if self.counted is None:
            return None
        return normalise(self.counted * (1 - np.eye(len(self.classes))))


def look_at_negatives(model: Model, study: Study | None = None) -> Excluded | None:
    """Return what negative drawings say by a model, and by the references of cases; None of none.

    Args:
        model: The model.
        study: The cases to look at.
    """
    transition = model.transition()
    config = model.config
    if transition is None:
        return None
    known = [r for r, m in zip(config.raters, transition, strict=True) if np.isfinite(m).all()]
    known = [r for r in known if study is None or r in study.raters]
    if not known:
        return None
    columns = [config.raters.index(name) for name in known]
    classes = [c.name for c in config.classes]
    of_all = Excluded(known, classes, transition[columns].astype(np.float64))
    if study is None:
        return of_all
    said, counted = _over_cases(model, study, columns, [study.raters.index(r) for r in known])
    return Excluded(known, classes, of_all.transition, said, counted)


def _over_cases(
    model: Model, study: Study, columns: list[int], places: list[int]
) -> tuple[Floats | None, Floats | None]:
    """Return the mean A by the predicted class, and the counts by the reference."""
    from raters.methods.base import Asked
    from raters.prediction.predict import predict_streams

    size = len(study.classes)
    said, pixels = np.zeros((len(columns), size, size)), np.zeros(size)
    counted = np.zeros((len(columns), size, size))
    for case, bands in predict_streams(model, study.iter_cases(), Asked(confusion=True)):
        if isinstance(bands, RatersError):
            continue  # it is reported where cases are scored
        for band in bands:
            assert band.confusion is not None
            found, seen = weighted(band.confusion[columns], band.truth)
            said, pixels = said + found, pixels + seen
        if case.reference is not None:
            counted += count_case(case, np.asarray(case.reference), size)[places]
    there = np.where(pixels > 1e-6, pixels, np.nan)
    mean = said / there[:, np.newaxis] if pixels.any() else None
    return mean, counted if counted.any() else None


def negatives_of(model: Model, study: Study | None = None) -> Section | None:
    """Show what negative drawings of several classes exclude; None if there are none."""
    found = look_at_negatives(model, study)
    return None if found is None else negative_section(found)


def negative_section(found: Excluded) -> Section:
    """Show what is excluded, estimated beside counted where there is a reference."""
    beside: Row = {"columns": "excluded class", "truth": found.true_excluded}
    first = beside | {"rows": "would be called", "truth": found.true_transition}
    shown: dict[str, tuple[Floats, Row]] = {"transition": (found.transition, first)}
    if found.excluded is not None and found.said is not None:
        shown["excluded"] = (found.excluded, beside)
        shown["negative_confusion"] = (found.said, {"columns": "would be called"})
    known = found.counted is not None
    blocks: list[Block] = [
        figure(f"run.{name}", plots.confusion(m, found.classes, found.raters, **more), true=known)
        for name, (m, more) in shown.items()
    ]
    if rows := error_rows(found):
        blocks.append(table("run.negatives", rows))
    return section("run.transition", blocks)


def error_rows(found: Excluded) -> list[Row]:
    """Return how often each rater excludes the true class, and how far estimates are from counts.

    Example:
        >>> half = (1 - np.eye(3)[np.newaxis]) / 2
        >>> counted = np.array([[[1.0, 5, 4], [5, 0, 5], [5, 5, 0]]])
        >>> error_rows(Excluded(["ann"], "abc", half, np.eye(3)[np.newaxis], counted))[0]
        {'rater': 'ann', 'wrongly_excluded': 0.0333..., 'transition_error': 0.0261..., ...}
    """
    if found.counted is None or found.true_transition is None:
        return []
    rows = []
    for k, rater in enumerate(found.raters):
        counts = found.counted[k]
        wrongly = float(np.trace(counts) / counts.sum()) if counts.any() else None
        row: Row = {"rater": rater, "wrongly_excluded": wrongly}
        row["transition_error"] = apart(found.transition[k], found.true_transition[k])
        if found.excluded is not None and found.true_excluded is not None:
            row["excluded_error"] = apart(found.excluded[k], found.true_excluded[k])
        rows.append(row)
    return rows


MOST_CASES = 8
"""Cases that the trust is averaged over."""


def recurrence_section(model: Model, part: Study | None) -> Section | None:
    """Show what recurrences did; None for methods without them, or where nothing is drawn."""
    if "recurrences" not in model.method.answers or part is None or not len(part):
        return None
    sums: Floats | None = None
    first: tuple[str, Floats] | None = None
    cases = list(part.cases)[:MOST_CASES]
    for name in cases:
        turns, trust = model.recurrences(part[name])
        first = first or (name, np.asarray(1 - turns[:, 0], np.float64))
        drawn = np.zeros((len(model.config.raters), *turns.shape[2:]), bool)
        for place, rater in enumerate(part.raters):
            if rater in model.config.raters:
                drawn[model.config.raters.index(rater)] = part[name].labels[place] > 0
        drawn |= turns[-1].argmax(0) > 0
        pixels = np.broadcast_to(drawn.sum((1, 2)), trust.shape[:2])
        found = np.stack([(trust * drawn).sum((2, 3)), pixels])
        sums = found if sums is None else sums + found
    assert sums is not None and first is not None  # there are cases
    rows = trust_rows(model.config.raters, sums, model.config.labelled)
    shown = figure("run.recurrences", side_by_side(first[1]), case=first[0])
    return section("run.recurrences", [shown, table("run.trust", rows, cases=len(cases))])


def trust_rows(raters: Sequence[str], sums: Floats, shown: Sequence[str]) -> list[Row]:
    """Return one row per rater: the mean trust after each recurrence.

    Args:
        raters: All raters of the model.
        sums: Summed trust and numbers of pixels, `(2, recurrences, raters)`.
        shown: Those raters who labelled.

    Example:
        >>> sums = np.array([[[6.0], [9.0]], [[10.0], [10.0]]])
        >>> trust_rows(["ann"], sums, ["ann"])
        [{'rater': 'ann', 'recurrence 1': 0.6, 'recurrence 2': 0.9}]
    """
    means = sums[0] / np.where(sums[1] > 0, sums[1], np.nan)
    rows: list[Row] = []
    for k, rater in enumerate(raters):
        if rater in shown:
            each = {f"recurrence {i}": float(value) for i, value in enumerate(means[:, k], start=1)}
            rows.append({"rater": rater, **each})
    return rows


def side_by_side(foreground: Floats) -> Figure:
    """Draw how likely foreground is by each recurrence, `(recurrences, rows, columns)`."""
    number = len(foreground)
    drawn = style.new_figure(2.2 * number, 2.5, pictures=True)
    for k, values in enumerate(foreground, start=1):
        axes = drawn.add_subplot(1, number, k)
        axes.imshow(values, cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"recurrence {k}", **style.font(9))
        axes.set_axis_off()
    return drawn
