"""What `raters check` found, as plain data, and hints at what looks odd and is no error."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.io.rows import html
from raters.study.annotations import Annotation, complementary
from raters.study.study import Study
from raters.study.triplets import Triplets

_LIKE_MISSING = {"na", "n/a", "nan", "null", "?", "-"}
_FEWEST_NAMES = 5
_SHOWN = 3
_HANDFUL = 8  # pixels

if TYPE_CHECKING:
    from raters.study.check_case import MaskScan


def coding_hints(used: Mapping[str, set[int]], classes: Classes) -> Iterator[Problem]:
    """Find raters who each use one class beside background, and not of the same value."""
    if any(len(numbers) > 1 for numbers in used.values()):
        return
    first: dict[int | str, str] = {}
    for rater, numbers in used.items():
        for number in numbers:
            first.setdefault(classes[number].value, rater)
    if len(first) > 1:
        (value, rater), *others = list(first.items())[:_SHOWN]
        more = "".join(f", rater {other!r} 0 and {v}" for v, other in others)
        yield _warning(
            "coding",
            f"rater {rater!r} uses 0 and {value}{more}: the same class under different values? "
            "(--threshold 0 reads them as one)",
        )


class RareValues:
    """Notes which values occur in a single mask, in a handful of pixels: a slip, or damage."""

    def __init__(self) -> None:
        self._masks = 0
        self._once: dict[int, tuple[int, str, str, str | None]] = {}
        self._several: set[int] = set()

    def add(self, case: str, rater: str | None, mask: MaskScan) -> None:
        """Look at the values of one more mask."""
        self._masks += 1
        for value, pixels in mask.counts.items():
            if value in self._once:
                self._several.add(value)
            self._once[value] = (pixels, mask.file, case, rater)

    def hints(self) -> Iterator[Problem]:
        """Name the values; where all values are rare, or masks are few, none is odd."""
        if self._masks < 3 or not self._several - {0}:
            return
        for value, (pixels, file, case, rater) in sorted(self._once.items()):
            if value and value not in self._several and pixels <= _HANDFUL:
                yield Problem(
                    "warning",
                    "rare-value",
                    f"the value {value} is in {many(pixels, 'pixel')} of this mask and in no "
                    "other, and counts as a class of its own: a slip, or a damaged file? "
                    "(--values names the classes that there are)",
                    file,
                    case,
                    rater,
                )


def covered_hints(covered: Mapping[str, int]) -> Iterator[Problem]:
    """Name classes that are drawn, and wholly hidden by others under `--overlap priority`."""
    for name, masks in covered.items():
        yield _warning(
            "covered",
            f"class {name!r} is drawn and wholly covered by classes listed after it in "
            f"{many(masks, 'mask')} (--values lists the classes; the last one wins)",
        )


def table_hints(study: Study) -> Iterator[Problem]:
    """Find columns of names, labels that mean 'missing', and labels that differ in case only."""
    triplets = study.triplets
    names = [str(value) for value in triplets.values]
    yield from _columns_of_names(triplets)
    yield from _like_missing(triplets)
    same: dict[str, list[str]] = defaultdict(list)
    for name in names:
        same[name.casefold()].append(name)
    for group in same.values():
        if len(group) > 1:
            listed = ", ".join(map(repr, group))
            yield _warning("label-case", f"the labels {listed} differ only in upper and lower case")


def _columns_of_names(triplets: Triplets) -> Iterator[Problem]:
    """Find raters who never say the same twice, in words that no other rater uses."""
    if len(triplets.raters) < 2:
        return
    pairs = np.unique(triplets.rater.astype(np.int64) << 16 | triplets.label)
    users = np.bincount(pairs & 0xFFFF, minlength=len(triplets.values))
    answers = np.bincount(triplets.rater, minlength=len(triplets.raters))
    distinct = np.bincount(pairs >> 16, minlength=len(triplets.raters))
    for k in np.flatnonzero((answers == distinct) & (answers >= _FEWEST_NAMES)):
        said = (pairs & 0xFFFF)[pairs >> 16 == k]
        if (users[said] == 1).mean() > 0.5:
            name = triplets.raters[k]
            yield _warning(
                "names",
                f"a different label for each of {many(int(answers[k]), 'task')}: if this column "
                f"of a wide table names the tasks, say --task {name!r}",
                rater=name,
            )


def _like_missing(triplets: Triplets) -> Iterator[Problem]:
    counts = np.bincount(triplets.label, minlength=len(triplets.values))
    least = min((v for v in triplets.values if isinstance(v, int) and v != -1), default=0)
    like = {*_LIKE_MISSING, "-1"} if least >= 0 else _LIKE_MISSING
    for value, count in zip(triplets.values, counts.tolist(), strict=True):
        if count and str(value).strip().lower() in like:
            found = f"the class {value!r} in {many(count, 'label')} ({count / len(triplets):.0%})"
            what = f"found {found}: if it means 'no label', read with --missing {value}"
            yield _warning("missing-label", what)


def match_hints(
    study: Study, report: CheckReport, unlabelled: Sequence[str], imageless: Sequence[str]
) -> Iterator[Problem]:
    """Report that images were given and not one belongs to a labelled case."""
    if study.kind == "classification":
        if not report.images and 0 < len(imageless) == len(study):
            example = study.index.ids[0]
            message = f"no image matches any task: tasks are named like {example!r}"
            yield _warning("no-match", message)
        return
    apart = not set(unlabelled) & set(imageless)
    if report.images and imageless and apart and len(unlabelled) + len(imageless) == len(study):
        yield _warning(
            "no-match",
            f"no image matches any mask: masks are of cases like {imageless[0]!r}, "
            f"images of cases like {unlabelled[0]!r}",
        )


def sharing_hints(report: CheckReport, shared: bool) -> Iterator[Problem]:
    """Report that no two raters labelled the same case."""
    if not shared and sum(cases > 0 for cases in report.raters.values()) > 1:
        yield _warning(
            "no-shared-case", "no two raters share a case; names like '0' and '00' differ"
        )


def idle_hints(report: CheckReport, failed: Mapping[str | None, int]) -> Iterator[Problem]:
    """Name raters without a label, and whether that is for files that cannot be read."""
    for rater, cases in report.raters.items():
        if cases == 0:
            bad = failed.get(rater, 0)
            message = f"0 of {many(bad, 'mask')} could be read" if bad else "labelled no case"
            yield _warning("idle-rater", message, rater=rater)


def unlabelled_hints(study: Study, unlabelled: Sequence[str]) -> Iterator[Problem]:
    """Name cases that no rater labelled; a split without any labels is named once."""
    splits = dict(zip(study.index.ids, study.index.splits, strict=True)) if unlabelled else {}
    sizes = Counter(splits.values())
    without = Counter(splits[case] for case in unlabelled)
    whole = {split for split, n in without.items() if split and 1 < n == sizes[split]}
    for split in sorted(whole):
        message = f"no rater labelled any of the {without[split]:,} cases of the split {split!r}"
        yield _warning("no-labels", message)
    for case in unlabelled:
        if splits[case] not in whole:
            yield Problem("warning", "no-labels", "no rater labelled this case", case=case)


def _warning(kind: str, message: str, rater: str | None = None) -> Problem:
    return Problem("warning", kind, message, rater=rater)


Level = Literal["error", "warning"]

WARNINGS = {"nan-image"}
"""Kinds of errors that only warn: the study can be used all the same."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with the place where it is."""

    level: Level
    kind: str
    message: str
    file: str | None = None
    case: str | None = None
    rater: str | None = None

    def __str__(self) -> str:
        who = [f"case {self.case}"] if self.case else []
        who += [f"rater {self.rater}"] if self.rater else []
        place = self.file or ", ".join(who)
        return f"{place}: {self.message}" if place else self.message

    @classmethod
    def of(cls, error: RatersError) -> Problem:
        """Make a problem of an error."""
        level: Level = "warning" if error.kind in WARNINGS else "error"
        return cls(level, error.kind, error.message, error.file, error.case, error.rater)


