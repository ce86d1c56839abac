"""Whether EM ends in another solution from another start, and which one is right.

    python benchmarks/em_starts.py                 # drawn studies, three seeds each
    python benchmarks/em_starts.py --tables DATA   # also DATA/labelme and DATA/music_genre

Drawn, without images:
    careless   two raters are right but for a few pixels; three overlook faint lesions, and each
               takes a streak for a lesion four times in five
    long       the same with streaks twice as long
    together   the same as careless, but the three take the same streaks for lesions
    twins      three raters are right but for one pixel in twenty, each at random; two drew
               together, five pixels too far to the right
    alike      raters of unlike skill who err at random: all starts should end in one solution
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.consensus.pooled import occurring
from raters.datasets import open_dataset
from raters.fusion._dawid_skene import dawid_skene
from raters.fusion._staple import label_shares
from raters.fusion.columns import columns_of
from raters.fusion.em import EMOptions, posteriors
from raters.fusion.starts import SEVERAL, fit
from raters.metrics.overlap import dice

SEEDS = (0, 1, 2)
CASES = 40
SIZE = 40
Masks = NDArray[np.int8]


def _disc(random: np.random.Generator, radius: float) -> NDArray[np.bool_]:
    centre = random.uniform(6, SIZE - 6, 2)
    rows, columns = np.indices((SIZE, SIZE))
    return np.asarray(np.hypot(rows - centre[0], columns - centre[1]) < radius)


def careless(seed: int, length: int = 16, together: bool = False) -> tuple[Masks, Masks]:
    """Draw masks `(cases, raters, rows, columns)` and the truth.

    Args:
        seed: The seed.
        length: The length of streaks, which are two pixels wide.
        together: Whether the careless take the same streaks for lesions.
    """
    random = np.random.default_rng(seed)
    labels = np.zeros((CASES, 5, SIZE, SIZE), bool)
    truth = np.zeros((CASES, SIZE, SIZE), bool)
    for own, true in zip(labels, truth, strict=True):
        bright = _disc(random, random.uniform(2, 4))
        faint = _disc(random, random.uniform(3, 5))
        line = np.zeros((SIZE, SIZE), bool)
        row = random.integers(2, SIZE - 3)
        line[row : row + 2, 4 : 4 + length] = True
        true |= bright | faint
        own[:2] = true
        all_see = random.random() < 0.8
        for mask in own[2:]:
            sees = all_see if together else random.random() < 0.8
            mask |= (bright & ~faint) | (line if sees else False)
    labels ^= random.random(labels.shape) < 0.005
    return labels.astype(np.int8), truth.astype(np.int8)


def twins(seed: int) -> tuple[Masks, Masks]:
    """Draw two raters who err together, and three who each err a little."""
    random = np.random.default_rng(seed)
    truth = np.stack([_disc(random, random.uniform(4, 9)) for _ in range(CASES)])
    labels = np.repeat(truth[:, None], 5, axis=1) ^ (random.random((CASES, 5, SIZE, SIZE)) < 0.05)
    labels[:, 3:] = np.roll(truth, 5, axis=2)[:, None]
    return labels.astype(np.int8), truth.astype(np.int8)


def alike(seed: int) -> tuple[Masks, Masks]:
    """Draw raters who are right 98, 95, 90, 80 and 70 % of the time, at random."""
    random = np.random.default_rng(seed)
    truth = np.stack([_disc(random, random.uniform(4, 9)) for _ in range(CASES)])
    right = np.array([0.98, 0.95, 0.9, 0.8, 0.7])
    wrong = random.random((CASES, 5, SIZE, SIZE)) > right[:, None, None]
    return (wrong ^ truth[:, None]).astype(np.int8), truth.astype(np.int8)


DRAWN = {
    "careless": careless,
    "long": lambda seed: careless(seed, length=32),
    "together": lambda seed: careless(seed, together=True),
    "twins": twins,
    "alike": alike,
}


def masks(name: str, seed: int, estimate: bool) -> None:
    """Print where pooled EM ends from each start, how good that is, and what is kept."""
    labels, truth = DRAWN[name](seed)
    voxels = columns_of(np.moveaxis(labels, 1, 0), 2)
    columns = occurring(voxels)
    prior = label_shares(columns, 2)
    options = EMOptions(200, 1e-7, estimate)

    def score(kinds: tuple[str, ...]) -> tuple[str, float, float]:
        began = time.process_time()
        found = fit(columns, prior, options, kinds)
        spent = time.process_time() - began
        fused = voxels.to_voxels(posteriors(voxels, found.kept.state)).argmax(axis=0)
        return found.kept.start, float(dice(fused, truth.ravel())[0]), spent

    whole = fit(columns, prior, options, (*SEVERAL, "random"))
    best = max(row["log_likelihood"] for row in whole.rows)
    ends = ", ".join(f"{row['start']} {row['log_likelihood'] - best:.1f}" for row in whole.rows)
    _, before, quick = score(("vote",))
    start, after, slow = score(SEVERAL)
    model = "dawid-skene" if estimate else "staple"
    print(
        f"{name:9} {model:12} seed {seed}: Dice from the vote {before:.3f}, kept {after:.3f} "
        f"('{start}'); EM {1000 * quick:.0f} and {1000 * slow:.0f} ms"
    )
    print(f"    log-likelihood below the best: {ends}")


def tables(folder: Path) -> None:
    """Print accuracies on real tables from the mean alone and from several starts."""
    for name, place in (("labelme", "labelme"), ("music-genre", "music_genre")):
        study = open_dataset(name, folder / place).select(split="train")
        truth = np.array([case.reference for case in study]).ravel()
        for smoothing in (0.0, 2.0):
            found = [
                dawid_skene(study.triplets, len(study.classes), smoothing=smoothing, starts=starts)
                for starts in ("mean", "several", ("mean", "vote", "random"))
            ]
            right = ", ".join(f"{(fused.labels == truth).mean():.3f}" for fused in found)
            print(f"{name}, smoothing {smoothing:g}: mean, several, random: {right}")


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="the folder with labelme/ and music_genre/")
    chosen = parser.parse_args()
    for name in DRAWN:
        for estimate in (False, True):
            for seed in SEEDS:
                masks(name, seed, estimate)
    if chosen.tables:
        tables(chosen.tables)


if __name__ == "__main__":
    main()
