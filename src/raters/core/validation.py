"""Classes of pydantic whose checks raise `RatersError`s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from raters.core.errors import RatersError


class Validated(BaseModel):
    """A class whose checks may raise a `RatersError`, which callers get as it was raised.

    Pydantic takes each `ValueError` of a check for a value that does not fit, and wraps it.
    """

    def __init__(self, **values: Any) -> None:  # noqa: ANN401
        with own_errors():
            super().__init__(**values)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:  # noqa: ANN401
        """Make an object of plain data."""
        with own_errors():
            return super().model_validate(obj, **options)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the `RatersError` that pydantic wrapped; its own errors stay as they are.

    Example:
        >>> from pydantic import field_validator
        >>> class Options(BaseModel):
        ...     name: str
        ...     @field_validator("name")
        ...     def _known(cls, name: str) -> str:
        ...         raise RatersError(f"found {name!r}, expected another name")
        >>> with own_errors():
        ...     Options(name="ann")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found 'ann', expected another name
    """
    try:
        yield
    except ValidationError as error:
        for found in error.errors(include_url=False):
            raised = found.get("ctx", {}).get("error")
            if isinstance(raised, RatersError):
                raise raised from None
        raise
