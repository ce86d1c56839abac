"""What reports say of people: no sentence blames, ranks or contradicts without cause."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from sklearn.metrics import f1_score

import raters
from raters.api import make_report
from raters.assessment.against import foreground_rows
from raters.assessment.agreement_findings import (
    accuracies,
    disputed_cases,
    size_rank,
    troubled,
    who_draws,
)
from raters.assessment.fusion_findings import KINDS, kinds_of, low_skills
from raters.consensus.write import write_consensus
from raters.core.wording import ALL_RATERS
from raters.evaluation.result import raters_together
from raters.learning.evaluation.watch import Estimated, foreground_of
from raters.learning.training.run import still_falling
from raters.simulation import phantom_study, simulate
from raters.study.places import remember_study, remembered_study
from raters.study.study import Study
from raters.views import plots
from raters.views.plots.style import FALSE_NEGATIVE, FALSE_POSITIVE
from raters.views.report.blocks import (
    FigureBlock,
    Report,
    TableBlock,
    TextBlock,
    ViewerBlock,
    all_blocks,
)
from raters.views.report.run_raters import rater_section
from raters.views.report.tables import shown_value
from raters.views.texts.say import plain, say
from tests.support.models import make_model
from tests.support.reports import first_screen_of, table_named, texts_and_captions

pytestmark = pytest.mark.usefixtures("small_figures")
SIDE = 32
Masks = NDArray[np.int16]


def draw_square(first: int, last: int, number: int = 1) -> Masks:
    """Draw rows and columns from the first up to, not including, the last."""
    mask = np.zeros((SIDE, SIDE), np.int16)
    mask[first:last, first:last] = number
    return mask


def make_study(
    labels: Sequence[Sequence[Masks]], names: str, classes: int = 2, **more: str
) -> Study:
    return Study.from_arrays(
        labels=np.array(labels),
        raters=names.split(),
        classes=["background", *(f"grade{k}" for k in range(1, classes))],
        about=more or None,
    )


def fuse_and_report(study: Study, folder: Path, method: str = "vote", **options: bool) -> Report:
    write_consensus(raters.fuse(study, method, **options), folder / "fused")
    return make_report(folder / "fused", study, cases_shown=1)


def all_words_of(made: Report) -> str:
    """Return the words of heads, actions and blocks, without their marks."""
    texts = [section.about for section in made.sections]
    if made.first is not None:
        texts += made.first.actions
    texts += texts_and_captions(made)
    return " ".join(map(plain, texts))


def figure(made: Report, name: str) -> Figure:
    (found,) = [b for b in all_blocks(made) if isinstance(b, FigureBlock) and b.name == name]
    return found.figure


def names_of(made: Report, kind: type) -> set[str]:
    return {block.name for block in all_blocks(made) if isinstance(block, kind)}


# Two raters.


def test_of_two_raters_staple_is_the_intersection_and_the_report_says_so(tmp_path: Path) -> None:
    """As on CHASE_DB1: the page had 'missed 0.000' and 'takes 13 % for background' of one rater."""
    labels = [
        [draw_square(8, 20 + k), np.roll(draw_square(8, 20 + k), 2, axis=0)] for k in range(4)
    ]
    study = make_study(labels, "ann bob")
    made = fuse_and_report(study, tmp_path, "staple", pool=True)
    for case in study:
        mask = np.asarray(Image.open(tmp_path / "fused" / f"{case.id}.png"))
        assert np.array_equal(mask > 0, case.labels.min(axis=0) > 0)
    text = all_words_of(made)
    assert "With two raters staple gives their intersection" in text
    assert "majority" not in text
    assert "Leave-one-out needs at least three raters" in text
    rows = table_named(made, "raters-against-consensus").rows
    assert [row["missed"] for row in rows] == [0, 0]
    assert [row["sensitivity"] for row in rows] == [1, 1]
    assert "largest error" not in text and "takes" not in text  # labels of two tell no errors
    assert "Learn from both raters as they are" in plain(first_screen_of(made).actions[2])
    assert "Lowest" not in text and "segments" not in text  # the two are not ranked


def test_the_largest_error_is_of_what_is_shown() -> None:
    of = {"worst": ("ann", "a", "b", 0.13), "how": "estimated", "shown": 4}
    text = plain(say("confusion", counted=0.0, all=59, **of))
    assert "ann takes 13 % of a for b, the largest error of those shown." in text
    assert "of the written consensus it is 0 %" in text  # beside the method's own estimate
    assert "of a for b, the largest error. " in plain(say("confusion", counted=None, all=4, **of))


def test_the_notes_of_a_method_are_in_its_report(tmp_path: Path) -> None:
    same = draw_square(4, 12)
    other = draw_square(6, 14)
    made = fuse_and_report(make_study([[same, same, other]] * 2, "ann bob cy"), tmp_path, "staple")
    assert "and bob have the same masks in 2 of the 2 cases" in all_words_of(made)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_consensus_of_two_is(kind: str) -> None:
    first = draw_square(4, 12)
    second = draw_square(8, 20)
    masks = {"both": first & second, "either": first | second, "first": first, "second": second}
    found = kinds_of(np.array([first, second]), masks[kind])
    assert found == {name: name == kind for name in KINDS}
    assert kinds_of(np.array([first, first]), first) is None


# One number per rater for sentence, figure and table.


def rare_and_frequent() -> Study:
    """Rater two misses half of what is frequent, rater three all of what is rare, as on Gleason."""
    frequent = draw_square(4, 24)
    rare = draw_square(26, 28, 2)
    right = frequent + rare
    half = np.where(np.arange(SIDE) < 14, right, 0).astype(np.int16)
    no_rare = frequent + draw_square(26, 28, 1)
    return make_study([[right, half, no_rare, right, right]] * 3, "one two three four five", 3)


def test_who_misses_most_is_the_same_in_sentence_figure_and_table(tmp_path: Path) -> None:
    made = fuse_and_report(rare_and_frequent(), tmp_path)
    rows = {row["rater"]: row for row in table_named(made, "raters-against-consensus").rows}
    assert rows["two"]["missed"] > 0.4 and rows["three"]["missed"] == 0
    for row in rows.values():
        assert row["sensitivity"] == pytest.approx(1 - row["missed"] - row["other"])
    least = min(rows, key=lambda name: rows[name]["sensitivity"])
    assert f"Lowest sensitivity: {least} ({rows[least]['sensitivity']:.2f})" in all_words_of(made)
    assert least == "two"
    drawn = figure(made, "performance").axes[0]
    ordered = [text.get_text() for text in drawn.get_yticklabels()]
    offsets = np.asarray(drawn.collections[1].get_offsets())
    shown = dict(zip(ordered, offsets[:, 0].tolist(), strict=True))
    assert shown == pytest.approx({name: row["sensitivity"] for name, row in rows.items()})


def test_foreground_numbers_against_pixels_counted_one_by_one() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, (2, 40))
    said = rng.integers(0, 3, (2, 40))
    pairs = [
        np.array([[np.sum((t == a) & (s == b)) for b in range(3)] for a in range(3)])
        for t, s in zip(truth, said, strict=True)
    ]
    (row,) = foreground_rows(np.array(pairs)[:, np.newaxis], ["ann"])
    there = truth > 0
    assert row["sensitivity"] == pytest.approx((said == truth)[there].mean())
    assert row["ppv"] == pytest.approx((said == truth)[said > 0].mean())
    assert row["missed"] == pytest.approx((said == 0)[there].mean())
    assert row["beyond"] == pytest.approx(((said > 0) & ~there).sum() / there.sum())


def test_the_error_of_a_ratio_is_that_of_repeated_studies() -> None:
    """Against the spread of the sensitivity over many simulated studies of 50 cases."""
    rng = np.random.default_rng(1)

    def counts(studies: int) -> NDArray[np.int64]:
        there = rng.integers(20, 200, (studies, 50))
        found = rng.binomial(there, rng.beta(8, 2, there.shape))
        none = np.zeros_like(there)
        return np.stack([np.stack([none, none], -1), np.stack([there - found, found], -1)], -2)

    found = [foreground_rows(one[:, np.newaxis], ["ann"])[0] for one in counts(400)]
    spread = np.std([row["sensitivity"] for row in found])
    assert np.mean([row["sensitivity_se"] for row in found]) == pytest.approx(spread, rel=0.1)


def test_the_sentence_names_the_lowest_of_each_measure() -> None:
    rows = [
        {"rater": "ann", "sensitivity": 0.5, "ppv": 0.99},
        {"rater": "bob", "sensitivity": 0.9, "ppv": 0.985},
    ]
    text = plain(say("skill", **low_skills(rows)))
    assert "Lowest sensitivity: ann (0.50)" in text and "Lowest positive" not in text


# Colours.


def dot_colours(drawn: Figure) -> dict[str, str]:
    """Return the colours of the dots of `plots.skills` by the name beside them."""
    axes = drawn.axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    faces = np.asarray(axes.collections[1].get_facecolor())
    return dict(zip(names, map(to_hex, faces), strict=True))


def test_a_rater_has_one_colour_in_all_figures_of_a_report(tmp_path: Path) -> None:
    """The first rater of the study labelled only the last case, so that others come first."""
    study = rare_and_frequent()
    labels = np.array([case.labels for case in study])
    labels[:2, 0] = -1
    study = make_study(labels.tolist(), "one two three four five", 3)
    made = fuse_and_report(study, tmp_path)
    expected = plots.rater_colours(study.raters)
    for name in ("dice-with-consensus", "performance", "without-a-rater"):
        assert dot_colours(figure(made, name)) == expected
    lines = figure(made, "border-all foreground").axes[0].lines[1:]
    assert [to_hex(line.get_color()) for line in lines] == list(expected.values())
    (viewer,) = [block for block in all_blocks(made) if isinstance(block, ViewerBlock)]
    layers = {layer.name: layer.colour for layer in viewer.layers}
    assert {name: layers[name] for name in study.raters} == expected


def test_a_rater_of_a_fused_table_has_the_colour_of_the_study(tmp_path: Path) -> None:
    """Figures show raters by how many labels they gave, colours go by the study."""
    path = tmp_path / "answers.csv"
    given = itertools.product(range(12), enumerate(("ann", "bob", "cy")))
    lines = [f"t{t},{name},c{(t + (r == 0)) % 3}" for t, (r, name) in given if t < 4 + 4 * r]
    path.write_text("\n".join(["task,worker,label", *lines]))
    study = raters.read(path)
    made = fuse_and_report(study, tmp_path)
    expected = plots.rater_colours(study.raters)
    for name in ("accuracy", "performance"):
        assert dot_colours(figure(made, name)) == expected


@pytest.mark.parametrize(
    "seen",
    [
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    ],
    ids=["deuteranopia", "protanopia"],
)
def test_colour_blind_people_tell_too_much_from_missed(seen: list[list[float]]) -> None:
    """By the matrices of Machado, Oliveira and Fernandes (2009) for deuter- and protanopia."""

    def apart(one: str, other: str) -> float:
        linear = [np.array(to_rgb(colour)) ** 2.2 for colour in (one, other)]
        shown = [(np.array(seen) @ colour).clip(0, 1) ** (1 / 2.2) for colour in linear]
        return float(np.abs(shown[0] - shown[1]).max())

    assert apart(FALSE_POSITIVE, FALSE_NEGATIVE) > 0.55
    assert apart("#E00000", "#00A000") < 0.4  # red and green


# Runs.


def make_estimated(draws_more: Sequence[float], **more: bool) -> Estimated:
    """Return raters whose matrices are as they draw; 5 % of the picture is foreground."""
    pixels = np.array([95.0, 5.0])
    matrices = []
    for share in draws_more:
        wrong = max(share, 0.0) * 5 / 95
        found = 1 + min(share, 0.0)
        matrices.append([[1 - wrong, wrong], [1 - found, found]])
    names = ["ann", "bob", "cy"][: len(draws_more)]
    return Estimated(
        names,
        ["background", "lesion"],
        np.array(matrices),
        draws_more=np.array(draws_more),
        masks=True,
        pixels=pixels,
        all_raters=names,
        **more,
    )


def section_words(found: Estimated) -> str:
    blocks = rater_section(found).blocks
    return " ".join(
        plain(b.text if isinstance(b, TextBlock) else getattr(b, "caption", "")) for b in blocks
    )


@pytest.mark.parametrize(("way", "much"), [(1.0, "little"), (-1.0, "much")])
def test_if_all_raters_err_one_way_the_model_is_accused(way: float, much: str) -> None:
    text = section_words(make_estimated([way * 0.65, way * 0.57, way * 0.5]))
    assert f"speaks against the model, which draws too {much}" in text
    assert "50 % to 65 %" in text
    assert "guideline" not in text


def test_one_rater_who_differs_is_named() -> None:
    text = section_words(make_estimated([1.87, 0.02, -0.03]))
    assert "ann 187 % more" in text and "against the model" not in text
    assert "bob" not in text.split("Foreground drawn")[1]


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_if_most_raters_err_one_way_nobody_is_said_to_draw_more(way: float) -> None:
    text = section_words(make_estimated([way * 0.95, way * 0.6, 0.02]))
    assert "Foreground drawn" not in text and "guideline" not in text


def test_at_a_cut_that_is_off_nobody_is_said_to_draw_more() -> None:
    draws = [1.87, 0.02, -0.03]
    assert "ann 187 % more" in section_words(make_estimated(draws))
    text = section_words(make_estimated(draws, cut_off=True))
    assert "187" not in text and "guideline" not in text


def test_who_draws_far_too_much_is_not_the_most_skilled() -> None:
    """The mean of the diagonal of ann, 0.95, is the highest of all: background is easy."""
    found = make_estimated([1.87, -0.2, -0.25])
    assert np.trace(found.matrices[0]) / 2 > 0.94 > np.trace(found.matrices[1]) / 2
    text = section_words(found)
    assert "Lowest positive predictive value: ann (0.35)" in text
    assert "Lowest sensitivity: cy (0.75)" in text
    assert "skill" not in text and "highest" not in text.split("By the model's")[1].split(".")[0]


def test_foreground_of_a_matrix_is_that_of_its_pixels() -> None:
    counts = np.array([[70.0, 10, 5], [3, 20, 2], [1, 4, 15]])
    pixels = counts.sum(axis=1)
    found = foreground_of(counts / pixels[:, np.newaxis], pixels)
    assert found["sensitivity"] == pytest.approx(35 / 45)
    assert found["ppv"] == pytest.approx(35 / 56)


def test_settled_scores_are_not_called_rising() -> None:
    """As in the demo: fast, then 0.8281, 0.8287, 0.8286."""
    scores = [0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8, 0.82, 0.8281, 0.8287, 0.8286]
    assert not still_falling([-score for score in scores])
    assert still_falling([-score for score in scores[:7]])


# Studies.


def test_disputed_cases_stay_in_the_test_set() -> None:
    rows = [{"case": f"c{k}", "dice": 0.1 + 0.01 * k} for k in range(9)]
    text = plain(say("cases", **disputed_cases(rows)))
    assert "ask for another opinion" in text and "test set" not in text


def test_equal_sizes_are_not_equal_borders() -> None:
    text = say("volumes", **who_draws({"ann": 1.0, "bob": 1.0}))
    assert "same border" not in text and "nothing of where" in text


def test_small_regions_are_not_called_hard_because_of_dice() -> None:
    """Two squares shifted by a pixel agree less by Dice where they are small, and only by Dice."""
    sizes = np.arange(3.0, 23.0)
    text = say("size", rank=size_rank(sizes**2, 1 - 1 / sizes))
    assert "Dice does so by itself" in text and "hard ones" not in text


def five_with_a_minority() -> Study:
    """Two of five draw a further class, and draw all else rightly, as on BraTS."""
    whole = draw_square(4, 24)
    more = whole.copy()
    more[10:14, 10:14] = 2
    shifted = [np.roll(whole, k, axis=0) for k in (1, -1, 2)]
    return make_study([[more, *shifted, more]], "ann bob cy dan eve", 3)


def test_a_class_of_a_minority_is_said(tmp_path: Path) -> None:
    study = five_with_a_minority()
    fact = "grade2 was drawn by 2 of 5 raters only (ann and eve; 16 pixels in case 0)"
    assert fact in all_words_of(make_report(study, cases_shown=0))
    consensus = raters.fuse(study, "staple")
    assert (consensus[0].labels == 2).any()
    made = fuse_and_report(study, tmp_path, "staple")
    assert f"{fact}, and the consensus (staple) followed them" in all_words_of(made)
    assert "of grade2 for" not in all_words_of(made)  # nobody is blamed for not drawing it


def test_a_class_that_most_drew_is_not_said() -> None:
    study = make_study([[draw_square(4, 12)] * 3 + [draw_square(0, 0)] * 2], "ann bob cy dan eve")
    assert "drawn by" not in all_words_of(make_report(study, cases_shown=0))


# Anonymous raters.


def anonymous_study() -> Study:
    labels = [[draw_square(8, 20 + (j + k) % 3) for j in range(3)] for k in range(5)]
    return make_study(labels, "reader0 reader1 reader2", raters="anonymous")


def assert_nobody_is_named(made: Report) -> None:
    assert "reader" not in all_words_of(made)
    for block in all_blocks(made):
        if isinstance(block, TableBlock) and block.name not in ("cases-by-distance",):
            assert "reader" not in str(block.rows)
        if isinstance(block, FigureBlock):
            shown = [
                text.get_text()
                for axes in block.figure.axes
                for text in (*axes.get_yticklabels(), *axes.get_xticklabels(), axes.title)
            ]
            shown += [t.get_text() for legend in block.figure.legends for t in legend.get_texts()]
            assert not any("reader" in text for text in shown)


def test_anonymous_raters_are_not_ranked(tmp_path: Path) -> None:
    study = anonymous_study()
    made = make_report(study, cases_shown=1)
    assert_nobody_is_named(made)
    assert not names_of(made, TableBlock) & {"raters", "pairs"}
    assert "the largest mask is 1.4 times the smallest" in all_words_of(made)
    made = fuse_and_report(study, tmp_path)
    assert_nobody_is_named(made)
    (row,) = table_named(made, "raters-against-consensus").rows
    assert made.first is not None
    assert row["dice"] == pytest.approx(made.first.numbers[0].value)
    assert [row["rater"] for row in table_named(made, "raters-against-consensus").rows] == [
        ALL_RATERS
    ]
    titles = [axes.get_title() for axes in figure(made, "confusion").axes]
    assert titles.count(ALL_RATERS) == 1
    assert "without-each-rater" not in names_of(made, TableBlock)


def test_anonymous_raters_of_a_run_share_one_matrix() -> None:
    found = make_estimated([0.3, 0.1, -0.1], anonymous=True)
    blocks = rater_section(found).blocks
    (only,) = [block for block in blocks if isinstance(block, FigureBlock)]
    (panel, _) = only.figure.axes  # and the colour bar
    cells = [float(text.get_text()) for text in panel.texts]
    assert cells == pytest.approx(found.matrices.mean(axis=0).ravel(), abs=0.006)
    text = section_words(found)
    assert "none of them is ranked" in text and not any(r in text for r in ("ann", "bob", "cy "))
    assert not any(isinstance(block, TableBlock) for block in blocks)


def test_rows_of_anonymous_raters_become_one() -> None:
    rows = [
        {"against": name, "class": "all", "dice": d, "dice_low": 0.0, "cases": 3}
        for name, d in (("reference", 0.9), ("reader0", 0.4), ("reader1", 0.6))
    ]
    first, second = raters_together(rows)
    assert first["dice"] == 0.9 and second["dice"] == pytest.approx(0.5)
    assert second["against"] == ALL_RATERS and "dice_low" not in second


def test_a_study_remembers_that_its_raters_are_anonymous(tmp_path: Path) -> None:
    for rater, case in itertools.product("01", "ab"):
        folder = tmp_path / f"mask-{rater}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(draw_square(4, 9).astype(np.uint8)).save(folder / f"{case}.png")
    pattern = str(tmp_path / "mask-{rater}/{case}.png")
    assert not raters.read(pattern).anonymous
    study = raters.read(pattern, anonymous=True)
    assert study.anonymous and study.select(cases=["a"]).anonymous
    (tmp_path / "run").mkdir()
    remember_study(tmp_path / "run", {"source": pattern, "anonymous": True})
    assert remembered_study(tmp_path / "run").anonymous


def test_small_numbers_are_shown_without_powers_of_ten() -> None:
    shown = [shown_value(value) for value in (0.00142, 6.2e-12, -7.7e-05, 0.0, 0.49, 1.5e7)]
    assert shown == ["0.0014", "<0.0001", ">-0.0001", "0.000", "0.490", "15,000,000"]


@pytest.mark.parametrize("method", ["single-cm", "global-cm"])
def test_a_run_on_anonymous_raters_names_nobody(tmp_path: Path, method: str) -> None:
    names = ("reader0", "reader1", "reader2")
    model = make_model(method, raters=names, values=(0, 1))
    model.save(tmp_path)
    rng = np.random.default_rng(0)
    study = Study.from_arrays(
        images=rng.normal(size=(3, 1, 8, 8)),
        labels=rng.integers(0, 2, (3, 3, 8, 8)),
        raters=names,
        classes={c.value: c.name for c in model.config.classes},
        about={"raters": "anonymous"},
    )
    made = make_report(tmp_path, study, cases_shown=1)
    assert_nobody_is_named(made)
    assert [row["against"] for row in table_named(made, "summary").rows] == [ALL_RATERS]
    titles = [axes.get_title() for axes in figure(made, "confusion").axes]
    assert titles == [ALL_RATERS, ""]


def test_workers_are_judged_by_the_reference_where_there_is_one() -> None:
    """The others may be wrong together: who is right against them is not in trouble."""
    truth = np.arange(60) % 2
    labels = np.stack([1 - truth, 1 - truth, 1 - truth, truth, np.roll(truth, 1)], axis=1)
    labels[::2, :3] = truth[::2, None]  # three who are wrong together on half of the tasks
    who = ["a", "b", "c", "right", "wrong"]
    blind = troubled(raters.agree(Study.from_arrays(labels=labels, raters=who)).raters)
    assert (blind["known"], blind["low"][0]["rater"]) == (False, "right")  # nobody can know better
    study = Study.from_arrays(labels=labels, raters=who, reference=truth)
    rows = accuracies(study, truth)
    assert [row["accuracy"] for row in rows] == [0.5, 0.5, 0.5, 1.0, 0.0]
    assert {row["checked"] for row in rows} == {60}
    actions = [plain(action) for action in first_screen_of(make_report(study)).actions]
    assert "wrong understood the task: 0 % of 60 labels of wrong equal the reference" in actions[1]
    assert "right" not in actions[1]


def test_only_tasks_with_a_reference_count_for_it(tmp_path: Path) -> None:
    truth = np.arange(60) % 3
    labels = np.stack([truth, truth, truth, (truth + 1) % 3], axis=1)
    known = np.where(np.arange(60) < 24, truth, -1)
    who = ["a", "b", "c", "wrong"]
    study = Study.from_arrays(labels=labels, raters=who, reference=known)
    action = plain(first_screen_of(fuse_and_report(study, tmp_path)).actions[1])
    assert "Check what wrong understood: 0 % of 24 labels equal the reference" in action


def test_few_labels_put_nobody_into_trouble() -> None:
    """Of forty raters with ten labels and one skill, the lowest is low by chance."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(50):
        shares = rng.binomial(10, 0.8, 40) / 10
        rows = [{"rater": k, "agreement_rest": a, "compared": 10} for k, a in enumerate(shares)]
        named += bool(troubled(rows)["low"])
    assert named <= 5
    rows[0] = {"rater": 0, "agreement_rest": 0.3, "compared": 100}
    assert [row["rater"] for row in troubled(rows)["low"]] == [0]


