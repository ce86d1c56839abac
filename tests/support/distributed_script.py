"""Trains a few tiny models and writes their histories and weights; run by test_distributed.py.

Arguments: the folder to write to, the number of processes, and names of RUNS ('dies': one more
training, in which the second process is killed). Each process writes what it found.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import raters
from raters.core.classes import MISSING
from raters.learning.methods import prob_unet
from raters.learning.methods.base import Batch, HeldOut, Step, Task
from raters.learning.methods.options import LatentOptions
from raters.learning.methods.prob_unet import LookedAt, ProbUNet
from raters.learning.training.run import first_process
from raters.study.study import Study
from tests.support.toy_methods import TOYS, registered

CASES = 11


def make_noisy_masks() -> Study:
    """Make noisy masks; raters leave out cases and corners, so that processes differ in labels."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(CASES, 1, 8, 6)).astype(np.float32)
    truth = (images[:, 0] > 0).astype(int)
    noisy = rng.random((CASES, 3, 8, 6)) < 0.15
    labels = np.where(noisy, 1 - truth[:, None], truth[:, None])
    labels[:4, 1] = labels[::3, 2] = labels[5, :, :3] = MISSING
    beside = {"splits": ["train"] * 8 + ["val"] * 3, "diagnoses": ["ill", "well"] * 5 + ["ill"]}
    return Study.from_arrays(images, labels, reference=truth, **beside)


def make_drawings() -> Study:
    """Make positive and negative drawings of two objects, and masks of some cases."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, (CASES, 8, 6))
    images = (truth + rng.normal(0, 0.3, truth.shape))[:, np.newaxis].astype(np.float32)
    negative = (truth + rng.integers(1, 3, truth.shape)) % 3
    negative[rng.random(truth.shape) < 0.4] = MISSING
    labels = np.stack([truth, negative, truth], 1)
    labels[::2, 0] = labels[1:9, 2] = MISSING
    return Study.from_arrays(
        images,
        labels,
        raters=["ann", "ben", "cy"],
        annotations={"ann": "positive", "ben": "negative"},
        splits=["train"] * 8 + ["val"] * 3,
    )


def make_crowd_table() -> Study:
    """Make answers of raters who skip many tasks."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 41)
    features = np.eye(3)[truth] + rng.normal(0, 0.3, (41, 3))
    answers = np.where(rng.random((41, 4)) < 0.3, rng.integers(0, 3, (41, 4)), truth[:, None])
    answers[rng.random((41, 4)) < 0.5] = MISSING
    answers[0] = truth[0]
    splits = ["train"] * 32 + ["val"] * 9
    return Study.from_arrays(features, answers, reference=truth, splits=splits)


