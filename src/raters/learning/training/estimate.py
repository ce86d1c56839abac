"""What a training would be: cases, network, time and memory, from a few real steps in memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from raters.core.wording import duration, listing, many
from raters.learning.methods.base import Batch, Method
from raters.learning.methods.phases import Optimiser
from raters.learning.training.engine import Learner
from raters.learning.training.loader import set_epoch
from raters.learning.training.options import Checked, checked_options
from raters.learning.training.partition import left_out
from raters.learning.training.prepare import Planned, make_loader, make_method, plan_training
from raters.learning.training.trainer import own_randomness
from raters.study.study import Study

STEPS = 3
"""Steps that are measured, in the warm-up and after it."""


@dataclass(frozen=True)
class Estimate:
    """What would be trained, and what it would take.

    Attributes:
        planned: The model and the cases.
        parameters: Numbers that are learnt.
        left_out: Cases that can teach the method nothing.
        steps: Steps of an epoch.
        start_seconds: What comes before the first step, and reading all cases once.
        warm_epochs: Epochs of the warm-up.
        warm_seconds: What one of them takes.
        epoch_seconds: What an epoch takes after the warm-up.
        memory: Bytes of memory at the peak, about.
        device: Where it was measured.
    """

    planned: Planned
    parameters: int
    left_out: int
    steps: int
    start_seconds: float
    warm_epochs: int
    warm_seconds: float
    epoch_seconds: float
    memory: int | None
    device: str

    @property
    def seconds(self) -> float:
        """What the whole training takes, about."""
        main = self.planned.config.training.epochs - self.warm_epochs
        warm = self.warm_epochs * self.warm_seconds
        return self.start_seconds + warm + main * self.epoch_seconds

    def _parts(self) -> str:
        """Return what the time is made of."""
        epochs = self.planned.config.training.epochs - self.warm_epochs
        warm = f"{many(self.warm_epochs, 'epoch')} of warm-up of {duration(self.warm_seconds)}, "
        return (
            f"{duration(self.start_seconds)} to start, {warm if self.warm_epochs else ''}"
            f"{many(epochs, 'epoch')} of {duration(self.epoch_seconds)}"
        )

    def described(self) -> dict[str, str]:
        """Return it in words, by what it is about."""
        config = self.planned.config
        parts = self.planned.parts
        training = config.training
        network = config.network
        classes = [c.name for c in config.classes]
        sizes = {name: getattr(network, name) for name in ("width", "depth", "norm")}
        built = ", ".join(f"{name} {value}" for name, value in sizes.items() if value is not None)
        return {
            "method": config.method,
            "cases": f"{len(parts.train):,} trained on, {len(parts.held_out):,} held out, "
            f"{self.left_out:,} left out",
            "raters": f"{len(config.raters):,} ({listing(config.raters, 10)})",
            "classes": f"{len(classes):,} ({listing(classes, 10)})",
            "network": f"{network.name} ({built}), {self.parameters:,} parameters",
            "patch_size": " x ".join(map(str, config.patch_size or ())) or "whole images",
            "batch": f"{training.batch_size}, {many(self.steps, 'step')} per epoch",
            "epochs": f"{training.epochs}",
            "time": f"about {duration(self.seconds)} on {self.device}: {self._parts()}",
            "memory": "unknown" if self.memory is None else f"about {self.memory / 1e9:.1f} GB",
        }


def estimate(study: Study, method: str | Checked = "pixel-cm", **options: Any) -> Estimate:  # noqa: ANN401
    """Build everything, take a few steps on the real data, and say what training would take.

    Nothing is written, and the study is read no further than preparing and the steps need.

    Args:
        study: As for `raters.fit`.
        method: As for `raters.fit`.
        options: As for `raters.fit`.
    """
    started = time.perf_counter()
    checked = method if isinstance(method, Checked) else checked_options(method, options)
    planned = plan_training(study, checked)
    # Data are read in this process: what others would read cannot be measured here.
    here = {"num_workers": 0, "devices": 1, "num_nodes": 1}
    training = planned.config.training.model_copy(update=here)
    planned = replace(planned, config=planned.config.model_copy(update={"training": training}))
    with own_randomness():
        learner = make_method(planned)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        learner.to(device)
        kept = len(planned.parts.held_out)
        train = make_loader(planned, learner, "train")
        held_out = make_loader(planned, learner, "tiles") if kept else None
        prepared = time.perf_counter() - started
        first, warm, main = _measured(learner, planned, train, held_out, device)
    return Estimate(
        planned,
        parameters=sum(weights.numel() for weights in learner.parameters()),
        left_out=left_out(study, planned.study.index.ids),
        steps=len(train),
        start_seconds=prepared + first,
        warm_epochs=min(learner.warm_up, training.epochs),
        warm_seconds=warm,
        epoch_seconds=main,
        memory=_memory([train] if held_out is None else [train, held_out]),
        device=device.type,
    )


def _measured(
    method: Method,
    planned: Planned,
    train: DataLoader[Any],
    held_out: DataLoader[Any] | None,
    device: torch.device,
) -> tuple[float, float, float]:
    """Return the seconds of reading all once, of an epoch of the warm-up, and of one after it."""
    reading, batches = _fetched(train, STEPS)
    again, _ = _fetched(train, STEPS)  # from memory now, where it suffices
    fetch = again if train.dataset.cases.fits else reading  # type: ignore[attr-defined]
    engine = Learner(method, planned.config.training, 1, planned.parts)
    engine.configure_optimizers()
    known = [_on_device(batch, planned.parts.train, device) for batch in batches]
    seconds = {}
    for epoch in sorted({0, method.warm_up}):
        method.start_epoch(epoch)
        turns = {name: engine.made[name] for name in method.turns(epoch, 0) or engine.made}
        took = [_timed(partial(_step, method, batch, turns), device) for batch in known]
        counted = took[1:] or took  # the first one also sets up memory
        seconds[epoch] = sum(counted) / len(counted)
    scoring = _scoring(method, planned, held_out, device)
    warm, main = (len(train) * (seconds[epoch] + fetch) + scoring for epoch in (0, method.warm_up))
    return len(train) * max(reading - fetch, 0.0), warm, main


def _step(method: Method, batch: Batch, turns: dict[str, Optimiser]) -> None:
    for method.turn, each in turns.items():
        method.zero_grad()
        method.step(batch).loss.backward()  # type: ignore[no-untyped-call]
        each.optimiser.step()


def _scoring(
    method: Method, planned: Planned, held_out: DataLoader[Any] | None, device: torch.device
) -> float:
    """Return what it takes to score all held-out cases."""
    if held_out is None:
        return 0.0
    method.eval()
    reading, batches = _fetched(held_out, 1)
    known = _on_device(batches[0], planned.parts.held_out, device)
    with torch.inference_mode():
        took = _timed(partial(method.held_out, known), device)
    method.train()
    return len(held_out) * (took + reading)


def _fetched(batches: DataLoader[Any], number: int) -> tuple[float, list[Batch]]:
    """Return some batches, and the seconds that one takes to come."""
    set_epoch(batches, 0)
    started = time.perf_counter()
    found = list(islice(batches, number))
    return (time.perf_counter() - started) / len(found), found


def _on_device(batch: Batch, positions: Any, device: torch.device) -> Batch:  # noqa: ANN401
    """Bring a batch to the device; methods know the positions in the whole study."""
    moved = {name: value.to(device) for name, value in batch.items()}
    return {**moved, "case": torch.from_numpy(positions)[batch["case"]]}


def _timed(work: Callable[[], object], device: torch.device) -> float:
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def _memory(loaders: list[DataLoader[Any]]) -> int | None:
    """Return the peak so far, and the room that cases which were not read yet will take."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    for cases in (batches.dataset.cases for batches in loaders):  # type: ignore[attr-defined]
        one = cases.first.nbytes
        left = (len(cases.study) - cases.kept) * one
        peak += max(min(left, cases.cache_bytes - cases.kept * one), 0)
    return int(peak)
