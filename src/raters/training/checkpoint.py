"""The best epoch, and checkpoints: written whole, and read without running what is in them."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from lightning.pytorch.plugins import CheckpointIO
from torch import Tensor, nn

from raters.errors import RatersError
from raters.study.paths import refuse_special
from raters.training.run import room_for

Score = tuple[bool, bool, float]

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


@dataclass
class Best:
    """Keeps the weights of the best epoch; of epochs that score the same, the last.

    Attributes:
        weights: The weights of that epoch.
        epoch: Which one it was, from 1; -1 before the first.
        score: Its score.
        improved: The last epoch that was better than all before it, not just as good.

    Example:
        >>> best, network = Best(), nn.Linear(1, 1)
        >>> for epoch, score in enumerate([0.2, 0.5, 0.5, 0.4], start=1):
        ...     best.offer((True, True, score), epoch, network)
        >>> best.epoch, best.improved, sorted(best.weights)
        (3, 2, ['bias', 'weight'])
    """

    weights: dict[str, Tensor] = field(default_factory=dict)
    epoch: int = -1
    score: Score | None = None
    improved: int = 0

    def offer(self, score: Score, epoch: int, module: nn.Module) -> None:
        """Keep the weights of an epoch if none was better."""
        if math.isnan(score[2]):
            score = (*score[:2], -math.inf)  # nothing compares with NaN: it would stay the best
        if self.score is not None and score < self.score:
            return
        if self.score is None or score > self.score:
            self.improved = epoch
        self.score, self.epoch = score, epoch
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        score = None if self.score is None else list(self.score)
        return {**vars(self), "score": score}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Best:
        """Make it again from what `state` gave."""
        warm, dominant, value = state["score"]
        return cls(**{**state, "score": (bool(warm), bool(dominant), float(value))})
