"""Weights of a model folder: written whole, read without running code, compared before use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from raters.errors import RatersError
from raters.study.paths import refuse_special, written_whole

if TYPE_CHECKING:
    from raters.methods.base import Method
    from raters.training.config import ModelConfig

Shapes = dict[str, tuple[int, ...]]


def write_weights(path: Path, method: Method) -> None:
    """Write the weights of a method as safetensors, whole or not at all."""
    from safetensors.torch import save

    state = {k: v.contiguous().cpu() for k, v in method.state_dict().items()}
    with written_whole(path, "wb") as file:
        file.write(save(state))


def build_with_weights(config: ModelConfig, path: Path) -> Method:
    """Make the method that a configuration describes, with weights from a file.

    The file's header is compared with the configuration first, on tensors that take no memory: a
    configuration of absurd sizes is refused before anything of that size is made.

    Raises:
        RatersError: The file is no safetensors file, or does not fit the configuration.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    shapes = _shapes_in(path)
    _refuse_absurd(config, shapes, path)
    _refuse_other(_outline(config, path), shapes, path)
    method: Method = config.build()
    try:
        method.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise _unreadable(path, error) from None
    _refuse_not_finite(method, path)
    return method


def _shapes_in(path: Path) -> Shapes:
    """Read the names and shapes of all weights; safetensors checks them against the file's size."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise RatersError(
            "there is no such file, expected safetensors weights", kind="missing-file", file=path
        )
    refuse_special(path)
    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None


def _refuse_absurd(config: ModelConfig, shapes: Shapes, path: Path) -> None:
    """Refuse sizes that no network with these weights can have, before it is outlined."""
    longest = max((side for shape in shapes.values() for side in shape), default=0)
    # A network may have no layer of its width (a perceptron without hidden layers).
    for name, most in (("depth", max(len(shapes), 50)), ("width", max(longest, 1024))):
        found = getattr(config.network, name)
        if found is not None and found > most:
            raise RatersError(
                f"found {name} {found} in the configuration, expected at most {most} "
                "for these weights",
                kind="weights",
                file=path,
            )


def _outline(config: ModelConfig, path: Path) -> Shapes:
    """Return the shapes of all weights of a configuration, on a device that holds no numbers."""
    try:
        with torch.device("meta"):
            method = config.build()
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise RatersError(
            f"found sizes in the configuration that cannot be built ({why}), expected those of "
            "the weights",
            kind="weights",
            file=path,
        ) from None
    return {name: tuple(tensor.shape) for name, tensor in method.state_dict().items()}


def _refuse_other(expected: Shapes, found: Shapes, path: Path) -> None:
    for name, shape in expected.items():
        if found.get(name) != shape:
            there = found.get(name, "nothing")
            raise RatersError(
                f"found {there} for the weight {name!r}, expected {shape}",
                kind="weights",
                file=path,
            )
    extra = sorted(set(found) - set(expected))
    if extra:
        raise RatersError(
            f"found the weight {extra[0]!r}, expected none of this name", kind="weights", file=path
        )


def _refuse_not_finite(method: Method, path: Path) -> None:
    for name, tensor in method.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise RatersError(
                f"found NaN or infinity in the weight {name!r}, expected finite numbers",
                kind="weights",
                file=path,
            )


def _unreadable(path: Path, error: Exception) -> RatersError:
    why = f"cannot be read ({error}), expected safetensors weights"
    return RatersError(why, kind="unreadable", file=path)
