"""One pass over the cases that a report of a run shows: scores, matrices, what these say of raters.

The scores are those of `raters.evaluate`; what the model says of each case is looked at while it is
scored, so that nothing is predicted twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats
from raters.core.classes import MISSING
from raters.evaluation.case import REFERENCE
from raters.evaluation.masks import ALL
from raters.evaluation.prediction import Prediction, entropy_bits
from raters.evaluation.result import Evaluation
from raters.io.rows import Row
from raters.learning.evaluation.runs import score_model, shared_raters
from raters.learning.training.model import Model
from raters.learning.training.run import still_falling
from raters.metrics.confusion import count_case, normalise
from raters.metrics.overlap import dice_from_counts, pair_counts
from raters.study.case import Case
from raters.study.study import Study

_TELLING = 10  # percent of what a rater draws more or less, from which on it is worth a word


@dataclass
class Watched:
    """What was seen while the cases were scored.

    Attributes:
        raters: The raters that run and study share, in the order of the study.
        columns: Where each of them is among the run's matrices.
        places: Where each of them is in the study.
        uncertainty: The mean entropy of the truth by case, in bits per pixel.
        answers: `p(t | x)` by case, where cases have one class.
        drawn: Of each rater, the foreground drawn and that of the predicted consensus where
            the rater labelled, `(raters, 2)`; None where cases have one class.
        confusion: Summed matrices `(raters, L, L)`, rows weighted by the predicted consensus.
        pixels: How much of each class the model saw, `(L,)`.
        true_confusion: What the reference says of the raters, `(raters, L, L)`: how often each
            says what of a true class. None without a reference.
        vote: By case, the score of the raters' vote against the reference: mean Dice, or whether
            it is right (a tie in part).
        pairs: By case, the mean Dice of each pair of raters of the study, for masks.
    """

    raters: list[str]
    columns: list[int]
    places: list[int]
    uncertainty: dict[str, float] = field(default_factory=dict)
    answers: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    drawn: Floats | None = None
    confusion: Floats | None = None
    pixels: Floats | None = None
    true_confusion: Floats | None = None
    vote: dict[str, float] = field(default_factory=dict)
    pairs: dict[str, Floats] = field(default_factory=dict)

    def bands(self, case: Case, bands: Iterable[Prediction]) -> Iterator[Prediction]:
        """Look at what is said of a case on its way."""
        for band in bands:
            self.add(case, band)
            yield band

    def add(self, case: Case, band: Prediction) -> None:
        """Look at all rows of a case, or at some."""
        total = band.rows or (band.truth.shape[1] if band.truth.ndim > 1 else 1)
        share = 1.0 if band.rows is None else band.truth.shape[1] / total
        bits = float(entropy_bits(band.truth).mean()) * share
        self.uncertainty[case.id] = self.uncertainty.get(case.id, 0.0) + bits
        if band.truth.ndim == 1:
            self.answers[case.id] = band.truth
        else:
            self._add_drawn(case, band)
        if band.confusion is not None and self.columns:
            summed, pixels = weighted(band.confusion[self.columns], band.truth)
            self.confusion = summed if self.confusion is None else self.confusion + summed
            self.pixels = pixels if self.pixels is None else self.pixels + pixels

    def _add_drawn(self, case: Case, band: Prediction) -> None:
        rows = slice(band.start, band.start + band.truth.shape[1])
        predicted = band.truth.argmax(0) > 0
        sums = np.zeros((len(self.places), 2))
        for k, place in enumerate(self.places):
            labels = case.labels[place][rows]
            sums[k] = (labels > 0).sum(), (predicted & (labels != MISSING)).sum()
        self.drawn = sums if self.drawn is None else self.drawn + sums

    def add_true(self, case: Case, study: Study) -> None:
        """Add what the raters of a case say of each other, and its reference of them."""
        if study.kind == "segmentation":
            couples = combinations(case.labels, 2)
            size = len(study.classes)
            dice = [_mean_dice(pair_counts(a, b, size)) for a, b in couples]
            self.pairs[case.id] = np.array(dice)
        if case.reference is not None and len(study.raters) > 1:
            self.vote[case.id] = vote_score(case, study)
        if case.reference is None or not self.raters:
            return
        counts = true_counts(case, study, self.places)
        self.true_confusion = counts + (0 if self.true_confusion is None else self.true_confusion)

    @property
    def draws_more(self) -> Floats | None:
        """How much more foreground than the predicted consensus has raters draw, as a share."""
        if self.drawn is None:
            return None
        there = np.where(self.drawn[:, 1] > 0, self.drawn[:, 1], np.nan)
        return np.asarray(self.drawn[:, 0] / there - 1)

    @property
    def matrices(self) -> Floats | None:
        """The raters' mean matrices `(raters, L, L)`; None without any."""
        if self.confusion is None or self.pixels is None:
            return None
        return mean_matrices(self.confusion, self.pixels)

    @property
    def true_matrices(self) -> Floats | None:
        """The same of the true ones; None where no rater labelled a case with a reference."""
        if self.true_confusion is None or not self.true_confusion.any():
            return None
        return normalise(self.true_confusion)


