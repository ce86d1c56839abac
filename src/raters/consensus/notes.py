"""What has to be said beside a consensus: raters who are copies, methods that differ.

Each case of masks gives a few numbers (small enough for a journal), and all of them give the notes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from raters.core.arrays import Array
from raters.core.classes import MISSING
from raters.core.wording import many
from raters.fusion._dawid_skene import dawid_skene, one_coin
from raters.fusion.columns import answers_of, vote_shares
from raters.fusion.methods import METHODS
from raters.fusion.result import Fusion
from raters.io.rows import Row
from raters.study.triplets import Triplets

_LOOKS = 1 << 14
_BLOCK = 1 << 20
_UNSAID = 0.01
"""The share of a case's foreground in classes that nobody gave there that is worth a note."""
NEARLY_ALL = 0.95
"""Raters are copies if they have the same masks in this share of the cases that both drew on."""


def case_remarks(labels: Array, fusion: Fusion) -> Row:
    """Return what notes need of a case: who drew, who drew the same, and what became of two.

    And in how many voxels the consensus is a class that nobody gave, if they are worth a note.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        fusion: Their fusion.

    Example:
        >>> from raters.fusion._staple import staple
        >>> labels = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]])
        >>> case_remarks(labels, staple(labels, 2))
        {'drew': [0, 1], 'two': [2, 2]}
    """
    flat = labels.reshape(len(labels), -1)
    if not flat.shape[1]:
        return {}
    # Places at random: a stride might see one plane of a volume only.
    places = np.random.default_rng(0).integers(flat.shape[1], size=min(_LOOKS, flat.shape[1]))
    looks = np.ascontiguousarray(flat[:, places])
    drew = np.flatnonzero((looks > 0).any(axis=1)).tolist()
    remarks: Row = {"drew": drew}
    same = _same(flat, looks, drew)
    if same:
        remarks["same"] = same
    there = np.flatnonzero((looks >= 0).any(axis=1))
    matrices = fusion.confusion is not None
    fused = fusion.labels.ravel()
    if len(there) == 1 and matrices and _equal(flat[there[0]], fused):
        remarks["one"] = True
    if len(there) == 2 and matrices:
        a, b = flat[there]  # voxels that they differ on, and those that became background
        differ = (a != b) & (a >= 0) & (b >= 0)
        remarks["two"] = [int(differ.sum()), int((fused[differ] == 0).sum())]
    if matrices:
        unsaid = _unsaid(flat, fused)
        if unsaid > _UNSAID * np.count_nonzero(fused > 0):
            remarks["unsaid"] = unsaid
    if fusion.notes:
        remarks["starts"] = fusion.notes
    return remarks


def _same(flat: Array, looks: Array, drew: Sequence[int]) -> list[list[int]]:
    """Return the pairs of raters who drew, and drew the same."""
    alike: dict[bytes, list[int]] = defaultdict(list)
    for r in drew:
        alike[looks[r].tobytes()].append(r)
    pairs = (pair for group in alike.values() for pair in combinations(group, 2))
    return [[a, b] for a, b in pairs if _equal(flat[a], flat[b])]


def _equal(a: Array, b: Array) -> bool:
    return all(np.array_equal(a[part], b[part]) for part in _parts(len(a)))


def _unsaid(flat: Array, fused: Array) -> int:
    """Count the voxels of the foreground whose class no rater gave there."""
    return sum(
        int(((flat[:, part] != fused[part]).all(axis=0) & (fused[part] > 0)).sum())
        for part in _parts(len(fused))
    )


def _parts(size: int) -> Iterator[slice]:
    """Return stretches of voxels, as large images leave little room beside them."""
    return (slice(k, k + _BLOCK) for k in range(0, size, _BLOCK))


