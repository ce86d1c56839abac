"""Fusion by confidences that vary over pixels, of labels and of what raters would say.

J. Wu et al., Multi-rater prism: learning self-calibrated medical image segmentation from multiple
raters, 2022 (equations 4, 5 and 14, proposition 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.learning.rater_models.columns import Context, label_index
from raters.learning.rater_models.likelihood import posterior

LEAST = 1e-6
"""Of a probability whose logarithm is taken."""

_ROUNDED = 1e-5  # how far shares that add up to one may be above it


def bayes(log_matrix: Tensor, labels: Tensor, log_prior: Tensor | None = None) -> Tensor:
    r"""Fuse labels by matrices: the posterior of the joint likelihood (proposition 4).

    .. math:: y_k \propto p_k \prod_m P(z^m \mid y = k) = p_k \prod_m C^m[k, z^m]

    Args:
        log_matrix: `log C[k, t]`, `(batch, raters, L, L, *space)`.
        labels: `(batch, raters, *space)`, with MISSING, which says nothing.
        log_prior: `log p_k`, `(batch, L, *space)`; by default all classes are alike.

    Returns:
        `(batch, L, *space)`.

    Example:
        >>> right = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().expand(1, 3, 2, 2)
        >>> bayes(right, torch.tensor([[1, 1, 1]])), bayes(right, torch.tensor([[1, 0, -1]]))
        (tensor([[0.0014, 0.9986]]), tensor([[0.5000, 0.5000]]))
    """
    column = columns_at(log_matrix, labels)
    prior = column.new_zeros(()) if log_prior is None else log_prior
    return posterior(prior, column)


def columns_at(log_matrix: Tensor, labels: Tensor) -> Tensor:
    """Return `log C[k, t]` at the labels t, `(batch, raters, L, *space)`; zeros where MISSING.

    Rows are normalised already; of logits, `pixel_columns` is the cheaper way.
    """
    index = label_index(labels, log_matrix.shape[2])
    found = log_matrix.gather(3, index).squeeze(3)
    return found.masked_fill((labels == MISSING).unsqueeze(2), 0)


class VotesThrough(torch.autograd.Function):
    r"""Adds up columns by other raters' matrices; the gradient goes through to what was said.

    The logits are :math:`\sum_m \sum_t \log C^{j(m)}[k, t] v^m_t` with votes v that are
    thresholded from :math:`\tilde z`. A threshold has no gradient: the votes' own,
    :math:`\sum_k g_k \log C^{j(m)}[k, t]`, is taken for that of :math:`\tilde z` (straight
    through). Matrices get none. All labels are moved, no matrix is.
    """

    @staticmethod
    def forward(
        ctx: Context, said: Tensor, log_matrix: Tensor, order: Tensor, votes: Tensor, there: Tensor
    ) -> Tensor:
        """Return logits `(batch, L, *space)`.

        Args:
            ctx: Of autograd.
            said: What raters would say, `(batch, raters, L, *space)`; only its gradient matters.
            log_matrix: `(batch, raters, L, L, *space)`.
            order: Whose matrix each rater gets, `(batch, raters)`.
            votes: Classes, `(batch, raters, *space)`; MISSING where no class is above one half.
            there: Where raters labelled, and a vote might be, of the same shape.
        """
        batch = torch.arange(len(order), device=order.device)[:, None]
        ctx.save_for_backward(log_matrix, order, there)
        ctx.kind = said.dtype
        return columns_at(log_matrix, votes[batch, order.argsort(1)]).sum(1)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the votes as that of what was said."""
        log_matrix, order, there = ctx.saved_tensors
        (gradient,) = gradients
        total = log_matrix[:, :, 0] * gradient[:, None, :1]
        for k in range(1, log_matrix.shape[2]):
            total.addcmul_(log_matrix[:, :, k], gradient[:, None, k : k + 1])
        batch = torch.arange(len(order), device=order.device)[:, None]
        found = total[batch, order] * there.unsqueeze(2)
        return found.to(ctx.kind), None, None, None, None


