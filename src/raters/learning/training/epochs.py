"""Epochs: what one is worth, the best one, and checkpoints, written whole and read as data."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from lightning.pytorch.plugins import TorchCheckpointIO
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io.paths import refuse_special
from raters.learning.methods.base import Batch, HeldOut
from raters.learning.training.run import room_for
from raters.metrics.confusion import dominance_margin
from raters.metrics.conventions import overlap_ratio


@dataclass
class HeldOutScores:
    """Sums over held-out batches.

    Attributes:
        loss: Summed negative log-likelihood (or cross entropy with the target).
        count: Labels that it is a sum of.
        confusion: Matrices times pixels, `(raters, L, L)`.
        pixels: Pixels of each class, `(L,)`.
        overlaps: Of each case, and each class: pixels in both, predicted, in the reference.
        classified: Whether cases have one class each, and no pixels.
        labels: How many labels of each rater were trained on, `(raters,)`, once it is known.
    """

    loss: float = 0.0
    count: int = 0
    confusion: Tensor | None = None
    pixels: Tensor | None = None
    overlaps: dict[int, Tensor] = field(default_factory=dict)
    classified: bool = False
    labels: Tensor | None = None

    def add(self, batch: Batch, found: HeldOut) -> None:
        """Add a batch."""
        self.loss += float(found.loss)
        self.count += int(found.count)
        self._add_matrices(found.confusion, found.pixels)
        if "reference" in batch:
            self._compare(batch, found.truth)

    def _compare(self, batch: Batch, truth: Tensor) -> None:
        classes = torch.arange(truth.shape[1], device=truth.device)[:, None]
        self.classified = batch["reference"].ndim == 1
        for k, case in enumerate(batch["case"].tolist()):
            reference = batch["reference"][k].flatten()
            known = reference != MISSING
            if not known.any():
                continue
            predicted = truth[k].argmax(0).flatten()[known] == classes
            true = reference[known] == classes
            counts = torch.stack([(predicted & true).sum(1), predicted.sum(1), true.sum(1)], 1)
            self.overlaps[case] = self.overlaps.get(case, 0) + counts.cpu()

    @classmethod
    def merged(cls, parts: Sequence[HeldOutScores]) -> HeldOutScores:
        """Add up what several processes found; tiles of one case may be spread over them.

        Example:
            >>> parts = HeldOutScores(loss=1.0, count=2), HeldOutScores(loss=3.0, count=6)
            >>> HeldOutScores.merged(parts).mean_loss
            0.5
        """
        whole = cls(classified=any(part.classified for part in parts))
        for part in parts:
            whole.loss = whole.loss + part.loss
            whole.count = whole.count + part.count
            whole._add_matrices(part.confusion, part.pixels)
            for case, counts in part.overlaps.items():
                whole.overlaps[case] = whole.overlaps.get(case, 0) + counts
        # The order of cases decides how a mean is rounded: it must not depend on who had them.
        whole.overlaps = dict(sorted(whole.overlaps.items()))
        return whole

    def _add_matrices(self, confusion: Tensor | None, pixels: Tensor | None) -> None:
        if confusion is not None and pixels is not None:
            self.confusion = confusion.cpu() + (0 if self.confusion is None else self.confusion)
            self.pixels = pixels.cpu() + (0 if self.pixels is None else self.pixels)

    @property
    def mean_loss(self) -> float:
        """The loss of a label."""
        return self.loss / max(self.count, 1)

    @property
    def dominance(self) -> float | None:
        """How far the mean matrix is from losing column dominance; None without matrices.

        Raters weigh by how often they label. Classes that the network nowhere predicts have no
        row to speak of.
        """
        if self.confusion is None or self.pixels is None:
            return None
        matrices = (self.confusion / self.pixels.clamp(min=1e-12)[:, None]).double().numpy()
        there = np.flatnonzero((self.pixels / self.pixels.sum() > 1e-6).numpy())
        labels = None if self.labels is None or len(matrices) < 2 else self.labels.numpy()
        return dominance_margin(matrices[:, there][:, :, there], labels)

    @property
    def reference_score(self) -> float | None:
        """Mean Dice of foreground classes over cases, or the accuracy of classes; None without."""
        if not self.overlaps:
            return None
        counts = torch.stack(list(self.overlaps.values())).double()
        if self.classified:
            return float(counts[:, :, 0].sum() / len(counts))
        both = counts[:, 1:, 0]
        sizes = counts[:, 1:, 1:].sum(2)
        return float(torch.from_numpy(overlap_ratio(2 * both, sizes, 1)).mean())


def labels_by_rater(batch: Batch, raters: int) -> Tensor:
    """Count the labels that each rater gave in a batch, `(raters,)`.

    Example:
        >>> labels = torch.tensor([[0, 1, MISSING], [1, MISSING, MISSING]])
        >>> labels_by_rater({"labels": labels, "raters": torch.tensor([[2, 2, 0], [1, 0, 0]])}, 3)
        tensor([0, 1, 2])
    """
    labels = batch["labels"]
    who = batch.get("raters")
    there = (labels != MISSING).long()
    given = there.flatten(2).sum(2) if labels.ndim > 2 else there
    if who is None:
        return given.sum(0)
    counts = torch.zeros(raters, dtype=torch.long, device=labels.device)
    return counts.index_add_(0, who.clamp(min=0).flatten(), given.flatten())


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
    body = content[:-_SUM]
    checksum = content[-_SUM:]
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


class WholeCheckpoints(TorchCheckpointIO):
    """Lets Lightning write and read checkpoints by the functions above."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, *_: object, **__: object
    ) -> None:
        """Write a checkpoint."""
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(self, path: str | Path, *_: object, **__: object) -> dict[str, Any]:
        """Read a checkpoint; nothing in it is ever run."""
        return read_checkpoint(Path(path))


@dataclass
class Best:
    """Keeps the weights of the best epoch; of epochs that score the same, the last.

    (Lightning's ModelCheckpoint compares single numbers, and needs a file for each best epoch.)

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
        self.score = score
        self.epoch = epoch
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}
