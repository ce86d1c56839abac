"""Who agrees with whom, as reports show it: heat map, tables of classes and pairs, bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raters import plots
from raters.agreement.agree import Agreement
from raters.arrays import Flags
from raters.report.blocks import Block, Matrix, Number, Section, TextBlock, figure, section, table
from raters.report.findings import of_all
from raters.report.say import in_line, say
from raters.rows import Row
from raters.study.study import Study

MOST_RATERS = 30
"""How many raters a figure shows at most."""
_BINS = 5
LEAST_SHARED = 5
"""Tasks that two of many raters must have in common to be compared."""


def alpha_number(alpha: float | None) -> Number:
    """Return Krippendorff's alpha with what it means."""
    about = "" if alpha is None else say("verdict", alpha=alpha).split(":")[0]
    return Number("Krippendorff's alpha", alpha, about=about)


def case_bins(dice: Sequence[float]) -> Matrix | None:
    """Return how many cases have which Dice: of raters who cannot be told apart."""
    if not dice:
        return None
    counts, edges = np.histogram(dice, _BINS, (0.0, 1.0))
    names = [f"Dice {low:.1f} to {low + 1 / _BINS:.1f}" for low in edges[:-1]]
    values = [[float(count / len(dice))] for count in counts]
    about = "Raters are anonymous: no one is compared with another."
    return Matrix("Share of cases by their mean Dice", names, ["share"], values, about)


def agreement_section(
    study: Study, agreement: Agreement, labelled: Flags | None = None, more: Sequence[Block] = ()
) -> Section:
    """Show who agrees with whom: a heat map, classes and pairs; of anonymous raters no pairs.

    `labelled` `(cases, raters)` is of masks; `more` are further blocks.
    """
    masks = agreement.kind == "segmentation"
    alpha = say("alpha", alpha=of_all(agreement.overall)[0]["krippendorff_alpha"])
    hard = alpha
    blocks: list[Block] = []
    if not study.anonymous:
        blocks += _heat_map(study, agreement, "dice" if masks else "agreement")
        if masks and len(agreement.overall) > 1:
            known = [row for row in agreement.overall[:-1] if row["dice"] is not None]
            low = min(known, key=lambda row: float(row["dice"])) if known else None
            hard = say("hardest_class", low=low)
    if study.anonymous or not masks or len(agreement.overall) > 1:
        blocks.append(table("study.agreement-by-class", agreement.overall, caption=hard))
    blocks += more
    if labelled is not None and study.anonymous:
        number = labelled.sum(axis=1)
        rows: list[Row] = [
            {"raters of a case": int(n), "cases": int((number == n).sum())}
            for n in np.unique(number)
        ]
        blocks.append(table("study.raters-of-a-case", rows))
    elif masks:
        several = len(agreement.overall) > 1
        pairs = None if several else [{**pair, "class": None} for pair in agreement.pairs]
        blocks.append(table("study.pairs", agreement.pairs, pairs, alpha))
    elif not study.anonymous:
        ordered = sorted(agreement.pairs, key=lambda p: -int(p["cases"]))
        blocks.append(table("labels.pairs", ordered))
    return section("study.agreement", blocks)


def compared_raters(
    pairs: Sequence[Row], raters: Sequence[str], least: int, most: int = MOST_RATERS
) -> list[str]:
    """Return the raters with most pairs that share enough cases, in the order of the study."""
    number = dict.fromkeys(raters, 0)
    for pair in pairs:
        for rater in (pair["rater_a"], pair["rater_b"]):
            number[rater] += pair["cases"] >= least
    kept = set(sorted(raters, key=lambda rater: -number[rater])[:most])
    return [rater for rater in raters if rater in kept]


def _heat_map(study: Study, agreement: Agreement, score: str) -> list[Block]:
    least = LEAST_SHARED if score != "dice" and len(study.raters) > 10 else 1
    every = of_all(agreement.pairs)
    names = compared_raters(every, study.raters, least)
    pairs = [p for p in every if p["cases"] >= least and p[score] is not None]
    among = [p for p in pairs if {p["rater_a"], p["rater_b"]} <= set(names)]
    if not among:
        text = f"No two raters have {least} tasks in common: only the vote of all can be compared."
        return [] if score == "dice" else [TextBlock(text, "note")]
    order: plots.pairs.Order = "clustered" if len(names) > 8 else "given"
    drawn = plots.agreement(among, names, score=score, order=order)
    caption = say("only_most", shown=len(names), all=len(study.raters), what="pairs to compare")
    if score != "dice":
        low = min(among, key=lambda p: (p[score], -p["cases"]))
        high = max(among, key=lambda p: (p[score], p["cases"]))
        ends = {"low": low, "high": None if high is low else high}
        caption = in_line(say("answer_pairs", **ends, least=least), caption)
    return [figure("study.agreement", drawn, caption)]
