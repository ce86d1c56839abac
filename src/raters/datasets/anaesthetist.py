"""Dawid and Skene's table of 1979: patients judged by anaesthetists, one of them three times."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from raters.datasets.base import Dataset, of_all
from raters.study.study import Study

COLUMNS = ("patient", "observer", "occasion", "label")

_CLASSES = {k: str(k) for k in (1, 2, 3, 4)}
_PATIENTS, _OBSERVERS, _READINGS = 45, 5, 315


def read(source: Path) -> Study:
    """Open the table; readings of one patient by one observer are all kept, occasions are not."""
    from raters.study.read import read as read_study

    path = source if source.is_file() else TABLE.need(source / "anaesthetist.csv")
    _check_columns(path)
    study = read_study(path, task="patient", worker="observer", values=_CLASSES)
    notes = (
        "repeated readings by one observer are kept; the column occasion is not",
        of_all(len(study), _PATIENTS, "patients"),
        of_all(len(study.raters), _OBSERVERS, "observers"),
        of_all(len(study.triplets), _READINGS, "readings"),
    )
    return replace(study, about=TABLE.about(*notes))


def _check_columns(path: Path) -> None:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            found = [cell.strip() for cell in next(csv.reader(file), [])]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TABLE.wrong(f"not a table: {error}", path) from None
    if sorted(found) != sorted(COLUMNS):
        message = f"found columns {', '.join(found)}, expected {', '.join(COLUMNS)}"
        raise TABLE.wrong(message, path)


TABLE = Dataset(
    name="anaesthetist",
    title="Dawid and Skene's anaesthetists: fitness of 45 patients on a scale of 1 to 4",
    raters="5 anaesthetists, one of them three times",
    licence="published table (facts), with citation",
    citation=(
        "A. P. Dawid, A. M. Skene: Maximum likelihood estimation of observer error-rates using "
        "the EM algorithm. Applied Statistics 28(1), 1979."
    ),
    layout="""
SOURCE/  (or the file itself)
  anaesthetist.csv    patient,observer,occasion,label: a row per reading, labels 1 to 4
""",
    where="the paper's Table 1; as text in github.com/dallascard/dawid_skene",
    read=read,
    form="packed",
)
