"""`cycle-mix`: images and their marks are mixed, and predictions of both must agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from raters.core.arrays import Floats
from raters.fusion.graph_cut import graph_cut
from raters.fusion.superpixels import region_graph
from raters.learning.methods.base import Batch, HeldOut, NetworkMethod, Step
from raters.learning.methods.mask_options import CycleMixOptions
from raters.learning.methods.phases import generator_of
from raters.learning.methods.targets import cross_entropy, mean_label, of_each

BLOCKS = (2, 4, 8, 16)
"""Along each axis, of the mask that two images are mixed by; one of these is drawn for a batch."""

ALPHA = 0.5
"""Shares of two images are drawn from Beta(ALPHA, ALPHA)."""

SHARE = 0.2
SMOOTH = 0.2
"""How much the share counts beside the saliency of a block, and how much neighbours do."""

HOLE = 0.15
"""The side of what is hidden of a mixed image, as a share of its own."""


class CycleMix(NetworkMethod):
    r"""Trains on marks of images and of mixed images, whose predictions must agree.

    .. math:: \ell(x_1, y_1) + \ell(x_{12}, y_{12})
        + \lambda_g \, d\big(p(x_{12}), z p(x_1) + (1 - z) p(x_2)\big)
        + \lambda_l \, d\big(p(x_1), \mathrm{largest}(p(x_1))\big)

    with the cross entropy :math:`\ell` of marked pixels, the mixed image
    :math:`x_{12} = z x_1 + (1 - z) x_2` of which a square is hidden, its marks
    :math:`y_{12}` likewise, one minus the cosine of probabilities d, and the largest connected part
    of each class but background.

    K. Zhang and X. Zhuang, CycleMix: a holistic strategy for medical image segmentation from
    scribble supervision, CVPR 2022.
    """

    options: CycleMixOptions

    def step(self, batch: Batch) -> Step:
        """Return the sum of the four losses."""
        image = batch["image"].detach().requires_grad_()
        target = mean_label(batch["labels"], self.task.num_classes)
        log_truth = self.network.log_truth(image)
        plain, known = self._marked(log_truth, target)
        draws = generator_of("mix", self.seed, self.epoch, *batch["case"].tolist())
        (slope,) = torch.autograd.grad(plain, image, retain_graph=True)
        order = torch.randperm(len(image), generator=draws).to(image.device)
        first = mixing_masks(slope.square().mean(1).sqrt(), order, draws).to(image)
        seen = holes(image.shape, draws).to(image)

        def mix(values: Tensor) -> Tensor:
            return (first * values + (1 - first) * values[order]) * seen

        mixed = self.network.log_truth(mix(image.detach()))
        beside, _ = self._marked(mixed, mix(target))
        truth = log_truth.exp()
        terms = {
            "marks": plain,
            "mixed": beside,
            "global": mean_distance(mixed.exp(), mix(truth), seen),
            "local": mean_distance(truth, largest_parts(truth), torch.ones_like(seen)),
        }
        o = self.options
        consistent = o.global_consistency * terms["global"] + o.local_consistency * terms["local"]
        return Step(plain + beside + consistent, known, terms)

    def _marked(self, log_truth: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean cross entropy of marked pixels, and how many there are."""
        total, known = cross_entropy(log_truth, target, self.class_weights)
        return total / known.clamp(min=1), known

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with all marks."""
        return self.held_out_entropy(batch["image"], batch["labels"], of_each)


def mixing_masks(saliency: Tensor, order: Tensor, draws: torch.Generator) -> Tensor:
    """Return where each image is kept, in blocks: 1, or 0 where another takes its place.

    Blocks go to the image that is more salient there, next to each other if possible, and more
    often to the image that has the larger share (after Puzzle Mix; nothing is moved).

    Args:
        saliency: How much the loss of an image depends on each pixel, `(batch, *space)`.
        order: The image that each one is mixed with, `(batch,)`.
        draws: Draws the number of blocks and the shares.

    Returns:
        `(batch, 1, *space)`.
    """
    space = saliency.shape[1:]
    number = BLOCKS[int(torch.randint(len(BLOCKS), (1,), generator=draws))]
    sides = [min(number, side) for side in space]
    shares = np.random.default_rng(draws.initial_seed() % 2**63).beta(ALPHA, ALPHA, len(saliency))
    pool: Callable[..., Tensor] = getattr(functional, f"adaptive_avg_pool{len(sides)}d")
    pooled = pool(saliency.unsqueeze(1), sides).double().flatten(1)
    coarse = (pooled / pooled.mean(1, keepdim=True).clamp(min=1e-30)).cpu().numpy()
    graph = region_graph(np.arange(np.prod(sides)).reshape(sides))
    weights = SMOOTH * graph.lengths
    masks = [
        graph_cut(block_costs(coarse[k], coarse[other], share), graph.edges, weights)
        for k, (other, share) in enumerate(zip(order.tolist(), shares, strict=True))
    ]
    blocks = torch.from_numpy(np.stack(masks)).float().view(len(saliency), 1, *sides)
    return functional.interpolate(blocks, size=space, mode="nearest")


def block_costs(first: Floats, second: Floats, share: float) -> Floats:
    """Return what it costs to take each block from the second image, and from the first.

    Args:
        first: The saliency of the blocks of the first image, with mean 1.
        second: That of the second.
        share: Of the first image.

    Example:
        >>> block_costs(np.array([2.0, 0.0]), np.array([0.0, 2.0]), 0.5).argmin(axis=1)
        array([1, 0])
    """
    share = min(max(share, 1e-6), 1 - 1e-6)
    return np.stack([first - SHARE * np.log(1 - share), second - SHARE * np.log(share)], axis=1)


def holes(shape: torch.Size, draws: torch.Generator) -> Tensor:
    """Return what is seen of each image, `(batch, 1, *space)`: a square somewhere is 0.

    Args:
        shape: Of the images, `(batch, channels, *space)`.
        draws: Draws the middle of each square, which may reach over the edge.

    Example:
        >>> seen = holes(torch.Size([1, 1, 20, 20]), torch.Generator().manual_seed(2))
        >>> int((seen == 0).sum())
        9
    """
    batch, _, *space = shape
    half = max(1, round(HOLE * min(space))) / 2
    hidden = torch.ones(batch, 1, *space, dtype=torch.bool)
    for axis, side in enumerate(space):
        middle = torch.randint(side, (batch, 1), generator=draws)
        near = (torch.arange(side) - middle + 0.25).abs() < half
        hidden &= near.view(batch, 1, *(side if k == axis else 1 for k in range(len(space))))
    return (~hidden).float()


def mean_distance(one: Tensor, other: Tensor, seen: Tensor) -> Tensor:
    """Return one minus the cosine of two maps of probabilities, averaged over the pixels seen.

    Example:
        >>> one = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
        >>> other = torch.tensor([[[1.0, 1.0], [0.0, 0.0]]])
        >>> mean_distance(one, other, torch.ones(1, 1, 2))
        tensor(0.5000)
    """
    far = 1 - functional.cosine_similarity(one, other, dim=1)
    return (far * seen[:, 0]).sum() / seen.sum().clamp(min=1)


def largest_parts(truth: Tensor) -> Tensor:
    """Return the likeliest class as zeros and ones; all but the largest part of each is background.

    Args:
        truth: `(batch, L, *space)`.

    Example:
        >>> objects = torch.tensor([[[0.9, 0.1, 0.8, 0.9]]])
        >>> largest_parts(torch.cat([1 - objects, objects], 1))[0, 1]
        tensor([0., 0., 1., 1.])
    """
    from scipy.ndimage import label

    best = truth.detach().max(1).indices.cpu().numpy()
    kept = np.zeros_like(best)
    for k, image in enumerate(best):
        for number in range(1, truth.shape[1]):
            parts, count = label(image == number)
            if count:
                sizes = np.bincount(parts.ravel())[1:]
                kept[k][parts == sizes.argmax() + 1] = number
    chosen = torch.from_numpy(kept).to(truth.device).unsqueeze(1)
    return torch.zeros_like(truth).scatter_(1, chosen, 1.0).detach()
