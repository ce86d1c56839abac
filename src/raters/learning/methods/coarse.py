"""`coarse`: what is drawn roughly, and what it is not; pixel-wise matrices and a transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.distributed import processes, summed
from raters.learning.methods.base import Batch, Step, Task
from raters.learning.methods.options import CoarseOptions, trusts_masks
from raters.learning.methods.pixel_cm import PixelCM
from raters.learning.methods.targets import Target
from raters.learning.rater_models import RaterModel, pixel_weights
from raters.learning.rater_models.complement import CoarseRaters

if TYPE_CHECKING:
    from raters.study.annotations import Annotation
    from raters.study.case import Case
    from raters.study.study import Study


class Coarse(PixelCM):
    r"""Learns from positive and negative drawings, and from masks beside them.

    .. math::
        \text{positive:} \quad & p(o \mid x) = \sum_t p(t \mid x) \, A(x)[t, o] \\
        \text{negative:} \quad & p(\text{not } q \mid x)
            = \sum_t p(t \mid x) \sum_o A(x)[t, o] \, M[o, q], \quad M[o, o] = 0

    and one likelihood for both, joint or marginal: equations 4, 5 and 6 of Zhang et al., Emerging
    semantic segmentation from positive and negative coarse label learning, 2025, with `M[o, q]` =
    p(said not q | would have said o), whose rows sum to one. Negative drawings of two classes are
    ordinary labels, turned round, by the time that a method sees them.
    """

    options: CoarseOptions
    raters: CoarseRaters

    def __init__(self, task: Task, options: CoarseOptions) -> None:
        self._negative, self._trusted = _places(task, options)
        if self._negative and options.warm_up_on in ("vote", "consensus"):
            raise RatersError(
                f"found warm_up_on={options.warm_up_on!r} with negative drawings of "
                f"{task.num_classes} classes, expected 'labels' or 'trace': "
                "labels that say which class it is not have no vote"
            )
        super().__init__(task, options)
        self.has_regions = options.share is not None

    def prepare(self, study: Study) -> None:
        """Hold the matrices of one-sided raters, which the paper's form would learn."""
        super().prepare(study)
        if study.drawn and self.options.form == "own":
            self.raters.hold(one_sided_raters(study))

    def rater_model(self) -> RaterModel:
        """Make a head on the network's features, and a transition of each rater."""
        return CoarseRaters(
            len(self.task.raters),
            negative=self._negative,
            trusted=self._trusted,
            excludes=self.options.transition,
            **self.of_head(),
        )

    def label_weights(self, labels: Tensor) -> Tensor:
        """Return the weights of pixels; 'not q' weighs as the other classes do on average."""
        weights = self.class_weights.repeat(len(self.task.raters), 1)
        others = (self.class_weights.sum() - self.class_weights) / (self.task.num_classes - 1)
        weights[list(self._negative)] = others
        return pixel_weights(labels, weights)

    def regions(self, case: Case) -> Target:
        """Return one region: where the image is, beside what fills a patch up."""
        return np.zeros(case.geometry.shape, np.int32)

    def penalised(self, step: Step, log_truth: Tensor, batch: Batch) -> Step:
        """Draw the mean prediction to the share of objects, if it is known."""
        if self.options.share is None or "regions" not in batch:  # the truth is fixed in `extend`
            return step
        inside = batch["regions"] != MISSING
        term = share_term(log_truth, self.options.share, step.observed, inside)
        return Step(step.loss + term, step.observed, {**step.terms, "share": term})

    def transition(self) -> Tensor | None:
        """Return M of each rater, `(raters, L, L)`: NaN of all but negative ones; None of none."""
        if not self._negative:
            return None
        found = torch.full_like(self.raters.choice, torch.nan)
        found[list(self._negative)] = self.raters.transition()[list(self._negative)]
        return found.detach()


def _places(task: Task, options: CoarseOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return which raters have complementary labels, and whose masks are trusted."""
    drawn: Sequence[Annotation] = task.annotations or ["mask"] * len(task.raters)
    negative = tuple(k for k, kind in enumerate(drawn) if kind == "negative")
    masks = tuple(k for k, kind in enumerate(drawn) if kind == "mask")
    trust = trusts_masks(drawn) if options.trust_masks is None else options.trust_masks
    return negative if task.num_classes > 2 else (), masks if trust else ()


def one_sided_raters(study: Study) -> list[int]:
    """Return who never says a second class, or never the background, which explains all else then.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[[[0, 1, 2]], [[-1, 1, 1]], [[-1, 1, 2]]]])
        >>> one_sided_raters(Study.from_arrays(labels=labels))
        [1, 2]
    """
    said = np.zeros((len(study.raters), len(study.classes)), bool)
    both = said.any(axis=1)
    excluding = np.isin(study.raters, study.negatives)
    for case in study.iter_cases():
        for row, labels in zip(said, case.labels, strict=True):
            row[np.unique(labels[labels != MISSING])] = True
        both = (said.sum(axis=1) > 1) & (said[:, 0] | excluding)
        if both.all():
            break
    return np.flatnonzero(~both).tolist()


def share_term(log_truth: Tensor, share: float, observed: Tensor, inside: Tensor) -> Tensor:
    r"""Return how far the mean prediction of a batch is from a known share s of all objects.

    .. math:: \mathrm{KL}(s \,\|\, m) = s \log \frac{s}{m} + (1 - s) \log \frac{1 - s}{1 - m},
              \quad m = \mathrm{mean}_x \sum_{t > 0} p(t \mid x)

    The mean is over the images of all processes; the gradient of each is that of its own part, as
    it will be weighted by its share of the labels (`observed`).

    Args:
        log_truth: `log p(t | x)`, `(batch, L, *space)`.
        share: s.
        observed: How many labels the batch has.
        inside: Where images are, `(batch, *space)`; the rest fills batches up.

    Example:
        >>> even, inside = torch.full((1, 2, 4, 4), 0.5).log(), torch.ones(1, 4, 4).bool()
        >>> [share_term(even, s, torch.tensor(1), inside) for s in (0.5, 0.1)]
        [tensor(0.), tensor(0.3681)]
    """
    own = (1 - log_truth[:, 0].exp())[inside].sum()
    alone = processes()[1] == 1
    counts = own.detach(), inside.sum().to(own), observed.to(own)
    objects, pixels, labels = summed(torch.stack(counts)).unbind()
    mean = (objects / pixels.clamp(min=1)).clamp(1e-6, 1 - 1e-6)
    value = share * (share / mean).log() + (1 - share) * ((1 - share) / (1 - mean)).log()
    slope = (mean - share) / (mean * (1 - mean))
    weight = 1.0 if alone else labels / observed.clamp(min=1)  # it is divided by this later
    return value + slope * weight * (own - own.detach()) / pixels.clamp(min=1)
