"""What processes that train together share and tell each other; one alone talks to itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


def processes() -> tuple[int, int]:
    """Return the rank of this process and how many train together.

    Example:
        >>> processes()
        (0, 1)
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def share(items: Sequence[T], rank: int, world: int) -> Sequence[T]:
    """Return the part of a process; parts follow each other and differ by one item at most.

    Example:
        >>> [share(range(5), rank, 3) for rank in range(3)]
        [range(0, 2), range(2, 4), range(4, 5)]
    """
    size, more = divmod(len(items), world)
    start = rank * size + min(rank, more)
    return items[start : start + size + (rank < more)]


def gathered(value: T) -> list[T]:
    """Return what all processes have, in the order of their ranks: the same list to all of them.

    Example:
        >>> gathered(3)
        [3]
    """
    world = processes()[1]
    if world == 1:
        return [value]
    found: list[T | None] = [None] * world
    dist.all_gather_object(found, value)
    return [part for part in found if part is not None]


def summed(value: Tensor) -> Tensor:
    """Return the sum of what all processes have, the same to all of them.

    Example:
        >>> import torch
        >>> summed(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    first, *rest = gathered(value)
    for part in rest:
        first = first + part.to(first.device)
    return first.to(value.device)
