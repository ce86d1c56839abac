"""The report of a fusion of masks: raters against the consensus, and who could be left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from raters import plots
from raters.arrays import Floats, mean_known
from raters.evaluation.sources import PredictedMasks
from raters.report import fusion_words as words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.case_view import SHOWN, cases_block
from raters.report.compare import Compared, compare, counted_rows, pooled
from raters.report.fusion_files import (
    FusionFiles,
    performance_section,
    read_fusion,
    report_without_study,
    scores_figure,
)
from raters.report.fusion_words import ALL_RATERS, two_sentence
from raters.report.leave_out import (
    Minority,
    foreground_rows,
    left_out_rows,
    minorities,
    minority_sentence,
)
from raters.report.study import study_notes
from raters.report.tables import heads
from raters.report.viewer import free_name
from raters.report.words import notes_block, short_section
from raters.rows import Row, known
from raters.study.study import Study, many

CONSENSUS = "consensus"
ALL_FOREGROUND = "all foreground"
_MOST_CLASSES = 4


def fusion_report(
    folder: str | Path,
    study: Study | None,
    why_not: str = "",
    cases_shown: int = SHOWN,
    progress: bool = False,
) -> Report:
    """Make the report of a folder that `raters fuse` wrote.

    Args:
        folder: The folder.
        study: The study that was fused; without it only what the folder holds is shown.
        why_not: Why there is no study.
        cases_shown: How many cases can be looked at: those raters differ on most.
        progress: Show progress bars.
    """
    files = read_fusion(folder)
    name = Path(folder).resolve().name
    if study is None:
        return report_without_study(files, f"Consensus {name}", why_not)
    title = f"Consensus: {study.about.get('title') or name}"
    if study.kind == "classification":
        from raters.report.fusion_table import table_fusion_report

        return table_fusion_report(files, study, title)
    masks = PredictedMasks(folder, study)
    cases = [case for case in study.cases if case in masks]
    refit, by = files.refit("segmentation")
    found = compare(study, cases, masks.read, refit, targets_of(study.classes.names), progress)
    dice = found.dice[np.isfinite(found.dice)]
    rows = files.rows or counted_rows(found, study.raters, study.classes.names)
    total = found.counts.sum(axis=0, dtype=np.int64)
    names, shown = (study.raters, found) if not study.anonymous else ((ALL_RATERS,), pooled(found))
    foreground = foreground_rows(shown.counts, names)
    doubtful = [one.number for one in few_drew(found) if 2 * len(one.cases) > one.of]
    performance = performance_section(
        files, rows, study.classes.names, total, study, None, foreground, doubtful, found.two
    )
    findings = _findings(study, found, shown, files, by)
    sections = [
        short_section(findings, _notes(study, masks, files)),
        _raters(names, shown, foreground),
        performance,
        _borders(names, shown),
        *([] if study.anonymous else [_left_out(study, found, by)]),
        _cases(study, found, masks, cases_shown, progress),
    ]
    facts: dict[str, object] = {"cases": len(cases), "raters": len(study.raters)}
    facts["method"] = files.method + (", pooled" if files.pooled else "")
    facts["mean Dice with the consensus"] = float(dice.mean()) if dice.size else None
    return Report(title, facts, sections)


def targets_of(classes: Sequence[str]) -> dict[str, int | None]:
    """Return the classes to measure distances for: all foreground, and each of a few.

    Example:
        >>> targets_of(["background", "lesion"]), targets_of(["background", "a", "b"])
        ({'lesion': 1}, {'all foreground': None, 'a': 1, 'b': 2})
    """
    numbers: dict[str, int | None] = {c: k for k, c in enumerate(classes) if k}
    if len(numbers) == 1:
        return numbers
    few = dict(list(numbers.items())[:_MOST_CLASSES])
    return {ALL_FOREGROUND: None, **few}


def _findings(
    study: Study, found: Compared, shown: Compared, files: FusionFiles, by: str
) -> list[str]:
    names: Sequence[str] = (ALL_RATERS,) if study.anonymous else study.raters
    ranked = len(found.left_dice) and not study.anonymous
    left = _left_words(study, found, by) if ranked else ""
    two = len(study.raters) == 2 and not study.anonymous
    return [
        two_sentence(found.two, files.method, study.raters) if two else "",
        words.closeness_sentence(_mean_dice(names, shown)),
        _minority_words(study, found, files.method),
        "" if two and found.two else _border_words(names, shown),
        left,
    ]


def few_drew(found: Compared) -> list[Minority]:
    """Return the classes that the consensus has although a minority drew them."""
    size = found.counts.sum(axis=-1).max(axis=1)
    return minorities(found.counts.sum(axis=-2) > 0, found.labelled, size)


def _minority_words(study: Study, found: Compared, method: str) -> str:
    """Return where the consensus has a class that only a minority drew."""
    few = few_drew(found)
    names = () if study.anonymous else study.raters
    unit = "voxels" if found.flat is False else "pixels"
    return minority_sentence(few, found.cases, names, study.classes.names, unit, method)


def _notes(study: Study, masks: PredictedMasks, files: FusionFiles) -> TextBlock | None:
    notes = [*files.said_of(study), *study_notes(study)]
    if masks.missing:
        notes.append(f"{many(len(masks.missing), 'case')} without a consensus mask")
    stopped = sum(not facts.get("converged", True) for facts in files.cases.values())
    if stopped:
        notes.append(f"{many(stopped, 'case')} did not converge")
    return notes_block(notes)


def _mean_dice(raters: Sequence[str], found: Compared) -> dict[str, float | None]:
    means = mean_known(found.dice, np.isfinite(found.dice) & found.labelled)
    return {rater: known(mean) for rater, mean in zip(raters, means, strict=True)}


def _raters(raters: Sequence[str], found: Compared, foreground: Sequence[Row]) -> Section:
    dice, labelled = _mean_dice(raters, found), found.labelled.sum(axis=0)
    spread = _standard_errors(np.where(found.labelled, found.dice, np.nan))
    rows: list[Row] = []
    for k, own in enumerate(foreground):
        row: Row = {"rater": own["rater"], "cases": int(labelled[k]), "dice": dice[own["rater"]]}
        rows.append({**row, "dice_se": known(spread[k]), **own})
    caption = words.closeness_sentence(dice)
    error = "standard error" if len(found.cases) > 1 else None
    other = "another class" if found.counts.shape[-1] > 2 else None
    ratios = {"sensitivity": "sensitivity", "ppv": "PPV", "beyond": "drawn beyond"}
    dice_ = {"dice": "mean Dice", "dice_se": error}
    columns = heads("rater", "cases", **dice_, **ratios, missed="missed", other=other)
    blocks: list[Block] = []
    if any(row["dice"] is not None for row in rows):
        figure = scores_figure(rows, "dice", "Dice with the consensus", raters)
        bars = " Bars are standard errors between cases." if error else ""
        blocks.append(FigureBlock("dice-with-consensus", figure, f"{caption}{bars}"))
    about = (
        "Of the foreground of the consensus over all cases: the share that the rater draws "
        "(sensitivity), misses, and draws beyond it. PPV (positive predictive value) is the share "
        "of what the rater draws that is in the consensus."
    )
    blocks.append(TableBlock("raters-against-consensus", rows, about, columns))
    return Section("Raters and consensus", "How close raters are to the consensus.", blocks)


def _standard_errors(values: Floats) -> Floats:
    """Return the standard error of the mean over rows; NaN with fewer than two values."""
    exist = np.isfinite(values)
    number = exist.sum(axis=0)
    squares = np.where(exist, (values - mean_known(values)) ** 2, 0.0).sum(axis=0)
    errors = np.sqrt(squares / np.maximum(number - 1, 1) / np.maximum(number, 1))
    return np.where(number > 1, errors, np.nan)


def _border_words(raters: Sequence[str], found: Compared) -> str:
    if not found.borders:
        return ""
    shares = words.error_shares(found.counts, raters)
    first = next(iter(found.borders.values()))
    return words.border_sentence(shares, first, raters, found.unit)


def _borders(raters: Sequence[str], found: Compared) -> Section:
    blocks: list[Block] = []
    sample = "" if found.bordered == len(found.cases) else f", on {found.bordered:,} cases"
    for k, (name, counts) in enumerate(found.borders.items()):
        if counts.seen.any():
            what = name if name == ALL_FOREGROUND else f"the class {name}"
            caption = f"The share that each rater calls {what}, by distance to its border{sample}. "
            caption += _border_words(raters, found) if k == 0 and not found.two else ""
            figure = plots.bias(counts, raters, found.unit)
            blocks.append(FigureBlock(f"border-{name}", figure, caption.strip()))
    if not blocks:
        blocks = [TextBlock("The consensus has no foreground: there is no border.", "note")]
    about = (
        "Where raters draw too much (above the step, to the right) or too little (below the step, "
        "to the left)."
    )
    return Section("Over- and under-drawing", about, blocks)


def _left_words(study: Study, found: Compared, by: str) -> str:
    rows = left_out_rows(study.raters, found.left_dice, found.left_change)
    return words.left_out_sentence(rows, by, len(found.left_dice), len(found.cases))


def _left_out(study: Study, found: Compared, by: str) -> Section:
    about = "How the consensus changes when one rater is left out."
    if not len(found.left_dice):
        text = "Leave-one-out needs at least three raters."
        return Section("Without a rater", about, [TextBlock(text, "note")])
    rows = left_out_rows(study.raters, found.left_dice, found.left_change)
    caption = _left_words(study, found, by)
    blocks: list[Block] = []
    if any(row["dice"] is not None for row in rows):
        figure = scores_figure(rows, "dice", "Dice with and without", study.raters)
        blocks.append(FigureBlock("without-a-rater", figure, caption))
    error = "standard error" if len(found.left_dice) > 1 else None
    dice = {"dice": "Dice with and without", "dice_se": error}
    columns = heads(rater="left out", cases="cases", **dice, volume_change="change of volume")
    more = "A consensus that grows without a rater (change above 0) was held back by that rater."
    blocks.append(TableBlock("without-each-rater", rows, more, columns))
    return Section("Without a rater", about, blocks)


def _cases(
    study: Study, found: Compared, masks: PredictedMasks, shown: int, progress: bool
) -> Section:
    dice = np.where(found.labelled, found.dice, np.nan)
    rows: list[Row] = []
    for case, own in zip(found.cases, dice, strict=True):
        there = own[np.isfinite(own)]
        row: Row = {"case": case, "dice": float(there.mean()) if there.size else None}
        row |= {f"dice {r}": known(own[k]) for k, r in enumerate(study.raters)}
        rows.append(row)
    rows.sort(key=lambda row: (row["dice"] is None, row["dice"] or 0.0))
    blocks: list[Block] = []
    name = free_name(CONSENSUS, study.raters)
    if rows and shown:
        facts = {
            row["case"]: {k.replace("dice", "Dice", 1): v for k, v in row.items() if k != "case"}
            for row in rows
        }
        caption = (
            "Cases whose raters are farthest from the consensus come first: see whether you would "
            "follow the consensus (white, dashed) there."
        )
        block = cases_block(
            study,
            list(facts),
            facts,
            caption,
            lambda case: {name: masks.read(case)},
            [name],
            progress,
            shown=shown,
        )
        blocks.append(block)
    caption = "All cases; the first ones are those to look at."
    columns = ["case", "dice", *[c for c in rows[0] if c.startswith("dice ")][:8]] if rows else None
    blocks.append(TableBlock("cases-by-distance", rows, caption, columns))
    return Section("Cases", "Where the consensus and the raters differ.", blocks)
