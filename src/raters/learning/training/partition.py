"""Which cases of a study are trained on and held out, and whether their labels suffice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags
from raters.core.errors import RatersError
from raters.core.wording import listing, many
from raters.learning.methods.registry import learning_method
from raters.study.study import Study
from raters.study.survey import has_reference, labelled, survey

HELD_OUT = ("val", "valid", "validate", "validation", "dev")


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
        teaches = labelled(study) if learning_method(method).raters else has_reference(study)
        if not teaches[train].any():
            raise _nothing_to_learn(study, method)
        scores = teaches | has_reference(study)
        train = train[teaches[train]]
        held_out = held_out[scores[held_out]]
    if not chosen and share > 0 and len(set(study.index.groups[train])) > 1:
        rest = study.select(cases=list(study.index.ids[train]))
        names = rest.split(seed=seed, train=1 - share, val=share).index.splits
        held_out = train[names == "val"]
        train = train[names != "val"]
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
            f"found no reference of case {study.index.ids[0]!r} or any other to train on, expected "
            f'some: {method} trains on references (--reference "truth/{{case}}.png")'
        )
    if not study.raters:
        return RatersError("found no raters, expected labels to learn from")
    return RatersError("found no labels in the cases to train on, expected at least one")


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


def warn_of_unlabelled(names: Sequence[str]) -> None:
    """Warn, by name, of raters of whom nothing can be learnt."""
    if not names:
        return
    several = "s" if len(names) > 1 else ""
    warnings.warn(
        f"found no label by the rater{several} {listing(names, form=repr)} among the cases to "
        "train on: nothing can be learnt of them. The model cannot answer as they would, and "
        "leaves their matrices open",
        stacklevel=2,
    )


def check_classes(train: Study, method: str, one_class: bool = False) -> None:
    """Warn of unused classes, and of raters who have no class in common.

    Args:
        train: The cases to train on.
        method: The name of the method.
        one_class: Whether it learns from labels that say one class alone.

    Raises:
        RatersError: No two raters use a common class, and the method learns their matrices.
    """
    entry = learning_method(method)
    found = survey(train)
    used = found.used_by_raters() if entry.raters else found.used_by_reference()
    if not used.any():
        return  # nothing was labelled: that is said elsewhere
    there = np.any(used, axis=0)
    unused = [name for name, at in zip(train.classes.names, there, strict=True) if not at]
    if unused and not (one_class and there.sum() == 1):
        several = "es" if len(unused) > 1 else ""
        named = listing(unused, form=repr) + found.looked_at
        warnings.warn(
            f"found no label of the class{several} {named}: an unused class cannot be learnt",
            stacklevel=2,
        )
    if entry.raters and not found.any_two_share(used):
        said = _nothing_shared(train, used)
        # Where some cases were looked at only, the others may have one.
        if method.endswith("-cm") and not found.looked_at:
            raise RatersError(f"{said}; {method} cannot tell their errors from the truth")
        warnings.warn(said, stacklevel=2)


def _nothing_shared(study: Study, used: Flags) -> str:
    first = 1 if study.kind == "segmentation" else 0
    names = np.array(study.classes.names[first:], object)
    each = [
        f"{rater}: {', '.join(names[row])}"
        for rater, row in zip(study.raters, used[:, first:], strict=True)
        if row.any()
    ]
    more = f"; and {len(each) - 20:,} more" if len(each) > 20 else ""
    return (
        f"found no class that two raters use{survey(study).looked_at}, expected one "
        f"({'; '.join(each[:20])}{more})"
    )
