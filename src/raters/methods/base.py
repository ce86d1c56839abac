"""What a learning method is: it prepares, takes steps, and predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from raters.errors import RatersError
from raters.methods.options import MethodOptions

if TYPE_CHECKING:
    from raters.networks import TruthNetwork
    from raters.study.case import Case
    from raters.study.study import Study

Batch = dict[str, Tensor]
Target = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """What a method must know of a study to be built.

    Attributes:
        kind: 'segmentation' or 'classification'.
        raters: The names of the raters.
        num_classes: How many classes there are.
        spatial_dims: Spatial axes of the labels: 2 or 3 for masks, 0 for classes.
        network: Makes a new truth network.
    """

    kind: Literal["segmentation", "classification"]
    raters: tuple[str, ...]
    num_classes: int
    spatial_dims: int
    network: Callable[[], TruthNetwork]


class Step(NamedTuple):
    """What one batch gives.

    Attributes:
        loss: To be minimised; a mean over `observed` labels.
        observed: How many labels (or known pixels) the loss is a mean of.
        terms: Parts of the loss by name, for people to see.
    """

    loss: Tensor
    observed: Tensor
    terms: dict[str, Tensor]


def mean_step(total: Tensor, observed: Tensor) -> Step:
    """Make the step of a loss that is summed over `observed` labels and has no other parts."""
    loss = total / observed.clamp(min=1)
    return Step(loss, observed, {"loss": loss})


@dataclass
class HeldOut:
    """What a held-out batch gives: sums, that are added up before they are divided.

    Attributes:
        loss: The summed loss without regularisers.
        count: How many labels it is a sum of.
        truth: `p(t | x)` of the batch, `(batch, L, *space)`.
        confusion: Matrices times `pixels`, `(raters, L, L)`; None for methods without matrices.
        pixels: How much of each class the network saw, `(L,)`.
    """

    loss: Tensor
    count: Tensor
    truth: Tensor
    confusion: Tensor | None = None
    pixels: Tensor | None = None


class Views(NamedTuple):
    """What a method says of images.

    Attributes:
        truth: `p(t | x)`, `(batch, L, *space)`.
        told: What each of the raters asked for would say, `p(o | x, r)`, of the same shape.
        confusion: `C[t, o]`, `(batch or 1, raters, L, L, *space or 1)`, if it was asked for.
    """

    truth: Tensor
    told: list[Tensor]
    confusion: Tensor | None


class Method(nn.Module):
    """A way to learn the truth from raters.

    Subclasses give `step`, `held_out` and the predictions.

    Attributes:
        task: What is to be learnt.
        options: The options of the method.
        class_weights: A weight of each class in the loss; ones unless the user asks for more.
        seed: Of the run, for what a method draws at random by itself.
    """

    task: Task
    options: MethodOptions
    class_weights: Tensor
    seed: int = 0

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__()
        self.task, self.options = task, options
        self.register_buffer("class_weights", torch.ones(task.num_classes), persistent=False)

    def prepare(self, study: Study) -> None:
        """Look at all cases that will be trained on or held out, before the first step."""

    def finish(self, study: Study) -> None:
        """Look at all cases again after the last step: what only predictions need is counted here.

        It would keep the first step waiting.
        """

    def target(self, case: Case) -> Target:
        """Return the label map (or soft map) to train on for one case, if `has_targets`."""
        raise NotImplementedError

    @property
    def varies(self) -> bool:
        """Whether the raters' matrices vary over images and pixels."""
        return False

    @property
    def has_targets(self) -> bool:
        """Whether the method trains on a target instead of the raters' labels."""
        return False

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of matrices that all pixels share."""
        return []

    @property
    def warm_up(self) -> int:
        """How many epochs prepare for the rest: none of them is chosen as the best."""
        return 0

    def start_epoch(self, epoch: int) -> None:
        """Receive the number of the epoch that begins (from 0)."""

    def step(self, batch: Batch) -> Step:
        """Return the loss of a batch."""
        raise NotImplementedError

    def held_out(self, batch: Batch) -> HeldOut:
        """Return what the choice of the best epoch rests on."""
        raise NotImplementedError

    def truth(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, classes, *space)`."""
        raise NotImplementedError

    def confusion(self, image: Tensor) -> Tensor:
        """Return `C[t, o]`, `(batch or 1, raters, L, L, *space or 1)`."""
        raise NotImplementedError

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would say: `p(o | x, r) = sum_t p(t | x) C_r[t, o]`."""
        raise NotImplementedError

    def views(self, image: Tensor, raters: Sequence[int] = (), matrices: bool = False) -> Views:
        """Return the truth, what some raters would say, and the matrices, all at once.

        Methods with one network look at the image once for all of it.
        """
        told = [self.as_rater(image, rater) for rater in raters]
        return Views(self.truth(image), told, self.confusion(image) if matrices else None)


class NetworkMethod(Method):
    """A method with one truth network."""

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.network = task.network()

    def truth(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, classes, *space)`."""
        logits: Tensor = self.network(image)[1]
        return logits.softmax(1)


def refuse_unlabelled(study: Study) -> None:
    """Raise if no rater labelled anything in the study."""
    for case in study.iter_cases():
        if case.given.size:
            return
    raise RatersError("found no labels in the cases to train on, expected at least one")
