"""Samples and weights of raters, from a toy method to files: one latent per image."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import raters
from raters.core.errors import RatersError
from raters.learning.evaluation.watch import score_and_watch
from raters.learning.methods import METHODS, MethodEntry
from raters.learning.methods.base import Asked, Maps, Method, Task
from raters.learning.methods.options import MethodOptions
from raters.learning.prediction import predict as predicting
from raters.learning.prediction.images import open_images
from raters.learning.prediction.predict import predict_case, predict_cases
from raters.learning.prediction.predict_study import predict_study
from raters.learning.prediction.writing import Outputs
from raters.learning.training.model import Model
from raters.study.study import Study
from raters.views.report.blocks import ViewerBlock
from raters.views.report.run_cases import case_section
from raters.views.report.run_raters import unanswered_section
from tests.support.command_line import Run, predict_words
from tests.support.makers import save
from tests.support.models import make_model

Array = NDArray[Any]
NAMES = ("ann", "bob", "cy")
TOYS = ("toy", "mapper")
RNG = np.random.default_rng(0)


class Sampler(Method):
    """Each pixel by itself: `softmax(W x + z)`, z normal; or with the raters' biases for z."""

    answers = frozenset({"truth", "samples", "weights"})

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        rng = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(task.num_classes, 1, generator=rng))
        self.bias = nn.Parameter(torch.randn(len(task.raters), task.num_classes, generator=rng))

    def _truth(self, image: Tensor, bias: Tensor) -> Tensor:
        logits = torch.einsum("lc,bc...->bl...", self.matrix, image[:, :1])
        return (logits + bias.view(*bias.shape, *(1,) * (image.ndim - 2))).softmax(1)

    def truth(self, image: Tensor) -> Tensor:
        return self._truth(image, torch.zeros(1, self.task.num_classes))

    def draw_latent(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.task.num_classes, generator=generator)

    def sample(self, image: Tensor, latents: Tensor) -> Tensor:
        return self._truth(image, latents)

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        return self._truth(image, (weights @ self.bias)[None])


class Mapper(Sampler):
    """Answers two maps that nothing else knows: one for each pixel, one for the whole image."""

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        found = super().maps(image, asked, latents)
        return found | {"twice": 2 * image, "same": self.bias[None, :, :, None, None]}


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    """Add the toys to the methods, as a package from outside could."""
    METHODS["toy"] = MethodEntry("a toy", f"{__name__}:Sampler")
    METHODS["mapper"] = MethodEntry("a toy", f"{__name__}:Mapper")
    yield
    del METHODS["toy"], METHODS["mapper"]


def sampler(**options: Any) -> Model:
    plain = {"mode": "none", "mean": [], "std": []}
    return make_model("toy", raters=NAMES, normalisation=plain, **options)


def z_of(model: Model, image: Array, sample: Array) -> Array:
    """Return the latent that a sample has at each pixel, up to a constant: it must be one."""
    with torch.inference_mode():
        logits = model.method.matrix.numpy() @ image.reshape(1, -1)  # type: ignore[operator]
    z = np.log(sample).reshape(len(sample), -1) - logits
    return np.asarray(z - z[0])


@pytest.mark.parametrize("patch_size", [None, (8, 8)])
def test_maps_of_any_name_are_carried(patch_size: tuple[int, int] | None) -> None:
    image = RNG.normal(size=(1, 20, 11)).astype(np.float32)
    plain = {"mode": "none", "mean": [], "std": []}
    model = make_model("mapper", normalisation=plain, patch_size=patch_size)
    found = predict_case(model, image, Asked(samples=1))
    assert list(found.maps) == ["truth", "sample:0", "twice", "same"]
    assert np.allclose(found.maps["twice"], 2 * image, atol=1e-5)
    assert found.maps["same"].shape == (3, 2, 1, 1)
    assert np.array_equal(found.maps["same"][..., 0, 0], model.method.bias.detach().numpy())  # type: ignore[operator]


