"""What users of an exported network must know, as plain values."""

from __future__ import annotations

from typing import Any

from raters.training.config import ModelConfig
from raters.version import __version__


def describe(config: ModelConfig, inside: bool, divisor: int, least: int) -> dict[str, Any]:
    """Describe a truth network. Raters are not named: it is a network of the truth.

    Args:
        config: The model.
        inside: Whether it normalises images itself.
        divisor: What its sides are padded to a multiple of.
        least: The smallest side that it pads to.
    """
    mode = config.normaliser().mode
    raw = inside or mode == "none"
    space = [f"side_{axis}" for axis in range(config.spatial_dims)]
    out = space if config.label_spatial_dims else []
    return {
        "raters_version": __version__,
        "method": config.method,
        "network": config.network.name,
        "kind": config.kind,
        "classes": [{"name": c.name, "value": c.value} for c in config.classes],
        "input": {
            "name": "image" if raw else "normalised_image",
            "dtype": "float32",
            "shape": ["batch", config.channels, *space],
            "meaning": ("values as in the files" if raw else "normalised, see normalisation.how")
            + "; "
            + _sides(config.spatial_dims, divisor, least),
        },
        "output": {
            "name": "truth",
            "dtype": "float32",
            "shape": ["batch", len(config.classes), *out],
            "meaning": "the probability of each class, in the order of classes; they sum to one",
        },
        "normalisation": {**config.normalisation, "inside": inside, "how": _how(mode, inside)},
        "patch_size": None if config.patch_size is None else list(config.patch_size),
        "windows": _windows(config),
    }


def _sides(spatial_dims: int, divisor: int, least: int) -> str:
    if not spatial_dims:
        return "one vector of features per case"
    if divisor == least == 1:
        return "any sides"
    return (
        f"any sides: they are padded inside to multiples of {divisor}, at least {least}, by "
        "repeating the edge"
    )


def _how(mode: str, inside: bool) -> str:
    if mode == "none":
        return "none: the network takes the values of the files as they are"
    own = "each image's own, over all of its pixels" if mode == "case" else "given here"
    rule = f"(image - mean) / std, a channel at a time, mean and std {own}; 0 where std is 0"
    if not inside:
        return f"not part of the network, do it first: {rule}"
    whole = "; give whole images, not windows" if mode == "case" else ""
    return f"part of the network, give it the values of the files: {rule}{whole}"


def _windows(config: ModelConfig) -> str:
    if config.patch_size is None:
        return "none: give whole images"
    sides = " x ".join(map(str, config.patch_size))
    return (
        f"trained on patches of {sides}: larger images are predicted in windows of this size (or "
        "the image's own side, where that is smaller) that overlap by a quarter, blended by a "
        "Gaussian, as MONAI's sliding_window_inference does"
    )
