"""Fusion by confidences that vary over pixels, of labels and of what raters would say.

J. Wu et al., Multi-rater prism: learning self-calibrated medical image segmentation from multiple
raters, 2022 (equations 4, 5 and 14, proposition 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from raters.rater_models.columns import label_index
from raters.rater_models.likelihood import posterior
from raters.study.classes import MISSING

LEAST = 1e-6
"""Of a probability whose logarithm is taken."""

_ROUNDED = 1e-5  # how far shares that add up to one may be above it

SEEN = 100
"""Labels that the best rater is taken to have been right in: nobody is known to be without error."""


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
        ctx: Any,  # noqa: ANN401
        said: Tensor,
        log_matrix: Tensor,
        order: Tensor,
        votes: Tensor,
        there: Tensor,
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
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
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

    The counterpart of `VotesThrough` for `weights`: of each class but the background,
    :math:`\sum_m v^m_k c^{j(m)}_k / \sum_m c^{j(m)}_k`, with :math:`\tilde z` as the confidences.
    Beside them nothing of their size is kept.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        said: Tensor,
        order: Tensor,
        votes: Tensor,
        there: Tensor,
    ) -> Tensor:
        """Return what classes get, `(batch, L - 1, *space)`; arguments are as of `VotesThrough`."""
        batch = torch.arange(len(order), device=order.device)[:, None]
        moved = votes[batch, order.argsort(1)]
        counts, parts, totals = moved != MISSING, [], []
        for k in range(1, said.shape[2]):
            own = said[:, :, k] + LEAST
            parts.append((own * (moved == k)).sum(1))
            totals.append((own * counts).sum(1))
        total = torch.stack(totals, 1).clamp(min=LEAST)
        ctx.save_for_backward(said, order, there & (votes != MISSING), total)
        return torch.stack(parts, 1) / total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradient of the votes as that of what was said."""
        said, order, there, total = ctx.saved_tensors
        batch = torch.arange(len(order), device=order.device)[:, None]
        slope = (gradients[0] / total).unsqueeze(1) * there.unsqueeze(2)
        found = torch.zeros_like(said)
        found[:, :, 1:] = (said[batch, order, 1:] + LEAST).mul_(slope)
        return found, None, None, None


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
    there = (labels != MISSING).unsqueeze(2)
    share = (confidence[:, :, 1:] + LEAST) * there
    share = share / share.sum(1, keepdim=True).clamp(min=LEAST)
    found = with_rest((share * votes_of(labels, confidence.shape[2])[:, :, 1:]).sum(1))
    return torch.where(there.any(1), found, 1 / found.shape[1])


def with_rest(front: Tensor) -> Tensor:
    """Put the background before what other classes get, `(batch, L - 1, *space)`.

    Example:
        >>> with_rest(torch.tensor([[0.2, 0.3], [1.0, 1.0]]))
        tensor([[0.5000, 0.2000, 0.3000],
                [0.0000, 0.5000, 0.5000]])
    """
    total = front.sum(1, keepdim=True)
    front = torch.where(total > 1 + _ROUNDED, front / total.clamp(min=1), front)
    rest = 1 - front.sum(1, keepdim=True)
    # A clamp would cut the gradient of a background that nobody votes for.
    rest = rest + (rest.clamp(min=0) - rest).detach()
    return torch.cat([rest, front], 1)


def votes_of(labels: Tensor, num_classes: int) -> Tensor:
    """Return one for each label, `(batch, raters, L, *space)`; zeros where it is MISSING.

    Example:
        >>> votes_of(torch.tensor([[1, -1]]), 2)
        tensor([[[False,  True],
                 [False, False]]])
    """
    every = torch.arange(num_classes, device=labels.device)
    return labels.unsqueeze(2) == every.view(-1, *(1,) * (labels.ndim - 2))


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
    most, label = said.detach().max(2)
    return label.masked_fill(most <= 0.5, MISSING)


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


def skilled(skill: Tensor) -> Tensor:
    r"""Return matrices of raters who are so far above chance, `log C[k, t]`.

    .. math:: C[k, k] = \tfrac1L + (1 - \tfrac1L) s_k, \quad
              C[k, t] = \frac{1 - C[k, k]}{L - 1}

    Nobody is below chance: with the skill itself on the diagonal, a rater of 0.1 with two classes
    would be believed to mean the contrary. And nobody is believed without limit: a skill of 1 is
    that of a rater who was right in all of `SEEN` labels, with one label more of each class,
    :math:`C[k, k] = (n + 1) / (n + L)`.

    Args:
        skill: s, from 0 (guesses) to 1 (always right), `(batch, raters, L, *space)`.

    Example:
        >>> skilled(torch.tensor([[[0.0, 0.8]]])).exp()
        tensor([[[[0.5000, 0.5000],
                  [0.1000, 0.9000]]]])
    """
    classes = skill.shape[2]
    skill = skill.clamp(max=SEEN / (SEEN + classes))
    right = (1 / classes + (1 - 1 / classes) * skill).unsqueeze(3)
    wrong = (1 - right) / (classes - 1)
    eye = torch.eye(classes, dtype=torch.bool, device=skill.device)
    eye = eye.view(classes, classes, *(1,) * (skill.ndim - 3))
    return torch.where(eye, right, wrong).log()


def skill_of(log_matrix: Tensor) -> Tensor:
    """Return how far raters are above chance in each class: the inverse of `skilled`, below its cap.

    Args:
        log_matrix: `(batch, raters, L, L, *space)`.

    Returns:
        From 0 to 1, `(batch, raters, L, *space)`.

    Example:
        >>> skill_of(skilled(torch.tensor([[[0.0, 0.8]]])))
        tensor([[[0.0000, 0.8000]]])
    """
    classes = log_matrix.shape[2]
    right = log_matrix.diagonal(dim1=2, dim2=3).movedim(-1, 2).exp()
    return ((right - 1 / classes) / (1 - 1 / classes)).clamp(0, 1)
