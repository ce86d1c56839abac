"""Learning from raters who disagree: a consensus, and how far each rater can be trusted."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raters.version import __version__ as __version__

if TYPE_CHECKING:
    from raters import (  # noqa: F401
        assessment,
        comparison,
        consensus,
        datasets,
        evaluation,
        fusion,
        learning,
        metrics,
        planning,
        simulation,
        study,
        views,
    )
    from raters.api import report as report
    from raters.assessment.agree import agree as agree
    from raters.consensus.consensus import fuse as fuse
    from raters.core.classes import MISSING as MISSING
    from raters.core.classes import Classes as Classes
    from raters.core.errors import RatersError as RatersError
    from raters.core.geometry import Geometry as Geometry
    from raters.evaluation.evaluate import evaluate as evaluate
    from raters.learning.training.extend import extend as extend
    from raters.learning.training.fit import fit as fit
    from raters.learning.training.model import Model as Model
    from raters.learning.training.model import load as load
    from raters.planning.suggest import suggest as suggest
    from raters.simulation.study import simulate as simulate
    from raters.study.check import check as check
    from raters.study.read import read as read
    from raters.study.study import Study as Study

# Names are imported when they are first used, so that `raters --help` answers at once.
_MODULE_OF_NAME = {
    "MISSING": "raters.core.classes",
    "Classes": "raters.core.classes",
    "Geometry": "raters.core.geometry",
    "Model": "raters.learning.training.model",
    "RatersError": "raters.core.errors",
    "Study": "raters.study.study",
    "agree": "raters.assessment.agree",
    "check": "raters.study.check",
    "evaluate": "raters.evaluation.evaluate",
    "extend": "raters.learning.training.extend",
    "fit": "raters.learning.training.fit",
    "fuse": "raters.consensus.consensus",
    "load": "raters.learning.training.model",
    "read": "raters.study.read",
    "report": "raters.api",
    "simulate": "raters.simulation.study",
    "suggest": "raters.planning.suggest",
}
_PACKAGES = (
    "assessment",
    "comparison",
    "consensus",
    "datasets",
    "evaluation",
    "fusion",
    "learning",
    "metrics",
    "planning",
    "simulation",
    "study",
    "views",
)

__all__ = ["__version__", *_MODULE_OF_NAME]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _PACKAGES:
        return _import_module(f"raters.{name}")

    if name in _MODULE_OF_NAME:
        module = _import_module(_MODULE_OF_NAME[name])
        return getattr(module, name)

    raise AttributeError(f"module 'raters' has no attribute {name!r}")


def _import_module(module: str) -> ModuleType:
    """Import a module; what learning needs beyond the rest is named if it is not there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        from raters.core.errors import training_missing

        missing = training_missing(error)
        if missing is None:
            raise
        raise missing from None


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
