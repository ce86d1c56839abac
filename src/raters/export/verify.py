"""Measures how far an exported network is from the model that it comes from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from raters.errors import RatersError
from raters.export.truth import Truth, example

TOLERANCE = 1e-4
"""A larger difference in a probability than this is no rounding."""


def measured(truth: Truth, run: Callable[[Tensor], Tensor], what: str) -> float:
    """Return the largest difference of probabilities, over two sizes of images and batches.

    Args:
        truth: The network on its way out.
        run: The exported network.
        what: Its name, for the error.

    Raises:
        RatersError: The difference is more than rounding.
    """
    largest = 0.0
    for batch, larger in ((1, 1), (3, 2)):
        image = example(truth, batch, larger, seed=batch)
        largest = max(largest, float((run(image) - expected(truth, image)).abs().max()))
    if not largest <= TOLERANCE:
        raise RatersError(
            f"found probabilities that differ by {largest:.1e} between {what} and the model, "
            f"expected at most {TOLERANCE:.0e}: nothing was written",
            kind="export",
        )
    return largest


def expected(truth: Truth, image: Tensor) -> Tensor:
    """Return what the model itself says of images as the exported network takes them."""
    if truth.inside:
        normalise = truth.config.normaliser()
        image = torch.from_numpy(np.stack([normalise(one) for one in image.numpy()]))
    with torch.inference_mode():
        return truth.method.truth(image)
