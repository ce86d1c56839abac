"""No verb replaces what it reads: each runs with its output on its inputs, and no byte changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import raters
from raters.assessment.agreement_case import write_entropy_maps
from raters.cli import all_commands
from raters.cli.verbs import installed_verbs
from raters.consensus.write import write_consensus
from raters.core.errors import RatersError
from raters.simulation.study import write_true_confusion
from raters.study.places import Inputs
from tests.support.command_line import (
    Run,
    assert_succeeded,
    blob,
    draw_masks,
    fingerprint,
    save_png,
)

READ_ONLY = {"methods"}
"""Verbs that write nothing."""

MASKS = "masks/{rater}/{case}.png"
STUDY = (MASKS, "--images", "images/{case}.png", "--reference", "truth/{case}.png")
PLACES = ("masks/ann", "masks", "masks/new", "images", "truth", "linked", ".")
"""Folders that are read, that hold what is read, or that would be read the next time."""

IMPORTED = tuple(place for place in PLACES if place != "masks/new")
"""A study lies deeper in its folder, where the pattern does not look."""


@dataclass(frozen=True)
class Case:
    """A verb that writes: its words, the option that names the place, and places to refuse."""

    verb: str
    option: str
    words: tuple[str, ...]
    places: tuple[str, ...]


CASES = [
    Case("check", "--save", (MASKS,), ("cases.csv", "study/study.yaml", "masks/ann/c0.png")),
    Case("agree", "--maps", STUDY, PLACES),
    Case("agree", "--maps", (MASKS,), ("images", "masks/ann")),  # images that nobody named
    Case("agree", "--out", ("cases.csv", "--images", "images/{case}.png"), (".",)),
    Case("agree", "--out", ("study",), ("study", "study/labels", "study/new")),
    Case("fuse", "--out", (*STUDY, "-m", "vote"), PLACES),
    Case("fuse", "--out", (*STUDY, "-m", "vote", "--overwrite"), PLACES),
    Case("fuse", "--out", (MASKS, "-m", "vote", "--overwrite"), ("images", "truth")),
    Case("fuse", "--out", ("study", "-m", "vote", "--overwrite"), ("study", "study/images", ".")),
    Case("fuse", "--out", ("cases.csv", "-m", "vote", "--overwrite"), (".",)),
    Case("fuse", "--out", ("manifest.csv", "-m", "vote", "--overwrite"), ("masks/bob", ".")),
    Case("import", "--out", STUDY, IMPORTED),
    Case("import", "--out", ("study", "--overwrite"), ("study", "study/labels/ann")),
    Case("import", "--out", ("cases.csv", "--overwrite"), (".",)),
    Case("prepare", "--out", ("chase-db1", "chase", "--overwrite"), ("chase", "chase/study")),
    Case("simulate", "--out", ("truth/{case}.png", "--raters", "good"), ("truth", ".", "linked")),
    Case("simulate", "--out", ("study", "--raters", "good", "--overwrite"), ("study",)),
    Case(
        "simulate",
        "--confusion",
        ("study", "--raters", "good", "-o", "new"),
        ("study/study.yaml", "study/new.npz"),
    ),
    Case(
        "simulate",
        "--confusion",
        ("truth/{case}.png", "--raters", "good", "-o", "new"),
        ("truth/c0.png", "truth/new.png"),
    ),
    Case("train", "--out", (*STUDY, "--epochs", "1"), ("masks/ann", "images", ".", "study")),
    Case("train", "--out", ("study", "--epochs", "1"), ("study/run", "study", "run")),
    Case("train", "--out", ("study", "--extend", "run"), ("run", "study/new")),
    Case("predict", "--out", ("run", "images", "--overwrite"), ("images/new", "images", "run")),
    Case("predict", "--out", ("run", "images/{case}.png", "--overwrite"), ("images", "masks/ann")),
    Case("predict", "--out", ("run", "study", "--overwrite"), ("study", "study/new")),
    Case("predict", "--out", ("run", "linked/c0.png", "--overwrite"), ("images", "linked")),
    Case("evaluate", "--out", ("consensus", *STUDY), ("consensus", "consensus/new")),
    Case("evaluate", "--out", ("consensus", "study"), ("study", "study/new")),
    Case("evaluate", "--out", ("labels.csv", "cases.csv"), (".",)),
    Case("evaluate", "--out", ("run", "study"), ("study", "study/labels/bob")),
    Case("suggest", "--out", ("run", "images"), ("images", "images/new", "run")),
    Case("suggest", "--out", ("run", "study"), ("study", "study/new")),
    Case("report", "--out", ("study",), ("study", "study/report")),
    Case("report", "--out", ("pictures/{split}/{rater}/{case}.png",), ("pictures/train",)),
    Case("report", "--out", ("consensus", "--study", "study"), ("consensus", "study")),
    Case("export", "--out", ("run", "--to", "onnx"), ("run/weights.safetensors",)),
    Case("export", "--out", ("run", "--to", "monai-bundle"), ("run", "run/checkpoints")),
    Case("demo", "--out", ("--digits", "images"), ("images", "images/demo")),
]


def draw_all(folder: Path) -> None:
    """Draw one of everything that a verb can read."""
    draw_masks(folder)
    for k in range(3):
        save_png(folder / f"truth/c{k}.png", blob(k))
        save_png(folder / f"chase/Image_0{k + 1}L.png", blob(k))
        for rater in ("ann", "bob"):
            save_png(folder / f"pictures/train/{rater}/c{k}.png", blob(k))
    (folder / "linked").symlink_to(folder / "images")
    rows = [f"t{t},{w},{(t + w) % 2}" for t in range(4) for w in range(3)]
    (folder / "cases.csv").write_text("task,worker,label\n" + "\n".join(rows) + "\n")
    (folder / "labels.csv").write_text("task,label\nt0,0\nt1,1\nt2,0\nt3,1\n")
    shutil.copy(folder / "labels.csv", folder / "summary.csv")
    files = [f"c{k},{r},masks/{r}/c{k}.png" for k in range(3) for r in ("ann", "bob")]
    (folder / "manifest.csv").write_text("case,rater,mask\n" + "\n".join(files) + "\n")
    study = read_study(folder)
    study.write(folder / "study")
    write_consensus(raters.fuse(study, "vote"), folder / "consensus")
    small = {"network": "patch-cnn", "width": 2, "depth": 1, "norm": "none", "epochs": 1}
    raters.fit(study, "vote", progress=False, folder=folder / "run", val_fraction=0, **small)


def read_study(folder: Path) -> raters.Study:
    return raters.read(
        f"{folder}/{MASKS}",
        images=f"{folder}/images/{{case}}.png",
        reference=f"{folder}/truth/{{case}}.png",
    )


@pytest.fixture(scope="module")
def all_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    draw_all(folder)
    return folder


@pytest.fixture
def inside_inputs(all_inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in the folder of all inputs; no byte of it may change, and nothing may be added."""
    monkeypatch.chdir(all_inputs)
    before = fingerprint(all_inputs)
    yield all_inputs
    assert fingerprint(all_inputs) == before


