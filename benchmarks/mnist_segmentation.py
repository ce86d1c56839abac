"""MNIST segmentation with five simulated raters, as in Tables 1 and 2 of Zhang et al. (2020).

Good, over, under, wrong and blank raters draw digits in noise; every image has all labels (dense)
or one. Dice of the truth network on test images at three cuts (0.5; the best on held-out images
with their reference; where the predicted area is the raters' mean area), and the error of the
raters' matrices on held-out images (root mean square, rows of true classes) for the raters who
labelled them.

    python benchmarks/mnist_segmentation.py MNIST_FOLDER --out runs.jsonl [--images 1500]

`--raters vote-fails` asks for five others: their vote is wrong in most places of a digit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

import raters
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
    table,
    trained,
)
from raters.confusion import root_mean_square
from raters.datasets import open_dataset
from raters.simulate import simulate, true_confusion
from raters.simulate.study import PIXEL_CM
from raters.study.case import Case
from raters.study.study import Study

Matrix = np.ndarray
Estimate = Callable[[Case], Matrix]

NOISE, HELD_OUT, TEST = 0.3, 200, 400
RATERS = {"usual": PIXEL_CM, "vote-fails": "good,thicken,thin@0.4,fracture@0.6,blank"}
OPTIONS: Row = {
    "epochs": 20,
    "batch_size": 16,
    "lr": 4e-3,
    "width": 8,
    "select": "likelihood",
    "augment": "none",
}

TRACES: dict[str, tuple[str, Row]] = {
    f"pixel-cm, trace {weight:g} over {over}": ("pixel-cm", {"trace": weight, "trace_over": over})
    for weight in (0.001, 0.01, 0.1)
    for over in ("all", "truth")
}
"""The trace term by its weight, in the paper's form and weighted by the predicted truth."""

SETTINGS: dict[str, tuple[str, Row]] = {
    "truth": ("truth", {}),
    "mean": ("mean", {}),
    "vote": ("vote", {}),
    "staple": ("staple", {}),
    "spatial-staple": ("spatial-staple", {}),
    "global-cm": ("global-cm", {}),
    "single-cm": ("single-cm", {}),
    "pixel-cm": ("pixel-cm", {}),
    "pixel-cm, to the identity": ("pixel-cm", IDENTITY),
    "pixel-cm, paper's form": ("pixel-cm", PAPER),
    "pixel-cm, paper's loss": ("pixel-cm", PAPER_LOSS),
    "global-cm, paper's form": ("global-cm", PAPER),
    **TRACES,
    "low-rank-cm": ("low-rank-cm", {}),
    "oracle-cm": ("oracle-cm", {}),
    "separate": ("separate", {}),
}


def digits(folder: Path, images: int, seed: int) -> Study:
    """Return noisy digits with their masks as the reference, in splits."""
    whole = open_dataset("mnist-masks", folder)
    numbers = np.random.default_rng(seed).permutation(60000)[: images + HELD_OUT + TEST]
    cases = [whole[int(k)] for k in sorted(numbers)]
    noise = np.random.default_rng(seed + 1000)
    pictures = np.stack([case.image for case in cases]).astype(np.float32) / 255
    pictures += noise.normal(0, NOISE, pictures.shape).astype(np.float32)
    splits = ["train"] * images + ["val"] * HELD_OUT + ["test"] * TEST
    return Study.from_arrays(
        images=pictures,
        reference=np.stack([case.reference for case in cases]),
        splits=list(noise.permutation(splits)),
    )


def matrix_error(study: Study, known: dict[str, Matrix], estimate: Estimate) -> float:
    """Return the error of matrices on held-out cases, of the raters who labelled each."""
    errors = []
    for case in study.iter_cases():
        there = (case.labels >= 0).reshape(len(study.raters), -1).any(axis=1)
        found = np.asarray(estimate(case))[there]
        true = known[case.id][there]
        if found.ndim == 3:
            found = found[..., None, None]
        errors.append(root_mean_square(found, true[..., None, None], case.reference))
    return float(np.sqrt(np.mean(np.square(errors))))


def run(study: Study, known: dict[str, Matrix], name: str, seed: int) -> Row:
    """Train and score one method."""
    method, options = SETTINGS[name]
    model = trained(study, method, seed=seed, **OPTIONS, **options)
    held_out = study.select(split="val")
    row = dice_at_cuts(model, held_out, study.select(split="test")) | {"epoch": model.best_epoch}
    if method in ("staple", "spatial-staple"):
        consensus = raters.fuse(held_out, method)
        row["error"] = matrix_error(held_out, known, lambda case: consensus[case.id].confusion)
    elif method not in ("separate", "truth"):
        row["error"] = matrix_error(held_out, known, model.confusion)
    row |= {k: model.history[-1].get(k) for k in ("held_out", "dominance")}
    return row


def main() -> None:
    """Run what is missing and print the table."""
    parser = arguments(__doc__, "folder of MNIST's idx files")
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument(
        "--raters", default="usual", help="usual, vote-fails, or as `raters simulate --raters`"
    )
    parser.add_argument(
        "--select", default="likelihood", help="of the epoch; another one wants its own --out"
    )
    parser.add_argument("--labels", nargs="*", default=["all", "one"], help="all, one, or both")
    given = parser.parse_args()
    asked = RATERS.get(given.raters, given.raters)
    torch.set_num_threads(given.threads)
    OPTIONS["select"] = given.select
    runs = Runs(given.out)
    names = given.only or list(SETTINGS)
    for seed in range(given.seeds):
        truth = digits(given.data, given.images, seed)
        for labels in given.labels:
            drawn = simulate(truth, asked, assign=labels, seed=seed)
            study = _in_memory(drawn)
            kept = drawn.select(split="val")
            known = {str(name): true_confusion(kept, name) for name in kept.index.ids}
            for name in names:
                key = {"raters": asked, "labels": labels, "name": name, "seed": seed}
                runs.once(key, partial(run, study, known, name, seed))
    print(results(runs.rows, asked))


def _in_memory(study: Study) -> Study:
    """Draw all labels once: drawn studies draw again whenever a case is read."""
    import tempfile

    return study.write(Path(tempfile.mkdtemp()) / "study", "packed")


def results(rows: list[Row], raters: str) -> str:
    """Write the table: Dice at each cut and the error, dense and one label."""
    lines = []
    for labels in ("all", "one"):
        for name in SETTINGS:
            key = (name, labels, raters)
            mine = [r for r in rows if (r["name"], r["labels"], r["raters"]) == key]
            if mine:
                errors = [r["error"] for r in mine if "error" in r]
                cells = [mean_and_spread([r[cut] for r in mine]) for cut in CUTS]
                cut = f"{np.mean([r['cut_best'] for r in mine]):.2f}"
                error = f"{np.mean(errors):.3f}" if errors else "n/a"
                lines.append([labels, name, *cells, cut, error, str(len(mine))])
    return table(["labels", "method", *CUTS.values(), "best cut", "error", "seeds"], lines)


if __name__ == "__main__":
    main()
