"""`multi-hypothesis`: several heads of one network, of which the best learns from each label."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from raters.core.classes import MISSING
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch, HeldOut, Step, Task, mean_step
from raters.learning.methods.draws import SamplingMethod, labelled_answers, losses_of_maps
from raters.learning.methods.options import HypothesesOptions
from raters.learning.rater_models.start import pointwise


def winner_weights(losses: Tensor, relaxation: float) -> Tensor:
    r"""Return the weight of each hypothesis for each label: relaxed 'winner takes all'.

    .. math:: 1 - \epsilon \ \text{for the one with the least loss}, \quad
              \epsilon / (K - 1) \ \text{for each of the others}

    Args:
        losses: `(..., hypotheses)`.
        relaxation: Epsilon.

    Example:
        >>> winner_weights(torch.tensor([3.0, 1.0, 2.0]), 0.1)
        tensor([0.0500, 0.9000, 0.0500])
    """
    number = losses.shape[-1]
    best = one_hot(losses.argmin(-1), number).to(losses)
    return best * (1 - relaxation) + (1 - best) * relaxation / (number - 1)


class MultiHypothesis(SamplingMethod[Tensor]):
    r"""Trains several heads; each label teaches the head that fits it best, and the rest a little.

    .. math:: \sum_r \sum_k \delta_k \, l_{rk}, \quad \delta = \text{`winner_weights`}

    C. Rupprecht et al., Learning in an uncertain world: representing ambiguity through multiple
    hypotheses, ICCV 2017. Here all raters' labels of an image teach at once. A sample is one of the
    hypotheses, drawn by how many labels each has won in the last epoch; the truth is their mean
    with the same weights.

    Attributes:
        wins: How many masks or answers each hypothesis has won in the epoch.
    """

    options: HypothesesOptions
    wins: Tensor

    def __init__(self, task: Task, options: HypothesesOptions) -> None:
        super().__init__(task, options)
        outputs = options.hypotheses * task.num_classes
        self.heads = pointwise(self.network.backbone.features, outputs, task.spatial_dims)
        self.register_buffer("wins", torch.zeros(options.hypotheses))

    @property
    def shares(self) -> Tensor:
        """How often each hypothesis wins, `(hypotheses,)`; none is impossible."""
        return (self.wins + 1) / (self.wins.sum() + len(self.wins))

    def start_epoch(self, epoch: int) -> None:
        """Count wins anew."""
        super().start_epoch(epoch)
        self.wins.zero_()

    def look(self, image: Tensor) -> Tensor:
        """Return `log p_k(t | x)`, `(batch, hypotheses, L, *space)`."""
        logits: Tensor = self.heads(self.network(image)[0])
        shape = (len(image), self.options.hypotheses, -1, *logits.shape[2:])
        return logits.view(shape).log_softmax(2)

    def step(self, batch: Batch) -> Step:
        """Return the losses of all hypotheses, mostly of the best one for each label."""
        labels = batch["labels"]
        losses = losses_of_maps(self.look(batch["image"]), labels, self.class_weights)
        weights = winner_weights(losses.detach(), self.options.relaxation)
        with torch.no_grad():
            best = one_hot(losses.argmin(2), losses.shape[2])
            self.wins += summed((best * labelled_answers(labels).unsqueeze(2)).sum((0, 1)))
        return mean_step((weights * losses).sum(), (labels != MISSING).sum())

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of each rater's labels under the mixture of hypotheses.

        A hypothesis explains all pixels of a mask: `- log sum_k share_k exp(-l_rk)`.
        """
        seen = self.look(batch["image"])
        labels = batch["labels"]
        losses = losses_of_maps(seen, labels, torch.ones_like(self.class_weights))
        each = -(self.shares.log() - losses).logsumexp(2) * labelled_answers(labels)
        return HeldOut(each.sum(), (labels != MISSING).sum(), self.truth_of(seen))

    def truth_of(self, seen: Tensor) -> Tensor:
        """Return the mean of the hypotheses, by how often each wins."""
        return torch.einsum("k,bk...->b...", self.shares, seen.exp())

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        """Draw a number from 0 to 1, that a hypothesis is chosen by."""
        return torch.rand(1, generator=generator)

    def sample_of(self, seen: Tensor, latents: Tensor) -> Tensor:
        """Return the hypothesis that each image's noise falls on."""
        ends = self.shares.cumsum(0)
        chosen = torch.searchsorted(ends, latents[:, 0].contiguous(), right=True)
        number = torch.arange(len(seen), device=seen.device)
        return seen[number, chosen.clamp(max=len(ends) - 1)].exp()
