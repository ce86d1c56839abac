"""Studies held in a table of answers `(task, rater, label)`, with images or features beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Labels
from raters.study.backend import Axes, Backend, Image, RawMask
from raters.study.classes import MISSING, Classes
from raters.study.geometry import Geometry
from raters.study.triplets import Triplets


class TableBackend:
    """Answers in long form, in the order of their tasks.

    Args:
        triplets: The answers; label numbers are class numbers.
        inputs: Where images or features come from.
        reference: The true class of each task, MISSING where unknown.
    """

    def __init__(
        self, triplets: Triplets, inputs: Backend | None = None, reference: Labels | None = None
    ) -> None:
        self.triplets = _in_task_order(triplets)
        self.reference = reference
        self.inputs = inputs

    @property
    def has_inputs(self) -> bool:
        """Whether there are images or features beside the table."""
        return self.inputs is not None

    def mask(self, case: int, rater: str | None) -> RawMask | None:  # noqa: ARG002
        """Tables have no masks."""
        return None

    def image(self, case: int, ndim: Axes) -> Image | None:
        """Read the image or the features of a task."""
        return None if self.inputs is None else self.inputs.image(case, ndim)

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image."""
        return None if self.inputs is None else self.inputs.image_grid(case, ndim)

    def files(self, case: int) -> list[Path]:
        """List the image files of a task."""
        return [] if self.inputs is None else self.inputs.files(case)

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        images = self.inputs is not None and self.inputs.holds()["images"]
        return {"images": images, "reference": self.reference is not None}

    def selected(
        self,
        rows: NDArray[np.intp],
        raters: Sequence[str],
        classes: Classes,
        class_table: Labels | None,
    ) -> Triplets:
        """Return the answers to some tasks by some raters, numbered anew."""
        whole = self.triplets
        everything = len(rows) == len(whole.tasks) and tuple(raters) == whole.raters
        if everything and class_table is None:
            return replace(whole, values=classes.values)
        task = _renumbered(whole.task, len(whole.tasks), rows)
        position = {name: k for k, name in enumerate(whole.raters)}
        rater = _renumbered(whole.rater, len(whole.raters), [position[r] for r in raters])
        label = whole.label if class_table is None else class_table[whole.label]
        keep = (task >= 0) & (rater >= 0) & (label >= 0)
        return Triplets(
            task[keep], rater[keep], label[keep], whole.tasks[rows], tuple(raters), classes.values
        )


def _renumbered(
    codes: NDArray[np.int32], size: int, kept: Sequence[int] | NDArray[np.intp]
) -> NDArray[np.int32]:
    table = np.full(size, MISSING, np.int32)
    table[np.asarray(kept, np.intp)] = np.arange(len(kept))
    return table[codes]


def _in_task_order(triplets: Triplets) -> Triplets:
    task = triplets.task
    if bool((task[1:] >= task[:-1]).all()):
        return triplets
    order = np.argsort(task, kind="stable")
    return replace(
        triplets, task=task[order], rater=triplets.rater[order], label=triplets.label[order]
    )
