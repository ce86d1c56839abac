"""A model folder may come from a stranger: loading it runs nothing, and what is wrong is said."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import raters
from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from tests.support.models import make_model

HISTORY: list[dict[str, Any]] = [
    {"epoch": 1, "loss": 0.5, "held_out": 0.75, "seconds": 0.5},
    {"epoch": 2, "loss": 0.25, "held_out": 0.5, "seconds": 0.25},
]


class Trap:
    """A pickle of it makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, tuple[str, int]]:
        return os.open, (self.path, os.O_CREAT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_model().save(tmp_path / "model")


def change_config(folder: Path, **entries: Any) -> None:
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text())
    for place, value in entries.items():
        *parents, last = place.split("__")
        part = config
        for name in parents:
            part = part[name]
        part[last] = value
    path.write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_predicts_the_same(method: str, tmp_path: Path) -> None:
    model = make_model(method)
    image = np.random.default_rng(0).normal(size=(1, 9, 12))
    copy = raters.load(model.save(tmp_path / "model"))
    assert np.array_equal(copy.truth(image), model.truth(image))
    if "as_rater" in model.method.answers:
        assert np.array_equal(copy.as_rater(image, "bob"), model.as_rater(image, "bob"))
    if "samples" in model.method.answers:
        assert np.array_equal(copy.samples(image, 2), model.samples(image, 2))


def test_a_network_without_layers_of_its_width_loads(tmp_path: Path) -> None:
    """Logistic regression has a width in its configuration, and no weights of that size."""
    model = make_model("global-cm", kind="classification", spatial_dims=0, channels=3)
    network = model.config.network.model_copy(update={"depth": 0, "width": 128})
    config = model.config.model_copy(update={"network": network})
    raters.Model(config.build().eval(), config).save(tmp_path / "model")
    assert raters.load(tmp_path / "model").config == config


def test_history_and_best_epoch_are_kept(tmp_path: Path) -> None:
    model = make_model()
    model.history = HISTORY
    model.best_epoch = 2
    copy = raters.load(model.save(tmp_path / "model"))
    assert copy.history == HISTORY
    assert copy.best_epoch == 2
    again = raters.load(copy.save(tmp_path / "again"))
    assert (again.history, again.best_epoch) == (HISTORY, 2)


@pytest.mark.parametrize("how", ["plain", "torch"])
def test_a_pickle_in_place_of_the_weights_is_not_run(
    how: str, folder: Path, tmp_path: Path
) -> None:
    trap = Trap(tmp_path / "made")
    made = tmp_path / "made"
    weights = folder / "weights.safetensors"
    if how == "plain":
        weights.write_bytes(pickle.dumps(trap))
    else:
        torch.save({"w": trap}, weights)
    with pytest.raises(RatersError, match=r"weights\.safetensors: cannot be read"):
        raters.load(folder)
    assert not made.exists()
    os.close(pickle.loads(pickle.dumps(trap)))  # the trap does work where it is opened
    assert made.exists()


@pytest.mark.parametrize("where", ["whole", "value"])
def test_a_tag_in_the_configuration_is_not_run(where: str, folder: Path, tmp_path: Path) -> None:
    path = folder / "config.yaml"
    tag = f"!!python/object/apply:os.mkdir ['{tmp_path / 'made'}']"
    path.write_text(tag if where == "whole" else path.read_text() + f"extra: {tag}\n")
    with pytest.raises(RatersError, match="found no plain YAML"):
        raters.load(folder)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "just words", "a: [1, 2", "\x00", "[" * 1500, "{" * 1500]
)
def test_a_configuration_that_is_none_is_refused(text: str, folder: Path) -> None:
    (folder / "config.yaml").write_text(text)
    with pytest.raises(RatersError, match=r"config\.yaml"):
        raters.load(folder)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_truncated_weights_are_refused(share: float, folder: Path) -> None:
    path = folder / "weights.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(RatersError, match=r"weights\.safetensors"):
        raters.load(folder)


