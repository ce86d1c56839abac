"""A function of images on overlapping windows, blended, a band of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product

import torch
from torch import Tensor

OVERLAP = 0.25
_SIGMA = 0.125  # of the Gaussian, as a share of a window's side
_LEAST = 1e-3  # of a weight, so that no pixel is left without one
AT_ONCE = 2**16
"""Pixels that go through a network together: more takes memory and, on a CPU, gains nothing."""

Window = tuple[int, ...]
Rows = tuple[int, Tensor]


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
) -> Iterator[Rows]:
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
    sums, total = None, torch.zeros(sides[0], *space[1:])
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


def _place(corner: Window, sides: Window) -> tuple[slice, ...]:
    ends = zip(corner, sides, strict=True)
    return (slice(None), *(slice(start, start + side) for start, side in ends))


def _move_up(buffer: Tensor, done: int, axis: int) -> None:
    """Bring the rows that later windows touch to the front, and empty the others."""
    left = buffer.shape[axis] - done
    if left:
        buffer.narrow(axis, 0, left).copy_(buffer.narrow(axis, done, left).clone())
    buffer.narrow(axis, left, done).zero_()
