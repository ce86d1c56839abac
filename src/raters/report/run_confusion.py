"""A rater's estimated matrices at all pixels as colours: white, blue, orange and black."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from raters import plots
from raters.errors import RatersError
from raters.plots.style import (
    ERROR_LEGEND,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    TRUE_NEGATIVE,
    TRUE_POSITIVE,
    UNKNOWN,
    grid_shape,
    legend_below,
    look,
    new_figure,
    no_frame,
    plain_axes,
)
from raters.plots.views import Letters, draw_letters
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEANING = (
    "Where the predicted consensus is foreground, white means that the rater labels it rightly and "
    "blue that it is missed (false negative); where it is background, black means rightly left and "
    "orange wrongly drawn (false positive). Shades between them are probabilities."
)


def confusion_colours(truth: ArrayLike, matrices: ArrayLike) -> NDArray[np.float64]:
    """Colour each pixel by how likely a rater errs there, `(*space, 3)` from 0 to 1.

    Where the true class `t` is foreground the colour goes from white (true positive) to blue
    (false negative), where it is background from black (true negative) to orange (false positive),
    each with `1 - C[t, t]`. With two classes that is `C[1, 0]` and `C[0, 1]`; with several, blue
    also stands for another foreground class.

    Args:
        truth: Class numbers `(*space)`.
        matrices: `C[t, o]` of one rater, `(L, L, *space)`; axes of space may have length 1.

    Example:
        >>> matrix = np.array([[1.0, 0.0], [0.5, 0.5]])[..., None]
        >>> confusion_colours([0, 1], matrix).round(2).tolist()  # black; half white, half blue
        [[0.0, 0.0, 0.0], [0.5, 0.72, 0.85]]
    """
    labels, array = np.asarray(truth), np.asarray(matrices, np.float64)
    if array.ndim != 2 + labels.ndim or array.shape[0] != array.shape[1]:
        raise RatersError(
            f"found matrices of shape {array.shape}, expected (L, L, *space) with the space of the "
            f"truth {labels.shape}"
        )
    right = np.einsum("tt...->t...", array)
    right = np.broadcast_to(right, (len(right), *labels.shape))
    own = np.take_along_axis(right, labels[np.newaxis].astype(np.intp), axis=0)[0]
    wrong = (1 - own).clip(0, 1)[..., np.newaxis]
    foreground = (labels > 0)[..., np.newaxis]
    start = np.where(foreground, to_rgb(TRUE_POSITIVE), to_rgb(TRUE_NEGATIVE))
    end = np.where(foreground, to_rgb(FALSE_NEGATIVE), to_rgb(FALSE_POSITIVE))
    return np.asarray((1 - wrong) * start + wrong * end)


def confusion_figure(
    truth: NDArray[Any],
    labels: Mapping[str, NDArray[Any]],
    colours: Mapping[str, NDArray[np.float64]],
    aspect: float = 1.0,
    letters: Letters | None = None,
) -> Figure:
    """Draw, for each rater, the errors that were drawn above those that the model expects.

    Args:
        truth: Predicted class numbers of one slice, `(rows, columns)`.
        labels: Those that raters drew, by name; MISSING ones are grey.
        colours: Of `confusion_colours`, by name.
        aspect: Height of a pixel over its width.
        letters: The sides of the patient at the edges.
    """
    names = list(colours)
    blocks, columns = grid_shape(len(names), 5)
    side = min(2.4, 10.5 / columns)
    ratio = min(1.6, max(0.4, aspect * truth.shape[0] / truth.shape[1]))
    figure = new_figure(
        max(columns * side, 4.2) + 0.3, 2 * blocks * (side * ratio + 0.25) + 0.4, pictures=True
    )
    panels = np.asarray(figure.subplots(2 * blocks, columns, squeeze=False))
    for panel in panels.ravel():
        no_frame(plain_axes(panel, "light"))
    # Any foreground: colours have one pair for right and wrong foreground.
    for k, name in enumerate(names):
        row, column = 2 * (k // columns), k % columns
        _drawn(panels[row, column], truth, labels.get(name))
        panels[row, column].set_title(plots.shown(name))
        panels[row + 1, column].imshow(colours[name], interpolation="nearest")
        for panel in panels[row : row + 2, column]:
            panel.set_aspect(aspect)
            draw_letters(panel, letters)
        if column == 0:
            panels[row, 0].set_ylabel("drawn")
            panels[row + 1, 0].set_ylabel("expected")
    legend = dict(ERROR_LEGEND)
    if any(name not in labels or (labels[name] == MISSING).any() for name in names):
        legend["not labelled"] = UNKNOWN
    edge = look("light").muted
    patches = [Patch(facecolor=c, edgecolor=edge, lw=0.5) for c in legend.values()]
    legend_below(figure, patches, list(legend), "light")
    return figure


def _drawn(panel: Axes, truth: NDArray[Any], labels: NDArray[Any] | None) -> None:
    """Show where labels differ from the predicted consensus; another foreground class is missed."""
    if labels is None:
        labels = np.full(truth.shape, MISSING)
    identity = np.eye(int(max(truth.max(), labels.max(), 1)) + 1)
    said = identity[:, np.maximum(labels, 0)]  # C[., o] where the label o was said for sure
    matrices = np.broadcast_to(said, (len(identity), *said.shape))
    colours = confusion_colours(truth, matrices)
    colours[labels == MISSING] = to_rgb(UNKNOWN)
    panel.imshow(colours, interpolation="nearest")
