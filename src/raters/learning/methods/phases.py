"""How a method trains: passes over all cases, phases, optimisers in turns, restarts, noise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from raters.core.errors import RatersError

if TYPE_CHECKING:
    from raters.learning.methods.base import Asked, Method
    from raters.study.case import Case

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Optimiser:
    """An optimiser and the schedule of its learning rate, which moves with each of its steps.

    Attributes:
        optimiser: Any optimiser of torch.
        schedule: Any schedule of torch for it; None for a constant rate.
    """

    optimiser: Optimizer
    schedule: LRScheduler | None = None

    def step_schedule(self) -> None:
        """Move the schedule on."""
        if self.schedule is not None:
            self.schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of both."""
        schedule = None if self.schedule is None else self.schedule.state_dict()
        return {"optimiser": self.optimiser.state_dict(), "schedule": schedule}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the state that `state_dict` returned."""
        self.optimiser.load_state_dict(state["optimiser"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])


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
        """The module as it was when it was last taken; it computes in the precision of today."""
        for kept, module in zip(self._copy.modules(), self._module.modules(), strict=True):
            if hasattr(module, "half_type"):  # a pass has 32 bits, steps may have 16
                kept.half_type = module.half_type
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


class Training(nn.Module):
    """The hooks of a method that training calls; without any of them it takes steps in epochs.

    Before each epoch come the pass (`needs_pass`, `see_all`), the `restart` and `start_epoch`;
    then each batch is shown to `step` once for each of its `turns`.

    Attributes:
        seed: Of the run, for what a method draws at random by itself.
        epoch: The number of the epoch, from 0: what is drawn at random depends on it.
        steps_per_epoch: How many batches make an epoch, once training begins.
        turn: The name of the optimiser that the next `step` is for.
        training_only: Names of attributes that training needs and predictions do not: plain data,
            tensors or a `Snapshot`. They are part of checkpoints, not of the weights.
    """

    seed: int = 0
    epoch: int = 0
    steps_per_epoch: int = 0
    turn: str = "main"
    training_only: ClassVar[tuple[str, ...]] = ()

    @property
    def warm_up(self) -> int:
        """How many epochs prepare for the rest: none of them is chosen as the best."""
        return 0

    def phase(self, epoch: int) -> str:
        """Return the name of the phase that an epoch (from 0) is part of, for people to see."""
        return "main" if epoch >= self.warm_up else "warm-up"

    def extra(self, case: Case) -> Mapping[str, NDArray[Any]]:  # noqa: ARG002
        """Return what else of a case goes into its batches, by name; of one shape in all cases."""
        return {}

    def needs_pass(self, epoch: int) -> bool:  # noqa: ARG002
        """Return whether to show all training cases to `see_all` before an epoch (from 0)."""
        return False

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Look at all training cases between epochs, for an E step or to count.

        They come whole, as they are and in their order, in evaluation mode and without gradients.
        Images larger than the patch come in tiles without overlap: 'corner' says where each one
        starts, 'space' how large the image is; pixels outside of it are MISSING. Of several
        processes each sees its part of the cases: `raters.learning.distributed.summed` adds up what
        they count, `gathered` collects what they find.
        """

    def restart(self, epoch: int) -> Sequence[str]:  # noqa: ARG002
        """Return the names of the modules that start anew in an epoch, after its pass.

        Their weights are drawn again; optimisers that move any of them start anew too, with their
        schedules.
        """
        return ()

    def start_epoch(self, epoch: int) -> None:
        """Receive the number of the epoch that begins (from 0), after the pass and the restart."""
        self.epoch = epoch

    def optimisers(self, make: MakeOptimiser) -> Mapping[str, Optimiser]:
        """Return the optimisers by name."""
        return {"main": make()}

    def turns(self, epoch: int, step: int) -> Sequence[str]:  # noqa: ARG002
        """Return which optimisers take a step with a batch, one after the other; () for all.

        Before each one's turn, `turn` is its name and `step` returns the loss that it is to lower.

        Args:
            epoch: From 0.
            step: The number of the batch in the epoch, from 0.
        """
        return ()

    def training_state(self) -> dict[str, Any]:
        """Return what `training_only` names, as plain data; the same in all processes."""
        found = {name: getattr(self, name) for name in self.training_only}
        found = {k: v.state_dict() if isinstance(v, Snapshot) else v for k, v in found.items()}
        for name, value in found.items():
            _refuse_not_plain(f"{type(self).__name__}.{name}", value)
        return found

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Take what `training_state` returned."""
        place = next((parameter.device for parameter in self.parameters()), None)
        for name, value in state.items():
            there = getattr(self, name)
            if isinstance(there, Snapshot):
                there.load_state_dict(value)
            else:
                setattr(self, name, value.to(place) if isinstance(value, Tensor) else value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Let what `training_only` names follow to another device."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.training_only:
            value = vars(self).get(name)
            if isinstance(value, Snapshot):
                value.copy._apply(fn)  # type: ignore[no-untyped-call]
            elif isinstance(value, Tensor):
                setattr(self, name, fn(value))
        return self


_PLAIN = (type(None), bool, int, float, str, bytes)


def _refuse_not_plain(name: str, value: object) -> None:
    """Refuse what could be saved in a checkpoint, but never be loaded from it."""
    if type(value) in (list, tuple, dict, OrderedDict):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        for part in parts:  # type: ignore[attr-defined]
            _refuse_not_plain(name, part)
    elif not isinstance(value, Tensor) and type(value) not in _PLAIN:
        raise RatersError(
            f"found {type(value).__name__} in {name}, which training_only names; expected plain "
            "data, tensors (torch.from_numpy of an array) or a Snapshot: a checkpoint holds "
            "nothing else"
        )


def generator_of(*key: int | str) -> torch.Generator:
    """Return a generator that depends on what is given only: the same everywhere, after a restart.

    Example:
        >>> first, again, other = (generator_of(0, "case", k) for k in (1, 1, 2))
        >>> first.initial_seed() == again.initial_seed() != other.initial_seed()
        True
    """
    name = repr(key).encode("utf-8", "surrogateescape")
    number = int.from_bytes(sha256(name).digest()[:8], "big", signed=True)
    return torch.Generator().manual_seed(number)


def draw_latents(method: Method, asked: Asked, cases: Sequence[str]) -> list[Tensor]:
    """Draw the noise of all samples of some cases: a list of samples, each `(cases, ...)`.

    Noise depends on the seed, the case and the number of the sample only: not on how many samples
    or cases there are.
    """
    return [
        torch.stack([method.draw_latent(generator_of(asked.seed, case, k)) for case in cases])
        for k in range(asked.samples)
    ]
