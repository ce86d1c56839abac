"""Which cases are trained on, which are held out, and which can teach nothing; no mask is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.methods.registry import learning_method
from raters.study.classes import MISSING
from raters.study.study import Study, many

HELD_OUT = ("val", "valid", "validate", "validation", "dev")

Flags = NDArray[np.bool_]


class Partition(NamedTuple):
    """Positions of cases in a study.

    Attributes:
        train: Cases that are trained on.
        held_out: Cases that the best epoch is chosen on; may be empty.
    """

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def partition(study: Study, share: float, seed: int, method: str | None = None) -> Partition:
    """Take the splits 'train' and 'val' (or 'validation', ...), or hold out a share of groups.

    Cases of other splits, such as 'test', are never touched.

    Args:
        study: All cases.
        share: The share of groups to hold out if no split says so.
        seed: Randomness of that.
        method: Leave out cases that this method cannot learn from: that no rater labelled, or
            without reference for `truth`. A held-out case needs either.

    Example:
        >>> study = Study.from_arrays(labels=np.zeros((10, 1, 2, 2), int))
        >>> [len(part) for part in partition(study, 0.2, seed=0)]
        [8, 2]
    """
    train, held_out = by_split(study)
    chosen = len(held_out) > 0
    if method is not None:
        teaches = learnable(study, method)
        if not teaches[train].any():
            raise _nothing_to_learn(study, method)
        scores = teaches | has_reference(study)
        train, held_out = train[teaches[train]], held_out[scores[held_out]]
    if not chosen and share > 0 and len(set(study.index.groups[train])) > 1:
        rest = study.select(cases=list(study.index.ids[train]))
        names = rest.split(seed=seed, train=1 - share, val=share).index.splits
        train, held_out = train[names != "val"], train[names == "val"]
    return Partition(train, held_out)


def left_out(study: Study, used: Sequence[str] | NDArray[np.object_]) -> int:
    """Return how many cases of the splits that are used at all are not among those used."""
    return len(set(study.index.ids[np.concatenate(by_split(study))]) - set(used))


def by_split(study: Study) -> Partition:
    """Return the cases of the splits 'train' and 'val'; all are of 'train' by default."""
    splits = study.index.splits
    train = np.flatnonzero(splits == "train")
    held_out = np.flatnonzero(np.isin(splits, HELD_OUT))
    if not len(train):
        train = np.flatnonzero(splits == "")
    if not len(train):
        found = ", ".join(sorted(set(splits))) or "none"
        raise RatersError(f"found only cases of the splits {found}, expected some of 'train'")
    return Partition(train, held_out)


def _nothing_to_learn(study: Study, method: str) -> RatersError:
    if not learning_method(method).raters:
        return RatersError(
            f"found no reference of case {study.index.ids[0]!r} or any other to train on, "
            f"expected some: {method} trains on references "
            '(--reference "truth/{case}.png")'
        )
    if not study.raters:
        return RatersError("found no raters, expected labels to learn from")
    return RatersError("found no labels in the cases to train on, expected at least one")


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
    if study.rules.absent == "empty" and study.raters:
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


def learnable(study: Study, method: str) -> Flags:
    """Return for each case whether a method can learn from it: its labels, or its reference."""
    return labelled(study) if learning_method(method).raters else has_reference(study)


def left_out_note(number: int, method: str) -> list[str]:
    """Return how many cases are left out.

    Example:
        >>> left_out_note(2, "pixel-cm")
        ['2 cases are left out: none of the raters labelled them']
    """
    if not number:
        return []
    them = "it" if number == 1 else "them"
    lacks = f"none of the raters labelled {them}"
    if not learning_method(method).raters:
        lacks = f"{method} trains on references, and there is none of {them}"
    return [f"{many(number, 'case')} {'is' if number == 1 else 'are'} left out: {lacks}"]
