"""Exported networks say what the model says, at any size, and need no raters."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import Tensor

from raters.core.errors import RatersError
from raters.learning.export import FORMATS, export, run
from raters.learning.export.program import program_of, proto_of, runner
from raters.learning.export.truth import Truth, truth_of
from raters.learning.methods.separate import Separate
from raters.learning.training.config import ModelConfig
from raters.learning.training.model import Model
from tests.support.command_line import Run, assert_refused, run_alone

pytestmark = pytest.mark.slow

MASKS = ("unet", "segresnet", "patch-cnn")
NETWORKS = [
    ("unet", 2, 2, 3),
    ("unet", 3, 2, 2),
    ("segresnet", 2, 2, 2),
    ("patch-cnn", 2, 2, 2),
    ("cnn", 2, 2, 2),
    ("cnn", 3, 2, 3),
    ("resnet", 2, 2, 18),
    ("mlp", 0, 4, 1),
]
SIZES = [(1, (16, 24, 8)), (3, (17, 21, 9)), (1, (5, 1, 9))]
STUDY = {"mode": "study", "mean": [3.0, 50.0], "std": [2.0, 9.0]}
CASE: dict[str, Any] = {"mode": "case", "mean": [], "std": []}
Bundles = dict[str, tuple[Path, Model]]


def model_of(
    name: str = "unet", spatial_dims: int = 2, width: int = 2, depth: int = 2, **other: Any
) -> Model:
    """Make a model with random weights."""
    torch.manual_seed(0)
    how = other.get("normalisation", STUDY)
    values: dict[str, Any] = {
        "method": "vote",
        "options": {},
        "training": {},
        "network": {"name": name, "width": width, "depth": depth},
        "kind": "segmentation" if name in MASKS else "classification",
        "raters": ("ann", "bob", "cleo"),
        "classes": [{"name": name, "value": k} for k, name in enumerate("abc")],
        "channels": 2,
        "spatial_dims": spatial_dims,
        "patch_size": None,
        "normalisation": how,
    }
    config = ModelConfig.model_validate({**values, **other})
    return Model(config.build().eval(), config)


def draw_images(batch: int, channels: int, space: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Draw images far from mean 0 and standard deviation 1, some of them constant."""
    rng = np.random.default_rng(seed)
    found = rng.normal(20, 30, (batch, channels, *space)).astype(np.float32)
    if batch > 1:
        found[1, 0] = 0.1
    return found


def assert_same_truth(model: Model, exported: Callable[[Tensor], Tensor]) -> None:
    """Compare with `model.truth`, image by image, at sizes and batches that were not exported."""
    for batch, space in SIZES:
        image = draw_images(batch, model.config.channels, space[: model.config.spatial_dims])
        found = exported(torch.from_numpy(image)).numpy()
        expected = np.stack([model.truth(one) for one in image])
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        assert np.ptp(expected, axis=1).max() > 0.01  # not the same for all classes


@pytest.mark.parametrize(("name", "spatial_dims", "width", "depth"), NETWORKS)
def test_programs_of_all_networks(name: str, spatial_dims: int, width: int, depth: int) -> None:
    model = model_of(name, spatial_dims, width, depth)
    assert_same_truth(model, program_of(truth_of(model)).module())


def onnx_runs(model: Model, tmp_path: Path) -> Callable[[Tensor], Tensor]:
    truth = truth_of(model)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto_of(program_of(truth), truth).SerializeToString())
    return runner(path)


@pytest.mark.parametrize("network", [("unet", 2, 2, 2), NETWORKS[-1]], ids=str)
def test_onnx_of_networks(network: tuple[str, int, int, int], tmp_path: Path) -> None:
    model = model_of(*network)
    assert_same_truth(model, onnx_runs(model, tmp_path))


def test_separate_is_the_mean_of_those_who_labelled() -> None:
    model = model_of(method="separate")
    assert isinstance(model.method, Separate)
    model.method.labelled[1] = False
    truth = truth_of(model)
    assert len(truth.network.networks) == 2
    assert_same_truth(model, program_of(truth).module())


def test_an_images_own_mean_can_be_inside(tmp_path: Path) -> None:
    model = model_of("cnn", normalisation=CASE)
    assert_same_truth(model, program_of(truth_of(model)).module())
    assert_same_truth(model, onnx_runs(model, tmp_path))


