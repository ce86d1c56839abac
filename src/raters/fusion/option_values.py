"""Which values an option of a fusion method can have, by the type that its function asks for.

pydantic decides. Its errors name one thing that is wrong, which suits classes of options, where
each field has a description (`raters.core.wording.worded`); here all that an option asks for is
said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticUserError

from raters.core.arrays import Array
from raters.core.errors import RatersError


def _numbers_from_0(value: object) -> object:
    """Reject what is not made of finite numbers from 0 on; arrays stay as they are."""
    if isinstance(value, str | bool):
        raise ValueError
    found = np.asarray(value, np.float64)
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise ValueError
    return value


_FROM_0 = PlainValidator(_numbers_from_0)
_SCHEMA = WithJsonSchema({"type": "array", "minimum": 0})
Count = Annotated[int, Ge(1)]
NotNegative = Annotated[float, Ge(0)]
Sizes = Annotated[float | Sequence[float], _FROM_0, _SCHEMA]
"""One number for all axes, or one per axis."""
Shares = Annotated[Array | Sequence[float], _FROM_0, _SCHEMA]
"""Weights of classes, or a map of them."""


def refuse_value(name: str, value: object, asked: Any) -> None:  # noqa: ANN401
    """Reject a value that an option cannot have.

    Args:
        name: The option.
        value: What was given.
        asked: Its type, as pydantic takes it: bool, numbers, words (`Literal`), also with None and
            with a least value (`Annotated[int, Ge(1)]`). Other types are not looked at: the method
            knows.

    Raises:
        RatersError: that names the option, the value, and what is expected.

    Example:
        >>> refuse_value("max_iter", 5, Count)
        >>> refuse_value("max_iter", 0, Count)
        Traceback (most recent call last):
        raters.core.errors.RatersError: found max_iter=0, expected a whole number from 1 on
    """
    try:
        adapter = TypeAdapter(asked, config=ConfigDict(strict=True, allow_inf_nan=False))
        expected = _expected(adapter.json_schema())
    except PydanticUserError:  # no type that pydantic knows
        return
    if not expected:
        return
    try:
        adapter.validate_python(value.item() if isinstance(value, np.generic) else value)
    except (ValidationError, TypeError):
        raise RatersError(f"found {name}={value}, expected {expected}") from None


_KINDS = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "numbers",
}


def _expected(schema: Mapping[str, Any]) -> str:
    """Return what a JSON schema asks for, in words; '' for what the methods check themselves."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    if len(kinds) > 1:
        return ""
    words = kinds[0].get("enum")
    least = kinds[0].get("minimum")
    if words:
        return f"one of {', '.join(map(str, words))}"
    limit = "" if least is None else f" from {least:g} on"
    kind = _KINDS.get(kinds[0].get("type", ""), "")
    return f"{kind}{limit}" if kind else ""
