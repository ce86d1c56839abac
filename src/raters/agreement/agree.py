"""`raters.agree`: how far raters agree, who differs from the rest, and on which cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raters.agreement.result import Agreement
from raters.errors import RatersError
from raters.study.places import Inputs
from raters.study.read import study_of

if TYPE_CHECKING:
    from raters.study.study import Study


def agree(study: Study | Any, surfaces: bool = False, progress: bool = False) -> Agreement:  # noqa: ANN401
    """Compare the raters of a study with each other.

    Masks: Dice and IoU of each pair of raters are means over the cases that both labelled and at
    least one drew the class in (HD95 and the average surface distance too with `surfaces`; one
    empty mask scores as `raters.scores.empty` states); Cohen's kappa, Fleiss' kappa and
    Krippendorff's alpha are over all voxels of all cases. `dice_rest` compares a rater with what
    most of the others say (where they tie, nothing counts); `volume` is the mean volume in mm^3
    (pixels where the spacing is unknown) and `bias` the mean relative difference from the mean
    volume of the others, both over cases that a rater labelled wholly.
    Cases are ranked by `disagreement = 1 - mean pairwise Dice`.

    Tables: agreement is the share of pairs of readings of one task by two raters that are equal;
    `agreement_rest` compares a rater with what most of the others say, `agreement_self` with the
    rater's own repeated readings, which count nowhere else as agreement. Cases are ranked by the
    entropy of their labels.

    Labels that are MISSING count for nothing anywhere.

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
    study = study_of(study)
    if len(study.raters) < 2:
        found = f"only the rater {study.raters[0]!r}" if study.raters else "no raters"
        raise RatersError(f"found {found}, expected at least two to compare")
    if study.kind == "classification":
        from raters.agreement.answers import answer_agreement

        result = answer_agreement(study)
    else:
        from raters.agreement.masks import mask_agreement

        result = mask_agreement(study, surfaces, progress)
    result.inputs = Inputs.of(study)
    return result