def id_of_case(case: Case) -> str:
    return " ".join([case.verb, *case.words[:2], case.option.lstrip("-")])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=id_of_case)
def test_no_verb_writes_over_its_inputs(case: Case, run_raters: Run, inside_inputs: Path) -> None:
    for place in case.places:
        outcome = run_raters(case.verb, *case.words, case.option, place)
        assert outcome.code == 2, (place, outcome)
        assert outcome.err.splitlines()[-1].startswith("error: "), (place, outcome)
        assert place in outcome.err or str(inside_inputs) in outcome.err, (place, outcome)


def test_every_verb_is_tried() -> None:
    """A new verb, or a new option that names a place to write, needs a case above."""
    tried = {(case.verb, case.option) for case in CASES}
    commands = {verb: c for verb, c in all_commands().items() if verb not in installed_verbs()}
    assert {verb for verb, _ in tried} | READ_ONLY == set(commands)
    for verb, command in commands.items():
        for parameter in command.params:
            said = (getattr(parameter, "help", "") or "").lower()
            names_a_place = "write" in said and not getattr(parameter, "is_flag", False)
            if names_a_place:
                assert (verb, f"--{parameter.name}") in tried, (verb, parameter.name)


@pytest.mark.slow
def test_places_beside_the_inputs_are_fine(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_inputs: Path
) -> None:
    folder = tmp_path / "all"
    shutil.copytree(all_inputs, folder, symlinks=True)
    (folder / "linked").unlink()
    monkeypatch.chdir(folder)
    before = fingerprint(folder)
    for _ in range(2):  # once more, into what is there by now
        assert_succeeded(run_raters("fuse", *STUDY, "-m", "vote", "-o", "fused", "--overwrite"))
        assert_succeeded(run_raters("agree", *STUDY, "-o", "agreement", "--maps", "maps"))
        assert_succeeded(run_raters("evaluate", "fused", *STUDY, "-o", "scores"))
        assert_succeeded(run_raters("evaluate", "run", "study", "-o", "run/scores"))
        assert_succeeded(run_raters("report", "run", "--study", "study", "-o", "run"))
        assert_succeeded(
            run_raters("predict", "run", "images", "-o", "run/predicted", "--overwrite")
        )
        assert_succeeded(
            run_raters(
                "simulate",
                "truth/{case}.png",
                "-o",
                "drawn/study",
                "--raters",
                "good:1",
                "--confusion",
                "drawn/confusion.npz",
            )
        )
        assert_succeeded(run_raters("import", "study", "-o", "again"))
    assert (folder / "run/report.html").exists()
    after = fingerprint(folder)
    assert all(after[path] == before[path] for path in before)


