"""Torch programs: a graph and its weights in one `.pt2` file that loads without raters."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from raters.errors import RatersError
from raters.export.truth import Truth, example, measured

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
    with quiet():
        torch.export.save(program, path, extra_files=extra)


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
