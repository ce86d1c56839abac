"""What people see: the terminal, texts, plots and reports."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from raters.views import (  # noqa: F401
        plots,
        report,
        terminal,
        texts,
    )

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["plots", "report", "terminal", "texts"]
)
