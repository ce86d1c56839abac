"""Options of `raters bench` that must not be taken for options of training."""

from __future__ import annotations

import pytest

from raters.core.errors import RatersError
from raters_bench.cli_options import of_training


@pytest.mark.parametrize("name", ["folds", "seed", "num_workers", "progress"])
def test_options_of_the_command_are_none_of_training(name: str) -> None:
    with pytest.raises(RatersError, match=f"--option: found '{name}', expected "):
        of_training({"epochs": 3, name: 3})
