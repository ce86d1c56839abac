"""Sentences under the figures of a fusion: who errs how, where, and who could be left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from raters.arrays import Array, Floats, Ints
from raters.plots.sizes import DistanceCounts
from raters.report.words import begin, between, named, percent, together
from raters.rows import Row
from raters.study.classes import MISSING

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


def two_sentence(kind: str, method: str, raters: Sequence[str]) -> str:
    """Return what a consensus of two raters is worth.

    Args:
        kind: One of `KINDS`, or '' for none of them.
        method: The name of the method.
        raters: The two names.

    Example:
        >>> two_sentence("both", "staple", ["ann", "bob"])[:64]
        'With two raters staple gives their intersection: the consensus i'
    """
    third = "Only a third rater or an expert can say who is right where they differ."
    one, other = (named(rater) for rater in raters)
    if kind == "both":
        return (
            f"With two raters {method} gives their intersection: the consensus is exactly what "
            f"both drew. So neither can miss any of it, and what {one} draws beyond it is what "
            f"{other} left out: no error. {third}"
        )
    if kind == "either":
        return (
            f"With two raters {method} gives their union: the consensus is exactly what either "
            f"drew. So neither can draw beyond it, and what {one} misses is what only {other} "
            f"drew: no error. {third}"
        )
    if kind:
        own, left = (one, other) if kind == "first" else (other, one)
        return (
            f"With two raters there is no majority: {method} follows {own} everywhere, so {own} "
            f"looks perfect and {left} bears all differences. {third}"
        )
    return f"With two raters there is no majority: the consensus is a guess. {third}"


_NOTABLE = 0.05
_SAME = 0.99
_EQUAL = 0.02
_APART = 0.05
ALL_RATERS = "all raters"
"""The name of all raters together, where they are anonymous."""


def closeness_sentence(dice: Mapping[str, float | None]) -> str:
    """Report who is closest to the consensus and who farthest from it."""
    known = {name: d for name, d in dice.items() if d is not None}
    trust = "The consensus is an estimate: to be far from it is not yet to be wrong."
    if len(known) < 2:
        if not known:
            return "There is no rater to compare with the consensus."
        rater, score = next(iter(known.items()))
        return f"{begin(named(rater))}: Dice {score:.2f} with the consensus. {trust}"
    far, near = min(known, key=lambda r: known[r]), max(known, key=lambda r: known[r])
    if known[near] - known[far] < _EQUAL:
        spread = between(known[far], known[near])
        return f"All raters are about equally close to the consensus (Dice {spread}). {trust}"
    return begin(
        f"{named(near)} is closest to the consensus (Dice {known[near]:.2f}), {named(far)} "
        f"farthest from it ({known[far]:.2f}). {trust}"
    )


def skill_sentence(rows: Sequence[Row]) -> str:
    """Report who misses most and who draws most that is not there, of rows of `foreground_rows`.

    Example:
        >>> rows = [{"rater": "ann", "sensitivity": 0.9, "ppv": 0.7},
        ...         {"rater": "bob", "sensitivity": 0.6, "ppv": 0.95}]
        >>> skill_sentence(rows)
        'Lowest sensitivity: bob (0.60). Lowest positive predictive value: ann (0.70).'
    """
    parts, lowest = [], []
    for measure, name in (("sensitivity", "sensitivity"), ("ppv", "positive predictive value")):
        known = {str(r["rater"]): float(r[measure]) for r in rows if r[measure] is not None}
        if not known:
            return "There is no performance to show."
        low, high = min(known, key=lambda r: known[r]), max(known.values())
        if len(known) == 1:
            parts.append(f"{name[0].upper()}{name[1:]}: {known[low]:.2f}.")
        elif high - known[low] < _EQUAL:
            parts.append(f"All raters are about equal in {name} ({between(known[low], high)}).")
        else:
            parts.append(f"Lowest {name}: {named(low)} ({known[low]:.2f}).")
            lowest.append(low)
    if len(lowest) == 2 and lowest[0] == lowest[1]:
        parts.append(f"Give {named(lowest[0])}'s cases to someone else as well.")
    return " ".join(parts)


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


def border_sentence(
    shares: Mapping[str, tuple[float, float]],
    borders: DistanceCounts,
    raters: Sequence[str],
    unit: str,
) -> str:
    """Report who draws beyond the consensus and who misses parts, and how far from the border.

    Args:
        shares: What `error_shares` gives.
        borders: Counts by distance to the border.
        raters: Names.
        unit: Of the distance.
    """
    over = sorted(shares, key=lambda r: -shares[r][0])
    under = sorted(shares, key=lambda r: -shares[r][1])
    parts = []
    if over and shares[over[0]][0] > _NOTABLE:
        near = _half_within(borders, list(raters).index(over[0]), outside=True)
        much = percent(shares[over[0]][0])
        parts.append(
            f"{named(over[0])} {_does(over[0], 'over-segment')} by {much} of the consensus"
            f"{_where(borders, near, unit)}"
        )
    if under and shares[under[0]][1] > _NOTABLE:
        near = _half_within(borders, list(raters).index(under[0]), outside=False)
        much = percent(shares[under[0]][1])
        verb = "miss" if under[0] == ALL_RATERS else "misses"
        where = _where(borders, near, unit)
        parts.append(f"{named(under[0])} {verb} {much} of the consensus{where}")
    if not parts:
        return "No rater draws 5 % beyond the consensus or misses 5 % of it."
    return begin(
        f"{'; '.join(parts)}. Errors along the border are a matter of where it is drawn, which a "
        "guideline settles; errors far from it are objects that were missed or taken for another."
    )


def _does(rater: str, verb: str) -> str:
    return verb if rater == ALL_RATERS else f"{verb}s"


def _where(borders: DistanceCounts, near: float, unit: str) -> str:
    """Report how far from the border errors lie, of those that are near enough to be measured."""
    if not near:
        return ""
    far = _length(float(borders.edges[-1]), unit)
    return f" (of the errors within {far} of its border, half lie within {_length(near, unit)})"


def _length(distance: float, unit: str) -> str:
    return f"{distance:g} {unit[:-1] if unit == 'pixels' and distance == 1 else unit}"


def _half_within(borders: DistanceCounts, rater: int, outside: bool) -> float:
    """Return the distance within which half of a rater's errors lie, of those near the border."""
    middle = len(borders.edges) // 2
    drawn, seen = borders.drawn[rater], borders.seen[rater]
    errors = drawn[middle:] if outside else (seen - drawn)[:middle][::-1]
    if not errors.sum():
        return 0.0
    reached = np.cumsum(errors) >= errors.sum() / 2
    return float(borders.edges[middle + 1 + int(np.argmax(reached))])


