"""Modules that are called as their function: `raters.report(...)`, `raters.fusion.staple(...)`.

A function and the file that holds it often have one name. Inside a `Room`, a module with a function
of its own name can be called as that function, and stays a module for all else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that is called as the function of its own name."""

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call the function."""
        return self._function(*given, **named)

    @property
    def _function(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self, self.__name__.rpartition(".")[2])
        return function

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)


class Room(ModuleType):
    """A package whose modules can be called, each as the function of its own name.

    Example:
        >>> import raters.fusion
        >>> import numpy as np
        >>> labels = np.array([[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
        >>> raters.fusion.vote(labels, num_classes=2).labels
        array([0, 0, 1, 1], dtype=int16)
        >>> from raters.fusion._vote import vote
        >>> raters.fusion._vote.vote is vote
        True
    """

    def __setattr__(self, name: str, value: object) -> None:
        # Python sets a module as an attribute of its package once it is imported.
        if isinstance(value, ModuleType) and callable(getattr(value, name, None)):
            value.__class__ = CallableModule
        super().__setattr__(name, value)
