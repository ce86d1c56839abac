"""`crowd-layer`: a layer of each rater's own on top of the truth network's probabilities."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from raters.learning.methods.base import (
    Batch,
    HeldOut,
    Method,
    NetworkMethod,
    Step,
    Task,
    mean_step,
)
from raters.learning.methods.options import CrowdLayerOptions
from raters.learning.methods.targets import cross_entropy, over_pixels


class CrowdLayer(NetworkMethod):
    r"""Maps the network's probabilities to the labels of each rater, by a layer without a softmax.

    .. math::
        p &= \mathrm{softmax}(z(x)) \\
        \text{MW:} \quad a_r[o] &= \sum_t p_t \, W_r[t, o] \\
        \text{VW:} \quad a_r[o] &= w_r[o] \, p_o \\
        \text{VW+B:} \quad a_r[o] &= w_r[o] \, p_o + b_r[o] \\
        \text{loss} &= -\log \mathrm{softmax}(a_r)[o_r]

    The bottleneck's softmax makes the probabilities that predictions are made of, and the softmax
    of the cross entropy turns a rater's scores into probabilities: each is taken once, of other
    numbers. MW starts at the identity, w at 1 and b at 0. A certain and right network then has a
    loss of `log(1 + (L - 1) / e)`, 0.31 for two classes, which falls as the weights grow: the
    scores of a layer that is still the identity are no larger than 1.

    Rodrigues and Pereira, Deep learning from crowds, AAAI 2018.

    Attributes:
        weights: `W[r, t, o]` or `w[r, o]`.
        biases: `b[r, o]`; None without them.
    """

    answers = frozenset({"truth", "as_rater", "confusion"})
    not_extended = ""  # each rater has a layer of their own
    options: CrowdLayerOptions

    def __init__(self, task: Task, options: CrowdLayerOptions) -> None:
        super().__init__(task, options)
        raters = len(task.raters)
        classes = task.num_classes
        start = torch.eye(classes) if options.layer == "MW" else torch.ones(classes)
        self.weights = nn.Parameter(start.repeat(raters, *(1,) * start.ndim))
        biases = nn.Parameter(torch.zeros(raters, classes)) if options.layer == "VW+B" else None
        self.register_parameter("biases", biases)

    biases: nn.Parameter | None

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return weights and biases: all pixels share them."""
        return [self.weights] if self.biases is None else [self.weights, self.biases]

    def joined(self, new: Method) -> dict[str, Tensor]:
        """Return the layers of both."""
        names = [name for name, _ in self.named_parameters() if name in ("weights", "biases")]
        after = cast(CrowdLayer, new).state_dict()
        before = self.state_dict()
        return {name: torch.cat([before[name], after[name].to(before[name])]) for name in names}

    def _scores(self, truth: Tensor, raters: Tensor | None = None) -> Tensor:
        """Return `a`, `(batch, answers, L, *space)`; without `raters`, of each rater."""
        of_raters = self.weights if raters is None else self.weights[raters]
        space = (1,) * (truth.ndim - 2)
        if self.options.layer == "MW":
            axes = "bt...,rto->bro..." if raters is None else "bt,bato->bao"
            return torch.einsum(axes, truth, of_raters)
        scores = truth.unsqueeze(1) * of_raters.view(*of_raters.shape, *space)
        if self.biases is None:
            return scores
        biases = self.biases if raters is None else self.biases[raters]
        return scores + biases.view(*biases.shape, *space)

    def _loss(self, batch: Batch, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the summed cross entropy, the number of labels, and the truth."""
        truth = self.truth(batch["image"])
        labels = batch["labels"]
        log_said = self._scores(truth, batch.get("raters")).log_softmax(2)
        total, count = cross_entropy(log_said.flatten(0, 1), labels.flatten(0, 1), weights)
        return total, count, truth

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy of the raters' labels."""
        total, count, _ = self._loss(batch, self.class_weights)
        return mean_step(total, count)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the raters' labels, and the matrices."""
        total, count, truth = self._loss(batch, torch.ones_like(self.class_weights))
        pixels = over_pixels(truth)
        return HeldOut(total, count, truth, self._matrices() * pixels[:, None], pixels)

    def _matrices(self) -> Tensor:
        """Return what each rater says where the network is certain, `(raters, L, L)`."""
        certain = torch.eye(self.task.num_classes, device=self.weights.device)
        return self._scores(certain).softmax(2).transpose(0, 1)

    def confusion(self, image: Tensor) -> Tensor:
        """Return what each rater says where the network is certain, the same for all images."""
        found = self._matrices()
        return found.view(1, *found.shape, *(1,) * self.task.spatial_dims).to(image)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what the rater's layer makes of the truth."""
        return self._scores(self.truth(image))[:, rater].softmax(1)
