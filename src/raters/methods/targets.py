"""Training on targets: cross entropy with hard or soft ones, and the vote of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.study.classes import MISSING


def cross_entropy(log_truth: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the summed cross entropy with a hard or soft target, and how many pixels are known.

    .. math:: -\sum_x w \sum_t q(t) \log p(t \mid x)

    Args:
        log_truth: `log p(t | x)`, `(batch, L, *space)`.
        target: Labels `(batch, *space)` with MISSING, or q `(batch, L, *space)`, zero everywhere
            where it is unknown.
        weights: A weight of each class, `(L,)`.

    Example:
        >>> uniform = torch.full((1, 2, 3), 0.5).log()
        >>> cross_entropy(uniform, torch.tensor([[0, 1, -1]]), torch.ones(2))
        (tensor(1.3863), tensor(2))
    """
    if target.ndim == log_truth.ndim:
        by_class = weights.view(-1, *(1,) * (target.ndim - 2))
        return -(target * by_class * log_truth).sum(), (target.sum(1) > 0).sum()
    chosen = log_truth.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    known = target != MISSING
    return -(chosen * weights[target.clamp(min=0)] * known).sum(), known.sum()


def majority(labels: Tensor, num_classes: int) -> Tensor:
    """Return the class with most labels, `(batch, *space)`; MISSING where nobody labelled.

    Ties go to the class listed first, as in the fusion method `vote`.

    Args:
        labels: `(batch, raters, *space)`, with MISSING.
        num_classes: Number of classes.

    Example:
        >>> majority(torch.tensor([[[1, 1, -1], [1, 0, -1], [0, -1, -1]]]), 2)
        tensor([[ 1,  0, -1]])
    """
    votes = torch.stack([(labels == c).sum(1) for c in range(num_classes)], 1)
    return votes.argmax(1).masked_fill(votes.sum(1) == 0, MISSING)
