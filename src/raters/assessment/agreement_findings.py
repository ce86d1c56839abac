"""What stands out among raters, as plain data: who draws more, who stands apart, what few drew.

Reports put it into words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raters.assessment.agree import ALL, Agreement
from raters.assessment.agreement_case import CaseAgreement
from raters.assessment.agreement_masks import mask_agreement, with_mean
from raters.core.arrays import Array, Flags, Floats, Labels, mean_known
from raters.io.rows import Row
from raters.metrics.bootstrap import wilson
from raters.metrics.confusion import count_triplets
from raters.study.study import Study

NOTABLE = 0.1
"""Volumes that differ by less than this from those of the others are not worth a word."""
ENOUGH = 10
"""Labels that a rater of a table must have given to be judged."""
MOST_RATERS = 30
"""How many raters a figure shows at most."""
_LEAST_SHARED = 5  # tasks that two of many raters must have in common to be compared
_APART = 0.05
_EQUAL = 0.02
_LEVEL = 0.025  # of wrongly naming any rater of a table
_NAMED = 3


def of_all(rows: Sequence[Row]) -> list[Row]:
    """Keep the rows over all classes."""
    return [row for row in rows if row.get("class", ALL) == ALL]


# Masks


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


def relative_volumes(found: Floats) -> Floats:
    """Compare each volume with the median `o` of its case, `(v - o) / (v + o)`; of two, the other.

    One of three who draws far more moves the mean of the others, so that these would seem to draw
    too little, but not the median.

    Example:
        >>> relative_volumes(np.array([[2.0, 1.0, np.nan], [2.0, 2.0, 6.0]])).round(3)
        array([[ 0.333, -0.333,    nan],
               [ 0.   ,  0.   ,  0.5  ]])
    """
    number = np.isfinite(found).sum(axis=1, keepdims=True)
    middle = np.nanmedian(np.where(number > 0, found, 0.0), axis=1, keepdims=True)
    base = np.where(number == 2, np.nansum(found, axis=1, keepdims=True) - found, middle)
    fits = (number > 1) & (found + base > 0)
    return np.where(fits, (found - base) / np.where(fits, found + base, 1), np.nan)


def typical_ratios(relative: Floats, raters: Sequence[str]) -> dict[str, float]:
    """Return by rater the median of `volume / median volume of the case`, from relative volumes.

    Args:
        relative: `(v - o) / (v + o)` by case and rater, as `relative_volumes` gives it.
        raters: Names of the raters.

    Example:
        >>> typical_ratios(np.array([[1 / 3, -1.0], [1 / 3, 0.0]]), ["ann", "bob"])
        {'ann': 2.0, 'bob': 0.33}
    """
    found = {}
    for name, column in zip(raters, relative.T, strict=True):
        known = column[np.isfinite(column)]
        if known.size:
            middle = float(np.median(known))
            found[name] = math.inf if middle >= 1 else round((1 + middle) / (1 - middle), 2)
    return found


def who_draws(ratios: Mapping[str, float]) -> dict[str, Any]:
    """Return who draws notably more and less than the others, and the other one of two raters."""
    ranked = sorted(ratios.items(), key=lambda item: item[1])
    more = [(r, None if math.isinf(v) else v) for r, v in ranked[::-1] if v > 1 + NOTABLE]
    less = [(r, v) for r, v in ranked if v < 1 - NOTABLE]
    other = ranked[0][0] if len(ratios) == 2 and more else None
    return {"more": more, "less": less, "other": other}


def spread(volumes: Floats) -> dict[str, Any]:
    """Return how far volumes `(cases, raters)` of anonymous raters differ within a case."""
    compared = volumes[np.isfinite(volumes).sum(axis=1) > 1]
    low = np.nanmin(compared, axis=1)
    high = np.nanmax(compared, axis=1)
    both = low > 0
    ratio = float(np.median(high[both] / low[both])) if both.any() else None
    return {"cases": len(compared), "ratio": ratio, "empty": int(((low == 0) & (high > 0)).sum())}


def standing_apart(raters: Sequence[Row]) -> tuple[str, float, float] | None:
    """Return the one rater who agrees clearly less with the rest than all others do, if any.

    Example:
        >>> rows = [{"rater": n, "dice_rest": d} for n, d in (("a", 0.9), ("b", 0.88), ("c", 0.5))]
        >>> standing_apart(rows)
        ('c', 0.5, 0.88)
    """
    known = [(float(r["dice_rest"]), str(r["rater"])) for r in raters if r["dice_rest"] is not None]
    known.sort()
    if len(known) < 3 or known[1][0] - known[0][0] < _APART:
        return None
    return known[0][1], known[0][0], known[1][0]


def pair_ends(agreement: Agreement) -> dict[str, Any]:
    """Return the pairs that agree least and most, and whether all agree about equally."""
    known = [pair for pair in of_all(agreement.pairs) if pair["dice"] is not None]
    known.sort(key=lambda pair: float(pair["dice"]))
    alike = bool(known) and known[-1]["dice"] - known[0]["dice"] < _EQUAL
    return {
        "low": known[0] if known else None,
        "high": known[-1] if len(known) > 1 else None,
        "alike": alike,
        "apart": standing_apart(of_all(agreement.raters)),
    }


def hardest_class(agreement: Agreement) -> Row | None:
    """Return the row of the class that raters agree on least; None of none, or of one class."""
    known = [row for row in agreement.overall[:-1] if row["dice"] is not None]
    return min(known, key=lambda row: float(row["dice"]), default=None)


def disputed_cases(cases: Sequence[Row]) -> dict[str, Any]:
    """Return the most disputed cases with their Dice, and how many are below 0.5."""
    known = [row for row in cases if row["dice"] is not None]
    first = [(row["case"], row["dice"]) for row in known[:_NAMED]]
    low = sum(row["dice"] < 0.5 for row in known)
    return {"first": first, "number": len(cases), "known": len(known), "low": low}


def size_rank(sizes: Floats, dice: Floats) -> float | None:
    """Return the rank correlation of size and agreement; None where there is too little."""
    from scipy.stats import spearmanr

    both = np.isfinite(sizes) & np.isfinite(dice)
    if both.sum() < 8 or np.ptp(sizes[both]) == 0 or np.ptp(dice[both]) == 0:
        return None
    return float(spearmanr(sizes[both], dice[both]).statistic)


def minorities(drew: Flags, labelled: Flags, size: Array) -> list[Row]:
    """Find foreground classes that fewer than half of the raters drew, those of most cases first.

    A row has the class (`number`), positions of such `cases`, the largest region first, in how many
    of them `nobody` drew it (of a consensus), and how many cases have it (`of`); and of the first
    case `who` drew it, how many raters `labelled` the case, and the `size` of the region.

    Args:
        drew: Who drew which class in which case, `(cases, raters, L)`.
        labelled: Who labelled the case, `(cases, raters)`.
        size: How much there is of each class, `(cases, L)`; cases with none are left out.

    Example:
        >>> drew = np.array([[[1, 1, 0], [1, 1, 0], [1, 1, 1]]], bool)
        >>> found = minorities(drew, np.ones((1, 3), bool), np.array([[90, 8, 2]]))
        >>> found[0]
        {'number': 2, 'cases': [0], 'nobody': 0, 'of': 1, 'who': [2], 'labelled': 3, 'size': 2}
    """
    raters = labelled.sum(axis=1)
    found = []
    for number in range(1, drew.shape[2]):
        own = drew[:, :, number].sum(axis=1)
        there = size[:, number] > 0
        few = np.flatnonzero(there & (2 * own < raters))
        if few.size:
            few = few[np.argsort(-size[few, number], kind="stable")]
            first = few[0]
            row = {"number": number, "cases": few.tolist()}
            row |= {"nobody": int((own[few] == 0).sum()), "of": int(there.sum())}
            row["who"] = np.flatnonzero(drew[first, :, number]).tolist()
            row |= {"labelled": int(raters[first]), "size": int(size[first, number])}
            found.append(row)
    return sorted(found, key=lambda row: -len(row["cases"]) / row["of"])


def minority_facts(
    found: Sequence[Row], study: Study, cases: Sequence[str], unit: str
) -> Row | None:
    """Return the first of `minorities` in words for sentences; None of none.

    Args:
        found: What `minorities` gives.
        study: The study; raters who are anonymous are not named.
        cases: Names of the cases.
        unit: Of the size: 'pixels', 'voxels', 'mm³'.
    """
    if not found:
        return None
    first = found[0]
    facts = {name: first[name] for name in ("labelled", "nobody", "of", "size")}
    facts |= {"class": study.classes.names[first["number"]], "unit": unit}
    facts |= {"who": [] if study.anonymous else [study.raters[k] for k in first["who"]]}
    facts |= {"drew": len(first["who"]), "only": len(cases) == 1}
    return facts | {"case": cases[first["cases"][0]], "cases": len(first["cases"])}


# Class labels


def troubled(rows: Sequence[Row]) -> dict[str, Any]:
    """Return raters of a table who are clearly below the median rater, the lowest first.

    By their accuracy, if they have one, else by how often they say what most of the others say.
    Clearly below is whose Wilson interval is, at a level that holds for all of them (Bonferroni).

    Example:
        >>> rows = [{"rater": r, "agreement_rest": a, "compared": 50} for r, a in
        ...         (("ann", 0.9), ("bob", 0.9), ("cy", 0.8), ("bot", 0.2))]
        >>> [row["rater"] for row in troubled(rows)["low"]]
        ['bot']
    """
    from scipy.stats import norm

    known = any("accuracy" in row for row in rows)
    if known:
        share = "accuracy"
        number = "checked"
    else:
        share = "agreement_rest"
        number = "compared"
    judged = [{"rater": row["rater"], "share": row[share], "of": row[number]} for row in rows]
    enough = [row for row in judged if row["share"] is not None and row["of"] >= ENOUGH]
    middle = float(np.median([row["share"] for row in enough])) if enough else 0.0
    z = norm.isf(_LEVEL / max(1, len(enough)))
    low = [row for row in enough if wilson(row["share"], row["of"], z)[1] < middle]
    low.sort(key=lambda row: float(row["share"]))
    return {"enough": len(enough), "low": low, "middle": middle, "known": known}


def disputed_tasks(cases: Sequence[Row]) -> dict[str, Any]:
    """Return how many tasks raters differ on, and the first of them."""
    known = [row for row in cases if row["entropy"] is not None]
    split = [row["case"] for row in known if row["share"] < 1]
    return {"known": len(known), "split": len(split), "first": split[:3]}


def accuracies(study: Study, truth: Labels) -> list[Row]:
    """Return the share of each rater's labels that equal those of the tasks, and of how many."""
    given = study.triplets
    sizes = (len(study.raters), len(study.classes))
    counts = count_triplets(given.task, given.rater, given.label, truth, *sizes)
    shares = [float(np.trace(one) / one.sum()) if one.any() else None for one in counts]
    checked = counts.sum(axis=(1, 2)).astype(int).tolist()
    return [{"accuracy": a, "checked": n} for a, n in zip(shares, checked, strict=True)]


