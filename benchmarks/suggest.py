"""`raters suggest`: are 20 images that it chooses worth more than 20 at random?

Drawn lesions of 64 x 64 in noise, 20 of them labelled. A network (`vote`, one good rater) is
trained on these; of a pool of 200 it chooses 20, and a new network is trained on all 40. Beside it,
20 at random, and the 20 alone. Two studies: lesions alike, and one image in ten with dark lesions
among bright ones. Mean Dice on 100 test images, over seeds, with Student's intervals of the
difference from random, paired.

    python benchmarks/suggest.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.stats import t as student

import raters
from raters.metrics import mean_dice
from raters.simulation import simulate
from raters.simulation.phantoms import draw_lesions, tissue
from raters.study.study import Study

SPACE = (64, 64)
LABELLED = 20
POOL = 200
VAL = 20
TEST = 100
NOISE = 0.06
CONTRAST = 0.22
RARE = 0.1
STEPS = 600


class Drawn:
    """Images of a seed, with their truth."""

    def __init__(self, seed: int, rare: bool) -> None:
        rng = np.random.default_rng(seed)
        number = LABELLED + POOL + VAL + TEST
        drawn = [draw_lesions(SPACE, rng) for _ in range(number)]
        images, self.truth = (np.stack(part) for part in zip(*drawn, strict=True))
        self.rare = rng.random(number) < RARE if rare else np.zeros(number, bool)
        if rare:
            soft = np.stack([gaussian_filter(mask.astype(np.float32), 0.8) for mask in self.truth])
            sign = np.where(self.rare, -CONTRAST, CONTRAST)[:, None, None]
            images = np.stack([tissue(SPACE, rng) for _ in drawn]) + sign * soft
        noise = rng.standard_normal(images.shape)
        self.images = (images + NOISE * noise)[:, None].astype(np.float32)

    def study(self, places: list[int], splits: list[str] | None = None) -> Study:
        """Return some of the images."""
        names = [f"c{k}" for k in places]
        images = self.images[places]
        truth = self.truth[places]
        return Study.from_arrays(images, reference=truth, cases=names, splits=splits)


def fitted(drawn: Drawn, chosen: list[int], seed: int) -> raters.Model:
    """Train on labels of some images."""
    held_out = list(range(LABELLED + POOL, LABELLED + POOL + VAL))
    splits = ["train"] * len(chosen) + ["val"] * VAL
    study = simulate(drawn.study(chosen + held_out, splits), "good", seed=seed)
    epochs = STEPS * 4 // len(chosen)
    return raters.fit(
        study,
        "vote",
        progress=False,
        seed=seed,
        epochs=epochs,
        batch_size=4,
        lr=4e-3,
        width=8,
        depth=3,
        select="likelihood",
    )


def score(drawn: Drawn, model: raters.Model) -> float:
    """Return the mean Dice on test images."""
    test = drawn.study(list(range(LABELLED + POOL, len(drawn.images)))[VAL:])
    found = [mean_dice(labels, case.reference, 2) for case, labels in model.predict(test)]
    return 100 * float(np.mean(found))


def run(seed: int, rare: bool) -> tuple[float, float, float]:
    """Return the Dice without more images, with those chosen, and with some at random."""
    drawn = Drawn(seed, rare)
    first = list(range(LABELLED))
    pool = list(range(LABELLED, LABELLED + POOL))
    start = fitted(drawn, first, seed)
    best = raters.suggest(start, drawn.study(pool), num_cases=LABELLED, num_patches=0).cases
    chosen = [int(row["case"][1:]) for row in best]
    at_random = np.random.default_rng(seed + 1000).choice(pool, LABELLED, replace=False).tolist()
    found = [score(drawn, fitted(drawn, first + more, seed)) for more in (chosen, at_random)]
    dark = [int(drawn.rare[more].sum()) for more in (chosen, at_random)]
    row = (score(drawn, start), *found)
    print(f"  seed {seed}: {', '.join(f'{x:.1f}' for x in row)}; dark {dark}", flush=True)
    return row


def main() -> None:
    """Print both studies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, rare in (("lesions alike", False), ("one in ten dark", True)):
        print(f"{name}: the 20 alone, 20 more chosen, 20 more at random")
        rows = np.array([run(given.first + k, rare) for k in range(given.seeds)])
        differ = rows[:, 1] - rows[:, 2]
        half = student.ppf(0.975, len(rows) - 1) * differ.std(ddof=1) / len(rows) ** 0.5
        means = ", ".join(
            f"{m:.1f} ± {s:.1f}" for m, s in zip(rows.mean(0), rows.std(0, ddof=1), strict=True)
        )
        low = differ.mean() - half
        high = differ.mean() + half
        print(f"  {means}; chosen minus random {differ.mean():+.1f} [{low:+.1f}, {high:+.1f}]")


if __name__ == "__main__":
    main()
