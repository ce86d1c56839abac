"""What lies on an image: outlines of raters, where they differ, and what is worth drawing next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import ArrayLike

from raters.assessment.agreement_case import entropy_map
from raters.core.arrays import Array, Flags, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.metrics.conventions import label_array
from raters.metrics.surface import bounding_box
from raters.views.plots import style
from raters.views.plots.matrices import colour_bar
from raters.views.plots.pictures import (
    Letters,
    border_lines,
    border_path,
    chosen_slice,
    picture,
    view_of,
)
from raters.views.plots.style import Theme

_HATCHES = ("///", "\\\\\\", "|||", "---")
_MOST_PANELS = 8
REFERENCE = "reference"


@dataclass(frozen=True)
class _Scene:
    """All that is drawn, in 2D."""

    image: Floats | None
    masks: Array
    raters: list[str]
    reference: Array | None
    classes: list[str]
    aspect: float
    title: str
    letters: Letters | None = None


def overlay(
    image: ArrayLike | None,
    masks: ArrayLike,
    raters: Sequence[str] | None = None,
    reference: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    slice: int | None = None,  # noqa: A002
    axis: int | None = None,
    channel: int | None = None,
    spacing: Sequence[float] | None = None,
    *,
    entropy: bool = False,
    zoom: bool = False,
    theme: Theme = "light",
    affine: ArrayLike | None = None,
) -> Figure:
    """Draw the outlines of all raters on an image, one panel per foreground class.

    Outlines run along the borders of pixels. Where raters drew the same line, the later ones are
    thinner, so that all can be seen. Pixels that a rater did not label are hatched in the rater's
    colour. Of many classes, the 8 that raters differ on most are shown.

    Args:
        image: `(channels, *space)` or `(*space)`; None for none.
        masks: Class numbers with MISSING, `(raters, *space)`.
        raters: Names of the raters; colours go by position.
        reference: True labels `(*space)`: a white line with a black edge.
        classes: Names of the classes, with background.
        slice: The slice of a volume, as the file counts; by default where raters differ most.
        axis: The axis of space that slices are counted on; by default as
            `raters.views.plots.pictures.view_of` says.
        channel: The channel to show; by default three channels are colours, else the first.
        spacing: The size of a voxel by axis; by default as the affine has it.
        entropy: Add a panel with the disagreement (entropy of the labels in bits).
        zoom: Show what was drawn, with a margin, instead of the whole image.
        theme: The page.
        affine: Of a volume, voxel indices to millimetres (RAS), as `case.geometry.affine` has it:
            slices are then drawn as radiologists look at them, with the sides of the patient.

    Example:
        >>> masks = np.zeros((2, 8, 8), int)
        >>> masks[0, 2:6, 2:6] = masks[1, 3:7, 2:6] = 1
        >>> figure = overlay(np.ones((1, 8, 8)), masks, ["ann", "bob"], entropy=True)
        >>> len(figure.axes), [text.get_text() for text in figure.legends[0].get_texts()]
        (3, ['ann', 'bob'])
    """
    where = None if affine is None else np.asarray(affine, np.float64)
    scene = _scene(image, masks, raters, reference, classes, channel, slice, axis, spacing, where)
    shown_classes = _most_disputed(scene)
    panels = len(shown_classes) + entropy
    rows, columns = style.grid_shape(panels, 4)
    box = _box(scene, zoom)
    width, height = _panel_size(box, scene.aspect, columns)
    figure = style.new_figure(
        columns * width + 0.6 * entropy, rows * (height + 0.28) + 0.3, pictures=True
    )
    axes = style.picture_panels(figure, rows, columns, theme).ravel()
    for panel, number in zip(axes, shown_classes, strict=False):
        _draw_class(panel, scene, number, 72 * width / (box[1] - box[0] + 1))
        name = style.shown(scene.classes[number]) if len(scene.classes) > 2 else ""
        panel.set_title(", ".join(filter(None, (name, scene.title))))
    if entropy:
        _draw_entropy(figure, axes[panels - 1], scene, theme)
    for panel in axes[panels:]:
        panel.set_visible(False)
    for panel in axes[:panels]:
        style.draw_letters(panel, scene.letters)
        panel.set_xlim(box[0] - 0.5, box[1] + 0.5)
        panel.set_ylim(box[3] + 0.5, box[2] - 0.5)
    style.legend_below(figure, *_legend(scene), theme)
    return figure


def _scene(
    image: ArrayLike | None,
    masks: ArrayLike,
    raters: Sequence[str] | None,
    reference: ArrayLike | None,
    classes: Sequence[str] | None,
    channel: int | None,
    at: int | None,
    axis: int | None,
    spacing: Sequence[float] | None,
    affine: Floats | None,
) -> _Scene:
    stack = mask_stack(masks)
    space = stack.shape[1:]
    names = style.names_of(raters, len(stack))
    truth = None if reference is None else label_array(reference)
    if truth is not None and truth.shape != space:
        raise RatersError(f"found a reference of shape {truth.shape}, expected {space}")
    highest = max(int(stack.max()), 1, 0 if truth is None else int(truth.max()))
    labels = list(classes) if classes is not None else [str(k) for k in range(highest + 1)]
    if highest >= len(labels):
        raise RatersError(f"found label {highest}, expected a class from 0 to {len(labels) - 1}")
    seen = chosen_slice(Geometry(space, affine), stack, at, axis, spacing)
    return _Scene(
        None if image is None else seen.of(picture(image, space, channel)),
        np.stack([seen.of(mask) for mask in stack]),
        names,
        None if truth is None else seen.of(truth),
        labels,
        seen.aspect,
        seen.name,
        seen.letters,
    )


def _most_disputed(scene: _Scene) -> list[int]:
    """Return the foreground classes that a rater drew, the most disputed ones if they are many."""
    drawn = np.unique(scene.masks[scene.masks > 0]).tolist()
    if scene.reference is not None:
        drawn = sorted({*drawn, *np.unique(scene.reference[scene.reference > 0]).tolist()})
    if len(drawn) > _MOST_PANELS:

        def differing(number: int) -> int:
            own = (scene.masks == number).sum(axis=0)
            seen = (scene.masks != MISSING).sum(axis=0)
            return int(((own > 0) & (own < seen)).sum())

        drawn = sorted(sorted(drawn, key=differing)[-_MOST_PANELS:])
    return [int(number) for number in drawn] or [1]


def _box(scene: _Scene, zoom: bool) -> tuple[int, int, int, int]:
    """Return the first and last column and row to show."""
    height, width = scene.masks.shape[1:]
    drawn: Flags = np.asarray((scene.masks > 0).any(axis=0))
    if scene.reference is not None:
        drawn = drawn | (scene.reference > 0)
    if not zoom or not drawn.any():
        return 0, width - 1, 0, height - 1
    rows, columns = bounding_box(drawn)
    margin = max(2, int(0.15 * max(side.stop - side.start - 1 for side in (rows, columns))))
    left = columns.start - margin
    right = columns.stop - 1 + margin
    top = rows.start - margin
    bottom = rows.stop - 1 + margin
    return max(0, left), min(width - 1, right), max(0, top), min(height - 1, bottom)


def _panel_size(box: tuple[int, int, int, int], aspect: float, columns: int) -> tuple[float, float]:
    """Return width and height of a panel in inches, within what a page holds."""
    ratio = aspect * (box[3] - box[2] + 1) / (box[1] - box[0] + 1)
    width = min(5.0 if columns == 1 else 4.2, 11.0 / columns)
    return (width, width * ratio) if ratio <= 1.4 else (width * 1.4 / ratio, width * 1.4)


def _draw_class(panel: Axes, scene: _Scene, number: int, pixel: float) -> None:
    """Draw the outlines of one class; `pixel` is the size of a pixel on the page in points."""
    if scene.image is not None:
        panel.imshow(
            scene.image, cmap="gray", vmin=0, vmax=1, aspect=scene.aspect, interpolation="nearest"
        )
    else:
        panel.set_aspect(scene.aspect)
    colours = style.rater_colours(scene.raters)
    lines = style.rater_lines(scene.raters)
    for k, (name, mask) in enumerate(zip(scene.raters, scene.masks, strict=True)):
        missing = mask == MISSING
        if missing.any() and not missing.all():
            hatch = _HATCHES[k % len(_HATCHES)]
            patch = PathPatch(border_path(missing), hatch=hatch, ec=colours[name], fc="none", lw=0)
            patch.set_alpha(0.6)
            panel.add_patch(patch)
        outline = LineCollection(
            border_lines(mask == number),
            colors=colours[name],
            linestyles=[lines[name]],
            linewidths=_width(k, len(scene.raters), pixel),
            capstyle="projecting" if lines[name] == "-" else "butt",
            label=style.shown(name),
        )
        panel.add_collection(outline, autolim=False)
    if scene.reference is not None:
        white = LineCollection(border_lines(scene.reference == number), colors="white", lw=0.9)
        white.set_path_effects([Stroke(linewidth=2.2, foreground="black"), Normal()])
        panel.add_collection(white, autolim=False)


def _width(position: int, number: int, pixel: float) -> float:
    """Return wider lines to those who are drawn first, so that lines on top hide none.

    Small pixels take thinner lines: fine vessels would vanish below thick ones.
    """
    width = 0.9 + min(0.8, 2.2 / max(number - 1, 1)) * (number - 1 - position)
    return width * min(1.0, max(0.5, pixel / 1.5))


def _draw_entropy(figure: Figure, panel: Axes, scene: _Scene, theme: Theme) -> None:
    bits = entropy_map(scene.masks, len(scene.classes))
    highest = np.log2(min(len(scene.classes), len(scene.masks)))
    top = max(float(highest), 1.0)
    image = panel.imshow(bits, cmap="magma", vmin=0, vmax=top, aspect=scene.aspect)
    panel.set_title("disagreement")
    colour_bar(figure, image, [panel], theme, "entropy (bits)")


def _legend(scene: _Scene) -> tuple[list[Any], list[str]]:
    colours = style.rater_colours(scene.raters)
    lines = style.rater_lines(scene.raters)
    handles = [Line2D([], [], color=colours[n], linestyle=lines[n], lw=2) for n in scene.raters]
    empty = (scene.masks == MISSING).all(axis=(1, 2))
    texts = [
        style.shown(n) + (" (not labelled)" if e else "")
        for n, e in zip(scene.raters, empty, strict=True)
    ]
    if scene.reference is not None:
        line = Line2D([], [], color="white", lw=0.9)
        line.set_path_effects([Stroke(linewidth=2.2, foreground="black"), Normal()])
        handles = [*handles, line]
        texts = [*texts, REFERENCE]
    return handles, texts


_FRAME = "#56b4e9"  # light blue stands out from grey and from the map, also to the colour-blind


class Suggested(NamedTuple):
    """An image with its map of bits and patches.

    Attributes:
        title: What stands above it.
        image: `(channels, *space)`; None if there is none.
        bits: `(*space)`.
        patches: Where patches are, as indices.
        geometry: The grid of the image; None where it does not matter.
    """

    title: str
    image: Array | None
    bits: Array
    patches: Sequence[tuple[slice, ...]] = ()
    geometry: Geometry | None = None


def suggestions(shown: Sequence[Suggested], theme: Theme = "light") -> Figure:
    """Draw images under their maps of bits, patches as frames; of volumes the fullest slice.

    Args:
        shown: What to draw, best first.
        theme: The page.

    Example:
        >>> bits = np.eye(8, dtype=np.float32)
        >>> one = Suggested("1. scan3", np.ones((1, 8, 8)), bits, [(slice(0, 4), slice(0, 4))])
        >>> figure = suggestions([one, one])
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['1. scan3', '1. scan3']
    """
    rows, columns = style.grid_shape(len(shown), 4)
    figure = style.new_figure(columns * 2.6 + 0.6, rows * 2.9, pictures=True)
    panels = style.picture_panels(figure, rows, columns, theme).ravel()
    top = max((float(one.bits.max(initial=0)) for one in shown), default=0) or 1.0
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    for panel, one in zip(panels, shown, strict=False):
        _draw(panel, one, top)
    last = panels[0].images[-1]
    colour_bar(figure, last, list(panels[: len(shown)]), theme, "what a label would tell (bits)")
    return figure


def _draw(panel: Axes, one: Suggested, top: float) -> None:
    space = one.bits.shape
    grid = one.geometry or Geometry(one.bits.shape)
    image = None if one.image is None else picture(one.image, space, None)
    bits = one.bits
    aspect = 1.0
    title = one.title
    letters = None
    frames = list(one.patches)
    if len(space) == 2:
        aspect = grid.spacing[0] / grid.spacing[1]
    else:
        view = view_of(space, grid.affine)
        turned = view.turn(bits)
        at = int(turned.sum(axis=(1, 2)).argmax())
        image = None if image is None else view.turn(image)[at]
        seen = [view.turn(_inside(space, place))[at] for place in one.patches]
        frames = [bounding_box(inside) for inside in seen if inside.any()]
        bits = turned[at]
        aspect = view.aspect(grid.spacing)
        letters = view.letters
        title = f"{title}\n{view.name(at, space)}"
    if image is not None:
        panel.imshow(image, cmap="gray", vmin=0, vmax=1, aspect=aspect, interpolation="nearest")
    opacity = np.clip(np.asarray(bits, np.float64) / top, 0, 1) * 0.75
    panel.imshow(bits, cmap="inferno", vmin=0, vmax=top, alpha=opacity, aspect=aspect)
    style.draw_letters(panel, letters)
    panel.set_title(title)
    for rows, columns in frames:
        size = columns.stop - columns.start, rows.stop - rows.start
        corner = columns.start - 0.5, rows.start - 0.5
        panel.add_patch(Rectangle(corner, *size, fill=False, ec=_FRAME, lw=1.6))


def _inside(space: tuple[int, ...], place: tuple[slice, ...]) -> Array:
    inside = np.zeros(space, bool)
    inside[place] = True
    return inside


def mask_stack(masks: ArrayLike) -> Array:
    """Return masks as `(raters, *space)` of 2D or 3D; reject what cannot be drawn."""
    try:
        array = label_array(masks)
    except RatersError:
        raise
    except ValueError:
        raise RatersError("found masks of different shapes, expected one shape") from None
    if array.ndim not in (3, 4) or not array.size:
        raise RatersError(
            f"found masks of shape {array.shape}, expected (raters, rows, columns) "
            "or (raters, i, j, k) with at least one rater and pixel"
        )
    return array
