"""What a learning method is: it prepares, takes steps, and predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from raters.core.errors import RatersError
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.phases import Batch as Batch
from raters.learning.methods.phases import Training, draw_latents
from raters.learning.methods.targets import Entropy, Target, cross_entropy
from raters.study.annotations import Annotation

if TYPE_CHECKING:
    from raters.learning.networks import TruthNetwork
    from raters.study.case import Case
    from raters.study.study import Study

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
        unlabelled: Those of the raters who labelled none of the cases that are trained on.
    """

    kind: Literal["segmentation", "classification"]
    raters: tuple[str, ...]
    num_classes: int
    spatial_dims: int
    network: Callable[[], TruthNetwork]
    epochs: int = 0
    channels: int = 1
    annotations: tuple[Annotation, ...] = ()
    unlabelled: tuple[str, ...] = ()

    def number_of(self, rater: str | int) -> int:
        """Return the position of a rater."""
        return self.raters.index(rater) if isinstance(rater, str) else rater

    def as_key(self, rater: str | int) -> str:
        """Return the name of the map of a rater's labels."""
        return f"as:{self.raters[self.number_of(rater)]}"


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
        raters.core.errors.RatersError: found separate, expected a method with matrices: it has none
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
        untied: Why what it says as a rater may not be that rater's; empty where it is.
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
    untied: str = ""
    task: Task
    options: MethodOptions
    class_weights: Tensor

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__()
        self.task = task
        self.options = options
        self.register_buffer("class_weights", torch.ones(task.num_classes), persistent=False)

    def prepare(self, study: Study) -> None:
        """Look at all cases that will be trained on or held out, before the first step."""

    def finish(self, study: Study) -> None:
        """Count after the last step what only predictions need: no step has to wait for it."""

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
            found[self.task.as_key(rater)] = self.as_rater(image, self.task.number_of(rater))
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

    def entropy_step(
        self, log_truth: Tensor, target: Tensor, entropy: Entropy = cross_entropy
    ) -> Step:
        """Return the step of a cross entropy with a target: `cross_entropy`, or `of_each` label."""
        return mean_step(*entropy(log_truth, target, self.class_weights))

    def held_out_entropy(
        self, image: Tensor, target: Tensor, entropy: Entropy = cross_entropy
    ) -> HeldOut:
        """Return a cross entropy with a target on held-out cases; all classes weigh alike."""
        log_truth = self.network.log_truth(image)
        loss, count = entropy(log_truth, target, torch.ones_like(self.class_weights))
        return HeldOut(loss, count, log_truth.exp())
