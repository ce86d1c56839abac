"""What tests of wrong data sets share: to make one, to spoil it, and to see it refused in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raters.core.errors import RatersError
from raters.datasets import open_dataset
from tests.support.datasets import MADE


def make_data_set(key: str, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return MADE[key][0](folder)


def assert_data_set_refused(name: str, source: Path, *words: str) -> RatersError:
    return assert_refuses(lambda: open_dataset(name, source), *words)


def assert_refuses(action: Callable[[], Any], *words: str) -> RatersError:
    with pytest.raises(RatersError) as caught:
        action()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
    return caught.value


def remove(path: Path) -> None:
    if path.is_dir():
        for below in path.iterdir():
            remove(below)
        path.rmdir()
    else:
        path.unlink()


def change(path: Path, script: str) -> None:
    base = sqlite3.connect(path)
    base.executescript(script)
    base.close()
