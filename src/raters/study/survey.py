"""What labels a study has: which cases are labelled, who used which class; read once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from raters.core.arrays import Flags, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError, placed
from raters.core.geometry import difference
from raters.study.annotations import absent_is_empty, refuse_one_class
from raters.study.backend import Image
from raters.study.case import Case
from raters.study.scan import MaskFacts
from raters.study.study import Study


def labelled(study: Study) -> Flags:
    """Return for each case whether one of the raters labelled it; no mask file is read.

    Example:
        >>> answers = np.array([[0, MISSING], [MISSING, MISSING], [1, 1]])
        >>> labelled(Study.from_arrays(np.ones((3, 1)), answers))
        array([ True, False,  True])
    """
    found = np.zeros(len(study), bool)
    if study.kind == "classification":
        triplets = study.triplets
        found[triplets.task[triplets.label != MISSING]] = True
        return found
    if study.rules.absent == "empty" and any(map(absent_is_empty, study.annotations.values())):
        return ~found
    return np.array(
        [any(labels_there(study, k, r) for r in study.raters) for k in range(len(study))], bool
    )


def has_reference(study: Study) -> Flags:
    """Return for each case whether it has a reference; no mask file is read.

    Example:
        >>> study = Study.from_arrays(np.ones((2, 1)), reference=np.array([1, MISSING]))
        >>> has_reference(study)
        array([ True, False])
    """
    if study.kind == "classification":
        known = study.reference_labels
        return np.zeros(len(study), bool) if known is None else known != MISSING
    if not study.backend.holds()["reference"]:
        return np.zeros(len(study), bool)
    return np.array([labels_there(study, k, None) for k in range(len(study))], bool)


def labels_there(study: Study, position: int, rater: str | None) -> bool:
    """Ask the store; where it does not know without reading, a case counts as labelled."""
    knows = getattr(study.backend, "labelled", None)
    return True if knows is None else bool(knows(study.row(position), rater))


MOST_READ = 500
"""Cases whose labels are read to see which classes are in use, and how rare they are."""

MOST_COUNTED = 50
"""Cases whose labels are counted to see how many a pixel has."""


class CaseCounts(NamedTuple):
    """How often each class was given.

    Attributes:
        labels: `(raters, L)`; for tables all raters together, `(1, L)`.
        pixels: How many pixels somebody labelled.
    """

    labels: Ints
    pixels: int


class Survey:
    """What is known of the labels in a study, read when it is asked for, and once.

    Example:
        >>> labels = np.array([[[[0, 1]], [[1, 1]]], [[[0, 0]], [[-1, 0]]]])
        >>> found = survey(Study.from_arrays(labels=labels))
        >>> found.labels_per_pixel(), found.class_counts().tolist()
        (1.75, [4, 3])
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._cases: dict[int, CaseCounts] = {}

    def case(self, position: int) -> CaseCounts:
        """Return how often each class was given in a case."""
        if position not in self._cases:
            count = _answers if self.study.kind == "classification" else _masks
            self._cases[position] = count(self.study, self.study[position])
        return self._cases[position]

    @cached_property
    def first_image(self) -> Image:
        """The image of the first case: the others must have as many channels and axes."""
        return self.study[0].needed_image()

    def labels_per_pixel(self) -> float:
        """Return the mean number of labels of a pixel that anybody labelled."""
        cases = [self.case(k) for k in _spread_over(len(self.study), MOST_COUNTED)]
        return sum(int(c.labels.sum()) for c in cases) / max(sum(c.pixels for c in cases), 1)

    def class_counts(self) -> Ints:
        """Return how often each class was given, `(L,)`."""
        total = np.zeros(len(self.study.classes), np.int64)
        told = self._affirmative
        for k in _spread_over(len(self.study), MOST_READ):
            total += self.case(k).labels[told].sum(axis=0)
        return total

    @cached_property
    def _affirmative(self) -> Flags | slice:
        """Which rows of counts say what a pixel is; of negative drawings, what it is not."""
        out = self.study.negatives
        return np.array([name not in out for name in self.study.raters]) if out else slice(None)

    def used_by_raters(self) -> Flags:
        """Return which rater speaks of which class, `(raters, L)`; 'not q' of all but q."""
        study = self.study
        told = self._affirmative
        used = np.zeros((len(study.raters), len(study.classes)), bool)
        if study.kind == "classification":
            used[study.triplets.rater, study.triplets.label] = True
            return used
        for position in _jumping(len(study)):
            said = self.case(position).labels > 0
            open_ = said.sum(axis=1, keepdims=True) > said
            open_[told] = said[told]
            used |= open_
            if used.any(axis=0).all() and self.any_two_share(used):
                break  # nothing more can be found
        return used

    def any_two_share(self, used: Flags) -> bool:
        """Return whether some class has two raters; fewer than two raters have nothing to share.

        The background of masks, that everybody uses, does not count, nor do raters who use nothing
        else.

        Args:
            used: What `used_by_raters` returned.
        """
        drawn = used[:, 1:] if self.study.kind == "segmentation" else used
        drawn = drawn[drawn.any(axis=1)]
        return len(drawn) < 2 or bool((drawn.sum(axis=0) > 1).any())

    @property
    def looked_at(self) -> str:
        """Where only some cases were looked at, how many, in words; tables are looked at whole."""
        some = self.study.kind == "segmentation" and len(self.study) > MOST_READ
        return f" in the {MOST_READ} cases looked at" if some else ""

    def used_by_reference(self) -> Flags:
        """Return which classes are in the references, `(1, L)`."""
        study = self.study
        used = np.zeros((1, len(self.study.classes)), bool)
        if study.reference_labels is not None:
            known = study.reference_labels
            used[0, known[known != MISSING]] = True
            return used
        for position in _jumping(len(study)):
            facts = study[position].mask_facts(None)
            if facts is not None:
                used[0] |= _by_class(study, study[position], None, facts) > 0
            if used.all():
                break
        return used

    def without_labels(self) -> tuple[str, ...]:
        """Name the raters who labelled nothing; masks are read until each has one that counts.

        Example:
            >>> answers = np.array([[0, MISSING, 1], [MISSING, MISSING, 1]])
            >>> names = ["ann", "bob", "cy"]
            >>> Survey(Study.from_arrays(np.ones((2, 1)), answers, raters=names)).without_labels()
            ('bob',)
        """
        study = self.study
        silent = np.ones(len(study.raters), bool)
        if study.kind == "classification":
            silent[study.triplets.rater[study.triplets.label != MISSING]] = False
        elif study.rules.absent == "empty" and not study.drawn:
            silent[:] = False
        else:
            for position in range(len(study)):
                names = enumerate(study.raters)
                if any(silent[k] and labels_there(study, position, name) for k, name in names):
                    silent &= ~self.case(position).labels.any(axis=1)
                if not silent.any():
                    break
        return tuple(name for name, none in zip(study.raters, silent, strict=True) if none)

    def refuse_unlabelled(self) -> None:
        """Refuse a study in which nobody labelled anything."""
        if not any(self.case(k).pixels for k in range(len(self.study))):
            raise RatersError("found no labels in the cases to train on, expected at least one")

    def refuse_one_class(self) -> None:
        """Refuse drawings that say one class only: nothing stops 'the object is everywhere'."""
        study = self.study
        said = np.zeros(len(self.study.classes), bool)
        for position in range(len(study)):
            said |= self.case(position).labels.any(axis=0)
            if said.sum() > 1:
                return
        names = study.classes.names
        refuse_one_class(said.tolist(), names, study.annotations, study.unmarked)

    def any_reference(self) -> bool:
        """Return whether a case has a reference."""
        study = self.study
        if study.reference_labels is not None:
            return bool((study.reference_labels != MISSING).any())
        for case in study.iter_cases():
            facts = case.mask_facts(None)
            if facts is not None and facts.labels:
                return True
        return False


