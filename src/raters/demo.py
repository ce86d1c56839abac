"""Draws the demo's study: bright lesions in textured images, and raters who err on purpose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.study import formats

SIZE = 128
CASES = 24


def draw_study(folder: Path, seed: int = 0) -> None:
    """Write images, true masks, and masks by three raters, as a user's folders would have them.

    'careful' errs a little, 'generous' draws too much, 'hasty' draws too little and leaves out
    every fourth case.
    """
    from scipy.ndimage import binary_dilation, binary_erosion

    random = np.random.default_rng(seed)
    for k in range(CASES):
        truth = _lesions(random)
        masks = {
            "careful": _jittered(truth, random),
            "generous": binary_dilation(truth, iterations=int(random.integers(2, 5))),
            "hasty": binary_erosion(truth, iterations=int(random.integers(1, 4))),
        }
        if k % 4 == 3:
            del masks["hasty"]
        name = f"case{k:02d}.png"
        formats.write_image(folder / "images" / name, _picture(truth, random))
        formats.write_labels(folder / "truth" / name, truth.astype(np.uint8) * 255)
        for rater, mask in masks.items():
            formats.write_labels(folder / "masks" / rater / name, mask.astype(np.uint8) * 255)


def _lesions(random: np.random.Generator) -> NDArray[np.bool_]:
    """Draw one to three ellipses."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    truth = np.zeros((SIZE, SIZE), bool)
    for _ in range(random.integers(1, 4)):
        centre, radii = random.uniform(30, SIZE - 30, 2), random.uniform(8, 20, 2)
        truth |= ((rows - centre[0]) / radii[0]) ** 2 + ((columns - centre[1]) / radii[1]) ** 2 < 1
    return truth


def _smooth_noise(random: np.random.Generator, width: float) -> NDArray[np.float64]:
    from scipy.ndimage import gaussian_filter

    noise = gaussian_filter(random.normal(size=(SIZE, SIZE)), width)
    return np.asarray(noise / noise.std())


def _jittered(truth: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.bool_]:
    """Move the outline by about a pixel, smoothly."""
    from scipy.ndimage import distance_transform_edt

    inside = distance_transform_edt(truth) - distance_transform_edt(~truth)
    return np.asarray(inside + _smooth_noise(random, 4) > 0)


def _picture(truth: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.uint8]:
    """Paint the truth brighter than its textured surroundings; `(1, rows, columns)`."""
    texture = 90 + 18 * _smooth_noise(random, 5) + 9 * _smooth_noise(random, 1)
    return (texture + 55 * truth).clip(0, 255).astype(np.uint8)[np.newaxis]
