"""`gem` and `mbem`: the network and the raters' matrices learn in turns, by EM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch, HeldOut, Step, Task
from raters.learning.methods.counting import IN_TURNS, count_labels
from raters.learning.methods.options import EMOptions, GemOptions
from raters.learning.methods.phases import Snapshot
from raters.learning.methods.supervised import SupervisedMethod
from raters.learning.methods.targets import mean_label, over_pixels
from raters.learning.rater_models import SharedConfusion, log_column, posterior, sum_and_count

if TYPE_CHECKING:
    from raters.study.study import Study


class EMMethod(SupervisedMethod):
    r"""Rounds of EM: the network learns the posterior, then labels are counted against it.

    The first round learns from the mean label of each pixel. Before every other round a pass over
    all training cases counts the labels against what the network makes of them by then,

    .. math:: C_r[t, o] = \frac{\sum_n q_n(t) \, 1[o_{nr} = o]}{\sum_n q_n(t) \, 1[o_{nr} \neq -1]}

    and the round learns the posterior that these matrices give. Targets are made batch by batch:
    nothing of a case is kept. The algorithms count once more after the last round; here that is
    before the last epoch, and for predictions only.

    Attributes:
        usual: How many rounds there are by default.
        starts: The first epoch of each round.
        through: The matrices that the targets of the round are made with.
    """

    answers = SupervisedMethod.answers | {"fusion"}
    has_targets = False
    counts_raters = False  # they are fitted, together with the network
    not_extended = IN_TURNS
    training_only: ClassVar[tuple[str, ...]] = ("through",)
    usual: ClassVar[int]
    options: EMOptions

    def __init__(self, task: Task, options: EMOptions) -> None:
        super().__init__(task, options)
        self.starts = rounds(task.epochs, self.usual, options.em_steps, options.em_epochs)
        self.through = self.rater_matrices.clone()

    def finish(self, study: Study) -> None:
        """Keep the matrices, which were counted in passes."""

    @property
    def warm_up(self) -> int:
        """The epochs of the first round: no matrices have been counted against the network."""
        return self.starts[1] if len(self.starts) > 1 else 0

    def phase(self, epoch: int) -> str:
        """Name the round."""
        number = sum(start <= epoch for start in self.starts)
        return "warm-up" if epoch < self.warm_up else f"round {number}"

    def needs_pass(self, epoch: int) -> bool:
        """Return whether a round begins, or the last epoch does."""
        self.epoch = epoch
        return epoch in self.starts or epoch == self.task.epochs - 1

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Count the labels; if a round begins, let it learn from the matrices."""
        before = self.rater_matrices.clone()
        counts, pixels = self._counted(batches)
        self.rater_matrices.copy_(rows_from(counts, self._given))
        if self.epoch in self.starts[1:]:
            self.begin_round(before, pixels / pixels.sum().clamp(min=1))

    @property
    def _given(self) -> float:
        """How many labels each row of a matrix has before any is counted."""
        return 1.0

    def _counted(self, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
        """Return the counts of labels `(raters, L, L)` and of pixels `(L,)` over all processes."""
        counts = torch.zeros_like(self.rater_matrices, dtype=torch.float64)
        pixels = counts.new_zeros(self.task.num_classes)
        for batch in batches:
            known = (batch["labels"] != MISSING).any(1, keepdim=True)
            truth = (self.estimate(batch) if self.epoch else self._mean(batch)) * known
            counts += count_labels(truth, batch["labels"], len(counts), batch.get("raters"))
            pixels += over_pixels(truth)
        return summed(counts), summed(pixels)

    def _mean(self, batch: Batch) -> Tensor:
        return mean_label(batch["labels"], self.task.num_classes)

    def estimate(self, batch: Batch) -> Tensor:
        """Return what the labels are counted against in a pass, `(batch, L, *space)`."""
        raise NotImplementedError

    def begin_round(self, before: Tensor, shares: Tensor) -> None:
        """Set what the targets of a round are made of.

        Args:
            before: The matrices as they were before the pass.
            shares: Of the classes, by what the labels were counted against.
        """
        raise NotImplementedError

    def target_of(self, batch: Batch) -> Tensor:
        """Return what the network learns after the first round, `(batch, L, *space)`."""
        raise NotImplementedError

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the mean label, and after the first round the posterior."""
        with torch.no_grad():
            if len(self.starts) == 1 or self.epoch < self.starts[1]:
                target = self._mean(batch)
            else:
                known = (batch["labels"] != MISSING).any(1, keepdim=True)
                target = self.target_of(batch) * known
        log_truth = self.network.log_truth(batch["image"])
        return self.entropy_step(log_truth, target)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the raters' labels, and the matrices."""
        log_truth = self.network.log_truth(batch["image"])
        column = columns_of(self.rater_matrices, batch)
        loss, count = sum_and_count(log_truth, column, batch["labels"])
        truth = log_truth.exp()
        pixels = over_pixels(truth)
        return HeldOut(loss, count, truth, self.rater_matrices * pixels[:, None], pixels)

    def fused(self, batch: Batch) -> Tensor:
        """Return `p(t | x, labels)`, `(batch, L, *space)`."""
        log_truth = self.network.log_truth(batch["image"])
        return posterior(log_truth, columns_of(self.rater_matrices, batch))


class GeneralizedEM(EMMethod):
    r"""Generalized EM: labels are counted against the posterior of image and labels.

    .. math:: q(t) \propto p(t \mid x) \prod_r C_r[t, o_r]

    Raykar et al., Learning from crowds, JMLR 11, 2010, with a network; Algorithm 2 of Tanno et al.,
    Learning from noisy labels by regularized estimation of annotator confusion, CVPR 2019, is
    `order='paper'`.

    Attributes:
        before: The network at the start of the round.
    """

    training_only = ("through", "before")
    usual = 10
    options: GemOptions

    def __init__(self, task: Task, options: GemOptions) -> None:
        super().__init__(task, options)
        self.before = Snapshot(self.network)

    @property
    def _as_printed(self) -> bool:
        return self.options.order == "paper"

    @property
    def warm_up(self) -> int:
        """The first round; none in the paper's order, where matrices come before the network."""
        return 0 if self._as_printed else super().warm_up

    @property
    def _given(self) -> float:
        return 0.0 if self._as_printed else super()._given

    def needs_pass(self, epoch: int) -> bool:
        """Return whether a round begins; the paper's order counts at no other time."""
        needed = super().needs_pass(epoch)
        return needed and (epoch in self.starts or not self._as_printed)

    def estimate(self, batch: Batch) -> Tensor:
        """Return the posterior; the network alone, before labels were counted against it."""
        log_truth = self.network.log_truth(batch["image"])
        counted = self._as_printed or 0 < self.warm_up < self.epoch
        if not counted:
            return log_truth.exp()
        return posterior(log_truth, columns_of(self.rater_matrices, batch))

    def begin_round(self, before: Tensor, shares: Tensor) -> None:  # noqa: ARG002
        """Keep the network as it is, and the matrices: in the paper's order the earlier ones."""
        self.before.take()
        self.through = before if self._as_printed else self.rater_matrices.clone()

    def target_of(self, batch: Batch) -> Tensor:
        """Return the posterior of the network and the matrices of the start of the round."""
        log_truth = self.before.copy(batch["image"])[1].log_softmax(1)
        return posterior(log_truth, columns_of(self.through, batch))


class ModelBootstrappedEM(EMMethod):
    r"""Model-bootstrapped EM: labels are counted against the likeliest class of the network.

    .. math:: q(t) \propto \pi_t \prod_r C_r[t, o_r]

    with the share :math:`\pi_t` of pixels that the network assigns to class t. The network is never
    started anew. Khetan, Lipton and Anandkumar, Learning from noisy singly-labeled data,
    ICLR 2018, as in Algorithm 3 of Tanno et al. (2019).

    Attributes:
        shares: Of the classes, at the start of the round.
    """

    training_only = ("through", "shares")
    usual = 2  # as in the authors' code, according to Tanno et al. (2019), appendix A

    def __init__(self, task: Task, options: EMOptions) -> None:
        super().__init__(task, options)
        self.shares = torch.full((task.num_classes,), 1 / task.num_classes)

    def estimate(self, batch: Batch) -> Tensor:
        """Return the likeliest class, as zeros and ones."""
        logits: Tensor = self.network(batch["image"])[1]
        best = logits.max(1, keepdim=True).indices  # a tenth of the time of argmax
        return torch.zeros_like(logits).scatter_(1, best, 1.0)

    def begin_round(self, before: Tensor, shares: Tensor) -> None:  # noqa: ARG002
        """Keep the matrices and the shares of the classes."""
        self.through = self.rater_matrices.clone()
        self.shares = shares.to(self.rater_matrices)

    def target_of(self, batch: Batch) -> Tensor:
        """Return the posterior of the labels alone: what the network says is in the matrices."""
        column = columns_of(self.through, batch)
        return posterior(_log(self.shares).view(-1, *(1,) * (column.ndim - 3)), column)


def _log(values: Tensor) -> Tensor:
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


def columns_of(matrices: Tensor, batch: Batch) -> Tensor:
    """Return `log C_r[t, o_r]` at the labels of a batch, `(batch, answers, L, *space)`."""
    return log_column(SharedConfusion(_log(matrices)[None]), batch["labels"], batch.get("raters"))


_NONE = 1e-6  # labels: no more than rounding where posteriors are zero


def rows_from(counts: Tensor, given: float) -> Tensor:
    """Divide counts `(raters, L, L)` by the labels of each row; without any it is the identity.

    Args:
        counts: Of labels.
        given: How many more labels each row has, spread over all classes alike.

    Example:
        >>> rows_from(torch.tensor([[[3.0, 1.0], [0.0, 0.0]]]), 0.0)
        tensor([[[0.7500, 0.2500],
                 [0.0000, 1.0000]]])
        >>> rows_from(torch.tensor([[[3.0, 1.0], [0.0, 0.0]]]), 1.0)
        tensor([[[0.7000, 0.3000],
                 [0.5000, 0.5000]]])
    """
    classes = counts.shape[2]
    total = counts.sum(2, keepdim=True) + given
    identity = torch.eye(classes, dtype=counts.dtype, device=counts.device)
    return torch.where(total > _NONE, (counts + given / classes) / total, identity)


def rounds(
    epochs: int, usual: int, steps: int | None = None, length: int | None = None
) -> list[int]:
    """Return the first epoch (from 0) of each EM round.

    Args:
        epochs: How many are trained.
        usual: How many rounds there are if nothing is given, and if there are enough epochs.
        steps: How many rounds (T).
        length: Epochs of a round (G), the last of which takes what is left; None to share out all
            epochs evenly.

    Raises:
        RatersError: There are too few epochs.

    Example:
        >>> rounds(20, 2), rounds(20, 2, steps=4), rounds(20, 2, length=8), rounds(1, 2)
        ([0, 10], [0, 5, 10, 15], [0, 8, 16], [0])
        >>> rounds(20, 2, steps=2, length=3)
        [0, 3]
    """
    needed = (steps or 1) * (length or 1)
    if steps and steps > 1 and needed > epochs:
        each = "one epoch" if length is None else many(length, "epoch")
        raise RatersError(
            f"found {many(epochs, 'epoch')}, expected at least {needed}: em_steps={steps} rounds "
            f"of {each} each"
        )
    if length is None:
        number = steps or max(1, min(usual, epochs))
        return [epochs * k // number for k in range(number)]
    number = steps or max(1, -(-epochs // length))
    return [length * k for k in range(number)]
