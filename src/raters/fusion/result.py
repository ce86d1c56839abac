"""What a fusion method gives: the truth, how far each rater can be trusted, and how EM went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fusion:
    """The fused labels of one case of masks, or of a whole table.

    Attributes:
        truth: `p(t | labels)`: `(L, *space)` for masks, `(tasks, L)` for tables.
        labels: The most likely class, `(*space)` or `(tasks,)`; MISSING where nobody labelled
            or the method could not decide.
        confusion: `(raters, L, L)`, `C[t, o]`; for spatial methods `(raters, L, L, *space)`;
            None for methods without matrices.
        prior: `(L,)`, the share of each class that was assumed or estimated; None for methods
            without one.
        log_likelihoods: At each step of EM; empty for methods without it.
        converged: Whether EM came to rest; True for methods without it.
        voxels: How many voxels (or tasks) have a label; what standard errors rest on.
    """

    truth: NDArray[np.floating[Any]]
    labels: NDArray[np.int16]
    confusion: NDArray[np.float64] | None = None
    prior: NDArray[np.float64] | None = None
    log_likelihoods: list[float] = field(default_factory=list)
    converged: bool = True
    voxels: int = 0

    @property
    def iterations(self) -> int:
        """How many steps EM took."""
        return len(self.log_likelihoods)
