"""What models of single methods say of raters.

What is excluded by those who draw what is not there (estimated by the model, counted by
references), and whom recurrences trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from raters.core.arrays import Floats
from raters.core.errors import RatersError
from raters.io.rows import Row
from raters.learning.evaluation.watch import apart, mean_matrices, weighted
from raters.learning.training.model import Model
from raters.metrics.confusion import count_case, normalise
from raters.study.case import Case
from raters.study.study import Study


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
    said = counted = None
    if study is not None:
        said, counted = _over_cases(model, study, columns, [study.raters.index(r) for r in known])
    return Excluded(known, classes, transition[columns].astype(np.float64), said, counted)


def _over_cases(
    model: Model, study: Study, columns: list[int], places: list[int]
) -> tuple[Floats | None, Floats | None]:
    """Return the mean A by the predicted class, and the counts by the reference."""
    from raters.learning.methods.base import Asked
    from raters.learning.prediction.predict import predict_streams

    size = len(study.classes)
    said = np.zeros((len(columns), size, size))
    pixels = np.zeros(size)
    counted = np.zeros((len(columns), size, size))
    for case, bands in predict_streams(model, study.iter_cases(), Asked(confusion=True)):
        if isinstance(bands, RatersError):
            continue  # it is reported where cases are scored
        for band in bands:
            assert band.confusion is not None
            found, seen = weighted(band.confusion[columns], band.truth)
            said = said + found
            pixels = pixels + seen
        if case.reference is not None:
            counted += count_case(case, np.asarray(case.reference), size)[places]
    mean = mean_matrices(said, pixels) if pixels.any() else None
    return mean, counted if counted.any() else None


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


def trust_of(
    model: Model, cases: Iterable[Case], raters: Sequence[str]
) -> tuple[Floats, list[Row]]:
    """Return what recurrences did: the first case's background by each, and trust in raters.

    There is one row per rater whose labels were learnt from: the mean trust after each recurrence,
    where the rater or the last recurrence drew something. `raters` are those of the cases.
    """
    own = model.config.raters
    sums = np.zeros(())
    first = np.zeros(())
    for case in cases:
        turns, trust = model.recurrences(case)
        first = first if first.ndim else np.asarray(turns[:, 0], np.float64)
        drawn = np.zeros((len(own), *turns.shape[2:]), bool)
        for rater, labels in zip(raters, case.labels, strict=True):
            if rater in own:
                drawn[own.index(rater)] = labels > 0
        drawn |= turns[-1].argmax(0) > 0
        pixels = np.broadcast_to(drawn.sum((1, 2)), trust.shape[:2])
        sums = sums + np.stack([(trust * drawn).sum((2, 3)), pixels])
    means = dict(zip(own, (sums[0] / np.where(sums[1] > 0, sums[1], np.nan)).T, strict=True))
    return first, [
        {"rater": rater, **{f"recurrence {k}": float(v) for k, v in enumerate(means[rater], 1)}}
        for rater in own
        if rater in model.config.labelled
    ]
