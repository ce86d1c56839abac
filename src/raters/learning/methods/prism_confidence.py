"""Confidences of `prism`: how a recurrence starts, what DivP's maps mean, and fusion by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.learning.methods.phases import generator_of
from raters.learning.rater_models.confidence import (
    LEAST,
    SharesThrough,
    VotesThrough,
    bayes,
    said_of,
    thresholded,
    weights,
    with_rest,
    y_self,
)
from raters.learning.rater_models.start import RIGHT, near_identity_logits

By = Literal["bayes", "weights"]

LOWEST = 0.1
HIGHEST = 0.9
SPREAD = 0.2
"""Of equation 14: the mean confidence of a rater is uniform between the first two, and varies
over pixels and classes by the third (a standard deviation)."""

EVEN = 0.5
"""The confidence in every rater that a prediction starts with: the mean of those drawn."""

SEEN = 100
"""Labels that the best rater is taken to have been right in: nobody is sure never to err."""


class Diverged(NamedTuple):
    """What DivP makes of a truth.

    Attributes:
        said: What each rater would say, `(batch, raters, L, *space)`.
        log_matrix: The raters' matrices, `log C[k, t]`, `(batch, raters, L, L, *space)`; None
            where labels are fused by `weights`.
    """

    said: Tensor
    log_matrix: Tensor | None

    @property
    def confidence(self) -> Tensor:
        """What ConP is given next, from 0 to 1, `(batch, raters, L, *space)`."""
        return self.said if self.log_matrix is None else skill_of(self.log_matrix)

    def trust(self, truth: Tensor, labelled: Tensor) -> Tensor:
        r"""Return the trust in each rater at each pixel, `(batch, raters, *space)`.

        .. math:: \sum_k \tilde y_k C^m[k, k], \quad \text{weights:} \quad
                  \sum_k \tilde y_k \tilde z^m_k / \sum_j \tilde z^j_k

        Args:
            truth: `(batch, L, *space)`.
            labelled: Who labelled anything, `(raters,)`; the others share in nothing: NaN.
        """
        if self.log_matrix is None:
            all_said = self.said[:, labelled].sum(1, keepdim=True)
            each = self.said / all_said.clamp(min=LEAST)
        else:
            each = self.log_matrix.diagonal(dim1=2, dim2=3).movedim(-1, 2).exp()
        found: Tensor = (truth.unsqueeze(1) * each).sum(2)
        found[:, ~labelled] = torch.nan
        return found

    def fused(self, labels: Tensor, log_prior: Tensor | None = None) -> Tensor:
        """Fuse labels `(batch, raters, *space)`; 'weights' knows no prior but where none is."""
        if self.log_matrix is not None:
            return bayes(self.log_matrix, labels, log_prior)
        found = weights(self.said, labels)
        if log_prior is None:
            return found
        return torch.where(known_pixels(labels).unsqueeze(1), found, log_prior.exp())

    def self_fused(self, labelled: Tensor) -> Tensor:
        """Fuse what raters would say, of those who labelled anything `(raters,)`."""
        there = torch.where(labelled, 0, MISSING).view(1, -1, *(1,) * (self.said.ndim - 3))
        return y_self(self.said, self.log_matrix, there)

    def shuffled(self, order: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return two fusions, each rater's by the confidence of another rater.

        The first is of labels; the second, as a logarithm, of what raters would say where they
        labelled. Only the second has a gradient, that of the votes, which goes through to what is
        said. Confidences are taken as given: no gradient goes to them. Where they are weights, one
        vote more says all classes alike, so that none has a logarithm of 0.

        Args:
            order: Whose confidence each rater gets, `(orders, batch, raters)`.
            labels: `(batch, raters, *space)`, with MISSING.

        Returns:
            Both `(orders, batch, L, *space)`.
        """
        if self.log_matrix is not None:
            return self._by_matrices(self.log_matrix.detach(), order, labels)
        told, thought, votes = SharesThrough.apply(self.said, order, labels)  # type: ignore[no-untyped-call]
        number = (labels != MISSING).sum(1, keepdim=True)
        return _with_vote(told.detach(), number), _with_vote(thought, votes).log()

    def _by_matrices(self, given: Tensor, order: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        labelled = labels != MISSING
        found = []
        votes = thresholded(self.said).masked_fill_(~labelled, MISSING)
        for said, each in ((self.said.detach(), labels), (self.said, votes)):
            logits = [VotesThrough.apply(said, given, o, each, labelled) for o in order]  # type: ignore[no-untyped-call]
            found.append(torch.stack(logits))
        return found[0].softmax(2), found[1].log_softmax(2)


def _with_vote(front: Tensor, votes: Tensor) -> Tensor:
    """Return the fusion by shares `(orders, batch, L - 1, *space)` with one vote more.

    Args:
        front: What classes get of one.
        votes: How many votes there are, `(batch, 1, *space)`.
    """
    found = with_rest(front.flatten(0, 1))
    found = found.view(*front.shape[:2], *found.shape[1:])
    part = 1 / (votes + 1)
    return torch.addcmul(part / found.shape[2], found, 1 - part)


def diverged(truth: Tensor, logits: Tensor, by: By) -> Diverged:
    r"""Read DivP's maps.

    .. math:: C^m = \mathrm{softmax}_t(\text{start} + h^m), \;
              \tilde z^m_t = \sum_k \tilde y_k C^m[k, t], \quad \text{weights:} \;
              \tilde z^m = \mathrm{softmax}(\log \tilde y + h^m)

    Args:
        truth: `(batch, L, *space)`.
        logits: h, `(batch, raters, L * L or L, *space)`.
        by: How labels are fused.
    """
    classes = truth.shape[1]
    if by == "weights":
        return Diverged((truth.clamp(min=LEAST).log().unsqueeze(1) + logits).softmax(2), None)
    start = near_identity_logits(classes, RIGHT).to(logits)
    start = start.view(classes, classes, *(1,) * (truth.ndim - 2))
    rows = logits.view(*logits.shape[:2], classes, classes, *logits.shape[3:])
    log_matrix = (rows + start).log_softmax(3)
    return Diverged(said_of(truth, log_matrix), log_matrix)


def started(confidence: Tensor, labels: Tensor, by: By) -> Tensor:
    """Fuse labels by the confidences that a recurrence starts with (equation 15).

    Args:
        confidence: From 0 to 1, `(batch, raters, L, *space)`.
        labels: `(batch, raters, *space)`, with MISSING.
        by: How labels are fused.
    """
    return weights(confidence, labels) if by == "weights" else bayes(skilled(confidence), labels)


def draw_confidence(shape: Sequence[int], seed: int, epoch: int, case: int) -> Tensor:
    r"""Draw the confidences that the recurrences of a case start with (equation 14).

    .. math:: [\psi^m + \varepsilon^m]_0^1, \quad \psi^m \sim U(0.1, 0.9), \;
              \varepsilon^m \sim N(0, 0.2^2)

    Args:
        shape: `(raters, L, *space)`.
        seed: Of the run.
        epoch: From 0.
        case: The position of the case in the study.

    Example:
        >>> found = draw_confidence((2, 3, 8, 8), seed=0, epoch=0, case=7)
        >>> bool((found >= 0).all() and (found <= 1).all()), found.mean((1, 2, 3)).unique().numel()
        (True, 2)
    """
    generator = generator_of("prism", seed, epoch, case)
    mean = LOWEST + (HIGHEST - LOWEST) * torch.rand(shape[0], generator=generator)
    noise = SPREAD * torch.randn(*shape, generator=generator)
    return (mean.view(-1, *(1,) * (len(shape) - 1)) + noise).clamp(0, 1)


def confidence_of(given: Tensor, labelled: Tensor) -> Tensor:
    """Return the confidence in each rater that a weighting means, `(raters,)`.

    Equal weights are `EVEN` each, what a prediction starts with; double the weight is double the
    confidence, from the lowest mean that is drawn in training to the highest: ConP was never shown
    a rater of no confidence at all.

    Args:
        given: Weights that sum to one, `(raters,)`.
        labelled: Who labelled anything and may have a weight, of the same shape.

    Example:
        >>> both = torch.tensor([True, True])
        >>> confidence_of(torch.tensor([0.25, 0.75]), both)
        tensor([0.2500, 0.7500])
        >>> confidence_of(torch.tensor([0.0, 1.0]), both)
        tensor([0.1000, 0.9000])
    """
    return (EVEN * labelled.sum() * given).clamp(LOWEST, HIGHEST)


def draw_order(there: Tensor, shuffles: int, seed: int, epoch: int, case: int) -> Tensor:
    """Draw permutations of the raters who labelled a case; the others stay where they are.

    Args:
        there: Who labelled anything of it, `(raters,)`.
        shuffles: How many to draw.
        seed: Of the run.
        epoch: From 0.
        case: The position of the case in the study.

    Returns:
        `(shuffles, raters)`.

    Example:
        >>> draw_order(torch.tensor([True, False, True]), 1, 0, 0, 0)[0, 1]
        tensor(1)
    """
    generator = generator_of("order", seed, epoch, case)
    order = torch.arange(len(there)).repeat(shuffles, 1)
    own = there.nonzero()[:, 0]
    for row in order:
        row[own] = own[torch.randperm(len(own), generator=generator)]
    return order


def known_pixels(labels: Tensor) -> Tensor:
    """Return where anyone labelled, `(batch, *space)`.

    Example:
        >>> known_pixels(torch.tensor([[[1, -1], [-1, -1]]]))
        tensor([[ True, False]])
    """
    return (labels != MISSING).any(1)


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
    """Return how far raters are above chance in each class: `skilled` the other way round.

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
