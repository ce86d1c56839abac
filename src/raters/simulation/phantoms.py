"""Drawn images with known truth, so that a demo or a test needs no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags, Floats, Labels
from raters.core.classes import Classes
from raters.core.errors import RatersError, one_of
from raters.simulation.shape import Mask, generator, smooth_noise
from raters.study.backend import ArraysBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study

Space = tuple[int, ...]
Rng = np.random.Generator
Image = NDArray[np.float32]
Truth = Labels
Point = Floats


def draw_discs(space: Space, rng: Rng) -> tuple[Image, Truth]:
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


def _fundus(space: Space, rng: Rng) -> Image:
    """Draw a background that darkens towards the border, with faint structure."""
    size = min(space)
    places = [np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in space]
    away = sum(np.meshgrid(*places, indexing="ij"))
    image = 0.42 - 0.07 * away + 0.025 * smooth_noise(space, size / 5, rng)
    return np.asarray(image + 0.015 * smooth_noise(space, max(1.0, size / 40), rng), np.float32)


def _round(space: Space, centre: Point, radius: float, irregular: float, rng: Rng) -> Flags:
    """Draw a disc (ball), a little oval and irregular."""
    radii = radius * rng.uniform(0.92, 1.08, len(space))
    offset = np.indices(space, np.float32) - centre.reshape(-1, *[1] * len(space))
    level = np.sqrt(sum((x / r) ** 2 for x, r in zip(offset, radii, strict=True)))
    return np.asarray(level < 1 + irregular * smooth_noise(space, radius, rng))


def draw_lesions(space: Space, rng: Rng) -> tuple[Image, Truth]:
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


def tissue(space: Space, rng: Rng) -> Image:
    """Draw a textured background: slow shading, structures of three sizes, and grain."""
    size = min(space)
    image = 0.34 + 0.05 * smooth_noise(space, size / 2, rng)
    for part, weight in ((6, 0.045), (14, 0.03), (30, 0.02)):
        image += weight * smooth_noise(space, max(1.0, size / part), rng)
    return np.asarray(image + 0.025 * rng.standard_normal(space), np.float32)


def _blob(space: Space, rng: Rng) -> Flags:
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


@dataclass(frozen=True)
class Bead:
    """A point of a vessel with the radius there."""

    place: Point
    radius: float


def draw_vessels(space: Space, rng: Rng) -> tuple[Image, Truth]:
    """Draw trees of vessels, brighter than their surroundings, thick ones more so."""
    from scipy.ndimage import gaussian_filter

    size = min(space)
    beads = grow_vessels(space, rng, trunks=int(rng.integers(2, 4)), width=size / 32)
    truth = stamp(space, beads)
    blood = 0.3 * (1 + 0.2 * smooth_noise(space, size / 6, rng))
    vessels = gaussian_filter(truth * blood, max(0.6, size / 200))
    return (0.8 * tissue(space, rng) + vessels).astype(np.float32), truth.astype(np.int16)


def grow_vessels(
    space: Space, rng: Rng, trunks: int, width: float, start: Point | None = None
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
    space: Space, place: Point, direction: Point, radius: float, beads: list[Bead], rng: Rng
) -> list[tuple[Point, Point, float]]:
    """Grow one vessel until it leaves the image or branches; give its branches."""
    size = float(np.mean(space))
    bend = rng.normal(0, 1.2 / size, len(space))
    for _ in range(max(4, int(size * rng.uniform(0.2, 0.5) * min(1, radius)))):
        beads.append(Bead(place, radius))
        bend = 0.96 * bend + rng.normal(0, 0.6 / size, len(space))
        direction = direction + bend
        direction = direction / np.linalg.norm(direction)
        place = place + direction
        radius = radius * 0.999
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


def stamp(space: Space, beads: list[Bead]) -> Mask:
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


def _border(space: Space, rng: Rng) -> Point:
    place = np.array(space) * rng.uniform(0.2, 0.8, len(space))
    axis = int(rng.integers(len(space)))
    place[axis] = rng.choice([0, space[axis] - 1])
    return place


def _inwards(space: Space, place: Point, rng: Rng) -> Point:
    aim = np.array(space) * rng.uniform(0.35, 0.65, len(space)) - place
    return np.asarray(aim / np.linalg.norm(aim))


def _around(dimensions: int, k: int, number: int, rng: Rng) -> Point:
    """Return one of so many directions, spread over the circle in 2D, at random in 3D."""
    if dimensions == 2:
        angle = 2 * np.pi * (k + rng.uniform(-0.25, 0.25)) / number
        return np.array([np.sin(angle), np.cos(angle)])
    direction = rng.standard_normal(dimensions)
    return np.asarray(direction / np.linalg.norm(direction))


def draw_streaks(space: Space, rng: Rng) -> tuple[Image, Truth]:
    """Draw a bright and a faint lesion, and a streak that is none, in noise."""
    image, parts = streak_parts(space, rng)
    return image, np.isin(parts, (1, 2)).astype(np.int16)


def streak_parts(space: Space, rng: Rng) -> tuple[Image, Truth]:
    """Draw the image and what is where: a bright lesion (1), a faint one (2), a streak (3)."""
    size = min(space)
    bright = _ball(space, size * rng.uniform(0.05, 0.1), rng)
    faint = _ball(space, size * rng.uniform(0.075, 0.125), rng)
    streak = np.zeros(space, bool)
    start = [int(rng.integers(2, n - 3)) for n in space[:-1]]
    across = tuple(slice(k, k + max(2, size // 20)) for k in start)
    streak[*across, space[-1] // 10 : space[-1] // 2] = True
    parts = np.select([faint, bright, streak], [2, 1, 3]).astype(np.int16)
    image = np.array([0.3, 0.7, 0.45, 0.7])[parts] + 0.06 * rng.standard_normal(space)
    return image.astype(np.float32), parts


def _ball(space: Space, radius: float, rng: Rng) -> Flags:
    centre = np.array([rng.uniform(0.15 * n, 0.85 * n) for n in space])
    offset = np.indices(space, np.float32) - centre.reshape(-1, *[1] * len(space))
    return np.asarray((offset**2).sum(axis=0) < radius**2)


def draw_rims(space: Space, rng: Rng) -> tuple[Image, Truth]:
    """Draw an optic disc in noise as its rim (1) and its cup (2); both together are the disc."""
    size = min(space)
    centre = np.array(space) * rng.uniform(0.47, 0.53, len(space))
    radius = size * rng.uniform(0.25, 0.3)
    disc = _round(space, centre, radius, 0.03, rng)
    moved = centre + radius * rng.uniform(-0.08, 0.08, len(space))
    cup = _round(space, moved, radius * rng.uniform(0.5, 0.65), 0.03, rng) & disc
    truth = (disc.astype(np.int16) + cup).astype(np.int16)
    image = np.array([0.3, 0.5, 0.7])[truth] + 0.1 * rng.standard_normal(space)
    return image.astype(np.float32), truth


def draw_scenes(space: Space, rng: Rng) -> tuple[Image, Truth]:
    """Draw a street under a dark sky: road (1) below, houses (2) on it, trees (3) before them.

    Each class has a grey of its own that overlaps with those of the others in the noise, so that
    shape and place have to tell, too. Rows go down; a volume is one street seen from many places.
    """
    truth = np.zeros(space, np.int16)
    down = np.arange(space[0]).reshape(-1, *[1] * (len(space) - 1))
    ground = space[0] * (0.72 + 0.03 * smooth_noise(space[1:], min(space) / 3, rng))
    for _ in range(int(rng.integers(2, 4))):
        truth[_house(space, rng) & (down < ground + 1)] = 2
    truth[down >= ground] = 1
    for k in range(int(rng.integers(2, 4))):
        # The first tree is large enough to be seen in front of all.
        part = 0.12 if k == 0 else float(rng.uniform(0.07, 0.13))
        centre = np.array([rng.uniform(0.5, 0.65), *rng.uniform(0.1, 0.9, len(space) - 1)])
        truth[_round(space, centre * np.array(space), part * min(space), 0.12, rng)] = 3
    greys = np.array([0.25, 0.4, 0.7, 0.55]) + rng.normal(0, 0.02, 4)
    shade = 0.03 * smooth_noise(space, min(space) / 4, rng)
    image = greys[truth] + shade + 0.08 * rng.standard_normal(space)
    return image.astype(np.float32), truth


def _house(space: Space, rng: Rng) -> Flags:
    """Draw a box whose roof is high or low; it stands below the middle."""
    sides = [slice(int(space[0] * rng.uniform(0.2, 0.45)), space[0])]
    for n in space[1:]:
        start = rng.uniform(0.02, 0.75)
        sides.append(slice(int(n * start), int(n * (start + rng.uniform(0.15, 0.25))) + 1))
    house = np.zeros(space, bool)
    house[tuple(sides)] = True
    return house


Phantom = Callable[[Space, Rng], tuple[Image, Truth]]

PHANTOMS: dict[str, tuple[Phantom, tuple[str, ...]]] = {
    "lesions": (draw_lesions, ("background", "lesion")),
    "disc-cup": (draw_discs, ("background", "disc", "cup")),
    "vessels": (draw_vessels, ("background", "vessel")),
    "streaks": (draw_streaks, ("background", "lesion")),
    "discs": (draw_rims, ("background", "rim", "cup")),
    "scenes": (draw_scenes, ("background", "road", "house", "tree")),
}
"""What can be drawn, and its classes; each is a function of shape and randomness."""

_PADDED = ("lesions", "disc-cup", "vessels", "streaks")
"""Phantoms that have as many digits as the number of all needs: they are in published results."""


def draw(kind: str, shape: Sequence[int], rng: np.random.Generator) -> tuple[Image, Truth]:
    """Draw one phantom.

    Args:
        kind: 'lesions' in textured tissue, 'disc-cup' (nested, three classes), 'vessels'
            (branching, of varying width), 'streaks' (a bright lesion, a faint one, and a streak
            that is none; `streak_study` has raters for them), 'discs' (rim and cup of an optic
            disc in noise; `disc_study` has raters for them) or 'scenes' (a street, four classes).
        shape: The spatial shape, 2D or 3D, at least 16 along each axis.
        rng: Randomness.

    Returns:
        The image `(1, *space)`, from 0 to 1, and the truth `(*space)`.

    Example:
        >>> image, truth = draw("disc-cup", (64, 64), np.random.default_rng(0))
        >>> image.shape, image.dtype, np.unique(truth).tolist()
        ((1, 64, 64), dtype('float32'), [0, 1, 2])
    """
    one_of(PHANTOMS, kind, "the phantom")
    space = tuple(int(n) for n in shape)
    if len(space) not in (2, 3) or min(space) < 16:
        raise RatersError(f"found the shape {space}, expected 2 or 3 axes of at least 16")
    image, truth = PHANTOMS[kind][0](space, rng)
    return image[None].clip(0, 1), truth


def phantom_study(kind: str, cases: int, shape: Sequence[int] = (128, 128), seed: int = 0) -> Study:
    """Return a study of phantoms with their truth; each is drawn when it is asked for.

    Example:
        >>> from raters.simulation import simulate
        >>> truth = phantom_study("lesions", cases=3, shape=(32, 32))
        >>> simulate(truth, "good:0.5,over:2")
        Study(segmentation, 3 cases, 2 raters, 2 classes)
    """
    one_of(PHANTOMS, kind, "the phantom")
    # A case is drawn from its name: one of fixed length does not depend on how many there are.
    digits = len(str(cases - 1)) if kind in _PADDED else 5
    names = [f"{kind}{k:0{digits}d}" for k in range(cases)]
    images, truths = (_Part(k, kind, names, tuple(shape), seed) for k in (0, 1))
    backend = ArraysBackend([], None, images, truths, names=names)
    about = {"title": f"Phantoms: {kind} (drawn, seed {seed})"}
    classes = Classes.of(PHANTOMS[kind][1])
    return Study(backend, CaseIndex.of(names), (), about=about, _classes=classes)


@lru_cache(maxsize=4)
def _drawn(kind: str, name: str, shape: Space, seed: int) -> tuple[Image, Truth]:
    """Draw a phantom by its name; the last few are kept, as image and truth are asked for apart."""
    return draw(kind, shape, generator(seed, name))


@dataclass(frozen=True)
class _Part:
    """The images (0) or the truths (1) of phantoms as a sequence."""

    part: int
    kind: str
    names: Sequence[str]
    shape: Space
    seed: int

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, case: int, /) -> NDArray[np.float32] | Labels:
        return _drawn(self.kind, self.names[case], self.shape, self.seed)[self.part]
