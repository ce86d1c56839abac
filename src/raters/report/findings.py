"""What reports find: plain data that `sentences.jinja` puts into words, and figures show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raters.agreement.agree import ALL
from raters.arrays import Array, Flags, Floats, Ints
from raters.plots.sizes import DistanceCounts
from raters.report.blocks import Section, TextBlock
from raters.report.say import paragraphs
from raters.rows import Row
from raters.study.classes import MISSING
from raters.study.study import Study

NOTABLE = 0.1
"""Volumes that differ by less than this from those of the others are not worth a word."""
_APART = 0.05
_EQUAL = 0.02
_FEW = 0.05  # of the consensus: less beyond it or missing is not worth a word
_SAME = 0.99
_NAMED = 3
_MOST_NOTES = 8


def of_all(rows: Sequence[Row]) -> list[Row]:
    """Keep the rows over all classes."""
    return [row for row in rows if row.get("class", ALL) == ALL]


def short_section(findings: Sequence[str], notes: Sequence[str] = ()) -> Section:
    """Return the findings as one section, and notes below them.

    Example:
        >>> [block.text for block in short_section(["Ann draws less.", ""], ["two cases"]).blocks]
        [Markup('Ann draws less.'), Markup('Two cases.')]
    """
    kept = [" ".join(note.split()) for note in dict.fromkeys(notes)]
    if len(kept) > _MOST_NOTES:
        kept = [*kept[:_MOST_NOTES], f"and {len(kept) - _MOST_NOTES:,} more notes"]
    ended = [f"{n[:1].upper()}{n[1:]}{'' if n.endswith(('.', '!', '?')) else '.'}" for n in kept]
    blocks = [TextBlock(paragraphs(findings)), TextBlock(paragraphs(ended), "note")]
    return Section("In short", "", [block for block in blocks if block.text])


def typical_ratios(relative: Floats, raters: Sequence[str]) -> dict[str, float]:
    """Return by rater the median of `volume / mean volume of the others`, from relative volumes.

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
    cases anybody drew it (`of`); and of the first case `who` drew it, how many raters `labelled`
    the case, and the `size` of the region.

    Args:
        drew: Who drew which class in which case, `(cases, raters, L)`.
        labelled: Who labelled the case, `(cases, raters)`.
        size: How much there is of each class, `(cases, L)`; cases with none are left out.

    Example:
        >>> drew = np.array([[[1, 1, 0], [1, 1, 0], [1, 1, 1]]], bool)
        >>> found = minorities(drew, np.ones((1, 3), bool), np.array([[90, 8, 2]]))
        >>> found[0]
        {'number': 2, 'cases': [0], 'of': 1, 'who': [2], 'labelled': 3, 'size': 2}
    """
    raters = labelled.sum(axis=1)
    found = []
    for number in range(1, drew.shape[2]):
        own = drew[:, :, number].sum(axis=1)
        there = (own > 0) & (size[:, number] > 0)
        few = np.flatnonzero(there & (2 * own < raters))
        if few.size:
            few = few[np.argsort(-size[few, number], kind="stable")]
            first, row = few[0], {"number": number, "cases": few.tolist(), "of": int(there.sum())}
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
    facts = {name: first[name] for name in ("labelled", "of", "size")}
    facts |= {"class": study.classes.names[first["number"]], "unit": unit}
    facts |= {"who": [] if study.anonymous else [study.raters[k] for k in first["who"]]}
    facts |= {"drew": len(first["who"]), "only": len(cases) == 1}
    return facts | {"case": cases[first["cases"][0]], "cases": len(first["cases"])}


def foreground_rows(counts: Ints, raters: Sequence[str]) -> list[Row]:
    """Return what each rater draws of the consensus: one set of numbers for text, figure and table.

    Over all cases and foreground classes together, so that what is large counts more than what is
    small and the background not at all. With `n[t, o]` pixels of class `t` in the consensus that
    the rater calls `o`, and `F = sum n[t, o]` over `t > 0`:

        sensitivity   sum_{t > 0} n[t, t] / F                    the same class
        other         sum_{t > 0, o > 0, o != t} n[t, o] / F     another foreground class
        missed        sum_{t > 0} n[t, 0] / F                    background: these three add up to 1
        beyond        sum_{o > 0} n[0, o] / F                    drawn where there is nothing
        ppv           sum_{t > 0} n[t, t] / sum_{o > 0} n[t, o]  of what is drawn, how much is right

    The error is that of a ratio of sums: `sqrt(n / (n - 1) sum (a - r b)²) / sum b` for `r = a / b`
    over n cases; None with one case. A number that does not exist is None.

    Args:
        counts: `(cases, raters, L, L)`: class of the consensus, then class of the rater.
        raters: Names.

    Example:
        >>> row = foreground_rows(np.array([[[[5, 2], [1, 3]]]]), ["ann"])[0]
        >>> [row[name] for name in ("sensitivity", "ppv", "beyond", "missed", "other")]
        [0.75, 0.6, 0.5, 0.25, 0.0]
    """
    same = np.einsum("krtt->kr", counts[..., 1:, 1:])
    drawn, there = counts[..., 1:].sum(axis=(2, 3)), counts[..., 1:, :].sum(axis=(2, 3))
    missed, beyond = counts[..., 1:, 0].sum(axis=2), counts[..., 0, 1:].sum(axis=2)
    parts = {
        "sensitivity": (same, there),
        "ppv": (same, drawn),
        "beyond": (beyond, there),
        "missed": (missed, there),
        "other": (there - missed - same, there),
    }
    rows = []
    for k, rater in enumerate(raters):
        row: Row = {"rater": rater}
        for name, both in parts.items():
            above, below = (part[:, k].astype(np.float64) for part in both)
            row[name], row[f"{name}_se"] = _ratio(above, below)
        rows.append(row)
    return rows


def _ratio(above: Floats, below: Floats) -> tuple[float | None, ...]:
    total, number = float(below.sum()), int((below > 0).sum())
    if not total:
        return None, None
    ratio = float(above.sum()) / total
    if number < 2:
        return ratio, None
    squares = float(((above - ratio * below) ** 2).sum())
    return ratio, math.sqrt(number / (number - 1) * squares) / total


KINDS = ("both", "either", "first", "second")


def kinds_of(labels: Array, consensus: Array) -> dict[str, bool] | None:
    """Return what the consensus of two raters is in a case; None where they do not differ.

    Args:
        labels: Class numbers with MISSING, `(2, *space)`.
        consensus: That of the case, `(*space)`.

    Returns:
        Whether it is what both drew (intersection), what either drew (union), what the first drew,
        what the second drew.

    Example:
        >>> labels = np.array([[0, 1, 1, 0], [0, 0, 1, 1]])
        >>> kinds_of(labels, np.array([0, 0, 1, 0]))["both"]
        True
    """
    first, second = labels
    seen = (first != MISSING) & (second != MISSING) & (consensus != MISSING)
    a, b, c = first[seen], second[seen], consensus[seen]
    differ = a != b
    if not differ.any():
        return None
    both = np.where(differ, 0, a)
    either = np.where(differ & (a > 0) & (b > 0), c, np.maximum(a, b))
    ways = (both, either, a, b)
    return {kind: bool((c == way).all()) for kind, way in zip(KINDS, ways, strict=True)}


def low_skills(rows: Sequence[Row], equal: float = _EQUAL) -> dict[str, Any]:
    """Return who is lowest in sensitivity and in PPV, of rows of `foreground_rows`."""
    measures: list[tuple[str, str | None, float, float, bool]] = []
    lowest = []
    for measure, name in (("sensitivity", "sensitivity"), ("ppv", "positive predictive value")):
        known = {str(r["rater"]): float(r[measure]) for r in rows if r[measure] is not None}
        if not known:
            return {"measures": [], "same": None}
        low, high = min(known, key=lambda r: known[r]), max(known.values())
        alike = high - known[low] < equal
        measures.append((name, low if len(known) > 1 else None, known[low], high, alike))
        lowest += [low] if len(known) > 1 and not alike else []
    same = lowest[0] if len(lowest) == 2 and lowest[0] == lowest[1] else None
    return {"measures": measures, "same": same}


def nearest(dice: Mapping[str, float | None]) -> dict[str, Any]:
    """Return who is closest to the consensus and who farthest from it."""
    known = sorted(((r, d) for r, d in dice.items() if d is not None), key=lambda pair: pair[1])
    far, near = (known[0], known[-1]) if known else (None, None)
    alike = bool(known) and known[-1][1] - known[0][1] < _EQUAL
    return {"near": near, "far": far, "alike": alike}


def error_shares(counts: Ints, raters: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return by rater how much is drawn beyond the consensus, and how much of it is missed.

    Both as shares of the foreground of the consensus, over all cases.

    Args:
        counts: `(cases, raters, L, L)`: consensus, then rater.
        raters: Names.

    Example:
        >>> error_shares(np.array([[[[5, 2], [1, 3]]]]), ["ann"])
        {'ann': (0.5, 0.25)}
    """
    total = counts.sum(axis=0)
    found = {}
    for name, own in zip(raters, total, strict=True):
        there = own[1:].sum()
        if there:
            found[name] = float(own[0, 1:].sum() / there), float(own[1:, 0].sum() / there)
    return found


