"""Sheets of raters: their maths against slow loops and by simulation, pages, names, bad input."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from raters.assessment.one_rater import (
    ENOUGH,
    LEAST_LABELS,
    LEAST_READINGS,
    drift,
    farthest,
    mixed_up,
    share_interval,
    size_ratio,
    trend,
)
from raters.assessment.readings import readings_of
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics.overlap import dice
from raters.study.order import order_of
from raters.study.study import Study
from raters.views.report.blocks import Report, Section, TableBlock, TextBlock
from raters.views.report.sheet import ANONYMOUS, Sheets, with_sheets, write_sheets
from tests.support.command_line import Run
from tests.support.makers import ODD_NAMES, save

EVIL = "<script>alert(1)</script>"
ROWS, COLUMNS = np.mgrid[:40, :40]


def draw_disc(radius: float, y: float = 20, x: float = 20) -> np.ndarray:
    return (np.hypot(ROWS - y, COLUMNS - x) < radius).astype(np.int16)


def draw_discs(
    names: dict[str, float], cases: int = 12, drifts: str = "", reference: bool = False
) -> Study:
    """Draw discs; each rater adds to the radius, and one of them ever more."""
    rng = np.random.default_rng(4)
    labels = []
    truth = []
    for k in range(cases):
        radius = rng.uniform(8, 11)
        masks = []
        for name, more in names.items():
            drift = 5 * k / cases if name == drifts else 0.0
            masks.append(draw_disc(radius + (more + drift) + rng.normal(0, 0.3)))
        labels.append(masks)
        truth.append(draw_disc(radius))
    return Study.from_arrays(
        labels=np.array(labels),
        reference=np.array(truth) if reference else None,
        raters=list(names),
        cases=[f"c{k}" for k in range(cases)],
        classes=["background", "lesion"],
    )


def random_masks(rng: np.random.Generator, raters: int = 4, cases: int = 5) -> Study:
    labels = rng.integers(-1, 3, (cases, raters, 6, 7)).astype(np.int16)
    labels[0, 1] = MISSING
    truth = rng.integers(0, 3, (cases, 6, 7)).astype(np.int16)
    return Study.from_arrays(labels=labels, reference=truth, classes=["bg", "a", "b"])


def draw_table_study(rng: np.random.Generator, tasks: int = 30, raters: int = 5) -> Study:
    labels = rng.integers(-1, 3, (tasks, raters)).astype(np.int16)
    truth = rng.integers(-1, 3, tasks).astype(np.int16)
    return Study.from_arrays(labels=labels, reference=truth, classes=["a", "b", "c"])


def majority(labels: list[int]) -> int:
    """Return the one label that most say; MISSING for a tie or for none."""
    counts = {label: labels.count(label) for label in labels if label != MISSING}
    best = [label for label, n in counts.items() if n == max(counts.values())]
    return best[0] if len(best) == 1 else MISSING


@pytest.mark.parametrize("seed", range(3))
def test_readings_of_masks_against_a_loop(seed: int) -> None:
    study = random_masks(np.random.default_rng(seed))
    found = readings_of(study, gold=True)
    for r in range(4):
        own = found.of(r)
        counts = np.zeros((3, 3), int)
        for c, case in enumerate(study):
            labels = case.labels.reshape(4, -1)
            rest = np.delete(labels, r, axis=0)
            vote = np.array([majority(list(column)) for column in rest.T])
            for said, most in zip(labels[r], vote, strict=True):
                if said != MISSING and most != MISSING:
                    counts[most, said] += 1
            if (labels[r] == MISSING).all():
                assert c not in own.cases
                continue
            [k] = np.flatnonzero(own.cases == c)
            np.testing.assert_allclose(own.scores[k, :2], dice(labels[r], vote, 3))
            np.testing.assert_allclose(own.scores[k, 2], own.scores[k, :2].mean())
            np.testing.assert_allclose(own.gold[k, :2], dice(case.reference.ravel(), labels[r], 3))
        np.testing.assert_array_equal(own.confusion, counts)
        np.testing.assert_allclose(found.means()[r], np.nanmean(own.scores, axis=0))
        np.testing.assert_allclose(found.means(gold=True)[r], np.nanmean(own.gold, axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_readings_of_tables_against_a_loop(seed: int) -> None:
    study = draw_table_study(np.random.default_rng(seed))
    found = readings_of(study, gold=True)
    truth = study.reference_labels
    assert truth is not None
    dense = np.full((len(study), 5), MISSING)
    dense[study.triplets.task, study.triplets.rater] = study.triplets.label
    votes = np.array([[majority(list(np.delete(row, r))) for r in range(5)] for row in dense])
    right = np.where((votes == MISSING) | (dense == MISSING), np.nan, votes == dense)
    for r in range(5):
        own = found.of(r)
        assert own.cases.tolist() == np.flatnonzero(dense[:, r] != MISSING).tolist()
        np.testing.assert_array_equal(own.vote, votes[own.cases, r])
        np.testing.assert_array_equal(own.scores[:, -1], right[own.cases, r])
        rest = np.delete(right[own.cases], r, axis=1)
        enough = np.isfinite(rest).sum(axis=1) > 1
        expected = [np.nanmean(row) if ok else np.nan for row, ok in zip(rest, enough, strict=True)]
        np.testing.assert_allclose(own.others, expected)
        known = truth[own.cases] != MISSING
        hits = (own.said == truth[own.cases])[known]
        np.testing.assert_allclose(found.means(gold=True)[r, -1], hits.mean())
        assert own.confusion.sum() == np.isfinite(own.scores[:, -1]).sum()
        for c in range(3):
            of_class = own.vote == c
            assert np.nansum(own.scores[:, c]) == (own.said[of_class] == c).sum()


def test_agreement_is_that_of_agree() -> None:
    study = draw_discs({"ann": 0.0, "bob": 0.4, "cy": 2.0})
    found = readings_of(study).means()[:, -1]
    rows = raters.agree(study).raters
    np.testing.assert_allclose(found, [row["dice_rest"] for row in rows])
    table = draw_table_study(np.random.default_rng(0))
    rows = raters.agree(table).raters
    means = readings_of(table).means()[:, -1]
    np.testing.assert_allclose(means, [row["agreement_rest"] for row in rows])


def test_the_slope_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=25)
    when = rng.permutation(25) ** 2.0  # only the order counts
    found = trend(when, y, np.arange(25))
    place = np.argsort(np.argsort(when)) / 24
    slope, start = np.polyfit(place, y, 1)
    assert found.change.estimate == pytest.approx(slope)
    assert (found.first, found.last) == (pytest.approx(start), pytest.approx(start + slope))
    np.testing.assert_allclose(found.place, place)


def test_readings_without_a_time_or_a_score_do_not_count() -> None:
    when = np.array([3.0, np.nan, 1.0, 2.0])
    found = trend(when, np.array([1.0, 9.0, 0.0, np.nan]), np.arange(4))
    assert found.readings == 2
    np.testing.assert_allclose(trend([1, 1, 2], [0, 1, 2], range(3)).place, [0.25, 0.25, 1.0])
    assert found.change.estimate == pytest.approx(1.0)
    assert not found.exists and not found.differs
    assert trend([np.nan], [1.0], [0]).readings == 0


@pytest.mark.parametrize("readings", [LEAST_READINGS, 40])
def test_intervals_of_trends_cover(readings: int) -> None:
    rng = np.random.default_rng(7)
    place = np.linspace(0, 1, readings)
    covers = found = 0
    for k in range(200):
        noise = rng.normal(0, 0.08, readings)
        one = trend(place, 0.8 - 0.1 * place + noise, np.arange(readings), seed=k).change
        covers += one.low <= -0.1 <= one.high
        found += trend(place, 0.8 + noise, np.arange(readings), seed=k).differs
    assert covers / 200 > 0.9
    assert found / 200 < 0.1  # a drift that is not there


def test_intervals_of_trends_of_labels_cover() -> None:
    rng = np.random.default_rng(8)
    place = np.linspace(0, 1, LEAST_LABELS)
    covers = 0
    for k in range(200):
        right = (rng.random(LEAST_LABELS) < 0.85 - 0.15 * place).astype(float)
        one = trend(place, right, np.arange(LEAST_LABELS), seed=k).change
        covers += one.low <= -0.15 <= one.high
    assert covers / 200 > 0.88


def test_patients_count_once_in_trends() -> None:
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(12), 6)
    found = 0
    for k in range(100):
        score = rng.normal(0, 1, 12)[patient] + rng.normal(0, 0.1, 72)
        found += trend(np.arange(72), score, patient, seed=k).differs
    assert found < 12


def test_a_drift_is_found_and_whose_it_is() -> None:
    study = draw_discs({"ann": 0.0, "bob": 0.3, "cy": -0.3, "dan": 0.0}, cases=24, drifts="dan")
    found = readings_of(study)
    groups = np.arange(24)
    by = {name: drift(found.of(k), groups, groups) for k, name in enumerate(study.raters)}
    assert by["dan"].own and by["dan"].agreement.change.high < 0
    assert by["dan"].size is not None and by["dan"].size.change.low > 0
    assert not any(by[name].own for name in ("ann", "bob", "cy"))


def test_shares_cover_even_where_all_are_right() -> None:
    rng = np.random.default_rng(1)
    for number, share in ((7, 0.9), (12, 0.95), (40, 0.7)):
        covers = 0
        for _ in range(400):
            one = share_interval((rng.random(number) < share).astype(float), np.arange(number))
            covers += one.low <= share <= one.high
        assert covers / 400 > 0.91
    assert not share_interval(np.ones(3), np.arange(3)).exists
    alike = share_interval(np.repeat([1.0, 0.0], 30), np.repeat(np.arange(6), 10))
    assert alike.high - alike.low > 0.5  # six patients, not sixty


def test_sizes_are_ratios() -> None:
    study = draw_discs({"ann": 0.0, "bob": 0.0, "cy": 3.0})
    own = readings_of(study).of(2)
    volumes = [[(mask > 0).sum() for mask in case.labels] for case in study]
    expected = np.median([v[2] / np.median(v) for v in volumes])
    found = size_ratio(own.sizes[:, -1], own.cases)
    assert found.estimate == pytest.approx(expected, rel=0.01)
    assert found.low > 1.2


def test_classes_mixed_up_are_beside_what_is_usual() -> None:
    own = np.array([[50, 1, 0], [6, 10, 4], [0, 0, 30]])
    rest = np.array([[90, 10, 0], [10, 90, 0], [0, 0, 100]])
    found = mixed_up(own, own + rest, ["a", "b", "c"], masks=False)
    assert [(one.others, one.said, one.number) for one in found] == [("b", "a", 6), ("b", "c", 4)]
    assert found[0].share == pytest.approx(0.3)
    assert found[0].usual == pytest.approx(0.1)
    assert mixed_up(own, own, ["bg", "b", "c"], masks=True)[0].said == "c"  # not background
    careful = np.array([[9, 1], [0, 10]])
    assert mixed_up(careful, careful + np.array([[5, 5], [0, 10]]), ["a", "b"], masks=False) == []


def test_examples_are_the_farthest() -> None:
    study = draw_discs({"ann": 0.0, "bob": 0.0, "cy": 0.0}, drifts="cy")
    own = readings_of(study).of(2)
    assert own.cases[farthest(own, np.zeros((0, 2), int), 3)].max() == 11
    labels = np.array([[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    table = Study.from_arrays(labels=labels, classes=["a", "b"])
    from raters.assessment.agreement_answers import votes_of

    one = readings_of(table).of(3)
    assert one.cases[farthest(one, votes_of(table), 9)].tolist() == [0, 2, 1]


def read_sheet(folder: Path, name: str) -> str:
    return (folder / "sheets" / name).read_text("utf-8")


def page_text(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_a_sheet_says_what_was_measured(tmp_path: Path) -> None:
    names = {"ann": 0.0, "bob": 0.2, "cy": -0.2, "dan": 1.0}
    study = draw_discs(names, cases=20, drifts="dan", reference=True)
    when = {f"c{k}": f"2024-01-{k + 1:02d}" for k in range(20)}
    found = write_sheets(study, tmp_path, order=when, gold=True, title="Lesions")
    assert found.files == {name: f"{name}.html" for name in names}
    text = page_text(read_sheet(tmp_path, "dan.html"))
    rows = {row["rater"]: row for row in raters.agree(study).raters}
    assert f"{rows['dan']['dice_rest']:.2f}" in text
    for said in (
        "20 of 20 cases labelled",
        "the 3 others",
        "You agree with the others less",
        "more than the others",
        "Your agreement with the others fell",
        "it is yours",
        "became larger",
        "2024-01-01",
        "2024-01-20",
        "On 20 cases with a reference",
    ):
        assert said in text, said
    assert "no drift beyond chance" in page_text(read_sheet(tmp_path, "ann.html"))
    page = read_sheet(tmp_path, "dan.html")
    assert page.count("<svg viewBox") >= 8  # four examples, yours and the others'
    assert "bob" not in page and "ann" not in text  # nobody else is named


def test_a_sheet_of_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 60)
    labels = np.stack([np.where(rng.random(60) < p, truth, 1 - truth) for p in (1, 1, 1, 0.6)], 1)
    labels[:, 3] = np.where(truth == 1, 0, labels[:, 3])
    study = Study.from_arrays(labels=labels, raters=list("abcd"), classes=["cat", "dog"])
    write_sheets(study, tmp_path, order="listed")
    text = page_text(read_sheet(tmp_path, "d.html"))
    assert "What most of the others call dog, you call cat in 100 %" in text
    assert "dog 3 of 3" in text
    assert "gold" not in text.lower()
    assert "no drift beyond chance" in text


def test_what_is_unknown_is_said(tmp_path: Path) -> None:
    labels = np.full((12, 3), MISSING)
    labels[:, :2] = 0
    labels[0, :2] = 1
    labels[3, 2] = 0
    study = Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"], classes=["x", "y"])
    write_sheets(study, tmp_path)
    text = page_text(read_sheet(tmp_path, "cy.html"))
    assert "Only 1 label could be compared" in text and ENOUGH > 1
    assert "no interval: too few" in text
    assert "Nothing is known of when you labelled which task, so no drift is shown." in text
    alone = np.full((3, 3), MISSING)
    alone[0, 0] = 0
    alone[1, 1:] = 1
    write_sheets(Study.from_arrays(labels=alone, raters=["ann", "bob", "cy"]), tmp_path)
    assert "None of your tasks can be compared" in page_text(read_sheet(tmp_path, "ann.html"))
    write_sheets(draw_discs({"a": 0.0, "b": 1.0}, cases=3), tmp_path, order="listed")
    text = page_text(read_sheet(tmp_path, "a.html"))
    assert "There is one other rater" in text
    assert "10 are needed" in text


def test_volumes_have_pictures_too(tmp_path: Path) -> None:
    labels = np.stack([np.stack([draw_disc(r)] * 4, axis=-1) for r in (8, 8, 9)])[np.newaxis]
    study = Study.from_arrays(labels=labels, raters=["a", "b", "c"])
    write_sheets(study, tmp_path)
    assert "<path d=" in read_sheet(tmp_path, "c.html")


def test_hostile_names_stay_texts_and_in_their_folder(tmp_path: Path) -> None:
    names = [*ODD_NAMES, EVIL, "x" * 400, "\U0001f9ff" * 90, "Ann", "ann", "\udcff"]
    labels = np.tile(np.arange(12)[:, None] % 2, len(names))
    cases = [f"{EVIL}{k}" for k in range(12)]
    labels[:, 3] = 1 - labels[:, 3]
    study = Study.from_arrays(labels=labels, raters=names, cases=cases, classes=["<i>a", "<i>b"])
    found = write_sheets(study, tmp_path / "out", title=EVIL)
    written = sorted(path.name for path in (tmp_path / "out" / "sheets").iterdir())
    assert sorted(found.files.values()) == written
    assert len({name.casefold() for name in written}) == len(names)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    for name in written:
        page = read_sheet(tmp_path / "out", name)
        assert "<script" not in page and "<i>a" not in page
    assert "&lt;script&gt;" in read_sheet(tmp_path / "out", found.files[EVIL])


@pytest.mark.slow
@pytest.mark.usefixtures("small_figures")
def test_cases_are_links_where_a_report_is_beside(tmp_path: Path) -> None:
    drawn = draw_discs({"ann": 0, "bob": 1, "2": 2}, cases=4)
    said = Study.from_arrays(
        labels=np.array([[0, 0, 1], [1, 1, 0]]),
        raters=["ann", "bob", "2"],
        cases=["a b", "c"],
        classes=["cat", "dog"],
    )
    for study, name in ((drawn, "c0"), (said, "a b")):
        folder = raters.report(study, tmp_path, sheets=True).parent / "sheets"
        page = (folder / "2.html").read_text("utf-8")
        assert "<h1>Rater 2</h1>" in page and "<title>Rater 2" in page
        assert f'<a href="../report.html#case={name.replace(" ", "%20")}">{name}</a>' in page
        assert "<h1>ann</h1>" in (folder / "ann.html").read_text("utf-8")
        write_sheets(study, tmp_path / "alone")
        alone = (tmp_path / "alone" / "sheets" / "2.html").read_text("utf-8")
        assert f">{name}<" in alone and "href" not in alone


def test_anonymous_raters_have_no_sheets(tmp_path: Path) -> None:
    study = Study.from_arrays(labels=np.zeros((2, 2, 4, 4), int), about={"raters": "anonymous"})
    found = write_sheets(study, tmp_path)
    assert (found.files, found.note) == ({}, ANONYMOUS)
    assert not list(tmp_path.iterdir())
    report = with_sheets(Report("Study", sections=[Section("In short")]), found)
    [block] = report.sections[0].blocks
    assert isinstance(block, TextBlock) and block.text == ANONYMOUS
    alone = Study.from_arrays(labels=np.zeros((2, 1, 4, 4), int))
    assert "fewer than two" in write_sheets(alone, tmp_path).note


def test_the_raters_of_a_report_are_linked() -> None:
    pairs = TableBlock("pairs", [{"rater_a": "ann", "rater_b": "bob"}])
    table = TableBlock("raters", [{"rater": "ann", "dice": 1.0}], columns={"rater": "who"})
    report = Report("Study", sections=[Section("Raters", blocks=[pairs, table])])
    linked = with_sheets(report, Sheets({"ann": "ann.html"}))
    found = linked.sections[0].blocks[1]
    assert isinstance(found, TableBlock)
    assert found.columns == {"rater": "who", "sheet": "sheet"}
    assert found.shown == [{"rater": "ann", "dice": 1.0, "sheet": "ann.html"}]
    assert linked.sections[0].blocks[0] is pairs and list(found.rows) == list(table.rows)


class TestOrder:
    """Where the order of readings comes from."""

    def test_a_column_of_a_table_by_rater(self, tmp_path: Path) -> None:
        path = tmp_path / "answers.csv"
        path.write_text("task,worker,label,day\nt1,ann,a,2024-05-02\nt1,bob,b,2024-05-01T10:00Z\n")
        found = order_of(raters.read(path), "day")
        assert found is not None and found.dates
        assert found.at("t1", "bob") < found.at("t1", "ann")
        assert found.shown(found.at("t1", "ann")) == "2024-05-02"
        assert np.isnan(found.at("t2", "ann"))

    def test_columns_of_other_names(self, tmp_path: Path) -> None:
        path = tmp_path / "answers.csv"
        path.write_text("q,who,said,n\nt1,ann,a,2\nt1,ann,b,5\nt2,bob,b,\n")
        found = order_of(raters.read(path, task="q", worker="who", label="said"), "n")
        assert found is not None and not found.dates
        assert found.at("t1", "ann") == 2  # the first of repeated readings
        assert np.isnan(found.at("t2", "bob"))

    def test_folders_manifests_and_files_beside_patterns(self, tmp_path: Path) -> None:
        for rater in ("ann", "bob"):
            for case in ("c1", "c2"):
                save(tmp_path / "masks" / rater / f"{case}.png", draw_disc(8).astype(np.uint8))
        pattern = f"{tmp_path}/masks/{{rater}}/{{case}}.png"
        study = raters.read(pattern)
        times = tmp_path / "times.csv"
        times.write_text("case,week\nc1,7\nc2,3\nelsewhere,1\n")
        found = order_of(study, f"{times}:week")
        assert found is not None
        assert [found.at(case, "ann") for case in ("c1", "c2")] == [7, 3]
        with pytest.raises(RatersError, match=r"has no columns, expected FILE:COLUMN"):
            order_of(study, "week")
        listed = order_of(study, "listed")
        assert listed is not None and listed.at("c2", "bob") == 1
        study.write(tmp_path / "study")
        cases = tmp_path / "study" / "cases.csv"
        first, *rest = cases.read_text().splitlines()
        lines = [f"{first},week", *(f"{line},{k}" for k, line in enumerate(rest))]
        cases.write_text("\n".join(lines) + "\n")
        again = order_of(raters.read(tmp_path / "study"), "week")
        assert again is not None and again.at("c2", "ann") == 1
        mask = tmp_path / "masks" / "ann" / "c1.png"
        manifest = tmp_path / "manifest.csv"
        manifest.write_text(f"case,rater,mask,week\nc1,ann,{mask},4\n")
        third = order_of(raters.read(manifest), "week")
        assert third is not None and third.at("c1", "ann") == 4

    def test_the_study_may_say_it(self) -> None:
        study = Study.from_arrays(labels=np.zeros((2, 2, 3, 3), int), about={"order": "listed"})
        found = order_of(study)
        assert found is not None and found.at("1", "0") == 1

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"0": "May"}, "found 'May' in the order 'order', expected numbers, or dates"),
            ({"9": 1}, "found no case of the study with a value"),
            ({"0": "inf"}, "expected numbers, or dates"),
            ("nowhere.csv:day", "no such file"),
        ],
    )
    def test_what_is_wrong_with_it(self, given: Any, message: str) -> None:
        study = Study.from_arrays(labels=np.zeros((2, 2, 3, 3), int))
        with pytest.raises(RatersError, match=re.escape(message)):
            order_of(study, given)


@pytest.mark.usefixtures("small_figures")
def test_the_command_line(tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["task,worker,label,date"]
    for k in range(12):
        for name in ("ann", "bob", "../cy"):
            label = "cat" if k % 2 and rng.random() < 0.9 else "dog"
            lines.append(f"t{k},{name},{label},2024-03-{k + 1:02d}")
    Path("answers.csv").write_text("\n".join(lines) + "\n")
    run_report = partial(run_raters, "report", "answers.csv", "-o", "out")
    said = run_report("--sheets", "--order", "date")
    assert said.code == 0 and "3 sheets: out/sheets" in said.err
    assert Path("out/sheets/%2E.%2Fcy.html").exists()
    assert 'href="sheets/%252E.%252Fcy.html"' in Path("out/report.html").read_text()
    assert "sheet" not in Path("out/tables/raters.csv").read_text()
    for options, message in (
        (["--sheets", "--order", "dates"], "found no column 'dates' for the order"),
        (["--sheets", "--gold"], "found no reference of any case"),
        (["--gold"], "found --gold without --sheets"),
        (["--order", "date"], "found --order without --sheets"),
    ):
        said = run_report(*options)
        assert said.code == 2 and message in said.err, said.err
    assert run_report("--sheets", "--anonymous").code == 0
    assert (
        "There are no sheets of raters: they are anonymous" in Path("out/report.html").read_text()
    )
