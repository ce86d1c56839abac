"""What methods share that learn from marks: labels of regions, found in turns with the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.arrays import Floats, Ints
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.superpixels import superpixels_of
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch, HeldOut, NetworkMethod, Step, Task
from raters.learning.methods.mask_options import RoundsOptions
from raters.learning.methods.supervised import FusedMethod
from raters.learning.methods.targets import of_each

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


class RegionMethod(NetworkMethod):
    """Trains on labels of regions, which are found again at the start of each round.

    Subclasses look at each case once (`look_at`), and give its regions labels (`labels_of`).

    Attributes:
        starts: The first epoch of each round.
        found: The class of each region, `(cases, regions)`; MISSING where it is unknown.
    """

    has_regions = True
    training_only: ClassVar[tuple[str, ...]] = ("found",)
    options: RoundsOptions

    def __init__(self, task: Task, options: RoundsOptions) -> None:
        super().__init__(task, options)
        number = max(1, min(options.rounds, task.epochs))
        self.starts = [task.epochs * k // number for k in range(number)]
        self.found = torch.full((0, 0), MISSING)
        self._rows: dict[str, int] = {}

    def superpixels(self, case: Case) -> Ints:
        """Return the superpixels of a case, as many and as large as the options say."""
        o = self.options
        return superpixels_of(image_of(case), o.superpixels, o.superpixel_size)

    def look_at(self, case: Case) -> int:
        """Part a case into regions, keep what is needed of them, and return how many there are."""
        raise NotImplementedError

    def labels_of(self, row: int, log_truth: Floats | None) -> Ints:
        """Return the class of each region of a case.

        Args:
            row: The number of the case, in the order of `look_at`.
            log_truth: `log p(t | x)`, summed over the pixels of each region, `(regions, L)`; None
                before the network has learnt anything.
        """
        raise NotImplementedError

    def prepare(self, study: Study) -> None:
        """Part all cases into regions, and find their first labels."""
        self._rows = {}
        most = 1
        for case in study.iter_cases():
            self._rows[case.id] = len(self._rows)
            most = max(most, self.look_at(case))
        self.found = torch.full((len(self._rows), most), MISSING)
        self._find(None)

    def _find(self, log_truth: Tensor | None) -> None:
        for row in range(len(self.found)):
            given = None if log_truth is None else log_truth[row].cpu().numpy()
            labels = torch.from_numpy(self.labels_of(row, given))
            self.found[row, : len(labels)] = labels.to(self.found)

    def extra(self, case: Case) -> Mapping[str, NDArray[Any]]:
        """Return the row of a case in the table of labels."""
        return {"row": np.array(self._rows[case.id])}

    @property
    def warm_up(self) -> int:
        """The first round, in which the network learns what was found without it."""
        return self.starts[1] if len(self.starts) > 1 else 0

    def phase(self, epoch: int) -> str:
        """Name the round."""
        return f"round {sum(start <= epoch for start in self.starts)}"

    def needs_pass(self, epoch: int) -> bool:
        """Return whether a round begins after the first."""
        return epoch in self.starts[1:]

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Find the labels of all regions anew, with what the network says by now."""
        sums = torch.zeros(*self.found.shape, self.task.num_classes, device=self.found.device)
        for batch in batches:
            log_truth = self.network.log_truth(batch["image"])
            add_by_region(sums, log_truth, batch["row"], batch["regions"])
        self._find(summed(sums))

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the labels of the regions."""
        target = labels_at(self.found, batch["row"], batch["regions"])
        log_truth = self.network.log_truth(batch["image"])
        return self.entropy_step(log_truth, target)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with all marks."""
        return self.held_out_entropy(batch["image"], batch["labels"], of_each)


class FromMarks(FusedMethod):
    """`lazy-snapping`: makes masks from marks of two classes or more, then trains on the masks."""

    def prepare(self, study: Study) -> None:
        """Refuse marks that tell nothing apart."""
        refuse_one_class(study, self.options.fusion)
        super().prepare(study)


def add_by_region(sums: Tensor, values: Tensor, rows: Tensor, regions: Tensor) -> None:
    """Add up values of pixels by region.

    Args:
        sums: `(cases, regions, L)`, which is added to.
        values: `(batch, L, *space)`.
        rows: The case of each image, `(batch,)`.
        regions: `(batch, *space)`, MISSING outside of images.

    Example:
        >>> sums = torch.zeros(1, 2, 1)
        >>> regions = torch.tensor([[0, 1, 1, -1]])
        >>> add_by_region(sums, torch.tensor([[[1.0, 2, 3, 4]]]), torch.tensor([0]), regions)
        >>> sums.flatten()
        tensor([1., 5.])
    """
    inside = regions != MISSING
    places = regions + sums.shape[1] * rows.view(-1, *(1,) * (regions.ndim - 1))
    flat = sums.view(-1, sums.shape[2])
    flat.index_add_(0, places[inside], values.movedim(1, -1)[inside].to(flat))


def labels_at(found: Tensor, rows: Tensor, regions: Tensor) -> Tensor:
    """Return the labels of the regions that pixels are in, `(batch, *space)`.

    Example:
        >>> found = torch.tensor([[0, 0], [1, -1]])
        >>> labels_at(found, torch.tensor([1]), torch.tensor([[0, 0, 1, -1]]))
        tensor([[ 1,  1, -1, -1]])
    """
    rows = rows.view(-1, *(1,) * (regions.ndim - 1))
    return found[rows, regions.clamp(min=0)].masked_fill(regions == MISSING, MISSING)


def image_of(case: Case) -> NDArray[Any]:
    """Return the image of a case, which has one: nothing is trained on without."""
    assert case.image is not None
    return case.image


def refuse_one_class(study: Study, method: str) -> None:
    """Refuse a study in which one class alone is marked.

    Raises:
        RatersError: that names the class, and the methods that take such a study.
    """
    marked: set[int] = set()
    for case in study.iter_cases():
        marked |= set(np.unique(case.given).tolist())
        if len(marked) > 1:
            return
    for number in marked:
        raise RatersError(
            f"found marks of {study.classes.names[number]!r} alone in all cases, expected two "
            f"classes at least: {method} learns them from what is marked (grabcut and box-sup "
            "take boxes)"
        )
