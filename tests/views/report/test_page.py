"""The page of the report: what is in its text, and what a browser makes of it."""

from __future__ import annotations

import csv
import json
import re
from base64 import b64decode
from collections.abc import Sequence
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from raters import RatersError, Study
from raters.core.classes import MISSING
from raters.views import plots, report
from raters.views.report.figures import LARGE, figure_svg, inline_svg
from raters.views.report.viewer import Picture
from tests.support.browser import Visit, visit
from tests.support.makers import ODD_NAMES, quick

EVIL = "<script>alert(1)</script>"
EVIL_CASE = '"><img src=x onerror=alert(1)>'
CLOSING = "</script></style></title><!--"


class Reader(HTMLParser):
    """Collect tags, attributes, and the contents of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.cdata_elem == "script":
            self.scripts[-1] += data


def decode_image(uri: str) -> Image.Image:
    kind, content = re.fullmatch(r"data:image/(webp|png);base64,(.+)", uri, re.DOTALL).groups()  # type: ignore[union-attr]
    image = Image.open(BytesIO(b64decode(content)))
    assert image.format == kind.upper()
    return image


def fill_outline(path: str, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Fill an outline by the even-odd rule, counting the vertical lines left of each pixel."""
    crossings = np.zeros((shape[0], shape[1] + 1), int)
    for part in re.findall(r"M([^Mz]*)z", path):
        first, *steps = re.findall(r"^\d+ \d+|[hv]-?\d+", part)
        x0, y0 = (int(n) for n in first.split())
        x = x0
        y = y0
        corners = []
        for step in steps:
            if step[0] == "h":
                x += int(step[1:])
            else:
                y += int(step[1:])
            corners.append((x, y))
        here = (x0, y0)
        for there in [*corners, (x0, y0)]:
            assert here[0] == there[0] or here[1] == there[1]
            if here[0] == there[0]:
                crossings[min(here[1], there[1]) : max(here[1], there[1]), here[0]] += 1
            here = there
    return np.asarray(crossings.cumsum(axis=1)[:, :-1] % 2, bool)


def draw_square_study(shape: tuple[int, ...], cases: int = 2) -> Study:
    """Return squares that raters draw differently, most so in slice 5; the image is the truth."""
    truth = np.zeros((cases, *shape), np.int16)
    truth[:, 4:9, 6:12] = 1
    labels = np.stack([truth, truth, truth], axis=1)
    labels[:, 1, 3:10, 6:12] = 1
    if len(shape) == 3:
        labels[:, 1, 2:14, 2:14, 5] = 1
    labels[:, 2, :2] = MISSING
    images = truth[:, np.newaxis].astype(np.float32)
    return Study.from_arrays(
        images,
        labels,
        truth,
        raters=["ann", EVIL, "bob"],
        classes=["background", CLOSING],
        cases=[EVIL_CASE, *(f"case{k}" for k in range(1, cases))],
    )


def views(study: Study, **options: Any) -> list[report.ViewerCase]:
    return [
        report.viewer_case(
            case, study.raters, study.classes.names, facts={"mean dice": 0.5 + k}, **options
        )
        for k, case in enumerate(study)
    ]


def make_rows(number: int) -> list[dict[str, Any]]:
    values = [None if k % 7 == 3 else (k * 37 % number) / 10 for k in range(number)]
    return [{"case": f"case{k}", "dice": v, "who": EVIL} for k, v in enumerate(values)]


