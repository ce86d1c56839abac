"""What a verb of the command line is, and the verbs that other installed packages add.

A package adds a verb by an entry point of the group `raters.verbs` that names a `Verb`:

    [project.entry-points."raters.verbs"]
    bench = "raters_bench.cli:VERB"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer

from raters.core.errors import RatersError

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

    Raises:
        RatersError: An entry point cannot be imported, or names something else than a `Verb`.

    Example:
        >>> "check" in installed_verbs()  # it comes with raters itself
        False
    """
    from importlib.metadata import entry_points  # 30 ms that most verbs do not need

    verbs: dict[str, Verb] = {}
    for entry_point in entry_points(group=GROUP):
        try:
            verb = entry_point.load()
        except (ImportError, AttributeError) as error:
            raise RatersError(
                f"found the verb {entry_point.name!r}, which cannot be imported from "
                f"{entry_point.value} ({error}), expected an entry point that can"
            ) from error
        if not isinstance(verb, Verb):
            raise RatersError(
                f"found {type(verb).__name__} as the verb {entry_point.name!r} "
                f"({entry_point.value}), expected a raters.cli.verbs.Verb"
            )
        verbs[entry_point.name] = verb
    return verbs


def command_of(name: str, verb: Verb) -> Any:  # noqa: ANN401
    """Return the command that typer makes of a verb."""
    application = typer.Typer(rich_markup_mode="rich")
    if isinstance(verb.command, typer.Typer):
        application.add_typer(verb.command, name=name, rich_help_panel=verb.panel)
    else:
        application.command(name, rich_help_panel=verb.panel)(verb.command)
    return typer.main.get_group(application).commands[name]
