"""Drawn discs and cups: the biases of their raters, and that each case is drawn by itself."""

from __future__ import annotations

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from raters.simulation import disc_study, true_confusion
from raters.simulation.drawn import BIASES, NOISE, draw_borders, hands
from raters.simulation.shape import Shape

STUDY = disc_study(24, seed=1)
NAMES = ("careful1", "careful2", "biased1", "biased2", "biased3", "biased4", "biased5")


def distance_outside(drawn: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far the drawn border lies outside of the true one, in each of 24 directions.

    Directions count alike: pixels would count more where the border lies further out.
    """
    places = np.argwhere(abs(Shape(drawn).distance) <= 0.5)
    centre = np.argwhere(truth).mean(axis=0)
    angle = np.arctan2(*(places - centre).T)
    sector = ((angle + np.pi) / (2 * np.pi) * 24).astype(int).clip(0, 23)
    away = -Shape(truth).distance[tuple(places.T)]
    return np.bincount(sector, away, 24) / np.bincount(sector, minlength=24).clip(1)


def borders(study: raters.Study) -> np.ndarray:
    """Mean and standard deviation of borders, `(raters, disc or cup, 2)`."""
    found = [[[] for _ in (1, 2)] for _ in study.raters]
    for case in study:
        for r, mask in enumerate(case.labels):
            for k in (1, 2):
                found[r][k - 1].append(distance_outside(mask >= k, case.reference >= k))
    return np.array(
        [[(np.concatenate(b).mean(), np.concatenate(b).std()) for b in own] for own in found]
    )


def test_borders_are_off_by_what_is_asked() -> None:
    assert STUDY.raters == NAMES
    found = borders(STUDY)
    np.testing.assert_allclose(found[:2, :, 0], 0, atol=0.15)
    np.testing.assert_allclose(
        found[2:, :, 0], np.repeat(np.array(BIASES)[:, None], 2, axis=1), atol=0.4
    )
    np.testing.assert_allclose(found[2:, 0, 1], NOISE, atol=0.25)
    assert all(3 <= abs(bias) <= 6 for bias in BIASES)
    assert len({(abs(b), b > 0) for b in BIASES}) == 5


def test_careful_raters_stay_within_a_pixel() -> None:
    worst = []
    for case in STUDY:
        for k in (1, 2):
            truth = case.reference >= k
            distance = Shape(truth).distance
            for mask in case.labels[:2]:
                worst.append(abs(distance[(mask >= k) != truth]).max())
    assert 0.5 <= max(worst) <= 1.0


def test_the_cup_lies_in_the_disc_and_the_image_shows_the_true_borders() -> None:
    for case in STUDY:
        truth = np.asarray(case.reference)
        grey = [float(case.image[0][truth == k].mean()) for k in range(3)]  # type: ignore[index]
        np.testing.assert_allclose(grey, [0.3, 0.5, 0.7], atol=0.03)
        for mask in (truth, *case.labels):
            assert mask.max() == 2
            ring = Shape(mask >= 1).distance
            assert (ring[mask == 2] > 0).all()
        assert (truth[[0, -1]] == 0).all()
        assert (truth[:, [0, -1]] == 0).all()


def test_the_vote_is_too_large_and_that_of_equal_raters_is_right() -> None:
    equal = disc_study(24, seed=1, equal=True)
    assert equal.raters == tuple(f"equal{k}" for k in range(1, 8))
    off = {}
    for name, study in (("biased", STUDY), ("equal", equal)):
        vote = raters.fuse(study, "vote")
        off[name] = np.mean(
            [distance_outside(vote[c.id].labels >= 1, c.reference >= 1).mean() for c in study]
        )
        assert np.array_equal(study[5].reference, STUDY[5].reference)
    # The middle of -4, 0, 0, 3, 4, 5, 6, each with its noise: the least of the last four.
    noisy = np.array([3, 4, 5, 6]) + NOISE * np.random.default_rng(0).normal(size=(10_000, 4))
    assert off["biased"] == pytest.approx(noisy.min(axis=1).mean(), abs=0.5)
    assert off["equal"] == pytest.approx(0, abs=0.2)
    spread = borders(equal)
    np.testing.assert_allclose(spread[:, :, 0], 0, atol=0.6)
    np.testing.assert_allclose(spread[:, 0, 1], NOISE, atol=0.25)


def test_the_confusion_is_what_independent_draws_count() -> None:
    known = true_confusion(STUDY, 2, draws=24)
    truth = np.asarray(STUDY[2].reference)
    for hand, matrix in zip(hands(), known, strict=True):
        counts = np.zeros((3, 3))
        for seed in range(24):
            drawn = draw_borders(truth, hand, np.random.default_rng(seed))
            for t in range(3):
                counts[t] += [(drawn[truth == t] == o).sum() for o in range(3)]
        np.testing.assert_allclose(matrix, counts / counts.sum(1, keepdims=True), atol=0.06)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert known[0].trace() > 2.8 > known[2].trace() > known[6].trace()


def test_each_case_is_drawn_by_itself() -> None:
    few = disc_study(3, seed=1)
    other = disc_study(3, seed=2)
    assert few.cases == STUDY.cases[:3]
    for k in (2, 0):
        for part in ("image", "reference", "labels"):
            assert np.array_equal(getattr(few[k], part), getattr(STUDY[k], part))
            assert not np.array_equal(getattr(few[k], part), getattr(other[k], part))
    one = disc_study(7, seed=1, assign="one")
    given = np.stack([(case.labels >= 0).any(axis=(1, 2)) for case in one])
    assert (given.sum(axis=0) == 1).all()
    assert (given.sum(axis=1) == 1).all()


def test_volumes_and_small_shapes() -> None:
    ball = disc_study(1, (48, 48, 48))[0]
    assert ball.labels.shape == (7, 48, 48, 48)
    assert (ball.labels.max(axis=(1, 2, 3)) == 2).all()
    with pytest.raises(RatersError, match="found the shape 32x64, expected at least 48"):
        disc_study(2, (32, 64))
