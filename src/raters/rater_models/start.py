"""Where matrices start: near the identity, for any number of classes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from raters.errors import RatersError

RIGHT = 0.9
"""The share of right labels that matrices start with."""


def near_identity_logits(classes: int, right: float) -> Tensor:
    r"""Give logits whose softmax over the observed class has `right` on the diagonal.

    .. math:: C_{to} = \mathrm{softmax}_o(z_{to}), \quad
              z_{tt} = \log \frac{right \, (L - 1)}{1 - right}, \quad z_{to} = 0

    The offset depends on the number of classes: a fixed one, such as `6 I - 5` through softplus
    of Tanno et al. (2019), has .995 on the diagonal for 2 classes but .66 for 100.

    Example:
        >>> near_identity_logits(100, 0.9).softmax(1).diagonal()[:2]
        tensor([0.9000, 0.9000])
    """
    if classes < 2:
        raise RatersError(f"found {classes} class, expected at least 2: one class has no confusion")
    if not 1 / classes < right < 1:
        raise RatersError(
            f"found a start of {right} on the diagonal, expected above 1/{classes} and below 1"
        )
    return torch.eye(classes) * math.log(right * (classes - 1) / (1 - right))
