"""Peak memory of `raters check` and `raters import` with few and with many cases.

Run it as `python benchmarks/study_memory.py [FEW] [MANY]`: 100 and 1,000 by default, each with an
image and masks by five raters, 256 x 256 PNG. Each command has a process of its own, and the peak
of its resident memory is what Linux measured (VmHWM). The ratio should be about 1.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 256
RATERS = 5
COMMANDS = {
    "check": ["check", "{masks}", "--images", "{images}"],
    "import canonical": ["import", "{masks}", "--images", "{images}", "-o", "{folder}/canonical"],
    "import packed": [
        *("import", "{masks}", "--images", "{images}", "-o", "{folder}/packed", "--form", "packed")
    ],
    "check canonical": ["check", "{folder}/canonical"],
    "check packed": ["check", "{folder}/packed"],
}
# Not getrusage: its peak starts with that of the process that started this one.
MEASURE = """
import sys
from raters.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])
"""


def draw(folder: Path, cases: int) -> None:
    """Write random blobs as masks by all raters, and noise as images."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for name in ("images", *(f"masks/r{k}" for k in range(RATERS))):
        (folder / name).mkdir(parents=True)
    for case in range(cases):
        noise = rng.integers(0, 256, (SIZE, SIZE), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"images/c{case}.png")
        for rater in range(RATERS):
            row, column, radius = rng.uniform((60, 60, 10), (200, 200, 50))
            mask = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
            Image.fromarray(mask.astype(np.uint8)).save(folder / f"masks/r{rater}/c{case}.png")


def measure(arguments: list[str]) -> tuple[float, float]:
    """Run a command in a process of its own; give seconds and peak resident memory in MB."""
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, *arguments], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - start, int(run.stdout.split()[-1]) * 1024 / 1e6


def main() -> None:
    """Print a line a command: seconds and memory for few and many cases, and the ratio."""
    few = 100
    many = 1000
    if len(sys.argv) > 2:
        few, many = (int(n) for n in sys.argv[1:3])
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for cases in (few, many):
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder), cases)
            places = {
                "folder": folder,
                "masks": f"{folder}/masks/{{rater}}/{{case}}.png",
                "images": f"{folder}/images/{{case}}.png",
            }
            for name, command in COMMANDS.items():
                found[name].append(measure([part.format(**places) for part in command]))
    print(f"{RATERS} raters, {SIZE} x {SIZE}")
    print(f"{'':17} {few:>7,} cases {many:>14,} cases     memory ratio")
    for name, ((seconds, memory), (more_seconds, more)) in found.items():
        times = f"{seconds:5.1f} s {memory:4.0f} MB {more_seconds:8.1f} s {more:4.0f} MB"
        print(f"{name:17} {times} {more / memory:12.2f}")


if __name__ == "__main__":
    main()
