"""Toy learning methods, defined outside the package: one for each thing that a method may need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import ExponentialLR

from raters.learning.distributed import gathered, summed
from raters.learning.methods import METHODS, MethodEntry
from raters.learning.methods.base import (
    Batch,
    HeldOut,
    Method,
    NetworkMethod,
    Step,
    Task,
    mean_step,
)
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.phases import MakeOptimiser, Optimiser, Snapshot
from raters.learning.methods.targets import cross_entropy, majority
from raters.learning.networks import TruthNetwork
from raters.study.case import Case


def vote_loss(log_truth: Tensor, batch: Batch) -> Step:
    """Return the cross entropy with the vote."""
    target = majority(batch["labels"], log_truth.shape[1])
    return mean_step(*cross_entropy(log_truth, target, torch.ones(log_truth.shape[1])))


def held_out(step: Step, truth: Tensor) -> HeldOut:
    """Return what a held-out batch gave."""
    return HeldOut(step.loss * step.observed, step.observed, truth)


class Toy(NetworkMethod):
    """Learns from the vote; the others change one thing each."""

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the vote."""
        return vote_loss(self.network(batch["image"])[1].log_softmax(1), batch)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the same."""
        truth = self.truth(batch["image"])
        return held_out(vote_loss(truth.log(), batch), truth)


class ToyEM(Toy):
    """EM: matrices are counted in a pass, posteriors come from the network of the last round."""

    answers = frozenset({"truth", "as_rater", "confusion"})
    training_only = ("before", "seen")
    matrices: Tensor

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        start = 0.6 * torch.eye(task.num_classes) + 0.4 / task.num_classes
        self.register_buffer("matrices", start.repeat(len(task.raters), 1, 1))
        self.before = Snapshot(self.network)
        self.seen: list[list[int]] = []

    def posterior(self, batch: Batch) -> Tensor:
        """Return `q(t | x, o)`, proportional to `p(t | x) prod_r C_r[t, o_r]`."""
        logits = self.before.copy(batch["image"])[1].log_softmax(1)
        for rater, matrix in enumerate(self.matrices):
            labels = batch["labels"][:, rater]
            column = matrix.log().T[labels.clamp(min=0)].movedim(-1, 1)
            logits = logits + column * (labels >= 0)[:, None]
        return logits.softmax(1)

    def needs_pass(self, epoch: int) -> bool:
        """Before every epoch."""
        return epoch >= 0

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Count the matrices under the posterior, and note what was seen."""
        assert not self.training
        assert not torch.is_grad_enabled()
        self.before.take()
        counts = torch.full_like(self.matrices, 0.0)
        seen = []
        for batch in batches:
            truth = self.posterior(batch)
            labels = batch["labels"]
            for rater, observed in np.ndindex(*counts.shape[::2]):
                there = (labels[:, rater] == observed)[:, None]
                counts[rater, :, observed] += (truth * there).transpose(0, 1).flatten(1).sum(1)
            pixels = (labels >= 0).any(1).flatten(1).sum(1)
            places = [batch["case"][:, None], batch["corner"], batch["space"], pixels[:, None]]
            seen += torch.cat(places, 1).tolist()
        counts = summed(counts) + 0.1
        self.matrices.copy_(counts / counts.sum(2, keepdim=True))
        self.seen = [place for part in gathered(seen) for place in part]

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the posterior."""
        log_truth = self.network(batch["image"])[1].log_softmax(1)
        known = (batch["labels"] >= 0).any(1)[:, None]
        target = self.posterior(batch) * known
        return mean_step(*cross_entropy(log_truth, target, self.class_weights))

    def confusion(self, image: Tensor) -> Tensor:
        """Return the counted matrices."""
        return self.matrices[None, ..., *(None,) * (image.ndim - 2)]

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return the truth through the rater's matrix."""
        return torch.einsum("bt...,to->bo...", self.truth(image), self.matrices[rater])


