"""`diag`: raters weigh as much as their masks tell of the diagnosis."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from raters.core.arrays import Array, Flags, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.learning.methods.base import Batch, Method, Task
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.supervised import SupervisedMethod
from raters.learning.methods.targets import Target, mean_label

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


class Diag(SupervisedMethod):
    """Judges raters by how well their masks tell the diagnosis, then trains on their weighted mean.

    J. Wu et al., Opinions vary? Diagnosis first!, arXiv:2202.06505, 2022; see `stacked` for
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
        facts = []
        there = []
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
    there = study.index.diagnoses != ""
    known = study.index.diagnoses[there]
    groups = np.unique(study.index.groups[there])
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
    if len(groups) < 2:
        raise RatersError(
            f"found one group, {str(groups[0])!r}, of all cases with a diagnosis, expected two or "
            f"more: {judges} in cases of groups that nothing was learnt from"
        )


FOLDS = 5
SPREAD = 2.0
"""The standard deviation of the log-odds of a diagnosis before any case is seen."""
EVEN_CASES = 1.0
"""Cases added for each rater, in which they are right: what few cases say is no verdict."""


def facts_of_masks(labels: Labels, image: Array, num_classes: int) -> Floats:
    """Return what each rater's mask shows of the image: nothing outside the mask is looked at.

    For each foreground class: the logarithms of area and length of the boundary, the middle (from 0
    to 1 along each axis), and of each channel the mean, the standard deviation and the mean size of
    the gradient within the mask.

    Args:
        labels: `(raters, *space)`, with MISSING.
        image: `(channels, *space)`.
        num_classes: The number of classes, background included.

    Returns:
        `(raters, facts)`; NaN for what an empty mask does not show.

    Example:
        >>> masks = np.array([[[0, 1, 1]], [[0, 0, 0]]])
        >>> facts_of_masks(masks, np.array([[[5.0, 1.0, 3.0]]]), 2).round(2)
        array([[-0.29, -0.69,  0.5 ,  0.67,  2.  ,  1.  ,  1.5 ],
               [-1.39, -1.39,   nan,   nan,   nan,   nan,   nan]])
    """
    slopes = np.stack([_slope(channel) for channel in image])
    seen = (labels != MISSING).reshape(len(labels), -1).sum(1)
    each = [_facts(labels == c, seen, image, slopes) for c in range(1, num_classes)]
    return np.concatenate(each, axis=1)


def _facts(masks: Flags, seen: Ints, image: Array, slopes: Array) -> Floats:
    inside = np.flatnonzero(masks.any(0))  # all else is not looked at, and takes no memory
    flat = masks.reshape(len(masks), -1)[:, inside].astype(np.float64)
    area = flat.sum(1)
    edge = _edges(masks).reshape(len(masks), -1).sum(1)
    places = np.stack(np.unravel_index(inside, masks.shape[1:]))
    middles = (places + 0.5) / np.array(masks.shape[1:])[:, np.newaxis]
    pixels = image.reshape(len(image), -1)[:, inside].astype(np.float64)
    values = [middles, pixels, pixels**2, slopes.reshape(len(image), -1)[:, inside]]
    with np.errstate(invalid="ignore"):  # 0 / 0 is what an empty mask shows
        middle, mean, square, slope = (flat @ v.T / area[:, np.newaxis] for v in values)
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    sizes = np.log(np.stack([area + 1, edge + 1], 1) / (seen[:, np.newaxis] + 1))
    return np.concatenate([sizes, middle, mean, spread, slope], axis=1)


def _slope(channel: Array) -> Floats:
    """Return the size of the gradient at each pixel."""
    axes = [axis for axis, side in enumerate(channel.shape) if side > 1]
    total = np.zeros(channel.shape, np.float32)
    for axis in axes:
        total += np.gradient(channel.astype(np.float32), axis=axis) ** 2
    return np.sqrt(total)


def _edges(masks: Flags) -> Flags:
    """Return the pixels of masks that have a neighbour outside; beyond the image is no outside."""
    found = np.zeros_like(masks)
    for axis in range(1, masks.ndim):
        ahead = np.moveaxis(masks, axis, 0)[1:]
        behind = np.moveaxis(masks, axis, 0)[:-1]
        edge = np.moveaxis(found, axis, 0)
        edge[1:] |= ahead & ~behind
        edge[:-1] |= behind & ~ahead
    return found


def dealt(groups: Sequence[str], diagnoses: NDArray[np.intp], folds: int = FOLDS) -> Labels:
    """Return the fold of each case: groups are kept whole, diagnoses are spread evenly.

    Example:
        >>> dealt(["p1", "p1", "p2", "p3", "p4"], np.array([0, 0, 0, 1, 1]), folds=2)
        array([0, 0, 1, 0, 1])
    """
    first: dict[str, int] = {}
    for group, diagnosis in zip(groups, diagnoses.tolist(), strict=True):
        first.setdefault(group, diagnosis)
    order = sorted(first, key=lambda group: (first[group], group))
    fold = {group: k % folds for k, group in enumerate(order)}
    return np.array([fold[group] for group in groups])


