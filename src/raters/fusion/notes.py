"""What has to be said beside a consensus of masks: raters who are copies, two with no majority.

Each case gives a few numbers (small enough for a journal), and those of all cases give the notes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.fusion.result import Fusion
from raters.rows import Row

_LOOKS = 1 << 14
_BLOCK = 1 << 20
NEARLY_ALL = 0.95
"""Raters are copies if they have the same masks in this share of the cases that both drew on."""


def case_remarks(labels: NDArray[Any], fusion: Fusion) -> Row:
    """Return what notes need of a case: who drew, who drew the same, and what became of two.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        fusion: Their fusion.

    Example:
        >>> from raters.fusion.staple import staple
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
    if len(there) == 2 and fusion.confusion is not None:
        remarks["two"] = _two(flat[there[0]], flat[there[1]], fusion.labels.ravel())
    if fusion.notes:
        remarks["starts"] = fusion.notes
    return remarks


def _same(flat: NDArray[Any], looks: NDArray[Any], drew: Sequence[int]) -> list[list[int]]:
    """Return the pairs of raters who drew, and drew the same."""
    alike: dict[bytes, list[int]] = defaultdict(list)
    for r in drew:
        alike[looks[r].tobytes()].append(r)
    pairs = (pair for group in alike.values() for pair in combinations(group, 2))
    return [[a, b] for a, b in pairs if _equal(flat[a], flat[b])]


def _equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    parts = (slice(k, k + _BLOCK) for k in range(0, len(a), _BLOCK))
    return all(np.array_equal(a[part], b[part]) for part in parts)


def _two(a: NDArray[Any], b: NDArray[Any], fused: NDArray[Any]) -> list[int]:
    """Count the voxels that two raters differ on, and those of them that became background."""
    differ = (a != b) & (a >= 0) & (b >= 0)
    return [int(differ.sum()), int((fused[differ] == 0).sum())]


def notes_of(remarks: Iterable[Row], raters: Sequence[str], method: str) -> list[str]:
    """Return the notes of a study from the remarks on its cases.

    Example:
        >>> rows = [{"drew": [0, 1, 2], "same": [[0, 2]]}, {"drew": [0, 2], "same": [[0, 2]]}]
        >>> notes_of(rows, ("ann", "bob", "cy"), "staple")[0].split(":")[0]
        'ann and cy have the same masks in 2 of the 2 cases that both drew on'
    """
    same: Counter[tuple[int, int]] = Counter()
    both = np.zeros((len(raters), len(raters)), np.int64)
    cases = doubtful = pairs = differ = background = 0
    for row in remarks:
        cases += 1
        drew = row.get("drew", [])
        both[np.ix_(drew, drew)] += 1
        same.update((a, b) for a, b in row.get("same", []))
        doubtful += "starts" in row
        pairs += "two" in row
        voxels, empty = row.get("two", (0, 0))
        differ, background = differ + voxels, background + empty
    notes = [
        f"{raters[a]} and {raters[b]} have the same masks in {number:,} of the {both[a, b]:,} "
        "cases that both drew on: together they outvote raters who differ by chance; "
        "if one is a copy, leave it out"
        for (a, b), number in sorted(same.items())
        if number >= NEARLY_ALL * both[a, b]
    ]
    if pairs and differ:
        notes.append(_about_two(method, pairs, background / differ))
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
