"""The report of a study of masks: who labelled what, who agrees, who draws more, which cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raters import plots
from raters.plots.sizes import relative_volumes
from raters.report import words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.cases import SHOWN, cases_block
from raters.report.measure import Measured, measured, of_all
from raters.report.minority import minorities, minority_sentence
from raters.report.notes import notes_block, short_section
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.study import Study

_ANONYMOUS = (
    "Raters are anonymous: a name in one case and in the next may be different people, so all "
    "raters are taken together and not ranked"
)
MOST_RATERS = 40
"""How many raters a figure shows at most: those with most cases."""


def study_report(
    study: Study, title: str = "", cases_shown: int = SHOWN, progress: bool = False
) -> Report:
    """Make the report of a study; tables of class labels have one of their own.

    Args:
        study: The study.
        title: The heading of the page.
        cases_shown: How many of the most disputed cases can be looked at.
        progress: Show progress bars.

    Example:
        >>> from raters.simulate import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=3, shape=(32, 32)), "good,over,under")
        >>> report = study_report(study)
        >>> [section.title for section in report.sections]
        ['In short', 'Raters', 'Agreement', 'Volumes', 'Cases']
    """
    if study.kind == "classification":
        from raters.report.study_table import table_report

        return table_report(study, title)
    if len(study.raters) < 2:
        return _without_pairs(study, title, cases_shown, progress)
    found = measured(study, progress)
    sections = [
        _raters(study, found),
        _agreement(study, found),
        _volumes(study, found),
        _cases(study, found, cases_shown, progress),
    ]
    if study.anonymous:
        sections[:3] = [_one_of_all(found), _volumes(study, found)]
    notes = notes_block([*found.agreement.notes, *study_notes(study)])
    return Report(
        study.about.get("title") or title or "Study",
        facts_of(study, found),
        [short_section(_findings(study, found), notes), *sections],
    )


def facts_of(study: Study, found: Measured | None) -> dict[str, object]:
    """Return the cards at the top."""
    names = study.classes.names[1:] if study.kind == "segmentation" else study.classes.names
    few = len(names) <= 4 and sum(map(len, names)) < 40
    facts: dict[str, object] = {
        "cases" if study.kind == "segmentation" else "tasks": len(study),
        "raters": len(study.raters),
        "classes": ", ".join(names) if few else len(names),
    }
    if found is not None:
        overall = of_all(found.agreement.overall)[0]
        facts |= {
            "labelled by each": words.percent(float(found.labelled.mean())),
            "mean pairwise Dice": overall["dice"],
            "Krippendorff's alpha": overall["krippendorff_alpha"],
        }
    return facts


def study_notes(study: Study) -> list[str]:
    """Return what has to be said of a study beside any result from it."""
    said = "anonymous" in study.about.get("note", "")
    who = [_ANONYMOUS] if study.anonymous and not said else []
    return [*who, *study.notes, *([study.about["note"]] if "note" in study.about else [])]


def _findings(study: Study, found: Measured) -> list[str]:
    agreement = found.agreement
    texts = [_volumes_words(study, found)]
    if not study.anonymous:
        rows = of_all(agreement.raters)
        texts.append(words.pairs_sentence(of_all(agreement.pairs), rows, "dice", "Dice"))
    return [*texts, _minority_words(study, found), words.cases_sentence(agreement.cases)]


def _volumes_words(study: Study, found: Measured) -> str:
    if study.anonymous:
        return words.spread_sentence(found.volumes)
    return words.volumes_sentence(_ratios(study, found))


def _minority_words(study: Study, found: Measured) -> str:
    few = minorities(found.by_class > 0, found.labelled, found.by_class.max(axis=1))
    names = () if study.anonymous else study.raters
    return minority_sentence(few, study.cases, names, study.classes.names, found.unit)


def _ratios(study: Study, found: Measured) -> dict[str, float]:
    return words.typical_ratios(relative_volumes(found.volumes), study.raters)


def _raters(study: Study, found: Measured) -> Section:
    ratios = _ratios(study, found)
    rows = []
    for row in of_all(found.agreement.raters):
        kept = {k: v for k, v in row.items() if k != "class"}
        kept["labelled"] = row["cases"] / len(study)
        kept["typical_ratio"] = ratios.get(row["rater"])
        rows.append(kept)
    alone = int((found.labelled.sum(axis=1) < 2).sum())
    caption = (
        f"{words.coverage_sentence(rows, len(study), alone)} 'Vote' is that of the other raters, "
        "'ratio' the typical size over that of the others."
    )
    columns = {
        "rater": "rater",
        "cases": "cases",
        "labelled": "labelled",
        "dice_rest": "Dice to vote",
        "kappa_rest": "kappa to vote",
        "volume": f"{found.size_name} ({found.unit})",
        "typical_ratio": "ratio to others",
    }
    return Section(
        "Raters",
        "Who labelled how much, and how each compares with what most of the others say.",
        [TableBlock("raters", rows, caption, columns)],
    )


def _one_of_all(found: Measured) -> Section:
    """Return the agreement of raters who cannot be told apart: no pairs, no names."""
    overall = found.agreement.overall
    alpha = words.alpha_sentence(of_all(overall)[0]["krippendorff_alpha"])
    number = found.labelled.sum(axis=1)
    rows: list[Row] = [
        {"raters of a case": int(n), "cases": int((number == n).sum())} for n in np.unique(number)
    ]
    blocks: list[Block] = [
        TableBlock("agreement-by-class", overall, alpha),
        TableBlock("raters-of-a-case", rows, "How many raters labelled a case."),
    ]
    return Section("Agreement", "How far the raters of a case agree.", blocks)


def _agreement(study: Study, found: Measured) -> Section:
    agreement = found.agreement
    pairs = of_all(agreement.pairs)
    shown = most_labelled(of_all(agreement.raters), study.raters)
    caption = words.pairs_sentence(pairs, of_all(agreement.raters), "dice", "Dice")
    blocks: list[Block] = []
    if any(pair["dice"] is not None for pair in pairs):
        order: plots.pairs.Order = "clustered" if len(shown) > 8 else "given"
        figure = plots.agreement(agreement, shown, order=order)
        blocks.append(FigureBlock("agreement", figure, caption + _left(study, shown)))
    if len(agreement.overall) > 1:
        low = _hardest_class(agreement.overall)
        blocks.append(TableBlock("agreement-by-class", agreement.overall, low))
    alpha = of_all(agreement.overall)[0]["krippendorff_alpha"]
    several = len(agreement.overall) > 1
    columns = [
        "rater_a",
        "rater_b",
        "cases",
        *(["class"] if several else []),
        "dice",
        "iou",
        "kappa",
    ]
    blocks.append(TableBlock("pairs", agreement.pairs, words.alpha_sentence(alpha), columns))
    return Section("Agreement", "Who agrees with whom.", blocks)


def most_labelled(rows: list[Row], raters: tuple[str, ...], most: int = MOST_RATERS) -> list[str]:
    """Return the raters with most cases, in the order of the study."""
    number = {row["rater"]: row["labels"] if "labels" in row else row["cases"] for row in rows}
    kept = sorted(raters, key=lambda r: -number.get(r, 0))[:most]
    return [r for r in raters if r in set(kept)]


def _left(study: Study, shown: list[str]) -> str:
    if len(shown) == len(study.raters):
        return ""
    return f" Shown are the {len(shown)} of {len(study.raters):,} raters with most cases."


def _hardest_class(rows: list[Row]) -> str:
    known = [row for row in rows[:-1] if row["dice"] is not None]
    if not known:
        return "No class was drawn by two raters."
    low = min(known, key=lambda row: float(row["dice"]))
    return words.begin(
        f"{words.named(low['class'], 'class')} is what raters agree on least (Dice "
        f"{low['dice']:.2f}): "
        "say in the guideline how it differs from its neighbours."
    )


def _volumes(study: Study, found: Measured) -> Section:
    blocks: list[Block] = []
    if np.isfinite(relative_volumes(found.volumes)).any():
        figure = plots.volumes(study, measured=found.volumes, together=study.anonymous)
        dot = "mask" if study.anonymous else "case"
        caption = f"A dot is a {dot}, a box the middle half of them. {_volumes_words(study, found)}"
        blocks.append(FigureBlock("volumes", figure, caption))
    else:
        blocks.append(TextBlock("No case was labelled wholly by two raters.", "note"))
    about = "Who draws more, and who less, than the other raters of the same case."
    if study.anonymous:
        about = "How far sizes differ between the raters of a case."
    return Section("Volumes", about, blocks)


def _cases(study: Study, found: Measured, shown: int, progress: bool) -> Section:
    rows = found.agreement.cases
    sizes = dict(zip(study.cases, found.sizes.tolist(), strict=True))
    table = [{**row, "size": sizes[row["case"]]} for row in rows]
    blocks: list[Block] = []
    dice = np.array([np.nan if r["dice"] is None else r["dice"] for r in rows])
    ordered = np.array([sizes[r["case"]] for r in rows])
    if (np.isfinite(dice) & np.isfinite(ordered)).any():
        figure = plots.difficulty(found.agreement, sizes, f"mean {found.size_name} ({found.unit})")
        blocks.append(FigureBlock("difficulty", figure, words.size_sentence(ordered, dice)))
    first = [row["case"] for row in rows[:shown]]
    if first:
        facts = {r["case"]: {"Dice": r["dice"], "differing": r["differing"]} for r in rows[:shown]}
        caption = (
            f"{words.cases_sentence(rows)} The map shows where; each outline can be switched off."
        )
        blocks.append(cases_block(study, first, facts, caption, progress=progress))
    by_group = any(row["group"] != row["case"] for row in rows)
    columns = {
        "case": "case",
        **({"group": "group"} if by_group else {}),
        "raters": "raters",
        "dice": "mean Dice",
        "differing": "differing",
        "entropy": "entropy",
        "size": f"{found.size_name} ({found.unit})",
    }
    caption = (
        "All cases, the most disputed first: give the first ones to another rater. 'Differing' is "
        "the share of pixels that raters differ on, 'entropy' (in bits) the mean over pixels."
    )
    blocks.append(TableBlock("cases-by-disagreement", table, caption, columns))
    return Section("Cases", "Which cases are hard, and what raters see in them.", blocks)


def _without_pairs(study: Study, title: str, shown: int, progress: bool) -> Report:
    """Make the report of a study with one rater, or none: there is nothing to compare."""
    who = f"only the rater {study.raters[0]}" if study.raters else "no raters"
    warning = TextBlock(f"Found {who}, expected at least two to compare.", "warning")
    first = list(study.cases[:shown])
    caption = "The first cases of the study."
    block = cases_block(study, first, {}, caption, progress=progress) if first else warning
    sections = [Section("Cases", "", [warning, *([block] if first else [])])]
    title = study.about.get("title") or title or "Study"
    return Report(title, facts_of(study, None), sections)
