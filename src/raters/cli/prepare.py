"""`raters prepare`: turn a public data set into a study."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from raters.cli.import_ import report
from raters.errors import RatersError


def prepare(
    name: Annotated[str, typer.Argument(help="The data set; see --list.")] = "",
    source: Annotated[str, typer.Argument(help="The folder or file it is in.")] = "",
    out: Annotated[str, typer.Option("-o", "--out", help="The folder to write.")] = "",
    form: Annotated[str, typer.Option(help="canonical or packed; by default what suits it.")] = "",
    download: Annotated[
        bool, typer.Option(help="Fetch it to SOURCE first, where that is allowed.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Write all cases again.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the data sets.")] = False,
) -> None:
    """Turn a public data set into a study.

    raters prepare lidc LIDC-crops/ -o study/
    """
    if list_all or not name:
        _show_all()
        return
    if not source or not out:
        raise RatersError(
            f"expected a source and a folder to write: raters prepare {name} SOURCE -o study/"
        )
    from raters.datasets import prepare as prepare_dataset

    progress = sys.stderr.isatty()
    report(prepare_dataset(name, source, out, form or None, overwrite, download, progress))


def _show_all() -> None:
    from rich.console import Console
    from rich.table import Table

    from raters.datasets import DATASETS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("name", "data set", "raters", "licence"):
        table.add_column(column)
    for name, dataset in DATASETS.items():
        table.add_row(name, dataset.title, dataset.raters, dataset.licence)
    Console(highlight=False).print(table)
