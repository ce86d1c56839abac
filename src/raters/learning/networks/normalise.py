"""Brings images and features to mean 0 and standard deviation 1, a channel at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from raters.core.errors import RatersError, in_case, one_of
from raters.study.backend import Image
from raters.study.study import Study

Mode = Literal["study", "case", "none"]
MODES = ("auto", "study", "case", "none")

SAMPLE = 500
"""Images that the statistics of a study are taken from at most, evenly spread over its cases.

They settle the mean of millions of pixels. Features are few numbers per case and a rare one would
look constant in a sample, so all cases are read there.
"""

_CONSTANT = 1e-12
"""A standard deviation below this share of the mean is rounding, not contrast."""

Statistics = tuple[int, NDArray[np.float64], NDArray[np.float64]]
"""How many values there are, their mean, and their summed squared distance from it, a channel."""

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Mean and standard deviation of each channel; a deviation of 0 stands for a constant one."""


@dataclass(frozen=True)
class Normalisation:
    """How an image becomes what a network sees: `(image - mean) / std`, a channel at a time.

    Attributes:
        mode: 'study' takes the mean and standard deviation of the training cases, 'case' each
            image's own, 'none' leaves the values as they are.
        mean: One number per channel (or feature) for 'study', else empty.
        std: The same; 0 stands for a channel that is constant, which becomes 0.

    Example:
        >>> image = np.array([[[0, 2], [0, 2]], [[7, 7], [7, 7]]], np.uint8)
        >>> Normalisation("case")(image).tolist()
        [[[-1.0, 1.0], [-1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]
        >>> Normalisation("study", (1.0, 6.0), (0.5, 1.0))(image)[:, 0].tolist()
        [[-2.0, 2.0], [1.0, 1.0]]
    """

    mode: Mode
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __call__(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise an image `(channels, *space)` or features `(features,)`.

        Raises:
            RatersError: for values that are not finite, and another number of channels.
        """
        result = scaled(image, *self.moments(image))
        if image.dtype.kind == "f" and image.dtype.itemsize > 4:
            refuse_not_finite(result)  # what a float32 cannot hold
        return result

    def moments(self, image: NDArray[Any]) -> Moments:
        """Return what `scaled` needs to normalise the image, or any part of it.

        Raises:
            RatersError: for values that are not finite, and another number of channels.
        """
        refuse_not_finite(image)
        if self.mode == "study":
            refuse_other_channels(image.shape, len(self.mean), "the training cases")
            return np.array(self.mean), np.array(self.std)
        if self.mode == "case":
            number, mean, squares = statistics(image)
            return mean, _std(number, mean, squares)
        return np.zeros(len(image)), np.ones(len(image))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for YAML.

        Example:
            >>> Normalisation("study", (1.0,), (2.0,)).to_dict()
            {'mode': 'study', 'mean': [1.0], 'std': [2.0]}
        """
        return {"mode": self.mode, "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Normalisation:
        """Read what `to_dict` gave.

        Example:
            >>> Normalisation.from_dict({"mode": "case", "mean": [], "std": []})
            Normalisation(mode='case', mean=(), std=())
        """
        mode, mean, std = (values.get(key, ()) for key in ("mode", "mean", "std"))
        try:
            mean = tuple(map(float, mean))
            std = tuple(map(float, std))
        except (TypeError, ValueError) as error:
            why = f"found a normalisation without means ({error}), expected one number per channel"
            raise RatersError(why) from None
        if mode not in MODES[1:] or len(mean) != len(std):
            raise RatersError(
                f"found the normalisation {mode!r} with {len(mean)} means and {len(std)} standard "
                f"deviations, expected one of {', '.join(MODES[1:])} and as many of both"
            )
        return cls(mode, mean, std)


def fit_normalisation(
    study: Study,
    mode: Literal["auto", "study", "case", "none"] = "auto",
    first: Image | None = None,
) -> Normalisation:
    """Find the normalisation of the training cases, in one pass that holds one image at a time.

    Args:
        study: The training cases only: nothing may be learned from test cases.
        mode: 'auto' is 'study' for features and 8-bit images, whose numbers mean the same in every
            case, and 'case' for others (MRI has no unit). Statistics of images come from at most
            `SAMPLE` cases, evenly spread; those of features from all.
        first: The image of the first case, if it was read already.

    Example:
        >>> images = np.array([[[[0, 4]]], [[[2, 2]]]], np.uint8)     # 2 cases of 1 x 2 pixels
        >>> study = Study.from_arrays(images, np.zeros((2, 1, 1, 2), int))
        >>> fit_normalisation(study)
        Normalisation(mode='study', mean=(2.0,), std=(1.414...,))
    """
    one_of(MODES, mode, "the normalisation")
    if not len(study):
        raise RatersError("found no cases, expected some to train on")
    if first is None:
        first = study[0].needed_image()
    if mode == "auto":
        mode = "study" if first.array.ndim == 1 or first.array.dtype.itemsize == 1 else "case"
    if mode != "study":
        return Normalisation(mode)
    number, mean, squares = _merged(study, first, len(study) if first.array.ndim == 1 else SAMPLE)
    std = _std(number, mean, squares)
    return Normalisation("study", tuple(mean.tolist()), tuple(std.tolist()))


def statistics(image: NDArray[Any]) -> Statistics:
    """Count the values of an image, with their mean and squared distance from it, a channel."""
    flat = image.reshape(len(image), -1)
    mean = flat.mean(axis=1, dtype=np.float64)
    number = flat.shape[1]
    return number, mean, flat.var(axis=1, dtype=np.float64) * number


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Put the statistics of two parts together, without the cancellation of plain sums.

    `mean = mean_a + d n_b / n` and `squares = squares_a + squares_b + d^2 n_a n_b / n`, where d is
    the difference of the means (Chan, Golub and LeVeque 1979).

    Example:
        >>> halves = [statistics(np.array([[1.0, 2.0]])), statistics(np.array([[6.0]]))]
        >>> merge(*halves)
        (3, array([3.]), array([14.]))
    """
    number = a[0] + b[0]
    difference = b[1] - a[1]
    mean = a[1] + difference * (b[0] / number)
    return number, mean, a[2] + b[2] + difference**2 * (a[0] * b[0] / number)


def refuse_not_finite(image: NDArray[Any]) -> None:
    """Refuse NaN and infinity, which would make every weight of a network NaN.

    Raises:
        RatersError: that says how many there are in the first channel that has some.
    """
    if image.dtype.kind not in "fc":
        return
    finite = np.isfinite(image)
    if finite.all():
        return
    channel = int(np.argmin(finite.reshape(len(image), -1).all(axis=1)))
    found = int(np.size(finite[channel]) - np.count_nonzero(finite[channel]))
    where = "feature" if image.ndim == 1 else "channel"
    values = "1 value" if found == 1 else f"{found:,} values"
    raise RatersError(
        f"found {values} in {where} {channel} that are NaN or infinite (or too large for a "
        "float32), expected finite numbers",
        kind="not-finite",
    )


def refuse_other_channels(shape: Sequence[int], expected: int, of: str) -> None:
    """Refuse an image with another number of channels than others have, or of features."""
    if shape[0] != expected:
        what = "features" if len(shape) == 1 else "channels"
        why = f"found {shape[0]} {what}, expected {expected} as in {of}"
        raise RatersError(why, kind="channels")


def _merged(study: Study, first: Image, most: int) -> Statistics:
    total: Statistics | None = None
    number = min(len(study), most)
    for position in np.linspace(0, len(study) - 1, number).round().astype(int).tolist():
        case = study[position]
        image = case.needed_image() if position else first
        with in_case(case.id, image.source):
            refuse_not_finite(image.array)
            others = f"case {study.index.ids[0]!r}"
            refuse_other_channels(image.array.shape, len(first.array), others)
        part = statistics(image.array)
        total = part if total is None else merge(total, part)
    assert total is not None  # there is a case
    return total


def _std(
    number: int, mean: NDArray[np.float64], squares: NDArray[np.float64]
) -> NDArray[np.float64]:
    std = np.sqrt(squares / number)
    return np.where(std <= _CONSTANT * np.abs(mean), 0.0, std)


def scaled(
    image: NDArray[Any], mean: NDArray[np.float64], std: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return `(image - mean) / std` of each channel; a channel without contrast becomes 0.

    It is computed in float64; numpy goes piecewise, so that no volume of float64 is ever held.

    Example:
        >>> scaled(np.array([[1, 3]], np.uint8), np.array([2.0]), np.array([0.5])).tolist()
        [[-2.0, 2.0]]
    """
    shape = (-1,) + (1,) * (image.ndim - 1)
    scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    result = np.empty(image.shape, np.float32)
    with np.errstate(over="ignore"):
        np.subtract(image, mean.reshape(shape), out=result, casting="unsafe", dtype=np.float64)
        np.multiply(result, scale.reshape(shape), out=result, casting="unsafe", dtype=np.float64)
    return result
