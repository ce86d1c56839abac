"""`prism`: a truth and the raters' confidences that refine each other in recurrences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.base import Asked, Batch, HeldOut, Maps, Step, Task
from raters.learning.methods.draws import labelled_answers
from raters.learning.methods.mask_options import PrismOptions
from raters.learning.methods.prism_confidence import (
    EVEN,
    Diverged,
    confidence_of,
    diverged,
    draw_confidence,
    draw_order,
    started,
)
from raters.learning.methods.prism_losses import heads_loss, recurrence_loss, shuffle_loss
from raters.learning.methods.separate import OfLabelled
from raters.learning.methods.targets import cross_entropy
from raters.learning.networks.encoders import Encoder, encoder_of, resnet_encoder
from raters.learning.networks.prism import ConP, DivP
from raters.learning.rater_models.confidence import LEAST, columns_at
from raters.learning.rater_models.likelihood import sum_and_count

SHUFFLES = 3
"""Shuffles of confidences in each recurrence (section 4.3.2)."""

FAINTEST = 0.01
"""The least confidence whose logarithm ConP is given."""


class Recurrence(NamedTuple):
    """What a recurrence says of images.

    Attributes:
        truth: What ConP says, `(batch, L, H, W)`.
        raters: What DivP makes of it.
    """

    truth: Tensor
    raters: Diverged


class Prism(OfLabelled):
    r"""Lets a truth and the confidences of raters refine each other.

    J. Wu et al., Multi-rater prism: learning self-calibrated medical image segmentation from
    multiple raters, 2022. Of the features f(x) of an encoder, in recurrences i = 1, 2, ...:

    .. math::
        \tilde y_i &= \mathrm{softmax}\, \mathrm{ConP}(f(x), \log c_{i-1})  && \text{the truth} \\
        C_i &= \mathrm{softmax}\, \mathrm{DivP}(\tilde y_i)  && \text{matrices at each pixel} \\
        \tilde z_i^m &= \textstyle\sum_k \tilde y_{i,k} C_i^m[k]  && \text{what raters would say} \\
        c_i^m &= \frac{L \, C_i^m[k, k] - 1}{L - 1}  && \text{confidence: skill above chance}

    Each recurrence has the loss `recurrence_loss` + zeta (`shuffle_loss` and / or `heads_loss`);
    no gradient goes from one recurrence to the one before, nor from DivP into ConP. In the warm-up
    ConP learns by cross entropy.
    """

    answers = frozenset({"truth", "as_rater", "weights", "fusion", "recurrences"})
    # ConP takes in the confidences of all raters together.
    not_extended = "all raters are weighed against each other: train again with all of them"
    options: PrismOptions

    def __init__(self, task: Task, options: PrismOptions) -> None:
        super().__init__(task, options)
        if task.spatial_dims != 2:
            raise RatersError(
                f"found images of {task.spatial_dims} spatial axes, expected 2: prism attends to "
                "patches of pictures; take slices, or pixel-cm for volumes"
            )
        raters = len(task.raters)
        classes = task.num_classes
        if options.fuse_by == "bayes":
            self.answers = type(self).answers | {"confusion"}  # type: ignore[misc]
            self.varies = True
        if options.divp_loss == "shuffle":
            self.untied = "divp_loss=shuffle ties no head to its rater"
        self.encoder = _encoder(task, options)
        self.conp = ConP(
            self.encoder.channels,
            self.encoder.steps,
            raters * classes,
            classes,
            options.integration,
        )
        self.divp = DivP(classes, raters, classes ** (2 if options.fuse_by == "bayes" else 1))

    @property
    def warm_up(self) -> int:
        """How many epochs ConP learns by cross entropy."""
        return int(self.options.warm_up)

    def _turn(self, features: list[Tensor], confidence: Tensor) -> Tensor:
        """Return what ConP says, as logarithms `(batch, L, H, W)`."""
        given = confidence.clamp(min=FAINTEST).log().flatten(1, 2)
        logits = self.conp(features, self.encoder.padded(given))
        return self.encoder.cropped(logits, tuple(given.shape[2:])).log_softmax(1)

    def _diverge(self, truth: Tensor) -> Diverged:
        return diverged(truth, self.divp(truth), self.options.fuse_by)

    def step(self, batch: Batch) -> Step:
        """Return the losses of all recurrences, each a mean over the observed labels."""
        labels = batch["labels"]
        weights = self.class_weights
        by = self.options.fuse_by
        confidence, order = self._drawn(batch)
        features = self.encoder(self.encoder.padded(batch["image"]))
        target = started(confidence, labels, by)
        terms = {"recurrence": confidence.new_zeros(())}
        for _ in range(self.options.recurrences):
            truth = self._turn(features, confidence).exp()
            raters = self._diverge(truth.detach())
            fused = self._fused(raters, labels)
            given = truth, target, fused, labels, weights
            losses = {"recurrence": recurrence_loss(*given, warming=self.epoch < self.warm_up)}
            losses |= self._divp_losses(raters, order, labels)
            terms = {name: terms.get(name, 0) + loss for name, loss in losses.items()}
            target = fused.detach()
            confidence = raters.confidence.detach()
        observed = (labels != MISSING).sum()
        terms = {name: total / observed.clamp(min=1) for name, total in terms.items()}
        return Step(torch.stack(list(terms.values())).sum(), observed, terms)

    def _fused(self, raters: Diverged, labels: Tensor) -> Tensor:
        """Return what DivP's own loss compares, and ConP learns from in the next recurrence."""
        if self.options.supervise == "self":
            return raters.self_fused(self.labelled)
        return raters.fused(labels)

    def _divp_losses(self, raters: Diverged, order: Tensor, labels: Tensor) -> dict[str, Tensor]:
        zeta = self.options.divp_weight
        chosen = self.options.divp_loss
        losses = {}
        if chosen != "heads":
            losses["shuffle"] = zeta * shuffle_loss(raters, order, labels, self.class_weights)
        if chosen != "shuffle":
            losses["heads"] = zeta * heads_loss(raters, labels, self.class_weights)
        return losses

    def _drawn(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Draw first confidences `(batch, raters, L, H, W)` and `(shuffles, batch, raters)`."""
        labels = batch["labels"]
        cases = batch["case"].tolist()
        raters, *space = labels.shape[1:]
        shape = (raters, self.task.num_classes, *space)
        key = (self.seed, self.epoch)
        there = labelled_answers(labels).cpu()
        first = torch.stack([draw_confidence(shape, *key, case) for case in cases])
        order = [
            draw_order(row, SHUFFLES, *key, case) for row, case in zip(there, cases, strict=True)
        ]
        return first.to(batch["image"]), torch.stack(order, 1).to(labels.device)

    def _recur(self, image: Tensor, first: Tensor | None = None) -> Iterator[Recurrence]:
        """Run recurrences until nothing changes much: an image that is settled stays as it is.

        Args:
            image: `(batch, channels, H, W)`.
            first: The confidence in each rater to start with, `(raters,)`.
        """
        if first is None:
            first = torch.full((len(self.task.raters),), EVEN).to(image)
        features = self.encoder(self.encoder.padded(image))
        shape = (len(image), len(first), self.task.num_classes, *image.shape[2:])
        confidence = first.view(1, -1, 1, 1, 1).expand(shape)
        before = None
        settled = torch.zeros(len(image), 1, 1, 1, dtype=torch.bool, device=image.device)
        for _ in range(self.options.recurrences):
            truth = self._turn(features, confidence).exp()
            if before is not None:
                truth = torch.where(settled, before, truth)
                change = (truth - before).abs().mean((1, 2, 3), keepdim=True)
                settled = settled | (change < self.options.tolerance)
            raters = self._diverge(truth)
            yield Recurrence(truth, raters)
            if settled.all():
                return
            confidence = raters.confidence
            before = truth

    def recurrences(self, image: Tensor, first: Tensor | None = None) -> list[Recurrence]:
        """Return what each recurrence says; those after the last change are like it."""
        found = list(self._recur(image, first))
        return found + [found[-1]] * (self.options.recurrences - len(found))

    def _last(self, image: Tensor) -> Recurrence:
        *_, last = self._recur(image)
        return last

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the raters' labels: joint by matrices, else of each rater.

        By shuffles alone a head is nobody's: labels are then those of a rater drawn at random.
        """
        labels = batch["labels"]
        truth, raters = self._last(batch["image"])
        if raters.log_matrix is None or self.options.divp_loss == "shuffle":
            loss, count = self._of_heads(raters.said, labels)
        else:
            column = columns_at(raters.log_matrix, labels)
            loss, count = sum_and_count(truth.clamp(min=LEAST).log(), column, labels, "joint")
        if raters.log_matrix is None:
            return HeldOut(loss, count, truth)
        matrices = raters.log_matrix.exp()
        mean = torch.einsum("btyx,brtoyx->rto", truth, matrices)
        return HeldOut(loss, count, truth, mean, truth.sum((0, 2, 3)))

    def _of_heads(self, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross entropy of labels with their heads, or with the mean of all heads."""
        if self.options.divp_loss == "shuffle":
            said = said[:, self.labelled].mean(1, keepdim=True).expand_as(said)
        said = said.clamp(min=LEAST).log()
        even = torch.ones_like(self.class_weights)
        return cross_entropy(said.flatten(0, 1), labels.flatten(0, 1), even)

    def truth(self, image: Tensor) -> Tensor:
        """Return what the last recurrence says."""
        return self._last(image).truth

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        """Return what the first recurrence says by confidences as given, `(raters,)`.

        Further ones would put DivP's confidences in their place.
        """
        return next(self._recur(image, self._confidence_of(weights))).truth

    def _confidence_of(self, weights: Tensor) -> Tensor:
        weights = weights.to(self.labelled.device)
        return confidence_of(weights / weights.sum(), self.labelled)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would say of the last recurrence's truth."""
        return self._last(image).raters.said[:, rater]

    def confusion(self, image: Tensor) -> Tensor:
        """Return the matrices of the last recurrence, `(batch, raters, L, L, H, W)`."""
        found = self._last(image).raters.log_matrix
        assert found is not None  # `answers` has no matrices then
        return found.exp()

    def fused(self, batch: Batch) -> Tensor:
        """Return the labels fused by the last recurrence: its truth is the prior (`y_fuse`)."""
        truth, raters = self._last(batch["image"])
        return raters.fused(batch["labels"], truth.clamp(min=LEAST).log())

    def fused_unseen(self, image: Tensor) -> Tensor:
        """Return what raters would say, fused; no label is looked at (`y_self`)."""
        return self._last(image).raters.self_fused(self.labelled)

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return all that is asked, from one run of the recurrences.

        By a weighting of raters all of them start there, and the first is the truth: `weighted`.
        """
        given = None if asked.weights is None else self._confidence_of(torch.tensor(asked.weights))
        turns = self.recurrences(image, given)
        raters = turns[-1].raters
        found = {"truth": turns[-1 if given is None else 0].truth}
        for rater in asked.raters:
            found[self.task.as_key(rater)] = raters.said[:, self.task.number_of(rater)]
        if asked.confusion and raters.log_matrix is not None:
            found["confusion"] = raters.log_matrix.exp()
        if asked.recurrences:
            found |= {f"recurrence:{k}": turn.truth for k, turn in enumerate(turns, start=1)}
            trust = [turn.raters.trust(turn.truth, self.labelled) for turn in turns]
            found["confidence"] = torch.stack(trust, 1)
        return found | self.sampled(image, asked, latents)


def _encoder(task: Task, options: PrismOptions) -> Encoder:
    backbone = task.network().backbone
    if options.encoder == "network":
        return encoder_of(backbone)
    width = getattr(backbone, "features", 0)
    return resnet_encoder(task.channels, width, int(options.encoder.removeprefix("resnet")))
