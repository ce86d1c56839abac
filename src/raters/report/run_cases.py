"""The telling cases of a run: masks in the viewer with predictions, class labels in a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import Array
from raters.evaluation.case import REFERENCE
from raters.evaluation.watch import case_dice
from raters.plots.error_maps import MEANING, confusion_colours, confusion_figure
from raters.plots.pictures import most_disputed, view_of
from raters.plots.pictures import picture as scaled
from raters.plots.style import ERROR_LEGEND
from raters.prediction.prediction import most_likely
from raters.progress import track
from raters.report import viewer
from raters.report.blocks import (
    Block,
    Card,
    FigureBlock,
    Section,
    TextBlock,
    ViewerBlock,
    figure,
    section,
    table,
)
from raters.report.case_view import viewer_case
from raters.report.figures import picture
from raters.report.first import CARDS, picture_cards
from raters.report.labels import task_cards
from raters.report.say import say, text_of

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.evaluation.watch import Watched
    from raters.prediction.prediction import Prediction
    from raters.rows import Row
    from raters.study.case import Case
    from raters.study.study import Study
    from raters.training.model import Model


MOST_RATERS = 8
"""Raters who get an outline 'as X' and a map of confusion in the viewer."""
_BUDGET = 500_000  # bytes of a case: `page.VIEWERS_BUDGET` holds the default of 12
_MOST_NUMBERS = 150_000_000  # of matrices of one case in memory: 600 MB


@dataclass(frozen=True)
class _Names:
    """Names of layers and maps; none of them is that of a rater."""

    truth: str
    uncertainty: str
    told: dict[str, str]
    confusion: dict[str, str]

    @classmethod
    def of(cls, raters: Sequence[str], shown: Sequence[str], shared: bool = False) -> _Names:
        def free(name: str) -> str:
            return viewer.free_name(name, raters, " (model)")

        return cls(
            free("predicted consensus"),
            "uncertainty",
            {name: free(f"as {'any rater' if shared else name}") for name in shown},
            {name: f"confusion of {'any rater' if shared else name}" for name in shown},
        )


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
    raters = watched.raters[: 1 if shared else 0 if part.anonymous else MOST_RATERS]
    raters = raters if "as_rater" in model.method.answers else []
    names = _Names.of(part.raters, raters, shared)
    rows = dict(case_dice(scores, part))
    uncertainty = {name: bits for name, bits in watched.uncertainty.items() if name in rows}
    why = telling(uncertainty, {name: row["with_raters"] for name, row in rows.items()}, shown)
    cards: list[Card] = []
    figures: list[Block] = []
    varies = False

    def view(name: str, draw: bool = False) -> viewer.ViewerCase:
        nonlocal varies
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
            cards.extend(picture_cards(part, {name: why[name]}, {names.truth: said.labels}))
        if draw and colours and not figures and not shared:
            figures.append(_figure(case, part, said, colours))
        return _view(case, part, said, colours, names, known)

    views = [view(name, draw=True) for name in track(why, len(why), "drawing cases", progress)]
    rest = [name for name in uncertainty if name not in why]
    scored: list[Row] = [
        {"case": name, **rows[name], "uncertainty": bits, "shown_as": why.get(name)}
        for name, bits in sorted(uncertainty.items(), key=lambda item: -item[1])
    ]
    own = viewer.rater_layers(part.raters)
    layers = [
        *viewer.extra_layers([names.truth, viewer.free_name(REFERENCE, part.raters)]),
        *own,
        *(
            replace(layer, name=names.told[layer.name], dash="2 3", shown=False)
            for layer in own
            if layer.name in names.told
        ),
    ]
    maps = [viewer.MapLayer(names.uncertainty, {"model unsure": viewer.DIFFER})]
    coloured = names.confusion.values() if varies else ()
    maps += [viewer.MapLayer(name, ERROR_LEGEND, opacity=1.0) for name in coloured]
    meaning = f"{MEANING[0].lower()}{MEANING[1:]}"
    of = {"told": len(raters), "raters": len(watched.raters), "meaning": meaning}
    most = len(watched.raters) > len(raters) == MOST_RATERS
    caption = text_of("run.cases", "caption", varies=varies, first=most, **of)
    block = ViewerBlock("cases", views, caption, layers, maps, rest, view)
    blocks: list[Block] = [block, *figures] if views else [TextBlock(say("no_cases_asked"))]
    if not varies and watched.matrices is not None and not model.method.varies:
        blocks.append(TextBlock(say("one_matrix", method=model.config.method)))
    if scored:
        blocks.append(table("run.cases-by-uncertainty", scored))
    return section("run.cases", blocks, number=len(uncertainty)), cards


def telling(
    uncertainty: Mapping[str, float], dice: Mapping[str, float], shown: int
) -> dict[str, str]:
    """Choose cases, in turn the most uncertain, the worst and a typical one; say why each is.

    Example:
        >>> telling({"a": 0.1, "b": 0.4, "c": 0.2}, {"a": 0.9, "b": 0.8, "c": 0.5}, 2)
        {'b': 'most uncertain', 'c': 'far from the raters'}
    """
    known = {name: value for name, value in dice.items() if math.isfinite(value)}
    middle = float(np.median(list(known.values()))) if known else 0.0
    queues = {
        "most uncertain": sorted(uncertainty, key=lambda name: -uncertainty[name]),
        "far from the raters": sorted(known, key=lambda name: known[name]),
        "typical": sorted(known, key=lambda name: abs(known[name] - middle)),
    }
    chosen: dict[str, str] = {}
    while len(chosen) < min(shown, len(uncertainty)):
        for why, queue in queues.items():
            rest = [name for name in queue if name not in chosen and name in uncertainty]
            if rest and len(chosen) < shown:
                chosen[rest[0]] = why
    return chosen


def _predicted(model: Model, case: Case, raters: Sequence[str]) -> Prediction:
    from raters.methods.base import Asked
    from raters.prediction.predict import predict_case

    size = len(model.config.raters) * len(model.config.classes) ** 2
    numbers, method = math.prod(case.geometry.shape) * size, model.method
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


def _view(
    case: Case,
    part: Study,
    said: Prediction,
    colours: Mapping[str, Array],
    names: _Names,
    facts: Mapping[str, object],
) -> viewer.ViewerCase:
    layers = {names.truth: said.labels}
    layers |= {names.told[r]: most_likely(said.as_rater(r)) for r in said.raters}
    maps: dict[str, Any] = {names.uncertainty: said.entropy / np.log2(len(said.truth))}
    maps |= {names.confusion[r]: picture for r, picture in colours.items()}
    return viewer_case(
        case, part.raters, part.classes.names, layers, maps, facts, part.channels, budget=_BUDGET
    )


def _figure(case: Case, part: Study, said: Prediction, colours: Mapping[str, Array]) -> FigureBlock:
    labels, truth = np.asarray(case.labels), said.labels
    drawn = dict(zip(part.raters, labels, strict=True))
    where, spacing = "", case.geometry.spacing
    aspect, letters = spacing[0] / spacing[1], None
    if truth.ndim == 3:
        view = view_of(truth.shape, case.geometry.affine)
        at = most_disputed(view.turn(labels, 1))
        where = f", {view.name(at, truth.shape)}"
        truth, aspect, letters = view.turn(truth)[at], view.aspect(spacing), view.letters
        drawn = {name: view.turn(mask)[at] for name, mask in drawn.items()}
        colours = {name: view.turn(picture)[at] for name, picture in colours.items()}
    drawn_maps = confusion_figure(truth, drawn, colours, aspect, letters)
    of = {"case": case.id, "where": where, "meaning": MEANING}
    return figure("run.confusion_maps", drawn_maps, **of)


_MOST_CLASSES = 12
"""Classes whose probabilities get a column each."""
_MOST_ROWS = 200
_MOST_ANSWERS = 12


def answer_section(part: Study, watched: Watched, shown: int = 12) -> tuple[Section, list[Card]]:
    """Show the tasks that the model is least sure of, with what raters said; the first as cards."""
    order = sorted(watched.uncertainty, key=lambda name: -watched.uncertainty[name])
    rows = [_row(part, part[name], watched) for name in order[:_MOST_ROWS]]
    key, several = "run.uncertain_cases", len(part.classes) > _MOST_CLASSES
    blocks: list[Block] = [table(key, rows, many=several)]
    views = [_pictured(part[row["case"]], row) for row in rows[:shown]]
    if views and all(view is not None for view in views):
        pictures = [view for view in views if view is not None]
        blocks.append(ViewerBlock("cases", pictures, "The most uncertain cases."))
    notes = [f"{row['predicted']}: {row['p']:.2f} sure" for row in rows[:CARDS]]
    cards = task_cards(part, [row["case"] for row in rows[:CARDS]], notes)
    return section(key, blocks), cards


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


def _pictured(case: Case, row: Row) -> viewer.ViewerCase | None:
    """Show the picture of a case; None if there is none in two dimensions."""
    image = None if case.image is None else np.asarray(case.image)
    if image is None or image.ndim != 3:
        return None
    shape = image.shape[1:]
    drawn = picture(scaled(image, shape, None), window=(0.0, 1.0))
    facts = {k: v for k, v in row.items() if k != "case" and not k.startswith("p(")}
    pictures = [viewer.Picture("image", [drawn], len(image) == 3)]
    return viewer.ViewerCase(case.id, facts, (1, shape[0], shape[1]), pictures=pictures)
