"""The verb `bench` starts at once, and the shell completes its verbs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.command_line import run_alone
from tests.support.startup import BLOCK, HEAVY, RUN_ALL, TORCH


def test_help_imports_nothing_heavy() -> None:
    commands = [["bench", "--help"], ["bench", "run", "--help"]]
    before = BLOCK.format(names={*TORCH, *HEAVY}) + RUN_ALL.format(commands=commands)
    outcome = run_alone("--version", before=before)
    assert outcome.code == 0, outcome.err
    assert "loaded []" in outcome.err
    assert "raters bench run [OPTIONS]" in outcome.out


def test_the_shell_completes_its_verbs() -> None:
    given = {"COMP_WORDS": "raters bench ta", "COMP_CWORD": "2"}
    done = subprocess.run(
        [Path(sys.executable).with_name("raters")],
        env={**os.environ, **given, "_RATERS_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["table"]