def _mean_dice(counts: NDArray[np.int64]) -> float:
    """Return the mean over classes as `raters.evaluate` takes it; NaN where nothing is labelled."""
    return float(dice_from_counts(counts).mean()) if counts.any() else float("nan")


def vote_score(case: Case, study: Study) -> float:
    """Return how good the vote of a case's raters is by its reference; NaN if nobody labelled."""
    classes = len(study.classes)
    reference = np.asarray(case.reference)
    if study.kind == "segmentation":
        from raters.fusion._vote import vote

        return _mean_dice(pair_counts(reference, vote(case.labels, classes).labels, classes))
    votes = np.bincount([label for _, label in case.answers], minlength=classes)
    best = np.flatnonzero(votes == votes.max())
    return float(int(reference) in best) / len(best) if votes.any() else float("nan")


def true_counts(case: Case, study: Study, places: Sequence[int]) -> Floats:
    """Return how often raters say what of each true class of a case, `(raters, L, L)`.

    Of simulated raters it is what they would say on average, of others what they said.

    Args:
        case: The case; it has a reference.
        study: Its study.
        places: Where the raters are in the study.
    """
    from raters.simulation.backend import SimulatedMasks, SimulatedTable
    from raters.simulation.study import true_confusion

    reference = np.asarray(case.reference)
    size = len(study.classes)
    if not isinstance(study.backend, SimulatedMasks | SimulatedTable):
        return count_case(case, reference, size)[places]
    pixels = np.bincount(reference[reference >= 0].ravel(), minlength=size)
    return np.asarray(true_confusion(study, case.id)[places] * pixels[:, np.newaxis], np.float64)


def weighted(matrices: NDArray[np.float32], truth: NDArray[np.float32]) -> tuple[Floats, Floats]:
    """Sum matrices over pixels, each row weighted by how likely its class is there.

    Args:
        matrices: `(raters, L, L, *space)`; axes of space may have length 1.
        truth: `p(t | x)`, `(L, *space)`.

    Returns:
        The sums `(raters, L, L)`, and the summed weights `(L,)`.

    Example:
        >>> truth = np.array([[1, 0], [0, 1]], np.float32)
        >>> matrix = np.array([[[[0.9, 0.5], [0.1, 0.5]], [[0.5, 0.2], [0.5, 0.8]]]], np.float32)
        >>> weighted(matrix, truth)[0].round(2).tolist()  # row 0 of pixel 0, row 1 of pixel 1
        [[[0.9, 0.1], [0.2, 0.8]]]
    """
    weights = truth.reshape(len(truth), -1)
    flat = matrices.reshape(*matrices.shape[:3], -1)
    pixels = weights.sum(axis=1, dtype=np.float64)
    if flat.shape[-1] == weights.shape[1]:
        summed = np.einsum("tx,rtox->rto", weights, flat, dtype=np.float64)
    else:
        summed = flat[..., 0].astype(np.float64) * pixels[:, np.newaxis]
    return np.asarray(summed), pixels


def score_and_watch(
    model: Model, part: Study, progress: bool = False
) -> tuple[Evaluation, Watched]:
    """Score a model on all cases of a study, and look at what it says on the way."""
    answers = model.method.answers
    known = shared_raters(model.config.labelled, part) if "as_rater" in answers else {}
    columns = [model.config.raters.index(name) for name in known]
    watched = Watched(list(known), columns, list(known.values()))

    def watch(case: Case, bands: Iterator[Prediction]) -> Iterator[Prediction]:
        watched.add_true(case, part)
        return watched.bands(case, bands)

    return score_model(model, part, progress=progress, watch=watch), watched