class SharesThrough(torch.autograd.Function):
    r"""Adds up shares of other raters' confidences; the gradient goes through to what was said.

    The counterpart of `VotesThrough` for `weights`, and for several orders at once: of each class
    but the background, :math:`\sum_m v^m_k c^{j(m)}_k / \sum_m c^{j(m)}_k`, with
    :math:`\tilde z` as the confidences. Beside them nothing of their size is kept.
    """

    @staticmethod
    def forward(
        ctx: Context, said: Tensor, order: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what classes get of labels and of what is said, and who of the latter voted.

        Args:
            ctx: Of autograd.
            said: What raters would say, `(batch, raters, L, *space)`, which are the confidences.
            order: Whose confidence each rater gets, `(orders, batch, raters)`.
            labels: Classes, `(batch, raters, *space)`, with MISSING.

        Returns:
            Twice `(orders, batch, L - 1, *space)`, of which the second has a gradient; and how
            many votes there are in it, `(batch, 1, *space)`.
        """
        given = foreground_of(labels, said)
        above = (said > 0.5).to(said.dtype).mul_(given.there)  # one class at most: `thresholded`
        votes = Foreground(above[:, :, 1:], above.sum(2, keepdim=True))
        front = said[:, :, 1:] + LEAST
        found = []
        thought = []
        totals = []
        for each in order:
            moved = _others(front, each)
            found.append(_shares(moved, given)[0])
            share, total = _shares(moved, votes)
            thought.append(share)
            totals.append(total)
        ctx.save_for_backward(front, order, votes.there, torch.stack(totals))
        number = votes.there.sum(1)
        ctx.mark_non_differentiable(number)
        return torch.stack(found), torch.stack(thought), number

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the votes as that of what was said."""
        front, order, there, totals = ctx.saved_tensors
        batch, raters, classes, *space = front.shape
        found = front.new_zeros(batch, raters, classes + 1, *space)
        for each, slope in zip(order, gradients[1] / totals, strict=True):
            for m, own in enumerate(_others(front, each)):
                found[:, m, 1:].addcmul_(own, slope)
        found *= there
        return found, None, None


class Shares(torch.autograd.Function):
    """Adds up shares of the raters' confidences: `weights` before the background has its rest."""

    @staticmethod
    def forward(ctx: Context, confidence: Tensor, marked: Tensor, there: Tensor) -> Tensor:
        """Return what classes get, `(batch, L - 1, *space)`."""
        front = confidence[:, :, 1:] + LEAST
        found, total = _shares(front.unbind(1), Foreground(marked, there))
        ctx.save_for_backward(marked, there, found, total)
        return found

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the confidences."""
        marked, there, share, total = ctx.saved_tensors
        slope = gradients[0] / total
        batch, raters, classes, *space = marked.shape
        found = marked.new_zeros(batch, raters, classes + 1, *space)
        found[:, :, 1:] = marked
        front = found[:, :, 1:].addcmul_(there, share.unsqueeze(1), value=-1)
        front *= slope.unsqueeze(1)
        return found, None, None


class Foreground(NamedTuple):
    """Labels as numbers to multiply with.

    Attributes:
        marked: 1 where a rater says a class but the background, `(batch, raters, L - 1, *space)`.
        there: 1 where a rater says any class, `(batch, raters, 1, *space)`.
    """

    marked: Tensor
    there: Tensor


def foreground_of(labels: Tensor, like: Tensor) -> Foreground:
    """Return where raters mark each class but the background.

    Args:
        labels: `(batch, raters, *space)`, with MISSING.
        like: `(batch, raters, L, *space)`, whose type and number of classes are taken.

    Example:
        >>> foreground_of(torch.tensor([[1, 0, -1]]), torch.zeros(1, 3, 2))
        Foreground(marked=tensor([[[1.],
                 [0.],
                 [0.]]]), there=tensor([[[1.],
                 [1.],
                 [0.]]]))
    """
    marked = like.new_empty(*labels.shape[:2], like.shape[2] - 1, *labels.shape[2:])
    for k in range(1, like.shape[2]):  # a fifth of the time of all classes at once
        marked[:, :, k - 1] = labels == k
    return Foreground(marked, (labels != MISSING).unsqueeze(2).to(like.dtype))


def _others(front: Tensor, order: Tensor) -> list[Tensor]:
    """Return the confidences of those whom each rater gets them of, rater by rater."""
    first = torch.arange(len(front), device=order.device) * front.shape[1]
    every = front.flatten(0, 1)  # whole rows are copied faster than by two indices
    return [every.index_select(0, first + whose) for whose in order.unbind(1)]


def _shares(confidence: Sequence[Tensor], marks: Foreground) -> tuple[Tensor, Tensor]:
    """Return what classes get, and what all raters have together, `(batch, L - 1, *space)`.

    Sums go rater by rater: products with all at once are memory that is written and read again.
    """
    part = torch.zeros_like(marks.marked[:, 0])
    total = torch.zeros_like(part)
    each = zip(confidence, marks.marked.unbind(1), marks.there.unbind(1), strict=True)
    for own, marked, there in each:
        part.addcmul_(own, marked)
        total.addcmul_(own, there)
    total.clamp_(min=LEAST)
    return part.div_(total), total


def weights(confidence: Tensor, labels: Tensor) -> Tensor:
    r"""Fuse labels after the authors' code: a mean of masks, weighted by normalised confidences.

    .. math:: y_k = \sum_m \frac{c^m_k}{\sum_j c^j_k} [z^m = k], \quad y_0 = 1 - \sum_{k > 0} y_k

    with the sum over the raters j who labelled the pixel. Only masks of the foreground are
    averaged: with a background of its own, heads that know their raters (:math:`c^m_k = [z^m = k]`)
    would give each class that anyone names a full vote, a tie. Classes that get more than one
    together share it.

    Args:
        confidence: `c`, `(batch, raters, L, *space)`, at least 0.
        labels: `(batch, raters, *space)`, with MISSING, which has no weight.

    Returns:
        `(batch, L, *space)`; classes are alike where nobody labelled.

    Example:
        >>> trusted = torch.tensor([[[0.6, 0.6], [0.2, 0.2], [0.9, 0.9]]])
        >>> weights(trusted, torch.tensor([[1, 0, -1]]))
        tensor([[0.2500, 0.7500]])
    """
    marks = foreground_of(labels, confidence)
    found = with_rest(Shares.apply(confidence, *marks))  # type: ignore[no-untyped-call]
    known = marks.there.any(1)
    return found if known.all() else torch.where(known, found, 1 / found.shape[1])


def with_rest(front: Tensor) -> Tensor:
    """Put the background before what other classes get, `(batch, L - 1, *space)`.

    Example:
        >>> with_rest(torch.tensor([[0.2, 0.3], [1.0, 1.0]]))
        tensor([[0.5000, 0.2000, 0.3000],
                [0.0000, 0.5000, 0.5000]])
    """
    total = front.sum(1, keepdim=True)
    more = total > 1 + _ROUNDED
    if more.any():
        front = torch.where(more, front / total.clamp(min=1), front)
        total = torch.where(more, 1, total)
    # A clamp would cut the gradient of a background that nobody votes for.
    rest = 1 - total + (total.detach() - 1).clamp(min=0)
    return torch.cat([rest, front], 1)


def said_of(truth: Tensor, log_matrix: Tensor) -> Tensor:
    r"""Return what raters would say of a truth, `(batch, raters, L, *space)`.

    .. math:: \tilde z^m_t = \sum_k \tilde y_k C^m[k, t]

    Args:
        truth: `(batch, L, *space)`.
        log_matrix: `log C[k, t]`, `(batch, raters, L, L, *space)`.

    Example:
        >>> matrix = torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log()[None, None]
        >>> said_of(torch.tensor([[0.5, 0.5]]), matrix)
        tensor([[[0.6500, 0.3500]]])
    """
    return (truth.unsqueeze(1).unsqueeze(3) * log_matrix.exp()).sum(2)


def thresholded(said: Tensor) -> Tensor:
    """Return the class above one half, `(batch, raters, *space)`; MISSING where there is none.

    Example:
        >>> thresholded(torch.tensor([[[0.2, 0.5, 0.3], [0.1, 0.6, 0.3]]]))
        tensor([[-1,  1]])
    """
    above = said.detach() > 0.5  # of one class at most
    label = torch.full(above[:, :, 0].shape, MISSING, device=said.device)
    for k in range(above.shape[2]):
        label.masked_fill_(above[:, :, k], k)
    return label


def y_self(said: Tensor, log_matrix: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
    """Fuse what raters are thought to say, instead of what they said (equation 5).

    Args:
        said: What each would say, `(batch, raters, L, *space)`.
        log_matrix: With it the fusion is `bayes`, else `weights` with `said` as the confidences.
        labels: With them, only labels that are not MISSING there count: the same as in the fusion
            of the labels themselves.

    Example:
        >>> said = torch.tensor([[[0.3, 0.7], [0.1, 0.9]]])
        >>> y_self(said, torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().expand(1, 2, 2, 2))
        tensor([[0.0122, 0.9878]])
    """
    thought = thresholded(said)
    if labels is not None:
        thought = thought.masked_fill(labels == MISSING, MISSING)
    return weights(said, thought) if log_matrix is None else bayes(log_matrix, thought)


def by_layer(
    fuse: Callable[[Tensor, Tensor], Tensor], confidence: Tensor, labels: Tensor
) -> Tensor:
    """Fuse labels that may overlap (disc and cup), each structure by itself.

    Args:
        fuse: `bayes` or `weights`.
        confidence: What it takes, with an axis of structures behind that of raters:
            `(batch, raters, structures, ...)`, of the two classes 'not there' and 'there'.
        labels: 0, 1 or MISSING, `(batch, raters, structures, *space)`.

    Returns:
        How likely each structure is there, `(batch, structures, *space)`.

    Example:
        >>> right = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().expand(1, 2, 2, 2, 2)
        >>> by_layer(bayes, right, torch.tensor([[[1, 1], [1, 0]]]))  # disc, cup; two raters
        tensor([[0.9878, 0.5000]])
    """
    batch, _, structures = labels.shape[:3]
    parts = (each.transpose(1, 2).flatten(0, 1) for each in (confidence, labels))
    found = fuse(*parts)[:, 1]
    return found.view(batch, structures, *found.shape[1:])
