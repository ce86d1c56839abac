"""The loop, on Lightning: a method takes steps, epochs are scored, the best one is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import lightning
import torch
from torch import Tensor

from raters.errors import RatersError
from raters.methods.base import Batch, Method
from raters.rows import Row
from raters.training.best import Best, Score
from raters.training.dataset import NO_CASE
from raters.training.held_out import HeldOutScores, labels_by_rater
from raters.training.loader import set_epoch
from raters.training.options import TrainingOptions
from raters.training.partition import Partition
from raters.training.terms import StepTerms, mean_terms
from raters.training.together import gathered
from raters.training.waiting import Waiting


class Learner(lightning.LightningModule):
    """Wires a method to Lightning.

    Attributes:
        method: The method.
        history: One row per epoch.
        best: The best epoch so far.
        stopped: Whether it stopped early: no epoch was better for `patience` epochs.
        after_epoch: Whom to call when an epoch is complete.
    """

    def __init__(
        self, method: Method, options: TrainingOptions, steps: int, parts: Partition
    ) -> None:
        super().__init__()
        # Data sets count their own cases from 0; methods know the positions in the whole study.
        self._train = torch.from_numpy(parts.train)
        self._kept = torch.from_numpy(parts.held_out)
        self.method, self.choice, self.steps = method, options, steps
        method.seed = options.seed
        self.history: list[Row] = []
        self.best = Best()
        self.stopped = False
        self.after_epoch: list[Callable[[Learner], None]] = []
        self._terms, self._waiting = StepTerms(), Waiting()
        self._held_out = HeldOutScores()
        self._labels = torch.zeros(len(method.task.raters), dtype=torch.long)
        self._started = time.perf_counter()

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """Make AdamW, with a learning rate that goes to zero by a cosine."""
        rate = self.choice.lr
        matrices = self.method.matrix_parameters()
        chosen = {id(parameter) for parameter in matrices}
        rest = [p for p in self.method.parameters() if id(p) not in chosen]
        groups: list[dict[str, Any]] = [
            {"params": rest, "lr": rate, "weight_decay": self.choice.weight_decay}
        ]
        if matrices:  # decay would draw matrices to chance
            rate *= self.choice.confusion_lr_scale or 1.0
            groups.append({"params": matrices, "lr": rate, "weight_decay": 0.0})
        optimiser = torch.optim.AdamW(groups)
        if self.choice.schedule == "constant":
            return optimiser
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(self.steps, 1))
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]

    def on_train_epoch_start(self) -> None:
        """Tell everybody the epoch; all randomness comes from it, the seed and the process."""
        drawn = self.choice.seed * 1_000_003 + self.current_epoch + self.global_rank * 7_368_787
        torch.manual_seed(drawn % 2**63)
        self.method.start_epoch(self.current_epoch)
        set_epoch(self.trainer.train_dataloader, self.current_epoch)  # type: ignore[arg-type]
        self._terms, self._started = StepTerms(), time.perf_counter()
        self._labels = torch.zeros_like(self._labels, device=self.device)
        self._waiting.start()

    def on_train_batch_start(self, *_: Any) -> None:  # noqa: ANN401
        """Note that a batch is there."""
        self._waiting.batch_begins()

    def on_train_batch_end(self, *_: Any) -> None:  # noqa: ANN401
        """Note that the work on a batch is done."""
        self._waiting.batch_ends()

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Take a step; labels are counted over all processes before the loss is divided."""
        with torch.autocast(self.device.type, enabled=False):  # the network alone has 16 bits
            cases = self._train[batch["case"].cpu().clamp(min=0)]  # of `NO_CASE` no label is seen
            step = self.method.step({**batch, "case": cases})
        self._terms.add(step)
        self._labels += labels_by_rater(batch, len(self._labels))
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
        warm = self.current_epoch >= self.method.warm_up
        row: Row = {"epoch": self.current_epoch + 1, "phase": "main" if warm else "warm-up"}
        seconds = time.perf_counter() - self._started
        given = self._labels.cpu()
        every = gathered((self._terms.sums(), self._held_out, given, seconds, self._waiting.share))
        terms, scores, labels, seconds_of, shares = zip(*every, strict=True)
        row |= mean_terms(terms)
        found = HeldOutScores.merged(scores)
        found.labels = torch.stack(labels).sum(0)
        if found.count:
            row["held_out"] = found.mean_loss
        self._refuse_not_finite(row)
        row |= {"dominance": found.dominance, "reference": found.reference_score}
        row |= {"seconds": max(seconds_of), "waiting": max(shares)}
        self.history.append({name: value for name, value in row.items() if value is not None})
        self.best.offer(self._score(row), self.current_epoch + 1, self.method)
        self._stop_if_in_vain()
        for tell in self.after_epoch:
            tell(self)

    def _stop_if_in_vain(self) -> None:
        """Stop after `patience` epochs that were no better; all processes together."""
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
        state = {"history": self.history, "best": self.best.state(), "stopped": self.stopped}
        checkpoint["raters"] = state

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        try:
            state = checkpoint["raters"]
            self.history, self.stopped = list(state["history"]), bool(state["stopped"])
            self.best = Best.of(state["best"])
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
