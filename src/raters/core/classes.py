"""Classes: what label values in files mean, and the numbers 0, 1, 2, ... that the maths uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from raters.core.arrays import Array, Labels
from raters.core.errors import RatersError, one_of
from raters.core.whole_numbers import MOST_VALUES
from raters.core.wording import first_repeated, listing

MISSING = -1
"""This rater did not label this pixel."""

_UNKNOWN = -2
_MOST_CLASSES = 32767
_MOST_VALUE = 1 << 63


@dataclass(frozen=True)
class LabelClass:
    """One class: its name, the value that stands for it in files, and values that mean the same."""

    name: str
    value: int | str
    also: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Classes:
    """The classes of a study in order; the class at position 0 is background in segmentation.

    Example:
        >>> classes = Classes.parse("0=background,1=core,4=enhancing")
        >>> classes.names, classes.values
        (('background', 'core', 'enhancing'), (0, 1, 4))
        >>> classes.encode(np.array([0, 4, 255, 1]), ignore=[255])
        array([ 0,  2, -1,  1], dtype=int16)
        >>> classes.decode(np.array([0, 2, -1, 1]), missing=255)
        array([  0,   4, 255,   1], dtype=uint8)
    """

    items: tuple[LabelClass, ...]

    def __post_init__(self) -> None:
        if len(self.items) > _MOST_CLASSES:
            raise RatersError(f"found {len(self.items)} classes, expected at most {_MOST_CLASSES}")
        for value in (v for c in self.items for v in (c.value, *c.also)):
            if isinstance(value, int) and not -_MOST_VALUE <= value < _MOST_VALUE:
                message = f"found the class value {value:.6g}, expected one of 64 bits at most"
                raise RatersError(message, kind="classes")
        _refuse_repeats("class name", self.names)
        _refuse_repeats("label value", [v for c in self.items for v in (c.value, *c.also)])

    def refuse_text(self) -> None:
        """Reject texts as values, which a mask cannot hold."""
        for label_class in self.items:
            for value in (label_class.value, *label_class.also):
                if isinstance(value, str):
                    raise RatersError(
                        f"found the value {value[:60]!r} of the class {label_class.name[:60]!r}, "
                        "expected a whole number: classes of masks",
                        kind="classes",
                    )

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[LabelClass]:
        return iter(self.items)

    def __getitem__(self, position: int) -> LabelClass:
        return self.items[position]

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(c.name for c in self.items)

    @property
    def values(self) -> tuple[int | str, ...]:
        """The values that stand for the classes in files, in order."""
        return tuple(c.value for c in self.items)

    @classmethod
    def of(cls, given: Classes | str | Mapping[Any, str] | Iterable[Any]) -> Classes:
        """Make classes from what a user gives: a text, `{value: name}`, values, or names.

        Example:
            >>> Classes.of({0: "background", 4: "enhancing"}).values
            (0, 4)
            >>> Classes.of(["background", "lesion"]).values
            (0, 1)
        """
        if isinstance(given, Classes):
            return given
        if isinstance(given, str):
            return cls.parse(given)
        if isinstance(given, Mapping):
            return cls(tuple(LabelClass(str(name), value) for value, name in given.items()))
        items = list(given)
        if all(isinstance(item, LabelClass) for item in items):
            return cls(tuple(items))
        if all(isinstance(item, int | np.integer) for item in items):
            return cls.from_values([int(item) for item in items])
        return cls(tuple(LabelClass(str(name), value) for value, name in enumerate(items)))

    @classmethod
    def parse(cls, text: str) -> Classes:
        """Read `"0=background,1=tumour"` or `"0,1,3,4"`; their order is the order of classes."""
        named: dict[int, str] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            value, _, name = part.partition("=")
            try:
                number = int(value)
            except ValueError:
                raise RatersError(
                    f"found {part!r} among the values {text!r}, "
                    "expected whole numbers with names, as in '0=background,1=tumour'"
                ) from None
            if number in named:
                raise RatersError(f"found the value {number} twice in {text!r}, expected it once")
            named[number] = name.strip()
        unnamed = cls.from_values(named).names if named else ()
        return cls.of({v: n or d for (v, n), d in zip(named.items(), unnamed, strict=True)})

    @classmethod
    def from_values(cls, values: Iterable[int]) -> Classes:
        """Name classes by their values: 0 is background, the only other one is foreground."""
        ordered = list(values)
        others = [v for v in ordered if v != 0]
        only = "foreground" if len(others) == 1 and len(ordered) == 2 else None
        return cls(
            tuple(LabelClass("background" if v == 0 else only or str(v), v) for v in ordered)
        )

    def encode(self, values: Array, ignore: Collection[int] = ()) -> Labels:
        """Turn values as files hold them into class numbers; `ignore` becomes MISSING.

        Raises:
            RatersError: for a value that is neither a class nor ignored.
        """
        known = {v: k for k, c in enumerate(self.items) for v in (c.value, *c.also)}
        known |= dict.fromkeys(ignore, MISSING)
        numbers = {int(v): k for v, k in known.items() if not isinstance(v, str)}
        labels = _look_up(values, numbers)
        unknown = labels == _UNKNOWN
        if unknown.any():
            raise self._unknown(np.unique(values[unknown]), sorted(numbers))
        return labels

    def _unknown(self, found: Array, expected: Sequence[int]) -> RatersError:
        hint = (
            "a grey mask needs --threshold; numbers of segments are no classes: write their "
            "boundaries, or one class at a time"
            if len(found) > MOST_VALUES
            else "--values names the classes, --ignore a value that means 'not labelled'"
        )
        return RatersError(
            f"found value {listing(found.tolist(), 5)}, "
            f"expected one of {listing(expected)} ({hint})",
            kind="unknown-value",
        )

    def decode(self, labels: Array, missing: int | None = None) -> Array:
        """Turn class numbers into the values that files hold; `missing` stands for MISSING."""
        values = [int(v) for v in self.values]
        if missing is None and (labels == MISSING).any():
            raise RatersError("some labels are MISSING and no value was given to stand for them")
        table = np.array([*values, 0 if missing is None else missing])
        return np.asarray(table.astype(self.file_dtype(missing))[labels])

    def file_dtype(self, missing: int | None = None) -> np.dtype[Any]:
        """Return the smallest integer type that holds all values (and the one for MISSING)."""
        values = [int(v) for v in self.values] + ([] if missing is None else [missing])
        for candidate in (np.uint8, np.uint16, np.int16, np.int32):
            info = np.iinfo(candidate)
            if info.min <= min(values) and max(values) <= info.max:
                return np.dtype(candidate)
        return np.dtype(np.int64)

    def free_value(self) -> int:
        """Return a value that no class uses, to stand for MISSING in files: 255 if free."""
        used = {v for c in self.items for v in (c.value, *c.also)}
        return next(v for v in chain(range(255, 0, -1), range(65535, 255, -1)) if v not in used)

    def choose(self, names: Iterable[str], *, keep_background: bool) -> tuple[Classes, Labels]:
        """Choose a subset by name or value; also give the table from old class numbers to new ones.

        In masks background stays and takes what is not chosen; in tables that becomes MISSING.
        """
        by_name = {c.name: k for k, c in enumerate(self.items)} | {
            str(c.value): k for k, c in enumerate(self.items) if str(c.value) not in self.names
        }
        wanted = [
            name if name in by_name else one_of(self.names, name, "no class") for name in names
        ]
        chosen = sorted({by_name[name] for name in wanted} | ({0} if keep_background else set()))
        table = np.full(len(self) + 1, 0 if keep_background else MISSING, np.int16)
        table[chosen] = np.arange(len(chosen))
        table[MISSING] = MISSING
        return Classes(tuple(self.items[k] for k in chosen)), table


def named_values(values: Collection[int], given: Mapping[int, str] | None = None) -> Classes:
    """Name values; where some masks hold 0 and 1 and others 0 and 255, both mean foreground."""
    names = given or {}
    if set(values) == {0, 1, 255} and not names:
        return Classes((LabelClass("background", 0), LabelClass("foreground", 1, also=(255,))))
    ordered = sorted({*values, *names})
    plain = Classes.from_values(ordered).names
    return Classes.of({v: names.get(v, n) for v, n in zip(ordered, plain, strict=True)})


def _refuse_repeats(what: str, items: Sequence[int | str]) -> None:
    twice = first_repeated(items)
    if twice is not None:
        raise RatersError(f"found the {what} {twice!r} twice, expected each once")


def _stay(values: Array, numbers: Mapping[int, int]) -> bool:
    """Return whether every value is its own class number, as in most masks: the fastest way."""
    if not values.size:
        return False
    low = int(values.min())
    high = int(values.max())
    return low >= 0 and high < len(numbers) and all(numbers.get(v) == v for v in range(high + 1))


def _translated(values: Array, numbers: Mapping[int, int]) -> Labels | None:
    """Map bytes by `bytes.translate`, in half the time of a gather; None where it cannot."""
    if not values.flags.forc or max(numbers.values(), default=0) > 127:
        return None
    table = np.full(256, _UNKNOWN, np.int8)
    for value, number in numbers.items():
        if 0 <= value < 256:
            table[value] = number
    # Not `tobytes` as it is: it would turn arrays in Fortran order.
    found = values.ravel(order="K").tobytes().translate(table.tobytes())
    order: Literal["C", "F"] = "C" if values.flags.c_contiguous else "F"
    return np.frombuffer(found, np.int8).astype(np.int16).reshape(values.shape, order=order)


def _look_up(values: Array, numbers: Mapping[int, int]) -> Labels:
    """Map each value by a table; small integer types take one gather, others a binary search."""
    if _stay(values, numbers):
        return values.astype(np.int16)
    if values.dtype == np.uint8:
        translated = _translated(values, numbers)
        if translated is not None:
            return translated
    if values.dtype.itemsize <= 2:
        info = np.iinfo(values.dtype)
        table = np.full(info.max - info.min + 1, _UNKNOWN, np.int16)
        for value, number in numbers.items():
            if info.min <= value <= info.max:
                table[value] = number  # negative values count from the end, in both look-ups
        return np.asarray(table[values])
    # In the type of the values: numpy would compare signed with unsigned ones as floats.
    info = np.iinfo(values.dtype)
    known = np.array(sorted(v for v in numbers if info.min <= v <= info.max), values.dtype)
    codes = np.array([numbers[int(v)] for v in known], np.int16)
    if not len(known):
        return np.full(values.shape, _UNKNOWN, np.int16)
    position = np.searchsorted(known, values).clip(0, len(known) - 1)
    return np.where(known[position] == values, codes[position], np.int16(_UNKNOWN))
