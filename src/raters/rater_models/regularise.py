"""What is added to the likelihood: the trace, and a pull of pixel-wise matrices to a common one."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from raters.errors import RatersError
from raters.study.classes import MISSING

TraceOver = Literal["all", "truth"]


def trace_term(
    log_diagonal: Tensor, labels: Tensor, truth: Tensor, over: TraceOver = "truth"
) -> Tensor:
    r"""Average the trace of the matrices over observed raters and pixels.

    .. math::
        \text{all:} \quad & \mathrm{mean}_{r,x} \sum_t C_r[t, t] \\
        \text{truth:} \quad & \mathrm{mean}_{r,x} \sum_t p(t \mid x) \, C_r[t, t]

    'all' is the papers' trace. With free matrices at every pixel it also pays to spoil the rows
    of classes that are not there; 'truth' weights the rows by the predicted truth (without
    gradient), so that it touches only the row that matters.

    The papers' lambda: eq. 4 of Zhang et al. (2020) sums cross entropy and trace over the same
    pixels and raters, so its lambda is the one here. The listing of Tanno et al. (2019) sums the
    cross entropy over raters but averages the trace: its lambda divided by the number of labels of
    an image is the one here (see `from_listing`, and `listing_trace` for the listing's own term).

    Args:
        log_diagonal: `log C_r[t, t]`, as rater models give it.
        labels: `(batch, raters, *space)`, with MISSING.
        truth: `p(t | x)`, `(batch, classes, *space)`.
        over: 'all' or 'truth'.

    Example:
        >>> import torch
        >>> diagonal = torch.tensor([[[0.9, 0.6]]]).log()
        >>> labels, truth = torch.tensor([[1]]), torch.tensor([[1.0, 0.0]])
        >>> trace_term(diagonal, labels, truth, "all"), trace_term(diagonal, labels, truth)
        (tensor(1.5000), tensor(0.9000))
    """
    diagonal = log_diagonal.exp()
    if over == "truth":
        traces = (diagonal * truth.detach().unsqueeze(1)).sum(2)
    elif over == "all":
        traces = diagonal.sum(2)
    else:
        raise RatersError(f"found a trace over {over!r}, expected 'all' or 'truth'")
    observed = labels != MISSING
    return (traces * observed).sum() / observed.sum().clamp(min=1)


def from_listing(scale: float, labels: float) -> float:
    """Convert the lambda of Tanno et al.'s listing to the one of `trace_term` (over='all').

    The listing adds up the cross entropies of the k labels of an image and averages the trace over
    raters, while both are means over labels here: lambda / k. (Where raters label unequally often,
    `trace_term` weighs their traces by it and the listing does not: see `listing_trace`.)

    Args:
        scale: The lambda of the listing.
        labels: Labels of an image, on average; the number of raters if each labels every image.

    Example:
        >>> from_listing(0.01, 5), from_listing(0.01, 2.5)
        (0.002, 0.004)
    """
    return scale / labels


def listing_trace(log_diagonal: Tensor, labels: Tensor) -> Tensor:
    r"""Average the trace over all raters alike, as the listing of Tanno et al. (2019), F.1, does.

    .. math:: \frac{1}{k} \, \frac{1}{R} \sum_r \mathrm{tr}(C_r)

    with k labels of an image (a pixel) in the batch. Their loss is the mean over images of the
    cross entropies added up over raters, plus lambda times the mean trace; divided by k it is the
    mean cross entropy of a label, as everywhere here, plus lambda times this term.

    Args:
        log_diagonal: `log C_r[t, t]` of all raters, `(raters, L)`.
        labels: `(batch, answers, *space)`, with MISSING.

    Example:
        >>> import torch
        >>> diagonal = torch.tensor([[0.9, 0.6], [1.0, 0.5]]).log()
        >>> listing_trace(diagonal, torch.tensor([[0, 1], [1, 1]]))  # two labels of an image
        tensor(0.7500)
    """
    observed = (labels != MISSING).sum()
    images = labels[:, :1].numel()
    return log_diagonal.exp().sum(1).mean() * images / observed.clamp(min=1)


def prior_term(distance: Tensor, labels: Tensor, truth: Tensor) -> Tensor:
    r"""Average how far matrices that vary over pixels are from a common one.

    .. math:: \mathrm{mean}_{r,x} \sum_t p(t \mid x) \, \mathrm{KL}(C_r[t, :] \,\|\, P[t, :])

    Args:
        distance: The divergence of each row, `(batch, raters, true, *space)`, as `see` gives it.
        labels: `(batch, raters, *space)`, with MISSING.
        truth: `p(t | x)`, `(batch, classes, *space)`; weights without gradient.

    Example:
        >>> import torch
        >>> inputs = torch.tensor([[1, -1]]), torch.tensor([[0.5, 0.5]])
        >>> prior_term(torch.tensor([[[0.2, 0.4], [9.0, 9.0]]]), *inputs)
        tensor(0.3000)
    """
    observed = labels != MISSING
    by_rater = (distance * truth.detach().unsqueeze(1)).sum(2)
    return (by_rater * observed).sum() / observed.sum().clamp(min=1)
