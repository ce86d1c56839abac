"""`raters.agree`: how far raters agree, who differs from the rest, and on which cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.core.errors import RatersError, one_of
from raters.core.wording import many
from raters.io.claim import Owner, check_folder, claim_folder
from raters.io.rows import Row, html, write_csv, write_json
from raters.study.places import Inputs
from raters.study.read import study_of
from raters.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
"""The name in the column `class` for all classes together."""

TABLES = ("overall", "pairs", "raters", "cases")
FILES = (*(f"{table}.csv" for table in TABLES), "agreement.json")
"""What is written."""
_OWNER = Owner("agree", "one that raters agree wrote its tables to")


@dataclass(repr=False)
class Agreement:
    """How far raters agree. A value that does not exist is None, and `notes` says why.

    Attributes:
        kind: 'segmentation' or 'classification'.
        overall: A row per class: mean pairwise scores, Fleiss' kappa, Krippendorff's alpha.
        pairs: One row per pair of raters and class.
        raters: A row per rater and class: against the vote of the others, volumes and bias.
        cases: A row per case, the most disputed first.
        notes: What a reader must know about the tables.
        inputs: What they were made from, where nothing is written.
    """

    kind: str
    overall: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    raters: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inputs: Inputs = field(default_factory=Inputs)

    def __repr__(self) -> str:
        raters = dict.fromkeys(row["rater"] for row in self.raters)
        sizes = f"{many(len(self.cases), 'case')}, {many(len(raters), 'rater')}"
        return f"Agreement({self.kind}, {sizes})"

    def _repr_html_(self) -> str:
        """Show the tables in a notebook, the first rows of each."""
        return html(repr(self), {table: getattr(self, table) for table in TABLES})

    def frame(self, table: str) -> pd.DataFrame:
        """Return one of the tables ('overall', 'pairs', 'raters', 'cases') as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(getattr(self, one_of(TABLES, table, "the table")))

    def write(self, folder: str | Path) -> None:
        """Write `overall.csv`, `pairs.csv`, `raters.csv`, `cases.csv` and `agreement.json`.

        Raises:
            RatersError: The folder holds other files than those of an earlier call.
        """
        refuse_place(self.inputs, folder)
        claim_folder(folder, _OWNER, FILES)
        for table in TABLES:
            write_csv(Path(folder) / f"{table}.csv", getattr(self, table))
        write_json(Path(folder) / "agreement.json", self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "inputs"}


def refuse_place(inputs: Inputs, folder: str | Path) -> None:
    """Reject a folder where tables would replace inputs, or what an earlier call did not write."""
    inputs.refuse(folder, FILES)
    check_folder(folder, _OWNER, FILES)


def rank_cases(rows: Sequence[Row], by: str) -> list[Row]:
    """Sort cases by how much raters differ, the most disputed first; unknown ones last."""
    return sorted(rows, key=lambda row: (row[by] is None, -(row[by] or 0.0)))


def agree(study: Study | Any, *, surfaces: bool = False, progress: bool = False) -> Agreement:  # noqa: ANN401
    """Compare the raters of a study with each other.

    Masks: Dice and IoU of each pair of raters are means over the cases that both labelled and at
    least one drew the class in (HD95 and the average surface distance too with `surfaces`; one
    empty mask scores as `raters.metrics.conventions` states); Cohen's kappa, Fleiss' kappa and
    Krippendorff's alpha are over all voxels of all cases. `dice_rest` compares a rater with what
    most of the others say (where they tie, nothing counts); `volume` is the mean volume in mm^3
    (pixels where the spacing is unknown) and `bias` the mean relative difference from the mean
    volume of the others, both over cases that a rater labelled wholly.
    Cases are ranked by `disagreement = 1 - mean pairwise Dice`.

    Tables: agreement is the share of pairs of readings of one task by two raters that are equal;
    `agreement_rest` compares a rater with what most of the others say, `agreement_self` with the
    rater's own repeated readings, which count nowhere else as agreement. Cases are ranked by the
    entropy of their labels.

    Labels that are MISSING count for nothing anywhere: two drawings are compared where both say
    something. Negative drawings of several classes are left out, and named in the notes.

    Args:
        study: The study, with at least two raters; or what `raters.read` takes, or labels
            `(cases, raters, *space)`.
        surfaces: Also compare surfaces (masks only; slower).
        progress: Show a progress bar.

    Example:
        >>> import numpy as np
        >>> from raters.study.study import Study
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1]]])
        >>> agreement = agree(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
        >>> agreement.pairs[-1]["dice"], agreement.pairs[-1]["kappa"]
        (0.8, 0.5)
    """
    whole = study_of(study)
    study = whole.without_negatives()
    if len(study.raters) < 2:
        found = f"only the rater {study.raters[0]!r}" if study.raters else "no raters"
        more = f" ({study.notes[-1]})" if whole.negatives else ""
        raise RatersError(f"found {found}{more}, expected at least two to compare")
    if study.kind == "classification":
        from raters.assessment.agreement_answers import answer_agreement

        result = answer_agreement(study)
    else:
        from raters.assessment.agreement_masks import mask_agreement

        result = mask_agreement(study, surfaces, progress)
        result.notes += study.notes[len(whole.notes) :]
    result.inputs = Inputs.of(study)
    return result
