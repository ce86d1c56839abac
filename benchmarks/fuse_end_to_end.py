"""Whole verbs against plain scripts with the peers: reading, the work and writing, from the shell.

    python benchmarks/fuse_end_to_end.py --peer /path/to/python   # one that has crowd-kit

`raters fuse -m dawid-skene` on a table beside crowd-kit; `raters fuse -m staple` and `raters agree`
on masks, from NIfTI and from PNG files, beside SimpleITK. Each is a process of its own, start-up
included; the best of some runs counts. Both sides write the same things, but raters also writes the
raters' measures with intervals (fuse) and kappa, alpha and more (agree). crowd-kit is no dependency
of raters: without --peer its row is left out.
"""

from __future__ import annotations

import argparse
import csv
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CROWD_KIT = """
import sys
import pandas as pd
from crowdkit.aggregation import DawidSkene
table = pd.read_csv(sys.argv[1], dtype={"task": str, "worker": str})
DawidSkene(n_iter=100).fit_predict(table).to_csv(sys.argv[2])
"""
STAPLE = """
import sys
from pathlib import Path
import SimpleITK as sitk
source, out, suffix = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
out.mkdir(parents=True, exist_ok=True)
raters = sorted(p for p in source.iterdir())
for file in sorted(raters[0].glob("*" + suffix)):
    masks = [sitk.ReadImage(str(r / file.name)) for r in raters]
    if suffix == ".png":
        masks = [sitk.Cast(m > 0, sitk.sitkUInt8) for m in masks]
    soft = sitk.STAPLE(masks, 1.0)
    sitk.WriteImage(sitk.Cast(soft > 0.5, sitk.sitkUInt8), str(out / file.name))
"""
AGREE = """
import csv, sys
from itertools import combinations
from pathlib import Path
import SimpleITK as sitk
source, out, suffix = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
raters = sorted(p for p in source.iterdir())
rows = []
for file in sorted(raters[0].glob("*" + suffix)):
    masks = [sitk.GetArrayFromImage(sitk.ReadImage(str(r / file.name))) > 0 for r in raters]
    sizes = [m.sum() for m in masks]
    for a, b in combinations(range(len(masks)), 2):
        dice = 2 * (masks[a] & masks[b]).sum() / max(sizes[a] + sizes[b], 1)
        rows.append([file.name, raters[a].name, raters[b].name, dice])
out.mkdir(parents=True, exist_ok=True)
with open(out / "dice.csv", "w", newline="") as f:
    csv.writer(f).writerows([["case", "a", "b", "dice"], *rows])
"""


@dataclass(frozen=True)
class Pair:
    """A verb and the script that does the same."""

    name: str
    ours: list[str]
    theirs: list[str]


def write_table(path: Path, tasks: int = 1982, workers: int = 100, each: int = 14) -> None:
    """Draw answers of four classes by workers who are right 40 to 90 % of the time."""
    random = np.random.default_rng(0)
    right = random.uniform(0.4, 0.9, workers)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["task", "worker", "label"])
        for task, truth in enumerate(random.integers(0, 4, tasks)):
            for worker in random.choice(workers, each, replace=False):
                known = random.random() < right[worker]
                label = truth if known else random.integers(4)
                rows.writerow([f"task{task}", f"worker{worker}", int(label)])


def write_masks(folder: Path, suffix: str, cases: int, shape: tuple[int, ...]) -> None:
    """Write balls as five raters draw them: too large, too small, aside."""
    import SimpleITK as sitk  # noqa: N813

    random = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))
    for case in range(cases):
        middle = np.array(shape) * random.uniform(0.4, 0.6, len(shape))
        for rater in range(5):
            aside = middle + random.normal(0, 2, len(shape))
            size = min(shape) * 0.3 * (1 + 0.1 * (rater - 2))
            away = np.square(grid - aside.reshape(-1, *[1] * len(shape))).sum(axis=0)
            mask = (away < size**2).astype(np.uint8) * (255 if suffix == ".png" else 1)
            file = folder / f"rater{rater}" / f"case{case:02d}{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            sitk.WriteImage(sitk.GetImageFromArray(mask), str(file))


def took(command: list[str], out: Path) -> tuple[float, float]:
    """Run a command that writes to a new folder; give seconds of the clock and of all cores."""
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def compare(pair: Pair, out: Path, repeats: int) -> None:
    """Print a line: the best times of both, in turns, and their ratios."""
    took(pair.ours, out)  # compiles, or reads what was compiled
    runs = [(took(pair.ours, out), took(pair.theirs, out)) for _ in range(repeats)]
    wall, cpu = ([min(run[side][what] for run in runs) for side in (0, 1)] for what in (0, 1))
    print(
        f"{pair.name:28}{wall[0]:8.2f}{wall[1]:8.2f}{wall[1] / wall[0]:7.1f}"
        f"{cpu[0]:9.2f}{cpu[1]:8.2f}{cpu[1] / cpu[0]:7.1f}",
        flush=True,
    )


def pairs(folder: Path, out: Path, peer: str | None, own_table: str | None) -> list[Pair]:
    """Make the data and the commands."""
    raters = str(Path(sys.executable).with_name("raters"))
    scripts = {"crowd": CROWD_KIT, "staple": STAPLE, "agree": AGREE}
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
    found = []
    if peer is not None:
        path = Path(own_table) if own_table else folder / "table.csv"
        if own_table is None:
            write_table(path)
        verb = [raters, "fuse", str(path), "-m", "dawid-skene", "-o", str(out)]
        script = [peer, str(folder / "crowd.py"), str(path), str(folder / "labels.csv")]
        found.append(Pair("dawid-skene, table", verb, script))
    for suffix, cases, shape in ((".nii.gz", 8, (96, 128, 128)), (".png", 40, (512, 512))):
        masks = folder / suffix.strip(".")
        write_masks(masks, suffix, cases, shape)
        pattern = str(masks / ("{rater}/{case}" + suffix))
        for name, more in (("staple", ["fuse", "-m", "staple"]), ("agree", ["agree"])):
            script = [sys.executable, str(folder / f"{name}.py"), str(masks), str(out), suffix]
            verb = [raters, more[0], pattern, *more[1:], "-o", str(out)]
            found.append(Pair(f"{name}, {cases} x 5 {suffix}", verb, script))
    return found


def usable(peer: str | None) -> str | None:
    """Return the interpreter if it has crowd-kit; else say that its row is left out."""
    if peer is None:
        print("without --peer PYTHON (one that has crowd-kit): its row is left out")
        return None
    try:
        done = subprocess.run([peer, "-c", "import crowdkit"], capture_output=True).returncode
    except OSError as error:
        done = 1
        peer = f"{peer} ({error})"
    if done:
        print(f"found no crowd-kit at {peer}: its row is left out")
        return None
    return peer


def main() -> None:
    """Print a line a verb."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python interpreter that has crowd-kit")
    parser.add_argument("--table", help="a CSV file of task, worker, label, instead of a drawn one")
    parser.add_argument("--only", default="", help="rows whose name has this in it, such as agree")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    peer = usable(chosen.peer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        todo = pairs(folder, folder / "out", peer, chosen.table)
        print(
            f"{'seconds':28}{'raters':>8}{'peer':>8}{'ratio':>7}{'raters':>9}{'peer':>8}{'ratio':>7}"
        )
        print(f"{'':28}{'of the clock':>23}{'of all cores':>24}")
        for pair in (p for p in todo if chosen.only in p.name):
            compare(pair, folder / "out", chosen.repeats)


if __name__ == "__main__":
    main()
