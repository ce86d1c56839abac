"""MONAI bundles: a folder that MONAI runs on images, from reading to writing, without raters.

The network is a program of torch.export beside its weights, not a `_target_` of MONAI's: the
networks here are put together of MONAI's blocks, which no class of MONAI's builds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raters.errors import RatersError
from raters.export.bundle_inference import inference_of
from raters.export.bundle_metadata import bundle_metadata
from raters.export.bundle_texts import LICENCE, readme
from raters.export.program import program_of, quiet, write_program
from raters.export.truth import Truth
from raters.export.verify import measured


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