@pytest.mark.slow
def test_the_demo_draws_here(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("raters.demo.draw.CASES", 2)
    assert_succeeded(run_raters("demo", "--draw", "-o", "."))
    assert (tmp_path / "study/study.yaml").exists()


Write = Callable[[raters.Study, Path], object]
FUNCTIONS: dict[str, tuple[Write, tuple[str, ...]]] = {
    "maps": (write_entropy_maps, PLACES),
    "fuse": (lambda s, p: write_consensus(raters.fuse(s, "vote"), p, overwrite=True), PLACES),
    "import": (lambda s, p: s.write(p, overwrite=True), IMPORTED),
    "simulate": (
        lambda s, p: write_true_confusion(raters.simulation.simulate(s, "good:1"), p / "c0.png"),
        ("truth", "linked"),
    ),
    "report": (raters.report, ("pictures/train",)),
    "train": (
        lambda s, p: raters.fit(s, "vote", epochs=1, progress=False, folder=p),
        ("images", "."),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_python_refuse_it_too(name: str, inside_inputs: Path) -> None:
    write, places = FUNCTIONS[name]
    drawn = name == "report"
    study = (
        raters.read("pictures/{split}/{rater}/{case}.png") if drawn else read_study(inside_inputs)
    )
    for place in places:
        with pytest.raises(RatersError, match=place.replace(".", r"\.")):
            write(study, Path(place))


@pytest.mark.filterwarnings("ignore::UserWarning")  # cases that the run was trained on
def test_results_know_what_they_were_made_from(inside_inputs: Path) -> None:
    for result in (
        raters.agree(raters.read("cases.csv")),
        raters.agree(raters.read("study")),
        raters.evaluate("labels.csv", raters.read("cases.csv")),
        raters.evaluate("consensus", read_study(inside_inputs)),
        raters.evaluate("run", raters.read("study")),
        raters.learning.evaluation.compare_runs(["run", "run"], raters.read("study")),
    ):
        inputs = getattr(result, "inputs", None) or result.runs[0].inputs  # type: ignore[union-attr]
        place = inputs.folders[0] if inputs.folders else Path()
        with pytest.raises(RatersError, match="which is read"):
            result.write(place)


class TestLinks:
    """Links are followed, in what is read and where it is written."""

    @pytest.fixture
    def study(self, tmp_path: Path) -> raters.Study:
        """Masks that are links into a store of files."""
        draw_masks(tmp_path / "store")
        for rater in ("ann", "bob"):
            (tmp_path / "masks" / rater).mkdir(parents=True)
            for file in (tmp_path / "store/masks" / rater).iterdir():
                (tmp_path / "masks" / rater / file.name).symlink_to(file)
        return raters.read(f"{tmp_path}/{MASKS}")

    def test_to_the_file_that_is_read(self, study: raters.Study, tmp_path: Path) -> None:
        with pytest.raises(RatersError, match=r"holds .*store/masks/ann/c0\.png"):
            Inputs.of(study).refuse(tmp_path / "store/masks/ann")

    def test_within_the_folder_that_is_written(self, study: raters.Study, tmp_path: Path) -> None:
        (tmp_path / "fused").mkdir()
        (tmp_path / "fused/soft").symlink_to(tmp_path / "masks/ann")
        with pytest.raises(RatersError, match="which is read"):
            Inputs.of(study).refuse(tmp_path / "fused")

    def test_a_folder_of_another_name(self, study: raters.Study, tmp_path: Path) -> None:
        (tmp_path / "out").symlink_to(tmp_path / "masks")
        with pytest.raises(RatersError, match="out/bob"):
            Inputs.of(study).refuse(tmp_path / "out/bob")


@pytest.mark.parametrize(
    ("pattern", "out", "fits"),
    [
        ("{rater}/{case}.png", "consensus", True),  # a rater called consensus
        ("{case}/segmentation/{rater}-20.nii.gz", "consensus", False),
        ("{case}_{rater}.png", "consensus", False),
        ("data/{rater}_{case}.png", "data", True),
        ("data/{rater}_{case}.png", "data/new", False),
        ("Maps{rater}_T/{case}.png", "consensus", False),
        ("Maps{rater}_T/{case}.png", "Maps7_T", True),
    ],
)
def test_what_a_pattern_would_find_the_next_time(
    pattern: str, out: str, fits: bool, tmp_path: Path
) -> None:
    names = ["x_1" if "_{rater}" in pattern or "{rater}_" in pattern else "x"]
    inputs = Inputs.named(f"{tmp_path}/{pattern}")
    if not fits:
        inputs.refuse(tmp_path / out, stems=names)
        return
    with pytest.raises(RatersError, match="the next time"):
        inputs.refuse(tmp_path / out, stems=names)


def test_a_folder_of_many_cases_is_looked_through_once(tmp_path: Path) -> None:
    """Thousands of files in one folder: the folder is followed once, not each of them."""
    labels = np.zeros((2, 2, 4, 4), int)
    study = raters.Study.from_arrays(labels=labels)
    Inputs.of(study).refuse(tmp_path)  # arrays come from no files


def test_each_pattern_is_held_against_all_names(tmp_path: Path) -> None:
    """Names come from generators, and the first pattern must not use them up."""
    patterns = (f"{tmp_path}/{{case}}_{{rater}}.png", f"{tmp_path}/images_*/{{case}}.png")
    for order in (patterns, patterns[::-1]):
        with pytest.raises(RatersError, match=r"would be read as .*images"):
            Inputs(patterns=order).refuse(tmp_path / "images_z", stems=iter(["c0"]))


def test_probabilities_are_results_too(tmp_path: Path) -> None:
    for rater in ("ann", "bob"):
        save_png(tmp_path / f"site/{rater}/c0.png", blob())
    study = raters.read(f"{tmp_path}/*/{{rater}}/{{case}}.png")
    consensus = raters.fuse(study, "vote")
    with pytest.raises(RatersError, match="would be read as"):
        write_consensus(consensus, tmp_path / "cons", soft=True)
    write_consensus(consensus, tmp_path / "cons")
