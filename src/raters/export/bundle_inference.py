"""`inference.json` of a MONAI bundle: read, normalise, predict, write."""

from __future__ import annotations

from typing import Any

from raters.export.truth import Truth
from raters.training.config import ModelConfig

_ALWAYS_ZERO = 1e30  # MONAI takes a divisor of 0 for 1, but a constant channel becomes 0 here


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