@pytest.fixture(scope="module")
def example() -> report.Report:
    flat = draw_square_study((16, 20), cases=3)
    deep = draw_square_study((16, 20, 9))
    figure = plots.confusion([[0.9, 0.1], [0.2, 0.8]], [EVIL, CLOSING])
    bars = Figure()
    bars.subplots().set_title(f"& {EVIL} $x$")
    layers = [*report.rater_layers(flat.raters), *report.extra_layers(["reference"])]
    more = [*layers, *report.extra_layers(["absent 1", "absent 2"])]
    return report.Report(
        f"Study {EVIL}",
        {EVIL: EVIL, "cases": 3},
        [
            report.Section(
                EVIL,
                CLOSING,
                [
                    report.FigureBlock(EVIL, figure, EVIL_CASE),
                    report.FigureBlock("bars", bars),
                    report.TableBlock(
                        "few", make_rows(5), EVIL, {"case": EVIL_CASE, "dice": "Dice"}
                    ),
                ],
            ),
            report.Section("Rows", "", [report.TableBlock("many", make_rows(450))]),
            report.Section(
                "Cases",
                "",
                [
                    report.ViewerBlock("flat", views(flat), EVIL, layers),
                    report.ViewerBlock("deep", views(deep), EVIL, more),
                    report.TextBlock(f"{EVIL}\n\n{EVIL_CASE}", "warning"),
                ],
            ),
        ],
        EVIL_CASE,
    )


@pytest.fixture(scope="module")
def page(example: report.Report) -> str:
    return report.render(example)


def test_names_never_become_tags(page: str) -> None:
    read = Reader(page)
    kinds = [attributes.get("type") for tag, attributes in read.tags if tag == "script"]
    assert kinds.count(None) == 1
    assert set(kinds) == {None, "application/json"}
    assert "img" not in {tag for tag, _ in read.tags}
    names = [name for _, attributes in read.tags for name in attributes]
    assert [name for name in names if name[:2] == "on"] == []
    for text in (EVIL, EVIL_CASE, "alert(1)>", CLOSING):
        assert text not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    data = [json.loads(text) for text in read.scripts if text[:1] in "[{"]
    assert len(data) == len(kinds) - 1
    assert {case["id"] for one in data for case in one.get("cases", [])} >= {EVIL_CASE}


def test_nothing_is_fetched(page: str) -> None:
    assert "http://" not in page
    assert "https://" not in page
    for tag, attributes in Reader(page).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "xlink:href", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/"))
    assert not re.search(r"@import|url\((?!#)", page)


def test_odd_names_are_shown_as_they_are() -> None:
    names = [*ODD_NAMES, "\udcff", "\x00"]
    table = report.TableBlock("names", [{"rater": name} for name in names])
    text = report.render(report.Report("x", {}, [report.Section("y", blocks=[table])]))
    found = json.loads(next(s for s in Reader(text).scripts if s.startswith("{")))
    assert [row[0] for row in found["rows"]] == [*ODD_NAMES, "?", "\x00"]


def test_figures_take_the_colour_of_the_page(page: str) -> None:
    assert "currentColor" in page
    assert "#1a1a1a" not in page.lower()
    read = Reader(page)
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(#|href="#(?!case=|rater=))([^)"]+)', page)
    assert set(used) <= set(ids)


def test_what_could_act_is_taken_out_of_figures() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'onload="alert(1)"><script>alert(1)</script><a xlink:href="javascript:alert(1)"/>'
        '<style>*{fill:red}</style><use xlink:href="#a"/><image xlink:href="data:image/png;b"/>'
        "<text>url(#a) &lt;b&gt;</text></svg>"
    )
    assert inline_svg(svg, "f-") == (
        '<svg role="img"><a /><use href="#f-a" /><image href="data:image/png;b" />'
        "<text>url(#a) &lt;b&gt;</text></svg>"
    )


def test_names_in_figures_open_cases_and_raters() -> None:
    pairs = [{"rater_a": "ann b", "rater_b": "<c>", "class": "all", "dice": 0.5, "cases": 1}]
    whose = ["ann b", "<c>", "consensus"]
    pairs += [{**pairs[0], "rater_b": "consensus"}]
    svg = figure_svg(plots.agreement(pairs, whose))
    found = Reader(inline_svg(svg, "f-", {"ann b", "<c>"})).tags
    links = [attributes["href"] for tag, attributes in found if tag == "a"]
    assert sorted(links) == 2 * ["#rater=%3Cc%3E"] + 2 * ["#rater=ann%20b"]
    for _, attributes in found:
        assert not any("consensus" in value for value in attributes.values() if value)


