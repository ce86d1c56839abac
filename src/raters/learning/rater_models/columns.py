"""The one column of each matrix that a label needs, block by block, without forming a product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.core.errors import RatersError

ELEMENTS = 5 << 19
"""Of a block: 10 MB of float32. Smaller ones wait more for threads, where cores are shared."""

_ARRAYS = 32  # of its own size that a function and its gradient hold, or so

Block = tuple[slice, slice]
Pair = tuple[Tensor, Tensor]
Context = Any
"""What autograd hands from `forward` to `backward`: it keeps whatever is set."""


def blocks(values: Tensor, arrays: int = 1) -> Iterator[Block]:
    """Cut `(batch, raters, ...)` into blocks of cases and raters, for work on so many arrays.

    There is one block where blocks are of no use: on other devices, and while torch.compile
    traces, since it fuses all passes into one.

    Example:
        >>> len(list(blocks(torch.zeros(2, 3, 4)))), len(list(blocks(torch.zeros(2, 3, ELEMENTS))))
        (1, 6)
    """
    if torch.compiler.is_compiling() or values.device.type != "cpu":
        yield slice(None), slice(None)
        return
    cases, raters = values.shape[:2]
    one = max(values[0, 0].numel(), 1) if cases and raters else 1
    fit = ELEMENTS // (one * arrays)
    by_rater = max(1, min(raters, fit))
    by_case = max(1, fit // max(raters, 1))
    for case in range(0, cases, by_case):
        for rater in range(0, raters, by_rater):
            yield slice(case, case + by_case), slice(rater, rater + by_rater)


def in_blocks(function: Callable[..., Pair], labels: Tensor, *parts: Tensor) -> Pair:
    """Return `function(labels, *parts)` block by block; its intermediates are not kept.

    They are computed again for the gradient (as torch.utils.checkpoint does), a block at a time.

    Args:
        function: Gives two tensors `(batch, raters, ...)`, block by block the same as at once.
        labels: `(batch, raters, *space)`.
        parts: Tensors `(batch, raters, ...)` that get gradients.
    """
    if torch.compiler.is_compiling():
        return function(labels, *parts)
    first, second = _InBlocks.apply(function, labels, *parts)  # type: ignore[no-untyped-call]
    return first, second


class _InBlocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, function: Callable[..., Pair], labels: Tensor, *parts: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.function = function
        ctx.save_for_backward(labels, *parts)
        results: list[Tensor] = []
        for block in blocks(max(parts, key=Tensor.numel), _ARRAYS):
            done = function(labels[block], *(part[block] for part in parts))
            if not results:
                results = [d.new_empty(*labels.shape[:2], *d.shape[2:]) for d in done]
            for result, value in zip(results, done, strict=True):
                result[block] = value
        return tuple(results)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        labels, *parts = ctx.saved_tensors
        totals = [torch.empty_like(p, memory_format=torch.contiguous_format) for p in parts]
        for block in blocks(max(parts, key=Tensor.numel), _ARRAYS):
            leaves = [part[block].detach().requires_grad_() for part in parts]
            with torch.enable_grad():
                done = ctx.function(labels[block], *leaves)
            back = torch.autograd.grad(done, leaves, [g[block] for g in gradients])
            for total, gradient in zip(totals, back, strict=True):
                total[block] = gradient
        return None, None, *totals


def pixel_columns(
    logits: Tensor, labels: Tensor, common: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Return `log C[t, o]` at the label o and `log C[t, t]`, of matrices that vary over pixels.

    .. math:: \log C_{to} = z_{to} - \log \sum_{o'} \exp z_{to'}

    With a common matrix P also how far each row is from it:

    .. math:: D_t = \mathrm{KL}(C_t \,\|\, P_t) = \sum_o C_{to} (\log C_{to} - \log P_{to})

    All come from one normaliser, and their gradients are written into one array the size of the
    logits: :math:`g_t (1[o' = o] - C_{to'})` of a column or diagonal, and
    :math:`g_t C_{to'} (\log C_{to'} - \log P_{to'} - D_t)` of the divergence.

    Args:
        logits: `(batch, raters, true, observed, *space)`.
        labels: `(batch, raters, *space)`; MISSING gives a column of zeros and no gradient.
        common: `log P`, `(true, observed)`, or one of each rater or answer before these axes; it
            gets no gradient.

    Returns:
        Two tensors `(batch, raters, true, *space)`, and a third with a common matrix.

    Example:
        >>> logits = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()[None, None]
        >>> even = torch.full((2, 2), 0.5).log()
        >>> column, diagonal, distance = pixel_columns(logits, torch.tensor([[1]]), even)
        >>> column.exp(), diagonal.exp(), distance
        (tensor([[[0.1000, 0.5000]]]), tensor([[[0.9000, 0.5000]]]), tensor([[[0.3681, 0.0000]]]))
    """
    if common is not None:
        common = common.detach().expand(logits.shape[:4])
        common = common.view(*common.shape, *(1,) * (logits.ndim - 4))
    found = _PixelColumns.apply(logits, labels, common)  # type: ignore[no-untyped-call]
    return (*found[:2], found[2] if common is not None else None)


def _diagonal(square: Tensor) -> Tensor:
    """View the diagonal of `(batch, raters, L, L, *space)` as `(batch, raters, L, *space)`."""
    return torch.diagonal(square, dim1=2, dim2=3).movedim(-1, 2)


def label_index(labels: Tensor, rows: int) -> Tensor:
    """Repeat labels for each row, as `gather` along the observed class wants them (a view)."""
    shape = (*labels.shape[:2], rows, 1, *labels.shape[2:])
    return labels.clamp(min=0).long()[:, :, None, None].expand(shape)


