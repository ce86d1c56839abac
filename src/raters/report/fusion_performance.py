"""How far each rater of a fusion can be trusted: measures with errors, and confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raters import plots
from raters.confusion import normalise
from raters.report import fusion_words as words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.compare import summary_rows
from raters.report.fusion_files import FusionFiles
from raters.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from raters.study.study import Study

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
    counts: NDArray[np.int64],
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
        caption = f"All measures{_of_what(files)}, {_by(rows)}."
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
    counts: NDArray[np.int64],
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


def _of_what(files: FusionFiles) -> str:
    return " as the method estimates them" if files.rows else " against the consensus"


def _by(rows: Sequence[Row]) -> str:
    return "by case, rater and class" if rows and "case" in rows[0] else "by rater and class"


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
