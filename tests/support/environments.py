"""Fresh virtual environments, and `raters` as installed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.command_line import Outcome, draw_masks, images_option, pattern

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
PATIENCE = 1800  # seconds until something that does not happen is given up


@dataclass(frozen=True)
class Environment:
    """A virtual environment that knows nothing of this checkout."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """Make an environment with nothing but pip."""
        _finish([sys.executable, "-m", "venv", str(folder)])
        return cls(folder)

    def install(self, *what: object) -> None:
        """Install with pip; what pip says is in the error if it cannot."""
        self.python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def python(self, *arguments: object, folder: Path | None = None) -> str:
        """Run Python in it, and return what it prints."""
        return _finish([str(self.folder / "bin/python"), *map(str, arguments)], folder)

    def raters(self, *arguments: object, folder: Path) -> Outcome:
        """Run a verb in a folder, as its user does."""
        command = [str(self.folder / "bin/raters"), *map(str, arguments)]
        done = _run(command, folder)
        return Outcome(done.returncode, done.stdout, done.stderr)


def take_first_steps(environment: Environment, folder: Path) -> None:
    """Check, compare, fuse and report drawn masks; assert that each verb does what it says."""
    draw_masks(folder, ("ann", "bob", "cy"), cases=3)
    study = (pattern(folder), *images_option(folder))

    def run(*arguments: object) -> str:
        done = environment.raters(*arguments, folder=folder)
        assert done.code == 0, done
        return done.out

    assert "no problems" in run("check", *study)
    assert "most disputed cases" in run("agree", *study)
    run("fuse", *study, "-m", "staple", "-o", "fused")
    assert len(list((folder / "fused").glob("*.png"))) == 3
    run("report", *study, "-o", "report")
    assert "<svg" in (folder / "report/report.html").read_text(encoding="utf-8")
    run("bench", "list")


def lower_bounds(extras: Sequence[str] = ()) -> Iterator[str]:
    """Return the lowest version of each package that pyproject.toml allows: `numpy==1.26`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = list(project["dependencies"])
    for extra in extras:
        listed += project["optional-dependencies"][extra]
    for requirement in listed:
        found = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", requirement)
        if found is not None:  # else it is raters with other extras
            yield f"{found[1]}=={found[2]}"


def _finish(command: list[str], folder: Path | None = None) -> str:
    done = _run(command, folder)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-20_000:]}\n{done.stderr}"
    return done.stdout


def _run(command: list[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    # Nothing of this checkout: neither its sources nor its environment.
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,
        env=env,
        check=False,
    )
