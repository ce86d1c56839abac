"""Kinds of annotation on the command line: each verb takes them, and each refusal is in words."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import raters
from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from raters.learning.methods.options import MethodOptions
from raters.learning.training.options import checked_options
from raters.learning.training.prepare import plan_training
from raters.study.annotations import ANNOTATIONS
from raters.study.study import Study
from tests.support.command_line import Run, save_png
from tests.support.makers import square

SMALL = ["--epochs", "2", "--width", "2", "--depth", "2", "--batch-size", "4"]
KINDS = {"ann": "positive", "ben": "negative", "cy": "scribble", "eve": "box"}
TOLD = [word for rater, kind in KINDS.items() for word in ("--annotation", f"{rater}={kind}")]


def draw_every_kind(folder: Path, classes: int = 2, cases: int = 5) -> list[str]:
    """Draw a study with a rater of every kind; give the words that name it, kinds included.

    Case 0 has a negative drawing only, case 1 a positive one only.
    """
    rng = np.random.default_rng(0)
    for k in range(cases):
        truth = np.zeros((16, 16), np.uint8)
        truth[4:11, 2 + k : 9 + k] = 1
        if classes == 3:
            truth[6:9, 4 + k : 7 + k] = 2
        noise = rng.integers(0, 60, truth.shape, dtype=np.uint8)
        save_png(folder / f"images/c{k}.png", 90 * truth + noise)
        marks = np.full_like(truth, 255)
        marks[7] = truth[7]
        marks[0] = 0
        box = np.zeros_like(truth)
        box[3:12, 1 + k : 10 + k] = 1
        ruled_out = np.where(truth == 1, classes - 1, 1) * (truth != classes - 1)
        drawn = {"ann": truth, "ben": ruled_out.astype(np.uint8), "cy": marks, "eve": box}
        for rater, mask in (drawn | {"mo": truth.T.copy()}).items():
            if k > 1 or rater == ("ben", "ann")[k]:
                save_png(folder / f"masks/{rater}/c{k}.png", mask)
    masks, images = (f"{folder}/{part}.png" for part in ("masks/{rater}/{case}", "images/{case}"))
    return [masks, "--images", images, "--ignore", "255", *TOLD]


@pytest.mark.slow
def test_every_verb_with_every_kind(run_raters: Run, tmp_path: Path) -> None:
    words = draw_every_kind(tmp_path / "data")
    shown = run_raters("check", *words)
    assert shown.code == 0
    assert all(
        any({r, k} <= set(line.split()) for line in shown.out.splitlines())
        for r, k in KINDS.items()
    )
    listed = json.loads(run_raters("check", *words, "--unmarked", "unknown", "--json").out)
    assert {row["name"]: row["annotation"] for row in listed["raters"]} == {**KINDS, "mo": "mask"}
    assert listed["unmarked"] == "unknown"
    assert (
        json.loads(run_raters("check", *words, "--json").out)["unmarked"] == "unknown"
    )  # of both kinds
    words += ["--unmarked", "rest"]
    agreed = run_raters("agree", *words)
    assert agreed.code == 0
    assert "raters are compared only where both say something" in agreed.out
    assert (
        "negative drawings by ben: what is drawn is background, all else is 'foreground'"
        in agreed.out
    )
    fused = run_raters("fuse", *words, "-m", "vote", "-o", tmp_path / "fused")
    assert fused.code == 0
    assert "scribbles by cy" in fused.out
    # Case 0 has a negative drawing alone: its consensus is what that does not rule out.
    truth = np.zeros((16, 16), np.uint8)
    truth[4:11, 2:9] = 1
    assert np.array_equal(np.array(Image.open(tmp_path / "fused/c0.png")), truth)
    words = words[:-2]
    again = run_raters("fuse", *words, "-m", "vote", "-o", tmp_path / "fused")
    assert again.code == 2  # masks of another reading are not skipped as finished
    for form in ("canonical", "packed"):
        out = tmp_path / form
        assert (
            run_raters("import", *words, "--unmarked", "unknown", "-o", out, "--form", form).code
            == 0
        )
        study = raters.read(out)
        assert dict(study.annotations) == {**KINDS, "mo": "mask"}
        assert study.unmarked == "unknown"
        assert run_raters("check", out).code == 0
    assert run_raters("report", *words, "-o", tmp_path / "study-report").code == 0
    page = (tmp_path / "study-report/report.html").read_text()
    assert "Boxes by eve: what is outside all boxes is background" in page
    with open(tmp_path / "study-report/tables/raters.csv", newline="") as file:
        rows = {row["rater"]: row["annotation"] for row in csv.DictReader(file)}
    assert rows == {**KINDS, "mo": "mask"}
    assert run_raters("report", tmp_path / "fused", "-o", tmp_path / "fused-report").code == 0
    assert "Negative drawings by ben" in (tmp_path / "fused-report/report.html").read_text()


@pytest.mark.slow
def test_training_and_what_comes_after(run_raters: Run, tmp_path: Path) -> None:
    words = draw_every_kind(tmp_path / "data")
    out = tmp_path / "run"
    rest = ["--unmarked", "rest"]
    trained = run_raters("train", *words, *rest, "-m", "global-cm", *SMALL, "-o", out)
    assert trained.code == 0, trained.err
    assert "--annotation ann=positive --annotation ben=negative" in trained.out
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert config["annotations"] == ["positive", "negative", "scribble", "box", "mask"]
    assert raters.load(out).method.task.annotations == tuple(config["annotations"])
    source = yaml.safe_load((out / "source.yaml").read_text())
    assert source["annotations"] == KINDS
    other = run_raters(
        "train", *words, "--unmarked", "unknown", "-m", "global-cm", *SMALL, "-o", out, "--resume"
    )
    assert other.code == 2
    assert "found unmarked=unknown, expected rest" in other.err
    assert (
        run_raters(
            "predict", out, f"{tmp_path}/data/images/{{case}}.png", "-o", tmp_path / "p"
        ).code
        == 0
    )
    scored = run_raters("evaluate", out, *words, *rest)
    assert scored.code == 0, scored.err
    assert "positive drawings by ann" in scored.out
    assert run_raters("evaluate", tmp_path / "p", *words, *rest).code == 0
    told = run_raters(
        "report", out, "-o", tmp_path / "report"
    )  # the study is remembered, with its kinds
    assert told.code == 0, told.err
    page = (tmp_path / "report/report.html").read_text()
    assert "ann: positive, ben: negative" in page
    assert "Scribbles by cy" in page


def test_negatives_of_several_classes(run_raters: Run, tmp_path: Path) -> None:
    words = draw_every_kind(tmp_path / "data", classes=3)
    for verb in (["fuse", "-m", "vote"], ["train", "-m", "global-cm", *SMALL]):
        refused = run_raters(verb[0], *words, *verb[1:], "-o", tmp_path / verb[0])
        assert refused.code == 2
        assert "found negative drawings of 2 classes by 'ben'" in refused.err
        assert "--raters ann,cy,eve,mo" in refused.err
    agreed = run_raters("agree", *words)
    assert agreed.code == 0
    assert "left out, as negative drawings say what a pixel is not: ben" in agreed.out
    assert run_raters("report", *words, "-o", tmp_path / "report").code == 0
    assert "what a pixel is not: ben" in (tmp_path / "report/report.html").read_text()
    # One class at a time, what is ruled out is background.
    one = run_raters("fuse", *words, "--classes", "1", "-m", "vote", "-o", tmp_path / "one")
    assert one.code == 0, one.err


def test_every_method_but_those_that_say_so_refuses_negatives() -> None:
    labels = np.zeros((4, 2, 8, 8), int)
    labels[:, :, :3, :3] = 1
    labels[:, :, 4:, 4:] = 2
    images = np.zeros((4, 1, 8, 8), np.float32)
    named = {"raters": ["ann", "ben"], "reference": labels[:, 0]}
    study = Study.from_arrays(images, labels, **named, annotations={"ben": "negative"})
    refused = 0
    for name, entry in METHODS.items():
        if "segmentation" not in entry.kinds or entry.takes_negatives:
            continue
        with pytest.raises(RatersError, match=f"by 'ben', expected .* {name} cannot use what"):
            plan_training(study, checked_options(name, {}))
        refused += 1
    assert refused > 10
    # Who trains on references counts the raters' matrices, too.
    with pytest.raises(RatersError, match="truth cannot use what"):
        plan_training(study, checked_options("truth", {}))
    assert plan_training(study.select(raters=["ann"]), checked_options("truth", {})).config.raters


def test_every_method_refuses_the_object_alone() -> None:
    """Positive drawings whose unmarked pixels say nothing are trained on with something else."""
    labels = np.zeros((4, 2, 8, 8), int)
    labels[:, :, 2:5, 2:5] = 1
    images = np.zeros((4, 1, 8, 8), np.float32)
    given = {"raters": ["ann", "ben"], "reference": labels[:, 0], "unmarked": "unknown"}
    kinds = {"ann": "positive", "ben": "positive"}
    study = Study.from_arrays(images, labels, **given, annotations=kinds)
    for name, entry in METHODS.items():
        if "segmentation" in entry.kinds and entry.raters and not entry.takes_one_class:
            with pytest.raises(RatersError, match="found nothing but 'foreground'"):
                plan_training(study, checked_options(name, {}))
    for kind in ("mask", "negative"):
        helped = Study.from_arrays(images, labels, **given, annotations={**kinds, "ben": kind})
        plan_training(helped, checked_options("global-cm", {}))
    plan_training(study.annotate({}, "rest"), checked_options("global-cm", {}))
    for share in (0.2, None):  # an option of a method that says how much of an image is object
        told = checked_options("vote", {})._replace(options=WithShare(share=share))
        if share is None:
            with pytest.raises(RatersError, match="found nothing but 'foreground'"):
                plan_training(study, told)
        else:
            plan_training(study, told)  # and no warning: the share speaks of the background


class WithShare(MethodOptions):
    """The options of a method that is told the object's share."""

    share: float | None = None


