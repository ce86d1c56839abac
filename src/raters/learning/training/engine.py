"""The loop, on Lightning: a method takes steps, epochs are scored, the best one is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import lightning
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader

from raters.core.errors import RatersError
from raters.io.rows import Row
from raters.learning.distributed import gathered
from raters.learning.methods.base import Batch, Method, Step
from raters.learning.methods.phases import Optimiser
from raters.learning.networks.backbone import TruthNetwork
from raters.learning.networks.encoders import Encoder
from raters.learning.training.dataset import NO_CASE
from raters.learning.training.epochs import Best, HeldOutScores, Score, labels_by_rater
from raters.learning.training.loader import set_epoch, whole_cases
from raters.learning.training.options import TrainingOptions
from raters.learning.training.partition import Partition

Precision = Literal["auto", "32", "bf16", "16"]
HALF = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}


def precision_of(wish: Precision) -> Precision:
    """Choose a precision that this machine can compute in.

    Processors without a unit for bf16 are slower with it than without: 'auto' is 32 there.

    Example:
        >>> precision_of("bf16")
        'bf16'
    """
    on_gpu = torch.cuda.is_available()
    if wish == "16" and not on_gpu:
        raise RatersError("found precision='16' without a GPU, expected '32', 'bf16' or 'auto'")
    if wish == "auto":
        return "bf16" if on_gpu and torch.cuda.is_bf16_supported(False) else "32"
    return wish


def set_precision(method: nn.Module, precision: Precision) -> None:
    """Let all truth networks and encoders of a method compute in a precision."""
    for module in method.modules():
        if isinstance(module, TruthNetwork | Encoder):
            module.half_type = HALF[precision]


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
        for name, value in {"loss": step.loss, **step.terms}.items():
            self.terms.setdefault(name, []).append((observed, _to_keep(value)))

    def sums(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return for each term the labels of each step, and its sums over them."""
        found = {}
        for name, values in self.terms.items():
            pairs = [[torch.as_tensor(part).double() for part in pair] for pair in values]
            observed, means = (torch.stack(part).cpu() for part in zip(*pairs, strict=True))
            found[name] = observed, means * observed
        return found


def _to_keep(value: Tensor) -> Tensor | float:
    """Return a number on the CPU; reading it from a GPU would make each step wait for the last.

    A tensor on the CPU that outlives its step lies between the large blocks of the steps, which
    then cannot be joined and used again: memory would grow by a few MB in every step.
    """
    return value.item() if value.device.type == "cpu" else value.detach()


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


