"""Fusion by a trained model: joint posterior, files and tables, windows, what is refused."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io import formats
from raters.learning.methods import METHODS
from raters.learning.prediction.fuse_model import ModelConsensus
from raters.learning.prediction.predict import OVERLAP, gaussian_weights, starts_of
from raters.learning.training.model import Model
from raters.study.study import Study
from tests.support.command_line import Run, draw_masks, images_option, pattern, run_alone
from tests.support.models import make_model

FUSES = [name for name, entry in METHODS.items() if "fusion" in entry.answers]
CONFUSION = ["global-cm", "single-cm", "pixel-cm", "low-rank-cm", "oracle-cm"]
RATERS = ("ann", "bob", "cy")


def draw_mask_study(space: tuple[int, ...] = (6, 5), raters_of: tuple[str, ...] = RATERS) -> Study:
    """Draw masks of classes 0 and 4 with missing pixels, and a pixel that nobody labelled."""
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 2, (2, len(raters_of), *space))
    labels[0, ..., 0] = MISSING
    shown = rng.normal(size=(2, 1, *space)).astype(np.float32)
    return Study.from_arrays(shown, labels, raters=raters_of, classes={0: "class 0", 4: "class 4"})


def posterior(model: Model, case: Any, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Multiply the truth by the columns of the labels, one pixel and rater at a time."""
    truth = model.truth(case).astype(np.float64)
    matrices = model.confusion(case).astype(np.float64)
    space = truth.shape[1:]
    matrices = np.broadcast_to(matrices, (*matrices.shape[:3], *space))
    for place in np.ndindex(space):
        for k, name in enumerate(names):
            label = case.labels[(k, *place)]
            if label != MISSING:
                truth[(slice(None), *place)] *= matrices[
                    (model.config.raters.index(name), slice(None), label, *place)
                ]
    return np.asarray(truth / truth.sum(0))


@pytest.mark.parametrize("name", CONFUSION)
def test_image_and_labels_are_joined_as_the_model_says(name: str) -> None:
    """Raters are matched by name: here in another order, one of them absent."""
    model = make_model(name, raters=(*RATERS, "dan"))
    study = draw_mask_study(raters_of=("cy", "ann"))
    consensus = raters.fuse(study, name, model=model)
    for case, fusion in consensus.iter_cases():
        expected = posterior(model, case, ("cy", "ann"))
        np.testing.assert_allclose(fusion.truth, expected, rtol=1e-4)
        np.testing.assert_array_equal(fusion.labels, expected.argmax(0))
        assert fusion.confusion is not None
        counts = np.zeros((2, 2, 2))
        for k, label, place in [
            (k, case.labels[(k, *p)], p) for k in range(2) for p in np.ndindex(6, 5)
        ]:
            if label != MISSING:
                counts[k, :, label] += expected[(slice(None), *place)]
        rows = counts / counts.sum(2, keepdims=True)
        np.testing.assert_allclose(fusion.confusion, rows, rtol=1e-4)
    first = consensus[study.cases[0]].truth[:, :, 0]
    np.testing.assert_allclose(first, model.truth(study[0])[:, :, 0], rtol=1e-5)  # no label there


def test_volumes_larger_than_the_patch_come_in_windows() -> None:
    """The posteriors of windows, each fused alone, are blended as the windows of `predict` are."""
    side = (8, 8, 8)
    model = make_model("global-cm", spatial_dims=3, raters=RATERS, patch_size=side)
    study = draw_mask_study((12, 9, 8))
    found = raters.fuse(study, "global-cm", model=model)["0"].truth
    image = model.pixels(study["0"])
    labels = torch.from_numpy(study["0"].labels.astype(np.int64))
    sums = np.zeros((2, 12, 9, 8))
    total = np.zeros((12, 9, 8))
    weights = gaussian_weights(side)
    corners = list(product(*(starts_of(length, 8, OVERLAP) for length in (12, 9, 8))))
    for corner in corners:
        place = (slice(None), *(slice(k, k + 8) for k in corner))
        batch = {"image": image[place][None], "labels": labels[place][None]}
        with torch.no_grad():
            sums[place] += (model.method.fused(batch)[0] * weights).numpy()
        total[place[1:]] += weights.numpy()
    assert len(corners) == 4
    np.testing.assert_allclose(found, sums / total, rtol=1e-4)