@dataclass(repr=False)
class CheckReport:
    """What a study holds and what is wrong with it.

    Attributes:
        kind: 'segmentation' or 'classification'.
        cases: Number of cases.
        groups: Number of groups.
        raters: Labelled cases of each rater.
        references: Cases with a reference.
        images: Cases with an image (or features).
        classes: The classes; None if they could not be found.
        counts: Labels that say each class (of negative drawings of several classes: that rule it
            out) by rater, in the order of `classes`.
        grids: How many cases have which shape and spacing.
        image_types: How many images have which channels and type.
        splits: How many cases are in which split.
        diagnoses: How many cases have which diagnosis.
        reference_counts: Labels of each class in the reference; empty without one.
        about: Title, licence, citation and the like.
        notes: What a user should know of how the study was opened.
        answers: Labels in a table, and how many of them are repeated readings.
        problems: Everything that is wrong.
        annotations: What the labels of each rater mean; empty where all gave masks.
        unmarked: What unmarked pixels of drawings say; '' where all gave masks.
    """

    kind: str
    cases: int
    groups: int
    raters: dict[str, int]
    references: int = 0
    images: int = 0
    classes: Classes | None = None
    counts: dict[str, list[int]] = field(default_factory=dict)
    grids: Counter[tuple[tuple[int, ...], tuple[float, ...] | None]] = field(
        default_factory=Counter
    )
    image_types: Counter[tuple[int, str]] = field(default_factory=Counter)
    splits: dict[str, int] = field(default_factory=dict)
    diagnoses: dict[str, int] = field(default_factory=dict)
    reference_counts: list[int] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    answers: tuple[int, int] | None = None
    problems: list[Problem] = field(default_factory=list)
    annotations: dict[str, Annotation] = field(default_factory=dict)
    unmarked: str = ""

    def __repr__(self) -> str:
        found = f"{many(self.errors, 'error')}, {many(self.warnings, 'warning')}"
        parts = [self.kind, many(self.cases, "case"), many(len(self.raters), "rater")]
        return f"CheckReport({', '.join(parts)}; {found if self.problems else 'no problems'})"

    def _repr_html_(self) -> str:
        """Show the report in a notebook: raters, classes and problems."""
        found = self.to_dict()
        raters = [{k: v for k, v in row.items() if k != "labels"} for row in found["raters"]]
        tables = {"raters": raters, "classes": found["classes"], "problems": found["problems"]}
        return html(repr(self), tables)

    @property
    def errors(self) -> int:
        """How many problems are errors."""
        return sum(p.level == "error" for p in self.problems)

    @property
    def warnings(self) -> int:
        """How many problems are warnings."""
        return len(self.problems) - self.errors

    @property
    def shares(self) -> list[float]:
        """The share of each class among all labels by raters, or in the reference without them.

        Drawings count as what they say; what they rule out of several classes does not count.
        """
        total = np.zeros(len(self.classes or ()))
        references = [] if self.raters or not self.reference_counts else [self.reference_counts]
        denied = complementary(self.annotations, len(total))
        said = [counts for rater, counts in self.counts.items() if rater not in denied]
        for counts in (*said, *references):
            total += counts
        return [float(share) for share in total / max(total.sum(), 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        classes = list(self.classes or ())
        names = [c.name for c in classes]
        drawn = {"unmarked": self.unmarked} if self.unmarked else {}
        kinds = {rater: {"annotation": kind} for rater, kind in self.annotations.items()}
        labels = {r: dict(zip(names, n, strict=True)) for r, n in self.counts.items()}
        return {
            "kind": self.kind,
            "cases": self.cases,
            "groups": self.groups,
            "images": self.images,
            "references": self.references,
            "raters": [
                {"name": r, **kinds.get(r, {}), "cases": n, "labels": labels.get(r, {})}
                for r, n in self.raters.items()
            ],
            **drawn,
            "classes": [
                {"name": c.name, "value": c.value, "share": share}
                for c, share in zip(classes, self.shares, strict=True)
            ],
            "grids": [
                {"shape": shape, "spacing": spacing, "cases": n}
                for (shape, spacing), n in self.grids.most_common()
            ],
            "image_types": [
                {"channels": channels, "type": kind, "cases": n}
                for (channels, kind), n in self.image_types.most_common()
            ],
            "splits": self.splits,
            "diagnoses": self.diagnoses,
            "labels": None if self.answers is None else self.answers[0],
            "repeated_readings": None if self.answers is None else self.answers[1],
            "about": self.about,
            "notes": self.notes,
            "errors": self.errors,
            "warnings": self.warnings,
            "problems": [vars(problem) for problem in self.problems],
        }
