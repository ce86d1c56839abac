"""Fixtures that tests of several folders share."""

from __future__ import annotations

import functools

import pytest

from tests.support.command_line import Run, run_in_process


@pytest.fixture
def run_raters(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process: `run_raters("check", pattern)`."""
    return functools.partial(run_in_process, capsys, monkeypatch)
