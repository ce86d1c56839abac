"""The matrices of a batch: what every rater model gives, and the forms that are written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from raters.rater_models.columns import pixel_columns, refuse_other_axis, table_columns


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

    def told(self, truth: Tensor, rater: int) -> Tensor:
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

    def told(self, truth: Tensor, rater: int) -> Tensor:
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
        logits, common = per_answer(self.logits, labels, raters), self.common
        if common is not None:
            common = per_answer(common[None], labels, raters)
        return Seen(*pixel_columns(logits, labels, common))

    def matrix(self) -> Tensor:
        """Write out `C`."""
        return self.logits.softmax(3)

    def told(self, truth: Tensor, rater: int) -> Tensor:
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
