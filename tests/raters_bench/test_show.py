"""What people see of benchmarks: statistics by hand, claims, tables, plots, pages and quotes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from raters import RatersError
from raters.io.rows import to_csv
from raters.views.report.blocks import Report
from raters.views.report.page import render
from raters.views.texts.say import plain
from raters_bench import pages, plot
from raters_bench import spec as specs
from raters_bench.bench_page import bench_page, first_screen, to_html
from raters_bench.cells import cells_of
from raters_bench.claims import answer_check, answer_claim, parse_check, refuse_checks
from raters_bench.results import (
    Collected,
    collect,
    curves,
    largest_scale,
    long_rows,
    paired,
    rank_correlation,
    rank_correlations,
    rough_seconds,
    summary,
)
from raters_bench.spec import Specification, builtin, read_spec
from raters_bench.table import blocks, claim_rows, flat_rows, to_markdown_page
from tests.raters_bench.makers import make_spec, write_result, write_results
from tests.support.command_line import Run

DICE: dict[str, Any] = {
    "scores": ["dice", "error"],
    "settings": {"all": {}, "one label": {"note": "a note"}},
    "rows": {
        "vote": {"method": "vote", "published": {"all": {"dice": 62.89}}},
        "mean": {"method": "mean", "published": {"all": {"dice": 60}}},
        "pixel-cm, paper's form": {"method": "pixel-cm", "published": {"all": {"dice": 82.92}}},
        "telepathy": {"method": "telepathy", "published": {"all": {"dice": 99}}},
        "AGNet": {"published": {"all": {"dice": 70.5}}, "note": "no code"},
        "separate": {"method": "separate", "settings": ["one label"]},
    },
    "claims": [
        {
            "says": "ahead of the vote",
            "check": ["dice: pixel-cm, paper's form @ all > vote @ all", "dice: vote @ all > 50"],
        },
        {"says": "the mean is ahead", "check": ["dice: mean @ all > vote @ all"]},
        {"says": "not to be answered"},
    ],
    "scales": {"smoke": {"seeds": [0]}, "laptop": {"seeds": [0, 1, 2]}},
}
OURS = "pixel-cm, paper's form @ all"
VOTE = [0.70, 0.72, 0.71]
MEAN = [0.60, 0.61, 0.62]
PIXEL = [0.80, 0.83, 0.81]
SCORES = {
    ("all", "vote"): {"dice": VOTE, "dice_best": [0.9, 0.9, 0.9], "error": [0.1, 0.1, 0.1]},
    ("all", "mean"): {"dice": MEAN},
    ("all", "pixel-cm, paper's form"): {"dice": PIXEL, "dice_best": [0.91, 0.92, 0.9]},
    ("one label", "vote"): {"dice": [0.5]},
}


@pytest.fixture
def spec(tmp_path: Path) -> Specification:
    return make_spec(tmp_path, "dice", **DICE)


@pytest.fixture
def results(spec: Specification, tmp_path: Path) -> Collected:
    write_results(spec, tmp_path / "results", SCORES)
    return collect(spec, "laptop", tmp_path / "results")


class TestStatistics:
    """Against scipy, numpy and formulas by hand."""

    @pytest.mark.parametrize("n", [2, 3, 7])
    def test_means_and_paired_intervals(self, n: int) -> None:
        random = np.random.default_rng(n)
        a = random.normal(70, 5, n)
        b = random.normal(60, 5, n)
        one = summary(a.tolist())
        assert one is not None
        assert (one.mean, one.sd, one.n) == pytest.approx((a.mean(), a.std(ddof=1), n))
        seeds = random.permutation(n).tolist()
        ours = {seed: a[seed] for seed in seeds} | {100: 0.0}
        theirs = {seed: b[seed] for seed in range(n)} | {101: 0.0}
        got = paired(ours, theirs)
        assert got is not None
        expected = stats.ttest_rel(a, b).confidence_interval(0.95)
        ends = (float((a - b).mean()), expected.low, expected.high)
        assert (got.mean, got.low, got.high) == pytest.approx(ends)
        assert got.n == n

    def test_one_seed_and_none(self) -> None:
        assert summary([]) is None
        assert paired({0: 1.0}, {1: 1.0}) is None
        got = paired({0: 3.0, 1: 9.0}, {0: 1.0})
        assert got is not None
        assert (got.mean, got.low, got.high, got.n) == (2.0, None, None, 1)

    def test_rank_correlation(self) -> None:
        ours = dict(zip("abcdef", [3.0, 1.0, 2.0, 6.0, 5.0, 4.0], strict=True))
        published = dict(zip("fedcbaz", range(7), strict=True))
        ranks = [(published[name], ours[name] - 1) for name in ours]
        by_hand = 1 - 6 * sum((p - q) ** 2 for p, q in ranks) / (6 * 35)
        assert rank_correlation(published, ours) == pytest.approx(by_hand)
        tied = {"a": 1.0, "b": 1.0, "c": 2.0}
        expected = stats.spearmanr([1, 2, 3], [1, 1, 2]).statistic
        assert rank_correlation({"a": 1, "b": 2, "c": 3}, tied) == pytest.approx(expected)
        assert rank_correlation({"a": 1, "b": 2}, {"a": 5, "b": 5}) is None
        assert rank_correlation({"a": 1}, {"a": 5}) is None


class TestCollecting:
    """Values, and why there are none."""

    def test_values_are_in_shown_units(self, results: Collected) -> None:
        assert results.by_seed("all", "vote", "dice") == pytest.approx({0: 70.0, 1: 72.0, 2: 71.0})
        assert results.by_seed("all", "vote", "error") == pytest.approx({0: 0.1, 1: 0.1, 2: 0.1})
        assert len(long_rows(results)) == 3 * 6 + 1
        assert (results.num_done, results.num_wanted, results.seconds) == (10, 21, 25.0)
        assert results.versions == {"raters": ["1.0"], "torch": ["2.0"]}

    def test_what_has_no_result_says_why(
        self, spec: Specification, results: Collected, tmp_path: Path
    ) -> None:
        assert results.why == {
            ("all", "telepathy"): "not in raters yet",
            ("all", "AGNet"): "published only",
            ("one label", "mean"): "not run yet",
            ("one label", "pixel-cm, paper's form"): "not run yet",
            ("one label", "telepathy"): "not in raters yet",
            ("one label", "AGNet"): "published only",
            ("one label", "separate"): "not run yet",
        }
        smaller = spec.scale("laptop").model_copy(update={"rows": ("vote",)})
        less = spec.model_copy(update={"scales": {"laptop": smaller}})
        assert collect(less, "laptop", tmp_path).why["all", "mean"] == "not at this scale"

    def test_files_that_cannot_be_used_are_named(
        self, spec: Specification, results: Collected, tmp_path: Path
    ) -> None:
        cells = [cell for cell in cells_of(spec, "laptop") if cell.setting == "all"]
        edited = next(c for c in cells if c.row == "vote" and c.seed == 1).path(
            tmp_path / "results"
        )
        edited.write_text(edited.read_text().replace("0.72", "0.92"))
        other = next(c for c in cells if c.row == "mean" and c.seed == 0).path(tmp_path / "results")
        content = json.loads(other.read_text())
        other.write_text(json.dumps({**content, "format": "raters-bench-cell 0"}))
        again = collect(spec, "laptop", tmp_path / "results")
        assert sorted(again.problems)[0].startswith(f"{other}: found the format")
        assert sorted(again.problems)[1].startswith(f"{edited}: found other content")
        assert again.by_seed("all", "vote", "dice") == pytest.approx({0: 70.0, 2: 71.0})
        assert again.why["all", "vote"] == "edited"
        assert again.why["all", "mean"] == "other version"
        assert results.num_done - again.num_done == 2

    def test_the_largest_scale_with_results(self, spec: Specification, tmp_path: Path) -> None:
        with pytest.raises(RatersError, match=r"found no results of dice .* bench run dice"):
            largest_scale(spec, tmp_path)
        for scale in ("smoke", "laptop"):
            write_result(cells_of(spec, scale)[0], tmp_path, {"dice": 0.5})
            assert largest_scale(spec, tmp_path) == scale

    def test_rough_time(self, spec: Specification, results: Collected, tmp_path: Path) -> None:
        cells = cells_of(spec, "laptop")
        left = results.num_wanted - results.num_done
        assert rough_seconds(cells, tmp_path / "results") == pytest.approx(2.5 * left)
        assert rough_seconds(cells, tmp_path / "nothing") is None

    def test_rank_correlations(self, results: Collected) -> None:
        ranks = rank_correlations(results)
        assert [(one.setting, one.score, one.rho, one.rows) for one in ranks] == [
            ("all", "dice", pytest.approx(1.0), 3)
        ]


class TestClaims:
    """Yes, no and unclear, by known differences."""

    @pytest.mark.parametrize(
        ("check", "answer"),
        [
            ("dice: pixel-cm, paper's form @ all > vote @ all", "yes"),
            ("dice: vote @ all < pixel-cm, paper's form @ all", "yes"),
            ("dice: pixel-cm, paper's form @ all < vote @ all", "no"),
            ("dice: mean @ all > vote @ all", "no"),
            ("dice_best: pixel-cm, paper's form @ all > vote @ all", "unclear"),
            ("dice_best: pixel-cm, paper's form @ all ~ vote @ all within 4", "yes"),
            ("dice_best: pixel-cm, paper's form @ all ~ vote @ all within 2", "unclear"),
            ("dice: pixel-cm, paper's form @ all ~ vote @ all within 2", "no"),
            ("dice_best: pixel-cm, paper's form @ all > vote @ all within 4", "yes"),
            ("dice_best: vote @ all < pixel-cm, paper's form @ all within 4", "yes"),
            ("dice: mean @ all > vote @ all within 0.1", "no"),
            ("dice: vote @ all > mean @ all by 5", "yes"),  # 10, 11, 9: from 7.5 to 12.5
            ("dice: vote @ all > mean @ all by 9", "unclear"),
            ("dice: vote @ all > mean @ all by 15", "no"),
            ("dice: mean @ all < vote @ all by 5", "yes"),
            (f"dice: {OURS} minus vote @ all > mean @ all minus vote @ all", "yes"),
            (f"dice: {OURS} minus vote @ all > vote @ all minus mean @ all", "unclear"),
            (f"dice: vote @ all minus {OURS} > vote @ all minus mean @ all", "no"),
            ("dice: vote @ all minus AGNet @ all > 1", "not run"),
            (f"dice: {OURS} > vote @ all in dice", "yes"),
            (f"dice: {OURS} > {OURS} in dice_best", "no"),
            (f"dice_best: {OURS} ~ {OURS} in dice within 15", "yes"),
            ("dice: mean @ all > mean @ all in dice_best", "not run"),
            ("dice: vote @ all > 50", "yes"),
            ("dice: vote @ all < 50", "no"),
            ("dice: vote @ all ~ 71 within 5", "yes"),
            ("dice: vote @ one label > 40", "unclear"),
            ("dice: vote @ one label < vote @ all", "unclear"),
            ("dice: AGNet @ all > vote @ all", "not run"),
            ("dice: mean @ one label > vote @ one label", "not run"),
            ("error: mean @ all > vote @ all", "not run"),
        ],
    )
    def test_answers(self, results: Collected, check: str, answer: str) -> None:
        assert answer_check(parse_check(check, results.spec), results).answer == answer

    def test_numbers_are_said(self, results: Collected) -> None:
        def verdict_of(check: str) -> str:
            return str(answer_check(parse_check(check, results.spec), results))

        one = "one seed: unclear by rule"
        assert verdict_of("dice: vote @ one label < vote @ all") == f"unclear (-20.0, {one})"
        ends = stats.ttest_rel(PIXEL, VOTE).confidence_interval(0.95)
        words = f"yes (+10.3 [{100 * ends.low:+.1f}, {100 * ends.high:+.1f}])"
        assert verdict_of("dice: pixel-cm, paper's form @ all > vote @ all") == words
        assert verdict_of("dice: AGNet @ all > 5") == "not run (AGNet: published only)"
        single = results.spec.rows["mean"].model_copy(update={"seeds": 1})
        results.spec.rows["mean"] = single
        absent = "not run (mean: not run yet"
        assert verdict_of("dice: mean @ one label > vote @ all") == f"{absent}; {one})"

    def test_several_checks(self, results: Collected) -> None:
        claims = results.spec.claims
        answers = [answer_claim(claim, results).answer for claim in claims]
        assert answers == ["yes", "no", "not checked"]
        yes = "dice: vote @ all > 50"
        no = "dice: vote @ all < 50"
        unclear = "dice: vote @ one label > 40"
        absent = "dice: AGNet @ all > 50"
        for checks, answer in (
            ([yes, unclear], "unclear"),
            ([yes, absent], "unclear"),
            ([absent, absent], "not run"),
            ([unclear, no, yes], "no"),
            ([yes, yes], "yes"),
        ):
            claim = claims[0].model_copy(update={"check": tuple(checks)})
            assert answer_claim(claim, results).answer == answer

    def test_names_may_hold_signs(self, tmp_path: Path) -> None:
        rows = {"a > b": {"method": "vote"}, "it's ~ 5, or so": {"method": "mean"}, "7": {}}
        spec = make_spec(tmp_path, rows=rows, baseline="", settings={"skill < 0.5": {}})
        check = parse_check("accuracy: a > b < it's ~ 5, or so", spec)
        assert (check.left[0], check.sign, check.right) == (
            "a > b",
            "<",
            ("it's ~ 5, or so", "skill < 0.5"),
        )
        check = parse_check("accuracy: a > b @ skill < 0.5 > 7", spec)
        assert check.left == ("a > b", "skill < 0.5")
        assert check.right == ("7", "skill < 0.5")  # a row of this name comes first

    @pytest.mark.parametrize(
        ("check", "words"),
        [
            ("dise: vote @ all > mean @ all", "the score 'dise', expected .*did you mean 'dice'"),
            ("vote @ all > mean @ all", "found the score"),
            ("dice: vote @ all > men @ all", "the row 'men', .*did you mean 'mean'"),
            ("dice: vote @ al > mean @ all", "the setting 'al'"),
            ("dice: vote > mean", "'mean' without a setting"),
            ("dice: vote @ all = mean @ all", "found no sign"),
            ("dice: vote @ all ~ mean @ all", "no 'within M'"),
            ("dice: vote @ all ~ mean @ all within -1", "no 'within M'"),
            ("dice: vote @ all ~ mean @ all by 1", "found 'by M' with ~, expected 'within M'"),
            ("dice: vote @ all minus men @ all > 1", "the row 'men', .*did you mean 'mean'"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec: Specification, check: str, words: str) -> None:
        with pytest.raises(RatersError, match=words):
            parse_check(check, spec)

    @pytest.mark.parametrize("name", builtin())
    def test_checks_of_all_benchmarks_can_be_answered(self, name: str) -> None:
        refuse_checks(read_spec(name))


def test_drawn_data_answer_nothing(spec: Specification, run_raters: Run, tmp_path: Path) -> None:
    for cell in cells_of(spec, "smoke"):
        write_result(cell, tmp_path / "results", {"dice": 0.5 + len(cell.row) / 100})
    small = collect(spec, "smoke", tmp_path / "results")
    assert rank_correlations(small) == []
    assert claim_rows(small) == []
    words = ("bench", "table", tmp_path / "dice.yaml", "-o", tmp_path / "results")
    for told in (run_raters(*words), run_raters(*words, "--format", "md")):
        text = " ".join(told.out.split())
        assert text.count("ranks and claims are left out") == 1
        assert "ahead of the vote" not in text
        assert "rank correlation" not in text


EXPECTED = """\
### all

