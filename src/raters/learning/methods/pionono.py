"""`pionono`: a Gaussian latent variable of each rater, read together with the image's features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.learning.methods.base import Batch, HeldOut, Step, Task
from raters.learning.methods.draws import (
    SamplingMethod,
    drawn_answers,
    drawn_masks,
    drawn_noise,
    evidence_step,
    fixed_noise,
    labelled_masks,
    losses_of_maps,
    mean_of_each,
)
from raters.learning.methods.options import LatentOptions
from raters.learning.methods.separate import OfLabelled
from raters.learning.methods.targets import cross_entropy
from raters.learning.networks.latent import LatentHead, bounded

DRAWS = 8
"""Draws of a rater's latent that 'as rater X' is the mean of."""

_START = -1.0  # of the logarithm of a standard deviation: raters start apart from each other


class RaterGaussians(nn.Module):
    r"""A Gaussian of each rater, :math:`z = m_r + L_r \epsilon` with a lower triangle L.

    Means start at draws from the prior N(0, I), standard deviations at exp(-1).

    Args:
        raters: Number of raters.
        size: Of the latent variable.

    Example:
        >>> found = RaterGaussians(raters=3, size=2)
        >>> found.at(torch.tensor([2, 2]), torch.zeros(2, 2)).shape, found.kl().shape
        (torch.Size([2, 2]), torch.Size([3]))
    """

    def __init__(self, raters: int, size: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.randn(raters, size))
        self.free = nn.Parameter(_START * torch.eye(size).repeat(raters, 1, 1))

    def factor(self) -> Tensor:
        """Return the lower triangles, `(raters, size, size)`; the covariance is `L L'`."""
        return torch.tril(self.free, -1) + torch.diag_embed(self._log_scale().exp())

    def _log_scale(self) -> Tensor:
        return bounded(2 * self.free.diagonal(dim1=1, dim2=2)) / 2

    def at(self, raters: Tensor, noise: Tensor) -> Tensor:
        """Return latents `(n, size)` of raters `(n,)` for standard normal noise `(n, size)`."""
        return self.mean[raters] + torch.einsum("nij,nj->ni", self.factor()[raters], noise)

    def kl(self) -> Tensor:
        r"""Return the divergence of each rater's Gaussian to N(0, I), `(raters,)`.

        .. math:: \tfrac12 (\mathrm{tr}\, L L^T + m^T m - D) - \sum_i \log L_{ii}
        """
        square = self.factor().square().sum((1, 2)) + self.mean.square().sum(1)
        return (square - self.mean.shape[1]) / 2 - self._log_scale().sum(1)


class Pionono(OfLabelled, SamplingMethod[Tensor]):
    r"""Explains each rater's masks by a latent variable that is theirs, and the image's features.

    .. math:: \sum_x -\log p(o_r(x) \mid x, z) + \beta \, \mathrm{KL}(q_r \,\|\, N(0, I)),
              \quad z \sim q_r = N(m_r, L_r L_r^T)

    for one rater r of each image, drawn at each step among those who labelled it. Both terms are
    sums over an image, as those of `ProbUNet`.

    A. Schmidt, P. Morales-Álvarez and R. Molina, Probabilistic modeling of inter- and
    intra-observer variability in medical image segmentation, ICCV 2023.

    'As rater r' is the mean over `DRAWS` draws of the rater's latent with fixed noise, the truth
    its mean over the raters who labelled anything; samples are draws of a random one of them.
    """

    answers = frozenset({"truth", "as_rater", "samples"})
    not_extended = "its head knows the latents of these raters only: train again with all raters"
    options: LatentOptions
    noise: Tensor

    def __init__(self, task: Task, options: LatentOptions) -> None:
        super().__init__(task, options)
        size = options.latent_size
        features = self.network.backbone.features
        self.raters = RaterGaussians(len(task.raters), size)
        self.head = LatentHead(features, size, task.num_classes, task.spatial_dims)
        self.register_buffer("noise", fixed_noise(DRAWS, size), persistent=False)

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the raters' Gaussians: decay would draw them beside the KL term."""
        return list(self.raters.parameters())

    def look(self, image: Tensor) -> Tensor:
        """Return what the head read of the features."""
        found: Tensor = self.head.read(self.network(image)[0])
        return found

    def step(self, batch: Batch) -> Step:
        """Return cross entropy and KL for one rater's mask of each image."""
        image = batch["image"]
        labels = batch["labels"]
        chosen = drawn_answers(batch, len(self.task.raters), self.seed, self.epoch)
        noise = drawn_noise(batch["case"], self.options.latent_size, self.seed, self.epoch)
        rater = chosen.long().argmax(1)
        masks = drawn_masks(labels, chosen)
        latents = self.raters.at(rater, noise.to(image))
        log_truth = self.head(self.look(image), latents).log_softmax(1)
        total, known = cross_entropy(log_truth, masks, self.class_weights)
        kl = (self.raters.kl()[rater] * chosen.any(1)).sum()
        return evidence_step(total, kl, known, self.options.beta)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of each rater's masks, averaged over draws of the rater's latent.

        A latent explains all pixels of a mask: `- log mean_z exp(-l(z))` with l the cross entropy
        of a mask.
        """
        labels = batch["labels"]
        seen = self.look(batch["image"])
        total = seen.new_zeros(())
        for case, rater in labelled_masks(labels):
            losses = [
                self._loss_of_masks(seen[case], labels[case, rater], rater, noise)
                for noise in self.noise
            ]
            total = total - (torch.stack(losses).neg().logsumexp(0) - math.log(DRAWS)).sum()
        return HeldOut(total, (labels != MISSING).sum(), self.truth_of(seen))

    def _loss_of_masks(self, seen: Tensor, masks: Tensor, rater: Tensor, noise: Tensor) -> Tensor:
        """Return the cross entropy of masks `(n, *space)` of raters `(n,)`, summed over pixels."""
        latents = self.raters.at(rater, noise.expand(len(rater), -1))
        log_truth = self.head(seen, latents).log_softmax(1).unsqueeze(1)
        even = torch.ones_like(self.class_weights)
        return losses_of_maps(log_truth, masks.unsqueeze(1), even)[:, 0, 0]

    def rater_of(self, seen: Tensor, rater: int) -> Tensor:
        """Return the mean over draws of the rater's latent, whose noise is always the same."""
        number = torch.tensor([rater], device=seen.device)
        return mean_of_each(self._probabilities(seen, number, n.unsqueeze(0)) for n in self.noise)

    def truth_of(self, seen: Tensor) -> Tensor:
        """Return the mean over the raters who labelled anything."""
        return mean_of_each(self.rater_of(seen, rater) for rater in self._known().tolist())

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        """Draw a number from 0 to 1 that a rater is chosen by, and standard normal noise."""
        who = torch.rand(1, generator=generator)
        return torch.cat([who, torch.randn(self.options.latent_size, generator=generator)])

    def sample_of(self, seen: Tensor, latents: Tensor) -> Tensor:
        """Return the probabilities for one draw of one random rater's latent."""
        known = self._known()
        place = (latents[:, 0] * len(known)).long().clamp(max=len(known) - 1)
        return self._probabilities(seen, known[place], latents[:, 1:])

    def _known(self) -> Tensor:
        """Return the numbers of the raters who labelled anything."""
        return self.labelled.nonzero()[:, 0]

    def _probabilities(self, seen: Tensor, rater: Tensor, noise: Tensor) -> Tensor:
        logits: Tensor = self.head(seen, self.raters.at(rater, noise))
        return logits.softmax(1)