def mean_matrices(summed: Floats, pixels: Floats) -> Floats:
    """Divide what `weighted` gave; rows of classes that nothing is known of are NaN."""
    there = np.where(pixels > 1e-6, pixels, np.nan)
    return np.asarray(summed / there[:, np.newaxis])


def apart(first: Floats, second: Floats) -> float | None:
    """Return the root mean square difference of two matrices, over rows that both have."""
    squares = (first - second) ** 2
    known = squares[np.isfinite(squares)]
    return float(np.sqrt(np.mean(known))) if known.size else None


# What it says of raters


@dataclass(frozen=True)
class Estimated:
    """The matrices of raters.

    Attributes:
        raters: Their names.
        classes: Names of the classes.
        matrices: `C[t, o]`, `(raters, L, L)`; rows of classes that were not seen are NaN.
        true: The true ones, where there is a reference.
        draws_more: How much more foreground than the predicted consensus has each rater drew, as a
            share; None if unknown, or nothing is drawn.
        over: What the matrices are averaged over, in words.
        masks: Whether class 0 is background.
        pixels: How much of each class the model saw, `(L,)`: with it, masks have a sensitivity
            and a positive predictive value over all foreground.
        all_raters: All raters in the order of the study, by which they have their colours.
        anonymous: Whether raters are anonymous: all are one then.
        shared: Whether all raters share one matrix or head.
        few: Raters who gave too few labels to be judged.
        cut_off: Whether another cut than 0.5 fits the truth clearly better: the area that is
            predicted is then the model's mistake, and nobody is measured by it.
    """

    raters: Sequence[str]
    classes: Sequence[str]
    matrices: Floats
    true: Floats | None = None
    draws_more: Floats | None = None
    over: str = "the cases"
    masks: bool = False
    pixels: Floats | None = None
    all_raters: Sequence[str] | None = None
    anonymous: bool = False
    shared: bool = False
    few: Collection[str] = ()
    cut_off: bool = False


def foreground_of(matrix: Floats, pixels: Floats) -> Row:
    """Return sensitivity and positive predictive value over all foreground, from a matrix.

    With `w` pixels of each true class: `sum_{t > 0} w_t C[t, t]` over `sum_{t > 0} w_t`, and over
    `sum_t sum_{o > 0} w_t C[t, o]`. None where it does not exist.

    Example:
        >>> foreground_of(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([80.0, 20.0]))
        {'sensitivity': 0.8, 'ppv': 0.6666666666666666}
    """
    joint = np.nan_to_num(matrix) * np.nan_to_num(pixels)[:, np.newaxis]
    same = float(np.trace(joint[1:, 1:]))
    there = float(np.nan_to_num(pixels)[1:].sum())
    drawn = float(joint[:, 1:].sum())
    return {"sensitivity": same / there if there else None, "ppv": same / drawn if drawn else None}