def draw_table_study(tasks: int = 7, raters_of: tuple[str, ...] = RATERS) -> Study:
    """Make a table in which a rater answers a task twice."""
    rng = np.random.default_rng(1)
    labels = rng.integers(-1, 3, (tasks, len(raters_of)))
    features = rng.normal(size=(tasks, 4)).astype(np.float32)
    return Study.from_arrays(
        features, labels, raters=raters_of, classes={v: f"class {v}" for v in range(3)}
    )


@pytest.mark.parametrize("name", ["global-cm", "single-cm"])
def test_answers_of_a_table(name: str) -> None:
    model = make_model(
        name,
        kind="classification",
        spatial_dims=0,
        channels=4,
        values=(0, 1, 2),
        raters=("zoe", *RATERS[::-1]),
    )
    study = draw_table_study()
    consensus = raters.fuse(study, model=model)
    for k, case in enumerate(study.iter_cases()):
        p = model.truth(case).astype(np.float64)
        matrices = model.confusion(case)
        for rater, label in case.answers:
            p = p * matrices[model.config.raters.index(rater), :, label]
        np.testing.assert_allclose(consensus.table.truth[k], p / p.sum(), rtol=1e-4)
    assert list(consensus.labels.index) == list(study.cases)  # type: ignore[union-attr]
    assert consensus.notes == []
    said = {row["rater"] for row in consensus.rows}
    assert said == set(RATERS)


def test_a_vote_that_the_matrix_explains_is_fused_as_a_vote() -> None:
    config = make_model("single-cm", raters=RATERS).config
    on_vote = config.model_copy(update={"options": {**config.options, "on": "vote"}})
    torch.manual_seed(0)
    model = Model(on_vote.build().eval(), on_vote)
    labels = torch.tensor([1, 1, 0]).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    image = torch.randn(1, 1, 4, 4)
    batch = {"image": image, "labels": labels, "case": torch.zeros(1, dtype=torch.long)}
    column = model.method.confusion(image)[0, 0, :, 1]
    expected = model.method.truth(image) * column[None]
    with torch.no_grad():
        torch.testing.assert_close(model.method.fused(batch), expected / expected.sum(1))


