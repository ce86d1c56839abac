"""Sentences under the figures of a table of class labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raters.report.words import begin, named, percent, together
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.study import Study

_ENOUGH = 10
_NAMED = 3
_FAR = 0.15


def workers_sentence(rows: Sequence[Row]) -> str:
    """Report who differs most from the others, of those with enough labels to tell.

    Example:
        >>> rows = [{"rater": "ann", "agreement_rest": 0.9, "compared": 50},
        ...         {"rater": "bot", "agreement_rest": 0.2, "compared": 40}]
        >>> workers_sentence(rows)[:60]
        'bot says what most of the others say on only 20 % of 40 labe'
    """
    enough = [r for r in rows if r["agreement_rest"] is not None and r["compared"] >= _ENOUGH]
    if not enough:
        return (
            f"No rater has {_ENOUGH} labels that can be compared with the vote of the others: "
            "collect more labels per task before raters are judged."
        )
    middle = float(np.median([r["agreement_rest"] for r in enough]))
    low = [r for r in enough if r["agreement_rest"] < middle - _FAR]
    low.sort(key=lambda r: float(r["agreement_rest"]))
    if not low:
        return (
            f"Raters with {_ENOUGH} labels or more all stay near the median: "
            f"{percent(middle)} of their labels equal the vote of the others."
        )
    first = low[0]
    others = together([named(r["rater"]) for r in low[1:]]) if len(low) > 1 else ""
    more = f" Also far below: {others}." if others else ""
    return begin(
        f"{named(first['rater'])} says what most of the others say on only "
        f"{percent(first['agreement_rest'])} of {first['compared']:,} labels (the median rater: "
        f"{percent(middle)}).{more} Check whether they understood the task; a fusion with "
        "matrices (raters fuse -m dawid-skene) gives their labels less weight."
    )


def disputed_sentence(cases: Sequence[Row]) -> str:
    """Return which tasks to look at first."""
    known = [row for row in cases if row["entropy"] is not None]
    split = [row for row in known if row["share"] < 1]
    if not known:
        return "No task has two labels: no task can be called disputed."
    if not split:
        return f"Raters are unanimous on all {len(known):,} tasks with two labels or more."
    first = together([named(row["case"], "task") for row in split[:_NAMED]])
    return (
        f"Raters differ on {len(split):,} of {len(known):,} tasks "
        f"({percent(len(split) / len(known))}). Look first at {first}."
    )


def heat_caption(pairs: Sequence[Row], least: int) -> str:
    """Return which pair agrees least and most, of those that are shown."""
    known = [p for p in pairs if p["agreement"] is not None]
    low = min(known, key=lambda p: (p["agreement"], -p["cases"]))
    high = max(known, key=lambda p: (p["agreement"], p["cases"]))
    text = (
        f"{named(low['rater_a'])} and {named(low['rater_b'])} agree least "
        f"({percent(low['agreement'])} of {low['cases']:,} tasks)"
    )
    if high is not low:
        text += (
            f", {named(high['rater_a'])} and {named(high['rater_b'])} most "
            f"({percent(high['agreement'])} of {high['cases']:,})"
        )
    text = begin(text)
    gaps = f" Grey: fewer than {least} tasks in common." if least > 1 else ""
    return f"{text}. Raters who agree stand next to each other.{gaps}"


def shares_sentence(study: Study) -> str:
    """Report who uses a class far more or less than the others."""
    triplets, names = study.triplets, study.classes.names
    counts = np.zeros((len(study.raters), len(names)))
    np.add.at(counts, (triplets.rater, triplets.label), 1)
    total = counts.sum(axis=1)
    all_shares = counts.sum(axis=0) / max(1.0, counts.sum())
    enough = np.flatnonzero(total >= 2 * _ENOUGH)
    if not enough.size:
        return "One bar per rater: how often each class was given."
    gap = counts[enough] / total[enough, np.newaxis] - all_shares
    r, c = np.unravel_index(np.abs(gap).argmax(), gap.shape)
    share = counts[enough[r], c] / total[enough[r]]
    who = begin(named(study.raters[enough[r]]))
    return (
        f"One bar per rater: how often each class was given. {who} differs most: "
        f"{percent(share)} {named(names[c], 'class')}, where all together give it "
        f"{percent(all_shares[c])}. That may be the tasks, or a habit: see which tasks these were."
    )
