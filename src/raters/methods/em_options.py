"""The options of the EM methods, and how their rounds share the epochs; no torch is needed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raters.errors import RatersError
from raters.methods.options import MethodOptions
from raters.wording import many


class EMOptions(MethodOptions):
    """Options of `mbem`, and of both EM methods."""

    em_steps: int | None = Field(
        default=None,
        ge=1,
        description="rounds of EM (the papers' T), at most one for each epoch; by default 10 (gem) "
        "or 2 (mbem), or as many as `em_epochs` leaves room for",
    )
    em_epochs: int | None = Field(
        default=None,
        ge=1,
        description="epochs of a round (the papers' G, there in gradient steps), of which the last "
        "may have more; by default all epochs are shared out evenly",
    )


class GemOptions(EMOptions):
    """Options of `gem`."""

    order: Literal["network", "paper"] = Field(
        default="network",
        description="matrices are counted against what the network makes of images and labels "
        "once it has learnt from the mean label, or before, against the mean label itself "
        "(Algorithm 2 of global-cm's paper): with one label per image all stay the identity",
    )


def rounds(
    epochs: int, usual: int, steps: int | None = None, length: int | None = None
) -> list[int]:
    """Return the first epoch (from 0) of each EM round.

    Args:
        epochs: How many are trained.
        usual: How many rounds there are if nothing is given, and if there are enough epochs.
        steps: How many rounds (T).
        length: Epochs of a round (G), the last of which takes what is left; None to share out all
            epochs evenly.

    Raises:
        RatersError: There are too few epochs.

    Example:
        >>> rounds(20, 2), rounds(20, 2, steps=4), rounds(20, 2, length=8), rounds(1, 2)
        ([0, 10], [0, 5, 10, 15], [0, 8, 16], [0])
        >>> rounds(20, 2, steps=2, length=3)
        [0, 3]
    """
    needed = (steps or 1) * (length or 1)
    if steps and steps > 1 and needed > epochs:
        each = "one epoch" if length is None else many(length, "epoch")
        raise RatersError(
            f"found {many(epochs, 'epoch')}, expected at least {needed}: em_steps={steps} rounds "
            f"of {each} each"
        )
    if length is None:
        number = steps or max(1, min(usual, epochs))
        return [epochs * k // number for k in range(number)]
    number = steps or max(1, -(-epochs // length))
    return [length * k for k in range(number)]
