"""The first screen of reports and the links on it: numbers as counted, names that open."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray

import raters
from raters.api import make_report, title_of
from raters.assessment.agreement_answers import class_confusion, pairs_of_tasks, who_said
from raters.assessment.agreement_findings import minorities, minority_facts
from raters.assessment.fusion_findings import sure_words
from raters.consensus.write import write_consensus
from raters.learning.evaluation.watch import score_and_watch, vote_score
from raters.metrics.bootstrap import interval
from raters.study.study import Study
from raters.views.report.blocks import Report, Section, TableBlock, ViewerBlock, all_blocks
from raters.views.report.page import render
from raters.views.texts.say import link, plain, say, together
from tests.support.browser import visit
from tests.support.models import make_model
from tests.support.reports import first_screen_of, table_named

pytestmark = pytest.mark.usefixtures("small_figures")
EVIL = '"><img src=x onerror=alert(1)>'
Masks = NDArray[np.int16]


def draw_shifted_squares(
    cases: int = 8, names: tuple[str, ...] = ("ann", "bob", "far"), **about: str
) -> Study:
    """Squares; the last rater draws one that is shifted more from case to case."""
    labels = np.zeros((cases, len(names), 32, 32), np.int16)
    for k in range(cases):
        labels[k, :, 8:20, 8:20] = 1
        labels[k, -1] = np.roll(labels[k, -1], k, axis=1)
    return Study.from_arrays(
        labels=labels,
        images=np.random.default_rng(0).random((cases, 1, 32, 32)),
        raters=names,
        cases=[f"c{k}" for k in range(cases)],
        classes=["background", "lesion"],
        about=about or None,
    )


def write_answers_with_a_tie(folder: Path) -> Path:
    """Write a table: ann and bob agree, cy says otherwise in the first tasks; one tie of two."""
    lines = ["task,worker,label"]
    for t in range(20):
        said = {"ann": "cat", "bob": "cat", "cy": "dog" if t < 8 else "cat"}
        lines += [f"t{t},{who},{what}" for who, what in said.items()]
    lines += ["tie,ann,cow", "tie,cy,dog"]
    path = folder / "answers.csv"
    path.write_text("\n".join(lines))
    return path


# Numbers.


def test_the_headline_is_the_mean_dice_with_its_interval() -> None:
    study = draw_shifted_squares()
    number = first_screen_of(make_report(study, cases_shown=0)).numbers[0]
    overall = raters.agree(study).overall[-1]["dice"]
    assert number.value == pytest.approx(overall)
    by_case = [row["dice"] for row in sorted(raters.agree(study).cases, key=lambda r: r["case"])]
    expected = interval(by_case)  # every case has all pairs, so that means of means are the same
    assert [number.low, number.high] == pytest.approx([expected.low, expected.high])


def test_few_groups_have_no_interval_and_it_is_said() -> None:
    number = first_screen_of(make_report(draw_shifted_squares(3), cases_shown=0)).numbers[0]
    assert number.low is None and "no interval" in number.about


def test_the_matrix_holds_every_pair_and_the_worst_rater_is_first() -> None:
    study = draw_shifted_squares()
    matrix = first_screen_of(make_report(study, cases_shown=0)).matrix
    assert matrix is not None and matrix.rows[0] == "far"
    for pair in raters.agree(study).pairs:
        a, b = (list(matrix.rows).index(pair[f"rater_{k}"]) for k in "ab")
        assert matrix.values[a][b] == matrix.values[b][a] == pytest.approx(pair["dice"])
    assert all(row[k] is None for k, row in enumerate(matrix.values))


def test_the_six_most_disputed_cases_are_shown_with_an_outline_of_everyone() -> None:
    study = draw_shifted_squares()
    cards = first_screen_of(make_report(study, cases_shown=0)).cards
    assert [card.case for card in cards] == [r["case"] for r in raters.agree(study).cases][:6]
    colours = raters.views.plots.rater_colours(study.raters)
    for card in cards:
        assert all(colour in card.picture for colour in colours.values())
        assert "<title>far: lesion</title>" in card.picture and "<image" in card.picture


def test_a_fusion_has_the_consensus_among_the_raters(tmp_path: Path) -> None:
    study = draw_shifted_squares()
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    first = first_screen_of(make_report(tmp_path / "fused", study, cases_shown=0))
    assert first.matrix is not None
    column = list(first.matrix.columns).index("consensus")
    dice = {
        name: row[column] for name, row in zip(first.matrix.rows, first.matrix.values, strict=True)
    }
    assert dice["ann"] == 1.0 and dice["far"] is not None and dice["far"] < 0.8
    assert first.numbers[0].value == pytest.approx((1 + 1 + dice["far"]) / 3)
    assert first.numbers[1].value == pytest.approx(raters.agree(study).overall[-1]["dice"])
    assert 'stroke="#fff"' in first.cards[0].picture


def test_three_actions_name_the_cases_and_the_rater() -> None:
    actions = first_screen_of(make_report(draw_shifted_squares(), cases_shown=0)).actions
    assert len(actions) == 3
    assert plain(actions[0]).startswith("Look at c7 (Dice 0.")
    assert "with far, who stands apart" in plain(actions[1])
    assert '<a href="#case=c7">' in actions[0] and '<a href="#rater=far">' in actions[1]


def test_anonymous_raters_have_no_matrix_of_names() -> None:
    study = draw_shifted_squares(names=("reader0", "reader1", "reader2"), raters="anonymous")
    first = first_screen_of(make_report(study))
    assert first.matrix is not None and "reader0" not in first.matrix.rows
    assert sum(row[0] or 0 for row in first.matrix.values) == pytest.approx(1)
    assert "reader0" not in " ".join(first.actions) and "reader0" not in str(first.cards)


@pytest.mark.slow
def test_cards_say_that_there_is_no_white_outline(tmp_path: Path) -> None:
    labels = np.zeros((2, 3, 16, 16), np.int16)
    labels[0, :, 4:9, 4:9] = 1
    for k in range(3):
        labels[1, k, 5 * k : 5 * k + 4, 2:12] = 1  # nobody draws where another one does
    study = Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"], cases=["alike", "apart"])
    write_consensus(raters.fuse(study, "vote"), tmp_path)
    made = make_report(tmp_path, study, cases_shown=0)
    lines = {card.case: list(card.lines) for card in first_screen_of(made).cards}
    assert lines == {"apart": ["consensus empty"], "alike": []}
    assert "<p>consensus empty</p>" in render(made)


def test_nobody_is_weighed_where_raters_are_anonymous(tmp_path: Path) -> None:
    study = draw_shifted_squares(2, raters="anonymous")
    write_consensus(raters.fuse(study, "vote"), tmp_path / "fused")
    fused = first_screen_of(make_report(tmp_path / "fused", study, cases_shown=0))
    assert "pixel-cm --shared" in fused.actions[2] and "whom to trust" not in fused.actions[2]
    table = raters.read(write_answers_with_a_tie(tmp_path), anonymous=True)
    assert "fuse STUDY -m vote" in first_screen_of(make_report(table)).actions[2]
    assert "-m single-cm" in say("act_labels", undecided=0, bare=0, anonymous=True)
    two = {"minority": None, "low": None, "two": True}
    assert "--shared" in say("act_class", anonymous=True, **two)
    assert "--shared" not in say("act_class", anonymous=False, **two)


@pytest.mark.slow
@pytest.mark.parametrize("reference", [True, False])
def test_a_run_has_score_baseline_and_cut(tmp_path: Path, reference: bool) -> None:
    model = make_model(values=(0, 1), raters=("ann", "bob", "cat"))
    model.save(tmp_path)
    rng = np.random.default_rng(0)
    truth = (rng.random((7, 8, 8)) < 0.4).astype(np.int16)
    labels = np.stack([truth, np.roll(truth, 1, 2), truth], axis=1)
    labels[:, 2, :, :2] = 1 - labels[:, 2, :, :2]
    study = Study.from_arrays(
        images=rng.normal(size=(7, 1, 8, 8)),
        labels=labels,
        raters=model.config.raters,
        reference=truth if reference else None,
        classes={c.value: c.name for c in model.config.classes},
    )
    made = make_report(tmp_path, study, cases_shown=2)
    score, baseline, cut = first_screen_of(made).numbers
    found = raters.evaluate(tmp_path, study)
    assert score.value == found.main["score"] and score.low == found.main["score_low"]
    if reference:
        votes = (labels.sum(axis=1) >= 2).astype(int)
        both = [2 * (t & v).sum() / (t.sum() + v.sum()) for t, v in zip(truth, votes, strict=True)]
        assert baseline.name == "vote of the raters"
        assert baseline.value == pytest.approx(np.mean(both))
    else:
        assert baseline.value == pytest.approx(raters.agree(study).overall[-1]["dice"])
    assert cut.value == 0.5 and len(first_screen_of(made).cards) == 2
    assert score_and_watch(model, study)[1].vote.keys() == (
        set(study.cases) if reference else set()
    )


def test_a_tied_vote_is_right_in_part() -> None:
    labels = np.array([[0, 1], [1, 1]])
    study = Study.from_arrays(labels=labels, reference=np.array([0, 0]), classes=["a", "b"])
    assert [vote_score(case, study) for case in study.iter_cases()] == [0.5, 0.0]


# Class labels.


def test_pairs_of_tasks_against_readings_counted_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [
        ("t", "ann", "x"),
        ("t", "ann", "y"),
        ("t", "bob", "x"),
        ("t", "cy", "y"),
        ("u", "cy", "x"),
    ]
    path.write_text("task,worker,label\n" + "\n".join(map(",".join, rows)))
    study = raters.read(path)
    own = rows[:4]
    pairs = [(a, b) for a, b in combinations(own, 2) if a[1] != b[1]]
    equal = sum(a[2] == b[2] for a, b in pairs)
    assert pairs_of_tasks(study).tolist() == [[equal, len(pairs)], [0, 0]]
    counts = class_confusion(study)
    assert counts.sum() == 2 * len(pairs) and np.trace(counts) == 2 * equal
    assert (counts == counts.T).all()
    assert sorted(who_said(study)[0][0]) == ["ann", "bob"]


def test_tasks_say_who_said_what_and_a_tie_is_a_tie(tmp_path: Path) -> None:
    made = make_report(write_answers_with_a_tie(tmp_path))
    table = table_named(made, "tasks")
    assert table.shown is not None
    rows = {row["task"]: row for row in table.shown}
    assert rows["t0"]["who"] == "cat: ann, bob; dog: cy"
    assert [plain(line) for line in first_screen_of(made).cards[1].lines] == [
        "cat: ann, bob",
        "dog: cy",
    ]
    assert '<a href="#rater=cy">cy</a>' in first_screen_of(made).cards[1].lines[1]
    assert rows["t0"]["majority"] == "cat" and rows["tie"]["majority"] == "tie: cow, dog"
    assert "who" not in table.rows[0]  # the file beside the page stays as it is
    shown = table_named(made, "raters").shown
    assert shown is not None and shown[0]["rater"] == "cy"
    pairs = table_named(made, "pairs").columns
    assert isinstance(pairs, dict) and pairs["cases"] == "tasks"
    equal = first_screen_of(made).numbers[0].value
    assert equal == pytest.approx(
        raters.agree(raters.read(write_answers_with_a_tie(tmp_path))).overall[-1]["agreement"]
    )


def test_fused_tasks_are_sorted_by_the_posterior(tmp_path: Path) -> None:
    study = raters.read(write_answers_with_a_tie(tmp_path))
    consensus = raters.fuse(study, "dawid-skene")
    write_consensus(consensus, tmp_path / "fused")
    made = make_report(tmp_path / "fused", study)
    table = table_named(made, "tasks")
    sure = consensus.table.truth.max(axis=1)
    assert table.shown is not None
    assert [row["p"] for row in table.shown] == pytest.approx(np.sort(sure).tolist())
    assert first_screen_of(made).cards[0].case == table.shown[0]["task"]
    assert not any("1.00 sure" in card.note for card in first_screen_of(made).cards)
    assert (sure_words(0.994), sure_words(0.9999)) == ("0.99 sure", "> 0.99 sure")
    assert [row["task"] for row in table.rows] == [r["case"] for r in raters.agree(study).cases]


def classes_of_one_task(folder: Path) -> Study:
    """Seven raters say seven classes of a task, and agree on another one."""
    lines = [f"hard,{k},class{k}" for k in range(7)] + [f"plain,{k},class0" for k in range(7)]
    path = folder / "answers.csv"
    path.write_text("\n".join(["task,worker,label", *lines]))
    return raters.read(path)


def test_cards_say_how_many_classes_they_leave_out(tmp_path: Path) -> None:
    (card,) = first_screen_of(make_report(classes_of_one_task(tmp_path))).cards
    lines = [plain(line) for line in card.lines]
    expected = [f"class{k}: rater {k}" for k in range(3)]
    assert lines == [*expected, "and 4 more classes"]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 500])
def test_cards_are_read_in_one_line_and_names_in_full_where_narrow(
    width: int, tmp_path: Path
) -> None:
    page = render(make_report(classes_of_one_task(tmp_path)))
    script = """
      const look = (s, what) => getComputedStyle(document.querySelector(s))[what];
      answer.link = look(".cards p a", "display");
      answer.card = look(".cards li > a", "display");
      answer.name = look(".cards .name", "whiteSpace");
      const rules = [...document.styleSheets[0].cssRules];
      const print = rules.find((rule) => rule.conditionText === "print").cssText;
      answer.print = ["--accent", "--hover", "--warn:"].every((name) => print.includes(name));
      answer.printed = /\\.cards \\.name [{][^}]*normal/.test(print);
    """
    found = visit(page, script, tmp_path, width).answer
    assert (found["link"], found["card"]) == ("inline", "grid")
    assert found["name"] == ("nowrap" if width > 960 else "normal")
    assert found["print"] and found["printed"]


# Names and titles.


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("/data/lesions/masks/{rater}/{case}.png", "lesions"),
        ("/data/lesions/mask-{rater}/{case}.png", "lesions"),
        ("/data/lesions/{case}/masks/{rater}.nii.gz", "lesions"),
        ("/data/birds.csv", "birds"),
        ("/data/birds/answers.csv", "birds"),
    ],
)
def test_titles_are_names_and_no_patterns(source: str, title: str) -> None:
    assert title_of(source) == title


def test_names_in_sentences_are_links_and_only_text() -> None:
    text = say("act_tasks", first=[EVIL, "7"], sure=False)
    assert "<img" not in text and f'href="#case={quote(EVIL, safe="")}"' in text
    assert plain(text).endswith(f"{EVIL} and task 7.")
    assert together(["<b>", link("ann")]) == '&lt;b&gt; and <a href="#rater=ann">ann</a>'


def test_sentences_run_on_without_gaps(tmp_path: Path) -> None:
    """No link became text on its way, no two sentences touch, no filter left a None."""
    study = draw_shifted_squares()
    write_consensus(raters.fuse(study, "staple"), tmp_path / "fused")
    for made in (
        make_report(study, cases_shown=1),
        make_report(tmp_path / "fused", study, cases_shown=1),
        make_report(write_answers_with_a_tie(tmp_path)),
    ):
        page = render(made)
        assert "&lt;a href" not in page
        texts = [getattr(b, "text", "") or getattr(b, "caption", "") for b in all_blocks(made)]
        for text in map(plain, [*texts, *first_screen_of(made).actions]):
            assert not re.search(r"[a-z)][.:][A-Z]|  | \.|None|\{|\}", text), text


def test_a_minority_is_named_once() -> None:
    study = draw_shifted_squares(1)
    drew = np.array([[[1, 1], [1, 0], [1, 0]]], bool)
    few = minorities(drew, np.ones((1, 3), bool), np.array([[9, 5]]))
    facts = minority_facts(few, study, study.cases, "pixels")
    said = plain(say("minority", one=facts, followed="staple"))
    assert said.startswith("lesion was drawn by 1 of 3 raters only (ann; 5 pixels in case c0), and")


def test_a_class_that_nobody_drew_is_said() -> None:
    """Matrices may put a class into the consensus of a case that no rater drew there."""
    study = draw_shifted_squares(3)
    drew = np.array([[[1, 1], [1, 0]], [[1, 0], [1, 0]], [[1, 1], [1, 1]]], bool)[:, [0, 0, 1]]
    few = minorities(drew, np.ones((3, 3), bool), np.array([[9, 2], [9, 5], [9, 7]]))
    assert [few[0][k] for k in ("cases", "nobody", "of", "who")] == [[1], 1, 3, []]
    facts = minority_facts(few, study, study.cases, "pixels")
    said = plain(say("minority", one=facts, followed="staple"))
    assert said == (
        "lesion was drawn by fewer than half of the raters in 1 of the 3 cases that have it (by "
        "nobody in 1), the largest in case c1 (none of 3 raters: 5 pixels), and is in the "
        "consensus (staple) all the same: see whether it should be."
    )
    act = plain(say("act_consensus", minority=facts, method="staple", anonymous=False, two=False))
    assert "staple put lesion into 1 case where nobody drew it. Look at c1, or compare" in act


def beside_a_run() -> Report:
    """Rows of a run's report: against whom scores are, of two raters, of all of them, of a run."""
    tables = [
        TableBlock("raters", [{"rater": name} for name in ("ann", "bob")]),
        TableBlock("summary", [{"against": name} for name in ("reference", "ann")]),
        TableBlock("cuts", [{"against": "raters"}]),
        TableBlock("differences", [{"run": "other", "against": "mine"}]),
    ]
    return Report("Run", sections=[Section("Scores", blocks=tables)])


