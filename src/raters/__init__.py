"""Learning from raters who disagree: what is true, and how far each rater can be trusted."""

from __future__ import annotations

from importlib import import_module
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

# Names are imported when they are first used, so that `raters --help` answers at once.
_WHERE = {
    "MISSING": "raters.study.classes",
    "Classes": "raters.study.classes",
    "Geometry": "raters.study.geometry",
    "RatersError": "raters.errors",
    "Study": "raters.study.study",
    "agree": "raters.agreement.agree",
    "check": "raters.study.check",
    "evaluate": "raters.evaluation.evaluate",
    "fuse": "raters.fusion.consensus",
    "read": "raters.study.read",
}

__all__ = [
    "MISSING",
    "Classes",
    "Geometry",
    "RatersError",
    "Study",
    "__version__",
    "agree",
    "check",
    "evaluate",
    "fuse",
    "read",
]


_ROOMS = ("confusion", "datasets", "fusion", "scores", "simulate")


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _ROOMS:
        return import_module(f"raters.{name}")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'raters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
