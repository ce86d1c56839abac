"""A study is looked at once before training: files opened, and counts against plain loops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from raters.core.classes import MISSING
from raters.io import formats
from raters.learning.training import fit, options, prepare
from raters.learning.training.engine import Learner
from raters.study.study import Study
from raters.study.survey import survey
from tests.support.command_line import Run
from tests.support.makers import save

RATERS = ("ann", "bob", "cy")
SMALL: dict[str, Any] = {"epochs": 1, "width": 2, "depth": 2, "progress": False}


class StopError(Exception):
    """The first step was reached."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 cases by three raters, of whom each left out two: 66 masks, with some 255."""
    rng = np.random.default_rng(0)
    where = tmp_path_factory.mktemp("study")
    for case in range(24):
        truth = rng.random((12, 10)) < 0.4
        save(where / f"images/c{case:02}.png", (truth * 90 + 60).astype(np.uint8))
        save(where / f"arrays/c{case:02}.npy", np.stack([truth, ~truth], -1).astype(np.float32))
        save(where / f"truth/c{case:02}.png", truth.astype(np.uint8))
        for k, rater in enumerate(RATERS):
            mask = truth ^ (rng.random((12, 10)) < 0.1)
            mask = np.where(rng.random((12, 10)) < 0.2, 255, mask)
            if case % 12 != 4 * k:
                save(where / f"masks/{rater}/c{case:02}.png", mask.astype(np.uint8))
    assert len(list(where.glob("masks/*/*.png"))) == 66
    return where


def read_files(folder: Path, images: str = "images/{case}.png", **given: Any) -> Study:
    given = {"ignore": [255], **given}
    return raters.read(
        f"{folder}/masks/{{rater}}/{{case}}.png", images=f"{folder}/{images}", **given
    )


@pytest.fixture
def open_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened, up to the first step, which ends the training."""
    found: Counter[str] = Counter()

    def counting(name: str) -> None:
        before = getattr(formats, name)

        def counted(path: Path, *given: Any) -> Any:
            found[str(path)] += 1
            return before(path, *given)

        monkeypatch.setattr(formats, name, counted)

    for name in ("read_labels", "read_image", "probe"):
        counting(name)

    def stop(*_: Any) -> None:
        raise StopError

    monkeypatch.setattr(Learner, "training_step", stop)
    return found


@pytest.mark.parametrize(
    ("method", "given", "of_study"),
    [
        ("pixel-cm", {"class_weights": "balanced", "batch_size": 24}, {}),
        ("pixel-cm", {"patch_size": (8, 8)}, {"images": "arrays/{case}.npy"}),
        ("separate", {"normalise": "case"}, {"values": {0: "background", 1: "x"}}),
        ("global-cm", {"select": "reference", "class_weights": "balanced"}, {"reference": True}),
        ("truth", {}, {"reference": True}),
    ],
)
def test_no_file_is_opened_more_than_twice_before_the_first_step(
    folder: Path,
    open_counts: Counter[str],
    method: str,
    given: dict[str, Any],
    of_study: dict[str, Any],
) -> None:
    if "reference" in of_study:
        of_study = {**of_study, "reference": f"{folder}/truth/{{case}}.png"}
    study = read_files(folder, **of_study)
    with pytest.raises(StopError):
        raters.fit(study, method, **SMALL, **given)
    assert max(open_counts.values()) <= 2
    masks = sum(times for file, times in open_counts.items() if "/masks/" in file)
    assert masks <= 2 * 66


def test_an_image_that_is_no_plain_array_needs_no_mask(
    folder: Path, open_counts: Counter[str]
) -> None:
    case = read_files(folder)[0]
    assert case.image is not None
    assert case.geometry.shape == (12, 10)
    assert dict(open_counts) == {f"{folder}/images/c00.png": 1}
    array = read_files(folder, "arrays/{case}.npy")[0].image  # two channels behind: the mask tells
    assert array is not None
    assert array.shape == (2, 12, 10)


@pytest.mark.parametrize("absent", ["missing", "empty"])
@pytest.mark.parametrize("chosen", [RATERS, ("bob", "cy")])
@pytest.mark.parametrize("known", [True, False])
def test_counts_are_those_of_the_labels(
    folder: Path, absent: str, chosen: tuple[str, ...], known: bool
) -> None:
    """Whether masks were read before (to find classes) or not."""
    given: dict[str, Any] = {} if known else {"values": {0: "background", 1: "x"}}
    study = read_files(folder, absent=absent, **given).select(raters=chosen)
    assert len(study.classes) == 2
    found = survey(study)
    labels = 0
    pixels = 0
    total = np.zeros(2, int)
    for k, case in enumerate(study.iter_cases()):
        there = case.labels != MISSING
        labels = labels + there.sum()
        pixels = pixels + there.any(axis=0).sum()
        for rater in range(len(chosen)):
            expected = [(case.labels[rater] == c).sum() for c in range(2)]
            assert found.case(k).labels[rater].tolist() == expected
            total += expected
    assert found.labels_per_pixel() == labels / pixels
    assert found.class_counts().tolist() == total.tolist()
    assert found.used_by_raters().all()
    assert found.without_labels() == ()


def test_masks_on_another_grid_are_counted_where_they_come_to_lie(tmp_path: Path) -> None:
    save(tmp_path / "images/a.png", np.zeros((8, 8), np.uint8))
    mask = np.zeros((4, 4), np.uint8)
    mask[0, :2] = 1
    save(tmp_path / "masks/ann/a.png", mask)
    study = raters.read(
        f"{tmp_path}/masks/{{rater}}/{{case}}.png",
        images=f"{tmp_path}/images/{{case}}.png",
        resample="nearest",
    )
    assert survey(study).class_counts().tolist() == [56, 8]
    refused = raters.read(
        f"{tmp_path}/masks/{{rater}}/{{case}}.png", images=f"{tmp_path}/images/{{case}}.png"
    )
    with pytest.raises(raters.RatersError, match=r"ann/a\.png.*found shape"):
        survey(refused).class_counts()


def test_options_are_checked_and_cases_parted_once(
    folder: Path, tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: Counter[str] = Counter()

    def counting(module: Any, name: str) -> None:
        before = getattr(module, name)

        def counted(*given: Any) -> Any:
            called[given[0].__name__ if name == "parse_options" else name] += 1
            return before(*given)

        monkeypatch.setattr(module, name, counted)

    from raters.learning.methods import entry

    counting(entry, "parse_options")
    counting(options, "parse_options")
    counting(prepare, "partition")
    counting(fit, "plan_training")
    study = [f"{folder}/masks/{{rater}}/{{case}}.png", "--images", f"{folder}/images/{{case}}.png"]
    small = ["--epochs", "1", "--width", "2", "--depth", "2", "--ignore", "255"]
    said = run_raters("train", *study, *small, "-o", tmp_path / "run")
    assert said.code == 0, said.err
    once = {"PixelOptions": 1, "TrainingOptions": 1, "partition": 1, "plan_training": 1}
    assert dict(called) == once
