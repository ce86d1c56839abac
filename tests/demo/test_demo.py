"""The demo: what it draws, that its commands are ones a user can run, and the table at its end."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import typer
from PIL import Image

import raters
import raters.cli.train
from raters.cli import app, main
from raters.datasets import open_dataset
from raters.demo import DIGITS, LESIONS, QUICK, draw_study
from raters.demo.draw import draw_story
from raters.demo.story import NETWORKS, Story, gain, rater_rows, results, sentence, steps
from raters.io.rows import Row
from raters.metrics import mean_dice
from tests.support.command_line import Outcome, Run, fingerprint, run_alone
from tests.support.datasets import mnist

pytestmark = pytest.mark.usefixtures("small_figures")
SMALL = ("--epochs", "1", "--width", "2", "--depth", "2")
TINY = replace(LESIONS, train=20, test=4, shape=(32, 32), training=SMALL)


def count_masks(folder: Path) -> dict[str, int]:
    return {path.name: len(list(path.rglob("*.png"))) for path in folder.iterdir()}


def dice_of_files(a: Path, b: Path) -> float:
    first, second = (np.asarray(Image.open(path)) > 0 for path in (a, b))
    return float(2 * (first & second).sum() / (first.sum() + second.sum()))


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """Find the severity of raters with a tenth of the drawings: what is tested does not need it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("raters.simulation.calibrate._DRAWS", 100)
        yield


# --- drawing


@pytest.mark.slow
def test_draw_gives_the_small_study_twice_the_same(tmp_path: Path) -> None:
    few = "import raters.simulation.calibrate\nraters.simulation.calibrate._DRAWS = 100"
    said = run_alone("demo", "--draw", "-o", "one", folder=tmp_path, before=few)
    assert said == Outcome(0, "24 cases by three raters: one\n", "")
    assert {path.name for path in (tmp_path / "one").iterdir()} == {
        "images",
        "masks",
        "truth",
        "study",
        ".raters.json",
    }
    assert count_masks(tmp_path / "one/masks") == {"careful": 24, "generous": 24, "hasty": 18}
    draw_study(tmp_path / "two")
    for part in ("images", "masks", "truth"):
        one, two = (fingerprint(tmp_path / name / part) for name in ("one", "two"))
        assert list(one.values()) == list(two.values())
    draw_study(tmp_path / "two")  # where it is already
    assert count_masks(tmp_path / "two/masks") == count_masks(tmp_path / "one/masks")


@pytest.mark.slow
def test_training_images_have_one_label_test_images_all(tmp_path: Path) -> None:
    story = replace(TINY, train=10, test=3)
    assert draw_story(story, tmp_path / "a") == 13
    masks = tmp_path / "a/masks"
    by_image = [p.name for p in masks.glob("*/train/*.png")]
    assert len(by_image) == len(set(by_image)) == 10
    assert all(len(list((masks / r / "train").iterdir())) == 2 for r in count_masks(masks))
    assert all(len(list((masks / r / "test").iterdir())) == 3 for r in count_masks(masks))
    before = fingerprint(tmp_path / "a")
    assert draw_story(story, tmp_path / "a") == 0
    assert fingerprint(tmp_path / "a") == before
    lost = sorted((tmp_path / "a/images").rglob("*.png"))[4]
    lost.unlink()
    assert draw_story(story, tmp_path / "a") == 1  # drawn anew, and the same
    assert fingerprint(tmp_path / "a") == before
    draw_story(replace(story, seed=1), tmp_path / "b")
    other = fingerprint(tmp_path / "b")
    assert not set(other.values()) & {v for k, v in before.items() if "/images/" in k} - {"folder"}


