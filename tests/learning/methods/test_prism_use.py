"""`prism` as users meet it: recurrences as files, weights, both fusions, report, and a purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io import formats
from raters.learning.methods.base import Asked
from raters.study.study import Study
from raters.views.report.run_raters import recurrence_section
from tests.support.command_line import Run, draw_masks, images_option, pattern
from tests.support.models import make_model
from tests.support.scores import foreground_dice

RATERS = ("ann", "bob", "cy")
VALUES = np.array([0, 4])
NAMES = "0=class 0,4=class 4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Draw masks by three raters, and save a model of them with random weights."""
    draw_masks(tmp_path, RATERS, value=4)
    model = make_model("prism", raters=RATERS)
    model.save(tmp_path / "run")
    return tmp_path


def study_in(folder: Path) -> Study:
    return raters.read(pattern(folder), images=images_option(folder)[1], values=NAMES)


def test_recurrences_and_confidences_are_written(folder: Path, run_raters: Run) -> None:
    shown = f"{folder}/images/{{case}}.png"
    out = folder / "out"
    done = run_raters(
        "predict", folder / "run", shown, "-o", out, "--recurrences", "--probabilities"
    )
    assert done.code == 0, done.err
    model = raters.load(folder / "run")
    case = study_in(folder)["c1"]
    turns, trust = model.recurrences(case)
    assert turns.shape == (3, 2, 12, 12) and trust.shape == (3, 3, 12, 12)
    np.testing.assert_array_equal(turns[-1], model.truth(case))
    assert np.abs(turns[0] - turns[1]).max() > 1e-4  # a recurrence does something
    np.testing.assert_allclose(np.load(out / "confidence/c1.npy"), trust, rtol=1e-4)
    for k in range(3):
        written = formats.read_labels(out / f"recurrence-{k + 1}/c1.png").array
        np.testing.assert_array_equal(written, VALUES[turns[k].argmax(0)])
    assert run_raters("evaluate", out, pattern(folder)).code == 0  # the maps beside are no cases
    done = run_raters("predict", folder / "run", shown, "-o", folder / "as", "--as-rater", "ann")
    assert "may be nobody's: divp_loss=shuffle ties no head to its rater" in done.out
    said = np.stack([model.as_rater(case, rater) for rater in RATERS])
    expected = (turns[-1] * said / said.sum(0)).sum(1)
    np.testing.assert_allclose(trust[-1], expected, rtol=1e-4)


def test_other_methods_have_no_recurrences(folder: Path, run_raters: Run) -> None:
    make_model("pixel-cm", raters=RATERS).save(folder / "other")
    shown = f"{folder}/images/{{case}}.png"
    done = run_raters("predict", folder / "other", shown, "-o", folder / "out", "--recurrences")
    assert done.code == 2 and "methods that can answer recurrences: prism" in done.err
    words = ["fuse", pattern(folder), *images_option(folder), "--values", NAMES]
    words += ["--model", folder / "other"]
    done = run_raters(*words, "-o", folder / "fused", "--option", "use_labels=false")
    assert done.code == 2 and "found use_labels=false with a model of pixel-cm" in done.err


def test_a_weighting_is_what_the_first_recurrence_starts_with(folder: Path) -> None:
    model = raters.load(folder / "run")
    case = study_in(folder)["c0"]
    even = model.predict_proba(case, weights=dict.fromkeys(RATERS, 1.0))
    np.testing.assert_allclose(even, model.recurrences(case)[0][0], rtol=1e-5)
    image = model.pixels(case)[None]
    with torch.no_grad():
        expected = model.method.weighted(image, torch.tensor([0.7, 0.3, 0.0]))[0]
    found = model.predict_proba(case, weights="ann=0.7,bob=0.3")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.abs(found - even).max() > 1e-6


def test_recurrences_beside_a_weighting_start_with_it(folder: Path, run_raters: Run) -> None:
    words = ["predict", folder / "run", f"{folder}/images/{{case}}.png", "--probabilities"]
    words += ["--recurrences", "-o", folder / "weighted", "--weights", "cy=1"]
    assert run_raters(*words).code == 0
    truth, first = (
        formats.read_labels(folder / "weighted" / part / "c0.png").array
        for part in ("", "recurrence-1")
    )
    np.testing.assert_array_equal(truth, first)
    model = raters.load(folder / "run")
    case = study_in(folder)["c0"]
    image = model.pixels(case)[None]
    weights = (0.0, 0.0, 1.0)
    with torch.no_grad():
        maps = model.method.maps(image, Asked(recurrences=True, weights=weights))
        even = model.method.maps(image, Asked(recurrences=True))
    torch.testing.assert_close(maps["truth"], maps["recurrence:1"])
    assert (maps["recurrence:2"] - even["recurrence:2"]).abs().max() > 1e-6


def test_a_rater_without_labels_is_no_second_one() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (6, 2, 16, 16))
    labels[:, 1] = MISSING
    study = Study.from_arrays(rng.random((6, 1, 16, 16)), labels)
    with pytest.raises(RatersError, match="found 1 rater with labels, expected at least 2: prism"):
        raters.fit(study, "prism", epochs=1, width=2)


