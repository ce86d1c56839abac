"""`prob-unet`: a latent variable of each image, from a prior net; samples are its draws."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

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
    mean_of_each,
)
from raters.learning.methods.options import LatentOptions
from raters.learning.methods.targets import cross_entropy
from raters.learning.networks.latent import Gaussian, GaussianEncoder, LatentHead, gaussian_kl

DRAWS = 16
"""Draws from the prior that the truth is the mean of."""

LookedAt = tuple[Tensor, Gaussian]


class ProbUNet(SamplingMethod[LookedAt]):
    r"""A conditional variational autoencoder on the features of the truth network.

    .. math:: \sum_x -\log p(o(x) \mid x, z) + \beta \, \mathrm{KL}(q \,\|\, p(z \mid x)),
              \quad z \sim q = q(z \mid x, o)

    for one rater's mask o of each image, drawn at each step among those who labelled it. Both terms
    are sums over an image; their sum over a batch is divided by its observed pixels, which changes
    neither their ratio nor, with AdamW, the steps. Beta grows to its value, see `ramp`.

    S. A. A. Kohl et al., A probabilistic U-Net for segmentation of ambiguous images, NeurIPS 2018.

    The truth is the mean over `DRAWS` draws from the prior with fixed noise. In windows of a large
    image the prior's mean and scale come from the window, the noise from the image.
    """

    options: LatentOptions
    noise: Tensor

    def __init__(self, task: Task, options: LatentOptions) -> None:
        super().__init__(task, options)
        size = options.latent_size
        axes = task.spatial_dims
        features = self.network.backbone.features
        self.prior = GaussianEncoder(task.channels, size, axes, features)
        both = task.channels + task.num_classes
        self.posterior = GaussianEncoder(both, size, axes, features)
        self.head = LatentHead(features, size, task.num_classes, axes)
        self.register_buffer("noise", fixed_noise(DRAWS, size), persistent=False)

    @property
    def ramp(self) -> float:
        """The share of `beta` that counts: it grows from 0 over the first half of the epochs.

        At the start a latent says nothing yet, and the divergence would take it out of use. A
        single epoch has all of it: else the prior would learn nothing.
        """
        return 1.0 if self.task.epochs < 2 else min(1.0, 2 * self.epoch / self.task.epochs)

    def look(self, image: Tensor) -> LookedAt:
        """Return what the head read of the features, and the prior of each image."""
        return self.head.read(self.network(image)[0]), self.prior(image)

    def _posterior(self, image: Tensor, labels: Tensor) -> Gaussian:
        """Return the posterior of images with one mask each; pixels without label are no class."""
        known = (labels != MISSING).unsqueeze(1)
        told = one_hot(labels.clamp(min=0), self.task.num_classes).movedim(-1, 1) * known
        found: Gaussian = self.posterior(torch.cat([image, told.to(image)], 1))
        return found

    def step(self, batch: Batch) -> Step:
        """Return the negative evidence of one rater's mask of each image."""
        image = batch["image"]
        labels = batch["labels"]
        chosen = drawn_answers(batch, len(self.task.raters), self.seed, self.epoch)
        noise = drawn_noise(batch["case"], self.options.latent_size, self.seed, self.epoch)
        seen = self.look(image)
        masks = drawn_masks(labels, chosen)
        found = self._evidence(seen, image, masks, noise.to(image), self.class_weights)
        return evidence_step(*found, self.options.beta * self.ramp)

    def _evidence(
        self, seen: LookedAt, image: Tensor, labels: Tensor, noise: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return cross entropy and KL, summed over masks `(batch, *space)`; and known pixels."""
        read, prior = seen
        posterior = self._posterior(image, labels)
        log_truth = self.head(read, posterior.at(noise)).log_softmax(1)
        there = (labels != MISSING).flatten(1).any(1)
        total, known = cross_entropy(log_truth, labels, weights)
        return total, (gaussian_kl(posterior, prior) * there).sum(), known

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the negative evidence (a bound of the likelihood) of all raters' masks.

        It is that of `beta=1`, with one draw for each mask whose noise is fixed.
        """
        image = batch["image"]
        labels = batch["labels"]
        seen = self.look(image)
        even = torch.ones_like(self.class_weights)
        total = image.new_zeros(())
        count = (labels != MISSING).sum()
        for case, rater in labelled_masks(labels):
            part = seen[0][case], Gaussian(seen[1].mean[case], seen[1].log_variance[case])
            noise = self.noise[rater % DRAWS]
            found = self._evidence(part, image[case], labels[case, rater], noise, even)
            total = total + found[0] + found[1]
        return HeldOut(total, count, self.truth_of(seen))

    def truth_of(self, seen: LookedAt) -> Tensor:
        """Return the mean over draws from the prior, whose noise is always the same."""
        return mean_of_each(self.sample_of(seen, noise.unsqueeze(0)) for noise in self.noise)

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        """Draw standard normal noise."""
        return torch.randn(self.options.latent_size, generator=generator)

    def sample_of(self, seen: LookedAt, latents: Tensor) -> Tensor:
        """Return the probabilities for one draw from the prior of each image."""
        read, prior = seen
        logits: Tensor = self.head(read, prior.at(latents))
        return logits.softmax(1)
