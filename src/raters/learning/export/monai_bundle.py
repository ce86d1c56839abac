"""MONAI bundles: a folder that MONAI runs on images, from reading to writing, without raters.

The network is a program of torch.export beside its weights, not a `_target_` of MONAI's: the
networks here are put together of MONAI's blocks, which no class of MONAI's builds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raters.core.errors import RatersError
from raters.learning.export.program import program_of, quiet, write_program
from raters.learning.export.truth import Truth, measured
from raters.learning.training.config import ModelConfig
from raters.version import __version__

SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)
_UNTOLD = "unknown: fill it in before you share this bundle"
LICENCE = """\
No licence has been given to this bundle yet.

The weights were learnt from somebody's images and somebody's labels. Whoever exported this bundle
must say here under which terms it may be used before passing it on.
"""
_ALWAYS_ZERO = 1e30  # MONAI takes a divisor of 0 for 1, but a constant channel becomes 0 here


def write(truth: Truth, path: Path) -> float:
    """Write a bundle, load its network as MONAI would, and measure how far it is from the model."""
    if not truth.config.spatial_dims:
        raise RatersError(
            "found a model of feature vectors, expected one of images for a MONAI bundle: export "
            "it to onnx or torch",
            kind="export",
        )
    for folder in ("configs", "models", "docs"):
        (path / folder).mkdir(parents=True)
    write_program(program_of(truth), truth, path / "models/model.pt2")
    torch.save(truth.network.state_dict(), path / "models/model.pt")
    _write_json(path / "configs/metadata.json", bundle_metadata(truth))
    inference = inference_of(truth)
    _write_json(path / "configs/inference.json", inference)
    (path / "docs/README.md").write_text(readme(truth), encoding="utf-8")
    (path / "LICENSE").write_text(LICENCE, encoding="utf-8")
    return measured(truth, _network(path, inference), "the bundle")


def _network(path: Path, inference: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """Make the network as the bundle's own configuration says, with the weights of model.pt."""
    with quiet():
        from monai.bundle.config_parser import ConfigParser

        parser = ConfigParser({**inference, "bundle_root": str(path)})
        network: torch.nn.Module = parser.get_parsed_content("network_def")
    network.load_state_dict(torch.load(path / "models/model.pt", weights_only=True))
    return network.eval()


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


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
        "task": f"{config.kind} of {config.spatial_dims}D images: "
        + ", ".join(c.name for c in config.classes),
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


def _readers(config: ModelConfig) -> tuple[str, ...]:
    return ("nibabel",) if config.spatial_dims == 3 else ("nibabel", "pillow")


def _version(package: str) -> str:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "0.4.11" if package == "pytorch-ignite" else ""  # the least that MONAI asks for


def readme(truth: Truth) -> str:
    """Return what a bundle is and how it is run."""
    config = truth.config
    metadata = truth.metadata
    ending = "nii.gz" if config.spatial_dims == 3 else "png"
    written = "predictions/predictions.csv" if config.kind == "classification" else "predictions/"
    classes = "\n".join(f"| {k} | {c.name} | {c.value} |" for k, c in enumerate(config.classes))
    return f"""\
# {config.network.name} trained by {config.method}
Predicts the consensus of labels by {len(config.raters)} raters who disagree. Exported by raters \
{metadata["raters_version"]}; raters is not needed to run it.

    pip install monai pytorch-ignite nibabel pillow fire
    python -m monai.bundle run --config_file configs/inference.json --dataset_dir IMAGES

reads `IMAGES/*.{ending}` and writes `{written}` (run it in this folder, or add `--bundle_root`). \
`--output_dir`, `--output_ext` and `--datalist` change what is read and written.

| channel | class | value in files |
| --- | --- | --- |
{classes}

- Images: {config.channels} channels. `configs/inference.json` normalises them as in training \
({config.normaliser().mode}); the network alone has normalised images as its input, of any size.
- Windows: {metadata["windows"]}.
- Geometry: images are neither turned nor resampled; give them as those trained on.
- `models/model.pt2` is the network (a program of torch.export), `models/model.pt` its weights \
(`torch.load(..., weights_only=True)`).
"""


