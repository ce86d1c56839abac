"""Prediction: windows, files, and what `raters predict` does with good and bad input."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import entropy

import raters
from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from raters.learning.methods.base import Asked
from raters.learning.prediction import predict as predicting
from raters.learning.prediction.images import open_images
from raters.learning.prediction.predict import (
    gaussian_weights,
    in_bands,
    predict_case,
    predict_cases,
    starts_of,
    window_of,
)
from raters.learning.prediction.predict_study import predict_study
from raters.learning.prediction.writing import Outputs
from raters.study.study import Study
from tests.support.command_line import Run, predict_words
from tests.support.makers import save
from tests.support.models import RATERS, apply_matrix, make_model

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def bands_together(image: torch.Tensor, function: Any, window: Any, overlap: float = 0.25) -> Any:
    with torch.inference_mode():
        found = [(k, rows.clone()) for k, rows in in_bands(image, function, window, overlap)]
    ends = [k + rows.shape[1] for k, rows in found]
    assert [k for k, _ in found] == [0, *ends[:-1]]  # in order and without gaps
    assert max(rows.shape[1] for _, rows in found) <= window[0]
    return torch.cat([rows for _, rows in found], 1)


class TestWindows:
    """Windows against the formula, and against MONAI's."""

    @pytest.mark.parametrize("overlap", [0.0, 0.25, 0.6])
    @pytest.mark.parametrize(
        ("space", "window"),
        [
            ((37, 50), (16, 12)),
            ((9, 20, 17), (8, 16, 12)),
            ((16, 50), (16, 16)),
            ((17, 9), (16, 16)),
        ],
    )
    def test_blending_is_the_weighted_mean_of_windows(
        self, space: tuple[int, ...], window: tuple[int, ...], overlap: float
    ) -> None:
        torch.manual_seed(0)
        image = torch.randn(2, *space)
        net = (torch.nn.Conv2d if len(space) == 2 else torch.nn.Conv3d)(2, 3, 5, padding=2)
        found = bands_together(image, net, window, overlap)
        sides = [min(w, s) for w, s in zip(window, space, strict=True)]
        places = product(*(starts_of(s, w, overlap) for s, w in zip(space, sides, strict=True)))
        total = torch.zeros(3, *space)
        weight = torch.zeros(space)
        for corner in places:
            here = tuple(slice(c, c + w) for c, w in zip(corner, sides, strict=True))
            with torch.inference_mode():
                total[(slice(None), *here)] += net(image[(slice(None), *here)]) * gaussian_weights(
                    sides
                )
            weight[here] += gaussian_weights(sides)
        assert torch.allclose(found, total / weight, atol=1e-6)

    @pytest.mark.parametrize(
        ("space", "window"), [((37, 50), (16, 12)), ((20, 33, 17), (8, 16, 12))]
    )
    def test_as_in_monai(self, space: tuple[int, ...], window: tuple[int, ...]) -> None:
        from monai.inferers.utils import sliding_window_inference

        torch.manual_seed(0)
        image = torch.randn(1, *space)
        net = (torch.nn.Conv2d if len(space) == 2 else torch.nn.Conv3d)(1, 2, 7, padding=3)
        with torch.inference_mode():
            expected = sliding_window_inference(
                image[None], window, 4, net, overlap=0.25, mode="gaussian"
            )
        assert torch.allclose(bands_together(image, net, window), expected[0], atol=1e-6)

    def test_no_seams(self) -> None:
        image = torch.rand(1, 70, 45)
        assert torch.allclose(bands_together(image, lambda x: x, (16, 16)), image, atol=1e-6)
        same = bands_together(image, torch.ones_like, (16, 16))
        assert torch.allclose(same, torch.ones_like(image), atol=1e-6)

    def test_memory_is_that_of_a_band(self) -> None:
        """No tensor that the function sees, and no band, grows with the rows of the image."""
        seen: list[int] = []

        def function(batch: torch.Tensor) -> torch.Tensor:
            seen.append(batch.numel())
            return batch

        for rows in (64, 640):
            bands_together(torch.zeros(1, rows, 64), function, (32, 32))
        assert max(seen[-10:]) == max(seen[:2])


