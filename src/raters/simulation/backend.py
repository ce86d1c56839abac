"""Stores that draw simulated raters when they are asked for, over the study that has the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.metrics.confusion.counts import Unseen, count, normalise
from raters.simulation.coarse import transition_of
from raters.simulation.layers import Layers, draw_classes
from raters.simulation.masks import Drawer
from raters.simulation.shape import generator
from raters.study.annotations import UNMARKED, Annotation, Unmarked, explicit, reading
from raters.study.backend import Axes, Image, RawMask
from raters.study.study import Study
from raters.study.triplets import TableBackend, Triplets


def rater_confusion(
    truth: NDArray[np.generic] | Layers,
    drawer: Drawer,
    severity: float,
    rng: np.random.Generator,
    draws: int = 16,
    target: int | None = None,
    num_classes: int | None = None,
    unseen: Unseen = "identity",
) -> Floats:
    """Count `C[t, o]` of a drawn rater on one image over independent draws.

    The draws are other ones than the mask that the rater hands in, and the matrix is one for the
    whole image: an oracle that knows it does not know which pixels are wrong.

    Args:
        truth: Class numbers `(*space)`, or their `Layers`.
        drawer: How the rater errs.
        severity: How much.
        rng: Randomness of the draws.
        draws: How often to draw.
        target: The class to err on; by default every foreground class.
        num_classes: The number of classes L.
        unseen: The row of a class that the image does not have; 'identity' by default, so that
            rows sum to one ('nan' where only observed rows should count).

    Returns:
        `(L, L)`, rows sum to one.

    Example:
        >>> from raters.simulation.masks import DRAWERS
        >>> truth = np.array([[0, 0, 1, 1]])
        >>> rater_confusion(truth, DRAWERS["blank"], 1, np.random.default_rng(0))
        array([[1., 0.],
               [1., 0.]])
    """
    layers = truth if isinstance(truth, Layers) else Layers(truth, num_classes)
    rater = MaskRater(drawer.name, drawer, severity, target)
    return normalise(_counts(rater, layers, rng, draws, UNMARKED), unseen)


class DrawingRater(Protocol):
    """A rater who draws: masks, or coarse annotations."""

    @property
    def name(self) -> str:
        """The rater's name in the study."""

    @property
    def annotation(self) -> Annotation:
        """What the drawings mean."""

    def draw(self, layers: Layers, rng: np.random.Generator) -> Labels:
        """Draw one case, as a file holds it."""


@dataclass(frozen=True)
class MaskRater:
    """A rater who draws masks: the name, the way to err, how much, and on which class."""

    name: str
    drawer: Drawer
    severity: float
    target: int | None = None
    annotation: Annotation = "mask"

    def draw(self, layers: Layers, rng: np.random.Generator) -> Labels:
        """Draw the mask of one case."""
        return draw_classes(layers, self.drawer, self.severity, rng, self.target)

    def __str__(self) -> str:
        return f"{self.drawer.name} at severity {self.severity:.4g}"


def _marks(
    rater: DrawingRater, layers: Layers, rng: np.random.Generator, unmarked: Unmarked
) -> Labels:
    """Draw one case; pixels whose truth is unknown stay unknown."""
    marks = rater.draw(layers, rng)
    if not layers.has_gaps:
        return marks
    # MISSING beside 0 would say that 0 is a mark, where what is unmarked says nothing.
    told = explicit(marks, rater.annotation, unmarked, layers.classes)
    return np.where(layers.truth == MISSING, MISSING, told).astype(np.int16)


def _counts(
    rater: DrawingRater, layers: Layers, rng: np.random.Generator, draws: int, unmarked: Unmarked
) -> Ints:
    """Count how often the rater's labels say `o` where `t` is true, over independent draws."""
    counts = np.zeros((layers.classes, layers.classes), np.int64)
    for _ in range(draws):
        marks = _marks(rater, layers, rng, unmarked)
        labels = reading(marks, rater.annotation, unmarked, layers.classes)
        counts += count(labels[None], layers.truth, layers.classes)[0]
    return counts


def _matrix(counts: Ints, denies: bool) -> Floats:
    """Turn counts into rows; of a class that the image does not have no label is an error."""
    if not denies:
        return normalise(counts, "identity")
    right = transition_of(np.zeros_like(counts))
    found = normalise(counts, "nan")
    return np.where(np.isnan(found), right, found)