def unusual_shares(study: Study) -> dict[str, Any]:
    """Return who uses a class far more or less than the others."""
    names = study.classes.names
    counts = study.triplets.by_class(len(names))
    total = counts.sum(axis=1)
    usual = counts.sum(axis=0) / max(1.0, counts.sum())
    enough = np.flatnonzero(total >= 2 * ENOUGH)
    if not enough.size:
        return {"rater": None, "class_": None, "share": None, "usual": None}
    shares = counts[enough] / total[enough, np.newaxis]
    r, c = np.unravel_index(np.abs(shares - usual).argmax(), shares.shape)
    who = {"rater": study.raters[enough[r]], "class_": names[c]}
    return who | {"share": float(shares[r, c]), "usual": float(usual[c])}


def most_mixed(shares: Floats, names: Sequence[str]) -> dict[str, Any]:
    """Return which class two raters of one task take for another one most often.

    `shares` `(L, L)` is what the other one says where one says the class of a row.
    """
    errors = np.where(np.eye(len(shares), dtype=bool), 0.0, np.nan_to_num(shares))
    said, other = divmod(int(errors.argmax()), len(errors))
    if not errors[said, other]:
        return {"said": None, "other": None, "share": None}
    return {"said": names[said], "other": names[other], "share": float(errors[said, other])}


