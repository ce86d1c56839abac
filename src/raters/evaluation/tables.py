"""Sums over cases, and the tables made of them, each score with its interval over groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from raters.core.arrays import Floats
from raters.evaluation.case import (
    BINS,
    CALIBRATION,
    FIELDS,
    REFERENCE,
    CaseScores,
    Scoring,
    cut_key,
)
from raters.evaluation.masks import ALL, OF_SAMPLES, score_names
from raters.evaluation.result import CaseVectors, Evaluation
from raters.io.rows import Row, known
from raters.metrics.bootstrap import GroupBootstrap, Interval, OfSums, interval, mean_sums, ratio
from raters.metrics.calibration import calibration_error_from_sums

FORMS = ("joint", "marginal", "as the truth")
HALF = "half"
"""The name of the cut at 0.5."""


@dataclass
class Sums:
    """What is kept of the cases: a few numbers of each.

    Attributes:
        scoring: What is compared.
        names: The name of each case.
        groups: The group of each case.
        rows: One row per case, class, and labels that the truth was compared with.
        variability: One row per case and class.
        vectors: Sums of each case by name, to be stacked: `(cases, columns)`.
        pairs: `(raters, raters, 6)` of each case, if all pairs are kept.
        own: Of each rater, the calibration sums of 'as X' against X.
        totals: Of each rater, the sums of 'as X' against X (`FIELDS`).
        truth_log: Of each rater, the summed log-likelihood of the labels if they were the truth.
    """

    scoring: Scoring
    names: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    variability: list[Row] = field(default_factory=list)
    vectors: dict[str, list[Floats]] = field(default_factory=dict)
    pairs: list[Floats] = field(default_factory=list)
    own: Floats = field(init=False)
    totals: Floats = field(init=False)
    truth_log: Floats = field(init=False)

    def __post_init__(self) -> None:
        number = len(self.raters)
        self.own = np.zeros((number, CALIBRATION))
        self.totals = np.zeros((number, len(FIELDS)))
        self.truth_log = np.zeros(number)

    @property
    def raters(self) -> tuple[str, ...]:
        """The raters whose labels are predicted too."""
        return tuple(self.scoring.known)

    def add(self, found: CaseScores) -> None:
        """Add a case."""
        self.groups.append(found.case.group)
        self.names.append(found.case.id)
        self.rows += found.rows
        self.variability += found.variability
        each = range(len(self.raters))
        self.own += found.own
        self.totals += found.pairs[each, each]
        self.truth_log += found.truth_log
        if self.scoring.pairs:
            self.pairs.append(found.pairs)
        for name, vector in found.vectors.items():
            self.vectors.setdefault(name, []).append(np.asarray(vector, np.float64))

    def stacked(self, name: str) -> Floats | None:
        """Return the sums of all cases `(cases, columns)`; None if there are none of this name."""
        found = self.vectors.get(name, [])
        return np.stack(found) if found and len(found) == len(self.names) else None


def fill(result: Evaluation, sums: Sums) -> None:
    """Make all tables."""
    scoring = sums.scoring
    bootstrap = GroupBootstrap(sums.groups)
    study = scoring.study
    fit = "dice" if scoring.masks else "accuracy"
    result.cases = sums.rows
    result.variability_cases = sums.variability
    if scoring.masks:
        order = (REFERENCE, *study.raters)
        result.summary = summarise(sums.rows, score_names(scoring.surfaces), order)
    else:
        result.summary = class_summary(sums, bootstrap, study.classes.names)
    result.variability = variability_rows(sums)
    result.likelihood = likelihood_rows(sums, bootstrap)
    result.calibration, result.reliability = calibration_tables(sums, bootstrap)
    result.raters = rater_rows(sums, bootstrap, fit)
    result.as_rater = pair_rows(sums, bootstrap, fit)
    result.as_rater_cases = list(pair_cases(sums, fit))
    referenced = any(row["against"] == REFERENCE for row in sums.rows)
    against = REFERENCE if referenced else "raters"
    sums.vectors["score"] = sums.vectors[against]
    for name in list(scoring.cuts)[1:]:
        parts = sums.vectors[cut_key(name, against)]
        sums.vectors[f"score_{name}"] = [row[[0, len(row) // 2]] for row in parts]
    result.cuts = cut_rows(sums, bootstrap, against)
    result.score = f"{fit}, {'reference' if referenced else 'mean over raters'}"
    stacked = {name: sums.stacked(source) for name, (source, _) in MAIN.items()}
    vectors = {k: v for k, v in stacked.items() if v is not None and v[:, -1].any()}
    result.sums = CaseVectors(sums.names, sums.groups, vectors)
    for name, parts_of in vectors.items():
        result.main |= entry(name, bootstrap.interval(parts_of, MAIN[name][1]))


def summarise(rows: Sequence[Row], scores: Sequence[str], order: Sequence[str]) -> list[Row]:
    """Average scores over cases, for each labels compared with (in order) and each class.

    The interval of a score is a 95 % bootstrap over groups; few groups have none.
    `undefined` cases have no voxel that both label: they have no score and are left out. Where
    neither has a class, `dice` is 1 as `raters.metrics.conventions` states; `dice_drawn` leaves
    these out, as `raters.agree` does.
    """
    summary = []
    parts = _grouped(rows, "against", "class")
    first = {against: k for k, against in enumerate(order)}
    for (against, name), part in sorted(parts.items(), key=lambda item: first[item[0][0]]):
        means: Row = {"against": against, "class": name, "cases": len(part), "undefined": 0}
        for score in scores:
            found = _mean(part, score)
            if score != "dice_drawn":
                means["undefined"] = max(means["undefined"], found.skipped)
            means |= entry(score, found)
        summary.append(means)
    return summary


def _grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    parts: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[column] for column in columns), []).append(row)
    return parts


def _mean(rows: Sequence[Row], score: str) -> Interval:
    values = [float("nan") if row.get(score) is None else row[score] for row in rows]
    return interval(values, [row["group"] for row in rows])


def variability_rows(sums: Sums) -> list[Row]:
    """Average soft Dice, and the scores of samples if there are any, over cases by class."""
    scores = ("soft_dice", *(s for s in OF_SAMPLES if any(s in row for row in sums.variability)))
    summary = []
    for (name,), part in _grouped(sums.variability, "class").items():
        means: Row = {"class": name, "cases": len(part), "samples": part[0]["samples"]}
        for score in scores:
            means |= entry(score, _mean(part, score))
        summary.append(means)
    return summary


def entry(name: str, found: Interval) -> Row:
    """Return a score with the ends of its interval as cells; what does not exist is None."""
    cells = {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}
    return {key: known(value) for key, value in cells.items()}


def calibration_error(sums: Floats) -> Floats:
    """Return the calibration error of sums `(..., CALIBRATION)`."""
    table = sums[..., : 3 * BINS]
    return calibration_error_from_sums(table.reshape(*table.shape[:-1], 3, BINS))


def balanced(sums: Floats) -> Floats:
    """Average the accuracy over classes that occur, from sums `(..., 2 L)`."""
    right, number = np.split(sums, 2, axis=-1)
    shares = np.divide(right, number, out=np.zeros(number.shape), where=number > 0)
    return ratio(np.stack([shares.sum(axis=-1), (number > 0).sum(axis=-1)], axis=-1))


MAIN: dict[str, tuple[str, OfSums]] = {
    "score": ("score", ratio),
    "score_best": ("score_best", ratio),
    "score_area": ("score_area", ratio),
    "joint": ("joint", ratio),
    "marginal": ("marginal", ratio),
    "ece": ("calibration", calibration_error),
    "as_rater": ("as rater", ratio),
    "as_rater_ece": ("as rater calibration", calibration_error),
    "confusion_error": ("confusion error", lambda sums: np.sqrt(ratio(sums))),
    "soft_dice": ("soft_dice", ratio),
    "ged": ("ged", ratio),
    "matched_dice": ("matched_dice", ratio),
}
"""The scores by which runs are compared: the sums that each is of, and how."""


def cut_rows(sums: Sums, bootstrap: GroupBootstrap, against: str) -> list[Row]:
    """Return Dice at each cut, of all foreground classes, of each and of unions, with the cuts."""
    cuts = sums.scoring.cuts
    classes = sums.scoring.study.classes.names
    if len(cuts) < 2:
        return []
    order = [ALL, *classes[1:], *sums.scoring.unions]
    rows: list[Row] = []
    for place, name in enumerate(order):
        if name == ALL and len(classes) == 2:
            continue
        row: Row = {"against": against, "class": name}
        for cut, values in cuts.items():
            parts = sums.stacked(cut_key(cut, against))
            assert parts is not None  # each case has them
            pair = parts[:, [place, len(order) + place]]
            row |= entry(f"dice_{cut}", bootstrap.interval(pair, ratio))
            if cut != HALF:
                of_class = 0 < place < len(classes)
                row[f"cut_{cut}"] = float(values[place - 1]) if of_class else None
        rows.append(row)
    return rows


def likelihood_rows(sums: Sums, bootstrap: GroupBootstrap) -> list[Row]:
    """Return the mean log-likelihood of a label in each form."""
    rows = []
    for form in FORMS:
        parts = sums.stacked(form)
        if parts is not None and parts[:, 1].any():
            found = entry("log_likelihood", bootstrap.interval(parts, ratio))
            rows.append({"form": form, "labels": int(parts[:, 1].sum()), **found})
    return rows


def calibration_tables(sums: Sums, bootstrap: GroupBootstrap) -> tuple[list[Row], list[Row]]:
    """Return calibration error, confidence minus accuracy, Brier score and log loss; the bins."""
    rows = []
    bins = []
    for name, of in (
        ("calibration", ("truth", REFERENCE)),
        ("as rater calibration", ("as rater", "rater")),
    ):
        parts = sums.stacked(name)
        if parts is None or not parts[:, -1].any():
            continue
        row: Row = {"of": of[0], "against": of[1], "labels": int(parts[:, -1].sum())}
        row |= entry("ece", bootstrap.interval(parts, calibration_error))
        gap = parts[:, : 3 * BINS].reshape(-1, 3, BINS).sum(axis=2) @ [[1, 0], [-1, 0], [0, 1]]
        row |= entry("overconfidence", bootstrap.interval(gap, ratio))
        row |= entry("brier", bootstrap.interval(parts[:, [-3, -1]], ratio))
        row |= entry("log_loss", bootstrap.interval(parts[:, [-2, -1]], ratio))
        rows.append(row)
        bins += list(_bins(of[0], parts.sum(axis=0)))
    return rows, bins


def _bins(of: str, total: Floats) -> Iterator[Row]:
    for k, (top, right, number) in enumerate(total[: 3 * BINS].reshape(3, BINS).T.tolist()):
        row: Row = {"of": of, "from": k / BINS, "to": (k + 1) / BINS, "labels": int(number)}
        there = {"confidence": top / number, "accuracy": right / number} if number else {}
        yield row | {"confidence": None, "accuracy": None} | there


def pair_rows(sums: Sums, bootstrap: GroupBootstrap, fit: str) -> list[Row]:
    """Compare 'as X' with the labels of every rater Y."""
    if not sums.scoring.pairs or not sums.pairs:
        return []
    pairs = np.stack(sums.pairs)
    rows = []
    for x, as_rater in enumerate(sums.raters):
        for y, against in enumerate(sums.raters):
            parts = pairs[:, x, y]
            if not parts[:, 5].any():
                continue
            row: Row = {"as": as_rater, "against": against, "cases": int((parts[:, 5] > 0).sum())}
            row["labels"] = int(parts[:, 5].sum())
            row |= entry("log_likelihood", bootstrap.interval(parts[:, 4:], ratio))
            row |= entry(fit, bootstrap.interval(parts[:, :2], ratio))
            if fit == "dice":
                row |= entry("dice_drawn", bootstrap.interval(parts[:, 2:4], ratio))
            rows.append(row)
    return rows


def pair_cases(sums: Sums, fit: str) -> Iterator[Row]:
    """Return the same of every case."""
    for name, group, pairs in zip(sums.names, sums.groups, sums.pairs, strict=False):
        for x, y in np.argwhere(pairs[:, :, 5] > 0):
            good, goods, drawn, drawns, log, labels = pairs[x, y].tolist()
            row: Row = {"case": name, "group": group, "as": sums.raters[x]}
            row |= {"against": sums.raters[y], "labels": int(labels)}
            row |= {"log_likelihood": log / labels, fit: good / goods if goods else None}
            if fit == "dice":
                row["dice_drawn"] = drawn / drawns if drawns else None
            yield row


def rater_rows(sums: Sums, bootstrap: GroupBootstrap, fit: str) -> list[Row]:
    """Return for each rater how well 'as X' fits X, and how much better than 'as another' does."""
    rows = []
    pairs = np.stack(sums.pairs) if sums.scoring.pairs and sums.pairs else None
    for y, rater in enumerate(sums.raters):
        good, goods, _, _, log, labels = sums.totals[y].tolist()
        if not labels:
            continue
        row: Row = {"rater": rater, "labels": int(labels), "log_likelihood": log / labels}
        row |= {"as_the_truth": float(sums.truth_log[y]) / labels}
        fitting = good / goods if goods else None
        for name, value, first in (("log_likelihood", log / labels, 4), (fit, fitting, 0)):
            row[name] = value
            if pairs is not None and len(sums.raters) > 1:
                row |= _against_others(pairs[:, :, y], y, name, first, bootstrap)
        rows.append(row | {"ece": known(calibration_error(sums.own[y]))})
    return rows


def _against_others(
    pairs: Floats, own: int, name: str, first: int, bootstrap: GroupBootstrap
) -> Row:
    """Compare the own row of `pairs` `(cases, as, 6)` with the mean and the best of the others."""
    mine = pairs[:, own, first : first + 2]
    parts = pairs[:, :, first : first + 2]
    others = np.delete(parts, own, axis=1).mean(axis=1)  # the same labels, so the same denominator
    scores = ratio(parts.sum(axis=0))
    row: Row = {f"{name}_of_others": known(ratio(others.sum(axis=0)))}
    row |= entry(f"{name}_better", bootstrap.difference(others, mine, ratio))
    return row | {f"{name}_rank": int(1 + (scores > scores[own]).sum())}


def class_summary(sums: Sums, bootstrap: GroupBootstrap, classes: tuple[str, ...]) -> list[Row]:
    """Return accuracy and log loss against the reference (also by class) and against each rater."""
    parts = {(against, ALL): part for (against,), part in _grouped(sums.rows, "against").items()}
    own = _grouped(parts.get((REFERENCE, ALL), ()), "label")
    parts |= {(REFERENCE, label): part for (label,), part in own.items()}
    order = {REFERENCE: -1, **{rater: k for k, rater in enumerate(sums.raters)}}
    place = {ALL: -1, **{name: k for k, name in enumerate(classes)}}
    summary = []
    for (against, name), part in sorted(
        parts.items(), key=lambda item: (order.get(item[0][0], len(order)), place[item[0][1]])
    ):
        alone = GroupBootstrap([row["group"] for row in part])
        row = {"against": against, "class": name, "cases": len({r["case"] for r in part})}
        row |= {"labels": len(part)}
        for score, column in (("accuracy", "right"), ("log_loss", "log_loss")):
            row |= entry(score, alone.interval(mean_sums([r[column] for r in part]), ratio))
        by_class = sums.stacked("right by class")
        if (against, name) == (REFERENCE, ALL) and by_class is not None:
            row |= entry("balanced_accuracy", bootstrap.interval(by_class, balanced))
        summary.append(row)
    return summary
