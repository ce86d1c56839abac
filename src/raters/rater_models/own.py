"""Each rater's own mean matrix, followed over batches: what matrices at pixels are drawn to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from raters.study.classes import MISSING

_KEPT = 0.95  # of the sums at each step: a mean over some 20 batches
_NEAR = 0.1  # share of the start in the matrix: no entry becomes 0
_PIXELS = 1024  # an image of so many is looked at whole: few numbers are wanted of them
_ONE_IN = 16  # pixels of a larger image, drawn at random


class OwnMatrices(nn.Module):
    r"""A running mean of each rater's matrices over the pixels that raters dispute.

    .. math:: G_r[t, o] \propto \sum_x d(x) \, p(t \mid x) \, C_r[t, o](x), \quad
              d(x) = 1 - \sum_o \bar p(o \mid x)^2

    with the mean :math:`\bar p` of what the raters would say. Among all matrices it has the least
    divergence :math:`\sum_x d(x) p(t \mid x) \mathrm{KL}(C_r[t, :](x) \,\|\, G_r[t, :])`. Pixels on
    which all agree (most of the background) say nothing of who is right, and would make every false
    positive look rare. (What draws the matrices, `prior_term`, weighs all labelled pixels alike,
    and a tenth of the start is mixed in here: the two are no descent on one objective.)

    Images of up to 1,024 pixels are looked at whole. Of larger ones at least as many pixels are
    drawn at random (with replacement), which have the same mean: a fixed grid may miss the object.

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
        """Return `log G`, `(raters, L, L)`; the start before anything was seen."""
        count = self.sums.sum(2, keepdim=True)
        mean = torch.where(count > 0, self.sums / count.clamp(min=1e-12), self.near)
        return torch.lerp(mean, self.near, _NEAR).log()

    @torch.no_grad()
    def follow(
        self, logits: Tensor, truth: Tensor, labels: Tensor, places: Tensor | None = None
    ) -> None:
        """Add a batch; of several processes, the batches of all.

        Args:
            logits: Of the matrices, `(batch, raters, true, observed, *space)`.
            truth: `p(t | x)`, `(batch, true, *space)`.
            labels: `(batch, answers, *space)`; pixels that nobody labelled are not looked at.
            places: Which pixels (of the flattened image) are looked at, `(batch, number)`; None
                for all.
        """
        rows = _at(logits.flatten(4) if logits.ndim > 4 else logits[..., None], places)
        weights = _at(truth.flatten(2) if truth.ndim > 2 else truth[..., None], places)
        labels = _at(labels.flatten(2) if labels.ndim > 2 else labels[..., None], places)
        labelled = (labels != MISSING).any(1)
        told = rows.softmax(3) * weights[:, None, :, None]
        disputed = 1 - told.sum(2).mean(1).square().sum(1)
        found = torch.einsum("brtos,bs->rto", told, disputed * labelled)
        # Drawn pixels stand for all of their images: large images count as large.
        found *= logits[0, 0, 0, 0].numel() / rows.shape[-1]
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(found)
        self.sums.mul_(_KEPT).add_(found)


def drawn_places(pixels: int, cases: Sequence[int], seed: tuple[int, ...]) -> Tensor | None:
    """Draw the pixels of each image that are looked at; None where that is all of them.

    They depend on the seed, the case and the number of pixels only, so that they are the same
    after a restart, and whichever process has the case.

    Args:
        pixels: How many an image has.
        cases: The numbers of the cases.
        seed: Of the run and the epoch.

    Returns:
        Positions in the flattened images, `(cases, number)`.

    Example:
        >>> drawn_places(28 * 28, [0, 1], (0, 0)) is None
        True
        >>> places = drawn_places(64**3, [7, 9], (0, 0))
        >>> places.shape, bool((places[0] == places[1]).all())
        (torch.Size([2, 16384]), False)
    """
    if pixels <= _PIXELS:
        return None
    number = max(_PIXELS, pixels // _ONE_IN)
    drawn = [np.random.default_rng((*seed, case)).integers(pixels, size=number) for case in cases]
    return torch.from_numpy(np.stack(drawn))


def _at(values: Tensor, places: Tensor | None) -> Tensor:
    """Take values `(batch, ..., pixels)` at places `(batch, number)`."""
    if places is None:
        return values
    index = places.to(values.device).view(len(places), *(1,) * (values.ndim - 2), -1)
    return values.gather(-1, index.expand(*values.shape[:-1], -1))
