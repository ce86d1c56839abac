"""Pictures of masks beside those of others: samples of a run, and examples of a rater's sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib.patches import Patch, PathPatch

from raters.assessment.agreement_masks import mask_agreement
from raters.assessment.readings import OneRater
from raters.core.arrays import Array, Ints
from raters.core.classes import MISSING
from raters.io.rows import Row
from raters.study.study import Study
from raters.views.plots import style
from raters.views.plots.pictures import border_path, chosen_slice
from raters.views.plots.pictures import picture as scaled
from raters.views.plots.style import rater_colours
from raters.views.report.blocks import Section, figure, section
from raters.views.report.figures import SIDE, outline_path, picture
from raters.views.report.first import Closeup, closeup, drawing, seen_image, window_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from raters.learning.training.model import Model
    from raters.study.case import Case

_OWN = "you"
_OTHERS = "another rater"
_SIDE = 160
_ALONE = "#4cc3ff"


def class_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colours of the foreground classes; one alone is blue, seen on tissue and scans."""
    return rater_colours(names) if len(names) > 1 else dict.fromkeys(names, _ALONE)


def mask_examples(
    study: Study, own: OneRater, rater: str, chosen: Sequence[int]
) -> list[dict[str, Any]]:
    """Return cases as two pictures of the same place: the rater's masks, and those of the others.

    Areas of the others lie over each other: the darker, the more of them drew there.
    """
    found = []
    number = study.raters.index(rater)
    colours = ["", *class_colours(study.classes.names[1:]).values()]
    for k in chosen:
        case = study[int(own.cases[k])]
        labels = {str(r): one for r, one in enumerate(case.labels) if (one != MISSING).any()}
        shown = closeup(case, labels)
        mine = {name: mask for name, mask in shown.masks.items() if name == str(number)}
        theirs = {name: mask for name, mask in shown.masks.items() if name != str(number)}
        pictures = [
            _panel(shown, list(masks.values()), who, study.classes.names, colours)
            for who, masks in ((_OWN, mine), (_OTHERS, theirs))
        ]
        found.append(
            {
                "case": case.id,
                "score": own.scores[k, -1],
                "pictures": pictures,
                "others": len(theirs),
            }
        )
    return found


_AREA = (
    '<path d="{d}" fill="{colour}" fill-opacity="{opacity}" fill-rule="evenodd" stroke="{colour}" '
    'stroke-width="{width}" vector-effect="non-scaling-stroke"><title>{title}</title></path>'
)


def _panel(
    shown: Closeup, masks: Sequence[Array], who: str, classes: Sequence[str], colours: Sequence[str]
) -> Markup:
    look = {"opacity": f"{0.25 / max(1, len(masks)):.3f}", "width": 2 if who == _OWN else 1}
    paths = [
        Markup(_AREA).format(
            d=outline_path(mask == c), colour=colours[c], title=f"{who}: {classes[c]}", **look
        )
        for mask in masks
        for c in np.unique(mask[mask > 0]).tolist()
    ]
    return drawing(shown, paths)


def task_examples(
    study: Study, own: OneRater, votes: Ints, chosen: Sequence[int], gold: bool
) -> list[dict[str, Any]]:
    """Return tasks with what the rater and the others said, and the reference if asked for."""
    names = study.classes.names
    reference = study.reference_labels if gold else None
    found = []
    for k in chosen:
        task = int(own.cases[k])
        said = np.bincount(own.said[own.cases == task], minlength=len(names))
        rest = votes[task] - said
        given = [(names[c], int(rest[c])) for c in np.argsort(-rest, kind="stable") if rest[c]]
        true = MISSING if reference is None else int(reference[task])
        found.append(
            {
                "case": study.index.ids[task],
                "said": names[own.said[k]],
                "others": given,
                "total": int(rest.sum()),
                "reference": "" if true == MISSING else names[true],
                "picture": task_picture(study[task], _SIDE),
            }
        )
    return found


def task_picture(case: Case, side: int = SIDE) -> str:
    """Return the image of a task; '' if there is none in two dimensions."""
    if case.image is None or np.ndim(case.image) != 3:
        return ""
    return picture(scaled(case.image, case.image.shape[1:], None), side, (0.0, 1.0))


SAMPLES = 4
"""Samples that are shown."""


def samples_section(model: Model, study: Study | None) -> Section | None:
    """Show samples of the most disputed case; None for methods without them, and without masks."""
    if "samples" not in model.method.answers or study is None or not len(study):
        return None
    study = study.without_negatives()
    if study.kind != "segmentation" or not study.raters:
        return None
    from raters.learning.methods.base import Asked
    from raters.learning.prediction.predict import predict_case

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
    return section("run.samples", block)


def _figure(
    case: Case, panels: Mapping[str, Sequence[Array]], classes: Sequence[str]
) -> tuple[Figure, str]:
    """Draw the outlines of each panel on the image; volumes at the slice that differs most."""
    masks = np.stack([mask for several in panels.values() for mask in several])
    at = chosen_slice(case.geometry, masks)
    image = seen_image(case, at)
    masks = np.stack([at.of(mask) for mask in masks])
    window = window_of(np.asarray((masks > 0).any(axis=0)))
    masks = masks[(slice(None), *window)]
    colours = ["", *class_colours(classes[1:]).values()]
    made = style.new_figure(1.7 * len(panels), 2.2, pictures=True)
    each = iter(masks)
    for axes, (name, several) in zip(made.subplots(1, len(panels)), panels.items(), strict=True):
        below = np.zeros(masks.shape[1:]) if image is None else image[window]
        axes.imshow(below, cmap="gray", vmin=0, vmax=1, aspect=at.aspect)
        for mask in islice(each, len(several)):
            for number in np.unique(mask[mask > 0]).tolist():
                look = {"facecolor": "none", "edgecolor": colours[number], "lw": 1.4}
                axes.add_patch(PathPatch(border_path(mask == number), **look))
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, color=style.look("light").ink, **style.font(style.MEDIUM))
    if len(classes) > 2:
        patches = [Patch(facecolor=colour) for colour in colours[1:]]
        style.legend_below(made, patches, style.all_shown(classes[1:]), "light")
    return made, at.name
