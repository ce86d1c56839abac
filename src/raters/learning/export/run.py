"""`export`: writes a model in a format that is used without raters; a new one is a line here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.core.errors import RatersError, one_of
from raters.io.paths import temporary_beside
from raters.study.places import Inputs

if TYPE_CHECKING:
    from raters.learning.export.truth import Place, Truth
    from raters.learning.training.model import Model


@dataclass(frozen=True)
class Format:
    """A format that models can be exported to.

    Attributes:
        name: What users call it.
        suffix: What the name of the file must end in; empty for a folder.
        where: The function `module:name` of `raters.learning.export` that writes a truth network
            to a path, and returns the largest difference from the model's own prediction (None if
            it was not measured).
        inside: Whether the normalisation can be put into the exported network.
        packages: What must be installed beside torch.
    """

    name: str
    suffix: str
    where: str
    inside: bool = True
    packages: tuple[str, ...] = ()

    def write(self, truth: Truth, path: Path) -> float | None:
        """Write a truth network to a path that does not exist yet."""
        module, name = self.where.split(":")
        found: float | None = getattr(import_module(f"raters.learning.export.{module}"), name)(
            truth, path
        )
        return found

    def refuse_missing_packages(self) -> None:
        """Reject if something is not installed."""
        for package in self.packages:
            if find_spec(package) is None:
                raise RatersError(
                    f"found no {package}, expected pip install 'raters[export]'", kind="missing"
                )


FORMATS: dict[str, Format] = {
    "onnx": Format("onnx", ".onnx", "program:write_onnx", packages=("onnx", "onnxscript")),
    "torch": Format("torch", ".pt2", "program:write"),
    "monai-bundle": Format("monai-bundle", "", "monai_bundle:write", inside=False),
}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: The file or folder.
        format: The name of the format.
        files: The bytes of each file, by its name (in a bundle: within the folder).
        difference: The largest difference of a probability from what the model itself says, over
            two sizes of random images; None if it could not be measured.
        metadata: What users of the network must know, as it stands in the file too.
    """

    path: Path
    format: str
    files: dict[str, int]
    difference: float | None
    metadata: dict[str, Any]

    def described(self) -> list[str]:
        """Return what users of the network must know and do, a sentence each."""
        needs = self.metadata["input"]
        bundle = self.format == "monai-bundle"
        lines = [] if bundle else [f"input: {needs['name']} ({needs['meaning']})"]
        lines.append(f"normalisation: {_normalisation(self.metadata['normalisation'], bundle)}")
        if self.metadata["patch_size"]:
            lines.append(f"windows: {self.metadata['windows']}")
        if self.difference is None:
            why = "found no onnxruntime, expected it for that"
            return [*lines, f"not compared with the model: {why}"]
        largest = "largest difference from the model's own probabilities"
        return [*lines, f"{largest}: {self.difference:.1e}"]


_MOST_CHANNELS = 4  # whose mean and std are printed


def _normalisation(facts: Mapping[str, Any], bundle: bool) -> str:
    """Report who normalises images: the user has to know what is left to do.

    Example:
        >>> _normalisation({"mode": "study", "inside": False, "mean": [0.5], "std": [0.25]}, False)
        'outside, do it first: (image - mean) / std with mean 0.5 and std 0.25, per channel'
    """
    if bundle:
        return "done by the bundle (configs/inference.json): give it the files as they are"
    if facts["mode"] == "none":
        return "none: give the values of the files"
    if facts["inside"]:
        whole = ", and whole images, not windows" if facts["mode"] == "case" else ""
        return f"inside the network, nothing is to be done: give the values of the files{whole}"
    if facts["mode"] == "case":
        own = "mean and std each image's own, a channel at a time"
        return f"outside, do it first: (image - mean) / std, {own}; 0 where std is 0"
    mean, std = (", ".join(f"{value:.6g}" for value in facts[name]) for name in ("mean", "std"))
    if len(facts["mean"]) > _MOST_CHANNELS:
        mean, std = (f"normalisation.{name} of the metadata" for name in ("mean", "std"))
    rule = f"(image - mean) / std with mean {mean} and std {std}"
    return f"outside, do it first: {rule}, per channel"


def export(
    model: Model | str | Path, to: str, path: str | Path, normalise: Place = "auto"
) -> Exported:
    """Write the truth network of a model: images in, class probabilities `p(t | x)` out.

    It takes any number of images of any size. What was written is run and compared with the model;
    if they differ by more than rounding, or anything else fails, nothing is left behind.

    Args:
        model: A model, or the folder of one.
        to: 'onnx', 'torch' (a program of torch.export) or 'monai-bundle'.
        path: The file (.onnx, .pt2) or the folder (a bundle) to write. It must not exist yet.
        normalise: Whether the normalisation of images is part of the network. 'auto': wherever that
            is right. Otherwise the input is called 'normalised_image', and the metadata says how.
            A bundle has it in its transforms.

    Raises:
        RatersError: for an unknown format, a path that is there, a folder that is no model, and a
            network that cannot be exported.

    Example:
        raters.learning.export.export("run/", "onnx", "model.onnx")
    """
    entry = FORMATS[one_of(FORMATS, to, "the format")]
    target = Path(path)
    _refuse_path(target, entry)
    if isinstance(model, str | Path):
        Inputs.run(model).refuse_file(target)
    entry.refuse_missing_packages()
    from raters.learning.export.truth import truth_of
    from raters.learning.training.model import Model, load

    model = model if isinstance(model, Model) else load(model)
    truth = truth_of(model, normalise, entry.inside)
    temporary = temporary_beside(target)
    temporary.mkdir()
    try:
        difference = entry.write(truth, temporary / target.name)  # files may hold their own name
        (temporary / target.name).rename(target)
    finally:
        shutil.rmtree(temporary)
    return Exported(target, to, _sizes(target), difference, truth.metadata)


def _refuse_path(path: Path, entry: Format) -> None:
    if path.exists() or path.is_symlink():
        raise RatersError(
            "found something there already, expected a new path: delete it or choose another",
            kind="exists",
            file=path,
        )
    if entry.suffix and path.suffix != entry.suffix:
        raise RatersError(
            f"found the name {path.name!r}, expected one that ends in {entry.suffix}", file=path
        )


def _sizes(path: Path) -> dict[str, int]:
    if path.is_file():
        return {path.name: path.stat().st_size}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.stat().st_size for file in files}
