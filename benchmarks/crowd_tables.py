"""Accuracy of fusion methods on drawn crowd tables of many kinds, and the gap to the best of three.

    python benchmarks/crowd_tables.py                       # the tables that results are quoted from
    python benchmarks/crowd_tables.py --development         # those that choices were made on
    python benchmarks/crowd_tables.py --data LABELME=folder MUSIC_GENRE=folder

A kind of table is a crowd (how workers err), a number of classes, tasks, workers and answers per
task, and how unequal classes and workers are. Seeds below 100 are for development, those from 1000
on for reporting. The gap is that of the mean accuracy over the tables of a kind to the best of
vote, one-coin and Dawid-Skene there; `worst` is the same on the single worst table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raters.arrays import Array, Floats
from raters.datasets import DATASETS
from raters.fusion.methods import METHODS
from raters.study.triplets import Triplets

RIVALS = ("vote", "one-coin", "dawid-skene")
DEVELOPMENT, REPORTING = 0, 1000
Crowd = Callable[[np.random.Generator, int, int], Floats]


def coins(a: float, b: float) -> Crowd:
    """Workers who err evenly, accuracy between chance and 1 by a beta distribution."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        right = 1 / classes + (1 - 1 / classes) * rng.beta(a, b, raters)
        return evenly(right, classes)

    return draw


def evenly(right: Floats, classes: int) -> Floats:
    """Return matrices of given accuracies, errors spread over the other classes."""
    wrong = (1 - right) / (classes - 1)
    same = np.eye(classes, dtype=bool)
    return np.where(same, right[:, None, None], wrong[:, None, None])


def spammers(share: float, right: float = 0.85, constant: bool = False) -> Crowd:
    """Some workers know, the others answer at random or always say the same."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        found = evenly(np.full(raters, right), classes)
        spam = rng.random(raters) < share
        if constant:
            found[spam] = np.eye(classes)[rng.integers(classes, size=spam.sum())][:, None]
        else:
            found[spam] = 1 / classes
        return found

    return draw


def adversaries(share: float, right: float = 0.85) -> Crowd:
    """Some workers say a wrong class on purpose, most of the time."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        bad = rng.random(raters) < share
        return evenly(np.where(bad, 0.15 if classes == 2 else 0.05, right), classes)

    return draw


def flippers(right: float = 0.9, flip: float = 0.6, share: float = 0.5) -> Crowd:
    """Some workers take one class, each of their own choice, for its neighbour."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        found = evenly(np.full(raters, right), classes)
        for r in np.flatnonzero(rng.random(raters) < share):
            t = rng.integers(classes)
            found[r, t] = (1 - flip) * np.eye(classes)[t] + flip * np.eye(classes)[t - 1]
        return found

    return draw


def own_rows(strength: float, right: float = 0.7) -> Crowd:
    """Every worker has a matrix of her own, rows drawn about an even one; small strength: unlike."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        row = evenly(np.full(1, right), classes)[0]
        return np.array([[rng.dirichlet(strength * m) for m in row] for _ in range(raters)])

    return draw


def alike(rows: list[list[float]], strength: float) -> Crowd:
    """Workers share a confusion: rows drawn about given ones."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:  # noqa: ARG001
        return np.array([[rng.dirichlet(strength * np.array(m)) for m in rows] for _ in range(raters)])

    return draw


def shared_errors(a: float, b: float, sharp: float = 0.3) -> Crowd:
    """Workers differ in skill, and where they err, they err alike: classes that look alike."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        errors = rng.dirichlet(np.full(classes, sharp), classes)
        right = rng.beta(a, b, raters)[:, None, None]
        return right * np.eye(classes) + (1 - right) * errors

    return draw


