"""The report of a fusion: raters against the consensus, who could be left out, which cases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from raters import plots
from raters.arrays import Floats, mean_known
from raters.evaluation.sources import PredictedMasks
from raters.report.agreement import case_bins
from raters.report.blocks import (
    Block,
    FigureBlock,
    First,
    Matrix,
    Number,
    Report,
    Section,
    TextBlock,
    figure,
    section,
    table,
)
from raters.report.case_view import SHOWN, cases_block
from raters.report.compare import Compared, compare, counted_rows, left_out_rows, pooled
from raters.report.findings import (
    border_errors,
    error_shares,
    foreground_rows,
    left_out,
    minorities,
    minority_facts,
    nearest,
    short_section,
)
from raters.report.first import CARDS, MOST_NAMES, agreement_matrix, mean_number, picture_cards
from raters.report.fusion_files import FusionFiles, read_fusion
from raters.report.performance import performance_section, report_without_study, scores_figure
from raters.report.say import ALL_RATERS, say, text_of
from raters.report.study import study_notes
from raters.report.viewer import free_name
from raters.rows import Row, known
from raters.study.case import Case
from raters.study.study import Study
from raters.wording import many

CONSENSUS = "consensus"
ALL_FOREGROUND = "all foreground"
_MOST_CLASSES = 4


def fusion_report(
    folder: str | Path,
    study: Study | None,
    why_not: str = "",
    cases_shown: int = SHOWN,
    progress: bool = False,
    title: str = "",
) -> Report:
    """Make the report of a folder that `raters fuse` wrote.

    Args:
        folder: The folder.
        study: The study that was fused; without it only what the folder holds is shown.
        why_not: Why there is no study.
        cases_shown: How many cases can be looked at: those raters differ on most.
        progress: Show progress bars.
        title: The name of the study.
    """
    files = read_fusion(folder)
    method = files.method + (", pooled" if files.pooled else "")
    about = {} if study is None else study.about
    title = about.get("title") or title or Path(folder).resolve().name
    title = f"{title}: consensus by {method}"
    if study is None:
        return report_without_study(files, title, why_not)
    if study.kind == "classification":
        from raters.report.fusion_labels import fused_parts

        cases = len(study)
        findings, notes, sections, first = fused_parts(files, study)
    else:
        masks = PredictedMasks(folder, study)
        there = [case for case in study.cases if case in masks]
        refit, by = files.refit("segmentation")
        found = compare(study, there, masks.read, refit, targets_of(study.classes.names), progress)
        fused = _Fused(study, files, found, by)
        cases, notes, findings = len(there), fused.notes(masks), fused.findings()
        sections = [*fused.sections(), _cases(study, found, masks, cases_shown, progress)]
        first = fused.first(masks)
    what = "cases" if study.kind == "segmentation" else "tasks"
    facts = {what: cases, "raters": len(study.raters), "folder": Path(folder).resolve().name}
    return Report(title, facts, [short_section(findings, notes), *sections], first=first)


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


class _Fused:
    """Fused masks beside their raters; raters who are anonymous are taken as one.

    Args:
        study: The study.
        files: What the folder says.
        found: Raters against the consensus.
        by: The method that raters were left out by.
    """

    def __init__(self, study: Study, files: FusionFiles, found: Compared, by: str) -> None:
        self.study, self.files, self.found = study, files, found
        self.names = (ALL_RATERS,) if study.anonymous else study.raters
        self.shown = pooled(found) if study.anonymous else found
        means = mean_known(self.shown.dice, np.isfinite(self.shown.dice) & self.shown.labelled)
        self.dice = {rater: known(mean) for rater, mean in zip(self.names, means, strict=True)}
        self.two = len(study.raters) == 2 and not study.anonymous
        size = found.counts.sum(axis=-1).max(axis=1)
        self.few = minorities(found.counts.sum(axis=-2) > 0, found.labelled, size)
        unit = "voxels" if found.flat is False else "pixels"
        self.minority = minority_facts(self.few, study, found.cases, unit)
        left = left_out_rows(study.raters, found.left_dice, found.left_change)
        self.left_rows = left if len(found.left_dice) and not study.anonymous else []
        sample = {"cases": len(found.left_dice), "all_cases": len(found.cases)}
        self.left = {**left_out(self.left_rows), "method": by, **sample}

    def findings(self) -> list[str]:
        kind, method = self.found.two, self.files.method
        one, other = self.study.raters[:2] if self.two else ("", "")
        return [
            say("two", kind=kind, method=method, one=one, other=other) if self.two else "",
            say("closeness", **nearest(self.dice)),
            say("minority", one=self.minority, followed=method),
            "" if self.two and kind else self._border(),
            say("left_out", **self.left) if self.left_rows else "",
        ]

    def notes(self, masks: PredictedMasks) -> list[str]:
        notes = [*self.files.said_of(self.study), *study_notes(self.study)]
        if masks.missing:
            notes.append(f"{many(len(masks.missing), 'case')} without a consensus mask")
        stopped = sum(not facts.get("converged", True) for facts in self.files.cases.values())
        return [*notes, f"{many(stopped, 'case')} did not converge"] if stopped else notes

    def first(self, masks: PredictedMasks) -> First:
        study, found = self.study, self.found
        groups = dict(zip(study.cases, study.index.groups, strict=True))
        own = [str(groups[case]) for case in found.cases]
        dice = np.where(found.labelled, found.dice, np.nan)
        pairs = f"of {many(len(study.raters), 'rater')} over {many(len(found.cases), 'case')}"
        numbers = [mean_number("mean Dice with the consensus", _sums(dice), own, pairs)]
        assert found.pairs is not None
        numbers.append(mean_number("Dice between raters", _sums(found.pairs), own))
        minority = f"{len(self.few)} of {len(study.classes) - 1}"
        numbers.append(Number("classes that a minority drew", minority))
        far = far_cases(found)
        names = study.raters if self.two else None
        near = nearest(self.dice)
        most = None if self.left["alike"] or self.left["all_safe"] else self.left["most"]
        whom = {"most": most, "far": None if near["alike"] else near["far"]}
        actions = [
            say("act_far", first=[(row["case"], row["dice"]) for row in far[:3]]),
            say("act_follows", anonymous=study.anonymous, kind=found.two, names=names, **whom),
            say("act_consensus", minority=self.minority, method=self.files.method),
        ]
        notes = {row["case"]: f"Dice {row['dice']:.2f}" for row in far[:CARDS]}
        cards = picture_cards(study, notes, partial(_consensus_of, masks=masks))
        return First(numbers, self._matrix(), cards, actions, "Farthest from the consensus (white)")

    def _matrix(self) -> Matrix | None:
        assert self.found.pairs is not None
        if self.study.anonymous:
            dice = mean_known(self.found.pairs, np.isfinite(self.found.pairs), axis=1)
            return case_bins(dice[np.isfinite(dice)].tolist())
        raters, means = self.study.raters, mean_known(self.found.pairs)
        couples = combinations(raters, 2)
        pairs: list[Row] = [
            {"rater_a": a, "rater_b": b, "dice": known(d)}
            for (a, b), d in zip(couples, means.tolist(), strict=True)
        ]
        name = free_name(CONSENSUS, raters)
        pairs += [{"rater_a": name, "rater_b": r, "dice": self.dice[r]} for r in raters]
        ordered = sorted(raters, key=lambda r: self.dice[r] or 0.0)[: MOST_NAMES - 1]
        about = "Raters farthest from the consensus come first."
        return agreement_matrix(pairs, [*ordered, name], raters, "dice", "Dice of each pair", about)

    def sections(self) -> list[Section]:
        study, found = self.study, self.found
        foreground = foreground_rows(self.shown.counts, self.names)
        rows = self.files.rows or counted_rows(found, study.raters, study.classes.names)
        total = found.counts.sum(axis=0, dtype=np.int64)
        doubtful = [one["number"] for one in self.few if 2 * len(one["cases"]) > one["of"]]
        performance = performance_section(
            self.files, rows, total, study, None, foreground, doubtful, found.two
        )
        left = [] if study.anonymous else [self._left_out()]
        return [self._raters(foreground), performance, self._borders(), *left]

    def _raters(self, foreground: Sequence[Row]) -> Section:
        found, labelled = self.shown, self.shown.labelled.sum(axis=0)
        spread = standard_errors(np.where(found.labelled, found.dice, np.nan))
        rows: list[Row] = []
        for k, own in enumerate(foreground):
            row: Row = {"rater": own["rater"], "cases": int(labelled[k])}
            row |= {"dice": self.dice[own["rater"]], "dice_se": known(spread[k])}
            rows.append({**row, **own})
        worst = sorted(rows, key=lambda row: 2.0 if row["dice"] is None else row["dice"])
        several = found.counts.shape[-1] > 2
        blocks: list[Block] = [
            table("fusion.raters-against-consensus", rows, worst, several=several)
        ]
        if any(row["dice"] is not None for row in rows):
            drawn = scores_figure(rows, "dice", "Dice with the consensus", self.names)
            bars = len(found.cases) > 1
            blocks.append(figure("fusion.dice-with-consensus", drawn, bars=bars))
        return section("fusion.raters-against-consensus", blocks)

    def _border(self) -> str:
        if not self.shown.borders:
            return ""
        shares = error_shares(self.shown.counts, self.names)
        first = next(iter(self.shown.borders.values()))
        return say("border", **border_errors(shares, first, self.names), unit=self.shown.unit)

    def _borders(self) -> Section:
        found, blocks = self.shown, list[Block]()
        sample = "" if found.bordered == len(found.cases) else f", on {found.bordered:,} cases"
        for name, counts in found.borders.items():
            if counts.seen.any():
                what = name if name == ALL_FOREGROUND else f"the class {name}"
                caption = text_of("fusion.borders", "caption", what=what, sample=sample)
                drawn = plots.bias(counts, self.names, found.unit)
                blocks.append(FigureBlock(f"border-{name}", drawn, caption))
        if not blocks:
            blocks = [TextBlock("The consensus has no foreground: there is no border.", "note")]
        return section("fusion.borders", blocks)

    def _left_out(self) -> Section:
        rows = self.left_rows
        blocks: list[Block] = []
        if not rows:
            blocks = [TextBlock("Leave-one-out needs at least three raters.", "note")]
        if any(row["dice"] is not None for row in rows):
            drawn = scores_figure(rows, "dice", "Dice with and without", self.study.raters)
            blocks.append(figure("fusion.without-a-rater", drawn))
        blocks += [table("fusion.without-each-rater", rows)] if rows else []
        return section("fusion.without-each-rater", blocks)


def _sums(values: Floats) -> Floats:
    """Return what a mean over cases and columns is the ratio of, `(cases, 2)`."""
    exist = np.isfinite(values)
    return np.stack([np.where(exist, values, 0.0).sum(axis=1), exist.sum(axis=1)], axis=1)


def standard_errors(values: Floats) -> Floats:
    """Return the standard error of the mean over rows; NaN with fewer than two values."""
    exist = np.isfinite(values)
    number = exist.sum(axis=0)
    squares = np.where(exist, (values - mean_known(values)) ** 2, 0.0).sum(axis=0)
    errors = np.sqrt(squares / np.maximum(number - 1, 1) / np.maximum(number, 1))
    return np.where(number > 1, errors, np.nan)


def far_cases(found: Compared, raters: Sequence[str] = ()) -> list[Row]:
    """Return cases with a mean Dice of raters with the consensus, the lowest first."""
    dice = np.where(found.labelled, found.dice, np.nan)
    rows: list[Row] = []
    for case, own in zip(found.cases, dice, strict=True):
        there = own[np.isfinite(own)]
        row: Row = {"case": case, "dice": float(there.mean()) if there.size else None}
        rows.append(row | {f"dice {r}": known(own[k]) for k, r in enumerate(raters)})
    rows.sort(key=lambda row: (row["dice"] is None, row["dice"] or 0.0))
    return rows if raters else [row for row in rows if row["dice"] is not None]


def _consensus_of(case: Case, masks: PredictedMasks, name: str = CONSENSUS) -> dict[str, Any]:
    return {name: masks.read(case)}


def _cases(
    study: Study, found: Compared, masks: PredictedMasks, shown: int, progress: bool
) -> Section:
    rows = far_cases(found, study.raters)
    blocks: list[Block] = []
    name = free_name(CONSENSUS, study.raters)
    if rows and shown:
        facts = {
            row["case"]: {k.replace("dice", "Dice", 1): v for k, v in row.items() if k != "case"}
            for row in rows
        }
        caption, names = text_of("fusion.cases", "caption"), list(facts)
        read = partial(_consensus_of, masks=masks, name=name)
        block = cases_block(study, names, facts, caption, read, [name], progress, shown=shown)
        blocks.append(block)
    columns = ["case", "dice", *[c for c in rows[0] if c.startswith("dice ")][:8]] if rows else None
    blocks.append(table("fusion.cases-by-distance", rows, columns=columns))
    return section("fusion.cases", blocks)
