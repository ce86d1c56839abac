"""The lowest versions that pyproject.toml allows, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import ROOT, Environment, lower_bounds, take_first_steps

pytestmark = pytest.mark.slow
EXTRAS = ("dask", "dicom", "opencv")
TOOLS = ("hypothesis", "krippendorff", "pytest", "pytest-xdist", "scikit-learn")
FOLDERS = ("core", "io", "study", "metrics", "fusion")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel with the lowest versions, and what the tests need, but no torch."""
    made = Environment.make(tmp_path_factory.mktemp("lowest"))
    tools = [known for known in lower_bounds(["dev"]) if known.partition("==")[0] in TOOLS]
    made.install("--only-binary", ":all:", wheel, *lower_bounds(EXTRAS), *tools)
    return made


def test_first_steps(environment: Environment, tmp_path: Path) -> None:
    take_first_steps(environment, tmp_path)


def test_fast_tests(environment: Environment) -> None:
    folders = [f"tests/{name}" for name in FOLDERS]
    # Old versions warn of each other; that is no fault of ours.
    options = ("-p", "tests.support.no_torch", "-o", "filterwarnings=default", "-m", "not slow")
    environment.python("-m", "pytest", "-q", "-n", 2, *options, *folders, folder=ROOT)
