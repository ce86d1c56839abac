"""The results of a benchmark as plain data: means over seeds, paired differences, rank correlation.

All values are in the units that tables show (`raters.comparison.scores`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raters.comparison.cell import Cell, result_of, why_empty
from raters.comparison.scores import SCORES, columns
from raters.core.errors import RatersError
from raters.io.rows import Row
from raters_bench.cells import cells_of
from raters_bench.spec import SCALES, Specification

NOT_RUN = "not run yet"
NOT_HERE = "not at this scale"
ELSEWHERE = "not in this setting"
REASONS = (
    NOT_RUN,
    NOT_HERE,
    ELSEWHERE,
    "published only",
    "not in raters yet",
    "edited",
    "other version",
)
"""Why a row has no result."""
LEAST_RANKED = 2
"""Rows that an order needs; of two it is the same (1) or reversed (-1)."""

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")

BySeed = Mapping[int, float]
Place = tuple[str, str]
"""A setting and a row."""


@dataclass(frozen=True)
class Summary:
    """A score over seeds; the standard deviation (n - 1) of one seed does not exist."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """A paired difference over common seeds, with its 95 % interval if there are two or more."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rank correlation between the published and our order; None if it is undefined."""

    setting: str
    score: str
    rho: float | None
    rows: int


@dataclass
class Collected:
    """All that is known of a benchmark at a scale.

    Attributes:
        spec: The benchmark.
        scale: The name of the scale.
        values: By setting, row and score: a value per seed, in shown units.
        wanted: How many cells there are, by setting and row.
        done: How many of them have a result.
        why: Why there is no result, by setting and row.
        problems: Files that cannot be used, each named.
        seconds: How long all cells took together, each on one core.
        memory: The most memory that a cell held, in MB.
        versions: The versions that results are of, by what they are of.
        folder: The folder of results.
    """

    spec: Specification
    scale: str
    values: dict[tuple[str, str, str], dict[int, float]] = field(default_factory=dict)
    wanted: dict[Place, int] = field(default_factory=dict)
    done: dict[Place, int] = field(default_factory=dict)
    why: dict[Place, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    memory: float = 0.0
    versions: dict[str, list[str]] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that are run at this scale."""
        return self.spec.scale(self.scale).settings or tuple(self.spec.settings)

    @property
    def scores(self) -> list[str]:
        """The scores that are shown, Dice at three cuts."""
        return columns(self.spec.scores)

    @property
    def num_wanted(self) -> int:
        """How many cells there are."""
        return sum(self.wanted.values())

    @property
    def num_done(self) -> int:
        """How many cells have a result."""
        return sum(self.done.values())

    @property
    def comparable(self) -> bool:
        """Whether numbers can be held against those of a paper: not those of drawn data."""
        return self.scale != "smoke"

    @property
    def most_seeds(self) -> int:
        """The most seeds that a row has results of."""
        return max(self.done.values(), default=0)

    def by_seed(self, setting: str, row: str, score: str) -> dict[int, float]:
        """Return the values of a row in a setting, by seed."""
        return self.values.get((setting, row, score), {})

    def summary(self, setting: str, row: str, score: str) -> Summary | None:
        """Return the mean of a row in a setting; None without results."""
        return summary(list(self.by_seed(setting, row, score).values()))

    def difference(self, setting: str, row: str, score: str) -> Difference | None:
        """Return what a row is more than the baseline; None without results, or for itself."""
        if row == self.spec.baseline:
            return None
        base = self.by_seed(setting, self.spec.baseline, score)
        return paired(self.by_seed(setting, row, score), base)

    def published(self, setting: str, row: str, score: str) -> float | None:
        """Return the value that the paper prints; None if it prints none."""
        return self.spec.rows[row].published.get(setting, {}).get(score)

    def rows_of(self, setting: str) -> list[str]:
        """Return the rows that a setting shows: those that are run there, and published ones."""
        return [
            name
            for name, row in self.spec.rows.items()
            if row.settings is None or setting in row.settings or setting in row.published
        ]


def collect(spec: Specification, scale: str, folder: Path) -> Collected:
    """Collect the results of a benchmark; files that cannot be used are named, not raised.

    Args:
        spec: The benchmark.
        scale: The name of a scale.
        folder: The folder of results.
    """
    found = Collected(spec, scale, folder=folder)
    seen: dict[str, set[str]] = {}
    for cell in cells_of(spec, scale):
        place = cell.setting, cell.row
        found.wanted[place] = found.wanted.get(place, 0) + 1
        try:
            result = result_of(cell, folder)
        except RatersError as error:
            found.why[place] = str(error.kind).replace("-", " ")
            found.problems.append(str(error))
            continue
        if result is None:
            continue
        found.done[place] = found.done.get(place, 0) + 1
        found.seconds += result.core_seconds
        found.memory = max(found.memory, result.peak_memory_mb or 0)
        for name, version in result.versions.items():
            seen.setdefault(name, set()).add(version)
        for score in found.scores:
            value = result.scores.get(score)
            if value is not None:
                key = cell.setting, cell.row, score
                found.values.setdefault(key, {})[cell.seed] = value * SCORES[score].factor
    found.versions = {name: sorted(versions) for name, versions in seen.items()}
    _say_why(found)
    return found


def _say_why(found: Collected) -> None:
    """Say of each setting and row without results why there are none."""
    for setting in found.settings:
        for name in found.rows_of(setting):
            if (setting, name) in found.done:
                continue
            row = found.spec.rows[name]
            elsewhere = row.settings is not None and setting not in row.settings
            reason = why_empty(row.method) or (ELSEWHERE if elsewhere else "")
            waiting = NOT_RUN if (setting, name) in found.wanted else NOT_HERE
            found.why.setdefault((setting, name), reason or waiting)


def largest_scale(spec: Specification, folder: Path) -> str:
    """Return the largest scale that has results in a folder.

    Raises:
        RatersError: There are none.
    """
    for scale in reversed(SCALES):
        cells = cells_of(spec, scale) if scale in spec.scales else []
        if any(cell.path(folder).exists() for cell in cells):
            return scale
    raise no_results(spec.name, folder)


def no_results(name: str, folder: Path) -> RatersError:
    """Return the error of a folder without results of a benchmark."""
    return RatersError(
        f"found no results of {name} in {folder}, expected some: raters bench run {name} "
        f"-o {folder} makes them; -o says where others are",
        kind="no-results",
    )


def progress_of(spec: Specification, folder: Path) -> Row:
    """Return what a benchmark repeats, and how many of its cells are done at each scale."""
    scales = []
    for scale in spec.scales:
        cells = cells_of(spec, scale)
        done = sum(cell.path(folder).exists() for cell in cells)
        seconds = rough_seconds(cells, folder) if done else None
        scales.append({"scale": scale, "done": done, "cells": len(cells), "seconds_left": seconds})
    return {"name": spec.name, "title": spec.title, "paper": spec.paper or None, "scales": scales}


def rough_seconds(cells: Sequence[Cell], folder: Path) -> float | None:
    """Return the seconds of one core that the cells without result may take, by those with one.

    A cell takes as long as others of its row, else as others of its benchmark and scale; None if
    there are none.
    """
    took: dict[tuple[str, ...], list[float]] = {}
    left = []
    for cell in cells:
        try:
            result = result_of(cell, folder)
        except RatersError:
            result = None
        if result is None:
            left.append(cell)
            continue
        for key in _alike(cell):
            took.setdefault(key, []).append(result.core_seconds)
    total = 0.0
    for cell in left:
        known = next((took[key] for key in _alike(cell) if key in took), None)
        if known is None:
            return None
        total += sum(known) / len(known)
    return total


def _alike(cell: Cell) -> list[tuple[str, ...]]:
    whole = (cell.benchmark, cell.scale)
    return [(*whole, cell.row), whole]


def long_rows(found: Collected) -> list[Row]:
    """Return one row for each setting, row, seed and score."""
    return [
        {"setting": setting, "row": row, "seed": seed, "score": score, "value": value}
        for (setting, row, score), values in found.values.items()
        for seed, value in values.items()
    ]


def curves(found: Collected) -> dict[str, dict[float, str]]:
    """Return the settings that are points of curves: by the name without its number, and by it.

    The last number of a setting's name is its place on the axis; settings without one are left
    out. There are none if the benchmark has no axis, or no curve more than one point.
    """
    groups: dict[str, dict[float, str]] = {}
    for setting in found.settings if found.spec.axis else ():
        placed = on_axis(setting)
        if placed is not None:
            groups.setdefault(placed[0], {})[placed[1]] = setting
    if all(len(points) == 1 for points in groups.values()):
        return {}
    return {name: dict(sorted(points.items())) for name, points in groups.items()}


def on_axis(setting: str) -> tuple[str, float] | None:
    """Return the name of a setting without its last number, and the number; None without one.

    Example:
        >>> on_axis("mean Dice 0.7, one label"), on_axis("usual raters")
        (('mean Dice, one label', 0.7), None)
    """
    numbers = list(_NUMBER.finditer(setting))
    if not numbers:
        return None
    last = numbers[-1]
    rest = setting[: last.start()].rstrip(" =:") + setting[last.end() :]
    return rest.strip(" ,:="), float(last[0])


# Statistics on plain numbers.


def summary(values: Sequence[float]) -> Summary | None:
    """Return mean and standard deviation of some values; None of none.

    Example:
        >>> summary([1.0, 3.0])
        Summary(mean=2.0, sd=1.4142135623730951, n=2)
        >>> summary([1.0]).sd is None
        True
    """
    n = len(values)
    if not n:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(mean, None, 1)
    return Summary(mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1)), n)


def paired(ours: BySeed, theirs: BySeed) -> Difference | None:
    """Return the mean difference over common seeds with its 95 % interval (Student's t).

    Seeds make data easy or hard for all rows alike; in differences by seed that cancels. The
    interval is `mean ± t(0.975, n - 1) sd / sqrt(n)`.

    Example:
        >>> found = paired({0: 3.0, 1: 4.0, 2: 5.0}, {0: 2.0, 1: 2.0, 2: 2.0, 9: 0.0})
        >>> found.mean, round(found.low, 3), round(found.high, 3), found.n
        (2.0, -0.484, 4.484, 3)
        >>> paired({0: 1.0}, {1: 1.0}) is None
        True
    """
    found = summary([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    if found is None:
        return None
    if found.sd is None:
        return Difference(found.mean, None, None, 1)
    from scipy.special import stdtrit

    half = float(stdtrit(found.n - 1, 0.975)) * found.sd / math.sqrt(found.n)
    return Difference(found.mean, found.mean - half, found.mean + half, found.n)


def rank_correlation(published: Mapping[str, float], ours: Mapping[str, float]) -> float | None:
    """Return Spearman's rank correlation over common rows; None for one, or if all are equal.

    Example:
        >>> rank_correlation({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 30, "c": 20})
        0.5
    """
    both = [name for name in published if name in ours]
    first = [published[name] for name in both]
    second = [ours[name] for name in both]
    if len(both) < LEAST_RANKED or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def rank_correlations(found: Collected) -> list[RankCorrelation]:
    """Compare the published with our order of rows, for each setting and score with both.

    There are none at a scale whose numbers cannot be compared.
    """
    answers = []
    for setting in found.settings if found.comparable else ():
        for score in found.scores:
            printed = {row: found.published(setting, row, score) for row in found.spec.rows}
            published = {row: value for row, value in printed.items() if value is not None}
            means = ((row, found.summary(setting, row, score)) for row in published)
            ours = {row: one.mean for row, one in means if one is not None}
            if ours:
                rho = rank_correlation(published, ours)
                answers.append(RankCorrelation(setting, score, rho, len(ours)))
    return answers
