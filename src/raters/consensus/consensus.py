"""`raters.fuse`: the truth of a study, case by case, and how far each rater can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.assessment.performance import case_errors, known_prior, performance_rows
from raters.assessment.table_errors import table_errors
from raters.consensus.notes import case_remarks, notes_of, table_notes
from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.fusion._hierarchical import posterior_errors
from raters.fusion.columns import columns_of
from raters.fusion.em import EMState
from raters.fusion.methods import FusionOptions, method_of, refuse_no_images, refuse_one_sided
from raters.fusion.result import ByCase, Fusion
from raters.fusion.starts import with_names
from raters.io.rows import Row, html
from raters.study.annotations import refuse_complementary
from raters.study.read import study_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from raters.learning.training.model import Model
    from raters.study.case import Case
    from raters.study.study import Study
    from raters.study.write import ImportResult


USUAL = {"segmentation": "staple", "classification": "hierarchical"}
"""The method that is taken where none is named, by kind of study."""


def fuse(
    study: Study | Any,  # noqa: ANN401
    method: str | FusionOptions | None = None,
    *,
    pool: bool = False,
    progress: bool = False,
    model: Model | str | Path | None = None,
    **options: Any,  # noqa: ANN401
) -> Consensus:
    """Estimate a consensus from the labels of a study.

    Drawings are fused as what they say of a pixel; negative ones of several classes are refused.

    Args:
        study: The study, or what `raters.read` takes, or labels `(cases, raters, *space)`.
        method: A name of `raters.fusion.METHODS`, or the method with its options, as in
            `raters.fusion.StapleOptions(restrict=True)`. By default 'staple' for masks,
            'hierarchical' for tables.
        pool: Let all cases share the raters' matrices (staple, dawid-skene on masks; tables
            always do). Without it each case is fitted alone, as STAPLE is commonly used.
        progress: Show a progress bar while the shared matrices are fitted.
        model: A trained model, or its folder: labels are fused with what it says of the images,
            `p(t | x, labels)`. The method is then that of the model, and may be left out.
        options: Those of the method, for example `restrict=True` of staple; with a model of
            prism `use_labels=False`.

    Returns:
        A `Consensus`: cases are fused when they are asked for.

    Example:
        >>> labels = np.array([[[[0, 0, 1, 1, 1]], [[0, 0, 1, 1, 0]], [[0, 0, 1, 0, 0]]]])
        >>> fuse(labels, "vote").labels["0"]
        array([[0, 0, 1, 1, 0]], dtype=int16)
        >>> import pandas as pd
        >>> said = {"ann": ["cat", "dog"], "bob": ["cat", "dog"], "cy": ["dog", "dog"]}
        >>> fuse(pd.DataFrame(said, index=["t1", "t2"]), "dawid-skene").labels.to_dict()
        {'t1': 'cat', 't2': 'dog'}
    """
    study = study_of(study)
    if isinstance(method, FusionOptions):
        options = {**method.options, **options}
        method = method.method
    if not study.raters:
        raise RatersError("found no raters, expected labels to fuse")
    if model is not None:
        from raters.learning.prediction.fuse_model import (
            fuse_as_asked,  # imported here: it needs torch
        )

        return fuse_as_asked(study, method, model, pool, **options)
    if study.drawn:
        refuse_complementary(study.annotations, study.classes.names, "a consensus of labels")
    method = method or USUAL[study.kind]
    chosen = method_of(method)
    chosen.check_options(study.kind, options, pool=pool)
    if chosen.matrices:
        refuse_one_sided(study, method)
    if chosen.images:
        refuse_no_images(study, f": {method} looks at what is marked in them")
    return Consensus(study, method, pool=pool, options=options, progress=progress)


class Consensus:
    """The fused labels of a study.

    Attributes:
        study: The study.
        pooled: Whether all cases share the raters' matrices.
        description: The method and its options, as plain data.
    """

    def __init__(
        self, study: Study, method: str, *, pool: bool, options: dict[str, Any], progress: bool
    ) -> None:
        self.study = study
        self.pooled = pool
        self._progress = progress
        self._method = method_of(method)
        fixed = self._method.fixed if study.kind == "segmentation" else None
        self._options = {**options, **(fixed or {})}
        self.description = {"method": method, "pool": pool, "options": dict(options)}
        self._name = method

    def __repr__(self) -> str:
        study = self.study
        name = f"{self._name}{', pooled' if self.pooled else ''}"
        return f"Consensus({name}, {many(len(study), 'case')}, {many(len(study.raters), 'rater')})"

    def _repr_html_(self) -> str:
        """Show a consensus in a notebook; masks are not fused for it, tables are."""
        if self.study.kind == "segmentation":
            return html(repr(self), {"options": [self._options or {"": "none"}]})
        labels = [{"task": task, "label": label} for task, label in self.labels.items()]
        skills = [{"rater": rater, "skill": s} for rater, s in self.skills.items()]
        return html(repr(self), {"labels": labels, "skills": skills})

    @property
    def labels(self) -> pd.Series[Any] | ByCase:
        """The consensus: a Series by task of a table, arrays `(*space)` by case of masks.

        Labels of a table are called as the table calls them, or by the names that were given to
        them; None where the method could not decide. Masks hold class numbers, MISSING likewise.
        """
        if self.study.kind == "segmentation":
            return ByCase(self.study.cases, "labels", self.__getitem__)
        import pandas as pd

        names = np.array([*self._class_labels, None], object)  # MISSING is -1
        found = pd.Series(names[self.table.labels], self._tasks, object, "label")
        return found if (self.table.labels == MISSING).any() else found.infer_objects()

    @property
    def probabilities(self) -> pd.DataFrame | ByCase:
        """The probability of each class: a DataFrame by task and class, or `(L, *space)` by case.

        Columns are called as in `labels`.
        """
        if self.study.kind == "segmentation":
            return ByCase(self.study.cases, "truth", self.__getitem__)
        import pandas as pd

        columns = pd.Index(self._class_labels, name="label")
        return pd.DataFrame(self.table.truth, self._tasks, columns)

    @property
    def skills(self) -> pd.Series[float] | pd.DataFrame:
        """How far each rater can be trusted, in one number: a Series by rater.

        Of masks that are fitted each alone, a DataFrame by case and rater. It is the mean of the
        diagonal of a rater's matrix, over the classes that occur; where a method has no matrices,
        what it measures instead (`Fusion.skills`); NaN where it measures nothing (vote), and for
        a rater without labels.
        `performance` has all measures by class.
        """
        import pandas as pd

        raters = pd.Index(self.study.raters, name="rater")
        if self._fit is not None:
            given = self._table_labels if self._shared is None else self._shared.labels()
            return pd.Series(self._skills_in(self._fit, given), raters, name="skill")
        found = [self._skills_in(f, _labels_of(case)) for case, f in self.iter_cases()]
        return pd.DataFrame(found, pd.Index(self.study.cases, name="case"), raters)

    def _skills_in(self, fusion: Fusion, given: Array | None) -> Floats:
        found = fusion.skill_of_raters()
        if found is None:
            return np.full(len(self.study.raters), np.nan)
        return found if given is None else np.where(given > 0, found, np.nan)

    @property
    def _table_labels(self) -> Array:
        """The number of labels of each rater of a table."""
        given = self.study.triplets.rater[self.study.triplets.label != MISSING]
        return np.bincount(given, minlength=len(self.study.raters))

    @property
    def _tasks(self) -> pd.Index[str]:
        import pandas as pd

        return pd.Index(self.study.index.ids, name="task")

    @property
    def _class_labels(self) -> list[int | str]:
        """What a table calls its classes: by their names, or by its own numbers without names."""
        return [c.value if c.name == str(c.value) else c.name for c in self.study.classes]

    @property
    def difficulty(self) -> pd.Series[float] | None:
        """How hard each task of a table is (`Fusion.difficulty`); None where a method has none."""
        if self.study.kind != "classification" or self.table.difficulty is None:
            return None
        import pandas as pd

        return pd.Series(self.table.difficulty, self._tasks, name="difficulty")

    def write(
        self,
        folder: str | Path,
        *,
        soft: bool = False,
        overwrite: bool = False,
        progress: bool = False,
    ) -> ImportResult:
        """Write the consensus to a folder, as `raters fuse` does; `raters.report` takes it.

        Called again, cases that are finished are skipped.

        Args:
            folder: The folder.
            soft: Also write probabilities.
            overwrite: Fuse everything anew.
            progress: Show a progress bar.

        Returns:
            How many cases were written and which failed (`failures`).
        """
        from raters.consensus.write import write_consensus
        from raters.study.places import remember_study

        result = write_consensus(self, folder, soft, overwrite, progress)
        if self.study.opened is not None:
            remember_study(folder, self.study.opened)
        return result

    def prepare(self) -> None:
        """Fit the shared matrices, if there are any, before cases are fused."""
        _ = self._shared  # fitted when it is first asked for

    @cached_property
    def _shared(self) -> Any:  # noqa: ANN401
        if not self.pooled:
            return None
        return self._method.pool()(self.study, progress=self._progress, **self._options)

    @property
    def _fit(self) -> Fusion | None:
        """The one fit of a table, or of masks that share matrices."""
        if self.study.kind == "classification":
            return self.table
        return None if self._shared is None else self._shared.shared

    def fitted(self) -> Row:
        """Return the matrices, the prior and how EM went, where there is one fit for all."""
        found = self._fit
        if found is None or found.confusion is None or found.prior is None:
            return {}
        return {
            "confusion": found.confusion.tolist(),
            "prior": found.prior.ravel().tolist(),
            "iterations": found.iterations,
            "converged": found.converged,
            "log_likelihoods": found.log_likelihoods,
            **({"starts": found.starts} if found.starts else {}),
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
            fused: Fusion = self._shared.fuse(case.labels)
            return fused
        options = self._options
        if "spacing" in self._mask_options:
            options = {"spacing": case.geometry.spacing, **options}
        function = self._method.function("segmentation")
        image = (self._image(case),) if self._method.images else ()
        return function(case.labels, len(self.study.classes), *image, **options)

    def _image(self, case: Case) -> Array:
        """Return the image of a case, of the shape of its masks."""
        image = case.image
        space = case.labels.shape[1:]
        if image is None or image.shape[1:] != space:
            found = "no image" if image is None else f"an image of {image.shape[1:]} pixels"
            raise RatersError(
                f"found {found} of case {case.id!r}, expected one of {space} as its masks: "
                f"{self._name} looks at it",
                case=case.id,
                kind="missing-image" if image is None else "geometry",
            )
        return image

    @cached_property
    def _mask_options(self) -> set[str]:
        return set(self._method.options("segmentation"))

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
    def confusion(self) -> Floats | None:
        """The raters' matrices, `(cases or 1, raters, L, L)`; None for methods without them."""
        fits = (fusion for _, fusion in self.iter_cases()) if self._fit is None else [self._fit]
        found = [fusion.confusion for fusion in fits]
        return None if any(c is None for c in found) else np.array(found)

    @cached_property
    def rows(self) -> list[Row]:
        """How far each rater can be trusted, as rows: by case, or one for all if pooled."""
        names = self.study.raters, self.study.classes.names
        if self._shared is not None:
            fit = self._shared.shared
            labels = self._shared.labels()
            errors = self._shared.errors()
            return performance_rows(*names, fit.confusion, fit.prior, errors, labels)
        if self.study.kind == "classification":
            return self._table_rows()
        rows = []
        for case, fusion in self.iter_cases():
            rows += [{"case": case.id, **row} for row in self.case_rows(case, fusion)]
        return rows

    def _table_rows(self) -> list[Row]:
        fusion = self.table
        study = self.study
        if fusion.confusion is None or fusion.prior is None:
            return []
        kind = self._method.errors
        groups = study.index.groups
        errors = None
        if kind == "draws":
            known = self._options.get("prior") is not None
            errors = posterior_errors(study.triplets, fusion, known)
        elif kind is not None:
            errors = table_errors(study.triplets, groups, fusion, kind, self._options)
        shares = fusion.prior
        decided = fusion.labels != MISSING
        alike = self._options.get("prior") is None and not self._options.get("estimate_prior")
        if kind == "coin" and alike and decided.any():
            shares = fusion.truth[decided].mean(axis=0)  # it took classes as equally frequent
        names = study.raters, study.classes.names
        return performance_rows(*names, fusion.confusion, shares, errors, self._table_labels)

    def case_rows(self, case: Case, fusion: Fusion) -> list[Row]:
        """Return the raters' measures on one case of masks that is fitted alone."""
        if fusion.confusion is None or fusion.prior is None or fusion.confusion.ndim != 3:
            return []
        prior = known_prior(self._options)
        errors = None
        if prior is not None and self._method.errors == "rows":
            state = EMState(fusion.prior[:, np.newaxis], fusion.confusion)
            columns = columns_of(case.labels, len(self.study.classes))
            errors = case_errors(columns, state, prior)
        names = self.study.raters, self.study.classes.names
        labels = _labels_of(case)
        # 'Not q', which a model may take, is no label that is right or wrong.
        labels[[rater in self.study.negatives for rater in self.study.raters]] = 0
        return performance_rows(*names, fusion.confusion, fusion.prior, errors, labels)

    @cached_property
    def notes(self) -> list[str]:
        """What has to be said about the result; of masks, every case is fused for it."""
        if self.study.kind == "classification":
            triplets = self.study.triplets
            classes = len(self.study.classes)
            others = table_notes(triplets, classes, self.table, self._name, self._options)
            return [*with_names(self.table.notes, self.study.classes.names), *others]
        return self.notes_from(case_remarks(c.labels, f) for c, f in self.iter_cases())

    def notes_from(self, remarks: Iterable[Row]) -> list[str]:
        """Return the notes on masks from the remarks on their cases."""
        shared = [] if self._shared is None else self._shared.shared.notes
        found = notes_of(remarks, self.study.raters, self._name)
        return [*with_names(shared, self.study.classes.names), *found]

    @property
    def performance(self) -> pd.DataFrame:
        """How far each rater can be trusted, as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)


def _labels_of(case: Case) -> Array:
    """Return the number of labels of each rater of a mask."""
    return np.asarray((case.labels != MISSING).reshape(len(case.labels), -1).sum(axis=1))
