"""The losses of `prism`: structural similarity, shuffled fusions, heads."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.methods.base import cross_entropy, soft_entropy
from raters.methods.prism_confidence import Diverged, known_pixels
from raters.methods.prism_ssim import ssim
from raters.rater_models.confidence import LEAST
from raters.study.classes import MISSING


def ssim_loss(
    found: Tensor, target: Tensor, class_weights: Tensor, known: Tensor | None = None
) -> Tensor:
    """Return 1 - SSIM of probabilities, `(batch,)`: 0 where both are the same.

    The index of `ssim` is averaged over pixels and classes, background included: of foreground
    alone, more of it and less would not be judged alike.

    Args:
        found: `(batch, L, H, W)`.
        target: Of the same shape; it has no gradient.
        class_weights: `(L,)`.
        known: The pixels that are averaged over, `(batch, H, W)`; by default all.

    Example:
        >>> disc = torch.zeros(1, 2, 8, 8)
        >>> disc[:, 1, 2:5, 2:5] = 1
        >>> ssim_loss(disc, disc, torch.ones(2)), bool(ssim_loss(disc, 1 - disc, torch.ones(2)) > 1)
        (tensor([0.]), True)
    """
    similar = ssim(found, target)
    if known is None or known.all():
        by_class = similar.mean((2, 3))
    else:
        number = known.sum((1, 2)).unsqueeze(1)
        by_class = (similar * known.unsqueeze(1)).sum((2, 3)) / number.clamp(min=1)
        by_class = torch.where(number > 0, by_class, 1)
    loss: Tensor = ((1 - by_class) * (class_weights / class_weights.sum())).sum(1)
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
    observed = (labels != MISSING).flatten(1).sum(1)
    if not known.all():
        target, fused = (torch.where(known.unsqueeze(1), maps, given) for maps in (target, fused))
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
    target, thought = found.shuffled(order, labels)
    total = soft_entropy(thought.flatten(0, 1), (target * number).flatten(0, 1), class_weights)
    return total / len(order)


def heads_loss(found: Diverged, labels: Tensor, class_weights: Tensor) -> Tensor:
    """Return the cross entropy of each head with its rater, summed over labels (equation 9)."""
    log_said = found.said.clamp(min=LEAST).log().flatten(0, 1)
    return cross_entropy(log_said, labels.flatten(0, 1), class_weights)[0]
