"""The parts of the loss over an epoch: a mean of steps, each over the labels of all processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raters.methods.base import Step


@dataclass
class StepTerms:
    """What the steps of an epoch gave.

    Attributes:
        observed: How many labels (or known pixels) each step saw.
        terms: By name, what each step gave: means over those labels.
    """

    observed: list[Tensor | float] = field(default_factory=list)
    terms: dict[str, list[Tensor | float]] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Add a step."""
        self.observed.append(_to_keep(step.observed))
        for name, value in step.terms.items():
            self.terms.setdefault(name, []).append(_to_keep(value))

    def sums(self) -> dict[str, Tensor]:
        """Return the summed terms of each step, and under '' the labels that they are sums of."""
        if not self.observed:
            return {}
        observed = _as_vector(self.observed)
        found = {name: _as_vector(values) * observed for name, values in self.terms.items()}
        return {"": observed, **found}


def _to_keep(value: Tensor) -> Tensor | float:
    """Return a number on the CPU; reading it from a GPU would make each step wait for the last.

    A tensor on the CPU that outlives its step lies between the large blocks of the steps, which
    then cannot be joined and used again: memory would grow by a few MB in every step.
    """
    return value.item() if value.device.type == "cpu" else value.detach()


def _as_vector(values: Sequence[Tensor | float]) -> Tensor:
    return torch.stack([torch.as_tensor(value).double() for value in values]).cpu()


def mean_terms(parts: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    """Average over steps what processes summed in each.

    Args:
        parts: Of each process, what `StepTerms.sums` gave.

    Example:
        >>> one = {"": torch.tensor([3.0, 1.0]), "loss": torch.tensor([6.0, 5.0])}
        >>> two = {"": torch.tensor([1.0, 0.0]), "loss": torch.tensor([2.0, 0.0])}
        >>> mean_terms([one, two])  # the mean of 8 / 4 and 5 / 1
        {'loss': 3.5}
    """
    observed = torch.stack([part[""] for part in parts]).sum(0).clamp(min=1)
    return {
        name: float((torch.stack([part[name] for part in parts]).sum(0) / observed).mean())
        for name in parts[0]
        if name
    }
