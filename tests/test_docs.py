"""The commands and the code in the README and the docs run as they are written."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from raters.cli import main

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)
    assert words[0] == "raters", line
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None), line


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/agreement.md",
        "docs/fusion.md",
        "docs/learning.md",
        "docs/reading.md",
        "docs/scores.md",
        "docs/simulation.md",
    ],
)
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert {language for language, _ in blocks} == {"bash", "python"}
    for language, text in blocks:
        if language == "python":
            exec(compile(text, page, "exec"), {})
        else:
            for line in text.strip().splitlines():
                run_command(line, monkeypatch)


def test_relative_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
