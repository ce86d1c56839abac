"""Peak memory of training with few and with many cases on disk.

Run it as `python benchmarks/training_memory.py [CASES ...]`: 100, 1,000 and 4,000 by default, each
with an image and masks by three raters, 128 x 128 PNG. Each training has a process of its own, and
the peak of its resident memory is what Linux measured (VmHWM). With a `cache` of 20 MB all cases
but the first 150 or so are on disk while it trains: beyond the index memory should not grow. With
the default of 2 GB it grows by the cases that are kept on purpose.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 128
RATERS = 3
CACHES = (0.02, 2.0)
# Not getrusage: its peak starts with that of the process that started this one.
MEASURE = """
import sys
import raters
folder, cache, method = sys.argv[1], float(sys.argv[2]), sys.argv[3]
study = raters.read(folder + '/masks/{rater}/{case}.png', images=folder + '/images/{case}.png')
options = dict(network='patch-cnn', width=2, depth=1, epochs=2, warm_up=1, progress=False)
if method == 'vote':
    options.pop('warm_up')
raters.fit(study, method, cache=cache, num_workers=0, **options)
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])
"""


def draw(folder: Path, cases: int, size: int = SIZE) -> None:
    """Write random blobs as masks by all raters, and noise as images."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:size, :size]
    for name in ("images", *(f"masks/r{k}" for k in range(RATERS))):
        (folder / name).mkdir(parents=True)
    for case in range(cases):
        row, column, radius = rng.uniform(0.3 * size, 0.7 * size, 3) * (1, 1, 0.4)
        for rater in range(RATERS):
            mask = (rows - row) ** 2 + (columns - column) ** 2 < (radius + rater) ** 2
            Image.fromarray(mask.astype(np.uint8)).save(folder / f"masks/r{rater}/c{case}.png")
        image = rng.integers(0, 156, (size, size), dtype=np.uint8) + 100 * mask.astype(np.uint8)
        Image.fromarray(image).save(folder / f"images/c{case}.png")


def measure(folder: str, cache: float, method: str) -> tuple[float, float]:
    """Train in a process of its own; give seconds and peak resident memory in MB."""
    start = time.perf_counter()
    command = [sys.executable, "-c", MEASURE, folder, str(cache), method]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(run.stdout.split()[-1]) * 1024 / 1e6


def main() -> None:
    """Print a line a number of cases, method and cache, and what a case takes."""
    numbers = [int(n) for n in sys.argv[1:]] or [100, 1000, 4000]
    print(f"{RATERS} raters, {SIZE} x {SIZE}")
    peaks: dict[tuple[str, float], list[float]] = {}
    for cases in numbers:
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder), cases)
            for method, cache in (("pixel-cm", CACHES[0]), ("vote", CACHES[0]), ("pixel-cm", 2.0)):
                seconds, memory = measure(folder, cache, method)
                peaks.setdefault((method, cache), []).append(memory)
                print(
                    f"{method:9} cache {cache:4} GB {cases:6,} cases {seconds:6.1f} s "
                    f"{memory:6.0f} MB",
                    flush=True,
                )
    for (method, cache), found in peaks.items():
        more = (found[-1] - found[0]) * 1e6 / max(numbers[-1] - numbers[0], 1)
        ratio = found[-1] / found[0]
        print(f"{method:9} cache {cache:4} GB: ratio {ratio:.2f}, {more:,.0f} bytes a further case")


if __name__ == "__main__":
    main()
