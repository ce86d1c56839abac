"""What a browser makes of reports: links to cases that are not there, tables, widths, print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup

import raters
from raters import Study
from raters.views import plots, report
from tests.support.browser import visit
from tests.support.reports import draw_growing_squares

pytestmark = pytest.mark.browser

PRINTED = """
document.documentElement.style.scrollBehavior = "auto";
const printed = () => [...document.styleSheets].forEach((sheet) => [...sheet.cssRules].forEach((rule) => {
  if (rule.media && rule.media.mediaText === "print") rule.media.mediaText = "all"; }));
"""  # noqa: E501


def render_blocks(*blocks: report.Block, sections: int = 1) -> str:
    section = report.Section("A section with a title", "About it.", blocks)
    return report.render(report.Report("r", {}, [section] * sections))


# The viewer --------------------------------------------------------------------------------------
def tissue() -> Study:
    """Return a picture as pink as stained tissue, a column of each of five classes."""
    rng = np.random.default_rng(0)
    pink = np.array([214, 150, 196])[:, None, None] + rng.integers(-30, 30, (1, 8, 60))
    labels = np.repeat(np.arange(6), 10)[None, None, None] * np.ones((1, 2, 8, 1), int)
    names = ["benign", "1", "3", "4", "5", "6"]
    return Study.from_arrays([pink.astype(np.uint8)], labels, raters=["ann", "bob"], classes=names)


@pytest.mark.slow
def test_areas_over_a_coloured_picture_have_the_colours_of_the_legend(tmp_path: Path) -> None:
    study = tissue()
    case = report.viewer_case(study[0], study.raters, study.classes.names)
    block = report.ViewerBlock("cases", [case], "", report.rater_layers(study.raters))
    script = """
    const figure = document.querySelector(".viewer"), find = (s) => figure.querySelector(s);
    await until(() => figure.dataset.painted);
    const settle = async (act) => {
      const before = figure.dataset.painted;
      act();
      await until(() => figure.dataset.painted !== before);
    };
    const set = (selector, value) => settle(() => {
      Object.assign(find(selector), { value }).dispatchEvent(new Event("change")); });
    const copy = document.createElement("canvas"), canvas = find("canvas");
    const seen = () => {
      [copy.width, copy.height] = [canvas.width, canvas.height];
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      return [0, 1, 2, 3, 4, 5].map((k) => [...context.getImageData(
        Math.floor((k + 0.45) * copy.width / 6), copy.height / 2, 1, 1).data.slice(0, 3)]);
    };
    const said = () => find(".greyed").checkVisibility();
    await settle(() => figure.querySelectorAll(".layers input")[1].click());
    answer.outlines = seen(); answer.saidOutlines = said();
    await set(".mode select", "fill"); await set(".colour select", "class");
    answer.areas = seen(); answer.saidAreas = said();
    await settle(() => figure.querySelectorAll(".layers input")[0].click());
    answer.none = seen();
    """
    found = visit(render_blocks(block), script, tmp_path)
    got = {name: np.array(found.answer[name], float) for name in ("outlines", "areas", "none")}
    assert found.console == []
    assert (found.answer["saidOutlines"], found.answer["saidAreas"]) == (False, True)
    for name in ("outlines", "none"):
        assert (got[name][:, 0] > got[name][:, 1] + 40).all()  # pink as it is
    assert np.ptp(got["areas"][0]) < 3  # grey
    names = study.classes.names[1:]
    legend = np.array([rgb(colour) for colour in plots.rater_colours(names).values()])
    apart = np.linalg.norm(got["areas"][1:, None] - legend[None], axis=-1)
    assert apart.argmin(axis=1).tolist() == [0, 1, 2, 3, 4]


def rgb(colour: str) -> list[int]:
    return [int(colour[k : k + 2], 16) for k in (1, 3, 5)]


def many_cases(number: int) -> Study:
    """Draw cases of raters and names that are numbers."""
    return draw_growing_squares([f"case {k}" for k in range(number)], ["1", "2"])


ASK = """
document.documentElement.style.scrollBehavior = "auto";
const figure = document.querySelector(".viewer"), said = figure.querySelector(".missing");
const ask = async (name) => {
  location.hash = "#case=" + encodeURIComponent(name);
  await wait(300);
  return said.checkVisibility() ? said.innerText : "";
};
"""


@pytest.mark.slow
def test_a_case_that_is_not_in_the_file_is_said(tmp_path: Path) -> None:
    page = raters.report(many_cases(30), tmp_path, cases_shown=4).read_text("utf-8")
    (index,) = re.findall(r'class="index">(.*?)</script>', page, re.S)
    held = {case["id"] for case in json.loads(index)["cases"]}
    name = next(f"case {k}" for k in range(30) if f"case {k}" not in held)
    script = (
        ASK
        + """
    answer.said = await ask(%s);
    answer.top = Math.abs(figure.getBoundingClientRect().top) < 100;
    answer.row = document.querySelector(".picked a").textContent;
    answer.nowhere = await ask("<b>NOPE");
    answer.held = await ask(%s);
    answer.shown = figure.querySelector("h3").textContent;
    """
    )
    here = sorted(held)[-1]
    found = visit(page, script % (json.dumps(name), json.dumps(here)), tmp_path)
    advice = "is not in this file; raters report --all-cases writes all cases beside it."
    assert found.answer == {
        "said": f"{name} {advice}",
        "top": True,
        "row": name,
        "nowhere": f"<b>NOPE {advice}",
        "held": "",
        "shown": here,
    }
    assert found.console == []


@pytest.mark.slow
def test_pages_of_all_cases_say_it_too(tmp_path: Path) -> None:
    path = raters.report(many_cases(9), tmp_path, cases_shown=4, all_cases=True)
    (further,) = (tmp_path / "cases").iterdir()
    script = ASK + 'answer.said = await ask("NOPE");'
    for page, said in (
        (path, "NOPE is not in this file."),
        (further, "NOPE is not on this page; the report opens all cases."),
    ):
        assert visit(page.read_text("utf-8"), script, tmp_path).answer["said"] == said


def test_a_viewer_that_is_not_painted_is_not_printed(tmp_path: Path) -> None:
    study = many_cases(1)
    case = report.viewer_case(study[0], study.raters, study.classes.names)
    page = render_blocks(report.ViewerBlock("cases", [case], "A caption."))
    script = (
        PRINTED
        + """
    const figure = document.querySelector(".viewer"), caption = figure.querySelector("figcaption");
    await until(() => figure.dataset.painted);
    printed();
    answer.painted = [caption.checkVisibility(), figure.querySelector("canvas").checkVisibility()];
    delete figure.dataset.painted;
    answer.bare = caption.checkVisibility();
    """
    )
    assert visit(page, script, tmp_path).answer == {"painted": [True, True], "bare": False}


# Tables ------------------------------------------------------------------------------------------
def test_a_picked_row_gives_way_to_searches_and_is_counted(tmp_path: Path) -> None:
    rows = [{"rater": f"r{k}", "number": k} for k in range(300)]
    script = """
    const search = document.querySelector("input"), count = document.querySelector(".count");
    const seen = () => [document.querySelectorAll("tbody tr").length,
      document.querySelector("tbody td").textContent,
      document.querySelectorAll(".picked").length, count.textContent];
    const type = (text) => {
      Object.assign(search, { value: text }).dispatchEvent(new Event("input"));
      return seen();
    };
    type("r29");
    location.hash = "#rater=r250";
    await wait(200);
    answer.picked = seen(); answer.search = search.value;
    answer.other = type("r29"); answer.same = type("r250"); answer.cleared = type("");
    """
    found = visit(render_blocks(report.TableBlock("t", rows)), script, tmp_path).answer
    assert found == {
        "picked": [200, "r250", 1, "first 200 of 300 rows"],
        "search": "",
        "other": [11, "r29", 0, "11 rows of 300"],
        "same": [1, "r250", 1, "1 row of 300"],
        "cleared": [200, "r0", 0, "first 200 of 300 rows"],
    }


def wide_table() -> report.TableBlock:
    heads = [f"soft Dice with the truth, times {k}" for k in range(12)]
    rows = [{"row": "trained on the truth"} | dict.fromkeys(heads, "64.9 ± 2.2") for _ in range(3)]
    return report.TableBlock("t", rows, "A caption.")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 2200])
def test_tables_take_the_width_of_the_page(width: int, tmp_path: Path) -> None:
    small = report.TableBlock("s", [{"a": 1, "b": 2}])
    script = """
    const wide = (selector) => Math.round(document.querySelector(selector).getBoundingClientRect().width);
    answer.table = wide("figure.wide .scroll"); answer.page = wide("main");
    answer.small = wide("figure:not(.wide) .scroll"); answer.text = wide("h2");
    answer.lefts = [...new Set([...document.querySelectorAll("header, footer, section > :not(.wide)")].map(
      (part) => part.getBoundingClientRect().left))];
    """  # noqa: E501
    notes = [report.TextBlock("A note.", kind) for kind in ("plain", "note", "warning")]
    got = visit(render_blocks(wide_table(), small, *notes), script, tmp_path, width).answer
    room = got["page"] - 80
    assert got["table"] == room
    assert len(got["lefts"]) == 1
    assert got["small"] == got["text"] == min(room, 69 * 16)


def test_wide_tables_fit_the_printed_page(tmp_path: Path) -> None:
    plain = report.TableBlock("s", [{f"a head of some words {k}": 0.123 for k in range(8)}])
    script = (
        PRINTED
        + """
    printed();
    document.body.style.width = "718px"; // A4 without margins, in pixels of CSS
    answer.wide = [...document.querySelectorAll(".scroll")].map((one) => one.scrollWidth);
    answer.broken = document.querySelector("tbody td").getBoundingClientRect().height;
    """
    )
    got = visit(render_blocks(wide_table(), plain), script, tmp_path).answer
    assert max(got["wide"]) <= 718
    assert got["broken"] < 80  # words are whole


# Texts -------------------------------------------------------------------------------------------
def test_commands_break_between_words_only(tmp_path: Path) -> None:
    command = "raters train STUDY -m pixel-cm --all-cases --epochs 3 &lt;b&gt;"
    page = render_blocks(
        report.TextBlock(Markup(f"Say <code>{command}</code>, or --batch-size (-m vote)."))
    )
    script = """
    const code = document.querySelector("code");
    answer.text = code.textContent;
    document.body.style.display = "block";
    code.parentElement.style.width = "6.5rem";
    const whole = [...document.querySelectorAll(".whole")];
    answer.lines = whole.map((part) => part.getClientRects().length);
    answer.parts = whole.map((part) => part.textContent);
    """
    got = visit(page, script, tmp_path).answer
    assert got["text"] == "raters train STUDY -m pixel-cm --all-cases --epochs 3 <b>"
    assert got["parts"] == [
        "raters",
        "train",
        "STUDY",
        "-m pixel-cm",
        "--all-cases",
        "--epochs",
        "3",
        "<b>",
        "--batch-size",
        "-m vote",
    ]
    assert set(got["lines"]) == {1}


def test_all_sections_are_seen_on_a_small_screen(tmp_path: Path) -> None:
    script = """
    const box = (selector) => document.querySelector(selector).getBoundingClientRect();
    const links = [...document.querySelectorAll("nav li a")].map((a) => a.getBoundingClientRect());
    answer.clear = links.every(({ right }) => right <= box(".theme").left);
    answer.inside = links.every(({ bottom }) => bottom <= box("nav").bottom);
    answer.fits = document.documentElement.scrollWidth <= window.innerWidth;
    """
    got = visit(render_blocks(sections=6), script, tmp_path, 500).answer
    assert got == {"clear": True, "inside": True, "fits": True}