def test_a_rater_who_draws_is_added_later() -> None:
    rng = np.random.default_rng(0)
    labels = np.zeros((6, 3, 8, 8), int)
    labels[:, :2, 2:6, 2:6] = 1
    labels[:, 2] = 1 - labels[:, 0]
    images = (labels[:, :1] + rng.normal(0, 0.1, (6, 1, 8, 8))).astype(np.float32)
    named = {"raters": ["mo", "ann", "ben"], "annotations": {"ben": "negative"}}
    study = Study.from_arrays(images, labels, **named)
    small = {"epochs": 2, "width": 2, "depth": 2, "progress": False}
    model = raters.fit(study.select(raters=["mo", "ann"]), "global-cm", **small)
    assert model.config.annotations == ()
    longer = raters.extend(model, study, epochs=2)
    assert longer.config.annotations == ("mask", "mask", "negative")
    assert longer.method.task.annotations == longer.config.annotations
    assert longer.config.unmarked == "rest"


def test_only_the_object_is_refused_by_the_command(run_raters: Run, tmp_path: Path) -> None:
    words = [*draw_every_kind(tmp_path / "data"), "--raters", "ann", "--unmarked", "unknown"]
    refused = run_raters("train", *words, "-m", "vote", *SMALL, "-o", tmp_path / "run")
    assert refused.code == 2
    assert "found nothing but 'foreground' in the labels to train on (positive" in refused.err
    assert "--unmarked rest" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--annotation", "ann=sketch"],
            "the annotation 'sketch' of rater 'ann', expected one of mask",
        ),
        (["--annotation", "zoe=box"], "an annotation of the rater 'zoe' (box), expected"),
        (["--annotation", "box"], "--annotation: found 'box', expected RATER=KIND"),
        (["--annotation", "mo=box", "--annotation", "mo=mask"], "the rater 'mo' twice"),
        (["--unmarked", "none"], "--unmarked: found 'none', expected 'rest' or 'unknown'"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "agree", "train"])
