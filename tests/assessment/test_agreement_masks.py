"""Agreement of masks against plain loops with scikit-learn, krippendorff and the definitions."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, f1_score, jaccard_score

import raters
from raters.assessment.agreement_case import case_agreement, entropy_map, write_entropy_maps
from raters.core.errors import RatersError
from raters.io import formats
from raters.metrics.surface import hd95
from raters.study.study import Study
from tests.support.command_line import Run

NAMES = ["ann", "bob", "cy"]


def draw_study_with_gaps(
    seed: int, cases: int = 4, classes: int = 3, missing: float = 0.1
) -> Study:
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, (cases, 1, 6, 7))
    labels = np.where(random.random((cases, 3, 6, 7)) < 0.7, truth, 0)
    labels[random.random(labels.shape) < missing] = -1
    labels[0, 2] = -1  # cy skipped the first case
    return Study.from_arrays(
        labels=labels, raters=NAMES, classes=["background", "a", "b"][:classes]
    )


def arrays(study: Study) -> np.ndarray:
    return np.stack([case.labels for case in study])


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_pairs_equal_a_loop_with_scikit_learn(seed: int) -> None:
    study = draw_study_with_gaps(seed)
    result = raters.agree(study)
    labels = arrays(study)
    rows = {(r["rater_a"], r["rater_b"], r["class"]): r for r in result.pairs}
    for a, b in combinations(range(3), 2):
        by_case: dict[int, list[float]] = {}
        for c, name in ((1, "a"), (2, "b")):
            dice = []
            iou = []
            for k, case in enumerate(labels):
                both = (case[a] >= 0) & (case[b] >= 0)
                first = case[a][both] == c
                second = case[b][both] == c
                if first.any() or second.any():
                    dice.append(f1_score(first, second))
                    by_case.setdefault(k, []).append(dice[-1])
                    iou.append(jaccard_score(first, second))
            row = rows[NAMES[a], NAMES[b], name]
            assert row["dice"] == pytest.approx(np.mean(dice), abs=1e-12)
            assert row["iou"] == pytest.approx(np.mean(iou), abs=1e-12)
        row = rows[NAMES[a], NAMES[b], "all"]
        expected = np.mean([np.mean(values) for values in by_case.values()])
        assert row["dice"] == pytest.approx(expected, abs=1e-12)
        both = (labels[:, a] >= 0) & (labels[:, b] >= 0)
        kappa = cohen_kappa_score(labels[:, a][both], labels[:, b][both])
        assert row["kappa"] == pytest.approx(kappa, abs=1e-12)
        assert row["cases"] == int(both.any(axis=(1, 2)).sum())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_alpha_over_all_voxels_equals_krippendorff(seed: int) -> None:
    study = draw_study_with_gaps(seed)
    overall = {row["class"]: row for row in raters.agree(study).overall}
    flat = arrays(study).transpose(1, 0, 2, 3).reshape(3, -1)
    for name, data in (("all", flat), ("b", np.where(flat < 0, -1, flat == 2))):
        expected = krippendorff.alpha(
            np.where(data < 0, np.nan, data), level_of_measurement="nominal"
        )
        assert overall[name]["krippendorff_alpha"] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_rater_against_what_most_of_the_rest_say(seed: int) -> None:
    study = draw_study_with_gaps(seed)
    rows = {(r["rater"], r["class"]): r for r in raters.agree(study).raters}
    for k, rater in enumerate(NAMES):
        dice = []
        for case in arrays(study):
            own = []
            vote = []
            for i, j in np.ndindex(case.shape[1:]):
                others = [int(case[r, i, j]) for r in range(3) if r != k and case[r, i, j] >= 0]
                best = [c for c in range(3) if others.count(c) == max(map(others.count, range(3)))]
                if others and len(best) == 1 and case[k, i, j] >= 0:
                    own.append(int(case[k, i, j]) == 1)
                    vote.append(best[0] == 1)
            if any(own) or any(vote):
                dice.append(f1_score(vote, own))
        assert rows[rater, "a"]["dice_rest"] == pytest.approx(np.mean(dice), abs=1e-12)


def test_volumes_and_bias() -> None:
    labels = np.zeros((2, 2, 4, 4), int)
    labels[0, 0, :2] = 1  # 8 pixels
    labels[0, 1, :1] = 1  # 4, as in both of the other case
    labels[1, 0, :1] = 1
    labels[1, 1, :1] = 1
    affine = np.diag([2.0, 3.0, 1.0])
    study = Study.from_arrays(labels=labels, raters=["ann", "bob"], affines=[affine, affine])
    ann, bob = (r for r in raters.agree(study).raters if r["class"] == "all")
    assert (ann["volume"], bob["volume"]) == (6 * 6, 4 * 6)
    assert ann["bias"] == pytest.approx((8 / 4 - 1) / 2)
    assert bob["bias"] == pytest.approx((4 / 8 - 1) / 2)


def test_a_rater_who_labelled_a_part_has_no_volume_and_biases_nobody() -> None:
    labels = np.zeros((1, 3, 4, 4), int)
    labels[0, :, :, 1:3] = 1
    labels[0, 2, 2:] = -1
    rows = {r["rater"]: r for r in raters.agree(Study.from_arrays(labels=labels)).raters}
    assert [rows[name]["bias"] for name in "012"] == [0.0, 0.0, None]
    assert [rows[name]["volume"] for name in "012"] == [8.0, 8.0, None]


def test_volume_and_bias_of_all_classes_are_of_all_foreground() -> None:
    labels = np.zeros((1, 2, 4, 4), int)
    labels[0, 0, 0] = 1  # 4 pixels
    labels[0, 0, 1] = 2  # + 4
    labels[0, 1, :3] = 2  # 0 + 12
    study = Study.from_arrays(labels=labels, classes=["background", "a", "b"])
    rows = {(r["rater"], r["class"]): r for r in raters.agree(study).raters}
    assert rows["0", "all"]["volume"] == 8 and rows["1", "all"]["volume"] == 12
    assert rows["0", "all"]["bias"] == pytest.approx(8 / 12 - 1)
    assert rows["0", "b"]["bias"] == pytest.approx(4 / 12 - 1)
    assert rows["0", "a"]["bias"] is None  # the other drew none


def test_surfaces_are_those_of_the_scores() -> None:
    study = draw_study_with_gaps(5, missing=0.0)
    rows = {
        (r["rater_a"], r["rater_b"], r["class"]): r
        for r in raters.agree(study, surfaces=True).pairs
    }
    expected = [hd95(case[0] == 2, case[1] == 2) for case in arrays(study)]
    assert rows["ann", "bob", "b"]["hd95"] == pytest.approx(np.mean(expected))


def test_cases_are_ranked_by_disagreement() -> None:
    labels = np.zeros((3, 2, 4, 4), int)
    labels[:, 0, :2] = 1
    labels[0, 1, :2] = 1  # the same
    labels[1, 1, 2:] = 1  # nothing in common
    labels[2, 1, :1] = 1  # half of it
    result = raters.agree(Study.from_arrays(labels=labels, cases=["same", "none", "half"]))
    assert [row["case"] for row in result.cases] == ["none", "half", "same"]
    assert [row["dice"] for row in result.cases] == pytest.approx([0, 2 / 3, 1])
    assert [row["differing"] for row in result.cases] == pytest.approx([1, 0.25, 0])
    assert [row["entropy"] for row in result.cases] == pytest.approx([1, 0.25, 0])


def test_entropy_map_by_a_loop() -> None:
    labels = np.random.default_rng(0).integers(-1, 3, (4, 5, 6))
    found = entropy_map(labels, 3)
    for i, j in np.ndindex(5, 6):
        seen = labels[:, i, j][labels[:, i, j] >= 0]
        shares = np.unique(seen, return_counts=True)[1] / max(len(seen), 1)
        assert found[i, j] == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-6)


def test_many_raters_give_the_same_counts_by_sorting() -> None:
    """With 25 raters the patterns are too many for a table."""
    labels = np.random.default_rng(0).integers(-1, 2, (25, 8, 9))
    counted = case_agreement("a", labels.astype(np.int16), 2, (1.0, 1.0))
    for k, (a, b) in enumerate(combinations(range(25), 2)):
        both = (labels[a] >= 0) & (labels[b] >= 0)
        expected = np.zeros((2, 2), int)
        np.add.at(expected, (labels[a][both], labels[b][both]), 1)
        np.testing.assert_array_equal(counted.pairs[k], expected)


def test_maps_are_written_with_geometry(tmp_path: Path) -> None:
    labels = np.zeros((1, 2, 3, 4, 5), int)
    labels[0, 0, 1] = 1
    affine = np.diag([1.0, 2.0, 3.0, 1.0])
    study = Study.from_arrays(labels=labels, cases=["p/1"], affines=[affine])
    assert write_entropy_maps(study, tmp_path) == 1
    volume = formats.read_image(tmp_path / "p/1.nii.gz")
    np.testing.assert_array_equal(volume.array.squeeze(), entropy_map(labels[0], 2))
    np.testing.assert_array_equal(volume.affine, affine)
    flat = Study.from_arrays(labels=labels[:, :, 0], cases=["flat"])
    write_entropy_maps(flat, tmp_path)
    assert formats.read_image(tmp_path / "flat.png").array.max() == 0


def test_one_rater_is_refused() -> None:
    with pytest.raises(RatersError, match="only the rater 'ann', expected at least two"):
        raters.agree(Study.from_arrays(labels=np.zeros((1, 1, 2, 2), int), raters=["ann"]))


def test_raters_without_common_cases_have_no_scores_and_a_note() -> None:
    labels = np.full((2, 2, 3, 3), -1)
    labels[0, 0] = 1
    labels[1, 1] = 1
    result = raters.agree(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
    assert result.pairs[-1]["cases"] == 0
    assert result.pairs[-1]["dice"] is None and result.pairs[-1]["kappa"] is None
    assert result.notes == ["no two raters labelled the same voxel: there is nothing to compare"]


def test_some_pairs_without_common_cases_are_named() -> None:
    labels = np.full((3, 3, 3, 3), -1)
    labels[0, 0] = 1
    labels[1, 1] = 1
    labels[2, 1:] = 1
    notes = raters.agree(Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"])).notes
    assert "raters 'ann' and 'bob' have no labelled voxel in common" in notes
    assert "not counted, as fewer than two raters labelled them: 2 cases" in notes


def test_all_averages_are_of_the_same_numbers_of_pairs_on_cases() -> None:
    """The mean over pairs' rows is that over all only if each pair has each case, as here."""
    labels = np.zeros((2, 3, 6, 6), int)
    labels[0, 0, :2] = 1
    labels[0, 1, :3] = 1
    labels[0, 2, 1:3] = 2
    labels[1, 0, :2] = 2
    labels[1, 1, :2] = 1
    labels[1, 2, :1] = 2
    result = raters.agree(Study.from_arrays(labels=labels, classes=["background", "a", "b"]))
    pairs = [row["dice"] for row in result.pairs if row["class"] == "all"]
    cases = [row["dice"] for row in result.cases]
    assert result.overall[-1]["dice"] == pytest.approx(np.mean(pairs))
    assert result.overall[-1]["dice"] == pytest.approx(np.mean(cases))