class Source:
    """Passes on the images and references of a study, by position in it."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the reference; a source has no raters."""
        found = self.study[case]
        if rater is not None or found.reference is None:
            return None
        return RawMask(found.reference, found.geometry, f"the truth of {found.id!r}", coded=True)

    def image(self, case: int, ndim: Axes) -> Image | None:
        """Read the image."""
        return self.study.backend.image(self.study.row(case), ndim)

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image without reading its voxels."""
        return self.study.backend.image_grid(self.study.row(case), ndim)

    def files(self, case: int) -> list[Path]:
        """List the files that the case is read from."""
        return self.study.backend.files(self.study.row(case))

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        return self.study.backend.holds()


class SimulatedMasks(Source):
    """Draws the mask of any rater of any case alone, the same whenever it is asked for.

    Args:
        study: Where images and true masks come from.
        raters: Who draws.
        given: Who draws which case, `(cases, raters)`.
        seed: Randomness; each draw depends on it, the name of the case and the name of the rater.
        unmarked: What pixels that positive and negative drawings leave unmarked say.
    """

    def __init__(
        self,
        study: Study,
        raters: Sequence[DrawingRater],
        given: Flags,
        seed: int,
        unmarked: Unmarked = UNMARKED,
    ) -> None:
        super().__init__(study)
        self.raters = {rater.name: rater for rater in raters}
        self._column = {rater.name: k for k, rater in enumerate(raters)}
        self._given = given
        self._seed = seed
        self._unmarked = unmarked
        self._memory = local()  # each thread keeps the case that it works on

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_memory"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _memory=local())

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Draw the mask of a rater, or give the true one; None if the rater was not asked."""
        if rater is not None and not self._given[case, self._column[rater]]:
            return None
        if getattr(self._memory, "case", None) != case:
            self._memory.case = case
            self._memory.masks = {}
            self._memory.layers = None
        masks: dict[str | None, RawMask | None] = self._memory.masks
        if rater not in masks:
            masks[rater] = super().mask(case, None) if rater is None else self._draw(case, rater)
        return masks[rater]

    def true_confusion(self, case: int, draws: int = 16) -> Floats:
        """Count the confusion `(raters, L, L)` of all raters on a case over independent draws."""
        found = [
            _matrix(self._counted(case, rater, draws), self._denies(rater))
            for rater in self.raters.values()
        ]
        return np.stack(found)

    def true_transition(self, case: int, draws: int = 16) -> Floats:
        """Count which wrong class is denied, `(raters, L, L)`; NaN of those who deny none."""
        size = len(self.study.classes)
        found = np.full((len(self.raters), size, size), np.nan)
        for k, rater in enumerate(self.raters.values()):
            if self._denies(rater):
                found[k] = transition_of(self._counted(case, rater, draws))
        return found

    def _counted(self, case: int, rater: DrawingRater, draws: int) -> Ints:
        rng = generator(self._seed, self.study.index.ids[case], rater.name, "confusion")
        return _counts(rater, self._layers(case), rng, draws, self._unmarked)

    def _denies(self, rater: DrawingRater) -> bool:
        """Whether the labels say of pixels which class they do not have."""
        return rater.annotation == "negative" and len(self.study.classes) > 2

    def _draw(self, case: int, rater: str) -> RawMask:
        who = self.raters[rater]
        name = self.study.index.ids[case]
        rng = generator(self._seed, name, rater)
        drawn = _marks(who, self._layers(case), rng, self._unmarked)
        truth = self.mask(case, None)
        assert truth is not None  # else there would be no layers
        return RawMask(drawn, truth.geometry, f"simulated rater {rater!r}", coded=True)

    def _layers(self, case: int) -> Layers:
        truth = self.mask(case, None)
        name = str(self.study.index.ids[case])
        if truth is None:
            message = f"found no reference of case {name!r}, expected a true mask to draw on"
            raise RatersError(message, kind="no-truth", case=name)
        if self._memory.layers is None:
            self._memory.layers = Layers(truth.values, len(self.study.classes), name)
        layers: Layers = self._memory.layers
        return layers


class SimulatedTable(TableBackend):
    """Answers drawn from known confusion matrices.

    Args:
        triplets: The answers.
        study: Where images and true classes come from.
        reference: The true class of each case.
        confusions: The matrix `(L, L)` of each rater.
    """

    def __init__(
        self, triplets: Triplets, study: Study, reference: Labels, confusions: dict[str, Floats]
    ) -> None:
        has_inputs = getattr(study.backend, "has_inputs", True)
        super().__init__(triplets, Source(study) if has_inputs else None, reference)
        self.confusions = confusions

    @property
    def raters(self) -> tuple[str, ...]:
        """The names of the raters."""
        return tuple(self.confusions)

    def true_confusion(self, case: int, draws: int = 16) -> Floats:  # noqa: ARG002
        """Return the matrices `(raters, L, L)`, the same for every case."""
        return np.stack(list(self.confusions.values()))