| row | Dice, at 0.5 | published | Dice, best cut | error of the matrices | seeds |
| --- | --- | --- | --- | --- | --- |
| vote | 71.0 ± 1.0 | 62.89 | 90.0 ± 0.0 | 0.100 ± 0.000 | 3 |
| mean | 61.0 ± 1.0 | 60 |  |  | 3 |
| pixel-cm, paper's form | 81.3 ± 1.5 | 82.92 | 91.0 ± 1.0 |  | 3 |
| telepathy | not in raters yet | 99 |  |  |  |
| AGNet | published only | 70.5 |  |  |  |

- AGNet: no code
- published and our order of 3 rows by Dice, at 0.5: rank correlation 1.00

### all: minus vote

| row | Dice, at 0.5 | Dice, best cut |
| --- | --- | --- |
| mean | -10.0 [-12.5, -7.5] |  |
| pixel-cm, paper's form | +10.3 [+8.9, +11.8] | +1.0 [-1.5, +3.5] |

- in brackets: 95 % intervals, Student's t over seeds, paired

### one label

| row | Dice, at 0.5 | seeds |
| --- | --- | --- |
| vote | 50.0 | 1 of 3 |
| mean | not run yet |  |
| pixel-cm, paper's form | not run yet |  |
| telepathy | not in raters yet |  |
| AGNet | published only |  |
| separate | not run yet |  |

