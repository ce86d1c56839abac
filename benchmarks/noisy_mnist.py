"""Noisy digits whose raters share their mistakes (mnist_noisy_seg of Zhang et al., 2020).

Four raters draw 100 digits of 28 x 28: the good one, and three who draw too much, too little and
wrongly. Two of them over-draw in the same way, so that the papers' conditions fail at many pixels.
All methods see the four as raters; Dice on the 20 test images is against the good one, at three
cuts that are chosen on the held-out images (see `dice_at_cuts`).

    python benchmarks/noisy_mnist.py NOISY_FOLDER --out runs.jsonl [--seeds 5]

With `--fresh` the folder is MNIST's, and each seed draws other digits, noise and raters of that
kind: 70 images to train on, 30 held out, 100 to test on.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from learning import (
    CUTS,
    IDENTITY,
    PAPER,
    PAPER_LOSS,
    Row,
    Runs,
    arguments,
    dice_at_cuts,
    mean_and_spread,
    paired,
    table,
    trained,
)
from raters.datasets import open_dataset
from raters.simulate import simulate
from raters.study.study import Study

OPTIONS = {
    "epochs": 60,
    "batch_size": 10,
    "lr": 4e-3,
    "width": 8,
    "select": "likelihood",
    "augment": "none",
}

SETTINGS: dict[str, tuple[str, Row]] = {
    "truth": ("truth", {}),
    "vote": ("vote", {}),
    "mean": ("mean", {}),
    "staple": ("staple", {}),
    "spatial-staple": ("spatial-staple", {}),
    "separate": ("separate", {}),
    "global-cm": ("global-cm", {}),
    "single-cm": ("single-cm", {}),
    "low-rank-cm": ("low-rank-cm", {}),
    "oracle-cm": ("oracle-cm", {}),
    "pixel-cm": ("pixel-cm", {}),
    "pixel-cm, to the identity": ("pixel-cm", IDENTITY),
    "pixel-cm, paper's form": ("pixel-cm", PAPER),
    "pixel-cm, paper's loss": ("pixel-cm", PAPER_LOSS),
    "pixel-cm, joint alone": ("pixel-cm", {**PAPER_LOSS, "likelihood": "joint", "trace": 0.0}),
    "pixel-cm, no prior": ("pixel-cm", {"prior": 0.0}),
    "to the identity, no warm-up": ("pixel-cm", {**IDENTITY, "warm_up": 0}),
    "to the identity, warm-up on labels": ("pixel-cm", {**IDENTITY, "warm_up_on": "labels"}),
    "to the identity, marginal": ("pixel-cm", {**IDENTITY, "likelihood": "marginal"}),
    "to the identity, prior .1": ("pixel-cm", {**IDENTITY, "prior": 0.1}),
    "to the identity, prior 1": ("pixel-cm", {**IDENTITY, "prior": 1.0}),
}


FRESH = "good:0,over@0.51,under@0.42,wrong@0.48"
SPLITS = {"train": 70, "val": 30, "test": 100}


def fresh(folder: Path, seed: int) -> Study:
    """Draw digits in noise by nested raters: under < good < wrong < over, nearly."""
    whole, random = open_dataset("mnist-masks", folder), np.random.default_rng(seed)
    cases = [whole[int(k)] for k in np.sort(random.choice(60000, sum(SPLITS.values()), False))]
    digits = np.stack([case.image for case in cases]).astype(np.float32) / 255
    noisy = np.clip(digits + random.normal(0, 0.4, digits.shape), 0, 1).astype(np.float32)
    study = Study.from_arrays(
        images=np.repeat(noisy, 3, 1),
        reference=np.stack([case.reference for case in cases]),
        splits=list(random.permutation([name for name, n in SPLITS.items() for _ in range(n)])),
    )
    return simulate(study, FRESH, seed=seed).write(Path(tempfile.mkdtemp()) / "study", "packed")


def run(study: Study, name: str, seed: int) -> Row:
    """Train and score one method."""
    method, options = SETTINGS[name]
    model = trained(study, method, seed=seed, **OPTIONS, **options)
    row = dice_at_cuts(model, study.select(split="val"), study.select(split="test"))
    row["epoch"] = model.best_epoch
    return row | {k: model.history[-1].get(k) for k in ("held_out", "dominance")}


def main() -> None:
    """Run what is missing and print the table."""
    parser = arguments(__doc__, "folder with train, validate and test")
    parser.set_defaults(seeds=5)
    parser.add_argument("--fresh", action="store_true", help="draw other digits, of MNIST")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    study = None if given.fresh else open_dataset("noisy-mnist", given.data)
    runs = Runs(given.out)
    for seed in range(given.seeds):
        if given.fresh:
            study = fresh(given.data, seed)
        for name in given.only or SETTINGS:
            runs.once({"name": name, "seed": seed}, partial(run, study, name, seed))
    lines = []
    for name in SETTINGS:
        mine = [r for r in runs.rows if r["name"] == name]
        if mine:
            against = [
                paired(runs.rows, cut, {"name": name}, {"name": "vote"})
                for cut in ("dice", "dice_best")
            ]
            scores = [mean_and_spread([r[cut] for r in mine]) for cut in CUTS]
            worst = f"{100 * min(r['dice'] for r in mine):.1f}"
            lines.append([name, *scores, *against, worst])
    titles = ["against vote, paired", "the same, best cuts", "worst seed, at 0.5"]
    print(table(["method", *CUTS.values(), *titles], lines))


if __name__ == "__main__":
    main()
