"""Work on a batch in blocks that stay in the processor's cache, with memory for one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

ELEMENTS = 5 << 19
"""Of a block: 10 MB of float32. Smaller ones wait more for threads, where cores are shared."""

_ARRAYS = 32  # of its own size that a function and its gradient hold, or so

Block = tuple[slice, slice]
Pair = tuple[Tensor, Tensor]


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
    by_rater, by_case = max(1, min(raters, fit)), max(1, fit // max(raters, 1))
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
        ctx: Any,  # noqa: ANN401
        function: Callable[..., Pair],
        labels: Tensor,
        *parts: Tensor,
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
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
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