class TestOneLatent:
    """Sample k is of the seed, the case and k only."""

    @pytest.mark.parametrize("space", [(40, 33), (20, 9, 17)])
    def test_windows_of_an_image_share_it(
        self, space: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image = RNG.normal(size=(1, *space)).astype(np.float32)
        axes = len(space)
        values = (0, 4, 9)
        whole = sampler(spatial_dims=axes, values=values).samples(image, 3, seed=5)
        model = sampler(spatial_dims=axes, values=values, patch_size=(8,) * axes)
        for at_once in (2**16, 100):  # many windows in a batch, or one
            monkeypatch.setattr(predicting, "AT_ONCE", at_once)
            parts = model.samples(image, 3, seed=5)
            assert np.allclose(parts, whole, atol=1e-5)  # no seams
        for sample in parts:
            z = z_of(model, image, sample)
            assert np.abs(z - z.mean(1, keepdims=True)).max() < 1e-3
        assert np.abs(whole[0] - whole[1]).max() > 0.1

    def test_networks_of_whole_images_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = sampler()
        image = RNG.normal(size=(1, 30, 20)).astype(np.float32)
        whole = model.samples(image, 2)
        monkeypatch.setattr(predicting, "LARGEST_WHOLE", {2: 100})
        monkeypatch.setattr(predicting, "LARGE_WINDOW", {2: 12})
        assert np.allclose(model.samples(image, 2), whole, atol=1e-5)

    def test_neither_number_nor_batch_nor_other_cases_matter(self) -> None:
        sides = [(9, 12)] * 4 + [(30, 8)] + [(9, 12)] * 2
        images = [RNG.normal(size=(1, *side)).astype(np.float32) for side in sides]
        names = [f"c{k}" for k in range(len(sides))]
        study = Study.from_arrays(images=images, cases=names, classes=["a", "b"])
        model = sampler(patch_size=(16, 16))
        found = {}
        for case, said in predict_cases(model, study.iter_cases(), Asked(samples=4, seed=1)):
            assert not isinstance(said, RatersError)
            assert list(said.maps) == ["truth", *(f"sample:{k}" for k in range(4))]
            found[case.id] = np.stack(said.samples)
        for case in study:
            alone = predict_case(model, case, Asked(samples=2, seed=1))
            assert np.allclose(alone.samples, found[case.id][:2], atol=1e-6), case.id
        latents = np.stack([z_of(model, images[k], found[n][0])[1, 0] for k, n in enumerate(names)])
        assert len(set(latents.round(3))) == len(names)  # each case has its own
        assert not np.allclose(predict_case(model, study[0], Asked(samples=1)).samples, found["c0"])

    def test_latents_are_normal(self) -> None:
        model = sampler()
        image = np.zeros((1, 1, 1), np.float32)
        z = (
            np.log(model.samples(image, 500))[:, 1, 0, 0]
            - np.log(model.samples(image, 500))[:, 0, 0, 0]
        )
        assert abs(z.mean()) < 0.25  # a difference of two normals: 4 standard errors of 0.063
        assert z.std() == pytest.approx(2**0.5, abs=0.18)


def weighting_of(model: Model, image: Array, weights: list[float]) -> Array:
    method = model.method
    logits = np.einsum("lc,c...->l...", method.matrix.detach().numpy(), image)  # type: ignore[operator]
    bias = np.array(weights) @ method.bias.detach().numpy()  # type: ignore[operator]
    p = np.exp(logits + bias.reshape(-1, *(1,) * (image.ndim - 1)))
    return np.asarray(p / p.sum(0))


def test_the_truth_of_a_weighting() -> None:
    model = sampler(patch_size=(8, 8))
    image = RNG.normal(size=(1, 20, 11))
    expected = weighting_of(model, image, [0.7, 0, 0.3])
    for given in ({"ann": 0.7, "cy": 0.3}, "ann=7, cy=3", {"cy": 3, "ann": 7, "bob": 0}):
        assert np.allclose(model.predict_proba(image, weights=given), expected, atol=1e-5)
    assert np.array_equal(model.predict(image, weights="ann=7,cy=3"), expected.argmax(0))
    assert not np.allclose(model.predict_proba(image), expected, atol=1e-2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ann=0.7,eve=1", "found a weight of the rater 'eve', expected one of ann, bob, cy"),
        ("bbo=1", "expected one of ann, bob, cy; did you mean 'bob'?"),
        ("ann=-1,bob=2", "the weight '-1' of the rater 'ann', expected a number of at least 0"),
        ("ann=0,bob=0", "found no weight above 0, expected that of one of ann, bob, cy to be"),
        ("ann=much", "found the weight 'much' of the rater 'ann', expected a number"),
        ("ann=nan", "found the weight 'nan' of the rater 'ann', expected a number"),
        ("ann=inf", "found the weight 'inf' of the rater 'ann', expected a number"),
        ("ann=", "found the weight '' of the rater 'ann', expected a number"),
        ("ann", "found 'ann' as a weight, expected RATER=WEIGHT: the rater is one of ann, bob, cy"),
        ("ann=1,2", "found '2' as a weight, expected RATER=WEIGHT: the rater is one of ann, bob"),
        ("", "found '' as a weight, expected RATER=WEIGHT: the rater is one of ann, bob, cy"),
        ("ann=1,ann=2", "found two weights of the rater 'ann', expected one: 1 or 2"),
    ],
)
def test_weights_that_are_none(given: str, words: str, pictures: Path, run_predict: Run) -> None:
    said = run_predict(*predict_words(pictures), "--weights", given)
    assert (said.code, said.err.count("Traceback")) == (2, 0)
    assert words in " ".join(said.err.split())
    assert not (pictures / "out").exists()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for k in range(3):
        save(tmp_path / "images" / f"c{k}.png", RNG.integers(0, 255, (20, 24), dtype=np.uint8))
    sampler(patch_size=(16, 16)).save(tmp_path / "model")
    return tmp_path


