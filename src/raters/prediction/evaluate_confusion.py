"""How far a model's matrices are from the true ones, where raters are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raters.confusion import root_mean_square

if TYPE_CHECKING:
    from raters.prediction.evaluate_case import CaseSums
    from raters.study.study import Study


def confusion_error(found: CaseSums, study: Study) -> tuple[float, float] | None:
    """Return the mean square error of the matrices of a case, and 1; None if it is not known.

    The rows of the true class at each pixel are compared, classes weighing alike
    (`raters.confusion.root_mean_square`). Only a study that still draws its raters knows their
    matrices, not one that was written to files.
    """
    from raters.simulate.backend import SimulatedMasks, SimulatedTable
    from raters.simulate.study import true_confusion

    if not isinstance(study.backend, SimulatedMasks | SimulatedTable) or found.matrices is None:
        return None
    true = true_confusion(study, found.case.id)[found.places]
    reference = found.case.reference
    if study.kind == "classification":
        return root_mean_square(found.matrices, true) ** 2, 1.0
    if reference is None:
        return None
    true = true.reshape(*true.shape, *(1,) * reference.ndim)
    return root_mean_square(found.matrices, true, reference) ** 2, 1.0
