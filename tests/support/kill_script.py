"""Trains each toy method in a process that kills itself in the middle of an epoch.

Arguments: the folder that the runs are written to; run by test_method_protocol.py.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import raters
import raters.learning.training.fit  # before the fork: each child would import it again
from raters.learning.methods.base import Batch, Step
from raters.study.study import Study
from tests.support.distributed_script import PLAIN, make_noisy_masks
from tests.support.toy_methods import TOYS, registered

OPTIONS: dict[str, Any] = {**PLAIN, "epochs": 4, "batch_size": 3, "progress": False, "lr": 0.01}
EPOCH = 2  # of 0 to 3: the second round of `toy-rounds` has begun


def options_of(name: str) -> dict[str, Any]:
    """Return the options of a toy; the one with a pass sees cases in tiles."""
    return {**OPTIONS, "patch_size": (5, 4)} if name == "toy-em" else OPTIONS


def train_and_die(study: Study, name: str, folder: Path) -> None:
    """Train until the second step of an epoch."""
    toy: Any = TOYS[name]
    start_epoch = toy.start_epoch
    step = toy.step
    steps = list[int]()

    def counting(self: Any, epoch: int) -> None:
        steps[:] = [epoch]
        start_epoch(self, epoch)

    def dying(self: Any, batch: Batch) -> Step:
        steps.append(0)
        if steps[0] == EPOCH and len(steps) > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        found: Step = step(self, batch)
        return found

    toy.start_epoch = counting
    toy.step = dying
    raters.fit(study, name, folder=folder, **options_of(name))


if __name__ == "__main__":
    study = make_noisy_masks()
    with registered():
        for name in TOYS:
            child = os.fork()
            if not child:
                train_and_die(study, name, Path(sys.argv[1]) / name)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, name
