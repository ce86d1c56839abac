"""The telling cases of a run: masks in the viewer with predictions, class labels in a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.assessment.fusion_findings import sure_words
from raters.core.arrays import Array
from raters.core.progress import track
from raters.evaluation.case import REFERENCE
from raters.evaluation.prediction import most_likely
from raters.learning.evaluation.watch import case_dice, telling_cases
from raters.views.plots.error_maps import MEANING, confusion_colours, confusion_figure
from raters.views.plots.pictures import chosen_slice
from raters.views.plots.style import ERROR_LEGEND
from raters.views.report import viewer
from raters.views.report.blocks import (
    Block,
    Card,
    Section,
    ViewerBlock,
    figure,
    note,
    section,
    table,
)
from raters.views.report.case_view import viewer_case
from raters.views.report.example_pictures import task_picture
from raters.views.report.first import CARDS, picture_cards
from raters.views.report.labels import task_cards
from raters.views.texts.say import text_of

if TYPE_CHECKING:
    from raters.evaluation.prediction import Prediction
    from raters.evaluation.result import Evaluation
    from raters.io.rows import Row
    from raters.learning.evaluation.watch import Watched
    from raters.learning.training.model import Model
    from raters.study.case import Case
    from raters.study.study import Study


MOST_RATERS = 8
"""Raters who get an outline 'as X' and a map of confusion in the viewer."""
_UNSURE = "uncertainty"
_BUDGET = 500_000  # bytes of a case: `page.VIEWERS_BUDGET` holds the default of 12
_MOST_NUMBERS = 150_000_000  # of matrices of one case in memory: 600 MB


def case_section(
    model: Model,
    part: Study,
    scores: Evaluation,
    watched: Watched,
    shown: int = 12,
    progress: bool = False,
) -> tuple[Section, list[Card]]:
    """Show the telling cases in the viewer, and the first one as a figure of confusion.

    Where all raters share a head, one of them stands for all; 'as X' of others who are anonymous
    means nothing.

    Returns:
        The section, and the first cases as pictures with the prediction.
    """
    shared = model.method.shares_matrix
    if "as_rater" not in model.method.answers:
        raters = []
    elif shared:
        raters = watched.raters[:1]
    elif part.anonymous:
        raters = []
    else:
        raters = watched.raters[:MOST_RATERS]
    whom = {name: "any rater" if shared else name for name in raters}
    free = partial(viewer.free_name, raters=part.raters, more=" (model)")
    truth = free("predicted consensus")
    told = {r: free(f"as {who}") for r, who in whom.items()}
    rows = dict(case_dice(scores, part))
    uncertainty = {name: bits for name, bits in watched.uncertainty.items() if name in rows}
    fits = {name: row["with_raters"] for name, row in rows.items()}
    why = telling_cases(uncertainty, fits, shown)
    cards: list[Card] = []
    drawn: Block | None = None
    varies = False

    def view(name: str, draw: bool = False) -> viewer.ViewerCase:
        nonlocal drawn, varies
        case = part[name]
        said = _predicted(model, case, raters)
        facts = {"dice with raters": rows[name]["with_raters"]}
        facts |= {"dice with the reference": rows[name]["with_reference"]}
        facts |= {"uncertainty (bits per pixel)": uncertainty[name]}
        known = {k: v for k, v in facts.items() if math.isfinite(v)}
        known |= {"chosen as": why[name]} if name in why else {}
        colours = _colours(model, said, raters)
        varies |= bool(colours)
        if draw and len(cards) < CARDS:
            cards.extend(picture_cards(part, {name: why[name]}, {truth: said.labels}))
        if draw and colours and not shared and not drawn:
            drawn = _figure(case, part, said, colours)
        layers = {truth: said.labels}
        layers |= {told[r]: most_likely(said.as_rater(r)) for r in said.raters}
        maps: dict[str, Any] = {_UNSURE: said.entropy / np.log2(len(said.truth))}
        maps |= {f"confusion of {whom[r]}": picture for r, picture in colours.items()}
        return viewer_case(
            case, part.raters, part.classes.names, layers, maps, known, part.channels, None, _BUDGET
        )

    views = [view(name, draw=True) for name in track(why, len(why), "drawing cases", progress)]
    rest = [name for name in uncertainty if name not in why]
    scored: list[Row] = [
        {"case": name, **rows[name], "uncertainty": bits, "shown_as": why.get(name)}
        for name, bits in sorted(uncertainty.items(), key=lambda item: -item[1])
    ]
    own = {layer.name: layer for layer in viewer.rater_layers(part.raters)}
    layers = [
        *viewer.extra_layers([truth, viewer.free_name(REFERENCE, part.raters)]),
        *own.values(),
        *(replace(own[r], name=name, dash="2 3", shown=False) for r, name in told.items()),
    ]
    maps = [viewer.MapLayer(_UNSURE, {"model unsure": viewer.DIFFER})]
    coloured = [f"confusion of {who}" for who in whom.values()] if varies else []
    maps += [viewer.MapLayer(name, ERROR_LEGEND, opacity=1.0) for name in coloured]
    meaning = f"{MEANING[0].lower()}{MEANING[1:]}"
    of = {"told": len(raters), "raters": len(watched.raters), "meaning": meaning}
    most = len(watched.raters) > len(raters) == MOST_RATERS
    caption = text_of("run.cases", "caption", varies=varies, first=most, score=scores.score, **of)
    block = ViewerBlock("cases", views, caption, layers, maps, rest, view)
    same = not varies and watched.matrices is not None and not model.method.varies
    made = section(
        "run.cases",
        block if views else note("no_cases_asked", "plain"),
        drawn,
        note("one_matrix", "plain", method=model.config.method) if same else None,
        table("run.cases-by-uncertainty", scored) if scored else None,
        number=len(uncertainty),
    )
    return made, cards


def _predicted(model: Model, case: Case, raters: Sequence[str]) -> Prediction:
    from raters.learning.methods.base import Asked
    from raters.learning.prediction.predict import predict_case

    size = len(model.config.raters) * len(model.config.classes) ** 2
    numbers = math.prod(case.geometry.shape) * size
    method = model.method
    varies = "confusion" in method.answers and method.varies and numbers <= _MOST_NUMBERS
    return predict_case(model, case, Asked(tuple(raters), varies))


def _colours(model: Model, said: Prediction, raters: Sequence[str]) -> dict[str, Array]:
    """Colour the matrices of raters; in half precision and by rows, as volumes are large."""
    found: dict[str, Array] = {}
    if said.confusion is None:
        return found
    truth = said.labels
    for name in raters:
        matrices = said.confusion[model.number_of(name)]
        found[name] = np.empty((*truth.shape, 3), np.float16)
        for k in range(len(truth)):
            found[name][k] = confusion_colours(truth[k], matrices[:, :, k])
    return found


def _figure(case: Case, part: Study, said: Prediction, colours: Mapping[str, Array]) -> Block:
    at = chosen_slice(case.geometry, np.asarray(case.labels))
    drawn = {name: at.of(mask) for name, mask in zip(part.raters, case.labels, strict=True)}
    shown = {name: at.of(picture) for name, picture in colours.items()}
    made = confusion_figure(at.of(said.labels), drawn, shown, at.aspect, at.letters)
    return figure("run.confusion_maps", made, case=case.id, where=at.name, meaning=MEANING)


_MOST_CLASSES = 12
"""Classes whose probabilities get a column each."""
_MOST_ROWS = 200
_MOST_ANSWERS = 12


def answer_section(part: Study, watched: Watched, shown: int = 12) -> tuple[Section, list[Card]]:
    """Show the tasks that the model is least sure of, with what raters said; the first as cards."""
    order = sorted(watched.uncertainty, key=lambda name: -watched.uncertainty[name])
    rows = [_row(part, part[name], watched) for name in order[:_MOST_ROWS]]
    key = "run.uncertain_cases"
    several = len(part.classes) > _MOST_CLASSES
    views = []
    for row in rows[:shown]:
        view = _pictured(part[row["case"]], row)
        if view:
            views.append(view)
    pictured = bool(views) and len(views) == len(rows[:shown])
    viewed = ViewerBlock("cases", views, text_of(key, "viewer")) if pictured else None
    first = sorted(rows, key=lambda row: float(row["p"]))[:CARDS]
    notes = [f"{row['predicted']}: {sure_words(row['p'])}" for row in first]
    cards = task_cards(part, [row["case"] for row in first], notes)
    return section(key, table(key, rows, many=several), viewed), cards


def _row(part: Study, case: Case, watched: Watched) -> Row:
    names = part.classes.names
    truth = watched.answers[case.id]
    best = int(truth.argmax())
    row: Row = {"case": case.id, "uncertainty": watched.uncertainty[case.id]}
    row |= {"predicted": names[best], "p": float(truth[best])}
    if case.reference is not None:
        row["reference"] = names[int(case.reference)]
    given = [f"{rater}: {names[label]}" for rater, label in case.answers]
    more = f", and {len(given) - _MOST_ANSWERS} more" if len(given) > _MOST_ANSWERS else ""
    row["answers"] = ", ".join(given[:_MOST_ANSWERS]) + more
    if len(names) <= _MOST_CLASSES:
        row |= {f"p({name})": float(p) for name, p in zip(names, truth, strict=True)}
    return row


def _pictured(case: Case, row: Row) -> viewer.ViewerCase | None:
    """Show the picture of a case; None if there is none in two dimensions."""
    drawn = task_picture(case)
    if case.image is None or not drawn:
        return None
    facts = {k: v for k, v in row.items() if k != "case" and not k.startswith("p(")}
    channels, height, width = np.shape(case.image)
    pictures = [viewer.Picture("image", [drawn], channels == 3)]
    return viewer.ViewerCase(case.id, facts, (1, height, width), pictures=pictures)
