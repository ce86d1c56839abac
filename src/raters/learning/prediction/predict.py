"""What a model says of images: at once, rows by rows where they are large, many in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.errors import RatersError
from raters.core.progress import ordered_map
from raters.evaluation.prediction import Floats, Prediction, together
from raters.learning.methods.base import Asked
from raters.learning.methods.phases import draw_latents
from raters.learning.training.model import Model
from raters.study.case import Case

OVERLAP = 0.25
_SIGMA = 0.125  # of the Gaussian, as a share of a window's side
_LEAST = 1e-3  # of a weight, so that no pixel is left without one
AT_ONCE = 2**16
"""Pixels that go through a network together: more takes memory and, on a CPU, gains nothing."""

LARGEST_WHOLE = {1: 2**20, 2: 1024**2, 3: 96**3}
"""Pixels of an image that a network trained on whole images still sees whole.

A U-Net of width 16 holds some 500 bytes per pixel, so this is about half a gigabyte; beyond it,
memory would grow without end."""

LARGE_WINDOW = {1: 2**18, 2: 512, 3: 96}
"""The sides of windows for larger images of such networks: they know no patch of their own."""

_MOST = 256  # cases at once, where each is a few features only

Found = tuple[Case, Iterator[Prediction] | RatersError]


def predict_case(
    model: Model, case: Case | NDArray[Any], asked: Asked | None = None, overlap: float = OVERLAP
) -> Prediction:
    """Return what a model says of a case.

    Args:
        model: The model.
        case: A case of a study, or its image `(channels, *space)` or features `(channels,)`.
        asked: What is asked beside the truth: what raters would say, their matrices, samples.
        overlap: The share of a window that the next one covers again, where there are windows.

    Raises:
        RatersError: A rater that the model does not know, something that its method cannot answer,
            or an image that it cannot take.
    """
    asked = asked or Asked()
    model.refuse_unanswered(asked)
    name = case.id if isinstance(case, Case) else ""
    return together(_in_rows(model, name, model.pixels(case), asked, overlap))


def predict_streams(
    model: Model, cases: Iterable[Case], asked: Asked | None = None, overlap: float = OVERLAP
) -> Iterator[Found]:
    """Return each case with what the model says of it, in bands of rows; or with what went wrong.

    The cases stay in order; they are read ahead, and small ones of one shape go through together.
    The bands of a case must be used before the next case is asked for.
    """
    asked = asked or Asked()
    model.refuse_unanswered(asked)
    waiting: list[tuple[Case, Tensor]] = []
    for case, image in ordered_map(lambda case: _read(model, case), cases, num_workers=1):
        if waiting and (isinstance(image, RatersError) or not _fits(waiting, image)):
            yield from _through(model, waiting, asked)
            waiting = []
        if isinstance(image, RatersError):
            yield case, image
        elif window_of(model, tuple(image.shape[1:])) is not None:
            yield case, _in_rows(model, case.id, image, asked, overlap)
        else:
            waiting.append((case, image))
    yield from _through(model, waiting, asked)


def predict_cases(
    model: Model, cases: Iterable[Case], asked: Asked | None = None, overlap: float = OVERLAP
) -> Iterator[tuple[Case, Prediction | RatersError]]:
    """Return each case with all that the model says of it, or with what went wrong."""
    for case, found in predict_streams(model, cases, asked, overlap):
        yield case, found if isinstance(found, RatersError) else together(found)


def window_of(model: Model, space: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the sides of the windows that an image is predicted in; None if it is seen whole."""
    patch = model.config.patch_size
    axes = len(space)
    if model.config.label_spatial_dims == 0:
        return None
    if patch is None and prod(space) > LARGEST_WHOLE[axes]:
        patch = (LARGE_WINDOW[axes],) * axes
    if patch is None or all(s <= p for s, p in zip(space, patch, strict=True)):
        return None
    return patch


