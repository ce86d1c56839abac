"""Which cases of a study can be read: one bad file neither stops the others nor hides them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from raters.errors import RatersError
from raters.progress import ordered_map, track
from raters.study.case import Case
from raters.study.study import Study, many

_NAMED = 10
_LISTED = 20


def readable_part(
    study: Study, need: Callable[[Case], object], progress: bool = False
) -> tuple[Study, list[RatersError]]:
    """Read all cases once; give those that can be read, and an error for each of the others.

    Args:
        study: The study.
        need: Reads what is needed of a case.
        progress: Show a progress bar.

    Example:
        >>> study = Study.from_arrays(labels=np.array([[[0, 1]], [[0, 0]]]))
        >>> def need(case):
        ...     if case.id == "1":
        ...         raise RatersError("cannot be read", case=case.id)
        >>> readable_part(study, need)
        (Study(segmentation, 1 case, 1 rater, 2 classes), [RatersError('cannot be read')])
    """

    def look(case: Case) -> RatersError | None:
        try:
            need(case)
        except RatersError as error:
            return error.at(case=case.id)
        return None

    found = track(ordered_map(look, study.iter_cases()), len(study), "reading", progress)
    errors = list(found)
    kept = np.array([k for k, error in enumerate(errors) if error is None], np.intp)
    failures = [error for error in errors if error is not None]
    if not failures:
        return study, []
    names = [str(error.case) for error in failures]
    notes = (*study.notes, left_out_note(names))
    return replace(study.take(kept), notes=notes, opened=study.opened), failures


def left_out_note(cases: Sequence[str]) -> str:
    """Return which cases could not be read.

    Example:
        >>> left_out_note(["a", "b"])
        '2 cases were left out because of unreadable files: a, b'
    """
    more = f" and {len(cases) - _NAMED:,} more" if len(cases) > _NAMED else ""
    was = "was" if len(cases) == 1 else "were"
    listed = ", ".join(cases[:_NAMED]) + more
    return f"{many(len(cases), 'case')} {was} left out because of unreadable files: {listed}"


@contextmanager
def all_named(study: Study) -> Iterator[None]:
    """Name all files of a study that cannot be read where the first one stops the work."""
    try:
        yield
    except RatersError as error:
        worker = str(error).startswith("Caught ")  # torch gives its traceback, and no case
        problems = bad_files(study) if worker or error.case is not None else []
        # An error that no file of its own explains (features where masks need images) stays.
        listed = any(error.message in problem for problem in problems)
        if not problems or (not worker and (len(problems) == 1 or not listed)):
            raise
        raise RatersError(_all_of(problems), kind=error.kind) from None


def _all_of(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    listed = "".join(f"\n  {problem}" for problem in problems[:_LISTED])
    left = len(problems) - _LISTED
    more = f"\n  and {left:,} more (raters check lists all)" if left > 0 else ""
    return f"found {len(problems):,} files that cannot be used, expected none:{listed}{more}"


def bad_files(study: Study) -> list[str]:
    """Read a whole study and give a line for each file that cannot be used."""
    from raters.study.check import scan_case

    scans = ordered_map(lambda case: scan_case(case, study), study.iter_cases())
    problems = [p for scan in scans for p in scan.problems if p.level == "error"]
    lines = [f"{p.file}: {p.message}" if p.file else f"{p.case}: {p.message}" for p in problems]
    return list(dict.fromkeys(lines))
