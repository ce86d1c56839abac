"""What `raters check` found: counts, coverage, classes, grids and problems, as plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from raters.errors import RatersError
from raters.study.classes import Classes

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

    @classmethod
    def of(cls, error: RatersError) -> Problem:
        """Make a problem of an error."""
        level: Level = "warning" if error.kind in WARNINGS else "error"
        return cls(level, error.kind, error.message, error.file, error.case, error.rater)


@dataclass
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
        counts: Labels of each class by rater, in the order of `classes`.
        grids: How many cases have which shape and spacing.
        image_types: How many images have which channels and type.
        splits: How many cases are in which split.
        reference_counts: Labels of each class in the reference; empty without one.
        about: Title, licence, citation and the like.
        notes: What a user should know of how the study was opened.
        answers: Labels in a table, and how many of them are repeated readings.
        problems: Everything that is wrong.
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
    reference_counts: list[int] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    answers: tuple[int, int] | None = None
    problems: list[Problem] = field(default_factory=list)

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
        """The share of each class among all labels by raters, or in the reference without them."""
        total = np.zeros(len(self.classes or ()))
        references = [] if self.raters or not self.reference_counts else [self.reference_counts]
        for counts in (*self.counts.values(), *references):
            total += counts
        return [float(share) for share in total / max(total.sum(), 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        classes = list(self.classes or ())
        names = [c.name for c in classes]
        return {
            "kind": self.kind,
            "cases": self.cases,
            "groups": self.groups,
            "images": self.images,
            "references": self.references,
            "raters": [
                {"name": r, "cases": n, "labels": dict(zip(names, self.counts[r], strict=True))}
                if r in self.counts
                else {"name": r, "cases": n, "labels": {}}
                for r, n in self.raters.items()
            ],
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
            "labels": None if self.answers is None else self.answers[0],
            "repeated_readings": None if self.answers is None else self.answers[1],
            "about": self.about,
            "notes": self.notes,
            "errors": self.errors,
            "warnings": self.warnings,
            "problems": [vars(problem) for problem in self.problems],
        }
