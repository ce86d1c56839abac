"""Small networks, methods, labels and trainings that the tests of learning share."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import raters
from raters.core.classes import MISSING
from raters.learning.methods import learning_method
from raters.learning.methods.base import Task
from raters.learning.networks import NetworkOptions, TruthNetwork, build_backbone
from raters.simulation import phantom_study, simulate
from raters.study.study import Study


def small_network(
    dims: int, *, channels: int = 2, classes: int = 3, width: int = 2
) -> TruthNetwork:
    """Build a network of patches for images, and of two layers for features."""
    options = NetworkOptions("mlp", 4, 1)
    if dims:
        options = NetworkOptions("patch-cnn", width, 1, "none")
    return TruthNetwork(build_backbone(options, channels, dims), classes, dims)


def small_task(
    dims: int,
    *,
    raters: Sequence[str] = ("a", "b", "c"),
    channels: int = 2,
    classes: int = 3,
    width: int = 2,
    **more: Any,
) -> Task:
    """Describe a study of masks, or of answers where there are no spatial axes."""
    network = functools.partial(
        small_network, dims, channels=channels, classes=classes, width=width
    )
    kind: Any = "segmentation" if dims else "classification"
    return Task(kind, tuple(raters), classes, dims, network, channels=channels, **more)


def build_method(
    name: str,
    task: Task,
    options: Mapping[str, Any],
    *,
    seed: int,
    dtype: torch.dtype = torch.float32,
    noise: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Any:
    """Build a method, and move its weights by noise: heads that start at zero hide their inputs."""
    entry = learning_method(name)
    torch.manual_seed(seed)
    method = entry.load()(task, entry.parse(options)).to(dtype)
    if class_weights is not None:
        method.class_weights.copy_(torch.as_tensor(class_weights))
    if noise:
        add_noise(method, noise)
    return method


def add_noise(module: torch.nn.Module, scale: float) -> None:
    """Move all weights by normal noise, from the generator of torch as it stands."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += scale * torch.randn_like(parameter)


def quiet_fit(study: Study, method: str | None = None, **options: Any) -> raters.Model:
    """Train, without the warning that short trainings bring."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the raters' mean matrix")
        return raters.fit(study, method, **options)


def simulate_masks(
    number: int,
    shape: tuple[int, ...],
    kinds: str,
    *,
    assign: int | Literal["all"] = "all",
    has_reference: bool = False,
    **more: Any,
) -> Study:
    """Simulate masks of lesions by raters of some kinds; `more` are other parts of the study."""
    simulated = simulate(phantom_study("lesions", number, shape), kinds, assign=assign, seed=1)
    cases = list(simulated.iter_cases())
    if has_reference:
        more["reference"] = np.stack([case.reference for case in cases])
    return Study.from_arrays(
        images=np.stack([np.asarray(case.image) for case in cases]),
        labels=np.stack([case.labels for case in cases]),
        **more,
    )


def draw_normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw normal numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def draw_labels(*shape: int, classes: int = 3, missing: float = 0.3, seed: int = 1) -> Tensor:
    """Draw labels `(batch, raters, *space)`, some of them missing."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, shape, generator=generator)
    return labels.masked_fill(torch.rand(shape, generator=generator) < missing, MISSING)


def flatten_pixels(values: Tensor) -> NDArray[Any]:
    """Return `(batch, channels, pixels)`."""
    return values.detach().reshape(*values.shape[:2], -1).numpy()


def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities over the last axis."""
    positive = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(positive / positive.sum(-1, keepdims=True))


def equal_items(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Say whether two items of a data set have the same numbers, of the same types."""
    if a.keys() != b.keys():
        return False
    for name, value in a.items():
        if np.asarray(value).dtype != np.asarray(b[name]).dtype:
            return False
        if not np.array_equal(value, b[name]):
            return False
    return True


def without_times(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a history without what differs from one run to the next."""
    return [
        {name: value for name, value in row.items() if name not in ("seconds", "waiting")}
        for row in history
    ]
