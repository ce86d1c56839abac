"""Reads what `raters fuse` says of itself in the folder that it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from raters.core.arrays import Floats, Labels
from raters.core.errors import RatersError
from raters.fusion._staple import fused
from raters.fusion.columns import columns_of
from raters.fusion.em import EMState
from raters.fusion.methods import METHODS, method_of
from raters.fusion.result import Fusion
from raters.fusion.starts import alone
from raters.io.paths import read_text
from raters.io.rows import Row
from raters.study.study import Study

SUMMARY = "raters.json"

Refit = Callable[..., Fusion]
"""Fuses labels `(raters, *space)` with so many classes, or a table."""


@dataclass(frozen=True)
class FusionFiles:
    """A fusion as it was written.

    Attributes:
        folder: The folder.
        method: The name of the method.
        pooled: Whether all cases share the raters' matrices.
        options: The options of the method.
        rows: How far each rater can be trusted; none for methods without matrices.
        confusion: The matrices `(raters, L, L)`, where there is one fit for all.
        prior: The share of each class `(L,)`, with `confusion`.
        cases: What was noted of each case.
        notes: What the method has to say beside its consensus.
    """

    folder: Path
    method: str
    pooled: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    confusion: Floats | None = None
    cases: dict[str, Row] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    prior: Floats | None = None

    def confusion_of(self, raters: Sequence[str]) -> Floats | None:
        """Return the matrices of these raters, by name; NaN for one who was not fused."""
        if self.confusion is None:
            return None
        fused = list(dict.fromkeys(str(row["rater"]) for row in self.rows))
        if len(fused) != len(self.confusion):
            return None
        found = np.full((len(raters), *self.confusion.shape[1:]), np.nan)
        for k, rater in enumerate(raters):
            if rater in fused:
                found[k] = self.confusion[fused.index(rater)]
        return found

    def said_of(self, study: Study) -> list[str]:
        """Return the notes that fit a study: those without names if raters are anonymous."""
        return [
            note
            for note in self.notes
            if not study.anonymous or not any(rater in note for rater in study.raters)
        ]

    def refit(self, kind: str, raters: Sequence[str] = ()) -> tuple[Refit, str]:
        """Return a function that fuses again, and its name: the method, or a vote if slow.

        Matrices of `raters` that were fitted to all cases stay as they are.
        """
        matrices = self.confusion_of(raters) if self.pooled else None
        if matrices is not None and self.prior is not None and np.isfinite(matrices).all():
            state = EMState(self.prior[:, np.newaxis], matrices)
            return partial(_fused_by, state), f"{self.method} with the matrices that it estimated"
        known = self.method in METHODS and not self.pooled
        name = self.method if known and not METHODS[self.method].slow else "vote"
        method = method_of(name)
        options = self.options if name == self.method else {}
        method.check_options(kind, options)
        fixed = (method.fixed or {}) if kind == "segmentation" else {}
        return partial(method.function(kind), **options, **fixed), name


def _fused_by(state: EMState, labels: Labels, num_classes: int) -> Fusion:
    return fused(columns_of(labels, num_classes), alone(state), labels.shape[1:])


def read_fusion(folder: str | Path) -> FusionFiles:
    """Read what a fusion says of itself.

    Raises:
        RatersError: The fusion is not finished, or the file is not one of `raters fuse`.
    """
    path = Path(folder) / SUMMARY
    if not path.exists():
        raise RatersError(
            f"found no {SUMMARY}, expected a finished fusion: run the same 'raters fuse' again",
            kind="unfinished",
            file=folder,
        )
    try:
        content = json.loads(read_text(path))
        about = content["fusion"]
        matrices = content.get("confusion")
        prior = content.get("prior")
        return FusionFiles(
            Path(folder),
            str(about["method"]),
            bool(about["pool"]),
            dict(about["options"]),
            [dict(row) for row in content["raters"]],
            None if matrices is None else np.array(matrices, np.float64),
            {str(case): dict(facts) for case, facts in content.get("cases", {}).items()},
            [str(note) for note in content.get("notes", [])],
            None if prior is None else np.array(prior, np.float64),
        )
    except RatersError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RatersError(
            f"found something else ({type(error).__name__}: {error}), "
            "expected the file that 'raters fuse' writes",
            kind="unreadable",
            file=path,
        ) from None
