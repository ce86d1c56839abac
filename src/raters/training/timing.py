"""The steps of an epoch: how long they took, and the parts of their loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raters.methods.base import Step


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


@dataclass
class StepTerms:
    """What the steps of an epoch gave.

    Attributes:
        terms: By name, what each step gave: how many labels (or known pixels) it saw, and the mean
            over those labels.
    """

    terms: dict[str, list[tuple[Tensor | float, Tensor | float]]] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Add a step."""
        observed = _to_keep(step.observed)
        for name, value in step.terms.items():
            self.terms.setdefault(name, []).append((observed, _to_keep(value)))

    def sums(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return for each term the labels of each step, and its sums over them."""
        found = {
            name: [_as_vector(part) for part in zip(*v, strict=True)]
            for name, v in self.terms.items()
        }
        return {name: (observed, means * observed) for name, (observed, means) in found.items()}


def _to_keep(value: Tensor) -> Tensor | float:
    """Return a number on the CPU; reading it from a GPU would make each step wait for the last.

    A tensor on the CPU that outlives its step lies between the large blocks of the steps, which
    then cannot be joined and used again: memory would grow by a few MB in every step.
    """
    return value.item() if value.device.type == "cpu" else value.detach()


def _as_vector(values: Sequence[Tensor | float]) -> Tensor:
    return torch.stack([torch.as_tensor(value).double() for value in values]).cpu()


def mean_terms(parts: Sequence[dict[str, tuple[Tensor, Tensor]]]) -> dict[str, float]:
    """Average over steps what processes summed in each.

    Args:
        parts: Of each process, what `StepTerms.sums` gave.

    Example:
        >>> one = {"loss": (torch.tensor([3.0, 1.0]), torch.tensor([6.0, 5.0]))}
        >>> two = {"loss": (torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]))}
        >>> mean_terms([one, two])  # the mean of 8 / 4 and 5 / 1
        {'loss': 3.5}
    """
    found = {}
    for name in parts[0]:
        observed, sums = (torch.stack([part[name][k] for part in parts]).sum(0) for k in range(2))
        found[name] = float((sums / observed.clamp(min=1)).mean())
    return found
