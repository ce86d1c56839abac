"""A product of two positive factors as matrices: the low-rank form as it was published."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.rater_models.low_rank import LowRankConfusion

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
