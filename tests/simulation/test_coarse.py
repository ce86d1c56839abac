"""Raters who hand in coarse annotations: areas, complements, lines, boxes, and their confusion."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray
from PIL import Image

from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.simulation import phantom_study, simulate, true_confusion, true_transition
from raters.simulation.coarse import (
    LEVELS,
    boxes,
    coarse_raters,
    deepest,
    draw_area,
    draw_boxes,
    draw_scribbles,
    near_a_centre,
    scribble,
)
from raters.simulation.layers import Layers
from raters.simulation.masks import DRAWERS
from raters.simulation.shape import Shape
from raters.simulation.specs import Spec, parse_raters
from raters.simulation.study import write_true_confusion
from raters.study.study import Study
from tests.support.command_line import Run

LESIONS = phantom_study("lesions", 6, (40, 36))
SCENES = phantom_study("scenes", 4, (40, 44))
RATIOS = (1, 0.8, 0.5, 0.3, 0.01)
FOUR = len(SCENES.classes)


def truth_of(study: Study, case: int = 0) -> NDArray[np.int16]:
    return np.asarray(study[case].reference)


@pytest.mark.parametrize("share", RATIOS)
@pytest.mark.parametrize("space", [(30, 26), (12, 10, 14)])
def test_the_share_of_the_area_nearest_to_a_centre_inside(
    share: float, space: tuple[int, ...]
) -> None:
    truth = np.zeros(space, bool)
    truth[tuple(slice(n // 4, 3 * n // 4) for n in space)] = True
    drawn = DRAWERS["wrong"](truth, 1.5, default_rng(3))
    kept = near_a_centre(drawn, share, truth, default_rng(4))
    places = [tuple(place) for place in np.argwhere(drawn).tolist()]
    number = max(1, round(share * len(places)))
    assert kept.sum() == number
    assert not (kept & ~drawn).any()
    # Some pixel of the truth is the centre: the kept pixels are the nearest to it, no others.
    fits = 0
    for centre in np.argwhere(truth).tolist():
        away = {p: sum((a - b) ** 2 for a, b in zip(p, centre, strict=True)) for p in places}
        inside = max(away[p] for p in places if kept[p])
        outside = min((away[p] for p in places if not kept[p]), default=np.inf)
        fits += inside <= outside
    assert fits > 0
    if share in (0.3, 0.01):
        centres = {
            tuple(np.argwhere(near_a_centre(drawn, 1e-9, truth, default_rng(k)))[0])
            for k in range(40)
        }
        assert len(centres) > 20, "the centre is anywhere in the mask"
        assert sum(truth[centre] for centre in centres) > 0.7 * len(centres)


def test_ratios_of_one_seed_are_parts_of_one_drawing() -> None:
    layers = Layers(truth_of(LESIONS))
    for negative in (False, True):
        parts = [
            draw_area(layers, 1, 1.0, default_rng(9), share=share, negative=negative) > 0
            for share in RATIOS
        ]
        areas = [int(part.sum()) for part in parts]
        assert areas == [max(1, round(share * areas[0])) for share in RATIOS]
        for larger, smaller in pairwise(parts):
            assert not (smaller & ~larger).any()


def test_a_positive_drawing_is_too_large_and_broken() -> None:
    more = []
    broken = []
    for case in LESIONS:
        layers = Layers(np.asarray(case.reference))
        mask = layers.truth > 0
        for seed in range(4):
            marks = draw_area(layers, 1, 0.5, default_rng(seed))
            assert set(np.unique(marks)) <= {0, 1}
            more.append((marks[~mask] > 0).sum() / mask.sum())
            broken.append((marks[mask] == 0).mean())
            far = Shape(mask).distance < -2 * Shape(mask).half_thickness - 1
            assert not marks[far].any(), "half of it is not twice that"
            exact = draw_area(layers, 1, 0, default_rng(seed))
            assert np.array_equal(exact > 0, mask)
    assert 0.15 < np.mean(more) < 0.9
    assert 0.005 < np.mean(broken) < 0.3


def test_a_positive_drawing_marks_all_classes() -> None:
    exact = simulate(SCENES, "positive:0", unmarked="rest")
    assert exact.raters == ("positive",)
    for case in exact:
        assert np.array_equal(case.labels[0], np.asarray(case.reference))
    rough = simulate(SCENES, "positive@0.5")[0]
    names = SCENES.classes.names
    alone = [simulate(SCENES, "positive@0.5", target=name)[0].labels[0] for name in names[1:]]
    areas = [int((marks > 0).sum()) for marks in alone]
    assert [int((rough.labels[0] == k).sum()) > 0.7 * areas[k - 1] for k in (1, 2, 3)] == [True] * 3
    only = simulate(SCENES, "positive:0", target=names[2])[0]
    assert np.array_equal(only.labels[0] == 2, np.asarray(only.reference) == 2)


@pytest.mark.parametrize("target", [1, 2, 3])
def test_a_negative_drawing_is_the_positive_one_of_the_complement(target: int) -> None:
    truth = truth_of(SCENES)
    flipped = (truth != target).astype(np.int16)
    # Errors are as large as those of the class, though the complement is thicker.
    thin = Shape(truth == target).half_thickness / Shape(truth != target).half_thickness
    for share, severity in ((1.0, 0.0), (1.0, 0.5), (0.3, 0.8)):
        negative = draw_area(
            Layers(truth, FOUR), target, severity, default_rng(5), share, negative=True
        )
        positive = draw_area(Layers(flipped), 1, severity * thin, default_rng(5), share)
        assert np.array_equal(negative, target * positive)
    exact = draw_area(Layers(truth, FOUR), target, 0, default_rng(0), negative=True)
    assert np.array_equal(exact == target, truth != target)
    wider = draw_area(Layers(truth, FOUR), target, 0.5, default_rng(1), negative=True) == target
    assert (wider & (truth == target)).any(), "it goes into the class that it denies"


def test_scribbles_stay_inside_their_class_and_are_connected_lines() -> None:
    from scipy.ndimage import label

    for case in SCENES:
        truth = np.asarray(case.reference)
        marks = draw_scribbles(Layers(truth, FOUR), [1, 2, 3], default_rng(1))
        assert np.array_equal(marks[marks >= 0], truth[marks >= 0])
        assert set(np.unique(marks)) == {-1, 0, 1, 2, 3}
        for k in range(FOUR):
            everywhere = np.ones((3, 3))
            objects, number = label(truth == k, everywhere)
            assert label(marks == k, everywhere)[1] == number, "one line in each object"
            assert len(set(objects[marks == k].tolist())) == number
        assert (marks >= 0).mean() < 0.15
    ball = np.zeros((9, 9, 9), bool)
    ball[2:7, 2:7, 2:7] = True
    assert not (scribble(Shape(ball), default_rng(2)) & ~ball).any()
    assert not scribble(Shape(np.zeros((5, 5))), default_rng(0)).any()


def test_a_scribble_keeps_to_the_middle() -> None:
    bar = np.zeros((13, 60), bool)
    bar[2:11] = True
    depth = Shape(bar).distance
    lines = [scribble(Shape(bar), default_rng(k)) for k in range(30)]
    long = [line for line in lines if line.any(axis=0).sum() > 20]
    assert np.mean([depth[line].mean() for line in long]) > 1.2 * depth[bar].mean()


@pytest.mark.parametrize("space", [(25, 31), (10, 12, 11)])
def test_boxes_are_the_bounding_boxes(space: tuple[int, ...]) -> None:
    mask = np.zeros(space, bool)
    mask[tuple(slice(1, 4) for _ in space)] = default_rng(1).random((3,) * len(space)) < 0.6
    mask[tuple(slice(6, 9) for _ in space)] = default_rng(2).random((3,) * len(space)) < 0.6
    expected = np.zeros(space, bool)
    for corner in (1, 6):
        block = [p for p in product(*[range(corner, corner + 3)] * len(space)) if mask[p]]
        low = np.min(block, axis=0)
        high = np.max(block, axis=0)
        for p in product(*[range(a, b + 1) for a, b in zip(low, high, strict=True)]):
            expected[p] = True
    assert np.array_equal(boxes(Shape(mask)), expected)


def test_boxes_that_touch_become_one_and_the_higher_class_covers() -> None:
    rings = np.zeros((12, 12), np.int16)
    rings[1, 1:7] = rings[1:7, 1] = 1  # the corner of a box that holds the other object
    rings[5, 5:10] = 1
    filled = boxes(Shape(rings > 0))
    assert np.array_equal(np.argwhere(filled).max(axis=0), [6, 9])
    assert filled[1:7, 1:10].all()
    assert filled.sum() == 6 * 9
    rings[10, 3:5] = 2
    rings[2:10, 4] = 2
    marks = draw_boxes(Layers(rings), [1, 2])
    assert (marks[2:11, 3:5] == 2).all()
    assert marks[1, 1] == 1
    assert marks[11].sum() == 0


def test_levels_grow_from_the_middle_of_thick_vessels_to_nearly_all() -> None:
    for case in phantom_study("vessels", 3, (64, 64)):
        truth = np.asarray(case.reference)
        shape = Shape(truth > 0)
        parts = [draw_area(Layers(truth), 1, 0, default_rng(2), level=k) > 0 for k in range(1, 6)]
        area = int(shape.mask.sum())
        assert [int(part.sum()) for part in parts] == [round(share * area) for share in LEVELS]
        depths = [shape.distance[part].mean() for part in parts]
        assert all(b < a for a, b in pairwise(depths))
        for smaller, larger in pairwise(parts):
            assert not (smaller & ~larger).any()
        assert not (parts[-1] & ~shape.mask).any()
        denied = draw_area(Layers(truth), 1, 0, default_rng(2), level=1, negative=True) > 0
        assert not (denied & shape.mask).any()
        assert shape.distance[denied].max() < shape.distance[~shape.mask].mean()
    assert not deepest(np.zeros((4, 4), bool), 0.5, default_rng(0)).any()


def test_who_is_simulated_and_what_their_drawings_mean() -> None:
    two = Classes.of(["ground", "vessel"])
    four = SCENES.classes

    def listed(text: str, classes: Classes, target: int | None = None) -> list[tuple[str, str]]:
        found = [r for s in parse_raters(text) for r in coarse_raters(s, classes, target)]
        return [(rater.name, rater.annotation) for rater in found]

    assert listed("positive,negative@0.5,scribble,box", two) == [
        (kind, kind) for kind in ("positive", "negative", "scribble", "box")
    ]
    assert listed("ann=level3", two) == [("ann", "positive"), ("ann [negative]", "negative")]
    assert listed("positive,box", four) == [("positive", "positive"), ("box", "box")]
    assert listed("ann=level3", four)[:2] == [
        ("ann", "positive"),
        ("ann-road [negative]", "negative"),
    ]
    assert listed("2xnegative", four, target=2) == [
        ("negative-house", "negative"),
        ("negative2-house", "negative"),
    ]
    specs = parse_raters("positive:2@0.3,over@0.9,scribble")
    assert specs == (
        Spec("positive", "positive", 2.0, None, 0.3),
        Spec("over", "over", None, 0.9, None),
        Spec("scribble", "scribble"),
    )
    assert [
        r.severity
        for s in parse_raters("positive,positive:3,level2")
        for r in coarse_raters(s, two, severity=2.0)
    ] == [2.0, 3.0, 2.0, 2.0]
    assert coarse_raters(Spec("a", "positive"), two)[0].severity == 0.5
    assert coarse_raters(Spec("a", "level5"), two)[0].severity == 0.0


@pytest.mark.parametrize(
    ("raters", "message"),
    [
        ("positive@0", r"found the share 0 of the area, expected a number above 0"),
        ("positive@1.5", r"found the share 1\.5"),
        ("positive@nan", "expected a kind"),
        ("positive:-1", r"found the severity -1\.0 for 'positive', expected 0 or more"),
        ("scribble:2", "found a number for 'scribble', expected 'scribble' alone"),
        ("box@0.5", "found a number for 'box'"),
        ("level3@0.5", r"found the share 0\.5 for 'level3', expected 'level3' alone"),
        ("level6", "found the rater 'level6'"),
        ("over:2@0.5", "expected a kind"),
        ("level1,level1 [negative]=box", "found two raters named"),
    ],
)
def test_bad_orders_are_refused(raters: str, message: str) -> None:
    with pytest.raises(RatersError, match=message):
        simulate(LESIONS, raters)


def count_confusion(
    labels: NDArray[np.int16], truth: NDArray[np.int16], classes: int
) -> NDArray[np.float64]:
    counts = np.zeros((classes, classes))
    for o, t in zip(labels.ravel().tolist(), truth.ravel().tolist(), strict=True):
        if o >= 0 and t >= 0:
            counts[t, o] += 1
    return counts


ALL = "good:0.4,positive@0.5,negative@0.5,scribble,box,level2"


@pytest.mark.parametrize("unmarked", ["rest", "unknown"])
def test_the_confusion_of_two_classes_is_that_of_the_labels(unmarked: str) -> None:
    study = simulate(LESIONS, ALL, seed=1, unmarked=unmarked)  # type: ignore[arg-type]
    truth = truth_of(LESIONS)
    positive = study[0].labels[1]
    negative = study[0].labels[2]
    if unmarked == "rest":
        assert (positive >= 0).all()
        assert (negative >= 0).all()
    else:
        assert set(np.unique(positive)) == {-1, 1}
        assert set(np.unique(negative)) == {-1, 0}
    # Severity 0 has no randomness but where the centre is; so over draws the mean is the count.
    exact = simulate(LESIONS, "positive:0,negative:0,scribble,box,level4", unmarked=unmarked)  # type: ignore[arg-type]
    known = true_confusion(exact, 0, draws=3)
    for k, labels in enumerate(exact[0].labels):
        if exact.raters[k].startswith("level"):
            continue
        counts = count_confusion(labels, truth, 2)
        rows = np.where(
            counts.sum(1, keepdims=True) > 0,
            counts / counts.sum(1, keepdims=True).clip(1),
            np.eye(2),
        )
        np.testing.assert_allclose(known[k], rows, atol=1e-9)
    if unmarked == "rest":
        # Of the lesion 0.7 is drawn, of the rest 0.7 is denied.
        area = int((truth == 1).sum())
        rest = int((truth == 0).sum())
        np.testing.assert_allclose(known[4][1, 1], round(0.7 * area) / area)
        np.testing.assert_allclose(known[5][0, 0], round(0.7 * rest) / rest)
        np.testing.assert_allclose(known[4][0], [1, 0])
        np.testing.assert_allclose(known[5][1], [0, 1])


def test_the_confusion_of_several_classes_and_the_transition(tmp_path: Path) -> None:
    study = simulate(SCENES, "positive@0.6,negative:0.8@0.6,scribble", seed=2)
    assert study.raters[1:] == ("negative-road", "negative-house", "negative-tree", "scribble")
    known = true_confusion(study, 1, draws=4)
    denied = true_transition(study, 1, draws=4)
    truth = truth_of(SCENES, 1)
    many = 0
    for k, target in ((1, 1), (2, 2), (3, 3)):
        labels = study[1].labels[k]
        assert set(np.unique(labels)) == {-1, target}
        # Whoever denies one class only says nothing else, rightly or not.
        assert np.array_equal(known[k][:, target][known[k][:, target] > 0].round(9), [1] * 4)
        assert denied[k][target, target] == 0
        others = [t for t in range(4) if t != target]
        np.testing.assert_allclose(denied[k][others, target], 1)
        np.testing.assert_allclose(denied[k][target, others], 1 / 3)
        np.testing.assert_allclose(denied[k].sum(axis=1), 1)
        many += int((labels[truth == target] == target).sum())
    assert many > 0, "they err"
    assert np.isnan(denied[[0, 4]]).all()
    np.testing.assert_allclose(known[4], np.eye(4))
    write_true_confusion(study, tmp_path / "known.npz", draws=4)
    written = np.load(tmp_path / "known.npz")
    np.testing.assert_allclose(written["confusion"][1], known, atol=1e-6)
    np.testing.assert_allclose(written["transition"][1], denied, atol=1e-6)
    write_true_confusion(simulate(SCENES, "box"), tmp_path / "masks.npz", draws=1)
    assert "transition" not in np.load(tmp_path / "masks.npz")


def test_a_draw_depends_on_seed_case_and_rater_only() -> None:
    whole = simulate(SCENES, "positive,negative@0.3,scribble,level1", seed=3)
    few = simulate(phantom_study("scenes", 2, (40, 44)), "box,scribble,negative@0.3", seed=3)
    assert few.cases == whole.cases[:2]
    where = {name: k for k, name in enumerate(whole.raters)}
    for name in ("scribble", "negative-tree"):
        assert np.array_equal(few[1].labels[few.raters.index(name)], whole[1].labels[where[name]])
    again = simulate(SCENES, "positive,negative@0.3,scribble,level1", seed=3)
    other = simulate(SCENES, "positive,negative@0.3,scribble,level1", seed=4)
    assert np.array_equal(again[2].labels, whole[2].labels)
    for k in range(len(whole.raters)):
        assert not np.array_equal(other[2].labels[k], whole[2].labels[k])


def test_pixels_without_truth_stay_missing() -> None:
    truth = np.zeros((1, 30, 30), np.int16)
    truth[0, 8:22, 8:22] = 1
    truth[0, :, :3] = -1
    for unmarked in ("rest", "unknown"):
        study = simulate(truth, "positive,negative,scribble,box,good:0.5", unmarked=unmarked)  # type: ignore[arg-type]
        labels = study[0].labels
        assert (labels[:, :, :3] == -1).all()
        if unmarked == "unknown":
            assert set(np.unique(labels[0])) == {-1, 1}
            assert set(np.unique(labels[1])) == {-1, 0}
        assert (labels[3][8:22, 8:22] == -1).all()
        assert (labels[3][:, 24:] == 0).all()


def test_teams_have_their_share_of_each_split() -> None:
    truth = np.zeros((30, 16, 16), np.int16)
    truth[:, 4:12, 4:12] = 1
    splits = ["train"] * 18 + ["val"] * 3 + ["test"] * 9
    source = Study.from_arrays(reference=truth, splits=splits)
    teams = {"mask": 2.0, "positive+negative": 1.0}
    study = simulate(source, "mask=good:0,positive,negative", assign=teams, seed=3)
    given = np.stack([(case.labels >= 0).any(axis=(1, 2)) for case in study])
    assert np.array_equal(given[:, 0], ~given[:, 1])
    assert np.array_equal(given[:, 1], given[:, 2])
    for split, number in (("train", 12), ("val", 2), ("test", 6)):
        assert given[study.index.splits == split, 0].sum() == number
    assert "assign mask 2, positive+negative 1" in study.about["simulated raters"]
    masks = [case.labels[0] for case, own in zip(study, given[:, 0], strict=True) if own]
    assert all(np.array_equal(mask, truth[0]) for mask in masks)
    alone = simulate(source, "mask=good:0", assign={"mask": 2.0, "": 1.0}, seed=3)
    assert [(case.labels >= 0).any() for case in alone] == given[:, 0].tolist()  # the same images
    assert "assign mask 2, nobody 1" in alone.about["simulated raters"]


@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_files_hold_the_marks_and_the_study_their_kinds(form: str, tmp_path: Path) -> None:
    raters = "good:0.5,positive@0.5,negative,scribble,box"
    study = simulate(SCENES, raters, seed=1, unmarked="unknown")
    kinds = ["mask", "positive", *["negative"] * 3, "scribble", "box"]
    assert list(study.annotations.values()) == kinds
    again = study.write(tmp_path / form, form)
    assert again.annotations == study.annotations
    assert again.unmarked == "unknown"
    for case, back in zip(study, again, strict=True):
        assert np.array_equal(back.labels, case.labels)
    if form == "packed":
        return
    for name in ("positive", "negative-tree"):
        held = np.asarray(Image.open(tmp_path / form / "labels" / name / "scenes00000.png"))
        drawn = study[0].labels[study.raters.index(name)]
        assert np.array_equal(held, np.where(drawn > 0, drawn, 0)), "0 is unmarked"


def test_the_command_line_draws_and_says_what_is_wrong(tmp_path: Path, run_raters: Run) -> None:
    call = ["simulate", "scenes", "--number", "2", "--shape", "40x44", "--raters"]
    done = run_raters(
        *call,
        "positive@0.5,negative",
        "--unmarked",
        "unknown",
        "-o",
        str(tmp_path / "a"),
        "--confusion",
        str(tmp_path / "known.npz"),
    )
    assert done.code == 0, done.err
    assert "negative-tree (negative at severity 0.5, 1 of the area)" in done.out
    from raters.study.read import read

    study = read(tmp_path / "a")
    assert study.unmarked == "unknown"
    assert study.annotations["negative-tree"] == "negative"
    expected = simulate(
        phantom_study("scenes", 2, (40, 44)), "positive@0.5,negative", unmarked="unknown"
    )
    assert np.array_equal(study[1].labels, expected[1].labels)
    assert np.load(tmp_path / "known.npz")["transition"].shape == (2, 4, 4, 4)
    for raters, usual in (("positive,negative", "unknown"), ("positive,box", "rest")):
        small = ["simulate", "lesions", "--number", "1", "--shape", "32x32", "--raters", raters]
        assert run_raters(*small, "-o", str(tmp_path / raters)).code == 0
        assert read(tmp_path / raters).unmarked == usual  # as files of these kinds are read
        assert simulate(LESIONS, raters).unmarked == "rest"
        assert simulate(LESIONS, raters, unmarked=None).unmarked == usual
    for raters, words in (("positive@2", "share 2"), ("level9", "found the rater 'level9'")):
        refused = run_raters(*call, raters, "-o", str(tmp_path / "b"))
        assert refused.code == 2
        assert words in refused.err
    discs = run_raters(
        "simulate", "discs-equal", "--number", "2", "--shape", "48x48", "-o", str(tmp_path / "c")
    )
    assert discs.code == 0, discs.err
    assert read(tmp_path / "c").raters[6] == "equal7"
    assert run_raters("simulate", "discs", "--shape", "32x32", "-o", str(tmp_path / "d")).code == 2
