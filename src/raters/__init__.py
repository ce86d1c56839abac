"""Learning from raters who disagree: a consensus, and how far each rater can be trusted."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raters.rooms import Room
from raters.version import __version__ as __version__

if TYPE_CHECKING:
    from raters import (  # noqa: F401
        assessment,  # noqa: F401
        datasets,
        evaluation,
        fusion,
        metrics,  # noqa: F401
        study,
    )
    from raters.api import report as _report
    from raters.assessment.agree import agree as agree
    from raters.consensus.consensus import fuse as fuse
    from raters.core.classes import MISSING as MISSING
    from raters.core.classes import Classes as Classes
    from raters.core.errors import RatersError as RatersError
    from raters.core.geometry import Geometry as Geometry
    from raters.evaluation.evaluate import evaluate as evaluate
    from raters.learning import (
        export,  # noqa: F401
        methods,  # noqa: F401
        networks,  # noqa: F401
        prediction,  # noqa: F401
        rater_models,  # noqa: F401
        training,  # noqa: F401
    )
    from raters.learning.training.extend import extend as extend
    from raters.learning.training.fit import fit as fit
    from raters.learning.training.model import Model as Model
    from raters.learning.training.model import load as load
    from raters.metrics import confusion  # noqa: F401
    from raters.planning.suggest import suggest as suggest
    from raters.simulation.study import simulate as _simulate
    from raters.study.check import check as check
    from raters.study.read import read as read
    from raters.study.study import Study as Study
    from raters.views import plots  # noqa: F401

    class _Report(ModuleType):
        __call__ = staticmethod(_report)

    class _Simulate(ModuleType):
        __call__ = staticmethod(_simulate)

    report: _Report
    simulate: _Simulate

# Names are imported when they are first used, so that `raters --help` answers at once.
_WHERE = {
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
    "suggest": "raters.planning.suggest",
}

# Packages; `report` and `simulate` are also called: raters.report("run/"), raters.simulate(truth).
_ROOMS = {file.parent.name for file in Path(__file__).parent.glob("*/__init__.py")}

__all__ = ["__version__", *_WHERE]

sys.modules[__name__].__class__ = Room


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _ROOMS:
        return _imported(f"raters.{name}")
    if name in _WHERE:
        return getattr(_imported(_WHERE[name]), name)
    raise AttributeError(f"module 'raters' has no attribute {name!r}")


def _imported(module: str) -> ModuleType:
    """Import a module; what learning needs beyond the rest is named if it is not there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "lightning", "monai", "safetensors"):
            raise
        from raters.core.errors import RatersError as RatersError

        raise RatersError(
            f"found no {error.name}, expected it for training: pip install 'raters[train]'"
        ) from None


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
