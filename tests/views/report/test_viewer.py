"""The viewer of reports: what the page holds of a case, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from functools import cache
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import raters
from raters import RatersError, Study
from raters.core.classes import MISSING
from raters.views import plots, report
from raters.views.plots.pictures import view_of
from raters.views.report.case_view import cases_block, label_maps
from raters.views.report.viewer import Picture, within
from tests.support.browser import Visit, visit
from tests.support.makers import quick
from tests.support.reports import draw_growing_squares
from tests.support.viewer_labels import labels_by_layer, view_case

AFFINE = np.array([[-1.0, 0, 0, 3], [0, -1.25, 0, 4], [0, 0, 1.5, 5], [0, 0, 0, 1]])  # LPS
RATERS = ["ann", "bob", "cy", "dee"]
CLASSES = ["background", "lesion", "core"]


def decode_pixels(uri: str) -> NDArray[np.uint8]:
    content = uri.partition(";base64,")[2]
    return np.asarray(Image.open(BytesIO(b64decode(content))))


def cut_stack(stack: NDArray[Any], plane: Any, at: int) -> NDArray[Any]:
    """Cut a stack at a place of its own axis, as a plane says."""
    turned = np.transpose(stack, plane.order)
    turned = np.flip(turned, [k for k in (1, 2) if plane.flipped[k]])
    return np.asarray(turned[at])


@cache
def draw_head() -> Study:
    """Return a volume that is unlike its mirror images, of which every voxel has another value.

    bob left out a part, cy drew nothing, dee labelled nothing.
    """
    rng = np.random.default_rng(0)
    space = (10, 12, 8)
    image = np.stack([rng.permutation(960).reshape(space) + 1.0, np.zeros(space)])
    image[1, :5] = 40
    labels = np.zeros((4, *space), np.int16)
    labels[0, 2:5, 6:11, 2:7] = 1
    labels[0, 3, 7:9, 4:6] = 2
    labels[1, 3:7, 5:10, 3:6] = 1
    labels[1, :, :2] = MISSING
    labels[3] = MISSING
    more = labels.copy()
    more[1, 2:5, 6:11, 2:7] = 1
    return Study.from_arrays(
        [image, image],
        [labels, more],
        [labels[0], labels[0]],
        raters=RATERS,
        classes=CLASSES,
        affines=[AFFINE] * 2,
        cases=["a/1", "b 2"],
        channels=["t1", "air"],
    )


# What the page holds -----------------------------------------------------------------------------
@quick
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_labels_come_back_as_they_were(layers: int, classes: int, seed: int) -> None:
    masks = np.random.default_rng(seed).integers(MISSING, classes + 1, (layers, 2, 9, 11))
    said = {f"r{k}": mask for k, mask in enumerate(masks)}
    made = list(label_maps(said))
    case = report.ViewerCase("x", shape=(2, 9, 11), labels=made)
    found = labels_by_layer(case)
    assert list(found) == list(said) == case.layers
    assert all((found[name] == said[name]).all() for name in said)
    assert all(len(one.patterns) <= 256 for one in made)


def test_a_layer_of_very_many_classes() -> None:
    mask = np.arange(700).reshape(1, 20, 35) - 1
    made = list(label_maps({"a": mask % 3, "b": mask}))
    assert [one.layers for one in made] == [["a"], ["b"]]
    found = labels_by_layer(report.ViewerCase("x", shape=(1, 20, 35), labels=made))
    assert (found["b"] == mask).all()


def test_pictures_and_labels_of_a_picture() -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 30, 40), np.uint8)
    image[:] = np.kron(image[:, ::10, ::10], np.ones((10, 10), np.uint8))  # little is lost
    mask = np.zeros((1, 30, 40), int)
    mask[0, 3:9, 5:20] = 1
    study = Study.from_arrays([image], [mask], raters=["ann"], classes=["no", "yes"])
    case = view_case(study, layers={"consensus": 1 - mask[0]})
    assert (case.shape, len(case.planes), case.planes[0].letters) == ((1, 30, 40), 1, ())
    found = labels_by_layer(case)
    assert (found["ann"] == mask).all()
    assert (found["consensus"] == 1 - mask).all()
    (shown,) = case.pictures
    assert shown.colours
    values = np.interp(decode_pixels(shown.slices[0]), *np.array(shown.knots).T[::-1])
    assert np.abs(values - np.moveaxis(image, 0, -1)).mean() < 6


def test_large_pictures_are_made_smaller_and_keep_their_place() -> None:
    mask = np.zeros((2, 2600, 1300), int)
    mask[0, 900:1500, 300:700] = 1
    study = Study.from_arrays(
        [mask[:1] * 1.0], [mask], raters=["ann", "bob"], classes=["no", "yes"]
    )
    case = view_case(study)
    assert case.shape == (1, 867, 434)
    assert case.spacing == (1.0, 3.0, 3.0)
    assert (labels_by_layer(case)["ann"][0] == mask[0, ::3, ::3]).all()
    bright = decode_pixels(case.pictures[0].slices[0])
    assert bright.shape[:2] == (1024, 512)
    row, column = np.argwhere(bright.reshape(1024, 512, -1)[..., 0] > 128).mean(axis=0)
    assert (row / 1024, column / 512) == pytest.approx((1200 / 2600, 500 / 1300), abs=0.01)


def test_an_object_of_one_pixel_is_not_called_empty() -> None:
    mask = np.zeros((2, 2600, 1300), int)
    mask[0, 1, 1] = 1  # between the pixels that are kept
    study = Study.from_arrays(labels=[mask], raters=["ann", "bob"], classes=["no", "yes"])
    assert list(view_case(study).empty) == ["bob"]


def test_three_planes_are_those_of_the_file() -> None:
    study = draw_head()
    case = view_case(study)
    assert [plane.name for plane in case.planes] == ["axial", "coronal", "sagittal"]
    assert ["".join(plane.letters) for plane in case.planes] == ["RLAP", "RLSI", "APSI"]
    labels = study[0].labels
    found = labels_by_layer(case)
    for plane in case.planes:
        stack_axis = plane.order[0]
        file_axis = {"axial": 2, "coronal": 1, "sagittal": 0}[plane.name]
        view = view_of(labels.shape[1:], AFFINE, file_axis)
        first, step = case.numbers[stack_axis]
        for at in range(case.shape[stack_axis]):
            place = view.place(first + step * at, labels.shape[1:])
            expected = view.turn(labels, 1)[:, place]
            for name, mask in zip(RATERS[:3], expected, strict=False):
                assert (cut_stack(found[name], plane, at) == mask).all()
        units = [case.spacing[plane.order[k]] for k in (1, 2)]
        assert units[0] / units[1] == pytest.approx(view.aspect(study[0].geometry.spacing))
        # At first, the other planes cut where raters differ.
        shown = [cut_stack(found[name], plane, case.start[stack_axis]) for name in RATERS[:3]]
        assert ((shown[0] != shown[1]) & (shown[1] != MISSING)).any()
    assert list(case.empty) == ["cy"]
    assert "dee" not in case.layers


def test_all_channels_with_their_values() -> None:
    study = draw_head()
    case = view_case(study)
    assert [shown.name for shown in case.pictures] == ["t1", "air"]
    image = study[0].image
    assert image is not None
    stack = view_of(image.shape[1:], AFFINE).turn(image, 1)
    for shown, values in zip(case.pictures, stack, strict=True):
        assert len(shown.slices) == 8
        codes = np.stack([decode_pixels(uri) for uri in shown.slices])
        codes = codes if codes.ndim == 3 else codes[..., 0]
        found = np.interp(codes, *np.array(shown.knots).T[::-1])
        assert np.corrcoef(found.ravel(), values.ravel())[0, 1] > 0.9  # lossy, but in its place
    assert list(case.pictures[0].windows) == [
        "automatic",
        "all values",
        "dark parts",
        "bright parts",
    ]
    assert case.pictures[0].windows["all values"] == (1, 960)


def test_ct_has_the_windows_of_radiology() -> None:
    image = np.linspace(-1024, 2000, 64 * 64).reshape(1, 64, 64)
    study = Study.from_arrays([image], np.zeros((1, 1, 64, 64), int), classes=["a", "b"])
    (shown,) = view_case(study).pictures
    assert {"lung", "soft tissue", "brain", "bone"} <= set(shown.windows)
    values, codes = np.array(shown.knots).T
    assert (np.diff(values) > 0).all() and (np.diff(codes) > 0).all()
    assert np.interp(300, values, codes) - np.interp(-200, values, codes) > 150  # fine where needed


@pytest.mark.parametrize("image", [np.full((1, 8, 8), np.nan), np.zeros((1, 8, 8)), None])
def test_images_without_values(image: NDArray[Any] | None) -> None:
    masks = np.zeros((1, 1, 8, 8), int)
    study = Study.from_arrays(None if image is None else [image], masks, classes=["a", "b"])
    case = view_case(study)
    assert len(case.pictures) == (image is not None)
    json.dumps([shown.knots for shown in case.pictures], allow_nan=False)


def test_where_slices_do_not_fit_all_marked_ones_stay() -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 200, 200, 40))
    labels = np.zeros((2, 200, 200, 40), int)
    labels[0, 50:90, 60:80, 10:15] = 1
    labels[1, 50:90, 60:90, 17:19] = 1
    study = Study.from_arrays([image], [labels], raters=["ann", "bob"], classes=["no", "yes"])
    small = view_case(study, budget=60_000)
    assert (small.shape[0], small.slices) == (9 + 4, 40)
    assert small.numbers[0] == (8, 1)
    assert small.size < 120_000
    assert (labels_by_layer(small)["ann"].any(axis=(1, 2)).nonzero()[0] + 8).tolist() == [
        10,
        11,
        12,
        13,
        14,
    ]
    whole = view_case(study, budget=3_000_000)
    assert whole.shape == (40, 200, 200)


def test_within_a_budget() -> None:
    cases = [report.ViewerCase(str(k), pictures=[Picture("", ["x" * 1000])]) for k in range(5)]
    sizes = np.cumsum([case.size for case in cases])
    for budget in (0, 2500, 4100, 10**6):
        kept = within(cases, budget)
        assert len(kept) == max(1, int((sizes <= budget).sum()))


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(RatersError, match="found 'consensus' of shape"):
        view_case(draw_head(), layers={"consensus": np.zeros((3, 3))})
    with pytest.raises(RatersError, match="found 'unsure' of shape"):
        view_case(draw_head(), maps={"unsure": np.zeros((3, 3))})


# All cases ---------------------------------------------------------------------------------------
def many_cases(number: int) -> Study:
    """Draw cases of which two have names to be quoted."""
    names = ["a&b #1", "ü/2", *(f"case{k}" for k in range(2, number))]
    return draw_growing_squares(names, ["ann", "bob"])


def indices(page: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" class="index">(.*?)</script>', page, re.S)
    return [json.loads(text) for text in found]


def test_the_page_says_what_it_shows(tmp_path: Path) -> None:
    study = many_cases(30)
    text = raters.report(study, tmp_path).read_text("utf-8")
    assert "24 of 30 cases are here; raters report --all-cases writes the rest." in unescape(text)
    assert not (tmp_path / "cases").exists()
    assert len(indices(text)[0]["cases"]) == 24


def test_all_cases_are_written_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raters.views.report.page.VIEWERS_BUDGET", 12_000)
    study = many_cases(30)
    path = raters.report(study, tmp_path, cases_shown=4, all_cases=True)
    (index,) = indices(path.read_text("utf-8"))
    assert "the list opens the others" in path.read_text("utf-8")
    pages = sorted((tmp_path / "cases").iterdir())
    assert len(pages) > 2
    texts = {page.name: page.read_text("utf-8") for page in pages}
    held = {name: [c["id"] for c in indices(text)[0]["cases"]] for name, text in texts.items()}
    everywhere = [c["id"] for c in index["cases"]] + [name for own in held.values() for name in own]
    assert sorted(everywhere) == sorted(study.cases)
    for name, address in index["elsewhere"]:
        file, _, asked = address.partition("#case=")
        assert name in held[Path(file).name]
        assert not re.search(r"[^\w.%~-]", asked)
    assert all('href="../report.html"' in text for text in texts.values())


# In a browser ------------------------------------------------------------------------------------
USE = """
const figure = document.querySelector(".viewer"), find = (s) => figure.querySelector(s);
const all = (s) => [...figure.querySelectorAll(s)];
document.documentElement.style.scrollBehavior = "auto";
figure.scrollIntoView();
await until(() => figure.dataset.painted);
const settle = async (act) => {
  const before = figure.dataset.painted;
  act();
  await until(() => figure.dataset.painted !== before);
  await wait(30);
};
const set = (selector, value) => settle(() => {
  const input = find(selector);
  if (input.type === "checkbox") { input.click(); return; }
  input.value = value;
  input.dispatchEvent(new Event(input.matches("select") ? "change" : "input"));
});
const panes = () => all(".pane");
const place = (pane, rows, columns, ratio) => { // a pixel of the labels on the screen
  const scale = Math.min(pane.clientWidth / columns, pane.clientHeight / (rows * ratio));
  const left = (pane.clientWidth - columns * scale) / 2;
  const top = (pane.clientHeight - rows * ratio * scale) / 2;
  return (row, column) => [left + (column + 0.5) * scale, top + (row + 0.5) * scale * ratio];
};
const PLANES = { axial: [12, 10, 1.25], coronal: [8, 10, 1.5], sagittal: [8, 12, 1.2] };
const copyOf = (pane) => { // the page does not read its canvas back, so a copy is read
  const canvas = pane.firstElementChild, copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return context;
};
const pixels = (pane, plane, row0 = 0, column0 = 0) => {
  const [rows, columns, ratio] = PLANES[plane], at = place(pane, rows, columns, ratio);
  const context = copyOf(pane);
  return Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => {
    const [x, y] = at(row + row0, column + column0);
    return [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data.slice(0, 3)];
  }));
};
const send = (type, pane, [x, y], more = {}) => {
  const box = pane.getBoundingClientRect();
  const event = new (type === "wheel" ? WheelEvent : PointerEvent)(type, {
    bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, ...more });
  pane.firstElementChild.dispatchEvent(event);
  return event.defaultPrevented;
};
const press = (key) => settle(() => find(".stage").dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
"""

CONTROLS = (
    USE
    + """
const letters = () => panes().map(
  (pane) => [...pane.querySelectorAll("span")].map((s) => s.textContent));
answer.badges = all(".layers label").map((label) => label.innerText.replace(/\\s+/g, " ").trim());
answer.start = find("output").textContent; answer.letters = letters();
answer.views = [...find(".view select").options].map((o) => o.textContent);
answer.images = [...find(".image select").options].map((o) => o.textContent);
answer.outlined = pixels(panes()[0], "axial"); answer.edges = pixels(panes()[0], "axial", 0, 0.5);
for (const box of all(".layers input")) if (box.checked) await settle(() => box.click());
answer.bare = pixels(panes()[0], "axial"); answer.bareEdges = pixels(panes()[0], "axial", 0, 0.5);
const ann = all(".layers input")[0], bob = all(".layers input")[1], truth = all(".layers input")[4];
await settle(() => ann.click());
answer.annEdges = pixels(panes()[0], "axial", 0, 0.5);
await set(".mode select", "fill"); answer.fill = pixels(panes()[0], "axial");
await set(".colour select", "class"); answer.byClass = pixels(panes()[0], "axial");
answer.swatches = all(".classes .square").map((s) => getComputedStyle(s).backgroundColor);
await settle(() => all(".classes input")[1].click()); answer.noCore = pixels(panes()[0], "axial");
await settle(() => all(".classes input")[1].click());
await set(".view select", "1"); answer.coronal = pixels(panes()[0], "coronal");
answer.coronalName = find("output").textContent;
await set(".view select", "2"); answer.sagittal = pixels(panes()[0], "sagittal");
answer.sagittalName = find("output").textContent;
await settle(() => ann.click()); answer.sagittalBare = pixels(panes()[0], "sagittal");
await set(".view select", "1"); answer.coronalBare = pixels(panes()[0], "coronal");
await set(".view select", "0");
await settle(() => ann.click()); await settle(() => bob.click());
await set(".mode select", "difference"); answer.differ = pixels(panes()[0], "axial");
answer.legend = all(".legend li").map((li) => li.innerText);
await set(".against select", "reference"); answer.fromReference = pixels(panes()[0], "axial");
answer.legendBase = all(".legend li").map((li) => li.innerText);
await settle(() => all(".layers input")[2].click());
await settle(() => all(".layers input")[3].click());
await set(".sides input"); answer.sides = letters().map(([name]) => name);
answer.bobAlone = pixels(panes()[1], "axial");
await set(".against select", ""); answer.bobAmong = pixels(panes()[1], "axial");
answer.legendSides = all(".legend li").map((li) => li.innerText);
await set(".sides input"); await set(".mode select", "outline");

const [rows, columns, ratio] = PLANES.axial, at = () => place(panes()[0], rows, columns, ratio);
const hover = (row, column) => {
  send("pointermove", panes()[0], at()(row, column));
  return find(".said").innerText;
};
answer.hover = Array.from({ length: rows },
  (_, row) => Array.from({ length: columns }, (_, column) => hover(row, column)));
send("pointermove", panes()[0], [-5, -5]); answer.outside = find(".said").hidden;

await set(".preset select", "dark parts"); answer.dark = pixels(panes()[0], "axial");
await set(".preset select", "all values"); answer.wide = pixels(panes()[0], "axial");
answer.window = find(".width").title;
await set(".width input", "200");
answer.narrow = [find(".width").title, find(".preset select").value];
await set(".level input", "900"); answer.level = find(".level").title;
const shift = { shiftKey: true };
send("pointerdown", panes()[0], [100, 100], shift);
await settle(() => send("pointermove", panes()[0], [130, 100], shift));
answer.dragged = find(".width").title; send("pointerup", panes()[0], [130, 100], shift);
await set(".image select", "1 -1"); answer.air = pixels(panes()[0], "axial");
await set(".image select", "0 -1");
answer.automatic = find(".preset select").value;
await set(".width input", "300"); answer.byHand = find(".width").title;
await press("ArrowDown"); answer.kept = [find(".width").title, find(".preset select").value];
"""
)

MOVES = (
    USE
    + """
for (const box of all(".layers input")) if (box.checked) await settle(() => box.click());
const whole = pixels(panes()[0], "axial"), at = () => place(panes()[0], ...PLANES.axial);
answer.whole = whole;
answer.passes = !send("wheel", panes()[0], [50, 50], { deltaY: 120 }); // nothing to zoom out of
await wait(300);
const point = at()(4, 6);
await settle(() => { answer.taken = send("wheel", panes()[0], point, { deltaY: -200 }); });
const colour = ([x, y]) => [...copyOf(panes()[0]).getImageData(x, y, 1, 1).data.slice(0, 3)];
answer.fixed = [whole[4][6], colour(point)];
const step = Math.exp(200 / 300) * (at()(0, 1)[0] - at()(0, 0)[0]);
answer.next = [whole[4][7], colour([point[0] + step, point[1]])]; // pixels are larger
send("pointerdown", panes()[0], [200, 200]);
await settle(() => send("pointermove", panes()[0], [200 + step, 200]));
send("pointerup", panes()[0], [200 + step, 200]);
answer.panned = [whole[4][6], colour([point[0] + step, point[1]])];
await settle(() => find("[data-zoom=fit]").click()); answer.fit = pixels(panes()[0], "axial");
await settle(() => find('[data-zoom="1.4"]').click());
await press("+"); await press("-"); await press("0");
answer.keys = pixels(panes()[0], "axial");
await settle(() => all(".layers input")[0].click());
await settle(() => find("[data-zoom=labels]").click());
answer.toLabels = pixels(panes()[0], "axial");
await settle(() => all(".layers input")[0].click());
await settle(() => find("[data-zoom=fit]").click());

await press("ArrowRight"); answer.right = find("output").textContent;
await set(".slices input", "0"); answer.first = find("output").textContent;
answer.firstSlice = pixels(panes()[0], "axial");
await press("ArrowLeft"); answer.still = find("output").textContent;
await set(".view select", "three");
answer.three = panes().map((pane) => pane.children[1].textContent);
const pane = panes()[0], there = at()(4, 6);
send("pointerdown", pane, there); await settle(() => send("pointerup", pane, there));
answer.others = [];
for (const other of ["1", "2"]) {
  await set(".view select", other);
  answer.others.push(find("output").textContent);
}
await set(".view select", "0");
answer.case = find("h3").textContent;
await press("ArrowDown"); answer.second = find("h3").textContent;
answer.facts = find(".tools dl").innerText;
await settle(() => all(".cases button")[0].click()); answer.back = find("h3").textContent;
find(".cases input").value = "b 2"; find(".cases input").dispatchEvent(new Event("input"));
answer.found = all(".cases li").filter((li) => li.offsetParent).map((li) => li.innerText.trim());
answer.current = all(".cases button").map((b) => b.ariaCurrent);
await settle(() => find(".layers button").click());
answer.every = all(".layers input").map((box) => box.checked);
await set(".map select", "unsure"); answer.map = pixels(panes()[0], "axial");
answer.legend = all(".legend li").map((li) => li.innerText);
await set(".opacity input", "0"); answer.noMap = pixels(panes()[0], "axial");
"""
)


@pytest.fixture(scope="module")
def page() -> str:
    study = draw_head()
    unsure = np.zeros((10, 12, 8))
    unsure[:5] = 1
    cases = [view_case(study, k, maps={"unsure": unsure}, facts={"Dice": 0.5 + k}) for k in (0, 1)]
    layers = [*report.rater_layers(study.raters), *report.extra_layers(["reference", "nobody"])]
    maps = [report.MapLayer("unsure", {"model unsure": "#e040fb"})]
    block = report.ViewerBlock("cases", cases, "", layers, maps)
    return report.render(report.Report("Heads", {}, [report.Section("Cases", blocks=[block])]))


@pytest.fixture(scope="module")
def visit_of_controls(page: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    return visit(page, CONTROLS, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def visit_of_moves(page: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    return visit(page, MOVES, tmp_path_factory.mktemp("browser"))


def changed_pixels(before: Any, after: Any, least: int = 8) -> NDArray[np.bool_]:
    """Return the pixels whose colour is another one."""
    return np.asarray(np.abs(np.array(before) - np.array(after)).max(axis=-1) >= least)


def labels_at_start() -> dict[str, NDArray[Any]]:
    """Return what everyone said in the slice that is shown first."""
    case = view_case(draw_head())
    return {name: mask[case.start[0]] for name, mask in labels_by_layer(case).items()}


@pytest.mark.slow
@pytest.mark.browser
def test_browser_finds_no_fault(visit_of_controls: Visit, visit_of_moves: Visit) -> None:
    assert visit_of_controls.console == visit_of_moves.console == []


@pytest.mark.browser
def test_browser_names_sides_planes_and_who_said_nothing(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    assert got["badges"] == [
        "ann",
        "bob",
        "cy empty",
        "dee not labelled",
        "reference",
        "nobody not labelled",
    ]
    assert got["letters"] == [["", "R", "L", "A", "P"]]
    assert got["views"] == ["axial", "coronal", "sagittal", "three planes"]
    assert got["images"] == ["t1", "air"]
    case = view_case(draw_head())
    assert got["start"] == f"axial slice {case.start[0]} ({case.start[0] + 1} of 8)"


@pytest.mark.browser
def test_browser_draws_areas_where_they_were_drawn(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    ann = labels_at_start()["ann"]
    assert (changed_pixels(got["bare"], got["fill"]) == (ann > 0)).all()
    assert (changed_pixels(got["bare"], got["byClass"]) == (ann > 0)).all()
    assert (changed_pixels(got["fill"], got["byClass"])[ann == 2]).all()  # another colour
    assert (changed_pixels(got["bare"], got["noCore"]) == (ann == 1)).all()
    case = view_case(draw_head())
    found = labels_by_layer(view_case(draw_head()))["ann"]
    for plane in case.planes[1:]:
        expected = cut_stack(found, plane, case.start[plane.order[0]]) > 0
        assert (changed_pixels(got[f"{plane.name}Bare"], got[plane.name]) == expected).all()
        first, step = case.numbers[plane.order[0]]
        number = first + step * case.start[plane.order[0]]
        assert got[f"{plane.name}Name"].startswith(f"{plane.name} slice {number} (")
    colours = plots.rater_colours(CLASSES[1:])
    rgb = [tuple(int(c[k : k + 2], 16) for k in (1, 3, 5)) for c in colours.values()]
    assert got["swatches"] == [f"rgb({r}, {g}, {b})" for r, g, b in rgb]


@pytest.mark.browser
def test_browser_draws_outlines_between_pixels(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    ann = labels_at_start()["ann"]
    assert not changed_pixels(got["bare"], got["outlined"]).any()  # nothing in the middle of pixels
    border = ann[:, :-1] != ann[:, 1:]
    assert (changed_pixels(got["bareEdges"], got["annEdges"])[:, :-1] == border).all()
    line = np.array(got["annEdges"])[:, :-1][border & (np.maximum(ann[:, :-1], ann[:, 1:]) == 1)]
    assert np.abs(line - [0xE6, 0x9F, 0x00]).max() < 30


@pytest.mark.browser
def test_browser_shows_differences(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    said = labels_at_start()
    ann = said["ann"]
    bob = said["bob"]
    truth = said["reference"]
    known = bob != MISSING
    assert (changed_pixels(got["bare"], got["differ"]) == ((ann != bob) & known)).all()
    from_truth = (bob != truth) & known  # ann is the reference
    assert (changed_pixels(got["bare"], got["fromReference"]) == from_truth).all()
    more = np.array(got["bobAlone"])[from_truth & (truth == 0)]
    less = np.array(got["bobAlone"])[from_truth & (bob == 0)]
    assert (more[:, 0] > more[:, 2]).all()  # orange
    assert (less[:, 2] > less[:, 0]).all()  # blue
    assert len(more) and len(less)
    assert got["legend"] == ["those shown differ"]
    assert got["legendBase"] == ["more than reference", "less than reference", "another class"]
    assert got["sides"] == ["ann", "bob", "cy empty", "dee not labelled"]


@pytest.mark.browser
def test_browser_shows_differences_side_by_side(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    said = labels_at_start()
    bob = said["bob"]
    unlike = (bob != MISSING) & ((bob != said["ann"]) | (bob != said["cy"]))
    assert unlike.any() and (changed_pixels(got["bare"], got["bobAmong"]) == unlike).all()
    more = np.array(got["bobAmong"])[unlike & (bob > 0) & (said["ann"] == 0)]
    assert len(more) and (more[:, 0] > more[:, 2]).all()  # orange, as from a base
    than = "than the others shown"
    assert got["legendSides"] == [f"more {than}", f"less {than}", "another class"]


@pytest.mark.browser
def test_browser_says_who_said_what(visit_of_controls: Visit) -> None:
    said = labels_at_start()
    for row, lines in enumerate(visit_of_controls.answer["hover"]):
        for column, text in enumerate(lines):
            *told, value = text.splitlines()
            labels = {k: int(said[k][row, column]) for k in ("ann", "bob", "cy")}
            names = {k: "not labelled" if v < 0 else CLASSES[v] for k, v in labels.items()}
            everyone = [f"all: {names['ann']}"] if len(set(names.values())) == 1 else None
            assert told == (everyone or [f"{k}: {v}" for k, v in names.items()])
            assert value.startswith("t1 about ")
    assert visit_of_controls.answer["outside"] is True


@pytest.mark.browser
def test_browser_windows(visit_of_controls: Visit) -> None:
    got = visit_of_controls.answer
    case = view_case(draw_head())
    shown = case.pictures[0]
    codes = decode_pixels(shown.slices[case.start[0]])
    codes = codes if codes.ndim == 2 else codes[..., 0]
    values = np.interp(codes, *np.array(shown.knots).T[::-1])
    for key, name in (("bare", "automatic"), ("dark", "dark parts"), ("wide", "all values")):
        low, high = shown.windows[name]
        expected = (255 * (values - low) / (high - low)).clip(0, 255)
        drawn = np.array(got[key], float).mean(axis=-1)
        middle = np.abs(drawn - expected)  # pixels are smoothed towards their neighbours
        assert np.median(middle) < 6, key
    assert got["window"] == "width 959, level 480.5"
    assert got["narrow"] == ["width 200, level 480.5", ""]
    assert got["level"] == "width 200, level 900"
    assert got["dragged"] == "width 295.9, level 900"  # a tenth of all values
    assert got["automatic"] == "automatic" and got["byHand"].startswith("width 300,")
    assert got["kept"] == [got["byHand"], ""]
    air = np.array(got["air"])[..., 0]
    stack = view_of((10, 12, 8), AFFINE).turn(np.asarray(draw_head()[0].image)[1])[case.start[0]]
    assert ((air > 128) == (stack > 0)).all()


@pytest.mark.browser
def test_browser_zooms_and_moves(visit_of_moves: Visit) -> None:
    got = visit_of_moves.answer
    assert got["passes"] is True and got["taken"] is True
    for key in ("fixed", "next", "panned"):
        before, after = got[key]
        assert np.abs(np.array(before) - after).max() < 12, key
    assert got["fit"] == got["keys"] == got["whole"]
    assert changed_pixels(got["whole"], got["toLabels"]).any()


@pytest.mark.browser
def test_browser_slices_planes_and_cases(visit_of_moves: Visit) -> None:
    got = visit_of_moves.answer
    case = view_case(draw_head())
    assert got["right"] == f"axial slice {case.start[0] + 1} ({case.start[0] + 2} of 8)"
    assert got["first"] == got["still"] == "axial slice 0 (1 of 8)"
    assert changed_pixels(got["whole"], got["firstSlice"]).any()
    assert got["three"] == ["axial", "coronal", "sagittal"]
    for name, axis, at, told in zip(
        ("coronal", "sagittal"), (1, 2), (4, 6), got["others"], strict=True
    ):
        first, step = case.numbers[axis]  # a click at row 4, column 6 chose where they cut
        assert told.startswith(f"{name} slice {first + step * at} (")
    assert [got["case"], got["second"], got["back"]] == ["a/1", "b 2", "a/1"]
    assert got["facts"].split() == ["Dice", "1.500"]
    assert [text.split() for text in got["found"]] == [["b", "2", "1.500"]]
    assert got["current"] == ["true", None]
    assert got["every"] == [True] * 6
    stack = view_of((10, 12, 8), AFFINE).turn(np.arange(10)[:, None, None] + np.zeros((10, 12, 8)))
    assert (changed_pixels(got["noMap"], got["map"]) == (stack[0] < 5)).all()
    assert got["legend"] == ["model unsure"]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", ["ü/2", "a&b #1"])
def test_browser_opens_a_case_by_its_link(name: str, tmp_path: Path) -> None:
    study = many_cases(6)
    block = cases_block("study.cases-in-order", study, {case: {} for case in study.cases})
    assert block is not None
    filler = report.TextBlock("\n\n".join(["much text"] * 200))
    section = report.Section("s", blocks=[filler, block])
    page = report.render(report.Report("r", {}, [section]))
    script = """
    document.documentElement.style.scrollBehavior = "auto";
    location.hash = "#case=" + encodeURIComponent(%s);
    const figure = document.querySelector(".viewer");
    await until(() => figure.dataset.painted && Math.abs(figure.getBoundingClientRect().top) < 100);
    answer.case = figure.querySelector("h3").textContent;
    """
    found = visit(page, script % json.dumps(name), tmp_path)
    assert (found.answer["case"], found.console) == (name, [])


@pytest.mark.browser
def test_browser_many_layers(tmp_path: Path) -> None:
    """Labels in several groups are told of together."""
    masks = np.random.default_rng(0).integers(0, 3, (12, 20, 21))
    names = [f"r{k}" for k in range(12)]
    study = Study.from_arrays(labels=[masks], raters=names, classes=CLASSES)
    case = view_case(study)
    assert len(case.labels) > 1
    block = report.ViewerBlock("cases", [case], "", report.rater_layers(names, shown=12))
    page = report.render(report.Report("r", {}, [report.Section("s", blocks=[block])]))
    script = (
        USE
        + """
    const at = place(panes()[0], 20, 21, 1);
    answer.hover = [[0, 0], [2, 5], [19, 20]].map(([row, column]) => {
      send("pointermove", panes()[0], at(row, column)); return find(".said").innerText; });
    """
    )
    found = visit(page, script, tmp_path)
    assert found.console == []
    for (row, column), text in zip([(0, 0), (2, 5), (19, 20)], found.answer["hover"], strict=True):
        assert text.splitlines() == [
            f"{n}: {CLASSES[m]}" for n, m in zip(names, masks[:, row, column], strict=True)
        ]


@pytest.mark.browser
def test_browser_cuts_sagittal_slices_as_well(tmp_path: Path) -> None:
    """Where slices were acquired sagittally, other planes run backwards along them."""
    space = (5, 6, 7)
    affine = np.diag([4.0, -1.0, 1.0, 1.0])
    masks = np.random.default_rng(0).integers(0, 3, (2, *space))
    study = Study.from_arrays(
        labels=[masks], raters=["ann", "bob"], classes=CLASSES, affines=[affine]
    )
    case = view_case(study)
    assert [plane.name for plane in case.planes] == ["sagittal", "axial", "coronal"]
    assert any(plane.flipped[2] for plane in case.planes)
    block = report.ViewerBlock("cases", [case], "", report.rater_layers(["ann", "bob"]))
    page = report.render(report.Report("r", {}, [report.Section("s", blocks=[block])]))
    # Rows, columns, and the height of a pixel over its width.
    shapes = {"sagittal": [7, 6, 1], "coronal": [7, 5, 1 / 4], "axial": [6, 5, 1 / 4]}
    script = (
        USE
        + f"""
    answer.said = {{}}; answer.slices = {{}};
    for (const [name, [rows, columns, ratio]] of Object.entries({json.dumps(shapes)})) {{
      const option = [...find(".view select").options].find((o) => o.textContent === name);
      await set(".view select", option.value);
      const at = place(panes()[0], rows, columns, ratio);
      answer.slices[name] = find("output").textContent;
      answer.said[name] = Array.from({{ length: rows }}, (_, row) =>
        Array.from({{ length: columns }}, (_, column) => {{
          send("pointermove", panes()[0], at(row, column));
          return find(".said").innerText;
        }}));
    }}
    """
    )
    found = visit(page, script, tmp_path)
    assert found.console == []
    for axis, name in enumerate(("sagittal", "coronal", "axial")):
        view = view_of(space, affine, axis)
        number = int(found.answer["slices"][name].split()[2])
        ann, bob = view.turn(masks, 1)[:, view.place(number, space)]
        assert shapes[name][:2] == list(ann.shape)
        for row, column in np.ndindex(*ann.shape):
            one = CLASSES[ann[row, column]]
            two = CLASSES[bob[row, column]]
            expected = [f"all: {one}"] if one == two else [f"ann: {one}", f"bob: {two}"]
            assert found.answer["said"][name][row][column].splitlines() == expected


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("name", "shown"), [("ann", "ann"), ("1", "rater 1")])
def test_browser_says_what_a_pixel_is_not(name: str, shown: str, tmp_path: Path) -> None:
    layers = report.rater_layers([name], excluding=[name])
    mask = np.array([[2, MISSING]])
    case = report.ViewerCase(
        "x", {}, (1, 1, 2), classes=CLASSES, labels=list(label_maps({name: mask[np.newaxis]}))
    )
    block = report.ViewerBlock("cases", [case], "", layers)
    page = report.render(report.Report("r", {}, [report.Section("s", blocks=[block])]))
    script = (
        USE
        + """
    const at = place(panes()[0], 1, 2, 1);
    answer.said = [0, 1].map((column) => {
      send("pointermove", panes()[0], at(0, column)); return find(".said").innerText; });
    answer.listed = find(".layers label").innerText.trim();
    """
    )
    answer = visit(page, script, tmp_path).answer
    assert answer["said"] == [f"{shown}: not core", f"{shown}: not labelled"]
    assert answer["listed"] == shown
