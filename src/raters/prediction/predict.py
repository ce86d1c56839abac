"""What a model says of one image: all of it at once, or rows by rows where it is large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.prediction.windows import OVERLAP, in_bands

if TYPE_CHECKING:
    from raters.methods.base import Views
    from raters.study.case import Case
    from raters.training.model import Model

LARGEST_WHOLE = {1: 2**20, 2: 1024**2, 3: 96**3}
"""Pixels of an image that a network trained on whole images still sees whole.

A U-Net of width 16 holds some 500 bytes per pixel, so this is about half a gigabyte; beyond it,
memory would grow without end."""

LARGE_WINDOW = {1: 2**18, 2: 512, 3: 96}
"""The sides of windows for larger images of such networks: they know no patch of their own."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """What is asked of a model beside the truth.

    Attributes:
        raters: Raters whose labels are to be predicted too.
        confusion: Whether to give the raters' matrices.
        overlap: The share of a window that the next one covers again.
    """

    raters: tuple[str, ...] = ()
    confusion: bool = False
    overlap: float = OVERLAP


@dataclass(frozen=True)
class Predicted:
    """What a model says of a case, or of some rows of it.

    Attributes:
        truth: `p(t | x)`, `(classes, *space)`.
        as_rater: What raters would say, `p(o | x, rater)`, by name, of the same shape.
        confusion: `C[t, o]`, `(raters, L, L, *space)`; an axis has length 1 where matrices are the
            same everywhere, and raters of whom no label was trained on have NaN. None if it was
            not asked for.
        start: The first row, where these are some rows of an image.
        rows: How many rows the whole image has; None where this is the whole.
    """

    truth: Floats
    as_rater: dict[str, Floats] = field(default_factory=dict)
    confusion: Floats | None = None
    start: int = 0
    rows: int | None = None

    @property
    def labels(self) -> NDArray[np.int16]:
        """The most likely class, `(*space)`."""
        return most_likely(self.truth)

    @property
    def entropy(self) -> Floats:
        """The entropy of the truth in bits, `(*space)`: 0 where the model is sure."""
        return entropy_bits(self.truth)


def most_likely(probabilities: Floats) -> NDArray[np.int16]:
    """Return the most likely class of `(classes, *space)`, the first of equals."""
    found: NDArray[np.int16] = np.asarray(probabilities.argmax(0), np.int16)
    return found


def entropy_bits(probabilities: Floats) -> Floats:
    """Return the entropy in bits of `(classes, *space)`: `-sum_t p log2 p`.

    Example:
        >>> entropy_bits(np.array([[0.5, 1.0], [0.5, 0.0]], np.float32))
        array([1., 0.], dtype=float32)
    """
    total = np.zeros(probabilities.shape[1:], np.float32)
    for p in probabilities:  # one class at a time: no second copy of all
        total -= p * np.log2(p, out=np.zeros_like(p), where=p > 0)
    return np.maximum(total, 0, out=total)


def predict_case(
    model: Model,
    case: Case | NDArray[Any],
    raters: Sequence[str] = (),
    confusion: bool = False,
    overlap: float = OVERLAP,
) -> Predicted:
    """Return what a model says of a case.

    Args:
        model: The model.
        case: A case of a study, or its image `(channels, *space)` or features `(channels,)`.
        raters: Also give what these raters would say.
        confusion: Also give the matrices of all raters.
        overlap: The share of a window that the next one covers again, where there are windows.

    Raises:
        RatersError: A rater that the model does not know, or an image that it cannot take.
    """
    asked = Asked(tuple(raters), confusion, overlap)
    return together(in_rows(model, model.pixels(case), asked))


def predict_batch(model: Model, images: Sequence[Tensor], asked: Asked) -> list[Predicted]:
    """Predict small images of one shape in one go, each `(channels, *space)`."""
    numbers = [model.number_of(rater) for rater in asked.raters]
    with torch.inference_mode():
        batch = torch.stack(list(images)).to(model.device)
        views = model.method.views(batch, numbers, asked.confusion)
        return [_one(views, k, model, asked) for k in range(len(images))]


def in_rows(model: Model, image: Tensor, asked: Asked) -> Iterator[Predicted]:
    """Predict an image `(channels, *space)`; large ones come in bands of rows, in order.

    A band is only good until the next one is asked for.
    """
    window = window_of(model, tuple(image.shape[1:]))
    if window is None:
        yield predict_batch(model, [image], asked)[0]
        return
    numbers = [model.number_of(rater) for rater in asked.raters]
    each = asked.confusion and model.method.varies

    @torch.inference_mode()  # not around the loop: whoever takes the bands is not to be in it
    def function(batch: Tensor) -> Tensor:
        truth, told, matrices = model.method.views(batch, numbers, each)
        flat = [] if matrices is None else [matrices.flatten(1, 3)]
        return torch.cat([truth, *told, *flat], 1)

    same = None if each or not asked.confusion else same_confusion(model)
    for start, rows in in_bands(image, function, window, asked.overlap, model.device):
        band = _parts(rows.numpy(), model, asked, same)
        yield replace(band, start=start, rows=image.shape[1])


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
    small = torch.zeros(
        1, model.config.channels, *(1,) * model.config.spatial_dims, device=model.device
    )
    with torch.inference_mode():
        return _known(_numpy(model.method.confusion(small)[0]), model)


def together(bands: Iterator[Predicted]) -> Predicted:
    """Put bands of rows together."""
    whole: Predicted | None = None
    for band in bands:
        if band.rows is None:
            return band
        whole = whole or _empty_like(band, (band.rows, *band.truth.shape[2:]))
        here = slice(band.start, band.start + band.truth.shape[1])
        whole.truth[:, here] = band.truth
        for rater, part in band.as_rater.items():
            whole.as_rater[rater][:, here] = part
        if whole.confusion is not band.confusion and whole.confusion is not None:
            whole.confusion[:, :, :, here] = band.confusion
    assert whole is not None  # there is a band at least
    return whole


def _empty_like(band: Predicted, space: tuple[int, ...]) -> Predicted:
    """Allocate a whole image; matrices that are the same everywhere stay as they are."""
    matrix = band.confusion
    if matrix is not None and matrix.shape[3:] == band.truth.shape[1:]:
        matrix = np.empty((*matrix.shape[:3], *space), np.float32)
    told = {rater: np.empty((len(p), *space), np.float32) for rater, p in band.as_rater.items()}
    return Predicted(np.empty((len(band.truth), *space), np.float32), told, matrix)


def _known(matrices: Floats, model: Model) -> Floats:
    """Return NaN for raters of whom no label was trained on: theirs are still at the start."""
    silent = [k for k, name in enumerate(model.config.raters) if name in model.config.unlabelled]
    if silent:
        matrices = matrices.copy()
        matrices[silent] = np.nan
    return matrices


def _one(views: Views, k: int, model: Model, asked: Asked) -> Predicted:
    told = {r: _numpy(part[k]) for r, part in zip(asked.raters, views.told, strict=True)}
    found = views.confusion
    matrix = None if found is None else _known(_numpy(found[k if len(found) > 1 else 0]), model)
    return Predicted(_numpy(views.truth[k]), told, matrix)


def _parts(rows: Floats, model: Model, asked: Asked, same: Floats | None) -> Predicted:
    """Take the channels of a band apart."""
    classes = len(model.config.classes)
    told = {r: rows[classes * k : classes * (k + 1)] for k, r in enumerate(asked.raters, start=1)}
    rest = rows[classes * (1 + len(told)) :]
    if len(rest):
        same = _known(rest.reshape(-1, classes, classes, *rows.shape[1:]), model)
    return Predicted(rows[:classes], told, same)


def _numpy(tensor: Tensor) -> Floats:
    return tensor.float().cpu().numpy()
