"""Surface distances equal brute force from the definition, and SimpleITK's where both agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import SimpleITK
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from raters import metrics
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics import surface as nearest_surface
from raters.metrics.surface import surface

Mask = NDArray[np.bool_]
quick = settings(max_examples=60, deadline=None)


@pytest.fixture(params=[0.0, 1.0, 10.0], ids=["transform", "either", "tree"])
def few_points(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != 1.0:
        monkeypatch.setattr(nearest_surface, "_FEW", request.param)


def slow_surface(mask: Mask) -> list[tuple[int, ...]]:
    """Return the surface voxels from the definition, one voxel and one neighbour at a time."""
    found = []
    for voxel in zip(*np.nonzero(mask), strict=True):
        for axis in range(mask.ndim):
            for step in (-1, 1):
                near = list(voxel)
                near[axis] += step
                inside = 0 <= near[axis] < mask.shape[axis] and mask[tuple(near)]
                if not inside:
                    found.append(tuple(int(i) for i in voxel))
    return list(dict.fromkeys(found))


def slow_distances(a: Mask, b: Mask, spacing: tuple[float, ...]) -> list[list[float]]:
    """Return both directed sets by comparing each surface voxel with each other."""
    points = [
        [[i * s for i, s in zip(v, spacing, strict=True)] for v in slow_surface(m)] for m in (a, b)
    ]
    return [
        [min(math.dist(p, q) for q in points[1 - side]) for p in points[side]] for side in (0, 1)
    ]


def slow_percentile(values: list[float], percent: float) -> float:
    """Interpolate linearly between the sorted values."""
    ordered = sorted(values)
    place = percent / 100 * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def ellipsoid(shape: tuple[int, ...], centre: tuple[float, ...], radii: tuple[float, ...]) -> Mask:
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    parts = zip(axes, centre, radii, strict=True)
    return np.asarray(sum(((x - c) / r) ** 2 for x, c, r in parts) <= 1)


def image(mask: Mask, spacing: tuple[float, ...]) -> SimpleITK.Image:
    made = SimpleITK.GetImageFromArray(mask.astype(np.uint8))
    made.SetSpacing(spacing[::-1])
    return made


def itk_hausdorff(a: Mask, b: Mask, spacing: tuple[float, ...]) -> Any:
    oracle = SimpleITK.HausdorffDistanceImageFilter()
    oracle.Execute(image(a, spacing), image(b, spacing))
    return oracle


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    ("shape", "spacing"),
    [((9,), (0.7,)), ((8, 7), (1.0, 1.0)), ((8, 7), (0.5, 3.0)), ((6, 5, 7), (0.8, 1.3, 4.0))],
)
@pytest.mark.parametrize("share", [0.15, 0.6, 0.95])
def test_equal_to_brute_force(
    shape: tuple[int, ...], spacing: tuple[float, ...], share: float
) -> None:
    rng = np.random.default_rng(7)
    for _ in range(4):
        a, b = rng.random((2, *shape)) < share
        a.flat[0] = b.flat[-1] = True
        forth, back = slow_distances(a, b, spacing)
        found = metrics.surface_distances(a, b, spacing)
        np.testing.assert_allclose(np.sort(found.a_to_b), sorted(forth), atol=1e-12)
        np.testing.assert_allclose(np.sort(found.b_to_a), sorted(back), atol=1e-12)
        assert metrics.hausdorff(a, b, spacing) == pytest.approx(max(forth + back))
        hd95 = max(slow_percentile(forth, 95), slow_percentile(back, 95))
        assert metrics.hd95(a, b, spacing) == pytest.approx(hd95)
        assd = sum(forth + back) / len(forth + back)
        assert metrics.average_surface_distance(a, b, spacing) == pytest.approx(assd)
        directed = metrics.average_surface_distance(a, b, spacing, form="directed")
        assert directed == pytest.approx(sum(forth) / len(forth))


@quick
@given(hnp.arrays(bool, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)))
def test_surface_is_as_defined(mask: Mask) -> None:
    assert list(zip(*np.nonzero(surface(mask)), strict=True)) == sorted(slow_surface(mask))


def test_hausdorff_of_convex_masks_equals_simpleitk() -> None:
    shape = (40, 36, 24)
    spacing = (0.8, 1.0, 2.5)
    a = ellipsoid(shape, (18, 18, 11), (13, 11, 7))
    b = ellipsoid(shape, (21, 16, 12), (11, 13, 8))
    oracle = itk_hausdorff(a, b, spacing)
    assert metrics.hausdorff(a, b, spacing) == pytest.approx(oracle.GetHausdorffDistance())


def test_any_masks_equal_simpleitk_on_their_surfaces() -> None:
    """Given surfaces instead of filled masks, ITK's filter has our definition.

    Of filled masks it averages over all voxels, and those inside the other mask count as 0: a
    smaller number that is no surface distance. It takes the mean of the two directed averages,
    where our symmetric form pools both sets.
    """
    rng = np.random.default_rng(8)
    shape = (14, 15, 10)
    spacing = (0.8, 1.0, 2.5)
    for share in (0.02, 0.3, 0.8):
        a, b = rng.random((2, *shape)) < share
        oracle = itk_hausdorff(surface(a), surface(b), spacing)
        found = metrics.surface_distances(a, b, spacing)
        assert found.hausdorff == pytest.approx(oracle.GetHausdorffDistance(), rel=1e-6)
        average = (found.a_to_b.mean() + found.b_to_a.mean()) / 2
        assert average == pytest.approx(oracle.GetAverageHausdorffDistance(), rel=1e-6)


def test_nested_masks_differ_from_simpleitk_as_said() -> None:
    """A ball inside a ring: ITK measures from the ball's middle, a surface score from its rim."""
    ball = ellipsoid((41, 41), (20, 20), (5, 5))
    ring = ellipsoid((41, 41), (20, 20), (15, 15)) & ~ellipsoid((41, 41), (20, 20), (12, 12))
    assert itk_hausdorff(ball, ring, (1.0, 1.0)).GetHausdorffDistance() > 12
    assert metrics.surface_distances(ball, ring).a_to_b.max() < 9