def test_a_class_that_nobody_used_has_no_scores_and_a_note() -> None:
    labels = np.zeros((1, 2, 3, 3), int)
    labels[0, :, 0] = 1
    study = Study.from_arrays(labels=labels, classes=["background", "a", "never"])
    result = raters.agree(study)
    rows = {row["class"]: row for row in result.overall}
    empty = {key: value for key, value in rows["never"].items() if key != "class"}
    assert set(empty.values()) == {None}
    assert all(row["kappa_rest"] is None for row in result.raters if row["class"] == "never")
    assert rows["all"]["dice"] == 1.0
    assert any("'never'" in note for note in result.notes)


def test_pairs_without_a_common_case_are_a_note_and_no_failure(
    tmp_path: Path, run_raters: Run
) -> None:
    for rater, case, size in (("ann", "a", 3), ("bob", "a", 4), ("bob", "b", 3), ("cy", "b", 2)):
        mask = np.zeros((8, 8), np.uint8)
        mask[1 : 1 + size, 1:5] = 1
        formats.write_labels(tmp_path / f"{rater}/{case}.png", mask)
    masks = f"{tmp_path}/{{rater}}/{{case}}.png"
    done = run_raters("agree", masks, "-o", tmp_path / "out")
    assert done.code == 0 and done.err == ""
    assert "note: raters 'ann' and 'cy' have no labelled voxel in common" in done.out
    assert len((tmp_path / "out/pairs.csv").read_text().splitlines()) == 1 + 3
