"""How long the training loop waits for data."""

from __future__ import annotations

import time
from collections.abc import Callable


class Waiting:
    """Parts the time of an epoch into waiting for batches and working on them.

    Args:
        clock: Gives the seconds.

    Example:
        >>> waiting = Waiting(iter([0.0, 1.0, 4.0, 4.0, 8.0]).__next__)
        >>> waiting.start()
        >>> for _ in range(2):
        ...     waiting.batch_begins()
        ...     waiting.batch_ends()
        >>> waiting.waited, waiting.worked, waiting.share
        (1.0, 7.0, 0.125)
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = 0.0
        self.waited = self.worked = 0.0

    def start(self) -> None:
        """Begin an epoch: from now on the first batch is waited for."""
        self.waited = self.worked = 0.0
        self._last = self._clock()

    def batch_begins(self) -> None:
        """Report that a batch is there."""
        now = self._clock()
        self.waited += now - self._last
        self._last = now

    def batch_ends(self) -> None:
        """Report that the work on a batch is done: the next one is waited for."""
        now = self._clock()
        self.worked += now - self._last
        self._last = now

    @property
    def share(self) -> float:
        """Which share of the time was waited, from 0 to 1."""
        total = self.waited + self.worked
        return self.waited / total if total > 0 else 0.0