def neighbours(a: float, b: float) -> Crowd:
    """Grades: workers of different skill who err by a step or two."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        width = 0.3 + 1.5 * (1 - rng.beta(a, b, raters))[:, None, None]
        step = np.subtract.outer(np.arange(classes), np.arange(classes))
        weights = np.exp(-0.5 * (step / width) ** 2)
        return weights / weights.sum(axis=2, keepdims=True)

    return draw


def thresholds(skill: float, spread: float, shift: float = 0.0) -> Crowd:
    """Yes or no by a threshold of one's own: sensitivity is bought with specificity."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:  # noqa: ARG001
        cut = rng.normal(shift, spread, raters)
        yes = 1 / (1 + np.exp(-1.7 * (np.array([[-skill], [skill]]) - cut)))
        return np.stack([1 - yes, yes], axis=-1).transpose(1, 0, 2)

    return draw


def experts(right: float = 0.95, else_: float = 0.5) -> Crowd:
    """Every worker knows half of the classes."""

    def draw(rng: np.random.Generator, raters: int, classes: int) -> Floats:
        knows = rng.random((raters, classes)) < 0.5
        return np.where(
            knows[..., None], evenly(np.full(1, right), classes), evenly(np.full(1, else_), classes)
        )

    return draw


@dataclass(frozen=True)
class Kind:
    """A kind of table; `tail` is the spread of the log of workers' activity, `even` a Dirichlet
    weight of classes, `hard` the share of tasks on which half of the answers are at random, and
    `fool` that of tasks that look like another class (with `pairs`, always the same one): half
    of the answers are as if they were."""

    name: str
    crowd: Crowd
    classes: int
    tasks: int
    raters: int
    each: int
    tail: float = 1.0
    shares: tuple[float, ...] | None = None
    even: float = 20.0
    hard: float = 0.0
    fool: float = 0.0
    pairs: bool = False


MISSES = [[0.95, 0.05], [0.55, 0.45]]
TAKES = [[0.8, 0.15, 0.05], [0.55, 0.4, 0.05], [0.1, 0.2, 0.7]]
SINK = [[0.45 if o == t else 0.4 if o == 0 else 0.05 for o in range(5)] for t in range(5)]
SINK[0] = [0.8, 0.05, 0.05, 0.05, 0.05]