def given_labels(counts: Array, names: tuple[str, ...]) -> str:
    """List the labels of a task, the most frequent first.

    Example:
        >>> given_labels(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow (3), cat (1)'
    """
    order = np.argsort(-counts, kind="stable")
    return ", ".join(f"{names[k]} ({counts[k]})" for k in order if counts[k])


def majority(counts: Array, names: tuple[str, ...]) -> str | None:
    """Return the label of most raters; a tie is a tie.

    Example:
        >>> majority(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow'
        >>> majority(np.array([1, 0, 1]), ("cat", "dog", "cow"))
        'tie: cat, cow'
    """
    if not counts.any():
        return None
    most = [names[k] for k in np.flatnonzero(counts == counts.max())]
    return most[0] if len(most) == 1 else f"tie: {', '.join(most)}"


def compared_raters(
    pairs: Sequence[Row], raters: Sequence[str], least: int, most: int = MOST_RATERS
) -> list[str]:
    """Return the raters with most pairs that share enough cases, in the order of the study."""
    enough = [pair for pair in pairs if pair["cases"] >= least]
    number = Counter(pair[name] for pair in enough for name in ("rater_a", "rater_b"))
    return with_most(number, [rater for rater in raters if number[rater]], most)


def with_most(
    number: Mapping[str, int], raters: Sequence[str], most: int = MOST_RATERS
) -> list[str]:
    """Return the raters with the highest numbers, in the order of the study.

    Example:
        >>> with_most({"ann": 3, "bob": 1, "cy": 5}, ["ann", "bob", "cy"], 2)
        ['ann', 'cy']
    """
    kept = set(sorted(raters, key=lambda rater: -number.get(rater, 0))[:most])
    return [rater for rater in raters if rater in kept]


def least_shared(study: Study) -> int:
    """Return how many cases two raters must have in common to be compared."""
    many = study.kind == "classification" and len(study.raters) > 10
    return _LEAST_SHARED if many else 1
