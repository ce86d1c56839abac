"""The wheel: what it holds, what it does without extras, and with `train`."""

from __future__ import annotations

import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.support.command_line import draw_masks, images_option, pattern
from tests.support.environments import CONSTRAINTS, ROOT, Environment, take_first_steps

pytestmark = pytest.mark.slow
TINY = ("--epochs", "1", "--network", "patch-cnn", "--width", "2", "--depth", "1")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel without extras."""
    made = Environment.make(tmp_path_factory.mktemp("environment"))
    made.install("-c", CONSTRAINTS, wheel)
    return made


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """Read what the wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def test_the_wheel_has_all_files_of_the_packages(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    assert found == expected
    assert "raters/py.typed" in found
    assert licences


def test_what_the_wheel_says_of_itself(metadata: Message) -> None:
    kinds = metadata.get_all("Classifier") or []
    systems = [kind for kind in kinds if kind.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert "Typing :: Typed" in kinds
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_source_has_what_is_built_and_no_more(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        found = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= found
    assert not {"tests", "docs", "build", ".venv"} & found


def test_first_steps_without_extras(environment: Environment, tmp_path: Path) -> None:
    assert "No module named" in _why_not(environment, "torch")
    take_first_steps(environment, tmp_path)


def _why_not(environment: Environment, module: str) -> str:
    code = f"try:\n    import {module}\nexcept ImportError as error:\n    print(error)"
    return environment.python("-c", code)


@pytest.mark.parametrize(
    "words", [("train", "-o", "run"), ("evaluate",), ("report", "-o", "page"), ("predict",)]
)
def test_what_needs_torch_says_what_to_install(
    words: tuple[str, ...], environment: Environment, tmp_path: Path
) -> None:
    draw_masks(tmp_path, cases=2)
    run = tmp_path / "model"
    run.mkdir()
    (run / "config.yaml").write_text("method: pixel-cm\n")
    (run / "weights.safetensors").write_bytes(b"")
    verb, *options = words
    study = (pattern(tmp_path), *images_option(tmp_path))
    given = {
        "train": study,
        "evaluate": (run, *study),
        "report": (run,),
        "predict": (run, tmp_path / "images", "-o", "out"),
    }
    done = environment.raters(verb, *given[verb], *options, folder=tmp_path)
    assert done.code == 2, done
    said = "error: found no torch, expected it for training: pip install 'raters[train]'"
    assert done.err.splitlines()[-1] == said
    assert "Traceback" not in done.err


def test_an_epoch_with_the_extra(environment: Environment, wheel: Path, tmp_path: Path) -> None:
    environment.install("-c", CONSTRAINTS, f"{wheel}[train]")
    draw_masks(tmp_path, cases=6)
    study = (pattern(tmp_path), *images_option(tmp_path))
    done = environment.raters("train", *study, "-o", "run", *TINY, folder=tmp_path)
    assert done.code == 0, done
    done = environment.raters("predict", "run", "images", "-o", "out", folder=tmp_path)
    assert done.code == 0, done
    assert len(list((tmp_path / "out").glob("*.png"))) == 6
