"""Masks from marks and images: graph cuts, superpixels, lazy snapping and GrabCut."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from raters.fusion._grabcut import grabcut
from raters.fusion._lazy_snapping import colour_costs, contrast, hold, lazy_snapping
from raters.fusion.graph_cut import energy, graph_cut
from raters.fusion.marks import centres_of, distances, marks_of
from raters.fusion.superpixels import (
    corners_of,
    in_range,
    means_of,
    merge_tree,
    overlap,
    region_graph,
    sizes_of,
    split_by_marks,
    superpixels_of,
)
from raters.study.study import Study
from tests.support.command_line import run_alone
from tests.support.makers import save
from tests.support.weak_studies import iou, marked_case

RNG = np.random.default_rng


def random_graph(seed: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw costs of six nodes, some of them impossible, and weighted edges."""
    rng = RNG(seed)
    costs = 3 * rng.random((6, classes))
    costs[0, 1] = np.inf
    costs[4, 0] = np.inf
    pairs = np.array(list(combinations(range(6), 2)))
    pairs = pairs[rng.random(len(pairs)) < 0.6]
    return costs, pairs, rng.random(len(pairs)) * rng.choice([0.3, 2.0])


def loop_energy(labels: Any, costs: np.ndarray, edges: np.ndarray, weights: np.ndarray) -> float:
    total = sum(costs[i, t] for i, t in enumerate(labels))
    for (i, j), weight in zip(edges, weights, strict=True):
        total += weight if labels[i] != labels[j] else 0
    return float(total)


@pytest.mark.parametrize("seed", range(15))
def test_a_cut_of_two_classes_is_the_best_of_all_labellings(seed: int) -> None:
    graph = random_graph(seed, 2)
    found = graph_cut(*graph)
    assert energy(found, *graph) == pytest.approx(loop_energy(found, *graph))
    best = min(loop_energy(labels, *graph) for labels in product(range(2), repeat=6))
    assert loop_energy(found, *graph) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_no_expansion_beats_a_cut_of_three_classes(seed: int) -> None:
    graph = random_graph(seed, 3)
    found = graph_cut(*graph)
    least = loop_energy(found, *graph)
    for number, taken in product(range(3), product([False, True], repeat=6)):
        assert least <= loop_energy(np.where(taken, number, found), *graph) + 1e-6
    best = min(loop_energy(labels, *graph) for labels in product(range(3), repeat=6))
    assert best - 1e-6 <= least <= 2 * best + 1e-6


def test_regions_that_touch_are_those_of_a_loop() -> None:
    regions = RNG(0).integers(0, 5, (4, 5, 3))
    graph = region_graph(regions)
    counts: dict[tuple[int, int], int] = {}
    for place in np.ndindex(regions.shape):
        for axis in range(3):
            other = list(place)
            other[axis] += 1
            if other[axis] < regions.shape[axis]:
                a, b = sorted((int(regions[place]), int(regions[tuple(other)])))
                if a != b:
                    counts[a, b] = counts.get((a, b), 0) + 1
    found = {(int(i), int(j)): int(n) for (i, j), n in zip(*graph, strict=True)}
    assert found == counts


