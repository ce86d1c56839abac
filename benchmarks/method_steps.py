"""What a training step of each learning method costs beside the modules that it runs.

A step (`method.step(batch)` and backward) is taken as training does: after `prepare`, passes over
all cases and `start_epoch`, once for each phase and each optimiser's turn. Hooks note which modules
are called from outside of any other, with which inputs; the same calls are then replayed with the
sum of their outputs as the loss. Printed is the CPU time of both and their ratio: what a method
adds (likelihood, posteriors, targets) is above 1. Calls without gradients, as those of a frozen
copy, are replayed without.

Masks: 4 images of 3 x 96 x 96, 4 raters, 3 classes, the default U-Net. Images: 64 of 3 x 32 x 32,
5 answers each, 8 classes, the default CNN. Tables: 64 cases of 512 features, the same answers, the
default perceptron, whose passes take less than half a millisecond.

    python benchmarks/method_steps.py [--methods gem,mbem] [--kinds masks] [--repeats 9]
"""

from __future__ import annotations

import argparse
import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from raters.learning.methods.base import Batch, Method
from raters.learning.methods.phases import Snapshot
from raters.learning.training.engine import Learner
from raters.learning.training.loader import whole_cases
from raters.learning.training.options import checked_options
from raters.learning.training.prepare import make_loader, make_method, plan_training
from raters.study.study import Study

EPOCHS = 4
KINDS = {"masks": "segmentation", "images": "classification", "table": "classification"}
OPTIONS: dict[str, dict[str, Any]] = {
    "masks": {"network": "unet", "batch_size": 4},
    "images": {"network": "cnn", "batch_size": 64},
    "table": {"network": "mlp", "batch_size": 64},
}


