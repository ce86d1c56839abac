"""Tells the user at once what is happening, and keeps long texts within a terminal."""

from __future__ import annotations

import textwrap

import typer

from raters.wording import printable

WIDTH = 80


def say(text: str) -> None:
    """Print a line about what comes now, beside the results; of several processes one does."""
    from raters.training.run import first_process

    if first_process():
        typer.echo(printable(text), err=True)


def wrapped(text: str, indent: int = 2) -> str:
    """Break a text into lines that a terminal of 80 columns shows; names are never broken.

    Example:
        >>> print(wrapped("paper: " + "a word " * 14, indent=7))
        paper: a word a word a word a word a word a word a word a word a word a word a
               word a word a word a word
    """
    return textwrap.fill(
        text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
