"""MNIST classification with five simulated raters: Figures 3, 4 and 11 of Tanno et al. (2019).

Pairwise-flippers and hammer-spammers of several mean skills label digits, all five or one an image.
Accuracy on test images, and the error of the raters' matrices (squared Frobenius norm / L, in
10^-2), with and without the trace term. 'no dominance' is a group whose mean matrix is not
column-dominant: the theorem does not hold there. The network is a perceptron on the pixels, which
trains in seconds, or (`--network cnn`) the paper's CNN.

    python benchmarks/mnist_classification.py MNIST_FOLDER --out runs.jsonl [--network cnn]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from learning import PAPER, Row, Runs, arguments, mean_and_spread, table, trained
from raters.confusion import dominance_margin, squared_frobenius
from raters.datasets import open_dataset
from raters.rater_models import from_listing
from raters.simulate import simulate, true_confusion
from raters.study.study import Study

HELD_OUT, TEST, LAMBDA = 300, 1000, 0.01
CLEAR = 0.01  # margin by which dominance holds or fails; five flippers of .3 have .02 at best
OPTIONS: Row = {"epochs": 20, "batch_size": 50, "select": "likelihood"}
NETWORKS: dict[str, Row] = {
    "mlp": {"lr": 1e-3, "normalise": "none"},
    # Both poolings, and half the paper's width: it trains in a minute here.
    "cnn": {"lr": 3e-3, "normalise": "study", "depth": 3, "width": 16},
}
GROUPS = {
    "flippers .25, no dominance": ("5xpairwise-flipper:0.25", False),
    "flippers .3": ("5xpairwise-flipper:0.3", True),
    "flippers .35": ("5xpairwise-flipper:0.35", True),
    "flippers .5": ("5xpairwise-flipper:0.5", True),
    "spammers .3": ("5xhammer-spammer:0.3", True),
}
METHODS: dict[str, tuple[str, Row]] = {
    "vote": ("vote", {}),
    "dawid-skene": ("dawid-skene", {}),
    "global-cm": ("global-cm", {}),
    "global-cm, trace": ("global-cm", {"trace": LAMBDA, "trace_over": "all"}),
    "global-cm, marginal": ("global-cm", {"likelihood": "marginal"}),
    "global-cm, marginal, trace": (
        "global-cm",
        {"likelihood": "marginal", "trace": LAMBDA, "trace_over": "all"},
    ),
    "global-cm, paper's form": ("global-cm", PAPER),
    "single-cm, paper's form": ("single-cm", PAPER),
    "oracle-cm": ("oracle-cm", {"by": "rater"}),
    "truth": ("truth", {}),
}


def digits(folder: Path, images: int, network: str, seed: int) -> tuple[Study, Study]:
    """Return digits to label (train and val), and digits to test on."""
    whole = open_dataset("mnist", folder)
    order = np.random.default_rng(seed).permutation(60000)[: images + HELD_OUT + TEST]
    cases = [whole[int(k)] for k in order]
    pictures = np.stack([case.image for case in cases]) / np.float32(255)
    if network == "mlp":
        pictures = pictures.reshape(len(cases), -1)
    truth = np.array([int(case.reference) for case in cases])
    splits = ["train"] * images + ["val"] * HELD_OUT
    study = Study.from_arrays(
        images=pictures[: len(splits)], reference=truth[: len(splits)], splits=splits
    )
    return study, Study.from_arrays(images=pictures[len(splits) :], reference=truth[len(splits) :])


def group(truth: Study, raters: str, dominant: bool, labels: str, seed: int) -> Study:
    """Draw a group of raters whose mean matrix is, or is not, column-dominant."""
    for attempt in range(1000):
        study = simulate(truth, raters, assign=labels, seed=1000 * seed + attempt)
        margin = dominance_margin(true_confusion(study, 0))
        if margin > CLEAR if dominant else margin < -CLEAR:
            return study
    raise SystemExit(f"found no group of {raters} with dominance {dominant}")


def run(study: Study, test: Study, name: str, network: str, labels: str, seed: int) -> Row:
    """Train and score one method."""
    method, options = METHODS[name]
    if "trace" in options:
        given = len(study.raters) if labels == "all" else 1  # labels of an image
        options = {**options, "trace": from_listing(options["trace"], given)}
    chosen = {"network": network, **NETWORKS[network], **OPTIONS}
    model = trained(study, method, seed=seed, **chosen, **options)
    with torch.inference_mode():
        images = np.stack([case.image for case in test.iter_cases()])
        batch = np.stack([model.config.normaliser()(image) for image in images])
        parts = torch.from_numpy(batch).split(100)
        truth = torch.cat([model.method.truth(part) for part in parts])
    right = truth.argmax(1).numpy() == test.reference_labels
    row: Row = {"accuracy": float(right.mean()), "epoch": model.best_epoch}
    if method != "truth":
        estimate = model.confusion(images[0])
        true = true_confusion(study, 0)
        row["error"] = squared_frobenius(estimate.reshape(true.shape), true)
    return row


def main() -> None:
    """Run what is missing and print the table."""
    parser = arguments(__doc__, "folder of MNIST's idx files")
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--network", choices=list(NETWORKS), default="mlp")
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), help="names of groups to run")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runs = Runs(given.out)
    for seed in range(given.seeds):
        truth, test = digits(given.data, given.images, given.network, seed)
        for which in given.groups:
            raters, dominant = GROUPS[which]
            for labels in ("all", "one"):
                study = group(truth, raters, dominant, labels, seed)
                for name in given.only or METHODS:
                    key = {"network": given.network, "group": which, "labels": labels}
                    key |= {"name": name, "seed": seed}
                    runs.once(key, partial(run, study, test, name, given.network, labels, seed))
    rows = [row for row in runs.rows if row["network"] == given.network]
    for labels, title in (("all", "all five labels"), ("one", "one label an image")):
        print(f"\n{title}\n\n{results(rows, labels)}")


def results(rows: list[Row], labels: str) -> str:
    """Write accuracy (and matrix error) of each method in each group."""
    lines = []
    for name in METHODS:
        cells = [name]
        for which in GROUPS:
            key = (name, labels, which)
            mine = [r for r in rows if (r["name"], r["labels"], r["group"]) == key]
            errors = [100 * r["error"] for r in mine if "error" in r]
            text = mean_and_spread([r["accuracy"] for r in mine]) if mine else ""
            cells.append(text + (f" ({np.mean(errors):.2f})" if errors else ""))
        lines.append(cells)
    return table(["method", *GROUPS], lines)


if __name__ == "__main__":
    main()
