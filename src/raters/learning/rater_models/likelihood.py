"""The likelihood of labels seen through raters, in log space, and what is added to it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError

Form = Literal["joint", "marginal"]
FORMS: tuple[Form, ...] = ("joint", "marginal")


def log_likelihood(
    log_truth: Tensor, log_column: Tensor, form: Form = "joint", labels: Tensor | None = None
) -> Tensor:
    r"""Return the log-likelihood of the labels of each pixel.

    .. math::
        \text{joint:} \quad & \log \sum_t p(t \mid x) \prod_r C_r[t, o_r] \\
        \text{marginal:} \quad & \sum_r \log \sum_t p(t \mid x) \, C_r[t, o_r]

    The joint form explains all raters of a pixel by one truth (Dawid and Skene, 1979; Raykar et
    al., 2010), the marginal one each rater alone (Tanno et al., 2019; Zhang et al., 2020). They
    agree where a pixel has one label. A missing label has a column of zeros (that is, of ones)
    and adds nothing to either.

    Args:
        log_truth: `log p(t | x)`, `(batch, classes, *space)`.
        log_column: `log C_r[t, o_r]`, `(batch, raters, classes, *space)`, as rater models give it.
        form: 'joint' or 'marginal'.
        labels: The labels; with them, what is missing has exactly no likelihood and no gradient,
            not one that is only rounded to none.

    Returns:
        `(batch, *space)`.

    Example:
        >>> truth, right = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.9, 0.2], [0.8, 0.3]]])
        >>> log_likelihood(truth.log(), right.log(), "joint").exp()  # 0.9 * 0.8
        tensor([0.7200])
    """
    if form == "joint":
        likelihood = torch.logsumexp(log_truth + log_column.sum(1), 1)
        if labels is not None:
            likelihood = likelihood.masked_fill((labels == MISSING).all(1), 0)
        return likelihood
    if form == "marginal":
        of_raters = torch.logsumexp(log_truth.unsqueeze(1) + log_column, 2)
        if labels is not None:
            of_raters = of_raters.masked_fill(labels == MISSING, 0)
        return of_raters.sum(1)
    raise RatersError(f"found the likelihood {form!r}, expected one of {', '.join(FORMS)}")


def negative_log_likelihood(
    log_truth: Tensor,
    log_column: Tensor,
    labels: Tensor,
    form: Form = "joint",
    weights: Tensor | None = None,
) -> Tensor:
    """Average the negative log-likelihood over the observed labels, `(batch, raters, *space)`.

    It is 0 for identity matrices and a one-hot truth that all raters agree with. global-cm's
    listing sums the cross entropy over raters and averages over images: with R labels per image
    that is R times this.

    Args:
        log_truth: As of `log_likelihood`.
        log_column: As of `log_likelihood`.
        labels: The labels; MISSING where a rater gave none.
        form: 'joint' or 'marginal'.
        weights: A weight of each pixel `(batch, *space)`, such as those of `pixel_weights`.
    """
    total, count = sum_and_count(log_truth, log_column, labels, form, weights)
    return total / count.clamp(min=1)


def sum_and_count(
    log_truth: Tensor,
    log_column: Tensor,
    labels: Tensor,
    form: Form = "joint",
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the summed negative log-likelihood and the number of observed labels.

    Both are sums over the batch, so that batches and processes can be added before they are
    divided: labels may be missing unevenly.
    """
    likelihood = log_likelihood(log_truth, log_column, form, labels)
    if weights is not None:
        likelihood = likelihood * weights
    return -likelihood.sum(), (labels != MISSING).sum()


def posterior(log_truth: Tensor, log_column: Tensor) -> Tensor:
    r"""Return the truth after image and labels were seen, `(batch, classes, *space)`.

    .. math:: p(t \mid x, o) \propto p(t \mid x) \prod_r C_r[t, o_r]

    Example:
        >>> prior, column = torch.tensor([[0.5, 0.5]]), torch.tensor([[[0.9, 0.3]]])
        >>> posterior(prior.log(), column.log())
        tensor([[0.7500, 0.2500]])
    """
    return torch.softmax(log_truth + log_column.sum(1), 1)


def pixel_weights(labels: Tensor, class_weights: Tensor) -> Tensor:
    """Average the weights of the classes that raters gave to a pixel, `(batch, *space)`.

    Args:
        labels: `(batch, raters, *space)`, with MISSING.
        class_weights: A weight of each class, `(classes,)`, or of each rater's classes,
            `(raters, classes)`.

    Example:
        >>> pixel_weights(torch.tensor([[[1, 0], [1, -1], [0, -1]]]), torch.tensor([1.0, 4.0]))
        tensor([[3., 1.]])
    """
    observed = labels != MISSING
    said = labels.clamp(min=0).long()
    if class_weights.ndim == 2:
        rater = torch.arange(labels.shape[1], device=labels.device)
        chosen = class_weights[rater.view(-1, *(1,) * (labels.ndim - 2)), said] * observed
    else:
        chosen = class_weights[said] * observed
    return chosen.sum(1) / observed.sum(1).clamp(min=1)


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
