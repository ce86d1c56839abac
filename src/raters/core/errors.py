"""The one exception that users see: it names the file, the rater, what was found and expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raters.core.wording import expected_one_of, printable


class RatersError(ValueError):
    """Something in the input that the user can act on.

    It is a `ValueError`, so that `except ValueError` of callers takes it too.
    The message stands alone: it names the file, the value found and the value expected.
    The command line prints it and ends with exit code 2; `raters check` sorts it by `kind`.

    Args:
        message: A whole sentence, without the file (that is put in front).
        kind: A short machine-readable word for the problem, e.g. `"unreadable"`, `"geometry"`.
        file: The file in question.
        case: The case in question.
        rater: The rater in question.

    Example:
        >>> str(RatersError("found value 0.7, expected whole numbers", file="a.png"))
        'a.png: found value 0.7, expected whole numbers'
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "input",
        file: str | Path | None = None,
        case: str | None = None,
        rater: str | None = None,
    ) -> None:
        super().__init__(printable(f"{file}: {message}" if file is not None else message))
        self.message = message
        self.kind = kind
        self.file = None if file is None else str(file)
        self.case = case
        self.rater = rater

    def at(
        self, *, file: str | Path | None = None, case: str | None = None, rater: str | None = None
    ) -> RatersError:
        """Return the same error with the place named, where it was not named yet."""
        return RatersError(
            self.message,
            kind=self.kind,
            file=self.file or file,
            case=self.case or case,
            rater=self.rater or rater,
        )


_FOR_TRAINING = ("lightning", "monai", "safetensors", "torch")


def training_missing(error: ModuleNotFoundError) -> RatersError | None:
    """Return what to install, if a package of the extra `train` is not there; None for others.

    Example:
        >>> training_missing(ModuleNotFoundError(name="torch"))
        RatersError("found no torch, expected it for training: pip install 'raters[train]'")
    """
    if error.name not in _FOR_TRAINING:
        return None
    return RatersError(
        f"found no {error.name}, expected it for training: pip install 'raters[train]'"
    )


def one_of(known: Iterable[str], name: str, what: str) -> str:
    """Return a name that is known; the one look-up of all registries.

    Args:
        known: All names: a registry, or any list.
        name: The one that was given.
        what: What was found, as the message begins: `"the method"`, `"no rater"`.

    Raises:
        RatersError: that lists the names, or the nearest.

    Example:
        >>> one_of(["vote", "staple"], "stapel", "the method")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found the method 'stapel', expected one of vote, ...
    """
    listed = list(known)
    if name not in listed:
        raise RatersError(f"found {what} {name!r}, {expected_one_of(listed, name)}")
    return name


def check_choice(what: str, found: object, expected: Sequence[str]) -> None:
    """Reject a word that is not one of those expected."""
    if found not in expected:
        raise RatersError(f"found {what} {found!r}, expected {' or '.join(map(repr, expected))}")


@contextmanager
def placed(
    *, file: str | Path | None = None, case: str | None = None, rater: str | None = None
) -> Iterator[None]:
    """Name the place in errors, where they do not name it yet.

    Example:
        >>> with placed(file="a.png"):
        ...     raise RatersError("found value 0.7, expected whole numbers")
        Traceback (most recent call last):
        raters.core.errors.RatersError: a.png: found value 0.7, expected whole numbers
    """
    try:
        yield
    except RatersError as error:
        raise error.at(file=file, case=case, rater=rater) from None


@contextmanager
def in_case(case: str, file: str) -> Iterator[None]:
    """Name the case and the file in an error about an array."""
    try:
        yield
    except RatersError as error:
        message = f"{error.message} (case {case!r})"
        raise RatersError(message, kind=error.kind, file=file, case=case) from None


@contextmanager
def enough_memory(case: str | None = None, rater: str | None = None) -> Iterator[None]:
    """Turn a lack of memory into an error of one case, so that the others continue.

    Example:
        >>> with enough_memory(case="slide 7"):
        ...     raise MemoryError("Unable to allocate 9 GiB")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found too little memory for case 'slide 7' (Unable to ...
    """
    try:
        yield
    except MemoryError as error:
        place = "" if case is None else f" for case {case!r}"
        message = f"found too little memory{place} ({str(error) or 'MemoryError'}), expected more"
        raise RatersError(message, kind="memory", case=case, rater=rater) from None