def notes_of(remarks: Iterable[Row], raters: Sequence[str], method: str) -> list[str]:
    """Return the notes of a study from the remarks on its cases.

    Example:
        >>> rows = [{"drew": [0, 1, 2], "same": [[0, 2]]}, {"drew": [0, 2], "same": [[0, 2]]}]
        >>> notes_of(rows, ("ann", "bob", "cy"), "staple")[0].split(":")[0]
        'ann and cy have the same masks in 2 of the 2 cases that both drew on'
    """
    same: Counter[tuple[int, int]] = Counter()
    both = np.zeros((len(raters), len(raters)), np.int64)
    cases = doubtful = unsaid = alone = pairs = differ = background = 0
    for row in remarks:
        cases += 1
        drew = row.get("drew", [])
        both[np.ix_(drew, drew)] += 1
        same.update((a, b) for a, b in row.get("same", []))
        doubtful += "starts" in row
        unsaid += "unsaid" in row
        alone += "one" in row
        pairs += "two" in row
        voxels, empty = row.get("two", (0, 0))
        differ = differ + voxels
        background = background + empty
    notes = [
        f"{raters[a]} and {raters[b]} have the same masks in {number:,} of the {both[a, b]:,} "
        "cases that both drew on: together they outvote raters who differ by chance; "
        "if one is a copy, leave it out"
        for (a, b), number in sorted(same.items())
        if number >= NEARLY_ALL * both[a, b]
    ]
    if alone:
        what = f"{alone:,} case{'s have' if alone > 1 else ' has'} one rater only"
        notes.append(f"{what}: the consensus is what this rater drew")
    if pairs and differ:
        notes.append(_about_two(method, pairs, background / differ))
    if unsaid:
        notes.append(
            f"in {unsaid:,} of {many(cases, 'case')} {_UNSAID:.0%} of the consensus or more is a "
            f"class that no rater gave there: to {method} it explains what raters gave instead; "
            "look at these cases, or compare with -m vote"
        )
    if doubtful:
        notes.append(
            f"EM has several solutions in {doubtful:,} of {cases:,} cases: from other starts it "
            "ends elsewhere; raters.json has them"
        )
    return notes


def _about_two(method: str, pairs: int, background: float) -> str:
    what = f"{pairs:,} case{'s have' if pairs > 1 else ' has'} two raters only: "
    if background >= NEARLY_ALL:
        found = f"the consensus is their intersection ({background:.1%} of what they differ on)"
    elif background <= 1 - NEARLY_ALL:
        found = f"the consensus is their union ({1 - background:.1%} of what they differ on)"
    else:
        found = f"{background:.0%} of what they differ on became background"
    return f"{what}{found}; labels of two do not tell {method} who is right"


ENOUGH = 10
"""Answers per rater and class above which one matrix per rater can be estimated well."""

MANY = 0.1
"""The share of tasks from which on differing methods are worth a note."""

MOST_ANSWERS = 1_000_000
"""Larger tables are not fused by other methods for the sake of a note."""


def table_notes(
    triplets: Triplets, num_classes: int, fusion: Fusion, method: str, options: Mapping[str, Any]
) -> list[str]:
    """Return notes on a table: whether methods differ, and whether raters have enough answers.

    No method is the best on every table. Where they agree, it does not matter which one is taken;
    where they differ on many tasks, some are wrong, and labels alone do not tell which.

    Example:
        >>> task, rater = np.divmod(np.arange(60), 3)
        >>> table = Triplets(task, rater, task % 2, list(map(str, range(20))), tuple("abc"), (0, 1))
        >>> table_notes(table, 2, dawid_skene(table, 2), "dawid-skene", {})
        []
    """
    notes = []
    entry = METHODS[method]
    if entry.errors == "rows" and not options.get("smoothing"):
        notes += _few_answers(triplets, num_classes, method)
    if entry.compares and 0 < len(triplets) <= MOST_ANSWERS:
        notes += _differ(triplets, num_classes, fusion, method)
    return notes


def _few_answers(triplets: Triplets, num_classes: int, method: str) -> list[str]:
    given = np.bincount(triplets.rater[triplets.label != MISSING])
    given = given[given > 0]
    if not given.size or np.median(given) >= ENOUGH * num_classes:
        return []
    return [
        f"half of the {len(given):,} raters have at most {np.median(given):,.0f} answers, and "
        f"{method} estimates {num_classes * (num_classes - 1):,} numbers of each (it needs "
        f"about {ENOUGH} answers per class): take hierarchical, or --option smoothing=2"
    ]


def _differ(triplets: Triplets, num_classes: int, fusion: Fusion, method: str) -> list[str]:
    shares = vote_shares(answers_of(triplets, num_classes))
    highest = shares.max(axis=1)
    clear = ((shares == highest[:, np.newaxis]).sum(axis=1) == 1) & (fusion.labels != MISSING)
    if not clear.any():
        return []
    others: dict[str, Callable[[], Array]] = {
        "vote": lambda: shares.argmax(axis=1),
        "one-coin": lambda: one_coin(triplets, num_classes).labels,
        "dawid-skene": lambda: dawid_skene(triplets, num_classes).labels,
    }
    differ = {
        name: float((labels() != fusion.labels)[clear].mean())
        for name, labels in others.items()
        if name != method
    }
    if max(differ.values()) <= MANY:
        return []
    shown = " and ".join(f"from {name} on {share:.0%}" for name, share in differ.items())
    return [
        f"the labels differ {shown} of the tasks (ties of the vote left out): no method is safe "
        "here; check some of these tasks by hand before you choose one"
    ]
