"""`coarse`: for how long its matrices should be held.

Digits in noise and drawn lesions by a positive and a negative drawing, alone or with masks for a
sixth of the images instead; the drawings of 'band' are always 1 pixel inside the object and 2
outside of it. For each warm-up: mean Dice on test images, and how far the matrices are from those
that raters have (root mean square over raters and true classes), at first ('start') and in the end.
Seeds are not those of the benchmarks.

    python benchmarks/coarse_warm_up.py --data DATASETS [--seeds 20 21 22] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import binary_dilation, binary_erosion

import raters
from raters.metrics import mean_dice
from raters.metrics.confusion import count_case
from raters.simulation import simulate
from raters.study.study import Study
from raters_bench.data import digit_masks
from raters_bench.studies import drawn_masks

SIZES = {"images": 60, "val": 12, "test": 30}
TRAIN: dict[str, Any] = {"epochs": 30, "batch_size": 6, "lr": 0.004, "width": 8, "augment": "none"}
WARM_UPS = (0.8, 0.4)
DATA = ("digits", "lesions", "band")


def drawn(name: str, seed: int, places: dict[str, Path], masks: bool) -> Study:
    """Return a study with its drawings, of a sixth of the images with masks instead."""
    if name == "digits":
        plain = digit_masks(places, seed, noise=0.3, **SIZES)
    else:
        plain = drawn_masks(None, seed, **SIZES)
    study = simulate(plain, "positive,negative", seed=seed) if name != "band" else None
    images = []
    truth = []
    labels = []
    splits = []
    for number, case in enumerate(plain.iter_cases()):
        mask = np.asarray(case.reference)
        if study is None:
            inside = binary_erosion(mask == 1)
            outside = binary_dilation(mask == 1, iterations=2)
            pair = np.stack([inside.astype(int), (~outside).astype(int)])
        else:
            said = study[number].labels
            pair = np.stack([said[0], np.where(said[1] < 0, -1, 1 - said[1])])
        own = np.full((1, *mask.shape), -1)
        if masks and number % 6 == 0:
            pair = np.full_like(pair, -1)
            own = mask[np.newaxis]
        images.append(case.image)
        truth.append(mask)
        labels.append(np.concatenate([pair, own]) if masks else pair)
        splits.append(case.split)
    kinds = {"pos": "positive", "neg": "negative", **({"mask": "mask"} if masks else {})}
    return Study.from_arrays(
        np.stack(images),
        np.stack(labels).astype(np.int16),
        raters=list(kinds),
        annotations=kinds,
        reference=np.stack(truth),
        splits=splits,
        classes=["background", "object"],
    )


def measured(study: Study, seed: int, warm_up: float) -> dict[str, float]:
    """Train with one warm-up, and score what is found."""
    how = {**TRAIN, "select": "likelihood", "seed": seed, "progress": False}
    model = raters.fit(study, "coarse", **how, warm_up=warm_up)
    counts = np.zeros((2, 2, 2))
    found = np.zeros((2, 2, 2))
    dice = []
    for case in study.iter_cases():
        if case.split != "test":
            continue
        mask = np.asarray(case.reference)
        counts += count_case(case, mask, 2)[:2]
        matrices = np.broadcast_to(np.asarray(model.confusion(case))[:2], (2, 2, 2, *mask.shape))
        found += np.stack([matrices[:, t][..., mask == t].sum(-1) for t in range(2)], 1)
        dice.append(mean_dice(model.predict(case), mask, 2))
    known, seen = (part / part.sum(2, keepdims=True) for part in (counts, found))
    return {
        "dice": float(np.mean(dice)),
        "error": float(np.sqrt(np.mean((known - seen) ** 2))),
        "start": float(np.sqrt(np.mean((known - 0.8 * np.eye(2) - 0.1) ** 2))),
        "epoch": model.best_epoch,
    }


def main() -> None:
    """Measure what is not in the file yet, one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/coarse_warm_up.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {tuple(row[key] for key in ("data", "masks", "seed", "warm_up")) for row in rows}
    for seed in given.seeds:
        for masks in (False, True):
            for name in DATA:
                study = None
                for warm_up in WARM_UPS:
                    if (name, masks, seed, warm_up) in done:
                        continue
                    if study is None:
                        study = drawn(name, seed, {"mnist": given.data / "mnist"}, masks)
                    row = {"data": name, "masks": masks, "seed": seed, "warm_up": warm_up}
                    row |= measured(study, seed, warm_up)
                    print(json.dumps(row), flush=True)
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