def test_digits_are_drawn_with_noise(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    files = mnist(tmp_path / "mnist")
    before = fingerprint(files)
    digits = open_dataset("mnist-masks", files)
    story = replace(DIGITS, train=len(digits) - 2, test=2)
    assert draw_story(story, tmp_path / "a", str(files)) == len(digits)
    assert fingerprint(files) == before
    noise = []
    for path in sorted((tmp_path / "a/images").rglob("*.png")):
        clean = digits[int(path.stem.removeprefix("digits"))]
        assert clean.image is not None
        truth = np.asarray(Image.open(tmp_path / "a/truth" / path.parent.name / path.name))
        assert np.array_equal(truth, (clean.image[0] > 127) * 255)
        noise.append(np.asarray(Image.open(path)) / 255 * 2.8 - 0.9 - clean.image[0] / 255)
    assert np.std(noise) == pytest.approx(0.3, rel=0.03)
    assert np.mean(noise) == pytest.approx(0, abs=0.01)


# --- commands


@pytest.mark.parametrize("story", [LESIONS, QUICK, DIGITS])
def test_every_command_has_known_options(story: Story) -> None:
    group = typer.main.get_command(app)
    for step in steps(story):
        verb, *rest = step.arguments
        command = group.commands[verb]  # type: ignore[attr-defined]
        if verb == "train":
            command = raters.cli.train.command()
        command.make_context(verb, list(rest))  # refuses options that it does not know


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run a tiny version of the demo, into a folder with blanks in its name."""
    import contextlib
    import io

    above = tmp_path_factory.mktemp("demo")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(above)
        patch.setattr("raters.demo.story.LESIONS", TINY)
        patch.setattr(sys, "argv", ["raters", "demo", "-o", "a demo"])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (0, None)
        assert Path.cwd() == above
    assert [path.name for path in above.iterdir()] == ["a demo"]
    return above / "a demo", said.getvalue()


def commands(said: str) -> list[list[str]]:
    return [shlex.split(text[2:]) for text in said.splitlines() if text.startswith("$ ")]


@pytest.mark.slow
def test_the_demo_names_what_it_ran(demo_run: tuple[Path, str]) -> None:
    folder, said = demo_run
    lines = commands(said)
    assert lines[0] == ["cd", "a demo"]
    assert [tuple(words[1:]) for words in lines[1:]] == [s.arguments for s in steps(TINY)]
    assert said.splitlines()[0] == "this takes about three minutes on two cores"
    assert said.splitlines()[-1] == "look at a demo/report/report.html"
    assert (folder / "report-networks/report.html").exists()


@pytest.mark.slow
def test_its_page_has_the_fused_labels_beside_the_vote(demo_run: tuple[Path, str]) -> None:
    folder, _ = demo_run
    dice = {row[""]: row["Dice"] for row in results(folder)}
    right = dice["staple of five labels"]
    voted = dice["vote of five labels"]
    page = (folder / "report/report.html").read_text()
    said = f"has Dice {right:.2f}; a vote of the same labels has {voted:.2f}"
    assert said in page


@pytest.mark.slow
def test_the_table_has_the_numbers_of_evaluate(
    demo_run: tuple[Path, str], run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = demo_run
    rows = results(folder)
    fused = [
        dice_of_files(p, folder / f"truth/test/{p.name}")
        for p in (folder / "fused/vote").rglob("*.png")
    ]
    assert rows[0]["Dice"] == pytest.approx(np.mean(fused), abs=1e-9)
    monkeypatch.chdir(folder)
    scored = [words[1:] for words in commands(said) if words[1] == "evaluate"]
    found = [dice_by_command(words, run_raters) for words in scored]
    assert [row["Dice"] for row in rows] == [*found[0], *found[1], *found[2], *found[3]]
    for row in rows:
        assert f"{row['Dice']:.3f}" in said
    networks = rows[-3:]
    study = raters.read(folder / "study").select(split="test")
    for row, name in zip(networks, ("vote", "pixel-cm", "truth"), strict=True):
        model = raters.load(folder / "runs" / name)
        for column, cut in (("at best cut", "best"), ("at area cut", "area")):
            each = [
                mean_dice(case.reference, model.predict(case, cut)) for case in study.iter_cases()
            ]
            assert row[column] == pytest.approx(np.mean(each))
            assert f"{row[column]:.3f}" in said


@pytest.mark.slow
def test_each_rater_is_compared_with_what_is_expected_of_them(demo_run: tuple[Path, str]) -> None:
    folder, said = demo_run
    model = raters.load(folder / "runs/pixel-cm")
    cases = list(raters.read(folder / "study").select(split="test").iter_cases())
    rows = rater_rows(folder)
    assert [row["labels of"] for row in rows] == list(model.config.raters)
    for k, row in enumerate(rows):
        logs = [
            np.log(np.take_along_axis(model.as_rater(case, name), case.labels[[k]], 0)).mean()
            for name in model.config.raters
            for case in cases
        ]
        by_name = np.reshape(logs, (len(rows), len(cases))).mean(axis=1)
        assert row["log-likelihood as this rater"] == pytest.approx(by_name[k], abs=1e-4)
        assert row["as another one"] == pytest.approx(np.delete(by_name, k).mean(), abs=1e-4)
        dice_of = [mean_dice(case.labels[k], model.predict(case)) for case in cases]
        assert row["Dice, predicted truth"] == pytest.approx(np.mean(dice_of))
    assert "What pixel-cm knows of each rater" in said


def dice_by_command(words: list[str], run_raters: Run) -> list[float]:
    """Run a command of the demo as a user would; give Dice, of runs in the order of the table."""
    said = run_raters(*words[:-2], "--json")
    assert said.code == 0
    answer = json.loads(said.out)
    if "rows" not in answer:
        return [row["dice"] for row in answer["summary"] if row["against"] == "reference"]
    by_method: dict[str, Row] = {row["method"]: row for row in answer["rows"]}
    return [by_method[name]["score"] for name in ("vote", "pixel-cm", "truth")]


@pytest.mark.slow
def test_called_again_it_does_nothing_twice(
    demo_run: tuple[Path, str], run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = demo_run
    weights = fingerprint(*sorted(folder.glob("runs/*/weights.safetensors")))
    table = results(folder)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("raters.demo.story.LESIONS", TINY)
    said = run_raters("demo", "-o", "a demo")
    assert said.code == 0
    assert "24 images of lesions in a demo: all there already" in said.out
    assert said.out.count("0 cases fused, 4 were there already") == 3
    assert [words[-1] for words in commands(said.out) if words[1] == "train"] == ["--resume"] * 3
    assert len(weights) == 3
    assert fingerprint(*sorted(folder.glob("runs/*/weights.safetensors"))) == weights
    assert results(folder) == table


@pytest.mark.slow
def test_the_quick_one_tells_the_same_story(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(QUICK, train=10, test=3, shape=(32, 32), training=SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("raters.demo.story.QUICK", small)
    said = run_raters("demo", "--quick")
    assert said.code == 0, said.err
    verbs = [words[1] for words in commands(said.out)[1:]]
    left_out = {"spatial-staple"}
    asked = [step for step in steps(LESIONS) if not left_out & set(step.arguments)]
    full = [s.arguments[0] for s in asked if f"scores/{next(iter(left_out))}" not in s.arguments]
    assert verbs == full
    assert (tmp_path / "demo-quick/report/report.html").exists()
    for row in results(tmp_path / "demo-quick", small.fused):
        assert row[""] in said.out.replace("\n", " ") and f"{row['Dice']:.3f}" in said.out
    assert "Trained on the truth it is" in said.out
    assert said.out.splitlines()[0] == "this takes about a minute on two cores"
    assert said.out.splitlines()[-1] == "look at demo-quick/report/report.html"


def test_the_last_words_claim_no_gain_that_is_not_shown() -> None:
    rows: list[Row] = [{"": name, "Dice": 0.5, "at best cut": 0.7} for name in NETWORKS.values()]
    assert "(+0.030, 95 % -0.010 to +0.070): at these cuts no gain is shown" in sentence(
        rows, (0.03, -0.01, 0.07)
    )
    assert "at these cuts the vote is ahead" in sentence(rows, (-0.03, -0.05, -0.01))
    assert "a gain that is left at these cuts" in sentence(rows, (0.03, 0.01, 0.05))


def test_the_gain_is_that_of_the_paired_images(tmp_path: Path) -> None:
    (tmp_path / "scores/runs").mkdir(parents=True)
    others = [{"run": "runs/truth", "score": "score_best"}, {"run": "runs/vote", "score": "score"}]
    own: Row = {"run": "runs/vote", "score": "score_best", "difference": -0.2}
    own |= {"difference_low": -0.3, "difference_high": 0.1}
    found = json.dumps({"differences": [*others, own]})
    (tmp_path / "scores/runs/comparison.json").write_text(found)
    assert gain(tmp_path) == (0.2, -0.1, 0.3)


def test_one_thread_is_for_the_quick_one_alone() -> None:
    import torch

    from raters.learning.training.threads import one_thread

    assert [story.one_thread for story in (QUICK, LESIONS, DIGITS)] == [True, False, False]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_the_quick_one_is_smaller_and_says_so(run_raters: Run) -> None:
    assert QUICK.train * QUICK.shape[0] ** 2 < LESIONS.train * LESIONS.shape[0] ** 2 / 4
    said = run_raters("demo", "--help")
    told_of = " ".join(said.out.replace("│", " ").split())
    assert "fewer and smaller images, shorter trainings, no spatial-staple" in told_of


# --- what goes wrong


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_goes_on(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("raters.demo.story.LESIONS", replace(TINY, train=5, test=2))
    monkeypatch.setattr("raters.consensus.consensus.fuse", stopped)
    said = run_raters("demo")
    assert said.code == 130
    assert "resumes from here when it is called again" in said.err
    assert "raters train" not in said.out
    assert (tmp_path / "demo/study/study.yaml").exists()
    assert Path.cwd() == tmp_path


def test_other_files_are_refused_and_left(tmp_path: Path, run_raters: Run) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("mine")
    before = fingerprint(tmp_path)
    said = run_raters("demo", "-o", tmp_path / "mine")
    assert said.code == 2
    assert "found other files (a.txt), expected a new folder" in said.err
    said = run_raters("demo", "-o", tmp_path / "mine/a.txt")
    assert said.code == 2
    assert fingerprint(tmp_path) == before


def test_options_that_do_not_go_together(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["mnist/"], ["--draw", "--digits"], ["--quick", "--digits"]):
        said = run_raters("demo", *words)
        assert said.code == 2
        assert "expected" in said.err
    said = run_raters("demo", "--digits", "nowhere")
    assert said.code == 2
    assert "nowhere" in said.err
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_it_says_how_to_give_digits(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("urllib.request.urlopen", offline)
    said = run_raters("demo", "--digits")
    assert said.code == 2
    assert "no network" in said.err
    assert "raters demo --digits MNIST_FOLDER" in said.err
