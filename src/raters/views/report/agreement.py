"""Who agrees with whom, as reports show it: matrices, heat map, tables of classes and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from raters.assessment.agree import Agreement
from raters.assessment.agreement_findings import (
    compared_raters,
    hardest_class,
    least_shared,
    of_all,
)
from raters.core.arrays import Flags, Floats, mean_known
from raters.io.rows import Row, known
from raters.study.study import Study
from raters.views import plots
from raters.views.plots.pairs import pair_matrix
from raters.views.plots.style import rater_colours
from raters.views.report.blocks import Block, Matrix, Number, Section, figure, note, section, table
from raters.views.report.viewer import free_name
from raters.views.texts.say import joined, say, text_of

_MOST_NAMES = 10  # raters in the matrix of the first screen
_BINS = 5


def alpha_number(alpha: float | None) -> Number:
    """Return Krippendorff's alpha with what it means."""
    about = "" if alpha is None else say("verdict", alpha=alpha).split(":")[0]
    return Number("Krippendorff's alpha", alpha, about=about)


def agreement_matrix(study: Study, agreement: Agreement) -> Matrix | None:
    """Return who agrees with whom, the worst rater first; of a table those with most in common."""
    if agreement.kind == "segmentation":
        if study.anonymous:
            return _case_bins(np.array([row["dice"] for row in agreement.cases], np.float64))
        pairs = of_all(agreement.pairs)
        return _matrix(study, pairs, _worst_first(pairs, study.raters, "dice"), "dice", "agreement")
    if study.anonymous:
        return None
    least = least_shared(study)
    names = compared_raters(agreement.pairs, study.raters, least, _MOST_NAMES - 1)
    pairs = [pair for pair in agreement.pairs if pair["cases"] >= least]
    names = _worst_first(pairs, names, "agreement")
    return _matrix(study, pairs, names, "agreement", "labels")


def _worst_first(pairs: Sequence[Row], names: Sequence[str], score: str) -> list[str]:
    """Sort raters by their mean score with the others; those who cannot be compared come last."""
    values = pair_matrix(pairs, names, score)
    np.fill_diagonal(values, np.nan)
    return [names[k] for k in np.argsort(mean_known(values, axis=1), kind="stable")]


def matrix_beside(
    study: Study, dice: Floats, key: str, own: Mapping[str, float | None]
) -> Matrix | None:
    """Return who agrees with whom, the 'consensus' or the 'prediction' (`key`) among them.

    `dice` is that of each case and pair of raters, `own` that with each rater, lowest first.
    """
    if study.anonymous:
        return _case_bins(mean_known(dice, axis=1))
    name = free_name(key, study.raters)
    means = zip(combinations(study.raters, 2), mean_known(dice).tolist(), strict=True)
    pairs: list[Row] = [{"rater_a": a, "rater_b": b, "dice": known(d)} for (a, b), d in means]
    pairs += [{"rater_a": name, "rater_b": rater, "dice": d} for rater, d in own.items()]
    order = sorted(study.raters, key=lambda rater: own.get(rater) or 0.0)[: _MOST_NAMES - 1]
    return _matrix(study, pairs, [*order, name], "dice", key)


def _case_bins(dice: Floats) -> Matrix | None:
    """Return how many cases have which Dice: of raters who cannot be told apart."""
    there = dice[np.isfinite(dice)]
    if not there.size:
        return None
    counts, edges = np.histogram(there, _BINS, (0.0, 1.0))
    names = [f"Dice {low:.1f} to {low + 1 / _BINS:.1f}" for low in edges[:-1]]
    values = [[float(count / there.size)] for count in counts]
    key = "first.matrix-anonymous"
    return Matrix(text_of(key, "title"), names, ["share"], values, text_of(key, "about"))


def _matrix(
    study: Study, pairs: Sequence[Row], names: Sequence[str], score: str, key: str
) -> Matrix | None:
    """Return a score of pairs of the first names; None where no pair can be compared."""
    shown = list(names)[:_MOST_NAMES]
    values = pair_matrix(pairs, shown, score)
    np.fill_diagonal(values, np.nan)
    if not np.isfinite(values).any():
        return None
    every = rater_colours(study.raters)
    colours = {name: every[name] for name in shown if name in every}
    cells = [[known(value) for value in row] for row in values.tolist()]
    of = {"shown": len(shown), "all": len(study.raters)}
    title, about = (text_of(f"first.matrix-{key}", part, **of) for part in ("title", "about"))
    return Matrix(title, shown, shown, cells, about, colours)


def agreement_section(
    study: Study, agreement: Agreement, labelled: Flags | None = None, more: Block | None = None
) -> Section:
    """Show who agrees with whom: a heat map, classes and pairs; of anonymous raters no pairs.

    `labelled` `(cases, raters)` is of masks; `more` is a further block.
    """
    masks = agreement.kind == "segmentation"
    several = len(agreement.overall) > 1
    alpha = hard = say("alpha", alpha=of_all(agreement.overall)[0]["krippendorff_alpha"])
    heat = classes = pairs = None
    if not study.anonymous:
        heat = _heat_map(study, agreement, "dice" if masks else "agreement")
        if masks and several:
            hard = say("hardest_class", low=hardest_class(agreement))
    if study.anonymous or not masks or several:
        classes = table("study.agreement-by-class", agreement.overall, caption=hard)
    if labelled is not None and study.anonymous:
        both = zip(*np.unique(labelled.sum(axis=1), return_counts=True), strict=True)
        rows = [{"raters of a case": int(n), "cases": int(k)} for n, k in both]
        pairs = table("study.raters-of-a-case", rows)
    elif masks:
        shown = None if several else [{**pair, "class": None} for pair in agreement.pairs]
        pairs = table("study.pairs", agreement.pairs, shown, alpha)
    elif not study.anonymous:
        pairs = table("labels.pairs", sorted(agreement.pairs, key=lambda p: -int(p["cases"])))
    return section("study.agreement", heat, classes, more, pairs)


def _heat_map(study: Study, agreement: Agreement, score: str) -> Block | None:
    least = least_shared(study)
    every = of_all(agreement.pairs)
    names = compared_raters(every, study.raters, least)
    pairs = [p for p in every if p["cases"] >= least and p[score] is not None]
    among = [p for p in pairs if {p["rater_a"], p["rater_b"]} <= set(names)]
    if not among:
        return None if score == "dice" else note("nothing_in_common", least=least)
    order: plots.pairs.Order = "clustered" if len(names) > 8 else "given"
    drawn = plots.agreement(among, names, score=score, order=order)
    caption = say("only_most", shown=len(names), all=len(study.raters), what="pairs to compare")
    if score != "dice":
        low = min(among, key=lambda p: (p[score], -p["cases"]))
        high = max(among, key=lambda p: (p[score], p["cases"]))
        ends = {"low": low, "high": None if high is low else high}
        caption = joined(say("answer_pairs", **ends, least=least), caption)
    return figure("study.agreement", drawn, caption)
