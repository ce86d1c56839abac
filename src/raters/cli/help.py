"""The two pages of help of every verb: `--help` is short, `--help-all` shows all options.

An option that has a panel of its own (`rich_help_panel`) is only on the long page.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, ClassVar

import typer
from typer import Option
from typer.core import TyperCommand

from raters.cli.study_options import PANELS

_ALL = "--help-all"
_SHOW_ALL = "Show all options and exit."


class VerbWithHelp(TyperCommand):
    """A verb with a short and a long page of help.

    Attributes:
        few: Names of parameters that are on the short page although they have a panel.
    """

    few: ClassVar[tuple[str, ...]] = ()

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401
        """Return the parameters, with `--help-all` before `--help`."""
        *own, last = super().get_params(ctx)
        if any(_ALL in parameter.opts for parameter in own):
            return [*own, last]
        return [*own, _all_option(), last]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Show the short page."""
        page = copy(self)
        page.params = []
        hidden = []
        for parameter in self.params:
            panel = getattr(parameter, "rich_help_panel", None)
            if panel and parameter.name not in self.few:
                hidden.append(panel)
                continue
            shown = copy(parameter)
            shown.rich_help_panel = None  # type: ignore[attr-defined]
            page.params.append(shown)
        page.help = _example_first(self.help or "")
        page.epilog = _closing_line(hidden)
        page.format_all(ctx, formatter)

    def format_all(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Show all that there is."""
        super().format_help(ctx, formatter)


def with_help(application: typer.Typer) -> typer.Typer:
    """Give the verbs of an application both pages, also those of applications in it."""
    for info in application.registered_commands:
        if info.cls is TyperCommand:
            info.cls = VerbWithHelp
    for group in application.registered_groups:
        if group.typer_instance is not None:
            with_help(group.typer_instance)
    return application


@cache
def _all_option() -> Any:  # noqa: ANN401
    """Return the option as typer makes it; click compares parameters, so it is always the same."""

    def holder(
        help_all: Annotated[
            bool,
            Option(_ALL, help=_SHOW_ALL, is_eager=True, expose_value=False, callback=_show_all),
        ] = False,
    ) -> None: ...

    application = typer.Typer(add_completion=False)
    application.command()(holder)
    return typer.main.get_command(application).params[0]


def _show_all(context: typer.Context, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    command = context.command
    assert isinstance(command, VerbWithHelp)
    formatter = context.make_formatter()
    command.format_all(context, formatter)
    typer.echo(formatter.getvalue())
    raise typer.Exit


def _example_first(text: str) -> str:
    r"""Return a help text with its examples first, further ones in a line each.

    Example:
        >>> _example_first("Do it.\n\nIt is quick.\n\nraters a\n\nraters b\n\nraters c")
        'raters a\n\nraters b\nraters c\n\nDo it.\n\nIt is quick.'
    """
    paragraphs = cleandoc(text).split("\n\n")
    examples = [p for p in paragraphs if p.startswith("raters ")]
    if not examples:
        return text
    first, *further = examples
    rest = [p for p in paragraphs if p not in examples]
    parts = [first, "\n".join(further), *rest]
    return "\n\n".join(part for part in parts if part)


def _closing_line(panels: list[str]) -> str | None:
    if not panels:
        return None
    reading = ", also those that say how a study is read" if set(panels) & set(PANELS) else ""
    return f"{_ALL} shows {len(panels)} more options{reading}."