class ToyRounds(Toy):
    """Two rounds, each of a phase for the network and one for a temperature; then all anew."""

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.scale = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.scale.weight, 0.3)

    @property
    def round(self) -> int:
        """How many epochs a round has."""
        return -(-self.task.epochs // 2)

    @property
    def warm_up(self) -> int:
        """Only the last round counts."""
        return self.round

    def phase(self, epoch: int) -> str:
        """Name round and phase."""
        part = "scale" if epoch % self.round == self.round - 1 else "network"
        return f"round {epoch // self.round + 1} {part}"

    def restart(self, epoch: int) -> Sequence[str]:
        """Let the second round begin with a new network."""
        return ["network"] if epoch == self.round else []

    def optimisers(self, make: MakeOptimiser) -> Mapping[str, Optimiser]:
        """Make one of training's own for the network, and one of torch's for the scale."""
        plain = torch.optim.SGD(self.scale.parameters(), lr=0.1, momentum=0.9)
        steps = (self.round - 1) * self.steps_per_epoch
        return {
            "network": make(self.network.parameters(), steps=steps),
            "scale": Optimiser(plain, ExponentialLR(plain, 0.9)),
        }

    def turns(self, epoch: int, step: int) -> Sequence[str]:  # noqa: ARG002
        """Return the optimiser of the phase."""
        return [self.phase(epoch).split()[-1]]

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the vote."""
        return vote_loss(self.truth(batch["image"]).log(), batch)

    def truth(self, image: Tensor) -> Tensor:
        """Return the truth at the learnt temperature."""
        logits: Tensor = self.network(image)[1]
        return (logits * self.scale.weight).softmax(1)


class ToyTwo(Method):
    """Two networks in turns: the first learns from the vote, the second from the first."""

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.first = task.network()
        self.second = task.network()

    def truth_networks(self) -> list[TruthNetwork]:
        """Both."""
        return [self.first, self.second]

    def optimisers(self, make: MakeOptimiser) -> Mapping[str, Optimiser]:
        """Make one for each."""
        return {
            "first": make(self.first.parameters()),
            "second": make(self.second.parameters(), lr=3e-3),
        }

    def turns(self, epoch: int, step: int) -> Sequence[str]:  # noqa: ARG002
        """Let the second wait in the first epoch, then go first."""
        return ["second", "first"] if epoch else ["first"]

    def step(self, batch: Batch) -> Step:
        """Return the loss of the one whose turn it is."""
        log_first = self.first(batch["image"])[1].log_softmax(1)
        if self.turn == "first":
            return vote_loss(log_first, batch)
        log_second = self.second(batch["image"])[1].log_softmax(1)
        step = mean_step(*cross_entropy(log_second, log_first.exp().detach(), self.class_weights))
        return step._replace(terms={**step.terms, "second": step.loss})

    def held_out(self, batch: Batch) -> HeldOut:
        """Score the mean."""
        truth = self.truth(batch["image"])
        return held_out(vote_loss(truth.log(), batch), truth)

    def truth(self, image: Tensor) -> Tensor:
        """Return the mean of both."""
        return torch.stack([net(image)[1].softmax(1) for net in (self.first, self.second)]).mean(0)


class ToyExtra(Toy):
    """Knows a grade of each case, and how far to trust each rater's labels in it."""

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.grade = nn.Linear(task.num_classes, 3)

    def extra(self, case: Case) -> Mapping[str, NDArray[Any]]:
        """Return a grade by the case's name, and a kind for each rater."""
        number = int("".join(c for c in case.id if c.isdigit()))
        kinds = (number + np.arange(len(self.task.raters))) % 2
        return {"grade": np.array(number % 3), "kind": kinds.astype(np.float32)}

    def step(self, batch: Batch) -> Step:
        """Weigh each rater's labels by their kind, and learn the grade too."""
        logits = self.network(batch["image"])[1]
        total = logits.new_zeros(())
        count = torch.zeros((), dtype=torch.long)
        for k, row in enumerate(batch["labels"]):
            for labels, kind in zip(row, batch["kind"][k], strict=True):
                weights = (1 + kind) * self.class_weights
                more, known = cross_entropy(logits[k : k + 1].log_softmax(1), labels[None], weights)
                total = total + more
                count = count + known
        there = (batch["labels"] >= 0).flatten(1).sum(1)
        grades = self.grade(logits.flatten(2).mean(2)).log_softmax(1)
        total = total - (grades.gather(1, batch["grade"][:, None])[:, 0] * there).sum()
        return mean_step(total, count)


class ToySampler(Toy):
    """Learns one rater at a time, drawn with noise that the prediction follows."""

    answers = frozenset({"truth", "samples"})
    training_only = ("epoch",)

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.noise = nn.Linear(2, task.num_classes)
        self.epoch = 0

    def start_epoch(self, epoch: int) -> None:
        """Note the epoch: noise depends on it and the case, whoever draws it."""
        self.epoch = epoch

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        """Draw two numbers."""
        return torch.randn(2, generator=generator)

    def _logits(self, image: Tensor, latents: Tensor) -> Tensor:
        logits: Tensor = self.network(image)[1]
        moved: Tensor = self.noise(latents)
        return logits + moved.view(*moved.shape, *(1,) * (logits.ndim - 2))

    def sample(self, image: Tensor, latents: Tensor) -> Tensor:
        """Return the truth, moved by the noise."""
        return self._logits(image, latents).softmax(1)

    def truth(self, image: Tensor) -> Tensor:
        """Return the truth without noise."""
        return self.sample(image, torch.zeros(len(image), 2, device=image.device))

    def step(self, batch: Batch) -> Step:
        """Learn from a rater whom the noise chooses."""
        random = [torch.Generator().manual_seed(int(c) + 97 * self.epoch) for c in batch["case"]]
        latents = torch.stack([self.draw_latent(each) for each in random])
        chosen = (latents[:, 0] > 0).long()
        labels = torch.stack([row[c] for row, c in zip(batch["labels"], chosen, strict=True)])
        log_truth = self._logits(batch["image"], latents).log_softmax(1)
        return mean_step(*cross_entropy(log_truth, labels, self.class_weights))


class ToyWeighted(Toy):
    """One head for each rater; the truth is their mean, in any weighting."""

    answers = frozenset({"truth", "as_rater", "weights"})

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.heads = nn.ModuleList(
            [nn.Linear(task.num_classes, task.num_classes) for _ in task.raters]
        )

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what the rater's head says."""
        logits = self.network(image)[1].movedim(1, -1)
        head: Tensor = self.heads[rater](logits)
        return head.movedim(-1, 1).softmax(1)

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted mean of all heads."""
        every = torch.stack([self.as_rater(image, k) for k in range(len(self.heads))])
        return torch.einsum("r,rb...->b...", weights / weights.sum(), every)

    def truth(self, image: Tensor) -> Tensor:
        """Return the plain mean."""
        return self.weighted(image, torch.ones(len(self.heads), device=image.device))

    def step(self, batch: Batch) -> Step:
        """Let each head learn from its rater."""
        parts = [
            cross_entropy(self.as_rater(batch["image"], k).log(), labels, self.class_weights)
            for k, labels in enumerate(batch["labels"].unbind(1))
        ]
        totals, counts = zip(*parts, strict=True)
        return mean_step(torch.stack(totals).sum(), torch.stack(counts).sum())


TOYS = {
    "toy-em": ToyEM,
    "toy-rounds": ToyRounds,
    "toy-two": ToyTwo,
    "toy-extra": ToyExtra,
    "toy-sampler": ToySampler,
    "toy-weighted": ToyWeighted,
}


@contextmanager
def registered() -> Iterator[None]:
    """Make the toys known, each by one line; other tests do not find them."""
    for name, toy in TOYS.items():
        METHODS[name] = MethodEntry(f"toy: {toy.__doc__}", f"{__name__}:{toy.__name__}")
    try:
        yield
    finally:
        for name in TOYS:
            del METHODS[name]