def border_errors(
    shares: Mapping[str, tuple[float, float]], borders: DistanceCounts, raters: Sequence[str]
) -> dict[str, Any]:
    """Return who draws most beyond the consensus and who misses most, and how far from its border.

    Args:
        shares: What `error_shares` gives.
        borders: Counts by distance to the border.
        raters: Names.
    """
    found: dict[str, Any] = {"far": float(borders.edges[-1])}
    for k, way in enumerate(("over", "under")):
        who = max(shares, key=lambda r: shares[r][k], default=None)
        if who is None or shares[who][k] <= _FEW:
            found[way] = None
        else:
            near = _half_within(borders, list(raters).index(who), outside=way == "over")
            found[way] = (who, shares[who][k], near)
    return found


def _half_within(borders: DistanceCounts, rater: int, outside: bool) -> float:
    """Return the distance within which half of a rater's errors lie, of those near the border."""
    middle = len(borders.edges) // 2
    drawn, seen = borders.drawn[rater], borders.seen[rater]
    errors = drawn[middle:] if outside else (seen - drawn)[:middle][::-1]
    if not errors.sum():
        return 0.0
    reached = np.cumsum(errors) >= errors.sum() / 2
    return float(borders.edges[middle + 1 + int(np.argmax(reached))])


def left_out(rows: Sequence[Row]) -> dict[str, Any]:
    """Return without whom the consensus changes most and least, of rows of `left_out_rows`."""
    known = sorted((r for r in rows if r["dice"] is not None), key=lambda r: -float(r["dice"]))
    ends = [(r["rater"], r["dice"]) for r in (known[-1], known[0])] if known else [None, None]
    safe = [r["rater"] for r in known if r["dice"] >= _SAME]
    alike = bool(known) and known[-1]["dice"] > known[0]["dice"] - _EQUAL
    found = {"most": ends[0], "least": ends[1], "safe": safe}
    return found | {"all_safe": len(safe) == len(known), "alike": alike}


def apart(first: Floats, second: Floats) -> float | None:
    """Return the root mean square difference of two matrices, over rows that both have."""
    squares = (first - second) ** 2
    known = squares[np.isfinite(squares)]
    return float(np.sqrt(np.mean(known))) if known.size else None
