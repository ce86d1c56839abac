"""Learning from raters who disagree: a consensus, and how far each rater can be trusted."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raters.version import __version__

if TYPE_CHECKING:
    from raters.agreement.agree import agree
    from raters.errors import RatersError
    from raters.evaluation.evaluate import evaluate
    from raters.fusion.consensus import fuse
    from raters.study.check import check
    from raters.study.classes import MISSING, Classes
    from raters.study.geometry import Geometry
    from raters.study.read import read
    from raters.study.study import Study
    from raters.training.extend import extend
    from raters.training.fit import fit
    from raters.training.model import Model, load

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
}

__all__ = [
    "MISSING",
    "Classes",
    "Geometry",
    "Model",
    "RatersError",
    "Study",
    "__version__",
    "agree",
    "check",
    "evaluate",
    "extend",
    "fit",
    "fuse",
    "load",
    "read",
]


_ROOMS = (
    "confusion",
    "datasets",
    "export",
    "fusion",
    "methods",
    "networks",
    "plots",
    "prediction",
    "rater_models",
    "report",
    "scores",
    "simulate",
)


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
        from raters.errors import RatersError

        raise RatersError(
            f"found no {error.name}, expected it for training: pip install 'raters[train]'"
        ) from None


def __dir__() -> list[str]:
    return __all__
