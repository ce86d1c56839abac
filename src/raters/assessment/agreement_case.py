"""What one case of masks says about the agreement of its raters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Flags, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError, enough_memory
from raters.core.progress import ordered_map, track
from raters.io import formats
from raters.io.claim import Owner, check_folder
from raters.io.paths import case_path
from raters.io.results import only_one
from raters.metrics.confusion.counts import Patterns, count_patterns
from raters.metrics.overlap import drawn_dice
from raters.study.case import Case
from raters.study.places import Inputs
from raters.study.study import Study

_BLOCK = 1 << 18  # voxels


@dataclass(frozen=True)
class CaseAgreement:
    """Counts of one case; small, whatever the size of the masks.

    Attributes:
        case: The name of the case.
        labelled: Which raters labelled something, `(raters,)`.
        pairs: Joint counts of each pair of raters, `(pairs, L, L)`, in the order of
            `itertools.combinations`.
        votes: How many raters said each class, `(patterns, L)`.
        weights: How many voxels have these votes, `(patterns,)`.
        rest: Joint counts of each rater (first axis) with the vote of the others, `(R, L, L)`.
        volumes: Voxels of each class by rater, `(R, L)`.
        complete: Which raters labelled every voxel, `(R,)`; only their volumes mean something.
        voxel: The volume of a voxel in mm³ (1 where the spacing is unknown).
    """

    case: str
    labelled: Flags
    pairs: Ints
    votes: Ints
    weights: Ints
    rest: Ints
    volumes: Ints
    complete: Flags
    voxel: float

    @property
    def dice(self) -> Floats:
        """Dice of each pair and foreground class, `(pairs, L - 1)`; NaN where neither drew it."""
        return drawn_dice(self.pairs)

    @property
    def drawn(self) -> Flags:
        """Whether one of a pair drew a foreground class where both labelled, `(pairs, L - 1)`.

        Where neither did, both masks are empty and their overlap says nothing on agreement.
        """
        either = self.pairs.sum(axis=1) + self.pairs.sum(axis=2)
        return np.asarray(either[:, 1:] > 0)

    @property
    def differing(self) -> float:
        """The share of voxels with two labels or more that raters differ on; NaN without any."""
        several = self.votes.sum(axis=1) >= 2
        agree = self.votes.max(axis=1) == self.votes.sum(axis=1)
        total = self.weights[several].sum()
        return float(self.weights[several & ~agree].sum() / total) if total else float("nan")

    @property
    def entropy(self) -> float:
        """The mean entropy of the labels (in bits) over voxels with two labels or more."""
        several = self.votes.sum(axis=1) >= 2
        total = self.weights[several].sum()
        if not total:
            return float("nan")
        return float(self.weights[several] @ entropy(self.votes[several].T) / total)


def case_agreement(
    case: str, labels: Labels, num_classes: int, spacing: tuple[float, ...]
) -> CaseAgreement:
    """Count all that agreement needs of one case, in one pass over its voxels.

    Args:
        case: The name of the case.
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        spacing: The size of a voxel by axis.

    Example:
        >>> labels = np.array([[0, 1, 1, 1], [0, 0, 1, 1]], np.int16)
        >>> agreement = case_agreement("a", labels, num_classes=2, spacing=(1.0,))
        >>> agreement.pairs.tolist(), agreement.dice.tolist(), agreement.differing
        ([[[1, 0], [1, 2]]], [[0.8]], 0.25)
    """
    patterns = count_patterns(labels, num_classes)
    columns = patterns.labels.T
    given = patterns.labels != MISSING
    pairs = [joint_counts(a, b, patterns.counts, num_classes) for a, b in combinations(columns, 2)]
    votes = patterns.votes(num_classes)
    volumes = [patterns.counts @ (patterns.labels == c) for c in range(num_classes)]
    return CaseAgreement(
        case,
        given.any(axis=0),
        np.array(pairs, np.int64).reshape(-1, num_classes, num_classes),
        votes,
        patterns.counts,
        _against_rest(patterns, votes, num_classes),
        np.stack(volumes, axis=1),
        given.all(axis=0),
        float(np.prod(spacing)),
    )


def joint_counts(first: Array, second: Array, weights: Array, num_classes: int) -> Ints:
    """Count pairs of labels, each with a weight; MISSING counts for nothing."""
    both = (first != MISSING) & (second != MISSING)
    cell = first[both].astype(np.int64) * num_classes + second[both]
    flat = np.bincount(cell, weights=weights[both], minlength=num_classes * num_classes)
    return np.rint(flat).astype(np.int64).reshape(num_classes, num_classes)


def _against_rest(patterns: Patterns, votes: Ints, num_classes: int) -> Ints:
    """Compare each rater with what most of the others say; where they tie, nothing counts."""
    counts = []
    for rater in range(patterns.labels.shape[1]):
        own = patterns.labels[:, rater]
        others = votes - (own[:, np.newaxis] == np.arange(num_classes))
        best = others.max(axis=1)
        decided = (others == best[:, np.newaxis]).sum(axis=1) == 1
        vote = np.where(decided & (best > 0), others.argmax(axis=1), MISSING)
        counts.append(joint_counts(own, vote, patterns.counts, num_classes))
    return np.array(counts, np.int64).reshape(-1, num_classes, num_classes)


def entropy(votes: Array) -> Floats:
    """Return the entropy in bits of votes `(classes, ...)`; 0 where nobody voted.

    Example:
        >>> entropy(np.array([[2, 1, 0], [0, 1, 0]]))
        array([0., 1., 0.])
    """
    total = votes.sum(axis=0)
    share = votes / np.maximum(total, 1)
    return np.asarray(-(share * np.log2(np.where(share > 0, share, 1))).sum(axis=0) + 0.0)


def entropy_map(labels: Array, num_classes: int) -> NDArray[np.float32]:
    """Return the entropy (in bits) of the raters' labels at each voxel; 0 where nobody labelled.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.

    Example:
        >>> entropy_map(np.array([[0, 1], [0, 0]]), num_classes=2)
        array([0., 1.], dtype=float32)
    """
    flat = labels.reshape(len(labels), prod(labels.shape[1:]))  # there may be no rater
    bits = np.empty(flat.shape[1], np.float32)
    for start in range(0, bits.size, _BLOCK):  # whole, votes and shares of a slide take gigabytes
        part = flat[:, start : start + _BLOCK]
        bits[start : start + _BLOCK] = entropy(
            np.stack([(part == c).sum(axis=0) for c in range(num_classes)])
        )
    return bits.reshape(labels.shape[1:])


MARK = ".maps"
_OWNER = Owner("agree --maps", "one of earlier maps", journals=(MARK,))
"""The file that says whose folder it is: maps take the names of images, and replace no others."""


def refuse_place(study: Study, folder: str | Path) -> None:
    """Reject a folder where inputs would be replaced, or that holds other files than maps."""
    Inputs.of(study).refuse(folder)
    check_folder(folder, _OWNER)


def write_entropy_maps(
    study: Study,
    folder: str | Path,
    progress: bool = False,
    failures: list[RatersError] | None = None,
) -> int:
    """Write a map per case; give how many were written.

    With a list of `failures`, what goes wrong with a case is added to it and the others continue.

    Volumes with geometry hold bits as floats. Pictures are PNG, where 255 is the highest entropy
    that so many classes can have, `log2(classes)` bits, so that maps of one study compare.
    """
    if study.kind == "classification":
        raise RatersError("found a table, expected masks: tables have no maps")
    refuse_place(study, folder)
    with only_one(folder):
        return _write_maps(study, Path(folder), progress, failures)


def _write_maps(
    study: Study, folder: Path, progress: bool, failures: list[RatersError] | None
) -> int:
    (folder / MARK).touch()
    highest = np.log2(max(len(study.classes), 2))

    def write(case: Case) -> None:
        bits = entropy_map(case.labels, len(study.classes))[np.newaxis]
        affine = case.geometry.affine
        if affine is None and bits.ndim == 3:
            picture = np.rint(bits / highest * 255).astype(np.uint8)
            formats.write_image(folder / f"{case_path(case.id)}.png", picture)
            return
        suffix = formats.image_suffix(bits, affine)
        formats.write_image(folder / f"{case_path(case.id)}{suffix}", bits, affine)

    def attempt(case: Case) -> RatersError | None:
        try:
            with enough_memory(case.id):
                write(case)
        except RatersError as error:
            if failures is None:
                raise
            return error.at(case=case.id)
        return None

    done = ordered_map(attempt, study.iter_cases())
    found = list(track(done, len(study), "drawing maps", progress))
    if failures is not None:
        failures += [error for error in found if error is not None]
    return sum(error is None for error in found)