- a note
- AGNet: no code
"""


class TestTables:
    """The same numbers in every form."""

    def test_markdown(self, results: Collected) -> None:
        assert to_markdown_page(blocks(results)) == EXPECTED

    def test_csv_and_json_have_the_numbers(
        self, results: Collected, run_raters: Run, tmp_path: Path
    ) -> None:
        rows = list(csv.DictReader(io.StringIO(to_csv(flat_rows(results)))))
        by = {(row["setting"], row["row"], row["score"]): row for row in rows}
        assert len(by) == 11 * 4
        pixel = by["all", "pixel-cm, paper's form", "dice"]
        assert float(pixel["mean"]) == pytest.approx(100 * np.mean(PIXEL))
        assert float(pixel["sd"]) == pytest.approx(100 * np.std(PIXEL, ddof=1))
        assert float(pixel["difference"]) == pytest.approx(100 * np.mean(np.subtract(PIXEL, VOTE)))
        assert (pixel["seeds"], pixel["published"], pixel["why"]) == ("3", "82.92", "")
        assert by["one label", "mean", "dice"]["why"] == "not run yet"
        where = ("-o", tmp_path / "results")
        told = run_raters("bench", "table", tmp_path / "dice.yaml", *where, "--format", "json")
        assert told.code == 0
        content = json.loads(told.out)
        assert content["cells"] == {"done": 10, "all": 21}
        assert [claim["answer"] for claim in content["claims"]] == ["yes", "no", "not checked"]
        assert content["values"] == json.loads(json.dumps(long_rows(results)))

    def test_settings_without_anything_are_listed(
        self, spec: Specification, tmp_path: Path
    ) -> None:
        made = blocks(collect(spec, "laptop", tmp_path))
        assert [block.title for block in made] == ["all", "no results yet"]
        assert made[1].lines == [["one label"]]

    def test_html_shows_names_as_they_are(self, tmp_path: Path) -> None:
        rows = {"<b>vote": {"method": "vote"}}
        spec = make_spec(tmp_path, rows=rows, baseline="", title="a & b")
        page = to_html(spec.title, blocks(collect(spec, "laptop", tmp_path)))
        assert "<td>&lt;b&gt;vote</td><td>not run yet</td>" in page
        assert "<title>a &amp; b</title>" in page
        assert "<b>" not in page

    def test_the_first_screen_has_the_best_row_and_what_to_do(self, results: Collected) -> None:
        first = first_screen(results)
        score = results.spec.scores[0]
        known = {}
        for setting in results.settings:
            for row in results.rows_of(setting):
                summary = results.summary(setting, row, score)
                if summary is not None:
                    known[row] = summary.mean
        assert max(known, key=lambda row: known[row]) in first.numbers[0].about
        assert len(first.actions) == 3 and all(first.actions)
        assert first.matrix is not None
        shown: list[float] = []
        for values in first.matrix.values:
            shown += [value for value in values if value is not None]
        assert max(shown) == pytest.approx(max(known.values()))
        assert "What to do" in bench_page(results, "title")

    def test_what_was_trained_on_the_truth_is_not_proposed(self, results: Collected) -> None:
        best = first_screen(results).numbers[0].about.partition(";")[0].partition(", all")[0]
        results.spec.rows[best] = results.spec.rows[best].model_copy(update={"method": "truth"})
        first = first_screen(results)
        assert best not in first.numbers[0].about and best not in first.actions[0]
        assert first.matrix is not None and best in first.matrix.rows  # it is shown all the same

    def test_one_unnamed_setting_with_many_rows_that_tie(self, tmp_path: Path) -> None:
        names = ["vote", *(f"method{k}" for k in range(12))]
        rows = {name: {"method": "vote"} for name in names}
        spec = make_spec(tmp_path, "ties", scores=["dice"], rows=rows, settings={"": {}})
        low = {"vote": 60.0, "method4": 73.3}
        found = Collected(spec, "laptop")
        for k, row in enumerate(names):
            found.values["", row, "dice"] = {0: low.get(row, 70.0 + 0.1 * k)}
            found.values["", row, "dice_best"] = {0: 74.0 + k}
        found.values["", "method2", "dice"] = {0: 73.0, 1: 73.48}  # the mean is 73.24
        first = first_screen(found)
        best = plain(first.actions[0])
        about = first.numbers[0].about
        matrix = first.matrix
        start = "method4 is best by Dice at 0.5: 73.3 (+13.3 to vote), but not clearly ahead of"
        assert best.startswith(
            f"{start} method2. At the best cut method11 has the highest Dice (86.0)."
        )
        assert "Use it" not in best
        assert "one seed" in about and "Dice, best cut: 79.0" in about and about.isprintable()
        assert matrix is not None and list(matrix.rows)[:2] == ["method4", "method2"]
        assert len(matrix.rows) == 9 and matrix.rows[-1] == "vote"
        assert matrix.about.startswith("9 of 13 rows")
        assert all(matrix.columns) and matrix.values[0][:2] == [73.3, 79.0]
        page = render(Report("ties", first=first))
        assert ">73.3</td>" in page and ">73.30</td>" not in page

    def test_on_a_terminal_scores_get_tables_that_fit(self, results: Collected) -> None:
        narrow = blocks(results, 70)
        assert [block.title for block in narrow].count("all") == 2  # Dice, and the error
        assert "Dice, best cut" in narrow[0].header  # cuts stay together
        assert [block.title for block in blocks(results, 200)].count("all") == 1

    def test_formats_by_the_name_of_the_file(
        self, results: Collected, run_raters: Run, tmp_path: Path
    ) -> None:
        words = ("bench", "table", tmp_path / "dice.yaml", "-o", tmp_path / "results")
        assert run_raters(*words).out.count("minus vote") == 1
        for name in ("t.md", "t.csv", "t.html", "t.json"):
            assert run_raters(*words, "--out", tmp_path / name).code == 0
        assert EXPECTED in (tmp_path / "t.md").read_text()
        assert (tmp_path / "t.csv").read_text() == to_csv(flat_rows(results))
        for more, said in (
            (("--format", "pdf"), "--format: found 'pdf', expected md, csv, html, json"),
            (("--out", tmp_path / "t.doc"), "--out: found 'doc'"),
            (("--scale", "huge"), "found the scale 'huge'"),
            (("--scale", "smoke"), "found no results of dice"),
        ):
            outcome = run_raters(*words, *more)
            assert outcome.code == 2
            assert said in outcome.err


class TestPlots:
    """What is drawn is what was collected."""

    def test_dots_are_the_values(self, results: Collected) -> None:
        figure = plot.figure(results)
        dice = figure.axes[0]
        drawn = sorted(x for dots in dice.collections for x, _ in dots.get_offsets().tolist())
        values: list[float] = []
        for (setting, _, score), by_seed in results.values.items():
            if setting == "all" and score != "error":
                values += by_seed.values()
        assert drawn == pytest.approx(sorted(values))
        hollow = [line for line in dice.lines if line.get_marker() == "D"]
        assert sorted(line.get_xdata()[0] for line in hollow) == [60, 62.89, 70.5, 82.92, 99]
        assert [text.get_text() for text in dice.texts] == ["not in raters yet", "published only"]

    def test_curves_over_an_axis(self, tmp_path: Path) -> None:
        settings = {f"skill {s}{more}": {} for more in ("", ", few") for s in (0.8, 0.3)}
        spec = make_spec(tmp_path, settings=settings, axis="skill", scores=["accuracy"])
        values = {
            (name, "vote"): {"accuracy": [k / 10, k / 10 + 0.1]} for k, name in enumerate(settings)
        }
        write_results(spec, tmp_path, values)
        found = collect(spec, "laptop", tmp_path)
        assert curves(found) == {
            "skill": {0.3: "skill 0.3", 0.8: "skill 0.8"},
            "skill, few": {0.3: "skill 0.3, few", 0.8: "skill 0.8, few"},
        }
        made = {block.title: block for block in blocks(found)}
        assert list(made) == ["skill: accuracy", "skill, few: accuracy"]  # no row but the baseline
        few = made["skill, few: accuracy"]
        assert few.header == ["row", "0.3", "0.8"]
        assert few.lines[0] == ["vote", "35.0 ± 7.1", "25.0 ± 7.1"]
        assert few.lines[1][1:] == ["not run yet"] * 2
        figure = plot.figure(found)
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        assert legend[0] == "vote"
        assert legend[-1] == "global-cm, paper's form: not run yet"
        lines = [axes.lines[0].get_xydata().tolist() for axes in figure.axes]
        assert lines[0] == [[0.3, pytest.approx(15.0)], [0.8, pytest.approx(5.0)]]
        assert lines[1] == [[0.3, pytest.approx(35.0)], [0.8, pytest.approx(25.0)]]

    def test_a_picture_says_of_which_results_it_is(
        self, spec: Specification, results: Collected, run_raters: Run, tmp_path: Path
    ) -> None:
        path = tmp_path / "dice.png"
        words = ("bench", "plot", tmp_path / "dice.yaml", "-o", tmp_path / "results", "--out")
        assert run_raters(*words, path).code == 0
        assert plot.digest_of_plot(path) == plot.drawn_digest(results)
        write_result(cells_of(spec, "laptop")[0], tmp_path / "results", {"dice": 0.71})
        assert plot.digest_of_plot(path) != plot.drawn_digest(
            collect(spec, "laptop", tmp_path / "results")
        )
        assert plot.digest_of_plot(tmp_path / "absent.png") is None
        refused = run_raters(*words, tmp_path / "dice.gif")
        assert refused.code == 2
        assert "found the ending '.gif'" in refused.err


class TestPages:
    """Made from results alone, and the same each time."""

    @pytest.fixture
    def only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Let the benchmark of the tests be the only one that comes along."""
        known = {"dice": tmp_path / "dice.yaml"}
        monkeypatch.setattr(specs, "builtin", lambda: known)
        monkeypatch.setattr(pages, "builtin", lambda: known)
        return tmp_path / "results"

    def test_the_same_results_give_the_same_pages(self, only: Path, spec: Specification) -> None:
        assert list(pages.pages(pages.reader(only))) == ["index.md"]
        assert (
            "| Clouds of points |  |  | not run yet |  | 3 to answer |"
            in pages.pages(pages.reader(only))["index.md"]
        )
        write_results(spec, only, SCORES)
        before = pages.pages(pages.reader(only))
        for path in only.rglob("*.json"):  # the order of files in a folder is nobody's
            text = path.read_text()
            path.unlink()
            path.write_text(text)
        assert pages.pages(pages.reader(only)) == before
        page = before["dice.md"]
        assert EXPECTED.strip() in page
        assert "raters bench run dice --scale laptop -o results\n" in page
        assert "| ahead of the vote | yes | dice: pixel-cm, paper's form @ all &gt; vote" in page
        assert (
            "[Clouds of points](dice.md) |  | laptop | 10 of 21 | all: 1.00"
            " | 1 yes, 1 no, 1 not checked |" in before["index.md"]
        )

    def test_a_finding_quotes_results(self, only: Path, tmp_path: Path) -> None:
        finding = "At 0.5\n<!-- bench dice; all; vote; dice; mean -->1<!-- /bench -->\npercent."
        write_results(make_spec(tmp_path, "dice", **DICE, finding=finding), only, SCORES)
        said = "At 0.5 <!-- bench dice; all; vote; dice; mean -->71.0<!-- /bench --> percent."
        assert said in pages.pages(pages.reader(only))["dice.md"]

    @pytest.mark.slow
    def test_figure_3_comes_before_figure_11(self) -> None:
        names = [name for name in pages.shown_benchmarks() if "global-cm-figure" in name]
        assert names.index("global-cm-figure-3") < names.index("global-cm-figure-11")
        assert "global-cm-digits" not in pages.shown_benchmarks()  # it only lends its cells

    def test_edited_results_have_no_page(self, only: Path, spec: Specification) -> None:
        write_results(spec, only, SCORES)
        path = next((only / "dice/laptop/all").glob("vote-0.json"))
        path.write_text(path.read_text().replace("0.7", "0.9"))
        with pytest.raises(RatersError, match=f"{path}: found other content"):
            pages.pages(pages.reader(only))

    def test_quotes(self, only: Path, spec: Specification) -> None:
        write_results(spec, only, SCORES)
        stale = (
            "Dice: <!-- bench dice; all; vote; dice -->99 <b><!-- /bench -->, at best "
            "<!-- bench dice; all; vote; dice_best; mean --><!-- /bench -->; more: "
            "<!-- bench dice; all; mean; dice; difference -->?<!-- /bench --> of "
            "<!-- bench dice; all; mean; dice; seeds -->?<!-- /bench --> seeds\n"
            "<!-- bench-table dice; one label -->\nold\n<!-- /bench-table -->\n"
        )
        fresh = pages.quoted(stale, pages.reader(only))
        assert "vote; dice -->71.0 ± 1.0<!-- /bench -->, at best" in fresh
        assert "mean -->90.0<!-- /bench -->" in fresh
        assert (
            "-->-10.0 [-12.5, -7.5]<!-- /bench --> of <!-- bench dice; all; mean; dice; seeds -->3<"
            in fresh
        )
        assert "| vote | 50.0 | 1 of 3 |\n" in fresh
        assert "old" not in fresh
        assert pages.quoted(fresh, pages.reader(only)) == fresh
        assert pages.quoted("<!-- bench NAME; x -->an example<!-- /bench -->", pages.reader(only))

    @pytest.mark.parametrize(
        ("quote", "words"),
        [
            ("bench dise; all; vote; dice", "the benchmark 'dise'"),
            ("bench dice; al; vote; dice", "the setting 'al'"),
            ("bench dice; all; vot; dice", "the row 'vot'"),
            ("bench dice; all; vote; dise", "the score 'dise'"),
            ("bench dice; all; vote", "too few or too many names"),
            ("bench dice; all; AGNet; dice", "no result .published only"),
            ("bench dice; all; mean; error", "no result .no such score"),
            ("bench-table dice; al", "the setting 'al'"),
        ],
    )
    def test_wrong_quotes(self, only: Path, spec: Specification, quote: str, words: str) -> None:
        write_results(spec, only, SCORES)
        text = f"<!-- {quote} --><!-- /{quote.split()[0]} -->"
        with pytest.raises(RatersError, match=words):
            pages.quoted(text, pages.reader(only))


def test_claims_as_rows(results: Collected) -> None:
    first = claim_rows(results)[0]
    assert [check["answer"] for check in first["checks"]] == ["yes", "yes"]
    assert first["claim"] == "ahead of the vote"
