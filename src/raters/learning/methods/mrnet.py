"""`mrnet`: a prediction that follows any weighting of the raters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from raters.core.classes import MISSING
from raters.learning.methods.base import Asked, Batch, HeldOut, Maps, NetworkMethod, Step, Task
from raters.learning.methods.draws import labelled_answers
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.separate import OfLabelled
from raters.learning.methods.targets import cross_entropy, mean_label, soft_entropy
from raters.learning.networks.backbone import convolution
from raters.learning.rater_models.start import constant_head

FASTER = 4.0
"""How much faster than all else the scales and shifts of raters learn: they are few, and shared."""


class Said(NamedTuple):
    """What the three parts say of images under a weighting, as logarithms of probabilities.

    Attributes:
        raw: The prediction of the weighting, `(batch, L, *space)`.
        raters: What each rater would draw, `(batch, raters, L, *space)`.
        final: The prediction after a second look at where raters differ, `(batch, L, *space)`.
    """

    raw: Tensor
    raters: Tensor
    final: Tensor


class MRNet(OfLabelled, NetworkMethod):
    r"""Learns what any weighting of the raters would draw.

    W. Ji et al., Learning calibrated medical image segmentation via multi-rater agreement
    modeling, CVPR 2021. With the features f(x) of the truth network and its head h:

    .. math::
        f_w &= f (1 + G w) + B w  && \text{the weighting, by channels} \\
        p_w &= \mathrm{softmax}(h(f_w) + h_1(f_w))  && \text{raw prediction} \\
        q_r &= \mathrm{softmax}(\log p_w + h_2(f, p_w)_r)  && \text{what a rater would draw} \\
        u   &= \max_c 2 \, \mathrm{std}_r \, q_r(c)  && \text{where they differ, 0 to 1} \\
        P_w &= \mathrm{softmax}(\log p_w + h_3(f_w (1 + u)))  && \text{the prediction}

    and the loss is the cross entropy of raw and final prediction with the raters' mean under w,
    and of each q with its rater. The three new heads start at zero: all raters begin at what the
    network predicts, and learn how they differ from it. p in q, and q in u, are detached, so that
    no prediction is bent to be a message; P refines p with its gradient.
    """

    answers = frozenset({"truth", "as_rater", "weights"})
    # The parts look at all raters together.
    not_extended = "all raters are predicted together: train again with all of them"

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        raters = len(task.raters)
        classes = task.num_classes
        dims = task.spatial_dims
        width = self.network.backbone.features
        self.embed = nn.Linear(raters, 2 * width, bias=False)
        nn.init.uniform_(self.embed.weight, -0.5 / FASTER, 0.5 / FASTER)
        self.calibrate = _block(width, width, classes, dims)
        self.rebuild = _block(width + classes, width, raters * classes, dims)
        self.refine = _block(width, width, classes, dims)

    def _said(self, features: Tensor, weights: Tensor) -> Said:
        """Return what all parts say of features, for weights `(batch, raters)`."""
        moved: Tensor = self.embed(FASTER * weights)
        scale, shift = moved.view(*moved.shape, *(1,) * (features.ndim - 2)).chunk(2, 1)
        weighted = features * (1 + scale) + shift
        raw = (self.network.head(weighted) + self.calibrate(weighted)).log_softmax(1)
        known = torch.cat([features, raw.detach().exp()], 1)
        shape = (len(features), len(self.task.raters), -1, *features.shape[2:])
        raters = (raw.detach().unsqueeze(1) + self.rebuild(known).view(shape)).log_softmax(2)
        drawn = raters.detach()
        there = self.labelled if self.labelled.any() else ~self.labelled
        differ = disagreement((drawn if there.all() else drawn[:, there]).exp())
        final = (raw + self.refine(weighted * (1 + differ))).log_softmax(1)
        return Said(raw, raters, final)

    def step(self, batch: Batch) -> Step:
        """Return the cross entropies of all parts, each divided by the number of labels."""
        labels = batch["labels"]
        drawn = [
            draw_weights(row, self.seed, self.epoch, int(case))
            for row, case in zip(labelled_answers(labels).cpu(), batch["case"], strict=True)
        ]
        weights = torch.stack(drawn).to(labels.device)  # (batch, weightings, raters)
        many = weights.shape[1]
        features = _repeated(self.network(batch["image"])[0], many)
        said = self._said(features, weights.flatten(0, 1))
        number = (labels != MISSING).sum(1)
        # With the number of labels as factor, what is summed over pixels is a sum over labels, and
        # parts of a batch add up to it; pixels without a label by who weighs anything add nothing.
        target = mean_label(labels, self.task.num_classes, weights) * number[:, None, None]
        target = target.flatten(0, 1)
        observed = number.sum()
        parts = {
            "loss": soft_entropy(said.final, target, self.class_weights),
            "raw": soft_entropy(said.raw, target, self.class_weights),
            "raters": self._rebuilt(said.raters, labels),
        }
        terms = {name: part / (many * observed.clamp(min=1)) for name, part in parts.items()}
        return Step(torch.stack(list(terms.values())).sum(), observed, terms)

    def _rebuilt(self, raters: Tensor, labels: Tensor) -> Tensor:
        """Return the summed cross entropy of what raters would draw with what they drew.

        Args:
            raters: Logarithms, `(batch * weightings, raters, L, *space)`.
            labels: `(batch, raters, *space)`: all weightings have the same.
        """
        each = raters.reshape(len(labels), -1, *raters.shape[1:]).sum(1)
        loss, _ = cross_entropy(each.flatten(0, 1), labels.flatten(0, 1), self.class_weights)
        return loss

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the raters' labels: of what each of them would draw."""
        said = self._said(self.network(batch["image"])[0], self._even(batch["image"]))
        labels = batch["labels"].flatten(0, 1)
        even = torch.ones_like(self.class_weights)
        loss, count = cross_entropy(said.raters.flatten(0, 1), labels, even)
        return HeldOut(loss, count, said.final.exp())

    def _even(self, image: Tensor) -> Tensor:
        """Return equal weights of all who labelled, for each image."""
        there = self.labelled if self.labelled.any() else ~self.labelled
        return (there / there.sum()).expand(len(image), -1)

    def truth(self, image: Tensor) -> Tensor:
        """Return the prediction of equal weights."""
        return self.maps(image, Asked())["truth"]

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        """Return the prediction of any weights, `(raters,)`."""
        return self.maps(image, Asked(weights=tuple(weights.tolist())))["truth"]

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would draw, from the prediction of equal weights."""
        return self.maps(image, Asked((rater,)))[self.task.as_key(rater)]

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the truth and what some raters would draw; the network looks once."""
        features: Tensor = self.network(image)[0]
        even = weights = self._even(image)
        if asked.weights is not None:
            given = torch.tensor(asked.weights, dtype=even.dtype, device=image.device)
            weights = (given / given.sum()).expand_as(even)
        said = self._said(features, weights)
        found = {"truth": said.final.exp()}
        if asked.raters:
            raters = (said if weights is even else self._said(features, even)).raters.exp()
            numbers = [self.task.number_of(rater) for rater in asked.raters]
            found |= {self.task.as_key(number): raters[:, number] for number in numbers}
        return found | self.sampled(image, asked, latents)


