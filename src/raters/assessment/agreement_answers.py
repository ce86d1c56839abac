"""Agreement of raters in a table of class labels, repeated readings included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raters.assessment.agree import ALL, Agreement, rank_cases
from raters.assessment.agreement_case import entropy
from raters.core.arrays import Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.wording import many
from raters.io.rows import Row, known
from raters.metrics import coefficients
from raters.study.study import Study
from raters.study.triplets import Triplets


def answer_agreement(study: Study) -> Agreement:
    """Compare all raters of a table; `raters.agree` says what the tables hold."""
    triplets = study.triplets
    classes = len(study.classes)
    votes = votes_of(study)
    couples = PairTable.of(triplets, classes)
    result = Agreement("classification")
    result.overall = _overall(study, votes, couples)
    result.pairs = _pair_rows(study, couples)
    result.raters = _rater_rows(study, votes, couples)
    result.cases = rank_cases(_case_rows(study, votes), "entropy")
    result.notes = _notes(study, votes)
    return result


def votes_of(study: Study) -> Ints:
    """Count the labels of each task, `(tasks, classes)`."""
    votes = np.zeros((len(study), len(study.classes)), np.int64)
    np.add.at(votes, (study.triplets.task, study.triplets.label), 1)
    return votes


def counted_readings(triplets: Triplets, num_classes: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Count what each rater said of each task; repeated readings are together.

    Returns:
        The task and the rater of each reading, its labels by class `(readings, L)`, and the reading
        that each answer belongs to.
    """
    raters = max(len(triplets.raters), 1)
    code = triplets.task.astype(np.int64) * raters + triplets.rater
    own, place = np.unique(code, return_inverse=True)
    counts = np.zeros((len(own), num_classes), np.int64)
    np.add.at(counts, (place, triplets.label), 1)
    return own // raters, own % raters, counts, place


def pairs_of_tasks(study: Study) -> Ints:
    """Count of each task the pairs of readings by two raters: equal ones, and all, `(tasks, 2)`.

    The sum over tasks of the first over that of the second is the agreement of all raters.

    Example:
        >>> study = Study.from_arrays(labels=np.array([[0, 0, 1], [1, 1, 1]]), classes=["a", "b"])
        >>> pairs_of_tasks(study).tolist()
        [[1, 3], [3, 3]]
    """
    task, _, counts, _ = counted_readings(study.triplets, len(study.classes))

    def pairs(number: Ints) -> Ints:
        return number * (number - 1) // 2

    votes = votes_of(study)
    repeats = np.zeros((len(study), 2), np.int64)
    within = np.stack([pairs(counts).sum(axis=1), pairs(counts.sum(axis=1))], axis=1)
    np.add.at(repeats, task, within)
    every = np.stack([pairs(votes).sum(axis=1), pairs(votes.sum(axis=1))], axis=1)
    return np.asarray(every - repeats)


def class_confusion(study: Study) -> Ints:
    """Count what two raters of one task said, `(L, L)`; symmetric, as neither is right.

    Example:
        >>> study = Study.from_arrays(labels=np.array([[0, 0, 1], [1, 1, 1]]), classes=["a", "b"])
        >>> class_confusion(study).tolist()
        [[2, 2], [2, 6]]
    """
    couples = PairTable.of(study.triplets, len(study.classes))
    counts = couples.counts[couples.first != couples.second].sum(axis=0)
    return np.asarray(counts + counts.T)


def who_said(study: Study) -> list[dict[int, list[str]]]:
    """List of each task who gave which label, the most frequent label first.

    Example:
        >>> labels = np.array([[0, 1, 1]])
        >>> who_said(Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"]))
        [{1: ['bob', 'cy'], 0: ['ann']}]
    """
    found: list[dict[int, list[str]]] = [{} for _ in range(len(study))]
    given = study.triplets
    for task, rater, label in zip(
        given.task.tolist(), given.rater.tolist(), given.label.tolist(), strict=True
    ):
        found[task].setdefault(label, []).append(study.raters[rater])
    return [dict(sorted(one.items(), key=lambda item: (-len(item[1]), item[0]))) for one in found]


