"""The command line starts at once: nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np

from tests.support.command_line import draw_masks, images_option, pattern, run_alone
from tests.support.startup import BLOCK, HEAVY, RUN_ALL, TORCH


def test_the_blocker_blocks() -> None:
    code = f"import sys\n{BLOCK.format(names={'colorsys'})}\nimport colorsys"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 99
    assert done.stderr == b"imports colorsys"


def test_help_imports_nothing_heavy() -> None:
    """One Python for all of them: an import at any of them would end it."""
    commands = [["--help"], ["check", "--help"], ["import", "--help"]]
    before = BLOCK.format(names={*TORCH, *HEAVY}) + RUN_ALL.format(commands=commands)
    outcome = run_alone("--version", before=before)
    assert outcome.code == 0, outcome.err
    assert "loaded []" in outcome.err
    for usage in ("raters [OPTIONS]", "raters check [OPTIONS]", "raters import [OPTIONS]"):
        assert usage in outcome.out


def test_import_of_the_package_imports_nothing_heavy() -> None:
    code = "import sys, raters; sys.exit(bool({'numpy', 'pandas', 'typer'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_check_and_import_need_no_torch(tmp_path: Path) -> None:
    draw_masks(tmp_path)
    (tmp_path / "volumes").mkdir()
    nib.save(nib.Nifti1Image(np.ones((3, 4, 5), np.uint8), np.eye(4)), tmp_path / "volumes/ann.nii")
    (tmp_path / "answers.csv").write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
    imported = ["import", pattern(tmp_path), *images_option(tmp_path), "-o"]
    commands: list[list[object]] = [
        ["check", f"{tmp_path}/{{case}}s/{{rater}}.nii"],
        [*imported, tmp_path / "canonical"],
        [*imported, tmp_path / "packed", "--form", "packed"],
        ["import", tmp_path / "answers.csv", "-o", tmp_path / "table"],
        *(["check", tmp_path / name] for name in ("canonical", "packed", "table")),
        ["fuse", tmp_path / "canonical", "-m", "vote", "-o", tmp_path / "consensus"],
        ["evaluate", tmp_path / "consensus", tmp_path / "canonical"],
        ["report", tmp_path / "consensus", "-o", tmp_path / "report"],
    ]
    before = BLOCK.format(names=set(TORCH)) + RUN_ALL.format(
        commands=[[str(a) for a in c] for c in commands]
    )
    outcome = run_alone("check", pattern(tmp_path), before=before)
    assert outcome.code == 0, outcome.err
    assert "loaded []" in outcome.err
    assert outcome.out.count("no problems") == 5


def test_help_takes_little_more_than_the_library_that_prints_it() -> None:
    """Processor time as a ratio, the best of some runs: any machine, however busy, will do."""
    script = [Path(sys.executable).with_name("raters"), "--help"]
    library = [sys.executable, "-c", "import typer, typer.rich_utils"]
    pairs = [(processor_time(script), processor_time(library)) for _ in range(3)]
    assert min(ours for ours, _ in pairs) < 2.5 * min(theirs for _, theirs in pairs), pairs


def test_the_shell_completes_verbs_and_options() -> None:
    """As the script does that `raters --show-completion` prints; also options made when called."""
    for words, expected in (("tr", "train"), ("train --ep", "--epochs")):
        given = {"COMP_WORDS": f"raters {words}", "COMP_CWORD": str(len(words.split()))}
        done = subprocess.run(
            [Path(sys.executable).with_name("raters")],
            env={**os.environ, **given, "_RATERS_COMPLETE": "complete_bash"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [expected]


def processor_time(command: list[str | Path]) -> float:
    """Return the seconds that a command uses of the processor."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
