"""Compares what two checkouts have written and printed: bit for bit, and text as whole strings."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from two_checkouts.texts import Cleaner, is_measured, page_text

Array = NDArray[Any]

LEFT_OUT = {".lock": "holds the id of a process"}
"""Files that are not compared, with the reason."""


class Differences:
    """What differs, by file, and how many values were compared.

    Args:
        cleaner: Removes from texts what is another in every run.
    """

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self.by_file: dict[str, list[str]] = {}
        self.values = 0

    def add(self, where: str, what: str) -> None:
        """Add a difference."""
        self.by_file.setdefault(where, []).append(what)

    def __len__(self) -> int:
        return sum(map(len, self.by_file.values()))


def compare_folders(before: Path, after: Path, name: str, differences: Differences) -> None:
    """Compare all files below two folders, hidden ones too."""
    old = _files(before)
    new = _files(after)
    for inner in sorted(old.keys() | new.keys()):
        where = f"{name}/{inner}"
        if inner not in new:
            differences.add(where, "only before")
        elif inner not in old:
            differences.add(where, "only after")
        else:
            compare_files(old[inner], new[inner], where, differences)


def _files(folder: Path) -> dict[str, Path]:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in LEFT_OUT and path.name not in LEFT_OUT:
            files[path.relative_to(folder).as_posix()] = path
    return files


def compare_files(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare two files by what is in them; of an unknown kind, by their bytes."""
    for suffix, compare in COMPARE.items():
        if before.name.endswith(suffix):
            compare(before, after, where, differences)
            return

    differences.values += 1
    if before.read_bytes() != after.read_bytes():
        differences.add(where, "bytes differ")


# Plain data and texts ----------------------------------------------------------------------------


def compare_values(
    old: object, new: object, where: str, path: str, differences: Differences
) -> None:
    """Compare plain data: dictionaries, lists, numbers, texts."""
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_dictionaries(old, new, where, path, differences)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, where, path, differences)
    else:
        differences.values += 1
        if not _equal(old, new, differences.cleaner):
            differences.add(where, f"{path}: {_shortened(repr(old))} -> {_shortened(repr(new))}")


def _shortened(text: str, most: int = 300) -> str:
    """Return a text for the terminal."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _compare_dictionaries(
    old: dict[Any, Any], new: dict[Any, Any], where: str, path: str, differences: Differences
) -> None:
    for key, value in old.items():
        if is_measured(str(key)):
            continue
        if key in new:
            compare_values(value, new[key], where, f"{path}.{key}", differences)
        else:
            differences.add(where, f"{path}.{key}: only before")
    for key in new:
        if key not in old and not is_measured(str(key)):
            differences.add(where, f"{path}.{key}: only after")


def _compare_lists(
    old: list[Any], new: list[Any], where: str, path: str, differences: Differences
) -> None:
    if len(old) != len(new):
        differences.add(where, f"{path}: {len(old)} values -> {len(new)}")
    for k, (one, other) in enumerate(zip(old, new, strict=False)):
        compare_values(one, other, where, f"{path}[{k}]", differences)


def _equal(old: object, new: object, cleaner: Cleaner) -> bool:
    """Whether two values are equal; a number is no text, and no truth value."""
    if type(old) is not type(new):
        return False
    if isinstance(old, str) and isinstance(new, str):
        return old == new or cleaner.clean(old) == cleaner.clean(new)
    if isinstance(old, float):
        return repr(old) == repr(new)  # NaN is NaN, and -0.0 is not 0.0
    return old == new


def compare_lines(old: list[str], new: list[str], where: str, differences: Differences) -> None:
    """Compare texts by line, after times, versions and paths are taken out."""
    # The blanks that fill a table's line depend on the longest time in it.
    old_lines = [differences.cleaner.clean(line).rstrip() for line in old]
    new_lines = [differences.cleaner.clean(line).rstrip() for line in new]
    differences.values += len(old_lines)
    if old_lines == new_lines:
        return
    changes = difflib.unified_diff(old_lines, new_lines, n=0, lineterm="")
    for change in list(changes)[2:]:
        if not change.startswith("@@"):
            differences.add(where, _shortened(change))


def compare_text(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare two files of text."""
    old = before.read_text("utf-8").splitlines()
    new = after.read_text("utf-8").splitlines()
    compare_lines(old, new, where, differences)


