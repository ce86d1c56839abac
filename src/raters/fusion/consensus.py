"""`raters.fuse`: the truth of a study, case by case, and how far each rater can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.fusion.methods import method_of
from raters.fusion.notes import case_remarks, notes_of
from raters.fusion.performance import case_errors, known_prior, performance_rows
from raters.fusion.pooled import PooledStaple
from raters.fusion.result import Fusion
from raters.fusion.table_errors import table_errors
from raters.fusion.table_notes import table_notes
from raters.rows import Row
from raters.study.classes import MISSING

if TYPE_CHECKING:
    import pandas as pd

    from raters.study.case import Case
    from raters.study.study import Study


def fuse(
    study: Study,
    method: str = "staple",
    pool: bool = False,
    progress: bool = False,
    **options: Any,  # noqa: ANN401
) -> Consensus:
    """Estimate a consensus from the labels of a study.

    Args:
        study: The study.
        method: A name of `raters.fusion.methods.METHODS`.
        pool: Let all cases share the raters' matrices (staple, dawid-skene on masks; tables
            always do). Without it each case is fitted alone, as STAPLE is commonly used.
        progress: Show a progress bar while the shared matrices are fitted.
        options: Those of the method, for example `restrict=True` of staple.

    Returns:
        A `Consensus`: cases are fused when they are asked for.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]]])
        >>> consensus = fuse(Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"]), "vote")
        >>> consensus["0"].labels
        array([0, 0, 1, 1, 0], dtype=int16)
    """
    if not study.raters:
        raise RatersError("found no raters, expected labels to fuse")
    chosen = method_of(method)
    chosen.check_options(study.kind, options)
    if pool and (not chosen.pools or study.kind == "classification"):
        raise RatersError(f"found pool with {method!r}, expected staple or dawid-skene on masks")
    return Consensus(study, method, pool, options, progress)


_POOLED_OPTIONS = ("estimate_prior", "smoothing", "max_iter", "tol", "starts")


class Consensus:
    """The fused labels of a study.

    Attributes:
        study: The study.
        pooled: Whether all cases share the raters' matrices.
        description: The method and its options, as plain data.
    """

    def __init__(
        self, study: Study, method: str, pool: bool, options: dict[str, Any], progress: bool
    ) -> None:
        self.study, self.pooled, self._progress = study, pool, progress
        self._method = method_of(method)
        fixed = self._method.fixed if study.kind == "segmentation" else None
        self._options = {**options, **(fixed or {})}
        self.description = {"method": method, "pool": pool, "options": dict(options)}
        self._name = method
        for name in self._options if pool else ():
            if name not in _POOLED_OPTIONS:
                known = ", ".join(_POOLED_OPTIONS[1:])
                raise RatersError(f"found the option {name!r} with pool, expected one of: {known}")

    def prepare(self) -> None:
        """Fit the shared matrices, if there are any, before cases are fused."""
        _ = self._shared  # fitted when it is first asked for

    @cached_property
    def _shared(self) -> PooledStaple | None:
        if not self.pooled:
            return None
        return PooledStaple(self.study, progress=self._progress, **self._options)

    def fitted(self) -> Row:
        """Return the matrices, the prior and how EM went, where there is one fit for all."""
        found = self.table if self._shared is None else self._shared.state
        if found.confusion is None or found.prior is None:
            return {}
        tried = self.table.starts if self._shared is None else self._shared.found.rows
        return {
            "confusion": found.confusion.tolist(),
            "prior": found.prior.ravel().tolist(),
            "iterations": found.iterations,
            "converged": found.converged,
            "log_likelihoods": found.log_likelihoods,
            **({"starts": tried} if tried else {}),
        }

    @cached_property
    def table(self) -> Fusion:
        """The fusion of a table of class labels."""
        if self.study.kind != "classification":
            raise RatersError("found masks, expected a table; take consensus[case] instead")
        function = self._method.function("classification")
        return function(self.study.triplets, len(self.study.classes), **self._options)

    def fuse_case(self, case: Case) -> Fusion:
        """Fuse the labels of one case of masks; a table is fused as a whole (`table`)."""
        if case.kind == "classification":
            raise RatersError("found a table, expected masks; take consensus.table instead")
        if self._shared is not None:
            return self._shared.fuse(case.labels)
        options = self._options
        if "spacing" in self._method_options:
            options = {"spacing": case.geometry.spacing, **options}
        function = self._method.function("segmentation")
        return function(case.labels, len(self.study.classes), **options)

    @cached_property
    def _method_options(self) -> set[str]:
        import inspect

        return set(inspect.signature(self._method.function("segmentation")).parameters)

    def __getitem__(self, case: str | int) -> Fusion:
        return self.fuse_case(self.study[case])

    def iter_cases(self) -> Iterator[tuple[Case, Fusion]]:
        """Fuse the cases one by one."""
        return ((case, self.fuse_case(case)) for case in self.study.iter_cases())

    @property
    def truth(self) -> Any:  # noqa: ANN401
        """The truth: `(tasks, L)` of a table, a list of `(L, *space)` of masks."""
        if self.study.kind == "classification":
            return self.table.truth
        return [fusion.truth for _, fusion in self.iter_cases()]

    @cached_property
    def confusion(self) -> NDArray[np.float64] | None:
        """The raters' matrices, `(cases or 1, raters, L, L)`; None for methods without them."""
        if self.study.kind == "classification":
            found = [self.table.confusion]
        elif self._shared is not None:
            found = [self._shared.state.confusion]
        else:
            found = [fusion.confusion for _, fusion in self.iter_cases()]
        return None if any(c is None for c in found) else np.array(found)

    @cached_property
    def rows(self) -> list[Row]:
        """How far each rater can be trusted, as rows: by case, or one for all if pooled."""
        names = self.study.raters, self.study.classes.names
        if self._shared is not None:
            state, labels = self._shared.state, self._shared.labels()
            errors = self._shared.errors()
            return performance_rows(*names, state.confusion, state.prior[:, 0], errors, labels)
        if self.study.kind == "classification":
            return self._table_rows()
        rows = []
        for case, fusion in self.iter_cases():
            rows += [{"case": case.id, **row} for row in self.case_rows(case, fusion)]
        return rows

    def _table_rows(self) -> list[Row]:
        fusion, study = self.table, self.study
        if fusion.confusion is None or fusion.prior is None:
            return []
        errors = table_errors(study.triplets, study.index.groups, fusion, self._name, self._options)
        names = study.raters, study.classes.names
        given = study.triplets.rater[study.triplets.label != MISSING]
        labels = np.bincount(given, minlength=len(study.raters))
        shares, decided = fusion.prior, fusion.labels != MISSING
        alike = self._options.get("prior") is None and not self._options.get("estimate_prior")
        if self._name == "one-coin" and alike and decided.any():
            shares = fusion.truth[decided].mean(axis=0)  # it took classes as equally frequent
        return performance_rows(*names, fusion.confusion, shares, errors, labels)

    def case_rows(self, case: Case, fusion: Fusion) -> list[Row]:
        """Return the raters' measures on one case of masks that is fitted alone."""
        from raters.fusion.columns import columns_of
        from raters.fusion.em import EMState

        if fusion.confusion is None or fusion.prior is None or fusion.confusion.ndim != 3:
            return []
        prior = known_prior(self._name, self._options)
        errors = None
        if prior is not None:
            state = EMState(fusion.prior[:, np.newaxis], fusion.confusion)
            columns = columns_of(case.labels, len(self.study.classes))
            errors = case_errors(columns, state, prior)
        names = self.study.raters, self.study.classes.names
        labels = (case.labels != MISSING).reshape(len(case.labels), -1).sum(axis=1)
        return performance_rows(*names, fusion.confusion, fusion.prior, errors, labels)

    @cached_property
    def notes(self) -> list[str]:
        """What has to be said about the result; of masks, every case is fused for it."""
        if self.study.kind == "classification":
            triplets, classes = self.study.triplets, len(self.study.classes)
            others = table_notes(triplets, classes, self.table, self._name, self._options)
            return [*self.table.notes, *others]
        return self.notes_from(case_remarks(c.labels, f) for c, f in self.iter_cases())

    def notes_from(self, remarks: Iterable[Row]) -> list[str]:
        """Return the notes on masks from the remarks on their cases."""
        shared = [] if self._shared is None else self._shared.found.notes
        return [*shared, *notes_of(remarks, self.study.raters, self._name)]

    @property
    def performance(self) -> pd.DataFrame:
        """How far each rater can be trusted, as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)
