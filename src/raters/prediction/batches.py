"""Predicts many cases: they are read ahead, and small ones of one shape go through together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from raters.errors import RatersError
from raters.prediction.predict import Asked, Predicted, in_rows, predict_batch, together, window_of
from raters.prediction.windows import AT_ONCE
from raters.study.parallel import ordered_map

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.training.model import Model

_MOST = 256  # cases at once, where each is a few features only

Read = tuple["Case", Tensor | RatersError]
Found = tuple["Case", Iterator[Predicted] | RatersError]


def predict_streams(model: Model, cases: Iterable[Case], asked: Asked) -> Iterator[Found]:
    """Return each case with what the model says of it, in bands of rows; or with what went wrong.

    The cases stay in order. The bands of a case must be used before the next case is asked for.
    """
    waiting: list[tuple[Case, Tensor]] = []
    for case, image in ordered_map(lambda case: _read(model, case), cases, num_workers=1):
        if waiting and (isinstance(image, RatersError) or not _fits(waiting, image)):
            yield from _through(model, waiting, asked)
            waiting = []
        if isinstance(image, RatersError):
            yield case, image
        elif window_of(model, tuple(image.shape[1:])) is not None:
            yield case, in_rows(model, image, asked)
        else:
            waiting.append((case, image))
    yield from _through(model, waiting, asked)


def predict_cases(
    model: Model, cases: Iterable[Case], asked: Asked
) -> Iterator[tuple[Case, Predicted | RatersError]]:
    """Return each case with all that the model says of it, or with what went wrong."""
    for case, found in predict_streams(model, cases, asked):
        yield case, found if isinstance(found, RatersError) else together(found)


def _read(model: Model, case: Case) -> Read:
    try:
        return case, model.pixels(case)
    except RatersError as error:
        return case, error.at(case=case.id)


def _fits(waiting: list[tuple[Case, Tensor]], image: Tensor) -> bool:
    """Return whether an image has the shape of those that wait, and fits among them."""
    first = waiting[0][1]
    pixels = first[0].numel() if first.ndim > 1 else 1
    room = max(1, min(_MOST, AT_ONCE // pixels))
    return image.shape == first.shape and len(waiting) < room


def _through(model: Model, waiting: list[tuple[Case, Tensor]], asked: Asked) -> Iterator[Found]:
    if waiting:
        found = predict_batch(model, [image for _, image in waiting], asked)
        yield from ((case, iter([part])) for (case, _), part in zip(waiting, found, strict=True))
