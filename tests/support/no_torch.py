"""A plugin of pytest: where the extra `train` is not installed, what needs it is skipped.

python -m pytest -p tests.support.no_torch
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from types import ModuleType

import pytest

NAMES = ("lightning", "monai", "safetensors", "torch")


class Missing:
    """Skips a test, or all of a file, that imports what is not installed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Return nothing, so that the import fails, or skip."""
        if name in NAMES and PathFinder.find_spec(name, path, target) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


sys.meta_path.append(Missing)  # type: ignore[arg-type]
