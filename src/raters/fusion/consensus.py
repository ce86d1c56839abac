"""`raters.fuse`: the truth of a study, case by case, and how far each rater can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.fusion.methods import method_of
from raters.fusion.notes import case_remarks, notes_of
from raters.fusion.performance import MEASURES, covariance, performance_rows, row_counts
from raters.fusion.pooled import PooledStaple
from raters.fusion.result import Fusion
from raters.fusion.table_errors import bootstrap_table
from raters.rows import Row

if TYPE_CHECKING:
    import pandas as pd

    from raters.study.case import Case
    from raters.study.study import Study
    from raters.study.triplets import Triplets

_BOOTSTRAPS = 100


def fuse(
    study: Study,
    method: str = "staple",
    pool: bool = False,
    progress: bool = False,
    **options: Any,  # noqa: ANN401
) -> Consensus:
    """Find the truth behind the labels of a study.

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


_POOLED_OPTIONS = ("estimate_prior", "smoothing", "iterations", "tolerance", "starts")


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
        """Give the matrices, the prior and how EM went, where there is one fit for all."""
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
        return self._fuse_table(self.study.triplets, len(self.study.classes))

    def _fuse_table(self, triplets: Triplets, classes: int) -> Fusion:
        return self._method.function("classification")(triplets, classes, **self._options)

    def fuse_case(self, case: Case) -> Fusion:
        """Fuse the labels of one case of masks."""
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
            return _pooled_rows(self._shared, *names)
        if self.study.kind == "classification":
            fusion = self.table
            if fusion.confusion is None or fusion.prior is None:
                return []
            rows = performance_rows(*names, fusion.confusion, fusion.prior, None)
            fuse_table = partial(self._fuse_table, classes=len(self.study.classes))
            return _with_errors(rows, bootstrap_table(self.study, fuse_table, _BOOTSTRAPS))
        rows = []
        for case, fusion in self.iter_cases():
            rows += [{"case": case.id, **row} for row in case_performance(self.study, case, fusion)]
        return rows

    @cached_property
    def notes(self) -> list[str]:
        """What has to be said about the result; of masks, every case is fused for it."""
        if self.study.kind == "classification":
            return self.table.notes
        return self.notes_from(case_remarks(c.labels, f) for c, f in self.iter_cases())

    def notes_from(self, remarks: Iterable[Row]) -> list[str]:
        """Give the notes on masks from the remarks on their cases."""
        shared = [] if self._shared is None else self._shared.found.notes
        return [*shared, *notes_of(remarks, self.study.raters, str(self.description["method"]))]

    @property
    def performance(self) -> pd.DataFrame:
        """How far each rater can be trusted, as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)


def case_performance(study: Study, case: Case, fusion: Fusion) -> list[Row]:
    """Give the raters' measures on one case with their standard errors."""
    from raters.fusion.columns import columns_of
    from raters.fusion.em import EMState, posteriors

    if fusion.confusion is None or fusion.prior is None:
        return []
    whole = fusion.confusion if fusion.confusion.ndim == 3 else None
    if whole is None:
        return []
    state = EMState(fusion.prior[:, np.newaxis], whole)
    columns = columns_of(case.labels, len(study.classes))
    counts = row_counts(columns, posteriors(columns, state).astype(np.float64))
    names = study.raters, study.classes.names
    errors = covariance(columns, state)
    return performance_rows(*names, whole, fusion.prior, errors, counts)


def _pooled_rows(
    pooled: PooledStaple, raters: tuple[str, ...], classes: tuple[str, ...]
) -> list[Row]:
    """Give the raters' measures with standard errors by bootstrap over groups."""
    prior = pooled.state.prior[:, 0]
    rows = performance_rows(raters, classes, pooled.state.confusion, prior, None)
    return _with_errors(rows, pooled.bootstrap(_BOOTSTRAPS))


def _with_errors(rows: list[Row], drawn: NDArray[np.float64] | None) -> list[Row]:
    """Add the spread of measures `(repeats, raters, 4, L)` to rows by rater and class."""
    if drawn is None:
        return rows
    exist = (~np.isnan(drawn)).sum(axis=0)
    centre = np.where(exist > 0, np.nansum(drawn, axis=0) / np.maximum(exist, 1), np.nan)
    squares = np.nansum((drawn - centre) ** 2, axis=0)
    errors = np.where(exist >= 2, np.sqrt(squares / np.maximum(exist - 1, 1)), np.nan)
    for k, row in enumerate(rows):
        r, c = divmod(k, errors.shape[2])
        for name, error in zip(MEASURES, errors[r, :, c], strict=True):
            row[f"{name}_se"] = float(error) if error == error else None
    return rows