KINDS = [
    Kind("coins, 2 classes", coins(2, 1), 2, 500, 40, 5),
    Kind("coins, 2 classes, few answers each", coins(2, 1), 2, 300, 150, 5, 0.5),
    Kind("coins, 4 classes, 20 tasks", coins(3, 2), 4, 20, 10, 5, 0.5),
    Kind("coins, 4 classes, 3 answers", coins(2, 2), 4, 1000, 100, 3, 1.5),
    Kind("coins, 10 classes", coins(2, 2), 10, 700, 44, 4, 1.5),
    Kind("good coins, 2 classes, 10 answers", coins(4, 3), 2, 800, 160, 10, 1.0),
    Kind("coins, rare class", coins(3, 2), 2, 800, 60, 5, 1.0, (0.9, 0.1)),
    Kind("coins, very rare class, 3 answers", coins(4, 1), 2, 500, 80, 3, 1.0, (0.95, 0.05)),
    Kind("hammers and spammers, 2 classes", spammers(0.5), 2, 500, 60, 6),
    Kind("hammers and spammers, 5 classes", spammers(0.6, 0.8), 5, 400, 80, 6, 1.5),
    Kind("spammers who repeat a class", spammers(0.4, 0.8, constant=True), 3, 400, 50, 5),
    Kind("repeaters, rare class", spammers(0.3, 0.85, constant=True), 2, 600, 40, 5, 1.0, (0.85, 0.15)),
    Kind("adversaries, 2 classes", adversaries(0.2), 2, 500, 30, 7),
    Kind("adversaries, 4 classes, few each", adversaries(0.2, 0.75), 4, 300, 100, 5, 0.5),
    Kind("flippers, 4 classes", flippers(), 4, 600, 30, 5),
    Kind("flippers, 10 classes", flippers(0.75, 0.7, 0.8), 10, 1000, 40, 5),
    Kind("own rows, many answers", own_rows(4), 4, 1500, 25, 6),
    Kind("own rows, few answers", own_rows(4), 4, 300, 80, 5),
    Kind("own rows, alike, 8 classes", own_rows(30, 0.65), 8, 1000, 59, 3, 1.5),
    Kind("all miss the rare class", alike(MISSES, 15), 2, 800, 100, 10, 1.0, (0.8, 0.2)),
    Kind("all miss half, few answers each", alike(MISSES, 10), 2, 462, 76, 10, 1.0, (0.6, 0.4)),
    Kind("all miss half, 20 answers", alike(MISSES, 10), 2, 200, 100, 20, 1.0, (0.5, 0.5)),
    Kind("one class taken for another", alike(TAKES, 20), 3, 800, 60, 8),
    Kind("all say the first class too often", alike(SINK, 20), 5, 1000, 80, 6),
    Kind("shared errors, 4 classes", shared_errors(5, 3), 4, 800, 60, 5),
    Kind("shared errors, 10 classes", shared_errors(5, 4), 10, 1000, 100, 5, 1.5),
    Kind("shared errors, few answers each", shared_errors(5, 3), 6, 300, 200, 6, 0.5),
    Kind("shared errors, 2 classes, unlike", shared_errors(2, 2), 2, 400, 50, 5),
    Kind("grades, 5 steps", neighbours(2, 2), 5, 800, 60, 5),
    Kind("grades, 4 steps, few each, unlike shares", neighbours(2, 1), 4, 300, 120, 6, 0.8, (0.5, 0.3, 0.15, 0.05)),
    Kind("thresholds, 2 classes", thresholds(1.0, 1.0), 2, 800, 40, 6),
    Kind("thresholds, few answers each", thresholds(1.0, 0.7), 2, 400, 150, 6, 0.5, (0.7, 0.3)),
    Kind("thresholds, all careful", thresholds(1.2, 0.6, 1.0), 2, 1000, 80, 10, 1.5, (0.6, 0.4)),
    Kind("experts of some classes", experts(), 6, 800, 40, 5),
    Kind("hard tasks, 2 classes", coins(4, 1), 2, 600, 60, 7, 1.0, None, 20.0, 0.4),
    Kind("hard tasks, 5 classes", coins(4, 2), 5, 600, 100, 5, 1.5, None, 20.0, 0.4),
    Kind("hard tasks, shared errors", shared_errors(6, 2), 4, 500, 60, 6, 1.0, None, 5.0, 0.3),
    Kind("tasks that fool, 2 classes, all answer", thresholds(1.0, 1.0), 2, 108, 39, 39, 0.0, fool=0.4),
    Kind("tasks that fool, 2 classes, few each", coins(4, 2), 2, 462, 120, 10, 1.0, fool=0.3),
    Kind("tasks that fool, 3 classes", shared_errors(6, 2), 3, 300, 110, 15, 1.0, fool=0.5),
    Kind("tasks that fool, 5 classes, unlike", neighbours(3, 1), 5, 500, 80, 5, 1.5, (0.5, 0.3, 0.1, 0.07, 0.03), fool=0.3),
    Kind("tasks that fool, 8 classes", own_rows(20, 0.8), 8, 1000, 59, 3, 1.5, fool=0.2),
    Kind("pairs look alike, 8 classes", own_rows(8, 0.85), 8, 1000, 59, 3, 1.2, fool=0.4, pairs=True),
    Kind("pairs look alike, 4 classes, unlike", own_rows(10, 0.8), 4, 800, 80, 5, 1.5, (0.4, 0.3, 0.2, 0.1), fool=0.4, pairs=True),
    Kind("pairs look alike, 6 classes, 10 answers", coins(4, 1), 6, 500, 50, 10, 1.0, fool=0.6, pairs=True),
    Kind("2 answers, 2,000 tasks", coins(3, 1), 3, 2000, 30, 2, 1.5),
    Kind("300 workers, long tail", shared_errors(4, 2), 4, 2000, 300, 5, 2.0),
    Kind("5 workers answer all", own_rows(10, 0.75), 3, 200, 5, 5, 0.0),
    Kind("100 tasks, 20 answers", coins(1, 2), 2, 100, 100, 20, 0.5),
    Kind("very unequal classes, 5", coins(3, 2), 5, 700, 60, 5, 1.0, (0.7, 0.15, 0.1, 0.04, 0.01)),
]  # fmt: skip