def same_confusion(model: Model) -> Floats:
    """Return matrices that are the same everywhere, `(raters, L, L, *ones)`."""
    model.refuse_unanswered(Asked(confusion=True))
    config = model.config  # a network of the user's own may take one size only
    if config.image_size:
        space = config.patch_size or config.image_size
    else:
        space = (1,) * config.spatial_dims
    small = torch.zeros(1, config.channels, *space, device=model.device)
    with torch.inference_mode():
        return _numpy("confusion", model.method.confusion(small)[0], model)


def _read(model: Model, case: Case) -> tuple[Case, Tensor | RatersError]:
    try:
        return case, model.pixels(case)
    except RatersError as error:
        return case, error.at(case=case.id)


def _fits(waiting: list[tuple[Case, Tensor]], image: Tensor) -> bool:
    """Return whether an image has the shape of those that wait, and fits among them."""
    first = waiting[0][1]
    pixels = first[0].numel() if first.ndim > 1 else 1
    room = max(1, min(_MOST, AT_ONCE // pixels))
    return image.shape == first.shape and len(waiting) < room


def _through(model: Model, waiting: list[tuple[Case, Tensor]], asked: Asked) -> Iterator[Found]:
    if waiting:
        names = [case.id for case, _ in waiting]
        images = [image for _, image in waiting]
        found = _at_once(model, names, images, asked)
        yield from ((case, iter([part])) for (case, _), part in zip(waiting, found, strict=True))


@torch.inference_mode()
def _at_once(
    model: Model, names: Sequence[str], images: Sequence[Tensor], asked: Asked
) -> list[Prediction]:
    """Predict small images of one shape in one go, each `(channels, *space)`."""
    latents = draw_latents(model.method, asked, names)
    maps = model.method.maps(torch.stack(list(images)).to(model.device), asked, latents)
    return [
        Prediction({n: _numpy(n, m[k if len(m) > 1 else 0], model) for n, m in maps.items()})
        for k in range(len(images))
    ]


def _in_rows(
    model: Model, name: str, image: Tensor, asked: Asked, overlap: float
) -> Iterator[Prediction]:
    """Predict an image `(channels, *space)`; large ones come in bands of rows, in order.

    All windows share the noise of a sample, so that it is one sample of the whole image. A band is
    only good until the next one is asked for.
    """
    window = window_of(model, tuple(image.shape[1:]))
    if window is None:
        yield from _at_once(model, [name], [image], asked)
        return
    latents = draw_latents(model.method, asked, [name])
    fronts: dict[str, tuple[int, ...]] = {}  # of maps that vary: their axes before those of space
    same: dict[str, Floats] = {}  # maps that do not

    @torch.inference_mode()  # not around the loop: whoever takes the bands is not to be in it
    def function(batch: Tensor) -> Tensor:
        noise = [z.expand(len(batch), *z.shape[1:]) for z in latents]
        maps = model.method.maps(batch, asked, noise)
        axes = batch.ndim - 2
        if not fronts:
            for key, found in maps.items():
                if found.shape[-axes:] == batch.shape[2:]:
                    fronts[key] = tuple(found.shape[1:-axes])
                else:
                    same[key] = _numpy(key, found[0], model)
        flat = [maps[key].expand(len(batch), *maps[key].shape[1:]) for key in fronts]
        return torch.cat([found.flatten(1, -axes - 1) for found in flat], 1)

    for start, rows in in_bands(image, function, window, overlap, model.device):
        ends = accumulate((prod(front) for front in fronts.values()), initial=0)
        parts = (rows[a:b] for a, b in pairwise(ends))
        maps = {
            key: _numpy(key, part.reshape(*front, *rows.shape[1:]), model)
            for (key, front), part in zip(fronts.items(), parts, strict=True)
        }
        yield Prediction(maps | same, start, image.shape[1])


def _numpy(name: str, found: Tensor, model: Model) -> Floats:
    """Return a map as an array; matrices of raters without a label in training become NaN."""
    array: Floats = found.float().cpu().numpy()
    if name == "confusion" and model.config.unlabelled:  # theirs are still at the start
        array = array.copy()
        array[[model.config.raters.index(rater) for rater in model.config.unlabelled]] = np.nan
    return array


def starts_of(side: int, window: int, overlap: float) -> list[int]:
    """Return where windows start along an axis; the last one ends where the axis ends.

    Example:
        >>> starts_of(10, 4, 0.25), starts_of(3, 3, 0.25)
        ([0, 3, 6], [0])
    """
    step = max(int(window * (1 - overlap)), 1)
    return [*range(0, side - window, step), side - window]


def gaussian_weights(window: Sequence[int]) -> Tensor:
    """Return the weights of a window's pixels: a Gaussian around its middle.

    The standard deviation is an eighth of a side, and no weight is below 0.001, as in MONAI's
    `sliding_window_inference(mode='gaussian')`.

    Example:
        >>> gaussian_weights((4,))
        tensor([0.0111, 0.6065, 0.6065, 0.0111])
    """
    weights = torch.ones(())
    for side in window:
        x = torch.arange(side) - (side - 1) / 2
        weights = weights.unsqueeze(-1) * torch.exp(-(x**2) / (2 * (_SIGMA * side) ** 2))
    return weights.clamp(min=_LEAST)


def in_bands(
    image: Tensor,
    function: Callable[[Tensor], Tensor],
    window: Sequence[int],
    overlap: float = OVERLAP,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[int, Tensor]]:
    """Run a function on overlapping windows of an image and give the blended result in bands.

    At each pixel the result is the mean over its windows, weighted by `gaussian_weights`. Windows
    that start at the same row make a band; once it is through, the rows that no later window
    touches are finished and given away. So memory grows with a band, not with the image.

    Args:
        image: `(channels, *space)`.
        function: Takes `(batch, channels, *window)`, gives `(batch, outputs, *window)`.
        window: The sides of a window; where the image is shorter, its own side is taken.
        overlap: The share of a window that the next one covers again, at least 0 and below 1.
        device: Where the function runs; results come back to the memory of the image.

    Yields:
        The first row of a band and its `(outputs, rows, *rest)`, in order and without gaps. Use
        it before the next one is asked for: its memory is used again.

    Example:
        >>> image = torch.arange(12.0).view(1, 3, 4)
        >>> bands = list((k, rows.clone()) for k, rows in in_bands(image, lambda x: 2 * x, (2, 2)))
        >>> [k for k, _ in bands], torch.cat([rows for _, rows in bands], 1).allclose(2 * image)
        ([0, 1], True)
    """
    space = image.shape[1:]
    sides = tuple(min(side, length) for side, length in zip(window, space, strict=True))
    if sides == tuple(space):
        yield 0, function(image[None].to(device))[0].to(image.device)
        return
    rows, *others = (starts_of(*axis, overlap) for axis in zip(space, sides, strict=True))
    weights = gaussian_weights(sides)
    columns = list(product(*others))
    at_once = max(AT_ONCE // weights.numel(), 1)
    sums = None
    total = torch.zeros(sides[0], *space[1:])
    for row, following in pairwise((*rows, space[0])):
        for first in range(0, len(columns), at_once):
            places = [_place((row, *corner), sides) for corner in columns[first : first + at_once]]
            found = function(torch.stack([image[place] for place in places]).to(device))
            if sums is None:
                sums = torch.zeros(found.shape[1], *total.shape)
            for place, part in zip(places, found.to(image.device), strict=True):
                inside = place[2:]  # the buffer starts at the band's own first row
                sums[:, :, *inside] += part * weights
                total[:, *inside] += weights
        assert sums is not None  # a band has a window at least
        done = following - row
        yield row, sums[:, :done].div_(total[:done])
        _move_up(sums, done, axis=1)
        _move_up(total, done, axis=0)


def _place(corner: tuple[int, ...], sides: tuple[int, ...]) -> tuple[slice, ...]:
    ends = zip(corner, sides, strict=True)
    return (slice(None), *(slice(start, start + side) for start, side in ends))


def _move_up(buffer: Tensor, done: int, axis: int) -> None:
    """Bring the rows that later windows touch to the front, and empty the others."""
    left = buffer.shape[axis] - done
    if left:
        buffer.narrow(axis, 0, left).copy_(buffer.narrow(axis, done, left).clone())
    buffer.narrow(axis, left, done).zero_()
