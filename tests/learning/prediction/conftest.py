"""Fixtures that tests of prediction share."""

from __future__ import annotations

import functools

import pytest

from tests.support.command_line import Run


@pytest.fixture
def run_predict(run_raters: Run) -> Run:
    """Run `raters predict`."""
    return functools.partial(run_raters, "predict")
