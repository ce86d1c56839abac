"""What an epoch is worth: the likelihood of held-out labels, dominance, scores by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from raters.confusion import dominance_margin
from raters.methods.base import Batch, HeldOut
from raters.scores.empty import overlap_ratio
from raters.study.classes import MISSING


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
            whole.loss, whole.count = whole.loss + part.loss, whole.count + part.count
            whole._add_matrices(part.confusion, part.pixels)
            for case, counts in part.overlaps.items():
                whole.overlaps[case] = whole.overlaps.get(case, 0) + counts
        # The order of cases decides how a mean is rounded: it must not depend on who had them.
        whole.overlaps = dict(sorted(whole.overlaps.items()))
        return whole

    def _add_matrices(self, confusion: Tensor | None, pixels: Tensor | None) -> None:
        if confusion is not None and pixels is not None:
            before = self.confusion if self.confusion is not None else 0
            self.confusion = before + confusion.cpu()
            self.pixels = (self.pixels if self.pixels is not None else 0) + pixels.cpu()

    @property
    def mean_loss(self) -> float:
        """The loss of a label."""
        return self.loss / max(self.count, 1)

    @property
    def matrices(self) -> Tensor | None:
        """The raters' mean matrices, `(raters, L, L)`."""
        if self.confusion is None or self.pixels is None:
            return None
        return self.confusion / self.pixels.clamp(min=1e-12)[:, None]

    @property
    def dominance(self) -> float | None:
        """How far the mean matrix is from losing column dominance; None without matrices.

        Raters weigh by how often they label. Classes that the network nowhere predicts have no
        row to speak of.
        """
        found = self.matrices
        if found is None or self.pixels is None:
            return None
        there = np.flatnonzero((self.pixels / self.pixels.sum() > 1e-6).numpy())
        by_rater = self.labels if self.labels is not None and len(found) > 1 else None
        labels = None if by_rater is None else by_rater.numpy()
        return dominance_margin(found.double().numpy()[:, there][:, :, there], labels)

    @property
    def reference_score(self) -> float | None:
        """Mean Dice of foreground classes over cases, or the accuracy of classes; None without."""
        if not self.overlaps:
            return None
        counts = torch.stack(list(self.overlaps.values())).double()
        if self.classified:
            return float(counts[:, :, 0].sum() / len(counts))
        both, sizes = counts[:, 1:, 0], counts[:, 1:, 1:].sum(2)
        return float(torch.from_numpy(overlap_ratio(2 * both, sizes, 1)).mean())


def labels_by_rater(batch: Batch, raters: int) -> Tensor:
    """Count the labels that each rater gave in a batch, `(raters,)`.

    Example:
        >>> labels = torch.tensor([[0, 1, MISSING], [1, MISSING, MISSING]])
        >>> labels_by_rater({"labels": labels, "raters": torch.tensor([[2, 2, 0], [1, 0, 0]])}, 3)
        tensor([0, 1, 2])
    """
    labels, who = batch["labels"], batch.get("raters")
    there = (labels != MISSING).long()
    given = there.flatten(2).sum(2) if labels.ndim > 2 else there
    if who is None:
        return given.sum(0)
    counts = torch.zeros(raters, dtype=torch.long, device=labels.device)
    return counts.index_add_(0, who.clamp(min=0).flatten(), given.flatten())
