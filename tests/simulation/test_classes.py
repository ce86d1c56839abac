"""Class raters say what their matrices say; labels are handed out as asked."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.metrics.confusion.matrices import is_dominant
from raters.simulation.classes import (
    CIFAR_CLASSES,
    KINDS,
    cifar_raters,
    draw_labels,
    group,
    hammer_spammer,
    pairwise_flipper,
)
from raters.simulation.specs import assign, parse_assign, parse_raters

Matrix = NDArray[np.float64]


def all_matrices() -> dict[str, Matrix]:
    rng = np.random.default_rng(0)
    kinds = {name: kind(0.6, 10, rng) for name, kind in KINDS.items()}
    return kinds | {
        "any": hammer_spammer(0.3, 4),
        **{f"cifar {k}": m for k, m in cifar_raters().items()},
    }


@pytest.mark.parametrize("name", list(all_matrices()))
def test_labels_follow_the_stated_matrix(name: str) -> None:
    matrix = all_matrices()[name]
    size = len(matrix)
    truth = np.repeat(np.arange(size), 10_000)
    labels = draw_labels(truth, matrix[None], np.random.default_rng(1))[:, 0]
    counts = np.zeros((size, size))
    np.add.at(counts, (truth, labels), 1)
    possible = matrix > 0
    assert counts[~possible].sum() == 0
    expected = matrix[possible] * 10_000
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = possible.sum() - size
    assert chi_square <= freedom + 5 * np.sqrt(2 * max(freedom, 1))
    assert matrix.sum(axis=1) == pytest.approx(np.ones(size))


def test_flippers_flip_each_class_to_one_other_chosen_uniformly() -> None:
    rng = np.random.default_rng(0)
    matrices = np.stack([pairwise_flipper(0.3, 5, rng) for _ in range(4000)])
    assert (np.diagonal(matrices, axis1=1, axis2=2) == 0.3).all()
    assert ((matrices > 0).sum(axis=2) == 2).all()
    targets = (matrices == 0.7).mean(axis=0)
    assert targets[~np.eye(5, dtype=bool)] == pytest.approx(np.full(20, 0.25), abs=0.03)


def test_spammers_guess_any_label_or_any_other() -> None:
    assert np.diag(hammer_spammer(0.6, 10)) == pytest.approx(np.full(10, 0.64))
    assert np.diag(hammer_spammer(0.6, 10, guess="other")) == pytest.approx(np.full(10, 0.6))
    assert hammer_spammer(0.0, 4) == pytest.approx(np.full((4, 4), 0.25))


def test_cifar_raters_are_right_45_percent_on_average() -> None:
    raters = cifar_raters()
    mean = np.mean([np.diag(matrix).mean() for matrix in raters.values()])
    assert mean == pytest.approx(0.45, abs=1e-12)
    assert is_dominant(np.stack(list(raters.values())))
    cat = CIFAR_CLASSES.index("cat")
    dog = CIFAR_CLASSES.index("dog")
    assert raters["similar"][cat, dog] == raters["similar"][dog, cat] == 0.4
    assert np.diag(raters["adversary"]).sum() == 0


def test_groups_have_their_mean_skill_and_spread() -> None:
    matrices = group(pairwise_flipper, 0.6, 10, np.random.default_rng(0), raters=4000)
    skills = matrices[:, 0, 0]
    assert skills.mean() == pytest.approx(0.6, abs=0.001)
    assert skills.std() == pytest.approx(0.01, abs=0.001)
    assert (matrices.diagonal(axis1=1, axis2=2) == skills[:, None]).all()


def test_dominance_can_be_demanded() -> None:
    rng = np.random.default_rng(0)
    plain = [is_dominant(group(pairwise_flipper, 0.35, 10, rng)) for _ in range(30)]
    assert not all(plain)
    for _ in range(10):
        assert is_dominant(group(pairwise_flipper, 0.35, 10, rng, require_dominance=True))
    with pytest.raises(RatersError, match=r"no column-dominant group in 20 draws .* -0\."):
        group(pairwise_flipper, 0.05, 3, rng, require_dominance=True, tries=20)


def test_missing_truth_gives_missing_labels() -> None:
    labels = draw_labels(np.array([-1, 2]), np.eye(3)[None], np.random.default_rng(0))
    assert labels.tolist() == [[-1], [2]]


@pytest.mark.parametrize(("p", "classes"), [(1.2, 3), (0.5, 1)])
def test_impossible_matrices_are_refused(p: float, classes: int) -> None:
    for kind in KINDS.values():
        with pytest.raises(RatersError, match="expected"):
            kind(p, classes, np.random.default_rng(0))


@pytest.mark.parametrize(("how", "each"), [("all", 5), ("one", 1), (2, 2), (5, 5)])
def test_every_case_has_the_asked_number_of_raters(how: object, each: int) -> None:
    given = assign(101, list("abcde"), how, np.random.default_rng(0))  # type: ignore[arg-type]
    assert given.shape == (101, 5)
    assert (given.sum(axis=1) == each).all()
    load = given.sum(axis=0)
    assert load.max() - load.min() <= 1


def test_raters_of_k_meet_all_others() -> None:
    given = assign(600, list("abcd"), 2, np.random.default_rng(0))
    together = given.T.astype(int) @ given
    assert together[~np.eye(4, dtype=bool)].min() > 50


def test_shares_are_kept() -> None:
    given = assign(200, list("abc"), (0.5, 1, 0.25), np.random.default_rng(0))
    assert given.sum(axis=0).tolist() == [100, 200, 50]
    assert 0 < (given[:, 0] & given[:, 2]).sum() < 50


@pytest.mark.parametrize("how", ["some", 6, 0, (0.5, 1), (0.5, 1, 2, 0, 0)])
def test_impossible_assignments_are_refused(how: object) -> None:
    with pytest.raises(RatersError, match="expected"):
        assign(10, list("abcde"), how, np.random.default_rng(0))  # type: ignore[arg-type]


def test_each_case_has_one_team() -> None:
    names = ["mask", "positive", "negative"]
    given = assign(30, names, {"mask": 400, "positive+negative": 200}, np.random.default_rng(0))
    assert given.sum(axis=0).tolist() == [20, 10, 10]
    assert np.array_equal(given[:, 1], given[:, 2])
    assert np.array_equal(given[:, 0], ~given[:, 1])
    assert 0 < np.flatnonzero(given[:, 1])[0] < 20, "at random"
    assert parse_assign("mask=2, positive+negative=1") == {"mask": 2, "positive+negative": 1}
    for teams, message in (
        ({"mask": 1, "posit+negative": 1}, "'posit' in the team 'posit.negative', expected"),
        ({"mask": 1, "positive": 0}, "expected numbers above 0"),
        ({"mask": np.nan}, "expected numbers above 0"),
    ):
        with pytest.raises(RatersError, match=message):
            assign(10, names, teams, np.random.default_rng(0))


def test_assignments_are_read_from_text() -> None:
    assert parse_assign("all") == "all"
    assert parse_assign("3") == 3
    assert parse_assign("0.5,1") == (0.5, 1.0)
    with pytest.raises(RatersError, match="found 'few'"):
        parse_assign("few")


def test_raters_are_read_from_text() -> None:
    specs = parse_raters("good, over:2.5,over@0.7 ,over2=under,2xmiss-small:1e1")
    assert [s.name for s in specs] == [
        "good",
        "over",
        "over2",
        "over22",
        "miss-small",
        "miss-small2",
    ]
    assert [s.amount for s in specs] == [None, 2.5, None, None, 10.0, 10.0]
    assert [s.mean_dice for s in specs] == [None, None, 0.7, None, None, None]
    for text in ("", "over:", "over:x", "over:2@3", "0xover", "good,,over"):
        with pytest.raises(RatersError, match="expected a kind"):
            parse_raters(text)
