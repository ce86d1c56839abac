"""Each rater's own mean matrix, followed over batches: what matrices at pixels are drawn to."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from raters.study.classes import MISSING

_KEPT = 0.95  # of the sums at each step: a mean over some 20 batches
_NEAR = 0.1  # share of the start in the matrix: no entry becomes 0
_PIXELS = 1024  # of an image that are looked at, or so: few numbers are wanted of them


class OwnMatrices(nn.Module):
    r"""A running mean of each rater's matrices over the pixels that raters dispute.

    .. math:: G_r[t, o] \propto \sum_x d(x) \, p(t \mid x) \, C_r[t, o](x), \quad
              d(x) = 1 - \sum_o \bar p(o \mid x)^2

    with the mean :math:`\bar p` of what the raters would say. It is the matrix that minimises the
    divergence of the matrices at these pixels from it, so that following it and drawing matrices
    to it minimise one objective in turns. Pixels on which all agree (most of the background) say
    nothing of who is right, and would make every false positive look rare.

    Args:
        near: The matrices at the start, `(raters, L, L)`; a tenth of them stays mixed in.

    Example:
        >>> own = OwnMatrices(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]))
        >>> blank = torch.tensor([[0.999, 0.001], [0.999, 0.001]]).log()[None, None]
        >>> own.follow(blank, torch.tensor([[0.2, 0.8]]), torch.tensor([[0]]))
        >>> own.log_matrix().exp()
        tensor([[[0.9891, 0.0109],
                 [0.9091, 0.0909]]])
    """

    near: Tensor
    sums: Tensor

    def __init__(self, near: Tensor) -> None:
        super().__init__()
        self.register_buffer("near", near, persistent=False)
        self.register_buffer("sums", torch.zeros_like(near))

    def log_matrix(self) -> Tensor:
        """Give `log G`, `(raters, L, L)`; the start before anything was seen."""
        count = self.sums.sum(2, keepdim=True)
        mean = torch.where(count > 0, self.sums / count.clamp(min=1e-12), self.near)
        return torch.lerp(mean, self.near, _NEAR).log()

    @torch.no_grad()
    def follow(self, logits: Tensor, truth: Tensor, labels: Tensor) -> None:
        """Add a batch; of several processes, the batches of all.

        Args:
            logits: Of the matrices, `(batch, raters, true, observed, *space)`.
            truth: `p(t | x)`, `(batch, true, *space)`.
            labels: `(batch, answers, *space)`; pixels that nobody labelled are not looked at.
        """
        rows = logits.flatten(4) if logits.ndim > 4 else logits[..., None]
        weights = truth.flatten(2) if truth.ndim > 2 else truth[..., None]
        some = slice(None, None, -(-rows.shape[4] // _PIXELS))
        labels = labels.flatten(2) if labels.ndim > 2 else labels[..., None]
        labelled = (labels[..., some] != MISSING).any(1)
        told = rows[..., some].softmax(3) * weights[:, None, :, None, some]
        disputed = 1 - told.sum(2).mean(1).square().sum(1)
        found = torch.einsum("brtos,bs->rto", told, disputed * labelled)
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(found)
        self.sums.mul_(_KEPT).add_(found)
