"""Tables as lists of rows: written as CSV and JSON, whole or not at all."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raters.study.paths import written_whole

Row = dict[str, Any]


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV; a value that does not exist (None, NaN) is an empty cell."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with written_whole(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_plain(row.get(column)) for column in columns] for row in rows)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401
    """Write plain data as JSON; a number that does not exist is null."""
    with written_whole(path) as file:
        file.write(to_json(content) + "\n")


def to_json(content: Any) -> str:  # noqa: ANN401
    """Give plain data as JSON text.

    Example:
        >>> import numpy as np
        >>> to_json({"dice": float("nan"), "cases": np.int64(3)}).split()
        ['{', '"dice":', 'null,', '"cases":', '3', '}']
    """
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # of numpy, which takes a tenth of a second to import
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
