"""The first screen of a benchmark's page: what may be called best, and the words around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from raters.learning.methods.registry import METHODS
from raters.views.texts.say import plain
from raters_bench.bench_page import bench_page, first_screen
from raters_bench.cells import cells_of
from raters_bench.results import Collected, collect, largest_scale
from raters_bench.say import say
from raters_bench.spec import read_spec
from raters_bench.table import rendered
from tests.raters_bench.makers import make_spec, write_result, write_results
from tests.support.browser import visit

RESULTS = Path(__file__).parents[2] / "docs" / "results"
METHOD = {"vote": "vote", "oracle": "oracle-cm", "truth": "truth"}
SEEDS = "No row with fewer seeds than the baseline is called best"


def make_results(
    folder: Path, values: Mapping[str, Mapping[str, list[float]]], **more: Any
) -> Collected:
    """Return results by row, setting and seed; rows whose name is no method are of global-cm."""
    settings = {setting: {} for row in values.values() for setting in row}
    rows = {row: {"method": METHOD.get(row, "global-cm")} for row in values}
    spec = make_spec(
        folder,
        rows=rows,
        settings=settings,
        scores=["accuracy"],
        scales={"smoke": {"seeds": [0]}, "laptop": {"seeds": list(range(5))}},
        **more,
    )
    found = {(s, row): {"accuracy": v} for row, by in values.items() for s, v in by.items()}
    write_results(spec, folder / "results", found)
    return collect(spec, "laptop", folder / "results")


def read_results(name: str) -> Collected:
    """Return the results of a benchmark that the documentation shows."""
    spec = read_spec(name)
    return collect(spec, largest_scale(spec, RESULTS), RESULTS)


def advice_of(found: Collected) -> list[str]:
    """Return what the first screen advises."""
    return [plain(action) for action in first_screen(found).actions]


def test_what_needs_references_is_never_proposed(tmp_path: Path) -> None:
    values = {"vote": [0.7, 0.71], "own": [0.8, 0.81], "oracle": [0.9, 0.9], "truth": [0.95, 0.95]}
    found = make_results(tmp_path, {row: {"": v} for row, v in values.items()})
    assert {METHODS[METHOD[row]].needs for row in ("oracle", "truth")} == {"references"}
    first = first_screen(found)
    assert first.numbers[0].about.startswith("own;") and advice_of(found)[0].startswith(
        "own is best"
    )
    assert first.matrix is not None
    assert list(first.matrix.rows) == ["truth", "oracle", "own", "vote"]  # they are shown


def test_a_lucky_seed_is_not_best(tmp_path: Path) -> None:
    values = {"vote": [0.7, 0.72, 0.71], "own": [0.8, 0.82, 0.81], "lucky": [0.9]}
    found = make_results(tmp_path, {row: {"": v} for row, v in values.items()})
    first = first_screen(found)
    assert first.numbers[0].value == "81.0 ± 1.0" and first.numbers[0].about.startswith(
        "own; +10.0"
    )
    assert first.matrix is not None and SEEDS in first.matrix.about
    shown = dict(zip(first.matrix.rows, first.matrix.notes, strict=True))
    assert shown == {"lucky": "1 seed", "own": "3 seeds", "vote": "3 seeds"}
    assert "<td>1 seed</td>" in bench_page(found, "title")


def test_if_only_the_baseline_has_several_seeds_one_ranks_nothing(tmp_path: Path) -> None:
    found = make_results(tmp_path, {"vote": {"": [0.7, 0.72, 0.71]}, "own": {"": [0.9]}})
    best = advice_of(found)[0]
    assert best.startswith("own is best by accuracy: 90.0 (+20.0 to vote)")
    assert best.endswith("One seed ranks nothing: run more before you choose.")
    assert "Use it" not in best


def test_equal_numbers_of_seeds_are_not_noted(tmp_path: Path) -> None:
    matrix = first_screen(
        make_results(tmp_path, {"vote": {"": [0.7, 0.8]}, "a": {"": [0.8, 0.9]}})
    ).matrix
    assert matrix is not None and not matrix.notes and not matrix.about


def test_rows_that_are_level_are_named(tmp_path: Path) -> None:
    """One by its interval, one within half a point; the vote is behind by both."""
    values = {
        "vote": [0.7, 0.7, 0.7, 0.7, 0.7],
        "best": [0.8, 0.8, 0.8, 0.8, 0.8],
        "near": [0.796, 0.796, 0.796, 0.796, 0.796],
        "shaky": [0.9, 0.7, 0.8, 0.75, 0.75],
        "behind": [0.79, 0.79, 0.79, 0.79, 0.79],
    }
    best = advice_of(make_results(tmp_path, {row: {"": v} for row, v in values.items()}))[0]
    assert "but not clearly ahead of near and shaky. Take the simplest of them." in best
    assert "Use it" not in best


def test_few_settings_are_named_one_by_one(tmp_path: Path) -> None:
    values = {
        "vote": {"biased": [0.7, 0.7, 0.7], "alike": [0.95, 0.95, 0.95]},
        "own": {"biased": [0.8, 0.8, 0.8], "alike": [0.9, 0.9, 0.9]},
    }
    found = make_results(tmp_path, values)
    names = [number.name for number in first_screen(found).numbers]
    assert names[:2] == ["best accuracy, biased", "best accuracy, alike"]
    best = advice_of(found)[0]
    assert "own is best by accuracy in biased: 80.0" in best
    assert "vote is best in alike: 95.0" in best


def test_of_many_settings_the_headline_counts(tmp_path: Path) -> None:
    places = ["a", "b", "c", "d"]
    values = {
        "vote": {place: [0.7, 0.7, 0.7] for place in places},
        "own": {place: [0.6 if place == "d" else 0.8] * 3 for place in places},
    }
    found = make_results(tmp_path, values)
    number = first_screen(found).numbers[0]
    assert (number.name, number.value) == ("most often best by accuracy", "3 of 4 settings")
    assert number.about == "own; vote in 1; clearly ahead of all others in 4"
    assert "of 4 settings the best is own in 3 and vote in 1" in advice_of(found)[0]


def test_the_finding_and_what_was_compared_are_on_the_page(tmp_path: Path) -> None:
    quote = "<!-- bench tiny; {}; vote; accuracy; mean -->0<!-- /bench -->"
    finding = f"**Own** is level ({quote.format('all')}; [why](why.md)), see `x` ([more](more.md))."
    values = {"vote": {"all": [0.7, 0.7]}, "own": {"all": [0.8, 0.8]}}
    page = bench_page(
        make_results(tmp_path, values, finding=finding, about="Drawn < true."), "title"
    )
    assert "<p>Own is level (70.0), see x.</p>" in page and "<p>Drawn &lt; true.</p>" in page
    assert (
        page.index("What was found")
        < page.index("What was compared")
        < page.index("seeds</button>")
    )
    absent = finding.replace("vote", "own2")  # such a row has no result
    page = bench_page(make_results(tmp_path, values, finding=absent), "title")
    assert "What was found" not in page


def test_drawn_data_find_nothing(tmp_path: Path) -> None:
    found = make_results(tmp_path, {"vote": {"all": [0.7]}}, finding="All is well.")
    for cell in cells_of(found.spec, "smoke"):
        write_result(cell, tmp_path / "results", {"accuracy": 0.5})
    small = collect(found.spec, "smoke", tmp_path / "results")
    assert "All is well." in bench_page(found, "title")
    assert "All is well." not in bench_page(small, "title")
    assert rendered(small, "md").startswith("## Clouds of points: tiny, smoke (drawn data and")


def test_titles_have_no_doubled_brackets() -> None:
    assert rendered(read_results("labelme"), "md").startswith(
        "## Scenes by crowd workers (LabelMe): labelme, laptop\n"
    )


@pytest.mark.parametrize(
    ("left", "words"),
    [(1, "Run the cell that is missing"), (3, "Run the 3 cells that are missing")],
)
def test_missing_cells(left: int, words: str) -> None:
    assert plain(say("bench_next", name="tiny", left=left)).startswith(words)


def test_without_claims_something_can_be_done() -> None:
    done = plain(say("bench_claims", claims=[], comparable=True))
    assert "claim" not in done and "raters bench run --study STUDY" in done
    claims = [{"claim": f"claim {k}\n", "answer": "no"} for k in range(3)]
    refuted = plain(say("bench_claims", claims=claims, comparable=True))
    assert refuted == "Do not rely on what does not hold here: claim 0; claim 1; and 1 more."


@pytest.mark.parametrize("name", ["labelme", "chase-db1", "gleason2019", "discs", "lidc"])
def test_kept_results_name_no_row_of_few_seeds_or_of_the_truth(name: str) -> None:
    found = read_results(name)
    for number in first_screen(found).numbers[:-1]:
        row = max((r for r in found.spec.rows if number.about.startswith(r)), key=len)
        setting = next(s for s in found.settings if s == number.name.partition(", ")[2] or not s)
        base = found.summary(setting, found.spec.baseline, found.spec.scores[0])
        own = found.summary(setting, row, found.spec.scores[0])
        assert base is not None and own is not None and own.n >= base.n > 1
        assert METHODS[str(found.spec.rows[row].method)].needs != "references"
        assert "one seed" not in number.about
    assert "What was found" in bench_page(found, "title")


def test_the_four_rows_that_the_finding_calls_level_are_called_so() -> None:
    best = advice_of(read_results("labelme"))[0]
    named = (
        "pixel-cm is best .* not clearly ahead of Weighted Doctor Net, AggNet and generalized EM"
    )
    assert re.match(named, best)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", ["discs", "gleason2019", "global-cm-figure-5"])
def test_the_first_screen_is_seen_without_scrolling(name: str, tmp_path: Path) -> None:
    ends = "document.querySelector('.actions').getBoundingClientRect().bottom"
    page = rendered(read_results(name), "html")
    assert visit(page, f"answer.end = {ends};", tmp_path, 1400).answer["end"] <= 900
