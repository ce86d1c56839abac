"""Sees what a report is asked for: a study, a fusion result or a trained run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from raters.errors import RatersError
from raters.evaluation.predictions import PREDICT_JOURNAL
from raters.study.remember import SOURCE_FILE, remembered_options, remembered_study
from raters.study.study import Study
from raters.study.study_file import STUDY_FILE

Kind = Literal["study", "fusion", "run"]

_RUN_FILES = ("config.yaml", "weights.safetensors", "history.csv")
_FUSION_FILES = ("raters.json", ".fuse.jsonl")


def kind_of(path: str | Path) -> Kind:
    """Return what a path is.

    Raises:
        RatersError: A folder that is none of the three.

    Example:
        >>> kind_of("masks/{rater}/{case}.png")
        'study'
    """
    text = os.fspath(path)
    folder = Path(text)
    if not folder.is_dir():
        return "study"  # a pattern, a manifest or a table: reading it says what is wrong
    if (folder / "config.yaml").exists() and any((folder / f).exists() for f in _RUN_FILES[1:]):
        return "run"
    if any((folder / name).exists() for name in _FUSION_FILES):
        return "fusion"
    if (folder / "config.yaml").exists():
        return "run"
    if (folder / STUDY_FILE).exists():
        return "study"
    raise _foreign(folder)


def _foreign(folder: Path) -> RatersError:
    expected = (
        "expected a study (a folder of 'raters import', a pattern, a table), a fusion "
        "(raters fuse -o) or a run (raters train -o)"
    )
    if (folder / PREDICT_JOURNAL).exists():
        return RatersError(f"found predictions, {expected}", kind="not-a-report", file=folder)
    from raters.study.pattern import suggest_pattern, there

    guess = suggest_pattern(folder)
    hint = f"; did you mean the pattern {guess}?" if guess else ""
    return RatersError(
        f"found none of study, fusion and run in it, {expected}; {there(folder)}{hint}",
        kind="not-a-report",
        file=folder,
    )


def study_of(
    folder: str | Path,
    changed: dict[str, Any] | None = None,
) -> tuple[Study | None, str]:
    """Open the study that a run or a fusion comes from.

    A study that cannot be found is no error: the report shows what the folder holds.

    Args:
        folder: The run, or the fusion.
        changed: Arguments of `raters.read` that take the place of the remembered ones.

    Returns:
        The study, or None and why there is none.

    Raises:
        RatersError: `source.yaml` holds what it must not.
    """
    missing = f"found no study of {folder}, expected --study STUDY to show what raters drew"
    if remembered_options(folder) is None:
        return None, f"{missing}: there is no {SOURCE_FILE} in it"
    try:
        return remembered_study(folder, **(changed or {})), ""
    except (RatersError, OSError) as error:
        return None, f"{missing}: {error}"
