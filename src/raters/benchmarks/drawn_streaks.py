"""A source of benchmarks in which most raters err alike: lesions and streaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from raters.simulate import streak_study
from raters.simulate.specs import How
from raters.study.study import Study, name_array


def drawn_streaks(
    _: Mapping[str, Path],
    seed: int,
    images: int = 100,
    val: int = 30,
    test: int = 60,
    side: int = 40,
    assign: How = "all",
) -> Study:
    """Return the drawn study of `raters simulate streaks` with references, in three splits.

    Each case depends on the seed and its name only, so that the first ones may as well be those to
    train on.

    Example:
        >>> study = drawn_streaks({}, seed=0, images=2, val=1, test=1, side=24)
        >>> study, list(study.index.splits)
        (Study(segmentation, 4 cases, 5 raters, 2 classes), ['train', 'train', 'val', 'test'])
    """
    study = streak_study(images + val + test, (side, side), seed, assign)
    splits = ["train"] * images + ["val"] * val + ["test"] * test
    return replace(study, index=replace(study.index, splits=name_array(splits)))
