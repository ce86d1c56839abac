"""The report of a study of masks: who labelled what, who agrees, who draws more, which cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raters import plots
from raters.agreement.agree import ALL, Agreement
from raters.agreement.case import CaseAgreement
from raters.agreement.masks import mask_agreement
from raters.arrays import Flags, Floats, mean_known
from raters.plots.sizes import relative_volumes
from raters.report import words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.case_view import SHOWN, cases_block
from raters.report.leave_out import minorities, minority_sentence
from raters.report.tables import heads
from raters.rows import Row
from raters.study.study import Study


@dataclass(frozen=True)
class Measured:
    """What a report says of a study of masks.

    Attributes:
        agreement: What `raters.agree` gives.
        volumes: The foreground that each rater drew, `(cases, raters)`; NaN where unknown.
        labelled: Who labelled anything, `(cases, raters)`.
        unit: Of the volumes, as `Geometry.volume_unit`.
        by_class: What each rater drew of each class, `(cases, raters, L)`.
        flat: Whether cases have two axes.
    """

    agreement: Agreement
    volumes: Floats
    labelled: Flags
    unit: str
    by_class: Floats
    flat: bool = False

    @property
    def size_name(self) -> str:
        """What sizes are called: 'volume', or 'area' of flat cases."""
        return "area" if self.flat else "volume"

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
        >>> found.volumes.tolist(), found.agreement.cases[0]["dice"], found.unit
        ([[3.0, 2.0]], 0.8, 'pixels')
    """
    volumes: list[Floats] = []
    labelled: list[Flags] = []
    by_class: list[Floats] = []

    def keep(case: CaseAgreement) -> None:
        drawn = case.volumes[:, 1:].sum(axis=1) * case.voxel
        volumes.append(np.where(case.complete, drawn, np.nan))
        labelled.append(case.labelled)
        by_class.append(np.asarray(case.volumes * case.voxel, np.float64))

    agreement = mask_agreement(study, progress=progress, seen=keep)
    unit = study[0].geometry.volume_unit if len(study) else "pixels"
    flat = len(study) > 0 and len(study[0].geometry.shape) == 2
    per_class = np.array(by_class)
    return Measured(agreement, np.array(volumes), np.array(labelled), unit, per_class, flat)


