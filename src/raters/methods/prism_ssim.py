"""Structural similarity of maps, with its gradient written out: `prism` takes it six times a step.

Z. Wang et al., Image quality assessment: from error visibility to structural similarity, IEEE
Transactions on Image Processing, 2004.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

WINDOW, SIGMA = 7, 1.5
"""Of the Gaussian window that similarity is taken in."""

C1, C2 = 0.01**2, 0.03**2


def ssim(found: Tensor, target: Tensor) -> Tensor:
    r"""Return the structural similarity around each pixel of maps from 0 to 1.

    .. math:: \frac{(2 \mu_x \mu_y + c_1)(2 \sigma_{xy} + c_2)}
              {(\mu_x^2 + \mu_y^2 + c_1)(\sigma_x^2 + \sigma_y^2 + c_2)}

    with :math:`c_1 = 0.01^2, c_2 = 0.03^2` and means in a Gaussian window; edges are repeated, so
    that each pixel has one.

    Args:
        found: `(..., H, W)`.
        target: Of the same shape; it has no gradient.

    Example:
        >>> maps = torch.rand(2, 8, 9)
        >>> bool((ssim(maps, maps) - 1).abs().max() < 1e-5)
        True
    """
    similar: Tensor = _Similarity.apply(found, target)  # type: ignore[no-untyped-call]
    return similar


class _Similarity(torch.autograd.Function):
    """The index as a function of the first maps: autograd would keep and pass a dozen more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:  # noqa: ANN401
        rows, columns = (window_matrix(side).to(x) for side in x.shape[-2:])
        a, b = _blurred(x, rows, columns), _blurred(y, rows, columns)
        up_means, down_means = a * b, (a * a).addcmul_(b, b)
        up_spread = _blurred(x * y, rows, columns).sub_(up_means).mul_(2).add_(C2)
        squares = (x * x).addcmul_(y, y)
        down_spread = _blurred(squares, rows, columns).sub_(down_means).add_(C2)
        up_means.mul_(2).add_(C1)
        down_means.add_(C1)
        down = down_means * down_spread
        similar = (up_means * up_spread).div_(down)
        if ctx.needs_input_grad[0]:
            # Of the means of x x, x y and x, each over 2; the first with a minus.
            of_square = similar / down_spread
            of_mean = up_spread.sub_(up_means).mul_(b).div_(down)
            of_mean.addcmul_(a, of_square - similar / down_means)
            ctx.save_for_backward(x, y, of_mean, up_means.div_(down), of_square)
        return similar

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        x, y, of_mean, of_product, of_square = ctx.saved_tensors
        rows, columns = (window_matrix(side).to(x).mT for side in x.shape[-2:])
        means, products, squares = (
            _blurred(gradients[0] * part, rows, columns)
            for part in (of_mean, of_product, of_square)
        )
        return means.addcmul_(y, products).addcmul_(x, squares, value=-1).mul_(2), None


def _blurred(maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return rows @ (maps @ columns.mT)


@lru_cache(maxsize=8)
def window_matrix(side: int) -> Tensor:
    """Return the weights of all pixels along a side in the window of each, `(side, side)`.

    A product with a banded matrix takes half the time of convolutions with two padded maps.

    Example:
        >>> matrix = window_matrix(9)
        >>> bool((matrix.sum(1) - 1).abs().max() < 1e-6), int((matrix[4] > 0).sum())
        (True, 7)
    """
    half = WINDOW // 2
    steps = torch.arange(-half, half + 1)
    weights = torch.exp(-(steps**2) / (2 * SIGMA**2))
    place = (torch.arange(side)[:, None] + steps).clamp(0, side - 1)  # edges are repeated
    found = torch.zeros(side, side)
    return found.scatter_add_(1, place, (weights / weights.sum()).expand(side, -1))
