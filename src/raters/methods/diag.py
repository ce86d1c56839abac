"""`diag`: raters weigh as much as their masks tell of the diagnosis."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.arrays import Floats
from raters.errors import RatersError
from raters.methods.base import Batch, Method, Target, Task, mean_label
from raters.methods.diagnosis import dealt, facts_of_masks, judged, stacked
from raters.methods.options import MethodOptions
from raters.methods.supervised import SupervisedMethod
from raters.study.classes import MISSING
from raters.wording import many

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


class Diag(SupervisedMethod):
    """Judges raters by how well their masks tell the diagnosis, then trains on their weighted mean.

    J. Wu et al., Opinions vary? Diagnosis first!, arXiv:2202.06505, 2022; see `diagnosis.py` for
    the weights.

    Attributes:
        rater_weights: The weight of each rater, `(raters,)`.
    """

    answers = SupervisedMethod.answers | {"fusion"}
    rater_weights: Tensor

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        raters = len(task.raters)
        self.register_buffer("rater_weights", torch.full((raters,), 1 / raters))
        self._case_weights: dict[str, Floats] = {}

    def joined(self, new: Method) -> dict[str, Tensor]:
        """Return what both have; no diagnosis was asked of new raters, so they weigh nothing."""
        zeros = self.rater_weights.new_zeros(len(new.task.raters))
        return {**super().joined(new), "rater_weights": torch.cat([self.rater_weights, zeros])}

    def learnt_weights(self) -> Tensor:
        """Return the weights, as they were judged."""
        return self.rater_weights

    def prepare(self, study: Study) -> None:
        """Judge the raters, on all cases that have a diagnosis."""
        _refuse_diagnoses(study)
        known = study.take(np.flatnonzero(study.index.diagnoses != ""))
        without = len(study) - len(known)
        if without:
            has = "has" if without == 1 else "have"
            warnings.warn(
                f"{many(without, 'case')} of {len(study)} {has} no diagnosis: raters are judged "
                "by the others, and all cases are trained on",
                stacklevel=2,
            )
        names, diagnoses = np.unique(known.index.diagnoses.astype(str), return_inverse=True)
        facts, there = self._facts(known)
        folds = dealt(list(known.index.groups), diagnoses)
        weights, shares = stacked(judged(facts, there, diagnoses, folds, len(names)), there)
        self.rater_weights.copy_(torch.from_numpy(weights))
        self._case_weights = dict(zip(known.index.ids, shares.T, strict=True))

    def _facts(self, study: Study) -> tuple[Floats, NDArray[np.bool_]]:
        """Return what all masks show, `(raters, cases, facts)`, and which masks there are."""
        facts, there = [], []
        for case in study.iter_cases():
            assert case.image is not None  # nothing is trained on without
            facts.append(facts_of_masks(case.labels, case.image, self.task.num_classes))
            there.append((case.labels != MISSING).reshape(len(case.labels), -1).any(1))
        return np.stack(facts, 1), np.stack(there, 1)

    def target(self, case: Case) -> Target:
        """Return the mean of the masks of a case, weighted by what they tell of its diagnosis."""
        weights = self._case_weights.get(case.id, self.rater_weights.cpu().numpy())
        labels = torch.from_numpy(case.labels.astype(np.int64))[np.newaxis]
        return self._mean(labels, torch.as_tensor(weights))[0].float().numpy()

    def fused(self, batch: Batch) -> Tensor:
        """Return the mean of the masks, weighted by rater; the network's truth where none is."""
        fusion = self._mean(batch["labels"], self.rater_weights)
        known = fusion.sum(1, keepdim=True) > 0
        return torch.where(known, fusion, self.truth(batch["image"]))

    def _mean(self, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted mean; where only raters without any weight labelled, all alike."""
        return mean_label(labels, self.task.num_classes, weights.clamp(min=1e-9)[np.newaxis])


def _refuse_diagnoses(study: Study) -> None:
    """Refuse a study whose diagnoses say nothing of raters."""
    known = study.index.diagnoses[study.index.diagnoses != ""]
    judges = "diag judges raters by how well their masks tell it"
    if not len(known):
        raise RatersError(
            f"found no diagnosis of any case, expected one of most: {judges}; they are the column "
            "'diagnosis' of cases.csv or of a manifest, or diagnoses= of Study.from_arrays"
        )
    names, counts = np.unique(known.astype(str), return_counts=True)
    if (counts > 1).sum() < 2:
        found = ", ".join(
            f"{str(name)!r} {many(n, 'time')}" for name, n in zip(names, counts, strict=True)
        )
        raise RatersError(
            f"found the diagnoses {found}, expected two or more that occur twice at least: {judges}"
        )
