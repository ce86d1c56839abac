"""`raters.evaluate`: how good predictions or consensus labels are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.evaluation.result import Evaluation
from raters.study.places import Inputs

if TYPE_CHECKING:
    from raters.study.study import Study


def evaluate(
    predictions: str | Path,
    study: Study,
    surfaces: bool = True,
    task: str = "task",
    label: str = "label",
    progress: bool = False,
) -> Evaluation:
    """Score predictions against the reference of a study and against each of its raters.

    Masks: Dice, IoU, HD95 and the average surface distance in mm (pixels where the spacing is
    unknown) and the difference of volumes (positive where the prediction is larger), for each
    case, foreground class and their mean. `raters.scores.empty` states what empty masks score.
    Tables: accuracy and balanced accuracy.

    Means come with 95 % bootstrap intervals over groups. Labels that are MISSING count for
    nothing. Predictions on another grid are failures, cases without a prediction are noted.

    Args:
        predictions: A folder with files named as the cases are, or a pattern with `{case}`; for
            tables a CSV or Parquet file with the columns of task and label.
        study: The study, with raters or references.
        surfaces: Whether to measure surface distances (masks).
        task: The column of the task in a table of predictions.
        label: The column of the predicted label in a table of predictions.
        progress: Show a progress bar.
    """
    if (Path(predictions) / "study.yaml").exists():
        raise RatersError(
            "found a study, expected predictions: a folder of masks or a table of labels",
            file=predictions,
        )
    if study.kind == "classification":
        from raters.evaluation.answers import evaluate_answers

        result = evaluate_answers(predictions, study, task, label)
    else:
        from raters.evaluation.masks import evaluate_masks

        result = evaluate_masks(predictions, study, surfaces, progress)
    result.inputs = inputs_of(predictions, study)
    return result


def inputs_of(predictions: str | Path, study: Study) -> Inputs:
    """Return what is read: the study and the predictions."""
    return Inputs.of(study).and_of(Inputs.named(predictions))
