"""Puts items of a `CaseDataset` together into one batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from raters.study.classes import MISSING
from raters.training.patches import pad_to


class Item(TypedDict, total=False):
    """What a `CaseDataset` gives: arrays that must not be written to, as they may be cached.

    Attributes:
        image: `(channels, *space)` or `(features,)`, float32.
        labels: `(raters, *space)`, or `(answers,)` for tables, with MISSING.
        raters: `(answers,)` positions in `study.raters`; for tables only.
        case: The position of the case in the study.
        reference: `(*space)` with MISSING; where the study has references, and in tiles.
        target: `(classes, *space)` floats or `(*space)` integers; where targets are given.
    """

    image: NDArray[np.float32]
    labels: NDArray[Any]
    raters: NDArray[np.int64]
    case: int
    reference: NDArray[Any]
    target: NDArray[Any]


def collate(items: Sequence[Item]) -> dict[str, torch.Tensor]:
    """Stack items; what is smaller than the largest of the batch is filled up at its ends.

    Images and soft targets are filled with 0; labels, references and hard targets with MISSING,
    answers with MISSING by rater 0 (one at least, so that no axis is empty).

    Returns:
        'image' and soft 'target' as float32; 'labels', 'raters', 'case', 'reference' and hard
        'target' as int64; each with the batch in front.

    Example:
        >>> small = Item(image=np.ones((1, 2), "f"), labels=np.array([[0, 1]]), case=3)
        >>> large = Item(image=np.ones((1, 3), "f"), labels=np.array([[1, 1, 1]]), case=5)
        >>> batch = collate([small, large])
        >>> batch["image"].tolist(), batch["labels"].tolist(), batch["case"].tolist()
        ([[[1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]]], [[[0, 1, -1]], [[1, 1, 1]]], [3, 5])
    """
    first = items[0]
    batch = {"case": torch.tensor([item["case"] for item in items])}
    batch["image"] = _stacked([item["image"] for item in items], first["image"].ndim - 1)
    if "raters" in first:
        batch["labels"] = _answers([item["labels"] for item in items], MISSING)
        batch["raters"] = _answers([item["raters"] for item in items], 0)
    else:
        batch["labels"] = _stacked([item["labels"] for item in items], first["labels"].ndim - 1)
    axes = first["labels"].ndim - 1  # 0 for tables, whose labels are (answers,)
    if "reference" in first:
        batch["reference"] = _stacked([item["reference"] for item in items], axes)
    if "target" in first:
        batch["target"] = _stacked([item["target"] for item in items], axes)
    return batch


def unknown(array: NDArray[Any]) -> int:
    """Return what stands outside an image: 0 in floats (images, soft labels), MISSING in labels."""
    return 0 if array.dtype.kind == "f" else MISSING


def _stacked(arrays: list[NDArray[Any]], axes: int) -> torch.Tensor:
    """Stack arrays that may differ along their last axes."""
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1 and axes:
        largest = np.max([shape[-axes:] for shape in shapes], axis=0).tolist()
        arrays = [pad_to(array, largest, unknown(array)) for array in arrays]
    # Numpy casts while it copies, on one thread; `.long()` wakes all and took 10 times as long.
    dtype = np.float32 if arrays[0].dtype.kind == "f" else np.int64
    return torch.from_numpy(np.stack(arrays, dtype=dtype))


def _answers(arrays: list[NDArray[Any]], fill: int) -> torch.Tensor:
    longest = max(1, *(len(array) for array in arrays))
    return _stacked([pad_to(array, (longest,), fill) for array in arrays], 0)
