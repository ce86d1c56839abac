"""Every specification that comes along: names, options, smoke cells, published values, claims."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raters.comparison.cell import Cell, refuse_options, why_empty
from raters.comparison.scores import columns
from raters.core.errors import RatersError
from raters_bench.cells import cells_of
from raters_bench.claims import refuse_checks
from raters_bench.data import make_data, source_of
from raters_bench.spec import SCALES, Selection, Specification, View, builtin, read_spec, slug

NAMES = sorted(builtin())
ASKED_FOR = {
    *(f"pixel-cm-{what}" for what in ("ms", "rebuttal", "figure-3", "figure-4")),
    *(f"pixel-cm-table-{k}" for k in range(1, 7)),
    *(f"global-cm-figure-{k}" for k in (3, 4, 5, 6, 7, 9, 10, 11)),
    *("global-cm-table-1", "lidc", "chase-db1", "gleason2019", "labelme", "music-genre"),
    "noisy-mnist",
    *(f"coarse-{what}" for what in ("table-1", "table-2", "table-3", "figure-3", "figure-4")),
    *("coarse-les-av", "coarse-scenes", "discs", "prism-table-3", "prism-table-4"),
}
PAPERS = ("pixel-cm", "global-cm", "coarse", "prism")


@cache
def read_once(name: str) -> Specification:
    """Read a specification once for all tests."""
    return read_spec(name)


@cache
def cells(name: str, scale: str) -> list[Cell]:
    """List its cells once for all tests."""
    return cells_of(read_once(name), scale)


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> Specification:
    return read_once(str(request.param))


def test_all_tables_and_figures_are_there() -> None:
    assert set(NAMES) >= ASKED_FOR


def test_methods_are_known(spec: Specification) -> None:
    for name, row in spec.rows.items():
        # `diag` is in tables of data without diagnoses too, which say that it is not for them.
        assert not why_empty(row.method) or row.method in (None, "diag"), name


def test_options_are_accepted_at_every_scale(spec: Specification) -> None:
    for scale in spec.scales:
        # Settings and seeds change nothing in the options of a row.
        refuse_options(list({cell.row: cell for cell in cells(spec.name, scale)}.values()))


@pytest.mark.slow
def test_teams_have_raters_who_are_there(spec: Specification) -> None:
    drawn = cells(spec.name, "smoke")[0].data
    ways = {cell.setting: cell.raters for cell in cells(spec.name, "paper")}
    for how in ways.values():
        if isinstance(how.get("assign"), dict):  # of teams; an unknown one is an error
            assert make_data(drawn, how, 0, {}).study.raters


def test_files_of_results_are_different(spec: Specification) -> None:
    assert len({slug(name) for name in spec.rows}) == len(spec.rows)
    assert len({slug(name) for name in spec.settings}) == len(spec.settings)


def test_smoke_is_small_and_needs_no_data(spec: Specification) -> None:
    found = cells(spec.name, "smoke")
    assert 2 <= len(found) <= 10
    for cell in found:
        assert not source_of(cell.data).needs(cell.data)


def test_scales_run_something(spec: Specification) -> None:
    assert {"smoke", "paper"} <= set(spec.scales) <= set(SCALES)
    for scale in spec.scales:
        assert cells(spec.name, scale)


def test_published_values_are_shown(spec: Specification) -> None:
    shown = {*columns(spec.scores), *(columns(read_once(spec.cells).scores) if spec.cells else ())}
    for row in spec.rows.values():
        for values in row.published.values():
            assert values and set(values) <= shown


def test_what_repeats_a_paper_says_so(spec: Specification) -> None:
    is_paper = spec.name.startswith(PAPERS)
    assert bool(spec.paper) == is_paper
    has_cells_only = spec.name in {read_once(name).cells for name in NAMES}
    assert bool(spec.claims) == (is_paper and not has_cells_only)
    assert spec.about and spec.chosen


def test_claims_name_rows_and_settings_that_are_there(spec: Specification) -> None:
    refuse_checks(spec)
    assert all(claim.says.strip() for claim in spec.claims)


def test_a_view_has_the_cells_of_the_whole(spec: Specification) -> None:
    """Nothing is trained twice: cells of a view are cells of the benchmark behind it."""
    if not spec.cells:
        return
    for scale in set(spec.scales) - {"smoke"}:
        every = {_key(cell) for cell in cells(spec.cells, scale)}
        assert {_key(cell) for cell in cells(spec.name, scale)} <= every


def _key(cell: Cell) -> str:
    return f"{cell.benchmark} {cell.scale} {cell.name} {cell.asked()}"


def test_every_paper_setting_of_the_skills_says_whether_dominance_holds() -> None:
    spec = read_once("global-cm-digits")
    flippers = {name: s.raters for name, s in spec.settings.items() if name.startswith("flippers")}
    assert {name for name, raters in flippers.items() if not raters["dominance"]} == {
        "flippers 0.25",
        "flippers 0.25, one label",
    }


@pytest.mark.parametrize(
    ("name", "setting", "row", "values"),
    [
        ("pixel-cm-table-1", "usual raters", "STAPLE", {"dice": 78.03, "error": 0.1241}),
        ("coarse-table-1", "positive and negative", "coarse, paper's form", {"miou": 82.5}),
        ("coarse-table-3", "masks and drawings", "coarse, paper's form", {"miou": 88.7}),
        ("pixel-cm-table-2", "usual raters, one label", "vote", {"dice": 32.79}),
        ("pixel-cm-table-4", "BraTS", "oracle", {"dice": 67.13, "error": 0.0843}),
        ("pixel-cm-table-5", "LIDC-IDRI, one label", "vote", {"dice": 48.36}),
        ("pixel-cm-rebuttal", "usual raters", "global-cm", {"dice": 79.21, "error": 0.1132}),
        (
            "global-cm-table-1",
            "one label",
            "generalized EM",
            {"accuracy": 53.38, "frobenius": 4.47},
        ),
    ],
)
def test_published_values(name: str, setting: str, row: str, values: dict[str, float]) -> None:
    assert read_once(name).rows[row].published[setting] == values


def test_differences_of_the_rebuttal_add_up() -> None:
    """The answer to the reviewers prints each distance from pixel-cm beside the value."""
    printed = {
        ("pixel-cm-digits", "usual raters"): (-3.71, 0.0239),
        ("pixel-cm-digits", "usual raters, one label"): (-17.47, 0.0624),
        ("pixel-cm-ms", "five labels"): (-5.97, 0.0638),
        ("pixel-cm-ms", "one label"): (-16.11, 0.0432),
        ("pixel-cm-slices", "BraTS"): (-6.14, 0.0488),
        ("pixel-cm-slices", "BraTS, one label"): (-4.45, 0.0843),
        ("pixel-cm-slices", "LIDC-IDRI"): (-3.18, 0.0935),
        ("pixel-cm-slices", "LIDC-IDRI, one label"): (-4.87, 0.0795),
    }
    for (name, setting), (dice, error) in printed.items():
        rows = read_once(name).rows
        ours = "pixel-cm, shared, paper's form" if "LIDC" in setting else "pixel-cm, paper's form"
        theirs = rows["global-cm"].published[setting]
        own = rows[ours].published[setting]
        assert theirs["dice"] - own["dice"] == pytest.approx(dice, abs=1e-9)
        assert theirs["error"] - own["error"] == pytest.approx(error, abs=1e-9)


# Views.

WHOLE = Specification(
    name="whole",
    title="all",
    data={"source": "drawn-masks"},
    scores=("dice",),
    settings={"all": {}, "one": {"raters": {"assign": "one"}}},
    rows={
        "vote": {"method": "vote", "published": {"all": {"dice": 1.0}, "one": {"dice": 2.0}}},
        "mean": {"method": "mean", "settings": ("all",)},
    },
    scales={"smoke": {"seeds": (0,)}, "laptop": {"settings": ("all",)}, "paper": {}},
)


def test_a_view_selects_rows_settings_and_published_values() -> None:
    view = View(cells="whole", title="one label", scores=("dice",), settings=("one",))
    found = view.of(WHOLE, "view")
    assert (found.name, found.cells, found.title) == ("view", "whole", "one label")
    assert list(found.settings) == ["one"]
    assert found.rows["vote"].published == {"one": {"dice": 2.0}}
    (cell,) = cells_of(found, "smoke")
    assert (cell.benchmark, cell.row, cell.setting) == ("whole", "vote", "one")
    assert cell.raters == {"assign": "one"}


def test_a_view_has_no_scale_at_which_nothing_of_it_is_run() -> None:
    view = View(cells="whole", title="one label", scores=("dice",), settings=("one",))
    assert set(view.of(WHOLE, "view").scales) == {"smoke", "paper"}


def test_a_view_may_run_less_at_a_scale() -> None:
    view = View(
        cells="whole",
        title="t",
        scores=("dice",),
        scales={"smoke": Selection(rows=("mean",), settings=("all",))},
    )
    assert [cell.row for cell in cells_of(view.of(WHOLE, "view"), "smoke")] == ["mean"]


@pytest.mark.parametrize("part", ["rows", "settings", "baseline"])
def test_a_view_of_what_is_not_there_is_rejected(part: str) -> None:
    wrong = "median" if part == "baseline" else ("median",)
    view = View.model_validate({"cells": "whole", "title": "t", "scores": ("dice",), part: wrong})
    with pytest.raises(RatersError, match="median"):
        view.of(WHOLE, "view")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rows": {"vote": {}, "a, b": {}, "A b": {}}}, "rows 'a, b' and 'A b'"),
        ({"settings": {"one": {}, "One!": {}}}, "settings 'one' and 'One!'"),
        ({"scales": {"smoke": {"seeds": [0, 1, 0]}}}, "seeds .* of smoke, expected each once"),
        ({"rows": {"vote": {"published": {"": {"dicee": 1.0}}}}}, "score 'dicee'"),
        ({"rows": {"vote": {"note": {"all": "a note"}}}}, "setting 'all'"),
        ({"data": {"images": 3}}, "found data without a source"),
    ],
)
def test_what_would_share_a_result_or_never_be_shown_is_refused(
    change: dict[str, Any], expected: str
) -> None:
    plain = {
        "title": "t",
        "data": {"source": "drawn-masks"},
        "scores": ["dice"],
        "rows": {"vote": {"method": "vote"}},
        "scales": {"smoke": {"seeds": [0]}},
    }
    Specification.model_validate(plain)
    with pytest.raises(RatersError, match=expected):
        Specification.model_validate({**plain, **change})


@pytest.mark.parametrize(
    "lines",
    ["data: {source: drawn-masks}\nrows: {vote: {}}\nscales: {}\n", "cells: pixel-cm-digits\n"],
)
def test_a_wrong_score_is_named_with_its_file_and_nothing_else(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"title: t\nscores: [dise]\n{lines}")
    with pytest.raises(RatersError) as caught:
        read_spec(path)
    known = "expected a known one; did you mean 'dice'?"
    assert str(caught.value) == f"{path}: found the score 'dise', {known}"


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: t\ndata: {source: a}\nscores: [dice]\ndata: {source: b}\n")
    with pytest.raises(RatersError, match=r"found the key 'data' twice, expected it once.*line 4"):
        read_spec(path)


def test_notes_of_one_setting_stay_there() -> None:
    rows = {"vote": {"method": "vote", "note": {"one": "its own vote"}}, "mean": {"note": "soft"}}
    whole = Specification.model_validate({**WHOLE.model_dump(), "rows": rows})
    for settings, notes in {("one",): {"one": "its own vote"}, ("all",): {}}.items():
        view = View(cells="whole", title="t", scores=("dice",), settings=settings)
        found = view.of(whole, "view").rows
        assert found["vote"].note == notes
        assert found["vote"].note_in(settings[0]) == notes.get(settings[0], "")
        assert found["mean"].note_in(settings[0]) == "soft"


@pytest.mark.parametrize("name", builtin())
def test_notes_on_one_label_stand_where_there_is_one(name: str) -> None:
    spec = read_once(name)
    for setting in spec.settings:
        said = " ".join(row.note_in(setting) for row in spec.rows.values())
        assert "one label" not in said or "one label" in setting


def test_unknown_options_of_raters_are_named() -> None:
    with pytest.raises(RatersError, match="options of the raters that do not fit"):
        make_data({"source": "drawn-masks", "images": 4}, {"rater": "good"}, 0, {})
