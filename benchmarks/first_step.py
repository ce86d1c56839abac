"""How long it takes from the start of the process to the first optimiser step.

Run it as `python benchmarks/first_step.py [CASES]`: 10,000 by default, each with an image and masks
by three raters, 32 x 32 PNG, and the same study in the packed form. A step is whole when its
weights have changed. The user's and the system's seconds of the process are printed too, as they
depend less on what else the machine does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from training_memory import draw

MEASURE = """
import os, resource, sys, time
started, place, method = float(sys.argv[1]), sys.argv[2], sys.argv[3]
def told(what):
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f'{what}={time.time() - started:.2f},{used.ru_utime + used.ru_stime:.2f}', flush=True)
import raters
if os.path.isdir(place + '/masks'):
    study = raters.read(place + '/masks/{rater}/{case}.png', images=place + '/images/{case}.png')
else:
    study = raters.read(place)
told('read')
from raters.learning.training import engine, fit, prepare
from raters.learning.training.engine import Learner
told('import')
made = fit.make_method
fit.make_method = lambda planned: (told('plan'), made(planned))[1]
begin = Learner.on_train_epoch_start
Learner.on_train_epoch_start = lambda self: (told('loop'), begin(self))[1]
def first(self, *_):
    told('step')
    os._exit(0)
Learner.on_train_batch_end = first
raters.fit(study, method, progress=False)
"""


def measure(place: str, method: str) -> str:
    """Return seconds (wall, and of the process) up to each stage, as the process tells them."""
    command = [sys.executable, "-c", MEASURE, str(time.time()), place, method]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    stages = [line.split("=") for line in run.stdout.split() if "=" in line]
    return "  ".join(
        f"{name} {float(wall):5.1f} s ({float(own):4.1f})"
        for name, (wall, own) in ((name, times.split(",")) for name, times in stages)
    )


def main() -> None:
    """Print a line a study and method."""
    import raters

    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder) / "files", cases, size=32)
        files = f"{folder}/files"
        packed = f"{folder}/packed"
        pattern = "{case}.png"
        study = raters.read(
            f"{files}/masks/{{rater}}/{pattern}", images=f"{files}/images/{pattern}"
        )
        study.write(packed, "packed")
        print(f"{cases:,} cases, 3 raters, 32 x 32: seconds since the start (of the process)")
        for place, name in ((files, "files"), (packed, "packed")):
            for method in ("pixel-cm", "vote"):
                print(f"{name:6} {method:8} {measure(place, method)}", flush=True)


if __name__ == "__main__":
    main()
