"""Does 'as rater A' fit rater A better than 'as rater B' does? Six pathologists (Gleason 2019).

Tissue cores of six slides, graded pixel by pixel by three to six of six named pathologists. The
images are made 8 times smaller (64 x 64 or so), so that a U-Net of width 8 sees whole cores and
trains in minutes on one thread. Three folds by slide: two slides are scored, one chooses the epoch
(by the likelihood of the raters' labels), three are trained on; each slide is scored once.
`single-cm` knows no raters: there 'as A' is 'as B', and the difference is 0.

    python benchmarks/gleason.py GLEASON_FOLDER --out runs.jsonl [--models FOLDER]
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

import raters
from learning import Row, Runs, arguments, table, trained
from raters.datasets import open_dataset
from raters.scores.bootstrap import GroupBootstrap, ratio
from raters.study.study import Study, name_array

METHODS = ("global-cm", "pixel-cm", "single-cm")
FOLDS = 3
OPTIONS: Row = {
    "epochs": 60,
    "batch_size": 4,
    "width": 8,
    "depth": 4,
    "select": "likelihood",
    "confusion_lr_scale": 30.0,  # at the network's pace matrices hardly leave their start
}
SMALLER = 8
FIELDS = ("log_likelihood", "labels", "dice_drawn", "drawn", "dice", "masks")


def smaller(study: Study, factor: int = SMALLER) -> Study:
    """Average the images over squares, and take the label in the middle of each."""
    images, labels = [], []
    for case in study:
        image = case.image
        assert image is not None
        rows, columns = (side // factor for side in image.shape[1:])
        kept = image[:, : rows * factor, : columns * factor]
        squares = kept.reshape(len(image), rows, factor, columns, factor)
        images.append(squares.mean(axis=(2, 4)).astype(np.float32))
        middle = case.labels[:, factor // 2 :: factor, factor // 2 :: factor]
        labels.append(middle[:, :rows, :columns])
    return Study.from_arrays(
        images,
        labels,
        raters=study.raters,
        classes=study.classes,
        cases=study.cases,
        groups=list(study.index.groups),
        about=study.about,
    )


def fold_of(study: Study, fold: int) -> Study:
    """Score slides `fold` and `fold + 3`, choose the epoch on the next, train on the rest."""
    slides = sorted(set(study.index.groups))
    part = dict.fromkeys(slides, "train")
    part |= {slides[fold]: "test", slides[fold + FOLDS]: "test"}
    part[slides[(fold + 1) % len(slides)]] = "val"
    splits = name_array([part[slide] for slide in study.index.groups])
    return replace(study, index=replace(study.index, splits=splits))


def model_of(study: Study, method: str, seed: int, folder: Path | None) -> raters.Model:
    """Train a model, or take the one that was trained before."""
    if folder is not None and (folder / "config.yaml").exists():
        return raters.load(folder)
    model = trained(study, method, seed=seed, **OPTIONS)
    if folder is not None:
        model.save(folder)
    return model


def run(study: Study, method: str, seed: int, folder: Path | None) -> Row:
    """Train and score one method on one fold; sums by slide are kept, to be added over folds."""
    from raters.evaluation import evaluate

    model = model_of(study, method, seed, folder)
    found = evaluate(model, study, "test", surfaces=False)
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0] * len(FIELDS))
    for row in found.as_rater_cases:
        drawn = row["dice_drawn"]
        parts = (row["log_likelihood"] * row["labels"], row["labels"], drawn or 0.0)
        parts = (*parts, float(drawn is not None), row["dice"], 1.0)
        place = sums[row["group"], row["as"], row["against"]]
        place[:] = [a + b for a, b in zip(place, parts, strict=True)]
    pairs = [[*place, *parts] for place, parts in sums.items()]
    keys = ("score", "joint", "marginal", "as_rater", "as_rater_ece")
    return {"epoch": model.best_epoch, **{k: found.main[k] for k in keys}, "pairs": pairs}


def pooled(rows: list[Row]) -> tuple[list[str], list[str], np.ndarray]:
    """Put folds together: slides, raters, and sums `(slides, as, against, 6)`."""
    pairs = [pair for row in rows for pair in row["pairs"]]
    slides, names = (sorted({pair[k] for pair in pairs}) for k in (0, 2))
    sums = np.zeros((len(slides), len(names), len(names), len(FIELDS)))
    for slide, as_rater, against, *parts in pairs:
        sums[slides.index(slide), names.index(as_rater), names.index(against)] += parts
    return slides, names, sums


def results(rows: list[Row]) -> str:
    """Write the tables of one method: 'as A' (rows) against B (columns), and own against others."""
    slides, names, sums = pooled(rows)
    bootstrap = GroupBootstrap(slides)
    short = [name.replace("pathologist", "P") for name in names]
    text = []
    for title, k in (("log-likelihood of a label", 0), ("Dice of drawn classes", 2)):
        found = ratio(sums.sum(axis=0)[..., k : k + 2])
        lines = [
            [f"as {n}", *(f"{v:.3f}" for v in row)] for n, row in zip(short, found, strict=True)
        ]
        lines.append(["rank of own", *(_rank(found, y) for y in range(len(names)))])
        lines.append(["own - others", *(_better(sums, y, k, bootstrap) for y in range(len(names)))])
        text.append(f"\n{title}\n\n{table(['', *short], lines)}")
        text.append(f"\nmean over raters: {_better_on_average(sums, k, bootstrap)}")
    return "\n".join(text)


def _rank(found: np.ndarray, y: int) -> str:
    return str(1 + int((found[:, y] > found[y, y] + 1e-12).sum()))


def _better(sums: np.ndarray, y: int, k: int, bootstrap: GroupBootstrap) -> str:
    """Write how much better 'as Y' fits Y than 'as others' do on average, paired over slides."""
    parts = sums[:, :, y, k : k + 2]
    others = np.delete(parts, y, axis=1).mean(axis=1)
    found = bootstrap.difference(others, parts[:, y], ratio)
    return f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _better_on_average(sums: np.ndarray, k: int, bootstrap: GroupBootstrap) -> str:
    """Write the same, averaged over raters."""
    number = sums.shape[1]
    parts = sums[..., k : k + 2]

    def mean_gap(flat: np.ndarray) -> np.ndarray:
        scores = ratio(flat.reshape(*flat.shape[:-1], number, number, 2))
        own = np.diagonal(scores, axis1=-2, axis2=-1)
        others = (scores.sum(axis=-2) - own) / (number - 1)
        return np.nanmean(own - others, axis=-1)

    found = bootstrap.interval(parts.reshape(len(parts), -1), mean_gap)
    return f"{found.estimate:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def main() -> None:
    """Run what is missing and print the tables."""
    parser = arguments(__doc__, "folder of Gleason 2019")
    parser.add_argument("--models", type=Path, help="keep trained models here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    whole = smaller(open_dataset("gleason2019", given.data))
    runs = Runs(given.out)
    for seed in range(given.seeds):
        for fold in range(FOLDS):
            study = fold_of(whole, fold)
            for name in given.only or METHODS:
                folder = None if given.models is None else given.models / f"{name}-{fold}-{seed}"
                key = {"method": name, "fold": fold, "seed": seed}
                runs.once(key, partial(run, study, name, seed, folder))
    for name in METHODS:
        mine = [row for row in runs.rows if row["method"] == name]
        if mine:
            scores = {k: np.mean([row[k] for row in mine]) for k in ("score", "marginal", "joint")}
            said = ", ".join(f"{k} {v:.3f}" for k, v in scores.items())
            print(f"\n## {name}: {len(mine)} runs, {said}\n{results(mine)}")


if __name__ == "__main__":
    main()
