"""A bright disc with a brighter cup inside, as the optic nerve looks in a fundus picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.simulate.noise import smooth_noise
from raters.simulate.phantom_vessels import grow_vessels, stamp


def draw_discs(
    space: tuple[int, ...], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Draw disc (1) and cup (2), nested; dark vessels leave from the disc."""
    from scipy.ndimage import gaussian_filter

    size = min(space)
    centre = np.array(space) * rng.uniform(0.42, 0.58, len(space))
    radius = size * rng.uniform(0.22, 0.32)
    disc = _round(space, centre, radius, 0.04, rng)
    moved = centre + radius * rng.uniform(-0.15, 0.15, len(space))
    cup = _round(space, moved, radius * rng.uniform(0.35, 0.65), 0.06, rng) & disc
    image = _fundus(space, rng)
    image += 0.24 * gaussian_filter(disc.astype(np.float32), size / 60)
    image += 0.16 * gaussian_filter(cup.astype(np.float32), size / 40)
    curves = grow_vessels(space, rng, trunks=5, start=moved, width=size / 50)
    depth = gaussian_filter(stamp(space, curves).astype(np.float32), max(0.6, size / 160))
    image = image * (1 - 0.45 * depth) + 0.015 * rng.standard_normal(space)
    return image.astype(np.float32), (disc.astype(np.int16) + cup).astype(np.int16)


def _fundus(space: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw a background that darkens towards the border, with faint structure."""
    size = min(space)
    places = [np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in space]
    away = sum(np.meshgrid(*places, indexing="ij"))
    image = 0.42 - 0.07 * away + 0.025 * smooth_noise(space, size / 5, rng)
    return np.asarray(image + 0.015 * smooth_noise(space, max(1.0, size / 40), rng), np.float32)


def _round(
    space: tuple[int, ...],
    centre: NDArray[np.float64],
    radius: float,
    irregular: float,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Draw a disc (ball), a little oval and irregular."""
    radii = radius * rng.uniform(0.92, 1.08, len(space))
    offset = np.indices(space, np.float32) - centre.reshape(-1, *[1] * len(space))
    level = np.sqrt(sum((x / r) ** 2 for x, r in zip(offset, radii, strict=True)))
    return np.asarray(level < 1 + irregular * smooth_noise(space, radius, rng))
