"""The truth network as a graph: torch programs that load without raters, and ONNX files of them."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export import ExportedProgram

from raters.core.errors import RatersError
from raters.learning.export.truth import Truth, example, measured

METADATA = "raters.json"


def write(truth: Truth, path: Path) -> float:
    """Write a program, read it again, and measure how far it is from the model."""
    write_program(program_of(truth), truth, path)
    with quiet():
        program = torch.export.load(path)
    return measured(truth, program.module(), "the torch program")


def write_program(program: ExportedProgram, truth: Truth, path: Path) -> None:
    """Write a program with its metadata beside it."""
    extra = {METADATA: json.dumps(truth.metadata, indent=2)}
    content = BytesIO()
    with quiet():
        torch.export.save(program, content, extra_files=extra)
    # Not by torch itself, which ends the whole process where the disk is full.
    path.write_bytes(content.getbuffer())


def program_of(truth: Truth) -> ExportedProgram:
    """Capture a network as a graph for any number of images of any size.

    Raises:
        RatersError: torch cannot capture it; says why.
    """
    import torch.fx.experimental._config as settings

    size = torch.export.Dim.DYNAMIC
    axes = dict.fromkeys([0, *range(2, 2 + truth.config.spatial_dims)], size)
    try:
        # Without this setting sizes of 1, and sizes that need no padding, would be other programs.
        with quiet(), settings.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
            program = torch.export.export(truth.network, (example(truth),), dynamic_shapes=(axes,))
    except Exception as error:
        raise RatersError(
            f"found the network {truth.config.network.name!r}, which torch.export cannot capture "
            f"({first_line(error)}), expected one without branches on its input",
            kind="export",
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it names folders of this machine
    return program


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch from warning of its own insides, which users can do nothing about."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def first_line(error: Exception) -> str:
    """Return the first line of what torch says, which can be pages."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def write_onnx(truth: Truth, path: Path) -> float | None:
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
    inputs = truth.metadata["input"]
    outputs = truth.metadata["output"]
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
    """Name the axes of an input or output so that users understand them."""
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
