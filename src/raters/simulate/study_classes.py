"""Simulated raters who give class labels: their matrices, and the study that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from raters.arrays import Floats
from raters.errors import RatersError
from raters.simulate.assign import How
from raters.simulate.backend import SimulatedTable
from raters.simulate.classes import KINDS, Matrix, cifar_raters, dominant, labels_at, skilled
from raters.simulate.noise import generator, uniforms
from raters.simulate.specs import Spec, unique_names
from raters.simulate.study import described, given_cases
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.study.triplets import Triplets

Matrices = dict[str, Matrix]


def simulate_classes(
    source: Study,
    raters: Sequence[Spec] | Mapping[str, Floats],
    assign: How,
    seed: int,
    spread: float,
    require_dominance: bool,
) -> Study:
    """Make the study; the label of a case depends on the seed, its name and the rater's."""
    truth = source.reference_labels
    if truth is None or (truth == MISSING).all():
        raise RatersError("found no reference, expected the true class of each case")
    matrices = matrices_of(raters, len(source.classes), seed, spread, require_dominance)
    numbers = np.stack([uniforms(seed, name, source.cases) for name in matrices], axis=1)
    labels = labels_at(truth, np.stack(list(matrices.values())), numbers)
    labels[~given_cases(source, len(matrices), assign, seed)] = MISSING
    task, rater = np.nonzero(labels != MISSING)
    triplets = Triplets(
        task.astype(np.int32),
        rater.astype(np.int32),
        labels[task, rater],
        source.index.ids,
        tuple(matrices),
        source.classes.values,
    )
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
        >>> from raters.simulate.specs import parse_raters
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
