"""Methods that see labels through the raters' matrices: truth network and rater model together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from raters.learning.methods.base import (
    Asked,
    Batch,
    HeldOut,
    Maps,
    Method,
    NetworkMethod,
    Step,
    Task,
)
from raters.learning.methods.options import ConfusionOptions
from raters.learning.methods.targets import FusedLabels, Target, majority, over_pixels
from raters.learning.rater_models import (
    RaterModel,
    negative_log_likelihood,
    pixel_weights,
    posterior,
    prior_term,
    sum_and_count,
    trace_term,
)
from raters.learning.rater_models.confusion import Confusion, Seen
from raters.learning.rater_models.likelihood import TraceOver

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


class ConfusionMethod(NetworkMethod):
    r"""Maximises the likelihood of the raters' labels over truth network and matrices.

    .. math:: -\log p(o \mid x) / n + \lambda \, \mathrm{trace} + \mu \, \mathrm{prior}

    with n observed labels, and the likelihood in its joint or marginal form. Subclasses say
    where the matrices come from.

    Attributes:
        raters: The rater model.
    """

    answers = frozenset({"truth", "as_rater", "confusion", "fusion"})
    options: ConfusionOptions

    def __init__(self, task: Task, options: ConfusionOptions) -> None:
        super().__init__(task, options)
        self.raters = self.rater_model()
        self._warming = False
        self.has_targets = options.warm_up_on == "consensus"
        self._fused = FusedLabels("dawid-skene", pool=task.spatial_dims > 0, soft=True)

    def prepare(self, study: Study) -> None:
        """Fit the consensus that the warm-up is on, if any; matrices start at its raters' ones."""
        if self.has_targets:
            self._fused.fit(study)
            self.raters.start_at(torch.from_numpy(self._fused.confusion))

    def target(self, case: Case) -> Target:
        """Return the consensus of a case, as probabilities."""
        return self._fused.of(case)

    def rater_model(self) -> RaterModel:
        """Make the rater model; the network is there already."""
        raise NotImplementedError

    def matrix_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of matrices that all pixels share."""
        return self.raters.shared_parameters()

    @property
    def warm_up(self) -> int:
        """How many epochs the matrices are held."""
        return int(self.options.warm_up or 0)

    @property
    def not_extended(self) -> str:
        """Each rater has weights of their own, unless options say otherwise."""
        if self.shares_matrix:
            return "all raters share one matrix, so there is nothing to add"
        return ""

    def joined(self, new: Method) -> dict[str, Tensor]:
        """Return the weights of both rater models as one."""
        joined = join_raters(self.raters, cast(ConfusionMethod, new).raters)
        return {f"raters.{name}": weights for name, weights in joined.items()}

    def start_epoch(self, epoch: int) -> None:
        """Hold the matrices at their start during the warm-up, unless they learn in it."""
        self._warming = epoch < self.warm_up
        self.raters.held = self._warming and self.options.warm_up_on != "trace"
        self.raters.seed = self.seed, epoch

    def _look(self, batch: Batch) -> tuple[Tensor, Confusion]:
        features, logits = self.network(batch["image"])
        seen = self.raters.look(batch["image"], features)
        return logits.log_softmax(1), self.raters(seen, batch["case"])

    def step(self, batch: Batch) -> Step:
        """Return the negative log-likelihood with its regularisers."""
        if self._warming and self.options.warm_up_on == "trace":
            return self._trace_step(batch)
        if self.raters.held and self.options.warm_up_on != "labels":
            return self._vote_step(batch)
        labels = batch["labels"]
        raters = batch.get("raters")
        log_truth, confusion = self._look(batch)
        seen = confusion.see(labels, raters)
        weighed = bool((self.class_weights != 1).any())
        weights = self.label_weights(labels) if weighed else None
        form = self.options.likelihood
        nll = negative_log_likelihood(log_truth, seen.log_column, labels, form, weights)
        truth = log_truth.exp().detach()
        loss = nll
        terms = {"loss": nll}
        if not self.raters.held:
            weight = self.options.trace
            with torch.set_grad_enabled(weight > 0 and torch.is_grad_enabled()):
                terms["trace"] = self._trace(confusion, seen, labels, truth)
            loss = loss + weight * terms["trace"]
            if seen.distance is not None:
                terms["prior"] = prior_term(seen.distance, labels, truth)
                loss = loss + self.prior * terms["prior"]
            self.raters.learn(confusion, truth, labels, batch["case"])
        return self.penalised(Step(loss, (labels >= 0).sum(), terms), log_truth, batch)

    def label_weights(self, labels: Tensor) -> Tensor:
        """Return the weight of each pixel by the classes that were said, `(batch, *space)`."""
        return pixel_weights(labels, self.class_weights)

    def penalised(self, step: Step, log_truth: Tensor, batch: Batch) -> Step:  # noqa: ARG002
        """Add to a step what is known of the truth beside the labels; nothing by default."""
        return step

    def _trace(self, confusion: Confusion, seen: Seen, labels: Tensor, truth: Tensor) -> Tensor:  # noqa: ARG002
        """Return the trace term."""
        over = cast(TraceOver, self.options.trace_over)  # 'listing' was taken before
        return trace_term(seen.log_diagonal, labels, truth, over)

    def _trace_step(self, batch: Batch) -> Step:
        """Train the rater model alone, to maximise the mean trace: matrices become the identity."""
        labels = batch["labels"]
        with torch.no_grad():
            features, _ = self.network(batch["image"])
        confusion = self.raters(self.raters.look(batch["image"], features), batch["case"])
        diagonal = confusion.see(labels, batch.get("raters")).log_diagonal.exp()
        trace = diagonal.sum(2).mean()
        return Step(-trace, (labels >= 0).sum(), {"loss": -trace, "trace": trace})

    def _vote_step(self, batch: Batch) -> Step:
        """Train the truth network alone, on the vote or a consensus."""
        log_truth = self.network.log_truth(batch["image"])
        if self.has_targets:
            target = batch["target"]
        else:
            target = majority(batch["labels"], self.task.num_classes)
        return self.penalised(self.entropy_step(log_truth, target), log_truth, batch)

    @property
    def prior(self) -> float:
        """The weight of the pull to a common matrix, of methods that have one."""
        return 0.0

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the raters' labels, and the mean matrices."""
        labels = batch["labels"]
        raters = batch.get("raters")
        log_truth, confusion = self._look(batch)
        column = confusion.see(labels, raters).log_column
        loss, count = sum_and_count(log_truth, column, labels, self.options.likelihood)
        truth = log_truth.exp()
        pixels = over_pixels(truth)
        return HeldOut(loss, count, truth, confusion.mean(truth) * pixels[:, None], pixels)

    def confusion(self, image: Tensor) -> Tensor:
        """Return `C[t, o]`, `(batch or 1, raters, L, L, *space or 1)`."""
        features, _ = self.network(image)
        return self._matrices(image, features)

    def _confusion(self, image: Tensor, features: Tensor) -> Confusion:
        """Return the matrices of images that belong to no case of the study."""
        cases = torch.zeros(len(features), dtype=torch.long, device=features.device)
        found: Confusion = self.raters(self.raters.look(image, features), cases)
        return found

    def _matrices(self, image: Tensor, features: Tensor) -> Tensor:
        matrix = self._confusion(image, features).matrix()
        matrix = matrix.expand(-1, len(self.task.raters), *matrix.shape[2:])
        return matrix.view(*matrix.shape, *(1,) * (features.ndim + 2 - matrix.ndim))

    def fused(self, batch: Batch) -> Tensor:
        r"""Return the joint posterior of image and labels.

        .. math:: p(t \mid x, o) \propto p(t \mid x) \prod_r C_r[t, o_r]
        """
        features, logits = self.network(batch["image"])
        confusion = self._confusion(batch["image"], features)
        column = confusion.see(batch["labels"], batch.get("raters")).log_column
        return posterior(logits.log_softmax(1), column)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would say of the image."""
        return self.maps(image, Asked((rater,)))[self.task.as_key(rater)]

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the truth, what some raters would say, and the matrices, from one look."""
        features, logits = self.network(image)
        found = {"truth": logits.softmax(1)}
        if asked.raters:
            confusion = self._confusion(image, features)
            for rater in asked.raters:
                number = self.task.number_of(rater)
                found[self.task.as_key(rater)] = confusion.as_rater(found["truth"], number)
        if asked.confusion:
            found["confusion"] = self._matrices(image, features)
        return found | self.sampled(image, asked, latents)


def join_raters(old: RaterModel, new: RaterModel) -> dict[str, Tensor]:
    """Return the weights of a rater model for the raters of two.

    The first axis of all weights counts raters; that of low-rank models counts them anew in each
    of their parts.

    Example:
        >>> from raters.learning.rater_models import GlobalRaters
        >>> join_raters(GlobalRaters(2, 3), GlobalRaters(1, 3))["logits"].shape
        torch.Size([3, 3, 3])
    """
    after = new.state_dict()
    return {
        name: torch.cat(
            [
                part.to(before)
                for pair in zip(_parts(before, old), _parts(after[name], new), strict=True)
                for part in pair
            ]
        )
        for name, before in old.state_dict().items()
    }


def _parts(weights: Tensor, model: RaterModel) -> tuple[Tensor, ...]:
    shapes = getattr(model, "shapes", None)
    return (weights,) if shapes is None else torch.split(weights, [prod(s) for s in shapes])