def test_many_marks_become_a_picture() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.scatter(*np.random.default_rng(0).random((2, 20_000)))
    axes.set_title("kept as text")
    svg = figure_svg(figure)
    assert len(svg) < LARGE
    tags = [str(element.tag).rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()]
    assert "image" in tags
    assert "kept as text" in svg
    assert not axes.collections[0].get_rasterized()


def test_folder(example: report.Report, page: str, tmp_path: Path) -> None:
    report.write(example, tmp_path)
    (tmp_path / "mine.txt").write_text("stays")
    path = report.write(example, tmp_path)
    assert path == tmp_path / "report.html"
    assert path.read_text("utf-8") == page
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    evil = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    assert names == sorted(
        [f"figures/{name}.{kind}" for name in ("bars", evil) for kind in ("png", "svg")]
        + [".raters.json", "mine.txt", "report.html", "tables/few.csv", "tables/many.csv"]
    )
    with (tmp_path / "tables/few.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))
    assert found[0] == ["case", "dice", "who"]
    assert [row[1] for row in found[1:]] == ["0.0", "0.2", "0.4", "", "0.3"]
    ElementTree.parse(tmp_path / "figures" / "bars.svg")


def test_equal_names_have_files_of_their_own(tmp_path: Path) -> None:
    tables = [report.TableBlock(name, [{"a": k}]) for k, name in enumerate(["x", "X", "x"])]
    report.write(report.Report("r", {}, [report.Section("s", blocks=tables)]), tmp_path)
    files = {p.name: p.read_text() for p in (tmp_path / "tables").iterdir()}
    assert files == {"x.csv": "a\n0\n", "X-2.csv": "a\n1\n", "x-3.csv": "a\n2\n"}


@pytest.mark.slow
@quick
@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.booleans()))
def test_outlines_enclose_the_mask(mask: NDArray[np.bool_]) -> None:
    assert (fill_outline(report.outline_path(mask), mask.shape) == mask).all()


def test_pictures() -> None:
    ramp = np.linspace(-100, 300, 128)[np.newaxis].repeat(96, axis=0)
    image = decode_image(report.picture(ramp)).convert("L")
    expected = ((ramp - np.percentile(ramp, 1)) / np.ptp(np.percentile(ramp, [1, 99]))).clip(0, 1)
    assert image.size == (128, 96)
    assert np.abs(np.asarray(image, float) - 255 * expected).mean() < 4
    assert decode_image(report.picture(np.zeros((1000, 600)))).size == (307, 512)
    colours = np.zeros((40, 40, 3), np.uint8)
    colours[..., 0] = 200
    shown = np.asarray(decode_image(report.picture(colours)).convert("RGB"), float)
    assert np.abs(shown - colours).max() < 12
    decode_image(report.picture(np.full((4, 4), np.nan)))
    with pytest.raises(RatersError, match="found a picture of shape"):
        report.picture(np.zeros((2, 2, 2)))


def test_maps_are_clear_where_they_are_zero() -> None:
    values = np.array([[0.0, 0.5, 1.0, np.nan, 7.0]])
    shown = np.asarray(decode_image(report.map_picture(values, "#ff0080")).convert("RGBA"))[0]
    assert shown[:, 3].tolist() == [0, pytest.approx(128, abs=5), 255, 0, 255]
    assert shown[2].tolist() == [255, 0, 128, 255]
    colours = plots.error_colours([[1, 0], [1, 0]], [[1, 1], [0, 0]])
    same = np.asarray(decode_image(report.colours_picture(colours)).convert("RGB"))
    assert (same == np.rint(colours * 255)).all()


def test_size_stays_below_ten_megabytes() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 512), np.uint8)
    one = Picture("image", [report.picture(noise)] * 2)
    cases = [report.ViewerCase(f"c{k}", {}, (2, 512, 512), pictures=[one]) for k in range(60)]
    blocks = [report.ViewerBlock("a", cases), report.ViewerBlock("b", cases)]
    table = report.TableBlock("t", [{"x": f"{k:050d}", "y": k / 7} for k in range(20_000)])
    text = report.render(report.Report("r", {}, [report.Section("s", blocks=[*blocks, table])]))
    assert len(text.encode()) < 10e6
    assert "The page holds the first 5,000 of 20,000 rows" in text


