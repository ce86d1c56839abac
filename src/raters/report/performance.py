"""How far a fusion says that each rater can be trusted: measures with errors, and matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from raters import plots
from raters.arrays import Floats, Ints
from raters.confusion import normalise
from raters.report.blocks import (
    Block,
    FigureBlock,
    Report,
    Section,
    TextBlock,
    figure,
    section,
    table,
)
from raters.report.compare import summary_rows
from raters.report.findings import low_skills
from raters.report.fusion_files import FusionFiles
from raters.report.say import ALL_RATERS, in_line, say
from raters.rows import Row
from raters.study.study import Study

_MOST_CELLS = 300
_MOST_MATRICES = 16
_APART = 0.05


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
    everybody, classes = [ALL_RATERS], study.classes.names
    if study.anonymous:
        counts = counts.sum(axis=0, keepdims=True)
    else:
        everybody = list(study.raters)
    names = everybody if shown is None or study.anonymous else list(shown)
    blocks: list[Block] = []
    if foreground:
        drawn = plots.skills(foreground, ["sensitivity", "ppv"], raters=everybody)
        # A consensus that is one rater's doing, or what both drew, cannot rank the two.
        said = say("neither") if two else say("skill", **low_skills(foreground))
        bars = any(row["sensitivity_se"] is not None for row in foreground)
        caption = say("foreground", skill=said, several=len(classes) > 2, bars=bars)
        blocks.append(figure("fusion.performance", drawn, caption))
    elif not study.anonymous:
        blocks += _classes_blocks(files, rows, classes, counts, everybody, names)
    chosen = names[: most_matrices(len(classes))]
    estimated = None if study.anonymous else files.confusion_of(chosen)
    own = normalise(counts[[everybody.index(name) for name in chosen]])
    blocks.append(_matrices(estimated, own, chosen, classes, doubtful, len(everybody)))
    if not study.anonymous:
        how = "as the method estimates them" if files.rows else "against the consensus"
        by = "case, rater" if rows and "case" in rows[0] else "rater"
        columns, key = shown_columns(rows), "fusion.performance-of-raters"
        blocks.append(table(key, rows, columns=columns, how=how, by=by))
    return section("fusion.performance", blocks)


def _matrices(
    estimated: Floats | None,
    own: Floats | None,
    raters: Sequence[str],
    classes: Sequence[str],
    doubtful: Sequence[int] = (),
    everybody: int = 0,
) -> FigureBlock:
    """Show matrices, and the largest error; no rater is blamed for what `doubtful` classes are.

    Where estimated matrices and those counted against the written consensus differ, it is said.
    """
    picked = own if estimated is None else estimated
    assert picked is not None
    errors = np.array(picked, np.float64)
    errors[:, np.arange(len(classes)), np.arange(len(classes))] = np.nan
    errors[:, list(doubtful)] = np.nan
    worst, counted = None, None
    if (errors > 0).any():
        r, t, o = (int(k) for k in np.unravel_index(np.nanargmax(errors), errors.shape))
        share = float(errors[r, t, o])
        worst = (raters[r], classes[t], classes[o], share)
        differs = estimated is not None and own is not None and abs(own[r, t, o] - share) > _APART
        counted = float(own[r, t, o]) if differs and own is not None else None
    how = "counted over all cases" if estimated is None else "estimated by the method"
    most = {"shown": len(raters), "all": everybody}
    caption = say(
        "confusion", worst=worst, counted=counted, how=how if own is not None else "", **most
    )
    drawn = plots.confusion(picked, classes, raters, rows="consensus")
    return figure("fusion.confusion", drawn, caption)


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
        drawn = plots.skills(kept, ["sensitivity", "ppv", "specificity"], raters=raters)
        what = f"Measures of the class {classes[1]}."
    else:
        frequent = counts.sum(axis=(0, 2))
        weights = dict(zip(classes, frequent.tolist(), strict=True))
        title = "accuracy by the matrices"
        shown = [
            {**r, title: r["sensitivity"], f"{title}_se": r.get("sensitivity_se")} for r in kept
        ]
        drawn = plots.skills(shown, [title], raters=raters, weights=weights)
        what = "The diagonal of each matrix, weighted by how frequent classes are: the accuracy."
    return [figure("fusion.performance", drawn, in_line(what, _errors_are(files, rows)))]


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """Leave out intervals, columns without any value, and errors where every case has its row."""
    names = dict.fromkeys(column for row in rows for column in row)
    hidden = ("_low", "_high", "_se") if "case" in names else ("_low", "_high")
    shown = [c for c in names if not c.endswith(hidden)]
    return [c for c in shown if any(row.get(c) is not None for row in rows)]


def _errors_are(files: FusionFiles, rows: Sequence[Row]) -> str:
    cases = len({row.get("case") for row in rows})
    known = any(row.get("sensitivity_se") for row in rows)
    how = "counted"
    if files.rows:
        by_case = bool(rows) and "case" in rows[0]
        how = ("case" if cases == 1 else "cases") if by_case else ""
    return say("errors_are", how=how, method=files.method, several=cases > 1, known=known)


def report_without_study(files: FusionFiles, title: str, why_not: str) -> Report:
    """Show what the folder of a fusion holds, where its study is not there."""
    text = why_not or f"found no study of {files.folder}, expected --study STUDY"
    missing = "Outlines, borders and cases are not shown without it."
    blocks: list[Block] = [TextBlock(f"{text[:1].upper()}{text[1:]}. {missing}", "warning")]
    raters = list(dict.fromkeys(str(row["rater"]) for row in files.rows))
    classes = list(dict.fromkeys(str(row["class"]) for row in files.rows))
    if summary := summary_rows(files.rows):
        drawn = plots.skills(summary, ["sensitivity", "ppv", "specificity"])
        of = f"the class {classes[1]}" if len(classes) == 2 else "classes, which all count alike"
        caption = in_line(f"Measures of {of}.", _errors_are(files, files.rows))
        blocks.append(figure("fusion.performance", drawn, caption))
        if files.confusion is not None and len(files.confusion) == len(raters):
            some = files.confusion[: most_matrices(len(classes))]
            blocks.append(_matrices(some, None, raters[: len(some)], classes))
        key, columns = "fusion.performance-of-raters", shown_columns(files.rows)
        blocks.append(table(key, files.rows, columns=columns, how="", by=""))
    facts = {"method": files.method, "raters": len(raters) or None, "cases": len(files.cases)}
    return Report(title, facts, [section("fusion.performance", blocks)])
