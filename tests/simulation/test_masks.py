"""Raters who draw: severity, shapes, mean Dice, several classes, and the confusion they have."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.simulation.backend import rater_confusion
from raters.simulation.calibrate import DiceOf, calibrate
from raters.simulation.layers import Layers, draw_classes
from raters.simulation.masks import DRAWERS, drawer_of
from raters.simulation.phantoms import PHANTOMS, draw
from raters.simulation.shape import smooth_noise

ALL = sorted(DRAWERS)


def strokes(number: int) -> list[NDArray[np.int16]]:
    """Masks like digits: a thick curve on 28 x 28 pixels, with a small dot beside it."""
    rng = np.random.default_rng(7)
    pixels = np.stack(np.mgrid[:28, :28], axis=-1)
    masks = []
    for _ in range(number):
        t = np.linspace(0, 1, 40)
        turns = rng.uniform(2, 5, 2)
        phase = rng.uniform(0, 6, 2)
        curve = 14 + np.stack([8 * np.sin(turns[k] * t + phase[k]) for k in (0, 1)], axis=-1)
        distance = np.linalg.norm(pixels[:, :, None] - curve, axis=-1).min(axis=-1)
        dot = np.linalg.norm(pixels - rng.uniform(3, 25, 2), axis=-1) < 1.5
        masks.append((dot | (distance < rng.uniform(1.2, 2.4))).astype(np.int16))
    return masks


def draw_nested_squares() -> NDArray[np.int16]:
    truth = np.zeros((40, 40), np.int16)
    truth[5:35, 5:35] = 1
    truth[14:26, 14:26] = 2
    return truth


MASKS = strokes(500)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("space", [(20, 30), (12, 18, 14)])
def test_shape_is_kept_and_severity_zero_is_the_identity(name: str, space: tuple[int, ...]) -> None:
    mask = np.zeros(space, bool)
    mask[tuple(slice(n // 4, 3 * n // 4) for n in space)] = True
    rng = np.random.default_rng(0)
    assert np.array_equal(DRAWERS[name](mask, 0, rng), mask)
    for severity in (0.3, 2.0, 1e4):
        drawn = DRAWERS[name](mask, severity, rng)
        assert drawn.shape == space
        assert drawn.dtype == bool
    assert np.array_equal(mask, mask & True), "the truth is not changed"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", [False, True])
def test_masks_without_outline_can_be_drawn(name: str, value: bool) -> None:
    mask = np.full((9, 9), value)
    drawn = DRAWERS[name](mask, 1.0, np.random.default_rng(0))
    assert drawn.shape == mask.shape
    if not value:
        assert not drawn.any()


@pytest.mark.parametrize("name", ALL)
def test_same_randomness_gives_the_same_mask(name: str) -> None:
    first, second = (DRAWERS[name](MASKS[3], 1.5, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", ALL)
def test_more_severity_is_less_dice(name: str) -> None:
    score = DiceOf(DRAWERS[name], MASKS[:60], np.random.default_rng(0)).first
    scores = [score(severity) for severity in (0, 0.25, 0.5, 1, 2, 4, 8)]
    assert scores[0] == 1
    assert all(b <= a + 0.002 for a, b in pairwise(scores)), scores
    assert scores[-1] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("blank", "jitter")])
def test_mean_dice_is_the_asked_one_over_500_images(name: str) -> None:
    wanted = 0.85 if name == "swell" else 0.75
    severity = calibrate(DRAWERS[name], MASKS, wanted, np.random.default_rng(0))
    fresh = DiceOf(DRAWERS[name], MASKS, np.random.default_rng(1)).all(severity)
    assert fresh == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("wanted", [1.0, 0.9995, 0.99])
def test_a_mean_dice_near_one_is_found(wanted: float) -> None:
    severity = calibrate(DRAWERS["over"], MASKS[:20], wanted, np.random.default_rng(0))
    assert 0 <= severity < 0.4


def test_blank_is_empty_and_less_often_at_lower_severity() -> None:
    rng = np.random.default_rng(0)
    assert not any(DRAWERS["blank"](mask, 1, rng).any() for mask in MASKS[:50])
    empty = sum(not DRAWERS["blank"](MASKS[0], 0.3, rng).any() for _ in range(2000))
    assert empty / 2000 == pytest.approx(0.3, abs=0.04)


def test_what_cannot_be_reached_is_said() -> None:
    with pytest.raises(RatersError, match=r"0\.1 for 'swell', expected one from 0\.[3-9]\d to 1"):
        calibrate(DRAWERS["swell"], MASKS[:50], 0.1, np.random.default_rng(0))
    with pytest.raises(RatersError, match="no foreground"):
        calibrate(DRAWERS["over"], [np.zeros((5, 5), int)], 0.5, np.random.default_rng(0))
    with pytest.raises(RatersError, match="expected one of good, over"):
        drawer_of("careless")
    with pytest.raises(RatersError, match="severity -1"):
        DRAWERS["over"](MASKS[0], -1, np.random.default_rng(0))


def test_over_holds_the_truth_and_under_lies_in_it() -> None:
    rng = np.random.default_rng(0)
    for mask in MASKS[:20]:
        for name in ("over", "thicken", "swell", "left-right"):
            assert (DRAWERS[name](mask, 1.5, rng) >= mask).all(), name
        for name in ("under", "thin", "fracture", "miss-small"):
            assert (DRAWERS[name](mask, 1.5, rng) <= mask).all(), name


def test_fractures_cut_a_bar_in_two() -> None:
    from scipy.ndimage import label

    bar = np.zeros((20, 60), bool)
    bar[8:13, 5:55] = True
    parts = [label(DRAWERS["fracture"](bar, 3, np.random.default_rng(k)))[1] for k in range(20)]
    assert min(parts) >= 1
    assert np.mean(parts) > 2


def test_good_here_and_bad_there() -> None:
    mask = np.zeros((40, 60), bool)
    mask[10:30, 5:55] = True
    drawn = DRAWERS["left-right"](mask, 4, np.random.default_rng(0))
    assert np.array_equal(drawn[:, :25], mask[:, :25])
    assert (drawn != mask)[:, 35:].sum() > 60
    drawn = DRAWERS["right-left"](mask, 4, np.random.default_rng(0))
    assert np.array_equal(drawn[:, 35:], mask[:, 35:])


def test_large_objects_are_seen_and_small_ones_missed() -> None:
    mask = np.zeros((64, 64), bool)
    mask[4:34, 4:34] = True
    mask[50, 50] = True
    drawn = [DRAWERS["miss-small"](mask, 3, np.random.default_rng(k)) for k in range(50)]
    assert np.mean([d[50, 50] for d in drawn]) < 0.1
    assert np.mean([d[10, 10] for d in drawn]) > 0.95


@pytest.mark.parametrize("name", ALL)
def test_a_target_class_leaves_the_others_as_stated(name: str) -> None:
    truth = draw_nested_squares()
    severity = 30 if name == "miss-small" else 2.5
    rng = np.random.default_rng(1)
    drawn = draw_classes(truth, DRAWERS[name], severity, rng, target=2, num_classes=3)
    assert drawn.dtype == np.int16
    other = (truth != 2) & (drawn != truth)
    assert (drawn[other] == 2).all(), "other classes change only where the target grows"
    lost = (truth == 2) & (drawn != 2)
    assert (drawn[lost] == 1).all(), "what a cup loses becomes disc, which is beside it"
    assert (drawn != truth).any()


def test_without_target_the_higher_class_draws_the_border() -> None:
    truth = draw_nested_squares()
    over = draw_classes(truth, DRAWERS["over"], 2, np.random.default_rng(0))
    assert (over[truth == 2] == 2).all()
    assert (over >= truth).all()
    assert {(0, 1), (1, 2)} <= set(zip(truth[over != truth], over[over != truth], strict=True))
    under = draw_classes(truth, DRAWERS["under"], 2, np.random.default_rng(0))
    assert (under <= truth).all()
    assert (under[18:22, 18:22] == 2).all()
    assert not draw_classes(truth, DRAWERS["blank"], 1, np.random.default_rng(0)).any()


def test_wrong_mixes_classes_up() -> None:
    truth = draw_nested_squares()
    drawn = draw_classes(truth, DRAWERS["wrong"], 1, np.random.default_rng(0), target=2)
    changed = drawn != truth
    assert (truth[changed] == 2).all()
    assert (drawn[changed] == 1).all()
    assert changed.sum() / (truth == 2).sum() == pytest.approx(1 - np.exp(-0.5), abs=0.02)


def test_missing_pixels_stay_missing() -> None:
    truth = draw_nested_squares()
    truth[:8] = -1
    for name in ALL:
        drawn = draw_classes(truth, DRAWERS[name], 3, np.random.default_rng(0))
        assert np.array_equal(drawn == -1, truth == -1), name


@pytest.mark.slow
def test_mean_dice_of_several_classes_and_of_a_target() -> None:
    truths = [draw("disc-cup", (32, 32), np.random.default_rng(k))[1] for k in range(60)]
    for target in (None, 2):
        severity = calibrate(DRAWERS["over"], truths, 0.7, np.random.default_rng(0), target)
        score = DiceOf(DRAWERS["over"], truths, np.random.default_rng(1), target)
        assert score.all(severity) == pytest.approx(0.7, abs=0.01)


def test_confusion_of_a_drawn_rater_equals_a_slow_count() -> None:
    truth = draw_nested_squares()
    drawer = DRAWERS["over"]
    found = rater_confusion(truth, drawer, 2, np.random.default_rng(3), draws=4, num_classes=4)
    counts = np.zeros((4, 4))
    rng = np.random.default_rng(3)
    for _ in range(4):
        drawn = draw_classes(truth, drawer, 2, rng)
        for t, o in zip(truth.ravel(), drawn.ravel(), strict=True):
            counts[t, o] += 1
    counts[3, 3] = 1  # a class that the image does not have
    assert found == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    assert found.sum(axis=1) == pytest.approx(np.ones(4))
    unknown = rater_confusion(truth, drawer, 2, rng, 1, num_classes=4, unseen="nan")
    assert np.isnan(unknown[3]).all()


def test_noise_has_unit_variance_at_every_pixel() -> None:
    rng = np.random.default_rng(0)
    fields = np.stack([smooth_noise((9, 7), 3, rng) for _ in range(4000)])
    assert abs(fields.mean(axis=0)).max() < 0.08
    assert abs(fields.std(axis=0) - 1).max() < 0.06


@pytest.mark.parametrize("kind", sorted(PHANTOMS))
@pytest.mark.parametrize("space", [(16, 16), (64, 48), (24, 32, 20)])
def test_phantoms_have_all_their_classes(kind: str, space: tuple[int, ...]) -> None:
    for seed in range(5):
        image, truth = draw(kind, space, np.random.default_rng(seed))
        assert image.shape == (1, *space)
        assert image.dtype == np.float32
        assert truth.shape == space
        assert truth.dtype == np.int16
        assert np.unique(truth).tolist() == list(range(len(PHANTOMS[kind][1])))
        assert 0 <= image.min() < image.max() <= 1
        first = image[0][truth > 0].mean() - image[0][truth == 0].mean()
        assert first > 0, "what is to be found is brighter"


def test_phantoms_refuse_what_they_cannot_draw() -> None:
    with pytest.raises(RatersError, match="expected one of lesions"):
        draw("brains", (32, 32), np.random.default_rng(0))
    with pytest.raises(RatersError, match="at least 16"):
        draw("lesions", (8, 8), np.random.default_rng(0))


def test_layers_share_what_they_know() -> None:
    layers = Layers(draw_nested_squares())
    assert layers.shape(1).distance is layers.shape(1).distance
    assert layers.foreground == [1, 2]
