"""Where a rater (or a prediction) is wrong: white, blue, orange and black pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.plots.names import shown
from raters.plots.pictures import mask_stack, most_disputed
from raters.plots.style import (
    ERROR_LEGEND,
    UNKNOWN,
    Theme,
    grid_shape,
    legend_below,
    look,
    new_figure,
    no_frame,
    plain_axes,
)
from raters.plots.views import draw_letters, view_of
from raters.scores.inputs import label_array, label_pair
from raters.study.classes import MISSING
from raters.study.geometry import Geometry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {**ERROR_LEGEND, "not labelled": UNKNOWN}


def error_colours(truth: ArrayLike, mask: ArrayLike, number: int = 1) -> NDArray[np.float64]:
    """Colour each pixel by its kind of error, `(*space, 3)` from 0 to 1.

    White is a true positive, blue a false negative, orange a false positive, black a true negative;
    grey pixels are MISSING in one of both.

    Args:
        truth: True class numbers.
        mask: Observed class numbers.
        number: The class that is looked at.

    Example:
        >>> error_colours([1, 0, 0], [1, 1, 0]).round(1).tolist()
        [[1.0, 1.0, 1.0], [0.9, 0.6, 0.0], [0.0, 0.0, 0.0]]
    """
    true, seen = label_pair(truth, mask)
    is_class, says = true == number, seen == number
    kind = np.where(is_class, np.where(says, 0, 1), np.where(says, 2, 3))
    kind = np.where((true == MISSING) | (seen == MISSING), 4, kind)
    return np.array([to_rgb(colour) for colour in _COLOURS.values()])[kind]


def errors(
    truth: ArrayLike,
    masks: ArrayLike,
    raters: Sequence[str] | None = None,
    number: int = 1,
    slice: int | None = None,  # noqa: A002
    axis: int | None = None,
    theme: Theme = "light",
    affine: ArrayLike | None = None,
) -> Figure:
    """Draw where raters are wrong, a panel per rater, in the colours of `error_colours`.

    Args:
        truth: True class numbers `(*space)`.
        masks: Observed ones, `(raters, *space)` or one `(*space)`.
        raters: Names of the raters.
        number: The class that is looked at.
        slice: The slice of volumes, as the file counts; by default where raters and truth differ
            most.
        axis: The axis of space that slices are counted on; by default as
            `raters.plots.views.view_of` says.
        theme: The page.
        affine: Of volumes, voxel indices to millimetres (RAS); see `overlay`.

    Example:
        >>> figure = errors([[0, 1], [1, 1]], [[[0, 1], [0, 1]], [[1, 1], [1, 1]]], ["ann", "bob"])
        >>> [axes.get_title() for axes in figure.axes]
        ['ann', 'bob']
    """
    true = label_array(truth)
    seen = label_array(masks)
    stack = mask_stack(seen[np.newaxis] if seen.shape == true.shape else seen)
    if stack.shape[1:] != true.shape:
        raise RatersError(f"found masks of shape {stack.shape[1:]}, expected {true.shape}")
    names = list(raters) if raters is not None else [str(k) for k in range(len(stack))]
    if len(names) != len(stack):
        raise RatersError(f"found {len(names)} names of raters, expected {len(stack)}")
    aspect, letters = 1.0, None
    if true.ndim == 3:
        grid = None if affine is None else np.asarray(affine, np.float64)
        space, view = true.shape, view_of(true.shape, grid, axis)
        true, stack = view.turn(true), view.turn(stack, 1)
        whole = np.concatenate([true[np.newaxis], stack])
        at = most_disputed(whole) if slice is None else view.place(slice, space)
        true, stack = true[at], stack[:, at]
        aspect, letters = view.aspect(Geometry(space, grid).spacing), view.letters
    rows, columns = grid_shape(len(stack), 5)
    side = min(3.0, 11 / columns)
    ratio = min(1.6, max(0.4, aspect * true.shape[0] / true.shape[1]))
    figure = new_figure(max(columns * side, 4.2), rows * (side * ratio + 0.3) + 0.3, pictures=True)
    panels = np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel()
    for k, panel in enumerate(panels):
        no_frame(plain_axes(panel, theme))
        if k < len(stack):
            colours = error_colours(true, stack[k], number)
            panel.imshow(colours, aspect=aspect, interpolation="nearest")
            panel.set_title(shown(names[k]))
            draw_letters(panel, letters)
    used = dict(list(_COLOURS.items())[: 5 if MISSING in true or MISSING in stack else 4])
    edge = look(theme).muted
    patches = [Patch(facecolor=c, edgecolor=edge, lw=0.5) for c in used.values()]
    legend_below(figure, patches, list(used), theme)
    return figure
