"""Makes a study with simulated raters of one that has the truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.progress import track
from raters.simulate.assign import How
from raters.simulate.assign import assign as assign_cases
from raters.simulate.backend import SimulatedMasks, SimulatedTable
from raters.simulate.noise import generator
from raters.simulate.specs import Spec, parse_raters
from raters.study.parallel import ordered_map
from raters.study.paths import written_whole
from raters.study.places import Inputs
from raters.study.read import axes_of
from raters.study.study import Study

PIXEL_CM = "good,over,under,wrong,blank"
"""The five raters of pixel-cm (appendix A.1)."""


def simulate(
    truth: Study | NDArray[Any],
    raters: str | Mapping[str, NDArray[np.float64]] = PIXEL_CM,
    *,
    severity: float | None = None,
    mean_dice: float | None = None,
    group_dice: float | None = None,
    assign: How = "all",
    seed: int = 0,
    target: str | None = None,
    spread: float = 0.01,
    require_dominance: bool = False,
) -> Study:
    """Return a study with the images and the truth of another and labels by simulated raters.

    Masks are drawn when they are asked for, each from the seed, the name of its case and the name
    of its rater: any case can be drawn alone, in any order and on any machine. Class labels are
    drawn at once. `true_confusion` gives the matrices that the raters really have.

    How much a drawer errs: what its own part of `raters` says ('over:2.5', 'under@0.7'), else
    `severity`, else `mean_dice`; else its usual mean Dice (`Drawer.usual`). A mean Dice is
    found by trial on up to 500 cases (`calibrate`).

    Args:
        truth: A study with references (its raters, if any, are left out), or class numbers
            `(cases, *space)`, or `(cases,)` for classes.
        raters: Kinds of raters as `parse_raters` reads them: of `DRAWERS` for masks, of `KINDS`
            or 'cifar' for classes; or, for classes, the confusion matrix of each name.
        severity: The severity of all drawers that have none of their own.
        mean_dice: The mean Dice of each of these drawers.
        group_dice: The mean Dice over all raters together (pixel-cm, Fig. 4): the severities
            of all drawers that have none of their own, but 'blank', are scaled by one factor.
        assign: Who labels which case, see `raters.simulate.assign`.
        seed: Randomness.
        target: The class that drawers err on, by name; by default every foreground class.
        spread: The standard deviation of the skills of class raters around the asked one.
        require_dominance: Draw the matrices of class raters until their mean is column-dominant.

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
    from raters.simulate.study_classes import simulate_classes
    from raters.simulate.study_masks import Amounts, simulate_masks

    if not isinstance(truth, Study) and axes_of(truth) == 2:
        raise RatersError(
            "found a truth of 2 axes (one mask?), expected (cases, *space), or (cases,) of class "
            "labels: truth[np.newaxis] for one mask, Study.from_arrays(reference=truth) for signals"
        )
    source = truth if isinstance(truth, Study) else Study.from_arrays(reference=truth)
    source = source.select(raters=[])
    if not len(source):
        raise RatersError("found no cases, expected at least one", kind="empty")
    specs: tuple[Spec, ...] | Mapping[str, NDArray[np.float64]] = (
        parse_raters(raters) if isinstance(raters, str) else raters
    )
    if source.kind == "classification":
        return simulate_classes(source, specs, assign, seed, spread, require_dominance)
    if isinstance(specs, Mapping):
        raise RatersError("found matrices for masks, expected kinds of raters such as 'over'")
    amounts = Amounts(severity, mean_dice, group_dice)
    return simulate_masks(source, specs, amounts, assign, seed, target)


def given_cases(study: Study, raters: int, how: How, seed: int) -> NDArray[np.bool_]:
    """Assign cases to raters, `(cases, raters)`, whatever the order of the cases."""
    order = sorted(range(len(study)), key=study.cases.__getitem__)
    given = np.empty((len(study), raters), bool)
    given[order] = assign_cases(len(study), raters, how, generator(seed, "assign"))
    return given


def described(study: Study, raters: Mapping[str, str], how: How, seed: int) -> dict[str, str]:
    """Report in the study how its raters were made; so another seed is another study."""
    said = ", ".join(f"{name} ({what})" for name, what in raters.items())
    how_said = how if isinstance(how, str | int) else ", ".join(f"{share:g}" for share in how)
    kept = {key: text for key, text in study.about.items() if key != "raters"}  # not of these
    return {**kept, "simulated raters": f"{said}; assign {how_said}; seed {seed}"}


def true_confusion(study: Study, case: str | int, draws: int = 16) -> NDArray[np.float64]:
    """Return the confusion `(raters, L, L)` that simulated raters really have on a case.

    For class labels it is the known matrix of each rater. For masks it is counted over
    independent draws, one matrix per image and rater; rows of classes that the image does not
    have are those of the identity.
    """
    position = _position(study, case)
    whole: NDArray[np.float64] = _simulated(study).true_confusion(study.row(position), draws)
    return whole[_columns(study)]


def write_true_confusion(
    study: Study, path: str | Path, draws: int = 16, progress: bool = False
) -> None:
    """Write the true confusion of simulated raters as an `.npz` file.

    It holds `confusion` `(cases, raters, L, L)`, and the names `cases`, `raters` and `classes`.
    For class labels the matrices do not vary by case: the first axis has length 1.
    """
    Inputs.of(study).refuse_file(path)
    number = len(study) if study.kind == "segmentation" else 1
    size = len(study.classes)
    confusion = np.empty((number, len(study.raters), size, size), np.float32)
    done = ordered_map(lambda k: true_confusion(study, k, draws), range(number))
    for k, matrices in enumerate(track(done, number, "counting", progress)):
        confusion[k] = matrices
    cases = study.cases if study.kind == "segmentation" else ("all",)
    with written_whole(Path(path), "wb") as file:
        np.savez_compressed(
            file,
            confusion=confusion,
            cases=np.array(cases, np.str_),
            raters=np.array(study.raters, np.str_),
            classes=np.array(study.classes.names, np.str_),
        )


def _simulated(study: Study) -> SimulatedMasks | SimulatedTable:
    if not isinstance(study.backend, SimulatedMasks | SimulatedTable):
        raise RatersError("found raters who were not simulated: their confusion is unknown")
    return study.backend


def _columns(study: Study) -> list[int]:
    backend = _simulated(study)
    names = list(backend.raters if isinstance(backend, SimulatedMasks) else backend.confusions)
    return [names.index(rater) for rater in study.raters]


def _position(study: Study, case: str | int) -> int:
    if isinstance(case, int):
        return range(len(study))[case]
    study[case]  # rejects a name that is not there
    return int(np.flatnonzero(study.index.ids == case)[0])
