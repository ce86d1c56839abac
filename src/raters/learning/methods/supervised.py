"""Methods that train one network on a target: fused labels, those of one rater, the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.base import (
    Asked,
    Batch,
    HeldOut,
    Maps,
    Method,
    NetworkMethod,
    Step,
    Task,
)
from raters.learning.methods.draws import drawn_answers, drawn_masks
from raters.learning.methods.options import FusedOptions, MethodOptions
from raters.learning.methods.targets import FusedLabels, Target, of_each
from raters.metrics.confusion import count_case, normalise

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


class SupervisedMethod(NetworkMethod):
    """Trains the truth network by cross entropy with a target."""

    answers = frozenset({"truth", "as_rater", "confusion"})
    not_extended = ""  # matrices of new raters can always be counted
    has_targets = True
    counts_raters = True  # against targets, or against what the trained model predicts
    rater_matrices: Tensor

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        raters = len(task.raters)
        classes = task.num_classes
        even = torch.full((raters, classes, classes), 1 / classes)
        self.register_buffer("rater_matrices", even)

    def joined(self, new: Method) -> dict[str, Tensor]:
        """Return the matrices of both."""
        old = self.rater_matrices
        more = cast(SupervisedMethod, new).rater_matrices
        return {"rater_matrices": torch.cat([old, more.to(old)])}

    def finish(self, study: Study) -> None:
        """Count the raters' matrices against the targets, one case at a time."""
        self.count_raters((case, self.target(case)) for case in study.iter_cases())

    def count_raters(self, cases: Iterable[tuple[Case, Target]]) -> None:
        """Count the raters' matrices against what the cases have been found to show."""
        counts = np.zeros(self.rater_matrices.shape)
        for case, target in cases:
            counts += count_case(case, target, self.task.num_classes)
        rows = normalise(counts, "uniform")
        self.rater_matrices.copy_(torch.from_numpy(rows))

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the target."""
        log_truth = self.network.log_truth(batch["image"])
        return self.entropy_step(log_truth, batch["target"])

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with the targets of held-out cases."""
        return self.held_out_entropy(batch["image"], batch["target"])

    def confusion(self, image: Tensor) -> Tensor:
        """Return the raters' matrices against the targets, the same for all images."""
        found = self.rater_matrices
        return found.view(1, *found.shape, *(1,) * self.task.spatial_dims).to(image)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return the truth through the rater's matrix."""
        return self.maps(image, Asked((rater,)))[self.task.as_key(rater)]

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the truth, what some raters would say, and the matrices, from one look."""
        truth = self.truth(image)
        found = {"truth": truth}
        for rater in asked.raters:
            matrix = self.rater_matrices[self.task.number_of(rater)]
            found[self.task.as_key(rater)] = torch.einsum("bt...,to->bo...", truth, matrix)
        if asked.confusion:
            found["confusion"] = self.confusion(image)
        return found | self.sampled(image, asked, latents)


class TruthMethod(SupervisedMethod):
    """Trains on the reference: the ceiling of what learning from raters can reach."""

    def target(self, case: Case) -> Target:
        """Return the reference of a case."""
        if case.reference is None:
            raise RatersError(
                f"found no reference of case {case.id!r}, expected one: truth trains on it",
                case=case.id,
            )
        return case.reference


class FusedMethod(SupervisedMethod):
    """Fuses the labels of each case first, then trains on the result."""

    options: FusedOptions

    def __init__(self, task: Task, options: FusedOptions) -> None:
        super().__init__(task, options)
        self._fused = FusedLabels(options.fusion, options.pool, options.soft)

    def prepare(self, study: Study) -> None:
        """Fit what all cases share: pooled matrices, or the whole of a table."""
        self._fused.fit(study)

    def target(self, case: Case) -> Target:
        """Fuse the labels of a case; masks again each time, as memory must not hold all of them."""
        return self._fused.of(case)


class LabelSampling(NetworkMethod):
    r"""Trains the network on the labels of one rater, drawn anew for each case and epoch.

    .. math:: -\mathrm{E}_r \log p(o_r \mid x)

    with r uniform over the raters who labelled the case: in the mean over epochs it is the cross
    entropy with the mean label, along a noisier way.

    M. H. Jensen, D. R. Jørgensen, R. Jalaboi, M. E. Hansen and M. A. Olsen, Improving uncertainty
    estimation in convolutional neural networks using inter-rater agreement, MICCAI 2019.
    """

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the labels of one rater of each case."""
        labels = batch["labels"]
        chosen = drawn_answers(batch, len(self.task.raters), self.seed, self.epoch)
        if "raters" in batch:
            labels = labels.masked_fill(~chosen, MISSING)
        else:
            labels = drawn_masks(labels, chosen).unsqueeze(1)
        log_truth = self.network.log_truth(batch["image"])
        return self.entropy_step(log_truth, labels, of_each)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with all labels."""
        return self.held_out_entropy(batch["image"], batch["labels"], of_each)
