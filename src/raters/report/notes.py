"""The first section of a report: what it found, in a few sentences, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Sequence

from raters.report.blocks import Section, TextBlock

_MOST = 8


def short_section(findings: Sequence[str], *more: TextBlock | None) -> Section:
    """Return the findings as one section.

    Example:
        >>> [block.text for block in short_section(["Ann draws less.", ""], None).blocks]
        ['Ann draws less.']
    """
    text = "\n\n".join(" ".join(one.split()) for one in findings if one)
    blocks = [TextBlock(text)] if text else []
    return Section("In short", "", [*blocks, *(block for block in more if block is not None)])


def notes_block(notes: Sequence[str]) -> TextBlock | None:
    """Return notes as a block; None without any."""
    kept = [_sentence(note) for note in dict.fromkeys(notes)]
    if len(kept) > _MOST:
        kept = [*kept[:_MOST], f"And {len(kept) - _MOST:,} more notes."]
    return TextBlock("\n\n".join(kept), "note") if kept else None


def _sentence(note: str) -> str:
    text = " ".join(note.split())
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
