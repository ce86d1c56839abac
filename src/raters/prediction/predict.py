"""What a model says of images: at once, rows by rows where they are large, many in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.errors import RatersError
from raters.methods.base import Asked, draw_latents
from raters.prediction.prediction import Floats, Prediction, together
from raters.prediction.windows import AT_ONCE, OVERLAP, in_bands
from raters.study.case import Case
from raters.study.parallel import ordered_map

if TYPE_CHECKING:
    from raters.training.model import Model

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
    patch, axes = model.config.patch_size, len(space)
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
    ones = (1,) * model.config.spatial_dims
    small = torch.zeros(1, model.config.channels, *ones, device=model.device)
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
        names, images = [case.id for case, _ in waiting], [image for _, image in waiting]
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
        maps, axes = model.method.maps(batch, asked, noise), batch.ndim - 2
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
    silent = [k for k, rater in enumerate(model.config.raters) if rater in model.config.unlabelled]
    if name == "confusion" and silent:  # theirs are still at the start
        array = array.copy()
        array[silent] = np.nan
    return array
