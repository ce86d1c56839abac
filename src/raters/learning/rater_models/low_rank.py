"""Matrices of low rank beside the identity, for many classes: the full matrix is never formed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.rater_models.columns import in_blocks, label_index
from raters.learning.rater_models.confusion import Seen, of_rater, per_answer, row_weights


@dataclass(frozen=True)
class LowRankConfusion:
    """`C = (1 - a_t) I + a_t U V`: right with 1 - a_t, else one of `rank` kinds of error.

    U `(true, rank)` and V `(rank, observed)` have rows that sum to one, so C has too. With
    rank L, a = 1 and U = I it is any matrix at all. Memory is `L (2 rank + 1)` a pixel, not `L²`.

    Attributes:
        share: Logits of a, `(batch or 1, raters or 1, true, *space or 1)`.
        mixture: Logits of U, `(batch or 1, raters or 1, true, rank, *space or 1)`.
        errors: Logits of V, `(batch or 1, raters or 1, rank, observed, *space or 1)`.
    """

    share: Tensor
    mixture: Tensor
    errors: Tensor

    def see(self, labels: Tensor, raters: Tensor | None = None) -> Seen:
        """Return the columns of the labels and the diagonals."""
        parts = [per_answer(p, labels, raters) for p in (self.share, self.mixture, self.errors)]
        answers = labels.shape[:2]
        space = labels.shape[2:]
        parts = [p.expand(*answers, *p.shape[2 : p.ndim - len(space)], *space) for p in parts]
        return Seen(*in_blocks(_see, labels, *parts))

    def matrix(self) -> Tensor:
        """Write out `C` (of the full size: only where a person asks for it)."""
        a = self.share.sigmoid().unsqueeze(3)
        product = torch.einsum(
            "brtk...,brko...->brto...", self.mixture.softmax(3), self.errors.softmax(3)
        )
        eye = torch.eye(a.shape[2], device=a.device, dtype=a.dtype)
        return (1 - a) * eye.view(1, 1, *eye.shape, *(1,) * (a.ndim - 4)) + a * product

    def as_rater(self, truth: Tensor, rater: int) -> Tensor:
        """Return what a rater would say, `p (1 - a) + ((p a) U) V`; no matrix is written out."""
        parts = (of_rater(part, rater) for part in (self.share, self.mixture, self.errors))
        share, mixture, errors = parts
        confused = truth * share.sigmoid()
        kinds = (confused.unsqueeze(2) * mixture.softmax(2)).sum(1)
        return truth - confused + (kinds.unsqueeze(2) * errors.softmax(2)).sum(1)

    def mean(self, truth: Tensor) -> Tensor:
        """Average each rater's matrix over the pixels of each true class."""
        weights = row_weights(truth)
        a, u, v = (
            _flat(part, first, weights)
            for part, first in (
                (self.share.sigmoid(), 3),
                (self.mixture.softmax(3), 4),
                (self.errors.softmax(3), 4),
            )
        )
        scaled = u * (a * weights.unsqueeze(1)).unsqueeze(3)
        confused = torch.einsum("brtks,brkos->rto", scaled, v)
        right = torch.einsum("brts,bts->rt", 1 - a, weights)
        return (confused + torch.diag_embed(right)) / weights.sum((0, 2))[:, None]


def _see(labels: Tensor, share: Tensor, mixture: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns of the labels and the diagonals, from logits of a, U and V."""
    log_u = mixture.log_softmax(3)
    log_v = errors.log_softmax(3)
    log_share = nn.functional.logsigmoid(share)
    log_rest = nn.functional.logsigmoid(-share)
    to_itself = _over_kinds(log_u + log_v.transpose(2, 3))
    diagonal = torch.logaddexp(log_rest, log_share + to_itself)
    of_label = log_v.gather(3, label_index(labels, log_v.shape[2])).squeeze(3)
    confused = log_share + _over_kinds(log_u + of_label.unsqueeze(2))
    classes = torch.arange(share.shape[2], device=labels.device)
    is_label = labels.unsqueeze(2) == classes.view(-1, *(1,) * (labels.ndim - 2))
    column = torch.where(is_label, diagonal, confused)
    return column.masked_fill((labels == MISSING).unsqueeze(2), 0), diagonal


def _over_kinds(values: Tensor) -> Tensor:
    """Return the logarithm of the sum over the kinds of error, often only one; axis 3."""
    return values.squeeze(3) if values.shape[3] == 1 else torch.logsumexp(values, 3)


def _flat(part: Tensor, first: int, weights: Tensor) -> Tensor:
    """Return a part one axis for all pixels, and the batch of the weights."""
    flat = part.flatten(first) if part.ndim > first else part.unsqueeze(-1)
    return flat.expand(len(weights), *flat.shape[1:-1], weights.shape[-1])


def start_of_low_rank(
    num_classes: int, rank: int, init_accuracy: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits of a, U and V for a start near the identity.

    The rows of V start at different classes, since equal ones would never part.

    Example:
        >>> parts = start_of_low_rank(4, 2, 0.9)
        >>> C = LowRankConfusion(*(p[None, None] for p in parts)).matrix()[0, 0]
        >>> C.diagonal().mean(), C.sum(1)
        (tensor(0.9000), tensor([1.0000, 1.0000, 1.0000, 1.0000]))
        >>> parts[2].argmax(1)
        tensor([0, 1])
    """
    if not 1 <= rank <= num_classes:
        raise RatersError(f"found rank {rank}, expected 1 to {num_classes} (the number of classes)")
    kinds = torch.arange(rank)[:, None] == torch.arange(num_classes)[None] % rank
    share = math.log((1 - init_accuracy) / (init_accuracy - 1 / num_classes))
    return torch.full((num_classes,), share), torch.zeros(num_classes, rank), kinds * 1.0


_CERTAIN = 100.0  # its sigmoid is 1 in float32: nothing is left of the identity


def product_of(log_first: Tensor, log_second: Tensor) -> LowRankConfusion:
    r"""Return `B1 B2^T` with normalised rows, of the logarithms of two positive factors.

    .. math:: A = B_1 B_2^T, \quad C[t, o] = A[o, t] / \sum_{o'} A[o', t]

    The paper (Zhang et al., 2020, appendix A.4) writes A with the observed class first and says
    nothing of how it is normalised. It is a `LowRankConfusion` without identity:
    :math:`U[t, k] \propto B_2[t, k] \sum_o B_1[o, k]` and
    :math:`V[k, o] = B_1[o, k] / \sum_{o'} B_1[o', k]`.

    Args:
        log_first: `log B1`, `(batch, raters, observed, rank, *space)`.
        log_second: `log B2`, `(batch, raters, true, rank, *space)`.

    Example:
        >>> first, second = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [5.0]])
        >>> product_of(first.log()[None, None], second.log()[None, None]).matrix()[0, 0]
        tensor([[0.2500, 0.7500],
                [0.2500, 0.7500]])
    """
    total = torch.logsumexp(log_first, 2, keepdim=True)
    share = torch.full_like(log_second[:, :, :, 0], _CERTAIN)
    return LowRankConfusion(share, log_second + total, log_first.transpose(2, 3))
