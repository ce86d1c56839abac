"""Remembers in a folder of results which study they come from, and opens it again.

`source.yaml` of a run or a fusion holds the arguments of `raters.read`. Paths are relative to the
folder where that is possible, so that folder and data may be moved together. It is plain data: a
stranger's file can name images and labels to read, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from raters.study.paths import written_whole
from raters.study.plain_yaml import read_plain_yaml

if TYPE_CHECKING:
    from raters.study.study import Study

SOURCE_FILE = "source.yaml"
FORMAT = "raters-source/1"
_PATHS = ("source", "images", "reference")


class StudySource(BaseModel):
    """The arguments of `raters.read`, as `source.yaml` of a folder of results holds them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["raters-source/1"] = "raters-source/1"
    source: str
    images: str | None = None
    reference: str | None = None
    values: str | None = None
    ignore: list[int] = []
    absent: Literal["missing", "empty"] = "missing"
    threshold: float | None = None
    overlap: Literal["error", "priority", "combine"] = "error"
    resample: Literal["nearest"] | None = None
    raters: list[str] | None = None
    cases: list[str] | None = None
    classes: list[str] | None = None
    split: str | None = None
    task: str = "task"
    worker: str = "worker"
    label: str = "label"
    wide: bool = False
    missing: list[str] | None = None
    header: bool | None = None
    anonymous: bool = False


def remember_study(folder: str | Path, options: Mapping[str, Any]) -> Path:
    """Write `source.yaml` into a folder of results.

    Args:
        folder: The folder, which is there.
        options: `source` and further arguments of `raters.read`, as plain data.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "run")
        >>> folder.mkdir()
        >>> path = remember_study(folder, {"source": str(folder.parent / "{rater}/{case}.png")})
        >>> path.read_text().splitlines()
        ['format: raters-source/1', 'source: ../{rater}/{case}.png']
    """
    content = StudySource(**options).model_dump(exclude_defaults=True)
    home = os.path.realpath(folder)
    for name in _PATHS:
        if name in content:
            content[name] = _relative(content[name], home)
    path = Path(folder) / SOURCE_FILE
    with written_whole(path) as file:
        plain = {"format": FORMAT, **content}
        yaml.safe_dump(plain, file, sort_keys=False, allow_unicode=True, width=1000)
    return path


def remembered_options(folder: str | Path) -> dict[str, Any] | None:
    """Return the arguments of `raters.read` that a folder remembers; None if it does not.

    Raises:
        RatersError: The file holds something else; what it holds is never run.
    """
    path = Path(folder) / SOURCE_FILE
    if not path.exists():
        return None
    content = read_plain_yaml(path, StudySource, FORMAT).model_dump(exclude_defaults=True)
    content.pop("format", None)
    home = os.path.realpath(folder)
    for name in _PATHS:
        if name in content:
            content[name] = _absolute(content[name], home)
    return content


def remembered_study(folder: str | Path, **changed: Any) -> Study | None:  # noqa: ANN401
    """Open the study that a folder remembers; None if it does not.

    Args:
        folder: A run, or a fusion.
        changed: Arguments of `raters.read` that take the place of the remembered ones.
    """
    from raters.study.read import read

    options = remembered_options(folder)
    return None if options is None else read(**{**options, **changed})


def _relative(text: str, home: str) -> str:
    """Return a path as seen from a folder; the name of a column stays what it is."""
    if not (_looks_like_path(text) or Path(text).exists()):
        return text
    whole = Path(text).resolve()
    try:
        return os.path.relpath(whole, home).replace(os.sep, "/")
    except ValueError:  # on another drive
        return str(whole)


def _absolute(text: str, home: str) -> str:
    whole = Path(os.path.normpath(Path(home) / text))
    return str(whole) if _looks_like_path(text) or whole.exists() else text


def _looks_like_path(text: str) -> bool:
    return "{" in text or "/" in text or os.sep in text
