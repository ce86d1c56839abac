"""The short and the long page of help, of all verbs alike."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer import Option

from raters.cli import all_commands
from raters.cli.study_options import PANELS, SELDOM, OpenStudy, takes_study
from raters.cli.verbs import Verb, installed_verbs
from tests.support.command_line import Run

HOW_TO_READ = ("--raters", "--values", "--absent", "--worker", "--header")


def _verbs() -> list[str]:
    found = []
    for name, command in all_commands().items():
        inner = getattr(command, "commands", None)
        found += [f"{name} {k}" for k in inner] if inner else [name]
    return found


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("verb", _verbs())
def test_the_short_page_has_an_example_first_and_fits_a_screen(verb: str, run_raters: Run) -> None:
    said = run_raters(*verb.split(), "--help")
    assert said.code == 0, said.err
    text = [line.strip() for line in said.out.splitlines() if line.strip()]
    assert text[0].startswith("Usage: ")
    assert text[1].startswith(f"raters {verb}"), text[:4]
    assert not any(f"─ {panel} ─" in said.out for panel in (*PANELS, SELDOM))
    assert len(said.out.splitlines()) <= 50


@pytest.mark.parametrize("verb", ["check", "fuse", "predict", "train", "bench run"])
def test_the_long_page_has_all_that_the_short_one_leaves_out(verb: str, run_raters: Run) -> None:
    short = run_raters(*verb.split(), "--help").out
    said = run_raters(*verb.split(), "--help-all")
    assert said.code == 0, said.err
    number = len(_options(said.out)) - len(_options(short))
    assert number > 5
    assert short.count(f"--help-all shows {number} more options") == 1
    assert short.splitlines()[-3].strip().startswith("--help-all shows")
    if verb != "predict":
        assert "also those that say how a study is read." in short
        assert set(HOW_TO_READ) <= _options(said.out)
        assert not set(HOW_TO_READ) & _options(short)


def _options(page: str) -> set[str]:
    return set(re.findall(r"^│ (?:\*  )?(--[\w-]+)", page, re.MULTILINE))


def test_the_long_page_needs_no_study_and_writes_nothing(tmp_path: Path, run_raters: Run) -> None:
    said = run_raters("fuse", "--help-all", "nowhere", "-o", tmp_path / "new")
    assert said.code == 0
    assert list(tmp_path.iterdir()) == []


def test_verbs_of_installed_packages_have_both_pages(
    monkeypatch: pytest.MonkeyPatch, run_raters: Run
) -> None:
    @takes_study
    def count(
        opened: OpenStudy,
        depth: Annotated[int, Option(help="How deep.", rich_help_panel="Rare")] = 1,
    ) -> None:
        """Count it.

        raters own count STUDY
        """

    own = typer.Typer()
    own.command("count")(count)
    own.command("other")(lambda: None)
    monkeypatch.setattr(EntryPoint, "load", lambda _: Verb(own, "Mine"))
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda **_: [EntryPoint("own", "nowhere:VERB", "raters.verbs")],
    )
    installed_verbs.cache_clear()
    try:
        short = run_raters("own", "count", "--help").out
        whole = run_raters("own", "count", "--help-all").out
    finally:
        installed_verbs.cache_clear()
    assert "--help-all shows 21 more options" in short
    assert "--depth" not in short and "--values" not in short
    assert "─ Rare ─" in whole and "--values" in whole
