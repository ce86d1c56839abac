"""Samples of a run whose method draws them, beside what the raters of the case drew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch, PathPatch

from raters.agreement.masks import mask_agreement
from raters.arrays import Array
from raters.plots import style
from raters.plots.pictures import border_path, most_disputed, view_of
from raters.plots.pictures import picture as scaled
from raters.report.blocks import Section, figure, section
from raters.report.first import window_of
from raters.report.sheet_pictures import class_colours
from raters.rows import Row
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raters.study.case import Case
    from raters.study.study import Study
    from raters.training.model import Model

SAMPLES = 4
"""Samples that are shown."""


def samples_section(model: Model, study: Study | None) -> Section | None:
    """Show samples of the most disputed case; None for methods without them, and without masks."""
    if "samples" not in model.method.answers or study is None or not len(study):
        return None
    study = study.without_negatives()
    if study.kind != "segmentation" or not study.raters:
        return None
    from raters.methods.base import Asked
    from raters.prediction.predict import predict_case

    ranked = mask_agreement(study).cases
    disputed = ranked[0]["disagreement"] is not None
    case = study[ranked[0]["case"]]
    said = predict_case(model, case, Asked(samples=SAMPLES))
    drawn = [mask for mask in case.labels if (mask != MISSING).any()]
    panels = {"raters": drawn}
    panels |= {f"sample {k + 1}": [one.argmax(0)] for k, one in enumerate(said.samples)}
    shown, where = _figure(case, panels, study.classes.names)
    facts: Row = {"case": case.id, "where": where, "disputed": disputed, "raters": len(drawn)}
    block = figure("run.samples", shown, None, number=len(said.samples), **facts)
    return section("run.samples", [block])


def _figure(
    case: Case, panels: Mapping[str, Sequence[Array]], classes: Sequence[str]
) -> tuple[Figure, str]:
    """Draw the outlines of each panel on the image; volumes at the slice that differs most."""
    masks = np.stack([mask for several in panels.values() for mask in several])
    space, spacing, where = masks.shape[1:], case.geometry.spacing, ""
    image = None if case.image is None else scaled(case.image, space, None)
    aspect = spacing[0] / spacing[1]
    if len(space) == 3:
        view = view_of(space, case.geometry.affine)
        at = most_disputed(view.turn(masks, 1))
        where, aspect = f", {view.name(at, space)}", view.aspect(spacing)
        masks = view.turn(masks, 1)[:, at]
        image = None if image is None else view.turn(image)[at]
    window = window_of(np.asarray((masks > 0).any(axis=0)))
    masks = masks[(slice(None), *window)]
    colours = ["", *class_colours(classes[1:]).values()]
    made = style.new_figure(1.7 * len(panels), 2.2, pictures=True)
    each = iter(masks)
    for axes, (name, several) in zip(made.subplots(1, len(panels)), panels.items(), strict=True):
        below = np.zeros(masks.shape[1:]) if image is None else image[window]
        axes.imshow(below, cmap="gray", vmin=0, vmax=1, aspect=aspect)
        for _ in several:
            _outline(axes, next(each), colours)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, color=style.look("light").ink, **style.font(style.MEDIUM))
    if len(classes) > 2:
        patches = [Patch(facecolor=colour) for colour in colours[1:]]
        style.legend_below(made, patches, style.all_shown(classes[1:]), "light")
    return made, where


def _outline(axes: Axes, mask: Array, colours: Sequence[str]) -> None:
    for number in np.unique(mask[mask > 0]).tolist():
        path = border_path(mask == number)
        axes.add_patch(PathPatch(path, facecolor="none", edgecolor=colours[number], lw=1.4))
