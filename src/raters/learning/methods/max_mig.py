"""`max-mig`: network and label aggregator, which learn to share information and nothing else."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from raters.core.classes import MISSING
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch, Step, Task
from raters.learning.methods.counting import CountingMethod
from raters.learning.methods.options import MaxMigOptions
from raters.learning.methods.targets import majority, over_pixels
from raters.learning.rater_models import SharedConfusion, log_column, pixel_weights


class MaxMIG(CountingMethod):
    r"""Maximises the mutual information that network and aggregator have of each other.

    .. math::
        h &= p(t \mid x), \quad
        g = \mathrm{softmax}_t \left( b_t + \sum_r W_r[t, o_r] \right), \quad
        K_{ij} = \sum_t \frac{h_i(t) \, g_j(t)}{p_t} \\
        \text{loss} &= -1 - \mathrm{mean}_i \log K_{ii} + \mathrm{mean}_{i \neq j} K_{ij} \\
        p(t \mid x, o) &\propto h(t) \, g(t) / p_t

    over all pixels (cases of a table) i and j of a batch that have a label. The gain, minus the
    loss, is at most the mutual information of image and labels, which is reached where
    :math:`K = p(x, o) / p(x) p(o)`. Labels that hold nothing of the image bring no gain, however
    many raters they come from and however alike these are.

    The aggregator starts as the posterior of matrices that are counted against the vote, and p as
    the shares of the vote; all of them learn. The matrices that predictions are made of are
    counted against `p(t | x, o)` along the way and do not take part.

    Cao et al., Max-MIG: an information theoretic approach for joint learning from crowds, ICLR
    2019.

    Attributes:
        scores: `W[r, t, o]`.
        bias: `b[t]`.
        prior_logits: Their softmax is p.
    """

    options: MaxMigOptions

    def __init__(self, task: Task, options: MaxMigOptions) -> None:
        super().__init__(task, options)
        self.scores = nn.Parameter(self.raters.start.log().repeat(len(task.raters), 1, 1))
        self.bias = nn.Parameter(torch.zeros(task.num_classes))
        self.prior_logits = nn.Parameter(torch.zeros(task.num_classes))

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the aggregator and the prior: all pixels share them."""
        return [self.scores, self.bias, self.prior_logits]

    def start_counts(self, batch: Batch) -> Tensor:
        """Return the vote."""
        vote = majority(batch["labels"], self.task.num_classes)
        every = one_hot(vote.clamp(min=0), self.task.num_classes).movedim(-1, 1)
        return (every * (vote != MISSING).unsqueeze(1)).to(batch["image"].dtype)

    def counted(self, shares: Tensor) -> None:
        """Start the aggregator at the posterior of the matrices, and the prior at the shares."""
        self.scores.copy_(self.raters(shares).log_matrix[0])
        shares = shares + 1  # a class that no vote has would have a prior of 0
        log_prior = (shares / shares.sum()).log()
        self.bias.copy_(log_prior)
        self.prior_logits.copy_(log_prior)

    def _aggregated(self, batch: Batch) -> Tensor:
        """Return `log g`, `(batch, L, *space)`."""
        said = log_column(SharedConfusion(self.scores[None]), batch["labels"], batch.get("raters"))
        bias = self.bias.view(-1, *(1,) * (said.ndim - 3))
        return (said.sum(1) + bias).log_softmax(1)

    def step(self, batch: Batch) -> Step:
        """Return the information that is not gained, and count the labels."""
        if self.raters.held:
            return super().step(batch)
        labels = batch["labels"]
        log_truth = self.network.log_truth(batch["image"])
        log_said = self._aggregated(batch)
        weights = pixel_weights(labels, self.class_weights)  # 0 where nobody labelled
        loss = lost_information(log_truth, log_said, self.prior_logits.log_softmax(0), weights)
        self.count_batch(batch, self._joined(log_truth.detach(), log_said.detach(), labels))
        return Step(loss, (weights > 0).sum(), {"loss": loss})

    def _joined(self, log_truth: Tensor, log_said: Tensor, labels: Tensor) -> Tensor:
        known = (labels != MISSING).any(1, keepdim=True)
        log_prior = self.prior_logits.log_softmax(0).view(-1, *(1,) * (log_said.ndim - 2))
        both = log_truth + (log_said - log_prior) * known
        return both.softmax(1)

    def fused(self, batch: Batch) -> Tensor:
        """Return `h g / p`, normalised; h where nobody labelled."""
        log_truth = self.network.log_truth(batch["image"])
        return self._joined(log_truth, self._aggregated(batch), batch["labels"])


