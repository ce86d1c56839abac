"""The report of a study: who labelled what, who agrees with whom, and what raters differ on.

Masks and tables of class labels have the same parts; `labels.py` has those of class labels alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raters import plots
from raters.agreement.agree import Agreement
from raters.agreement.case import CaseAgreement
from raters.agreement.masks import mask_agreement, with_mean
from raters.arrays import Flags, Floats, mean_known
from raters.plots.sizes import relative_volumes
from raters.report.agreement import agreement_section, alpha_number, case_bins
from raters.report.blocks import (
    Block,
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
from raters.report.findings import (
    disputed_cases,
    minorities,
    minority_facts,
    of_all,
    short_section,
    size_rank,
    standing_apart,
    typical_ratios,
    who_draws,
)
from raters.report.first import CARDS, agreement_matrix, mean_number, picture_cards
from raters.report.say import say
from raters.rows import Row
from raters.study.study import Study
from raters.wording import many

_EQUAL = 0.02
_ANONYMOUS = (
    "Raters are anonymous: a name in one case and in the next may be different people, so all "
    "raters are taken together and not ranked"
)


@dataclass(frozen=True)
class Measured:
    """What a report says of a study of masks.

    Attributes:
        agreement: What `raters.agree` gives.
        volumes: The foreground that each rater drew, `(cases, raters)`; NaN where unknown.
        labelled: Who labelled anything, `(cases, raters)`.
        unit: Of the volumes, as `Geometry.volume_unit`.
        by_class: What each rater drew of each class, `(cases, raters, L)`.
        pairs: The summed Dice of the pairs of each case, and their number, `(cases, 2)`.
        flat: Whether cases have two axes.
    """

    agreement: Agreement
    volumes: Floats
    labelled: Flags
    unit: str
    by_class: Floats
    pairs: Floats
    flat: bool = False

    @property
    def size(self) -> str:
        """What sizes are called: 'volume (mm³)', or 'area (pixels)' of flat cases."""
        return f"{'area' if self.flat else 'volume'} ({self.unit})"

    @property
    def sizes(self) -> Floats:
        """The mean over raters of what they drew, by case; NaN where unknown."""
        return mean_known(self.volumes, axis=1)


def measured(study: Study, progress: bool = False) -> Measured:
    """Read all cases once.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1]]])
        >>> found = measured(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
        >>> found.volumes.tolist(), found.pairs.tolist(), found.unit
        ([[3.0, 2.0]], [[0.8, 1.0]], 'pixels')
    """
    kept: list[tuple[Floats, Flags, Floats, Floats]] = []

    def keep(case: CaseAgreement) -> None:
        drawn = case.volumes[:, 1:].sum(axis=1) * case.voxel
        dice = with_mean(case.dice)[:, -1]
        pairs = np.array([np.nansum(dice), np.isfinite(dice).sum()], np.float64)
        volumes = np.where(case.complete, drawn, np.nan)
        kept.append((volumes, case.labelled, np.asarray(case.volumes * case.voxel), pairs))

    agreement = mask_agreement(study, progress=progress, seen=keep)
    unit = study[0].geometry.volume_unit if len(study) else "pixels"
    flat = len(study) > 0 and len(study[0].geometry.shape) == 2
    volumes, labelled, by_class, pairs = (np.array(part) for part in zip(*kept, strict=True))
    return Measured(agreement, volumes, labelled, unit, by_class, pairs, flat)


def study_report(
    study: Study, title: str = "", cases_shown: int = SHOWN, progress: bool = False
) -> Report:
    """Make the report of a study of masks or of class labels.

    Args:
        study: The study.
        title: The heading of the page; by default the study's name.
        cases_shown: How many of the most disputed cases can be looked at.
        progress: Show progress bars.

    Example:
        >>> from raters.simulate import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=3, shape=(32, 32)), "good,over,under")
        >>> report = study_report(study)
        >>> [section.title for section in report.sections]
        ['In short', 'Raters', 'Agreement', 'Volumes', 'Cases']
    """
    drawn, study = study.drawn, study.without_negatives()
    title = study.about.get("title") or title or "Study"
    if len(study.raters) < 2:
        return _without_pairs(study, title, cases_shown, drawn)
    if study.kind == "classification":
        from raters.report.labels import table_parts

        findings, notes, sections, first = table_parts(study)
    else:
        found = measured(study, progress)
        notes, findings = found.agreement.notes, _findings(study, found)
        sections = [_volumes(study, found), _cases(study, found, cases_shown, progress)]
        if not study.anonymous:
            sections.insert(0, _raters(study, found))
        sections.insert(-2, agreement_section(study, found.agreement, found.labelled))
        first = _first(study, found)
    short = short_section(findings, [*notes, *study_notes(study)])
    return Report(title, facts_of(study), [short, *sections], first=first)


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
    """Return what has to be said of a study beside any result from it."""
    said = "anonymous" in study.about.get("note", "")
    who = [_ANONYMOUS] if study.anonymous and not said else []
    facts = [study.about["note"]] if "note" in study.about else []
    return [*who, *study.notes, *study.readings(), *facts]


def _minority(study: Study, found: Measured) -> Row | None:
    few = minorities(found.by_class > 0, found.labelled, found.by_class.max(axis=1))
    return minority_facts(few, study, study.cases, found.unit)


def _hardest(found: Measured) -> Row | None:
    known = [row for row in found.agreement.overall[:-1] if row["dice"] is not None]
    return min(known, key=lambda row: float(row["dice"])) if known else None


def _findings(study: Study, found: Measured) -> list[str]:
    agreement = found.agreement
    known = sorted((p for p in of_all(agreement.pairs) if p["dice"] is not None),
                   key=lambda p: float(p["dice"]))  # fmt: skip
    low, high = (known[0], known[-1]) if known else (None, None)
    alike = bool(known) and known[-1]["dice"] - known[0]["dice"] < _EQUAL
    apart = standing_apart(of_all(agreement.raters))
    high = high if len(known) > 1 else None
    pairs = "" if study.anonymous else say("pairs", low=low, high=high, alike=alike, apart=apart)
    minority = say("minority", one=_minority(study, found), followed="")
    return [_sizes(study, found), pairs, minority, say("cases", **disputed_cases(agreement.cases))]


def _sizes(study: Study, found: Measured) -> str:
    if not study.anonymous:
        return say("volumes", **who_draws(_ratios(study, found)))
    volumes = found.volumes[np.isfinite(found.volumes).sum(axis=1) > 1]
    low, high = np.nanmin(volumes, axis=1), np.nanmax(volumes, axis=1)
    both = low > 0
    ratio = float(np.median(high[both] / low[both])) if both.any() else None
    empty = int(((low == 0) & (high > 0)).sum())
    return say("spread", cases=len(volumes), ratio=ratio, empty=empty)


def _ratios(study: Study, found: Measured) -> dict[str, float]:
    return typical_ratios(relative_volumes(found.volumes), study.raters)


def _first(study: Study, found: Measured) -> First:
    agreement, rows = found.agreement, found.agreement.cases
    pairs = len(study.raters) * (len(study.raters) - 1) // 2
    of = f"of {many(pairs, 'pair')} of raters over {many(len(study), 'case')}"
    dice = mean_number("mean pairwise Dice", found.pairs, list(study.index.groups), of)
    alpha = of_all(agreement.overall)[0]["krippendorff_alpha"]
    known = disputed_cases(rows)
    numbers = [dice, alpha_number(alpha)]
    numbers.append(Number("cases below Dice 0.5", f"{known['low']:,} of {known['known']:,}"))
    apart = standing_apart(of_all(agreement.raters))
    draws = who_draws(_ratios(study, found))
    two = study.raters[0] if len(study.raters) == 2 else None
    rest = [r["dice_rest"] for r in of_all(agreement.raters) if r["dice_rest"] is not None]
    alike = f"{min(rest):.2f} to {max(rest):.2f}" if rest else ""
    who = {"more": draws["more"], "less": draws["less"], "two": draws["other"] or two}
    actions = [
        say("act_cases", first=known["first"]),
        say("act_rater", apart=apart, anonymous=study.anonymous, alike=alike, **who),
        say(
            "act_class",
            minority=_minority(study, found),
            low=_hardest(found),
            anonymous=study.anonymous,
        ),
    ]
    notes = {r["case"]: f"Dice {r['dice']:.2f}" for r in rows[:CARDS] if r["dice"] is not None}
    return First(numbers, _matrix(study, agreement), picture_cards(study, notes), actions)


def _matrix(study: Study, agreement: Agreement) -> Matrix | None:
    if study.anonymous:
        return case_bins([row["dice"] for row in agreement.cases if row["dice"] is not None])
    apart = {row["rater"]: row["dice_rest"] or 0.0 for row in of_all(agreement.raters)}
    names = sorted(study.raters, key=lambda name: apart[name])
    about = "Raters who agree least with the others come first."
    pairs = of_all(agreement.pairs)
    return agreement_matrix(pairs, names, study.raters, "dice", "Dice of each pair", about)


def _raters(study: Study, found: Measured) -> Section:
    ratios = _ratios(study, found)
    rows = []
    for row in of_all(found.agreement.raters):
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
    return section("study.raters", [table("study.raters", rows, worst, caption, size=found.size)])


def _volumes(study: Study, found: Measured) -> Section:
    blocks: list[Block] = [TextBlock("No case was labelled wholly by two raters.", "note")]
    if np.isfinite(relative_volumes(found.volumes)).any():
        drawn = plots.volumes(study, measured=found.volumes, together=study.anonymous)
        blocks = [figure("study.volumes", drawn, anonymous=study.anonymous)]
    return section("study.volumes", blocks, anonymous=study.anonymous)


def _cases(study: Study, found: Measured, shown: int, progress: bool) -> Section:
    rows = found.agreement.cases
    sizes = dict(zip(study.cases, found.sizes.tolist(), strict=True))
    table_rows = [{**row, "size": sizes[row["case"]]} for row in rows]
    blocks: list[Block] = []
    dice = np.array([np.nan if r["dice"] is None else r["dice"] for r in rows])
    ordered = np.array([sizes[r["case"]] for r in rows])
    if rows and shown:
        facts = {r["case"]: {"Dice": r["dice"], "differing": r["differing"]} for r in rows}
        caption = "'Differences' shows where raters differ."
        block = cases_block(study, list(facts), facts, caption, progress=progress, shown=shown)
        blocks.append(block)
    by_group = any(row["group"] != row["case"] for row in rows)
    shown_rows = table_rows if by_group else [{**row, "group": None} for row in table_rows]
    blocks.append(table("study.cases-by-disagreement", table_rows, shown_rows, size=found.size))
    if (np.isfinite(dice) & np.isfinite(ordered)).any():
        drawn = plots.difficulty(found.agreement, sizes, f"mean {found.size}")
        rank = size_rank(ordered, dice)
        blocks.append(figure("study.difficulty", drawn, say("size", rank=rank)))
    return section("study.cases", blocks)


def _without_pairs(study: Study, title: str, shown: int, drawn: bool) -> Report:
    """Make the report of a study with one rater, or none: there is nothing to compare."""
    who = f"only the rater {study.raters[0]}" if study.raters else "no raters"
    blocks: list[Block] = [TextBlock(f"Found {who}, expected at least two to compare.", "warning")]
    masks = study.kind == "segmentation"
    blocks += short_section([], study_notes(study) if drawn else []).blocks
    if masks and study.cases and shown:
        caption = "The cases in the order of the study."
        blocks.append(cases_block(study, list(study.cases), {}, caption, shown=shown))
    return Report(title, facts_of(study), [Section("Cases" if masks else "Raters", "", blocks)])
