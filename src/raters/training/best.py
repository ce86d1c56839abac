"""The best epoch so far: its weights, its score, and how long ago it was."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

Score = tuple[bool, bool, float]


@dataclass
class Best:
    """Keeps the weights of the best epoch; of epochs that score the same, the last.

    Attributes:
        weights: The weights of that epoch.
        epoch: Which one it was, from 1; -1 before the first.
        score: Its score.
        improved: The last epoch that was better than all before it, not just as good.

    Example:
        >>> best, network = Best(), nn.Linear(1, 1)
        >>> for epoch, score in enumerate([0.2, 0.5, 0.5, 0.4], start=1):
        ...     best.offer((True, True, score), epoch, network)
        >>> best.epoch, best.improved, sorted(best.weights)
        (3, 2, ['bias', 'weight'])
    """

    weights: dict[str, Tensor] = field(default_factory=dict)
    epoch: int = -1
    score: Score | None = None
    improved: int = 0

    def offer(self, score: Score, epoch: int, module: nn.Module) -> None:
        """Keep the weights of an epoch if none was better."""
        if math.isnan(score[2]):
            score = (*score[:2], -math.inf)  # nothing compares with NaN: it would stay the best
        if self.score is not None and score < self.score:
            return
        if self.score is None or score > self.score:
            self.improved = epoch
        self.score, self.epoch = score, epoch
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        score = None if self.score is None else list(self.score)
        return {**vars(self), "score": score}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Best:
        """Make it again from what `state` gave."""
        warm, dominant, value = state["score"]
        return cls(**{**state, "score": (bool(warm), bool(dominant), float(value))})