def logistic(facts: Floats, diagnoses: NDArray[np.intp], rows: Floats, number: int) -> Floats:
    r"""Fit logistic regressions with a normal prior, several at once.

    .. math:: \max_W \sum_i s_i \log \mathrm{softmax}(W z_i)_{d_i}
              - \frac{1}{2} \sum_j \lambda_j W_j^2

    The curvature is nowhere above :math:`\frac{1}{2} Z^T S Z + \lambda`, so that each step that
    takes this for the Hessian goes up (D. Böhning, Multinomial logistic regression algorithm,
    Annals of the Institute of Statistical Mathematics 44, 1992). The prior gives log-odds a
    standard deviation of about `SPREAD`, however many facts there are.

    Args:
        facts: Standardised, `(fits, cases, facts)`.
        diagnoses: Class numbers, `(cases,)`.
        rows: How much each case counts in each fit, `(fits, cases)`.
        number: How many diagnoses there are.

    Returns:
        W, `(fits, 1 + facts, number)`; the first row is the intercept.
    """
    z = np.concatenate([np.ones((*facts.shape[:2], 1)), facts], axis=2)
    weights = np.zeros((len(z), z.shape[2], number))
    size = max(facts.shape[2], 1)
    prior = np.array([1.0, *[size] * facts.shape[2]])[:, np.newaxis] / SPREAD**2
    bound = z.transpose(0, 2, 1) @ (z * rows[..., np.newaxis]) / 2 + np.diag(prior[:, 0])
    step = np.linalg.inv(bound)
    target = np.eye(number)[diagnoses]
    for _ in range(200):
        wrong = (target - softmax(z @ weights, axis=-1)) * rows[..., np.newaxis]
        change = step @ (z.transpose(0, 2, 1) @ wrong - prior * weights)
        weights += change
        if np.abs(change).max() < 1e-6:
            break
    return weights


def judged(
    facts: Floats, there: Flags, diagnoses: NDArray[np.intp], folds: Labels, number: int
) -> Floats:
    r"""Return how likely the diagnosis of each case is by each rater's mask, :math:`\log p_{ri}`.

    Each rater has a classifier, which learns from their masks of the other folds alone: who is easy
    to learn by heart gains nothing.

    Args:
        facts: What masks show, `(raters, cases, facts)`, with NaN.
        there: Which masks there are, `(raters, cases)`.
        diagnoses: Class numbers, `(cases,)`.
        folds: The fold of each case, `(cases,)`.
        number: How many diagnoses there are.

    Returns:
        `(raters, cases)`; 0 where there is no mask.
    """
    found = np.zeros(there.shape)
    for fold in np.unique(folds):
        rows = (there & (folds != fold)).astype(np.float64)
        standard = _standardised(facts, rows)
        weights = logistic(standard, diagnoses, rows, number)
        asked = np.flatnonzero(folds == fold)
        z = standard[:, asked] @ weights[:, 1:] + weights[:, :1]
        said = softmax(z, axis=-1)[:, np.arange(len(asked)), diagnoses[asked]]
        found[:, asked] = np.log(np.maximum(said, 1e-12))
    return np.where(there, found, 0.0)


def _standardised(facts: Floats, rows: Floats) -> Floats:
    """Shift and scale facts by the cases learnt from; what a mask does not show is their mean."""
    seen = (rows[..., np.newaxis] > 0) & ~np.isnan(facts)
    count = np.maximum(seen.sum(1, keepdims=True), 1)
    mean = np.where(seen, facts, 0.0).sum(1, keepdims=True) / count
    away = np.where(np.isnan(facts), 0.0, facts - mean)
    spread = np.sqrt((np.where(seen, away, 0.0) ** 2).sum(1, keepdims=True) / count)
    return np.clip(away / np.where(spread > 1e-9, spread, np.inf), -5, 5)


def stacked(log_likelihood: Floats, there: Flags) -> tuple[Floats, Floats]:
    r"""Return the weights of raters, and of raters in each case, from what their masks tell.

    Whose mask a diagnosis follows is unknown; with the weights :math:`\pi` as its prior

    .. math:: p(d_i) = \frac{\sum_{r \in S_i} \pi_r \, p_{ri}}{\sum_{r \in S_i} \pi_r}

    over the raters S who drew a mask of the case. The weights that make all diagnoses likeliest,
    with a prior of a = `EVEN_CASES` cases for each rater, are found by minorisation, each step of
    which goes up:

    .. math::
        \rho_{ri} &\propto \pi_r \, p_{ri} \\
        \pi_r &\propto \Bigl(a + \sum_i \rho_{ri}\Bigr) \Big/
            \Bigl(a R + \sum_{i: r \in S_i} 1 / \sum_{s \in S_i} \pi_s\Bigr)

    This is stacking (Y. Yao et al., Using stacking to average Bayesian predictive distributions,
    Bayesian Analysis 13, 2018) with raters for models.

    Args:
        log_likelihood: From `judged`, `(raters, cases)`.
        there: Which masks there are, `(raters, cases)`.

    Returns:
        :math:`\pi` `(raters,)`, which sums to one, and :math:`\rho` `(raters, cases)`, which sums
        to one in each case that has a mask.

    Example:
        >>> tells = np.log([[0.9] * 50, [0.5] * 50, [0.5] * 50])
        >>> stacked(tells, np.ones((3, 50), bool))[0].round(2)
        array([0.92, 0.04, 0.04])
    """
    raters = len(there)
    weights = np.full(raters, 1 / raters)
    shift = np.where(there, log_likelihood, -np.inf).max(0, initial=-np.inf)
    likely = np.where(there, np.exp(log_likelihood - np.where(np.isfinite(shift), shift, 0.0)), 0.0)
    for _ in range(5000):
        before = weights
        shares = _shares(weights, likely)
        drawn = np.maximum(weights @ there, 1e-12)
        expected = EVEN_CASES * raters + (there / drawn).sum(1)
        weights = (EVEN_CASES + shares.sum(1)) / expected
        weights = weights / weights.sum()
        if np.abs(weights - before).max() < 1e-7:
            break
    return weights, _shares(weights, likely)


def _shares(weights: Floats, likely: Floats) -> Floats:
    each = weights[:, np.newaxis] * likely
    return np.asarray(each / np.maximum(each.sum(0), 1e-300))
