"""The examples of a rater's sheet: pictures of masks beside those of the others, and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from raters.agreement.readings import OneRater
from raters.arrays import Array, Ints
from raters.plots.pictures import picture as scaled
from raters.plots.style import rater_colours
from raters.report.figures import outline_path, picture
from raters.report.first import Closeup, closeup, drawing
from raters.study.classes import MISSING
from raters.study.study import Study

_OWN, _OTHERS = "you", "another rater"
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
        found.append({"case": case.id, "score": own.scores[k, -1], "pictures": pictures,
                      "others": len(theirs)})  # fmt: skip
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
    names, reference = study.classes.names, study.reference_labels if gold else None
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
                "picture": _task_picture(study, task),
            }
        )
    return found


def _task_picture(study: Study, task: int) -> str:
    """Return the image of a task; '' if there is none in two dimensions."""
    image = study[task].image
    if image is None or np.ndim(image) != 3:
        return ""
    return picture(scaled(image, image.shape[1:], None), _SIDE, (0.0, 1.0))
