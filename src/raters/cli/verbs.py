"""What a verb of the command line is, and the verbs that other installed packages add.

A package adds a verb by an entry point of the group `raters.verbs` that names a `Verb`:

    [project.entry-points."raters.verbs"]
    bench = "raters_bench.cli:VERB"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from raters.cli.help import with_help
from raters.core.errors import RatersError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "raters.verbs"


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes:
        command: The function that typer makes a command of, or an application with verbs of its
            own.
        panel: The heading that `raters --help` lists it under.
        resumes: Whether it skips what is finished when it is called again.
    """

    command: Callable[..., None] | typer.Typer
    panel: str
    resumes: bool = False


@cache
def installed_verbs() -> dict[str, Verb]:
    """Return the verbs that installed packages add, by name.

    One that cannot be imported, or is no `Verb`, is listed as that; calling it is an error.

    Example:
        >>> "check" in installed_verbs()  # it comes with raters itself
        False
    """
    from importlib.metadata import entry_points  # 30 ms that most verbs do not need

    verbs: dict[str, Verb] = {}
    for entry_point in entry_points(group=GROUP):
        try:
            verb = entry_point.load()
        except Exception as error:  # whatever a module of another package may raise
            verb = _broken_verb(f"{type(error).__name__}: {error}", entry_point)
        if not isinstance(verb, Verb):
            verb = _broken_verb(f"it is a {type(verb).__name__}", entry_point)
        verbs[entry_point.name] = verb
    return verbs


def _broken_verb(reason: str, entry_point: EntryPoint) -> Verb:
    def command() -> None:
        raise RatersError(
            f"found the verb {entry_point.name!r} that cannot be used ({reason}), expected a "
            f"raters.cli.verbs.Verb at {entry_point.value}"
        )

    command.__doc__ = f"Cannot be used: {reason}."
    return Verb(command, "Installed, but broken")


def command_of(name: str, verb: Verb) -> Any:  # noqa: ANN401
    """Return the command that typer makes of a verb."""
    application = typer.Typer(rich_markup_mode="rich")
    if isinstance(verb.command, typer.Typer):
        application.add_typer(verb.command, name=name, rich_help_panel=verb.panel)
    else:
        application.command(name, rich_help_panel=verb.panel)(verb.command)
    return typer.main.get_group(with_help(application)).commands[name]
