"""Where a rater (or a prediction) is wrong, or expected to be, as colours of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.metrics.conventions import label_array, label_pair
from raters.views.plots import style
from raters.views.plots.overlays import mask_stack
from raters.views.plots.pictures import Letters, chosen_slice
from raters.views.plots.style import Theme

_COLOURS = {**style.ERROR_LEGEND, "not labelled": style.UNKNOWN}


def error_colours(truth: ArrayLike, mask: ArrayLike, number: int = 1) -> Floats:
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
    is_class = true == number
    says = seen == number
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
            `raters.views.plots.pictures.view_of` says.
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
    names = style.names_of(raters, len(stack))
    flat = affine is None or true.ndim == 2
    grid = Geometry(true.shape, None if flat else np.asarray(affine, np.float64))
    at = chosen_slice(grid, np.concatenate([true[np.newaxis], stack]), slice, axis)
    true = at.of(true)
    stack = np.stack([at.of(mask) for mask in stack])
    rows, columns = style.grid_shape(len(stack), 5)
    side = min(3.0, 11 / columns)
    ratio = min(1.6, max(0.4, at.aspect * true.shape[0] / true.shape[1]))
    figure = style.new_figure(
        max(columns * side, 4.2), rows * (side * ratio + 0.3) + 0.3, pictures=True
    )
    panels = style.picture_panels(figure, rows, columns, theme).ravel()
    for panel, name, mask in zip(panels, names, stack, strict=False):
        colours = error_colours(true, mask, number)
        panel.imshow(colours, aspect=at.aspect, interpolation="nearest")
        style.say_whose([panel.set_title(style.shown(name))], [name])
        style.draw_letters(panel, at.letters)
    used = dict(list(_COLOURS.items())[: 5 if MISSING in true or MISSING in stack else 4])
    _legend(figure, used, theme)
    return figure


def _legend(figure: Figure, colours: Mapping[str, str], theme: Theme) -> None:
    edge = style.look(theme).muted
    patches = [Patch(facecolor=c, edgecolor=edge, lw=0.5) for c in colours.values()]
    style.legend_below(figure, patches, list(colours), theme)


MEANING = (
    "Where the predicted consensus is foreground, white means that the rater labels it rightly and "
    "blue that it is missed (false negative); where it is background, black means rightly left and "
    "orange wrongly drawn (false positive). Shades between them are probabilities."
)


def confusion_colours(truth: ArrayLike, matrices: ArrayLike) -> Floats:
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
    labels = np.asarray(truth)
    array = np.asarray(matrices, np.float64)
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
    start = np.where(foreground, to_rgb(style.TRUE_POSITIVE), to_rgb(style.TRUE_NEGATIVE))
    end = np.where(foreground, to_rgb(style.FALSE_NEGATIVE), to_rgb(style.FALSE_POSITIVE))
    return np.asarray((1 - wrong) * start + wrong * end)


def confusion_figure(
    truth: Array,
    labels: Mapping[str, Array],
    colours: Mapping[str, Floats],
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
    blocks, columns = style.grid_shape(len(names), 5)
    side = min(2.4, 10.5 / columns)
    ratio = min(1.6, max(0.4, aspect * truth.shape[0] / truth.shape[1]))
    figure = style.new_figure(
        max(columns * side, 4.2) + 0.3, 2 * blocks * (side * ratio + 0.25) + 0.4, pictures=True
    )
    panels = style.picture_panels(figure, 2 * blocks, columns, "light")
    # Any foreground: colours have one pair for right and wrong foreground.
    for k, name in enumerate(names):
        row = 2 * (k // columns)
        column = k % columns
        _drawn(panels[row, column], truth, labels.get(name))
        style.say_whose([panels[row, column].set_title(style.shown(name))], [name])
        panels[row + 1, column].imshow(colours[name], interpolation="nearest")
        for panel in panels[row : row + 2, column]:
            panel.set_aspect(aspect)
            style.draw_letters(panel, letters)
        if column == 0:
            panels[row, 0].set_ylabel("drawn")
            panels[row + 1, 0].set_ylabel("expected")
    legend = dict(style.ERROR_LEGEND)
    if any(name not in labels or (labels[name] == MISSING).any() for name in names):
        legend["not labelled"] = style.UNKNOWN
    _legend(figure, legend, "light")
    return figure


def _drawn(panel: Axes, truth: Array, labels: Array | None) -> None:
    """Show where labels differ from the predicted consensus; another foreground class is missed."""
    if labels is None:
        labels = np.full(truth.shape, MISSING)
    identity = np.eye(int(max(truth.max(), labels.max(), 1)) + 1)
    said = identity[:, np.maximum(labels, 0)]  # C[., o] where the label o was said for sure
    matrices = np.broadcast_to(said, (len(identity), *said.shape))
    colours = confusion_colours(truth, matrices)
    colours[labels == MISSING] = to_rgb(style.UNKNOWN)
    panel.imshow(colours, interpolation="nearest")


def side_by_side(pictures: Floats, name: str) -> Figure:
    """Draw values from 0 to 1, `(number, rows, columns)`, under a name with their number."""
    number = len(pictures)
    drawn = style.new_figure(2.2 * number, 2.5, pictures=True)
    for k, values in enumerate(pictures, start=1):
        axes = drawn.add_subplot(1, number, k)
        axes.imshow(values, cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"{name} {k}", **style.font(9))
        axes.set_axis_off()
    return drawn