def test_where_the_normalisation_goes() -> None:
    def name(place: Any = "auto", **other: Any) -> tuple[str, bool]:
        truth = truth_of(model_of(**other), place)
        return truth.metadata["input"]["name"], truth.metadata["normalisation"]["inside"]

    raw = ("image", True)
    ready = ("normalised_image", False)
    assert name() == name(patch_size=(8, 8)) == name(normalisation=CASE) == raw
    assert name("outside") == name(normalisation=CASE, patch_size=(8, 8)) == ready
    assert name(normalisation={"mode": "none"}) == ("image", False)
    with pytest.raises(RatersError, match="a window cannot know the whole image's mean"):
        name("inside", normalisation=CASE, patch_size=(8, 8))
    with pytest.raises(RatersError, match="expected one of auto, inside, outside"):
        name("within")


def test_a_network_that_normalises_outside_takes_normalised_images() -> None:
    model = model_of()
    image = draw_images(2, 2, (9, 12))
    ready = torch.from_numpy(np.stack([model.config.normaliser()(one) for one in image]))
    found = program_of(truth_of(model, "outside")).module()(ready)
    expected = np.stack([model.truth(one) for one in image])
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)


LOAD_ALONE = """
import sys, json, numpy, torch
class Nobody:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("raters", "monai"):
            raise ImportError(name)
sys.meta_path.insert(0, Nobody())
files = {"raters.json": ""}
program = torch.export.load("model.pt2", extra_files=files)
numpy.save("truth.npy", program.module()(torch.from_numpy(numpy.load("image.npy"))).numpy())
print(json.loads(files["raters.json"])["classes"][1]["name"])
"""


def test_a_program_loads_without_raters(tmp_path: Path) -> None:
    model = model_of()
    folder = model.save(tmp_path / "run")
    done = export(folder, "torch", tmp_path / "model.pt2")
    assert done.difference is not None and done.difference < 1e-5
    image = draw_images(2, 2, (11, 14))
    np.save(tmp_path / "image.npy", image)
    alone = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD_ALONE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.stdout == "b\n", alone.stderr
    expected = np.stack([model.truth(one) for one in image])
    np.testing.assert_allclose(np.load(tmp_path / "truth.npy"), expected, rtol=0, atol=1e-5)
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        text = b"".join(archive.read(name) for name in archive.namelist())
    assert str(Path(__file__).parents[3]).encode() not in text  # no folders of this machine


def test_the_command_writes_onnx_with_all_that_users_need(tmp_path: Path, run_raters: Run) -> None:
    model = model_of("cnn")
    folder = model.save(tmp_path / "run")
    path = tmp_path / "model.onnx"
    done = run_raters("export", folder, "--to", "onnx", "-o", path)
    assert done.code == 0, done.err
    assert f"{path}: " in done.out and "kB" in done.out
    assert "largest difference from the model's own probabilities: " in done.out
    assert "input: image (values as in the files" in done.out
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    told = {prop.key: prop.value for prop in proto.metadata_props}
    assert [entry["name"] for entry in json.loads(told["classes"])] == ["a", "b", "c"]
    assert json.loads(told["normalisation"])["mean"] == [3.0, 50.0]
    assert told["method"] == "vote" and told["patch_size"] == "null" and told["raters_version"]
    shape = proto.graph.input[0].type.tensor_type.shape.dim
    assert [axis.dim_param or axis.dim_value for axis in shape] == ["batch", 2, "side_0", "side_1"]
    assert str(Path(__file__).parents[3]).encode() not in path.read_bytes()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    before = path.read_bytes()
    again = run_raters("export", folder, "--to", "onnx", "-o", path)
    assert again.code == 2 and "found something there already" in again.err
    assert path.read_bytes() == before


