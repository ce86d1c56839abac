"""`soft-bootstrap` and `hard-bootstrap`: the network half believes its own predictions."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from raters.learning.methods.base import Batch, HeldOut, Step, mean_step
from raters.learning.methods.options import HardBootstrapOptions, SoftBootstrapOptions
from raters.learning.methods.supervised import FusedMethod
from raters.learning.methods.targets import cross_entropy, label_counts


class SoftBootstrap(FusedMethod):
    r"""Trains on labels mixed with the network's own probabilities.

    .. math:: -\sum_t \big(\beta \, 1[t = o] + (1 - \beta) \, p(t \mid x)\big) \log p(t \mid x)

    that is beta times the cross entropy plus 1 - beta times the entropy of the prediction. Reed et
    al., Training deep neural networks on noisy labels with bootstrapping, ICLR workshop 2015.
    """

    options: SoftBootstrapOptions | HardBootstrapOptions
    hard: ClassVar[bool] = False

    def _votes(self, batch: Batch) -> Tensor:
        """Return how many labels each class has: of the vote one, or all."""
        on_vote = self.options.on == "vote"
        labels = batch["target"].unsqueeze(1) if on_vote else batch["labels"]
        return label_counts(labels, self.task.num_classes)

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the mixture, averaged over labels."""
        log_truth = self.network.log_truth(batch["image"])
        votes = self._votes(batch)
        target = mixture(log_truth, votes, self.options.beta, self.hard)
        total, _ = cross_entropy(log_truth, target, self.class_weights)
        return mean_step(total, votes.sum())

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with the labels of held-out cases, unmixed."""
        log_truth = self.network.log_truth(batch["image"])
        votes = self._votes(batch)
        loss, _ = cross_entropy(log_truth, votes, torch.ones_like(self.class_weights))
        return HeldOut(loss, votes.sum(), log_truth.exp())


class HardBootstrap(SoftBootstrap):
    r"""Trains on labels mixed with the network's likeliest class.

    .. math:: -\sum_t \big(\beta \, 1[t = o] + (1 - \beta) \, 1[t = z]\big) \log p(t \mid x),
        \quad z = \arg\max_t p(t \mid x)

    Reed et al., Training deep neural networks on noisy labels with bootstrapping, ICLR workshop
    2015.
    """

    hard = True


def mixture(log_truth: Tensor, votes: Tensor, beta: float, hard: bool) -> Tensor:
    """Return labels mixed with the prediction, added up over the labels of each pixel.

    The probabilities keep their gradient: without it the loss would be beta times the cross
    entropy and nothing else, as `q - p` is zero at `q = p`. The likeliest class has none.

    Args:
        log_truth: `log p(t | x)`, `(batch, L, *space)`.
        votes: How many labels each class has, `(batch, L, *space)`.
        beta: The weight of a label.
        hard: Whether the prediction is the likeliest class, or all probabilities.

    Example:
        >>> log_truth = torch.tensor([[0.9, 0.1]]).log()
        >>> mixture(log_truth, torch.tensor([[0, 1]]), 0.8, hard=False)
        tensor([[0.1800, 0.8200]])
        >>> mixture(log_truth, torch.tensor([[0, 1]]), 0.8, hard=True)
        tensor([[0.2000, 0.8000]])
    """
    votes = votes.to(log_truth)
    predicted = log_truth.exp()
    if hard:
        best = log_truth.max(1, keepdim=True).indices  # a tenth of the time of argmax
        predicted = torch.zeros_like(log_truth).scatter_(1, best, 1.0)
    return beta * votes + (1 - beta) * votes.sum(1, keepdim=True) * predicted
