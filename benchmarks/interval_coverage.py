"""How often each interval that is shown holds the truth: it should in 90 to 98 % of studies.

    python benchmarks/interval_coverage.py              # 200 simulated studies a row, minutes
    python benchmarks/interval_coverage.py --studies 50
    python benchmarks/interval_coverage.py --crowds     # hierarchical, on crowd tables

Raters of known matrices label independent voxels or tasks; the shares of raters and studies whose
interval holds the true sensitivity, specificity, PPV and NPV of the foreground are printed, and how
many cells had an interval at all (a rater who was never wrong has none). The last rows are means of
scores over groups, as `raters evaluate` gives them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import raters
from crowd_tables import KINDS, Kind, drawn
from raters.assessment.performance import MEASURES, measures
from raters.fusion._hierarchical import hierarchical, posterior_errors
from raters.io.rows import Row
from raters.metrics import interval
from raters.study.study import Study

Array = NDArray[Any]
LOWEST = 0.90
HIGHEST = 0.98

RATERS = np.array(
    [
        [[0.95, 0.05], [0.15, 0.85]],
        [[0.9, 0.1], [0.1, 0.9]],
        [[0.97, 0.03], [0.3, 0.7]],
        [[0.85, 0.15], [0.2, 0.8]],
        [[0.92, 0.08], [0.25, 0.75]],
    ]
)
COINS = np.array([[[p, 1 - p], [1 - p, p]] for p in (0.95, 0.9, 0.85, 0.8, 0.75)])


@dataclass(frozen=True)
class Setting:
    """One row: how studies are drawn and fused."""

    name: str
    draw: Callable[[np.random.Generator, float], Study]
    method: str
    options: dict[str, Any]
    matrices: Array


def said(random: np.random.Generator, matrices: Array, number: int, share: float) -> Array:
    """Draw what raters say of `number` voxels or tasks, `(raters, number)`."""
    truth = (random.random(number) < share).astype(int)
    return np.stack([random.random(number) < m[truth, 1] for m in matrices]).astype(int)


def one_case(voxels: int) -> Callable[[np.random.Generator, float], Study]:
    """Return a maker of studies of one image."""

    def draw(random: np.random.Generator, share: float) -> Study:
        labels = said(random, RATERS, voxels, share)
        return Study.from_arrays(labels=labels.reshape(1, len(RATERS), 40, -1))

    return draw


def some_cases(cases: int) -> Callable[[np.random.Generator, float], Study]:
    """Return a maker of studies of cases of 400 voxels whose share of foreground differs."""

    def draw(random: np.random.Generator, share: float) -> Study:
        shares = random.beta(4, 4 * (1 - share) / share, cases)
        labels = [said(random, RATERS, 400, s).reshape(len(RATERS), 20, 20) for s in shares]
        return Study.from_arrays(labels=labels)

    return draw


def table(
    tasks: int, missing: float, matrices: Array = RATERS
) -> Callable[[np.random.Generator, float], Study]:
    """Return a maker of tables."""

    def draw(random: np.random.Generator, share: float) -> Study:
        labels = said(random, matrices, tasks, share).T.copy()
        labels[random.random(labels.shape) < missing] = -1
        return Study.from_arrays(labels=labels)

    return draw


def crowd(random: np.random.Generator, share: float) -> Study:
    """Draw a table of 60 workers, 12 of each kind, who answer 5 of 1,000 tasks together."""
    matrices = np.repeat(RATERS, 12, axis=0)
    labels = said(random, matrices, 1000, share).T.copy()
    labels[random.random(labels.shape).argsort(axis=1) >= 5] = -1
    return Study.from_arrays(labels=labels)


DS = "dawid-skene"
POOL = {"pool": True}
EST = {"estimate_prior": True}
SETTINGS = [
    Setting("masks, one case, 2,000 voxels", one_case(2000), DS, {}, RATERS),
    Setting("masks, one case, 20,000 voxels", one_case(20_000), DS, {}, RATERS),
    Setting("masks, pooled, 6 cases", some_cases(6), DS, POOL, RATERS),
    Setting("masks, pooled, 20 cases", some_cases(20), DS, POOL, RATERS),
    Setting("table, 300 tasks", table(300, 0), DS, {}, RATERS),
    Setting("table, 300 tasks, 40 % missing", table(300, 0.4), DS, {}, RATERS),
    Setting("table, 60 workers, 5 answers a task", crowd, DS, {}, np.repeat(RATERS, 12, axis=0)),
    Setting("table, 300 tasks, coins", table(300, 0, COINS), "one-coin", EST, COINS),
    Setting("table, coins, 40 % missing", table(300, 0.4, COINS), "one-coin", EST, COINS),
]


def tally(rows: list[Row], truth: Array) -> Array:
    """Count intervals that hold the truth, intervals and cells, `(3, 4)`."""
    found = np.zeros((3, len(MEASURES)))
    for row in rows:
        if row["class"] not in ("foreground", "1"):
            continue
        for m, name in enumerate(MEASURES):
            low = row[f"{name}_low"]
            high = row[f"{name}_high"]
            there = low is not None
            inside = there and low <= truth[int(row["rater"]), m, 1] <= high
            found[:, m] += inside, there, 1
    return found


def fused_rows(setting: Setting, share: float, studies: int) -> tuple[Array, float]:
    """Fuse drawn studies; give the tally and the seconds that it took."""
    prior = np.array([1 - share, share])
    truth = measures(setting.matrices, prior)
    options = dict(setting.options)
    if setting.method == "staple":
        options["prior"] = prior
    began = time.process_time()
    total = np.zeros((3, len(MEASURES)))
    for seed in range(studies):
        study = setting.draw(np.random.default_rng(seed), share)
        total += tally(raters.fuse(study, setting.method, **options).rows, truth)
    return total, time.process_time() - began


def crowd_coverage(kind: Kind, tables: int) -> Array:
    """Tally intervals of `hierarchical` on drawn crowd tables, all classes, `(3, 4)`."""
    found = np.zeros((3, len(MEASURES)))
    for seed in range(1000, 1000 + tables):
        triplets, truth, matrices = drawn(kind, seed)
        shares = np.bincount(truth, minlength=kind.classes) / len(truth)
        true = measures(matrices, np.array(kind.shares) if kind.shares else shares)
        errors = posterior_errors(triplets, hierarchical(triplets, kind.classes))
        assert errors is not None and errors.low is not None and errors.high is not None
        seen = np.bincount(triplets.rater, minlength=kind.raters) > 0
        low, true, high = (x[seen].transpose(1, 0, 2) for x in (errors.low, true, errors.high))
        there = np.isfinite(true) & np.isfinite(low)
        inside = there & (low <= true) & (true <= high)
        found += [x.sum(axis=(1, 2)) for x in (inside, there, np.isfinite(true))]
    return found


def verdict(share: float) -> str:
    """Mark what is outside the bounds."""
    return f"{share:.3f}{' ' if LOWEST <= share <= HIGHEST else '!'}"


def scores_coverage(groups: int, skewed: bool, studies: int) -> float:
    """Return how often the interval of a mean over groups of 1 to 9 cases holds it."""
    hits = 0
    for seed in range(studies):
        random = np.random.default_rng(seed)
        number = np.repeat(np.arange(groups), random.integers(1, 10, groups))
        own = 0.1 - random.exponential(0.1, groups) if skewed else random.normal(0, 0.1, groups)
        values = 0.8 + own[number] + random.normal(0, 0.05, number.size)
        found = interval(values, number, repeats=500, seed=seed)
        hits += found.low <= 0.8 <= found.high
    return hits / studies


def main() -> None:
    """Print a line a setting and prevalence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200, help="simulated studies a row")
    parser.add_argument("--crowds", action="store_true", help="crowd tables, 3 of each kind")
    given = parser.parse_args()
    studies = given.studies
    known = Setting("masks, one case, prior known", one_case(2000), "staple", {}, RATERS)
    print(f"{'':48}{'sens.':>7}{'spec.':>7}{'PPV':>7}{'NPV':>7}   shown  CPU-s")
    for kind in [k for k in KINDS if given.crowds and not (k.hard or k.fool)]:
        hits, there, cells = crowd_coverage(kind, 3)
        cover = "".join(f"{verdict(c):>7}" for c in hits / there)
        print(f"{kind.name:48}{cover}  {there.sum() / cells.sum():6.2f}", flush=True)
    if given.crowds:
        return
    for setting in (known, *SETTINGS):
        for share in (0.1, 0.3):
            (hits, there, cells), took = fused_rows(setting, share, studies)
            cover = "".join(f"{verdict(c):>7}" for c in hits / np.maximum(there, 1))
            name = f"{setting.name}; {setting.method}, {share:g}"
            print(f"{name:48}{cover}  {there.sum() / cells.sum():6.2f} {took:6.1f}", flush=True)
    for groups in (6, 10, 20, 40):
        for skewed in (False, True):
            name = f"mean over {groups} groups{', skewed' if skewed else ''}"
            print(
                f"{name:48}{verdict(scores_coverage(groups, skewed, 2 * studies)):>7}", flush=True
            )


if __name__ == "__main__":
    main()
