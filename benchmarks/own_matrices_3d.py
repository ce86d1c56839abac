"""pixel-cm on drawn volumes: does each rater's own matrix follow what the matrices at voxels say?

Volumes of 32 x 32 x 16 with one lesion near the middle, labelled by one of four raters each (good,
over, under, blank). Trained with the defaults of `pixel-cm`, the script prints, for each seed:

- Dice of the truth network on test volumes;
- G, each rater's own matrix as it was followed in training, beside the same mean over all voxels
  of all training volumes (their difference is what following loses);
- C[0, 1] of the over-drawing rater in the ring that this rater really adds (the truth is 1).

    python benchmarks/own_matrices_3d.py --out runs.jsonl [--seeds 3] [--tag after]
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import raters
from learning import Row, Runs, dice_to, trained
from raters.simulate import simulate
from raters.study.study import Study

SHAPE, RATERS = (32, 32, 16), "good,over,under,blank"
PARTS = {"train": 60, "val": 12, "test": 16}
OPTIONS: Row = {"batch_size": 4, "lr": 4e-3, "width": 4, "depth": 3, "select": "likelihood"}


def volumes(seed: int) -> Study:
    """Draw one lesion near the middle of each volume, in noise."""
    rng = np.random.default_rng(seed)
    places = np.indices(SHAPE, np.float32)
    truth = []
    for _ in range(sum(PARTS.values())):
        centre = np.array(SHAPE) / 2 + rng.uniform(-2, 2, 3)
        radii = rng.uniform(3.5, 6, 3)
        far = (places - centre.reshape(3, 1, 1, 1)) / radii.reshape(3, 1, 1, 1)
        truth.append(np.square(far).sum(axis=0) < 1)
    reference = np.stack(truth).astype(np.int16)
    images = (reference + rng.normal(0, 0.5, reference.shape)).astype(np.float32)
    splits = [name for name, count in PARTS.items() for _ in range(count)]
    return Study.from_arrays(images=images[:, None], reference=reference, splits=splits)


def over_all_voxels(model: raters.Model, study: Study) -> np.ndarray[Any, Any]:
    """Return each rater's mean matrix over all voxels, weighted by truth and dispute."""
    total: np.ndarray[Any, Any] | float = 0.0
    for case in study.iter_cases():
        truth, matrices = model.truth(case), model.confusion(case)
        told = np.einsum("t...,rto...->rto...", truth, matrices)
        disputed = 1 - np.square(told.sum(1).mean(0)).sum(0)
        labelled = (case.labels >= 0).any(axis=0)
        total = total + (told * (disputed * labelled)).reshape(*told.shape[:3], -1).sum(-1)
    assert isinstance(total, np.ndarray)
    return total / total.sum(2, keepdims=True)


def in_the_ring(model: raters.Model, dense: Study, rater: str) -> float:
    """Return the mean C[0, 1] of a rater where the rater marks what is background."""
    row, found = dense.raters.index(rater), []
    for case in dense.iter_cases():
        assert case.reference is not None
        ring = (case.labels[row] == 1) & (case.reference == 0)
        found.append(model.confusion(case)[row, 0, 1][ring])
    return float(np.concatenate(found).mean())


def run(seed: int, epochs: int) -> Row:
    """Train and look."""
    truth = volumes(seed)
    study = simulate(truth, RATERS, assign="one", seed=seed)
    dense = simulate(truth, RATERS, seed=seed).select(split="test")
    model = trained(study, "pixel-cm", seed=seed, epochs=epochs, **OPTIONS)
    followed = model.method.raters.own.log_matrix().exp().numpy()
    whole = over_all_voxels(model, study.select(split="train"))
    row: Row = {"dice": dice_to(model, dense), "ring": in_the_ring(model, dense, "over")}
    for entry, (t, o) in (("misses", (1, 0)), ("adds", (0, 1))):
        for name, matrices in (("followed", followed), ("all voxels", whole)):
            values = matrices[:, t, o].round(3).tolist()
            row[f"{entry}, {name}"] = dict(zip(study.raters, values, strict=True))
    return row | {"epoch": model.best_epoch}


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="runs, one a line; kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=70)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--tag", default="", help="kept with the runs, to tell versions apart")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runs = Runs(given.out)
    for seed in range(given.seeds):
        key = {"tag": given.tag, "epochs": given.epochs, "seed": seed}
        runs.once(key, partial(run, seed, given.epochs))


if __name__ == "__main__":
    main()
