"""What stands out beside a consensus: who is far from it, who errs where, who could be left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raters.assessment.agreement_findings import ENOUGH, accuracies
from raters.consensus.read import Refit
from raters.core.arrays import Array, Flags, Floats, Ints
from raters.core.classes import MISSING
from raters.fusion.result import Fusion
from raters.io.rows import Row
from raters.metrics.border import DistanceCounts
from raters.metrics.conventions import defined_mean
from raters.metrics.overlap import drawn_dice, pair_counts
from raters.study.study import Study
from raters.study.triplets import Triplets

KINDS = ("both", "either", "first", "second")
"""What the consensus of two raters can be."""
_EQUAL = 0.02
_FEW = 0.05  # of the consensus: less beyond it or missing is not worth a word
_SAME = 0.99
_LARGE = 4_000_000  # pixels; larger planes are taken on every second, third, ... pixel


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
    a = first[seen]
    b = second[seen]
    c = consensus[seen]
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
        low = min(known, key=lambda r: known[r])
        high = max(known.values())
        alike = high - known[low] < equal
        measures.append((name, low if len(known) > 1 else None, known[low], high, alike))
        lowest += [low] if len(known) > 1 and not alike else []
    same = lowest[0] if len(lowest) == 2 and lowest[0] == lowest[1] else None
    return {"measures": measures, "same": same}


def nearest(dice: Mapping[str, float | None]) -> dict[str, Any]:
    """Return who is closest to the consensus and who farthest from it."""
    known = sorted(((r, d) for r, d in dice.items() if d is not None), key=lambda pair: pair[1])
    if not known:
        return {"near": None, "far": None, "alike": False}
    far = known[0]
    near = known[-1]
    return {"near": near, "far": far, "alike": near[1] - far[1] < _EQUAL}


def border_errors(rows: Sequence[Row], borders: DistanceCounts) -> dict[str, Any]:
    """Return who draws most beyond the consensus and who misses most, and how far from its border.

    Args:
        rows: Of all raters, as `foreground_rows` gives them.
        borders: Counts of the same raters by distance to the border.
    """
    found: dict[str, Any] = {"far": float(borders.edges[-1])}
    for way, share in (("over", "beyond"), ("under", "missed")):
        shares = [row[share] or 0.0 for row in rows]
        most = max(range(len(rows)), key=shares.__getitem__, default=None)
        found[way] = None
        if most is not None and shares[most] > _FEW:
            near = _half_within(borders, most, outside=way == "over")
            found[way] = (rows[most]["rater"], shares[most], near)
    return found


def _half_within(borders: DistanceCounts, rater: int, outside: bool) -> float:
    """Return the distance within which half of a rater's errors lie, of those near the border."""
    middle = len(borders.edges) // 2
    drawn = borders.drawn[rater]
    seen = borders.seen[rater]
    errors = drawn[middle:] if outside else (seen - drawn)[:middle][::-1]
    if not errors.sum():
        return 0.0
    reached = np.cumsum(errors) >= errors.sum() / 2
    return float(borders.edges[middle + 1 + int(np.argmax(reached))])


def fused_rater_rows(study: Study, counts: Ints) -> list[Row]:
    """Return how often labels of a table equal the consensus, and the reference if there is one.

    Args:
        study: The table.
        counts: Class of the consensus, then class of the rater, `(raters, L, L)`.
    """
    truth = study.reference_labels
    rows = []
    given = np.bincount(study.triplets.rater, minlength=len(study.raters))
    reference = None if truth is None else accuracies(study, truth)
    for k, rater in enumerate(study.raters):
        row: Row = {"rater": rater, "labels": int(given[k]), "accuracy": None}
        total = int(counts[k].sum())
        if total:
            share = row["accuracy"] = float(np.trace(counts[k]) / total)
            row["accuracy_se"] = float(np.sqrt(share * (1 - share) / total))
        if reference is not None:
            row["accuracy_reference"] = reference[k]["accuracy"]
        rows.append(row)
    return rows


# Without a rater


