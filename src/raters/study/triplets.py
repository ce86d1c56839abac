"""Class labels by raters as triplets (task, rater, label), and studies held in such a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.core.arrays import Array, Flags, Ints, Labels
from raters.core.classes import MISSING, Classes
from raters.core.errors import one_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from raters.core.geometry import Geometry
    from raters.study.backend import Axes, Backend, Image, RawMask


@dataclass(frozen=True, eq=False)
class CaseAnswers:
    """What was answered to one task, one entry per answer and in the order of the table.

    Entry k is *not* of rater k: some raters did not answer, others answered several times. Masks
    have one entry per rater of the study (`Case.labels`), so the two are different types;
    `by_rater` is the only way from answers to the axis of all raters.

    Attributes:
        rater: Who gave each answer, `(answers,)`, positions in `raters`.
        label: The class numbers, `(answers,)`; none of them is MISSING.
        raters: The names of all raters of the study.

    Example:
        >>> answers = CaseAnswers(np.array([2, 0, 2]), np.array([1, 0, 0]), ("ann", "bob", "cy"))
        >>> list(answers)
        [('cy', 1), ('ann', 0), ('cy', 0)]
        >>> [labels.tolist() for labels in answers.by_rater()]
        [[0], [], [1, 0]]
    """

    rater: NDArray[np.int32]
    label: Labels
    raters: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.label)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Return who said what, by name."""
        for rater, label in zip(self.rater, self.label, strict=True):
            yield self.raters[rater], int(label)

    def of(self, rater: str) -> Labels:
        """Return all answers of one rater, by name: none, one or several."""
        one_of(self.raters, rater, "no rater")
        return np.asarray(self.label[self.rater == self.raters.index(rater)])

    def by_rater(self) -> list[Labels]:
        """Return the answers of each rater, in the order of `raters`: the full axis."""
        order = np.argsort(self.rater, kind="stable")
        ends = np.searchsorted(self.rater[order], np.arange(1, len(self.raters)))
        return np.split(self.label[order], ends) if self.raters else []


MOST_VALUES = 32767
"""Labels are stored as int16."""


