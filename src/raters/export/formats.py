"""All formats by name; a new one is a file with a function `write`, and a line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.export.truth import Truth


@dataclass(frozen=True)
class Format:
    """A format that models can be exported to.

    Attributes:
        name: What users call it.
        suffix: What the name of the file must end in; empty for a folder.
        module: The module beside this whose `write(truth, path)` writes it, and gives the largest
            difference from the model's own prediction (None if it could not be measured).
        inside: Whether the normalisation can be put into the exported network.
        packages: What must be installed beside torch.
    """

    name: str
    suffix: str
    module: str
    inside: bool = True
    packages: tuple[str, ...] = ()

    def write(self, truth: Truth, path: Path) -> float | None:
        """Write a truth network to a path that does not exist yet."""
        found: float | None = import_module(f"raters.export.{self.module}").write(truth, path)
        return found

    def refuse_missing_packages(self) -> None:
        """Reject if something is not installed."""
        for package in self.packages:
            if find_spec(package) is None:
                raise RatersError(
                    f"found no {package}, expected pip install 'raters[export]'", kind="missing"
                )


FORMATS: dict[str, Format] = {
    "onnx": Format("onnx", ".onnx", "onnx_file", packages=("onnx", "onnxscript")),
    "torch": Format("torch", ".pt2", "program"),
    "monai-bundle": Format("monai-bundle", "", "monai_bundle", inside=False),
}


def format_named(name: str) -> Format:
    """Return a format.

    Raises:
        RatersError: that lists all formats.

    Example:
        >>> format_named("onnx").suffix
        '.onnx'
    """
    if name in FORMATS:
        return FORMATS[name]
    raise RatersError(f"found the format {name!r}, expected one of {', '.join(FORMATS)}")
