"""What a folder of `raters fuse` holds, and how far it says each rater can be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from raters import plots
from raters.arrays import Floats, Ints, Labels
from raters.confusion import normalise
from raters.errors import RatersError
from raters.evaluation.sources import class_numbers
from raters.fusion.methods import METHODS, method_of
from raters.fusion.result import Fusion
from raters.report import fusion_words as words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.compare import summary_rows
from raters.rows import Row
from raters.study.paths import read_text
from raters.study.read_table import labels_of_tasks
from raters.study.study import Study

SUMMARY = "raters.json"
LABELS = "labels.csv"

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

    def refit(self, kind: str) -> tuple[Refit, str]:
        """Return a function that fuses again, and its name: the method, or a vote if slow."""
        known = self.method in METHODS and not self.pooled
        name = self.method if known and not METHODS[self.method].slow else "vote"
        method = method_of(name)
        options = self.options if name == self.method else {}
        method.check_options(kind, options)
        fixed = (method.fixed or {}) if kind == "segmentation" else {}
        return partial(method.function(kind), **options, **fixed), name


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
        return FusionFiles(
            Path(folder),
            str(about["method"]),
            bool(about["pool"]),
            dict(about["options"]),
            [dict(row) for row in content["raters"]],
            None if matrices is None else np.array(matrices, np.float64),
            {str(case): dict(facts) for case, facts in content.get("cases", {}).items()},
            [str(note) for note in content.get("notes", [])],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RatersError(
            f"found something else ({type(error).__name__}: {error}), "
            "expected the file that 'raters fuse' writes",
            kind="unreadable",
            file=path,
        ) from None


def consensus_labels(folder: Path, study: Study) -> Labels:
    """Read the consensus of a table as class numbers, `(tasks,)`; MISSING where there is none."""
    path = folder / LABELS
    if not path.exists():
        raise RatersError(f"found no {LABELS}, expected the labels of a fused table", file=folder)
    found = labels_of_tasks(path, list(study.index.ids), "task", "label")
    known = {str(c.value): k for k, c in enumerate(study.classes)}
    return class_numbers(found, known, study, path)


_MOST_CELLS = 300
_MOST_MATRICES = 16


def scores_figure(
    rows: Sequence[Row], score: str, title: str, raters: Sequence[str] | None = None
) -> Figure:
    """Draw one score of each rater with its error, under a name in words.

    Colours go by the order of `raters`, all those of the study.
    """
    shown = [
        {"rater": r["rater"], "class": "", title: r[score], f"{title}_se": r.get(f"{score}_se")}
        for r in rows
    ]
    return plots.skills(shown, [title], raters=raters)


def most_matrices(num_classes: int) -> int:
    """Return how many matrices a figure shows: fewer where they are large.

    Example:
        >>> most_matrices(2), most_matrices(8), most_matrices(100)
        (16, 4, 4)
    """
    return max(4, min(_MOST_MATRICES, _MOST_CELLS // num_classes**2))


def performance_section(
    files: FusionFiles,
    rows: list[Row],
    classes: Sequence[str],
    counts: Ints,
    study: Study,
    shown: Sequence[str] | None = None,
    foreground: Sequence[Row] = (),
    doubtful: Sequence[int] = (),
    two: str = "",
) -> Section:
    """Show how far each rater can be trusted, with error bars, and confusion matrices.

    `counts` `(raters, L, L)` are shown where the method has no matrices for all cases together.
    `foreground` are the rows of `foreground_rows`, for masks: sentence and figure are made of them,
    so that they say what the table of raters says. Of anonymous raters all are one. `doubtful` are
    classes that a minority drew, `two` is what the consensus of two raters is, if it is known.
    """
    everybody = [words.ALL_RATERS] if study.anonymous else list(study.raters)
    names = everybody if shown is None or study.anonymous else list(shown)
    if study.anonymous:
        counts = counts.sum(axis=0, keepdims=True)
    blocks: list[Block] = []
    if foreground:
        blocks.append(_foreground_block(foreground, everybody, len(classes) > 2, two))
    elif not study.anonymous:
        blocks += _classes_blocks(files, rows, classes, counts, everybody, names)
    chosen = names[: most_matrices(len(classes))]
    estimated = None if study.anonymous else files.confusion_of(chosen)
    own = normalise(counts[[everybody.index(name) for name in chosen]])
    picked = own if estimated is None else estimated
    how = "counted over all cases" if estimated is None else "estimated by the method"
    counted = None if estimated is None else own
    said = words.confusion_sentence(picked, chosen, classes, counted, doubtful)
    caption = f"{said} Matrices are {how}."
    if len(chosen) < len(everybody):
        caption += f" Shown are {len(chosen)} of {len(everybody):,} raters."
    figure = plots.confusion(picked, classes, chosen, rows="consensus")
    blocks.append(FigureBlock("confusion", figure, caption))
    if not study.anonymous:
        how = "as the method estimates them" if files.rows else "against the consensus"
        by = "case, rater" if rows and "case" in rows[0] else "rater"
        caption = f"All measures {how}, by {by} and class."
        blocks.append(TableBlock("performance-of-raters", rows, caption, shown_columns(rows)))
    return Section("Performance", "How far raters can be trusted.", blocks)


def _foreground_block(
    rows: Sequence[Row], raters: Sequence[str], several: bool, two: str
) -> FigureBlock:
    figure = plots.skills(rows, ["sensitivity", "ppv"], raters=raters)
    bars = any(row["sensitivity_se"] is not None for row in rows)
    # A consensus that is one rater's doing, or what both drew, cannot rank the two.
    said = "Neither rater is judged by this: see above." if two else words.skill_sentence(rows)
    caption = (
        f"{said} Both are counted over all foreground of the written "
        "consensus: how much of it a rater draws"
        f"{' as the same class' if several else ''}, and how much of what a rater draws is in it."
        f"{' Bars are standard errors between cases.' if bars else ''}"
    )
    return FigureBlock("performance", figure, caption)


def _classes_blocks(
    files: FusionFiles,
    rows: list[Row],
    classes: Sequence[str],
    counts: Ints,
    raters: Sequence[str],
    names: Sequence[str],
) -> list[Block]:
    """Show measures of class labels: of the second of two classes, else the accuracy."""
    kept = [row for row in summary_rows(rows) if row["rater"] in set(names)]
    if not kept:
        return []
    if len(classes) == 2:
        figure = plots.skills(kept, ["sensitivity", "ppv", "specificity"], raters=raters)
        what = f"Measures of the class {classes[1]}."
    else:
        frequent = counts.sum(axis=(0, 2))
        weights = dict(zip(classes, frequent.tolist(), strict=True))
        title = "accuracy by the matrices"
        shown = [
            {**r, title: r["sensitivity"], f"{title}_se": r.get("sensitivity_se")} for r in kept
        ]
        figure = plots.skills(shown, [title], raters=raters, weights=weights)
        what = "The diagonal of each matrix, weighted by how frequent classes are: the accuracy."
    return [FigureBlock("performance", figure, f"{what} {_errors_are(files, rows)}")]


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """Leave out intervals, columns without any value, and errors where every case has its row."""
    names = dict.fromkeys(column for row in rows for column in row)
    hidden = ("_low", "_high", "_se") if "case" in names else ("_low", "_high")
    shown = [c for c in names if not c.endswith(hidden)]
    return [c for c in shown if any(row.get(c) is not None for row in rows)]


def _errors_are(files: FusionFiles, rows: list[Row]) -> str:
    if not files.rows:
        several = len({row.get("case") for row in rows}) > 1
        errors = ", with standard errors between cases" if several else ""
        return (
            f"The method {files.method} gives no matrices: this is counted against the consensus"
            f"{errors}."
        )
    if rows and "case" in rows[0]:
        if len({row["case"] for row in rows}) == 1:
            known = any(row.get("sensitivity_se") for row in rows)
            return f"Of one case{', with the standard errors of its fit' if known else ''}."
        return "Means over cases with their standard errors between cases."
    if not any(row.get("sensitivity_se") for row in rows):
        return "There are no standard errors."
    return "Bars are standard errors."


def report_without_study(files: FusionFiles, title: str, why_not: str) -> Report:
    """Show what the folder of a fusion holds, where its study is not there."""
    text = why_not or f"found no study of {files.folder}, expected --study STUDY"
    missing = "Outlines, borders and cases are not shown without it."
    blocks: list[Block] = [TextBlock(f"{text[:1].upper()}{text[1:]}. {missing}", "warning")]
    raters = list(dict.fromkeys(str(row["rater"]) for row in files.rows))
    classes = list(dict.fromkeys(str(row["class"]) for row in files.rows))
    summary = summary_rows(files.rows)
    if summary:
        figure = plots.skills(summary, ["sensitivity", "ppv", "specificity"])
        of = f"the class {classes[1]}" if len(classes) == 2 else "classes, which all count alike"
        caption = f"Measures of {of}. {_errors_are(files, files.rows)}"
        blocks.append(FigureBlock("performance", figure, caption))
        if files.confusion is not None and len(files.confusion) == len(raters):
            some = files.confusion[: most_matrices(len(classes))]
            caption = words.confusion_sentence(some, raters, classes)
            drawn = plots.confusion(some, classes, raters[: len(some)], rows="consensus")
            blocks.append(FigureBlock("confusion", drawn, caption))
        columns = shown_columns(files.rows)
        blocks.append(TableBlock("performance-of-raters", files.rows, "All measures.", columns))
    facts = {"method": files.method, "raters": len(raters) or None, "cases": len(files.cases)}
    return Report(title, facts, [Section("Performance", "", blocks)])
