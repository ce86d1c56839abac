"""Time Dawid-Skene on a big table against crowd-kit, and its memory on a bigger one.

    python benchmarks/dawid_skene_speed.py            # 1,000,000 labels, against crowd-kit
    python benchmarks/dawid_skene_speed.py --large    # 20,000,000 labels, seconds and peak memory

crowd-kit is no dependency of raters: install it to run the first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from raters.fusion._dawid_skene import dawid_skene
from raters.fusion.result import Fusion
from raters.study.triplets import Triplets

T = TypeVar("T")

CLASSES = 10
WORKERS = 500
EACH = 10
ITERATIONS = 10
GOAL = 25
MOST_GB = 4.0


def make_table(tasks: int, seed: int = 0) -> Triplets:
    """Draw `EACH` answers a task by workers who are right 40 to 90 % of the time."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, tasks).astype(np.int16)
    right = rng.uniform(0.4, 0.9, WORKERS).astype(np.float32)
    task = np.repeat(np.arange(tasks, dtype=np.int32), EACH)
    rater = rng.integers(0, WORKERS, tasks * EACH, dtype=np.int32)
    label = rng.integers(0, CLASSES, tasks * EACH, dtype=np.int16)
    knows = rng.random(len(label), dtype=np.float32) < right[rater]
    label[knows] = truth[task[knows]]
    names = np.array([f"t{k}" for k in range(tasks)], object)
    workers = tuple(f"w{k}" for k in range(WORKERS))
    return Triplets(task, rater, label, names, workers, tuple(range(CLASSES)))


def fuse(table: Triplets) -> Fusion:
    """Run exactly `ITERATIONS` steps."""
    return dawid_skene(table, CLASSES, max_iter=ITERATIONS, tol=-1.0)


def seconds(work: Callable[[], T], repeats: int) -> tuple[float, float, T]:
    """Return the best time, the least time of all cores together, and the result."""
    wall = []
    cores = []
    for _ in range(repeats):
        began = time.perf_counter()
        busy = time.process_time()
        result = work()
        wall.append(time.perf_counter() - began)
        cores.append(time.process_time() - busy)
    return min(wall), min(cores), result


def against_crowd_kit() -> None:
    """Print both times, the ratio and how far the answers differ."""
    from crowdkit.aggregation import DawidSkene

    table = make_table(100_000)
    first, _, _ = seconds(lambda: fuse(table), 1)  # compiles, or reads what was compiled
    ours, our_cores, fused = seconds(lambda: fuse(table), 10)
    frame = table.frame()
    peer = DawidSkene(n_iter=ITERATIONS, tol=-np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its use of pandas
        theirs, their_cores, _ = seconds(lambda: peer.fit(frame), 2)
    assert len(peer.loss_history_) == fused.iterations == ITERATIONS
    truth = peer.probas_.loc[table.tasks, list(table.values)].to_numpy()
    labels = peer.labels_.loc[table.tasks].to_numpy()
    print(f"{len(table):,} labels, {ITERATIONS} iterations, no smoothing")
    print("             seconds   of all cores together")
    print(f"raters     {ours:9.3f} {our_cores:9.3f}   (the first call of all: {first:.2f} s)")
    print(f"crowd-kit  {theirs:9.3f} {their_cores:9.3f}")
    print(f"ratio      {theirs / ours:9.1f} {their_cores / our_cores:9.1f}   (goal: {GOAL})")
    print(f"labels that differ: {(labels != fused.labels).sum()} of {len(labels):,}")
    print(f"greatest difference of a posterior: {np.abs(truth - fused.truth).max():.1e}")


def peak_gb() -> float:
    """Return the most memory that this process has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def large() -> None:
    """Print seconds and peak memory for 20 million labels."""
    table = make_table(2_000_000)
    before = peak_gb()
    took, _, fused = seconds(lambda: fuse(table), 1)
    print(f"{len(table):,} labels, {ITERATIONS} iterations: {took:.2f} s")
    print(f"log-likelihood {fused.log_likelihoods[0]:.0f} to {fused.log_likelihoods[-1]:.0f}")
    print(f"peak memory {peak_gb():.2f} GB (making the table: {before:.2f} GB; at most {MOST_GB})")


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="20 million labels: time and memory")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        large()
    elif chosen.large:  # in a process of its own: the peak is of this work alone
        subprocess.run([sys.executable, __file__, "--inside"], check=True)
    else:
        against_crowd_kit()


if __name__ == "__main__":
    main()