class TestFiles:
    """`raters predict --samples`: what is written, and what is skipped the next time."""

    def test_pictures(self, pictures: Path, run_predict: Run) -> None:
        out = pictures / "out"
        options = ["--samples", "2", "--seed", "3", "--probabilities"]
        assert run_predict(*predict_words(pictures), *options).code == 0
        model = raters.load(pictures / "model")
        study = open_images(str(pictures / "images"), model.config)
        for case in study:
            for k, soft in enumerate(predict_case(model, case, Asked(samples=2, seed=3)).samples):
                assert np.allclose(np.load(out / f"sample-{k}/soft/{case.id}.npy"), soft, atol=1e-6)
                labels = raters.read(f"{out}/sample-{k}/{{case}}.png", truth=True)[case.id]
                assert labels.reference is not None
                assert np.array_equal(labels.reference, soft.argmax(0))
        said = json.loads(run_predict(*predict_words(pictures), *options, "--json").out)
        assert (said["written"], said["skipped"]) == (0, 3)
        before = (out / "sample-1/c2.png").read_bytes()
        more = ["--samples", "3", "--seed", "3", "--json"]
        assert json.loads(run_predict(*predict_words(pictures), *more).out)["written"] == 3
        assert (out / "sample-1/c2.png").read_bytes() == before
        assert len(list((out / "sample-2").glob("*.png"))) == 3
        assert json.loads(run_predict(*predict_words(pictures), "--json").out)["skipped"] == 3
        assert (
            json.loads(run_predict(*predict_words(pictures), *options, "--json").out)["skipped"]
            == 3
        )

    def test_another_seed_or_weighting_is_refused(self, pictures: Path, run_predict: Run) -> None:
        assert run_predict(*predict_words(pictures), "--samples", "3").code == 0
        said = run_predict(*predict_words(pictures), "--samples", "1", "--seed", "1")
        assert said.code == 2
        assert "holds samples of seed 0, expected 1" in said.err
        said = run_predict(*predict_words(pictures), "--weights", "ann=1")
        assert said.code == 2
        assert "holds other work (rater_weights null there" in said.err
        assert (
            run_predict(
                *predict_words(pictures), "--samples", "1", "--seed", "1", "--overwrite"
            ).code
            == 0
        )
        left = {p.name for p in (pictures / "out").iterdir()}
        assert left == {".predict.jsonl", "c0.png", "c1.png", "c2.png", "sample-0"}  # no others

    def test_volumes(self, tmp_path: Path, run_predict: Run) -> None:
        affine = np.array([[0, -1.5, 0, 3], [0.5, 0, 0, -7], [0, 0, 2, 1], [0, 0, 0, 1]])
        save(tmp_path / "images" / "v.nii.gz", RNG.normal(size=(9, 12, 7)).astype("f"), affine)
        sampler(spatial_dims=3, patch_size=(8, 8, 8), values=(0, 4)).save(tmp_path / "model")
        assert (
            run_predict(*predict_words(tmp_path), "--samples", "2", "--weights", "bob=1").code == 0
        )
        model = raters.load(tmp_path / "model")
        (case,) = open_images(str(tmp_path / "images"), model.config)
        found = predict_case(model, case, Asked(samples=2, weights=(0.0, 1.0, 0.0)))
        for place, labels in (
            ("", found.labels),
            *((f"sample-{k}", p.argmax(0)) for k, p in enumerate(found.samples)),
        ):
            file = nib.load(tmp_path / "out" / place / "v.nii.gz")
            assert np.array_equal(file.affine, affine)
            assert np.array_equal(file.get_fdata(), 4 * labels)

    def test_class_tables(self, tmp_path: Path, run_predict: Run) -> None:
        model = sampler(kind="classification", spatial_dims=0, values=("cat", "dog", "eel"))
        model.save(tmp_path / "model")
        features = RNG.normal(size=(40, 1))
        np.save(tmp_path / "images.npy", features)
        arguments = [tmp_path / "model", tmp_path / "images.npy", "-o", tmp_path / "out"]
        assert run_predict(*arguments, "--samples", "2").code == 0
        study = open_images(str(tmp_path / "images.npy"), model.config)
        expected = np.stack([predict_case(model, c, Asked(samples=2)).samples for c in study])
        for k in range(2):
            with open(tmp_path / f"out/sample-{k}/predictions.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            p = [[float(r[f"p_class {v}"]) for v in ("cat", "dog", "eel")] for r in rows]
            assert np.allclose(p, expected[:, k], atol=1e-6)
        assert json.loads(run_predict(*arguments, "--samples", "2", "--json").out)["skipped"] == 40
        assert json.loads(run_predict(*arguments, "--samples", "3", "--json").out)["written"] == 40
        with open(tmp_path / "out/sample-2/predictions.csv", newline="") as file:
            assert len(list(csv.DictReader(file))) == 40

    def test_evaluate_reads_the_folder(self, pictures: Path, run_predict: Run) -> None:
        assert run_predict(*predict_words(pictures), "--samples", "2").code == 0
        study = raters.read(f"{pictures}/out/{{case}}.png", truth=True, values="0=a,4=b")
        scores = raters.evaluate(pictures / "out", study, surfaces=False)
        assert (scores.summary[0]["dice"], scores.summary[0]["cases"]) == (1, 3)

    def test_cases_do_not_lie_among_samples(self, tmp_path: Path) -> None:
        study = Study.from_arrays(np.ones((2, 1, 4, 4)), cases=["a", "sample-0/a"])
        with pytest.raises(RatersError, match="found the case 'sample-0/a', expected none in"):
            predict_study(sampler(), study, tmp_path / "out", Outputs(samples=1))


@pytest.mark.parametrize(
    ("method", "option", "words"),
    [
        ("vote", ["--samples", "2"], "found vote, expected a method with samples: it has none"),
        ("vote", ["--samples", "2"], "vote can answer as_rater, confusion, truth"),
        (
            "vote",
            ["--samples", "2"],
            "methods that can answer samples: multi-hypothesis, prob-unet",
        ),
        ("prob-unet", ["--as-rater", "ann"], "prob-unet can answer samples, truth"),
        ("vote", ["--weights", "ann=1"], "methods that can answer weights: mrnet, prism, wdn"),
        ("toy", ["--as-rater", "ann"], "toy can answer samples, truth, weights"),
        ("toy", ["--confusion"], "methods that can answer confusion: vote, mean"),
        ("toy", ["--samples", "-1"], "found -1 samples, expected at least 0"),
    ],
)
def test_what_a_method_cannot_answer_is_said(
    method: str, option: list[str], words: str, pictures: Path, run_predict: Run
) -> None:
    make_model(method, raters=NAMES).save(pictures / "model")
    said = run_predict(*predict_words(pictures), *option)
    assert (said.code, said.err.count("Traceback")) == (2, 0)
    assert words in said.err.replace("\n", " ")
    assert not (pictures / "out").exists()


def test_reports_say_what_is_not_answered() -> None:
    labels = (RNG.random((2, 3, 9, 8)) < 0.5).astype(int)
    study = Study.from_arrays(RNG.normal(size=(2, 1, 9, 8)), labels, raters=NAMES)
    for model, told in ((sampler(), []), (make_model("vote", raters=NAMES), ["as ann", "as bob"])):
        scores, watched = score_and_watch(model, study)
        viewer = case_section(model, study, scores, watched, shown=1)[0].blocks[0]
        assert isinstance(viewer, ViewerBlock)
        assert [layer.name for layer in viewer.layers if layer.name.startswith("as ")][:2] == told
        missing = unanswered_section(model)
        assert (missing is None) == bool(told)
        assert "raters' matrices. It answers: samples, truth, weights" in str(missing) or told


def test_the_page_names_methods_that_sample_or_take_weights() -> None:
    page = (Path(__file__).parents[3] / "docs" / "predicting.md").read_text(encoding="utf-8")
    listed = page[page.index("### Samples and weights") :].split("\n###")[0]
    for answer in ("samples", "weights"):
        can = [m for m in METHODS if m not in TOYS and answer in METHODS[m].load().answers]
        assert all(f"`{name}`" in listed for name in can), answer
        assert (f"No packaged method takes {answer}" in listed) == (not can)


class TestPython:
    """`predict` and `predict_proba` take what people hold."""

    def test_images_cases_studies_and_patterns(self, pictures: Path) -> None:
        model = raters.load(pictures / "model")
        pattern = f"{pictures}/images/{{case}}.png"
        study = open_images(pattern, model.config)
        for source in (pattern, pictures / "images", study):
            found = {case.id: labels for case, labels in model.predict(source)}
            proba = {case.id: p for case, p in model.predict_proba(source)}
            assert list(found) == list(proba) == ["c0", "c1", "c2"]
            for case in study:
                alone = model.predict_proba(case)
                assert alone.shape == (2, 20, 24)
                assert np.array_equal(alone, model.truth(case))
                assert np.allclose(proba[case.id], alone, atol=1e-6)
                assert found[case.id].dtype == np.int16
                assert np.array_equal(found[case.id], proba[case.id].argmax(0))
        with pytest.raises(RatersError, match="nothing matches"):
            next(iter(model.predict(f"{pictures}/images/{{case}}.tif")))

    def test_arrays_of_several(self) -> None:
        model = sampler(kind="classification", spatial_dims=0, values=(0, 1, 2))
        features = RNG.normal(size=(30, 1))
        p = model.predict_proba(features)  # as scikit-learn returns it
        assert p.shape == (30, 3)
        assert np.allclose(p, [model.predict_proba(row) for row in features], atol=1e-6)
        assert np.array_equal(model.predict(features), p.argmax(1))
        images = RNG.normal(size=(4, 1, 6, 7))
        masks = sampler()
        assert masks.predict(images).shape == (4, 6, 7)
        assert np.allclose(masks.predict_proba(images)[2], masks.truth(images[2]), atol=1e-6)
        assert np.array_equal(masks.predict(torch.from_numpy(images)), masks.predict(images))

    def test_what_is_no_number_of_samples(self) -> None:
        with pytest.raises(RatersError, match="found 0 samples, expected at least 1"):
            sampler().samples(np.zeros((1, 4, 4)), 0)
        with pytest.raises(RatersError, match=r"found 1.5 samples, expected at least 1, a whole"):
            sampler().samples(np.zeros((1, 4, 4)), 1.5)  # type: ignore[arg-type]
        with pytest.raises(RatersError, match="pixel-cm can answer"):
            make_model().samples(np.zeros((1, 4, 4)), 2)
