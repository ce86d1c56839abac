"""All learning methods on real raters: lung nodules (LIDC), retinal vessels (CHASE_DB1), LabelMe.

LIDC and CHASE_DB1 have no truth: the mean Dice against the masks of each rater of test patients
(split by patient) at three cuts (0.5; the best against each rater's masks of held-out patients;
where the predicted area is the raters' mean area), soft Dice against their mean, and the cross
entropy with their mean. LabelMe has one: accuracy on its test images, after the last epoch.

LIDC's readers are anonymous: reader 2 of one nodule is not reader 2 of the next. Methods with a
matrix for each reader are therefore left out of LIDC, unless they are asked for with `--only`.

    python benchmarks/real_raters.py --name lidc LIDC_FOLDER --out runs.jsonl [--seeds 3]
    python benchmarks/real_raters.py --name chase-db1 CHASE_FOLDER --out runs.jsonl
    python benchmarks/real_raters.py --name labelme LABELME_FOLDER --out runs.jsonl
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

import raters
from learning import (
    CUTS,
    PAPER,
    PAPER_LOSS,
    Row,
    Runs,
    accuracy_to,
    arguments,
    dice_at_cuts,
    mean_and_spread,
    table,
    trained,
)
from raters.datasets import open_dataset
from raters.scores import soft_dice
from raters.study.study import Study

MASKS: dict[str, tuple[str, Row]] = {
    "vote": ("vote", {}),
    "mean": ("mean", {}),
    "staple": ("staple", {}),
    "spatial-staple": ("spatial-staple", {}),
    "dawid-skene": ("dawid-skene", {}),
    "global-cm": ("global-cm", {}),
    "single-cm": ("single-cm", {}),
    "pixel-cm": ("pixel-cm", {}),
    "pixel-cm, from the vote": ("pixel-cm", {"warm_up_on": "vote"}),
    "pixel-cm, shared": ("pixel-cm", {"shared": True}),
    "pixel-cm, paper's form": ("pixel-cm", PAPER),
    "pixel-cm, paper's loss": ("pixel-cm", PAPER_LOSS),
    "low-rank-cm": ("low-rank-cm", {}),
    "separate": ("separate", {}),
}
ANONYMOUS = ("vote", "mean", "staple", "spatial-staple", "single-cm", "pixel-cm, shared")
"""The methods that need not know who drew a mask."""
CLASSES: dict[str, tuple[str, Row]] = {
    "vote": ("vote", {}),
    "mean": ("mean", {}),
    "dawid-skene": ("dawid-skene", {}),
    "single-cm": ("single-cm", {}),
    "global-cm": ("global-cm", {}),
    "global-cm, paper's form": ("global-cm", PAPER),
    "single-cm, paper's form": ("single-cm", PAPER),
    "pixel-cm": ("pixel-cm", {}),
    "low-rank-cm": ("low-rank-cm", {}),
    "oracle-cm": ("oracle-cm", {"by": "rater"}),
    "truth": ("truth", {}),
}
OPTIONS: dict[str, Row] = {
    "lidc": {
        "epochs": 12,
        "batch_size": 32,
        "lr": 4e-3,
        "width": 8,
        "depth": 3,
        "select": "likelihood",
    },
    "chase-db1": {
        "epochs": 40,
        "batch_size": 8,
        "lr": 4e-3,
        "patch_size": (96, 96),
        "patches_per_case": 8,
        "width": 8,
        "depth": 3,
        "select": "likelihood",
    },
    "labelme": {"epochs": 40, "batch_size": 64, "lr": 1e-3, "select": "last"},
}


def score_masks(model: raters.Model, study: Study) -> Row:
    """Compare with the raters' mean: soft Dice and cross entropy."""
    soft: list[float] = []
    entropy: list[float] = []
    for case, truth in model.predict_proba(study):
        target = np.stack([(case.labels == c).mean(axis=0) for c in range(len(study.classes))])
        soft.append(float(np.mean(soft_dice(truth[1], target[1]))))
        entropy.append(float(-(target * np.log(np.maximum(truth, 1e-7))).sum(axis=0).mean()))
    return {"soft": np.mean(soft), "entropy": np.mean(entropy)}


def run(study: Study, data: str, setting: tuple[str, Row], seed: int) -> Row:
    """Train and score one method."""
    method, options = setting
    model = trained(study, method, seed=seed, **OPTIONS[data], **options)
    test = study.select(split="test")
    if study.kind == "classification":
        return {"accuracy": accuracy_to(model, test), "epoch": model.best_epoch}
    found = {name: float(value) for name, value in score_masks(model, test).items()}
    at_cuts = dice_at_cuts(model, study.select(split="val"), test, each=True)
    return at_cuts | found | {"epoch": model.best_epoch}


def main() -> None:
    """Run what is missing and print the table."""
    parser = arguments(__doc__, "folder of the data set")
    parser.add_argument("--name", choices=list(OPTIONS), required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    whole = open_dataset(given.name, given.data)
    settings = CLASSES if whole.kind == "classification" else MASKS
    runs = Runs(given.out)
    for seed in range(given.seeds):
        study = whole
        if whole.kind == "segmentation":
            study = whole.split(seed=seed, train=0.6, val=0.1, test=0.3)
        for name in given.only or (ANONYMOUS if given.name == "lidc" else settings):
            key = {"data": given.name, "name": name, "seed": seed}
            runs.once(key, partial(run, study, given.name, settings[name], seed))
    rows = [row for row in runs.rows if row["data"] == given.name]
    print(results(rows, list(settings)))


def results(rows: list[Row], names: list[str]) -> str:
    """Write the scores of each method."""
    shown = [k for k in ("accuracy", *CUTS, "soft", "entropy") if k in rows[0]]
    lines = []
    for name in names:
        mine = [row for row in rows if row["name"] == name]
        if mine:
            lines.append([name, *(mean_and_spread([row[k] for row in mine]) for k in shown)])
    titles = CUTS | {
        "dice": "Dice, each rater, at 0.5",
        "soft": "soft Dice, mean",
        "entropy": "cross entropy x 100",
    }
    return table(["method", *(titles.get(k, k) for k in shown)], lines)


if __name__ == "__main__":
    main()
