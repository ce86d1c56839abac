"""How far each rater can be trusted, by a run: measures, confusion matrices, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raters import plots
from raters.arrays import Floats, mean_known
from raters.report.blocks import Block, FigureBlock, Section, TextBlock, figure, section, table
from raters.report.findings import apart, low_skills
from raters.report.say import ALL_RATERS, say
from raters.rows import Row

MOST_MATRICES = 24
"""Raters whose matrices are drawn."""
_MOST_DOTS = 60
_ALIKE = 0.01  # of measures that are not worth a sentence
_TELLING = 10  # percent of what a rater draws more or less, from which on a sentence says so


@dataclass(frozen=True)
class Estimated:
    """The matrices of raters.

    Attributes:
        raters: Their names.
        classes: Names of the classes.
        matrices: `C[t, o]`, `(raters, L, L)`; rows of classes that were not seen are NaN.
        true: The true ones, where there is a reference.
        draws_more: How much more foreground than the predicted consensus has each rater drew, as a
            share; None if unknown, or nothing is drawn.
        over: What the matrices are averaged over, in words.
        masks: Whether class 0 is background.
        pixels: How much of each class the model saw, `(L,)`: with it, masks have a sensitivity
            and a positive predictive value over all foreground.
        all_raters: All raters in the order of the study, by which they have their colours.
        anonymous: Whether raters are anonymous: all are one then.
        shared: Whether all raters share one matrix or head.
    """

    raters: Sequence[str]
    classes: Sequence[str]
    matrices: Floats
    true: Floats | None = None
    draws_more: Floats | None = None
    over: str = "the cases"
    masks: bool = False
    pixels: Floats | None = None
    all_raters: Sequence[str] | None = None
    anonymous: bool = False
    shared: bool = False


def rater_section(found: Estimated) -> Section:
    """Show measures of each rater and the matrices, beside true ones if they are known."""
    if found.anonymous or found.shared:
        return _shared_section(found)
    rows = skill_rows(found)
    blocks: list[Block] = [TextBlock(text) for text in said_of(rows)]
    names = list(found.raters)
    masks = ", background included" if found.masks else ""
    if len(names) <= _MOST_DOTS:
        foreground = "ppv" in rows[0]
        both = ["sensitivity", "ppv"] if foreground else ["balanced_accuracy"]
        drawn = plots.skills(rows, both, raters=found.all_raters)
        blocks.append(figure("run.skill", drawn, foreground=foreground))
    blocks.append(table("run.raters", rows, more=masks))
    if found.true is not None:
        skills = skills_of(found.matrices), skills_of(found.true)
        drawn = plots.skill_scatter(*skills, names, all_raters=found.all_raters)
        blocks.append(figure("run.skill_true", drawn))
    kept = _kept(found.matrices)
    true = None if found.true is None else found.true[kept]
    blocks.append(_matrices(found, found.matrices[kept], true, [names[k] for k in kept]))
    return section("run.raters", blocks, one=False)


def _matrices(
    found: Estimated, matrices: Floats, true: Floats | None, names: list[str]
) -> FigureBlock:
    one, few = names == [ALL_RATERS], len(names) if len(names) < len(found.raters) else 0
    drawn = plots.confusion(matrices, found.classes, names, truth=true)
    of: Row = {"over": found.over, "true": true is not None, "all": len(found.raters)}
    return figure("run.confusion", drawn, one=one, few=0 if one else few, **of)


def _shared_section(found: Estimated) -> Section:
    """Show one matrix for all raters: they share it, or are anonymous."""
    why = "Raters are anonymous" if found.anonymous else "All raters share one matrix"
    more = [] if found.draws_more is None else found.draws_more.tolist()
    way = one_way([None if np.isnan(share) else 100 * share for share in more])
    blocks: list[Block] = [TextBlock(f"{why}, so none of them is ranked.")]
    blocks += [] if way is None else [TextBlock(_one_way_said(way))]
    true = None if found.true is None else mean_known(found.true)
    blocks.append(_matrices(found, mean_known(found.matrices), true, [ALL_RATERS]))
    return section("run.raters", blocks, one=True)


def skills_of(matrices: Floats) -> Floats:
    """Return the mean of the diagonals, over classes that are known; NaN if none is."""
    return mean_known(np.einsum("rll->rl", matrices), axis=1)


def skill_rows(found: Estimated) -> list[Row]:
    """Return one row per rater.

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
        row: Row = {"rater": name}
        if found.masks and found.pixels is not None:
            row |= foreground_of(found.matrices[k], found.pixels)
        row["balanced_accuracy"] = float(skills[k])
        if true is not None:
            row |= {"true_balanced_accuracy": float(true[k]), "matrix_error": _error(found, k)}
        row["most_frequent_error"] = _worst(found.matrices[k], found.classes)
        if found.draws_more is not None:
            share = float(found.draws_more[k])
            row["draws_more_percent"] = None if np.isnan(share) else round(100 * share, 1)
        rows.append(row)
    return rows


