"""Turns the sums of a run into tables, each score with its interval over groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.evaluation.result import REFERENCE
from raters.prediction.evaluate_case import BINS
from raters.prediction.evaluate_sums import RunSums
from raters.rows import Row
from raters.scores.bootstrap import Interval
from raters.scores.bootstrap_sums import GroupBootstrap, mean_sums, ratio
from raters.scores.calibration import calibration_error_from_sums

Floats = NDArray[np.float64]
ALL = "all"
FORMS = ("joint", "marginal", "as the truth")


def entry(name: str, found: Interval) -> Row:
    """Return a score with the ends of its interval as cells; what does not exist is None."""
    cells = {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}
    return {key: None if value != value else value for key, value in cells.items()}


def calibration_error(sums: Floats) -> Floats:
    """Return the calibration error of sums `(..., CALIBRATION)`."""
    table = sums[..., : 3 * BINS]
    return calibration_error_from_sums(table.reshape(*table.shape[:-1], 3, BINS))


def balanced(sums: Floats) -> Floats:
    """Average the accuracy over classes that occur, from sums `(..., 2 L)`."""
    right, number = np.split(sums, 2, axis=-1)
    shares = np.divide(right, number, out=np.zeros(number.shape), where=number > 0)
    return ratio(np.stack([shares.sum(axis=-1), (number > 0).sum(axis=-1)], axis=-1))


def likelihood_rows(sums: RunSums, bootstrap: GroupBootstrap) -> list[Row]:
    """Return the mean log-likelihood of a label in each form."""
    rows = []
    for form in FORMS:
        parts = sums.stacked(form)
        if parts is not None and parts[:, 1].any():
            found = entry("log_likelihood", bootstrap.interval(parts, ratio))
            rows.append({"form": form, "labels": int(parts[:, 1].sum()), **found})
    return rows


def calibration_tables(sums: RunSums, bootstrap: GroupBootstrap) -> tuple[list[Row], list[Row]]:
    """Return calibration error, Brier score and log loss, and what is in each bin."""
    rows, bins = [], []
    for name, of in (
        ("calibration", ("truth", REFERENCE)),
        ("as rater calibration", ("as rater", "rater")),
    ):
        parts = sums.stacked(name)
        if parts is None or not parts[:, -1].any():
            continue
        row: Row = {"of": of[0], "against": of[1], "labels": int(parts[:, -1].sum())}
        row |= entry("ece", bootstrap.interval(parts, calibration_error))
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


def pair_rows(sums: RunSums, bootstrap: GroupBootstrap, fit: str) -> list[Row]:
    """Compare 'as X' with the labels of every rater Y."""
    if not sums.pairs_kept or not sums.pairs:
        return []
    pairs, rows = np.stack(sums.pairs), []
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


def pair_cases(sums: RunSums, fit: str) -> Iterator[Row]:
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


def rater_rows(sums: RunSums, bootstrap: GroupBootstrap, fit: str) -> list[Row]:
    """Return for each rater how well 'as X' fits X, and how much better than 'as another' does."""
    rows = []
    pairs = np.stack(sums.pairs) if sums.pairs_kept and sums.pairs else None
    for y, rater in enumerate(sums.raters):
        good, goods, _, _, log, labels = sums.totals[y].tolist()
        if not labels:
            continue
        row: Row = {"rater": rater, "labels": int(labels), "log_likelihood": log / labels}
        row |= {"as_the_truth": float(sums.truth_log[y]) / labels}
        if pairs is not None and len(sums.raters) > 1:
            row |= _against_others(pairs[:, :, y], y, "log_likelihood", 4, bootstrap)
        row |= {fit: good / goods if goods else None}
        if pairs is not None and len(sums.raters) > 1:
            row |= _against_others(pairs[:, :, y], y, fit, 0, bootstrap)
        rows.append(row | {"ece": _number(calibration_error(sums.own[y]))})
    return rows


def _against_others(
    pairs: Floats, own: int, name: str, first: int, bootstrap: GroupBootstrap
) -> Row:
    """Compare the own row of `pairs` `(cases, as, 6)` with the mean and the best of the others."""
    mine, parts = pairs[:, own, first : first + 2], pairs[:, :, first : first + 2]
    others = np.delete(parts, own, axis=1).mean(axis=1)  # the same labels, so the same denominator
    scores = ratio(parts.sum(axis=0))
    row: Row = {f"{name}_of_others": _number(ratio(others.sum(axis=0)))}
    row |= entry(f"{name}_better", bootstrap.difference(others, mine, ratio))
    return row | {f"{name}_rank": int(1 + (scores > scores[own]).sum())}


def _number(value: Any) -> float | None:  # noqa: ANN401
    return None if value != value else float(value)


def class_summary(sums: RunSums, bootstrap: GroupBootstrap, classes: tuple[str, ...]) -> list[Row]:
    """Return accuracy and log loss against the reference (also by class) and against each rater."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in sums.rows:
        parts.setdefault((row["against"], ALL), []).append(row)
        if row["against"] == REFERENCE:
            parts.setdefault((REFERENCE, row["label"]), []).append(row)
    order = {REFERENCE: -1, **{rater: k for k, rater in enumerate(sums.raters)}}
    place = {ALL: -1, **{name: k for k, name in enumerate(classes)}}
    summary = []
    for (against, name), part in sorted(
        parts.items(), key=lambda item: (order.get(item[0][0], len(order)), place[item[0][1]])
    ):
        own = GroupBootstrap([row["group"] for row in part])
        row = {"against": against, "class": name, "cases": len({r["case"] for r in part})}
        row |= {"labels": len(part)}
        for score, column in (("accuracy", "right"), ("log_loss", "log_loss")):
            row |= entry(score, own.interval(mean_sums([r[column] for r in part]), ratio))
        by_class = sums.stacked("right by class")
        if (against, name) == (REFERENCE, ALL) and by_class is not None:
            row |= entry("balanced_accuracy", bootstrap.interval(by_class, balanced))
        summary.append(row)
    return summary
