"""Figures: what can be checked without eyes, and that odd input neither warns nor breaks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from numpy.random import default_rng
from numpy.typing import NDArray

import raters
from raters import RatersError, Study, metrics
from raters.assessment.agreement_findings import relative_volumes
from raters.core.classes import MISSING
from raters.io.rows import Row
from raters.views import plots
from raters.views.plots.lines import hit_curve
from raters.views.plots.pairs import clustered
from raters.views.plots.pictures import border_path
from raters.views.plots.style import LOOKS, text_on
from tests.support.makers import ODD_NAMES, quick

ODD = [
    *ODD_NAMES,
    "<b>",
    "$x_1$",
    "$5",
    "_hidden",
    "\U0001f600",
    "\U0001f9ff",
    "x" * 80,
    "$" * 30,
    "",
]


def lay_out(figure: Figure) -> Figure:
    """Lay a figure out and shape all its texts, without painting: a test below saves them all."""
    figure.draw_without_rendering()
    return figure


def paint(figure: Figure) -> None:
    figure.savefig(BytesIO(), format="png", dpi=40)


def figure_texts(figure: Figure, axes: int = 0) -> list[str]:
    return [text.get_text() for text in figure.axes[axes].texts]


def hex_of(colours: Any) -> str:
    return str(to_hex(np.asarray(colours)[0]))


def matrices(raters_: int, classes: int) -> NDArray[np.float64]:
    return np.asarray(default_rng(0).dirichlet(np.ones(classes), (raters_, classes)))


def draw_disc_study(raters_: int = 3, names: list[str] | None = None) -> Study:
    """Discs of different radius by rater and case."""
    rows, columns = np.mgrid[:24, :24]
    far = np.hypot(rows - 12, columns - 12)
    labels = np.array(
        [
            [far < 4 + case + 0.4 * r for r in range(raters_)]
            for case in range(6 if raters_ < 20 else 1)
        ]
    )
    return Study.from_arrays(labels=labels.astype(int), raters=names)


def performance(names: list[str]) -> list[Row]:
    measures = {"sensitivity": 0.9, "sensitivity_se": 0.02, "specificity": 0.8}
    return [{"rater": n, "class": c, **measures} for n in names for c in ("no", "yes")]


def figures(names: list[str], theme: plots.Theme) -> dict[str, Callable[[], Figure]]:
    """Return every figure, with raters (and classes) of these names."""
    count = len(names)
    masks = (default_rng(0).random((count, 12, 12)) < 0.5).astype(int)
    given_study = draw_disc_study(count, names)
    curve: list[Row] = [{"epoch": 1, "loss": 1.0, names[0]: 2.0}, {"epoch": 2, "loss": None}]
    answers = Study.from_arrays(labels=default_rng(0).integers(0, 3, (9, count)), raters=names)
    counts = plots.signed_distance_counts(masks[0], masks)
    truth = matrices(count, 3) if count < 5 else None  # panels cost time
    return {
        "confusion": lambda: plots.confusion(matrices(count, 3), names[:3], names, truth, theme),
        "overlay": lambda: plots.overlay(masks[:1], masks, names, masks[0], theme=theme),
        "errors": lambda: plots.errors(masks[0], masks, names, theme=theme),
        "agreement": lambda: plots.agreement(raters.agree(given_study), theme=theme),
        "skills": lambda: plots.skills(performance(names), theme=theme),
        "scatter": lambda: plots.skill_scatter(
            matrices(count, 3), matrices(count, 3), names, theme
        ),
        "reliability": lambda: plots.reliability([0.9, 0.4], hits=[True, False], theme=theme),
        "curves": lambda: plots.curves(curve, 1, 2, theme=theme),
        "volumes": lambda: plots.volumes(given_study, theme=theme),
        "shares": lambda: plots.volumes(answers, theme=theme),
        "difficulty": lambda: plots.difficulty(raters.agree(given_study), theme=theme),
        "ranked": lambda: plots.difficulty(raters.agree(answers), theme=theme),
        "bias": lambda: plots.bias(counts, names, theme=theme),
    }


KINDS = list(figures(["a", "b", "c"], "light"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_odd_names_are_drawn_without_warnings(kind: str) -> None:
    """Warnings are errors here: of letters without a glyph, of formulas, of the layout."""
    for start in range(0, len(ODD), 15):
        names = [name for name in ODD[start : start + 15] if name] + ["last one"]
        lay_out(figures(names, "light")[kind]())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "theme"), list(zip(KINDS, cycle(LOOKS), strict=False)))
def test_every_figure_is_saved_with_a_transparent_background(
    kind: str, theme: Any, tmp_path: Path
) -> None:
    figure = figures(["ann", "bob", "cy"], theme)[kind]()
    assert type(figure) is Figure
    assert to_rgba(figure.get_facecolor())[3] == 0
    figure.savefig(tmp_path / "figure.png", dpi=50)
    figure.savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert "</svg>" in (tmp_path / "figure.svg").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_words_can_be_read_on_their_page(kind: str) -> None:
    for theme in ("light", "dark"):
        figure = lay_out(figures(["ann", "bob", "cy"], theme)[kind]())
        for axes in figure.axes:
            labels = [
                axes.title,
                axes.xaxis.label,
                *axes.get_xticklabels(),
                *axes.get_yticklabels(),
            ]
            for text in labels:
                colour = "#FFFFFF" if theme == "dark" else "#000000"
                wanted = text_on(to_hex(str(text.get_color())))
                assert wanted != colour or not text.get_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("overlay", "errors")])
def test_sixty_raters_are_drawn(kind: str) -> None:
    lay_out(figures([f"rater {k}" for k in range(60)], "dark")[kind]())


@pytest.mark.slow
def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys, numpy as np\nfrom raters.views import plots\n"
        "plots.overlay(None, np.eye(4, dtype=int)[None]).savefig('/dev/null', format='png')\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_line_starts_without_matplotlib() -> None:
    code = "import sys, raters, raters.cli\nsys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_rater_has_the_same_colour_everywhere() -> None:
    names = ["ann", "bob", "cy"]
    colours = plots.rater_colours(names)
    made = figures(names, "light")
    lines = [c for c in made["overlay"]().axes[0].collections if isinstance(c, LineCollection)]
    assert [hex_of(line.get_edgecolor()) for line in lines[:3]] == list(colours.values())
    assert [to_hex(line.get_color()) for line in made["bias"]().axes[0].lines[1:]] == list(
        colours.values()
    )
    strips = made["volumes"]().axes[0].collections
    assert [hex_of(strip.get_facecolor()) for strip in strips] == list(colours.values())


def test_lines_of_96_raters_differ() -> None:
    names = [str(k) for k in range(96)]
    colours = plots.rater_colours(names)
    lines = plots.rater_lines(names)
    assert len({(colours[n], str(lines[n])) for n in names}) == 96
    assert len({colours[n] for n in names[:24]}) == 24


def test_many_raters_differ_in_colour_and_few_keep_theirs() -> None:
    names = [str(k) for k in range(600)]
    colours = plots.rater_colours(names)
    assert len(set(colours.values())) == 600
    assert len(plots.rater_colours([*names, *map(str, range(600, 2000))])) == 2000
    for number in (1, 9, 24, 44):  # more raters change no colour
        assert list(plots.rater_colours(names[:number]).values()) == list(colours.values())[:number]
    assert colours["11"] == "#843a00"  # as it was when there were only 24
    shown = np.array([to_rgb(colours[name]) for name in names[:44]])
    apart = np.linalg.norm(shown[:, None] - shown, axis=-1) + 9 * np.eye(44)
    assert apart.min() > 0.1


@given(st.text(max_size=60))
@quick
def test_names_are_one_line_and_never_formulas(name: str) -> None:
    text = plots.shown(name)
    assert len(text.replace(r"\$", "$")) <= 24
    assert text.replace(r"\$", "").count("$") == 0
    assert text.isprintable()


def test_the_middle_of_long_names_is_cut() -> None:
    assert plots.shown("a" * 50 + "1") != plots.shown("a" * 50 + "2")


def test_cells_hold_the_numbers_in_colours_that_can_be_read() -> None:
    given_matrices = matrices(2, 4)
    given_matrices[1, 2] = np.nan
    figure = plots.confusion(given_matrices, list("abcd"), ["ann", "bob"])
    assert figure_texts(figure, 0) == [f"{v:.2f}" for v in given_matrices[0].ravel()]
    assert figure_texts(figure, 1) == [f"{v:.2f}" for v in given_matrices[1].ravel() if v == v]
    image = figure.axes[0].images[0]
    shades = image.cmap(image.norm(given_matrices[0].ravel()))
    assert [t.get_color() for t in figure.axes[0].texts] == [text_on(shade) for shade in shades]


def test_counts_are_written_whole_and_many_classes_without_numbers() -> None:
    assert figure_texts(plots.confusion([[1200, 3], [0, 40]])) == ["1,200", "3", "0", "40"]
    assert figure_texts(plots.confusion(matrices(1, 20))) == []
    assert len(figure_texts(plots.confusion(matrices(1, 20), numbers=True))) == 400


def test_true_matrices_stand_beside_the_estimated_ones() -> None:
    figure = plots.confusion(matrices(2, 2), raters=["ann", "bob"], truth=[np.eye(2)] * 2)
    titles = ["ann estimated", "ann true", "bob estimated", "bob true"]
    assert [axes.get_title() for axes in figure.axes[:4]] == titles
    assert figure_texts(figure, 3) == ["1.00", "0.00", "0.00", "1.00"]


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))
@quick
def test_outlines_enclose_exactly_the_pixels(rows: int, columns: int, seed: int) -> None:
    mask = default_rng(seed).random((rows, columns)) < 0.5
    lines = plots.border_lines(mask)
    area = sum(
        float((line[:-1, 0] * line[1:, 1] - line[1:, 0] * line[:-1, 1]).sum()) / 2 for line in lines
    )
    assert area == mask.sum()
    assert all((np.abs(np.diff(line, axis=0)) > 0).sum(axis=1).max() == 1 for line in lines)
    inside = np.zeros(mask.shape, int)
    for line in lines:  # holes count as minus one
        single = mask_of(line, mask.shape)
        turn = np.sign((line[:-1, 0] * line[1:, 1] - line[1:, 0] * line[:-1, 1]).sum())
        inside += single * int(turn)
    assert (inside == mask).all()
    assert len(border_path(mask)) == sum(map(len, lines))


def mask_of(line: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Fill a line by counting crossings to the left, pixel by pixel."""
    filled = np.zeros(shape, np.int64)
    for row, column in np.ndindex(*shape):
        for a, b in pairwise(line):
            if a[0] == b[0] and a[0] < column and min(a[1], b[1]) < row < max(a[1], b[1]):
                filled[row, column] ^= 1
    return filled


