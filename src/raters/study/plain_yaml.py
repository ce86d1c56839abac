"""Reads a YAML file of plain data as a checked class; nothing in it is ever run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from raters.errors import RatersError

T = TypeVar("T", bound=BaseModel)


def read_plain_yaml(path: Path, content: type[T], form: str) -> T:
    """Read a file and refuse what is not understood.

    Args:
        path: The file.
        content: The class of what it holds.
        form: The name of its format, for messages.

    Raises:
        RatersError: that names the key and what was expected.
    """
    try:
        plain: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RatersError(error.strerror or str(error), kind="unreadable", file=path) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise RatersError(f"not a YAML file: {reason}", kind="unreadable", file=path) from None
    try:
        return content.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        found = f" (found {first['input']!r})" if first["type"] != "missing" else ""
        raise RatersError(
            f"{where}: {first['msg']}{found}, expected a file of format {form}",
            kind="study-file",
            file=path,
        ) from None
