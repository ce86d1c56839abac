"""Draws the pictures of the docs: `python docs/pictures/draw.py [DEMO] [DATA]`, beside itself.

DEMO is the folder that `raters demo` wrote ('' for none), DATA one with the public data sets that
fusion is shown on; without them their pictures are left out.
report.png is a screenshot, 1400 pixels wide, of `raters report` on CHASE_DB1.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import grey_dilation

import raters
from raters.assessment.agreement_case import entropy_map
from raters.fusion import local_accuracy, spatial_staple, staple
from raters.simulation import disc_study
from raters.simulation.coarse import draw_area, draw_boxes, draw_scribbles
from raters.simulation.layers import Layers
from raters.simulation.masks import DRAWERS
from raters.simulation.phantoms import draw
from raters.views import plots
from raters.views.plots.pictures import view_of

HERE = Path(__file__).parent
EDGE = 128
GAP = 6
TITLE = 20
FONT = ImageFont.load_default(15)
COLOURS = np.array([[20, 20, 20], [240, 240, 240], [120, 190, 255]], np.uint8)
CLASSES = np.array(
    [[20, 20, 20], [240, 240, 240], [230, 159, 0], [86, 180, 233], [0, 158, 115], [204, 121, 167]],
    np.uint8,
)
ERRORS = np.array([[0, 0, 0], [230, 159, 0], [86, 180, 233], [255, 255, 255]], np.uint8)
"""Right outside, too much (orange), missed (blue), right inside; colour-blind people see which."""


def montage(rows: list[list[tuple[str, np.ndarray]]], path: Path) -> None:
    """Put titled pictures `(rows, columns, 3)` on one white sheet."""
    wide = EDGE + GAP
    high = EDGE + GAP + TITLE
    sheet = Image.new("RGB", (wide * max(map(len, rows)) + GAP, high * len(rows) + GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for i, row in enumerate(rows):
        for j, (title, picture) in enumerate(row):
            corner = (GAP + j * wide, GAP + i * high)
            pen.text(corner, title, fill="black", font=FONT)
            sheet.paste(Image.fromarray(picture), (corner[0], corner[1] + TITLE))
    sheet.save(path, optimize=True)


def grey(image: np.ndarray) -> np.ndarray:
    """Turn an image `(1, rows, columns)` from 0 to 1 into grey colours."""
    return np.repeat(np.rint(image[0] * 255).astype(np.uint8)[..., np.newaxis], 3, axis=2)


def phantoms() -> None:
    """Draw the three phantoms with their truth."""
    rng = np.random.default_rng(3)
    drawn = {kind: draw(kind, (EDGE, EDGE), rng) for kind in ("lesions", "disc-cup", "vessels")}
    pictures = [
        [(kind, grey(image)), (f"{kind}: truth", COLOURS[truth])]
        for kind, (image, truth) in drawn.items()
    ]
    montage([[part for pair in pictures for part in pair]], HERE / "phantoms.png")


def drawers() -> None:
    """Draw what each kind of rater makes of one mask, with its errors in colour."""
    truth = draw("lesions", (EDGE, EDGE), np.random.default_rng(5))[1] > 0
    pictures = [("truth", COLOURS[truth.astype(int)])]
    for name, drawer in DRAWERS.items():
        severity = {"thin": 0.6, "thicken": 0.6, "swell": 3.0, "blank": 1.0}.get(name, 4.0)
        mask = drawer(truth, severity, np.random.default_rng(1))
        pictures.append((f"{name}:{severity:g}", ERRORS[2 * truth + mask]))
    montage([pictures[:8], pictures[8:]], HERE / "drawers.png")


def coarse() -> None:
    """Draw what coarse raters mark of one mask, and of a scene."""
    truth = draw("vessels", (EDGE, EDGE), np.random.default_rng(6))[1]
    layers = Layers(truth)
    marks = []
    for kind in ("positive", "negative"):
        say = partial(draw_area, negative=kind == "negative")
        for share in (1.0, 0.5, 0.01):
            drawn = say(layers, 1, 0.5, np.random.default_rng(1), share)
            marks.append((f"{kind}@{share:g}", _on_grey(truth, drawn, kind == "negative")))
        drawn = say(layers, 1, 0.0, np.random.default_rng(1), level=2)
        marks.append((f"level2 {kind}", _on_grey(truth, drawn, kind == "negative")))
    image, scene = draw("scenes", (EDGE, EDGE), np.random.default_rng(8))
    places = Layers(scene, 4)
    lines = draw_scribbles(places, [1, 2, 3], np.random.default_rng(2))
    row = [
        ("scene", grey(image)),
        ("its classes", CLASSES[scene]),
        ("scribble", _thick(lines)),
        ("box", CLASSES[draw_boxes(places, [1, 2, 3])]),
    ]
    rng = np.random.default_rng(3)
    said = np.max([draw_area(places, target, 0.5, rng, 0.8) for target in (1, 2, 3)], axis=0)
    row.append(("positive", CLASSES[said]))
    for target, name in enumerate(("road", "house", "tree"), start=1):
        said = draw_area(places, target, 0.5, np.random.default_rng(3), 0.8, negative=True)
        row.append((f"negative-{name}", CLASSES[said]))
    montage([marks, row], HERE / "coarse.png")


def _on_grey(truth: np.ndarray, drawn: np.ndarray, denied: bool) -> np.ndarray:
    """Colour a drawing over the truth in grey: blue what is there, orange what is not there."""
    under = np.repeat((40 + 120 * (truth > 0)).astype(np.uint8)[..., np.newaxis], 3, axis=2)
    colour = ERRORS[1] if denied else ERRORS[2]
    return np.where(drawn[..., np.newaxis] > 0, (under // 3 + colour // 3 * 2), under)


def _thick(lines: np.ndarray) -> np.ndarray:
    """Colour lines three pixels wide, so that they can be seen, on a dark sheet."""
    wide = grey_dilation(lines, size=3)
    return np.where(wide[..., np.newaxis] >= 0, CLASSES[wide], np.uint8(70))


def discs() -> None:
    """Draw a disc with its cup and the borders of its raters."""
    study = disc_study(1, (EDGE // 2, EDGE // 2), seed=2)
    case = study[0]
    assert case.image is not None
    assert case.reference is not None
    row = [
        ("image", _twice(grey(case.image.clip(0, 1)))),
        ("truth", _twice(COLOURS[case.reference])),
    ]
    for name, mask in zip(study.raters, case.labels, strict=True):
        inside = 2 * (case.reference > 0) + (mask > 0)
        picture = np.where((mask == 2)[..., np.newaxis], COLOURS[2], ERRORS[inside])
        row.append((name, _twice(picture)))
    montage([row], HERE / "discs.png")


def _twice(picture: np.ndarray) -> np.ndarray:
    return np.asarray(picture.repeat(2, axis=0).repeat(2, axis=1), np.uint8)


def spatial() -> None:
    """Draw raters who are good on one half, what both STAPLEs make of them, and where they err."""
    rng = np.random.default_rng(0)
    truth = draw("vessels", (EDGE, EDGE), rng)[1] > 0
    right = np.arange(EDGE) >= EDGE // 2
    rates = [np.where(right == side, 0.03, 0.3) for side in (False, False, True, True)]
    labels = np.array([truth ^ (rng.random(truth.shape) < rate) for rate in rates], np.int16)
    plain = staple(labels, 2)
    local = spatial_staple(labels, 2, window=61, prior_weight=800, maps=True)
    drawn = [("truth", COLOURS[truth.astype(int)])]
    drawn += [(f"rater {r + 1}", ERRORS[2 * truth + mask]) for r, mask in enumerate(labels)]
    found = [
        ("majority vote", ERRORS[2 * truth + (labels.sum(axis=0) > 2)]),
        ("STAPLE", ERRORS[2 * truth + plain.labels]),
        ("Spatial STAPLE", ERRORS[2 * truth + local.labels]),
    ]
    for r in (0, 2):
        shade = (local_accuracy(local)[r : r + 1].clip(0.6, 1) - 0.6) / 0.4
        found.append((f"accuracy of {r + 1}", grey(shade)))
    montage([drawn, found], HERE / "spatial-staple.png")


def fusion(title: str, pattern: str, case: str, spot: Any) -> None:  # noqa: ANN401
    """Draw what raters said of one case, three fusions, and where raters differ."""
    study = raters.read(pattern, cases=[case])
    labels = study[0].labels
    entropy = entropy_map(study[0].labels, len(study.classes))

    def part(array: np.ndarray) -> np.ndarray:
        space = study[0].geometry
        volume = array.ndim == 3
        return (view_of(space.shape, space.affine).turn(array) if volume else array)[spot]

    row = [
        (name, _picture(CLASSES[part(mask)]))
        for name, mask in zip(study.raters, labels, strict=True)
    ]
    for method in ("vote", "staple", "spatial-staple"):
        row.append((method, _picture(CLASSES[part(raters.fuse(study, method)[0].labels)])))
    heat = np.rint(part(entropy) / max(entropy.max(), 1e-6) * 255).astype(np.uint8)
    row.append(("where they differ", _picture(np.stack([heat, heat // 2, heat // 8], axis=-1))))
    montage([row], HERE / f"fusion-{title}.png")


def _picture(colours: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(colours).resize((EDGE, EDGE), Image.Resampling.NEAREST))


def fusions(data: Path) -> None:
    """Draw fusion on real raters."""
    chase = (slice(300, 620), slice(300, 620))
    fusion("chase", f"{data}/chase_db1/{{case}}_{{rater}}.png", "Image_02R", chase)
    brats = f"{data}/brats_toolkit/{{case}}/segmentation/{{rater}}-20.nii.gz"
    fusion("brats", brats, "*", (123, slice(76, 130), slice(80, 126)))
    lidc = f"{data}/lidc_layout/{{group}}/nodule-{{nodule}}/mask-{{rater}}/slice-{{case}}.png"
    fusion("lidc", lidc, "LIDC-IDRI-0001/0/4", (slice(20, 110), slice(20, 110)))


def nodules(data: Path) -> None:
    """Draw four readers' outlines of a clear and of a disputed nodule, and where they differ."""
    study = raters.datasets.open_dataset("lidc", data / "lidc64").select(cases=[CLEAR, DISPUTED])
    colours = plots.rater_colours(study.raters)
    dice = {row["case"]: row["dice"] for row in raters.agree(study).cases}
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    panels = figure.subplots(1, 3)

    for axes, name in zip(panels, (CLEAR, DISPUTED, DISPUTED), strict=True):
        case = study[name]
        assert case.image is not None
        axes.imshow(case.image[0], cmap="gray", interpolation="bicubic")
        axes.set(xlim=(5, 55), ylim=(63, 13))
        axes.set_axis_off()
    for axes, name in zip(panels, (CLEAR, DISPUTED), strict=False):
        for k, (rater, mask) in enumerate(zip(study.raters, study[name].labels, strict=True)):
            _outline(axes, mask, colours[rater], 3 - 0.6 * k)

    votes = (study[DISPUTED].labels > 0).sum(axis=0)
    differing = np.ma.masked_where((votes == 0) | (votes == 4), votes)
    panels[2].imshow(differing, cmap="autumn", vmin=1, vmax=3, alpha=0.8)
    _outline(panels[2], votes == 4, "white", 1.5)
    panels[0].set_title(f"a clear nodule: Dice {dice[CLEAR]:.2f}")
    panels[1].set_title(f"the case to discuss: Dice {dice[DISPUTED]:.2f}")
    panels[2].set_title("marked by 1 to 3 of 4; by all (white)")
    figure.savefig(HERE / "nodules.png", dpi=110)


