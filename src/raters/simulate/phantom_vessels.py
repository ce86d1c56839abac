"""Vessels: curves that wander, branch and become narrower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters.simulate.noise import smooth_noise
from raters.simulate.shape import Mask

Point = NDArray[np.float64]


@dataclass(frozen=True)
class Bead:
    """A point of a vessel with the radius there."""

    place: Point
    radius: float


def draw_vessels(
    space: tuple[int, ...], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Draw trees of vessels, brighter than their surroundings, thick ones more so."""
    from scipy.ndimage import gaussian_filter

    from raters.simulate.phantom_lesions import tissue

    size = min(space)
    beads = grow_vessels(space, rng, trunks=int(rng.integers(2, 4)), width=size / 32)
    truth = stamp(space, beads)
    blood = 0.3 * (1 + 0.2 * smooth_noise(space, size / 6, rng))
    vessels = gaussian_filter(truth * blood, max(0.6, size / 200))
    return (0.8 * tissue(space, rng) + vessels).astype(np.float32), truth.astype(np.int16)


def grow_vessels(
    space: tuple[int, ...],
    rng: np.random.Generator,
    trunks: int,
    width: float,
    start: Point | None = None,
) -> list[Bead]:
    """Grow trees from a point, or from the border inwards; give their beads.

    A vessel wanders: its direction turns a little at every pixel. It branches at random, and the
    radii of the branches follow Murray's law: `r^3 = r_1^3 + r_2^3`.
    """
    beads: list[Bead] = []
    growing: list[tuple[Point, Point, float]] = []
    for k in range(trunks):
        place = _border(space, rng) if start is None else start
        aim = _inwards(space, place, rng) if start is None else _around(len(space), k, trunks, rng)
        growing.append((place, aim, width * rng.uniform(0.7, 1.3)))
    thinnest = max(0.5, 0.2 * width)
    while growing:
        branches = _grow(space, *growing.pop(), beads, rng)
        growing += [branch for branch in branches if branch[2] > thinnest]
    return beads


def _grow(
    space: tuple[int, ...],
    place: Point,
    direction: Point,
    radius: float,
    beads: list[Bead],
    rng: np.random.Generator,
) -> list[tuple[Point, Point, float]]:
    """Grow one vessel until it leaves the image or branches; give its branches."""
    size = float(np.mean(space))
    bend = rng.normal(0, 1.2 / size, len(space))
    for _ in range(max(4, int(size * rng.uniform(0.2, 0.5) * min(1, radius)))):
        beads.append(Bead(place, radius))
        bend = 0.96 * bend + rng.normal(0, 0.6 / size, len(space))
        direction = direction + bend
        direction = direction / np.linalg.norm(direction)
        place, radius = place + direction, radius * 0.999
        if (place < -radius).any() or (place > np.array(space) + radius).any():
            return []
    share = rng.uniform(0.3, 0.7)
    parts = radius * np.cbrt([share, 1 - share])
    aside = rng.standard_normal(len(space))
    aside -= (aside @ direction) * direction
    aside /= np.linalg.norm(aside)
    turns = rng.uniform(0.25, 0.75, 2) * [1, -1]
    return [
        (place, direction * np.cos(turn) + aside * np.sin(turn), float(part))
        for part, turn in zip(parts, turns, strict=True)
    ]


def stamp(space: tuple[int, ...], beads: list[Bead]) -> Mask:
    """Mark the pixels within the radius of each bead, and always the nearest one."""
    mask = np.zeros(space, bool)
    for bead in beads:
        nearest = np.rint(bead.place).astype(int)
        low = np.maximum(nearest - int(bead.radius + 1), 0)
        high = np.minimum(nearest + int(bead.radius + 1) + 1, space)
        if (high <= low).any():
            continue
        box = tuple(slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True))
        offset = np.mgrid[box] - bead.place.reshape(-1, *[1] * len(space))
        mask[box] |= (offset**2).sum(axis=0) <= max(bead.radius, 0.5) ** 2
        if (nearest >= 0).all() and (nearest < space).all():
            mask[tuple(nearest)] = True
    return mask


def _border(space: tuple[int, ...], rng: np.random.Generator) -> Point:
    place = np.array(space) * rng.uniform(0.2, 0.8, len(space))
    axis = int(rng.integers(len(space)))
    place[axis] = rng.choice([0, space[axis] - 1])
    return place


def _inwards(space: tuple[int, ...], place: Point, rng: np.random.Generator) -> Point:
    aim = np.array(space) * rng.uniform(0.35, 0.65, len(space)) - place
    return np.asarray(aim / np.linalg.norm(aim))


def _around(dimensions: int, k: int, number: int, rng: np.random.Generator) -> Point:
    """Return one of so many directions, spread over the circle in 2D, at random in 3D."""
    if dimensions == 2:
        angle = 2 * np.pi * (k + rng.uniform(-0.25, 0.25)) / number
        return np.array([np.sin(angle), np.cos(angle)])
    direction = rng.standard_normal(dimensions)
    return np.asarray(direction / np.linalg.norm(direction))
