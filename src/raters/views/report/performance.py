"""How far a fusion says that each rater can be trusted: measures with errors, and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raters.assessment.against import summary_rows
from raters.assessment.fusion_findings import low_skills
from raters.consensus.read import FusionFiles
from raters.core.arrays import Floats, Ints
from raters.core.wording import ALL_RATERS
from raters.io.rows import Row
from raters.metrics.confusion import normalise
from raters.study.study import Study
from raters.views import plots
from raters.views.report.blocks import (
    Block,
    FigureBlock,
    Report,
    Section,
    figure,
    note,
    section,
    table,
)
from raters.views.texts.say import say

_MOST_CELLS = 300
_MOST_MATRICES = 16
_APART = 0.05


def scores_block(
    key: str,
    rows: Sequence[Row],
    score: str,
    title: str,
    raters: Sequence[str],
    **values: Any,  # noqa: ANN401
) -> Block | None:
    """Draw a score of each rater with its error, under a name in words; None if there is none.

    Colours go by the order of `raters`, all those of the study.
    """
    if all(row[score] is None for row in rows):
        return None
    shown = [
        {"rater": r["rater"], "class": "", title: r[score], f"{title}_se": r.get(f"{score}_se")}
        for r in rows
    ]
    return figure(key, plots.skills(shown, [title], raters=raters), **values)


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
    classes = study.classes.names
    everybody = [ALL_RATERS] if study.anonymous else list(study.raters)
    counts = counts.sum(axis=0, keepdims=True) if study.anonymous else counts
    names = everybody if shown is None or study.anonymous else list(shown)
    skills = None
    if foreground:
        drawn = plots.skills(foreground, ["sensitivity", "ppv"], raters=everybody)
        # A consensus that is one rater's doing, or what both drew, cannot rank the two.
        said = say("neither") if two else say("skill", **low_skills(foreground))
        bars = any(row["sensitivity_se"] is not None for row in foreground)
        caption = say("foreground", skill=said, several=len(classes) > 2, bars=bars)
        skills = figure("fusion.performance", drawn, caption)
    elif not study.anonymous:
        skills = _classes_block(files, rows, classes, counts, everybody, names)
    chosen = names[: most_matrices(len(classes))]
    estimated = None if study.anonymous else files.confusion_of(chosen)
    own = normalise(counts[[everybody.index(name) for name in chosen]])
    doubtful = range(len(classes)) if two else doubtful
    matrices = _matrices(estimated, own, chosen, classes, doubtful, len(everybody))
    measures = None if study.anonymous else _table(files, rows)
    return section("fusion.performance", skills, matrices, measures)


def _table(files: FusionFiles, rows: Sequence[Row]) -> Block:
    """Show all measures but intervals and empty columns, and errors where cases have rows."""
    names = dict.fromkeys(column for row in rows for column in row)
    hidden = ("_low", "_high", "_se") if "case" in names else ("_low", "_high")
    shown = [c for c in names if not c.endswith(hidden)]
    columns = [c for c in shown if any(row.get(c) is not None for row in rows)]
    of: Row = {"estimated": bool(files.rows), "by_case": "case" in names}
    return table("fusion.performance-of-raters", rows, columns=columns, **of)


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
    worst: tuple[str, str, str, float] | tuple[()] | None = () if len(doubtful) else None
    counted = None
    how = ""
    if own is not None:
        how = "counted" if estimated is None else "estimated"
    if (errors > 0).any():
        place = np.unravel_index(np.nanargmax(errors), errors.shape)
        r, t, o = map(int, place)
        share = float(errors[place])
        worst = (raters[r], classes[t], classes[o], share)
        if how == "estimated" and own is not None and abs(own[place] - share) > _APART:
            counted = float(own[place])
    of = {"how": how, "shown": len(raters), "all": everybody}
    caption = say("confusion", worst=worst, counted=counted, **of)
    drawn = plots.confusion(picked, classes, raters, rows="consensus")
    return figure("fusion.confusion", drawn, caption)


def _classes_block(
    files: FusionFiles,
    rows: list[Row],
    classes: Sequence[str],
    counts: Ints,
    raters: Sequence[str],
    names: Sequence[str],
) -> FigureBlock | None:
    """Show measures of class labels: of the second of two classes, else the accuracy."""
    kept = [row for row in summary_rows(rows) if row["rater"] in set(names)]
    if not kept:
        return None
    if len(classes) == 2:
        drawn = plots.skills(kept, ["sensitivity", "ppv", "specificity"], raters=raters)
    else:
        weights = dict(zip(classes, counts.sum(axis=(0, 2)).tolist(), strict=True))
        title = "accuracy by the matrices"
        shown = [
            {**r, title: r["sensitivity"], f"{title}_se": r.get("sensitivity_se")} for r in kept
        ]
        drawn = plots.skills(shown, [title], raters=raters, weights=weights)
    caption = _measures_said(files, rows, classes, weighted=True)
    return figure("fusion.performance", drawn, caption)


def _measures_said(
    files: FusionFiles, rows: Sequence[Row], classes: Sequence[str], weighted: bool
) -> str:
    """Say what measures are of, and what their errors are."""
    cases = len({row.get("case") for row in rows})
    known = any(row.get("sensitivity_se") for row in rows)
    how = "counted"
    if files.rows:
        by_case = bool(rows) and "case" in rows[0]
        how = ""
        if by_case:
            how = "case" if cases == 1 else "cases"
    of = {"only": classes[1] if len(classes) == 2 else None, "weighted": weighted}
    return say("measures", **of, how=how, method=files.method, several=cases > 1, known=known)


def report_without_study(files: FusionFiles, title: str, why_not: str) -> Report:
    """Show what the folder of a fusion holds, where its study is not there."""
    missing = note("no_fused_study", "warning", why=why_not, folder=str(files.folder))
    blocks: list[Block] = [missing]
    raters = list(dict.fromkeys(str(row["rater"]) for row in files.rows))
    classes = list(dict.fromkeys(str(row["class"]) for row in files.rows))
    summary = summary_rows(files.rows)
    if summary:
        drawn = plots.skills(summary, ["sensitivity", "ppv", "specificity"])
        caption = _measures_said(files, files.rows, classes, weighted=False)
        blocks.append(figure("fusion.performance", drawn, caption))
        if files.confusion is not None and len(files.confusion) == len(raters):
            some = files.confusion[: most_matrices(len(classes))]
            blocks.append(_matrices(some, None, raters[: len(some)], classes))
        blocks.append(_table(files, files.rows))
    facts = {"method": files.method, "raters": len(raters) or None, "cases": len(files.cases)}
    return Report(title, facts, [section("fusion.performance", *blocks)])
