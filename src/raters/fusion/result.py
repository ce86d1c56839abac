"""What a fusion method gives: the truth, how far each rater can be trusted, and how EM went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Labels
from raters.core.wording import many
from raters.io.rows import Row

if TYPE_CHECKING:
    from raters.fusion.skill_levels import Prior


@dataclass(frozen=True, repr=False)
class Fusion:
    """The fused labels of one case of masks, or of a whole table.

    Attributes:
        soft: The truth, or a function of a slice of classes that gives it (many only want
            labels, and maps of all classes are the most costly part of a fusion).
        labels: The most likely class, `(*space)` or `(tasks,)`; MISSING where nobody labelled
            or the method could not decide.
        confusion: `(raters, L, L)`, `C[t, o]`; for spatial methods `(raters, L, L, *space)`;
            None for methods without matrices.
        prior: `(L,)`, the share of each class that was assumed or estimated; None for methods
            without one.
        log_likelihoods: At each step of EM; empty for methods without it.
        converged: Whether EM converged; True for methods without it.
        voxels: How many voxels (or tasks) have a label; what standard errors rest on.
        starts: Where EM ended from each of several starts, as rows: `start`, `log_likelihood`,
            `dominance`, `differs` (the share of disputed voxels whose label is another than that
            of the start that was kept) and `kept`.
        notes: What has to be said about the result.
        skills: How far each rater can be trusted, `(raters,)`, as a method without matrices
            measures it (SIMPLE: the Dice with the consensus, 0 for a rater who was left out).
        difficulty: How hard each task is, `(tasks,)`, as `hierarchical` measures it: how many times
            as many answers are wrong as its raters' skills make likely; NaN without answers.
        common: What raters have in common, where matrices are drawn to it (`hierarchical`): skills,
            errors, and how strongly.

    Example:
        >>> Fusion(np.eye(2), np.array([0, 1], np.int16), skills=np.array([0.9, 0.5]))
        Fusion(labels of shape (2,), skills 0.50 to 0.90)
    """

    soft: NDArray[np.floating[Any]] | Callable[[slice], NDArray[np.floating[Any]]]
    labels: Labels
    confusion: Floats | None = None
    prior: Floats | None = None
    log_likelihoods: list[float] = field(default_factory=list)
    converged: bool = True
    voxels: int = 0
    starts: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skills: Floats | None = None
    difficulty: Floats | None = None
    common: Prior | None = None

    def __repr__(self) -> str:
        parts = [f"labels of shape {self.labels.shape}"]
        if self.log_likelihoods:
            end = "converged" if self.converged else "did not converge"
            parts.append(f"{end} after {self.iterations} steps")
        known = self.skill_of_raters()
        if known is not None:
            parts.append(f"skills {np.nanmin(known):.2f} to {np.nanmax(known):.2f}")
        return f"Fusion({', '.join(parts)})"

    def skill_of_raters(self) -> Floats | None:
        """Return one number per rater: `skills`, or the mean of the diagonal of each matrix.

        The mean is over the classes that occur (whose prior is not 0), and over space for matrices
        that vary; None where the method says nothing of raters.
        """
        if self.confusion is None or self.prior is None:
            return self.skills
        diagonal = np.einsum("rtt...->rt...", self.confusion).reshape(*self.confusion.shape[:2], -1)
        return np.asarray(diagonal.mean(axis=2)[:, self.prior > 0].mean(axis=1))

    @cached_property
    def truth(self) -> NDArray[np.floating[Any]]:
        """The truth `p(t | labels)`: `(L, *space)` for masks, `(tasks, L)` for tables."""
        return self.soft(slice(None)) if callable(self.soft) else self.soft

    def probability(self, number: int) -> NDArray[np.floating[Any]]:
        """Return the probability of one class of masks, `(*space)`, without making the others."""
        if callable(self.soft):
            return np.asarray(self.soft(slice(number, number + 1))[0])
        return np.asarray(self.truth[number])

    @property
    def iterations(self) -> int:
        """How many steps EM took."""
        return len(self.log_likelihoods)


class ByCase(Mapping[str, Array]):
    """Arrays by the name of the case; each is made when it is asked for.

    Args:
        cases: The names.
        what: Which array of a fusion.
        fuse: Fuses a case by its name.
    """

    def __init__(self, cases: Sequence[str], what: str, fuse: Callable[[str], Fusion]) -> None:
        self._cases = cases
        self._what = what
        self._fuse = fuse

    def __getitem__(self, case: str) -> Array:
        found: Array = getattr(self._fuse(case), self._what)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)

    def __repr__(self) -> str:
        return f"ByCase({self._what} of {many(len(self), 'case')}, each fused when it is asked for)"
