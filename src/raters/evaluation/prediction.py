"""`Prediction`: what a model says of an image, as named maps, from windows to files and scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

AS = "as:"
SAMPLE = "sample:"
"""How the names of maps begin that are what a rater would say, and samples."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of a case, or of some rows of it.

    Attributes:
        maps: Maps by name, as `Method.maps` names them. 'truth' is `p(t | x)`, `(classes, *space)`;
            'as:NAME' what a rater would say, and 'sample:K' a sample, of the same shape;
            'confusion' is `C[t, o]`, `(raters, L, L, *space)`, whose axes of space have length 1
            where matrices are the same everywhere, and NaN for raters without a label in training.
        start: The first row, where these are some rows of an image.
        rows: How many rows the whole image has; None where this is the whole.

    Example:
        >>> found = Prediction({"truth": np.array([[0.2, 0.5], [0.8, 0.5]], np.float32)})
        >>> found.labels.tolist(), found.entropy.round(2).tolist(), found.samples
        ([1, 0], [0.7200000286102295, 1.0], [])
    """

    maps: dict[str, Floats]
    start: int = 0
    rows: int | None = None

    @property
    def truth(self) -> Floats:
        """`p(t | x)`, `(classes, *space)`."""
        return self.maps["truth"]

    @property
    def raters(self) -> list[str]:
        """The raters whose labels were asked for."""
        return [name.removeprefix(AS) for name in self.maps if name.startswith(AS)]

    def as_rater(self, rater: str) -> Floats:
        """Return what a rater would say, `p(o | x, rater)`, `(classes, *space)`."""
        return self.maps[AS + rater]

    @property
    def confusion(self) -> Floats | None:
        """The raters' matrices, `(raters, L, L, *space)`; None if they were not asked for."""
        return self.maps.get("confusion")

    @property
    def samples(self) -> list[Floats]:
        """The samples that were asked for, each `(classes, *space)`."""
        return [found for name, found in self.maps.items() if name.startswith(SAMPLE)]

    @property
    def labels(self) -> NDArray[np.int16]:
        """The most likely class, `(*space)`."""
        return most_likely(self.truth)

    @property
    def entropy(self) -> Floats:
        """The entropy of the truth in bits, `(*space)`: 0 where the model is sure."""
        return entropy_bits(self.truth)

    def front(self, name: str) -> int:
        """Return how many axes of a map come before those of space."""
        return self.maps[name].ndim - self.truth.ndim + 1

    def fills(self, name: str) -> bool:
        """Return whether a map has a value for each pixel, and not one for all of them."""
        return self.maps[name].shape[self.front(name) :] == self.truth.shape[1:]


def together(bands: Iterable[Prediction]) -> Prediction:
    """Put bands of rows together."""
    whole: dict[str, Floats] = {}
    for band in bands:
        if band.rows is None:
            return band
        space = (band.rows, *band.truth.shape[2:])
        for name, part in band.maps.items():
            front = band.front(name)
            if name not in whole:
                room = np.empty((*part.shape[:front], *space), np.float32)
                whole[name] = room if band.fills(name) else part
            if whole[name].shape[front:] == space:
                here = slice(band.start, band.start + band.truth.shape[1])
                whole[name][(slice(None),) * front + (here,)] = part
    return Prediction(whole)


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
