"""Predicted class labels against the reference and against each rater."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.evaluation.result import REFERENCE, Evaluation
from raters.rows import Row
from raters.scores.bootstrap import interval
from raters.scores.classes import balanced_accuracy
from raters.study.classes import MISSING
from raters.study.paths import refuse_special
from raters.study.read_table import labels_of_tasks

if TYPE_CHECKING:
    from raters.study.study import Study


def evaluate_answers(source: str | Path, study: Study, task: str, label: str) -> Evaluation:
    """Score a table of predicted labels; `raters.evaluate` says what the tables hold."""
    predicted, notes = _read(Path(source), study, task, label)
    result = Evaluation(notes=notes)
    truth = study.reference_labels
    if truth is not None:
        result.summary.append(_summary(REFERENCE, truth, predicted, study.index.groups, study))
    triplets = study.triplets
    for k, rater in enumerate(study.raters):
        own = triplets.rater == k
        tasks, labels = triplets.task[own], triplets.label[own]
        if tasks.size:
            groups = study.index.groups[tasks]
            result.summary.append(_summary(rater, labels, predicted[tasks], groups, study))
    if not result.summary:
        raise RatersError("found neither raters nor references, expected labels to compare with")
    result.cases = _case_rows(study, predicted, truth)
    return result


def _read(path: Path, study: Study, task: str, label: str) -> tuple[NDArray[np.int16], list[str]]:
    """Read predictions as class numbers in the order of the study; MISSING where there is none."""
    path, task = _table(path, task)
    found = labels_of_tasks(path, list(study.index.ids), task, label)
    known = {str(c.value): k for k, c in enumerate(study.classes)}
    known |= {c.name: k for k, c in enumerate(study.classes) if c.name not in known}
    predicted = class_numbers(found, known, study, path)
    missing = int((predicted == MISSING).sum())
    if missing == len(study):
        raise RatersError(
            f"found no prediction for any of {len(study):,} tasks: there are {_some(found)}, "
            f"expected {_some(study.index.ids)}",
            file=path,
            kind="empty",
        )
    strange = len(set(found) - set(study.index.ids))
    notes = [f"{missing:,} tasks without a prediction (left out)"] if missing else []
    return predicted, notes + ([f"{strange:,} predictions for unknown tasks"] if strange else [])


def _some(names: Iterable[str]) -> str:
    """Write some names, to be compared by eye."""
    first = [repr(str(name)) for name in islice(names, 4)]
    return ", ".join([*first[:3], "..."] if len(first) > 3 else first) or "none"


def class_numbers(
    found: Mapping[str, str], known: Mapping[str, int], study: Study, path: Path
) -> NDArray[np.int16]:
    """Return the class of each task of a study, `(tasks,)`; MISSING where there is none.

    Args:
        found: The label of each task, as it was written.
        known: The class of each label.
        study: The tasks, and the classes that are expected.
        path: Where the labels were found, for messages.

    Raises:
        RatersError: that names the first label that stands for no class.
    """
    labels = np.full(len(study), MISSING, np.int16)
    for k, task in enumerate(study.index.ids):
        value = found.get(task, "").strip()
        if value and value not in known:
            raise RatersError(
                f"found the label {value!r} for task {task!r}, "
                f"expected one of {', '.join(study.classes.names[:20])}",
                kind="unknown-value",
                file=path,
            )
        labels[k] = known[value] if value else MISSING
    return labels


def _table(path: Path, task: str) -> tuple[Path, str]:
    """Find the table in a folder that `raters predict` or `raters fuse` wrote, and its column."""
    for name in ("predictions.csv", "labels.csv") if path.is_dir() else ():
        if (path / name).exists():
            path = path / name
            break
    if task == "task" and path.name == "predictions.csv" and path.exists():
        refuse_special(path)
        with open(path, encoding="utf-8-sig") as file:
            names = [cell.strip().strip('"') for cell in file.readline().split(",")]
        task = "case" if "case" in names and "task" not in names else task
    return path, task


def _summary(
    against: str,
    truth: NDArray[Any],
    predicted: NDArray[np.int16],
    groups: NDArray[np.object_],
    study: Study,
) -> Row:
    seen = (truth != MISSING) & (predicted != MISSING)
    right = np.where(seen, truth == predicted, np.nan).astype(np.float64)
    entry: Row = {"against": against, "cases": int(seen.sum())}
    if not seen.any():
        return entry | dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high"), None)
    found = interval(right, list(groups))
    balanced = balanced_accuracy(truth[seen], predicted[seen], len(study.classes))
    entry |= {"accuracy": found.estimate, "accuracy_low": found.low, "accuracy_high": found.high}
    entry["balanced_accuracy"] = balanced
    return {k: None if v != v else v for k, v in entry.items()}


def _case_rows(
    study: Study, predicted: NDArray[np.int16], truth: NDArray[np.int16] | None
) -> list[Row]:
    names = (*study.classes.names, None)  # the last one for MISSING, which is -1
    rows = []
    for k, case in enumerate(study.index.ids):
        row: Row = {"case": case, "group": study.index.groups[k], "split": study.index.splits[k]}
        row |= {"predicted": names[predicted[k]]}
        if truth is not None:
            known = truth[k] != MISSING and predicted[k] != MISSING
            row |= {
                REFERENCE: names[truth[k]],
                "right": bool(truth[k] == predicted[k]) if known else None,
            }
        rows.append(row)
    return rows
