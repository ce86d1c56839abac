"""The loop, on Lightning: a method takes steps, epochs are scored, the best one is kept."""

from __future__ import annotations

import math
import time
from typing import Any

import lightning
import torch
from torch import Tensor

from raters.errors import RatersError
from raters.methods.base import Batch, Method
from raters.rows import Row
from raters.training.dataset import set_epoch
from raters.training.held_out import HeldOutScores
from raters.training.options import TrainingOptions
from raters.training.partition import Partition


class Learner(lightning.LightningModule):
    """Wires a method to Lightning.

    Attributes:
        method: The method.
        history: One row an epoch.
        best: The weights of the best epoch so far.
    """

    def __init__(
        self, method: Method, options: TrainingOptions, steps: int, parts: Partition
    ) -> None:
        super().__init__()
        # Data sets count their own cases from 0; methods know the positions in the whole study.
        self._train = torch.from_numpy(parts.train)
        self._kept = torch.from_numpy(parts.held_out)
        self.method, self.choice, self.steps = method, options, steps
        self.history: list[Row] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch = -1
        self._best_score: tuple[bool, bool, float] | None = None
        self._terms: dict[str, list[Tensor]] = {}
        self._held_out = HeldOutScores()
        self._started = time.perf_counter()

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """Make AdamW, with a learning rate that goes to zero by a cosine."""
        rate = self.choice.learning_rate
        matrices = self.method.matrix_parameters()
        chosen = {id(parameter) for parameter in matrices}
        rest = [p for p in self.method.parameters() if id(p) not in chosen]
        groups: list[dict[str, Any]] = [
            {"params": rest, "lr": rate, "weight_decay": self.choice.weight_decay}
        ]
        if matrices:  # decay would draw matrices to chance
            rate *= self.choice.matrix_rate or 1.0
            groups.append({"params": matrices, "lr": rate, "weight_decay": 0.0})
        optimiser = torch.optim.AdamW(groups)
        if self.choice.schedule == "constant":
            return optimiser
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(self.steps, 1))
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]

    def on_train_epoch_start(self) -> None:
        """Tell everybody the epoch; all randomness comes from it and the seed."""
        torch.manual_seed((self.choice.seed * 1_000_003 + self.current_epoch) % 2**63)
        self.method.start_epoch(self.current_epoch)
        set_epoch(self.trainer.train_dataloader, self.current_epoch)  # type: ignore[arg-type]
        self._terms, self._started = {}, time.perf_counter()

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Take a step; labels are counted over all processes before the loss is divided."""
        step = self.method.step({**batch, "case": self._train[batch["case"].cpu()]})
        for name, value in step.terms.items():
            self._terms.setdefault(name, []).append(value.detach())
        if self.trainer.world_size == 1:
            return step.loss
        total: Tensor = self.all_gather(step.observed).sum()  # type: ignore[union-attr]
        return step.loss * step.observed * self.trainer.world_size / total.clamp(min=1)

    def on_validation_epoch_start(self) -> None:
        """Begin with empty sums."""
        self._held_out = HeldOutScores()

    def validation_step(self, batch: Batch, _: int) -> None:
        """Score a held-out batch."""
        batch = {**batch, "case": self._kept[batch["case"].cpu()]}
        self._held_out.add(batch, self.method.held_out(batch))

    def on_train_epoch_end(self) -> None:
        """Write the row of the epoch, and keep the weights if it is the best."""
        row: Row = {"epoch": self.current_epoch + 1}
        row |= {name: float(torch.stack(values).mean()) for name, values in self._terms.items()}
        self._refuse_not_finite(row)
        found = self._held_out
        if found.count:
            row["held_out"] = found.mean_loss
        row |= {"dominance": found.dominance, "reference": found.reference_score}
        row["seconds"] = time.perf_counter() - self._started
        self.history.append({name: value for name, value in row.items() if value is not None})
        self._keep_if_best(row)

    def _refuse_not_finite(self, row: Row) -> None:
        """Stop where weights are lost: no later epoch would bring them back."""
        if not math.isfinite(row["loss"]):
            raise RatersError(
                f"found a loss of {row['loss']} in epoch {row['epoch']}, expected a finite number; "
                f"try a learning_rate below {self.choice.learning_rate:g}"
            )

    def _keep_if_best(self, row: Row) -> None:
        score = self._score(row)
        if self._best_score is None or score >= self._best_score:
            self._best_score, self.best_epoch = score, self.current_epoch + 1
            self.best = {k: v.detach().clone() for k, v in self.method.state_dict().items()}

    def _score(self, row: Row) -> tuple[bool, bool, float]:
        """Rank an epoch: after the warm-up, dominant, then by what was chosen."""
        warm = self.current_epoch >= self.method.warm_up
        if row.get("reference") is not None and self.choice.select in ("auto", "reference"):
            return warm, True, float(row["reference"])
        if self.choice.select == "last" or "held_out" not in row:
            return warm, True, float(self.current_epoch)
        dominant = row["dominance"] is None or row["dominance"] > 0
        return warm, dominant, -float(row["held_out"])