def inference_of(truth: Truth) -> dict[str, Any]:
    """Return the configuration of a bundle that predicts a folder of images.

    The geometry of the files is kept: nothing is turned or resampled, as in raters.
    """
    config = truth.config
    ending = "nii.gz" if config.spatial_dims == 3 else "png"
    return {
        "imports": ["$import glob", "$import os"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/predictions'",
        "output_ext": f".{ending}",
        "output_dtype": _number_type(config),
        "datalist": f"$sorted(glob.glob(os.path.join(@dataset_dir, '*.{ending}')))",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": "$torch.export.unflatten("
        "torch.export.load(@bundle_root + '/models/model.pt2'))",
        "network": "$@network_def.to(@device)",
        "preprocessing": {"_target_": "Compose", "transforms": _before(config)},
        "dataset": {
            "_target_": "Dataset",
            "data": "$[{'image': i} for i in @datalist]",
            "transform": "@preprocessing",
        },
        "dataloader": {
            "_target_": "DataLoader",
            "dataset": "@dataset",
            "batch_size": 1,
            "shuffle": False,
            "num_workers": 0,
        },
        **_inferer(config),
        **_after(config),
        "handlers": [{"_target_": "StatsHandler", "iteration_log": False}],
        "evaluator": {
            "_target_": "SupervisedEvaluator",
            "device": "@device",
            "val_data_loader": "@dataloader",
            "network": "@network",
            "inferer": "@inferer",
            "postprocessing": "@postprocessing",
            "val_handlers": "@handlers",
            "amp": False,
        },
        "checkpointloader": {
            "_target_": "CheckpointLoader",
            "load_path": "$@bundle_root + '/models/model.pt'",
            "load_dict": {"model": "@network"},
        },
        "initialize": ["$@checkpointloader(@evaluator)", *_rows_first(config)],
        "run": ["$@evaluator.run()"],
    }


def _rows_first(config: ModelConfig) -> list[str]:
    """Write pictures as they were read: MONAI's own order of their axes is columns first."""
    if config.spatial_dims != 2 or config.kind == "classification":
        return []
    option = "{} if '.nii' in @output_ext else {'reverse_indexing': False}"
    return [f"$@save.set_options(write_kwargs={option})"]


def _before(config: ModelConfig) -> list[dict[str, Any]]:
    load: dict[str, Any] = {"_target_": "LoadImaged", "keys": "image"}
    if config.spatial_dims == 2:  # rows first
        load["reader"] = {"_target_": "PILReader", "reverse_indexing": False}
    return [
        load,
        {"_target_": "EnsureChannelFirstd", "keys": "image"},
        {"_target_": "EnsureTyped", "keys": "image", "dtype": "$torch.float32"},
        *_normalise(config),
    ]


def _normalise(config: ModelConfig) -> list[dict[str, Any]]:
    how = config.normaliser()
    if how.mode == "none":
        return []
    values = {}
    if how.mode == "study":
        values = {"subtrahend": list(how.mean), "divisor": [s or _ALWAYS_ZERO for s in how.std]}
    step = {"_target_": "NormalizeIntensityd", "keys": "image", "channel_wise": True}
    return [{**step, **values}]


def _inferer(config: ModelConfig) -> dict[str, Any]:
    if config.patch_size is None:
        return {"inferer": {"_target_": "SimpleInferer"}}
    # No SlidingWindowInferer: it pads an image that is smaller than the window with zeros.
    sides = "[min(side, most) for side, most in zip(inputs.shape[2:], @patch_size)]"
    return {
        "patch_size": list(config.patch_size),
        "inferer": "$lambda inputs, network, *args, **kwargs: "
        f"monai.inferers.sliding_window_inference(inputs, {sides}, 4, network, 0.25, 'gaussian')",
    }


def _after(config: ModelConfig) -> dict[str, Any]:
    """Return the steps that make a file of probabilities."""
    best = {"_target_": "AsDiscreted", "keys": "pred", "argmax": True}
    rest = _to_table() if config.kind == "classification" else [*_values(config), "@save"]
    post = {"postprocessing": {"_target_": "Compose", "transforms": [best, *rest]}}
    return post if config.kind == "classification" else {"save": _SAVE, **post}


_SAVE = {
    "_target_": "SaveImaged",
    "keys": "pred",
    "output_dir": "@output_dir",
    "output_ext": "@output_ext",
    "output_postfix": "",
    "output_dtype": "@output_dtype",
    "separate_folder": False,
    "resample": False,
    "print_log": False,
}


def _number_type(config: ModelConfig) -> str:
    values = [c.value for c in config.classes if isinstance(c.value, int)]
    small = max(values, default=0) < 256 and min(values, default=0) >= 0
    wide = "int32" if config.spatial_dims == 3 else "uint16"  # what pictures can hold
    return "$numpy." + ("uint8" if small else wide)


def _values(config: ModelConfig) -> list[dict[str, Any]]:
    """Turn numbers of classes into the values that stand for them in files."""
    values = [c.value for c in config.classes]
    numbers = list(range(len(values)))
    if values == numbers or not all(isinstance(value, int) for value in values):
        return []
    names = {"orig_labels": numbers, "target_labels": values}
    return [{"_target_": "MapLabelValued", "keys": "pred", **names}]


def _to_table() -> list[dict[str, Any]]:
    return [
        {"_target_": "FromMetaTensord", "keys": "image"},
        {
            "_target_": "SaveClassificationd",
            "keys": "pred",
            "meta_keys": "image_meta_dict",
            "output_dir": "@output_dir",
            "filename": "predictions.csv",
            "overwrite": True,
        },
    ]