def drawn(kind: Kind, seed: int) -> tuple[Triplets, Array]:
    """Draw a table of a kind; return it and the true classes."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    shares = kind.shares or rng.dirichlet(np.full(kind.classes, kind.even))
    truth = rng.choice(kind.classes, kind.tasks, p=shares)
    matrices = kind.crowd(rng, kind.raters, kind.classes)
    activity = kind.tail * rng.standard_normal(kind.raters)
    order = -(activity + rng.gumbel(size=(kind.tasks, kind.raters)))
    rater = np.argsort(order, axis=1)[:, : kind.each].ravel()
    task = np.repeat(np.arange(kind.tasks), kind.each)
    looks = (truth + rng.integers(1, kind.classes, kind.tasks)) % kind.classes
    looks = np.minimum(truth ^ 1, kind.classes - 1) if kind.pairs else looks
    fooled = (rng.random(kind.tasks) < kind.fool)[task] & (rng.random(len(task)) < 0.5)
    chance = np.cumsum(matrices[rater, np.where(fooled, looks[task], truth[task])], axis=1)
    label = (rng.random(len(task))[:, None] > chance[:, :-1]).sum(axis=1)
    hard = (rng.random(kind.tasks) < kind.hard)[task] & (rng.random(len(task)) < 0.5)
    label = np.where(hard, rng.integers(kind.classes, size=len(task)), label)
    names = tuple(f"worker{r}" for r in range(kind.raters))
    tasks = np.array([f"task{t}" for t in range(kind.tasks)], object)
    return Triplets(task, rater, label, tasks, names, tuple(range(kind.classes))), truth


def accuracies(triplets: Triplets, truth: Array, methods: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return the share of tasks that each method has right, and its seconds."""
    known, right, took = truth >= 0, [], []
    for name in methods:
        began = time.perf_counter()
        found = METHODS[name].function("classification")(triplets, len(triplets.values))
        took.append(time.perf_counter() - began)
        answered = known & np.isin(np.arange(len(truth)), triplets.task)
        right.append((found.labels == truth)[answered].mean())
    return np.array(right), np.array(took)


def line(name: str, right: Floats) -> str:
    """Return a line of mean accuracies, the gap of the last method and that of the worst table."""
    mean, gaps = right.mean(axis=0), right[:, -1] - right[:, :3].max(axis=1)
    gap = mean[-1] - mean[:3].max()
    mark = "!" if gap < -0.01 else " "
    cells = "".join(f"{m:13.3f}" for m in mean)
    return f"{name:42}{cells}{100 * gap:8.1f}{mark}{100 * gaps.min():8.1f}"


def main() -> None:
    """Print a line a kind of table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--development", action="store_true", help="seeds below 100")
    parser.add_argument("--tables", type=int, default=10, help="tables a kind")
    parser.add_argument("--data", nargs="*", default=[], help="NAME=FOLDER of labelme, music-genre")
    parser.add_argument("--method", default="hierarchical", help="the method that is compared")
    given = parser.parse_args()
    methods = (*RIVALS, given.method)
    first = DEVELOPMENT if given.development else REPORTING
    print(f"{'':42}{''.join(f'{m:>13}' for m in methods)}{'gap':>8}{'worst':>9}")
    took, missed = np.zeros(len(methods)), 0
    for kind in KINDS:
        found = [accuracies(*drawn(kind, first + k), methods) for k in range(given.tables)]
        right, took = np.array([r for r, _ in found]), took + sum(t for _, t in found)
        text = line(kind.name, right)
        missed += "!" in text
        print(text, flush=True)
    for name, folder in (pair.split("=", 1) for pair in given.data):
        study = DATASETS[name].read(Path(folder))
        right, _ = accuracies(study.triplets, study.backend.reference, methods)
        print(line(name, right[np.newaxis]))
    seconds = ", ".join(f"{m} {t:.1f} s" for m, t in zip(methods, took, strict=True))
    print(f"{missed} of {len(KINDS)} kinds more than one point behind; {seconds}")


if __name__ == "__main__":
    main()