RATER_LINKS = ["#rater=ann", "#rater=bob", "#rater=ann"]


def test_only_raters_are_links_to_raters() -> None:
    assert re.findall('<td><a href="([^"]*)">', render(beside_a_run())) == RATER_LINKS


@pytest.mark.browser
def test_only_raters_are_links_in_the_browser(tmp_path: Path) -> None:
    """The script makes all rows anew."""
    script = """
      document.querySelectorAll("th button").forEach((button) => button.click());
      const links = [...document.querySelectorAll("td a")];
      answer.links = links.map((a) => a.getAttribute("href"));
    """
    found = visit(render(beside_a_run()), script, tmp_path)
    assert found.console == [] and found.answer["links"] == RATER_LINKS


def test_a_case_that_an_action_names_is_in_the_viewer() -> None:
    labels = np.zeros((12, 3, 32, 32), np.int16)
    labels[:, :, 4:20, 4:20] = 1
    for k in range(11):
        labels[k, 2] = np.roll(labels[k, 2], k + 2, axis=1)
    labels[11, 0, 28:30, 28:30] = 2  # nobody else draws it, in the case that raters agree on best
    names = [f"c{k}" for k in range(12)]
    classes = ["background", "lesion", "spot"]
    study = Study.from_arrays(labels=labels, raters=list("abc"), cases=names, classes=classes)
    made = make_report(study, cases_shown=4)
    assert '"#case=c11"' in first_screen_of(made).actions[2]
    (viewer,) = [block for block in all_blocks(made) if isinstance(block, ViewerBlock)]
    shown = [case.id for case in viewer.cases]
    assert len(shown) == 4 and "c11" in shown
    assert sorted([*shown, *viewer.rest]) == sorted(names)


