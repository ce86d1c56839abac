"""What a method that trains in phases works with: optimisers with schedules, frozen copies."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


@dataclass(frozen=True)
class Optimiser:
    """An optimiser and the schedule of its learning rate, which moves with each of its steps.

    Attributes:
        optimiser: Any optimiser of torch.
        schedule: Any schedule of torch for it; None for a constant rate.
    """

    optimiser: Optimizer
    schedule: LRScheduler | None = None


class MakeOptimiser(Protocol):
    """Makes AdamW as the options of training say."""

    def __call__(
        self,
        parameters: Iterable[nn.Parameter] | None = None,
        *,
        lr: float | None = None,
        steps: int | None = None,
    ) -> Optimiser:
        """Make an optimiser.

        Args:
            parameters: What it moves; by default all parameters of the method.
            lr: Its learning rate; by default that of the options.
            steps: How many steps its schedule covers; by default those of the whole run.
        """


class Snapshot:
    """A frozen copy of a network, for an E step: part of checkpoints, never of the weights.

    A method keeps it as an attribute that its `training_only` names.

    Args:
        module: What is copied by `take`, as it is then.

    Example:
        >>> network = nn.Linear(1, 1)
        >>> before = Snapshot(network)
        >>> before.take()
        >>> _ = nn.init.zeros_(network.weight)
        >>> bool(before.copy.weight == network.weight), before.copy.weight.requires_grad
        (False, False)
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.take()

    @property
    def copy(self) -> nn.Module:
        """The module as it was when it was last taken."""
        return self._copy

    def take(self) -> None:
        """Copy the module as it is now."""
        self._copy = deepcopy(self._module).eval().requires_grad_(False)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights of the copy."""
        return self._copy.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take weights that `state_dict` returned."""
        self.take()
        self._copy.load_state_dict(state)
