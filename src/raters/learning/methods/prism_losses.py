"""The losses of `prism`: structural similarity, shuffled fusions, heads.

Structural similarity is of Z. Wang et al., Image quality assessment: from error visibility to
structural similarity, IEEE Transactions on Image Processing, 2004. Its gradient is written out, as
`prism` takes it six times a step.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.learning.methods.prism_confidence import Diverged, known_pixels
from raters.learning.methods.targets import cross_entropy, soft_entropy
from raters.learning.rater_models.columns import Context
from raters.learning.rater_models.confidence import LEAST


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
    truth: Tensor,
    target: Tensor,
    fused: Tensor,
    labels: Tensor,
    class_weights: Tensor,
    warming: bool = False,
) -> Tensor:
    r"""Return the loss of one recurrence, summed over labels (equation 8, Algorithm 1).

    .. math:: L(\tilde y_i, y_{i-1}) + L(y_i, \tilde y_i)

    The first term teaches ConP, the second DivP: its target is detached. A case counts as often as
    it was labelled. Pixels that nobody labelled are not averaged over; in the windows of others
    they are taken to be as ConP says.

    In the warm-up the first term is the cross entropy. Where objects are small, most windows of the
    index are empty, and there it asks for probabilities below 0.01: unless objects are told apart
    at once, those of all pixels go down together until the softmax has no slope any more.

    Args:
        truth: What ConP says, `(batch, L, H, W)`.
        target: What it learns from.
        fused: What DivP makes of it, fused: the labels by its confidences (Algorithm 1), or what
            it thinks raters say (equation 8).
        labels: `(batch, raters, H, W)`, with MISSING.
        class_weights: `(L,)`.
        warming: Whether this is the warm-up.
    """
    given = truth.detach()
    known = known_pixels(labels)
    there = labels != MISSING
    observed = there.flatten(1).sum(1)
    if not known.all():
        target, fused = (torch.where(known.unsqueeze(1), maps, given) for maps in (target, fused))
    diverging = (ssim_loss(fused, given, class_weights, known) * observed).sum()
    if warming:
        number = there.sum(1, keepdim=True)
        log_truth = truth.clamp(min=LEAST).log()
        return soft_entropy(log_truth, target * number, class_weights) + diverging
    return (ssim_loss(truth, target, class_weights, known) * observed).sum() + diverging


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


WINDOW = 7
SIGMA = 1.5
"""Of the Gaussian window that similarity is taken in."""

C1 = 0.01**2
C2 = 0.03**2


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
    def forward(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
        rows, columns = (window_matrix(side).to(x) for side in x.shape[-2:])
        a = _blurred(x, rows, columns)
        b = _blurred(y, rows, columns)
        up_means = a * b
        down_means = (a * a).addcmul_(b, b)
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
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None]:
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