def left_out_scores(labels: Array, num_classes: int, refit: Refit) -> tuple[Floats, Floats]:
    """Compare the consensus of all raters with that of all but one.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        refit: Fuses labels.

    Returns:
        The mean Dice over classes, and the relative change of volume, both `(raters,)`; NaN for a
        rater who labelled nothing, or alone, and where nothing was drawn.

    Example:
        >>> from raters.fusion._vote import vote
        >>> labels = np.array([[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]])
        >>> left_out_scores(labels, 2, vote)[0].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    size = math.prod(labels.shape[1:])
    step = math.ceil(math.sqrt(size / _LARGE)) if labels.ndim == 3 and size > _LARGE else 1
    thinned = labels[(slice(None), *(slice(None, None, step),) * (labels.ndim - 1))]
    whole = refit(thinned, num_classes).labels
    dice = np.full(len(labels), np.nan)
    change = np.full(len(labels), np.nan)
    for k in range(len(labels)):
        others = thinned.copy()
        others[k] = MISSING  # as good as no rater, and all the others keep their place
        if (thinned[k] != MISSING).any() and (others != MISSING).any():
            without = refit(others, num_classes).labels
            scores = drawn_dice(pair_counts(whole, without, num_classes))
            dice[k] = defined_mean(scores).mean
            drawn = int((whole > 0).sum())
            change[k] = (int((without > 0).sum()) - drawn) / drawn if drawn else np.nan
    return dice, change


def left_out_rows(raters: Sequence[str], dice: Floats, change: Floats) -> list[Row]:
    """Average over cases: `dice` and `change` are `(cases, raters)`."""
    rows = []
    for k, rater in enumerate(raters):
        row: Row = {"rater": rater, "cases": int(np.isfinite(dice[:, k]).sum())}
        row["dice"], row["dice_se"] = mean_and_error(dice[:, k])
        rows.append({**row, "volume_change": mean_and_error(change[:, k])[0]})
    return rows


def mean_and_error(values: Floats) -> tuple[float | None, float | None]:
    """Return the mean of the values that are known and its standard error; None without enough.

    Example:
        >>> mean_and_error(np.array([0.8, 0.6, np.nan])), mean_and_error(np.array([1.0]))
        ((0.7, 0.1...), (1.0, None))
    """
    there = values[np.isfinite(values)]
    if not there.size:
        return None, None
    error = float(there.std(ddof=1) / math.sqrt(there.size)) if there.size > 1 else None
    return float(there.mean()), error


def left_out(rows: Sequence[Row]) -> dict[str, Any]:
    """Return without whom the consensus changes most and least, of rows of `left_out_rows`."""
    known = sorted((r for r in rows if r["dice"] is not None), key=lambda r: -float(r["dice"]))
    ends = [(r["rater"], r["dice"]) for r in (known[-1], known[0])] if known else [None, None]
    safe = [r["rater"] for r in known if r["dice"] >= _SAME]
    alike = bool(known) and known[-1]["dice"] > known[0]["dice"] - _EQUAL
    found = {"most": ends[0], "least": ends[1], "safe": safe}
    return found | {"all_safe": len(safe) == len(known), "alike": alike}


def left_out_tasks(study: Study, names: Sequence[str], refit: Refit) -> tuple[list[Row], Fusion]:
    """Fuse a table again without each of some raters, and count the tasks whose label changes.

    Returns:
        A row per rater, those that change most first; and the fusion of all raters.
    """
    triplets = study.triplets
    classes = len(study.classes)
    fused = refit(triplets, classes)
    rows = []
    for name in names if len(study.raters) > 2 else []:
        kept = triplets.rater != study.raters.index(name)
        task = triplets.task[kept]
        rater = triplets.rater[kept]
        label = triplets.label[kept]
        part = Triplets(task, rater, label, triplets.tasks, triplets.raters, triplets.values)
        changed = fused.labels != refit(part, classes).labels
        own = changed[np.unique(triplets.task[~kept])]
        row: Row = {"rater": name, "tasks": len(own), "changed": int(own.sum())}
        row["share"] = float(own.mean()) if len(own) else None
        rows.append({**row, "changed_elsewhere": int(changed.sum()) - row["changed"]})
    return sorted(rows, key=lambda row: -int(row["changed"])), fused


def ends_of(rows: Sequence[Row]) -> tuple[Row | None, Row | None]:
    """Return who is farthest from the consensus and who closest, of those with enough labels."""
    known = [row for row in rows if row["accuracy"] is not None]
    enough = [row for row in known if row["labels"] >= ENOUGH]
    enough.sort(key=lambda row: float(row["accuracy"]))
    return (enough[0], enough[-1]) if len(enough) > 1 else (None, None)


def least_sure(study: Study, truth: Floats, labelled: Flags, most: int) -> dict[str, str]:
    """Return the tasks that a consensus is least sure of, with its class and how sure it is."""
    sure = np.where(labelled, truth.max(axis=1), np.inf)
    order = [k for k in np.argsort(sure, kind="stable")[:most] if labelled[k]]
    names = study.classes.names
    return {study.cases[k]: f"{names[truth[k].argmax()]}: {sure_words(sure[k])}" for k in order}


def sure_words(share: float) -> str:
    """Return how sure a consensus is of a label: '0.97 sure', and never wholly."""
    return f"{share:.2f} sure" if share < 0.995 else "> 0.99 sure"
