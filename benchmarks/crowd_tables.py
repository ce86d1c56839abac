"""Accuracy of fusion methods on drawn crowd tables of many kinds, and the gap to the best of three.

    python benchmarks/crowd_tables.py                   # the tables that results are quoted from
    python benchmarks/crowd_tables.py --development     # those that choices were made on
    python benchmarks/crowd_tables.py --data labelme=FOLDER music-genre=FOLDER

Seeds below 100 are for development, those from 1000 on for reporting. The gap is that of the mean
accuracy over the tables of a kind to the best of vote, one-coin and Dawid-Skene there; `worst` is
the same on the single worst table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from raters.core.arrays import Array, Floats
from raters.datasets import open_dataset
from raters.fusion.methods import METHODS
from raters.study.triplets import Triplets

RIVALS = ("vote", "one-coin", "dawid-skene")
Random = np.random.Generator


def evenly(right: Floats, classes: int) -> Floats:
    """Return matrices of given accuracies, errors spread over the other classes."""
    wrong = (1 - right) / (classes - 1)
    return np.where(np.eye(classes, dtype=bool), right[:, None, None], wrong[:, None, None])


def coins(rng: Random, raters: int, classes: int, a: float, b: float) -> Floats:
    """Workers who err evenly, accuracy between chance and 1 by a beta distribution."""
    return evenly(1 / classes + (1 - 1 / classes) * rng.beta(a, b, raters), classes)


def spammers(rng: Random, raters: int, classes: int, share: float, right: float) -> Floats:
    """Some workers know, the others answer at random."""
    return evenly(np.where(rng.random(raters) < share, 1 / classes, right), classes)


def repeaters(rng: Random, raters: int, classes: int, share: float, right: float) -> Floats:
    """Some workers know, the others always say the same."""
    found = evenly(np.full(raters, right), classes)
    spam = rng.random(raters) < share
    found[spam] = np.eye(classes)[rng.integers(classes, size=spam.sum())][:, None]
    return found


def adversaries(rng: Random, raters: int, classes: int, share: float, right: float) -> Floats:
    """Some workers say a wrong class on purpose, most of the time."""
    wrong = 0.15 if classes == 2 else 0.05
    return evenly(np.where(rng.random(raters) < share, wrong, right), classes)


def flippers(rng: Random, raters: int, classes: int, right: float, share: float) -> Floats:
    """Some workers take one class, each of their own choice, for its neighbour."""
    found = evenly(np.full(raters, right), classes)
    same = np.eye(classes)
    for r in np.flatnonzero(rng.random(raters) < share):
        t = rng.integers(classes)
        found[r, t] = 0.35 * same[t] + 0.65 * same[t - 1]
    return found


def own_rows(rng: Random, raters: int, classes: int, strength: float, right: float) -> Floats:
    """Every worker has a matrix of her own, rows drawn about even ones; small strength: unlike."""
    return about(rng, raters, classes, strength, evenly(np.full(1, right), classes)[0])


def about(rng: Random, raters: int, _: int, strength: float, rows: Array) -> Floats:
    """Workers share a confusion: rows drawn about given ones."""
    return np.array([[rng.dirichlet(strength * m) for m in rows] for _ in range(raters)])


def shared(rng: Random, raters: int, classes: int, a: float, b: float) -> Floats:
    """Workers differ in skill, and where they err, they err alike: classes that look alike."""
    errors = rng.dirichlet(np.full(classes, 0.3), classes)
    right = rng.beta(a, b, raters)[:, None, None]
    return np.asarray(right * np.eye(classes) + (1 - right) * errors)


def grades(rng: Random, raters: int, classes: int, a: float, b: float) -> Floats:
    """Workers of different skill who err by a step or two."""
    width = 0.3 + 1.5 * (1 - rng.beta(a, b, raters))[:, None, None]
    step = np.subtract.outer(np.arange(classes), np.arange(classes))
    weights = np.exp(-0.5 * (step / width) ** 2)
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def cuts(rng: Random, raters: int, _: int, skill: float, spread: float, shift: float) -> Floats:
    """Yes or no by a threshold of one's own: sensitivity is bought with specificity."""
    cut = rng.normal(shift, spread, raters)
    yes = 1 / (1 + np.exp(-1.7 * (np.array([[-skill], [skill]]) - cut)))
    return np.stack([1 - yes, yes], axis=-1).transpose(1, 0, 2)


