"""What a study holds, everything that is wrong with it, and which cases can be read at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from raters.core.arrays import Array, Labels
from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError
from raters.core.progress import ordered_map, track
from raters.core.wording import listing, many
from raters.study import check_odd as odd
from raters.study import check_report as hints
from raters.study.annotations import reading
from raters.study.backend_files import FilesBackend, add_names
from raters.study.case import Case
from raters.study.check_case import CaseScan, UnmarkedValues, labelled_values, scan_case
from raters.study.check_report import CheckReport, Problem
from raters.study.read import study_of
from raters.study.study import Study
from raters.study.study_file import sum_errors
from raters.study.triplets import TableBackend


def check(study: Study | Any, *, progress: bool = False) -> CheckReport:  # noqa: ANN401
    """Read a whole study once and say what it holds and what is wrong with it.

    One bad file never hides the others. Memory does not grow with the number of cases. It takes a
    study, what `raters.read` takes, or labels `(cases, raters, *space)`.

    Example:
        >>> labels = np.array([[[[0, 1]], [[0, 0]]]])
        >>> report = check(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
        >>> report.raters, report.shares
        ({'ann': 1, 'bob': 1}, [0.75, 0.25])
        >>> [(p.kind, p.rater) for p in report.problems]
        [('empty-mask', 'bob')]
    """
    study = study_of(study)
    known = {error.file for error in study.problems}
    changed = [] if study.folder is None else sum_errors(study.folder)
    errors = [*study.problems, *(error for error in changed if error.file not in known)]
    report = CheckReport(
        study.kind,
        len(study),
        len(set(study.index.groups)),
        dict.fromkeys(study.raters, 0),
        splits=dict(Counter(s for s in study.index.splits if s)),
        diagnoses=dict(Counter(d for d in study.index.diagnoses if d)),
        problems=[Problem.of(error) for error in errors],
        about=dict(study.about),
        notes=list(study.notes),
        annotations=dict(study.annotations) if study.drawn else {},
        unmarked=study.unmarked if study.drawn else "",
    )
    tally = _Tally(study, report)
    if study.drawn and not study.classes_named:
        with suppress(RatersError):  # found once, before threads ask for them
            _ = study.classes
    if not isinstance(study.backend, TableBackend) or study.backend.has_inputs:
        scans = ordered_map(lambda case: scan_case(case, study), study.iter_cases())
        for scan in track(scans, len(study), "checking", progress):
            tally.add(scan)
    tally.finish()
    return report


class _Tally:
    """Adds up what the cases hold."""

    def __init__(self, study: Study, report: CheckReport) -> None:
        self.study = study
        self.report = report
        # Of masks without and with pixels that are not labelled: drawings of both are read apart.
        self.values: dict[str | None, tuple[Counter[int], Counter[int]]] = {
            rater: (Counter(), Counter()) for rater in (*study.raters, None)
        }
        self.names: dict[int, str] = {}
        self.unlabelled: list[str] = []
        self.imageless: list[str] = []
        self.failed: Counter[str | None] = Counter()
        self.covered: Counter[str] = Counter()
        self.shared = self.coded = False
        self.by_raters: Counter[int] = Counter()
        self.rare = hints.RareValues()
        self.unmarked = UnmarkedValues(study)

    def add(self, scan: CaseScan) -> None:
        report = self.report
        report.problems += scan.problems
        if self.study.drawn:
            report.problems += self.unmarked.add(scan)
        errors = {p.rater for p in scan.problems if p.level == "error"}
        self.failed.update(errors - set(scan.masks))
        labelled = [r for r, m in scan.masks.items() if r and labelled_values(m, self.study)]
        self.shared |= len(labelled) > 1
        if self.study.kind == "segmentation":
            self.by_raters[len(labelled)] += 1
        for rater, mask in scan.masks.items():
            self.coded |= mask.coded
            with_gaps = len(labelled_values(mask, self.study)) < len(mask.counts)
            self.values[rater][with_gaps].update(mask.counts)
            self.rare.add(scan.case, rater, mask)
            self.covered.update(mask.covered)
            try:
                add_names(self.names, mask.names, mask.file)
            except RatersError as error:
                report.problems.append(Problem.of(error.at(case=scan.case, rater=rater)))
            if rater is None:
                report.references += 1
            else:
                report.raters[rater] += rater in labelled
        if scan.image is not None:
            report.images += 1
            report.image_types[scan.image] += 1
        if scan.grid is not None and scan.grid.shape:
            spacing = None if scan.grid.affine is None else scan.grid.spacing
            rounded = None if spacing is None else tuple(round(s, 4) for s in spacing)
            report.grids[scan.grid.shape, rounded] += 1
        if self.study.kind == "segmentation" and not scan.broken and not set(scan.masks) - {None}:
            self.unlabelled.append(scan.case)
        if scan.image is None and not scan.broken:
            self.imageless.append(scan.case)

    def finish(self) -> None:
        report = self.report
        study = self.study
        if study.kind == "classification":
            self._finish_table()
        else:
            self._finish_masks()
        if study.raters:
            report.problems += hints.unlabelled_hints(study, self.unlabelled)
        report.problems += hints.match_hints(study, report, self.unlabelled, self.imageless)
        if report.images:
            report.problems += [
                Problem("warning", "no-image", "found labels and no image", case=case)
                for case in self.imageless
            ]
        unread = {r: n for r, n in self.failed.items() if not any(self.values.get(r, ()))}
        report.problems += hints.idle_hints(report, unread)
        report.problems += hints.sharing_hints(report, self.shared)
        report.problems += odd.layout_hints(study, report, self.shared)
        if len(study.raters) > 1:
            report.problems += odd.alone_hints(self.by_raters, self.shared)
        if len({channels for channels, _ in report.image_types}) > 1:
            counts = ", ".join(f"{n} with {c}" for (c, _), n in report.image_types.most_common())
            message = f"images differ in their number of channels: {counts}"
            report.problems.append(Problem("warning", "channels", message))

    def _finish_masks(self) -> None:
        report = self.report
        study = self.study
        used = {r: set().union(*counts) for r, counts in self.values.items()}
        found = set().union(*used.values())
        if study.classes_named:
            report.classes = study.classes
        elif isinstance(study.backend, FilesBackend) and found:
            report.classes = study.backend.classes_of(found, self.names)
        if report.classes is not None:
            for rater in study.raters:
                report.counts[rater] = self._by_class(rater, report.classes)
            if report.references:
                report.reference_counts = self._by_class(None, report.classes)
        report.problems += hints.covered_hints(self.covered)
        report.problems += self.unmarked.hints()
        by_class = isinstance(study.backend, FilesBackend) and bool(study.backend.class_names)
        if not (study.classes_named or self.names or by_class):
            report.problems += self._coding_hints(used)
            report.problems += self.rare.hints()
            report.problems += odd.inverted_hints(report)

    def _coding_hints(self, used: dict[str | None, set[int]]) -> Iterator[Problem]:
        classes = self.report.classes
        ignored = self.study.ignored
        by_rater = {}
        if classes is not None:
            for rater in self.study.raters:
                numbers = classes.encode(np.array(list(used[rater]), np.int64), ignored)
                by_rater[rater] = set(numbers.tolist()) - {0, MISSING}
            yield from hints.coding_hints(by_rater, classes)

    def _by_class(self, rater: str | None, classes: Classes) -> list[int]:
        """Add up by class what a rater (None: the reference) says, MISSING left out."""
        totals = np.zeros(len(classes) + 1, np.int64)
        for counts in filter(None, self.values[rater]):
            numbers = self._said(np.array(list(counts), np.int64), rater, classes)
            np.add.at(totals, numbers + 1, list(counts.values()))
        return [int(n) for n in totals[1:]]

    def _said(self, values: Array, rater: str | None, classes: Classes) -> Labels:
        study = self.study
        if not study.classes_named:
            numbers = classes.encode(values, study.ignored)
        elif rater is None:
            numbers = study.encode(values, self.coded)
        else:
            numbers = study.encode_drawing(values, self.coded, rater)
        kind = "mask" if rater is None else study.annotations[rater]
        return reading(numbers, kind, study.unmarked, len(classes))

    def _finish_table(self) -> None:
        report = self.report
        study = self.study
        triplets = self.study.triplets
        report.classes = study.classes
        raters = len(study.raters)
        classes = len(report.classes)
        by_class = triplets.by_class(classes)
        pairs = np.unique(triplets.task.astype(np.int64) * max(raters, 1) + triplets.rater)
        tasks = np.bincount(pairs % max(raters, 1), minlength=raters)
        for k, rater in enumerate(study.raters):
            report.counts[rater] = by_class[k].tolist()
            report.raters[rater] = int(tasks[k])
        report.answers = (len(triplets), len(triplets) - len(pairs))
        truth = study.reference_labels
        if truth is not None:
            known = np.bincount(truth[truth != MISSING], minlength=classes)
            report.references = int(known.sum())
            report.reference_counts = known.tolist()
        shared = np.diff(pairs // max(raters, 1)) == 0  # sorted by task
        self.shared = bool(shared.any())
        self.by_raters = Counter(np.bincount(pairs // max(raters, 1)).tolist())
        report.problems += hints.table_hints(study)
        report.problems += odd.constant_hints(triplets)
        answered = np.zeros(len(study), bool)
        answered[triplets.task] = True
        self.unlabelled = [str(name) for name in study.index.ids[~answered]]


_LISTED = 20


def readable_part(
    study: Study, need: Callable[[Case], object], progress: bool = False
) -> tuple[Study, list[RatersError]]:
    """Read of all cases what is needed; give those that can be read, and the others' errors.

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
    left_out = f"{many(len(cases), 'case')} {'was' if len(cases) == 1 else 'were'} left out"
    return f"{left_out} because of unreadable files: {listing(cases, 10)}"


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
    scans = ordered_map(lambda case: scan_case(case, study), study.iter_cases())
    problems = []
    for scan in scans:
        problems += [problem for problem in scan.problems if problem.level == "error"]
    lines = [f"{p.file}: {p.message}" if p.file else f"{p.case}: {p.message}" for p in problems]
    return list(dict.fromkeys(lines))