class Learner(lightning.LightningModule):
    """Wires a method to Lightning.

    Attributes:
        method: The method.
        history: One row per epoch.
        best: The best epoch so far.
        stopped: Whether it stopped early: no epoch was better for `patience` epochs.
        after_epoch: Whom to call when an epoch is complete.
        made: The optimisers of the method by name, once they are made.
        known_truth: Whether truth networks are trained already: they drop and count nothing, and
            with a fixed truth no matrix must be dominant.
    """

    known_truth = False

    def __init__(
        self, method: Method, options: TrainingOptions, steps_per_epoch: int, parts: Partition
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # a method may have several optimisers
        # Data sets count their own cases from 0; methods know the positions in the whole study.
        self._train = torch.from_numpy(parts.train)
        self._kept = torch.from_numpy(parts.held_out)
        self.method = method
        self.choice = options
        method.seed = options.seed
        method.steps_per_epoch = steps_per_epoch
        self.history: list[Row] = []
        self.best = Best()
        self.stopped = False
        self.after_epoch: list[Callable[[Learner], None]] = []
        self._terms = StepTerms()
        self._held_out = HeldOutScores()
        self._labels = torch.zeros(len(method.task.raters), dtype=torch.long)
        self._started = self._last = time.perf_counter()
        self._waited = self._worked = 0.0
        self._whole: DataLoader[Any] | None = None

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """Make the optimisers of the method, and note how they start."""
        self.made = dict(self.method.optimisers(self._make_optimiser))
        self._fresh = {name: deepcopy(each.state_dict()) for name, each in self.made.items()}
        schedules = [each.schedule for each in self.made.values() if each.schedule is not None]
        return [each.optimiser for each in self.made.values()], schedules

    def _make_optimiser(
        self,
        parameters: Iterable[nn.Parameter] | None = None,
        *,
        lr: float | None = None,
        steps: int | None = None,
    ) -> Optimiser:
        """Make AdamW, with a learning rate that goes to zero by a cosine."""
        rate = self.choice.lr if lr is None else lr
        every = list(self.method.parameters() if parameters is None else parameters)
        shared = {id(parameter) for parameter in self.method.matrix_parameters()}
        matrices = [p for p in every if id(p) in shared]
        rest = [p for p in every if id(p) not in shared]
        groups = [{"params": rest, "lr": rate, "weight_decay": self.choice.weight_decay}]
        if matrices:  # decay would draw matrices to chance
            rate *= self.choice.confusion_lr_scale or 1.0
            groups.append({"params": matrices, "lr": rate, "weight_decay": 0.0})
        optimiser = torch.optim.AdamW(groups)
        if self.choice.schedule == "constant":
            return Optimiser(optimiser)
        steps = self.choice.epochs * self.method.steps_per_epoch if steps is None else steps
        return Optimiser(optimiser, CosineAnnealingLR(optimiser, max(steps, 1)))

    def on_train_epoch_start(self) -> None:
        """Tell everybody the epoch; all randomness comes from it, the seed and the process."""
        epoch = self.current_epoch
        drawn = self.choice.seed * 1_000_003 + epoch + self.global_rank * 7_368_787
        torch.manual_seed(drawn % 2**63)
        self._started = time.perf_counter()
        if self.method.needs_pass(epoch):
            self._show_all()
        for network in self.method.truth_networks() if self.known_truth else ():
            network.eval()
        self._restart(self.method.restart(epoch))
        self.method.start_epoch(epoch)
        set_epoch(self.trainer.train_dataloader, epoch)  # type: ignore[arg-type]
        self._terms = StepTerms()
        self._labels = torch.zeros_like(self._labels, device=self.device)
        self._waited = 0.0
        self._worked = 0.0
        self._last = time.perf_counter()

    @torch.no_grad()
    def _show_all(self) -> None:
        """Show the method all training cases, whole and as they are."""
        if self._whole is None:
            batch_size = max(self.choice.batch_size // self.trainer.world_size, 1)
            self._whole = whole_cases(self.trainer.train_dataloader, batch_size)  # type: ignore[arg-type]
        self.method.eval()
        set_precision(self.method, "32")
        with torch.autocast(self.device.type, enabled=False):
            self.method.see_all(
                {k: self._train[v] if k == "case" else v.to(self.device) for k, v in batch.items()}
                for batch in self._whole
            )
        set_precision(self.method, self.choice.precision)
        self.method.train()

    def _restart(self, names: Sequence[str]) -> None:
        """Draw the weights of some parts of the method again; their optimisers forget them."""
        if not names:
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed((self.choice.seed * 1_000_003 + self.current_epoch) % 2**63)
            fresh = type(self.method)(self.method.task, self.method.options)
        moved = set()
        for name in names:
            part = self.method.get_submodule(name)
            part.load_state_dict(fresh.get_submodule(name).state_dict())
            moved |= {id(parameter) for parameter in part.parameters()}
        for name, each in self.made.items():
            groups = each.optimiser.param_groups
            if any(id(p) in moved for group in groups for p in group["params"]):
                each.load_state_dict(deepcopy(self._fresh[name]))

    def on_train_batch_start(self, *_: Any) -> None:  # noqa: ANN401
        """Add up how long batches were waited for."""
        self._waited += self._passed()

    def on_train_batch_end(self, *_: Any) -> None:  # noqa: ANN401
        """Add up how long batches were worked on: the next one is waited for."""
        self._worked += self._passed()

    def _passed(self) -> float:
        before = self._last
        self._last = time.perf_counter()
        return self._last - before

    def training_step(self, batch: Batch, number: int) -> None:
        """Let each optimiser whose turn it is take a step with the batch."""
        cases = self._train[batch["case"].cpu().clamp(min=0)]  # of `NO_CASE` no label is seen
        self._labels += labels_by_rater(batch, len(self._labels))
        wrapped = self.optimizers()
        steppers = wrapped if isinstance(wrapped, list) else [wrapped]
        every = dict(zip(self.made, steppers, strict=True))
        for name in self.method.turns(self.current_epoch, number) or every:
            if name not in every:
                raise RatersError(
                    f"found {name!r} in turns() of {type(self.method).__name__}, expected names of "
                    f"its optimisers(): {', '.join(every)}"
                )
            loss = self._loss(name, {**batch, "case": cases})
            self.method.zero_grad()
            self.manual_backward(loss)
            every[name].step()
            self.made[name].step_schedule()

    def _loss(self, turn: str, batch: Batch) -> Tensor:
        """Return the loss; labels are counted over all processes before it is divided."""
        self.method.turn = turn
        with torch.autocast(self.device.type, enabled=False):  # the network alone has 16 bits
            step = self.method.step(batch)
        self._terms.add(step)
        if self.trainer.world_size == 1:
            return step.loss
        total: Tensor = self.all_gather(step.observed).sum()  # type: ignore[union-attr]
        return step.loss * step.observed * self.trainer.world_size / total.clamp(min=1)

    def on_validation_epoch_start(self) -> None:
        """Begin with empty sums."""
        self._held_out = HeldOutScores()

    def validation_step(self, batch: Batch, _: int) -> None:
        """Score a held-out batch."""
        if bool((batch["case"] == NO_CASE).any()):  # it comes alone
            return
        batch = {**batch, "case": self._kept[batch["case"].cpu()]}
        with torch.autocast(self.device.type, enabled=False):
            self._held_out.add(batch, self.method.held_out(batch))

    def on_train_epoch_end(self) -> None:
        """Write the row of the epoch, and keep the weights if it is the best."""
        epoch = self.current_epoch
        row: Row = {"epoch": epoch + 1, "phase": self.method.phase(epoch)}
        seconds = time.perf_counter() - self._started
        waited = self._waited / max(self._waited + self._worked, 1e-9)
        sums = self._terms.sums()
        every = gathered((sums, self._held_out, self._labels.cpu(), seconds, waited))
        terms, scores, labels, seconds_of, shares = zip(*every, strict=True)
        row |= mean_terms(terms)
        found = HeldOutScores.merged(scores)
        found.labels = torch.stack(labels).sum(0)
        if found.count:
            row["held_out"] = found.mean_loss
        self._refuse_not_finite(row)
        dominance = None if self.known_truth else found.dominance
        row |= {"dominance": dominance, "reference": found.reference_score}
        row |= {"seconds": max(seconds_of), "waiting": max(shares)}
        self.history.append({name: value for name, value in row.items() if value is not None})
        self.best.offer(self._score(row), self.current_epoch + 1, self.method)
        self._stop_if_in_vain()
        for tell in self.after_epoch:
            tell(self)

    def _stop_if_in_vain(self) -> None:
        """Stop after `patience` epochs that were no better; all processes together.

        (Lightning's EarlyStopping knows neither the warm-up nor scores that are tuples.)
        """
        if self.choice.patience is None:
            return
        since = max(self.best.improved, self.method.warm_up)
        in_vain = self.current_epoch + 1 - since >= self.choice.patience
        self.stopped = self.trainer.strategy.reduce_boolean_decision(in_vain, all=False)
        self.trainer.should_stop = self.stopped

    @property
    def done(self) -> bool:
        """Whether no epoch is left."""
        return self.stopped or len(self.history) >= self.choice.epochs

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what Lightning does not know of."""
        score = None if self.best.score is None else list(self.best.score)
        checkpoint["raters"] = {
            "history": self.history,
            "best": {**vars(self.best), "score": score},
            "stopped": self.stopped,
            "method": self.method.training_state(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        try:
            state = checkpoint["raters"]
            self.history = list(state["history"])
            self.stopped = bool(state["stopped"])
            self.best = Best(**{**state["best"], "score": tuple(state["best"]["score"])})
            self.method.load_training_state(state["method"])
        except RatersError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RatersError(
                f"found a checkpoint of another version of raters (without {error}), expected one "
                "of this version: resume with the version that log.txt names, or train again in "
                "another folder",
                kind="unreadable",
            ) from None

    def _refuse_not_finite(self, row: Row) -> None:
        """Stop where weights are lost: no later epoch would bring them back."""
        found = "" if math.isfinite(row["loss"]) else f"a loss of {row['loss']}"
        # Lost in the last step, after its loss was taken.
        if math.isnan(row.get("held_out", 0.0)):
            found = found or "a held-out loss of nan"
        elif not all(weights.isfinite().all() for weights in self.method.parameters()):
            found = found or "weights that are not finite"
        if found:
            raise RatersError(
                f"found {found} in epoch {row['epoch']}, expected finite numbers; "
                f"try a lr below {self.choice.lr:g}"
            )

    def _score(self, row: Row) -> Score:
        """Rank an epoch: after the warm-up, dominant, then by what was chosen."""
        warm = self.current_epoch >= self.method.warm_up
        if row.get("reference") is not None and self.choice.select in ("auto", "reference"):
            return warm, True, float(row["reference"])
        if self.choice.select == "last" or "held_out" not in row:
            return warm, True, float(self.current_epoch)
        dominant = row["dominance"] is None or row["dominance"] > 0
        return warm, dominant, -float(row["held_out"])
