"""The confusion that a drawn rater really has: one matrix per image and rater."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.confusion.counts import Unseen, count, normalise
from raters.simulate.layers import Layers, draw_classes
from raters.simulate.masks import Drawer


def rater_confusion(
    truth: NDArray[np.generic] | Layers,
    drawer: Drawer,
    severity: float,
    rng: np.random.Generator,
    draws: int = 16,
    target: int | None = None,
    num_classes: int | None = None,
    unseen: Unseen = "identity",
) -> NDArray[np.float64]:
    """Count `C[t, o]` of a drawn rater on one image over independent draws.

    The draws are other ones than the mask that the rater hands in, and the matrix is one for the
    whole image: an oracle that knows it does not know which pixels are wrong.

    Args:
        truth: Class numbers `(*space)`, or their `Layers`.
        drawer: How the rater errs.
        severity: How much.
        rng: Randomness of the draws.
        draws: How often to draw.
        target: The class to err on; by default every foreground class.
        num_classes: The number of classes L.
        unseen: The row of a class that the image does not have; 'identity' by default, so that
            rows sum to one ('nan' where only observed rows should count).

    Returns:
        `(L, L)`, rows sum to one.

    Example:
        >>> from raters.simulate.masks import DRAWERS
        >>> truth = np.array([[0, 0, 1, 1]])
        >>> rater_confusion(truth, DRAWERS["blank"], 1, np.random.default_rng(0))
        array([[1., 0.],
               [1., 0.]])
    """
    layers = truth if isinstance(truth, Layers) else Layers(truth, num_classes)
    counts = np.zeros((layers.classes, layers.classes), np.int64)
    for _ in range(draws):
        drawn = draw_classes(layers, drawer, severity, rng, target)
        counts += count(drawn[None], layers.truth, layers.classes)[0]
    return normalise(counts, unseen)
