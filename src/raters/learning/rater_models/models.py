"""Rater models: modules that give the matrices of all raters for a batch of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from raters.core.errors import RatersError
from raters.learning.rater_models.confusion import (
    Confusion,
    OwnMatrices,
    PixelConfusion,
    SharedConfusion,
    drawn_places,
)
from raters.learning.rater_models.low_rank import LowRankConfusion, product_of, start_of_low_rank
from raters.learning.rater_models.start import (
    RIGHT,
    Positivity,
    Start,
    constant_head,
    log_positive,
    near_identity_logits,
    pointwise,
    start_values,
    values_of,
)

Compares = Literal["start", "own"]


class RaterModel(nn.Module):
    """Computes the matrices of all raters for a batch.

    Attributes:
        held: Whether the matrices stay at their start (the warm-up): they get no gradient.
        seed: Of the run and the epoch: what is drawn at random depends on it and the case.
    """

    held: bool = False
    seed: tuple[int, ...] = (0, 0)

    @property
    def holds(self) -> bool:
        """Whether a forward pass gives the start: in training, during the warm-up."""
        return self.held and self.training

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of matrices that are nothing but parameters: they learn faster."""
        return []

    def start_at(self, matrices: Tensor) -> None:
        """Let the matrices start at known ones, `(raters, L, L)`, where the model can."""

    def learn(self, confusion: Confusion, truth: Tensor, labels: Tensor, cases: Tensor) -> None:
        """Receive, after a step, the matrices and the truth of the cases of a batch."""

    def look(self, image: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        """Return what `forward` makes matrices of: features of the truth network, or its own.

        Args:
            image: `(batch, channels, *space)`.
            features: Of the truth network.
        """
        return features

    def forward(self, features: Tensor, cases: Tensor | None = None) -> Confusion:
        """Return the matrices.

        Args:
            features: As `look` gives them, `(batch, features, *space)`.
            cases: The positions of the cases in the study, `(batch,)`; for models that need them.
        """
        raise NotImplementedError


class GlobalRaters(RaterModel):
    """One matrix per rater; with one rater, a matrix that all share.

    Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019; a shared matrix: Sukhbaatar et al., Training convolutional networks with noisy
    labels, 2014.

    Args:
        raters: Number of raters.
        num_classes: Number of classes.
        init_accuracy: The diagonal at the start.
        positivity: How entries are made positive, before rows are normalised.
        start: Where matrices start, see `start_values`; the listing of Tanno et al. is
            `positivity='softplus', start='listing'`.

    Example:
        >>> matrices = GlobalRaters(raters=3, num_classes=2, init_accuracy=0.9)
        >>> matrices(torch.zeros(1, 8), torch.zeros(1)).matrix().shape
        torch.Size([1, 3, 2, 2])
    """

    start: Tensor

    def __init__(
        self,
        raters: int,
        num_classes: int,
        init_accuracy: float = RIGHT,
        positivity: Positivity = "softmax",
        start: Start = "accuracy",
    ) -> None:
        super().__init__()
        self.positivity: Positivity = positivity
        values = start_values(num_classes, init_accuracy, positivity, start)
        self.register_buffer("start", values, persistent=False)
        self.logits = nn.Parameter(self.start.repeat(raters, 1, 1))

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the logits of the matrices."""
        return [self.logits]

    @torch.no_grad()
    def start_at(self, matrices: Tensor) -> None:
        """Let the matrices start at known ones; a matrix that all share at their mean."""
        self.logits.copy_(values_of(_shared_by(len(self.logits), matrices), self.positivity))

    def forward(self, features: Tensor, cases: Tensor | None = None) -> SharedConfusion:  # noqa: ARG002
        """Return the matrices, the same for all cases."""
        logits = self.start[None] if self.holds else self.logits
        return SharedConfusion(log_positive(logits, self.positivity).log_softmax(2)[None])


_LEAST = 0.01
"""Entries of known matrices are at least this, so that what was never seen can be learnt."""


def _shared_by(number: int, matrices: Tensor) -> Tensor:
    """Return the matrices of so many raters, kept off zero: the mean one, if all share it."""
    known = matrices if len(matrices) == number else matrices.mean(0, keepdim=True)
    known = known.float().clamp(min=_LEAST)
    return known / known.sum(2, keepdim=True)


class HeadRaters(RaterModel):
    """A linear layer at each pixel: on the truth network's features, or on those of an own network.

    Attributes:
        network: The annotator network of Zhang et al. (2020): it sees the image, and gives features
            and something else; None for the features of the truth network.
    """

    network: nn.Module | None

    def look(self, image: Tensor, features: Tensor) -> Tensor:
        """Return the features that the layer sees."""
        if self.network is None or self.holds:
            return features
        own: Tensor = self.network(image)[0]
        return own


class PixelRaters(HeadRaters):
    """Matrices that vary over pixels: a head on the truth network's features.

    The logits are the rater's own, the same everywhere, plus a deviation that the features give.
    It starts at zero, so that matrices start near the identity. Weight
    decay (of the head as of the network) draws the deviation to zero; of the rater's own logits
    it would draw to chance, but at the usual 1e-4 that is far weaker than any label.

    Args:
        raters: Number of raters; 1 for a head that all share.
        num_classes: Number of classes.
        features: Channels of the truth network's features.
        spatial_dims: Spatial axes of the labels.
        init_accuracy: The diagonal at the start.
        compares: Also measure how far the matrices are from the 'start', or from each rater's
            own mean matrix ('own', see `OwnMatrices`); None for nothing.
        positivity: How entries are made positive, before rows are normalised.
        network: An own network on the image (the paper's annotator network), with as many features.

    Zhang et al., Disentangling human error from the ground truth in segmentation of medical
    images, NeurIPS 2020.

    Example:
        >>> matrices = PixelRaters(raters=3, num_classes=2, features=8, spatial_dims=2)
        >>> matrices(torch.zeros(1, 8, 5, 5), torch.zeros(1)).matrix().shape
        torch.Size([1, 3, 2, 2, 5, 5])
    """

    start: Tensor

    def __init__(
        self,
        raters: int,
        num_classes: int,
        features: int,
        spatial_dims: int,
        init_accuracy: float = RIGHT,
        compares: Compares | None = None,
        positivity: Positivity = "softmax",
        network: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.raters = raters
        self.classes = num_classes
        self.compares = compares
        self.positivity: Positivity = positivity
        self.network = network
        values = start_values(num_classes, init_accuracy, positivity, "accuracy")
        logits = log_positive(values, positivity)  # of the matrices, as softmax takes them
        self.register_buffer("start", logits, persistent=False)
        self.head = constant_head(features, values.repeat(raters, 1, 1), spatial_dims)
        near = self.start.softmax(1).repeat(raters, 1, 1)
        self.own = OwnMatrices(near) if compares == "own" else None

    @torch.no_grad()
    def start_at(self, matrices: Tensor) -> None:
        """Let the matrices start at known ones everywhere, and be drawn to them at first."""
        known = _shared_by(self.raters, matrices)
        self.head.bias.copy_(values_of(known, self.positivity).flatten())  # type: ignore[operator]
        if self.own is not None:
            self.own.near.copy_(known)

    def learn(self, confusion: Confusion, truth: Tensor, labels: Tensor, cases: Tensor) -> None:
        """Let each rater's own mean matrix follow what a batch gave."""
        if self.own is not None and isinstance(confusion, PixelConfusion):
            places = drawn_places(truth[0, 0].numel(), cases.tolist(), self.seed)
            self.own.follow(confusion.logits, truth, labels, places)

    def _common(self) -> Tensor | None:
        if self.own is not None:
            return self.own.log_matrix()
        return self.start.log_softmax(1)[None] if self.compares else None

    def forward(self, features: Tensor, cases: Tensor | None = None) -> Confusion:  # noqa: ARG002
        """Return the matrices at each pixel."""
        if self.holds:
            return SharedConfusion(self.start.log_softmax(1)[None, None])
        logits = log_positive(self.head(features), self.positivity)
        shape = (self.raters, self.classes, self.classes)
        return PixelConfusion(logits.view(len(logits), *shape, *logits.shape[2:]), self._common())


class LowRankRaters(HeadRaters):
    """Pixel-wise matrices `(1 - a_t) I + a_t U V` of any rank.

    A sound form of the low-rank matrices of Zhang et al. (2020), appendix A.4: products of
    factors that are normalised only afterwards have equal rows at rank 1 (see `ProductRaters`).

    Args:
        raters: Number of raters; 1 for a head that all share.
        num_classes: Number of classes.
        features: Channels of the features.
        spatial_dims: Spatial axes of the labels.
        rank: Kinds of error.
        init_accuracy: The diagonal at the start.
        network: An own network on the image, see `PixelRaters`.

    Example:
        >>> matrices = LowRankRaters(raters=3, num_classes=20, features=8, spatial_dims=2, rank=2)
        >>> matrices(torch.zeros(1, 8, 5, 5), torch.zeros(1)).mixture.shape
        torch.Size([1, 3, 20, 2, 5, 5])
    """

    start: Tensor

    def __init__(
        self,
        raters: int,
        num_classes: int,
        features: int,
        spatial_dims: int,
        rank: int = 1,
        init_accuracy: float = RIGHT,
        network: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        near_identity_logits(num_classes, init_accuracy)  # rejects what cannot be a start
        parts = start_of_low_rank(num_classes, rank, init_accuracy)
        self.shapes = [(raters, *part.shape) for part in parts]
        flat = torch.cat(
            [part.expand(shape).flatten() for part, shape in zip(parts, self.shapes, strict=True)]
        )
        self.register_buffer("start", flat, persistent=False)
        self.head = constant_head(features, flat, spatial_dims)

    def forward(self, features: Tensor, cases: Tensor | None = None) -> LowRankConfusion:  # noqa: ARG002
        """Return the factors at each pixel."""
        if self.holds:
            space = (1,) * (features.ndim - 2)
            return self._parts(self.start.view(1, -1, *space))
        return self._parts(self.head(features))

    def _parts(self, logits: Tensor) -> LowRankConfusion:
        sizes = [torch.Size(shape).numel() for shape in self.shapes]
        parts = torch.split(logits, sizes, 1)
        return LowRankConfusion(
            *(
                part.reshape(len(part), *shape, *part.shape[2:])
                for part, shape in zip(parts, self.shapes, strict=True)
            )
        )


class ProductRaters(HeadRaters):
    """Pixel-wise matrices `B1 B2^T`, rows normalised: appendix A.4 of Zhang et al. (2020).

    The factors start at random: below rank L no product is the identity. At rank 1 all rows are
    equal: the rater's answer does not depend on the truth, which then gets no gradient. (That rows
    are normalised is our choice; the paper names none.)

    Args:
        raters: Number of raters; 1 for a head that all share.
        num_classes: Number of classes.
        features: Channels of the features.
        spatial_dims: Spatial axes of the labels.
        rank: Columns of each factor.
        positivity: How the factors are made positive.
        network: An own network on the image, see `PixelRaters`.

    Example:
        >>> matrices = ProductRaters(raters=3, num_classes=4, features=8, spatial_dims=2, rank=2)
        >>> C = matrices(torch.zeros(1, 8, 5, 5), torch.zeros(1)).matrix()
        >>> C.shape, bool((abs(C.sum(3) - 1) < 1e-5).all())
        (torch.Size([1, 3, 4, 4, 5, 5]), True)
    """

    def __init__(
        self,
        raters: int,
        num_classes: int,
        features: int,
        spatial_dims: int,
        rank: int = 1,
        positivity: Positivity = "softplus",
        network: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= rank <= num_classes:
            raise RatersError(
                f"found rank {rank}, expected 1 to {num_classes} (the number of classes)"
            )
        self.network = network
        self.positivity = positivity
        self.shape = (raters, 2, num_classes, rank)
        self.head = pointwise(features, torch.Size(self.shape).numel(), spatial_dims)

    def look(self, image: Tensor, features: Tensor) -> Tensor:
        """Return the features that the layer sees, also while held: there is no start instead."""
        own: Tensor = features if self.network is None else self.network(image)[0]
        return own

    def forward(self, features: Tensor, cases: Tensor | None = None) -> LowRankConfusion:  # noqa: ARG002
        """Return the factors at each pixel."""
        logits = log_positive(self.head(features), self.positivity)
        logits = logits.detach() if self.holds else logits
        factors = logits.view(len(logits), *self.shape, *logits.shape[2:])
        return product_of(factors[:, :, 0], factors[:, :, 1])


class FixedRaters(RaterModel):
    """Known matrices, of each rater or of each case and rater: the oracle.

    Args:
        confusion: `(raters, L, L)` or `(cases, raters, L, L)`; rows that sum to one. An entry of
            0 is kept off zero by `smallest`, since one label would otherwise have likelihood 0.

    Example:
        >>> oracle = FixedRaters(torch.eye(2).repeat(3, 1, 1))
        >>> oracle(torch.zeros(4, 8), torch.arange(4)).matrix().shape
        torch.Size([1, 3, 2, 2])
    """

    log_matrix: Tensor

    def __init__(self, confusion: Tensor | Sequence[float], smallest: float = 1e-4) -> None:
        super().__init__()
        matrix = torch.as_tensor(confusion, dtype=torch.float32)
        if matrix.ndim not in (3, 4) or matrix.shape[-1] != matrix.shape[-2]:
            found = "x".join(map(str, matrix.shape))
            raise RatersError(
                f"found known matrices of {found}, "
                "expected raters x L x L or cases x raters x L x L"
            )
        known = not matrix.is_meta  # where a model is only outlined, there are no numbers
        if known and not torch.allclose(matrix.sum(-1), torch.ones(()), atol=1e-3):
            worst = matrix.sum(-1).sub(1).abs().max().item()
            raise RatersError(f"found rows off by {worst:.3g}, expected rows C[t, :] that sum to 1")
        matrix = matrix.clamp(min=smallest)
        log_matrix = (matrix / matrix.sum(-1, keepdim=True)).log()
        by_case = log_matrix if matrix.ndim == 4 else log_matrix[None]
        self.register_buffer("log_matrix", by_case, persistent=False)  # of these cases alone

    def forward(self, features: Tensor, cases: Tensor | None = None) -> SharedConfusion:  # noqa: ARG002
        """Return the matrices of the cases."""
        single = len(self.log_matrix) == 1
        assert single or cases is not None  # matrices by case
        return SharedConfusion(self.log_matrix if single else self.log_matrix[cases])
