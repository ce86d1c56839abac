"""Marks names that are still there and will go; docs/versions.md says how long they stay."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Callable[..., Any])


def deprecated(since: str, removed_in: str, instead: str) -> Callable[[Named], Named]:
    """Mark a function, method or class that will be removed; each use warns.

    It is a `FutureWarning`, as in scikit-learn: Python shows it wherever the call is, whereas a
    `DeprecationWarning` is only shown to who runs tests.

    Args:
        since: The version that warns first, e.g. `"0.2"`.
        removed_in: The first version that no longer has it.
        instead: What to call, as users write it.

    Example:
        >>> @deprecated(since="0.2", removed_in="0.4", instead="raters.fuse")
        ... def merge(study: object) -> object:
        ...     return study
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     print(merge("labels"), caught[0].message)
        labels merge is deprecated since raters 0.2 and goes in 0.4: use raters.fuse
    """

    def mark(named: Named) -> Named:
        notice = f"deprecated since raters {since} and goes in {removed_in}: use {instead}"
        function: Callable[..., Any] = named.__init__ if isinstance(named, type) else named  # type: ignore[misc]
        message = f"{named.__qualname__} is {notice}"

        @wraps(function)
        def warned(*given: Any, **options: Any) -> Any:  # noqa: ANN401
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*given, **options)

        told = f"{named.__doc__ or ''}\n\nIt is {notice}.".lstrip()
        if isinstance(named, type):
            setattr(named, "__init__", warned)  # noqa: B010 (mypy takes it for a mistake)
            named.__doc__ = told
            return named
        warned.__doc__ = told
        return warned  # type: ignore[return-value]

    return mark
