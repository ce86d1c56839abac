"""`scribble-sup`, `box-sup`, `cycle-mix` and masks from marks: losses as loops, and what each does.

Papers: Lin et al. (CVPR 2016), Dai et al. (ICCV 2015), Zhang and Zhuang (CVPR 2022).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import raters
from raters.core.errors import RatersError
from raters.fusion.superpixels import region_graph
from raters.learning.methods.base import Batch
from raters.learning.methods.box_sup import Box, BoxSup, boxes_of, boxes_with_candidates, costs_of
from raters.learning.methods.cycle_mix import CycleMix, holes, largest_parts, mixing_masks
from raters.learning.methods.phases import generator_of
from raters.learning.methods.region_method import add_by_region
from raters.learning.methods.scribble_sup import ScribbleSup, histograms, likeness
from raters.learning.networks.normalise import Normalisation
from raters.learning.training.dataset import CaseDataset
from raters.study.study import Study
from tests.support.learning import build_method, quiet_fit, small_task
from tests.support.weak_studies import box_of, iou, marked_case, weak_study

Array = NDArray[Any]
TINY = {"epochs": 3, "batch_size": 4, "width": 4, "depth": 2, "progress": False}
SMALL: dict[str, Any] = {
    "epochs": 9,
    "batch_size": 6,
    "width": 8,
    "depth": 3,
    "network": "unet",
    "val_fraction": 0,
    "select": "last",
    "progress": False,
}
FRESH = weak_study(10, start=500)


def make_weak_method(
    name: str, classes: int = 2, dims: int = 2, epochs: int = 6, **given: Any
) -> Any:
    """Make a method for one rater."""
    task = small_task(dims, raters=["ann"], channels=1, classes=classes, epochs=epochs)
    class_weights = np.linspace(0.5, 2, classes)
    return build_method(name, task, given, seed=0, class_weights=class_weights.tolist())


def collate_cases(study: Study, method: Any = None) -> Batch:
    """Make one batch of all cases, whole and as they are."""
    regions = method.regions if method is not None else None
    extra = method.extra if method is not None else None
    data = CaseDataset(study, Normalisation("none"), patch_size=None, regions=regions, extra=extra)
    from raters.learning.training.dataset import collate

    return collate([data[k] for k in range(len(data))])


def mean_iou(model: raters.Model, study: Study = FRESH) -> float:
    found = [iou(model.predict(case) == 1, case.reference == 1) for case in study]
    return float(np.mean(found))


def train_small(study: Study, name: str, **options: Any) -> raters.Model:
    """Train a small network for a few epochs."""
    return quiet_fit(study, name, **{**SMALL, **options})


@pytest.fixture(scope="module")
def iou_from_marks() -> float:
    """What partial cross entropy on the marks reaches."""
    return mean_iou(train_small(weak_study(), "mean"))


# Partial cross entropy


@pytest.mark.parametrize("name", ["mean", "vote", "label-sampling"])
def test_methods_that_are_partial_cross_entropy(name: str) -> None:
    study = weak_study(3, size=16)
    method = make_weak_method(name)
    method.prepare(study)
    batch = collate_cases(study)
    if method.has_targets:
        targets = np.stack([method.target(case) for case in study])
        batch["target"] = torch.from_numpy(targets)
        batch["target"] = batch["target"].long() if targets.ndim == 3 else batch["target"]
    log_truth = method.truth(batch["image"]).log().detach().numpy()
    total = 0.0
    count = 0
    for k, y, x in np.ndindex(3, 16, 16):
        mark = int(batch["labels"][k, 0, y, x])
        if mark >= 0:
            total -= [0.5, 2.0][mark] * log_truth[k, mark, y, x]
            count += 1
    step = method.step(batch)
    assert step.loss.item() == pytest.approx(total / count, rel=1e-5)
    assert int(step.observed) == count


# Regions


@pytest.mark.parametrize("dims", [2, 3])
def test_regions_are_cut_and_turned_with_the_image(dims: int) -> None:
    space = (9, 8, 7)[:dims]
    numbers = np.arange(np.prod(space)).reshape(space)
    images = numbers[np.newaxis, np.newaxis].astype(float)
    study = Study.from_arrays(images, np.zeros((1, 1, *space), int))
    data = CaseDataset(
        study,
        Normalisation("none"),
        patch_size=(6, 5, 10)[:dims],
        augment="flip",
        patches_per_case=8,
        regions=lambda _: numbers,
    )
    for k in range(8):
        item = data[k]
        inside = item["regions"] >= 0
        np.testing.assert_array_equal(item["regions"][inside], item["image"][0][inside])
        assert (item["labels"][0][~inside] == -1).all()
    tiles = data.whole()
    seen = np.concatenate([tiles[k]["regions"].ravel() for k in range(len(tiles))])
    np.testing.assert_array_equal(np.sort(seen[seen >= 0]), numbers.ravel())


def test_sums_by_region_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 2, 4, 5)).astype(np.float32)
    rows = np.array([1, 0, 1])
    regions = rng.integers(-1, 6, (3, 4, 5))
    expected = np.zeros((2, 6, 2))
    for b, y, x in np.ndindex(regions.shape):
        if regions[b, y, x] >= 0:
            expected[rows[b], regions[b, y, x]] += values[b, :, y, x]
    sums = torch.zeros(2, 6, 2)
    add_by_region(sums, *map(torch.from_numpy, (values, rows, regions)))
    np.testing.assert_allclose(sums, expected, rtol=1e-5)


# scribble-sup


def test_likeness_is_that_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    image = rng.random((2, 8, 6))
    regions = np.repeat(np.arange(4), 12).reshape(8, 6)
    image[:, 4:] += 0.5
    pixels = np.moveaxis(image, 0, -1)
    low, high = np.quantile(pixels.reshape(-1, 2), [0.001, 0.999], axis=0)
    pixels = np.clip((pixels - low) / (high - low), 0, 1)
    slopes = np.stack(np.gradient(pixels.mean(-1)), -1)
    slopes = (slopes / np.abs(slopes).max() + 1) / 2

    def bars(values: Array, bins: int) -> Array:
        found = []
        for k in range(4):
            parts = [np.histogram(v, bins, (0, 1))[0] for v in values[regions == k].T]
            found.append(np.concatenate(parts) / sum(map(np.sum, parts)))
        return np.array(found)

    np.testing.assert_allclose(histograms(pixels, regions, 25), bars(pixels, 25))
    graph = region_graph(regions)
    exponent = np.zeros(3)
    for values, bins in ((pixels, 25), (slopes, 10)):
        h = bars(values, bins)
        squared = np.array([((h[i] - h[j]) ** 2).sum() for i, j in graph.edges])
        exponent += squared / squared.mean()
    np.testing.assert_allclose(likeness(image, regions, graph), np.exp(-exponent))


def test_labels_of_superpixels_cost_least() -> None:
    """Marks, network and pairs as the formula has them, for every labelling of few superpixels."""
    study = weak_study(2, size=12)
    method: ScribbleSup = make_weak_method(
        "scribble-sup", superpixels=9, superpixel_size=8, smoothness=0.6
    )
    method.prepare(study)
    batch = collate_cases(study, method)
    log_truth = method.truth(batch["image"]).log().detach().double().numpy()
    for with_network in (False, True):
        if with_network:
            with torch.no_grad():
                method.see_all(iter([batch]))
        for row, case in enumerate(study):
            regions = method.regions(case)
            marks = case.labels[0]
            edges, weights, _ = method._kept[row]
            number = regions.max() + 1

            def cost(labels: tuple[int, ...], row: int = row) -> float:
                total = 0.0
                for y, x in np.ndindex(12, 12):
                    label = labels[regions[y, x]]  # noqa: B023
                    if marks[y, x] not in (-1, label):  # noqa: B023
                        return np.inf
                    in_marked = (marks[regions == regions[y, x]] >= 0).any()  # noqa: B023
                    if with_network and not in_marked:  # noqa: B023
                        total -= log_truth[row, label, y, x]
                pairs = zip(edges.tolist(), weights, strict=True)  # noqa: B023
                return total + sum(0.6 * w for (i, j), w in pairs if labels[i] != labels[j])

            found = tuple(method.found[row, :number].tolist())
            seeds = method._kept[row].seeds
            choices = [(0, 1) if s < 0 else (int(s),) for s in seeds]
            best = min(map(cost, product(*choices)))
            assert cost(found) == pytest.approx(best, abs=1e-4)


def test_the_network_learns_the_labels_of_superpixels() -> None:
    study = weak_study(3, size=16)
    method: ScribbleSup = make_weak_method("scribble-sup")
    method.prepare(study)
    batch = collate_cases(study, method)
    log_truth = method.truth(batch["image"]).log().detach().numpy()
    total = 0.0
    for row, case in enumerate(study):
        regions = method.regions(case)
        for y, x in np.ndindex(16, 16):
            label = int(method.found[row, regions[y, x]])
            total -= [0.5, 2.0][label] * log_truth[row, label, y, x]
    step = method.step(batch)
    assert step.loss.item() == pytest.approx(total / (3 * 256), rel=1e-4)
    assert [method.needs_pass(epoch) for epoch in range(6)] == [False, False, True] + [
        epoch == 4 for epoch in range(3, 6)
    ]
    held_out = method.held_out(batch)
    marked = case_losses(log_truth, batch["labels"])
    assert held_out.loss.item() == pytest.approx(sum(marked), rel=1e-4)
    assert int(held_out.count) == len(marked)


def case_losses(log_truth: Array, labels: Tensor) -> list[float]:
    places = np.argwhere(labels.numpy() >= 0)
    return [-log_truth[b, int(labels[b, r, y, x]), y, x] for b, r, y, x in places]


@pytest.mark.slow
def test_turns_with_a_network_beat_marks_alone(iou_from_marks: float) -> None:
    study = weak_study()
    model = train_small(study, "scribble-sup")
    assert mean_iou(model) > iou_from_marks
    method: Any = model.method
    first: ScribbleSup = make_weak_method("scribble-sup")
    first.prepare(study)
    end, start = (
        np.mean(
            [
                iou(m.found[k].numpy()[first.regions(c)] == 1, c.reference == 1)
                for k, c in enumerate(study)
            ]
        )
        for m in (method, first)
    )
    assert end > start  # what the network says makes better masks of the marks


def test_classes_that_nobody_marked_in_an_image_are_not_in_it() -> None:
    images = np.zeros((2, 1, 16, 16))
    images[:, :, 4:12, 2:7] = 1
    images[0, :, 4:12, 9:14] = 2
    marks = np.full((2, 1, 16, 16), -1)
    marks[:, :, 0] = 0
    marks[:, :, 8, 3:6] = 1
    marks[0, :, 8, 10:13] = 2
    study = Study.from_arrays(images, marks, classes=["rest", "one", "two"])
    method: ScribbleSup = make_weak_method("scribble-sup", classes=3)
    method.prepare(study)
    first, second = (method.found[k].numpy()[method.regions(c)] for k, c in enumerate(study))
    np.testing.assert_array_equal(first, images[0, 0])
    np.testing.assert_array_equal(second, images[1, 0])
    assert set(np.unique(second)) == {0, 1}


# box-sup


def test_boxes_are_found_and_scribbles_are_not_boxes() -> None:
    labels = np.zeros((3, 8, 9), int)
    labels[0, 1:4, 1:5] = -1
    labels[1, 1:4, 1:6] = -1
    labels[:2, 6:, 7:] = -1
    labels[2] = -1  # who labelled nothing has no say
    boxes = boxes_of(labels, "c")
    assert boxes.max() == 2 and (boxes == 1).sum() == 12 and (boxes == 2).sum() == 4
    marks = np.full((1, 8, 9), -1)
    marks[0, 2, 2:5] = 1
    with pytest.raises(RatersError, match="unmarked pixels of case 'c' that are no box, from"):
        boxes_of(marks, "c")
    overlapping = np.zeros((1, 8, 9), int)
    overlapping[0, 1:4, 1:5] = -1
    overlapping[0, 3:7, 3:8] = -1
    with pytest.raises(RatersError, match="no box"):
        boxes_of(overlapping, "c")
    assert boxes_of(overlapping, "c", ("box",)).max() == 1


def test_candidates_cost_what_a_loop_says() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 5)
    candidates = rng.random((4, 5)) < 0.5
    inside = np.array([0, 2, 3, 5, 6])
    overlaps = rng.random(4)
    log_truth = -rng.random((8, 2)) * 9
    found = costs_of(Box(inside, sizes, candidates, overlaps), log_truth, 3.0)
    for candidate, overlap, cost in zip(candidates, overlaps, found, strict=True):
        wrong = sum(-log_truth[r, int(c)] for r, c in zip(inside, candidate, strict=True))
        assert cost == pytest.approx(1 - overlap + 3 * wrong / sizes.sum())


def test_candidates_hold_the_object_and_fill_the_box() -> None:
    for seed in range(3):
        study = weak_study(1, noise=0.1, what="boxes", start=seed)
        method: BoxSup = make_weak_method("box-sup")
        pixels, boxes, regions, _ = method._parted(study[0])
        (box,) = boxes_with_candidates(study[0].image, pixels, boxes, regions)
        truth = study[0].reference == 1
        masks = []
        for candidate in box.candidates:
            mask = np.isin(regions, box.inside[candidate])
            masks.append(iou(mask, truth))
            assert not mask[boxes == 0].any()
        assert max(masks) > 0.9
        assert (box.overlaps >= 0.5).all()
        np.testing.assert_array_equal(np.unique(regions[boxes == 1]), box.inside)
        assert box.sizes.sum() == boxes.sum()


def test_a_candidate_that_leaves_its_box_fills_it_badly() -> None:
    """A stripe through the box would fill it if it were cut first; the square inside is better."""
    image = np.zeros((1, 12, 24))
    image[:, 4:8] = 0.5
    image[:, 4:8, 10:14] = 1
    pixels = np.zeros((12, 24), int)
    pixels[4:8] = 1
    pixels[4:8, 14:] = 4
    pixels[4:8, 10:14] = 2
    pixels[8:] = 3
    boxes = np.zeros((12, 24), int)
    boxes[4:8, 9:15] = 1
    regions = np.unique(pixels * 2 + boxes, return_inverse=True)[1].reshape(pixels.shape)
    (box,) = boxes_with_candidates(image, pixels, boxes, regions)
    best = box.candidates[costs_of(box, None, 3.0).argmin()]
    np.testing.assert_array_equal(np.isin(regions, box.inside[best]), pixels == 2)


@pytest.mark.slow
def test_candidates_in_turns_beat_filled_boxes() -> None:
    filled = mean_iou(train_small(weak_study(what="box masks"), "mean"))
    model = train_small(weak_study(what="boxes"), "box-sup")
    assert mean_iou(model) > filled + 0.05


@pytest.mark.slow
def test_held_out_boxes_choose_a_network_that_finds_objects() -> None:
    """Though all that their labels say is background."""
    study = weak_study(what="boxes")
    options = {"select": "likelihood", "val_fraction": 0.2}
    model = train_small(study, "box-sup", **options)
    assert mean_iou(model) > 0.5
    method: BoxSup = make_weak_method("box-sup")
    method.prepare(study)
    batch = collate_cases(study, method)
    log_truth = method.truth(batch["image"]).log().detach().numpy()
    total = 0.0
    for row, case in enumerate(study):
        labels = method.first[row].numpy()[method.regions(case)]
        assert labels.any()
        total -= np.take_along_axis(log_truth[row], labels[np.newaxis], 0).sum()
    held_out = method.held_out(batch)
    assert held_out.loss.item() == pytest.approx(total, rel=1e-4)
    assert int(held_out.count) == batch["regions"].numel()


def test_one_of_the_best_candidates_is_drawn_in_each_epoch() -> None:
    study = weak_study(6, what="boxes")
    method: BoxSup = make_weak_method("box-sup", candidates=3)
    method.prepare(study)
    tables = []
    for epoch in range(4):
        method.start_epoch(epoch)
        tables.append(method.found.clone())
        for row, case in enumerate(study):
            top, left, low, right = box_of(case.reference == 1)
            labels = method.found[row].numpy()[method.regions(case)]
            assert labels[top:low, left:right].any()
            labels[top:low, left:right] = 0
            assert not labels.any()
            (ranks,) = method.ranked[row]
            assert len(ranks) <= 3
    assert any(not torch.equal(tables[0], table) for table in tables[1:])
    method.start_epoch(0)
    assert torch.equal(method.found, tables[0])


def test_boxes_by_their_kind() -> None:
    """What a study calls boxes are boxes, though only background is labelled."""
    study = weak_study(6, what="box masks", size=24)
    labels = np.stack([case.labels for case in study])
    images = np.stack([case.image for case in study])
    drawn = Study.from_arrays(images, labels, raters=["ann"], annotations={"ann": "box"})
    assert set(np.unique(drawn[0].labels)) == {-1, 0}
    for name in ("box-sup", "grabcut"):
        model = train_small(drawn, name, **TINY)
        assert model.truth(drawn[0]).shape == (2, 24, 24)


# cycle-mix


def test_the_loss_of_cycle_mix_is_that_of_a_loop() -> None:
    study = weak_study(3, size=20)
    method: CycleMix = make_weak_method("cycle-mix", global_consistency=0.3, local_consistency=0.2)
    batch = collate_cases(study)
    step = method.step(batch)
    image = batch["image"].clone().requires_grad_()
    log_truth = method.network.log_truth(image)
    labels = batch["labels"][:, 0]
    weights = [0.5, 2.0]
    marked = [tuple(place) for place in np.argwhere(labels.numpy() >= 0)]
    losses = [-weights[labels[b, y, x]] * log_truth[b, labels[b, y, x], y, x] for b, y, x in marked]
    plain = torch.stack(losses).mean()
    (slope,) = torch.autograd.grad(plain, image, retain_graph=True)
    draws = generator_of("mix", 0, 0, *batch["case"].tolist())
    order = torch.randperm(3, generator=draws)
    kept = mixing_masks(slope.square().mean(1).sqrt(), order, draws).numpy()[:, 0]
    seen = holes(image.shape, draws).numpy()[:, 0]
    pixels = image.detach().numpy()[:, 0]
    truth = log_truth.exp().detach().numpy()
    mixed = np.zeros_like(pixels)
    target = np.zeros((3, 2, 20, 20))
    expected = np.zeros_like(truth)
    for b, y, x in np.ndindex(pixels.shape):
        source = b if kept[b, y, x] else int(order[b])
        if seen[b, y, x]:
            mixed[b, y, x] = pixels[source, y, x]
            expected[b, :, y, x] = truth[source, :, y, x]
            if labels[source, y, x] >= 0:
                target[b, labels[source, y, x], y, x] = 1
    other = method.network.log_truth(torch.from_numpy(mixed)[:, None]).detach().numpy()
    places = np.argwhere(target.sum(1) > 0)
    losses = []
    for b, y, x in places:
        t = target[b, :, y, x].argmax()
        losses.append(-weights[t] * other[b, t, y, x])
    beside = np.mean(losses)

    def far(one: Array, two: Array) -> float:
        return 1 - float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two)))

    there = np.argwhere(seen > 0)
    both = np.mean([far(np.exp(other[b, :, y, x]), expected[b, :, y, x]) for b, y, x in there])
    parts = largest_parts(log_truth.exp()).numpy()
    local = np.mean(
        [far(truth[b, :, y, x], parts[b, :, y, x]) for b, y, x in np.ndindex(3, 20, 20)]
    )
    assert step.loss.item() == pytest.approx(plain.item() + beside + 0.3 * both + 0.2 * local, 1e-4)
    assert int(step.observed) == len(marked)
    assert 0 < kept.mean() < 1 and seen.min() == 0


def test_salient_blocks_are_kept() -> None:
    saliency = torch.full((2, 16, 16), 0.1)
    saliency[0, :, :8] = 10
    saliency[1, :, 8:] = 10
    for number in range(4):
        draws = generator_of("blocks", number)
        kept = mixing_masks(saliency, torch.tensor([1, 0]), draws)[:, 0]
        assert kept[0, :, :8].all() and not kept[0, :, 8:].any()
        assert kept[1, :, 8:].all() and not kept[1, :, :8].any()


def test_an_image_alone_is_mixed_with_itself() -> None:
    """Its prediction with a hole must be that without, outside of the hole and nowhere else."""
    study = weak_study(1, size=20)
    method: CycleMix = make_weak_method("cycle-mix")
    with torch.no_grad():  # predictions that depend on the image, unlike those of a fresh network
        for parameter in method.network.parameters():
            parameter.mul_(3)
    batch = collate_cases(study)
    draws = generator_of("mix", 0, 0, *batch["case"].tolist())
    order = torch.randperm(1, generator=draws)
    mixing_masks(torch.ones(1, 20, 20), order, draws)
    seen = holes(batch["image"].shape, draws)
    shown = (batch["image"], batch["image"] * seen)
    before, after = (method.truth(image).detach() for image in shown)
    far: dict[bool, list[float]] = {True: [], False: []}
    for y, x in np.ndindex(20, 20):
        one = before[0, :, y, x].numpy()
        two = after[0, :, y, x].numpy()
        cosine = float(one @ two / (np.linalg.norm(one) * np.linalg.norm(two)))
        far[bool(seen[0, 0, y, x])].append(1 - cosine)
    expected = float(np.mean(far[True]))
    found = method.step(batch).terms["global"].item()
    assert found == pytest.approx(expected, rel=1e-3)
    assert expected > 1e-4  # the hole is felt around it
    assert np.mean(far[False]) > 2 * expected  # and most of all within, which does not count
    empty = {**batch, "image": torch.zeros_like(batch["image"])}  # a hole in nothing
    assert method.step(empty).terms["global"].item() == pytest.approx(0, abs=1e-6)


def test_the_largest_part_of_each_class_is_kept() -> None:
    image = np.zeros((7, 7), int)
    image[0, :2] = 1
    image[2:5, 2:5] = 1
    image[6, 5:] = 2
    image[6, 0] = 2
    truth = torch.nn.functional.one_hot(torch.from_numpy(image)).movedim(-1, 0)[None].float()
    kept = largest_parts(truth)[0].argmax(0).numpy()
    image[0, :2] = image[6, 0] = 0
    np.testing.assert_array_equal(kept, image)


@pytest.mark.slow
def test_consistent_predictions_are_learnt() -> None:
    """Beside the same mixtures without both terms, on images that nobody marked for training."""
    batch = collate_cases(FRESH)
    terms = []
    for weight in (0.0, 1.0):
        given = {"global_consistency": weight, "local_consistency": weight}
        method: Any = train_small(weak_study(), "cycle-mix", **given).method
        terms.append(method.step(batch).terms)
    for name in ("global", "local"):
        assert terms[1][name] < terms[0][name]


# Masks from marks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lazy-snapping", "grabcut"])
def test_masks_from_marks_beat_marks_alone(name: str, iou_from_marks: float) -> None:
    model = train_small(weak_study(), name)
    assert mean_iou(model) > iou_from_marks


# All of them


@pytest.mark.filterwarnings("ignore:found no label of the class")
@pytest.mark.parametrize("name", ["lazy-snapping", "scribble-sup"])
def test_one_class_alone_tells_nothing(name: str) -> None:
    study = weak_study(4, size=16, what="boxes")
    with pytest.raises(RatersError, match=r"found marks of .* alone in all cases, expected two"):
        train_small(study, name)


def test_box_sup_wants_boxes_of_one_class() -> None:
    marks = weak_study(4, size=16)
    with pytest.raises(RatersError, match=r"that are no box, from .* box-sup takes no scribbles"):
        train_small(marks, "box-sup")
    masks = Study.from_arrays(
        np.stack([c.image for c in marks]), np.stack([c.reference[None] for c in marks])
    )
    with pytest.raises(RatersError, match="found no boxes in any case, expected some"):
        train_small(masks, "box-sup")
    boxes = np.stack([case.labels for case in weak_study(4, size=16, what="boxes")])
    boxes[0, 0, 0, :2] = 1, 2
    three = Study.from_arrays(np.stack([c.image for c in marks]), boxes, classes=["a", "b", "c"])
    with pytest.raises(RatersError, match="found 3 classes, expected 2: a box does not say"):
        train_small(three, "box-sup")


@pytest.mark.parametrize("name", ["lazy-snapping", "grabcut", "scribble-sup", "cycle-mix"])
def test_an_image_without_marks_and_marks_that_contradict_do_no_harm(name: str) -> None:
    cases = [marked_case(seed, 16) for seed in range(6)]
    images, marks = (np.stack([case[k] for case in cases]) for k in (0, 1))
    marks[2] = -1
    other = np.where(marks >= 0, 1 - marks, -1)
    other[1:] = -1  # of the first image all marks contradict
    model = train_small(Study.from_arrays(images, np.concatenate([marks, other], 1)), name, **TINY)
    assert np.isfinite(model.truth(images[0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scribble-sup", "cycle-mix", "box-sup", "lazy-snapping"])
def test_volumes(name: str) -> None:
    images = np.random.default_rng(0).normal(0, 0.1, (4, 1, 12, 12, 8))
    images[:, :, 3:9, 3:9, 2:6] += 1
    labels = np.full((4, 1, 12, 12, 8), -1)
    labels[:, :, 6, 6, 3:5] = 1
    labels[:, :, 0] = 0
    if name == "box-sup":
        labels[:] = 0
        labels[:, :, 3:9, 3:9, 2:6] = -1
    options = {**TINY, "patch_size": (8, 8, 8), "patches_per_case": 2}
    model = train_small(Study.from_arrays(images, labels), name, **options)
    assert model.truth(images[0]).shape == (2, 12, 12, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scribble-sup", "box-sup"])
def test_a_run_that_was_stopped_goes_on_as_if_it_was_not(name: str, tmp_path: Path) -> None:
    study = weak_study(6, size=16, what="boxes" if name == "box-sup" else "marks")
    whole = train_small(study, name, **{**TINY, "epochs": 4}, folder=tmp_path / "whole")
    stopped = Stop(after=3)
    with pytest.raises(KeyboardInterrupt):
        train_small(
            study, name, **{**TINY, "epochs": 4, "progress": stopped}, folder=tmp_path / "part"
        )
    model = raters.fit(study, folder=tmp_path / "part", resume=True, progress=False)
    for key, value in whole.method.state_dict().items():
        torch.testing.assert_close(model.method.state_dict()[key], value, rtol=0, atol=0)


class Stop:
    """Interrupts training after some epochs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, line: str) -> None:
        """Count an epoch."""
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt(line)


@pytest.mark.parametrize(
    ("name", "option"),
    [("scribble-sup", "rounds"), ("scribble-sup", "superpixels"), ("box-sup", "candidates")],
)
def test_options_below_one_are_refused(name: str, option: str) -> None:
    with pytest.raises(RatersError, match=f"found {option}=0, expected .*1"):
        raters.fit(weak_study(2), name, **{option: 0})
