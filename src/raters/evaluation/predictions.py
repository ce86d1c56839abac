"""Finds predicted masks by the names of cases and reads them in the classes of a study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study import formats
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend, refuse_other_grid
from raters.study.canonical import files_below
from raters.study.classes import MISSING
from raters.study.paths import case_path, file_name
from raters.study.pattern import Pattern, is_pattern, there
from raters.study.whole_numbers import value_counts

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


SOFT_FOLDER, ENTROPY_FOLDER, CONFUSION_FOLDER = "soft", "entropy", "confusion"
"""Where `raters fuse` and `raters predict` write probabilities, uncertainty and matrices."""

PREDICT_JOURNAL = ".predict.jsonl"
"""The file that says which cases `raters predict` has finished in a folder."""

FUSE_JOURNAL = ".fuse.jsonl"
"""The file that says which cases `raters fuse` has finished in a folder."""


def rater_folder(rater: str) -> str:
    """Return the folder in which `raters predict` writes what a rater would draw.

    Example:
        >>> rater_folder("ann"), rater_folder("../x")
        ('as-ann', 'as-%2E.%2Fx')
    """
    return f"as-{file_name(rater)}"


class PredictedMasks:
    """Masks predicted for the cases of a study, one file per case.

    Args:
        source: A folder with files named as the cases are (`<case>.nii.gz`), or a pattern with
            `{case}`; further names in it must be those of the study's cases.
        study: The study that the predictions are for.

    Attributes:
        missing: Cases of the study without a prediction.
        strange: Files that belong to no case of the study.
    """

    def __init__(self, source: str | Path, study: Study) -> None:
        found = _found(os.fspath(source))
        names = [str(case) for case in study.index.ids]
        self._study = study
        # `raters fuse` writes 255 where it is undecided; elsewhere 0 and 255 are black and white.
        fused = (_folder(source) / FUSE_JOURNAL).exists()
        self._white = study.classes.values == (0, 1) and not (fused or 255 in study.ignored)
        self._files = {case: found[case_path(case)] for case in names if case_path(case) in found}
        self.missing = [case for case in names if case not in self._files]
        known = {case_path(case) for case in names}
        self.strange = [str(path) for name, path in found.items() if name not in known]
        if not self._files:
            raise RatersError(
                f"found no prediction for any of {len(names):,} cases, expected files named as the "
                f"cases are, such as {case_path(names[0])!r}; {there(_folder(source))}",
                kind="empty",
                file=source,
            )

    def __contains__(self, case: str) -> bool:
        return case in self._files

    def read(self, case: Case) -> NDArray[np.int16]:
        """Read the prediction for a case as class numbers on the grid of the case."""
        classes = self._study.classes
        ignore = self._study.ignored or (classes.free_value(),)
        files = [CaseFiles(masks={"": {"": self._files[case.id]}})]
        mask = FilesBackend(files, LabelRules(ignore=ignore), white=self._white).mask(0, "")
        assert mask is not None  # its file is known
        refuse_other_grid(mask.geometry, mask.source, case.geometry, f"case {case.id!r}")
        try:
            return self._encode(mask.values, ignore)
        except RatersError as error:
            raise error.at(file=mask.source, case=case.id) from None

    def _encode(self, values: NDArray[Any], ignore: tuple[int, ...]) -> NDArray[np.int16]:
        """Take values as those of the study's files, else as class numbers where that is plain."""
        try:
            return self._study.encode(values, coded=False, ignore=ignore)
        except RatersError:
            if not self._numbers_are_plain(values, ignore):
                raise
            numbers = np.where(np.isin(values, ignore), MISSING, values)
            return self._study.encode(numbers, coded=True)

    def _numbers_are_plain(self, values: NDArray[Any], ignore: tuple[int, ...]) -> bool:
        """Return whether values can only be class numbers: no class has the number of another."""
        classes = self._study.all_classes
        numbers = {v: k for k, c in enumerate(classes) for v in (c.value, *c.also)}
        clash = any(numbers.get(k, k) != k or k in ignore for k in range(len(classes)))
        return not clash and set(value_counts(values)) <= {*range(len(classes)), *ignore}


def _folder(source: str | Path) -> Path:
    text = os.fspath(source)
    return Pattern(text).root if is_pattern(text) else Path(text)


def _found(source: str) -> dict[str, Path]:
    """Return all files by the name that a case would have."""
    if not is_pattern(source):
        if not Path(source).is_dir():
            raise RatersError(
                "no such folder, expected a folder of predictions or a pattern with {case}",
                kind="missing-folder",
                file=source,
            )
        # Soft maps and more lie beside the masks that `raters fuse` and `raters predict` write.
        beside: tuple[str, ...] = (f"{SOFT_FOLDER}/",)
        if (Path(source) / PREDICT_JOURNAL).exists():
            raters = (f"{p.name}/" for p in Path(source).glob("as-*") if p.is_dir())
            beside = (*beside, f"{ENTROPY_FOLDER}/", f"{CONFUSION_FOLDER}/", *raters)
        return {
            name: path
            for name, path in files_below(Path(source))
            if formats.is_supported(path) and not name.startswith(beside)
        }
    pattern = Pattern(source)
    problems: list[RatersError] = []
    matches = list(pattern.walk(problems))
    if not matches:
        raise problems[0] if problems else pattern.nothing_found()
    return {case_path("/".join(m.fields.values())): m.path for m in matches}