def test_a_header_that_claims_the_impossible_is_refused(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(RatersError, match="cannot be read"):
        raters.load(folder)


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    path = folder / "weights.safetensors"
    state = load_file(path)
    state["network.head.weight"] = torch.zeros(3, 2, 1, 1)
    save_file(state, path)
    with pytest.raises(
        RatersError, match=r"\(3, 2, 1, 1\) for the weight 'network\.head\.weight', expected \(2,"
    ):
        raters.load(folder)


def test_weights_that_are_missing_or_too_many_are_named(folder: Path) -> None:
    path = folder / "weights.safetensors"
    state = load_file(path)
    save_file({**state, "more": torch.zeros(1)}, path)
    with pytest.raises(RatersError, match="found the weight 'more', expected none"):
        raters.load(folder)
    del state["network.head.bias"]
    save_file(state, path)
    with pytest.raises(RatersError, match=r"found nothing for the weight 'network\.head\.bias'"):
        raters.load(folder)


def test_weights_that_are_no_numbers_are_refused(folder: Path) -> None:
    path = folder / "weights.safetensors"
    state = load_file(path)
    state["network.head.bias"][0] = float("nan")
    save_file(state, path)
    with pytest.raises(RatersError, match=r"NaN or infinity in the weight 'network\.head\.bias'"):
        raters.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"patch_size": [0, 0]}, r"found patch_size=\[0, 0\], expected 2 positive sides"),
        ({"patch_size": [-4, -4]}, r"found patch_size=\[-4, -4\]"),
        ({"patch_size": []}, r"found patch_size=\[\]"),
        ({"patch_size": [8]}, r"found patch_size=\[8\]"),
        ({"patch_size": [8, 8, 8]}, r"found patch_size=\[8, 8, 8\]"),
        ({"patch_size": [8] * 10_000}, r"found patch_size=\[8, 8, 8, 8, 8\] \.\.\., expected"),
        ({"spatial_dims": 0, "patch_size": None}, "found spatial_dims=0, expected 1 to 3"),
        ({"spatial_dims": 2**70}, "found spatial_dims="),
        ({"channels": -1}, "found channels=-1, expected 1 or more"),
        ({"classes": [{"name": "a", "value": 0}, {"name": "b", "value": 2**70}]}, "64 bits"),
        ({"classes": [{"name": "a", "value": 0}, {"name": "b", "value": "b"}]}, "value 'b' of"),
        ({"classes": [{"name": "a", "value": 0}, {"name": "a", "value": 1}]}, "name 'a' twice"),
    ],
)
def test_what_prediction_would_stumble_over_is_refused_at_once(
    entries: dict[str, Any], said: str, folder: Path
) -> None:
    change_config(folder, **entries)
    with pytest.raises(RatersError, match=said) as caught:
        raters.load(folder)
    assert caught.value.file == str(folder / "config.yaml") and len(str(caught.value)) < 1000


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 10)]
)


@pytest.mark.parametrize("text", [LAUGHS, f"a: {'9' * 5000}", f"a: 0x{'f' * 5000}", "[" * 5000])
def test_a_configuration_that_unfolds_without_end_is_refused(text: str, folder: Path) -> None:
    with open(folder / "config.yaml", "a") as file:
        file.write(f"\n{text}\n")
    with pytest.raises(RatersError, match="found no plain YAML") as caught:
        raters.load(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, '{"best_epoch": ' * 3000])
def test_scores_that_unfold_without_end_are_refused(text: str, folder: Path) -> None:
    (folder / "history.csv").write_text("epoch\n1\n")
    (folder / "scores.json").write_text(text)
    with pytest.raises(RatersError, match="expected scores") as caught:
        raters.load(folder)
    assert caught.value.file == str(folder / "scores.json") and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"colour": "red"}, "colour"),
        ({"network__colour": "red"}, "colour"),
        ({"training__colour": "red"}, "colour"),
        ({"options__colour": "red"}, "colour"),
        ({"method": "magic"}, "'magic'"),
        ({"network__name": "magic"}, "'magic'"),
        ({"channels": -1}, "channels"),
        ({"spatial_dims": 7}, "7"),
        ({"raters": "ann"}, "raters"),
        ({"normalisation": {"mode": "magic"}}, "magic"),
        ({"normalisation": {"mode": "study", "mean": 3, "std": 3}}, "without means"),
        ({"normalisation": {"mode": "study", "mean": ["a"], "std": [1]}}, "without means"),
        ({"kind": "classification"}, "classification"),
        ({"format": 2}, "format"),
    ],
)
def test_what_is_wrong_in_the_configuration_is_named(
    entries: dict[str, Any], said: str, folder: Path
) -> None:
    change_config(folder, **entries)
    with pytest.raises(RatersError, match=said):
        raters.load(folder)


@pytest.mark.parametrize(
    "entries",
    [
        {"network__width": 10**9},
        {"network__width": 10**30},
        {"network__depth": 10**9},
        {"network__depth": 60},
        {"channels": 10**12},
        {"channels": 10**30},
    ],
)
def test_absurd_sizes_take_no_memory(entries: dict[str, Any], folder: Path) -> None:
    change_config(folder, **entries)
    with pytest.raises(RatersError):
        raters.load(folder)


def test_a_foreign_folder_is_told_from_a_model(tmp_path: Path, folder: Path) -> None:
    expected = r"expected a model folder: config\.yaml and weights\.safetensors"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    for path in (tmp_path / "other", tmp_path / "nowhere", folder / "config.yaml"):
        with pytest.raises(RatersError, match=expected):
            raters.load(path)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(RatersError, match=r"weights\.safetensors: there is no such file"):
        raters.load(folder)


def test_an_unfinished_run_is_told(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    (folder / "splits.csv").write_text("case,part,group\n")
    with pytest.raises(RatersError, match="found an unfinished run"):
        raters.load(folder)


def test_what_is_no_folder_is_told(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RatersError, match="file: found a file, expected a folder to write to"):
        raters.load(folder).save(tmp_path / "file")
    with pytest.raises(RatersError, match="found NoneType, expected the path of a model folder"):
        raters.load(None)  # type: ignore[arg-type]


def test_a_configuration_without_classes_is_refused(folder: Path) -> None:
    change_config(folder, classes=[])
    with pytest.raises(RatersError, match=r"config\.yaml: found 0 classes, expected at least two"):
        raters.load(folder)