def _compare_pages(before: Path, after: Path, where: str, differences: Differences) -> None:
    old = page_text(before.read_text("utf-8"))
    new = page_text(after.read_text("utf-8"))
    compare_lines(old, new, where, differences)


def compare_json(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare two files of JSON."""
    old = json.loads(before.read_text("utf-8"))
    new = json.loads(after.read_text("utf-8"))
    compare_values(old, new, where, "", differences)


def _compare_journals(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare the lines of a journal; `source` is left out.

    `source` is a hash of the paths, sizes and dates of the files that a case was read from, and
    both sides read files of their own. That it is understood is seen where work is resumed.
    """
    old = _entries(before)
    new = _entries(after)
    compare_values(old, new, where, "", differences)


def _entries(path: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{key: entry[key] for key in entry if key != "source"} for entry in entries]


def _compare_yaml(before: Path, after: Path, where: str, differences: Differences) -> None:
    old = yaml.load(before.read_text("utf-8"), yaml.CSafeLoader)
    new = yaml.load(after.read_text("utf-8"), yaml.CSafeLoader)
    compare_values(old, new, where, "", differences)


def _compare_csv(before: Path, after: Path, where: str, differences: Differences) -> None:
    with before.open(newline="") as old_file, after.open(newline="") as new_file:
        old = csv.DictReader(old_file)
        new = csv.DictReader(new_file)
        compare_values(
            list(old.fieldnames or ()), list(new.fieldnames or ()), where, "columns", differences
        )
        compare_values(list(old), list(new), where, "", differences)


# Arrays ------------------------------------------------------------------------------------------


def compare_arrays(old: Array, new: Array, where: str, differences: Differences) -> None:
    """Compare two arrays to the bit."""
    differences.values += 1
    if old.shape != new.shape or old.dtype != new.dtype:
        differences.add(where, f"{old.dtype}{old.shape} -> {new.dtype}{new.shape}")
    elif old.tobytes() != new.tobytes():
        number = np.count_nonzero(np.atleast_1d(old != new))
        differences.add(where, f"{number:,} of {old.size:,} values differ")


def _compare_named(
    old: dict[str, Any], new: dict[str, Any], where: str, differences: Differences
) -> None:
    """Compare arrays by name."""
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            differences.add(where, f"array {name}: only before")
        elif name not in old:
            differences.add(where, f"array {name}: only after")
        else:
            compare_arrays(old[name], new[name], f"{where} {name}", differences)


def _compare_pictures(before: Path, after: Path, where: str, differences: Differences) -> None:
    from PIL import Image

    with Image.open(before) as old, Image.open(after) as new:
        compare_arrays(np.asarray(old), np.asarray(new), where, differences)
        compare_values(_texts_of(old), _texts_of(new), where, "", differences)


def _texts_of(picture: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the texts that a picture file holds."""
    return {str(k): v for k, v in picture.info.items() if isinstance(v, str)}


def _compare_volumes(before: Path, after: Path, where: str, differences: Differences) -> None:
    compare_arrays(_unpacked(before), _unpacked(after), where, differences)


def _unpacked(path: Path) -> Array:
    """Return the bytes of a volume; those of its compression hold a time."""
    content = path.read_bytes()
    return np.frombuffer(gzip.decompress(content) if path.suffix == ".gz" else content, np.uint8)


def _compare_numpy(before: Path, after: Path, where: str, differences: Differences) -> None:
    compare_arrays(
        np.load(before, mmap_mode="r"), np.load(after, mmap_mode="r"), where, differences
    )


def _compare_npz(before: Path, after: Path, where: str, differences: Differences) -> None:
    with np.load(before) as old, np.load(after) as new:
        _compare_named(dict(old), dict(new), where, differences)


def _compare_weights(before: Path, after: Path, where: str, differences: Differences) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file

    _compare_named(load_file(before), load_file(after), where, differences)
    with safe_open(before, "np") as old, safe_open(after, "np") as new:
        compare_values(old.metadata() or {}, new.metadata() or {}, where, "metadata", differences)


def _compare_checkpoints(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare all tensors and numbers of a checkpoint; loading runs no code of a checkout."""
    import torch

    old = torch.load(before, map_location="cpu", weights_only=True)
    new = torch.load(after, map_location="cpu", weights_only=True)
    compare_values(_as_plain(old), _as_plain(new), where, "", differences)


def _as_plain(content: Any) -> Any:  # noqa: ANN401
    """Return the content of a checkpoint with the bytes of tensors in place of them."""
    import torch

    if isinstance(content, torch.Tensor):
        numbers = content.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"type": str(content.dtype), "shape": list(content.shape), "bytes": numbers}
    if isinstance(content, dict):
        return {str(key): _as_plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_as_plain(value) for value in content]
    return content


def _compare_parquet(before: Path, after: Path, where: str, differences: Differences) -> None:
    import pandas as pd

    differences.values += 1
    if not pd.read_parquet(before).equals(pd.read_parquet(after)):
        differences.add(where, "tables differ")


# Exported networks -------------------------------------------------------------------------------


def _compare_onnx(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare the operations and weights; names of modules and lines of source are left out."""
    compare_values(_onnx_parts(before), _onnx_parts(after), where, "", differences)


def _onnx_parts(path: Path) -> dict[str, Any]:
    import onnx

    model = onnx.load(path)
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        value.ClearField("metadata_props")
    graph = model.graph
    return {
        "nodes": [str(node) for node in graph.node],
        "inputs": [str(value) for value in graph.input],
        "outputs": [str(value) for value in graph.output],
        "weights": {w.name: onnx.numpy_helper.to_array(w).tobytes() for w in graph.initializer},
        "metadata": {entry.key: entry.value for entry in model.metadata_props},
    }


_SOURCE_KEYS = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")


def _compare_archives(before: Path, after: Path, where: str, differences: Differences) -> None:
    """Compare the members of an archive (.pt2, .zip).

    Lines of source in it are left out, and `serialization_id`, which is a checksum of all members.
    """
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        compare_values(_members(old), _members(new), where, "", differences)


def _members(archive: zipfile.ZipFile) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in archive.namelist():
        if name.endswith("serialization_id"):
            continue
        content = archive.read(name)
        members[name] = content
        if name.endswith(".json"):
            members[name] = _without_source(json.loads(content))
        elif zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as inner:
                members[name] = _members(inner)
    return members


def _without_source(content: Any) -> Any:  # noqa: ANN401
    """Return the description of a graph without the lines of source that it came from."""
    if isinstance(content, list):
        return [_without_source(value) for value in content]
    if isinstance(content, dict):
        kept = {key: value for key, value in content.items() if key not in _SOURCE_KEYS}
        return {key: _without_source(value) for key, value in kept.items()}
    return content


COMPARE: dict[str, Callable[[Path, Path, str, Differences], None]] = {
    ".json": compare_json,
    ".jsonl": _compare_journals,
    ".yaml": _compare_yaml,
    ".csv": _compare_csv,
    ".txt": compare_text,
    ".md": compare_text,
    ".svg": compare_text,
    ".html": _compare_pages,
    ".png": _compare_pictures,
    ".nii.gz": _compare_volumes,
    ".npy": _compare_numpy,
    ".npz": _compare_npz,
    ".parquet": _compare_parquet,
    ".safetensors": _compare_weights,
    ".ckpt": _compare_checkpoints,
    ".onnx": _compare_onnx,
    ".pt2": _compare_archives,
}
"""How files are compared, by the end of their name."""
