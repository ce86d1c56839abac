"""Whether a study is of the kind and the classes that a model was trained for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.config import ModelConfig

_SHOWN = 20


def refuse_other_study(config: ModelConfig, study: Study, whose: str = "model") -> None:
    """Refuse a study of another kind, or with other classes, than a model.

    Args:
        config: The model.
        study: What is to be predicted, scored or learnt from.
        whose: What the model is called in messages: 'model' or 'run'.

    Raises:
        RatersError: that shows both.
    """
    if study.kind != config.kind:
        raise RatersError(
            f"found a study of {study.kind}, expected one of {config.kind} as the {whose} is",
            kind="other-kind",
            file=study.folder,
        )
    # A table may have read the value 1 as text.
    found = [(c.name, str(c.value)) for c in study.classes]
    expected = [(c.name, str(c.value)) for c in config.classes]
    if found != expected:
        raise RatersError(
            f"found the classes {_shown(found)}, expected those of the {whose}: "
            f"{_shown(expected)}; in masks --values says what values mean",
            kind="other-classes",
            file=study.folder,
        )


def _shown(classes: Iterable[tuple[str, str]]) -> str:
    named = [f"{value}={name}" for name, value in classes]
    return ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
