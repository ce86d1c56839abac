"""Models with random weights, which predict something without any training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from raters.learning.methods.registry import learning_method
from raters.learning.networks import NetworkOptions
from raters.learning.training.config import ClassEntry, ModelConfig
from raters.learning.training.model import Model
from raters.learning.training.options import TrainingOptions

RATERS = ("ann", "../x", "bob")


def apply_matrix(method: str, truth: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return what a rater says, of the truth `(L, *space)` and a matrix `(L, L, *space or 1)`.

    That is a mean over the true class, but for crowd-layer, which has the geometric mean.
    """
    if method != "crowd-layer":
        return np.asarray((truth[:, np.newaxis] * matrix).sum(axis=0))
    means = np.exp((truth[:, np.newaxis] * np.log(matrix)).sum(axis=0))
    return np.asarray(means / means.sum(axis=0))


def make_model(
    method: str = "pixel-cm",
    *,
    spatial_dims: int = 2,
    channels: int = 1,
    values: tuple[int | str, ...] = (0, 4),
    patch_size: tuple[int, ...] | None = None,
    raters: tuple[str, ...] = RATERS,
    kind: Any = "segmentation",
    normalisation: dict[str, Any] | None = None,
    norm: Any = "instance",
) -> Model:
    """Make a small model whose weights are random, those of the matrices too."""
    network = NetworkOptions(name="unet", width=2, depth=2, norm=norm)
    if kind == "classification":
        network = NetworkOptions(name="cnn" if spatial_dims else "mlp", width=4)
    options = learning_method(method).parse({}).model_dump()
    config = ModelConfig(
        method=method,
        options=options,
        training=TrainingOptions(epochs=2),
        network=network,
        kind=kind,
        raters=raters,
        classes=tuple(ClassEntry(name=f"class {v}", value=v) for v in values),
        channels=channels,
        spatial_dims=spatial_dims,
        patch_size=patch_size,
        normalisation=normalisation or {"mode": "case", "mean": [], "std": []},
    )
    torch.manual_seed(0)
    built = config.build()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        for name, buffer in built.named_buffers():
            if name == "rater_matrices":
                buffer.copy_(torch.rand_like(buffer).softmax(-1))
    return Model(built.eval(), config)