@pytest.mark.slow
@pytest.mark.browser
def test_raters_in_who_said_what_open(tmp_path: Path) -> None:
    study = classes_of_one_task(tmp_path)
    script = """
      const cell = [...document.querySelectorAll("td")].find((td) => td.textContent.startsWith("class0: "));
      answer.text = cell.textContent;
      answer.links = [...cell.querySelectorAll("a")].map((a) => a.getAttribute("href"));
    """  # noqa: E501
    found = visit(render(make_report(study)), script, tmp_path)
    assert found.console == []
    assert found.answer["text"].startswith("class0: rater 0; class1: rater 1; ")
    assert found.answer["links"] == [f"#rater={k}" for k in range(7)]


@pytest.mark.browser
def test_links_open_rows_and_nothing_is_cut_off(tmp_path: Path) -> None:
    page = render(make_report(draw_shifted_squares(9, ("ann", EVIL, "far")), cases_shown=2))
    script = """
      const go = async (hash) => {
        location.hash = hash;
        await until(() => document.querySelector("tr.picked"));
        await wait(100);
        const row = document.querySelector("tr.picked");
        const text = row.firstElementChild.textContent;
        row.classList.remove("picked");
        return text;
      };
      answer.rater = await go([...document.querySelectorAll(".matrix tbody a")][1].hash);
      answer.case = await go("#case=c1");
      const first = document.querySelector(".first").getBoundingClientRect();
      answer.bottom = first.bottom + window.scrollY;
      answer.wide = document.documentElement.scrollWidth;
      answer.links = [...document.querySelectorAll("main a")].map((a) => a.getAttribute("href"));
    """
    found = visit(page, script, tmp_path, width=1400)
    assert found.console == []
    assert found.answer["case"] == "c1"
    assert found.answer["rater"] in ("ann", EVIL, "far")
    assert found.answer["bottom"] <= 900 and found.answer["wide"] <= 1400
    assert all(href.startswith("#") for href in found.answer["links"])