@dataclass(frozen=True, eq=False)
class Triplets:
    """Labels in long form: rater `rater[i]` gave task `task[i]` the label `label[i]`.

    A rater may label a task several times. A task, rater or value may have no row at all.

    Attributes:
        task: `(n,)` positions in `tasks`, int32.
        rater: `(n,)` positions in `raters`, int32.
        label: `(n,)` positions in `values`, int16.
        tasks: Names of the tasks, strings, in natural order ("2" before "10").
        raters: Names of the raters, in natural order.
        values: The labels as the file has them, all whole numbers or all strings, sorted.

    Example:
        >>> tasks = np.array(["2", "10"], dtype=object)
        >>> triplets = Triplets([0, 0, 1], [0, 1, 1], [0, 1, 1], tasks, ("ann", "bob"), (0, 7))
        >>> triplets
        Triplets(3 labels, 2 tasks, 2 raters, 2 values)
        >>> triplets.select(raters=[1]).frame()
          task worker  label
        0    2    bob      7
        1   10    bob      7
    """

    task: NDArray[np.int32]
    rater: NDArray[np.int32]
    label: Labels
    tasks: NDArray[np.object_]
    raters: tuple[str, ...]
    values: tuple[int | str, ...]

    def __post_init__(self) -> None:
        for field, dtype in (("task", np.int32), ("rater", np.int32), ("label", np.int16)):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=dtype))
        object.__setattr__(self, "tasks", np.asarray(self.tasks, dtype=object))
        if not self.task.shape == self.rater.shape == self.label.shape == (len(self),):
            raise ValueError("task, rater and label must be vectors of one length")

    @classmethod
    def of_dense(
        cls, labels: Array, tasks: Array, raters: tuple[str, ...], values: tuple[int | str, ...]
    ) -> Triplets:
        """Take labels `(tasks, raters)` that are positions in `values`, MISSING for no answer."""
        task, rater = np.nonzero(labels != MISSING)
        return cls(task, rater, labels[task, rater], tasks, raters, values)  # type: ignore[arg-type]

    def by_class(self, num_classes: int) -> Ints:
        """Count how often each rater gave each label, `(raters, L)`; none of them is MISSING."""
        cells = self.rater * np.int64(num_classes) + self.label
        counts = np.bincount(cells, minlength=len(self.raters) * num_classes)
        return counts.reshape(len(self.raters), num_classes)

    def __len__(self) -> int:
        return self.task.size

    def __repr__(self) -> str:
        return (
            f"Triplets({len(self)} labels, {len(self.tasks)} tasks, "
            f"{len(self.raters)} raters, {len(self.values)} values)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Triplets):
            return NotImplemented
        return (
            self.raters == other.raters
            and self.values == other.values
            and np.array_equal(self.tasks, other.tasks)
            and np.array_equal(self.task, other.task)
            and np.array_equal(self.rater, other.rater)
            and np.array_equal(self.label, other.label)
        )

    def select(
        self,
        *,
        tasks: ArrayLike | None = None,
        raters: ArrayLike | None = None,
        values: ArrayLike | None = None,
    ) -> Triplets:
        """Keep some tasks, raters or values, and the labels that belong to all that is kept.

        Each argument is a boolean mask or positions; positions are a set: their order does not
        matter. Only names of what is selected are dropped: selecting raters leaves all tasks.

        Example:
            >>> triplets = Triplets([0, 1], [0, 1], [0, 0], ["1", "2"], ("ann", "bob"), ("yes",))
            >>> chosen = triplets.select(raters=[True, False])
            >>> chosen.raters, list(chosen.tasks), len(chosen)
            (('ann',), ['1', '2'], 1)
        """
        task = _renumbering(tasks, len(self.tasks))[self.task]
        rater = _renumbering(raters, len(self.raters))[self.rater]
        label = _renumbering(values, len(self.values))[self.label]
        kept = (task >= 0) & (rater >= 0) & (label >= 0)
        return Triplets(
            task[kept],
            rater[kept],
            label[kept].astype(np.int16),
            self.tasks[_mask(tasks, len(self.tasks))],
            tuple(np.array(self.raters, dtype=object)[_mask(raters, len(self.raters))]),
            tuple(np.array(self.values, dtype=object)[_mask(values, len(self.values))]),
        )

    def frame(self) -> pd.DataFrame:
        """Return a data frame with columns task, worker and label, as crowd-kit takes it."""
        import pandas as pd  # slow to import, and rarely needed

        # As objects: an array of fixed-width text would drop a NUL at the end.
        whole = bool(self.values) and isinstance(self.values[0], int)
        values = np.array(self.values, np.int64 if whole else object)
        return pd.DataFrame(
            {
                "task": self.tasks[self.task],
                "worker": np.array(self.raters, dtype=object)[self.rater],
                "label": values[self.label] if self.values else [],
            }
        )


def _mask(chosen: ArrayLike | None, size: int) -> Flags:
    if chosen is None:
        return np.ones(size, dtype=bool)
    mask = np.zeros(size, dtype=bool)
    positions = np.asarray(chosen)
    mask[positions if positions.size else []] = True
    return mask


def _renumbering(chosen: ArrayLike | None, size: int) -> NDArray[np.int32]:
    """Map old positions to new ones, and those that are not chosen to -1."""
    mask = _mask(chosen, size)
    return np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)


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
        self.triplets = in_task_order(triplets)
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
        same = len(rows) == len(whole.tasks) and bool((rows == np.arange(len(rows))).all())
        if same and tuple(raters) == whole.raters and class_table is None:
            return replace(whole, values=classes.values)
        task = _renumbered(whole.task, len(whole.tasks), rows)
        position = {name: k for k, name in enumerate(whole.raters)}
        rater = _renumbered(whole.rater, len(whole.raters), [position[r] for r in raters])
        label = whole.label if class_table is None else class_table[whole.label]
        keep = (task >= 0) & (rater >= 0) & (label >= 0)
        chosen = Triplets(
            task[keep], rater[keep], label[keep], whole.tasks[rows], tuple(raters), classes.values
        )
        return in_task_order(chosen)


def _renumbered(
    codes: NDArray[np.int32], size: int, kept: Sequence[int] | NDArray[np.intp]
) -> NDArray[np.int32]:
    table = np.full(size, MISSING, np.int32)
    table[np.asarray(kept, np.intp)] = np.arange(len(kept))
    return table[codes]


def in_task_order(triplets: Triplets) -> Triplets:
    """Return the answers sorted by task; those to one task keep their order."""
    task = triplets.task
    if bool((task[1:] >= task[:-1]).all()):
        return triplets
    order = np.argsort(task, kind="stable")
    return replace(
        triplets, task=task[order], rater=triplets.rater[order], label=triplets.label[order]
    )
