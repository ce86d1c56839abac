"""YAML files of plain data: written whole, read as a checked class; nothing in them is ever run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from raters.core.errors import RatersError
from raters.core.wording import cut_text
from raters.io.paths import read_text, written_whole

T = TypeVar("T", bound=BaseModel)

_LONGEST = 200  # characters of what a message quotes
_MOST_DIGITS = 40  # Python refuses to print what has thousands


class _Loader(yaml.SafeLoader):
    """Rejects aliases and keys that come twice.

    A few hundred bytes of aliases can stand for gigabytes; of two keys the first would be lost.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            message = f"found the alias '*{event.anchor}', expected every value written out"
            raise yaml.composer.ComposerError(None, None, message, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
        seen: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                message = f"found the key {name!r} twice, expected it once"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            if name is not None:
                seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> Any:  # noqa: ANN401
        if len(node.value) > _MOST_DIGITS:
            message = f"found a number of {len(node.value):,} digits, expected fewer"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        return super().construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


class _Dumper(yaml.SafeDumper):
    """Puts texts with unusual line breaks into double quotes, where YAML keeps them."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & set("\r\x85\u2028\u2029\ufeff") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent)


def write_yaml(path: Path, plain: Any, width: int = 80, allow_unicode: bool = True) -> None:  # noqa: ANN401
    """Write plain data as YAML, whole or not at all; keys stay in their order."""
    style: dict[str, Any] = {"width": width, "allow_unicode": allow_unicode}
    with written_whole(path) as file:
        yaml.dump(plain, file, _Dumper, sort_keys=False, **style)


def load_plain(text: str) -> Any:  # noqa: ANN401
    r"""Return the plain data of a YAML text: no objects, no aliases.

    Raises:
        yaml.YAMLError: with one line that says why.

    Example:
        >>> load_plain("a: [1, 2]")
        {'a': [1, 2]}
        >>> load_plain("a: &x [1]\nb: *x")
        Traceback (most recent call last):
        yaml.error.YAMLError: found the alias '*x', expected every value written out in ...
        >>> load_plain("a: 1\nb: 2\na: 3")
        Traceback (most recent call last):
        yaml.error.YAMLError: found the key 'a' twice, expected it once in ...
    """
    try:
        return yaml.load(text, _Loader)  # a kind of SafeLoader
    except RecursionError:
        raise yaml.YAMLError("found values nested too deep, expected few levels") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number or a date that is none
        raise yaml.YAMLError(cut_text(" ".join(str(error).split()), _LONGEST)) from None


def load_value(text: str) -> Any:  # noqa: ANN401
    """Return a value as YAML has it, and numbers that YAML takes for text (1e-5) as numbers.

    Example:
        >>> load_value("yes"), load_value("1e-5"), load_value("0.5,0.5"), load_value("cosine")
        (True, 1e-05, [0.5, 0.5], 'cosine')
    """
    found = load_plain(text)
    if not isinstance(found, str):
        return found
    try:
        return [float(item) for item in found.split(",")] if "," in found else float(found)
    except ValueError:
        return found


def read_yaml(path: Path, expected: str) -> Any:  # noqa: ANN401
    """Return the plain data of a YAML file.

    Raises:
        RatersError: that says why it cannot be read, and what was `expected`.
    """
    try:
        return load_plain(read_text(path))
    except OSError as error:
        why = f"cannot be read ({error.strerror or error})"
    except UnicodeDecodeError as error:
        why = f"not a YAML file: cannot be read ({error})"
    except yaml.YAMLError as error:
        why = f"not a YAML file: found no plain YAML ({error})"
    raise RatersError(f"{why}, expected {expected}", kind="unreadable", file=path)


def read_plain_yaml(path: Path, content: type[T], form: str) -> T:
    """Read a file and reject what is not understood.

    (Unlike `worded`, which reports options, the message begins with the place in the file.)

    Args:
        path: The file.
        content: The class of what it holds.
        form: The name of its format, for messages.

    Raises:
        RatersError: that names the key and what was expected.
    """
    plain = read_yaml(path, f"a file of format {form}")
    try:
        return content.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = cut_text(".".join(map(str, first["loc"])) or "the file", _LONGEST)
        shown = cut_text(repr(first["input"]), _LONGEST)
        found = f" (found {shown})" if first["type"] != "missing" else ""
        message = (
            f"{where}: {cut_text(first['msg'], _LONGEST)}{found}, expected a file of format {form}"
        )
        raise RatersError(message, kind="study-file", file=path) from None
