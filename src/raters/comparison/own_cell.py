"""Scores of one cell on a user's study: how well held-out labels are explained, without truth.

Every method is asked the same of the same labels: the joint likelihood of all raters, and that of
each rater given the others, with `p(t | x)` of its network and its raters' matrices. A method
without matrices of its own gets counted ones (`counted_matrices`), from training cases only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from raters.comparison.cell import Cell
from raters.comparison.folds import folded, without_test
from raters.comparison.scoring import train_and_score
from raters.core.arrays import Array, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.evaluation.case import labels_of
from raters.evaluation.prediction import Prediction
from raters.evaluation.result import Evaluation
from raters.fusion.columns import columns_of
from raters.fusion.em import EMOptions, EMState, EStep, e_step, run_em
from raters.io.paths import written_whole
from raters.io.rows import Row, to_json
from raters.learning.evaluation.runs import score_model, shared_raters
from raters.learning.training.model import Model
from raters.metrics.calibration import LEAST, joint_log_likelihood, left_out_log_likelihoods
from raters.metrics.cut import cut_labels
from raters.metrics.overlap import mean_dice
from raters.study.case import Case
from raters.study.read import read
from raters.study.study import Study

BY_LABEL = ("likelihood", "left_out", "likelihood_counted", "left_out_counted")
"""Scores that are means over labels: with the matrices that a method learns, or counted ones if it
learns none; and with counted ones for all methods alike, which compares their networks alone."""


def score_fold(cell: Cell, beside: Path) -> Row:
    """Train a method on all folds of a study but one, and score it on that one.

    Args:
        cell: The cell; its data say how the study is read, and which fold is held out.
        beside: Where sums and predictions of each case are kept, to compare cells by.
    """
    study = _fold_of_study(to_json(cell.data))

    def evaluate(model: Model, test: Study) -> tuple[Evaluation, Row]:
        return score_own(model, study.without_negatives(), test, beside)

    return train_and_score(cell, study, evaluate)


@lru_cache(maxsize=2)  # cells that share a fold are neighbours
def _fold_of_study(data: str) -> Study:
    options = json.loads(data)
    study = without_test(read(**options["read"]))
    return folded(study, options["fold"], options["folds"], options["val_fraction"])


def score_own(
    model: Model, study: Study, test: Study, beside: Path | None = None
) -> tuple[Evaluation, Row]:
    """Score a model on held-out cases by the raters' labels, and by references if there are any.

    Args:
        model: The model.
        study: What it was trained on: matrices are counted on all cases that are not of 'test'.
        test: The held-out cases.
        beside: Where sums and predictions of each case are kept, to compare cells by.
    """
    rest = without_test(study)
    known = shared_raters(model.config.labelled, test)
    columns = [model.config.raters.index(name) for name in known]
    places = list(known.values())
    cut = None if model.cuts is None else model.cuts.area
    with_counted = LabelFit(columns, places, counted_matrices(model, rest), cut)
    with_own = LabelFit(columns, places, None, cut) if has_matrices(model) else with_counted

    def watch(case: Case, bands: Iterator[Prediction]) -> Iterator[Prediction]:
        if with_own is not with_counted:
            bands = with_own.bands(case, bands)
        return with_counted.bands(case, bands)

    found = score_model(model, test, surfaces=False, samples=0, watch=watch)
    if not found.score.endswith("reference"):
        for name in ("score", "score_best", "score_area"):
            found.main.pop(name, None)
    sums = {}
    for name, own_sums in with_own.sums.items():
        counted_sums = with_counted.sums[name]
        sums[name] = np.array([*own_sums[:2], *counted_sums[:2], own_sums[2]])
    if beside is not None:
        groups = dict(zip(test.index.ids, test.index.groups, strict=True))
        write_kept(beside, Kept({c: str(groups[c]) for c in sums}, sums, with_own.predicted))
    *logs, labels = np.sum(list(sums.values()), axis=0).tolist()
    means = {
        name: log / labels if labels else None for name, log in zip(BY_LABEL, logs, strict=True)
    }
    return found, {**means, "labels": int(labels), "cases": len(sums)}


@dataclass(frozen=True)
class Kept:
    """What is kept of the held-out cases of a cell, by case.

    Attributes:
        groups: The group.
        sums: Log-likelihoods as `BY_LABEL` lists them, and how many labels they are sums of.
        predicted: The predicted class, `(*space)`; masks at the cut of the raters' area.
    """

    groups: Mapping[str, str]
    sums: Mapping[str, Floats]
    predicted: Mapping[str, Labels]


def write_kept(path: Path, kept: Kept) -> None:
    """Write what is kept of a cell as `.npz`."""
    each = [kept.predicted[case] for case in kept.sums]
    table = all(one.ndim == 0 for one in each)  # a file for each task would take long
    arrays = {"": np.array(each)} if table else {f"{k}": one for k, one in enumerate(each)}
    with written_whole(path, "wb") as file:
        np.savez_compressed(
            file,
            cases=np.array(list(kept.sums), np.str_),
            groups=np.array([kept.groups[case] for case in kept.sums], np.str_),
            sums=np.array(list(kept.sums.values()), np.float64),
            **{f"predicted{name}": one for name, one in arrays.items()},  # type: ignore[arg-type]
        )


def read_kept(path: Path) -> Kept | None:
    """Read what is kept of a cell; None if it is gone."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        names = [str(name) for name in found["cases"]]
        groups = dict(zip(names, map(str, found["groups"]), strict=True))
        sums = dict(zip(names, found["sums"], strict=True))
        table = found.get("predicted")
        predicted = {
            name: found[f"predicted{k}"] if table is None else table[k]
            for k, name in enumerate(names)
        }
    return Kept(groups, sums, predicted)


