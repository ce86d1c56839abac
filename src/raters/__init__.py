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
        agreement,
        confusion,
        datasets,
        evaluation,
        export,
        fusion,
        methods,
        networks,
        plots,
        prediction,
        rater_models,
        scores,
        study,
        training,
    )
    from raters.agreement.agree import agree as agree
    from raters.errors import RatersError as RatersError
    from raters.evaluation.evaluate import evaluate as evaluate
    from raters.fusion.consensus import fuse as fuse
    from raters.prediction.suggest import suggest as suggest
    from raters.report.dispatch import report as _report
    from raters.simulate.study import simulate as _simulate
    from raters.study.check import check as check
    from raters.study.classes import MISSING as MISSING
    from raters.study.classes import Classes as Classes
    from raters.study.geometry import Geometry as Geometry
    from raters.study.read import read as read
    from raters.study.study import Study as Study
    from raters.training.extend import extend as extend
    from raters.training.fit import fit as fit
    from raters.training.model import Model as Model
    from raters.training.model import load as load

    class _Report(ModuleType):
        __call__ = staticmethod(_report)

    class _Simulate(ModuleType):
        __call__ = staticmethod(_simulate)

    report: _Report
    simulate: _Simulate

# Names are imported when they are first used, so that `raters --help` answers at once.
_WHERE = {
    "MISSING": "raters.study.classes",
    "Classes": "raters.study.classes",
    "Geometry": "raters.study.geometry",
    "Model": "raters.training.model",
    "RatersError": "raters.errors",
    "Study": "raters.study.study",
    "agree": "raters.agreement.agree",
    "check": "raters.study.check",
    "evaluate": "raters.evaluation.evaluate",
    "extend": "raters.training.extend",
    "fit": "raters.training.fit",
    "fuse": "raters.fusion.consensus",
    "load": "raters.training.model",
    "read": "raters.study.read",
    "suggest": "raters.prediction.suggest",
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
        from raters.errors import RatersError as RatersError

        raise RatersError(
            f"found no {error.name}, expected it for training: pip install 'raters[train]'"
        ) from None


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
