"""`metadata.json` of a MONAI bundle, after MONAI's schema."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from raters.export.truth import Truth
from raters.training.config import ModelConfig
from raters.version import __version__

SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)
_UNTOLD = "unknown: fill it in before you share this bundle"


def bundle_metadata(truth: Truth) -> dict[str, Any]:
    """Return the metadata of a bundle.

    What a model cannot know (authors, data, licence) is left to be filled in by a person.
    """
    config = truth.config
    classes = ", ".join(f"{k} is {c.name}" for k, c in enumerate(config.classes))
    return {
        "schema": SCHEMA,
        "version": "0.1.0",
        "changelog": {"0.1.0": f"exported by raters {__version__}"},
        "monai_version": _version("monai"),
        "pytorch_version": _version("torch"),
        "numpy_version": _version("numpy"),
        "required_packages_version": {
            name: _version(name) for name in ("pytorch-ignite", *_readers(config))
        },
        "optional_packages_version": {},
        "name": f"{config.network.name} trained by {config.method}",
        "task": f"{config.kind} of {config.spatial_dims}D images: {_names(config)}",
        "description": (
            f"A {config.network.name} that predicts the consensus behind labels of "
            f"{len(config.raters)} raters who disagree, trained by the method {config.method}"
        ),
        "authors": _UNTOLD,
        "copyright": _UNTOLD,
        "data_source": _UNTOLD,
        "data_type": " or ".join(_readers(config)),
        "image_classes": f"{config.channels} channels; {truth.metadata['normalisation']['how']}",
        "label_classes": f"single channel of class numbers: {classes}",
        "pred_classes": f"{len(config.classes)} channels of probabilities: channel {classes}",
        "eval_metrics": {},
        "intended_use": "Research. It is not a medical device.",
        "references": [],
        "network_data_format": {"inputs": _inputs(config), "outputs": _outputs(config)},
        "raters": truth.metadata,
    }


def _inputs(config: ModelConfig) -> dict[str, Any]:
    channels = {
        str(k): "image" if config.channels == 1 else f"channel {k}" for k in range(config.channels)
    }
    return {
        "image": {
            "type": "image",
            "format": "magnitude",
            "modality": "n/a",
            "num_channels": config.channels,
            "spatial_shape": ["*"] * config.spatial_dims,
            "dtype": "float32",
            "value_range": [],
            "is_patch_data": config.patch_size is not None,
            "channel_def": channels,
        }
    }


def _outputs(config: ModelConfig) -> dict[str, Any]:
    masks = config.kind == "segmentation"
    return {
        "pred": {
            "type": "image" if masks else "probabilities",
            "format": "segmentation" if masks else "classes",
            "num_channels": len(config.classes),
            "spatial_shape": ["*"] * config.label_spatial_dims,
            "dtype": "float32",
            "value_range": [0, 1],
            "is_patch_data": masks and config.patch_size is not None,
            "channel_def": {str(k): c.name for k, c in enumerate(config.classes)},
        }
    }


def _names(config: ModelConfig) -> str:
    return ", ".join(c.name for c in config.classes)


def _readers(config: ModelConfig) -> tuple[str, ...]:
    return ("nibabel",) if config.spatial_dims == 3 else ("nibabel", "pillow")


def _version(package: str) -> str:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "0.4.11" if package == "pytorch-ignite" else ""  # the least that MONAI asks for
