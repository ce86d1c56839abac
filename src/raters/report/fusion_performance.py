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


def scores_figure(rows: Sequence[Row], score: str, title: str) -> Figure:
    """Draw one score of each rater with its error, under a name in words."""
    shown = [
        {"rater": r["rater"], "class": "", title: r[score], f"{title}_se": r.get(f"{score}_se")}
        for r in rows
    ]
    return plots.skills(shown, [title])


def most_matrices(classes: int) -> int:
    """Give how many matrices a figure shows: fewer where they are large.

    Example:
        >>> most_matrices(2), most_matrices(8), most_matrices(100)
        (16, 4, 4)
    """
    return max(4, min(_MOST_MATRICES, _MOST_CELLS // classes**2))


def performance_section(
    files: FusionFiles,
    rows: list[Row],
    classes: Sequence[str],
    counts: NDArray[np.int64],
    study: Study,
    shown: Sequence[str] | None = None,
) -> Section:
    """Show sensitivity and more of each rater with error bars, and confusion matrices.

    `counts` `(raters, L, L)` are shown where the method has no matrices for all cases together.
    """
    names = list(study.raters if shown is None else shown)
    summary = summary_rows(rows)
    kept = [row for row in summary if row["rater"] in set(names)]
    blocks: list[Block] = []
    if kept:
        figure = plots.skills(kept, ["sensitivity", "ppv", "specificity"])
        caption = f"{words.skill_sentence(kept, classes)} {_errors_are(files, rows)}"
        blocks.append(FigureBlock("performance", figure, caption))
    chosen = names[: most_matrices(len(classes))]
    estimated = files.confusion_of(chosen)
    own = counts[[study.raters.index(name) for name in chosen]]
    picked = normalise(own) if estimated is None else estimated
    how = "counted over all cases" if estimated is None else "estimated by the method"
    caption = f"{words.confusion_sentence(picked, chosen, classes)} Matrices are {how}."
    if len(chosen) < len(study.raters):
        caption += f" Shown are {len(chosen)} of {len(study.raters):,} raters."
    blocks.append(FigureBlock("confusion", plots.confusion(picked, classes, chosen), caption))
    what = "by case, rater and class" if rows and "case" in rows[0] else "by rater and class"
    blocks.append(
        TableBlock("performance-of-raters", rows, f"All measures, {what}.", shown_columns(rows))
    )
    return Section("Performance", "How far each rater can be trusted.", blocks)


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
        caption = f"{words.skill_sentence(summary, classes)} {_errors_are(files, files.rows)}"
        blocks.append(FigureBlock("performance", figure, caption))
        if files.confusion is not None and len(files.confusion) == len(raters):
            some = files.confusion[: most_matrices(len(classes))]
            caption = words.confusion_sentence(some, raters, classes)
            drawn = plots.confusion(some, classes, raters[: len(some)])
            blocks.append(FigureBlock("confusion", drawn, caption))
        columns = shown_columns(files.rows)
        blocks.append(TableBlock("performance-of-raters", files.rows, "All measures.", columns))
    facts = {"method": files.method, "raters": len(raters) or None, "cases": len(files.cases)}
    return Report(title, facts, [Section("Performance", "", blocks)])
