"""`raters suggest`: bits against loops from the formula, windows against all windows, the verb."""

from __future__ import annotations

import csv
import functools
import json
from itertools import product
from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raters
from raters.core.errors import RatersError
from raters.learning.prediction.fuse_model import fuse_with
from raters.planning.suggest import _said, best_windows, label_bits, suggest, window_sums
from raters.study.study import Study
from tests.support.command_line import Run
from tests.support.makers import save
from tests.support.models import RATERS, make_model

RNG = np.random.default_rng(0)
CLASSES = {0: "class 0", 4: "class 4"}  # of `make_model`


def simplex(*shape: int) -> np.ndarray:
    """Draw probabilities over the last axis."""
    return RNG.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


@pytest.fixture
def run_suggest(run_raters: Run) -> Run:
    """Run `raters suggest`."""
    return functools.partial(run_raters, "suggest")


class TestBits:
    """What one more label would tell."""

    def test_mutual_information_in_plain_loops(self) -> None:
        truth = np.moveaxis(simplex(2, 3, 3), -1, 0)  # (L, *space)
        matrices = np.moveaxis(simplex(2, 2, 3, 3, 3), (3, 4), (1, 2))  # (raters, L, L, *space)
        found = label_bits(truth, matrices)
        for place in product(range(2), range(3)):
            total = 0.0
            for matrix in matrices:
                p = truth[:, *place]
                c = matrix[:, :, *place]
                for t, o in product(range(3), range(3)):
                    said = sum(p[s] * c[s, o] for s in range(3))
                    total += p[t] * c[t, o] * log2(c[t, o] / said)
            assert found[place] == pytest.approx(total / len(matrices), abs=1e-5)

    def test_raters_who_tell_nothing_and_all(self) -> None:
        truth = np.array([[0.5, 1.0, 0.25], [0.5, 0.0, 0.75]], np.float32)
        right = np.eye(2, dtype=np.float32)
        blank = np.array([[1, 0], [1, 0]], np.float32)
        entropy = label_bits(truth)
        assert entropy.tolist() == pytest.approx([1, 0, 0.811278], abs=1e-5)
        assert label_bits(truth, right[None, ..., None]) == pytest.approx(entropy, abs=1e-6)
        assert label_bits(truth, blank[None, ..., None]) == pytest.approx(0, abs=1e-6)
        unknown = np.stack([right, np.full((2, 2), np.nan, np.float32)])[..., None]
        assert label_bits(truth, unknown) == pytest.approx(entropy, abs=1e-6)

    @settings(deadline=None)
    @given(st.integers(0, 1000))
    def test_a_label_tells_no_more_than_the_entropy(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        truth = rng.dirichlet(np.ones(3) / 2, 4).T.astype(np.float32)
        matrices = rng.dirichlet(np.ones(3) / 2, (2, 3)).astype(np.float32)[..., None]
        bits = label_bits(truth, matrices)
        assert (bits >= 0).all()
        assert (bits <= label_bits(truth) + 1e-5).all()


class TestWindows:
    """Patches that hold most bits."""

    @pytest.mark.parametrize(("space", "size"), [((9, 12), (4, 5)), ((5, 6, 4), (2, 3, 4))])
    def test_sums_of_all_windows(self, space: tuple[int, ...], size: tuple[int, ...]) -> None:
        values = RNG.random(space).astype(np.float32)
        found = window_sums(values, size)
        starts = [range(n - side + 1) for n, side in zip(space, size, strict=True)]
        assert found.shape == tuple(len(s) for s in starts)
        for start in product(*starts):
            here = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
            assert found[start] == pytest.approx(values[here].sum(), abs=1e-5)

    def test_best_first_without_overlap(self) -> None:
        bits = RNG.random((40, 30)).astype(np.float32)
        found = best_windows(bits, (8, 8), 50)
        assert len(found) > 5
        assert [w.bits for w in found] == sorted((w.bits for w in found), reverse=True)
        covered = np.zeros(bits.shape, int)
        for window in found:
            here = tuple(slice(a, a + n) for a, n in zip(window.start, window.size, strict=True))
            assert bits[here].sum() == pytest.approx(window.bits, rel=1e-5)
            covered[here] += 1
        assert covered.max() == 1
        assert found[0].bits == pytest.approx(
            window_sums(bits, (8, 8))[np.ix_([*range(0, 32, 2), 32], [*range(0, 22, 2), 22])].max()
        )

    def test_images_smaller_than_a_patch_and_without_bits(self) -> None:
        assert best_windows(np.ones((3, 4), np.float32), (8, 8), 5) == [((0, 0), (3, 4), 12.0)]
        assert best_windows(np.zeros((9, 9), np.float32), (3, 3), 5) == []


def pool(number: int = 6) -> Study:
    images = RNG.normal(size=(number, 1, 24, 32)).astype(np.float32)
    return Study.from_arrays(images=images)


class TestSuggest:
    """Cases and patches of a study by a model."""

    def test_cases_are_ranked_by_what_the_model_knows(self) -> None:
        model = make_model("vote")
        study = pool()
        found = suggest(model, study, num_cases=4, num_patches=3, patch_size=(8, 8))
        bits = {
            case.id: label_bits(model.truth(case), model.confusion(case))
            for case in study.iter_cases()
        }
        expected = {name: float(found.sum()) for name, found in bits.items()}
        assert [row["rank"] for row in found.cases] == [1, 2, 3, 4]
        assert all(type(row["bits_per_pixel"]) is float for row in found.cases)  # shown as one
        told = {row["case"]: row["bits"] for row in found.cases}
        assert told == pytest.approx({name: expected[name] for name in told}, rel=1e-4)
        assert list(told.values()) == sorted(told.values(), reverse=True)
        left = [expected[name] for name in expected.keys() - told.keys()]
        assert min(told.values()) > max(left) - 1e-4
        assert len(found.patches) == 3
        first = found.patches[0]
        start = [int(n) for n in first["start"].split(",")]
        here = tuple(slice(a, a + 8) for a in start)
        assert first["bits"] == pytest.approx(bits[first["case"]][here].sum(), rel=1e-4)

    def test_matrices_and_labels_that_are_there_count(self) -> None:
        model = make_model("global-cm")
        images = RNG.normal(size=(2, 1, 8, 8)).astype(np.float32)
        labels = np.full((2, len(RATERS), 8, 8), -1, np.int16)
        labels[1] = RNG.integers(0, 2, (len(RATERS), 8, 8))
        study = Study.from_arrays(images=images, labels=labels, raters=RATERS, classes=CLASSES)
        found = {row["case"]: row for row in suggest(model, study).cases}
        assert [found[c]["labelled_by"] for c in ("0", "1")] == [0, len(RATERS)]
        alone = label_bits(model.truth(study["0"]), model.confusion(study["0"]))
        assert found["0"]["bits"] == pytest.approx(float(alone.sum()), rel=1e-5)
        fused = fuse_with(study, None, model).fuse_case(study["1"]).truth
        both = label_bits(np.asarray(fused, np.float32), model.confusion(study["1"]))
        assert found["1"]["bits"] == pytest.approx(float(both.sum()), rel=1e-5)

    def test_those_who_exclude_classes_tell_by_what_they_exclude(self) -> None:
        """Of three classes alike, one who never errs tells log2(3) bits; 'not q' log2(3) - 1."""
        right = np.eye(3, dtype=np.float32)[..., None]
        unknown = np.full((3, 3), np.nan)
        uniform = (1 - np.eye(3, dtype=np.float32)) / 2
        matrices = _said(np.stack([right, right]), np.stack([uniform, unknown]))
        assert matrices is not None
        unsure = np.full((3, 1), 1 / 3, np.float32)
        assert label_bits(unsure, matrices[:1]) == pytest.approx(log2(3) - 1, abs=1e-5)
        assert label_bits(unsure, matrices[1:]) == pytest.approx(log2(3), abs=1e-5)

    def test_bad_values(self) -> None:
        model = make_model("vote")
        with pytest.raises(RatersError, match=r"found patches of \(8,\), expected 2 sides"):
            suggest(model, pool(2), patch_size=(8,))
        with pytest.raises(RatersError, match="found -1 cases"):
            suggest(model, pool(2), num_cases=-1)
        labels = np.zeros((1, 2, 8, 8), np.int16)
        labels[:, :, 2:4] = 1
        with pytest.raises(RatersError, match="found no images"):
            suggest(model, Study.from_arrays(labels=labels, classes=CLASSES))


class TestVerb:
    """`raters suggest RUN STUDY`."""

    def test_images_alone(self, run_suggest: Run, tmp_path: Path) -> None:
        make_model("vote").save(tmp_path / "run")
        for k in range(3):
            save(tmp_path / f"images/c{k}.png", RNG.integers(0, 255, (24, 32), dtype=np.uint8))
        outcome = run_suggest(
            tmp_path / "run",
            f"{tmp_path}/images/{{case}}.png",
            "-o",
            tmp_path / "next",
            "--patch-size",
            "8,8",
            "--num-patches",
            "5",
        )
        assert outcome.code == 0, outcome.err
        with (tmp_path / "next/patches.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 5
        assert {row["size"] for row in rows} == {"8,8"}
        assert (tmp_path / "next/suggestions.png").stat().st_size > 10_000
        found = json.loads((tmp_path / "next/suggestions.json").read_text())
        assert [row["rank"] for row in found["cases"]] == [1, 2, 3]
        assert "images" in outcome.out
        assert "patches" in outcome.out

    def test_a_case_that_cannot_be_read(self, run_suggest: Run, tmp_path: Path) -> None:
        make_model("vote").save(tmp_path / "run")
        save(tmp_path / "images/good.png", RNG.integers(0, 255, (8, 8), dtype=np.uint8))
        (tmp_path / "images/bad.png").write_bytes(b"no picture")
        outcome = run_suggest(tmp_path / "run", tmp_path / "images", "--json")
        assert outcome.code == 2
        assert "bad.png" in outcome.err
        assert [row["case"] for row in json.loads(outcome.out)["cases"]] == ["good"]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--patch-size", "big"], "--patch-size: found 'big', expected whole numbers"),
            (["--patch-size", "8,8,8"], "found patches of (8, 8, 8), expected 2 sides"),
        ],
    )
    def test_bad_words(self, run_suggest: Run, tmp_path: Path, words: list[str], said: str) -> None:
        make_model("vote").save(tmp_path / "run")
        save(tmp_path / "images/a.png", RNG.integers(0, 255, (8, 8), dtype=np.uint8))
        outcome = run_suggest(tmp_path / "run", tmp_path / "images", *words)
        assert outcome.code == 2
        assert said in " ".join(outcome.err.split())

    def test_no_run(self, run_suggest: Run, tmp_path: Path) -> None:
        save(tmp_path / "images/a.png", RNG.integers(0, 255, (8, 8), dtype=np.uint8))
        assert run_suggest(tmp_path, tmp_path / "images").code == 2


def test_volumes(tmp_path: Path) -> None:
    """The slice with most bits is drawn, and patches have three sides."""
    model = make_model("vote", spatial_dims=3)
    study = Study.from_arrays(images=RNG.normal(size=(2, 1, 12, 16, 8)).astype(np.float32))
    found = suggest(model, study, num_patches=4, patch_size=(4, 4, 4))
    assert all(row["size"] == "4,4,4" for row in found.patches)
    found.write(tmp_path / "next")
    found.draw(model, study, tmp_path / "next")
    assert (tmp_path / "next/suggestions.png").exists()


def test_from_python() -> None:
    assert raters.suggest is suggest