@dataclass(frozen=True)
class PairTable:
    """Joint counts of labels for each pair of raters who share a task, `first <= second`.

    Each two readings of one task count once; `first == second` are the readings that a rater
    repeated.

    Attributes:
        first: Number of the first rater of each pair.
        second: Number of the second rater of each pair.
        counts: Joint counts `(pairs, L, L)`.
        tasks: How many tasks the pair shares.
    """

    first: Ints
    second: Ints
    counts: Ints
    tasks: Ints

    @classmethod
    def of(cls, triplets: Triplets, num_classes: int) -> PairTable:
        """Count the pairs of all readings of each task; tasks of equal size go together."""
        raters = max(len(triplets.raters), 1)
        sizes = np.bincount(triplets.task, minlength=len(triplets.tasks))
        starts = np.cumsum(sizes) - sizes
        cells = []
        shared = []
        for size in np.unique(sizes[sizes >= 2]):
            rows = starts[sizes == size][:, np.newaxis] + np.arange(size)
            order = np.argsort(triplets.rater[rows], axis=1, kind="stable")
            rows = np.take_along_axis(rows, order, axis=1)
            rater = triplets.rater[rows].astype(np.int64)
            label = triplets.label[rows]
            first, second = np.triu_indices(size, k=1)
            pair = rater[:, first] * raters + rater[:, second]
            cell = (pair * num_classes + label[:, first]) * num_classes + label[:, second]
            cells.append(np.unique(cell, return_counts=True))
            task = np.arange(len(rows))[:, np.newaxis]
            once = np.unique(task * raters**2 + pair) % raters**2
            shared.append(np.unique(once, return_counts=True))
        codes, numbers = _summed(cells)
        pairs, tasks = _summed(shared)
        counts = np.zeros((len(pairs), num_classes * num_classes), np.int64)
        place = np.searchsorted(pairs, codes // num_classes**2)
        counts[place, codes % num_classes**2] = numbers
        return cls(
            pairs // raters, pairs % raters, counts.reshape(-1, num_classes, num_classes), tasks
        )


def _summed(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Add up counts of codes that were counted apart."""
    nothing = np.zeros(0, np.int64)
    columns = zip((nothing, nothing), *parts, strict=True)
    codes, numbers = (np.concatenate(column) for column in columns)
    found, place = np.unique(codes, return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, place, numbers)
    return found, total


def _agreeing(counts: Ints) -> float | None:
    total = counts.sum()
    return float(np.trace(counts) / total) if total else None


def _overall(study: Study, votes: Ints, couples: PairTable) -> list[Row]:
    between = couples.counts[couples.first != couples.second].sum(axis=0)
    task, _, counts, _ = counted_readings(study.triplets, len(study.classes))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = []
    for k, name in enumerate((*study.classes.names, ALL)):
        number = int(votes.sum() if name == ALL else votes[:, k].sum())
        chosen = shares if name == ALL else coefficients.one_against_rest(shares, k)
        own = _Readings(task, chosen, len(study))
        fleiss: float | None = None
        alpha: float | None = None
        if number:
            fleiss = own.fleiss()
            alpha = own.alpha()
        row: Row = {"class": name, "labels": number}
        rows.append({**row, "fleiss_kappa": fleiss, "krippendorff_alpha": alpha})
    rows[-1]["agreement"] = _agreeing(between)
    return rows


@dataclass(frozen=True)
class _Readings:
    """Each rater's readings of each task as shares of classes, so that repeats count as one."""

    task: Ints
    shares: Floats
    tasks: int

    def _sums(self, values: Floats) -> Floats:
        sums = np.zeros((self.tasks, values.shape[1]))
        np.add.at(sums, self.task, values)
        return sums

    def fleiss(self) -> float | None:
        """Return Fleiss' kappa between raters."""
        return known(
            coefficients.fleiss_kappa(self._sums(self.shares), own=self._sums(self.shares**2))
        )

    def alpha(self) -> float | None:
        """Return Krippendorff's alpha between raters: pairs of two raters make coincidences."""
        votes = self._sums(self.shares)
        size = np.bincount(self.task, minlength=self.tasks)
        weight = np.where(size >= 2, 1 / np.maximum(size - 1, 1), 0.0)[:, np.newaxis]
        between = (votes * weight).T @ votes
        within = (self.shares * weight[self.task]).T @ self.shares
        return known(coefficients.alpha_of_coincidences(between - within))


def _pair_rows(study: Study, couples: PairTable) -> list[Row]:
    rows: list[Row] = []
    for k in np.flatnonzero(couples.first != couples.second):
        names = {
            "rater_a": study.raters[couples.first[k]],
            "rater_b": study.raters[couples.second[k]],
        }
        counts = couples.counts[k]
        tasks = int(couples.tasks[k])
        kappa = known(coefficients.cohen_kappa(counts))
        rows.append({**names, "cases": tasks, "agreement": _agreeing(counts), "kappa": kappa})
    return rows


def _rater_rows(study: Study, votes: Ints, couples: PairTable) -> list[Row]:
    triplets = study.triplets
    classes = len(study.classes)
    vote = vote_of_rest(triplets, votes, classes)  # no label is MISSING
    compared, agreed = (
        np.bincount(triplets.rater[chosen], minlength=len(study.raters))
        for chosen in (vote != MISSING, vote == triplets.label)
    )
    labels = np.bincount(triplets.rater, minlength=len(study.raters))
    tasks = np.bincount(counted_readings(triplets, classes)[1], minlength=len(study.raters))
    repeated = {
        int(a): _agreeing(counts)
        for a, b, counts in zip(couples.first, couples.second, couples.counts, strict=True)
        if a == b
    }
    return [
        {
            "rater": name,
            "cases": int(tasks[k]),
            "labels": int(labels[k]),
            "compared": int(compared[k]),
            "agreement_rest": float(agreed[k] / compared[k]) if compared[k] else None,
            "agreement_self": repeated.get(k),
        }
        for k, name in enumerate(study.raters)
    ]


def vote_of_rest(triplets: Triplets, votes: Ints, num_classes: int) -> Labels:
    """Return what most of the other readings of each reading's task say, MISSING for a tie.

    Args:
        triplets: The readings.
        votes: The labels of each task, as `votes_of` counts them.
        num_classes: The number of classes.
    """
    _, _, own, place = counted_readings(triplets, num_classes)
    others = votes[triplets.task] - own[place]
    best = others.max(axis=1, initial=0)
    decided = ((others == best[:, np.newaxis]).sum(axis=1) == 1) & (best > 0)
    return np.where(decided, others.argmax(axis=1), MISSING).astype(np.int16)


def _case_rows(study: Study, votes: Ints) -> list[Row]:
    total = votes.sum(axis=1)
    bits = entropy(votes.T)
    names = study.classes.names
    index = study.index
    majority = votes.argmax(axis=1)
    return [
        {
            "case": index.ids[k],
            "group": index.groups[k],
            "labels": int(total[k]),
            "entropy": float(bits[k]) if total[k] >= 2 else None,
            "majority": names[majority[k]] if total[k] else None,
            "share": float(votes[k].max() / total[k]) if total[k] else None,
        }
        for k in range(len(study))
    ]


def _notes(study: Study, votes: Ints) -> list[str]:
    notes = [
        f"no rater used the class {name!r}"
        for name, number in zip(study.classes.names, votes.sum(axis=0), strict=True)
        if number == 0
    ]
    alone = int((votes.sum(axis=1) < 2).sum())
    if alone:
        notes.append(f"not counted, as they have fewer than two labels: {many(alone, 'task')}")
    return notes
