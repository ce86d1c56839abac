"""Draws the pictures of the docs: `python docs/pictures/draw.py` writes them beside itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from raters.simulate.masks import DRAWERS
from raters.simulate.phantoms import draw

HERE = Path(__file__).parent
EDGE, GAP, TITLE = 128, 6, 16
COLOURS = np.array([[20, 20, 20], [240, 240, 240], [120, 190, 255]], np.uint8)
ERRORS = np.array([[0, 0, 0], [220, 60, 60], [60, 170, 90], [255, 255, 255]], np.uint8)
"""True negative, false positive, false negative, true positive."""


def montage(rows: list[list[tuple[str, np.ndarray]]], path: Path) -> None:
    """Put titled pictures `(rows, columns, 3)` on one white sheet."""
    wide, high = EDGE + GAP, EDGE + GAP + TITLE
    sheet = Image.new("RGB", (wide * max(map(len, rows)) + GAP, high * len(rows) + GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for i, row in enumerate(rows):
        for j, (title, picture) in enumerate(row):
            corner = (GAP + j * wide, GAP + i * high)
            pen.text(corner, title, fill="black")
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


if __name__ == "__main__":
    phantoms()
    drawers()
