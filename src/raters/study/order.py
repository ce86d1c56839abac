"""When cases were read: a column of dates or numbers beside any study, for drift over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.core.wording import expected_one_of, listing
from raters.study.pattern import is_pattern
from raters.study.study import Study
from raters.study.study_file import CASES_FILE
from raters.study.table_study import USUAL, read_texts

LISTED = "listed"
"""The order in which the study lists its cases."""

Given = str | Mapping[Any, Any]
"""A column, FILE:COLUMN, 'listed', or `{case: when}` or `{(case, rater): when}`."""


@dataclass(frozen=True)
class Order:
    """When each case was read, by all raters or by each.

    Attributes:
        name: What it is called: the column.
        when: Numbers that rise with time, by case, and by case and rater.
        dates: Whether they are seconds since 1970.
    """

    name: str
    when: Mapping[str | tuple[str, str], float]
    dates: bool = False

    def at(self, case: str, rater: str) -> float:
        """Return when a rater read a case; NaN where nobody knows."""
        return self.when.get((case, rater), self.when.get(case, math.nan))

    def shown(self, when: float) -> str:
        """Return a time as a reader knows it: a date, or a number."""
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d}" if self.dates else f"{when:g}"


def order_of(study: Study, given: Given | None = None) -> Order | None:
    """Return the order of readings; None where nothing is known of it.

    Args:
        study: The study; it may say itself what its order is: `order: COLUMN` below `about` in
            `study.yaml`.
        given: A column of the study's own table (`cases.csv` of a folder, the manifest, or the
            table of labels), with whole numbers or dates such as 2024-05-31; `FILE:COLUMN` for any
            other table with a column of cases (and of raters, if each has their own order);
            'listed' for the order in which the study lists its cases; or a mapping.

    Raises:
        RatersError: for a column that is not there, or holds anything else.

    Example:
        >>> import numpy as np
        >>> study = Study.from_arrays(labels=np.zeros((2, 2, 3, 3), int))
        >>> order_of(study, {"0": "2024-05-31", "1": "2024-06-02"}).at("1", "ann") > 0
        True
        >>> order_of(study) is None
        True
    """
    given = given or study.about.get("order")
    if not given:
        return None
    if not isinstance(given, str):
        texts = {
            _key(key): when.isoformat() if isinstance(when, datetime) else str(when)
            for key, when in given.items()
        }
        return _parsed("order", texts, study, None)
    if given == LISTED:
        return Order("the order of the study", {case: k for k, case in enumerate(study.cases)})
    path, column = _place(study, given)
    return _parsed(column, _read(path, column, study), study, path)


def _key(key: object) -> str | tuple[str, str]:
    return (str(key[0]), str(key[1])) if isinstance(key, tuple) else str(key)


def _place(study: Study, given: str) -> tuple[Path, str]:
    """Return the table and the column that are meant."""
    file, _, column = given.rpartition(":")
    if file and (Path(file).is_file() or "." in Path(file).name):
        return Path(file), column
    if study.folder is not None:
        return study.folder / CASES_FILE, given
    source = study.sources[0] if study.sources else ""
    if source and not is_pattern(source) and Path(source).is_file():
        return Path(source), given
    what = f"the pattern {source}" if source else "a study from memory"
    raise RatersError(
        f"found the order {given!r} for {what}, which has no columns, expected FILE:COLUMN such as "
        "times.csv:date with a column of cases, or 'listed'"
    )


def _read(path: Path, column: str, study: Study) -> dict[str | tuple[str, str], str]:
    opened = study.opened or {}

    def choose(names: Sequence[str]) -> list[str]:
        if column not in names:
            expected = f"{expected_one_of(names, column)}, or FILE:COLUMN, or 'listed'"
            raise RatersError(
                f"found no column {column!r} for the order, {expected}", kind="columns"
            )
        cases = _first(names, [opened.get("task"), *USUAL["task"]])
        if cases is None:
            raise RatersError(
                f"found columns {listing(names)}, expected one of cases or tasks beside {column!r}",
                kind="columns",
            )
        raters = _first(names, [opened.get("worker"), *USUAL["worker"]])
        return [column, cases] if raters is None else [column, cases, raters]

    texts, *keys = read_texts(path, choose)
    found: dict[str | tuple[str, str], str] = {}
    for text, *key in zip(texts, *keys, strict=True):
        if text.strip():  # of repeated readings, the first
            found.setdefault(key[0] if len(key) == 1 else (key[0], key[1]), text.strip())
    return found


def _first(names: Sequence[str], wanted: Iterable[str | None]) -> str | None:
    return next((name for name in wanted if name in names), None)


def _parsed(
    name: str, texts: Mapping[str | tuple[str, str], str], study: Study, path: Path | None
) -> Order:
    """Turn texts into numbers: all of them numbers, or all of them dates."""
    cases = set(study.cases)
    known = {k: t for k, t in texts.items() if (k if isinstance(k, str) else k[0]) in cases}
    if not known:
        raise RatersError(
            f"found no case of the study with a value in {name!r}, expected names such as "
            f"{next(iter(study.cases), '')!r}",
            kind="value",
            file=path,
        )
    try:
        return Order(name, {key: _number(text) for key, text in known.items()})
    except ValueError:  # they must all be dates then
        found: dict[str | tuple[str, str], float] = {}
    for key, text in known.items():
        try:
            found[key] = _seconds(text)
        except ValueError:
            expected = "numbers, or dates such as 2024-05-31"
            message = f"found {text!r} in the order {name!r}, expected {expected}"
            raise RatersError(message, kind="value", file=path) from None
    return Order(name, found, dates=True)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