@quick
@given(
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=6).flatmap(
        lambda shape: st.tuples(hnp.arrays(bool, shape), hnp.arrays(bool, shape))
    ),
    st.floats(0.1, 10),
)
def test_invariants(masks: tuple[Mask, Mask], factor: float) -> None:
    a, b = masks
    spacing = np.array([0.7, 1.1, 2.0])[: a.ndim]
    forth = metrics.surface_distances(a, b, spacing)
    back = metrics.surface_distances(b, a, spacing)
    for name in ("hausdorff", "hd95", "assd"):
        value = getattr(forth, name)
        assert value == pytest.approx(getattr(back, name))
        assert 0 <= value <= metrics.diagonal(a.shape, spacing) * (1 + 1e-12)
        assert getattr(metrics.surface_distances(a, a, spacing), name) == 0
        larger = metrics.surface_distances(a, b, spacing * factor)
        assert getattr(larger, name) == pytest.approx(value * factor)
        flipped = metrics.surface_distances(np.flip(a), np.flip(b), spacing)
        assert getattr(flipped, name) == pytest.approx(value)
        turned = metrics.surface_distances(a.T, b.T, spacing[::-1])
        assert getattr(turned, name) == pytest.approx(value)
    assert forth.assd <= forth.hausdorff + 1e-12
    assert forth.hd95 <= forth.hausdorff + 1e-12


def test_empty_masks_as_stated() -> None:
    empty = np.zeros((240, 240, 155), bool)
    dot = np.zeros((240, 240, 155), bool)
    dot[3, 4, 5] = True
    for score in (metrics.hausdorff, metrics.hd95, metrics.average_surface_distance):
        assert score(empty, empty) == 0
        assert score(empty, dot) == score(dot, empty) == pytest.approx(373.1287)
        assert np.isnan(score(np.full((2, 2), MISSING), np.ones((2, 2), int)))
    directed = metrics.average_surface_distance([0, 0], [0, 1], spacing=[3], form="directed")
    assert directed == 6


def test_missing_voxels_are_background_in_both() -> None:
    a = np.array([[1, 1, 0, 0, 1]])
    b = np.array([[1, 1, 0, 0, -1]])
    assert metrics.hausdorff(a, b) == 0  # what b did not look at is not held against a
    assert metrics.hausdorff(a, abs(b) * (b > 0)) == 3
    np.testing.assert_array_equal(
        metrics.surface_distances(a, b).a_to_b,
        metrics.surface_distances([[1, 1, 0, 0, 0]], [[1, 1, 0, 0, 0]]).a_to_b,
    )


def test_by_class_equals_each_class_alone() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.integers(MISSING, 3, (2, 8, 9))
    seen = (a != MISSING) & (b != MISSING)
    found = metrics.surface_distances_by_class(a, b, 4, spacing=(1, 2))
    assert len(found) == 3
    for c, distances in enumerate(found, start=1):
        masks = (((labels == c) & seen) for labels in (a, b))
        alone = metrics.surface_distances(*masks, spacing=(1, 2))
        np.testing.assert_array_equal(distances.a_to_b, alone.a_to_b)
        np.testing.assert_array_equal(distances.b_to_a, alone.b_to_a)
    assert found[2].hd95 == 0  # nobody drew class 3


def test_errors() -> None:
    with pytest.raises(RatersError, match="expected 2 numbers above 0"):
        metrics.hd95([[1]], [[1]], spacing=(1, 1, 1))
    with pytest.raises(RatersError, match="expected 1 numbers above 0"):
        metrics.hd95([1], [1], spacing=(0,))
    with pytest.raises(RatersError, match="expected the same shape"):
        metrics.hd95([1], [1, 1])
    with pytest.raises(RatersError, match="found form 'both'"):
        metrics.average_surface_distance([1], [1], form="both")
