"""The telling cases of a run of masks: truth, raters, 'as rater X', uncertainty and confusion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.evaluation.masks import ALL
from raters.evaluation.result import REFERENCE
from raters.plots.pictures import most_disputed
from raters.plots.style import ERROR_LEGEND
from raters.plots.views import view_of
from raters.progress import track
from raters.report.blocks import Block, FigureBlock, Section, TextBlock, ViewerBlock
from raters.report.case_view import viewer_case
from raters.report.run_confusion import MEANING, confusion_colours, confusion_figure
from raters.report.viewer import (
    Layer,
    MapLayer,
    ViewerCase,
    disagreement_map,
    extra_layers,
    free_name,
    rater_layers,
)
from raters.study.study import many

if TYPE_CHECKING:
    from raters.prediction.evaluate_result import RunScores
    from raters.prediction.predict import Predicted
    from raters.report.run_pass import Watched
    from raters.rows import Row
    from raters.study.case import Case
    from raters.study.study import Study
    from raters.training.model import Model

MOST_RATERS = 8
"""Raters who get an outline 'as X' and a map of confusion in the viewer."""
_MOST_NUMBERS = 150_000_000  # of matrices of one case in memory: 600 MB
_UNSURE = "#e040fb"


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
            return free_name(name, raters, " (model)")

        return cls(
            free("predicted consensus"),
            "uncertainty",
            {name: free(f"as {'any rater' if shared else name}") for name in shown},
            {name: f"confusion of {'any rater' if shared else name}" for name in shown},
        )


def case_section(
    model: Model,
    part: Study,
    scores: RunScores,
    watched: Watched,
    shown: int = 12,
    progress: bool = False,
    shared: bool = False,
) -> Section:
    """Show the telling cases in the viewer, and the first one as a figure of confusion.

    Where all raters share a head, one of them stands for all; 'as X' of others who are anonymous
    means nothing.
    """
    raters = watched.raters[: 1 if shared else 0 if part.anonymous else MOST_RATERS]
    names = _Names.of(part.raters, raters, shared)
    rows = dict(_case_rows(scores, part))
    uncertainty = {name: bits for name, bits in watched.uncertainty.items() if name in rows}
    why = telling(uncertainty, {name: row["with_raters"] for name, row in rows.items()}, shown)
    views: list[ViewerCase] = []
    figures: list[Block] = []
    varies = False
    for name in track(why, len(why), "drawing cases", progress):
        case = part[name]
        said = _predicted(model, case, raters)
        facts = {"dice with raters": rows[name]["with_raters"]}
        facts |= {"dice with the reference": rows[name]["with_reference"]}
        facts |= {"uncertainty (bits per pixel)": uncertainty[name], "chosen as": why[name]}
        known = {k: v for k, v in facts.items() if isinstance(v, str) or math.isfinite(v)}
        colours = _colours(model, said, raters)
        views.append(_view(case, part, said, colours, names, known))
        varies |= bool(colours)
        if colours and not figures and not shared:
            figures.append(_figure(case, part, said, colours))
    number = len(uncertainty)
    about = (
        f"Chosen from {many(number, 'case')}, in turn: the most uncertain, those where raters and"
    )
    about += " predicted consensus differ most, and typical ones."
    layers = [
        *extra_layers([names.truth, free_name(REFERENCE, part.raters)]),
        *rater_layers(part.raters),
    ]
    layers += _as_layers(part.raters, names)
    maps = [MapLayer(names.uncertainty, {"model unsure": _UNSURE}), disagreement_map()]
    if varies:
        maps += [MapLayer(name, ERROR_LEGEND, opacity=1.0) for name in names.confusion.values()]
    viewer = ViewerBlock(
        "cases", views, _caption(varies, len(watched.raters), len(raters)), layers, maps
    )
    blocks: list[Block] = [viewer, *figures] if views else [TextBlock("No cases were asked for.")]
    if not varies and watched.matrices is not None and not model.method.varies:
        text = (
            f"{model.config.method} has one matrix per rater, the same at all pixels: see Raters."
        )
        blocks.append(TextBlock(text))
    return Section("Cases", about, blocks)


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


def _case_rows(scores: RunScores, part: Study) -> Iterator[tuple[str, Row]]:
    """Return the Dice of each case with the raters (mean) and with the reference; NaN for none."""
    whole = ALL if len(part.classes) > 2 else part.classes.names[1]
    names = [] if scores.sums is None else scores.sums.names
    found: dict[str, dict[bool, list[float]]] = {name: {True: [], False: []} for name in names}
    for row in scores.cases:
        own = found[row["case"]]
        value = row["dice"]
        if row["class"] == whole and value is not None and math.isfinite(value):
            own[row["against"] == REFERENCE].append(value)
    for name, own in found.items():
        means = {of: float(np.mean(v)) if v else math.nan for of, v in own.items()}
        yield name, {"with_raters": means[False], "with_reference": means[True]}


def _predicted(model: Model, case: Case, raters: Sequence[str]) -> Predicted:
    from raters.prediction.predict import predict_case

    size = len(model.config.raters) * len(model.config.classes) ** 2
    numbers = math.prod(case.geometry.shape) * size
    return predict_case(model, case, raters, model.method.varies and numbers <= _MOST_NUMBERS)


def _colours(model: Model, said: Predicted, raters: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Colour the matrices of raters; in half precision and by rows, as volumes are large."""
    found: dict[str, NDArray[Any]] = {}
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
    said: Predicted,
    colours: Mapping[str, NDArray[Any]],
    names: _Names,
    facts: Mapping[str, object],
) -> ViewerCase:
    layers = {names.truth: said.labels}
    layers |= {names.told[r]: p.argmax(0).astype(np.int16) for r, p in said.as_rater.items()}
    maps: dict[str, Any] = {names.uncertainty: said.entropy / np.log2(len(said.truth))}
    maps |= {names.confusion[r]: picture for r, picture in colours.items()}
    return viewer_case(case, part.raters, part.classes.names, layers, maps, facts)


def _figure(
    case: Case, part: Study, said: Predicted, colours: Mapping[str, NDArray[Any]]
) -> FigureBlock:
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
    caption = (
        f"Case {case.id}{where}: each rater's mask, by its errors against the predicted consensus "
        f"(above), and the errors that the model expects of the rater (below). {MEANING}"
    )
    return FigureBlock(
        "confusion_maps", confusion_figure(truth, drawn, colours, aspect, letters), caption
    )


def _as_layers(raters: Sequence[str], names: _Names) -> list[Layer]:
    """Outline 'as X' in the colour of X, dotted; hidden at first."""
    colours = {layer.name: layer.colour for layer in rater_layers(raters)}
    return [
        Layer(told, colours[name], dash="2 3", shown=False) for name, told in names.told.items()
    ]


def _caption(varies: bool, raters: int, shown: int) -> str:
    told = ", and dotted 'as X', what the model thinks X would draw" if shown else ""
    text = (
        "Outlines: predicted consensus and reference in white, each rater's own labels in the "
        f"rater's colour{told}. Look where the "
        "uncertainty lies: on borders it is normal, inside it is a case to discuss."
    )
    if varies:
        text += f" The maps of confusion: {MEANING[0].lower()}{MEANING[1:]}"
    if raters > shown == MOST_RATERS:
        text += f" 'As X' and confusion are of the first {MOST_RATERS} of {raters} raters."
    return text
