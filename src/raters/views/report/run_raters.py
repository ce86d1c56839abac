"""How far each rater can be trusted, by a run: measures, confusion matrices, and their errors.

Below are sections of single methods, which `SECTIONS` lists: weights of raters, what negative
drawings exclude (coarse), recurrences (prism), what a method does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from raters.assessment.fusion_findings import low_skills
from raters.core.arrays import Floats, mean_known
from raters.core.wording import ALL_RATERS
from raters.io.rows import Row, known
from raters.learning.evaluation.negatives import error_rows, look_at_negatives, trust_of
from raters.learning.evaluation.watch import Estimated, apart, draws_unlike, foreground_of, one_way
from raters.metrics.confusion import matrix_skills
from raters.views import plots
from raters.views.report.blocks import Block, Section, TextBlock, figure, note, section, table
from raters.views.report.example_pictures import samples_section
from raters.views.texts.say import named, percent, say

if TYPE_CHECKING:
    from raters.learning.training.model import Model
    from raters.study.study import Study

MOST_MATRICES = 24
"""Raters whose matrices are drawn."""
_MOST_DOTS = 60
_ALIKE = 0.01  # of measures that are not worth a sentence
_MOST_CASES = 8  # that the trust of recurrences is averaged over


def rater_section(found: Estimated) -> Section:
    """Show measures of each rater and the matrices, beside true ones if they are known.

    Where raters share a matrix or are anonymous, there is one for all.
    """
    matrices = found.matrices
    true = found.true
    names = list(found.raters)
    one = found.anonymous or found.shared
    if one:
        more = [] if found.draws_more is None else (100 * found.draws_more).tolist()
        way = one_way([known(percent) for percent in more])
        blocks: list[Block] = [note("not_ranked", "plain", anonymous=found.anonymous)]
        blocks += [] if way is None else [note("one_way", "plain", way=way)]
        matrices = mean_known(matrices)
        names = [ALL_RATERS]
        true = None if true is None else mean_known(true)
    else:
        blocks = _measures(found)
        kept = _kept(matrices)
        matrices = matrices[kept]
        names = [names[k] for k in kept]
        true = None if true is None else true[kept]
    drawn = plots.confusion(matrices, found.classes, names, truth=true)
    few = 0 if one or len(names) == len(found.raters) else len(names)
    of: Row = {"over": found.over, "known": true is not None, "all": len(found.raters), "few": few}
    return section("run.raters", *blocks, figure("run.confusion", drawn, one=one, **of), one=one)


def _measures(found: Estimated) -> list[Block]:
    rows = skill_rows(found)
    raters = found.all_raters
    blocks: list[Block] = [TextBlock(text) for text in said_of(rows, found.few, found.cut_off)]
    if len(rows) <= _MOST_DOTS:
        foreground = "ppv" in rows[0]
        both = ["sensitivity", "ppv"] if foreground else ["balanced_accuracy"]
        drawn = plots.skills(rows, both, raters=raters)
        blocks.append(figure("run.skill", drawn, foreground=foreground))
    more = ", background included" if found.masks else ""
    blocks.append(table("run.raters", rows, more=more))
    if found.true is not None:
        matrices = found.matrices, found.true
        drawn = plots.skill_scatter(*matrices, list(found.raters), all_raters=raters)
        blocks.append(figure("run.skill_true", drawn))
    return blocks


def skill_rows(found: Estimated) -> list[Row]:
    """Return one row per rater.

    Example:
        >>> matrices = np.array([[[0.9, 0.1], [0.4, 0.6]]])
        >>> rows = skill_rows(Estimated(["ann"], ["healthy", "lesion"], matrices))
        >>> rows[0]["most_frequent_error"]
        'takes 40 % of lesion for healthy'
    """
    rows: list[Row] = []
    skills = matrix_skills(found.matrices)
    for k, name in enumerate(found.raters):
        row: Row = {"rater": name}
        if found.masks and found.pixels is not None:
            row |= foreground_of(found.matrices[k], found.pixels)
        row["balanced_accuracy"] = float(skills[k])
        if found.true is not None:
            row["true_balanced_accuracy"] = float(matrix_skills(found.true)[k])
            row["matrix_error"] = apart(found.matrices[k], found.true[k])
        row["most_frequent_error"] = _worst(found.matrices[k], found.classes)
        if found.draws_more is not None:
            share = known(found.draws_more[k])
            row["draws_more_percent"] = None if share is None else round(100 * share, 1)
        rows.append(row)
    return rows


def said_of(rows: Sequence[Row], few: Collection[str] = (), cut_off: bool = False) -> list[str]:
    """Report who misses most and who draws too much; if all err one way, that the model does.

    At a cut that is off nobody is said to draw too much.
    """
    rows = [r for r in rows if np.isfinite(r["balanced_accuracy"]) and r["rater"] not in few]
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
        return [*said, say("one_way", way=way)]
    unlike = [] if cut_off else draws_unlike(rows)
    return [*said, say("draws", rows=unlike)] if unlike else said


def _worst(matrix: Floats, classes: Sequence[str]) -> str:
    errors = np.where(np.eye(len(matrix), dtype=bool), -1.0, np.nan_to_num(matrix))
    t, o = divmod(int(errors.argmax()), len(errors))
    share = errors[t, o]
    true = named(classes[t], "class")
    said = named(classes[o], "class")
    return f"takes {percent(share)} of {true} for {said}" if share >= 0.0005 else "none"


def _kept(matrices: Floats) -> list[int]:
    """Return the raters to draw: all, or the least and the most skilled ones."""
    order = np.argsort(matrix_skills(matrices), kind="stable").tolist()
    half = MOST_MATRICES // 2
    return sorted({*order[:half], *order[-half:]})


# Sections of single methods


def weight_section(model: Model, study: Study | None) -> Section | None:  # noqa: ARG001
    """Show the weights of raters, if the method learnt any."""
    from raters.learning.training.model import rows_of_weights

    rows = sorted(rows_of_weights(model.rater_weights), key=lambda row: -row["weight"])
    key = "run.rater_weights"
    return section(key, table(key, rows)) if rows else None


def unanswered_section(model: Model, study: Study | None = None) -> Section | None:  # noqa: ARG001
    """Report what the method cannot answer of raters; None if it answers all."""
    answers = model.method.answers
    lacking = [answer for answer in ("as_rater", "confusion") if answer not in answers]
    if not lacking:
        return None
    of = {"method": model.config.method, "lacking": lacking, "can": sorted(answers)}
    return section("run.unanswered", note("unanswered", "plain", **of))


def negative_section(model: Model, study: Study | None = None) -> Section | None:
    """Show what negative drawings of several classes exclude; None if there are none.

    Estimated matrices stand beside counted ones where there is a reference.
    """
    found = look_at_negatives(model, study)
    if found is None:
        return None
    beside: Row = {"columns": "excluded class", "truth": found.true_excluded}
    first = beside | {"rows": "would be called", "truth": found.true_transition}
    shown: dict[str, tuple[Floats, Row]] = {"transition": (found.transition, first)}
    if found.excluded is not None and found.said is not None:
        shown["excluded"] = (found.excluded, beside)
        shown["negative_confusion"] = (found.said, {"columns": "would be called"})
    known = found.counted is not None
    blocks = [
        figure(f"run.{name}", plots.confusion(m, found.classes, found.raters, **more), known=known)
        for name, (m, more) in shown.items()
    ]
    rows = error_rows(found)
    return section("run.transition", *blocks, table("run.negatives", rows) if rows else None)


def recurrence_section(model: Model, part: Study | None) -> Section | None:
    """Show what recurrences did; None for methods without them, or where nothing is drawn."""
    if "recurrences" not in model.method.answers or part is None or not len(part):
        return None
    cases = list(part.cases)[:_MOST_CASES]
    first, rows = trust_of(model, (part[name] for name in cases), part.raters)
    shown = plots.side_by_side(1 - first, "recurrence")
    block = figure("run.recurrences", shown, case=cases[0])
    return section("run.recurrences", block, table("run.trust", rows, cases=len(cases)))


SECTIONS: dict[str, Callable[[Model, Study | None], Section | None]] = {
    "weights": weight_section,
    "negatives": negative_section,
    "recurrences": recurrence_section,
    "samples": samples_section,
    "unanswered": unanswered_section,
}
"""Sections of methods that have something of their own to show, given the model and the cases
(None without a study); one that has nothing to show returns None. Add a line for yours."""
