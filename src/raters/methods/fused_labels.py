"""Fused labels as targets of training: fitted once to a study, made case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.arrays import Floats
    from raters.fusion.consensus import Consensus
    from raters.study.case import Case
    from raters.study.study import Study

Target = NDArray[Any]


class FusedLabels:
    """The fused labels of each case of a study.

    Args:
        fusion: The fusion method, see `raters fuse`.
        pool: Let all cases share the raters' matrices.
        soft: Give probabilities instead of the likeliest class.
    """

    def __init__(self, fusion: str, pool: bool = False, soft: bool = False) -> None:
        self._fusion, self._pool, self._soft = fusion, pool, soft
        self._consensus: Consensus | None = None
        self._of_table: dict[str, Target] = {}

    def fit(self, study: Study) -> None:
        """Fit what all cases share: pooled matrices, or the whole of a table."""
        from raters.fusion.consensus import fuse

        self._consensus = fuse(study, self._fusion, pool=self._pool)
        self._consensus.prepare()
        self._of_table = {}
        if study.kind == "classification":
            table = self._consensus.table
            values = self._chosen(table.truth.T, table.labels)
            values = values.T if self._soft else values
            self._of_table = {str(name): values[k] for k, name in enumerate(study.index.ids)}

    def of(self, case: Case) -> Target:
        """Fuse the labels of a case; masks again each time, as memory must not hold all of them."""
        if case.id in self._of_table:
            return self._of_table[case.id]
        assert self._consensus is not None  # `fit` came first
        fusion = self._consensus.fuse_case(case)
        truth = fusion.truth if self._soft else fusion.labels
        return self._chosen(truth, fusion.labels)

    def _chosen(self, truth: Target, labels: Target) -> Target:
        """Return labels, or the truth `(L, ...)` with zeros where nobody labelled: unknown."""
        if not self._soft:
            return labels
        return np.where(labels == MISSING, 0, truth).astype(np.float32)

    @property
    def confusion(self) -> Floats:
        """The raters' matrices that all cases share, `(raters, L, L)`; pooled or of a table."""
        assert self._consensus is not None  # `fit` came first
        return np.array(self._consensus.fitted()["confusion"])
