"""Raters who say which class it is not, and masks that are trusted: matrices on those of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.learning.rater_models.columns import table_columns
from raters.learning.rater_models.confusion import Confusion, PixelConfusion, Seen, SharedConfusion
from raters.learning.rater_models.models import PixelRaters

Excludes = Literal["learnt", "uniform"]
Said = SharedConfusion | PixelConfusion

_ALMOST_NEVER = 1e-4
"""How often a trusted mask is wrong: two that differ would else have no likelihood at all."""


def log_transitions(values: Tensor) -> Tensor:
    r"""Return `log M` of free numbers `(..., L, L)`: rows sum to one, the diagonal is exactly 0.

    .. math:: M[o, q] = \frac{e^{z_{oq}}}{\sum_{q' \ne o} e^{z_{oq'}}}, \quad M[o, o] = 0

    Example:
        >>> log_transitions(torch.zeros(3, 3)).exp()
        tensor([[0.0000, 0.5000, 0.5000],
                [0.5000, 0.0000, 0.5000],
                [0.5000, 0.5000, 0.0000]])
    """
    own = torch.eye(values.shape[-1], dtype=torch.bool, device=values.device)
    return values.masked_fill(own, -torch.inf).log_softmax(-1)


def excluded_columns(said: Said, log_transition: Tensor, labels: Tensor) -> Tensor:
    r"""Return `log (A M)[t, q]` at complementary labels q: how likely 'not q' is if t is true.

    .. math:: \log \sum_o A[t, o] \, M[o, q]

    Only the column of the label is computed.

    Args:
        said: A, what raters would have said as ordinary labels, of n raters.
        log_transition: `log M`, `(n, said, excluded)`.
        labels: Complementary labels `(batch, n, *space)`, with MISSING.

    Returns:
        `(batch, n, true, *space)`; zeros where the label is missing.

    Example:
        >>> a = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
        >>> said = SharedConfusion(a.log()[None, None])
        >>> log_m = log_transitions(torch.zeros(1, 3, 3))
        >>> excluded_columns(said, log_m, torch.tensor([[0]])).exp()
        tensor([[[0.1000, 0.4500, 0.4500]]])
    """
    if isinstance(said, SharedConfusion):
        log_product = torch.logsumexp(said.log_matrix.unsqueeze(4) + log_transition[:, None], 3)
        return table_columns(log_product, labels)
    of_label = table_columns(log_transition[None], labels)
    chosen = torch.logsumexp(said.logits.log_softmax(3) + of_label.unsqueeze(2), 3)
    return chosen.masked_fill((labels == MISSING).unsqueeze(2), 0)


@dataclass(frozen=True)
class ComplementConfusion:
    """Matrices of raters of whom some say which class it is not.

    Labels of these are explained by `A M`: A is what they would have said as an ordinary label, M
    what they then exclude. Diagonals, means and matrices are those of A.

    Attributes:
        said: A of all raters.
        log_transition: `log M` of all raters, `(raters, said, excluded)`.
        negative: The positions of the raters whose labels are complementary, `(n,)`.

    Example:
        >>> exact = SharedConfusion(torch.eye(3).log()[None, None])
        >>> log_m = log_transitions(torch.zeros(2, 3, 3))
        >>> both = ComplementConfusion(exact, log_m, torch.tensor([1]))
        >>> both.see(torch.tensor([[0, 2]])).log_column.exp()  # 'it is 0', 'it is not 2'
        tensor([[[1.0000, 0.0000, 0.0000],
                 [0.5000, 0.5000, 0.0000]]])
    """

    said: Said
    log_transition: Tensor
    negative: Tensor

    def see(self, labels: Tensor, raters: Tensor | None = None) -> Seen:
        """Return the columns of the labels, and the diagonals and distances of A."""
        assert raters is None  # masks: answer k is of rater k
        seen = self.said.see(labels)
        own = excluded_columns(
            _of_raters(self.said, self.negative),
            self.log_transition[self.negative],
            labels[:, self.negative],
        )
        return seen._replace(log_column=seen.log_column.index_copy(1, self.negative, own))

    def matrix(self) -> Tensor:
        """Write out A."""
        return self.said.matrix()

    def as_rater(self, truth: Tensor, rater: int) -> Tensor:
        """Return what a rater would say; of a negative one, which class it is not."""
        told = self.said.as_rater(truth, rater)
        if rater not in self.negative.tolist():
            return told
        return torch.einsum("bo...,oq->bq...", told, self.log_transition[rater].exp())

    def mean(self, truth: Tensor) -> Tensor:
        """Average A of each rater over the pixels of each true class."""
        return self.said.mean(truth)


def _of_raters(said: Said, places: Tensor) -> Said:
    """Take the matrices of some raters; those that all share stay shared."""
    if isinstance(said, SharedConfusion):
        matrix = said.log_matrix
        return said if matrix.shape[1] == 1 else SharedConfusion(matrix[:, places])
    return PixelConfusion(said.logits[:, places])


class CoarseRaters(PixelRaters):
    r"""Matrices of positive drawings, negative drawings and masks, that vary over pixels.

    A positive drawing is an ordinary rater of `PixelRaters`. A negative one of more than two
    classes has complementary labels, which `A M` explains, with one M of each rater for all pixels.
    Both A and M of such a rater cannot be found from labels, only their product: A is therefore
    drawn to the identity, never to the rater's own mean, and M is learnt while A is held, too.

    Who only ever says one class (`hold`) keeps the A of the start: 'says it whatever is true' would
    explain all of their labels, and leave the truth open.

    Zhang et al., Emerging semantic segmentation from positive and negative coarse label learning,
    2025 (equations 4 and 5); M as in Yu et al., Learning with biased complementary labels, ECCV
    2018.

    Args:
        raters: Number of raters.
        num_classes: Number of classes.
        features: Channels of the truth network's features.
        spatial_dims: Spatial axes of the labels.
        negative: Positions of the raters whose labels are complementary.
        trusted: Positions of the raters whose matrix is the identity.
        excludes: Whether M is 'learnt', from uniform, or stays 'uniform' off its diagonal.
        more: As for `PixelRaters`.

    Example:
        >>> raters = CoarseRaters(2, 3, features=8, spatial_dims=2, negative=[1])
        >>> raters.transition()[1]
        tensor([[0.0000, 0.5000, 0.5000],
                [0.5000, 0.0000, 0.5000],
                [0.5000, 0.5000, 0.0000]], grad_fn=<SelectBackward0>)
    """

    negative: Tensor
    trusted: Tensor
    one_sided: Tensor
    choice: Tensor

    def __init__(
        self,
        raters: int,
        num_classes: int,
        features: int,
        spatial_dims: int,
        negative: Sequence[int] = (),
        trusted: Sequence[int] = (),
        excludes: Excludes = "learnt",
        **more: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(raters, num_classes, features, spatial_dims, **more)
        self.has_negative = bool(negative)
        self.has_trusted = bool(trusted)
        self.register_buffer("negative", torch.tensor(negative, dtype=torch.long), False)
        self.register_buffer("trusted", _flags(raters, trusted), False)
        self.register_buffer("one_sided", _flags(raters, ()))
        # To ask the flags themselves in each step would wait for the GPU.
        self.has_one_sided = False
        self.register_load_state_dict_post_hook(_note_one_sided)  # type: ignore[no-untyped-call]
        # One of each rater, so that raters can be added, whatever they draw.
        free = torch.zeros(raters, num_classes, num_classes)
        if excludes == "learnt" and negative:
            self.choice = nn.Parameter(free)
        else:  # what gets no gradient is no parameter
            self.register_buffer("choice", free)

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the free numbers of M, if it is learnt."""
        return [self.choice] if isinstance(self.choice, nn.Parameter) else []

    def hold(self, one_sided: Sequence[int]) -> None:
        """Keep A of some raters at its start for good."""
        self.one_sided.copy_(_flags(self.raters, one_sided))
        self.has_one_sided = bool(one_sided)

    def transition(self) -> Tensor:
        """Return M of all raters, `(raters, said, excluded)`."""
        return log_transitions(self.choice).exp()

    def _common(self) -> Tensor | None:
        common = super()._common()
        if common is None or not self.has_negative:
            return common
        near = self.start.log_softmax(1).expand(self.raters, -1, -1)
        return common.expand_as(near).index_copy(0, self.negative, near[self.negative])

    def forward(self, features: Tensor, cases: Tensor | None = None) -> Confusion:
        """Return the matrices."""
        found = super().forward(features, cases)
        assert isinstance(found, SharedConfusion | PixelConfusion)
        said = self._with_known(found) if self.has_trusted or self.has_one_sided else found
        if not self.has_negative:
            return said
        return ComplementConfusion(said, log_transitions(self.choice), self.negative)

    def _with_known(self, found: Said) -> Said:
        """Put in the matrices that are not learnt."""
        size = self.classes
        start = self.start.log_softmax(1)
        sure = torch.full((size, size), _ALMOST_NEVER, device=self.trusted.device)
        sure = sure.fill_diagonal_(1 - (size - 1) * _ALMOST_NEVER).log()
        known = torch.where(self.trusted[:, None, None], sure, start)  # `(raters, L, L)`
        fixed = (self.trusted | self.one_sided)[:, None, None]
        if isinstance(found, SharedConfusion):
            return SharedConfusion(torch.where(fixed, known, found.log_matrix))
        space = (1,) * (found.logits.ndim - 4)
        fixed, known = (part.view(*part.shape, *space) for part in (fixed, known))
        return PixelConfusion(torch.where(fixed, known, found.logits), found.common)

    def learn(self, confusion: Confusion, truth: Tensor, labels: Tensor, cases: Tensor) -> None:
        """Let each rater's own mean matrix follow what a batch gave."""
        said = confusion.said if isinstance(confusion, ComplementConfusion) else confusion
        super().learn(said, truth, labels, cases)


def _note_one_sided(raters: CoarseRaters, _: object) -> None:
    """Note whether weights that were just loaded hold anybody's matrix."""
    raters.has_one_sided = bool(raters.one_sided.any())


def _flags(number: int, places: Sequence[int]) -> Tensor:
    flags = torch.zeros(number, dtype=torch.bool)
    flags[list(places)] = True
    return flags
