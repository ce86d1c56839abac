"""Studies that benchmarks draw, and hold in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raters.simulation import phantom_study, simulate
from raters.study.case import Case
from raters.study.cases import CaseIndex
from raters.study.study import Study


def in_memory(study: Study, cases: Sequence[Case] | None = None, **changes: Any) -> Study:  # noqa: ANN401
    """Hold a study of masks in memory: simulated masks are drawn again whenever a case is read.

    Args:
        study: The study.
        cases: Its cases, where they have been read already.
        **changes: Arguments of `Study.from_arrays` in place of what the study holds.

    Example:
        >>> study = Study.from_arrays(labels=np.ones((2, 3, 4, 4), int), cases=["a", "b"])
        >>> changed = in_memory(study, labels=np.zeros((2, 3, 2, 2), int))
        >>> changed, changed["b"].labels.shape
        (Study(segmentation, 2 cases, 3 raters, 2 classes), (3, 2, 2))
    """
    held = list(study.iter_cases()) if cases is None else cases
    parts: dict[str, Any] = {
        "images": [case.image for case in held],
        "labels": [case.drawings.astype(np.int8) for case in held] if study.raters else None,
        "reference": [case.reference for case in held],
        "raters": study.raters,
        "classes": study.classes,
        "cases": study.index.ids,
        "groups": study.index.groups,
        "splits": study.index.splits,
        "annotations": study.annotations,
        "unmarked": study.unmarked,
        **changes,
    }
    if any(mask is None for mask in parts["reference"]):
        parts["reference"] = None
    return Study.from_arrays(**parts)


def dealt(seed: int, images: int, val: int, test: int) -> list[str]:
    """Return the split of each case at random, so many of 'train', 'val' and 'test'.

    Example:
        >>> sorted(dealt(0, images=2, val=1, test=1))
        ['test', 'train', 'train', 'val']
    """
    splits = ["train"] * images + ["val"] * val + ["test"] * test
    return [str(name) for name in np.random.default_rng(seed + 1000).permutation(splits)]


def drawn_masks(
    _: object,
    seed: int,
    images: int = 24,
    val: int = 8,
    test: int = 8,
    kind: str = "lesions",
    shape: Sequence[int] = (32, 32),
) -> Study:
    """Return drawn images with known masks: they come along with `raters`."""
    study = phantom_study(kind, images + val + test, tuple(shape), seed)
    names = [str(k) for k in range(len(study))]
    index = CaseIndex.of(names, splits=dealt(seed, images, val, test))
    return in_memory(replace(study, index=index))


def drawn_with_raters(make: Callable[..., Study], side: int) -> Callable[..., Study]:
    """Return a source of drawn images whose raters come along, made by `make` of that side."""

    def source(
        _: object,
        seed: int,
        images: int = 200,
        val: int = 40,
        test: int = 100,
        shape: Sequence[int] = (side, side),
        **how: Any,  # noqa: ANN401
    ) -> Study:
        study = make(images + val + test, tuple(shape), seed, **how)
        return in_memory(study, splits=dealt(seed, images, val, test))

    return source


def drawn_classes(
    _: object,
    seed: int,
    images: int = 200,
    val: int = 50,
    test: int = 100,
    num_classes: int = 10,
    features: int = 16,
) -> Study:
    """Return drawn feature vectors: each class is a cloud around its own centre."""
    random = np.random.default_rng(seed)
    number = images + val + test
    truth = random.integers(0, num_classes, number)
    centres = random.normal(0, 2, (num_classes, features))
    vectors = centres[truth] + random.normal(0, 1, (number, features))
    return Study.from_arrays(
        images=vectors.astype(np.float32),
        reference=truth,
        classes=[str(k) for k in range(num_classes)],
        splits=dealt(seed, images, val, test),
    )


def drawn_crowd(
    _: object,
    seed: int,
    images: int = 200,
    test: int = 100,
    workers: int = 8,
    answers: int = 3,
    num_classes: int = 4,
) -> Study:
    """Return drawn feature vectors with answers of crowd workers of mixed skill."""
    study = drawn_classes({}, seed, images, 0, test, num_classes)
    random = np.random.default_rng(seed + 4000)
    crowd = ",".join(f"hammer-spammer:{skill:.2f}" for skill in random.uniform(0.4, 0.9, workers))
    return simulate(study, crowd, assign=answers, seed=seed)