class TestCommand:
    """`raters fuse --model` as a user runs it."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        draw_masks(tmp_path, RATERS, value=4)
        values = {"values": (0, 4)}
        make_model("global-cm", raters=RATERS, **values).save(tmp_path / "run")
        make_model("separate", raters=RATERS, **values).save(tmp_path / "separate")
        make_model("global-cm", raters=RATERS, values=(0, 2, 4)).save(tmp_path / "three")
        make_model("global-cm", raters=("ann", "bob"), **values).save(tmp_path / "two")
        return tmp_path

    def words(self, folder: Path, model: str = "run") -> list[object]:
        named = ["--values", "0=class 0,4=class 4"]
        study = [pattern(folder), *images_option(folder), *named]
        return ["fuse", *study, "--model", folder / model, "-o", folder / "out"]

    def test_files_and_resuming(self, folder: Path, run_raters: Run) -> None:
        said = run_raters(*self.words(folder), "-m", "global-cm", "--soft")
        assert said.code == 0, said.err
        assert "3 cases fused" in said.out
        study = raters.read(
            pattern(folder), images=f"{folder}/images/{{case}}.png", values="0=class 0,4=class 4"
        )
        model = raters.load(folder / "run")
        for case in study:
            expected = posterior(model, case, RATERS)
            found = formats.read_labels(folder / "out" / f"{case.id}.png").array
            np.testing.assert_array_equal(found, np.array([0, 4])[expected.argmax(0)])
        content = json.loads((folder / "out" / "raters.json").read_text())
        assert content["fusion"]["method"] == "global-cm"
        assert set(content["cases"]) == {"c0", "c1", "c2"}
        assert (folder / "out" / "raters.csv").read_text().startswith("case,rater,class,sensit")
        again = run_raters(*self.words(folder), "--soft")  # the method is that of the model
        assert again.code == 0 and "0 cases fused, 3 were there already" in again.out
        make_model("global-cm", raters=RATERS, norm="none").save(folder / "run")
        other = run_raters(*self.words(folder), "--soft")
        assert other.code == 2 and "holds other work" in other.err

    def test_a_case_without_an_image_fails_alone(self, folder: Path, run_raters: Run) -> None:
        (folder / "images" / "c1.png").unlink()
        said = run_raters(*self.words(folder))
        assert said.code == 2 and "no image of case 'c1'" in said.err
        assert (folder / "out" / "c0.png").exists() and not (folder / "out" / "c1.png").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("model", "more", "message"),
        [
            ("run", ["-m", "pixel-cm"], "found a model of global-cm, expected one of pixel-cm"),
            ("separate", [], "separate, which does not fuse labels, expected one of: "),
            ("three", [], "found the classes 0=class 0, 4=class 4, expected those of the model"),
            ("two", [], "found the rater 'cy', expected one of ann, bob"),
            ("nowhere", [], "nowhere"),
            ("run", ["--pool"], "found pool with a model, expected none"),
            ("run", ["--option", "ties=lowest"], "found ties with a model, expected none"),
            (
                "run",
                ["--engine", "dask", "--scheduler", "tcp://x:1"],
                "found --scheduler with --model",
            ),
        ],
    )
    def test_what_is_refused(
        self, model: str, more: list[str], message: str, folder: Path, run_raters: Run
    ) -> None:
        said = run_raters(*self.words(folder, model), *more)
        assert said.code == 2 and message in said.err
        assert not (folder / "out").exists() or not list((folder / "out").glob("*.png"))

    def test_methods_that_fuse_are_named(self, folder: Path, run_raters: Run) -> None:
        said = run_raters(*self.words(folder, "separate")).err
        assert all(name in said for name in FUSES) and set(CONFUSION) <= set(FUSES)
        assert "separate," not in said.split("expected one of")[1]

    def test_a_learning_method_needs_its_model(self, folder: Path, run_raters: Run) -> None:
        said = run_raters("fuse", pattern(folder), "-m", "max-mig", "-o", folder / "out")
        assert said.code == 2
        assert "found the method 'max-mig' without a model, expected --model RUN" in said.err

    def test_no_images(self, folder: Path, run_raters: Run) -> None:
        words = self.words(folder)
        del words[2:4]
        said = run_raters(*words)
        assert said.code == 2 and "found no images, expected some: a model fuses" in said.err

    @pytest.mark.slow
    def test_fusion_from_labels_alone_needs_no_torch(self, folder: Path) -> None:
        code = "import atexit; atexit.register(lambda: print('torch' in sys.modules))"
        words = ["fuse", pattern(folder), "-m", "vote", "-o", folder / "voted"]
        said = run_alone(*words, before=code)
        assert said.code == 0 and said.out.rstrip().endswith("False")


def test_a_table_with_a_task_without_features(tmp_path: Path) -> None:
    model = make_model(
        "global-cm", kind="classification", spatial_dims=2, values=(0, 1), raters=RATERS
    )
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        formats.write_labels(tmp_path / f"{name}.png", rng.integers(0, 255, (8, 8)).astype("u1"))
    rows = ["task,worker,label,image", "a,ann,0,a.png", "b,bob,1,b.png", "c,ann,1,"]
    (tmp_path / "answers.csv").write_text("\n".join(rows))
    study = raters.read(tmp_path / "answers.csv", images="image", values="0=class 0,1=class 1")
    consensus = raters.fuse(study, model=model)
    assert isinstance(consensus, ModelConsensus)
    assert consensus.table.labels[2] == MISSING and (consensus.table.labels[:2] >= 0).all()
    assert consensus.notes == ["1 task has no image: undecided"]
    with pytest.raises(RatersError, match="found a table, expected masks"):
        consensus.fuse_case(study[0])
    with pytest.raises(RatersError, match="found masks, expected a table"):
        _ = raters.fuse(draw_mask_study(), model=make_model("global-cm", raters=RATERS)).table  # type: ignore[attr-defined]
