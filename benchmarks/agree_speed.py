"""Time of `raters agree` on 1,000 cases x 5 raters of 256 x 256, and the ratio to a plain loop.

The plain loop goes over cases and pairs of raters: SimpleITK's LabelOverlapMeasures for Dice and
IoU, scikit-learn's cohen_kappa_score for kappa. It is timed on fewer cases (it is slow) and
compared by time a case, in one process on the same arrays.

    python benchmarks/agree_speed.py [--cases 1000] [--surfaces]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import SimpleITK
from sklearn.metrics import cohen_kappa_score

import raters
from raters.study.study import Study

SIZE = 256
RATERS = 5
PLAIN_CASES = 10


def draw(cases: int) -> np.ndarray:
    """Draw discs that raters place a little differently."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE].astype(np.int16)
    labels = np.zeros((cases, RATERS, SIZE, SIZE), np.int8)
    for k in range(cases):
        centre = random.uniform(80, 176, 2)
        radius = random.uniform(20, 60)
        for r in range(RATERS):
            row, column = centre + random.normal(0, 3, 2)
            labels[k, r] = np.hypot(rows - row, columns - column) < radius + random.normal(0, 3)
    return labels


def plain(labels: np.ndarray) -> list[float]:
    """Compare all pairs of raters one by one; the scores by pair, averaged over cases."""
    scores = []
    for case in labels:
        images = [SimpleITK.GetImageFromArray(mask.astype(np.uint8)) for mask in case]
        for a, b in combinations(range(RATERS), 2):
            measures = SimpleITK.LabelOverlapMeasuresImageFilter()
            measures.Execute(images[a], images[b])
            kappa = cohen_kappa_score(case[a].ravel(), case[b].ravel())
            scores.append(
                [measures.GetDiceCoefficient(1), measures.GetJaccardCoefficient(1), kappa]
            )
    return np.array(scores).reshape(len(labels), -1, 3).mean(axis=0)[:, 0].tolist()


def timed(study: Study, surfaces: bool = False) -> tuple[float, list[float]]:
    """Time `raters.agree`; also give the Dice of each pair."""
    start = time.perf_counter()
    result = raters.agree(study, surfaces=surfaces)
    seconds = time.perf_counter() - start
    return seconds, [row["dice"] for row in result.pairs if row["class"] == "all"]


def main() -> None:
    """Print times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--surfaces", action="store_true", help="also time HD95 and surfaces")
    options = parser.parse_args()
    labels = draw(options.cases)
    few = Study.from_arrays(labels=labels[:PLAIN_CASES])
    ours = min(timed(few)[0] for _ in range(5)) / PLAIN_CASES
    start = time.perf_counter()
    expected = plain(labels[:PLAIN_CASES])
    theirs = (time.perf_counter() - start) / PLAIN_CASES
    np.testing.assert_allclose(timed(few)[1], expected, atol=1e-12)
    print(f"plain loop        {1e3 * theirs:9.1f} ms a case")
    print(f"raters            {1e3 * ours:9.1f} ms a case")
    print(f"ratio             {theirs / ours:9.1f}")
    with tempfile.TemporaryDirectory() as folder:
        Study.from_arrays(labels=labels).write(Path(folder, "study"))
        del labels
        study = raters.read(Path(folder, "study"))
        print(f"{options.cases} cases as PNG {timed(study)[0]:9.1f} s")
        if options.surfaces:
            print(f"  with surfaces   {timed(study, surfaces=True)[0]:9.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory       {peak:9.0f} MB (the drawn labels included)")


if __name__ == "__main__":
    main()
