"""Names that will go warn whoever uses them, and go when it was said."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path

import pytest

from raters.core.deprecation import deprecated
from raters.version import __version__

SOURCE = Path(__file__).parents[2] / "src"


@deprecated(since="0.2", removed_in="0.4", instead="raters.fuse")
def merge(labels: list[int], *, weight: int = 1) -> int:
    """Merge labels."""
    return weight * sum(labels)


@deprecated(since="0.2", removed_in="0.4", instead="raters.Study")
@dataclass(frozen=True)
class Labels:
    """Some labels."""

    values: tuple[int, ...]

    @deprecated(since="0.3", removed_in="0.5", instead="values")
    def all(self) -> tuple[int, ...]:
        """Return all labels."""
        return self.values


def test_a_function_warns_and_does_what_it_did() -> None:
    said = r"^merge is deprecated since raters 0\.2 and goes in 0\.4: use raters\.fuse$"
    with pytest.warns(FutureWarning, match=said) as caught:
        assert merge([1, 2], weight=2) == 6
    assert caught[0].filename == __file__


def test_a_class_warns_where_it_is_made_and_stays_a_class() -> None:
    with pytest.warns(FutureWarning, match=r"^Labels is deprecated .* use raters\.Study$"):
        made = Labels((1, 2))
    assert isinstance(made, Labels)
    with pytest.warns(FutureWarning, match=r"^Labels\.all is deprecated .* use values$"):
        assert made.all() == (1, 2)


def test_help_and_signature_are_kept_and_say_it() -> None:
    assert list(inspect.signature(merge).parameters) == ["labels", "weight"]
    assert (merge.__doc__ or "").endswith("raters 0.2 and goes in 0.4: use raters.fuse.")
    assert (Labels.__doc__ or "").endswith("raters 0.2 and goes in 0.4: use raters.Study.")


def test_nothing_stays_longer_than_was_said() -> None:
    now = _numbers(__version__)
    late = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "deprecated":
                given = {k.arg: k.value for k in node.keywords}
                removed_in = given["removed_in"]
                assert isinstance(removed_in, ast.Constant), path
                late += [path] if _numbers(removed_in.value) <= now else []
    assert late == []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
