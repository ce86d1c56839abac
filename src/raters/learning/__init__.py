"""Networks that learn the truth from raters who disagree; the only package that needs torch."""

import lazy_loader

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
