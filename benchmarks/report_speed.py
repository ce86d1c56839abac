"""How long `raters report` takes, and how large the page is: 1,000 cases, 5 raters, 256 x 256 PNG.

    python benchmarks/report_speed.py [--cases 1000] [--folder FOLDER]

Draws cases, writes them as files, fuses them, and measures the report of the study and that of the
fusion. The goals are 60 s and 10 MB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import raters
from raters.api import report
from raters.consensus.write import write_consensus
from raters.study.places import remember_study

NAMES = {"good": 0, "over": 3, "under": -3, "wide": 6, "shifted": 0}
SIDE = 256


def draw(folder: Path, cases: int) -> dict[str, str]:
    """Write images and masks; give the arguments of `raters.read`."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    random = np.random.default_rng(0)
    for name in (*NAMES, "images"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for case in range(cases):
        y, x = random.uniform(80, 176, 2)
        radius = random.uniform(12, 50)
        noise = random.normal(0, 20, (SIDE, SIDE))
        for name, more in NAMES.items():
            off = 5 if name == "shifted" else 0
            wobble = 2 * np.sin(np.arctan2(rows - y, columns - x) * 5 + random.uniform(0, 6))
            mask = np.hypot(rows - y, columns - x - off) < radius + more + wobble
            Image.fromarray(mask.astype(np.uint8)).save(folder / name / f"{case:04d}.png")
        inside = np.hypot(rows - y, columns - x) < radius
        image = (100 + 60 * inside + noise).clip(0, 255).astype(np.uint8)
        Image.fromarray(image).save(folder / "images" / f"{case:04d}.png")
    named = ",".join(NAMES)
    return {
        "source": str(folder / "{rater}" / "{case}.png"),
        "images": str(folder / "images" / "{case}.png"),
        "raters": named,
    }


def measure(what: str, source: object, out: Path) -> None:
    """Print seconds and size of one report."""
    start = time.perf_counter()
    used = time.process_time()
    page = report(source, out)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    used = time.process_time() - used
    size = page.stat().st_size / 1e6
    print(f"{what:8} {seconds:6.1f} s ({used:.1f} s of a core)  {size:5.2f} MB")


def main() -> None:
    """Draw, fuse, report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--folder", default="")
    given = parser.parse_args()
    folder = Path(given.folder if given.folder else tempfile.mkdtemp())
    options = draw(folder / "data", given.cases)
    kept = {**options, "raters": options["raters"].split(",")}
    study = raters.read(**kept)  # type: ignore[arg-type]
    write_consensus(raters.fuse(study, "staple"), folder / "consensus")
    remember_study(folder / "consensus", kept)
    measure("study", raters.read(**kept), folder / "report-study")  # type: ignore[arg-type]
    measure("fusion", folder / "consensus", folder / "report-fusion")


if __name__ == "__main__":
    main()
