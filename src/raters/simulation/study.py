"""Makes a study with simulated raters of one that has the truth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from raters.core.arrays import Array, Flags, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.progress import ordered_map, track
from raters.io.paths import refuse_special, written_whole
from raters.metrics.confusion.matrices import dominance_margin
from raters.simulation.backend import DrawingRater, SimulatedMasks, SimulatedTable
from raters.simulation.classes import KINDS, Matrix, cifar_raters, dominant, labels_at, skilled
from raters.simulation.shape import generator, uniforms
from raters.simulation.specs import How, Spec, parse_raters, unique_names
from raters.simulation.specs import assign as assign_cases
from raters.study.annotations import UNMARKED, Unmarked, known_unmarked, usual_unmarked
from raters.study.backend import LabelRules
from raters.study.places import Inputs
from raters.study.study import Study
from raters.study.triplets import Triplets

PIXEL_CM = "good,over,under,wrong,blank"
"""The five raters of pixel-cm (appendix A.1)."""

_CONFUSION_FIELDS = ("confusion", "cases", "raters", "classes")


def simulate(
    truth: Study | Array,
    raters: str | Mapping[str, Floats] = PIXEL_CM,
    *,
    severity: float | None = None,
    mean_dice: float | None = None,
    group_dice: float | None = None,
    assign: How = "all",
    seed: int = 0,
    target: str | None = None,
    spread: float = 0.01,
    require_dominance: bool = False,
    unmarked: Unmarked | None = UNMARKED,
) -> Study:
    """Return a study with the images and the truth of another and labels by simulated raters.

    Masks are drawn when they are asked for, each from the seed, the name of its case and the name
    of its rater: any case can be drawn alone, in any order and on any machine. Class labels are
    drawn at once. `true_confusion` gives the matrices that the raters really have.

    How much a drawer errs: what its own part of `raters` says ('over:2.5', 'under@0.7'), else
    `severity`, else `mean_dice`; else its usual mean Dice (`Drawer.usual`). A mean Dice is
    found by trial on up to 500 cases (`calibrate`).

    Kinds of `COARSE` hand in coarse annotations: 'positive@0.5' draws half of the area of each
    class, 'negative' all that is not of it, each too large by half of the class's mean half
    thickness and with fractures unless a severity says otherwise ('positive:1@0.5': by all of it);
    then 'scribble', 'box', and 'level1' to 'level5'. Of several foreground classes a positive rater
    draws all, and each has a negative rater of its own.

    Args:
        truth: A study with references (its raters, if any, are left out), or class numbers
            `(cases, *space)`, or `(cases,)` for classes.
        raters: Kinds of raters as `parse_raters` reads them: of `DRAWERS` and `COARSE` for masks,
            of `KINDS` or 'cifar' for classes; or, for classes, the matrix of each name.
        severity: The severity of all drawers that have none of their own.
        mean_dice: The mean Dice of each of these drawers.
        group_dice: The mean Dice over all raters together (pixel-cm, Fig. 4): the severities
            of all drawers that have none of their own, but 'blank', are scaled by one factor.
        assign: Who labels which case, see `raters.simulation.specs`.
        seed: Randomness.
        target: The class that drawers err on, and that coarse annotations mark, by name; by
            default every foreground class.
        spread: The standard deviation of the skills of class raters around the asked one.
        require_dominance: Draw the matrices of class raters until their mean is column-dominant.
        unmarked: What pixels say that a positive or negative drawing leaves unmarked: that they
            are the 'rest', or nothing ('unknown'); None: as files of these kinds are read.

    Example:
        >>> truth = np.zeros((3, 16, 16), int)
        >>> truth[:, 4:12, 5:11] = 1
        >>> study = simulate(truth, "good:0.3,over:1.5,blank", assign=2, seed=1)
        >>> study
        Study(segmentation, 3 cases, 3 raters, 2 classes)
        >>> study["1"].labels.shape
        (3, 16, 16)
        >>> true_confusion(study, "1").shape
        (3, 2, 2)
    """
    from raters.simulation.calibrate import Amounts, simulate_masks
    from raters.study.read import axes_of  # it reads tables, which takes time to import

    if not isinstance(truth, Study) and axes_of(truth) == 2:
        raise RatersError(
            "found a truth of 2 axes (one mask?), expected (cases, *space), or (cases,) of class "
            "labels: truth[np.newaxis] for one mask, Study.from_arrays(reference=truth) for signals"
        )
    source = truth if isinstance(truth, Study) else Study.from_arrays(reference=truth)
    source = source.select(raters=[])
    if not len(source):
        raise RatersError("found no cases, expected at least one", kind="empty")
    specs: tuple[Spec, ...] | Mapping[str, Floats] = (
        parse_raters(raters) if isinstance(raters, str) else raters
    )
    if source.kind == "classification":
        return simulate_classes(
            source, specs, assign, seed, spread, require_dominance=require_dominance
        )
    if isinstance(specs, Mapping):
        raise RatersError("found matrices for masks, expected kinds of raters such as 'over'")
    amounts = Amounts(severity, mean_dice, group_dice)
    how = None if unmarked is None else known_unmarked(unmarked)
    return simulate_masks(source, specs, amounts, assign, seed, target, how)


def given_cases(study: Study, raters: Sequence[str], how: How, seed: int) -> Flags:
    """Assign cases to raters, `(cases, raters)`, whatever the order of the cases.

    Teams have their shares of each split of the study.
    """
    order = np.array(sorted(range(len(study)), key=study.cases.__getitem__), np.intp)
    given = np.empty((len(study), len(raters)), bool)
    random = generator(seed, "assign")
    parts = [order]
    if isinstance(how, Mapping):
        splits = study.index.splits[order]
        parts = [order[splits == name] for name in sorted(set(splits))]
    for part in parts:
        given[part] = assign_cases(len(part), raters, how, random)
    return given


def described(study: Study, raters: Mapping[str, str], how: How, seed: int) -> dict[str, str]:
    """Report in the study how its raters were made; so another seed is another study."""
    said = ", ".join(f"{name} ({what})" for name, what in raters.items())
    how_said: str | int
    if isinstance(how, Mapping):
        how_said = ", ".join(f"{team or 'nobody'} {share:g}" for team, share in how.items())
    else:
        how_said = how if isinstance(how, str | int) else ", ".join(f"{s:g}" for s in how)
    kept = {key: text for key, text in study.about.items() if key != "raters"}  # not of these
    return {**kept, "simulated raters": f"{said}; assign {how_said}; seed {seed}"}


def drawn_study(
    source: Study,
    raters: Sequence[DrawingRater],
    assign: How,
    seed: int,
    unmarked: Unmarked | None = UNMARKED,
    target: str | None = None,
    given: Flags | None = None,
) -> Study:
    """Make the study of raters who draw; `given`, if known, is what `given_cases` gives."""
    said = {rater.name: str(rater) for rater in raters}
    about = described(source, said, assign, seed)
    if given is None:
        given = given_cases(source, list(said), assign, seed)
    if target is not None:
        about["simulated raters"] += f"; target {target}"
    annotations = {rater.name: rater.annotation for rater in raters}
    how = unmarked or usual_unmarked(annotations)
    return replace(
        source,
        backend=SimulatedMasks(source, raters, given, seed, how),
        raters=tuple(said),
        rules=LabelRules(),
        about=about,
        problems=(),
        rows=None,
        unmarked=how,
        _classes=source.classes,
        _chosen=None,
        _annotations=annotations,
    )


def said_of(study: Study) -> list[str]:
    """Return who the simulated raters are, and whether their labels could reveal the truth."""
    lines = [study.about.get("simulated raters", "")]
    if study.kind == "classification":
        margin = dominance_margin(true_confusion(study, 0))
        word = "is" if margin > 0 else "is not"
        lines.append(f"the mean confusion {word} column-dominant (margin {margin:.3f})")
    return lines


def true_confusion(study: Study, case: str | int, draws: int = 16) -> Floats:
    """Return the confusion `(raters, L, L)` that simulated raters really have on a case.

    For class labels it is the known matrix of each rater. For masks it is counted over
    independent draws, one matrix per image and rater; rows of classes that the image does not
    have are those of the identity. Pixels that an annotation says nothing of do not count. Where a
    negative drawing denies one of several classes, `C[t, o]` is `p('it is not o' | true t)`: the
    diagonal is the share of errors.
    """
    row = study.row(study.index.where(case))
    return _simulated(study).true_confusion(row, draws)[_columns(study)]


def true_transition(study: Study, case: str | int, draws: int = 16) -> Floats:
    """Return `M[t, o] = p('it is not o' | true t, rightly said)` of negative drawings on a case.

    That is the confusion without its diagonal, `(raters, L, L)`, rows scaled to sum to one; NaN of
    raters who deny no class, and of two classes, where a negative drawing is an ordinary label.

    Example:
        >>> truth = np.arange(12).reshape(1, 3, 4) // 4
        >>> true_transition(simulate(truth, "box,negative:0"), "0")[1]
        array([[0. , 1. , 0. ],
               [0.5, 0. , 0.5],
               [0. , 1. , 0. ]])
    """
    backend = _simulated(study)
    if not study.negatives:
        size = len(study.classes)
        return np.full((len(study.raters), size, size), np.nan)
    assert isinstance(backend, SimulatedMasks)  # nobody else denies classes
    row = study.row(study.index.where(case))
    return backend.true_transition(row, draws)[_columns(study)]


def write_true_confusion(
    study: Study, path: str | Path, draws: int = 16, *, progress: bool = False
) -> None:
    """Write the true confusion of simulated raters as an `.npz` file.

    It holds `confusion` `(cases, raters, L, L)`, and the names `cases`, `raters` and `classes`.
    For class labels the matrices do not vary by case: the first axis has length 1. Where negative
    drawings deny one of several classes, `transition` has what `true_transition` gives.
    """
    Inputs.of(study).refuse_file(path)
    refuse_other_file(path)
    number = len(study) if study.kind == "segmentation" else 1
    size = len(study.classes)
    confusion = np.empty((number, len(study.raters), size, size), np.float32)
    done = ordered_map(lambda k: true_confusion(study, k, draws), range(number))
    for k, matrices in enumerate(track(done, number, "counting", progress)):
        confusion[k] = matrices
    cases = study.cases if study.kind == "segmentation" else ("all",)
    more: dict[str, Any] = {}
    if study.negatives:
        denied = ordered_map(lambda k: true_transition(study, k, draws), range(number))
        found = list(track(denied, number, "counting what is denied", progress))
        more["transition"] = np.stack(found).astype(np.float32)
    with written_whole(Path(path), "wb") as file:
        np.savez_compressed(
            file,
            confusion=confusion,
            **more,
            cases=np.array(cases, np.str_),
            raters=np.array(study.raters, np.str_),
            classes=np.array(study.classes.names, np.str_),
        )


def refuse_other_file(path: str | Path) -> None:
    """Reject a file that is there and holds no true confusion: it would be lost.

    Raises:
        RatersError: that names the file.
    """
    file = Path(path)
    if not os.path.lexists(file):
        return
    refuse_special(file)
    try:
        with np.load(file, allow_pickle=False) as content:
            is_confusion = set(_CONFUSION_FIELDS) <= set(content)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile):
        is_confusion = False
    if not is_confusion:
        message = "found a file that is no true confusion, expected a new one or an earlier one"
        raise RatersError(message, kind="exists", file=file)


def _simulated(study: Study) -> SimulatedMasks | SimulatedTable:
    if not isinstance(study.backend, SimulatedMasks | SimulatedTable):
        raise RatersError("found raters who were not simulated: their confusion is unknown")
    return study.backend


def _columns(study: Study) -> list[int]:
    names = list(_simulated(study).raters)
    return [names.index(rater) for rater in study.raters]


Matrices = dict[str, Matrix]


def simulate_classes(
    source: Study,
    raters: Sequence[Spec] | Mapping[str, Floats],
    assign: How,
    seed: int,
    spread: float,
    *,
    require_dominance: bool,
) -> Study:
    """Make the study; the label of a case depends on the seed, its name and the rater's."""
    truth = source.reference_labels
    if truth is None or (truth == MISSING).all():
        raise RatersError("found no reference, expected the true class of each case")
    matrices = matrices_of(raters, len(source.classes), seed, spread, require_dominance)
    numbers = np.stack([uniforms(seed, name, source.cases) for name in matrices], axis=1)
    labels = labels_at(truth, np.stack(list(matrices.values())), numbers)
    labels[~given_cases(source, tuple(matrices), assign, seed)] = MISSING
    names = source.index.ids
    values = source.classes.values
    triplets = Triplets.of_dense(labels, names, tuple(matrices), values)
    said = {name: f"right {np.diag(m).mean():.3f}" for name, m in matrices.items()}
    return replace(
        source,
        backend=SimulatedTable(triplets, source, truth, matrices),
        raters=tuple(matrices),
        about=described(source, said, assign, seed),
        rows=None,
        _classes=source.classes,
        _chosen=None,
    )


