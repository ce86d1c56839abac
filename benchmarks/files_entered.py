"""How much of the code a reader meets in one training, one evaluation and one fusion.

    python benchmarks/files_entered.py TREE [TREE ...]

A tree is a checkout: its `src` is used. On a small PNG study (24 cases, 3 raters, 6 masks not
drawn) `fuse -m staple`, `train -m pixel-cm` of 2 epochs and `evaluate run` are run under
`sys.setprofile`. A file is entered when one of its functions is called (importing it is not
enough). Openings of mask files are seen by an audit hook, whichever library reads them: until the
first epoch begins, until it has ended (its own reading of the cases included), and in all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image

CASES = 24
RATERS = ("ann", "bob", "cat")
SIDE = 32
FUNCTION = 0x01
VERBS = {
    "fuse": "fuse masks/{rater}/{case}.png -m staple -o fused",
    "train": "train masks/{rater}/{case}.png --images images/{case}.png -m pixel-cm -o run"
    " --epochs 2 --width 4 --depth 2",
    "evaluate": "evaluate run masks/{rater}/{case}.png --images images/{case}.png"
    " --reference truth/{case}.png --split val -o scores",
    "report": "report run",
}
OTHER_WORDS = {"val": "held-out", "--epochs": "--max-epochs"}
"""Words that another version of raters has in place of those above."""


def make_study(folder: Path) -> int:
    """Draw noisy discs and what three raters make of them; return the number of masks."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    masks = 0
    for name in ("images", "truth", *(f"masks/{rater}" for rater in RATERS)):
        (folder / name).mkdir(parents=True)
    for case in range(CASES):
        middle = random.uniform(10, SIDE - 10, 2)
        radius = random.uniform(4, 8)
        distance = np.hypot(rows - middle[0], columns - middle[1])
        image = 90 + 70 * (distance < radius) + random.normal(0, 15, distance.shape)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / f"images/c{case:02}.png")
        truth = (distance < radius).astype(np.uint8)
        Image.fromarray(truth).save(folder / f"truth/c{case:02}.png")
        for k, rater in enumerate(RATERS):
            if (case + 4 * k) % 12 == 0:  # 2 of each rater
                continue
            drawn = distance < radius + (0, 1.5, -1.5)[k]
            Image.fromarray(drawn.astype(np.uint8)).save(folder / f"masks/{rater}/c{case:02}.png")
            masks += 1
    return masks


class Watch:
    """Counts the functions of a tree that are called, and the mask files that are opened."""

    def __init__(self, tree: Path, masks: Path) -> None:
        self.source = str(tree / "src" / "raters")
        self.masks = str(masks) + os.sep
        self.functions: set[CodeType] = set()
        self.opened: Counter[str] = Counter()
        self.until: dict[str, int] = {}

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call of a function in the tree, and where Lightning's epochs begin and end."""
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(self.source):
            if code.co_flags & FUNCTION:  # bodies of classes and modules are no functions
                self.functions.add(code)
        elif code.co_filename.endswith("fit_loop.py"):
            self.until.setdefault(code.co_name, sum(self.opened.values()))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note that a mask is opened."""
        if event == "open" and isinstance(arguments[0], str):
            path = str(Path(arguments[0]).absolute())
            if path.startswith(self.masks):
                self.opened[path] += 1

    def found(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "functions": len(self.functions),
            "files": len({code.co_filename for code in self.functions}),
            "masks": len(self.opened),
            "before": self.until.get("on_advance_start"),
            "first": self.until.get("on_advance_end"),
            "openings": sum(self.opened.values()),
            "most": max(self.opened.values(), default=0),
            "names": sorted({code.co_filename for code in self.functions}),
        }


def walk(tree: Path, arguments: list[str]) -> None:
    """Run a verb in this process and print what it entered, as JSON, in a line of its own."""
    watch = Watch(tree, Path.cwd() / "masks")
    sys.addaudithook(watch.audit)
    from raters.cli import main as verb

    sys.argv = ["raters", *arguments]
    code: object = 0
    sys.setprofile(watch.profile)
    try:
        verb()
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
    print("\n" + json.dumps({"code": code, **watch.found()}))


def walked(tree: Path, folder: Path, command: str) -> dict[str, Any]:
    """Run a verb of a tree in a process of its own; return what it entered."""
    words = command.split()
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, __file__, "--walk", str(tree), *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1]) if ended.stdout else {}
        if found.get("code") in (0, None) and found:
            return found
        words = [OTHER_WORDS.get(word, word) for word in words]
    sys.exit(f"{tree}: {command} ended with {found.get('code')}\n{ended.stderr[-2000:]}")


def main() -> None:
    """Print a table of all trees and verbs."""
    if sys.argv[1:2] == ["--walk"]:
        walk(Path(sys.argv[2]), sys.argv[3:])
        return
    names = "--names" in sys.argv
    trees = [Path(word).resolve() for word in sys.argv[1:] if word != "--names"]
    head = ("tree", "verb", "functions", "files", "before epoch 1", "after it", "openings", "most")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for tree in trees:
        with tempfile.TemporaryDirectory() as temporary:
            masks = make_study(Path(temporary))
            for verb, command in VERBS.items():
                found = walked(tree, Path(temporary), command)
                counts = [found[k] for k in ("functions", "files", "before", "first")]
                row = [tree.name, verb, *counts, f"{found['openings']} of {masks}", found["most"]]
                print("| " + " | ".join("-" if c is None else str(c) for c in row) + " |")
                if names:
                    print(*found["names"], sep="\n")


if __name__ == "__main__":
    main()
