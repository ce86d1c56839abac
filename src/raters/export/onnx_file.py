"""ONNX files: for ONNX Runtime and all that reads the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export import ExportedProgram

from raters.errors import RatersError
from raters.export.program import first_line, program_of, quiet
from raters.export.truth import Truth, measured


def write(truth: Truth, path: Path) -> float | None:
    """Write an ONNX file; measured only where ONNX Runtime is installed."""
    import onnx

    proto = proto_of(program_of(truth), truth)
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in truth.metadata.items()}
    onnx.helper.set_model_props(proto, texts)
    onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString())
    if find_spec("onnxruntime") is None:
        return None
    return measured(truth, runner(path), "the ONNX file")


def proto_of(program: ExportedProgram, truth: Truth) -> Any:  # noqa: ANN401
    """Turn a program into an ONNX model.

    Raises:
        RatersError: Some operation has no ONNX form; says which.
    """
    inputs, outputs = truth.metadata["input"], truth.metadata["output"]
    try:
        with quiet():
            found = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=[inputs["name"]],
                output_names=[outputs["name"]],
            )
    except Exception as error:
        raise RatersError(
            f"found the network {truth.config.network.name!r}, which has no ONNX form "
            f"({first_line(error)}), expected another network, or the format torch",
            kind="export",
        ) from error
    assert found is not None  # as a program was given
    proto = found.model_proto
    _name_axes(proto.graph.input[0], inputs["shape"])
    _name_axes(proto.graph.output[0], outputs["shape"])
    _forget(proto.graph)
    return proto


def _name_axes(value: Any, shape: Sequence[str | int]) -> None:  # noqa: ANN401
    """Return the axes of an input or output names that users understand."""
    for axis, name in zip(value.type.tensor_type.shape.dim, shape, strict=True):
        if isinstance(name, str):
            axis.dim_param = name


def _forget(graph: Any) -> None:  # noqa: ANN401
    """Take out the exporter's notes: they name folders of this machine and other axes."""
    del graph.value_info[:]
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]


def runner(path: Path) -> Callable[[Tensor], Tensor]:
    """Open an ONNX file with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(image: Tensor) -> Tensor:
        found: np.ndarray = session.run(None, {name: image.numpy()})[0]
        return torch.from_numpy(found)

    return run
