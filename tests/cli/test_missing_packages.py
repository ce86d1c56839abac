"""Where a package of an extra is not installed, a sentence says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from raters import cli
from tests.support.command_line import Run, draw_masks, pattern, run_alone

NO_TORCH = "error: found no torch, expected it for training: pip install 'raters[train]'"


@pytest.mark.slow
def test_training_without_torch(tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=2)
    done = run_alone(
        "train", pattern(tmp_path), "-o", tmp_path / "run", before="sys.modules['torch'] = None"
    )
    assert done.code == 2
    assert done.err.splitlines()[-1] == NO_TORCH
    assert "Traceback" not in done.err


def test_any_verb_that_comes_upon_it(run_raters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", lambda: missing("torch"))
    done = run_raters("evaluate", "run")
    assert (done.code, done.err.strip()) == (2, NO_TORCH)


def test_a_module_of_another_kind_is_a_mistake_of_ours(
    run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "app", lambda: missing("raters.no_such_module"))
    with pytest.raises(ModuleNotFoundError):
        run_raters("evaluate", "run")


def missing(name: str) -> None:
    """Raise what an import raises."""
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