class TestOneCase:
    """What a model says of an image."""

    @pytest.mark.parametrize("method", [m for m in METHODS if "confusion" in METHODS[m].answers])
    def test_told_is_the_truth_through_the_matrix(self, method: str) -> None:
        model = make_model(method, values=(0, 1, 2))
        found = predict_case(model, RNG.normal(size=(1, 9, 12)), Asked(RATERS, confusion=True))
        assert found.confusion is not None
        for k, rater in enumerate(RATERS):
            expected = apply_matrix(method, found.truth, found.confusion[k])
            assert np.allclose(found.as_rater(rater), expected, atol=1e-6)
        assert np.allclose(found.truth.sum(axis=0), 1, atol=1e-6)

    @pytest.mark.parametrize("method", ["pixel-cm", "low-rank-cm", "global-cm", "vote"])
    def test_windows_are_blended_for_all_that_is_asked(self, method: str) -> None:
        from monai.inferers.utils import sliding_window_inference

        model = make_model(method, patch_size=(16, 16))
        image = RNG.normal(size=(1, 40, 33))
        found = predict_case(model, image, Asked(("bob",), confusion=True))
        batch = model.pixels(image)[None]

        def expected(function: Any) -> Array:
            with torch.inference_mode():
                return sliding_window_inference(
                    batch, (16, 16), 4, function, overlap=0.25, mode="gaussian"
                )[0].numpy()

        assert np.allclose(found.truth, expected(model.method.truth), atol=1e-6)
        told = expected(lambda x: model.method.as_rater(x, 2))
        assert np.allclose(found.as_rater("bob"), told, atol=1e-6)
        assert found.confusion is not None
        assert np.allclose(found.confusion.sum(axis=2), 1, atol=1e-5)
        if model.method.varies:
            matrices = expected(lambda x: model.method.confusion(x).flatten(1, 3))
            assert np.allclose(found.confusion, matrices.reshape(3, 2, 2, 40, 33), atol=1e-6)
        else:
            assert found.confusion.shape == (3, 2, 2, 1, 1)

    def test_raters_that_are_numbers(self) -> None:
        labels = np.array([[0, 1], [1, 1]] * 8)
        study = Study.from_arrays(RNG.normal(size=(16, 2)), labels)
        model = raters.fit(study, "global-cm", epochs=1, progress=False)
        assert np.array_equal(model.as_rater(study[0], 1), model.as_rater(study[0], "1"))  # type: ignore[arg-type]

    def test_entropy_is_in_bits(self) -> None:
        found = predict_case(make_model(values=(0, 1, 2)), RNG.normal(size=(1, 9, 12)))
        assert np.allclose(found.entropy, entropy(found.truth, base=2, axis=0), atol=1e-5)

    def test_networks_of_whole_images_see_large_ones_in_windows(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = make_model(norm="none")
        image = RNG.normal(size=(1, 90, 70))
        whole = predict_case(model, image).truth
        assert window_of(model, (1024, 1024)) is None
        assert window_of(model, (4000, 4000)) == (512, 512)
        assert window_of(make_model(spatial_dims=3), (240, 240, 155)) == (96, 96, 96)
        monkeypatch.setattr(predicting, "LARGEST_WHOLE", {2: 1000})
        monkeypatch.setattr(predicting, "LARGE_WINDOW", {2: 32})
        parts = predict_case(model, image).truth
        assert not np.array_equal(parts, whole)
        assert np.abs(parts - whole).mean() < 0.02  # they differ only near the edges of windows

    @pytest.mark.parametrize("mode", ["case", "study"])
    def test_constant_images_give_numbers(self, mode: str) -> None:
        given = {"mode": mode, "mean": [3.0], "std": [0.0]} if mode == "study" else None
        model = make_model(normalisation=given, patch_size=(16, 16))
        for image in (np.full((1, 20, 20), 7.0), np.zeros((1, 3, 5))):
            assert np.isfinite(predict_case(model, image, Asked(RATERS)).truth).all()

    @pytest.mark.parametrize("space", [(1, 1), (3, 30), (15, 16), (5, 2)])
    def test_images_smaller_than_a_patch(self, space: tuple[int, int]) -> None:
        found = predict_case(
            make_model(patch_size=(16, 16)), RNG.normal(size=(1, *space)), Asked(("ann",))
        )
        assert found.truth.shape == found.as_rater("ann").shape == (2, *space)
        assert np.isfinite(found.truth).all()

    def test_batches_change_nothing(self) -> None:
        sides = [(9, 12)] * 5 + [(30, 8)] + [(9, 12)] * 2 + [(12, 9)]
        images = [RNG.normal(size=(1, *side)) for side in sides]
        study = Study.from_arrays(images=images, classes=["a", "b"])
        model = make_model(patch_size=(16, 16))
        found = list(predict_cases(model, study.iter_cases(), Asked(("bob",), confusion=True)))
        assert [case.id for case, _ in found] == list(study.index.ids)
        for image, (_, part) in zip(images, found, strict=True):
            alone = predict_case(model, image, Asked(("bob",), confusion=True))
            assert not isinstance(part, RatersError)
            assert np.allclose(part.truth, alone.truth, atol=1e-6)
            assert np.allclose(part.as_rater("bob"), alone.as_rater("bob"), atol=1e-6)
            assert part.confusion is not None
            assert alone.confusion is not None
            assert np.allclose(part.confusion, alone.confusion, atol=1e-6)
        for (case, truth), image in zip(model.predict_proba(study), images, strict=True):
            assert np.allclose(truth, model.truth(image), atol=1e-6), case.id


@pytest.fixture(scope="module")
def brains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three volumes on odd grids, and a model of their kind."""
    folder = tmp_path_factory.mktemp("brains")
    for k in range(3):
        affine = np.array([[0, -1.5, 0, 3], [0.5, 0, 0, -7], [0, 0, 2, k], [0, 0, 0, 1]])
        save(folder / "images" / f"c{k}.nii.gz", RNG.normal(size=(9, 12, 7)).astype("f"), affine)
    make_model(spatial_dims=3, patch_size=(8, 8, 8), values=(0, 4, 9)).save(folder / "model")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for k in range(4):
        save(tmp_path / "images" / f"c{k}.png", RNG.integers(0, 255, (20, 24), dtype=np.uint8))
    make_model(patch_size=(16, 16)).save(tmp_path / "model")
    return tmp_path


class TestFiles:
    """What is written, and when nothing has to be."""

    def test_volumes_keep_grid_and_values(
        self, brains: Path, tmp_path: Path, run_predict: Run
    ) -> None:
        options = ["--probabilities", "--entropy", "--as-rater", "../x", "--confusion"]
        out = tmp_path / "out"
        said = run_predict(brains / "model", brains / "images", "-o", out, *options)
        assert said.code == 0, said.err
        assert "3 cases predicted" in said.out
        assert "megapixels/s" in said.out
        model = raters.load(brains / "model")
        values = np.array([0, 4, 9])
        for k in range(3):
            source = nib.load(brains / "images" / f"c{k}.nii.gz")
            found = predict_case(model, source.get_fdata(), Asked(RATERS, confusion=True))
            labels = nib.load(out / f"c{k}.nii.gz")
            assert np.array_equal(labels.affine, source.affine)
            assert np.array_equal(labels.get_fdata(), values[found.labels])
            told = nib.load(out / "as-%2E.%2Fx" / f"c{k}.nii.gz").get_fdata()
            assert np.array_equal(told, values[found.as_rater("../x").argmax(axis=0)])
            soft = nib.load(out / "soft" / f"c{k}.nii.gz")
            assert soft.get_data_dtype() == np.float32
            assert np.allclose(
                np.moveaxis(soft.get_fdata(), -1, 0).squeeze(), found.truth, atol=1e-6
            )
            bits = nib.load(out / "entropy" / f"c{k}.nii.gz").get_fdata().squeeze()
            assert np.allclose(bits, found.entropy, atol=1e-5)
            matrices = np.load(out / "confusion" / f"c{k}.npy")
            assert matrices.dtype == np.float32
            assert np.allclose(matrices, found.confusion, atol=1e-6)
            assert (out / "as-%2E.%2Fx" / "soft" / f"c{k}.nii.gz").exists()

    def test_flat_volumes_of_one_band_keep_their_probabilities(self, tmp_path: Path) -> None:
        """A volume that is no higher than a window is one band of many windows."""
        model = make_model(spatial_dims=3, patch_size=(8, 8, 8))
        image = RNG.normal(size=(1, 5, 20, 17)).astype(np.float32)
        nib.save(nib.Nifti1Image(image[0], np.diag([1.0, 2, 3, 1])), tmp_path / "flat.nii.gz")
        study = open_images(str(tmp_path / "flat.nii.gz"), model.config)
        predict_study(model, study, tmp_path / "out", Outputs(True, raters=("ann",)))
        expected = predict_case(model, image, Asked(("ann",)))
        for place, found in (("soft", expected.truth), ("as-ann/soft", expected.as_rater("ann"))):
            soft = nib.load(tmp_path / "out" / place / "flat.nii.gz").get_fdata().squeeze()
            assert np.allclose(np.moveaxis(soft, -1, 0), found, atol=1e-6), place

    def test_cases_do_not_lie_among_other_maps(self, tmp_path: Path) -> None:
        """Else the labels of one case would take the file of another's probabilities."""
        model = make_model(spatial_dims=3)
        study = Study.from_arrays(np.ones((2, 1, 4, 4, 4)), cases=["a", "soft/a"])
        with pytest.raises(RatersError, match="found the case 'soft/a', expected none in 'soft/'"):
            predict_study(model, study, tmp_path / "out", Outputs(probabilities=True))
        assert not (tmp_path / "out").exists()

    def test_a_journal_from_elsewhere_deletes_nothing_outside(self, pictures: Path) -> None:
        model = raters.load(pictures / "model")
        study = open_images(str(pictures / "images"), model.config)
        out = pictures / "out"
        mine = pictures / "mine.txt"
        predict_study(model, study, out, Outputs(entropy=True))
        old = out / "entropy" / "c0.npy"
        assert old.exists()
        mine.touch()
        journal = out / ".predict.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        for line in lines[1:]:
            line["facts"]["files"] |= {"a": "../mine.txt", "b": str(mine)}
        journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
        save(pictures / "images" / "c0.png", np.zeros((20, 24), np.uint8))
        assert predict_study(model, study, out).written == 1
        assert mine.exists()
        assert not old.exists()  # of the image as it was

    def test_matrices_that_never_vary_are_one_table(self, pictures: Path, run_predict: Run) -> None:
        model = make_model("global-cm")
        model.save(pictures / "model")
        assert run_predict(*predict_words(pictures), "--confusion").code == 0
        rows = read_table_rows(pictures / "out" / "confusion.csv")
        expected = model.confusion(np.zeros((1, 8, 8)))[..., 0, 0]
        found = np.array([float(row["p"]) for row in rows]).reshape(3, 2, 2)
        assert np.allclose(found, expected, atol=1e-6)
        assert [row["rater"] for row in rows[::4]] == list(RATERS)

    def test_finished_cases_are_skipped(self, pictures: Path, run_predict: Run) -> None:
        arguments = [*predict_words(pictures), "--probabilities", "--json"]
        assert json.loads(run_predict(*arguments).out)["written"] == 4
        before = {p: p.stat().st_mtime_ns for p in (pictures / "out").rglob("c*")}
        assert len(before) == 8
        said = json.loads(run_predict(*arguments).out)
        assert (said["written"], said["skipped"]) == (0, 4)
        assert {p: p.stat().st_mtime_ns for p in before} == before
        (pictures / "out" / "soft" / "c1.npy").unlink()
        save(pictures / "images" / "c2.png", np.zeros((20, 24), np.uint8))
        said = json.loads(run_predict(*arguments).out)
        assert (said["written"], said["skipped"]) == (2, 2)
        assert json.loads(run_predict(*arguments, "--entropy").out)["written"] == 4
        assert json.loads(run_predict(*arguments).out)["skipped"] == 4

    def test_what_was_stopped_goes_on(
        self, pictures: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from raters.learning.prediction import writing
        from raters.learning.prediction.writing import label_sink

        model = raters.load(pictures / "model")
        study = open_images(str(pictures / "images"), model.config)
        written = []

        def stop(*arguments: Any) -> Any:
            written.append(arguments)
            if len(written) > 2:
                raise KeyboardInterrupt
            return label_sink(*arguments)

        monkeypatch.setattr(writing, "label_sink", stop)
        with pytest.raises(KeyboardInterrupt):
            predict_study(model, study, pictures / "out", Outputs(probabilities=True))
        monkeypatch.undo()
        left = sorted(p.name for p in (pictures / "out").rglob("*") if p.is_file())
        assert left == [".predict.jsonl", "c0.npy", "c0.png", "c1.npy", "c1.png"]
        result = predict_study(model, study, pictures / "out", Outputs(probabilities=True))
        assert (result.written, result.skipped) == (2, 2)

    def test_other_work_is_not_mixed_in(self, pictures: Path, run_predict: Run) -> None:
        assert run_predict(*predict_words(pictures)).code == 0
        make_model("low-rank-cm", patch_size=(16, 16)).save(pictures / "model")
        said = run_predict(*predict_words(pictures))
        assert said.code == 2
        assert "holds other work" in said.err
        assert run_predict(*predict_words(pictures), "--overwrite").code == 0
        (pictures / "mine").mkdir()
        (pictures / "mine" / "c0.png").touch()
        assert (
            "found a folder with other files (c0.png)"
            in run_predict(*predict_words(pictures, "mine")).err
        )

    def test_evaluate_reads_them(self, pictures: Path, run_predict: Run) -> None:
        options = ["--probabilities", "--entropy", "--as-rater", "ann", "--confusion"]
        assert run_predict(*predict_words(pictures), *options).code == 0
        for what in ("out", "out/as-ann"):
            pattern = f"{pictures}/{what}/{{case}}.png"  # a reference that is the prediction itself
            study = raters.read(pattern, truth=True, values="0=class 0,4=class 4")
            scores = raters.evaluate(pictures / what, study, surfaces=False)
            assert scores.notes == ["fewer than 6 groups: there are no intervals"]
            assert scores.summary[0]["dice"] == 1
            assert scores.summary[0]["cases"] == 4

    def test_every_kind_of_input_is_the_same(self, pictures: Path, run_predict: Run) -> None:
        listed = "".join(f"c{k},images/c{k}.png\n" for k in range(4))
        (pictures / "list.csv").write_text("case,image\n" + listed)
        masks = np.zeros((4, 3, 20, 24), int)
        images = [np.array(picture(pictures / "images" / f"c{k}.png"))[None] for k in range(4)]
        Study.from_arrays(
            images=images,
            labels=masks,
            raters=list(RATERS),
            cases=[f"c{k}" for k in range(4)],
            classes={0: "class 0", 4: "class 4"},
        ).write(pictures / "study")
        np.save(pictures / "images.npy", np.stack(images))
        assert run_predict(*predict_words(pictures)).code == 0
        expected = [picture(pictures / "out" / f"c{k}.png") for k in range(4)]
        sources = [f"{pictures}/images/{{case}}.png", pictures / "list.csv", pictures / "study"]
        for number, source in enumerate([*sources, pictures / "images.npy"]):
            out = pictures / f"out{number}"
            said = run_predict(pictures / "model", source, "-o", out)
            assert said.code == 0, said.err
            for k in range(4):
                name = f"row{k}" if str(source).endswith(".npy") else f"c{k}"
                assert np.array_equal(picture(out / f"{name}.png"), expected[k])
        one = run_predict(
            pictures / "model", pictures / "images" / "c3.png", "-o", pictures / "one"
        )
        assert one.code == 0, one.err
        assert np.array_equal(picture(pictures / "one" / "c3.png"), expected[3])


def picture(path: Path) -> Array:
    """Read a picture by another library than ours."""
    with Image.open(path) as found:
        return np.asarray(found)


def read_table_rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class TestClasses:
    """Models that give one class per case."""

    def test_features_give_a_table(self, tmp_path: Path, run_predict: Run) -> None:
        model = make_model(
            "global-cm",
            kind="classification",
            spatial_dims=0,
            channels=5,
            values=("cat", "dog", "eel"),
            normalisation={"mode": "none", "mean": [], "std": []},
        )
        model.save(tmp_path / "model")
        features = RNG.normal(size=(300, 5))
        np.save(tmp_path / "features.npy", features)
        with open(tmp_path / "features.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["case", *"abcde"])
            writer.writerows(
                [f"t{k}", *map(repr, map(float, row))] for k, row in enumerate(features)
            )
        for name, prefix in (("features.npy", "row"), ("features.csv", "t")):
            out = tmp_path / f"out {name}"
            options = ["--as-rater", "bob", "--entropy", "--confusion"]
            said = run_predict(tmp_path / "model", tmp_path / name, "-o", out, *options)
            assert said.code == 0, said.err
            rows = read_table_rows(out / "predictions.csv")
            assert [row["case"] for row in rows] == [f"{prefix}{k}" for k in range(300)]
            truth = np.array(
                [[float(r[f"p_class {v}"]) for v in ("cat", "dog", "eel")] for r in rows]
            )
            expected = np.stack([model.truth(row) for row in features])
            assert np.allclose(truth, expected, atol=1e-6)
            best = np.array(["cat", "dog", "eel"])[expected.argmax(axis=1)]
            assert [row["label"] for row in rows] == best.tolist()
            told = read_table_rows(out / "as-bob" / "predictions.csv")
            assert float(told[7]["p_class dog"]) == pytest.approx(
                model.as_rater(features[7], "bob")[1], abs=1e-6
            )
            again = run_predict(tmp_path / "model", tmp_path / name, "-o", out, *options, "--json")
            assert json.loads(again.out)["skipped"] == 300

    def test_evaluate_reads_the_table(self, tmp_path: Path, run_predict: Run) -> None:
        model = make_model(kind="classification", channels=1, values=(0, 1, 2))
        model.save(tmp_path / "model")
        images = RNG.normal(size=(12, 1, 14, 14)).astype("f")
        truth = np.array([int(model.predict(image)) for image in images])
        answers = np.stack([truth, (truth + 1) % 3], axis=1)
        classes = {0: "class 0", 1: "class 1", 2: "class 2"}
        study = Study.from_arrays(images, answers, classes=classes)
        study.write(tmp_path / "study")
        said = run_predict(
            tmp_path / "model", tmp_path / "study", "-o", tmp_path / "out", "--confusion"
        )
        assert said.code == 0, said.err
        scores = raters.evaluate(tmp_path / "out", study)
        assert [row["accuracy"] for row in scores.summary] == [1, 0]
        matrices = np.load(tmp_path / "out" / "confusion" / "3.npy")
        assert np.allclose(matrices, model.confusion(images[3]), atol=1e-6)


class TestBadInput:
    """What is wrong is said, ends with exit code 2, and does not touch the rest."""

    def test_single_cases_fail_alone(self, pictures: Path, run_predict: Run) -> None:
        (pictures / "images" / "c0.png").write_bytes(b"no picture")
        (pictures / "images" / "c1.png").unlink()
        colour = RNG.integers(0, 255, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(colour).save(pictures / "images" / "c1.png")
        for name, value in (("d0", np.nan), ("d1", np.inf)):
            image = np.zeros((20, 24), "f")
            image[3, 4] = value
            np.save(pictures / "images" / f"{name}.npy", image)
        np.save(pictures / "images" / "e.npy", np.zeros((2, 3, 4, 5), "f"))
        said = run_predict(*predict_words(pictures))
        assert said.code == 2
        assert "2 cases predicted" in said.out
        assert "5 cases could not be predicted" in said.err
        for name in ("c0.png", "c1.png", "d0.npy", "d1.npy", "e.npy"):
            assert f"images/{name}: " in said.err
        assert "found an image of 3x20x24, expected 1 channel followed by 2 spatial" in said.err
        assert said.err.count("NaN or infinite") == 2
        assert sorted(p.name for p in (pictures / "out").glob("*.png")) == ["c2.png", "c3.png"]
        assert json.loads(run_predict(*predict_words(pictures), "--json").out)["skipped"] == 2

    def test_colours_are_no_volume(self, brains: Path, tmp_path: Path, run_predict: Run) -> None:
        colour = RNG.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(colour).save(tmp_path / "c0.png")
        said = run_predict(brains / "model", tmp_path / "{case}.png", "-o", tmp_path / "out")
        assert said.code == 2
        assert "c0.png: found an image of 3x32x32, expected 1 channel followed by 3" in said.err
        model = raters.load(brains / "model")
        volume = RNG.random((16, 16, 8), "f")
        assert np.array_equal(model.truth(volume), model.truth(volume[np.newaxis]))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--as-rater", "eve"], "found the rater 'eve', expected one of ann, ../x, bob"),
            (["--overlap", "1"], "found overlap 1, expected"),
            (["--device", "toaster"], "--device: found 'toaster'"),
        ],
    )
    def test_options(
        self, options: list[str], expected: str, pictures: Path, run_predict: Run
    ) -> None:
        said = run_predict(*predict_words(pictures), *options)
        assert said.code == 2
        assert expected in said.err
        assert not (pictures / "out").exists()

    def test_separate_has_no_matrices(self, pictures: Path, run_predict: Run) -> None:
        make_model("separate").save(pictures / "model")
        said = run_predict(*predict_words(pictures), "--confusion")
        assert said.code == 2
        assert (
            "separate can answer as_rater, truth; methods that can answer confusion: vote"
            in said.err
        )

    @pytest.mark.parametrize("out", ["images", "images/below", "model"])
    def test_nothing_is_written_among_what_is_read(
        self, out: str, pictures: Path, run_predict: Run
    ) -> None:
        for source in ("images", "images/c0.png", "images/{case}.png"):
            if out == "images/below" and source != "images":
                continue
            said = run_predict(pictures / "model", f"{pictures}/{source}", "-o", pictures / out)
            assert said.code == 2
            assert "expected another one" in said.err

    def test_no_images(self, pictures: Path, run_predict: Run) -> None:
        (pictures / "empty").mkdir()
        (pictures / "notes.txt").write_text("hello")
        for source, expected in (
            ("empty", "found no images in it"),
            ("nowhere", "no such file or folder"),
            ("images/{case}.tif", "nothing matches"),
            ("images/{rater}/{case}.png", "expected one of images"),
            ("notes.txt", "not supported"),
        ):
            said = run_predict(pictures / "model", f"{pictures}/{source}", "-o", pictures / "out")
            assert said.code == 2
            assert expected in said.err

    def test_studies_of_other_classes_or_kind(self, pictures: Path, run_predict: Run) -> None:
        images = RNG.normal(size=(2, 1, 20, 24))
        for number, (labels, classes, expected) in enumerate(
            [
                (np.zeros((2, 1, 20, 24), int), ["a", "b"], "found the classes 0=a, 1=b"),
                (np.zeros((2, 1), int), ["a", "b"], "found a study of classification"),
            ]
        ):
            place = pictures / f"study{number}"
            Study.from_arrays(images, labels, classes=classes).write(place, "packed")
            said = run_predict(pictures / "model", place, "-o", pictures / "out")
            assert said.code == 2
            assert expected in said.err
        make_model(kind="classification", values=(0, 1)).save(pictures / "classes")
        said = run_predict(pictures / "classes", pictures / "study0", "-o", pictures / "out")
        assert said.code == 2
        assert "found a study of segmentation" in said.err

    def test_features_of_another_number(self, tmp_path: Path, run_predict: Run) -> None:
        make_model("vote", kind="classification", spatial_dims=0, channels=5).save(
            tmp_path / "model"
        )
        np.save(tmp_path / "three.npy", np.zeros((4, 3)))
        np.save(tmp_path / "flat.npy", np.zeros(5))
        (tmp_path / "three.csv").write_text("case,a,b,c\n1,2,3,4\n")
        (tmp_path / "words.csv").write_text("a,b,c,d,e\n1,2,3,4,five\n")
        (tmp_path / "none.csv").write_text("a,b,c,d,e\n")
        for name, expected in (
            ("three.npy", "found an image of 3, expected 5 features"),
            ("flat.npy", "expected cases x 5 features"),
            ("three.csv", "found 3 columns of features, expected 5"),
            ("words.csv", "expected numbers"),
            ("none.csv", "found no rows"),
        ):
            said = run_predict(tmp_path / "model", tmp_path / name, "-o", tmp_path / f"out {name}")
            assert said.code == 2
            assert expected in said.err
