"""Studies of simulated raters: the same from the seed whatever the order, written and read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from raters.core.errors import RatersError
from raters.simulation import (
    phantom_study,
    simulate,
    streak_study,
    true_confusion,
    write_true_confusion,
)
from raters.simulation.calibrate import dice
from raters.simulation.phantoms import streak_parts
from raters.simulation.shape import generator
from raters.study.study import Study
from raters.study.write import import_study

FIVE = "good:0.4,over:1.5,under:1,wrong:1.5,blank:1"
SOURCE = phantom_study("lesions", 8, (32, 32))


def labels_of(study: Study) -> dict[str, np.ndarray]:
    return {case.id: case.labels for case in study}


def test_a_study_passes_on_images_and_truth() -> None:
    study = simulate(SOURCE, FIVE)
    assert study.raters == ("good", "over", "under", "wrong", "blank")
    assert study.classes.names == ("background", "lesion")
    for case, source in zip(study, SOURCE, strict=True):
        assert case.labels.shape == (5, 32, 32)
        assert np.array_equal(case.image, source.image)
        assert np.array_equal(case.reference, source.reference)
        assert not case.labels[4].any()
    assert "over (over at severity 1.5)" in study.about["simulated raters"]


def test_the_seed_decides_whatever_the_order() -> None:
    expected = labels_of(simulate(SOURCE, FIVE, seed=1))
    study = simulate(SOURCE, FIVE, seed=1)
    for case in reversed(SOURCE.cases):
        assert np.array_equal(study[case].labels, expected[case])
    few = simulate(SOURCE.select(cases=["lesions5", "lesions2"]), "blank:1,over:1.5", seed=1)
    assert np.array_equal(few["lesions5"].labels[1], expected["lesions5"][1])
    moved = pickle.loads(pickle.dumps(study))
    assert np.array_equal(moved["lesions3"].labels, expected["lesions3"])
    other = labels_of(simulate(SOURCE, FIVE, seed=2))
    assert not np.array_equal(other["lesions3"], expected["lesions3"])
    alone = study.select(raters=["under"])["lesions1"].labels
    assert np.array_equal(alone[0], expected["lesions1"][2])


@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_written_and_read_back(form: str, tmp_path: Path) -> None:
    study = simulate(SOURCE, FIVE, assign=2, seed=4)
    result = import_study(study, tmp_path / "study", form)
    assert result.written == 8
    from raters.study.read import read

    again = read(tmp_path / "study")
    for case in study:
        assert np.array_equal(again[case.id].labels, case.labels)
        assert np.array_equal(again[case.id].reference, case.reference)
    assert import_study(study, tmp_path / "study", form).skipped == 8
    with pytest.raises(RatersError, match="other work"):
        import_study(simulate(SOURCE, FIVE, assign=2, seed=5), tmp_path / "study", form)


def test_who_was_not_asked_is_missing() -> None:
    study = simulate(SOURCE, FIVE, assign="one", seed=0)
    asked = np.stack([(case.labels != -1).all(axis=(1, 2)) for case in study])
    assert (asked.sum(axis=1) == 1).all()
    assert asked.sum(axis=0).max() <= 2
    shuffled = SOURCE.select(cases=list(SOURCE.cases)[::-1])
    again = simulate(shuffled, FIVE, assign="one", seed=0)
    assert all(np.array_equal(again[c].labels, study[c].labels) for c in study.cases)


def test_mean_dice_by_rater_and_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raters.simulation.calibrate._DRAWS", 200)
    source = phantom_study("lesions", 60, (32, 32))
    study = simulate(source, "over@0.6,under", mean_dice=0.8)
    scores = np.array(
        [[dice(m, c.reference, [1]) for m in c.labels] for c in study if c.reference is not None]
    )
    assert scores.mean(axis=0) == pytest.approx([0.6, 0.8], abs=0.03)
    study = simulate(source, "over,under:1,blank", group_dice=0.5)
    scores = np.array([[dice(m, c.reference, [1]) for m in c.labels] for c in study])
    assert scores.mean() == pytest.approx(0.5, abs=0.03)
    assert scores[:, 2].max() == 0


def test_true_confusion_is_one_matrix_an_image_and_rater(tmp_path: Path) -> None:
    study = simulate(SOURCE, FIVE)
    found = true_confusion(study, "lesions2", draws=4)
    assert found.shape == (5, 2, 2)
    assert found.sum(axis=-1) == pytest.approx(np.ones((5, 2)))
    assert found[4].tolist() == [[1, 0], [1, 0]]
    assert found[1, 1, 1] == 1
    assert found[1, 0, 1] > 0
    assert np.array_equal(found, true_confusion(study, 2, draws=4))
    part = study.select(raters=["blank", "over"], cases=["lesions2"])
    assert np.array_equal(true_confusion(part, 0, draws=4), found[[1, 4]])
    write_true_confusion(part, tmp_path / "confusion.npz", draws=4)
    with np.load(tmp_path / "confusion.npz") as file:
        assert file["confusion"][0] == pytest.approx(found[[1, 4]])
        assert file["raters"].tolist() == ["over", "blank"]
        assert file["cases"].tolist() == ["lesions2"]
    with pytest.raises(RatersError, match="not simulated"):
        true_confusion(SOURCE, 0)


def test_target_class_by_name() -> None:
    source = phantom_study("disc-cup", 3, (32, 32))
    for case in simulate(source, "over:2", target="cup"):
        assert np.array_equal(case.labels[0] == 0, (case.reference == 0) & (case.labels[0] != 2))
    with pytest.raises(RatersError, match=r"found the target 'rim', expected .* disc, cup"):
        simulate(source, "over:2", target="rim")


def test_class_labels(tmp_path: Path) -> None:
    truth = np.random.default_rng(0).integers(0, 10, 3000)
    source = Study.from_arrays(reference=truth, images=np.zeros((3000, 4), np.float32))
    study = simulate(source, "cifar,2xpairwise-flipper:0.7", assign=3, seed=1)
    assert study.raters[3:] == ("adversary", "pairwise-flipper", "pairwise-flipper2")
    triplets = study.triplets
    assert len(triplets) == 9000
    assert set(np.bincount(triplets.task)) == {3}
    matrices = true_confusion(study, 0)
    for rater in range(6):
        mine = triplets.rater == rater
        right = (triplets.label == truth[triplets.task])[mine].mean()
        assert right == pytest.approx(np.diag(matrices[rater]).mean(), abs=0.06)
    again = study.write(tmp_path / "study", "packed")
    assert again.triplets == triplets
    assert np.array_equal(again["7"].image, source["7"].image)
    write_true_confusion(study, tmp_path / "confusion.npz")
    with np.load(tmp_path / "confusion.npz") as file:
        assert file["confusion"].shape == (1, 6, 10, 10)


def test_class_labels_do_not_depend_on_the_order_of_cases() -> None:
    truth = np.arange(200) % 4
    names = [f"task{k}" for k in range(200)]
    study = simulate(Study.from_arrays(reference=truth, cases=names), "3xhammer-spammer:0.5")
    turned = Study.from_arrays(reference=truth[::-1], cases=names[::-1])
    again = simulate(turned, "3xhammer-spammer:0.5")
    assert all(list(study[n].answers) == list(again[n].answers) for n in names)


def test_own_matrices_and_dominance() -> None:
    truth = np.arange(60) % 2
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    study = simulate(truth, {"ann": np.eye(2), "eve": flip})
    assert study["1"].answers.label.tolist() == [1, 0]
    with pytest.raises(RatersError, match="column-dominant"):
        simulate(truth, {"eve": flip}, require_dominance=True)
    with pytest.raises(RatersError, match="rows are no probabilities"):
        simulate(truth, {"eve": 2 * flip})
    with pytest.raises(RatersError, match=r"shape \(3, 3\) for 'eve'"):
        simulate(truth, {"eve": np.eye(3)})


@pytest.mark.parametrize(
    ("raters", "options", "message"),
    [
        ("careless", {}, "expected one of good"),
        ("over", {"severity": 1, "mean_dice": 0.5}, "expected one"),
        ("over:1", {"assign": 2}, "found 2 raters per case, expected 1 to 1"),
        ("over:1", {"assign": "some"}, "found 'some'"),
        ("over@1.5", {}, "found the mean Dice 1.5"),
        ("over", {"severity": -3.0}, r"found the severity -3\.0, expected 0 or more"),
        ("over", {"severity": np.nan}, "found the severity nan"),
    ],
)
def test_bad_orders_are_refused(raters: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        simulate(SOURCE, raters, **options)  # type: ignore[arg-type]


def test_truth_is_needed() -> None:
    with pytest.raises(RatersError, match="expected a true mask"):
        study = Study.from_arrays(images=np.zeros((2, 1, 8, 8)))
        simulate(study, "over:1")[0].labels  # noqa: B018
    with pytest.raises(RatersError, match=r"expected a probability, as in 'hammer-spammer:0.6'"):
        simulate(np.arange(4) % 2, "hammer-spammer")
    with pytest.raises(RatersError, match="for class labels, expected pairwise-flipper"):
        simulate(np.arange(4) % 2, "over:1")


@pytest.mark.parametrize("shape", [(40, 40), (24, 24, 24)])
def test_streaks_are_marked_by_the_careless_majority_and_faint_lesions_by_the_careful(
    shape: tuple[int, ...],
) -> None:
    study = streak_study(30, shape, seed=3)
    marked = np.zeros((5, 4))
    found = np.zeros(4)
    for k, case in enumerate(study):
        parts = streak_parts(shape, generator(3, case.id))[1]
        assert np.array_equal(case.reference, np.isin(parts, (1, 2)))
        there = np.stack([parts == p for p in range(4)]).reshape(4, -1)
        marked += case.labels.reshape(5, -1) @ there.T.astype(float)
        found += there.sum(axis=1)
        grey = case.image[0].astype(float)
        assert np.median(grey[parts == 2]) > np.median(grey[parts == 0]) + 0.1
        assert (parts == 1).sum() == 0 or np.median(grey[parts == 1]) > 0.6
        if k:
            continue
        counted = true_confusion(study, 0)
        assert counted.shape == (5, 2, 2)
        np.testing.assert_allclose(counted.sum(axis=2), 1)
        lesion = there[1:3].any(axis=0)
        expected = 0.99 * there[1].sum() / lesion.sum() + 0.005  # of the careless: the bright one
        np.testing.assert_allclose(counted[2:, 1, 1], expected, atol=0.02)
        streaks = there[3].sum() / (~lesion).sum()
        np.testing.assert_allclose(counted[2:, 0, 1], 0.8 * streaks + 0.005, atol=0.5 * streaks)
    shares = marked / found
    np.testing.assert_allclose(shares[:2], np.tile([0.005, 0.995, 0.995, 0.005], (2, 1)), atol=0.02)
    np.testing.assert_allclose(shares[2:, :3], np.tile([0.005, 0.995, 0.005], (3, 1)), atol=0.02)
    assert (np.abs(shares[2:, 3] - 0.8) < 0.25).all()
    one = streak_study(30, shape, seed=3, assign="one")
    assert all(
        (case.labels >= 0).any(axis=tuple(range(1, 1 + len(shape)))).sum() == 1 for case in one
    )