def of_all(rows: list[Row]) -> list[Row]:
    """Keep the rows over all classes."""
    return [row for row in rows if row.get("class", ALL) == ALL]


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
    drawn, study = study.drawn, study.without_negatives()
    if len(study.raters) < 2:
        notes = words.notes_block(study_notes(study) if drawn else [])
        return _without_pairs(study, title, cases_shown, progress, notes)
    found = measured(study, progress)
    sections = [
        _raters(study, found),
        _agreement(study, found),
        _volumes(study, found),
        _cases(study, found, cases_shown, progress),
    ]
    if study.anonymous:
        sections[:3] = [_one_of_all(found), _volumes(study, found)]
    notes = words.notes_block([*found.agreement.notes, *study_notes(study)])
    return Report(
        study.about.get("title") or title or "Study",
        facts_of(study, found),
        [words.short_section(_findings(study, found), notes), *sections],
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
    facts = [study.about["note"]] if "note" in study.about else []
    return [*who, *study.notes, *study.readings(), *facts]


def _findings(study: Study, found: Measured) -> list[str]:
    agreement = found.agreement
    texts = [_volumes_words(study, found)]
    if not study.anonymous:
        rows = of_all(agreement.raters)
        texts.append(words.pairs_sentence(of_all(agreement.pairs), rows))
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
        if study.drawn:
            kept["annotation"] = study.annotations[row["rater"]]
        kept["labelled"] = row["cases"] / len(study)
        kept["typical_ratio"] = ratios.get(row["rater"])
        rows.append(kept)
    alone = int((found.labelled.sum(axis=1) < 2).sum())
    caption = (
        f"{words.coverage_sentence(rows, len(study), alone)} 'Vote' is that of the other raters, "
        "'ratio' the typical size over that of the others."
    )
    vote = {"dice_rest": "Dice to vote", "kappa_rest": "kappa to vote"}
    size = f"{found.size_name} ({found.unit})"
    kind = ["annotation"] if study.drawn else []
    columns = heads(
        "rater", *kind, "cases", "labelled", **vote, volume=size, typical_ratio="ratio to others"
    )
    about = "Who labelled how much, and how each compares with what most of the others say."
    return Section("Raters", about, [TableBlock("raters", rows, caption, columns)])


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
    caption = words.pairs_sentence(pairs, of_all(agreement.raters))
    blocks: list[Block] = []
    if any(pair["dice"] is not None for pair in pairs):
        order: plots.pairs.Order = "clustered" if len(shown) > 8 else "given"
        figure = plots.agreement(agreement, shown, order=order)
        caption += words.only_most(shown, study.raters, "cases")
        blocks.append(FigureBlock("agreement", figure, caption))
    if len(agreement.overall) > 1:
        low = _hardest_class(agreement.overall)
        blocks.append(TableBlock("agreement-by-class", agreement.overall, low))
    alpha = of_all(agreement.overall)[0]["krippendorff_alpha"]
    several = len(agreement.overall) > 1
    by_class = ["class"] if several else []
    columns = ["rater_a", "rater_b", "cases", *by_class, "dice", "iou", "kappa"]
    blocks.append(TableBlock("pairs", agreement.pairs, words.alpha_sentence(alpha), columns))
    return Section("Agreement", "Who agrees with whom.", blocks)


def most_labelled(rows: list[Row], raters: tuple[str, ...], most: int = MOST_RATERS) -> list[str]:
    """Return the raters with most cases, in the order of the study."""
    number = {row["rater"]: row["labels"] if "labels" in row else row["cases"] for row in rows}
    kept = sorted(raters, key=lambda r: -number.get(r, 0))[:most]
    return [r for r in raters if r in set(kept)]


def _hardest_class(rows: list[Row]) -> str:
    known = [row for row in rows[:-1] if row["dice"] is not None]
    if not known:
        return "No class was drawn by two raters."
    low = min(known, key=lambda row: float(row["dice"]))
    what = words.begin(words.named(low["class"], "class"))
    least = f"{what} is what raters agree on least (Dice {low['dice']:.2f})"
    return f"{least}: say in the guideline how it differs from its neighbours."


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
    if rows and shown:
        facts = {r["case"]: {"Dice": r["dice"], "differing": r["differing"]} for r in rows}
        caption = f"{words.cases_sentence(rows)} 'Differences' shows where."
        block = cases_block(study, list(facts), facts, caption, progress=progress, shown=shown)
        blocks.append(block)
    by_group = any(row["group"] != row["case"] for row in rows)
    known = {"differing": "differing", "entropy": "entropy"}
    size = f"{found.size_name} ({found.unit})"
    columns = heads(
        "case", *(["group"] if by_group else []), "raters", dice="mean Dice", **known, size=size
    )
    caption = (
        "All cases, the most disputed first: give the first ones to another rater. 'Differing' is "
        "the share of pixels that raters differ on, 'entropy' (in bits) the mean over pixels."
    )
    blocks.append(TableBlock("cases-by-disagreement", table, caption, columns))
    return Section("Cases", "Which cases are hard, and what raters see in them.", blocks)


def _without_pairs(
    study: Study, title: str, shown: int, progress: bool, notes: TextBlock | None
) -> Report:
    """Make the report of a study with one rater, or none: there is nothing to compare."""
    blocks: list[Block] = [not_two(study), *([] if notes is None else [notes])]
    if study.cases and shown:
        names, caption = list(study.cases), "The cases in the order of the study."
        blocks.append(cases_block(study, names, {}, caption, progress=progress, shown=shown))
    title = study.about.get("title") or title or "Study"
    return Report(title, facts_of(study, None), [Section("Cases", "", blocks)])


def not_two(study: Study) -> TextBlock:
    """Return the warning that a study has one rater, or none."""
    who = f"only the rater {study.raters[0]}" if study.raters else "no raters"
    return TextBlock(f"Found {who}, expected at least two to compare.", "warning")
