"""What methods that draw share: one random rater of each case, fixed noise, one look at an image.

What is drawn in a step comes from the seed, the epoch and the case: it is the same after a restart,
and whichever process has the case. Patches of a case share it in an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from raters.core.classes import MISSING
from raters.learning.methods.base import Asked, Batch, Maps, Method, Step, Task, refuse_unanswered
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.phases import generator_of

Seen = TypeVar("Seen")
"""What a method keeps of images that it looked at."""


def labelled_answers(labels: Tensor) -> Tensor:
    """Return which masks have a label, and which answers are there, `(batch, answers)`.

    Example:
        >>> labelled_answers(torch.tensor([[[MISSING, 0], [MISSING, MISSING]]]))
        tensor([[ True, False]])
    """
    known = labels != MISSING
    return known.flatten(2).any(2) if labels.ndim > 2 else known


def chosen_answers(labels: Tensor, raters: Tensor | None, scores: Tensor) -> Tensor:
    """Choose, for each case, one of the raters who labelled it: the one with the largest score.

    Args:
        labels: `(batch, raters, *space)`, or `(batch, answers)` of a table.
        raters: Who gave the answers of a table, `(batch, answers)`; None for masks.
        scores: A number for each case and rater, `(batch, raters)`, at least 0.

    Returns:
        Which masks or answers are the rater's, `(batch, raters or answers)`: of masks one, of a
        table all that the rater gave to the task; none where nobody labelled.

    Example:
        >>> labels = torch.tensor([[1, 0, 0], [MISSING, 1, MISSING]])
        >>> who = torch.tensor([[2, 0, 2], [0, 1, 0]])
        >>> chosen_answers(labels, who, torch.tensor([[0.1, 0.5, 0.9]]).expand(2, 3))
        tensor([[ True, False,  True],
                [False,  True, False]])
    """
    there = labelled_answers(labels)
    each = scores if raters is None else scores.gather(1, raters)
    each = each.masked_fill(~there, -1)
    return there & (each == each.max(1, keepdim=True).values)


def drawn_answers(batch: Batch, num_raters: int, seed: int, epoch: int) -> Tensor:
    """Draw one rater of each case; all who labelled it are equally likely.

    Returns:
        As `chosen_answers`.

    Example:
        >>> batch = {"labels": torch.tensor([[0, 1, MISSING]]), "case": torch.tensor([7])}
        >>> batch["raters"] = torch.tensor([[0, 1, 2]])
        >>> [drawn_answers(batch, 3, 0, epoch).int().tolist() for epoch in range(3)]
        [[[0, 1, 0]], [[1, 0, 0]], [[1, 0, 0]]]
    """
    each = [
        torch.rand(num_raters, generator=generator_of("rater", seed, epoch, case))
        for case in batch["case"].tolist()
    ]
    labels = batch["labels"]
    return chosen_answers(labels, batch.get("raters"), torch.stack(each).to(labels.device))


def drawn_masks(labels: Tensor, chosen: Tensor) -> Tensor:
    """Return the mask that was chosen of each case, `(batch, *space)`.

    Example:
        >>> drawn_masks(torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[False, True]]))
        tensor([[1, 1]])
    """
    return labels[torch.arange(len(labels), device=labels.device), chosen.long().argmax(1)]


def labelled_masks(labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the case and the rater of each mask with labels, in parts as large as the batch.

    Example:
        >>> labels = torch.tensor([[[0], [1]], [[MISSING], [1]]])
        >>> [(case.tolist(), rater.tolist()) for case, rater in labelled_masks(labels)]
        [([0, 0], [0, 1]), ([1], [1])]
    """
    for rows in torch.split(labelled_answers(labels).nonzero(), len(labels)):
        yield rows[:, 0], rows[:, 1]


def drawn_noise(cases: Tensor, size: int, seed: int, epoch: int) -> Tensor:
    """Draw standard normal noise for each case, `(batch, size)`."""
    generators = [generator_of("noise", seed, epoch, case) for case in cases.tolist()]
    return torch.stack([torch.randn(size, generator=each) for each in generators])


