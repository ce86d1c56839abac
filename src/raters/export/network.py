"""The network that is exported: images in, class probabilities out, for any size of image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.networks import TruthNetwork
from raters.networks.backbone import Backbone


class ExportNetwork(nn.Module):
    """Normalises, pads, runs one or several truth networks, and averages their probabilities.

    It gives what `TruthNetwork` gives, written without a branch on the size of the image: a branch
    would be frozen the way that the image of the export took it.

    Args:
        normalise: What an image goes through first.
        networks: The truth networks.

    Example:
        >>> from raters.networks import NetworkOptions, build_backbone
        >>> backbone = build_backbone(NetworkOptions("unet", width=2, depth=2), 1, 2)
        >>> network = ExportNetwork(nn.Identity(), [TruthNetwork(backbone, 3, 2)])
        >>> network(torch.zeros(2, 1, 9, 5)).shape
        torch.Size([2, 3, 9, 5])
    """

    def __init__(self, normalise: nn.Module, networks: list[TruthNetwork]) -> None:
        super().__init__()
        self.normalise = normalise
        self.networks = nn.ModuleList(networks)

    def forward(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, classes, *space)`."""
        ready = self.normalise(image)
        found = [_truth(network, ready) for network in self.networks]
        return found[0] if len(found) == 1 else torch.stack(found).mean(0)


def _truth(network: nn.Module, image: Tensor) -> Tensor:
    assert isinstance(network, TruthNetwork)
    backbone = network.backbone
    before, after = _margins(image, backbone)
    if backbone.divisor > 1 or backbone.least > 1:
        # torch names the last axis first
        sides = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
        padded = pad(image, sides, mode="replicate") if sides else image
    else:
        padded = image
    truth: Tensor = network.head(backbone(padded)).softmax(1)
    if backbone.dense:
        for axis, margin in enumerate(before, start=2):
            truth = truth.narrow(axis, margin, image.shape[axis])
    return truth


def _margins(image: Tensor, backbone: Backbone) -> tuple[list[int], list[int]]:
    """Return how many pixels are missing before and after each axis."""
    step, before, after = backbone.divisor, [], []
    for side in image.shape[2:]:
        # sym_max is max for sizes that are not known yet
        padded: int = torch.sym_max(  # type: ignore[no-untyped-call]
            (side + step - 1) // step * step, backbone.least
        )
        missing = padded - side
        before.append(missing // 2)
        after.append(missing - missing // 2)
    return before, after