def draws_unlike(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """Return who draws much more or less than the predicted consensus has, the farthest first.

    Nobody, where most raters differ in one direction: the prediction may be what is off.

    Example:
        >>> rows = [{"rater": name, "draws_more_percent": p} for name, p in (("a", 90), ("b", 2))]
        >>> draws_unlike(rows), draws_unlike([*rows, {"rater": "c", "draws_more_percent": 30}])
        ([('a', 90)], [])
    """
    percents = [row["draws_more_percent"] for row in rows if row.get("draws_more_percent")]
    more = sum(percent >= _TELLING for percent in percents)
    less = sum(percent <= -_TELLING for percent in percents)
    if max(more, less) > len(rows) / 2:
        return []
    far = [row for row in rows if abs(row.get("draws_more_percent") or 0.0) >= _TELLING]
    far.sort(key=lambda row: -abs(row["draws_more_percent"]))
    return [(row["rater"], row["draws_more_percent"]) for row in far[:4]]


def one_way(percents: Sequence[float | None]) -> tuple[float, float, bool] | None:
    """Return how much more (or less) all raters draw than the model predicts; None if not all do.

    Example:
        >>> one_way([65.0, 50.0]), one_way([65.0, -50.0]), one_way([65.0, 2.0])
        ((50.0, 65.0, True), None, None)
    """
    known = [value for value in percents if value is not None]
    if len(known) < 2 or min(map(abs, known)) < _TELLING or min(known) < 0 < max(known):
        return None
    sizes = [abs(value) for value in known]
    return min(sizes), max(sizes), known[0] > 0


def case_dice(scores: Evaluation, part: Study) -> Iterator[tuple[str, Row]]:
    """Return the Dice of each case with the raters (mean) and with the reference; NaN for none."""
    whole = ALL if len(part.classes) > 2 else part.classes.names[1]
    names = [] if scores.sums is None else scores.sums.names
    found: dict[str, dict[bool, list[float]]] = {name: {True: [], False: []} for name in names}
    for row in scores.cases:
        own = found[row["case"]]
        value = row["dice"]
        if row["class"] == whole and value is not None and math.isfinite(value):
            own[row["against"] == REFERENCE].append(value)
    for name, own in found.items():
        means = {of: float(np.mean(v)) if v else math.nan for of, v in own.items()}
        yield name, {"with_raters": means[False], "with_reference": means[True]}


def telling_cases(
    uncertainty: Mapping[str, float], dice: Mapping[str, float], shown: int
) -> dict[str, str]:
    """Choose cases, in turn the most uncertain, the worst and a typical one; say why each is.

    Example:
        >>> telling_cases({"a": 0.1, "b": 0.4, "c": 0.2}, {"a": 0.9, "b": 0.8, "c": 0.5}, 2)
        {'b': 'most uncertain', 'c': 'far from the raters'}
    """
    known = {name: value for name, value in dice.items() if math.isfinite(value)}
    middle = float(np.median(list(known.values()))) if known else 0.0
    queues = {
        "most uncertain": sorted(uncertainty, key=lambda name: -uncertainty[name]),
        "far from the raters": sorted(known, key=lambda name: known[name]),
        "typical": sorted(known, key=lambda name: abs(known[name] - middle)),
    }
    chosen: dict[str, str] = {}
    while len(chosen) < min(shown, len(uncertainty)):
        for why, queue in queues.items():
            rest = [name for name in queue if name not in chosen and name in uncertainty]
            if rest and len(chosen) < shown:
                chosen[rest[0]] = why
    return chosen


# How the training went

_TRENDS = {
    "held_out": (1.0, "held-out loss", "falling"),
    "reference": (-1.0, "score by the reference", "rising"),
}
_RISE = 0.1  # of the whole way, from which on a loss rises again


def trend_of(history: Sequence[Row], stopped: bool) -> Row | None:
    """Return whether longer training would help; None where nobody can tell.

    Example:
        >>> trend_of([{"held_out": 9 - k} for k in range(6)], stopped=False)["trend"]
        'still'
    """
    trained = [row for row in history if row.get("phase") != "warm-up"]
    column = "reference" if _numbers(trained, "reference") else "held_out"  # it chooses by default
    sign, name, way = _TRENDS[column]
    values = [sign * value for value in _numbers(trained, column)]
    loss = _numbers(history, "held_out")
    trend = "settled" if len(values) >= 3 else ""
    if trend and loss and loss[-1] > min(loss) + _RISE * (max(loss) - min(loss)):
        trend = "overfit"
    if stopped:
        trend = "stopped"
    elif still_falling(values):
        trend = "still"

    ends = {"best": min(loss, default=None), "end": loss[-1] if loss else None}
    return {"trend": trend, "name": name, "way": way, **ends} if trend else None


def lost_dominance(history: Sequence[Row], best: int) -> Row | None:
    """Return in how many epochs truth and errors may be swapped, and the margin of the best one."""
    found = {row.get("epoch"): finite(row.get("dominance")) for row in history}
    margins = {epoch: margin for epoch, margin in found.items() if margin is not None}
    if not margins:
        return None
    lost = [epoch for epoch, margin in margins.items() if margin <= 0]
    first = lost[0] if lost else None
    margin = margins[best] if best in lost else None
    return {"margin": margin, "lost": len(lost), "epochs": len(margins), "first": first}


def _numbers(history: Sequence[Row], column: str) -> list[float]:
    found = [finite(row.get(column)) for row in history]
    return [value for value in found if value is not None]


def finite(value: object) -> float | None:
    """Return a number of a history; None for what is none, or not finite."""
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]
