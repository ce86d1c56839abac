"""Which items make a step: an order for each epoch, in batches that processes share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from torch.utils.data import Sampler

from raters.errors import RatersError
from raters.training.together import processes

T = TypeVar("T")

PADDING = None
"""Stands for an item without labels: what a process gets for whom a batch has no item left."""


def share(items: Sequence[T], rank: int, world: int) -> Sequence[T]:
    """Return the part of a process; parts follow each other and differ by one item at most.

    Example:
        >>> [share(range(5), rank, 3) for rank in range(3)]
        [range(0, 2), range(2, 4), range(4, 5)]
    """
    size, more = divmod(len(items), world)
    start = rank * size + min(rank, more)
    return items[start : start + size + (rank < more)]


def refuse_small_batch(batch_size: int, world: int) -> None:
    """Refuse batches that cannot give an item to each process.

    Example:
        >>> refuse_small_batch(2, world=4)
        Traceback (most recent call last):
        ...
        raters.errors.RatersError: found batch_size=2 for 4 processes, expected at least 4: ...
    """
    if batch_size < world:
        raise RatersError(
            f"found batch_size={batch_size} for {world} processes, expected at least {world}: "
            "a batch is shared by all processes"
        )


class EpochSampler(Sampler[list[int | None]]):
    """Batches of items in an order from `(seed, epoch)` only; each process gets its part of each.

    Several processes together see in every step exactly the items that one process would see, and
    all make the same number of steps: where a batch has fewer items than there are processes,
    those who go without get `PADDING`. Who this process is is asked when the iteration starts.

    Args:
        length: How many items there are.
        batch_size: Items in a step, of all processes together.
        seed: Where randomness starts.
        shuffle: Whether to draw a new order each epoch.

    Example:
        >>> sampler = EpochSampler(5, batch_size=2, shuffle=False)
        >>> list(sampler), len(sampler)
        ([[0, 1], [2, 3], [4]], 3)
    """

    def __init__(
        self, length: int, batch_size: int = 1, seed: int = 0, shuffle: bool = True
    ) -> None:
        self.length, self.batch_size = length, batch_size
        self.seed, self.shuffle, self.epoch = seed, shuffle, 0

    def set_epoch(self, epoch: int) -> None:
        """Return which epoch comes."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.length // self.batch_size)

    def __iter__(self) -> Iterator[list[int | None]]:
        rank, world = processes()
        refuse_small_batch(self.batch_size, world)
        order = self._order()
        for start in range(0, self.length, self.batch_size):
            part = share(order[start : start + self.batch_size], rank, world)
            yield list(part) if part else [PADDING]

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.length))
        rng = np.random.default_rng((self.seed, self.epoch))
        order: list[int] = rng.permutation(self.length).tolist()
        return order
