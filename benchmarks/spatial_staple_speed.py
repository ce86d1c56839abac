"""Time of Spatial STAPLE on 5 raters x 512 x 512 by window size: it must not depend on it.

Steps are timed at a fixed number of 10, and a whole run to its end; the fastest of three counts.
On a busy machine compare the time of processors.

    python benchmarks/spatial_staple_speed.py [--volume]      # also 5 raters x 192^3
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from raters.fusion._spatial_staple import spatial_staple
from raters.fusion._staple import staple

STEPS = 10


def draw(space: tuple[int, ...], raters: int = 5) -> np.ndarray:
    """Draw blobs, and raters whose error grows along the last axis or against it."""
    random = np.random.default_rng(0)
    axes = np.ogrid[tuple(slice(0, n) for n in space)]
    truth = sum(np.sin(axis / 15.0) for axis in axes) > 0.5
    along = np.broadcast_to(axes[-1] / space[-1], space)
    labels = np.empty((raters, *space), np.int16)
    for r in range(raters):
        rate = 0.02 + 0.2 * (along if r % 2 else 1 - along)
        labels[r] = truth ^ (random.random(space, np.float32) < rate)
    return labels


def fastest(labels: np.ndarray, repeats: int, **options: float) -> tuple[float, float, int]:
    """Return the seconds of the fastest run, by the clock and by the processor, and its steps."""
    runs = []
    for _ in range(repeats):
        clock = time.perf_counter()
        processor = time.process_time()
        steps = spatial_staple(labels, 2, **options).iterations
        runs.append((time.perf_counter() - clock, time.process_time() - processor, steps))
    return min(runs)


def measure(labels: np.ndarray, repeats: int) -> None:
    """Print the times of one image."""
    print(f"{labels.shape[0]} raters x {' x '.join(map(str, labels.shape[1:]))}")
    start = time.perf_counter()
    staple(labels, 2)
    print(f"  plain STAPLE (the start) {time.perf_counter() - start:.3f} s")
    for window in (5, 25, 101):
        options = {"window": window, "max_iter": STEPS, "tol": 0.0}
        clock, processor, _ = fastest(labels, repeats, **options)
        whole, _, steps = fastest(labels, repeats, window=window)
        print(
            f"  window {window:3}: {STEPS} steps {clock:6.2f} s ({processor:6.2f} s of processors)"
        )
        print(f"              to its end {whole:6.2f} s, {steps} steps")


def main() -> None:
    """Print times and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--volume", action="store_true", help="also 5 raters x 192^3")
    options = parser.parse_args()
    spatial_staple(draw((32, 32)), 2)  # compiles
    measure(draw((512, 512)), repeats=3)
    if options.volume:
        measure(draw((192, 192, 192)), repeats=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB (drawing the labels included)")


if __name__ == "__main__":
    main()
