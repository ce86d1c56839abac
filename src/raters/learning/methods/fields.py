"""Describes the fields of pydantic classes: what may be given, its limits, its default."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from raters.core.errors import RatersError
from raters.io.rows import Row


def described(name: str, info: FieldInfo) -> Row:
    """Return what there is to know of a field as plain data.

    Example:
        >>> from pydantic import Field
        >>> described("rank", FieldInfo.from_annotated_attribute(int, Field(2, ge=1)))
        {'option': 'rank', 'type': 'INTEGER', 'default': 2, 'meaning': ' (1 or more)'}
    """
    kind = "yes|no" if plain_type(info.annotation) is bool else metavar(info.annotation)
    return {"option": name, "type": kind, "default": info.default, "meaning": meaning(info)}


def meaning(info: FieldInfo) -> str:
    """Return what a field means, and which numbers it takes."""
    limits = limits_of(info)
    return f"{info.description or ''}{f' ({limits})' if limits else ''}"


def plain_type(annotation: Any) -> type:  # noqa: ANN401
    """Return what a command line reads: a switch, a number, or text.

    Example:
        >>> plain_type(float | None), plain_type(Literal["a", "b"]), plain_type(bool)
        (<class 'float'>, <class 'str'>, <class 'bool'>)
    """
    kinds = [kind for kind in _alternatives(annotation) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str


def metavar(annotation: Any) -> str:  # noqa: ANN401
    """Show what may be given.

    Example:
        >>> metavar(Literal["cosine", "constant"]), metavar(int | None)
        ('cosine|constant', 'INTEGER')
        >>> metavar(tuple[int, ...] | Literal["auto", "whole"])
        'N,N,...|auto|whole'
    """
    words = {bool: "", int: "INTEGER", float: "NUMBER", str: "NAME", type(None): ""}
    shown = [words[k] if k in words else _words_of(k) for k in _alternatives(annotation)]
    return "|".join(word for word in shown if word)


def _words_of(kind: Any) -> str:  # noqa: ANN401
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "N,N,..." if item is int else f"{metavar(item)},..."
    return "VALUE"


def _alternatives(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401
    several = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if several else (annotation,)


def limits_of(info: FieldInfo) -> str:
    """Return which numbers are allowed.

    Example:
        >>> from pydantic import Field
        >>> limits_of(Field(0.5, gt=0, le=1)), limits_of(Field(2, ge=1))
        ('above 0, at most 1', '1 or more')
    """
    said = []
    for limit in info.metadata:
        if isinstance(limit, Ge):
            said.append(f"{limit.ge:g} or more")
        elif isinstance(limit, Gt):
            said.append(f"above {limit.gt:g}")
        elif isinstance(limit, Le):
            said.append(f"at most {limit.le:g}")
        elif isinstance(limit, Lt) and limit.lt != 2**63:
            said.append(f"below {limit.lt:g}")
    return ", ".join(said)


def default_of(info: FieldInfo) -> str:
    """Show a default; nothing for one that the description or the data give."""
    if info.default is None or info.default == ():
        return ""
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return f"{info.default:g}" if isinstance(info.default, float) else str(info.default)


def parsed(name: str, info: FieldInfo, value: Any) -> Any:  # noqa: ANN401
    """Turn the text of an option into what its field takes; pydantic checks the rest.

    Example:
        >>> sides = FieldInfo.from_annotation(tuple[int, ...] | Literal["auto"])
        >>> parsed("patch_size", sides, "96,96")
        (96, 96)
    """
    kinds = _alternatives(info.annotation)
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    words: list[Any] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            words += get_args(kind)
    if not isinstance(value, str) or not lists or value in words:
        return value
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if get_args(lists[0])[0] is not int:
        return parts
    try:
        return tuple(int(part) for part in parts)
    except ValueError:
        expected = " or ".join(["whole numbers such as 96,96", *map(repr, words)])
        flag = name.replace("_", "-")
        raise RatersError(f"--{flag}: found {value!r}, expected {expected}") from None
