"""The report of studies and fusions: what a path is, numbers, sentences, files."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import raters
from raters.api import kind_of, make_report, refuse_place, report, study_of
from raters.assessment.against import compare, evenly, foreground_rows, summary_rows
from raters.assessment.agree import ALL
from raters.assessment.agreement_findings import relative_volumes, typical_ratios, who_draws
from raters.assessment.fusion_findings import border_errors, left_out, left_out_scores
from raters.consensus.read import read_fusion
from raters.consensus.write import write_consensus
from raters.core.errors import RatersError
from raters.fusion._vote import vote
from raters.metrics.border import border_counts, signed_distance_counts
from raters.study.places import remember_study, remembered_options
from raters.study.study import Study
from raters.views.report.blocks import TextBlock, ViewerBlock, all_blocks
from raters.views.texts.say import plain, say
from tests.support.command_line import Run
from tests.support.reports import table_named, words_of
from tests.support.viewer_labels import labels_by_layer

pytestmark = pytest.mark.usefixtures("small_figures")
SIDE = 48
EVIL = "<script>alert(1)</script>"


def draw_disc(y: float, x: float, radius: float) -> np.ndarray:
    rows, columns = np.mgrid[:SIDE, :SIDE]
    return (np.hypot(rows - y, columns - x) < radius).astype(np.int16)


def draw_disc_study(names: dict[str, float], cases: int = 6, images: bool = True) -> Study:
    """Draw discs of one centre; each rater draws a radius of their own."""
    rng = np.random.default_rng(3)
    labels = []
    for k in range(cases):
        y, x = rng.uniform(20, 28, 2)
        labels.append([draw_disc(y, x, 8 + 0.5 * k + more) for more in names.values()])
    pictures = rng.integers(0, 255, (cases, 1, SIDE, SIDE)).astype(np.uint8) if images else None
    return Study.from_arrays(
        images=pictures,
        labels=np.array(labels),
        raters=list(names),
        cases=[f"case{k}" for k in range(cases)],
        classes=["background", "lesion"],
    )


RATERS = {"ann": 0.0, "bob": 0.2, "cy": -0.2, "over": 3.0, "under": -3.0}


def write_files_study(folder: Path, cases: int = 3) -> str:
    """Write masks and images as files; give the pattern."""
    study = draw_disc_study(RATERS, cases)
    for case in study.iter_cases():
        for rater, mask in zip(study.raters, case.labels, strict=True):
            path = folder / "masks" / rater / f"{case.id}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(mask.astype(np.uint8)).save(path)
        image = folder / "images" / f"{case.id}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        assert case.image is not None
        Image.fromarray(case.image[0]).save(image)
    return str(folder / "masks/{rater}/{case}.png")


# What a path is.


def test_kinds_of_paths(tmp_path: Path) -> None:
    study = draw_disc_study(RATERS, 2)
    study.write(tmp_path / "study")
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("method: vote\n")
    assert kind_of("masks/{rater}/{case}.png") == "study"
    assert kind_of(tmp_path / "answers.csv") == "study"
    assert kind_of(tmp_path / "study") == "study"
    assert kind_of(tmp_path / "fused") == "fusion"
    assert kind_of(tmp_path / "run") == "run"


def test_a_remembered_study_does_not_make_a_folder_a_study(tmp_path: Path) -> None:
    study = draw_disc_study(RATERS, 2)
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    remember_study(tmp_path / "fused", {"source": "masks/{rater}/{case}.png"})
    assert kind_of(tmp_path / "fused") == "fusion"


def test_foreign_folder_is_refused(tmp_path: Path, run_raters: Run) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(RatersError, match="found none of study, fusion and run"):
        kind_of(tmp_path)
    outcome = run_raters("report", str(tmp_path), "-o", str(tmp_path / "out"))
    assert outcome.code == 2
    assert "error: " in outcome.err
    assert not (tmp_path / "out").exists()


def test_against_is_for_runs(tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="expected a run"):
        make_report(draw_disc_study(RATERS, 1), against=[tmp_path])


# Numbers.


def test_tables_of_a_study_equal_agree() -> None:
    study = draw_disc_study(RATERS)
    agreement = raters.agree(study)
    made = make_report(study, cases_shown=1)
    assert table_named(made, "pairs").rows == agreement.pairs
    shown = {row["rater"]: row for row in table_named(made, "raters").rows}
    for row in agreement.raters:
        assert row["class"] == ALL
        for column in ("cases", "dice_rest", "kappa_rest", "volume", "bias"):
            assert shown[row["rater"]][column] == row[column]
    cases = table_named(made, "cases-by-disagreement").rows
    assert [row["case"] for row in cases] == [row["case"] for row in agreement.cases]
    sizes = [study[str(row["case"])].labels.sum(axis=(1, 2)).mean() for row in cases]
    assert [row["size"] for row in cases] == pytest.approx(sizes)


def test_performance_equals_consensus(tmp_path: Path) -> None:
    study = draw_disc_study(RATERS)
    consensus = raters.fuse(study, "staple")
    write_consensus(consensus, tmp_path / "fused")
    made = make_report(tmp_path / "fused", study)
    assert table_named(made, "performance-of-raters").rows == json.loads(json.dumps(consensus.rows))
    dice = {row["rater"]: row["dice"] for row in table_named(made, "raters-against-consensus").rows}
    for k, rater in enumerate(study.raters):
        one = []
        for case, fusion in consensus.iter_cases():
            a = fusion.labels == 1
            b = case.labels[k] == 1
            one.append(2 * (a & b).sum() / (a.sum() + b.sum()))
        assert dice[rater] == pytest.approx(np.mean(one))


def test_summary_has_the_error_between_cases() -> None:
    values = [0.9, 0.7, 0.8]
    rows = [
        {"case": str(k), "rater": "ann", "class": "a", "sensitivity": v, "sensitivity_se": 1e-9}
        | {"specificity": 1.0, "ppv": None, "npv": 1.0}
        for k, v in enumerate(values)
    ]
    (row,) = summary_rows(rows)
    assert row["sensitivity"] == pytest.approx(np.mean(values))
    assert row["sensitivity_se"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert row["ppv"] is None


@pytest.mark.parametrize("number", [1, None])
def test_border_counts_equal_those_of_the_whole_picture(number: int | None) -> None:
    rng = np.random.default_rng(0)
    consensus = np.zeros((60, 70), np.int16)
    consensus[20:40, 25:50] = 1
    labels = np.where(rng.random((3, 60, 70)) < 0.2, 1 - consensus, consensus).astype(np.int16)
    labels[1, :10] = -1
    found = border_counts(consensus, labels, (1.0, 1.0), 1.0, number)
    whole = signed_distance_counts(consensus, labels, (1.0, 1.0), np.arange(-10, 11))
    assert found.seen.tolist() == whole.seen.tolist()
    assert found.drawn.tolist() == whole.drawn.tolist()


def test_left_out_finds_the_one_that_decides() -> None:
    a = draw_disc(24, 24, 10)
    b = draw_disc(24, 24, 6)
    labels = np.array([a, a, a, b, b])  # 3 to 2: without one of the three it is a tie, so b
    dice, change = left_out_scores(labels, 2, vote)
    both = 2 * b.sum() / (a.sum() + b.sum())
    assert dice.tolist() == pytest.approx([both, both, both, 1.0, 1.0])
    assert change[:3] == pytest.approx((b.sum() - a.sum()) / a.sum())
    assert change[3:].tolist() == [0.0, 0.0]


def test_samples_are_spread_and_bounded() -> None:
    chosen = evenly(1000, 200)
    assert len(set(chosen)) == 200
    assert chosen[0] == 0
    assert np.diff(chosen).tolist() == [5] * 199


def test_compare_counts_all_cases() -> None:
    study = draw_disc_study(RATERS, 3)
    consensus = raters.fuse(study, "vote")
    found = compare(
        study, study.cases, lambda case: consensus.fuse_case(case).labels, vote, {"lesion": 1}
    )
    assert found.counts.shape == (3, 5, 2, 2)
    assert (found.counts.sum(axis=(-1, -2)) == SIDE * SIDE).all()
    assert found.unit == "pixels"


# Sentences.


def test_sentences_name_who_draws_more_and_less() -> None:
    made = make_report(draw_disc_study(RATERS), cases_shown=1)
    assert isinstance(made.sections[0].blocks[0], TextBlock)
    text = plain(made.sections[0].blocks[0].text)
    assert "over draws" in text
    assert "compared with the others" in text and "% more" in text
    assert "under draws" in text
    assert "less" in text
    for name in ("ann", "bob", "cy"):
        assert f"{name} draws" not in text
    assert "over and under agree least" in text


@pytest.mark.parametrize("grown", [2.0, 0.5])
@pytest.mark.parametrize("alike", [2, 3, 6])
def test_who_differs_is_named_and_not_those_who_agree(alike: int, grown: float) -> None:
    sizes = 1000 * np.random.default_rng(0).uniform(0.97, 1.03, (12, alike + 1))
    sizes[:, -1] *= np.linspace(1, grown, 12)  # ever more, or ever less
    names = [f"r{k}" for k in range(alike)] + ["far"]
    found = who_draws(typical_ratios(relative_volumes(sizes), names))
    named = [[name for name, _ in found[way]] for way in ("more", "less")]
    assert named == ([["far"], []] if grown > 1 else [[], ["far"]])


def test_nobody_is_named_where_all_draw_the_same() -> None:
    made = make_report(draw_disc_study({"ann": 0.0, "bob": 0.0, "cy": 0.0}), cases_shown=1)
    assert "no rater draws 10 % more or less" in words_of(made)


def test_the_typical_ratio_is_that_of_volumes() -> None:
    study = draw_disc_study({"ann": 0.0, "bob": 0.0, "half": -2.5}, cases=1)
    sizes = study[0].labels.sum(axis=(1, 2))
    made = make_report(study, cases_shown=0)
    ratio = {row["rater"]: row["typical_ratio"] for row in table_named(made, "raters").rows}
    assert ratio["half"] == pytest.approx(sizes[2] / sizes[:2].mean(), abs=0.006)


@pytest.mark.slow
def test_fusion_says_who_errs_and_where(tmp_path: Path) -> None:
    study = draw_disc_study(RATERS)
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    made = make_report(tmp_path / "fused", study, cases_shown=1)
    text = words_of(made)
    assert "under misses" in text
    # 3 pixels too much all around: half of it lies within 2.
    over = text.split("over over-segments by ")[1].split(";")[0]
    assert over.endswith("(of the errors within 10 pixels of its border, half lie within 2 pixels)")


def test_error_shares_and_border_of_known_drawings() -> None:
    truth = draw_disc(24, 24, 10)
    labels = np.array([truth, draw_disc(24, 24, 13), draw_disc(24, 24, 7)])
    counts = np.array(
        [[[[np.sum((truth == t) & (own == o)) for o in (0, 1)] for t in (0, 1)] for own in labels]]
    )
    rows = foreground_rows(counts, ["right", "wide", "narrow"])
    shares = {row["rater"]: (row["beyond"], row["missed"]) for row in rows}
    assert shares["right"] == (0.0, 0.0)
    assert shares["wide"] == pytest.approx((labels[1].sum() / truth.sum() - 1, 0.0))
    assert shares["narrow"] == pytest.approx((0.0, 1 - labels[2].sum() / truth.sum()))
    borders = border_counts(truth, labels, (1.0, 1.0), 1.0, 1)
    found = border_errors(rows, borders)
    text = plain(say("border", **found, unit="pixels"))
    assert text.startswith("wide over-segments by ")
    assert "narrow misses" in text
    assert "right" not in text


def test_a_rater_who_is_called_consensus_keeps_the_own_outline(tmp_path: Path) -> None:
    study = draw_disc_study({"ann": 0.0, "consensus": 3.0, "reference": -3.0}, cases=1)
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    made = make_report(tmp_path / "fused", study)
    blocks = [block for part in made.sections for block in part.blocks]
    (viewer,) = [block for block in blocks if isinstance(block, ViewerBlock)]
    drawn = labels_by_layer(viewer.cases[0])
    assert (drawn["consensus (not the rater)"] == drawn["ann"]).all()
    assert (drawn["consensus"] != drawn["ann"]).any()
    assert len({layer.name for layer in viewer.layers}) == len(viewer.layers)


def test_matrices_of_some_raters_are_theirs(tmp_path: Path) -> None:
    study = draw_disc_study(RATERS)
    consensus = raters.fuse(study, "staple", pool=True)
    write_consensus(consensus, tmp_path / "fused")
    files = read_fusion(tmp_path / "fused")
    names = [study.raters[2], "nobody", study.raters[0]]
    found = files.confusion_of(names)
    assert found is not None and consensus.confusion is not None
    assert found[[0, 2]] == pytest.approx(consensus.confusion[0][[2, 0]])
    assert np.isnan(found[1]).all()


def test_a_fusion_of_empty_masks_has_no_dice(tmp_path: Path) -> None:
    study = raters.Study.from_arrays(labels=np.zeros((2, 3, 8, 8), int))
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    made = make_report(tmp_path / "fused", study)
    assert made.first is not None and made.first.numbers[0].value is None
    assert "There are no errors to show." in words_of(made)


def test_who_labelled_alone_cannot_be_left_out() -> None:
    labels = np.full((3, 4, 4), -1)
    labels[0] = np.eye(4, dtype=int)
    dice, change = left_out_scores(labels, 2, vote)
    assert np.isnan(dice).all()
    assert np.isnan(change).all()


def test_left_out_sentence_names_both_ends() -> None:
    rows = [{"rater": "a", "dice": 1.0}, {"rater": "b", "dice": 0.995}, {"rater": "c", "dice": 0.6}]
    text = plain(say("left_out", **left_out(rows), method="vote", cases=5, all_cases=10))
    assert text.startswith("a and b could each be left out")
    assert "Without c it changes most (Dice 0.60)" in text
    assert "5 of 10 cases" in text


def test_of_two_raters_one_draws_more_than_the_other() -> None:
    made = make_report(draw_disc_study({"ann": 0.0, "wide": 3.0}), cases_shown=0)
    text = words_of(made)
    assert "wide draws" in text
    assert re.search(r"compared with ann, wide draws \d+ % more\.", text)
    assert "less" not in text.split("% more.")[0]
    actions = " ".join(made.first.actions) if made.first else ""
    assert "-m staple" not in actions
    assert "A consensus of two can only keep what both drew" in actions


# Files, names, sizes.


def test_files_are_written(tmp_path: Path) -> None:
    page = report(draw_disc_study(RATERS), tmp_path / "out", cases_shown=2)
    assert page == tmp_path / "out" / "report.html"
    assert page.stat().st_size < 1_500_000
    for name in ("agreement", "volumes", "difficulty"):
        png = (tmp_path / "out/figures" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "out/figures" / f"{name}.svg").read_text()
    with open(tmp_path / "out/tables/pairs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert float(rows[0]["dice"]) == pytest.approx(
        raters.agree(draw_disc_study(RATERS)).pairs[0]["dice"]
    )


@pytest.mark.slow
def test_names_are_only_text(tmp_path: Path) -> None:
    names = {"ann": 0.0, EVIL: 3.0, "\"&amp;'": -3.0}
    study = draw_disc_study(names, 2)
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    for source, more in ((study, None), (tmp_path / "fused", study)):
        text = report(source, tmp_path / "out", more).read_text("utf-8")
        assert EVIL not in text
        assert "&lt;script&gt;alert(1)" in text
        assert text.count("<script>") == 1  # that of the page


def test_without_images_labels_are_shown() -> None:
    study = draw_disc_study(RATERS, 2, images=False)
    (viewer,) = [b for b in all_blocks(make_report(study)) if isinstance(b, ViewerBlock)]
    case = viewer.cases[0]
    assert not case.pictures
    assert (
        labels_by_layer(case)["under"][0] == study[case.id].labels[study.raters.index("under")]
    ).all()


def test_one_rater_is_said(tmp_path: Path) -> None:
    made = make_report(draw_disc_study({"ann": 0.0}, 2))
    assert "expected at least two to compare" in words_of(made)
    assert report(draw_disc_study({"ann": 0.0}, 2), tmp_path).exists()


# Tables of class labels.


def write_answers_with_a_bot(folder: Path) -> Path:
    """Six raters of whom 'bot' says the wrong class, 40 tasks."""
    rng = np.random.default_rng(0)
    lines = ["task,worker,label"]
    for task in range(40):
        truth = rng.integers(3)
        for worker in ("a", "b", "c", "d", "e"):
            lines.append(f"t{task},{worker},{'xyz'[truth]}")
        lines.append(f"t{task},bot,{'xyz'[(truth + 1) % 3]}")
    path = folder / "answers.csv"
    path.write_text("\n".join(lines))
    return path


def test_class_table(tmp_path: Path) -> None:
    path = write_answers_with_a_bot(tmp_path)
    made = make_report(path)
    assert (
        "labels of bot equal the vote of the others on only 0 % of 40 (the median rater: 100 %)"
        in words_of(made)
    )
    study = raters.read(path)
    shown = {row["rater"]: row["agreement_rest"] for row in table_named(made, "raters").rows}
    assert shown == {r["rater"]: r["agreement_rest"] for r in raters.agree(study).raters}
    assert table_named(made, "tasks").rows[0]["given"].endswith("(1)")
    assert report(path, tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dawid-skene", "vote"])
def test_fused_class_table(tmp_path: Path, method: str) -> None:
    study = raters.read(write_answers_with_a_bot(tmp_path))
    consensus = raters.fuse(study, method)
    write_consensus(consensus, tmp_path / "fused")
    made = make_report(tmp_path / "fused", study)
    accuracy = {
        row["rater"]: row["accuracy"] for row in table_named(made, "raters-against-consensus").rows
    }
    assert accuracy == {"a": 1.0, "b": 1.0, "bot": 0.0, "c": 1.0, "d": 1.0, "e": 1.0}
    if method == "dawid-skene":
        assert table_named(made, "performance-of-raters").rows == json.loads(
            json.dumps(consensus.rows)
        )
    assert all(row["changed"] == 0 for row in table_named(made, "without-each-rater").rows)
    assert report(tmp_path / "fused", tmp_path / "out", study).exists()


# Where the study comes from.


def test_fuse_remembers_its_study(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = write_files_study(tmp_path / "data")
    images = str(tmp_path / "data/images/{case}.png")
    fused = tmp_path / "results" / "fused"
    monkeypatch.chdir(tmp_path)
    given = ["fuse", "data/masks/{rater}/{case}.png", "--images", "data/images/{case}.png"]
    assert run_raters(*given, "-m", "vote", "--raters", "ann,over,cy", "-o", str(fused)).code == 0
    text = (fused / "source.yaml").read_text()
    assert str(tmp_path) not in text
    assert "../../data/masks/{rater}/{case}.png" in text
    options = remembered_options(fused)
    assert options == {"source": pattern, "images": images, "raters": ["ann", "over", "cy"]}
    # Folder and data may be moved together, and asked for from anywhere.
    (tmp_path / "moved").mkdir()
    (tmp_path / "data").rename(tmp_path / "moved/data")
    (tmp_path / "results").rename(tmp_path / "moved/results")
    monkeypatch.chdir("/")
    study, why = study_of(tmp_path / "moved/results/fused")
    assert why == ""
    assert study is not None
    assert study.raters == ("ann", "cy", "over")
    assert study["case0"].image is not None
    out = tmp_path / "out"
    options_ = ["-o", str(out), "--cases-shown", "1", "--all-cases"]
    assert run_raters("report", str(tmp_path / "moved/results/fused"), *options_).code == 0
    for page, cases in (("report.html", 1), ("cases/cases-1.html", 2)):
        text = (out / page).read_text("utf-8")
        assert text.count('"layers":["ann","cy","over","consensus"],"patterns"') == cases


def test_report_of_a_pattern(tmp_path: Path, run_raters: Run) -> None:
    pattern = write_files_study(tmp_path / "data")
    words = ["report", pattern, "--images", str(tmp_path / "data/images/{case}.png")]
    outcome = run_raters(*words, "--raters", "ann,bob", "-o", str(tmp_path / "out"))
    assert outcome.code == 0
    assert "the report: " in outcome.out
    with open(tmp_path / "out/tables/raters.csv", newline="") as file:
        assert [row["rater"] for row in csv.DictReader(file)] == ["ann", "bob"]


def test_without_a_study_the_folder_is_shown(tmp_path: Path, run_raters: Run) -> None:
    fused = tmp_path / "fused"
    out = tmp_path / "out"
    write_consensus(raters.fuse(draw_disc_study(RATERS, 2), "staple"), fused)
    outcome = run_raters("report", str(fused), "-o", str(out))
    assert outcome.code == 0
    assert f"found no study of {fused}, expected --study" in outcome.err
    assert "Found no study of" in (out / "report.html").read_text("utf-8")
    assert (out / "tables/performance-of-raters.csv").exists()


@pytest.mark.slow
def test_a_study_that_moved_away_is_said_and_can_be_given(tmp_path: Path, run_raters: Run) -> None:
    pattern = write_files_study(tmp_path / "data")
    fused = tmp_path / "fused"
    out = tmp_path / "out"
    assert run_raters("fuse", pattern, "-m", "vote", "-o", str(fused)).code == 0
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    outcome = run_raters("report", str(fused), "-o", str(out))
    assert outcome.code == 0
    assert f"found no study of {fused}, expected --study" in outcome.err
    there = str(tmp_path / "elsewhere/masks/{rater}/{case}.png")
    outcome = run_raters("report", str(fused), "--study", there, "-o", str(out))
    assert outcome.code == 0
    assert outcome.err == ""
    assert (out / "tables/raters-against-consensus.csv").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format: raters-source/1\nsource: a.csv\nrun: rm\n", "run: Extra inputs"),
        ("format: raters-source/1\nimages: a\n", "source: Field required"),
        ("format: raters-source/2\nsource: a.csv\n", "format: Input should be"),
        ("source: !!python/object/apply:os.system ['touch pwned']\n", "not a YAML file"),
        ("format: raters-source/1\nsource: [1]\n", "source: Input should be a valid string"),
        ("- a\n", "expected a file of format raters-source/1"),
    ],
)
def test_strange_study_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.yaml").write_text(text)
    with pytest.raises(RatersError, match=r"source\.yaml") as error:
        study_of(tmp_path)
    assert message in str(error.value)
    assert not (tmp_path / "pwned").exists()


def test_a_file_in_the_way_is_named_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(RatersError, match=r"a\.txt: found a file, expected a folder to write to"):
        refuse_place(tmp_path / "a.txt", tmp_path / "masks/{rater}/{case}.png")


def test_columns_of_tables_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_answers_with_a_bot(tmp_path)
    (tmp_path / "fused").mkdir()
    remember_study(tmp_path / "fused", {"source": "answers.csv", "images": "photo"})
    options = remembered_options(tmp_path / "fused")
    assert options == {"source": str(tmp_path / "answers.csv"), "images": "photo"}
