"""Where matrices start, near the identity, and the pointwise layers that give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from raters.core.errors import RatersError

Positivity = Literal["softmax", "softplus"]
Start = Literal["accuracy", "listing"]

RIGHT = 0.9
"""The share of right labels that matrices start with."""


def near_identity_logits(num_classes: int, init_accuracy: float) -> Tensor:
    r"""Return logits whose softmax over the observed class has `init_accuracy` on the diagonal.

    .. math:: C_{to} = \mathrm{softmax}_o(z_{to}), \quad
              z_{tt} = \log \frac{right \, (L - 1)}{1 - right}, \quad z_{to} = 0

    The offset depends on the number of classes: a fixed one, such as `6 I - 5` through softplus
    of Tanno et al. (2019), has 0.995 on the diagonal for 2 classes but 0.66 for 100.

    Example:
        >>> near_identity_logits(100, 0.9).softmax(1).diagonal()[:2]
        tensor([0.9000, 0.9000])
    """
    if num_classes < 2:
        raise RatersError(
            f"found {num_classes} class, expected at least 2: one class has no confusion"
        )
    if not 1 / num_classes < init_accuracy < 1:
        raise RatersError(
            f"found a start of {init_accuracy} on the diagonal, expected above "
            f"1/{num_classes} and below 1"
        )
    return torch.eye(num_classes) * math.log(
        init_accuracy * (num_classes - 1) / (1 - init_accuracy)
    )


_FAR = -20.0  # below it log(softplus(z)) is z to the last digit of float32


def log_positive(values: Tensor, positivity: Positivity) -> Tensor:
    r"""Return the logarithms of positive numbers: rows of C are these numbers over their sum.

    .. math::
        \text{softmax:} \quad & \log e^z = z \\
        \text{softplus:} \quad & \log \log (1 + e^z)

    So `log_positive(z, ...).softmax(...)` is the matrix in both cases. Softplus is that of the
    listing of Tanno et al. (2019), F.2.

    Example:
        >>> log_positive(torch.tensor([1.0, -5.0]), "softplus").softmax(0)
        tensor([0.9949, 0.0051])
    """
    if positivity == "softmax":
        return values
    near = values > _FAR  # both branches must be finite: a gradient of 0 times infinity is NaN
    return torch.where(near, softplus(torch.where(near, values, 0.0)).log(), values)


def values_of(matrices: Tensor, positivity: Positivity) -> Tensor:
    """Return the free numbers of known positive matrices: what `log_positive` takes.

    Example:
        >>> known = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
        >>> log_positive(values_of(known, "softplus"), "softplus").softmax(1)
        tensor([[0.8000, 0.2000],
                [0.3000, 0.7000]])
    """
    return matrices.log() if positivity == "softmax" else matrices.expm1().log()


def start_values(
    num_classes: int,
    init_accuracy: float,
    positivity: Positivity = "softmax",
    start: Start = "accuracy",
) -> Tensor:
    """Return the free numbers `(L, L)` that matrices start at.

    Args:
        num_classes: Number of classes.
        init_accuracy: The diagonal of the matrices, for `start='accuracy'`.
        positivity: What makes them positive.
        start: 'accuracy', or 'listing': the `6 I - 5` of Tanno et al. (2019), F.2, whatever number
            of classes.

    Example:
        >>> for start in ("accuracy", "listing"):
        ...     log_positive(start_values(10, 0.9, "softplus", start), "softplus").softmax(1)[0, :2]
        tensor([0.9000, 0.0111])
        tensor([0.9560, 0.0049])
    """
    if start == "listing":
        if positivity != "softplus":
            raise RatersError(
                f"found start='listing' with positivity={positivity!r}, expected 'softplus': the "
                "listing starts at softplus(6 I - 5)"
            )
        return 6.0 * torch.eye(num_classes) - 5.0
    logits = near_identity_logits(num_classes, init_accuracy)
    if positivity == "softmax":
        return logits
    # Off the diagonal at -5 as in the listing; the diagonal follows from `right`.
    large = math.log1p(math.exp(-5.0)) * init_accuracy * (num_classes - 1) / (1 - init_accuracy)
    diagonal = large + math.log(-math.expm1(-large))  # whose softplus is `large`
    return torch.full((num_classes, num_classes), -5.0).fill_diagonal_(diagonal)


LINEAR: dict[int, Callable[..., nn.Module]] = {
    0: nn.Linear,
    1: nn.Conv1d,
    2: nn.Conv2d,
    3: nn.Conv3d,
}


def pointwise(features: int, outputs: int, spatial_dims: int) -> nn.Module:
    """Make a linear layer over the channels of `(batch, features, *space)`.

    Args:
        features: Channels that come in.
        outputs: Channels that go out.
        spatial_dims: Spatial axes; 0 for `(batch, features)`.

    Example:
        >>> pointwise(8, 3, spatial_dims=2)(torch.zeros(1, 8, 5, 5)).shape
        torch.Size([1, 3, 5, 5])
    """
    size = () if spatial_dims == 0 else (1,)
    return LINEAR[spatial_dims](features, outputs, *size)


def constant_head(features: int, start: Tensor, spatial_dims: int) -> nn.Module:
    """Make a pointwise layer whose output is `start` (flattened) whatever the features are."""
    head = pointwise(features, start.numel(), spatial_dims)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(start.flatten() if name == "bias" else torch.zeros_like(parameter))
    return head