class _Sums(NamedTuple):
    """Sums over the pairs of a batch that a mean over mismatched pairs needs."""

    truth: Tensor  # sum_i w_i h_i, (L,)
    said: Tensor  # sum_i w_i g_i, (L,)
    matched: Tensor  # sum_i w_i^2 h_i g_i, (L,)
    weight: Tensor  # sum_i w_i
    squared: Tensor  # sum_i w_i^2
    pairs: Tensor  # how many have a weight


def lost_information(
    log_truth: Tensor, log_said: Tensor, log_prior: Tensor, weights: Tensor
) -> Tensor:
    r"""Return minus the information gain of matched pairs over all mismatched ones.

    .. math:: -1 - \frac{\sum_i w_i \log K_{ii}}{\sum_i w_i}
              + \frac{\sum_{i \neq j} w_i w_j K_{ij}}{\sum_{i \neq j} w_i w_j}, \quad
              K_{ij} = \sum_t \frac{h_i(t) g_j(t)}{p_t}

    It is the variational form of the Kullback-Leibler divergence between pairs and mismatched
    pairs, with `f(u) = u log u`, whose derivative at K is `1 + log K` and whose conjugate there is
    K. The second mean needs no pairs: :math:`\sum_{i \neq j} w_i w_j h_i g_j = (\sum_i w_i h_i)
    (\sum_j w_j g_j) - \sum_i w_i^2 h_i g_i`. Of several processes it is that of all their pixels;
    the gradient is that of the loss of all once the processes have been averaged by the number of
    their pairs, as training does.

    Args:
        log_truth: `log h`, `(batch, L, *space)`.
        log_said: `log g`, likewise.
        log_prior: `log p`, `(L,)`.
        weights: Of each pixel, `(batch, *space)`; 0 for one that takes no part.

    Example:
        >>> sure = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).clamp(min=1e-9).log()
        >>> even = torch.full((2,), 0.5).log()
        >>> lost_information(sure, sure, even, torch.ones(2)).round(decimals=4)  # -1 - log 2
        tensor(-1.6931)
        >>> lost_information(even.expand(2, 2), sure, even, torch.ones(2)).abs() < 1e-6
        tensor(True)
    """
    w = weights.unsqueeze(1)
    prior = log_prior.view(-1, *(1,) * (log_truth.ndim - 2))
    matched = (weights * torch.logsumexp(log_truth + (log_said - prior), 1)).sum()
    h = log_truth.exp() * w
    g = log_said.exp() * w
    by_class = over_pixels(h), over_pixels(g), over_pixels(h * g)
    own = _Sums(*by_class, w.sum(), (w * w).sum(), (w > 0).sum())
    all_ = _over_processes(own)
    share = all_.pairs / own.pairs.clamp(min=1)  # training divides by it again
    others = all_.weight**2 - all_.squared
    alone = others <= 0  # of a single pair there is no other: it stands for itself
    left = torch.where(alone, 0.0, all_.matched)
    others = torch.where(alone, all_.weight**2, others).clamp(min=1e-12)
    mean = (all_.truth * all_.said - left) / others
    # Of the prior each process has the whole gradient, of its pixels only its own.
    of_pixels = (mean / log_prior.exp().detach()).sum()
    of_prior = (mean.detach() / log_prior.exp()).sum()
    mismatched = of_prior + share * (of_pixels - of_pixels.detach())
    return -1 - matched / all_.weight.clamp(min=1e-12) * share + mismatched


def _over_processes(own: _Sums) -> _Sums:
    """Add up the sums of all processes; gradients are those of the own part."""
    parts = [part.reshape(-1) for part in own]
    flat = torch.cat([part.to(own.truth.dtype) for part in parts])
    total = flat + (summed(flat.detach()) - flat.detach())
    found = torch.split(total, [len(part) for part in parts])
    return _Sums(*(f.view_as(part) for f, part in zip(found, own, strict=True)))
