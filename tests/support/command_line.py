"""Runs `raters` as a user does, and draws small studies for the tests of the command line."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from raters.cli import main

Mask = np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def run_in_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> Outcome:
    """Run the command line as the installed script does, without starting a new Python."""
    monkeypatch.setattr(sys, "argv", ["raters", *map(str, arguments)])
    capsys.readouterr()
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return Outcome(int(str(code)), said.out, said.err)


def run_alone(*arguments: object, before: str = "", folder: Path | None = None) -> Outcome:
    """Run the command line in a Python of its own; `before` is code that runs first."""
    code = f"import sys\n{before}\nfrom raters.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_words(text: str, *words: object) -> None:
    """Assert that a text has all of some words."""
    for word in words:
        assert str(word) in text, f"{word!r} is not in: {text}"


def assert_refused(outcome: Outcome, *words: object) -> None:
    """Assert that a command ended with exit code 2 and a message that has these words."""
    assert outcome.code == 2, outcome
    assert "error: " in outcome.err, outcome
    assert_words(outcome.err[outcome.err.rindex("error: ") :], *words)


def assert_succeeded(outcome: Outcome, *words: object) -> None:
    """Assert that a command ended well and said these words."""
    assert outcome.code == 0, outcome
    assert_words(outcome.out, *words)


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Let no file become larger than so many bytes: to a writer it is a full disk.

    Python itself writes no bytecode meanwhile: what is cut off could not be imported again.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fingerprint(*places: Path) -> dict[str, str]:
    """Return a hash of every file below some places; links count as what they point to."""
    found = {}
    for place in places:
        for path in sorted([place, *place.rglob("*")]):
            if path.is_symlink():
                found[str(path)] = f"link to {path.readlink()}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = "folder"
    return found


def blob(shift: int = 0, size: int = 12, value: int = 1) -> Mask:
    """Draw a square of one value on background."""
    mask = np.zeros((size, size), np.uint8)
    mask[2 + shift : 7 + shift, 3:9] = value
    return mask


def save_png(path: Path, array: Mask) -> Path:
    """Write a PNG, of 8 or 16 bits, grey or coloured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


def draw_masks(
    folder: Path, raters: Sequence[str] = ("ann", "bob"), cases: int = 3, value: int = 1
) -> Path:
    """Write `masks/{rater}/c{k}.png` and `images/c{k}.png`; all masks differ."""
    rng = np.random.default_rng(0)
    for k in range(cases):
        save_png(folder / "images" / f"c{k}.png", rng.integers(0, 255, (12, 12), dtype=np.uint8))
        for r, rater in enumerate(raters):
            mask = blob(k % 5, value=value)
            mask[0, r % 12] = mask[1, r // 12] = value
            save_png(folder / "masks" / rater / f"c{k}.png", mask)
    return folder


def pattern(folder: Path, suffix: str = ".png") -> str:
    """Return the pattern of the masks that `draw_masks` wrote."""
    return f"{folder}/masks/{{rater}}/{{case}}{suffix}"


def images_option(folder: Path) -> list[str]:
    """Return the option of the images that `draw_masks` wrote."""
    return ["--images", f"{folder}/images/{{case}}.png"]


def predict_words(folder: Path, out: str = "out") -> list[Path | str]:
    """Return what predicts the images of a folder with the model beside them."""
    return [folder / "model", folder / "images", "-o", folder / out]
