"""Drawn images with known truth, so that a demo or a test needs no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.simulate.phantom_discs import draw_discs
from raters.simulate.phantom_lesions import draw_lesions
from raters.simulate.phantom_vessels import draw_vessels
from raters.simulate.seeds import generator
from raters.study.backend_arrays import ArraysBackend
from raters.study.classes import Classes
from raters.study.study import CaseIndex, Study

Image = NDArray[np.float32]
Truth = NDArray[np.int16]
Phantom = Callable[[tuple[int, ...], np.random.Generator], tuple[Image, Truth]]

PHANTOMS: dict[str, tuple[Phantom, tuple[str, ...]]] = {
    "lesions": (draw_lesions, ("background", "lesion")),
    "disc-cup": (draw_discs, ("background", "disc", "cup")),
    "vessels": (draw_vessels, ("background", "vessel")),
}
"""What can be drawn, and its classes; each is a function of shape and randomness."""


def draw(kind: str, shape: Sequence[int], rng: np.random.Generator) -> tuple[Image, Truth]:
    """Draw one phantom.

    Args:
        kind: 'lesions' in textured tissue, 'disc-cup' (nested, three classes), or 'vessels'
            (branching, of varying width).
        shape: The spatial shape, 2D or 3D, at least 16 along each axis.
        rng: Randomness.

    Returns:
        The image `(1, *space)`, from 0 to 1, and the truth `(*space)`.

    Example:
        >>> image, truth = draw("disc-cup", (64, 64), np.random.default_rng(0))
        >>> image.shape, image.dtype, np.unique(truth).tolist()
        ((1, 64, 64), dtype('float32'), [0, 1, 2])
    """
    if kind not in PHANTOMS:
        raise RatersError(f"found the phantom {kind!r}, expected one of {', '.join(PHANTOMS)}")
    space = tuple(int(n) for n in shape)
    if len(space) not in (2, 3) or min(space) < 16:
        raise RatersError(f"found the shape {space}, expected 2 or 3 axes of at least 16")
    image, truth = PHANTOMS[kind][0](space, rng)
    return image[None].clip(0, 1), truth


def phantom_study(kind: str, cases: int, shape: Sequence[int] = (128, 128), seed: int = 0) -> Study:
    """Return a study of phantoms with their truth; each is drawn when it is asked for.

    Example:
        >>> from raters.simulate import simulate
        >>> truth = phantom_study("lesions", cases=3, shape=(32, 32))
        >>> simulate(truth, "good:0.5,over:2")
        Study(segmentation, 3 cases, 2 raters, 2 classes)
    """
    if kind not in PHANTOMS:
        raise RatersError(f"found the phantom {kind!r}, expected one of {', '.join(PHANTOMS)}")
    names = [f"{kind}{k:0{len(str(cases - 1))}d}" for k in range(cases)]
    drawn = _Drawn(kind, names, shape, seed)
    backend = ArraysBackend([], None, _Part(drawn, 0), _Part(drawn, 1))
    about = {"title": f"Phantoms: {kind} (drawn, seed {seed})"}
    classes = Classes.of(PHANTOMS[kind][1])
    return Study(backend, CaseIndex.of(names), (), about=about, _classes=classes)


class _Drawn:
    """Phantoms by number; the last one is kept, as its image and truth are asked for in turn."""

    def __init__(self, kind: str, names: Sequence[str], shape: Sequence[int], seed: int) -> None:
        self._kind, self.names, self._shape, self._seed = kind, names, shape, seed
        self._last: tuple[int, tuple[Image, Truth]] | None = None

    def __call__(self, case: int) -> tuple[Image, Truth]:
        last = self._last  # read once: another thread may put its own
        if last is not None and last[0] == case:
            return last[1]
        found = draw(self._kind, self._shape, generator(self._seed, self.names[case]))
        self._last = case, found
        return found


class _Part:
    """The images (0) or the truths (1) of phantoms as a sequence."""

    def __init__(self, drawn: _Drawn, part: int) -> None:
        self._drawn, self._part = drawn, part

    def __len__(self) -> int:
        return len(self._drawn.names)

    def __getitem__(self, case: int, /) -> NDArray[np.float32] | NDArray[np.int16]:
        return self._drawn(range(len(self))[case])[self._part]