def experts(rng: Random, raters: int, classes: int, right: float, otherwise: float) -> Floats:
    """Every worker knows half of the classes."""
    knows = rng.random((raters, classes, 1)) < 0.5
    return np.where(knows, *(evenly(np.full(1, p), classes) for p in (right, otherwise)))


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    Attributes:
        crowd: Draws the workers' matrices, with `how` after the numbers of workers and classes.
        tail: The spread of the log of workers' activity.
        shares: Of the classes; drawn about even ones if None.
        hard: The share of tasks on which half of the answers are at random.
        fool: The share of tasks that look like another class (with `pairs`, always the same one):
            half of the answers are as if they were.
    """

    name: str
    crowd: Callable[..., Floats]
    how: tuple[float | Array, ...]
    classes: int
    tasks: int
    raters: int
    each: int
    tail: float = 1.0
    shares: tuple[float, ...] | None = None
    hard: float = 0.0
    fool: float = 0.0
    pairs: bool = False


MISS = np.array([[0.95, 0.05], [0.55, 0.45]])
TAKE = np.array([[0.8, 0.15, 0.05], [0.55, 0.4, 0.05], [0.1, 0.2, 0.7]])
SINK = 0.4 * np.eye(5) + 0.05 + 0.35 * (np.arange(5) == 0)
FOUR = (0.5, 0.3, 0.15, 0.05)
FIVE = (0.5, 0.3, 0.1, 0.07, 0.03)

KINDS = [
    Kind("coins, 2 classes", coins, (2, 1), 2, 500, 40, 5),
    Kind("coins, 2 classes, few answers each", coins, (2, 1), 2, 300, 150, 5, 0.5),
    Kind("coins, 4 classes, 20 tasks", coins, (3, 2), 4, 20, 10, 5, 0.5),
    Kind("coins, 4 classes, 3 answers", coins, (2, 2), 4, 1000, 100, 3, 1.5),
    Kind("coins, 10 classes", coins, (2, 2), 10, 700, 44, 4, 1.5),
    Kind("coins, rare class", coins, (3, 2), 2, 800, 60, 5, 1.0, (0.9, 0.1)),
    Kind("coins, very rare class, 3 answers", coins, (4, 1), 2, 500, 80, 3, 1.0, (0.95, 0.05)),
    Kind("coins, very unequal classes", coins, (3, 2), 5, 700, 60, 5, 1.0, FIVE),
    Kind("hammers and spammers, 2 classes", spammers, (0.5, 0.85), 2, 500, 60, 6),
    Kind("hammers and spammers, 5 classes", spammers, (0.6, 0.8), 5, 400, 80, 6, 1.5),
    Kind("spammers who repeat a class", repeaters, (0.4, 0.8), 3, 400, 50, 5),
    Kind("repeaters, rare class", repeaters, (0.3, 0.85), 2, 600, 40, 5, 1.0, (0.85, 0.15)),
    Kind("adversaries, 2 classes", adversaries, (0.2, 0.85), 2, 500, 30, 7),
    Kind("adversaries, 4 classes, few each", adversaries, (0.2, 0.75), 4, 300, 100, 5, 0.5),
    Kind("flippers, 10 classes", flippers, (0.75, 0.8), 10, 1000, 40, 5),
    Kind("own rows, many answers", own_rows, (4, 0.7), 4, 1500, 25, 6),
    Kind("own rows, alike, 8 classes", own_rows, (30, 0.65), 8, 1000, 59, 3, 1.5),
    Kind("5 workers answer all", own_rows, (10, 0.75), 3, 200, 5, 5, 0.0),
    Kind("all miss half, few answers each", about, (10, MISS), 2, 462, 76, 10, 1.0, (0.6, 0.4)),
    Kind("all miss half, 20 answers", about, (10, MISS), 2, 200, 100, 20),
    Kind("one class taken for another", about, (20, TAKE), 3, 800, 60, 8),
    Kind("all say the first class too often", about, (20, SINK), 5, 1000, 80, 6),
    Kind("shared errors, 10 classes", shared, (5, 4), 10, 1000, 100, 5, 1.5),
    Kind("shared errors, few answers each", shared, (5, 3), 6, 300, 200, 6, 0.5),
    Kind("300 workers, long tail", shared, (4, 2), 4, 2000, 300, 5, 2.0),
    Kind("grades, 4 steps, few each, unequal", grades, (2, 1), 4, 300, 120, 6, 0.8, FOUR),
    Kind("thresholds, 2 classes", cuts, (1.0, 1.0, 0.0), 2, 800, 40, 6),
    Kind("thresholds, few each", cuts, (1.0, 0.7, 0.0), 2, 400, 150, 6, 0.5, (0.7, 0.3)),
    Kind("thresholds, all careful", cuts, (1.2, 0.6, 1.0), 2, 1000, 80, 10, 1.5, (0.6, 0.4)),
    Kind("thresholds, all answer all", cuts, (0.7, 1.0, 0.5), 2, 108, 39, 39, 0.0),
    Kind("experts of some classes", experts, (0.95, 0.5), 6, 800, 40, 5),
    Kind("2 answers, 2,000 tasks", coins, (3, 1), 3, 2000, 30, 2, 1.5),
    Kind("hard tasks, 2 classes", coins, (4, 1), 2, 600, 60, 7, hard=0.4),
    Kind("hard tasks, 5 classes", coins, (4, 2), 5, 600, 100, 5, 1.5, hard=0.4),
    Kind("hard tasks, shared errors", shared, (6, 2), 4, 500, 60, 6, hard=0.3),
    Kind("tasks that fool, all answer", cuts, (1.0, 1.0, 0.0), 2, 108, 39, 39, 0.0, fool=0.4),
    Kind("tasks that fool, 2 classes", coins, (4, 2), 2, 462, 120, 10, fool=0.3),
    Kind("tasks that fool, 3 classes", shared, (6, 2), 3, 300, 110, 15, fool=0.5),
    Kind("tasks that fool, 5 steps", grades, (3, 1), 5, 500, 80, 5, 1.5, FIVE, fool=0.3),
    Kind("tasks that fool, 8 classes", own_rows, (20, 0.8), 8, 1000, 59, 3, 1.5, fool=0.2),
    Kind("pairs alike, 8", own_rows, (8, 0.85), 8, 1000, 59, 3, 1.2, fool=0.4, pairs=True),
    Kind("pairs alike, 4", own_rows, (10, 0.8), 4, 800, 80, 5, 1.5, FOUR, fool=0.4, pairs=True),
    Kind("pairs alike, 6, 10 answers", coins, (4, 1), 6, 500, 50, 10, fool=0.6, pairs=True),
]


def drawn(kind: Kind, seed: int) -> tuple[Triplets, Array, Floats]:
    """Draw a table of a kind; return it, the true classes and the workers' matrices."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    shares = kind.shares or rng.dirichlet(np.full(kind.classes, 20.0))
    truth = rng.choice(kind.classes, kind.tasks, p=shares)
    matrices = kind.crowd(rng, kind.raters, kind.classes, *kind.how)
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
    names = (tuple(map(str, range(n))) for n in (kind.tasks, kind.raters))
    return Triplets(task, rater, label, *names, tuple(range(kind.classes))), truth, matrices


