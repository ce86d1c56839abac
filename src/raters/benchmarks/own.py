"""Methods compared on your own study, without truth: `raters bench run --study STUDY`.

Cases are dealt into folds by group; each fold is held out once. All methods are trained alike on
the other folds, with several seeds. What is compared on the held-out cases:

    likelihood   mean log-likelihood of a label, all raters of a case together (the joint form)
    left_out     mean log-likelihood of a label, given the image and the other raters' labels
    stability    agreement of what the seeds of a fold predict
    dice, accuracy   where the study has references
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.benchmarks.run import BenchRun
from raters.fusion.cluster import Tell
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.study import Study

NAME = "own"
"""The name of the benchmark: results lie at FOLDER/own/."""

DEFAULT_METHODS = {
    "segmentation": ("vote", "mean", "staple", "global-cm", "pixel-cm"),
    "classification": ("vote", "mean", "dawid-skene", "global-cm", "pixel-cm"),
}


@dataclass
class StudyComparison:
    """What methods reach on a study.

    Attributes:
        rows: One row per method: means over held-out cases and seeds of each score, by the names of
            `raters.benchmarks.scores.SCORES`, and `cells` (done of all).
        run: Cells that were run, skipped, or failed.
        notes: What a reader must know.
        advice: One sentence; '' where there is none to give.
    """

    rows: list[Row]
    run: BenchRun
    notes: list[str] = field(default_factory=list)
    advice: str = ""

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        raise NotImplementedError

    def write(self, folder: str | Path) -> None:
        """Write `comparison.md`, `comparison.csv` and `comparison.json`."""
        raise NotImplementedError


def compare_study(
    study: Study | str | Path,
    methods: Sequence[str] | None = None,
    folder: str | Path = "bench",
    *,
    seeds: Sequence[int] = (0, 1),
    folds: int = 3,
    num_workers: int | None = None,
    scheduler: str | None = None,
    again: bool = False,
    progress: bool = False,
    tell: Tell | None = None,
    **options: Any,  # noqa: ANN401
) -> StudyComparison:
    """Train methods alike on a study and compare them on held-out cases, without truth.

    Cells lie at `FOLDER/own/laptop/FOLD/METHOD-SEED.json`: a run that was stopped goes on with the
    cells that are missing. The table is written to `FOLDER/comparison.md`, `.csv` and `.json`.

    Args:
        study: What `raters.read` opened, or a path or pattern that it takes. Cases of the split
            'test' are left alone.
        methods: Names of learning methods; by default `DEFAULT_METHODS` of the study's kind.
        folder: Where results are written.
        seeds: Of the training; the folds are the same for all.
        folds: How many; each is held out once.
        num_workers: As in `run_cells`.
        scheduler: As in `run_cells`.
        again: As in `run_cells`.
        progress: As in `run_cells`.
        tell: As in `run_cells`.
        **options: Options of training (`epochs`, `width`, `val_fraction`, ...), for all methods
            alike.

    Raises:
        RatersError: An unknown method or option, a study without images or with one rater only,
            fewer groups than folds, or what `run_cells` raises.
    """
    raise NotImplementedError
