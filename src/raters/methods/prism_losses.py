"""The losses of `prism`: structural similarity, shuffled fusions, heads."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from raters.methods.base import cross_entropy
from raters.methods.prism_confidence import Diverged, known_pixels
from raters.rater_models.confidence import LEAST
from raters.study.classes import MISSING

WINDOW, SIGMA = 7, 1.5
"""Of the Gaussian window that similarity is taken in."""


def ssim_loss(
    found: Tensor, target: Tensor, class_weights: Tensor, known: Tensor | None = None
) -> Tensor:
    r"""Return 1 - SSIM of probabilities, `(batch,)`: 0 where both are the same.

    .. math:: \mathrm{SSIM} = \frac{(2 \mu_x \mu_y + c_1)(2 \sigma_{xy} + c_2)}
              {(\mu_x^2 + \mu_y^2 + c_1)(\sigma_x^2 + \sigma_y^2 + c_2)}

    with :math:`c_1 = 0.01^2, c_2 = 0.03^2`, averaged over pixels and classes, background included:
    of foreground alone, more of it and less would not be judged alike. The index is MONAI's; edges
    are repeated, so that each pixel has a window.

    Args:
        found: `(batch, L, H, W)`.
        target: Of the same shape.
        class_weights: `(L,)`.
        known: The pixels that are averaged over, `(batch, H, W)`; by default all.

    Example:
        >>> disc = torch.zeros(1, 2, 8, 8)
        >>> disc[:, 1, 2:5, 2:5] = 1
        >>> ssim_loss(disc, disc, torch.ones(2)), bool(ssim_loss(disc, 1 - disc, torch.ones(2)) > 1)
        (tensor([0.]), True)
    """
    from monai.metrics.regression import compute_ssim_and_cs

    around = [WINDOW // 2] * 4
    # Images beside each other as channels: a third of the time of channels by themselves.
    x, y = (pad(maps, around, mode="replicate").flatten(0, 1)[None] for maps in (found, target))
    window, sigma = (WINDOW, WINDOW), (SIGMA, SIGMA)
    similar: Tensor = compute_ssim_and_cs(
        x, y, spatial_dims=2, kernel_size=window, kernel_sigma=sigma
    )[0]
    similar = similar.view(len(found), -1, *found.shape[2:])
    if known is None:
        by_class = (1 - similar).mean((2, 3))
    else:
        by_class = ((1 - similar) * known.unsqueeze(1)).sum((2, 3))
        by_class = by_class / known.sum((1, 2)).clamp(min=1).unsqueeze(1)
    loss: Tensor = (by_class * (class_weights / class_weights.sum())).sum(1)
    return loss


def recurrence_loss(
    truth: Tensor, target: Tensor, fused: Tensor, labels: Tensor, class_weights: Tensor
) -> Tensor:
    r"""Return the loss of one recurrence, summed over labels (equation 8, Algorithm 1).

    .. math:: L(\tilde y_i, y_{i-1}) + L(y_i, \tilde y_i)

    The first term teaches ConP, the second DivP: its target is detached. A case counts as often as
    it was labelled. Pixels that nobody labelled are not averaged over; in the windows of others
    they are taken to be as ConP says.

    Args:
        truth: What ConP says, `(batch, L, H, W)`.
        target: What it learns from.
        fused: What DivP makes of it, fused: the labels by its confidences (Algorithm 1), or what
            it thinks raters say (equation 8).
        labels: `(batch, raters, H, W)`, with MISSING.
        class_weights: `(L,)`.
    """
    given, known = truth.detach(), known_pixels(labels)
    target, fused = (torch.where(known.unsqueeze(1), maps, given) for maps in (target, fused))
    observed = (labels != MISSING).flatten(1).sum(1)
    converging = ssim_loss(truth, target, class_weights, known)
    diverging = ssim_loss(fused, given, class_weights, known)
    return ((converging + diverging) * observed).sum()


def shuffle_loss(found: Diverged, order: Tensor, labels: Tensor, class_weights: Tensor) -> Tensor:
    r"""Return the cross entropy of fusions by shuffled confidences, summed over labels.

    .. math:: - \sum_k y^{fuse}_k \log y^{self}_k

    of equations 10 to 12: both are fused by the confidences of other raters, the first from the
    labels and the second from what raters are thought to say. A pixel counts as often as it was
    labelled; shuffles are averaged.

    Args:
        found: What DivP makes of the truth.
        order: Whose confidence each rater gets, `(shuffles, batch, raters)`.
        labels: `(batch, raters, H, W)`, with MISSING.
        class_weights: `(L,)`.
    """
    number = (labels != MISSING).sum(1, keepdim=True)
    total = found.said.new_zeros(())
    for each in order:
        with torch.no_grad():
            target = found.shuffled(each, labels).exp() * number
        thought = found.shuffled(each, labels, thought=True)
        total = total + cross_entropy(thought, target, class_weights)[0]
    return total / len(order)


def heads_loss(found: Diverged, labels: Tensor, class_weights: Tensor) -> Tensor:
    """Return the cross entropy of each head with its rater, summed over labels (equation 9)."""
    log_said = found.said.clamp(min=LEAST).log().flatten(0, 1)
    return cross_entropy(log_said, labels.flatten(0, 1), class_weights)[0]