def _outline(axes: Any, mask: np.ndarray, colour: str, width: float) -> None:  # noqa: ANN401
    axes.add_collection(LineCollection(plots.border_lines(mask > 0), colors=colour, lw=width))


def learning(demo: Path) -> None:
    """Draw what raters drew, what pixel-cm expects of them, and networks at two cuts."""
    study = raters.read(demo / "study").select(split="test")
    vote, ours = (raters.load(demo / "runs" / name) for name in ("vote", "pixel-cm"))
    case = study[LESION]
    assert case.reference is not None
    assert case.image is not None
    truth = case.reference.astype(int)
    masks = dict(zip(study.raters, case.labels, strict=True))
    drew = [(f"{r} drew", _errors(truth, masks[r])) for r in SHOWN]
    would = [(f"as {r}", _picture(grey(ours.as_rater(case, r)[1:]))) for r in SHOWN]
    cuts = [
        (f"{name}, cut {float(model.cut(cut)[0]):.2g}", _errors(truth, model.predict(case, cut)))
        for name, model in (("vote", vote), ("pixel-cm", ours))
        for cut in (0.5, "best")
    ]
    rows = [
        [("image", _picture(grey(case.image / 255))), *drew],
        [("truth", _picture(COLOURS[truth])), *would],
        [("p of pixel-cm", _picture(grey(ours.truth(case)[1:]))), *cuts],
    ]
    montage(rows, HERE / "learning.png")


CLEAR = "LIDC-IDRI-0490/0/17"
DISPUTED = "LIDC-IDRI-0203/1/9"
LESION = "test/lesions0300"
SHOWN = ("careful", "generous", "thin", "broken")
"""The cases of LIDC and of the demo, and whose masks; the fifth rater hands in nothing."""


def _errors(truth: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return _picture(ERRORS[2 * truth + mask])


if __name__ == "__main__":
    phantoms()
    drawers()
    coarse()
    discs()
    spatial()
    if len(sys.argv) > 1 and sys.argv[1]:
        learning(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        nodules(Path(sys.argv[2]))
        fusions(Path(sys.argv[2]))