def test_labels_are_fused_with_and_without_a_look_at_them(folder: Path, run_raters: Run) -> None:
    words = ["fuse", pattern(folder), *images_option(folder), "--values", NAMES]
    words += ["-m", "prism", "--model", folder / "run"]
    model = raters.load(folder / "run")
    study = study_in(folder)
    written: dict[str, Any] = {}
    for name, more in (("fuse", []), ("self", ["--option", "use_labels=false"])):
        done = run_raters(*words, "-o", folder / name, *more)
        assert done.code == 0, done.err
        written[name] = formats.read_labels(folder / name / "c1.png").array
        content = json.loads((folder / name / "raters.json").read_text())
        assert f"y_{name} was written" in content["notes"][-1]
        assert content["fusion"]["options"] == ({"use_labels": False} if more else {})
    case = study["c1"]
    image = model.pixels(case)[None]
    labels = torch.from_numpy(np.asarray(case.labels)).long()[None]
    with torch.no_grad():
        expected = {
            "fuse": model.method.fused({"image": image, "labels": labels}),
            "self": model.method.fused_unseen(image),
        }
    for name, found in written.items():
        np.testing.assert_array_equal(found, VALUES[expected[name][0].argmax(0)])
    assert (written["fuse"] != written["self"]).any()
    same = raters.fuse(study, model=model)
    share = np.mean(
        [
            (same[c].labels == raters.fuse(study, model=model, use_labels=False)[c].labels).mean()
            for c in study.cases
        ]
    )
    assert f"agree on {share:.1%} of the pixels of 3 cases" in same.notes[-1]


@pytest.mark.usefixtures("small_figures")
def test_the_report_shows_recurrences_side_by_side(folder: Path) -> None:
    model = raters.load(folder / "run")
    study = study_in(folder)
    section = recurrence_section(model, study)
    assert section is not None
    figure, table = section.blocks
    pictures = [axes.images[0].get_array() for axes in figure.figure.axes]  # type: ignore[union-attr]
    turns, _ = model.recurrences(study["c0"])
    np.testing.assert_allclose(np.array(pictures), 1 - turns[:, 0])
    total = np.zeros(3)
    pixels = 0
    for case in study.iter_cases():
        turns, trust = model.recurrences(case)
        drawn = (turns[-1].argmax(0) > 0) | (case.labels[1] > 0)
        total = total + (trust[:, 1] * drawn).sum((1, 2))
        pixels = pixels + int(drawn.sum())
    row = table.rows[1]  # type: ignore[union-attr]
    assert row["rater"] == "bob"
    for k in range(3):
        assert row[f"recurrence {k + 1}"] == pytest.approx(total[k] / pixels, rel=1e-4)
    assert recurrence_section(make_model("pixel-cm", raters=RATERS), study) is None


def draw_discs(cases: int, seed: int) -> Study:
    """Draw discs that three raters draw right, too small and too large."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:24, :24]
    truth = []
    labels = []
    shown = []
    for _ in range(cases):
        y, x = rng.uniform(9, 15, 2)
        distance = np.hypot(rows - y, columns - x)
        radius = rng.uniform(5, 7)
        truth.append(distance < radius)
        masks = np.stack([distance < radius + more for more in (0, -2, 2)]).astype(int)
        labels.append(masks)
        shown.append((truth[-1] + rng.normal(0, 0.3, truth[-1].shape))[np.newaxis])
    images_of = np.array(shown, np.float32)
    return Study.from_arrays(
        images_of,
        np.array(labels),
        reference=np.array(truth).astype(int),
        raters=["right", "small", "large"],
        classes=[0, 1],
    )


@pytest.mark.slow
def test_raters_are_told_apart_and_recurrences_keep_the_truth() -> None:
    """Heads draw less and more as their raters do; the truth does not run away from the vote.

    They do not draw as much less and more: what a head says is also the weight that it has.
    """
    model = raters.fit(
        draw_discs(16, 0),
        "prism",
        epochs=30,
        width=8,
        batch_size=4,
        lr=3e-3,
        divp_loss="both",
        warm_up=0,
        select="last",
        val_fraction=0.0,
        num_workers=0,
        progress=False,
    )
    told = []
    truths = []
    areas = []
    for case in draw_discs(8, 9).iter_cases():
        turns, _ = model.recurrences(case)
        reference = np.asarray(case.reference) > 0
        truths.append([foreground_dice(turn[1] > 0.5, reference) for turn in turns])
        areas.append([(turn[1] > 0.5).sum() / reference.sum() for turn in turns])
        said = [model.as_rater(case, rater)[1] > 0.5 for rater in ("right", "small", "large")]
        told.append([mask.sum() / reference.sum() for mask in said])
    right, small, large = np.mean(told, 0)
    assert small + 0.1 < right < large - 0.1, told
    scores = np.mean(truths, 0)
    assert scores.min() > 0.9 and scores[-1] > scores[0] - 0.01, truths
    assert np.abs(np.mean(areas, 0) - 1).max() < 0.2, areas
