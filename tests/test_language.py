"""Docstrings, comments, messages and pages are in plain English: 'per', 'resume', 0.5."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.py")])
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_EACH = (
    r"(?:rater|case|pixel|epoch|image|(?:foreground )?class|task|line|row|step|file|process|voxel|"
    r"label|window|patch|GPU|worker|mask|slice|group|answer|channel|axis|core|score|run|nodule)"
)
_THING = (
    r"(?:row|line|matrix|column|panel|file|network|accuracy|number|label|array|affine|vector|case|"
    r"mask|seed|name|head|error|share)"
)
_MANY = r"(?:labels|bytes|bits|answers|values|numbers|steps|raters|convolutions|pixels)"
_SMALL = r"(?:is|or|and|of|as|in|to|by|on|at|for|with|from|has|without)\b"

BANNED = {
    rf"\b[Oo]ne (?:(?!{_SMALL})\w+ )?(?:{_THING} )?an? {_EACH}\b": "one ... per ...",
    rf"\b[Aa]n? {_THING} an? {_EACH}\b": "one ... per ...",
    rf"(?<!many )(?<!which )(?<!Who )\b{_MANY} an? {_EACH}(?=[.,:;)\"']|$| and )": "per",
    r"\b(?:[Gg]oes|[Ww]ent|[Gg]oing) on\b(?! in\b)|\bgo on (?:with|from)\b": "resume or continue",
    r"\b(?:is|are|be|was|were) told\b(?! apart)|\bBe told\b": "is called with, receives",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\b(?:leave|leaves|leaving|left) (?:\S+ ){1,3}away\b": "omit",
    r"\bcomes? again\b": "can be repeated",
    r"\b(?:come|comes|came) to rest\b": "converge",
    r"\bstands? on the command line\b": "command-line options override the file",
    r"\bwhence\b|\bin vain\b|\bhimself\b|\bherself\b": "plain words",
    r"\b(?:find|finds|found|has|have|had|make|makes|is) (?:no )?room\b": "memory, space or to fit",
    r"\bof one mind\b": "unanimous",
    r"\b[Ff]avourite\b": "majority label",
    r"\"\"\"Gives? ": "Return the ... (at the start of a docstring)",
    r"(?:^|[\s(=])[-+]?\.\d+(?=[\s,;:)%'\"]|\.(?:\s|$)|$)": "a leading zero: 0.5",
}
"""What must not be written, and what is written instead."""

_BANNED = {re.compile(pattern): instead for pattern, instead in BANNED.items()}
_PROSE = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?P<text>(?:[^"\\\n]|\\.)*)"|#(?P<comment>[^\n]*)', re.DOTALL
)


def prose(source: str) -> str:
    """Keep the docstrings, strings and comments, each in its line; a bar stands for code."""
    parts = []
    end = 0
    for match in _PROSE.finditer(source):
        gap = source[end : match.start()]
        parts.append(("" if gap.strip(" \nrf") == "" else "|") + "\n" * gap.count("\n"))
        parts.append(match[match.lastgroup or 0])
        end = match.end()
    return "".join(parts)


def found(text: str) -> list[tuple[int, str, str]]:
    """Return (line, words, what to write instead) of what must not be written."""
    flat = " ".join(text.split())
    hits = []
    for pattern, instead in _BANNED.items():
        for hit in pattern.finditer(flat):
            place = re.search(r"\s+".join(map(re.escape, hit[0].split())), text)
            line = 1 + text.count("\n", 0, place.start()) if place else 1
            hits.append((line, hit[0].strip(), instead))
    return hits


@pytest.mark.parametrize(
    "text",
    [
        "Return one matrix a rater.",
        "a line an epoch",
        "one row\n    an epoch.",
        "takes 16 bytes a voxel.",
        "--resume goes on after",
        "is told the scores",
        "to be mended",
        "leave --epochs away",
        '"""Give the labels.',
        "a Dice of .49, at best",
        "found no room for it",
    ],
)
def test_banned_words_are_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "one matrix per rater",
        "how many raters a case has",
        "compares a rater with the rest",
        "a folder, a file or a table",
        "cannot be told apart",
        "masks/{case}.nii.gz, .5x or a.5",
        "Given a mask",
        "0.49 and -0.5",
        "as a rater of one case and a case",
    ],
)
def test_plain_words_are_left_alone(text: str) -> None:
    assert not found(text)


def test_what_is_prose() -> None:
    source = (
        'def f():\n    """Do it."""\n    # why\n    # so\n    say("a " + b, f"c "\n        "d")\n'
    )
    assert prose(source).splitlines() == ["|", '"""Do it."""', " why", " so|", "a |c ", "d"]


@pytest.mark.parametrize("folder", ["src", "docs"])
def test_it_is_in_plain_english(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: write {instead}"
        for path in (SOURCES if folder == "src" else PAGES)
        for line, words, instead in found(
            prose(path.read_text()) if path.suffix == ".py" else path.read_text()
        )
    ]
    assert not wrong, "\n".join(wrong)