def survey(study: Study) -> Survey:
    """Return the survey of a study; there is one for as long as the study lives."""
    found: Survey = vars(study).setdefault("_survey", Survey(study))
    return found


def _answers(study: Study, case: Case) -> CaseCounts:
    given = case.answers.label
    return CaseCounts(np.bincount(given, minlength=len(study.classes))[None], int(len(given) > 0))


def _masks(study: Study, case: Case) -> CaseCounts:
    if study.drawn:
        return _counted(case.labels, len(study.classes))
    masks = {rater: case.mask_facts(rater) for rater in study.raters}
    there = {rater: facts for rater, facts in masks.items() if facts is not None}
    grid = case.geometry
    empty = study.rules.absent == "empty"
    if any(difference(facts.geometry, grid) is not None for facts in there.values()):
        return _counted(case.labels, len(study.classes))  # resampled, or refused
    size = prod(grid.shape)
    labels = np.zeros((len(study.raters), len(study.classes)), np.int64)
    for k, (rater, facts) in enumerate(masks.items()):
        if facts is not None:
            labels[k] = _by_class(study, case, rater, facts)
        elif empty:
            labels[k, 0] = size
    if not there:
        return CaseCounts(labels, size if empty and masks else 0)
    open_ = [facts.missing for facts in there.values() if facts.missing is not None]
    if len(open_) < len(there) or (empty and len(there) < len(masks)):
        return CaseCounts(labels, size)  # somebody labelled everything
    bits = [np.frombuffer(zlib.decompress(one), np.uint8) for one in open_]
    nowhere = int(np.unpackbits(np.bitwise_and.reduce(bits)).sum())
    return CaseCounts(labels, size - nowhere)


def _by_class(study: Study, case: Case, rater: str | None, facts: MaskFacts) -> Ints:
    values = np.array(list(facts.counts))
    times = np.array(list(facts.counts.values()))
    with placed(file=facts.source, case=case.id, rater=rater):
        numbers = study.encode(values, facts.coded)
    return np.bincount(numbers + 1, times, len(study.classes) + 1)[1:].astype(np.int64)


def _counted(labels: Labels, num_classes: int) -> CaseCounts:
    there = labels != MISSING
    counts = [
        np.bincount(row[known], minlength=num_classes)
        for row, known in zip(labels, there, strict=True)
    ]
    return CaseCounts(np.array(counts), int(there.any(axis=0).sum()))


def _spread_over(cases: int, most: int) -> list[int]:
    """Return at most so many positions, evenly spread."""
    return [int(k) for k in np.linspace(0, cases - 1, min(cases, most)).astype(int)]


def _jumping(cases: int) -> Iterator[int]:
    """Return at most `MOST_READ` positions, spread over all and in an order that jumps."""
    chosen = np.unique(_spread_over(cases, MOST_READ))
    yield from np.random.default_rng(0).permutation(chosen).tolist()