# In a browser ------------------------------------------------------------------------------------
USE = """
const q = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const type = (input, text) => { input.value = text; input.dispatchEvent(new Event("input")); };
const column = (k) =>
  all(`.table[data-name=many] tbody td:nth-child(${k})`).map((d) => d.textContent);

answer.cases = column(1); answer.count = q("[data-name=many] .count").textContent;
const head = q("[data-name=many] th:nth-child(2) button");
head.click(); answer.up = column(2); answer.sorted = head.parentElement.ariaSort;
head.click(); answer.down = column(2);
head.click(); answer.back = column(1);
const search = q("[data-name=many] input");
type(search, "CASE44"); answer.searched = column(1);
type(search, "case44 8"); answer.words = column(1);
type(search, ""); answer.unsearched = column(1).length;

for (const viewer of all(".viewer")) {
  viewer.scrollIntoView();
  await until(() => viewer.dataset.painted);
}
answer.viewers = all(".viewer h3").map((h) => h.textContent);
answer.layers = all(".viewer[data-name=deep] .layers label").map((label) => label.title);
answer.classes = all(".viewer[data-name=deep] .classes label").map((label) => label.title);
const ink = () =>
  [getComputedStyle(q(".frame svg text")).fill, getComputedStyle(document.body).color];
answer.light = ink(); q(".theme").click(); answer.dark = ink();
answer.scripts = all("script:not([type])").length;
answer.images = all("img").length;
answer.acting = all("*").filter(
  (e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length;
answer.title = document.title;
"""


@pytest.fixture(scope="module")
def visit_of_use(page: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    return visit(page, USE, tmp_path_factory.mktemp("browser"))


@pytest.mark.slow
@pytest.mark.browser
def test_browser_finds_no_fault(visit_of_use: Visit) -> None:
    assert visit_of_use.console == []
    assert visit_of_use.answer["title"] == f"Study {EVIL}"
    assert visit_of_use.answer["scripts"] == 2  # that of the page and that of this test
    assert visit_of_use.answer["images"] == visit_of_use.answer["acting"] == 0


@pytest.mark.browser
def test_browser_tables(visit_of_use: Visit) -> None:
    got = visit_of_use.answer
    every = make_rows(450)
    assert got["cases"] == [row["case"] for row in every[:200]]
    assert got["count"] == "first 200 of 450 rows"
    values = sorted(row["dice"] for row in every if row["dice"] is not None)
    # 386 numbers: the first 200 shown are the lowest and the highest ones, nothing missing there.
    assert [float(text) for text in got["up"]] == values[:200]
    assert [float(text) for text in got["down"]] == values[::-1][:200]
    assert got["sorted"] == "ascending"
    assert got["back"] == got["cases"]
    assert got["searched"] == ["case44", *(f"case44{k}" for k in range(10))]
    both = [row["case"] for row in every if "case44" in row["case"] and "8" in str(row)]
    assert got["words"] == both
    assert 0 < len(both) < 11
    assert got["unsearched"] == 200


@pytest.mark.browser
def test_browser_shows_cases_with_odd_names(visit_of_use: Visit) -> None:
    got = visit_of_use.answer
    assert got["viewers"] == [EVIL_CASE] * 2
    assert got["layers"] == ["ann", EVIL, "bob", "reference", "absent 1", "absent 2"]
    assert got["classes"] == [CLOSING]


@pytest.mark.browser
def test_browser_dark(visit_of_use: Visit) -> None:
    light, page_light = visit_of_use.answer["light"]
    dark, page_dark = visit_of_use.answer["dark"]
    assert light == page_light
    assert dark == page_dark
    assert light != dark


@pytest.mark.browser
def test_browser_tells_of_errors(page: str, tmp_path: Path) -> None:
    # On a narrow screen, and with a fault: the checks above must be able to fail.
    script = "console.error('a fault'); answer.wide = document.documentElement.scrollWidth;"
    found = visit(page, script, tmp_path, width=600)
    assert len(found.console) == 1
    assert "a fault" in found.console[0]
    assert found.answer["wide"] <= 600
