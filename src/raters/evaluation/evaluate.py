"""`raters.evaluate`: how good a run, a model, a folder of predictions or arrays are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError, enough_memory
from raters.core.progress import ordered_map, track
from raters.core.whole_numbers import at_least
from raters.core.wording import expected_one_of
from raters.evaluation.case import REFERENCE, CaseScores, Scoring, Unions
from raters.evaluation.masks import ALL
from raters.evaluation.result import Evaluation
from raters.evaluation.sources import Bands, PredictedArrays, PredictedMasks, Stream, read_classes
from raters.evaluation.tables import Sums, entry, fill
from raters.io.rows import Row, known
from raters.learning.networks.options import Own
from raters.learning.training.run import CONFIG
from raters.metrics.bootstrap import LEAST_GROUPS, interval
from raters.metrics.chosen_cut import CutGiven
from raters.metrics.cut import cuts_of
from raters.metrics.overlap import balanced_accuracy
from raters.study.case import Case
from raters.study.places import Inputs
from raters.study.read import study_of
from raters.study.study import Study
from raters.study.study_file import STUDY_FILE

SAMPLES = 16
"""Samples that are drawn for each case, of methods that have them (as in Kohl et al., 2018)."""

UnionsGiven = Mapping[str, Sequence[str | int]] | Sequence[str]


def evaluate(
    predictions: Any,  # noqa: ANN401
    study: Study | str | Path,
    split: str | None = None,
    *,
    raters: Sequence[str] | None = None,
    unions: UnionsGiven = (),
    surfaces: bool = True,
    cut: CutGiven = 0.5,
    samples: int = SAMPLES,
    seed: int = 0,
    task: str = "task",
    label: str = "label",
    progress: bool = False,
    network: Own | None = None,
) -> Evaluation:
    """Score predictions against the reference of a study and against each of its raters.

    Masks: Dice, IoU, HD95 and the average surface distance in mm (pixels where the spacing is
    unknown) and the difference of volumes (positive where the prediction is larger), for each
    case, foreground class, their mean, and unions of classes (`raters.metrics.conventions` states
    what empty masks score). Soft Dice compares with the mean label of raters. Samples have their
    energy distance from the raters, matched Dice and best Dice. Class labels: accuracy and
    balanced accuracy. Probabilities: calibration as well. Trained models: also how likely they make
    the raters' labels, and 'as rater X' against the labels of X and of every other rater.

    Means come with 95 % bootstrap intervals over groups. Labels that are MISSING count for
    nothing; negative drawings of several classes are left out, and named. Predictions on another
    grid are failures, cases without a prediction are noted.

    Args:
        predictions: The folder of a run, or a `Model`: the study must have images. Or a folder
            with masks named as the cases are, or a pattern with `{case}`; for tables a CSV or
            Parquet file with the columns of task and label. Or arrays: by the name of the case (or
            in the order of the study) class numbers `(*space)` or probabilities
            `(classes, *space)`; of tables a number or `(classes,)`.
        study: The study, with raters or references; or what `raters.read` takes.
        split: A split of the study; else, by what a run used its cases for: 'train', 'held-out'
            (or 'val'), 'test' (or 'new': seen by neither). None takes all cases.
        raters: Compare 'as rater' only for these; by default all that run and study share.
        unions: Classes that are scored as one (masks), by the name of their union:
            `{"disc": ["rim", "cup"]}`, by name or value; or as texts, `["disc=rim+cup"]`.
        surfaces: Whether to measure surface distances (masks).
        cut: Where probabilities of masks are cut in all tables, as for `Model.cut`. Dice at the
            cuts of a trained model is given whatever it is (`Evaluation.cuts`).
        samples: How many samples to draw of each case, if the method of a run has samples.
        seed: Where the randomness of samples starts.
        task: The column of the task in a table of predictions.
        label: The column of the predicted label in a table of predictions.
        progress: Show a progress bar.
        network: The user's own network, where a run was trained with one, as for `raters.load`.

    Raises:
        RatersError: For what is no prediction of this study, a split without cases, or unions of
            unknown classes.

    Example:
        >>> import numpy as np, raters
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(0, 2, 60)
        >>> labels = np.where(rng.random((60, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
        >>> features = truth[:, None] + rng.normal(0, 0.1, (60, 1))
        >>> splits = ["train"] * 40 + ["test"] * 20
        >>> study = raters.Study.from_arrays(features, labels, truth, splits=splits)
        >>> model = raters.fit(study, "global-cm", epochs=5, progress=False)
        >>> raters.evaluate(model, study, "test").main["score"]
        1.0
        >>> raters.evaluate(labels[:, 0], study).summary[1]["accuracy"]  # rater '0' with itself
        1.0
    """
    if isinstance(predictions, Study):
        raise RatersError("found a study first, expected evaluate(predictions, study)")
    study = study_of(study)
    samples = at_least(0, samples, "samples")
    cut = cut.tolist() if hasattr(cut, "tolist") else cut
    if is_run(predictions):
        from raters.learning.evaluation.runs import score_runs
        from raters.learning.networks.options import allowing

        options: dict[str, Any] = {"surfaces": surfaces, "samples": samples, "seed": seed}
        options |= {"raters": raters, "unions": unions, "cut": cut, "progress": progress}
        with allowing(network):
            return score_runs([predictions], study, split, **options)[0]
    is_path = isinstance(predictions, str | os.PathLike)
    if is_path and (Path(predictions) / STUDY_FILE).exists():
        raise RatersError(
            "found a study, expected predictions: a run, a folder of masks, a table of labels",
            file=predictions,
        )
    if cut not in (0.5, "0.5") if is_path else isinstance(cut, str):
        raise RatersError(
            f"found the cut {cut!r} for predictions that are no run, expected none for labels "
            "already cut (raters predict --cut does it), and numbers for arrays",
            file=predictions if is_path else None,
        )
    kept = study.without_negatives()
    part = kept.select(split=split) if split else kept
    merged = unions_of(unions, part)
    if part.kind == "classification":
        result = _evaluate_classes(predictions, part, is_path, task, label, progress)
    else:
        source = (PredictedMasks if is_path else PredictedArrays)(predictions, part)
        cuts = None if isinstance(cut, str) else cuts_of(cut, len(part.classes))
        scoring = Scoring(part, cut=cuts, surfaces=surfaces, unions=merged)
        result = score_cases(source.stream(), scoring, progress=progress, at_once=True)
        result.notes = source.notes + result.notes + list(kept.notes[len(study.notes) :])
    result.split = split or ""
    result.inputs = inputs_of(predictions, study)
    return result


def is_run(predictions: Any) -> bool:  # noqa: ANN401
    """Return whether something is a model, or the folder of a run."""
    if isinstance(predictions, str | os.PathLike):
        return (Path(predictions) / CONFIG).exists()
    return hasattr(predictions, "method") and hasattr(predictions, "config")


def inputs_of(predictions: Any, study: Study) -> Inputs:  # noqa: ANN401
    """Return what is read: the study and the predictions."""
    found = Inputs.of(study)
    if not isinstance(predictions, str | os.PathLike):
        return found
    named = Inputs.run if is_run(predictions) else Inputs.named
    return found.and_of(named(os.fspath(predictions)))


def unions_of(given: UnionsGiven, study: Study) -> Unions:
    """Return the class numbers of each union, by its name.

    Args:
        given: By name the classes of each union, by name or value; or texts such as 'disc=1+2'.
        study: The study.

    Raises:
        RatersError: For a union of unknown classes or of background, or with a name that is taken.

    Example:
        >>> import numpy as np, raters
        >>> masks, names = np.zeros((1, 1, 2, 2), int), {0: "background", 1: "rim", 4: "cup"}
        >>> study = raters.Study.from_arrays(labels=masks, classes=names)
        >>> unions_of(["disc=rim+4"], study), unions_of({"disc": [1, "cup"]}, study)
        ({'disc': (1, 2)}, {'disc': (1, 2)})
    """
    if not isinstance(given, Mapping):
        texts = [given] if isinstance(given, str) else list(given)
        named: dict[str, list[str]] = {}
        for name, equals, words in (text.rpartition("=") for text in texts):
            if not name.strip() or name.strip() in named:
                raise RatersError(
                    f"found the union {name + equals + words!r}, expected NAME=CLASS+CLASS such as "
                    "disc=1+2, each name once"
                )
            named[name.strip()] = [word.strip() for word in words.split("+")]
        given = named
    if given and study.kind != "segmentation":
        raise RatersError("found unions of classes for class labels, expected them for masks only")
    return {str(name): _members(str(name), words, study.classes) for name, words in given.items()}


def _members(name: str, words: Sequence[str | int] | str, classes: Classes) -> tuple[int, ...]:
    if name in (*classes.names, ALL):
        raise RatersError(f"found the union {name!r}, expected a name that no class has")
    places = {str(c.value): k for k, c in enumerate(classes) if k}
    places |= {c.name: k for k, c in enumerate(classes) if k}
    found: list[int] = []
    for word in map(str, [words] if isinstance(words, str) else words):
        if word not in places:
            known = [f"{c.value}={c.name}".removeprefix(f"{c.name}=") for c in classes.items[1:]]
            expected = expected_one_of(known, word)
            raise RatersError(f"found {word!r} in the union {name!r}, {expected}")
        if places[word] in found:
            raise RatersError(f"found {word!r} twice in the union {name!r}, expected it once")
        found.append(places[word])
    if not found:
        raise RatersError(f"found no class in the union {name!r}, expected one at least")
    return tuple(found)


def _evaluate_classes(
    predictions: Any,  # noqa: ANN401
    study: Study,
    is_path: bool,
    task: str,
    label: str,
    progress: bool,
) -> Evaluation:
    """Score predicted classes; of labels alone all cases at once, as tables may be long."""
    if is_path:
        predicted, notes = read_classes(predictions, study, task, label)
    else:
        arrays = PredictedArrays(predictions, study)
        found = arrays.classes()
        notes = arrays.notes
        if found is None:
            result = score_cases(arrays.stream(), Scoring(study), progress=progress)
            result.notes = notes + result.notes
            return result
        predicted = found
    result = Evaluation(notes=notes)
    result.summary, result.cases = label_tables(study, predicted)
    if not result.summary:
        raise RatersError("found neither raters nor references, expected labels to compare with")
    return result


def label_tables(study: Study, predicted: NDArray[np.int16]) -> tuple[list[Row], list[Row]]:
    """Compare predicted classes with the reference and each rater; nothing else is known of them.

    Args:
        study: The study of class labels.
        predicted: Class numbers in its order, `(cases,)`, with MISSING.

    Returns:
        Accuracies, and one row per case.
    """
    truth = study.reference_labels
    triplets = study.triplets
    groups = study.index.groups
    summary = []
    if truth is not None:
        summary.append(_accuracies(REFERENCE, truth, predicted, groups, len(study.classes)))
    for k, rater in enumerate(study.raters):
        own = triplets.rater == k
        tasks = triplets.task[own]
        labels = triplets.label[own]
        if tasks.size:
            found = predicted[tasks]
            summary.append(_accuracies(rater, labels, found, groups[tasks], len(study.classes)))
    names = (*study.classes.names, None)  # the last one for MISSING, which is -1
    rows = []
    for k, case in enumerate(study.index.ids):
        row: Row = {"case": case, "group": groups[k], "split": study.index.splits[k]}
        row["predicted"] = names[predicted[k]]
        if truth is not None:
            known = truth[k] != MISSING and predicted[k] != MISSING
            right = bool(truth[k] == predicted[k]) if known else None
            row |= {REFERENCE: names[truth[k]], "right": right}
        rows.append(row)
    return summary, rows


def _accuracies(
    against: str,
    truth: NDArray[Any],
    predicted: NDArray[np.int16],
    groups: NDArray[np.object_],
    num_classes: int,
) -> Row:
    seen = (truth != MISSING) & (predicted != MISSING)
    right = np.where(seen, truth == predicted, np.nan).astype(np.float64)
    row: Row = {"against": against, "cases": int(seen.sum())}
    if not seen.any():
        return row | dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high"), None)
    row |= entry("accuracy", interval(right, list(groups)))
    balanced = balanced_accuracy(truth[seen], predicted[seen], num_classes)
    return row | {"balanced_accuracy": known(balanced)}


def score_cases(
    stream: Stream | Iterable[tuple[Case, Bands]],
    scoring: Scoring,
    *,
    progress: bool = False,
    at_once: bool = False,
) -> Evaluation:
    """Score what was predicted of cases.

    Args:
        stream: The cases, each with bands of rows, or with what went wrong.
        scoring: What is compared, and how.
        progress: Show a progress bar.
        at_once: Whether cases may be taken several at a time, and in threads.
    """
    result = Evaluation()
    sums = Sums(scoring)

    def work(item: tuple[Case, Bands]) -> CaseScores | RatersError:
        case, bands = item
        try:
            if isinstance(bands, RatersError):
                raise bands
            with enough_memory(case.id):
                found = CaseScores(case, scoring)
                for band in bands:
                    found.add(band)
                return found.finish()
        except RatersError as error:
            return error.at(case=case.id)

    done = ordered_map(work, stream) if at_once else map(work, stream)
    for found in track(done, len(scoring.study), "scoring", progress):
        if isinstance(found, RatersError):
            result.failures.append(found)
        else:
            sums.add(found)
    if not sums.names and result.failures:
        raise result.failures[0]
    if not sums.rows:
        raise RatersError("found neither raters nor references, expected labels to compare with")
    fill(result, sums)
    if len(set(sums.groups)) < LEAST_GROUPS:
        result.notes.append(f"fewer than {LEAST_GROUPS} groups: there are no intervals")
    drawn = max((row["samples"] for row in result.variability), default=0)
    if drawn:
        result.notes.append(
            f"ged is 2 E d(s, y) - E d(s, s') - E d(y, y') with d = 1 - IoU (0 for two empty "
            f"masks), not squared, V form, with {drawn} samples per case"
        )
    return result