def _block(channels: int, width: int, outputs: int, spatial_dims: int) -> nn.Sequential:
    """Make a 3 x 3 convolution and a layer at each pixel, which starts at zero."""
    return nn.Sequential(
        convolution(spatial_dims, channels, width, 3, padding=1),
        nn.LeakyReLU(0.1),
        constant_head(width, torch.zeros(outputs), spatial_dims),
    )


def _repeated(values: Tensor, many: int) -> Tensor:
    """Repeat each item of a batch, one copy after the other."""
    return values.unsqueeze(1).expand(-1, many, *values.shape[1:]).flatten(0, 1)


def draw_weights(labelled: Tensor, seed: int, epoch: int, case: int) -> Tensor:
    """Draw weightings of those who labelled a case: all alike, one alone, and any (Dirichlet).

    Args:
        labelled: Who labelled anything of it, `(raters,)`.
        seed: Of the run.
        epoch: From 0.
        case: The position of the case in the study.

    Returns:
        `(3, raters)`; rows sum to one, and are even where nobody labelled.

    Example:
        >>> even, alone, mixed = draw_weights(torch.tensor([True, False, True]), 0, 0, 7)
        >>> even, sorted(alone.tolist()), mixed[1]
        (tensor([0.5000, 0.0000, 0.5000]), [0.0, 0.0, 1.0], tensor(0.))
    """
    there = labelled if labelled.any() else ~labelled
    drawn = np.random.default_rng((seed, epoch, case)).exponential(size=(2, len(there)))
    first, second = torch.from_numpy(drawn).float() * there
    alone = one_hot(first.argmax(), len(there)).float()
    return torch.stack([there / there.sum(), alone, second / second.sum()])


def disagreement(raters: Tensor) -> Tensor:
    """Return how far raters differ at each pixel, from 0 to 1, `(batch, 1, *space)`.

    It is twice the standard deviation of their probabilities of a class, at most 1, of the class
    where it is largest.

    Args:
        raters: `(batch, raters, L, *space)`.

    Example:
        >>> said = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.9, 0.1]]])
        >>> disagreement(said).flatten()
        tensor([1., 0.])
    """
    away = raters - raters.mean(1, keepdim=True)
    return 2 * away.square_().mean(1).amax(1, keepdim=True).sqrt()  # `std` takes 30 times as long
