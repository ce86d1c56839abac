"""Checkpoints: written whole or not at all, and read without running anything that is in them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from lightning.pytorch.plugins import CheckpointIO

from raters.errors import RatersError
from raters.study.paths import refuse_special
from raters.training.run import room_for

_NEEDED = ("raters", "state_dict", "optimizer_states", "lr_schedulers", "loops")
_SUM = 4  # bytes of the checksum at the end


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint beside the last one, and let it take its place once it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")  # one name: a kill leaves one at most
    buffer = BytesIO()
    torch.save(dict(content), buffer)
    try:
        with room_for(path):
            with open(temporary, "wb") as file:
                file.write(buffer.getbuffer())
                file.write(crc32(buffer.getbuffer()).to_bytes(_SUM, "big"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; only numbers and plain data come out of it, whoever made it.

    Raises:
        RatersError: if it is torn, damaged, or no checkpoint of a run.
    """
    refuse_special(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RatersError(f"cannot be read ({error}), expected a checkpoint", file=path) from None
    body, checksum = content[:-_SUM], content[-_SUM:]
    if crc32(body) != int.from_bytes(checksum, "big"):
        raise _refused("a damaged file", path)
    try:
        found = torch.load(BytesIO(body), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
        raise _refused("something else", path) from None
    if not isinstance(found, dict) or any(name not in found for name in _NEEDED):
        raise _refused("something else", path)
    return found


def _refused(what: str, path: Path) -> RatersError:
    return RatersError(
        f"found {what}, expected a checkpoint of raters train; without it the run cannot resume: "
        "train again in another folder",
        kind="unreadable",
        file=path,
    )


class WholeCheckpoints(CheckpointIO):
    """Lets Lightning write and read checkpoints by the functions above."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | Path,
        storage_options: object = None,  # noqa: ARG002
    ) -> None:
        """Write a checkpoint."""
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: object = None,  # noqa: ARG002
        weights_only: bool | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Read a checkpoint; nothing in it is ever run."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)