def accuracies(triplets: Triplets, truth: Array, methods: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return the share of tasks that each method has right, and its seconds."""
    known = (truth >= 0) & np.isin(np.arange(len(truth)), triplets.task)
    right = []
    took = []
    for name in methods:
        began = time.perf_counter()
        found = METHODS[name].function("classification")(triplets, len(triplets.values))
        took.append(time.perf_counter() - began)
        right.append((found.labels == truth)[known].mean())
    return np.array(right), np.array(took)


def line(name: str, right: Floats) -> str:
    """Return a line of mean accuracies, the gap of the last method and that of the worst table."""
    mean = right.mean(axis=0)
    gaps = right[:, -1] - right[:, :3].max(axis=1)
    gap = mean[-1] - mean[:3].max()
    cells = "".join(f"{m:13.3f}" for m in mean) + f"{100 * gap:8.1f}{'!' if gap < -0.01 else ' '}"
    return f"{name:42}{cells}{100 * gaps.min():8.1f}"


def main() -> None:
    """Print a line a kind of table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--development", action="store_true", help="seeds below 100")
    parser.add_argument("--tables", type=int, default=10, help="tables a kind")
    parser.add_argument("--data", nargs="*", default=[], help="NAME=FOLDER of a data set")
    given = parser.parse_args()
    methods = (*RIVALS, "hierarchical")
    first = 0 if given.development else 1000
    print(f"{'':42}{''.join(f'{m:>13}' for m in methods)}{'gap':>8}{'worst':>9}")
    took = np.zeros(4)
    missed = 0
    for kind in KINDS:
        found = [accuracies(*drawn(kind, first + k)[:2], methods) for k in range(given.tables)]
        right = np.array([r for r, _ in found])
        took = took + sum(t for _, t in found)
        text = line(kind.name, right)
        print(text, flush=True)
        missed += "!" in text
    for name, folder in (pair.split("=", 1) for pair in given.data):
        study = open_dataset(name, folder)
        right, _ = accuracies(study.triplets, study.reference_labels, methods)
        print(line(name, right[np.newaxis]))
    print(f"{missed} of {len(KINDS)} kinds more than one point behind; seconds: {took.round(1)}")


if __name__ == "__main__":
    main()
