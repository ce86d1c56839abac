"""Drawn data of benchmarks, which need no files: images, feature vectors, and a crowd's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from raters.benchmarks.in_memory import dealt, in_memory
from raters.simulate import disc_study, phantom_study, simulate, streak_study
from raters.simulate.specs import How
from raters.study.cases import CaseIndex
from raters.study.study import Study


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


def streaks(
    _: object,
    seed: int,
    images: int = 200,
    val: int = 40,
    test: int = 100,
    shape: Sequence[int] = (40, 40),
    assign: How = "all",
) -> Study:
    """Return drawn lesions and streaks with raters of whom most err alike (`streak_study`)."""
    study = streak_study(images + val + test, tuple(shape), seed, assign)
    return in_memory(study, splits=dealt(seed, images, val, test))


def discs(
    _: object,
    seed: int,
    images: int = 200,
    val: int = 40,
    test: int = 100,
    shape: Sequence[int] = (64, 64),
    assign: How = "all",
    equal: bool = False,
) -> Study:
    """Return drawn discs and cups by seven raters, five of them biased or all alike."""
    study = disc_study(images + val + test, tuple(shape), seed, assign, equal)
    return in_memory(study, splits=dealt(seed, images, val, test))


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
