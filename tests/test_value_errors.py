"""A `RatersError` is a `ValueError`, and no clause that expects values of others swallows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError, field_validator

import raters
from raters.comparison.cell import read_result
from raters.consensus.read import SUMMARY, read_fusion
from raters.core.errors import RatersError
from raters.core.validation import Validated, own_errors
from raters.datasets.cityscapes import FINE, draw
from raters.learning.methods.entry import parse_options
from raters.learning.prediction.images import _features
from raters.learning.training.config import ModelConfig, read_config
from raters.learning.training.engine import Learner
from raters.learning.training.run import CONFIG, SCORES, read_scores
from raters.study.study_file import SUMS_FILE, sum_errors
from raters.views.plots.overlays import mask_stack
from raters_bench.spec import read_spec
from tests.support.models import make_model


def refusal(call: Callable[[], object]) -> RatersError:
    """Return the error that a call ends with."""
    with pytest.raises(RatersError) as caught:
        call()
    return caught.value


@pytest.fixture
def device(tmp_path: Path) -> Callable[[str], Path]:
    """Make a link to a device, which is refused before it is opened."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.symlink_to("/dev/null")
        return path

    return make


def test_callers_may_catch_value_errors() -> None:
    with pytest.raises(ValueError, match="found the method 'stapel'"):
        raters.fuse(raters.Study.from_arrays(labels=np.zeros((1, 2, 4, 4), int)), method="stapel")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (SUMMARY, lambda path: read_fusion(path.parent)),
        (SCORES, lambda path: read_scores(path.parent)),
        ("cell.json", read_result),
    ],
)
def test_a_device_is_said_to_be_one(
    name: str, read: Callable[[Path], object], device: Callable[[str], Path]
) -> None:
    path = device(name)
    assert str(refusal(lambda: read(path))) == f"{path}: found a device, expected a regular file"


def test_a_device_in_place_of_checksums(device: Callable[[str], Path]) -> None:
    path = device(SUMS_FILE)
    found = [str(error) for error in sum_errors(path.parent)]
    assert found == [f"{path}: found a device, expected a regular file"]


def test_fractions_to_draw_are_named() -> None:
    assert "whole numbers" in str(refusal(lambda: mask_stack(np.full((2, 4, 4), 0.5))))


def test_an_unknown_label_of_a_polygon_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "a_gtFine_polygons.json"
    shape = {"label": "carr", "polygon": [[0, 0], [1, 1]]}
    path.write_text(json.dumps({"imgWidth": 4, "imgHeight": 4, "objects": [shape]}))
    said = str(refusal(lambda: draw(path)))
    assert said == f"{path}: found the label 'carr', expected one of Cityscapes'"


def test_what_a_reader_of_a_data_set_says_is_not_said_twice(tmp_path: Path) -> None:
    def read() -> None:
        with FINE.reading(tmp_path, "not a table"):
            raise FINE.wrong("found no column 'a'", tmp_path)

    assert str(refusal(read)) == f"{tmp_path}: found no column 'a'"


def test_options_that_a_method_refuses_are_not_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model().save(tmp_path)

    def build(_: ModelConfig) -> None:
        raise RatersError("found 1 rater, expected 2 or more")

    monkeypatch.setattr(ModelConfig, "build", build)
    assert "sizes" not in str(refusal(lambda: raters.load(tmp_path)))


def test_what_a_method_says_of_a_checkpoint_is_kept() -> None:
    def load(state: object) -> None:
        raise RatersError(f"found the state {state!r}, expected another")

    engine = SimpleNamespace(method=SimpleNamespace(load_training_state=load))
    best = {"weights": {}, "epoch": 1, "score": [0.5]}
    state = {"history": [], "stopped": False, "best": best, "method": "odd"}
    said = refusal(lambda: Learner.on_load_checkpoint(engine, {"raters": state}))  # type: ignore[arg-type]
    assert str(said) == "found the state 'odd', expected another"


def test_a_case_that_comes_twice_is_no_matter_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    path.write_text("case,a\nx,1\nx,2\n")
    config = SimpleNamespace(channels=1, classes_of_study=lambda: None)
    said = refusal(lambda: _features(path, config))  # type: ignore[arg-type]
    assert "expected numbers" not in str(said)


def test_a_network_in_a_configuration_is_refused_as_one(tmp_path: Path) -> None:
    make_model().save(tmp_path)
    path = tmp_path / CONFIG
    path.write_text(path.read_text().replace("depth: 2", "depth: -2"))
    error = refusal(lambda: read_config(path))
    assert str(error) == f"{path}: found depth=-2, expected 0 or more (network 'unet')"
    assert error.kind == "network"


def test_a_benchmark_says_what_it_misses(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: t\nscores: [dice]\ndata: {images: 3}\nrows: {}\nscales: {}\n")
    said = "found data without a source, expected data: {source: NAME, ...}"
    assert str(refusal(lambda: read_spec(path))) == f"{path}: {said}"


class Picky(BaseModel):
    """Options of somebody's own method."""

    name: str
    size: int = 1

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        raise RatersError(f"found the name {name!r}, expected 'ann'", kind="name")


def test_options_of_an_own_method_say_what_their_class_says() -> None:
    error = refusal(lambda: parse_options(Picky, {"name": "bob"}))
    assert (str(error), error.kind) == ("found the name 'bob', expected 'ann'", "name")


@pytest.mark.parametrize("make", [lambda **v: Inner(**v), lambda **v: Inner.model_validate(v)])
def test_an_own_error_is_the_one_that_is_raised(make: Callable[..., Any]) -> None:
    assert refusal(lambda: make(size="?", picky={"name": "bob"})).kind == "name"


class Inner(Validated):
    """A class that holds another."""

    picky: Picky
    size: int = 1


def test_errors_of_pydantic_stay_what_they_are() -> None:
    with pytest.raises(ValidationError), own_errors():
        Picky.model_validate({"name": 3})