def left_out_sentence(rows: Sequence[Row], method: str, cases: int, all_cases: int) -> str:
    """Report who could be left out without changing the consensus, and who carries it."""
    known = sorted((r for r in rows if r["dice"] is not None), key=lambda r: -float(r["dice"]))
    if not known:
        return "Nothing was drawn: leaving a rater out changes nothing."
    sample = "" if cases == all_cases else f" Refitted on {cases:,} of {all_cases:,} cases."
    by = f" The consensus is refitted by {method}.{sample}"
    least, most = known[0], known[-1]
    safe = [named(r["rater"]) for r in known if r["dice"] >= _SAME]
    if len(safe) == len(known):
        return f"Anyone could be left out: the consensus stays the same (Dice 0.99 or more).{by}"
    if most["dice"] > least["dice"] - _EQUAL:
        spread = f"{most['dice']:.2f} to {least['dice']:.2f}"
        return f"Whoever is left out, the consensus changes about equally (Dice {spread}).{by}"
    change = (
        f"Without {named(most['rater'])} it changes most (Dice {most['dice']:.2f}): make sure that "
        "this rater is right."
    )
    if safe:
        each = "each " if len(safe) > 1 else ""
        text = f"{begin(together(safe))} could {each}be left out and the consensus stays the same."
        return f"{text} {change}{by}"
    return (
        f"Without {named(least['rater'])} the consensus changes least (Dice {least['dice']:.2f}), "
        f"but no rater can be left out without a change. {change}{by}"
    )


def confusion_sentence(
    matrices: Floats,
    raters: Sequence[str],
    classes: Sequence[str],
    counted: Floats | None = None,
    doubtful: Sequence[int] = (),
) -> str:
    """Return which class is most often taken for which other one, and by whom.

    Args:
        matrices: Those that are shown, `(raters, L, L)`.
        raters: Names.
        classes: Names.
        counted: What the raters say against the written consensus, if the matrices are estimated:
            where both differ, the sentence says so.
        doubtful: Classes that a minority drew: no rater is blamed for calling them something else.
    """
    errors = np.array(matrices, np.float64)
    errors[:, np.arange(len(classes)), np.arange(len(classes))] = np.nan
    errors[:, list(doubtful)] = np.nan
    if not (errors > 0).any():
        return "There are no errors to show."
    r, t, o = (int(k) for k in np.unravel_index(np.nanargmax(errors), errors.shape))
    share = float(errors[r, t, o])
    text = (
        f"Rows are the consensus, columns what a rater says. {begin(named(raters[r]))} "
        f"{_does(raters[r], 'take')} {percent(share)} of {named(classes[t], 'class')} for "
        f"{named(classes[o], 'class')}, the largest error."
    )
    if counted is not None and abs(counted[r, t, o] - share) > _APART:
        text += (
            f" That is the method's own estimate, in which unsure pixels count in part; of the "
            f"written consensus it is {percent(float(counted[r, t, o]))}."
        )
    return (
        f"{text} Dark cells off the diagonal that many raters share point to an unclear guideline."
    )


def undecided_sentence(undecided: int, tasks: int) -> str:
    """Report how much has no consensus."""
    if not undecided:
        return ""
    return f"{undecided:,} of {tasks:,} have no consensus: ask for further labels on them."
