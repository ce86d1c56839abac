"""The package as others get it: built, and installed into fresh environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import CONSTRAINTS, ROOT, Environment


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these tests to `make release-check`: to install takes minutes."""
    return None if config.getoption("release") else True


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and from it the wheel; return their folder."""
    folder = tmp_path_factory.mktemp("built")
    tools = Environment.make(folder / "tools")
    tools.install("-c", CONSTRAINTS, "build")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONSTRAINT", str(CONSTRAINTS))
        tools.python("-m", "build", "--outdir", folder / "dist", ROOT)
    return folder / "dist"


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """Return the wheel."""
    (found,) = built.glob("*.whl")
    return found
