"""What each rater said of each case, compared with the others and with gold cases, for sheets.

`raters.agree` has the means; here every reading is kept, so that intervals, examples and drift of
one rater can be taken from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raters.assessment.agreement_answers import counted_readings, vote_of_rest, votes_of
from raters.assessment.agreement_case import case_agreement
from raters.assessment.agreement_findings import relative_volumes
from raters.assessment.agreement_masks import with_mean
from raters.core.arrays import Array, Floats, Ints, Labels, mean_known
from raters.core.classes import MISSING
from raters.core.errors import RatersError, enough_memory
from raters.core.progress import ordered_map, track
from raters.metrics.overlap import drawn_dice, pair_counts
from raters.study.case import Case
from raters.study.study import Study


@dataclass(frozen=True)
class OneRater:
    """The readings of one rater; scores are by class, those of all classes in the last column.

    Attributes:
        cases: Where the case of each reading is in the study, `(n,)`.
        scores: Agreement with what most of the others say, `(n, K)`; NaN where there is no vote.
        others: What the others reach on the same case, their mean, `(n,)`; NaN without two of
            them: the score of a single other one says nothing new.
        sizes: `(v - o) / (v + o)` of what was drawn and the median of the case, `(n, K)`; of
            tables `(n, 0)`.
        confusion: How often the others say the class of the row and this rater that of the column,
            `(L, L)`.
        gold: Scores against the reference, `(n, K)`; NaN where there is none.
        gold_confusion: How often the reference is the class of the row, and this rater's label
            that of the column.
        said: What the rater answered, `(n,)`; of masks `(0,)`.
        vote: What most of the others answered, MISSING for a tie, `(n,)`; of masks `(0,)`.
    """

    cases: Ints
    scores: Floats
    others: Floats
    sizes: Floats
    confusion: Ints
    gold: Floats
    gold_confusion: Ints
    said: Labels
    vote: Labels


@dataclass(frozen=True)
class MaskReadings:
    """Readings of masks, one per case and rater; arrays are `(cases, raters, K)`.

    Attributes:
        names: The classes that scores are of, without background; one is the same as all.
        scores: Dice with what most of the others say, of classes that either drew, and their mean.
        sizes: As `OneRater.sizes`, of cases that were labelled wholly; all is all foreground.
        gold: Dice with the reference.
        confusion: `(raters, L, L)`.
        gold_confusion: `(raters, L, L)`.
    """

    names: tuple[str, ...]
    scores: Floats
    sizes: Floats
    gold: Floats
    confusion: Ints
    gold_confusion: Ints

    def of(self, rater: int) -> OneRater:
        """Return the readings of a rater, by number."""
        own = np.isfinite(np.concatenate([self.scores, self.gold], axis=2)[:, rater]).any(axis=1)
        rest = np.delete(self.scores[..., -1], rater, axis=1)
        several = np.isfinite(rest).sum(axis=1, keepdims=True) > 1
        nothing = np.zeros(0, np.int16)
        return OneRater(
            np.flatnonzero(own),
            self.scores[own, rater],
            mean_known(np.where(several, rest, np.nan), axis=1)[own],
            self.sizes[own, rater],
            self.confusion[rater],
            self.gold[own, rater],
            self.gold_confusion[rater],
            nothing,
            nothing,
        )

    def means(self, gold: bool = False, least: int = 1) -> Floats:
        """Return the mean scores of all raters, `(raters, K)`; NaN of fewer than `least` cases."""
        scores = self.gold if gold else self.scores
        enough = np.isfinite(scores).sum(axis=0) >= least
        return np.where(enough, mean_known(scores, axis=0), np.nan)


@dataclass(frozen=True)
class TableReadings:
    """Readings of a table of class labels, one per label: `(n,)`, in the order of the triplets.

    A score is 1 where the label equals that of most of the others, by whose class it counts.
    """

    names: tuple[str, ...]
    raters: int
    task: Ints
    rater: Ints
    label: Labels
    vote: Labels
    reference: Labels
    others: Floats

    def of(self, rater: int) -> OneRater:
        """Return the readings of a rater, by number."""
        own = self.rater == rater
        label = self.label[own]
        vote = self.vote[own]
        truth = self.reference[own]
        size = len(self.names)
        return OneRater(
            self.task[own],
            _by_class(label, vote, size),
            self.others[own],
            np.zeros((len(label), 0)),
            pair_counts(vote, label, size),
            _by_class(label, truth, size),
            pair_counts(truth, label, size),
            label,
            vote,
        )

    def means(self, gold: bool = False, least: int = 1) -> Floats:
        """Return the mean scores of all raters, `(raters, K)`; NaN of fewer than `least` labels."""
        of = self.reference if gold else self.vote
        there = of != MISSING
        size = len(self.names)
        right, number = np.zeros((2, self.raters, size))
        np.add.at(number, (self.rater[there], of[there]), 1)
        same = there & (of == self.label)
        np.add.at(right, (self.rater[same], of[same]), 1)
        right, number = (np.c_[one, one.sum(axis=1)] for one in (right, number))
        return np.where(number >= least, right / np.maximum(number, 1), np.nan)


Readings = MaskReadings | TableReadings


def readings_of(study: Study, gold: bool = False, progress: bool = False) -> Readings:
    """Compare every reading of a study with the others, in one pass.

    Args:
        study: The study, with at least two raters.
        gold: Also compare with references.
        progress: Show a progress bar.

    Raises:
        RatersError: `gold` of a study without any reference.

    Example:
        >>> labels = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1]])
        >>> found = readings_of(Study.from_arrays(labels=labels, classes=["a", "b"]))
        >>> found.means()[:, -1].tolist()
        [0.5, 1.0, 0.5]
        >>> found.of(0).vote.tolist(), found.of(0).scores[:, -1].tolist()
        ([-1, 1, 1], [nan, 1.0, 0.0])
    """
    masks = study.kind == "segmentation"
    found = _of_masks(study, gold, progress) if masks else _of_table(study, gold)
    if gold and not np.isfinite(found.means(gold=True)).any():
        raise RatersError(
            "found no reference of any case that a rater labelled, expected some for gold cases: "
            "a folder 'reference' or a column 'reference' of the study, or --reference"
        )
    return found


def _of_masks(study: Study, gold: bool, progress: bool) -> MaskReadings:
    raters = len(study.raters)
    size = len(study.classes)

    def compare(case: Case) -> tuple[Floats, Floats, Floats, Ints, Ints]:
        labels = case.labels
        with enough_memory(case.id):
            counted = case_agreement(case.id, labels, size, case.geometry.spacing)
            truth = np.zeros((raters, size, size), np.int64)
            if gold and case.reference is not None:
                truth[:] = [pair_counts(case.reference, own, size) for own in labels]
        drawn = np.where(counted.complete[:, np.newaxis], counted.volumes, np.nan)
        drawn = np.c_[drawn[:, 1:], drawn[:, 1:].sum(axis=1)]
        # The counts of agreement have the rater first, confusion the others (or the reference).
        rest = counted.rest.transpose(0, 2, 1)
        scores, gold_scores = (with_mean(drawn_dice(counts)) for counts in (rest, truth))
        return scores, relative_volumes(drawn[np.newaxis])[0], gold_scores, rest, truth

    found = ordered_map(compare, study.iter_cases())
    arrays = np.full((3, len(study), raters, size), np.nan)
    total = np.zeros((2, raters, size, size), np.int64)
    for k, (*scores, rest, truth) in enumerate(track(found, len(study), "comparing", progress)):
        arrays[:, k] = scores
        total += np.stack([rest, truth])
    return MaskReadings(tuple(study.classes.names[1:]), *arrays, *total)


def _of_table(study: Study, gold: bool) -> TableReadings:
    given = study.triplets
    raters = max(len(study.raters), 1)
    size = len(study.classes)
    vote = vote_of_rest(given, votes_of(study), size)
    decided = vote != MISSING
    right = np.where(decided, vote == given.label, False).astype(np.float64)
    sums = np.stack([right, decided.astype(np.float64)], axis=1)
    _, _, counts, place = counted_readings(given, size)
    own = np.zeros((len(counts), 2))
    np.add.at(own, place, sums)
    every = np.zeros((len(study), 2))
    np.add.at(every, given.task, sums)
    agreed, number = (every[given.task] - own[place]).T
    others = np.where(number > 1, agreed / np.maximum(number, 1), np.nan)
    truth = study.reference_labels if gold else None
    reference = np.full(len(vote), MISSING, np.int16) if truth is None else truth[given.task]
    names = tuple(study.classes.names)
    task = given.task.astype(np.int64)
    rater = given.rater.astype(np.int64)
    return TableReadings(names, raters, task, rater, given.label, vote, reference, others)


def _by_class(label: Labels, target: Array, size: int) -> Floats:
    """Return 1 where a label equals its target, else 0, by the target's class; NaN elsewhere."""
    scores = np.full((len(label), size + 1), np.nan)
    there = np.flatnonzero(target != MISSING)
    same = (label == target)[there].astype(np.float64)
    scores[there, target[there]] = same
    scores[there, -1] = same
    return scores