def test_words_that_are_refused(
    run_raters: Run, tmp_path: Path, verb: str, words: list[str], message: str
) -> None:
    save_png(tmp_path / "masks/ann/c.png", square())
    save_png(tmp_path / "masks/mo/c.png", square())
    more = ["-o", tmp_path / "run"] if verb == "train" else []
    found = run_raters(verb, f"{tmp_path}/masks/{{rater}}/{{case}}.png", *words, *more)
    assert found.code == 2
    assert message in found.err


def test_kinds_of_a_table_are_refused(run_raters: Run, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
    found = run_raters("check", table, "--annotation", "ann=positive")
    assert found.code == 2
    assert "'positive' of rater 'ann' in a table of class labels" in found.err


def test_marks_outside_the_image_and_boxes_that_are_none(run_raters: Run, tmp_path: Path) -> None:
    """Errors name the file, what was found and what was expected, in every verb."""
    words = draw_every_kind(tmp_path / "data")
    large = np.zeros((18, 16), np.uint8)
    large[17] = 1
    odd = np.zeros((16, 16), np.uint8)
    odd[3:8, 3:8] = 1
    odd[5, 5] = 0
    for file, mask, message in (
        ("masks/ann/c3.png", large, "found shape 18 x 16, expected 16 x 16"),
        ("masks/eve/c2.png", odd, "found 24 of 25 pixels of a box of 'foreground' filled"),
    ):
        kept = (tmp_path / "data" / file).read_bytes()
        save_png(tmp_path / "data" / file, mask)
        checked = run_raters("check", *words)
        assert checked.code == 2
        flat = " ".join(checked.out.split())
        assert message in flat
        assert file in flat
        for verb in (["fuse", "-m", "vote"], ["train", "-m", "vote", *SMALL]):
            failed = run_raters(
                verb[0], *words, *verb[1:], "-o", tmp_path / f"{verb[0]}-{mask.size}"
            )
            assert failed.code == 2
            assert f"{file}: {message}" in failed.err
        (tmp_path / "data" / file).write_bytes(kept)


def test_empty_files(run_raters: Run, tmp_path: Path) -> None:
    """A file without a mark is read as its kind says, and warned of."""
    words = draw_every_kind(tmp_path / "data")
    for rater in KINDS:
        save_png(tmp_path / f"data/masks/{rater}/c4.png", np.zeros((16, 16), np.uint8))
    found = run_raters("check", *words)
    assert found.code == 0
    flat = " ".join(found.out.split())
    for rater, kind in KINDS.items():
        assert f"{rater}/c4.png: found no mark, expected some: of the annotation '{kind}'" in flat
    study = raters.read(words[0], ignore=255, annotations=KINDS, unmarked="rest")
    said = [set(np.unique(row)) for row in study["c4"].labels[:4]]
    assert said == [{0}, {1}, {-1}, {0}]
    assert run_raters("fuse", *words, "-m", "vote", "-o", tmp_path / "fused").code == 0


def test_a_manifest_with_kinds(run_raters: Run, tmp_path: Path) -> None:
    for k, name in enumerate(("p", "n", "m")):
        save_png(tmp_path / f"{name}.png", square(corner=k))
    path = tmp_path / "files.csv"
    path.write_text(
        "case,rater,mask,annotation\nc,ann,p.png,positive\nc,ann,n.png,negative\nc,bob,m.png,\n"
    )
    assert run_raters("import", path, "-o", tmp_path / "study").code == 0
    content = yaml.safe_load((tmp_path / "study/study.yaml").read_text())
    assert content["annotations"] == {"ann": "positive", "ann [negative]": "negative"}
    shown = run_raters("agree", tmp_path / "study")
    assert "negative drawings by ann [negative]" in shown.out


def test_reopened_kinds_can_be_told_anew(run_raters: Run, tmp_path: Path) -> None:
    words = draw_every_kind(tmp_path / "data")
    assert run_raters("import", *words, "-o", tmp_path / "study").code == 0
    told = json.loads(
        run_raters("check", tmp_path / "study", "--annotation", "mo=scribble", "--json").out
    )
    kinds = {row["name"]: row["annotation"] for row in told["raters"]}
    assert kinds == {**KINDS, "mo": "scribble"}
    assert set(kinds.values()) < set(ANNOTATIONS)