def matrices_of(
    raters: Sequence[Spec] | Mapping[str, Floats],
    num_classes: int,
    seed: int,
    spread: float = 0.01,
    require_dominance: bool = False,
) -> Matrices:
    """Return the matrix of each rater; those of kinds with randomness follow from seed and name.

    Example:
        >>> from raters.simulation.specs import parse_raters
        >>> matrices = matrices_of(parse_raters("2xhammer-spammer:0.6"), 10, seed=0)
        >>> [round(float(matrix[0, 0]), 2) for matrix in matrices.values()]
        [0.65, 0.63]
    """
    if isinstance(raters, Mapping):
        known = {str(name): _checked(name, m, num_classes) for name, m in raters.items()}
        if require_dominance:
            dominant(lambda _: np.stack(list(known.values())), tries=1)
        return known
    specs = _with_cifar(raters)

    def draw(attempt: int) -> Matrix:
        return np.stack([_matrix(spec, num_classes, seed, spread, attempt) for spec in specs])

    drawn = dominant(draw) if require_dominance else draw(0)
    return {spec.name: matrix for spec, matrix in zip(specs, drawn, strict=True)}


def _with_cifar(specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """Put the four raters in the place of 'cifar'."""
    listed: list[Spec] = []
    for spec in specs:
        four = [Spec(name, f"cifar {name}") for name in cifar_raters()]
        listed += four if spec.kind == "cifar" else [spec]
    return unique_names(listed)


def _matrix(spec: Spec, num_classes: int, seed: int, spread: float, attempt: int) -> Matrix:
    if spec.kind.startswith("cifar "):
        return _checked(spec.name, cifar_raters()[spec.kind.removeprefix("cifar ")], num_classes)
    if spec.kind not in KINDS:
        known = ", ".join([*KINDS, "cifar"])
        raise RatersError(f"found the rater {spec.kind!r} for class labels, expected {known}")
    if spec.amount is None:
        raise RatersError(
            f"found no skill for {spec.name!r}, expected a probability, as in '{spec.kind}:0.6'"
        )
    rng = generator(seed, "matrix", spec.name, str(attempt))
    return skilled(KINDS[spec.kind], spec.amount, num_classes, rng, spread)


def _checked(name: str, matrix: Floats, num_classes: int) -> Matrix:
    given = np.asarray(matrix, np.float64)
    if given.shape != (num_classes, num_classes):
        raise RatersError(
            f"found a matrix of shape {given.shape} for {name!r}, expected "
            f"{(num_classes, num_classes)} for {num_classes} classes"
        )
    if not (given >= 0).all() or not np.allclose(given.sum(axis=1), 1, atol=1e-6):
        raise RatersError(f"found a matrix for {name!r} whose rows are no probabilities")
    return given
