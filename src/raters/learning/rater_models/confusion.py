"""The matrices of a batch: what every rater model gives, and each rater's own mean over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.learning.rater_models.columns import pixel_columns, refuse_other_axis, table_columns


class Seen(NamedTuple):
    """What labels ask of matrices.

    Attributes:
        log_column: `log C_r[t, o_r]`, `(batch, answers, true, *space)`.
        log_diagonal: `log C_r[t, t]`, of a shape that broadcasts with it.
        distance: `KL(C_r[t, :] || P[t, :])` to a common matrix, if one was given and the matrices
            vary over pixels.
    """

    log_column: Tensor
    log_diagonal: Tensor
    distance: Tensor | None = None


class Confusion(Protocol):
    """The matrices `C[t, o]` of all raters for a batch of cases."""

    def see(self, labels: Tensor, raters: Tensor | None = None) -> Seen:
        """Return the columns of the labels `(batch, answers, *space)` and the diagonals.

        Args:
            labels: The labels, with MISSING.
            raters: Who gave each answer, `(batch, answers)`; without it answer k is of rater k.
        """

    def matrix(self) -> Tensor:
        """Write out `C`: `(batch, raters, true, observed, *space)`; length 1 where it is shared."""

    def as_rater(self, truth: Tensor, rater: int) -> Tensor:
        """Return what a rater would say: `sum_t p(t | x) C_r[t, o]`, `(batch, L, *space)`."""

    def mean(self, truth: Tensor) -> Tensor:
        """Average each rater's matrix over the pixels of each true class, `(raters, L, L)`.

        Args:
            truth: `p(t | x)`, `(batch, L, *space)`: the weights of row t.
        """


def log_column(confusion: Confusion, labels: Tensor, raters: Tensor | None = None) -> Tensor:
    """Return `log C_r[t, o_r]` at the labels: what the likelihood needs."""
    return confusion.see(labels, raters).log_column


@dataclass(frozen=True)
class SharedConfusion:
    """Matrices that are the same at all pixels.

    Attributes:
        log_matrix: `(batch or 1, raters or 1, true, observed)`.

    Example:
        >>> rater = SharedConfusion(torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log()[None, None])
        >>> log_column(rater, torch.tensor([[1]])).exp()
        tensor([[[0.1000, 0.6000]]])
    """

    log_matrix: Tensor

    def see(self, labels: Tensor, raters: Tensor | None = None) -> Seen:
        """Return the columns of the labels and the diagonals."""
        column = table_columns(self.log_matrix, labels, raters)
        diagonal = torch.diagonal(self.log_matrix, dim1=2, dim2=3)
        if raters is not None and diagonal.shape[1] > 1:
            diagonal = answers_of(diagonal, raters)
        return Seen(column, diagonal.view(*diagonal.shape, *(1,) * (labels.ndim - 2)))

    def matrix(self) -> Tensor:
        """Write out `C`."""
        return self.log_matrix.exp()

    def as_rater(self, truth: Tensor, rater: int) -> Tensor:
        """Return what a rater would say."""
        own = of_rater(self.log_matrix, rater).exp().expand(len(truth), -1, -1)
        return torch.einsum("bt...,bto->bo...", truth, own)

    def mean(self, truth: Tensor) -> Tensor:
        """Average each rater's matrix over the cases, weighted by the pixels of a true class."""
        weights = row_weights(truth).sum(2)
        matrix = self.matrix().expand(len(truth), -1, -1, -1)
        return torch.einsum("bt,brto->rto", weights, matrix) / weights.sum(0)[:, None]


@dataclass(frozen=True)
class PixelConfusion:
    """Matrices that vary over pixels, as logits whose softmax over the observed class they are.

    Attributes:
        logits: `(batch, raters or 1, true, observed, *space)`.
        common: `log P`, `(raters or 1, true, observed)`: the matrices that they are compared with.
    """

    logits: Tensor
    common: Tensor | None = None

    def see(self, labels: Tensor, raters: Tensor | None = None) -> Seen:
        """Return the columns of the labels, the diagonals, and the distance to the common one."""
        logits = per_answer(self.logits, labels, raters)
        common = self.common
        if common is not None:
            common = per_answer(common[None], labels, raters)
        return Seen(*pixel_columns(logits, labels, common))

    def matrix(self) -> Tensor:
        """Write out `C`."""
        return self.logits.softmax(3)

    def as_rater(self, truth: Tensor, rater: int) -> Tensor:
        """Return what a rater would say; only this rater's matrices are written out."""
        return (truth.unsqueeze(2) * of_rater(self.logits, rater).softmax(2)).sum(1)

    def mean(self, truth: Tensor) -> Tensor:
        """Average each rater's matrix over the pixels of each true class."""
        matrix = self.matrix().flatten(4) if truth.ndim > 2 else self.matrix()[..., None]
        weights = row_weights(truth)
        return torch.einsum("bts,brtos->rto", weights, matrix) / weights.sum((0, 2))[:, None]


def of_rater(values: Tensor, rater: int) -> Tensor:
    """Take one rater's part of values `(batch, raters or 1, ...)`; 1 is shared by all."""
    return values[:, 0 if values.shape[1] == 1 else rater]


def answers_of(values: Tensor, raters: Tensor) -> Tensor:
    """Take values `(batch or 1, raters, ...)` at the rater of each answer `(batch, answers)`."""
    batch = torch.arange(len(values), device=values.device)[:, None]
    return values[batch, raters]


def per_answer(values: Tensor, labels: Tensor, raters: Tensor | None) -> Tensor:
    """Bring values of raters `(batch, raters or 1, ...)` to the answers `(batch, answers, ...)`."""
    if values.shape[1] == 1:
        return values.expand(-1, labels.shape[1], *values.shape[2:])
    if raters is None:
        refuse_other_axis(values.shape[1], labels)
        return values
    return answers_of(values, raters)


def row_weights(truth: Tensor) -> Tensor:
    """Return the weights of rows, `(batch, L, pixels)`: a class that is nowhere weighs all."""
    flat = truth.flatten(2) if truth.ndim > 2 else truth[..., None]
    return flat + max(1e-12, torch.finfo(truth.dtype).tiny)


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
