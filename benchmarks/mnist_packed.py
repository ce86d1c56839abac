"""How fast 60,000 images of 28 x 28 with labels become a packed study, and how fast it opens.

Run it as `python benchmarks/mnist_packed.py [FOLDER]`: the folder holds MNIST's own files
(`train-images-idx3-ubyte`, with or without .gz); without it the images are drawn at random.
Three raters give each image a class, one of them skips half. Opening is timed in a fresh process.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import raters

CASES = 60_000
OPEN = """
import sys, time
import raters
start = time.perf_counter()
study = raters.read(sys.argv[1])
opened = time.perf_counter()
case = study[len(study) - 1]
image, labels = case.image, case.labels
print(opened - start, time.perf_counter() - opened)
"""


def load(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Return images `(cases, 1, 28, 28)` and their classes."""
    if folder is None:
        rng = np.random.default_rng(0)
        drawn = rng.integers(0, 256, (CASES, 1, 28, 28), dtype=np.uint8)
        return drawn, rng.integers(0, 10, CASES)
    images = _read(folder, "train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    return images, _read(folder, "train-labels-idx1-ubyte", 8).astype(np.int64)


def _read(folder: Path, name: str, header: int) -> np.ndarray:
    packed = folder / f"{name}.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    return np.frombuffer(data, np.uint8, offset=header)


def main() -> None:
    """Print seconds to write, to open, and to read one case."""
    images, truth = load(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    rng = np.random.default_rng(1)
    wrong = rng.integers(0, 10, (len(truth), 3))
    labels = np.where(rng.random((len(truth), 3)) < 0.8, truth[:, np.newaxis], wrong)
    labels[rng.random(len(truth)) < 0.5, 2] = raters.MISSING
    study = raters.Study.from_arrays(images=images, labels=labels, reference=truth)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "study")
        start = time.perf_counter()
        study.write(out, form="packed")
        written = time.perf_counter() - start
        size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
        print(f"{len(study):,} images of 28 x 28, {labels.size:,} labels, {size:.0f} MB")
        print(f"write  {written:6.2f} s  ({len(study) / written:,.0f} cases a second)")
        start = time.perf_counter()
        command = [sys.executable, "-c", OPEN, str(out)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        whole = time.perf_counter() - start
        opened, read = map(float, run.stdout.split())
        print(f"open   {opened:6.2f} s  ({whole:.2f} s with the start of Python)")
        print(f"case   {read:6.3f} s  to read the last one")


if __name__ == "__main__":
    main()
