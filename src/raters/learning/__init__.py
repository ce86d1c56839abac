"""Networks that learn the truth from raters who disagree; the only package that needs torch."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from raters.learning import (  # noqa: F401
        evaluation,
        export,
        methods,
        networks,
        prediction,
        rater_models,
        training,
    )

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "evaluation",
        "export",
        "methods",
        "networks",
        "prediction",
        "rater_models",
        "training",
    ],
)
