"""STAPLE against SimpleITK in one run: times, ratios, and how far the results differ.

    python benchmarks/staple_speed.py

Binary: 5 raters x 192^3 against STAPLEImageFilter. Multi-class: 5 raters x 4 classes x 128^3
against MultiLabelSTAPLEImageFilter. Many patterns: 40 raters x 20 classes against a plain
vectorised form. Each of ours is the best of several runs after one that compiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import SimpleITK

from raters.fusion._staple import staple
from raters.fusion.columns import columns_of


def draw(size: int, raters: int, classes: int, seed: int = 0) -> np.ndarray:
    """Draw nested balls and raters of differing skill who err at random."""
    random = np.random.default_rng(seed)
    distance = np.sqrt(sum((g - size / 2) ** 2 for g in np.ogrid[:size, :size, :size]))
    edges = size * np.linspace(0.42, 0.15, classes - 1)
    truth = sum((distance < edge).astype(np.int8) for edge in edges)
    labels = np.empty((raters, *truth.shape), np.int8)
    for r in range(raters):
        wrong = random.random(truth.shape, dtype=np.float32) < 0.03 + 0.02 * r
        labels[r] = np.where(wrong, random.integers(0, classes, truth.shape, np.int8), truth)
    return labels


def best(function: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Return the shortest of several times, and the result."""
    seconds = np.inf
    result = None
    for _ in range(times):
        start = time.perf_counter()
        result = function()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result


def binary() -> None:
    """Compare binary STAPLE."""
    labels = draw(192, raters=5, classes=2)
    images = [SimpleITK.GetImageFromArray(mask.astype(np.uint8)) for mask in labels]
    filter_ = SimpleITK.STAPLEImageFilter()
    filter_.SetForegroundValue(1)
    staple(labels[:, :32], 2)

    def fuse() -> tuple[Any, np.ndarray]:
        """Fuse; what the filter gives is the map of the foreground (hard labels come along)."""
        fused = staple(labels, 2, tol=1e-10)
        return fused, fused.probability(1)

    ours, (found, probability) = best(fuse, 7)
    theirs, image = best(lambda: filter_.Execute(images), 3)
    difference = np.abs(SimpleITK.GetArrayFromImage(image) - probability).max()
    floor, _ = best(lambda: (labels.max(), np.full(labels.shape[1:], 1, np.float32)), 7)
    print("binary STAPLE, 5 raters x 192^3")
    print(f"  SimpleITK {theirs:8.3f} s   raters {ours:8.4f} s   ratio {theirs / ours:6.1f}")
    print(f"  largest difference of probabilities {difference:.1e}, {found.iterations} steps")
    print(f"  floor (labels read once, the map written once, numpy): {floor:.4f} s")
    print(f"  raters takes {ours / floor:.1f} times the floor")


def multi_class() -> None:
    """Compare multi-class STAPLE."""
    labels = draw(128, raters=5, classes=4)
    images = [SimpleITK.GetImageFromArray(mask.astype(np.uint8)) for mask in labels]
    filter_ = SimpleITK.MultiLabelSTAPLEImageFilter()
    ours, found = best(lambda: staple(labels, 4, tol=1e-5), 5)
    theirs, image = best(lambda: filter_.Execute(images), 2)
    same = (SimpleITK.GetArrayFromImage(image) == found.labels).mean()
    print("multi-class STAPLE, 5 raters x 4 classes x 128^3")
    print(f"  SimpleITK {theirs:8.3f} s   raters {ours:8.4f} s   ratio {theirs / ours:6.1f}")
    print(f"  the same label at {same:.6%} of voxels, {found.iterations} steps")


def plain(labels: np.ndarray, classes: int, iterations: int) -> np.ndarray:
    """STAPLE as whole-array operations; the truth `(classes, voxels)`."""
    shares = np.array([(labels == t).sum() for t in range(classes)]) / (labels >= 0).sum()
    wrong = (1 - 0.99999) / (classes - 1)
    confusion = np.full((len(labels), classes, classes), wrong)
    confusion[:, range(classes), range(classes)] = 0.99999
    for step in range(iterations + 1):
        logs = np.log(np.maximum(confusion, 1e-300))
        scores = np.repeat(np.log(shares)[:, None], labels.shape[1], axis=1)
        for r, row in enumerate(labels):
            scores += logs[r][:, row]
        weights = np.exp(scores - scores.max(axis=0))
        weights /= weights.sum(axis=0)
        if step == iterations:
            return weights
        for r, row in enumerate(labels):
            for o in range(classes):
                confusion[r, :, o] = weights[:, row == o].sum(axis=1)
            confusion[r] /= confusion[r].sum(axis=1, keepdims=True)
    raise AssertionError


def many_patterns() -> None:
    """Compare with a plain vectorised form where nearly every voxel has its own pattern."""
    labels = draw(32, raters=40, classes=20).reshape(40, -1)
    ours, found = best(lambda: staple(labels, 20, max_iter=5, tol=0), 3)
    theirs, expected = best(lambda: plain(labels, 20, 5), 2)
    print("many patterns, 40 raters x 20 classes x 32^3, 5 steps")
    print(f"  plain     {theirs:8.3f} s   raters {ours:8.4f} s   ratio {theirs / ours:6.1f}")
    print(f"  largest difference of probabilities {np.abs(found.truth - expected).max():.1e}")
    columns = columns_of(labels, 20)
    print(f"  patterns counted: {columns.codes is not None}")


if __name__ == "__main__":
    binary()
    multi_class()
    many_patterns()