def study_of(kind: str) -> Study:
    """Draw cases by raters who differ, with references and diagnoses."""
    random = np.random.default_rng(0)
    if kind == "masks":
        truth = np.kron(random.integers(0, 3, (8, 6, 6)), np.ones((16, 16), int))
        labels = np.stack([np.roll(truth, 2 * k, axis=1) for k in range(4)], 1)
        images = truth[:, None] + random.normal(0, 1, (8, 3, 96, 96))
    else:
        truth = random.integers(0, 8, 128)
        wrong = random.random((128, 5)) < 0.3
        labels = np.where(wrong, random.integers(0, 8, (128, 5)), truth[:, None])
        size = (512,) if kind == "table" else (3, 32, 32)
        shown = np.eye(8)[truth].repeat(math.prod(size) // 8, 1).reshape(-1, *size)
        images = shown + random.normal(0, 0.5, shown.shape)
    diagnoses = [("ill", "well")[k % 2] for k in range(len(truth))]
    return Study.from_arrays(
        images.astype(np.float32), labels, reference=truth, diagnoses=diagnoses
    )


@dataclass(frozen=True)
class Call:
    """One call of a module from outside of any other.

    Attributes:
        name: Of the module within the method.
        module: What is called.
        inputs: What it is called with.
        keywords: The same, by name.
        with_gradient: Whether gradients are kept.
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    keywords: dict[str, Any]
    with_gradient: bool


def tensors_in(value: Any) -> Iterator[Tensor]:  # noqa: ANN401
    """Find the tensors in what a module returns."""
    if isinstance(value, Tensor):
        yield value
        return
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    for part in value if isinstance(value, list | tuple) else ():
        yield from tensors_in(part)


def apart(value: Any) -> Any:  # noqa: ANN401
    """Cut inputs off from what made them; they ask for gradients as before."""
    if isinstance(value, Tensor):
        return value.detach().requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        parts = [apart(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {k: apart(v) for k, v in value.items()} if isinstance(value, dict) else value


def modules_of(method: Method) -> Iterator[tuple[str, nn.Module]]:
    """Return all modules of a method by name, and those of frozen copies."""
    yield from (pair for pair in method.named_modules() if pair[0])
    for name, value in vars(method).items():
        if isinstance(value, Snapshot):
            for inner, module in value.copy.named_modules():
                yield ".".join(filter(None, (name, inner))), module


def calls_in(method: Method, work: Callable[[], object]) -> list[Call]:
    """Note the calls of modules in a piece of work, but for those within others."""
    found: list[Call] = []
    open_calls: list[nn.Module] = []
    hooks = []

    def enter(name: str) -> Callable[..., None]:
        def note(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            if not open_calls:
                call = Call(name, module, apart(inputs), apart(keywords), torch.is_grad_enabled())
                found.append(call)
            open_calls.append(module)

        return note

    def leave(*_: Any) -> None:  # noqa: ANN401
        open_calls.pop()

    for name, module in modules_of(method):
        hooks.append(module.register_forward_pre_hook(enter(name), with_kwargs=True))
        hooks.append(module.register_forward_hook(leave))
    try:
        work()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def replayed(calls: list[Call]) -> None:
    """Run the calls forward, and back from the sum of their outputs."""
    losses = []
    for call in calls:
        with torch.set_grad_enabled(call.with_gradient):
            given = call.module(*apart(call.inputs), **apart(call.keywords))
            losses += [value.sum() for value in tensors_in(given) if value.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()


def seconds(work: Callable[[], object], method: Method) -> float:
    """Return the CPU time of a piece of work."""
    method.zero_grad()
    started = time.process_time()
    work()
    return time.process_time() - started


@dataclass(frozen=True)
class Cost:
    """What a step took, and the modules in it.

    Attributes:
        phase: The phase, and whose turn it is.
        modules: Names with numbers of calls.
        step: CPU seconds of a step, the fewest of all repeats: others share the machine.
        alone: CPU seconds of its modules, likewise.
    """

    phase: str
    modules: str
    step: float
    alone: float

    @property
    def ratio(self) -> float:
        """How much longer the step takes."""
        return self.step / self.alone


def cost_of(method: Method, batch: Batch, phase: str, repeats: int) -> Cost:
    """Time a step and its modules, one after the other."""

    def step() -> None:
        method.step(batch).loss.backward()

    calls = calls_in(method, step)
    numbers = Counter(call.name + ("" if call.with_gradient else " (forward)") for call in calls)
    pairs = [
        (seconds(step, method), seconds(lambda: replayed(calls), method))
        for _ in range(repeats + 2)
    ][2:]  # the first ones make buffers
    names = ", ".join(f"{name} x {number}" for name, number in numbers.items())
    own, alone = (min(column) for column in zip(*pairs, strict=True))
    return Cost(phase, names, own, alone)


def costs_of(name: str, kind: str, repeats: int) -> Iterator[Cost]:
    """Take a method through its epochs, and time each kind of step once."""
    options = {**OPTIONS[kind], "epochs": EPOCHS, "augment": "none", "num_workers": 0}
    planned = plan_training(study_of(kind), checked_options(name, {**options, "val_fraction": 0.0}))
    method = make_method(planned)
    data = make_loader(planned, method, "train")
    engine = Learner(method, planned.config.training, len(data), planned.parts)
    engine.configure_optimizers()
    batch = next(iter(data))
    timed = set()
    for epoch in range(EPOCHS):
        if method.needs_pass(epoch):
            method.eval()
            with torch.no_grad():
                method.see_all(iter(whole_cases(data, OPTIONS[kind]["batch_size"])))
        method.train()
        method.start_epoch(epoch)
        for turn in method.turns(epoch, 0) or engine.made:
            method.turn = turn
            several = f" {turn}" if len(engine.made) > 1 else ""
            phase = re.sub(r" ?\d+", "", method.phase(epoch)) + several  # rounds are alike
            if phase not in timed:
                timed.add(phase)
                yield cost_of(method, batch, phase, repeats)


def main() -> None:
    """Print a line for each method and kind of step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"{'method':16} {'kind':6} {'phase':14} {'step':>9} {'modules':>9} {'ratio':>6}  modules")
    for kind in given.kinds.split(","):
        for name in given.methods.split(","):
            if KINDS[kind] not in METHODS[name].kinds:
                continue
            try:
                for cost in costs_of(name, kind, given.repeats):
                    print(
                        f"{name:16} {kind:6} {cost.phase:14} {1000 * cost.step:6.1f} ms "
                        f"{1000 * cost.alone:6.1f} ms {cost.ratio:6.2f}  {cost.modules}",
                        flush=True,
                    )
            except RatersError as error:  # box-sup learns from boxes of one class alone
                print(f"{name:16} {kind:6} not for these data: {error}")


if __name__ == "__main__":
    main()
