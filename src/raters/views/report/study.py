"""The report of a study: who labelled what, who agrees with whom, and what raters differ on.

Masks and tables of class labels have the same parts; `labels.py` has those of class labels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from raters.assessment import agreement_findings
from raters.core.wording import many
from raters.study.study import Study
from raters.views import plots
from raters.views.report.agreement import agreement_matrix, agreement_section, alpha_number
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
from raters.views.report.labels import table_report
from raters.views.texts.say import say


def study_report(
    study: Study, title: str = "", cases_shown: int = SHOWN, progress: bool = False
) -> Report:
    """Make the report of a study of masks or of class labels, as `raters.report` says.

    Example:
        >>> from raters.simulation import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=3, shape=(32, 32)), "good,over,under")
        >>> report = study_report(study)
        >>> [section.title for section in report.sections]
        ['In short', 'Raters', 'Agreement', 'Volumes', 'Cases']
    """
    drawn = study.drawn
    study = study.without_negatives()
    title = study.about.get("title") or title or "Study"
    notes = study_notes(study)
    if len(study.raters) < 2:
        return _without_pairs(study, title, cases_shown, notes if drawn else [])
    if study.kind == "classification":
        made = table_report(study, notes)
    else:
        made = _mask_report(study, notes, cases_shown, progress)
    return replace(made, title=title, facts=facts_of(study))


def facts_of(study: Study) -> dict[str, object]:
    """Return the line at the top."""
    masks = study.kind == "segmentation"
    names = study.classes.names[1:] if masks else study.classes.names
    few = len(names) <= 4 and sum(map(len, names)) < 40
    facts: dict[str, object] = {
        "cases" if masks else "tasks": len(study),
        "raters": len(study.raters),
        "classes": ", ".join(names) if few else len(names),
    }
    return facts if masks else facts | {"labels": len(study.triplets.label)}


def study_notes(study: Study) -> list[str]:
    """Return what a report says of a study beside any result from it."""
    said = "anonymous" in study.about.get("note", "")
    who = [say("anonymous")] if study.anonymous and not said else []
    return [*who, *study.all_notes()]


def _mask_report(study: Study, notes: Sequence[str], shown: int, progress: bool) -> Report:
    found = agreement_findings.measured(study, progress)
    agreement = found.agreement
    anonymous = study.anonymous
    ratios = agreement_findings.typical_ratios(
        agreement_findings.relative_volumes(found.volumes), study.raters
    )
    few = agreement_findings.minorities(
        found.by_class > 0, found.labelled, found.by_class.max(axis=1)
    )
    minority = agreement_findings.minority_facts(few, study, study.cases, found.unit)
    draws = agreement_findings.who_draws(ratios)
    ends = agreement_findings.pair_ends(agreement)
    disputed = agreement_findings.disputed_cases(agreement.cases)
    short = [
        say("spread", **agreement_findings.spread(found.volumes))
        if anonymous
        else say("volumes", **draws),
        "" if anonymous else say("pairs", **ends),
        say("minority", one=minority, followed=""),
        say("cases", **disputed),
    ]
    rest = [
        r["dice_rest"]
        for r in agreement_findings.of_all(agreement.raters)
        if r["dice_rest"] is not None
    ]
    alike = (min(rest), max(rest)) if rest else None
    two = study.raters[0] if len(study.raters) == 2 else None
    who = {"more": draws["more"], "less": draws["less"], "two": draws["other"] or two}
    hardest = agreement_findings.hardest_class(agreement)
    actions = [
        say("act_cases", first=disputed["first"]),
        say("act_rater", apart=ends["apart"], anonymous=anonymous, alike=alike, **who),
        say("act_class", minority=minority, low=hardest, anonymous=anonymous, two=two is not None),
    ]
    pairs = len(study.raters) * (len(study.raters) - 1) // 2
    of = f"of {many(pairs, 'pair')} of raters over {many(len(study), 'case')}"
    numbers = [
        mean_number("mean pairwise Dice", found.pairs, list(study.index.groups), of),
        alpha_number(agreement_findings.of_all(agreement.overall)[0]["krippendorff_alpha"]),
        Number("cases below Dice 0.5", f"{disputed['low']:,} of {disputed['known']:,}"),
    ]
    best = agreement.cases[:CARDS]
    cards = {r["case"]: f"Dice {r['dice']:.2f}" for r in best if r["dice"] is not None}
    matrix = agreement_matrix(study, agreement)
    first = First(numbers, matrix, picture_cards(study, cards), actions)
    sections = [
        short_section(short, [*agreement.notes, *notes]),
        *([] if anonymous else [_raters(study, found, ratios)]),
        agreement_section(study, agreement, found.labelled),
        _volumes(study, found),
        _cases(study, found, shown, progress, [minority["case"]] if minority else []),
    ]
    return Report("", {}, sections, first=first)


def _raters(
    study: Study, found: agreement_findings.Measured, ratios: Mapping[str, float]
) -> Section:
    rows = []
    for row in agreement_findings.of_all(found.agreement.raters):
        kept = {k: v for k, v in row.items() if k != "class"}
        if study.drawn:
            kept["annotation"] = study.annotations[row["rater"]]
        kept["labelled"] = row["cases"] / len(study)
        kept["typical_ratio"] = ratios.get(row["rater"])
        rows.append(kept)
    number = sorted((int(row["cases"]), str(row["rater"])) for row in rows)
    few = [one for one in number if one[0] < len(study) / 2]
    alone = int((found.labelled.sum(axis=1) < 2).sum())
    every = bool(number) and number[0][0] == len(study)
    caption = say("coverage", every=every, few=few, cases=len(study), alone=alone)
    worst = sorted(rows, key=lambda row: 2.0 if row["dice_rest"] is None else row["dice_rest"])
    return section("study.raters", table("study.raters", rows, worst, caption, size=found.size))


def _volumes(study: Study, found: agreement_findings.Measured) -> Section:
    shown: Block = note("no_volumes")
    if np.isfinite(agreement_findings.relative_volumes(found.volumes)).any():
        drawn = plots.volumes(study, measured=found.volumes, together=study.anonymous)
        shown = figure("study.volumes", drawn, anonymous=study.anonymous)
    return section("study.volumes", shown, anonymous=study.anonymous)


def _cases(
    study: Study,
    found: agreement_findings.Measured,
    shown: int,
    progress: bool,
    named: Sequence[str],
) -> Section:
    sizes = dict(zip(study.cases, found.sizes.tolist(), strict=True))
    rows = [{**row, "size": sizes[row["case"]]} for row in found.agreement.cases]
    facts = {r["case"]: {"Dice": r["dice"], "differing": r["differing"]} for r in rows}
    by_group = any(row["group"] != row["case"] for row in rows)
    shown_rows = rows if by_group else [{**row, "group": None} for row in rows]
    dice, size = (np.array([row[name] for row in rows], np.float64) for name in ("dice", "size"))
    hard = None
    if (np.isfinite(dice) & np.isfinite(size)).any():
        drawn = plots.difficulty(found.agreement, sizes, f"mean {found.size}")
        hard = figure(
            "study.difficulty", drawn, say("size", rank=agreement_findings.size_rank(size, dice))
        )
    return section(
        "study.cases",
        cases_block("study.cases", study, facts, {}, progress, shown, named),
        table("study.cases-by-disagreement", rows, shown_rows, size=found.size),
        hard,
    )


def _without_pairs(study: Study, title: str, shown: int, notes: Sequence[str]) -> Report:
    """Make the report of a study with one rater, or none: there is nothing to compare."""
    masks = study.kind == "segmentation"
    blocks = [note("no_pairs", "warning", raters=study.raters), *short_section([], notes).blocks]
    facts: dict[str, dict[str, object]] = {case: {} for case in study.cases if masks}
    viewer = cases_block("study.cases-in-order", study, facts, shown=shown)
    if viewer is not None:
        blocks.append(viewer)
    return Report(title, facts_of(study), [Section("Cases" if masks else "Raters", "", blocks)])