def test_superpixels_follow_edges_in_2d_and_3d() -> None:
    for space in ((24, 24), (12, 12, 12)):
        image = np.zeros((2, *space))
        image[(slice(None), *(slice(side // 3, 2 * side // 3) for side in space))] = 1
        regions = superpixels_of(image)
        shares = means_of(image[0][..., np.newaxis], regions)[:, 0]
        assert set(np.unique(shares)) == {0, 1}
        assert len(shares) <= np.prod(space) // 8 * 1.5
        assert (np.unique(regions) == np.arange(len(shares))).all()


def test_constant_and_odd_images_are_parted_too() -> None:
    for value in (0.0, np.nan, np.inf, 7.0):
        image = np.full((1, 9, 1), value)
        assert superpixels_of(image).shape == (9, 1)
    assert in_range(np.array([[[np.nan, -np.inf, 2.0, 4.0]]])).max() == 1


def test_marks_contradict_only_where_votes_are_equal() -> None:
    labels = np.array([[1, 1, -1, 2], [0, 1, -1, 2], [-1, 0, -1, 1]])
    np.testing.assert_array_equal(marks_of(labels, 3), [-1, 1, -1, 2])


def test_regions_with_marks_of_two_classes_are_parted() -> None:
    regions = np.repeat(np.arange(4), 4).reshape(4, 4)
    marks = np.full((4, 4), -1)
    marks[0, :2] = 1
    marks[1, 0] = 0
    marks[1, 3] = 2
    parts, seeds = split_by_marks(regions, marks)
    assert len(np.unique(parts[0])) == 1 and seeds[parts[0, 3]] == 1
    assert seeds[parts[1]].tolist() == [0, -1, -1, 2]
    assert (seeds[parts[2:]] == -1).all() and len(seeds) == 6
    assert not (set(parts[0]) & set(parts[1]))


def test_distances_are_from_the_nearest_marked_colour() -> None:
    rng = RNG(1)
    colours = rng.random((30, 2))
    marks = rng.integers(-1, 3, 30)
    of = rng.random((5, 2))
    marks[marks == 1] = 0
    found = distances(colours, marks, 3, of)
    for k, number in product(range(5), (0, 2)):
        expected = min(np.linalg.norm(of[k] - c) for c in colours[marks == number])
        assert found[k, number] == pytest.approx(expected)
    assert np.isinf(found[:, 1]).all()
    many = rng.normal(0, 0.01, (3000, 1)) + rng.integers(0, 3, (3000, 1))
    centres = centres_of(many)
    assert len(centres) == 64
    assert np.abs(centres - centres.round()).max() < 0.1


def test_the_energy_of_lazy_snapping_is_that_of_a_loop() -> None:
    """Costs and weights of a small graph, against the formula; and the mask is its best cut."""
    image, marks, _ = marked_case(3, size=12, noise=0.2)
    regions, seeds = split_by_marks(superpixels_of(image, 9), marks[0])
    graph = region_graph(regions)
    pixels = in_range(image)[..., 0]
    colours = np.array([pixels[regions == k].mean() for k in range(len(seeds))])
    seen = marks[0] >= 0
    by_colour = colour_costs(colours[:, None], pixels[seen][:, None], marks[0][seen], 2)
    costs = hold(by_colour * sizes_of(regions)[:, None], seeds)
    squared = [(colours[i] - colours[j]) ** 2 for i, j in graph.edges]
    weights = [n / (1 + s / np.mean(squared)) for n, s in zip(graph.lengths, squared, strict=True)]
    np.testing.assert_allclose(contrast(colours[:, None], graph), weights)
    for k, seed in enumerate(seeds):
        far = [min(abs(colours[k] - c) for c in pixels[marks[0] == t]) for t in (0, 1)]
        expected = [sizes_of(regions)[k] * f / sum(far) if seed < 0 else 0.0 for f in far]
        if seed >= 0:
            expected[1 - seed] = np.inf
        np.testing.assert_allclose(costs[k], expected)
    mask = lazy_snapping(marks, 2, image, smoothness=0.7, superpixels=9).labels
    labels = np.array([np.bincount(mask[regions == k]).argmax() for k in range(len(seeds))])
    graph_ = (costs, graph.edges, 0.7 * np.array(weights))
    free = np.flatnonzero(seeds < 0)
    for flip in combinations(free, 2):
        other = labels.copy()
        other[list(flip)] = 1 - other[list(flip)]
        assert loop_energy(labels, *graph_) <= loop_energy(other, *graph_) + 1e-6


def test_lazy_snapping_takes_the_colours_of_marked_pixels() -> None:
    """One mark on a superpixel of two colours: the other colour in it was never marked."""
    image = np.zeros((1, 4, 24))
    image[0, :, 8:16] = 0.6
    image[0, :, 16:] = 1.0
    image[0, 0, 0:8] = 1.0  # a bright edge of the dark superpixel, whose mean is 0.25
    marks = np.full((1, 4, 24), -1)
    # Dark pixels alone.
    marks[0, 3, 0:4] = 0
    marks[0, 3, 20:] = 1
    regions, seeds = split_by_marks(np.repeat(np.arange(3), 8)[np.newaxis].repeat(4, 0), marks[0])
    pixels = in_range(image)
    costs = colour_costs(means_of(pixels, regions), pixels[marks[0] >= 0], marks[marks >= 0], 2)
    assert costs[list(seeds).index(-1)] == pytest.approx([0.6, 0.4])  # not [0.47, 0.53]


@pytest.mark.parametrize("method", [lazy_snapping, grabcut])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_marks_on_two_intensities_give_the_mask(method: Any, noise: float) -> None:
    found = []
    for seed in range(4):
        image, marks, truth = marked_case(seed, noise=noise)
        fusion = method(marks, 2, image)
        found.append(iou(fusion.labels == 1, truth))
        kept = marks[0] != -1
        np.testing.assert_array_equal(fusion.labels[kept], marks[0][kept])
        np.testing.assert_allclose(fusion.truth.sum(axis=0), 1)
        np.testing.assert_array_equal(fusion.truth.argmax(axis=0), fusion.labels)
    assert np.min(found) > 0.9
    if not noise:
        assert np.min(found) == 1


def test_three_intensities_give_three_classes() -> None:
    image = np.zeros((1, 40, 40))
    image[:, 5:20, 5:20] = 1
    image[:, 22:36, 20:38] = 2
    truth = image[0].astype(int)
    image += RNG(0).normal(0, 0.1, image.shape)
    marks = np.full((1, 40, 40), -1)
    marks[0, 10, 8:16] = 1
    marks[0, 30, 24:34] = 2
    marks[0, 2, 5:35] = 0
    assert (lazy_snapping(marks, 3, image).labels == truth).mean() > 0.97
    cut = grabcut(marks, 3, image).labels
    assert (cut[cut != -1] == truth[cut != -1]).mean() > 0.97
    assert (cut != -1).mean() > 0.97


def test_volumes_and_many_channels_are_for_lazy_snapping_alone() -> None:
    image = np.zeros((4, 12, 12, 12))
    image[:, 4:9, 4:9, 4:9] = 1
    marks = np.full((1, 12, 12, 12), -1)
    marks[0, 6, 6, 5:8] = 1
    marks[0, 0] = 0
    np.testing.assert_array_equal(lazy_snapping(marks, 2, image).labels, image[0])
    with pytest.raises(RatersError, match=r"3 spatial axes, expected 2: grabcut takes no volumes"):
        grabcut(marks, 2, image)
    with pytest.raises(RatersError, match="found 4 channels, expected 1 or 3"):
        grabcut(marks[:, 0], 2, image[:, 0])


def test_grabcut_takes_boxes_and_colours() -> None:
    found = []
    for seed in range(3):
        image, _, truth = marked_case(seed, noise=0.1)
        marks = np.zeros((1, *truth.shape), int)
        rows, columns = np.nonzero(truth)
        marks[0, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = -1
        colour = np.concatenate([image, 1 - image, np.zeros_like(image)])
        found.append(iou(grabcut(marks, 2, colour).labels == 1, truth))
    assert np.min(found) > 0.95


@pytest.mark.parametrize("method", [lazy_snapping, grabcut])
def test_what_is_not_marked_at_all(method: Any) -> None:
    image, marks, truth = marked_case(0)
    nothing = method(np.full_like(marks, -1), 2, image)
    assert (nothing.labels == -1).all() and (nothing.truth == 0.5).all()
    everything = method(truth[np.newaxis].astype(int), 2, image)
    np.testing.assert_array_equal(everything.labels, truth)
    objects = method(np.where(marks == 1, 1, -1), 2, image).labels
    assert (objects[marks[0] == 1] == 1).all()
    if method is lazy_snapping:
        assert (objects == 1).all()  # no other class is known of this image
    twice = np.concatenate([marks, 1 - np.where(marks < 0, 2, marks)])
    assert (method(twice, 2, image).labels == -1).all()  # all marks contradict
    of_three = method(np.where(marks == 0, 0, -1), 3, image).labels
    assert (of_three == 0).all()


def test_fuse_gives_images_to_methods_that_look_at_them() -> None:
    cases = [marked_case(seed) for seed in range(2)]
    images, marks = (np.stack([case[k] for case in cases]) for k in (0, 1))
    study = Study.from_arrays(images, marks)
    for name in ("lazy-snapping", "grabcut"):
        consensus = raters.fuse(study, name)
        for k, (_, _, truth) in enumerate(cases):
            np.testing.assert_array_equal(consensus[k].labels, truth)
        with pytest.raises(RatersError, match=f"found no images, expected some: {name} looks"):
            raters.fuse(Study.from_arrays(labels=marks), name)
        with pytest.raises(RatersError, match="found pool with"):
            raters.fuse(study, name, pool=True)
        with pytest.raises(RatersError, match="found the option 'nonsense'"):
            raters.fuse(study, name, nonsense=1)
    with pytest.raises(RatersError, match="found smoothness=-1, expected a number from 0 on"):
        raters.fuse(study, "lazy-snapping", smoothness=-1)
    chosen = raters.fusion.LazySnappingOptions(superpixels=4)
    coarse = raters.fuse(study, chosen)[0].labels
    assert iou(coarse == 1, cases[0][2]) < 1
    missing = Study.from_arrays([images[0], None], marks)
    with pytest.raises(RatersError, match=r"no image of case '1', expected one of \(48, 48\)"):
        _ = raters.fuse(missing, "lazy-snapping")[1]


def test_grabcut_without_opencv_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    image, marks, _ = marked_case(0)
    monkeypatch.setattr("raters.fusion._grabcut.find_spec", lambda _: None)
    with pytest.raises(RatersError, match=r"pip install 'raters\[opencv\]'"):
        grabcut(marks, 2, image)


@pytest.mark.slow
def test_the_command_fuses_marks(tmp_path: Path) -> None:
    image, marks, truth = marked_case(1)
    save(tmp_path / "images/c1.png", np.rint(200 * in_range(image)[..., 0]).astype(np.uint8))
    save(tmp_path / "marks/ann/c1.png", np.where(marks[0] < 0, 255, marks[0]).astype(np.uint8))
    pattern = tmp_path / "marks/{rater}/{case}.png"
    words = ("fuse", pattern, "-m", "lazy-snapping", "--ignore", "255", "-o")
    images = ("--images", tmp_path / "images/{case}.png")
    done = run_alone(*words, tmp_path / "out", *images)
    assert done.code == 0, done.err
    from PIL import Image

    written = np.asarray(Image.open(tmp_path / "out/c1.png"))
    np.testing.assert_array_equal(written, truth)
    bare = run_alone(*words, tmp_path / "other")
    assert bare.code == 2 and "found no images, expected some" in " ".join(bare.err.split())


def test_a_tree_of_merges_holds_what_a_loop_merges() -> None:
    regions = np.array([[0, 0, 1], [2, 3, 1], [2, 3, 3]])
    colours = np.array([[0.0], [0.3], [1.0], [1.2]])
    sizes = np.bincount(regions.ravel())
    graph = region_graph(regions)
    for power in (0.0, 1.0):
        groups = [{k} for k in range(4)]
        merged = []
        while len(groups) > 1:
            costs = {}
            for a, b in combinations(range(len(groups)), 2):
                touch = any(
                    {i, j} & groups[a] and {i, j} & groups[b] for i, j in graph.edges.tolist()
                )
                if touch:
                    n = [sum(sizes[list(g)]) for g in (groups[a], groups[b])]
                    c = [
                        np.average(colours[list(g), 0], weights=sizes[list(g)])
                        for g in (groups[a], groups[b])
                    ]
                    costs[a, b] = (n[0] * n[1] / sum(n)) ** power * (c[0] - c[1]) ** 2
            a, b = min(costs, key=lambda pair: costs[pair])
            merged.append(groups[a] | groups[b])
            groups = [g for k, g in enumerate(groups) if k not in (a, b)] + [merged[-1]]
        tree = merge_tree(regions, colours, graph, power)
        assert [set(np.flatnonzero(m)) for m in tree.members[4:]] == merged
        for member, (first, last) in zip(tree.members, tree.corners, strict=True):
            places = np.argwhere(member[regions])
            np.testing.assert_array_equal([first, last], [places.min(0), places.max(0)])


def test_boxes_overlap_as_their_pixels_do() -> None:
    rng = RNG(0)
    ends = np.sort(rng.integers(0, 6, (20, 2, 3)), axis=1)
    for box in ends[:4]:
        one = np.zeros((6, 6, 6), bool)
        one[tuple(slice(a, b + 1) for a, b in box.T)] = True
        for other, found in zip(ends, overlap(box, ends), strict=True):
            two = np.zeros_like(one)
            two[tuple(slice(a, b + 1) for a, b in other.T)] = True
            assert found == pytest.approx(iou(one, two))
    np.testing.assert_array_equal(
        corners_of(np.array([[1, 1], [0, 1]])), [[[1, 0], [1, 0]], [[0, 0], [1, 1]]]
    )
