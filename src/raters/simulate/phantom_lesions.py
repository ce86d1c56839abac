"""Lesions in textured tissue: blobs of many sizes and contrasts with blurred edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.simulate.noise import smooth_noise


def draw_lesions(
    space: tuple[int, ...], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Draw a few lesions, mostly small; each has its own contrast and an irregular outline."""
    from scipy.ndimage import gaussian_filter

    truth = np.zeros(space, bool)
    contrast = np.zeros(space, np.float32)
    for _ in range(rng.integers(2, 7)):
        blob = _blob(space, rng)
        contrast[blob] = rng.uniform(0.16, 0.34)
        truth |= blob
    inside = 1 + 0.25 * smooth_noise(space, min(space) / 24, rng)
    lesions = gaussian_filter(contrast * inside, 0.8)
    return tissue(space, rng) + lesions, truth.astype(np.int16)


def tissue(space: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw a textured background: slow shading, structures of three sizes, and grain."""
    size = min(space)
    image = 0.34 + 0.05 * smooth_noise(space, size / 2, rng)
    for part, weight in ((6, 0.045), (14, 0.03), (30, 0.02)):
        image += weight * smooth_noise(space, max(1.0, size / part), rng)
    return np.asarray(image + 0.025 * rng.standard_normal(space), np.float32)


def _blob(space: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw an ellipse (ellipsoid) with an irregular outline; it has one pixel at least."""
    size = min(space)
    radius = size * rng.uniform(0.16, 0.38) ** 2.2 + 1
    radii = radius * rng.uniform(0.75, 1.3, len(space))
    centre = [rng.uniform(0.15 * n, 0.85 * n) for n in space]
    # A random rotation turns the axes; QR of a Gaussian matrix gives one.
    turned = np.linalg.qr(rng.standard_normal((len(space), len(space))))[0]
    offset = np.indices(space, np.float32) - np.reshape(centre, (-1, *[1] * len(space)))
    along = np.tensordot(turned.astype(np.float32), offset, axes=1)
    level = np.sqrt(sum((x / r) ** 2 for x, r in zip(along, radii, strict=True)))
    outline = 1 + 0.18 * smooth_noise(space, max(1.5, 0.6 * radius), rng)
    blob = np.asarray(level < outline)
    blob[tuple(int(c) for c in centre)] = True
    return blob
