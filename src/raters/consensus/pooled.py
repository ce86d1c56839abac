"""Rater matrices shared by all cases of a study: one rater is one person, whatever the image.

The patterns of labels that occur are counted in one pass over the cases, EM runs on the sum, and a
second pass maps the result back. Where there are more than half a million of them, each step of EM
is a pass over the cases. Memory does not depend on the number of cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from raters.assessment.performance import Errors, group_errors
from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.progress import ordered_map, track
from raters.fusion._staple import fused, label_shares
from raters.fusion.columns import Columns, columns_of, merge
from raters.fusion.em import Counts, EMOptions, EMState, e_step, run_em, start_matrices
from raters.fusion.option_values import Count, NotNegative
from raters.fusion.result import Fusion
from raters.fusion.starts import SEVERAL, START, Starts, alone, fit, kinds_of
from raters.study.case import Case
from raters.study.study import Study


class PooledStaple:
    """STAPLE (or Dawid-Skene) with one matrix per rater for the whole study.

    Args:
        study: The study.
        estimate_prior: Estimate the prior of the classes too.
        smoothing: Counts added to each entry of a matrix.
        max_iter: At most so many steps.
        tol: Stop when no entry of a matrix changes by more.
        starts: Where EM starts, as in `staple`; by default several, and `vote` alone where
            patterns are too many to count.
        progress: Show a progress bar.

    Attributes:
        found: The solution that was kept, and where EM ended from each start.
        columns: The patterns of all cases together; None where they are too many to count.
        groups: How often each pattern occurs in each group, for errors; None likewise.
    """

    def __init__(
        self,
        study: Study,
        *,
        estimate_prior: bool = False,
        smoothing: NotNegative = 0.0,
        max_iter: Count = 200,
        tol: NotNegative = 1e-7,
        starts: Starts | None = None,
        progress: bool = False,
    ) -> None:
        self._study = study
        self._classes = len(study.classes)
        self._progress = progress
        self._options = EMOptions(max_iter, tol, estimate_prior, smoothing)
        self.columns: Columns | None = None
        self.groups: Groups | None = None
        kinds = kinds_of(starts, SEVERAL)
        counts = self._count()
        if counts.full:
            self.found = alone(self._fit_by_passes())
        else:
            self.columns, self.groups = counts.result()
            shares = label_shares(self.columns, self._classes)
            self.found = fit(self.columns, shares, self._options, kinds, study.raters)

    @property
    def state(self) -> EMState:
        """The matrices and the prior."""
        return self.found.kept.state

    @property
    def shared(self) -> Fusion:
        """What all cases share: matrices, prior and how EM went."""
        state = self.state
        nothing = np.empty(0, np.int16)
        return Fusion(
            nothing.astype(np.float64),
            nothing,
            state.confusion,
            state.prior.ravel(),
            state.log_likelihoods,
            state.converged,
            starts=self.found.rows,
            notes=self.found.notes,
        )

    def _labels(self, what: str) -> Iterator[tuple[str, Array]]:
        loaded = ordered_map(_group_and_labels, self._study.iter_cases())
        for found in track(loaded, len(self._study), what, self._progress):
            if found is not None:  # what cannot be read is named when its turn to be fused comes
                yield found

    def _count(self) -> PatternCounts:
        counts = PatternCounts()
        cases = 0
        work = partial(_group_and_columns, num_classes=self._classes)
        counted = ordered_map(work, self._study.iter_cases())
        for found in track(counted, len(self._study), "counting", self._progress):
            if found is not None:
                counts.add(*found)
                cases += 1
            if counts.full:
                break
        if not cases:
            raise RatersError("found no cases, expected at least one", kind="empty")
        return counts

    def _fit_by_passes(self) -> EMState:
        raters = len(self._study.raters)
        shares = np.zeros((self._classes, 1))
        voxels = 0
        for _, labels in self._labels("reading"):
            seen = int((labels >= 0).sum())
            shares += seen * label_shares(columns_of(labels, self._classes, False), self._classes)
            voxels += seen
        prior = shares / voxels if voxels else np.full((self._classes, 1), 1 / self._classes)

        def estimate(state: EMState) -> tuple[Counts, float]:
            counts = np.zeros((raters, self._classes + 1, self._classes))
            total = 0.0
            for _, labels in self._labels("EM step"):
                part, log_likelihood = e_step(columns_of(labels, self._classes, False), state)
                counts = counts + part
                total = total + log_likelihood
            return counts, total

        start = start_matrices(raters, self._classes, START)
        return run_em(estimate, EMState(prior, start), self._options)

    def fuse(self, labels: Array) -> Fusion:
        """Fuse the labels `(raters, *space)` of one case with the shared matrices."""
        columns = columns_of(labels, self._classes)
        return fused(columns, alone(self.state), labels.shape[1:])

    def labels(self) -> Floats | None:
        """Return the number of labels of each rater; None where patterns are too many to count."""
        if self.columns is None:
            return None
        return np.asarray((self.columns.labels != MISSING) @ self.columns.weights)

    def errors(self) -> Errors | None:
        """Return the errors of the raters' measures, by what each group of cases says.

        None with smoothing, where the prior is not estimated, where patterns are too many to keep
        by group, or there is one group only.
        """
        if self.columns is None or self.groups is None or len(self.groups) < 2:
            return None
        if not self._options.update_prior or self._options.smoothing:
            return None
        return group_errors(self.columns, self.state, np.array(list(self.groups.values())))


def _group_and_labels(case: Case) -> tuple[str, Array] | None:
    """Read a case; labels are held in bytes where they fit, as kernels then read less."""
    try:
        labels = case.labels
    except RatersError:
        return None
    small = labels.size > 0 and labels.max() < 127
    return case.group, labels.astype(np.int8) if small else labels


def _group_and_columns(case: Case, num_classes: int) -> tuple[str, Columns] | None:
    """Count the patterns of a case, where it was read: on all cores."""
    group_and_labels = _group_and_labels(case)
    if group_and_labels is None:
        return None
    group, labels = group_and_labels
    return group, occurring(columns_of(labels, num_classes))


Groups = dict[str, Floats]

MOST_KEPT = 1 << 20
"""So many patterns may be kept; a group's own are kept until all groups' are more than this."""

MOST_OF_GROUPS = 1 << 24
"""The largest table of groups by patterns."""


def occurring(columns: Columns) -> Columns:
    """Return the patterns that occur, each once; voxels are forgotten.

    Example:
        >>> found = occurring(Columns(np.array([[0, 1, 0]], np.int8), np.ones(1)))
        >>> found.labels.tolist(), found.weights.tolist()
        ([[0, 1]], [2.0, 1.0])
    """
    if columns.codes is None:  # voxels: a pattern may be there many times
        return merge([columns])[0]
    there = columns.weights > 0
    return Columns(columns.labels[:, there], columns.weights[there])


class PatternCounts:
    """How often each pattern of labels occurs, in all cases and by group.

    Attributes:
        full: Whether there were more patterns than are kept; nothing more is gathered then.

    Example:
        >>> counts = PatternCounts()
        >>> counts.add("a", Columns(np.array([[0, 1], [0, 1]], np.int8), np.array([5.0, 2.0])))
        >>> counts.add("b", Columns(np.array([[1], [1]], np.int8), np.array([4.0])))
        >>> columns, groups = counts.result()
        >>> columns.labels.tolist(), columns.weights.tolist()
        ([[0, 1], [0, 1]], [5.0, 6.0])
        >>> {name: weights.tolist() for name, weights in groups.items()}
        {'a': [5.0, 2.0], 'b': [0.0, 4.0]}
    """

    def __init__(self) -> None:
        self.full = False
        self._parts: list[tuple[str | None, Columns]] = []
        self._waiting = 0

    def add(self, group: str, columns: Columns) -> None:
        """Add the patterns of a case, as `occurring` gives them."""
        if self.full:
            return
        self._parts.append((group, columns))
        self._waiting += columns.size
        if self._waiting > MOST_KEPT:
            self._shrink()

    def _shrink(self) -> None:
        """Forget the groups; keep the sums."""
        whole, _ = merge([columns for _, columns in self._parts])
        self._parts = [(None, whole)]
        self._waiting = 2 * whole.size  # so that it is not done again at every case
        if whole.size > MOST_KEPT // 2:
            self.full = True
            self._parts = []

    def result(self) -> tuple[Columns, Groups | None]:
        """Return all patterns, and how often each occurs in each group (None: too many)."""
        whole, numbers = merge([columns for _, columns in self._parts])
        names = {group for group, _ in self._parts}
        if None in names or len(names) * whole.size > MOST_OF_GROUPS:
            return whole, None
        groups: Groups = {}
        for (group, columns), number in zip(self._parts, numbers, strict=True):
            weights = groups.setdefault(str(group), np.zeros(whole.size))
            weights[number] += columns.weights
        return whole, groups
