"""What a cell of a table of class labels may hold: nothing, a number, or the name of a class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_NO_LABEL = {"", "nan"}

Missing = str | float | Sequence[str | float] | None
"""A value that means 'no label', several of them, or none."""


@dataclass(frozen=True)
class CellRules:
    """Tells labels from cells without one: those that are empty, NaN or among `missing`.

    Example:
        >>> rules = CellRules(missing=-1)
        >>> [rules.is_missing(text) for text in ("", "NaN", "-1.0", "1", "no")]
        [True, True, True, False, False]
    """

    missing: Missing = None

    def is_missing(self, text: str) -> bool:
        """Return whether a cell holds no label."""
        if text.lower() in _NO_LABEL:
            return True
        texts, numbers = self._named
        return text in texts or (bool(numbers) and number(text) in numbers)

    @cached_property
    def _named(self) -> tuple[set[str], set[Decimal]]:
        """The missing values as texts, and those of them that are numbers."""
        one = self.missing is None or isinstance(self.missing, str | float | int)
        given = [self.missing] if one else list(self.missing)  # type: ignore[arg-type]
        texts = {str(value).strip() for value in given if value is not None}
        return texts, {value for text in texts if (value := number(text)) is not None}

    def all_numbers(self, row: list[str]) -> bool:
        """Return whether each cell is a number or missing, as in data and not in a header."""
        return all(self.is_missing(cell) or number(cell) is not None for cell in row)


def number(text: str) -> Decimal | None:
    """Read a number; those that int64 cannot hold are left as texts.

    Example:
        >>> number("1e1"), number("cat"), number("99999999999999999999")
        (Decimal('1E+1'), None, None)
    """
    value = Decimal(text) if _NUMBER.fullmatch(text) else None
    return value if value is None or abs(value) < 2**63 else None