@pytest.mark.parametrize(("to", "name"), [("torch", "x.pt2"), ("monai-bundle", "x")])
def test_a_full_disk_is_an_error(tmp_path: Path, to: str, name: str) -> None:
    """In a process of its own: torch used to end it."""
    model_of("patch-cnn", 2).save(tmp_path / "run")
    before = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    words = ("export", "run", "--to", to, "-o", name)
    outcome = run_alone(*words, folder=tmp_path, before=f"{before}; sys.dont_write_bytecode = True")
    assert_refused(outcome, name, "File too large")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_wrong_calls_say_what_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("cnn")
    with pytest.raises(RatersError, match=r"found the format 'tflite'.*onnx, torch, monai-bundle"):
        export(model, "tflite", tmp_path / "m")
    with pytest.raises(RatersError, match=r"expected one that ends in \.pt2"):
        export(model, "torch", tmp_path / "m.pt")
    with pytest.raises(RatersError, match=r"expected a model folder"):
        export(tmp_path, "torch", tmp_path / "m.pt2")
    features = model_of("mlp", 0, 4, 1)
    with pytest.raises(RatersError, match="found a model of feature vectors"):
        export(features, "monai-bundle", tmp_path / "bundle")
    with pytest.raises(RatersError, match="a bundle's transforms do it"):
        export(model, "monai-bundle", tmp_path / "bundle", normalise="inside")
    monkeypatch.setattr("raters.learning.export.run.find_spec", lambda _: None)
    with pytest.raises(
        RatersError, match=r"found no onnx, expected pip install 'raters\[export\]'"
    ):
        export(model, "onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_looks_at_its_input_cannot_be_exported(tmp_path: Path) -> None:
    model = model_of("cnn")
    layers = model.method.network.backbone.layers  # type: ignore[union-attr]

    class Branch(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    layers.append(Branch())  # type: ignore[union-attr, operator]
    with pytest.raises(RatersError, match=r"which torch\.export cannot capture"):
        export(model, "torch", tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_network_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: an export with other weights than the model's is refused."""
    model = model_of("cnn")
    make = truth_of

    def other(*given: Any) -> Truth:
        truth = make(*given)
        truth.network.networks = torch.nn.ModuleList(
            make(model_of("cnn", width=3)).network.networks
        )
        return truth

    monkeypatch.setattr("raters.learning.export.truth.truth_of", other)
    with pytest.raises(
        RatersError, match=r"found probabilities that differ by .*nothing was written"
    ):
        run.export(model, "torch", tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []


# what MONAI's schema of 2024-07-25 asks for, with the JSON types
REQUIRED = {
    "schema": str,
    "version": str,
    "monai_version": str,
    "pytorch_version": str,
    "numpy_version": str,
    "required_packages_version": dict,
    "optional_packages_version": dict,
    "task": str,
    "description": str,
    "authors": str,
    "copyright": str,
    "network_data_format": dict,
}
OPTIONAL = {
    "changelog": dict,
    "data_source": str,
    "data_type": str,
    "image_classes": str,
    "label_classes": str,
    "pred_classes": str,
    "eval_metrics": dict,
    "intended_use": str,
    "references": list,
}
TENSOR = {
    "type": str,
    "format": str,
    "num_channels": int,
    "spatial_shape": list,
    "dtype": str,
    "value_range": list,
    "is_patch_data": bool,
    "channel_def": dict,
}


def check_metadata(bundle: Path, model: Model) -> None:
    """Check keys and types as MONAI's schema has them, and that MONAI finds its properties."""
    values = json.loads((bundle / "configs/metadata.json").read_text(encoding="utf-8"))
    assert {k: type(values[k]) for k in REQUIRED | OPTIONAL} == REQUIRED | OPTIONAL
    network = values["network_data_format"]
    for tensor in (network["inputs"]["image"], network["outputs"]["pred"]):
        assert {k: type(tensor[k]) for k in TENSOR} == TENSOR
        assert len(tensor["channel_def"]) == tensor["num_channels"]
    assert network["inputs"]["image"]["num_channels"] == model.config.channels
    assert list(network["outputs"]["pred"]["channel_def"].values()) == ["a", "b", "c"]


RUN_BUNDLE = """
import sys
from monai.bundle.scripts import verify_net_in_out
from monai.bundle.workflows import ConfigWorkflow

for place in sys.argv[1:]:
    bundle = place + "/bundle"
    configs = {
        "config_file": bundle + "/configs/inference.json",
        "meta_file": bundle + "/configs/metadata.json",
        "bundle_root": bundle,
    }
    verify_net_in_out("network_def", device="cpu", any=13, **configs)
    workflow = ConfigWorkflow(
        workflow_type="infer",
        logging_file=False,
        dataset_dir=place + "/images",
        output_dir=place + "/out",
        **configs,
    )
    workflow.initialize()
    assert not workflow.check_properties()
    workflow.run()
assert "raters" not in sys.modules
"""
RNG = np.random.default_rng(0)
PICTURES = [RNG.integers(0, 255, s, dtype=np.uint8) for s in [(30, 22), (9, 11), (10, 40)]]
AFFINE = np.array([[0, -2, 0, 5], [1.5, 0, 0, -7], [0, 0, 3, 11], [0, 0, 0, 1.0]])
VOLUME = draw_images(1, 1, (13, 9, 7))[0, 0]
CLASSIFIED = [(RNG.random((12, 9)) ** (k + 1) * 255).astype(np.uint8) for k in range(6)]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """Run three bundles as `python -m monai.bundle run` does, in a Python of their own."""
    classes = [{"name": n, "value": v} for n, v in zip("abc", (0, 90, 255), strict=True)]
    how = {"mode": "study", "mean": [120.0], "std": [40.0]}
    models = {
        "pictures": model_of(channels=1, patch_size=(16, 12), classes=classes, normalisation=how),
        "volumes": model_of(spatial_dims=3, channels=1, normalisation=CASE),
        "classes": model_of("cnn", width=4, channels=1, normalisation=CASE),
    }
    above = tmp_path_factory.mktemp("bundles")
    for name, model in models.items():
        (above / name / "images").mkdir(parents=True)
        done = export(model, "monai-bundle", above / name / "bundle")
        assert {"LICENSE", "docs/README.md", "models/model.pt"} < done.files.keys()
    for name, pictures in (("pictures", PICTURES), ("classes", CLASSIFIED)):
        for k, picture in enumerate(pictures):
            Image.fromarray(picture).save(above / name / f"images/c{k}.png")
    file = nib.Nifti1Image(VOLUME, AFFINE)  # type: ignore[no-untyped-call]
    nib.save(file, above / "volumes/images/one.nii.gz")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN_BUNDLE, *(str(above / name) for name in models)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: (above / name, model) for name, model in models.items()}


def test_a_bundle_of_pictures_in_windows(bundles: Bundles) -> None:
    """Rows stay rows, classes get the values of files, and small images are not padded."""
    place, model = bundles["pictures"]
    check_metadata(place / "bundle", model)
    values = np.array([0, 90, 255])
    for k, picture in enumerate(PICTURES):
        found = np.asarray(Image.open(place / f"out/c{k}.png"))
        truth = np.sort(model.truth(picture), axis=0)
        sure = truth[-1] - truth[-2] > 1e-3  # windows are blended in another order of sums
        assert sure.mean() > 0.9
        assert np.array_equal(found[sure], values[model.predict(picture)][sure])
        assert len(np.unique(found)) > 1


def test_a_bundle_of_volumes_keeps_their_geometry(bundles: Bundles) -> None:
    place, model = bundles["volumes"]
    check_metadata(place / "bundle", model)
    weights = torch.load(place / "bundle/models/model.pt", weights_only=True)
    assert all(isinstance(value, Tensor) for value in weights.values())
    found = nib.load(place / "out/one.nii.gz")
    assert isinstance(found, nib.Nifti1Image)
    np.testing.assert_allclose(found.affine, AFFINE, atol=1e-5)
    labels = model.predict(VOLUME)
    assert np.array_equal(np.asarray(found.dataobj), labels) and len(np.unique(labels)) > 1


def test_a_bundle_that_classifies_writes_a_table(bundles: Bundles) -> None:
    place, model = bundles["classes"]
    check_metadata(place / "bundle", model)
    expected = {f"c{k}.png": float(model.predict(p)) for k, p in enumerate(CLASSIFIED)}
    with open(place / "out/predictions.csv", encoding="utf-8") as file:
        found = {Path(name).name: float(value) for name, value in csv.reader(file)}
    assert found == expected


def test_every_format_is_there() -> None:
    assert list(FORMATS) == ["onnx", "torch", "monai-bundle"]
    for name, entry in FORMATS.items():
        assert entry.name == name
