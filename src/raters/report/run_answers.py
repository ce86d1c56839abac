"""The telling cases of a run of classes: a table of the most uncertain ones, and small pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raters.plots.pictures import picture as scaled
from raters.report.blocks import Block, Section, TableBlock, ViewerBlock
from raters.report.outlines import picture
from raters.report.viewer import Slice, ViewerCase

if TYPE_CHECKING:
    from raters.report.run_pass import Watched
    from raters.rows import Row
    from raters.study.case import Case
    from raters.study.study import Study

_MOST_CLASSES = 12
"""Classes whose probabilities get a column each."""
_MOST_ROWS = 200
_MOST_ANSWERS = 12


def answer_section(part: Study, watched: Watched, shown: int = 12) -> Section:
    """Show the cases that the model is least sure of, with what raters said."""
    order = sorted(watched.uncertainty, key=lambda name: -watched.uncertainty[name])
    rows = [_row(part, part[name], watched) for name in order[:_MOST_ROWS]]
    classes = (
        "" if len(part.classes) <= _MOST_CLASSES else " Only the likeliest class has a column."
    )
    caption = (
        "The most uncertain cases first (entropy of the prediction in bits), with what raters "
        f"answered. Have these labelled again, or look at them together.{classes}"
    )
    blocks: list[Block] = [TableBlock("uncertain_cases", rows, caption)]
    views = [_view(part[row["case"]], row) for row in rows[:shown]]
    if views and all(view is not None for view in views):
        pictures = [view for view in views if view is not None]
        blocks.append(ViewerBlock("cases", pictures, "The most uncertain cases."))
    return Section("Cases", "Which cases is the model least sure of?", blocks)


def _row(part: Study, case: Case, watched: Watched) -> Row:
    names, truth = part.classes.names, watched.answers[case.id]
    best = int(truth.argmax())
    row: Row = {"case": case.id, "uncertainty": watched.uncertainty[case.id]}
    row |= {"predicted": names[best], "p": float(truth[best])}
    if case.reference is not None:
        row["reference"] = names[int(case.reference)]
    row["answers"] = _answers(part, case)
    if len(names) <= _MOST_CLASSES:
        row |= {f"p({name})": float(p) for name, p in zip(names, truth, strict=True)}
    return row


def _answers(part: Study, case: Case) -> str:
    given = [f"{rater}: {part.classes.names[label]}" for rater, label in case.answers]
    more = f", and {len(given) - _MOST_ANSWERS} more" if len(given) > _MOST_ANSWERS else ""
    return ", ".join(given[:_MOST_ANSWERS]) + more


def _view(case: Case, row: Row) -> ViewerCase | None:
    """Show the picture of a case; None if there is none in two dimensions."""
    image = None if case.image is None else np.asarray(case.image)
    if image is None or image.ndim != 3:
        return None
    shape = image.shape[1:]
    drawn = picture(scaled(image, shape, None), window=(0.0, 1.0))
    facts = {k: v for k, v in row.items() if k != "case" and not k.startswith("p(")}
    return ViewerCase(case.id, [Slice(drawn)], facts, (shape[0], shape[1]))
