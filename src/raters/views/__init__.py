"""What people see: the terminal, texts, plots and reports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["plots", "report", "terminal", "texts"]
)
