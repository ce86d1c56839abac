"""Training rater models behind a truth network that stays as it is, and putting two together."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from raters.methods.base import Batch, HeldOut, Method, Step
from raters.methods.confusion_method import ConfusionMethod
from raters.rater_models import LowRankRaters, RaterModel


def join_raters(old: RaterModel, new: RaterModel) -> dict[str, Tensor]:
    """Return the weights of a rater model for the raters of two.

    The first axis of all weights counts raters; that of low-rank models counts them anew in each
    of their parts.

    Example:
        >>> from raters.rater_models import GlobalRaters
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
    if not isinstance(model, LowRankRaters):
        return (weights,)
    return torch.split(weights, [prod(shape) for shape in model.shapes])


class FrozenTruth(Method):
    """A method for new raters whose truth network is trained already and stays as it is.

    Attributes:
        method: The method for the new raters.
    """

    def __init__(self, method: ConfusionMethod, trained: Method) -> None:
        super().__init__(method.task, method.options)
        assert isinstance(trained, ConfusionMethod)
        method.network.load_state_dict(trained.network.state_dict())
        method.network.requires_grad_(False)
        self.method = method

    def train(self, mode: bool = True) -> FrozenTruth:
        """Train the rater model only: the network drops nothing out and counts no moments."""
        super().train(mode)
        self.method.network.eval()
        return self

    def start_epoch(self, epoch: int) -> None:
        """Tell the method which epoch begins."""
        self.method.seed = self.seed
        self.method.start_epoch(epoch)

    def matrix_parameters(self) -> list[torch.nn.Parameter]:
        """Return the parameters of matrices that all pixels share."""
        return self.method.matrix_parameters()

    def step(self, batch: Batch) -> Step:
        """Return the loss of a batch."""
        return self.method.step(batch)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the held-out likelihood alone: with a fixed truth nothing must be dominant."""
        return replace(self.method.held_out(batch), confusion=None, pixels=None)
