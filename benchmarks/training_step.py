"""Time of a training step of pixel-cm against the same network on one fused label.

U-Net of width 16 and depth 4, 2 images of 192 x 192, 4 raters, 4 classes: forward, backward and
optimiser. Steps of the two are interleaved; the ratio of medians is printed (the published code of
Zhang et al., 2020 takes 1.9 times).

    python benchmarks/training_step.py [--repeats 20]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from raters.learning.methods.base import Batch, Method, Task
from raters.learning.methods.registry import learning_method
from raters.learning.networks import NetworkOptions, TruthNetwork, build_backbone

SIDE = 192
IMAGES = 2
RATERS = 4
CLASSES = 4


def network() -> TruthNetwork:
    """Make the network that both share."""
    backbone = build_backbone(NetworkOptions("unet", width=16, depth=4), channels=1, spatial_dims=2)
    return TruthNetwork(backbone, CLASSES, spatial_dims=2)


def make(name: str) -> Method:
    """Make a method after its warm-up."""
    entry = learning_method(name)
    names = tuple(f"rater{k}" for k in range(RATERS))
    torch.manual_seed(0)
    method = entry.load()(Task("segmentation", names, CLASSES, 2, network), entry.parse({}))
    method.start_epoch(100)
    return method


def batch() -> Batch:
    """Draw a batch of blobs."""
    random = np.random.default_rng(0)
    truth = np.kron(random.integers(0, CLASSES, (IMAGES, 12, 12)), np.ones((16, 16), int))
    labels = np.stack([np.roll(truth, k, axis=1) for k in range(RATERS)], 1)
    return {
        "image": torch.from_numpy(
            truth[:, None] + random.normal(0, 1, truth[:, None].shape)
        ).float(),
        "labels": torch.from_numpy(labels),
        "target": torch.from_numpy(truth),
        "case": torch.arange(IMAGES),
    }


def stepper(name: str, data: Batch) -> Callable[[], float]:
    """Return a function that takes a step and returns its time."""
    method = make(name)
    optimiser = torch.optim.AdamW(method.parameters(), lr=1e-3)

    def step() -> float:
        started = time.perf_counter()
        optimiser.zero_grad()
        method.step(data).loss.backward()
        optimiser.step()
        return time.perf_counter() - started

    return step


def main() -> None:
    """Time both, interleaved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    data = batch()
    steps = {name: stepper(name, data) for name in ("vote", "global-cm", "pixel-cm", "low-rank-cm")}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeats + 2):
        for name, step in steps.items():
            seconds = step()
            if turn >= 2:  # the first steps make buffers
                times[name].append(seconds)
    base = float(np.median(times["vote"]))
    for name, found in times.items():
        print(f"{name:12} {1000 * np.median(found):7.1f} ms   {np.median(found) / base:.2f} x vote")


if __name__ == "__main__":
    main()
