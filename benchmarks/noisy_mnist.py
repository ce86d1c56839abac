"""Noisy digits whose raters share their mistakes (mnist_noisy_seg of Zhang et al., 2020).

Four raters draw 100 digits of 28 x 28: the good one, and three who draw too much, too little and
wrongly. Two of them over-draw in the same way, so that the papers' conditions fail at many pixels.
All methods see the four as raters; Dice on the 20 test images is against the good one.

    python benchmarks/noisy_mnist.py NOISY_FOLDER --out runs.jsonl [--seeds 5]
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from learning import PAPER, Row, Runs, arguments, dice_to, mean_and_spread, paired, table, trained
from raters.datasets import open_dataset
from raters.study.study import Study

OPTIONS = {
    "epochs": 60,
    "batch_size": 10,
    "learning_rate": 4e-3,
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
    "pixel-cm, paper's form": ("pixel-cm", PAPER),
    "pixel-cm, joint alone": ("pixel-cm", {**PAPER, "likelihood": "joint", "trace": 0.0}),
    "pixel-cm, no prior": ("pixel-cm", {"prior": 0.0}),
    "pixel-cm, no warm-up": ("pixel-cm", {"warm_up": 0}),
    "pixel-cm, warm-up on labels": ("pixel-cm", {"warm_up_on": "labels"}),
    "pixel-cm, marginal": ("pixel-cm", {"likelihood": "marginal"}),
    "pixel-cm, prior .1": ("pixel-cm", {"prior": 0.1}),
    "pixel-cm, prior 1": ("pixel-cm", {"prior": 1.0}),
}


def run(study: Study, name: str, seed: int) -> Row:
    """Train and score one method."""
    method, options = SETTINGS[name]
    model = trained(study, method, seed=seed, **OPTIONS, **options)
    row: Row = {"dice": dice_to(model, study.select(split="test")), "epoch": model.best_epoch}
    return row | {k: model.history[-1].get(k) for k in ("held_out", "dominance")}


def main() -> None:
    """Run what is missing and print the table."""
    parser = arguments(__doc__, "folder with train, validate and test")
    parser.set_defaults(seeds=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    study = open_dataset("noisy-mnist", given.data)
    runs = Runs(given.out)
    for seed in range(given.seeds):
        for name in given.only or SETTINGS:
            runs.once({"name": name, "seed": seed}, partial(run, study, name, seed))
    lines = []
    for name in SETTINGS:
        found = [r["dice"] for r in runs.rows if r["name"] == name]
        if found:
            against = paired(runs.rows, "dice", {"name": name}, {"name": "vote"})
            lines.append([name, mean_and_spread(found), against, f"{100 * np.min(found):.1f}"])
    print(table(["method", "Dice", "against vote, paired", "worst seed"], lines))


if __name__ == "__main__":
    main()
