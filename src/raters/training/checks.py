"""What is looked at before training: who labelled what, and whether anything can be learnt."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.methods.registry import learning_method
from raters.study.classes import MISSING
from raters.study.lock import LOCK_FILE
from raters.study.study import Study, many
from raters.training.run import holds_run

MOST_READ = 500
"""Cases whose labels are read to see which classes are in use."""

_LEFT = ("cache", "checkpoints", LOCK_FILE)

Flags = NDArray[np.bool_]


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
        [any(_says(study, k, r) for r in study.raters) for k in range(len(study))], bool
    )


def without_labels(study: Study) -> tuple[str, ...]:
    """Name the raters who labelled nothing; masks are read until each rater has one that counts.

    Example:
        >>> answers = np.array([[0, MISSING, 1], [MISSING, MISSING, 1]])
        >>> without_labels(Study.from_arrays(np.ones((2, 1)), answers, raters=["ann", "bob", "cy"]))
        ('bob',)
    """
    silent = np.ones(len(study.raters), bool)
    if study.kind == "classification":
        triplets = study.triplets
        silent[triplets.rater[triplets.label != MISSING]] = False
    elif study.rules.absent == "empty":
        silent[:] = False
    else:
        for position in range(len(study)):
            names = enumerate(study.raters)
            if any(silent[k] and _says(study, position, name) for k, name in names):
                labels = study[position].labels
                silent &= ~(labels != MISSING).any(axis=tuple(range(1, labels.ndim)))
            if not silent.any():
                break
    return tuple(name for name, none in zip(study.raters, silent, strict=True) if none)


def warn_of_unlabelled(names: Sequence[str]) -> None:
    """Warn, by name, of raters of whom nothing can be learnt."""
    if not names:
        return
    several = "s" if len(names) > 1 else ""
    named = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    warnings.warn(
        f"found no label by the rater{several} {named} among the cases to train on: nothing can be "
        "learnt of them. The model cannot answer as they would, and leaves their matrices open",
        stacklevel=2,
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
    return np.array([_says(study, k, None) for k in range(len(study))], bool)


def _says(study: Study, position: int, rater: str | None) -> bool:
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


def refuse_foreign(folder: str | Path) -> None:
    """Refuse to write a run where something else is: nothing of it may be lost.

    Raises:
        RatersError: The folder is a file, or holds files and no run.
    """
    path = Path(folder)
    if path.is_dir():
        found = sorted(entry.name for entry in path.iterdir())
        # A run that was stopped before it wrote anything may leave these.
        first = next((name for name in found if name not in _LEFT), None)
        if first is None or holds_run(path):
            return
        raise RatersError(
            f"found a folder with other files ({first}), expected a new one or a run", file=path
        )
    if path.exists():
        raise RatersError("found a file, expected a folder to write the run to", file=path)


def check_classes(train: Study, method: str) -> None:
    """Warn of unused classes, and of raters who have no class in common.

    Raises:
        RatersError: No two raters use a common class, and the method learns their matrices.
    """
    entry = learning_method(method)
    used = _used_by_raters(train) if entry.raters else _used_by_reference(train)
    if not used.any():
        return  # nothing was labelled: that is said elsewhere
    _warn_of_unused(train, np.any(used, axis=0))
    if entry.raters and not _any_two_share(_foreground(train, used)):
        said = _nothing_shared(train, used)
        # Where some cases were looked at only, the others may have one.
        if method.endswith("-cm") and not _sampled(train):
            raise RatersError(f"{said}; {method} cannot tell their errors from the truth")
        warnings.warn(said, stacklevel=2)


def _used_by_raters(study: Study) -> Flags:
    """Return which rater uses which class, `(raters, L)`."""
    used = np.zeros((len(study.raters), len(study.classes)), bool)
    if study.kind == "classification":
        triplets = study.triplets
        used[triplets.rater, triplets.label] = True
        return used
    for position in _spread(len(study)):
        for rater, labels in enumerate(study[position].labels):
            values = np.unique(labels)
            used[rater, values[values != MISSING]] = True
        if used.any(axis=0).all() and _any_two_share(_foreground(study, used)):
            break  # nothing more can be found
    return used


def _used_by_reference(study: Study) -> Flags:
    used = np.zeros((1, len(study.classes)), bool)
    if study.reference_labels is not None:
        known = study.reference_labels
        used[0, known[known != MISSING]] = True
        return used
    for position in _spread(len(study)):
        reference = study[position].reference
        if reference is not None:
            used[0, np.unique(reference[reference != MISSING])] = True
        if used.all():
            break
    return used


def _spread(cases: int) -> Iterator[int]:
    """Return at most `MOST_READ` positions, spread over all and in an order that jumps."""
    chosen = np.unique(np.linspace(0, cases - 1, min(cases, MOST_READ)).astype(int))
    yield from np.random.default_rng(0).permutation(chosen).tolist()


def _sampled(study: Study) -> bool:
    """Return whether only some cases were looked at; tables are looked at whole."""
    return study.kind == "segmentation" and len(study) > MOST_READ


def _looked_at(study: Study) -> str:
    return f" in the {MOST_READ} cases looked at" if _sampled(study) else ""


def _foreground(study: Study, used: Flags) -> Flags:
    """Leave out the background of masks, that everybody uses, and raters who use nothing else."""
    drawn = used[:, 1:] if study.kind == "segmentation" else used
    return drawn[drawn.any(axis=1)]


def _any_two_share(used: Flags) -> bool:
    """Return whether some class has two raters; fewer than two raters have nothing to share."""
    return len(used) < 2 or bool((used.sum(axis=0) > 1).any())


def _warn_of_unused(study: Study, used: Flags) -> None:
    unused = [name for name, there in zip(study.classes.names, used, strict=True) if not there]
    if not unused:
        return
    where = _looked_at(study)
    several = "es" if len(unused) > 1 else ""
    named = ", ".join(map(repr, unused[:20]))
    warnings.warn(
        f"found no label of the class{several} {named}{where}: an unused class cannot be learnt",
        stacklevel=3,
    )


def _nothing_shared(study: Study, used: Flags) -> str:
    names = np.array(study.classes.names, object)
    first = 1 if study.kind == "segmentation" else 0
    each = [
        f"{rater}: {', '.join(names[first:][row[first:]])}"
        for rater, row in zip(study.raters, used, strict=True)
        if row[first:].any()
    ]
    more = f"; and {len(each) - 20:,} more" if len(each) > 20 else ""
    where = _looked_at(study)
    return f"found no class that two raters use{where}, expected one ({'; '.join(each[:20])}{more})"
