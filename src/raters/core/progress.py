"""Work on many cases: on all cores and a few at a time, with a progress bar on a terminal."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def ordered_map(
    function: Callable[[A], B], items: Iterable[A], num_workers: int | None = None
) -> Iterator[B]:
    """Apply a function on threads and give the results in order.

    Decoding of images and gzip runs outside Python's lock, so threads use all cores. At most two
    results per worker are under way, so memory does not grow with the number of items.

    Example:
        >>> list(ordered_map(lambda x: x * x, range(5), num_workers=2))
        [0, 1, 4, 9, 16]
    """
    num_workers = num_workers or os.cpu_count() or 1
    pool = ThreadPoolExecutor(num_workers)
    waiting: deque[Future[B]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


T = TypeVar("T")


def track(items: Iterable[T], total: int, what: str, show: bool) -> Generator[T, None, None]:
    """Return the items on, and show how many of `total` have passed and the time left."""
    if not show:
        yield from items
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with bars.Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(items, total=total, description=what)