def test_pooled_fusions_leave_raters_out_by_their_own_matrices(tmp_path: Path) -> None:
    """A vote of the others says nothing of a consensus that follows one rater."""
    study = simulate(phantom_study("lesions", 4, (48, 48)), "good,over:3,under:3,blank", seed=0)
    made = fuse_and_report(study, tmp_path, "staple", pool=True)
    consensus = raters.fuse(study, "staple", pool=True)
    state = consensus[0].confusion, consensus[0].prior
    for row in table_named(made, "without-each-rater").rows:
        scores = []
        for case in study:
            labels = np.array(case.labels)
            whole = slow_posterior(labels, *state).argmax(axis=0)
            labels[study.raters.index(row["rater"])] = -1
            without = slow_posterior(labels, *state).argmax(axis=0)
            scores.append(f1_score(whole.ravel(), without.ravel()))
        assert row["dice"] == pytest.approx(np.mean(scores), abs=1e-6)
    reference = [f1_score(c.reference.ravel(), consensus.labels[c.id].ravel()) for c in study]
    (number,) = [n for n in first_screen_of(made).numbers if n.name == "Dice with the reference"]
    assert number.value == pytest.approx(np.mean(reference))
    votes = [(np.array(case.labels) == 1).mean(axis=0) > 0.5 for case in study]
    truth = [case.reference.ravel() for case in study]
    voted = np.mean([f1_score(t, v.ravel()) for t, v in zip(truth, votes, strict=True)])
    beside = first_screen_of(made).numbers[1]
    assert beside.name == "the vote's Dice with it"
    assert beside.value == pytest.approx(voted)
    assert voted < np.mean(reference) - 0.1
    said = f"has Dice {np.mean(reference):.2f}; a vote of the same labels has {voted:.2f}"
    assert said in plain(" ".join(b.text for b in made.sections[0].blocks))


def slow_posterior(labels: np.ndarray, confusion: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return p(t | labels) by the formula, rater by rater."""
    found = np.log(prior)[:, None, None] * np.ones(labels.shape[1:])
    for rater, own in enumerate(labels):
        seen = np.log(np.maximum(confusion[rater], 1e-300))[:, np.maximum(own, 0)]
        found = found + np.where(own >= 0, seen, 0.0)
    return found