def foreground_of(matrix: Floats, pixels: Floats) -> Row:
    """Return sensitivity and positive predictive value over all foreground, from a matrix.

    With `w` pixels of each true class: `sum_{t > 0} w_t C[t, t]` over `sum_{t > 0} w_t`, and over
    `sum_t sum_{o > 0} w_t C[t, o]`. None where it does not exist.

    Example:
        >>> foreground_of(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([80.0, 20.0]))
        {'sensitivity': 0.8, 'ppv': 0.6666666666666666}
    """
    joint = np.nan_to_num(matrix) * np.nan_to_num(pixels)[:, np.newaxis]
    same = float(np.trace(joint[1:, 1:]))
    there, drawn = float(np.nan_to_num(pixels)[1:].sum()), float(joint[:, 1:].sum())
    return {"sensitivity": same / there if there else None, "ppv": same / drawn if drawn else None}


def said_of(rows: Sequence[Row]) -> list[str]:
    """Report who misses most and who draws too much; if all err one way, that the model does."""
    rows = [row for row in rows if np.isfinite(row["balanced_accuracy"])]
    if len(rows) < 2:
        return []
    if rows[0].get("ppv") is not None:
        said: list[str] = [say("matrices_skill", measures=low_skills(rows, _ALIKE)["measures"])]
    else:
        low, *_, high = sorted(rows, key=lambda row: row["balanced_accuracy"])
        alike = high["balanced_accuracy"] - low["balanced_accuracy"] < _ALIKE
        said = [say("balanced", low=low, high=high, alike=alike)]
    way = one_way([row.get("draws_more_percent") for row in rows])
    if way is not None:
        return [*said, _one_way_said(way)]
    unlike = draws_unlike(rows)
    return [*said, say("draws", rows=unlike)] if unlike else said


def draws_unlike(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """Return who draws much more or less than the predicted consensus has, the farthest first."""
    telling = [row for row in rows if abs(row.get("draws_more_percent") or 0.0) >= _TELLING]
    telling.sort(key=lambda row: -abs(row["draws_more_percent"]))
    return [(row["rater"], row["draws_more_percent"]) for row in telling[:4]]


def one_way(percents: Sequence[float | None]) -> tuple[float, float, bool] | None:
    """Return how much more (or less) all raters draw than the model predicts; None if not all do.

    Example:
        >>> one_way([65.0, 50.0]), one_way([65.0, -50.0]), one_way([65.0, 2.0])
        ((50.0, 65.0, True), None, None)
    """
    known = [value for value in percents if value is not None]
    if len(known) < 2 or min(map(abs, known)) < _TELLING or min(known) < 0 < max(known):
        return None
    sizes = [abs(value) for value in known]
    return min(sizes), max(sizes), known[0] > 0


def _one_way_said(way: tuple[float, float, bool]) -> str:
    return say("one_way", low=way[0], high=way[1], more=way[2])


def _error(found: Estimated, rater: int) -> float | None:
    return None if found.true is None else apart(found.matrices[rater], found.true[rater])


def _worst(matrix: Floats, classes: Sequence[str]) -> str:
    errors = np.where(np.eye(len(matrix), dtype=bool), -1.0, np.nan_to_num(matrix))
    t, o = divmod(int(errors.argmax()), len(errors))
    share = 100 * errors[t, o]
    written = f"{share:.0f}" if share >= 1 else f"{share:.1f}"
    return f"calls {written} % of {classes[t]} {classes[o]}"


def _kept(matrices: Floats) -> list[int]:
    """Return the raters to draw: all, or the least and the most skilled ones."""
    number = len(matrices)
    if number <= MOST_MATRICES:
        return list(range(number))
    order = np.argsort(skills_of(matrices), kind="stable").tolist()
    half = MOST_MATRICES // 2
    return sorted([*order[:half], *order[-half:]])
