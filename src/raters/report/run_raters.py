"""How far each rater can be trusted, by a run: skill, confusion matrices, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters import plots
from raters.report.blocks import Block, FigureBlock, Section, TableBlock, TextBlock
from raters.rows import Row

MOST_MATRICES = 24
"""Raters whose matrices are drawn."""
_MOST_DOTS = 60
_ALIKE = 0.01  # of skills that are not worth a sentence
_TELLING = 10  # percent of what a rater draws more or less, from which on a sentence says so

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimated:
    """The matrices of raters.

    Attributes:
        raters: Their names.
        classes: Names of the classes.
        matrices: `C[t, o]`, `(raters, L, L)`; rows of classes that were not seen are NaN.
        true: The true ones, where there is a reference.
        draws_more: How much more foreground than the predicted truth has each rater drew, as a
            share; None if nobody knows, or nothing is drawn.
        over: What the matrices are averaged over, in words.
    """

    raters: Sequence[str]
    classes: Sequence[str]
    matrices: Floats
    true: Floats | None = None
    draws_more: Floats | None = None
    over: str = "the cases"


def rater_section(found: Estimated) -> Section:
    """Show the skill of each rater and the matrices, beside true ones if they are known."""
    rows = skill_rows(found)
    blocks: list[Block] = [TextBlock(text) for text in said_of(rows)]
    names = list(found.raters)
    if len(names) <= _MOST_DOTS:
        blocks.append(FigureBlock("skill", plots.skills(rows, ["skill"]), _SKILL))
    headings = {name: name.replace("_", " ") for name in rows[0]}
    headings |= {"draws_more_percent": "draws more (%)"} if "draws_more_percent" in rows[0] else {}
    blocks.append(TableBlock("raters", rows, _TABLE, headings))
    if found.true is not None:
        scatter = plots.skill_scatter(skills_of(found.matrices), skills_of(found.true), names)
        blocks.append(FigureBlock("skill_true", scatter, _SCATTER))
    kept = _kept(found.matrices)
    true = None if found.true is None else found.true[kept]
    figure = plots.confusion(
        found.matrices[kept], found.classes, [names[k] for k in kept], truth=true
    )
    few = "" if len(kept) == len(names) else f" {len(kept)} of {len(names)} raters are drawn."
    beside = "" if true is None else f" The true matrices stand beside them: {_TRUE}."
    caption = (
        f"Estimated confusion of each rater, averaged over {found.over}: a row is a true class, "
        f"and says how often the rater calls it what. Ideal is 1 on the diagonal.{beside}{few}"
    )
    blocks.append(FigureBlock("confusion", figure, caption))
    return Section("Raters", "How far can each rater be trusted, and how do they err?", blocks)


_SKILL = (
    "Skill by rater: the mean of the diagonal of the estimated matrix, so the chance that the "
    "rater is right, classes weighing alike. 1 is perfect."
)
_TABLE = (
    "Of each rater: the skill, the error with the highest rate in its true class, and (masks) how "
    "much more foreground than the predicted truth has the rater drew, in percent (less: below 0)."
)
_TRUE = "counted against the reference (of simulated raters: as they were made)"
_SCATTER = (
    f"Estimated against true skill, {_TRUE}, as Figure 7b of Tanno et al. (CVPR 2019): points on "
    "the line are right."
)


def skills_of(matrices: Floats) -> Floats:
    """Give the mean of the diagonals, over classes that are known; NaN if none is."""
    diagonal = np.einsum("rll->rl", matrices)
    known = np.isfinite(diagonal)
    total = np.where(known, diagonal, 0).sum(axis=1)
    return np.asarray(total / np.where(known.any(axis=1), known.sum(axis=1), np.nan))


def skill_rows(found: Estimated) -> list[Row]:
    """Give a row a rater.

    Example:
        >>> matrices = np.array([[[0.9, 0.1], [0.4, 0.6]]])
        >>> rows = skill_rows(Estimated(["ann"], ["healthy", "lesion"], matrices))
        >>> rows[0]["most_frequent_error"]
        'calls 40 % of lesion healthy'
    """
    rows: list[Row] = []
    skills = skills_of(found.matrices)
    true = None if found.true is None else skills_of(found.true)
    for k, name in enumerate(found.raters):
        row: Row = {"rater": name, "skill": float(skills[k])}
        if true is not None:
            row |= {"true_skill": float(true[k]), "matrix_error": _error(found, k)}
        row["most_frequent_error"] = _worst(found.matrices[k], found.classes)
        if found.draws_more is not None:
            share = float(found.draws_more[k])
            row["draws_more_percent"] = None if np.isnan(share) else round(100 * share, 1)
        rows.append(row)
    return rows


def said_of(rows: Sequence[Row]) -> list[str]:
    """Say who is the best and the weakest, and who draws too much or too little."""
    rows = [row for row in rows if np.isfinite(row["skill"])]
    if len(rows) < 2:
        return []
    ordered = sorted(rows, key=lambda row: row["skill"])
    low, high = ordered[0], ordered[-1]
    if high["skill"] - low["skill"] < _ALIKE:
        said = [
            f"The run sees no raters of unlike skill ({low['skill']:.2f} to {high['skill']:.2f}): "
            "they are alike, or it was trained too short to tell them apart."
        ]
    else:
        said = [
            f"{high['rater']} has the highest estimated skill ({high['skill']:.2f}), "
            f"{low['rater']} the lowest ({low['skill']:.2f}): {low['rater']} "
            f"{low['most_frequent_error']}."
        ]
    telling = [row for row in rows if abs(row.get("draws_more_percent") or 0.0) >= _TELLING]
    telling = sorted(telling, key=lambda row: -abs(row["draws_more_percent"]))[:4]
    if telling:
        parts = [
            f"{row['rater']} {abs(row['draws_more_percent']):.0f} % "
            f"{'more' if row['draws_more_percent'] > 0 else 'less'}"
            for row in telling
        ]
        said.append(
            f"Foreground drawn, against the predicted truth: {', '.join(parts)}. Show them the "
            "guideline, with cases from above."
        )
    return said


def _error(found: Estimated, rater: int) -> float | None:
    """Give the root mean square difference of a rater's matrices, over rows that both have."""
    if found.true is None:
        return None
    differences = found.matrices[rater] - found.true[rater]
    known = differences[np.isfinite(differences)]
    return float(np.sqrt(np.mean(known**2))) if known.size else None


def _worst(matrix: Floats, classes: Sequence[str]) -> str:
    errors = np.where(np.eye(len(matrix), dtype=bool), -1.0, np.nan_to_num(matrix))
    t, o = divmod(int(errors.argmax()), len(errors))
    share = 100 * errors[t, o]
    written = f"{share:.0f}" if share >= 1 else f"{share:.1f}"
    return f"calls {written} % of {classes[t]} {classes[o]}"


def _kept(matrices: Floats) -> list[int]:
    """Give the raters to draw: all, or the least and the most skilled ones."""
    number = len(matrices)
    if number <= MOST_MATRICES:
        return list(range(number))
    order = np.argsort(skills_of(matrices), kind="stable").tolist()
    half = MOST_MATRICES // 2
    return sorted([*order[:half], *order[-half:]])