MOST_PASSES = 100
CLOSE = 1e-3
"""Matrices are counted until none changes by more, or so many times."""

MOST_VALUES = 1 << 24
"""Probabilities that matrices are counted on: of large studies some cases suffice."""


def has_matrices(model: Model) -> bool:
    """Whether a method learns matrices itself, and does not count them."""
    return "confusion" in model.method.answers and not model.method.counts_raters


def counted_matrices(model: Model, part: Study) -> Floats:
    """Count the raters' matrices on cases that the model was trained on.

    They are those that make the labels most likely, given the network, as matrices that are learnt
    with it are: EM with `p(t | x)` held. Labels are first counted against `p(t | x)`, then against
    the posterior `q(t) ~ p(t | x) prod_r C_r[t, o_r]`, until nothing changes.

    Matrices that are counted once against the targets of the training would not do: where a case
    has one label the target is that label, every rater has the identity, and a label that another
    rater contradicts is as good as impossible. Each row has one label more than was counted, spread
    over all classes, so that no label of a held-out case is impossible. Anonymous raters share one
    matrix.

    Args:
        model: The model.
        part: The cases to count on; never those that are held out.

    Returns:
        `C[t, o]`, `(raters, L, L)`, on the axis of `part.raters`.
    """
    size = len(part.classes)
    cases, truth = _predicted(model, part)
    prior = np.maximum(np.concatenate([one.reshape(size, -1) for one in truth], axis=1), LEAST)
    if part.kind == "segmentation":
        labels = [case.labels.reshape(len(part.raters), -1) for case in cases]
        columns = columns_of(np.concatenate(labels, axis=1), size, patterns=False)
        estimate: EStep = partial(e_step, columns)
    else:
        answers = [case.answers for case in cases]
        estimate = partial(
            _table_step,
            task=np.repeat(np.arange(len(cases)), [len(one.label) for one in answers]),
            rater=np.concatenate([one.rater for one in answers]),
            label=np.concatenate([one.label for one in answers]),
        )
    if part.anonymous:
        estimate = partial(_shared_step, estimate=estimate)
    # Matrices that say nothing leave `p(t | x)` as the first posterior.
    start = np.full((len(part.raters), size, size), 1 / size)
    options = EMOptions(MOST_PASSES, CLOSE, smoothing=1 / size)
    return run_em(estimate, EMState(prior.astype(np.float64), start), options).confusion


def _shared_step(state: EMState, estimate: EStep) -> tuple[Floats, float]:
    """Count the labels of all raters together, where their names are not those of people."""
    counts, log_likelihood = estimate(state)
    return np.broadcast_to(counts.sum(axis=0), counts.shape), log_likelihood