def fixed_noise(number: int, size: int) -> Tensor:
    """Return standard normal noise that is always the same, `(number, size)`, of an even number.

    The second half is minus the first, so that a mean over it leans in no direction.

    Example:
        >>> noise = fixed_noise(16, 6)
        >>> noise.shape, bool(noise.sum(0).abs().max() < 1e-5)
        (torch.Size([16, 6]), True)
    """
    half = torch.randn(number // 2, size, generator=generator_of("fixed", size))
    return torch.cat([half, -half])


def losses_of_maps(log_truth: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    r"""Return the cross entropy of several maps with each rater's labels, summed over pixels.

    .. math:: l_{rk} = -\sum_x w_{o_r(x)} \log p_k(o_r(x) \mid x)

    Args:
        log_truth: `log p_k(t | x)`, `(batch, maps, L, *space)`.
        labels: `(batch, answers, *space)`, with MISSING.
        weights: A weight of each class, `(L,)`.

    Returns:
        `(batch, answers, maps)`.

    Example:
        >>> p = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])  # two maps of one task
        >>> losses_of_maps(p.log(), torch.tensor([[0, 1, MISSING]]), torch.ones(2)).exp()
        tensor([[[2.0000, 4.0000],
                 [2.0000, 1.3333],
                 [1.0000, 1.0000]]])
    """
    known = (labels != MISSING).unsqueeze(2)
    told = one_hot(labels.clamp(min=0), len(weights)).movedim(-1, 2) * known
    flat = told.flatten(3) if told.ndim > 3 else told.unsqueeze(3)
    log_truth = log_truth.flatten(3) if log_truth.ndim > 3 else log_truth.unsqueeze(3)
    return -torch.einsum("balx,bklx,l->bak", flat.to(log_truth), log_truth, weights)


def evidence_step(total: Tensor, kl: Tensor, observed: Tensor, beta: float) -> Step:
    r"""Make the step of cross entropy and KL, both summed over the images of a batch.

    .. math:: \Big( \sum_b \sum_x -\log p(o_b(x) \mid z_b) + \beta \sum_b \mathrm{KL}_b \Big) / n

    The loss of an image is that of its evidence bound, a sum over its pixels. To divide all of it
    by the n observed pixels of the batch leaves the ratio of both terms as it is: for B images of N
    pixels it is the mean over images, divided by N.

    Args:
        total: The cross entropy, summed.
        kl: The divergences, summed.
        observed: How many pixels the cross entropy is a sum of.
        beta: The weight of the divergences.

    Example:
        >>> step = evidence_step(torch.tensor(8.0), torch.tensor(2.0), torch.tensor(4), beta=0.5)
        >>> {name: value.item() for name, value in step.terms.items()}
        {'loss': 2.25, 'reconstruction': 2.0, 'kl': 0.5}
    """
    number = observed.clamp(min=1)
    loss = (total + beta * kl) / number
    return Step(loss, observed, {"loss": loss, "reconstruction": total / number, "kl": kl / number})


def mean_of_each(maps: Iterable[Tensor]) -> Tensor:
    """Average maps one after the other: all of them at once could be too large for memory.

    Example:
        >>> mean_of_each(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        tensor([2., 4.])
    """
    total = torch.zeros(())
    number = 0
    for number, found in enumerate(maps, start=1):  # noqa: B007
        total = total.to(found.device) + found
    return total / number


class SamplingMethod(Method, Generic[Seen]):
    """A method that looks at images once, and says many things of what it saw.

    Subclasses define `look`, `truth_of` and `sample_of`, and `rater_of` if they know raters.

    Attributes:
        network: Gives features; the head for classes is taken off.
    """

    answers = frozenset({"truth", "samples"})

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.network = task.network()
        self.network.head = nn.Identity()

    def look(self, image: Tensor) -> Seen:
        """Return what is to be known of images `(batch, channels, *space)`."""
        raise NotImplementedError

    def truth_of(self, seen: Seen) -> Tensor:
        """Return `p(t | x)`, `(batch, L, *space)`."""
        raise NotImplementedError

    def sample_of(self, seen: Seen, latents: Tensor) -> Tensor:
        """Return one sample of each image, `(batch, L, *space)`."""
        raise NotImplementedError

    def rater_of(self, seen: Seen, rater: int) -> Tensor:
        """Return what a rater would say of each image, `(batch, L, *space)`."""
        raise NotImplementedError

    def truth(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, L, *space)`."""
        return self.truth_of(self.look(image))

    def sample(self, image: Tensor, latents: Tensor) -> Tensor:
        """Return one sample per image, `(batch, L, *space)`, as probabilities."""
        return self.sample_of(self.look(image), latents)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what a rater would say, `(batch, L, *space)`."""
        return self.rater_of(self.look(image), rater)

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return all that is asked, from one look."""
        refuse_unanswered(type(self).__name__, self.answers, asked)
        seen = self.look(image)
        found = {"truth": self.truth_of(seen)}
        for rater in asked.raters:
            found[self.task.as_key(rater)] = self.rater_of(seen, self.task.number_of(rater))
        return found | self.samples_by(
            lambda noise: self.sample_of(seen, noise), image, asked, latents
        )