SMALL: dict[str, Any] = {"epochs": 3, "progress": False, "augment": "none"}
# It does not import MONAI. A bias before a norm would have no gradient but rounding, which AdamW
# makes as large as any other.
PLAIN = {"network": "patch-cnn", "width": 2, "depth": 1, "norm": "none"}
# 32 tasks by 7 leave 4, by 9 leave 5; 8 cases by 5 leave 3, by 7 leave 1: then one process has
# nothing to do.
RUNS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "table": (make_crowd_table, "global-cm", {"batch_size": 7, "warm_up": 1, "trace": 0.1}),
    "separate": (make_crowd_table, "separate", {"batch_size": 9, "class_weights": "balanced"}),
    "masks": (make_noisy_masks, "pixel-cm", {**PLAIN, "batch_size": 5, "warm_up": 1}),
    # The transition and the share of objects are of all processes together.
    "coarse": (
        make_drawings,
        "coarse",
        {**PLAIN, "batch_size": 7, "warm_up": 1, "share": 0.4, "class_weights": "balanced"},
    ),
    # So many pixels that some are drawn to follow each rater's own matrix.
    "large": (
        make_noisy_masks,
        "pixel-cm",
        {**PLAIN, "batch_size": 5, "warm_up": 1, "patch_size": (40, 30), "patches_per_case": 1},
    ),
    "patches": (
        make_noisy_masks,
        "pixel-cm",
        {**PLAIN, "batch_size": 7, "patch_size": (4, 4), "patches_per_case": 1}
        | {"class_weights": "balanced", "trace": 0.05, "warm_up": 1, "warm_up_on": "labels"},
    ),
    "gem": (
        make_noisy_masks,
        "gem",
        {**PLAIN, "batch_size": 5, "em_steps": 3, "order": "paper", "patch_size": (5, 4)},
    ),
    "mbem": (make_crowd_table, "mbem", {"batch_size": 7, "em_steps": 2, "lr": 0.05}),
    # What they draw, and what one counts, must not depend on who has a case.
    "hypotheses": (
        make_crowd_table,
        "multi-hypothesis",
        {"batch_size": 9, "class_weights": "balanced"},
    ),
    "prob-unet": (make_noisy_masks, "prob-unet", {**PLAIN, "batch_size": 5}),
    "wdn": (make_crowd_table, "wdn", {"batch_size": 9, "class_weights": "balanced"}),
    "agg-net": (make_crowd_table, "agg-net", {"batch_size": 7, "warm_up": 1}),
    "agg-net-masks": (make_noisy_masks, "agg-net", {**PLAIN, "batch_size": 5, "warm_up": 1}),
    "crowd-layer": (
        make_crowd_table,
        "crowd-layer",
        {"batch_size": 9, "class_weights": "balanced"},
    ),
    "mrnet": (make_noisy_masks, "mrnet", {**PLAIN, "batch_size": 5, "class_weights": "balanced"}),
    "pionono": (make_noisy_masks, "pionono", {**PLAIN, "batch_size": 5}),
    "diag": (make_noisy_masks, "diag", {**PLAIN, "batch_size": 5}),
    "prism": (make_noisy_masks, "prism", {**PLAIN, "batch_size": 5, "warm_up": 1}),
    "max-mig": (
        make_noisy_masks,
        "max-mig",
        {**PLAIN, "batch_size": 7, "warm_up": 1, "class_weights": "balanced"},
    ),
    **{name: (make_noisy_masks, name, {**PLAIN, "batch_size": 5, "epochs": 4}) for name in TOYS},
}
RUNS["toy-em"][2]["patch_size"] = (5, 4)  # tiles of a case, that are seen by one process


@contextmanager
def in_64_bits(wanted: bool) -> Iterator[None]:
    """Let prob-unet compute in 64 bits, if wanted.

    In 32 bits gradients of two processes and of one differ by rounding alone (7e-7 in the first
    step, of 64 bits 2e-15), which grows to 6e-3 within six steps; what makes it grow is not known.
    """

    class Wide(ProbUNet):
        def __init__(self, task: Task, options: LatentOptions) -> None:
            super().__init__(task, options)
            self.double()

        def look(self, image: Tensor) -> LookedAt:
            return super().look(image.double())

        def step(self, batch: Batch) -> Step:
            return super().step({**batch, "image": batch["image"].double()})

        def held_out(self, batch: Batch) -> HeldOut:
            return super().held_out({**batch, "image": batch["image"].double()})

    prob_unet.ProbUNet = Wide if wanted else ProbUNet  # type: ignore[misc]
    try:
        yield
    finally:
        prob_unet.ProbUNet = ProbUNet  # type: ignore[misc]


@registered()
def train_models(folder: Path, devices: int, names: Iterable[str]) -> None:
    """Train some models by name."""
    for name in names:
        make, method, options = RUNS[name]
        more: dict[str, Any] = {"folder": folder / f"run-{name}"} if name == "masks" else {}
        with in_64_bits(name == "prob-unet"):
            model = raters.fit(make(), method, devices=devices, **{**SMALL, **options, **more})
        rank = 0 if first_process() else 1
        found = {"history": model.history, "best": model.best_epoch}
        torch.save({**found, "weights": model.method.state_dict()}, folder / f"{name}-{rank}.pt")


def die_after_an_epoch() -> None:
    """Let every process but the first be killed when an epoch is written."""
    from raters.learning.training.run import Record

    real = Record.epoch

    def epoch(self: Record, learner: Any) -> None:
        real(self, learner)
        if not first_process():
            os.kill(os.getpid(), signal.SIGKILL)

    Record.epoch = epoch  # type: ignore[method-assign]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    processes = int(sys.argv[2])
    names = sys.argv[3:]
    train_models(place, processes, [name for name in names if name != "dies"])
    if "dies" in names:
        die_after_an_epoch()
        try:
            train_models(place / "dies", processes, ["masks"])
        except raters.RatersError as error:
            sys.exit(f"error: {error}")