def test_pixels_that_touch_at_a_corner_have_their_own_lines() -> None:
    assert len(plots.border_lines(np.eye(3))) == 3


def test_missing_pixels_are_hatched_and_absent_raters_named() -> None:
    masks = np.zeros((3, 6, 6), int)
    masks[0, :2] = MISSING
    masks[1] = MISSING
    masks[2, 2:4, 2:4] = 1
    figure = plots.overlay(None, masks, ["ann", "bob", "cy"])
    assert [p.get_hatch() for p in figure.axes[0].patches] == ["///"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["ann", "bob (not labelled)", "cy"]


def test_volumes_show_the_slice_that_raters_differ_on() -> None:
    masks = np.zeros((2, 5, 6, 7), int)
    masks[:, 1:4, 1:4, 1:4] = 1
    masks[0, 0, 0, 5] = 1
    assert plots.overlay(None, masks).axes[0].get_title() == "slice 5"
    assert plots.overlay(None, masks, slice=2).axes[0].get_title() == "slice 2"
    with pytest.raises(RatersError, match="found slice 7, expected 0 to 6"):
        plots.overlay(None, masks, slice=7)


def test_a_slice_is_turned_with_its_outlines() -> None:
    image = default_rng(0).random((1, 5, 6, 7))
    masks = np.zeros((1, 5, 6, 7), int)
    masks[0, 4, 0, 3] = 1  # first axis to the right, second upwards: the lower right corner
    axes = plots.overlay(image, masks, slice=3).axes[0]
    assert np.asarray(axes.images[0].get_array()).shape == (6, 5)
    outline = axes.collections[0]
    assert isinstance(outline, LineCollection)
    (line,) = outline.get_segments()
    line = np.asarray(line)
    assert line.mean(axis=0).round().tolist() == [4, 5]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images_of_any_number_of_channels(channels: int) -> None:
    image = default_rng(0).integers(0, 255, (channels, 8, 9)).astype(np.uint8)
    axes = plots.overlay(image, np.eye(8, 9, dtype=int)[None]).axes[0]
    shape = (8, 9, 3) if channels == 3 else (8, 9)
    assert np.asarray(axes.images[0].get_array()).shape == shape


def test_a_panel_a_class_the_most_disputed_ones() -> None:
    masks = np.zeros((2, 40, 40), int)
    for k in range(1, 15):
        masks[0, k, :k] = masks[1, k, :1] = k
    figure = plots.overlay(None, masks, classes=[f"class {k}" for k in range(15)])
    assert [axes.get_title() for axes in figure.axes] == [f"class {k}" for k in range(7, 15)]


def test_errors_have_their_colours() -> None:
    truth = [[1, 1, 0, 0, 1]]
    mask = [[1, 0, 1, 0, MISSING]]
    found = [to_hex(colour) for colour in plots.error_colours(truth, mask)[0]]
    assert found == ["#ffffff", "#0072b2", "#e69f00", "#000000", "#808080"]
    image = plots.errors(truth, mask).axes[0].images[0].get_array()
    assert np.array_equal(np.asarray(image), plots.error_colours(truth, mask))


def test_agreement_holds_the_table_in_the_order_given() -> None:
    found = raters.agree(draw_disc_study(3, ["ann", "bob", "cy"]))
    by_pair = {(row["rater_a"], row["rater_b"]): f"{row['dice']:.2f}" for row in found.pairs}
    figure = plots.agreement(found, raters=["cy", "ann", "bob"])
    a = by_pair["ann", "cy"]
    b = by_pair["bob", "cy"]
    c = by_pair["ann", "bob"]
    assert figure_texts(figure) == [a, b, a, c, b, c]
    assert figure_texts(
        plots.agreement(found.frame("pairs"), ["cy", "ann", "bob"])
    ) == figure_texts(figure)
    with pytest.raises(RatersError, match="found no score 'hd95', expected one of: dice"):
        plots.agreement(found, score="hd95")


def test_clusters_stand_together() -> None:
    camp = default_rng(1).integers(0, 2, 12)
    similarity = np.where(camp[:, None] == camp, 0.9, 0.2)
    ordered = camp[clustered(similarity)]
    assert (np.diff(ordered) != 0).sum() == 1


def test_skills_are_sorted_and_bars_are_standard_errors() -> None:
    rows: list[Row] = [
        {"rater": "low", "class": "x", "sensitivity": 0.5, "sensitivity_se": 0.1},
        {"rater": "none", "class": "x", "sensitivity": None, "sensitivity_se": None},
        {"rater": "high", "class": "x", "sensitivity": 0.8, "sensitivity_se": None},
    ]
    axes = lay_out(plots.skills(rows, ["sensitivity"])).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["high", "low", "none"]
    bar = next(c for c in axes.collections if isinstance(c, LineCollection)).get_segments()[1]
    assert bar[:, 0] == pytest.approx([0.4, 0.6])


def test_skill_of_matrices_is_the_mean_diagonal() -> None:
    given_matrices = matrices(5, 4)
    expected = [np.mean([m[k][k] for k in range(4)]) for m in given_matrices]
    assert plots.matrix_skills(given_matrices) == pytest.approx(expected)


def test_reliability_bins_add_up_and_give_the_error() -> None:
    probabilities = default_rng(0).dirichlet(np.ones(3), 500).T
    labels = default_rng(1).integers(0, 3, 500)
    error = metrics.calibration_error(labels, probabilities, 10)
    figure = plots.reliability(probabilities, labels, bins=10)
    assert figure.axes[0].get_title() == f"ECE {error:.3f}"
    heights = [bar.get_height() for bar in figure.axes[1].patches]  # type: ignore[attr-defined]
    assert sum(heights) == 500
    hits = probabilities.argmax(axis=0) == labels
    curve = hit_curve(probabilities.max(axis=0), hits, 10)
    for mine, theirs in zip(
        curve, metrics.reliability_curve(labels, probabilities, 10), strict=True
    ):
        assert mine == pytest.approx(theirs, nan_ok=True)


def test_curves_have_gaps_and_mark_the_best_epoch() -> None:
    history: list[Row] = [{"epoch": k, "loss": 1 / k, "seconds": 1.0} for k in (1, 2, 3, 4)]
    history[2]["trace"] = 0.5
    figure = plots.curves(history, warm_up=2, best_epoch=3)
    assert [axes.get_title() for axes in figure.axes] == ["loss", "trace term"]
    line = figure.axes[1].lines[0].get_ydata()
    assert np.isnan(np.asarray(line)).tolist() == [True, True, False, True]
    assert figure_texts(figure, 0) == ["0.333", "warm-up"]
    assert figure.axes[0].patches[0].get_extents().width > 0


def test_volumes_are_those_of_agree() -> None:
    given_study = draw_disc_study(3)
    found = plots.case_volumes(given_study).mean(axis=0)
    assert found == pytest.approx([row["volume"] for row in raters.agree(given_study).raters])


@given(st.integers(0, 10**6))
@quick
def test_relative_volumes_against_a_loop(seed: int) -> None:
    values = default_rng(seed).integers(0, 4, (3, 4)).astype(float)
    values[default_rng(seed + 1).random((3, 4)) < 0.2] = np.nan
    found = relative_volumes(values)
    for case, rater in np.ndindex(3, 4):
        own = values[case, rater]
        known = [v for v in values[case] if v == v]
        expected = np.nan
        if own == own and len(known) > 1:
            base = sum(known) - own if len(known) == 2 else np.median(known)
            if own + base > 0:
                expected = (own - base) / (own + base)
        assert found[case, rater] == pytest.approx(expected, nan_ok=True)


def test_difficulty_takes_sizes_of_cases() -> None:
    given_study = draw_disc_study(3)
    found = raters.agree(given_study)
    sizes = {case: float(k) for k, case in enumerate(given_study.cases)}
    dots = np.asarray(plots.difficulty(found, sizes).axes[0].collections[0].get_offsets())
    expected = [(sizes[row["case"]], row["dice"]) for row in found.cases]
    assert dots == pytest.approx(np.array(expected))


@given(st.integers(0, 10**6), st.sampled_from([(1.0, 1.0), (0.7, 2.5)]))
@quick
def test_distance_counts_against_a_slow_loop(seed: int, spacing: tuple[float, float]) -> None:
    consensus = default_rng(seed).integers(-1, 2, (5, 6))
    labels = default_rng(seed + 1).integers(-1, 2, (2, 5, 6))
    edges = np.array([-4.0, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 4.0])
    seen, drawn_ = np.zeros((2, 2, 7), int)
    voxels = list(np.ndindex(5, 6))
    for voxel in voxels:
        mine = consensus[voxel]
        other = [v for v in voxels if consensus[v] == 1 - mine]
        if mine == MISSING or not other:
            continue
        away = min(float(np.hypot(*((np.subtract(v, voxel)) * spacing))) for v in other)
        signed = (away - min(spacing) / 2) * (-1 if mine == 1 else 1)
        for k in range(7):
            if edges[k] <= signed < edges[k + 1] or (k == 6 and signed == edges[7]):
                for rater in range(2):
                    seen[rater, k] += labels[(rater, *voxel)] != MISSING
                    drawn_[rater, k] += labels[(rater, *voxel)] == 1
    counts = plots.signed_distance_counts(consensus, labels, spacing, edges)
    assert np.array_equal(counts.seen, seen)
    assert np.array_equal(counts.drawn, drawn_)


def test_bias_of_a_study_adds_up_and_shows_who_draws_too_much() -> None:
    given_study = draw_disc_study(3)
    consensus = raters.fuse(given_study, "vote")
    counts = plots.distance_counts(consensus, bins=[-100, 0, 100])
    assert (counts.seen.sum(axis=1) == 6 * 24 * 24).all()
    outside = counts.shares[:, 1]
    assert outside[0] == 0 < outside[2]  # the first draws the smallest discs, the last the largest


EMPTY: dict[str, Callable[[], Figure]] = {
    "confusion": lambda: plots.confusion(np.zeros((0, 2, 2))),
    "overlay": lambda: plots.overlay(None, np.zeros((0, 4, 4), int)),
    "errors": lambda: plots.errors(np.zeros((0, 0), int), np.zeros((0, 0), int)),
    "agreement": lambda: plots.agreement([]),
    "skills": lambda: plots.skills([]),
    "scatter": lambda: plots.skill_scatter([], []),
    "reliability": lambda: plots.reliability([], hits=[]),
    "curves": lambda: plots.curves([]),
    "volumes": lambda: plots.volumes(Study.from_arrays(labels=np.zeros((0, 2, 3, 3), int))),
    "difficulty": lambda: plots.difficulty(raters.assessment.agree.Agreement("segmentation")),
    "bias": lambda: plots.bias(plots.signed_distance_counts([0, 0], [[0, 0]])),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_empty_input_says_what_was_expected(kind: str) -> None:
    with pytest.raises(RatersError, match=r"found .*expected"):
        EMPTY[kind]()


def test_nothing_but_gaps_is_drawn() -> None:
    paint(plots.confusion(np.full((2, 3, 3), np.nan)))
    paint(plots.skills([{"rater": "ann", "class": "x", "sensitivity": None}], ["sensitivity"]))
    paint(plots.overlay(np.full((1, 4, 4), np.nan), np.full((1, 4, 4), MISSING)))
    pair = {"rater_a": "ann", "rater_b": "bob", "dice": None}
    paint(plots.agreement([pair]))
    paint(plots.skill_scatter([np.nan, 0.5], [0.5, np.nan]))
