"""Runs a compiled kernel over stretches of a range on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_SMALL = 1 << 14


def in_stretches(
    work: Callable[[int, int], T], size: int, num_workers: int | None = None
) -> list[T]:
    """Call `work(start, stop)` for stretches that cover `0 .. size`, one per core; few for small.

    Example:
        >>> in_stretches(lambda start, stop: stop - start, 10)
        [10]
    """
    num_workers = num_workers or os.cpu_count() or 1
    if size < _SMALL or num_workers == 1:
        return [work(0, size)]
    edges = [size * k // num_workers for k in range(num_workers + 1)]
    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))
