"""What a learning method is: it prepares, takes steps, predicts; and the losses many share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from raters.confusion import normalise
from raters.errors import RatersError
from raters.methods.options import MethodOptions
from raters.methods.phases import Batch as Batch
from raters.methods.phases import Training
from raters.study.annotations import Annotation
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.networks import TruthNetwork
    from raters.study.case import Case
    from raters.study.study import Study

Target = NDArray[Any]
Maps = dict[str, Tensor]
"""What a method says of images, by name: 'truth', 'as:NAME', 'confusion', 'recurrence:K',
'confidence', 'sample:K'."""

Answer = Literal["truth", "as_rater", "confusion", "samples", "weights", "fusion", "recurrences"]
"""What a method may be able to say of an image; 'fusion': of an image and its labels together."""


@dataclass(frozen=True)
class Task:
    """What a method must know of a study to be built.

    Attributes:
        kind: 'segmentation' or 'classification'.
        raters: The names of the raters.
        num_classes: How many classes there are.
        spatial_dims: Spatial axes of the labels: 2 or 3 for masks, 0 for classes.
        network: Makes a new truth network.
        epochs: How many epochs are trained.
        channels: Channels of an image, or the number of features.
        annotations: What the labels of each rater mean, in the order of `raters`; () where all
            gave masks.
    """

    kind: Literal["segmentation", "classification"]
    raters: tuple[str, ...]
    num_classes: int
    spatial_dims: int
    network: Callable[[], TruthNetwork]
    epochs: int = 0
    channels: int = 1
    annotations: tuple[Annotation, ...] = ()


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
    """Make the step of a loss that is summed over `observed` labels and has no other parts.

    Example:
        >>> [mean_step(torch.tensor(6.0), torch.tensor(n)).loss.item() for n in (3, 0)]
        [2.0, 6.0]
    """
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


@dataclass(frozen=True)
class Asked:
    """What is asked of a method beside the truth.

    Attributes:
        raters: Raters whose labels are to be predicted, by name or number.
        confusion: Whether to return the raters' matrices.
        samples: How many samples to draw.
        seed: Where the randomness of samples starts.
        weights: One weight per rater: 'truth' is then what this weighting of raters gives.
        recurrences: Whether to return the truth of each recurrence, and the trust in each rater.
    """

    raters: tuple[str | int, ...] = ()
    confusion: bool = False
    samples: int = 0
    seed: int = 0
    weights: tuple[float, ...] | None = None
    recurrences: bool = False

    @property
    def needed(self) -> frozenset[Answer]:
        """What a method must be able to answer.

        Example:
            >>> sorted(Asked(raters=("ann",), samples=3).needed)
            ['as_rater', 'samples', 'truth']
        """
        wanted: dict[Answer, bool] = {
            "truth": True,
            "as_rater": bool(self.raters),
            "confusion": self.confusion,
            "samples": self.samples > 0,
            "weights": self.weights is not None,
            "recurrences": self.recurrences,
        }
        return frozenset(name for name, is_wanted in wanted.items() if is_wanted)


_SAID: dict[Answer, str] = {
    "truth": "a truth",
    "as_rater": "predictions of each rater",
    "confusion": "matrices",
    "samples": "samples",
    "weights": "weights of raters",
    "fusion": "fusion of image and labels",
    "recurrences": "recurrences",
}


def refuse_unanswered(method: str, answers: frozenset[Answer], asked: Asked) -> None:
    """Refuse what a method cannot answer.

    Example:
        >>> refuse_unanswered("separate", frozenset({"truth"}), Asked(confusion=True))
        Traceback (most recent call last):
        ...
        raters.errors.RatersError: found separate, expected a method with matrices: it has none
    """
    for answer in sorted(asked.needed - answers):
        raise RatersError(f"found {method}, expected a method with {_SAID[answer]}: it has none")


class Method(Training):
    """A way to learn the truth from raters.

    Subclasses define `step`, `held_out`, and the predictions that `answers` declares.

    Attributes:
        answers: What the method can say of an image. Whoever wants something of a method looks
            here first; where options decide, it is a property.
        varies: Whether the raters' matrices vary over images and pixels.
        has_targets: Whether the method trains on a target instead of the raters' labels.
        has_regions: Whether the method learns labels of regions that it parts each image into.
        counts_raters: Whether matrices of raters are counted against the truth, and not fitted.
        task: What is to be learnt.
        options: The options of the method.
        class_weights: A weight of each class in the loss; ones unless the user asks for more.

    How it trains, in passes, phases and turns, is up to the hooks of `Training`.
    """

    answers: ClassVar[frozenset[Answer]] = frozenset({"truth"})
    varies: bool = False
    has_targets: bool = False
    has_regions: bool = False
    counts_raters: bool = False
    task: Task
    options: MethodOptions
    class_weights: Tensor

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

    def regions(self, case: Case) -> Target:
        """Return the regions of one case, `(*space)` numbers from 0 on, if `has_regions`.

        They are cut, flipped and turned with the image, and are 'regions' of batches; outside of
        the image they are MISSING.
        """
        raise NotImplementedError

    @property
    def shares_matrix(self) -> bool:
        """Whether all raters have one matrix in common."""
        return False

    def truth_networks(self) -> list[TruthNetwork]:
        """Return the networks whose mean output is the truth; none if it is anything else."""
        return []

    @property
    def not_extended(self) -> str:
        """Why no rater can be added to the trained method; empty if one can."""
        return "it has no part that belongs to one rater alone"

    def count_raters(self, cases: Iterable[tuple[Case, Target]]) -> None:
        """Count the raters' matrices against what cases show, if `counts_raters`."""

    def learnt_weights(self) -> Tensor | None:
        """Return how much each rater counts in the truth, `(raters,)`, if that is learnt."""
        return None

    def joined(self, new: Method) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the weights that change if the raters of `new` come after those of this method."""
        return {}

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of matrices that all pixels share."""
        return []

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

    def transition(self) -> Tensor | None:
        """Return which class raters exclude instead of what they would say, `(raters, L, L)`.

        `M[o, q] = p(said 'not q' | would have said o)`. NaN of raters who say what it is; None if
        all do.
        """
        return None

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would say: `p(o | x, r) = sum_t p(t | x) C_r[t, o]`."""
        raise NotImplementedError

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        """Draw the noise of one sample of one image, on the CPU."""
        raise NotImplementedError

    def sample(self, image: Tensor, latents: Tensor) -> Tensor:
        """Return one sample per image, `(batch, L, *space)`, as probabilities.

        Args:
            image: `(batch, channels, *space)`.
            latents: `(batch, ...)`, what `draw_latent` drew for each image.
        """
        raise NotImplementedError

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        """Return the truth for a given weighting of the raters, `(raters,)`."""
        raise NotImplementedError

    def fused(self, batch: Batch) -> Tensor:
        """Return the truth that image and labels show together, `p(t | x, labels)`.

        Where nobody labelled it is `p(t | x)`.

        Args:
            batch: 'image' and 'labels' as in training; of tables also 'raters'.

        Returns:
            `(batch, L, *space)`.
        """
        raise NotImplementedError

    def fused_unseen(self, image: Tensor) -> Tensor:
        """Return what a method thinks raters would say, fused, `(batch, L, *space)`.

        Methods that answer 'recurrences' have it: the counterpart of `fused` without labels.
        """
        raise NotImplementedError

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the truth and all else that is asked, by name and in the order of `Maps`.

        Methods with one network look at the image once for all of it.

        Args:
            image: `(batch, channels, *space)`.
            asked: What is asked; `answers` must hold what it needs.
            latents: For each sample, the noise of all images, `(batch, ...)`, from
                `draw_latents`; by default all images share it.
        """
        refuse_unanswered(type(self).__name__, self.answers, asked)
        found = {"truth": self._asked_truth(image, asked)}
        for rater in asked.raters:
            found[as_key(self.task, rater)] = self.as_rater(image, number_of(self.task, rater))
        if asked.confusion:
            found["confusion"] = self.confusion(image)
        return found | self.sampled(image, asked, latents)

    def _asked_truth(self, image: Tensor, asked: Asked) -> Tensor:
        if asked.weights is None:
            return self.truth(image)
        return self.weighted(image, torch.tensor(asked.weights, device=image.device))

    def sampled(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the samples that are asked, by name."""
        return self.samples_by(lambda noise: self.sample(image, noise), image, asked, latents)

    def samples_by(
        self,
        sample: Callable[[Tensor], Tensor],
        image: Tensor,
        asked: Asked,
        latents: Sequence[Tensor],
    ) -> Maps:
        """Return the samples that are asked, by name.

        Args:
            sample: Makes one sample of each image of its noise.
            image: `(batch, channels, *space)`.
            asked: What is asked.
            latents: As for `maps`.
        """
        if asked.samples and not len(latents):
            latents = draw_latents(self, asked, [""] * len(image))
        each = enumerate(latents[: asked.samples])
        return {f"sample:{k}": sample(noise.to(image.device)) for k, noise in each}


def number_of(task: Task, rater: str | int) -> int:
    """Return the position of a rater."""
    return task.raters.index(rater) if isinstance(rater, str) else rater


def as_key(task: Task, rater: str | int) -> str:
    """Return the name of the map of a rater's labels."""
    return f"as:{task.raters[number_of(task, rater)]}"


def draw_latents(method: Method, asked: Asked, cases: Sequence[str]) -> list[Tensor]:
    """Draw the noise of all samples of some cases: a list of samples, each `(cases, ...)`.

    Noise depends on the seed, the case and the number of the sample only: not on how many samples
    or cases there are.
    """
    return [
        torch.stack([method.draw_latent(generator_of(asked.seed, case, k)) for case in cases])
        for k in range(asked.samples)
    ]


def generator_of(*key: int | str) -> torch.Generator:
    """Return a generator that depends on what is given only: the same everywhere, after a restart.

    Example:
        >>> first, again, other = (generator_of(0, "case", k) for k in (1, 1, 2))
        >>> first.initial_seed() == again.initial_seed() != other.initial_seed()
        True
    """
    name = repr(key).encode("utf-8", "surrogateescape")
    number = int.from_bytes(sha256(name).digest()[:8], "big", signed=True)
    return torch.Generator().manual_seed(number)


class NetworkMethod(Method):
    """A method with one truth network."""

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.network = task.network()

    def truth_networks(self) -> list[TruthNetwork]:
        """Return the network, unless a subclass makes the truth of something else."""
        return [self.network] if type(self).truth is NetworkMethod.truth else []

    def truth(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, classes, *space)`."""
        logits: Tensor = self.network(image)[1]
        return logits.softmax(1)


def cross_entropy(log_truth: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the summed cross entropy with a hard or soft target, and how many pixels are known.

    .. math:: -\sum_x w \sum_t q(t) \log p(t \mid x)

    Args:
        log_truth: `log p(t | x)`, `(batch, L, *space)`.
        target: Labels `(batch, *space)` with MISSING, or q `(batch, L, *space)`, zero everywhere
            where it is unknown.
        weights: A weight of each class, `(L,)`.

    Example:
        >>> uniform = torch.full((1, 2, 3), 0.5).log()
        >>> cross_entropy(uniform, torch.tensor([[0, 1, -1]]), torch.ones(2))
        (tensor(1.3863), tensor(2))
    """
    if target.ndim == log_truth.ndim:
        return soft_entropy(log_truth, target, weights), (target.sum(1) > 0).sum()
    weights = weights.to(log_truth)
    total = nll_loss(log_truth, target.long(), weights, ignore_index=MISSING, reduction="sum")
    return total, (target != MISSING).sum()


def soft_entropy(log_truth: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Return the summed cross entropy with a soft target, as of `cross_entropy`.

    Example:
        >>> log_truth, target = torch.tensor([[0.5, 0.25]]).log2(), torch.tensor([[1.0, 3.0]])
        >>> soft_entropy(log_truth, target, torch.ones(2))
        tensor(7.)
    """
    by_class = over_pixels(target * log_truth)
    return -(by_class * weights).sum()


def over_pixels(values: Tensor) -> Tensor:
    """Add up values `(batch, L, *space)` over cases and pixels, `(L,)`.

    Example:
        >>> over_pixels(torch.ones(2, 3, 5, 5))
        tensor([50., 50., 50.])
    """
    return values.sum([0, *range(2, values.ndim)])


def label_counts(labels: Tensor, num_classes: int) -> Tensor:
    """Count the labels of each class, `(batch, L, *space)`.

    Args:
        labels: `(batch, answers, *space)`, with MISSING.
        num_classes: Number of classes.

    Example:
        >>> label_counts(torch.tensor([[1, 1, 0, -1]]), 3)
        tensor([[1, 2, 0]])
    """
    if labels.ndim == 2:  # few enough to compare with all classes at once
        every = torch.arange(num_classes, device=labels.device)
        return (labels[:, None] == every[:, None]).sum(2)
    return torch.stack([(labels == c).sum(1) for c in range(num_classes)], 1)


def mean_label(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    r"""Return the share of each class among the labels that were given; zeros where there are none.

    .. math:: \frac{\sum_r w_r \, 1[o_r = c]}{\sum_r w_r \, 1[o_r \neq -1]}

    Args:
        labels: `(batch, answers, *space)`, with MISSING.
        num_classes: Number of classes.
        weights: Of the answers, `(batch or 1, answers)`, or several weightings of them,
            `(batch or 1, weightings, answers)`; without them all weigh alike.

    Returns:
        `(batch, L, *space)`, or `(batch, weightings, L, *space)`; zeros also where all labels are
        without weight.

    Example:
        >>> labels = torch.tensor([[1, 1, 0, -1], [0, -1, -1, -1]])
        >>> mean_label(labels, 2)
        tensor([[0.3333, 0.6667],
                [1.0000, 0.0000]])
        >>> mean_label(labels, 2, torch.tensor([[0.1, 0.1, 0.3, 0.5]]))
        tensor([[0.6000, 0.4000],
                [1.0000, 0.0000]])
    """
    if weights is None:
        counts = label_counts(labels, num_classes)
        return counts / counts.sum(1, keepdim=True).clamp(min=1)
    every = torch.arange(num_classes, device=labels.device)
    chosen = labels.unsqueeze(2) == every.view(-1, *(1,) * (labels.ndim - 2))
    rows = weights.reshape(len(weights), -1, weights.shape[-1])
    total = rows @ chosen.flatten(2).to(rows.dtype)
    total = total.view(len(labels), *weights.shape[1:-1], *chosen.shape[2:])
    return total / total.sum(weights.ndim - 1, keepdim=True).clamp(min=1e-12)


def majority(labels: Tensor, num_classes: int) -> Tensor:
    """Return the class with most labels, `(batch, *space)`; MISSING where nobody labelled.

    Ties go to the class listed first, as in the fusion method `vote`.

    Args:
        labels: `(batch, raters, *space)`, with MISSING.
        num_classes: Number of classes.

    Example:
        >>> majority(torch.tensor([[[1, 1, -1], [1, 0, -1], [0, -1, -1]]]), 2)
        tensor([[ 1,  0, -1]])
    """
    votes = label_counts(labels, num_classes)
    best = votes.max(1).indices  # the first of several; a tenth of the time of argmax
    return best.masked_fill(votes.sum(1) == 0, MISSING)


def rows_of(counts: NDArray[Any], unseen: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return matrices with rows that sum to one; rows of classes that never occurred as given."""
    rows = normalise(counts)
    return np.where(np.isnan(rows), unseen, rows)
