"""The report of a fusion: raters against the consensus, who could be left out, which cases.

Masks and tables of class labels have the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from raters.assessment.against import (
    Compared,
    compare,
    counted_rows,
    far_cases,
    foreground_rows,
    pooled,
)
from raters.assessment.agreement_findings import minorities, minority_facts
from raters.assessment.fusion_findings import (
    border_errors,
    left_out,
    left_out_rows,
    mean_and_error,
    nearest,
)
from raters.consensus.read import FusionFiles, read_fusion
from raters.core.arrays import Floats
from raters.core.wording import ALL_RATERS, many
from raters.evaluation.sources import PredictedMasks
from raters.io.rows import Row
from raters.metrics.bootstrap import mean_sums
from raters.study.study import Study
from raters.views import plots
from raters.views.report.agreement import matrix_beside
from raters.views.report.blocks import (
    Block,
    First,
    Number,
    Report,
    Section,
    figure,
    note,
    section,
    table,
)
from raters.views.report.case_view import SHOWN, cases_block
from raters.views.report.first import CARDS, mean_number, picture_cards, short_section
from raters.views.report.labels import fused_report
from raters.views.report.performance import performance_section, report_without_study, scores_block
from raters.views.report.study import study_notes
from raters.views.report.viewer import free_name
from raters.views.texts.say import say, text_of

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
    """Make the report of a folder that `raters fuse` wrote, as `raters.report` says.

    Without the study only what the folder holds is shown, and `why_not` there is none.
    """
    files = read_fusion(folder)
    method = files.method + (", pooled" if files.pooled else "")
    about = {} if study is None else study.about
    title = about.get("title") or title or Path(folder).resolve().name
    title = f"{title}: consensus by {method}"
    if study is None:
        return report_without_study(files, title, why_not)
    notes = [*files.said_of(study), *study_notes(study)]
    facts: dict[str, object] = {"raters": len(study.raters), "folder": Path(folder).resolve().name}
    if study.kind == "classification":
        made = fused_report(files, study, notes)
        return replace(made, title=title, facts={"tasks": len(study), **facts})
    masks = PredictedMasks(folder, study)
    there = [case for case in study.cases if case in masks]
    refit, by = files.refit("segmentation", study.raters)
    found = compare(study, there, masks.read, refit, targets_of(study.classes.names), progress)
    fused = _Fused(study, files, found, by, masks)
    short = short_section(fused.findings(), [*notes, *fused.notes()])
    sections = [short, *fused.sections(), fused.cases(cases_shown, progress)]
    return Report(title, {"cases": len(there), **facts}, sections, first=fused.first())


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


def _mean(scores: Floats | None) -> float | None:
    """Return the mean of the scores that are known; None if none is."""
    if scores is None or not np.isfinite(scores).any():
        return None
    return float(np.nanmean(scores))


class _Fused:
    """Fused masks beside their raters; raters who are anonymous are taken as one.

    `found` has raters against the consensus, `by` is the method that raters were left out by.
    """

    def __init__(
        self, study: Study, files: FusionFiles, found: Compared, by: str, masks: PredictedMasks
    ) -> None:
        self.study = study
        self.files = files
        self.found = found
        self.masks = masks
        self.names = (ALL_RATERS,) if study.anonymous else study.raters
        self.shown = pooled(found) if study.anonymous else found
        dice = zip(self.names, self.shown.dice.T, strict=True)
        self.dice = {rater: mean_and_error(own) for rater, own in dice}
        self.means = {rater: mean for rater, (mean, _) in self.dice.items()}
        self.near = nearest(self.means)
        self.foreground = foreground_rows(self.shown.counts, self.names)
        self.two = len(study.raters) == 2 and not study.anonymous
        self.voted = None if files.method == "vote" else _mean(found.vote)
        size = found.counts.sum(axis=-1).max(axis=1)
        self.few = minorities(found.counts.sum(axis=-2) > 0, found.labelled, size)
        unit = "pixels" if found.flat else "voxels"
        self.minority = minority_facts(self.few, study, found.cases, unit)
        left = left_out_rows(study.raters, found.left_dice, found.left_change)
        self.left_rows = left if len(found.left_dice) and not study.anonymous else []
        sample = {"cases": len(found.left_dice), "all_cases": len(found.cases)}
        self.left = {**left_out(self.left_rows), "method": by, **sample}

    def findings(self) -> list[str]:
        kind = self.found.two
        method = self.files.method
        one = ""
        other = ""
        if self.two:
            one, other = self.study.raters[:2]
        borders = list(self.shown.borders.values())
        border = ""
        if borders and not (self.two and kind):
            ends = border_errors(self.foreground, borders[0])
            border = say("border", **ends, unit=self.shown.unit)
        right = _mean(self.found.reference)
        return [
            "" if self.voted is None else say("beside_vote", dice=right, voted=self.voted),
            say("two", kind=kind, method=method, one=one, other=other) if self.two else "",
            say("closeness", **self.near),
            say("minority", one=self.minority, followed=method),
            border,
            say("left_out", **self.left) if self.left_rows else "",
        ]

    def notes(self) -> list[str]:
        stopped = sum(not facts.get("converged", True) for facts in self.files.cases.values())
        notes = {"without a consensus mask": len(self.masks.missing), "did not converge": stopped}
        return [f"{many(number, 'case')} {what}" for what, number in notes.items() if number]

    def first(self) -> First:
        study = self.study
        found = self.found
        method = self.files.method
        assert found.pairs is not None
        groups = dict(zip(study.cases, study.index.groups, strict=True))
        own = [str(groups[case]) for case in found.cases]
        of = f"of {many(len(study.raters), 'rater')} over {many(len(found.cases), 'case')}"
        dice, pairs = (mean_sums(values).sum(axis=1) for values in (found.dice, found.pairs))
        numbers = [
            mean_number("mean Dice with the consensus", dice, own, of),
            mean_number("Dice between raters", pairs, own),
            Number("classes that a minority drew", f"{len(self.few)} of {len(study.classes) - 1}"),
        ]
        if found.reference is not None and np.isfinite(found.reference).any():
            right = mean_sums(found.reference)
            known = [mean_number("Dice with the reference", right, own)]
            if found.vote is not None and self.voted is not None:
                voted = mean_sums(found.vote)
                about = "of the same labels"
                known.append(mean_number("the vote's Dice with it", voted, own, about))
            numbers = [*known, *numbers]
        far = far_cases(found)
        names = study.raters if self.two else None
        anonymous = study.anonymous
        # What a vote says without a rater is no reason to act on another method's consensus.
        refitted = self.left["method"].startswith(method)
        same = self.left["alike"] or self.left["all_safe"]
        most = self.left["most"] if refitted and not same else None
        whom = {"most": most, "far": None if self.near["alike"] else self.near["far"]}
        actions = [
            say("act_far", first=[(row["case"], row["dice"]) for row in far[:3]]),
            say("act_follows", anonymous=anonymous, kind=found.two, names=names, **whom),
            say(
                "act_consensus",
                minority=self.minority,
                method=method,
                anonymous=anonymous,
                two=self.two,
            ),
        ]
        notes = {row["case"]: f"Dice {row['dice']:.2f}" for row in far[:CARDS]}
        cards = picture_cards(study, notes, lambda case: {CONSENSUS: self.masks.read(case)})
        matrix = matrix_beside(study, found.pairs, CONSENSUS, self.means)
        return First(numbers, matrix, cards, actions, text_of("first.cards-consensus", "title"))

    def sections(self) -> list[Section]:
        study = self.study
        found = self.found
        names = study.raters, study.classes.names, found.cases
        rows = self.files.rows or counted_rows(found.counts, *names)
        total = found.counts.sum(axis=0, dtype=np.int64)
        doubtful = [one["number"] for one in self.few if 2 * len(one["cases"]) > one["of"]]
        performance = performance_section(
            self.files, rows, total, study, None, self.foreground, doubtful, found.two
        )
        left = [] if study.anonymous else [self._left_out()]
        return [self._raters(), performance, self._borders(), *left]

    def _raters(self) -> Section:
        labelled = self.shown.labelled.sum(axis=0)
        rows: list[Row] = []
        for k, own in enumerate(self.foreground):
            row: Row = {"rater": own["rater"], "cases": int(labelled[k])}
            row["dice"], row["dice_se"] = self.dice[own["rater"]]
            rows.append({**row, **own})
        worst = sorted(rows, key=lambda row: 2.0 if row["dice"] is None else row["dice"])
        key = "fusion.raters-against-consensus"
        several = len(self.study.classes) > 2
        name = "fusion.dice-with-consensus"
        title = "Dice with the consensus"
        drawn = scores_block(name, rows, "dice", title, self.names, bars=len(self.found.cases) > 1)
        return section(key, table(key, rows, worst, several=several), drawn)

    def _borders(self) -> Section:
        found = self.shown
        blocks = list[Block]()
        sample = 0 if found.bordered == len(found.cases) else found.bordered
        for name, counts in found.borders.items():
            if counts.seen.any():
                of = {"name": name, "whole": name == ALL_FOREGROUND, "sample": sample}
                caption = text_of("fusion.borders", "caption", **of)
                drawn = plots.bias(counts, self.names, found.unit)
                blocks.append(figure(f"fusion.border-{name}", drawn, caption))
        return section("fusion.borders", *(blocks or [note("no_border")]))

    def _left_out(self) -> Section:
        rows = self.left_rows
        key = "fusion.without-each-rater"
        if not rows:
            return section(key, note("left_out_needs"))
        title = "Dice with and without"
        raters = self.study.raters
        drawn = scores_block("fusion.without-a-rater", rows, "dice", title, raters)
        return section(key, drawn, table(key, rows))

    def cases(self, shown: int, progress: bool) -> Section:
        study = self.study
        rows = far_cases(self.found, self.study.raters)
        name = free_name(CONSENSUS, study.raters)
        facts = {
            r["case"]: {k.replace("dice", "Dice", 1): v for k, v in r.items() if k != "case"}
            for r in rows
        }
        read = self.masks.read
        named = [case for case in facts if self.minority and case == self.minority["case"]]
        viewer = cases_block("fusion.cases", study, facts, {name: read}, progress, shown, named)
        dice = [column for column in rows[0] if column.startswith("dice ")] if rows else []
        columns = ["case", "dice", *dice[:8]] if rows else None
        cases = table("fusion.cases-by-distance", rows, columns=columns)
        return section("fusion.cases", viewer, cases)
