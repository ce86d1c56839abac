"""What recurrences of a run changed: a case side by side, and the trust in each rater."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from raters.arrays import Floats
from raters.plots import style
from raters.report.blocks import FigureBlock, Section, TableBlock
from raters.rows import Row
from raters.study.study import many

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model

MOST_CASES = 8
"""Cases that the trust is averaged over."""

_FIGURE = (
    "Case {case}: how likely foreground is by each recurrence, from 0 (dark) to 1. Each starts "
    "from the trust in raters that the one before it ended with. Where they hardly differ, fewer "
    "--recurrences do."
)
_TABLE = (
    "The trust in each rater after each recurrence, averaged over what the model calls foreground "
    "or the rater drew, of {cases}: with --fuse-by bayes how likely the rater is right there, "
    "with weights the share that the rater's label has. All raters start alike."
)


def recurrence_section(model: Model, part: Study | None) -> Section | None:
    """Show what recurrences did; None for methods without them, or where nothing is drawn."""
    if "recurrences" not in model.method.answers or part is None or not len(part):
        return None
    sums: Floats | None = None
    first: tuple[str, Floats] | None = None
    cases = list(part.cases)[:MOST_CASES]
    for name in cases:
        turns, trust = model.recurrences(part[name])
        first = first or (name, np.asarray(1 - turns[:, 0], np.float64))
        drawn = np.zeros((len(model.config.raters), *turns.shape[2:]), bool)
        for place, rater in enumerate(part.raters):
            if rater in model.config.raters:
                drawn[model.config.raters.index(rater)] = part[name].labels[place] > 0
        drawn |= turns[-1].argmax(0) > 0
        pixels = np.broadcast_to(drawn.sum((1, 2)), trust.shape[:2])
        found = np.stack([(trust * drawn).sum((2, 3)), pixels])
        sums = found if sums is None else sums + found
    assert sums is not None and first is not None  # there are cases
    rows = trust_rows(model.config.raters, sums, model.config.labelled)
    table = TableBlock("trust", rows, _TABLE.format(cases=many(len(cases), "case")))
    figure = FigureBlock("recurrences", side_by_side(first[1]), _FIGURE.format(case=first[0]))
    about = "What did further recurrences change, and whom did they come to trust?"
    return Section("Recurrences", about, [figure, table])


def trust_rows(raters: Sequence[str], sums: Floats, shown: Sequence[str]) -> list[Row]:
    """Return one row per rater: the mean trust after each recurrence.

    Args:
        raters: All raters of the model.
        sums: Summed trust and numbers of pixels, `(2, recurrences, raters)`.
        shown: Those raters who labelled.

    Example:
        >>> sums = np.array([[[6.0], [9.0]], [[10.0], [10.0]]])
        >>> trust_rows(["ann"], sums, ["ann"])
        [{'rater': 'ann', 'recurrence 1': 0.6, 'recurrence 2': 0.9}]
    """
    means = sums[0] / np.where(sums[1] > 0, sums[1], np.nan)
    rows: list[Row] = []
    for k, rater in enumerate(raters):
        if rater in shown:
            each = {f"recurrence {i}": float(value) for i, value in enumerate(means[:, k], start=1)}
            rows.append({"rater": rater, **each})
    return rows


def side_by_side(foreground: Floats) -> Figure:
    """Draw how likely foreground is by each recurrence, `(recurrences, rows, columns)`."""
    number = len(foreground)
    figure = style.new_figure(2.2 * number, 2.5, pictures=True)
    for k, values in enumerate(foreground, start=1):
        axes = figure.add_subplot(1, number, k)
        axes.imshow(values, cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"recurrence {k}", **style.font(9))
        axes.set_axis_off()
    return figure