class _PixelColumns(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, logits: Tensor, labels: Tensor, common: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        labels = labels.int()  # as wide as float32: comparisons are twice as fast
        shape = (*logits.shape[:3], *logits.shape[4:])
        normaliser = logits.new_empty(shape)
        column = logits.new_empty(shape)
        distance = logits.new_empty(shape if common is not None else 0)
        for block in blocks(logits):
            z = logits[block]
            seen = labels[block]
            normaliser[block] = torch.logsumexp(z, 3)
            # Not a product: a logit of -inf (a known matrix) times zero would not be a number.
            chosen = _at_label(z, seen) - normaliser[block]
            column[block] = chosen.masked_fill((seen == MISSING).unsqueeze(2), 0)
            if common is not None:
                matrix = (z - normaliser[block].unsqueeze(3)).exp_()
                distance[block] = matrix.mul_(z - common[block]).sum(3) - normaliser[block]
        ctx.save_for_backward(logits, labels, normaliser, common, distance)
        return column, _diagonal(logits) - normaliser, distance

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normaliser, common, distance = ctx.saved_tensors
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
        for block in blocks(logits, 2):
            of_column = gradients[0][block] * (labels[block] != MISSING).unsqueeze(2)
            of_diagonal = gradients[1][block]
            is_label = _is_label(labels[block], logits.shape[3]).to(logits.dtype)
            out = torch.sub(logits[block], normaliser[block].unsqueeze(3), out=gradient[block])
            factor = (of_column + of_diagonal).neg_().unsqueeze(3)
            if common is not None:
                of_distance = gradients[2][block].unsqueeze(3)
                away = out - common[block] - distance[block].unsqueeze(3)
                factor = away.mul_(of_distance).add_(factor)
            out.exp_().mul_(factor)
            out.addcmul_(is_label, of_column.unsqueeze(3))
            _diagonal(out).add_(of_diagonal)
        return gradient, None, None


def _is_label(labels: Tensor, num_classes: int) -> Tensor:
    """Return `[o = label]`, `(batch, raters, 1, observed, *space)`; false where missing."""
    every = torch.arange(num_classes, device=labels.device, dtype=labels.dtype)
    return labels[:, :, None, None] == every.view(-1, *(1,) * (labels.ndim - 2))


def _at_label(logits: Tensor, labels: Tensor) -> Tensor:
    """Return `z[t, label]`; anything where the label is missing."""
    if torch.compiler.is_compiling():  # where a comparison is fused, and a gather is not
        return torch.where(_is_label(labels, logits.shape[3]), logits, 0).sum(3)
    return logits.gather(3, label_index(labels, logits.shape[2])).squeeze(3)


def refuse_other_axis(raters: int, labels: Tensor) -> None:
    """Raise for labels `(batch, answers, *space)` of unknown raters: the axis is not of raters."""
    if raters not in (1, labels.shape[1]):
        raise RatersError(
            f"found {labels.shape[1]} labels of each case for {raters} raters, expected one per "
            "rater, or who gave each of them (raters)"
        )


def table_columns(log_matrix: Tensor, labels: Tensor, raters: Tensor | None = None) -> Tensor:
    """Look up `log C[t, o]` in matrices that are the same at all pixels.

    Args:
        log_matrix: `(batch or 1, raters or 1, true, observed)`.
        labels: `(batch, answers, *space)`, with MISSING.
        raters: Who gave each answer, `(batch, answers)`; without it answer k is of rater k.

    Returns:
        `(batch, answers, true, *space)`; zeros where the label is missing.

    Example:
        >>> matrix = torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log()[None, None]
        >>> table_columns(matrix, torch.tensor([[1, -1, 0]])).exp()
        tensor([[[0.1000, 0.6000], [1.0000, 1.0000], [0.9000, 0.4000]]])
    """
    batches, kept, classes, observed = log_matrix.shape
    if raters is None or kept == 1:
        refuse_other_axis(kept, labels)
        column: Tensor = _OwnColumns.apply(log_matrix, labels)  # type: ignore[no-untyped-call]
        return column
    row = raters.clamp(min=0)  # -1 may fill up
    if batches > 1:
        row = row + kept * torch.arange(batches, device=labels.device)[:, None]
    index = row.view(*row.shape, *(1,) * (labels.ndim - 2)) * observed + labels.clamp(min=0)
    table = log_matrix.transpose(2, 3).reshape(-1, classes)
    column = torch.nn.functional.embedding(index, table).movedim(-1, 2)
    return column.masked_fill((labels == MISSING).unsqueeze(2), 0)


class _OwnColumns(torch.autograd.Function):
    """Columns where answer k is of rater k: the gradient is a product, not a sum by position."""

    @staticmethod
    def forward(ctx: Context, log_matrix: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(log_matrix, labels)
        cases, answers = labels.shape[:2]
        rows = log_matrix.shape[2]
        padded = nn.functional.pad(log_matrix, (1, 0))  # MISSING is the first column, of zeros
        index = labels.long().sub(MISSING).reshape(cases, answers, 1, -1)
        column = padded.expand(cases, answers, -1, -1).gather(3, index.expand(-1, -1, rows, -1))
        return column.view(cases, answers, rows, *labels.shape[2:])

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None]:
        log_matrix, labels = ctx.saved_tensors
        said = _is_label(labels, log_matrix.shape[3]).to(gradient.dtype)
        shape = (*gradient.shape[:3], -1)
        found = gradient.reshape(shape) @ said.reshape(*labels.shape[:2], said.shape[3], -1).mT
        return found.sum_to_size(log_matrix.shape), None