def _table_step(state: EMState, task: Ints, rater: Ints, label: Labels) -> tuple[Floats, float]:
    """Return what `raters.fusion.em.e_step` does, of answers to tasks with a prior each.

    (In `raters.fusion.answers` all tasks have the same one.)
    """
    log = np.log(state.prior.T)
    np.add.at(log, task, np.log(state.confusion)[rater, :, label])
    top = log.max(axis=1, keepdims=True)
    share = np.exp(log - top)
    total = share.sum(axis=1, keepdims=True)
    raters, size, _ = state.confusion.shape
    counts = np.zeros((raters, size + 1, size))
    np.add.at(counts, (rater, label.astype(np.intp) + 1), (share / total)[task])
    return counts, float((np.log(total) + top).sum())


def _predicted(model: Model, part: Study) -> tuple[list[Case], list[Array]]:
    """Return cases in random order, and `p(t | x)` of each, until there are enough."""
    from raters.learning.prediction.predict import predict_cases

    order = np.random.default_rng(0).permutation(len(part))
    cases = []
    truth = []
    number = 0
    for case, found in predict_cases(model, (part[int(k)] for k in order)):
        if isinstance(found, RatersError):
            raise found
        cases.append(case)
        truth.append(found.truth)
        number += found.truth.size
        if number >= MOST_VALUES:
            break
    return cases, truth


@dataclass
class LabelFit:
    """Sums the log-likelihoods of held-out labels while a model is scored (`watch`).

    Attributes:
        columns: Where the raters who are known are among the model's matrices.
        places: Where they are in the study.
        counted: Their matrices on the axis of the study, where the model has none of its own.
        cut: The cut of masks that predictions are kept at; None keeps the most likely class.
        sums: By case: the joint log-likelihood, that of left-out raters, and how many labels.
        predicted: By case: the predicted class, `(*space)`.
    """

    columns: list[int]
    places: list[int]
    counted: Floats | None = None
    cut: Floats | None = None
    sums: dict[str, Floats] = field(default_factory=dict)
    predicted: dict[str, Labels] = field(default_factory=dict)

    def bands(self, case: Case, bands: Iterable[Prediction]) -> Iterator[Prediction]:
        """Look at what is said of a case on its way."""
        parts = []
        for band in bands:
            self.add(case, band)
            said = band.labels if self.cut is None else cut_labels(band.truth, self.cut)
            parts.append(np.asarray(said, np.int16))
            yield band
        self.predicted[case.id] = np.concatenate(parts) if parts[0].ndim else parts[0]

    def add(self, case: Case, band: Prediction) -> None:
        """Add what is said of all rows of a case, or of some."""
        matrices = self._matrices(band)
        rows = slice(band.start, band.start + band.truth.shape[1]) if band.truth.ndim > 1 else ...
        labels = labels_of(case)
        own = [np.asarray(labels[place][rows]) for place in self.places]
        number = sum(int((one != MISSING).sum()) for one in own)
        joint = joint_log_likelihood(band.truth, matrices, own)
        others = left_out_log_likelihoods(band.truth, matrices, own).sum()
        found = np.array([joint, others, number])
        self.sums[case.id] = found + self.sums.get(case.id, 0.0)

    def _matrices(self, band: Prediction) -> Array:
        if self.counted is None:
            assert band.confusion is not None  # `score_model` asks for matrices that there are
            return band.confusion[self.columns]
        chosen = self.counted[self.places]
        return chosen.reshape(*chosen.shape, *(1,) * (band.truth.ndim - 1))


def agreement(a: Mapping[str, Labels], b: Mapping[str, Labels], num_classes: int) -> float | None:
    """Return how far two sets of predictions agree: mean Dice of masks, share of equal classes.

    Example:
        >>> one = {"t1": np.array(0), "t2": np.array(1)}
        >>> agreement(one, {"t1": np.array(0), "t2": np.array(0)}, num_classes=2)
        0.5
    """
    shared = [case for case in a if case in b]
    each = [
        mean_dice(a[case], b[case], num_classes) if a[case].ndim else float(a[case] == b[case])
        for case in shared
    ]
    return float(np.mean(each)) if each else None
