"""Time and memory of the likelihood with pixel-wise matrices, against the published form.

The published form (Zhang et al., 2020) normalises softplus outputs into whole matrices, copies
them to one a pixel, multiplies them with the truth and takes the logarithm at the label; raters
in a loop. It is written here without its second softmax. raters needs one column of each matrix.

    python benchmarks/likelihood_speed.py [--repeats 15] [--threads 1] [--no-compile]

Both get logits of the truth and of the matrices as leaves, and give the loss (marginal form plus
the trace of all rows) and its gradients. Repeats are interleaved and medians compared, so that
other work on the machine weighs on all alike; more threads than free cores wait for each other
at every operation, which is then all that is measured. Memory is the most that is allocated at
one time in forward and backward, gradients included, inputs not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from raters.learning.rater_models import (
    LowRankConfusion,
    PixelConfusion,
    negative_log_likelihood,
    trace_term,
)
from raters.learning.rater_models.likelihood import Form

IMAGES = 4
RATERS = 4
CLASSES = 4
SIZE = 192
SCALE = 0.01
MANY = 20
MANY_SPACE = (64, 64)
RANKS = (1, 2, 4, 8)
EAGER_GOAL = 2
COMPILED_GOAL = 3
TO_EAGER_GOAL = 5
MEMORY_GOAL = 0.5

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def published(truth: Tensor, matrices: Tensor, labels: Tensor) -> Tensor:
    """Return the published loss: a mean over pixels, summed over raters, with its trace."""
    images, classes, height, width = truth.shape
    pixels = images * height * width
    p = truth.softmax(1).view(images, classes, -1).permute(0, 2, 1).contiguous()
    p = p.view(pixels, classes, 1)
    entropy = truth.new_zeros(())
    trace = truth.new_zeros(())
    for r in range(labels.shape[1]):
        positive = functional.softplus(matrices[:, r])
        a = positive.view(images, classes**2, -1).permute(0, 2, 1).contiguous()
        a = a.view(pixels, classes, classes)
        a = a / a.sum(1, keepdim=True)  # its order: observed, true
        noisy = torch.bmm(a, p).view(images, -1, classes).permute(0, 2, 1).contiguous()
        noisy = noisy.view(images, classes, height, width)
        entropy = entropy + functional.nll_loss(noisy.log(), labels[:, r], ignore_index=-1)
        trace = trace + torch.trace(a.sum(0).transpose(0, 1)) / pixels
    return (entropy + SCALE * trace) / labels.shape[1]


def ours(truth: Tensor, matrices: Tensor, labels: Tensor, form: Form = "marginal") -> Tensor:
    """Return the loss of raters, from logits `(images, raters, true, observed, *space)`."""
    log_truth = truth.log_softmax(1)
    column, diagonal = PixelConfusion(matrices).see(labels)[:2]
    trace = trace_term(diagonal, labels, log_truth, "all")
    return negative_log_likelihood(log_truth, column, labels, form) + SCALE * trace


def joint(truth: Tensor, matrices: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of raters in the joint form."""
    return ours(truth, matrices, labels, "joint")


def step(loss: Loss, inputs: tuple[Tensor, Tensor, Tensor]) -> Callable[[], None]:
    """Make one step: forward and backward to gradients of the leaves."""
    truth, matrices, labels = inputs

    def run() -> None:
        truth.grad = matrices.grad = None
        loss(truth, matrices, labels).backward()

    return run


def medians(steps: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Time the steps in turns; the median milliseconds of each."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, run in steps.items():
            began = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def peak_mb(run: Callable[[], None], leaves: tuple[Tensor, ...]) -> float:
    """Return the most megabytes allocated at one time, as torch's profiler sees them."""
    for leaf in leaves:
        leaf.grad = None
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"
    )
    held = most = 0
    for _, change in changes:
        held += change
        most = max(most, held)
    return most / 2**20


def draw(classes: int = CLASSES, size: int = SIZE) -> tuple[Tensor, Tensor, Tensor]:
    """Draw logits, with gradients, and labels."""
    torch.manual_seed(0)
    truth = torch.randn(IMAGES, classes, size, size)
    matrices = torch.randn(IMAGES, RATERS, classes, classes, size, size)
    labels = torch.randint(0, classes, (IMAGES, RATERS, size, size))
    return truth.requires_grad_(), matrices.requires_grad_(), labels


def against_published(repeats: int, compile_too: bool) -> None:
    """Print times and memory of both, eager and compiled."""
    losses: dict[str, Loss] = {"published": published, "raters": ours, "raters, joint": joint}
    if compile_too:
        losses |= {
            f"{name}, compiled": torch.compile(loss, fullgraph=True)
            for name, loss in losses.items()
        }
    inputs = draw()
    steps = {name: step(loss, inputs) for name, loss in losses.items()}
    medians(steps, 3)  # compiles and warms up
    times = medians(steps, repeats)
    memory = {name: peak_mb(run, inputs[:2]) for name, run in steps.items()}
    print(
        f"{IMAGES} images x {RATERS} raters x {CLASSES} classes x {SIZE} x {SIZE}, "
        f"forward and backward, threads: {torch.get_num_threads()}"
    )
    print(f"{'':25}{'ms':>8}{'faster':>8}{'MB':>8}{'memory':>8}   (published = 1)")
    for name in losses:
        faster = times["published"] / times[name]
        share = memory[name] / memory["published"]
        print(f"{name:25}{times[name]:8.1f}{faster:8.2f}{memory[name]:8.1f}{share:8.2f}")
    print(f"eager / eager: {times['published'] / times['raters']:.2f} (goal {EAGER_GOAL})")
    print(f"memory: {memory['raters'] / memory['published']:.2f} (goal: at most {MEMORY_GOAL})")
    if compile_too:
        both = times["published, compiled"] / times["raters, compiled"]
        to_eager = times["published"] / times["raters, compiled"]
        print(
            f"compiled / compiled: {both:.2f} (goal {COMPILED_GOAL}), "
            f"or to published eager: {to_eager:.2f} (goal {TO_EAGER_GOAL})"
        )


def low_rank(parts: tuple[Tensor, ...], labels: Tensor, truth: Tensor) -> None:
    """Take one step of low-rank matrices."""
    log_truth = truth.log_softmax(1)
    column, diagonal = LowRankConfusion(*parts).see(labels)[:2]
    loss = negative_log_likelihood(log_truth, column, labels, "marginal")
    (loss + SCALE * trace_term(diagonal, labels, log_truth, "all")).backward()


def memory_of_rank(rank: int, classes: int) -> float:
    """Return the memory of one step with low-rank matrices."""
    truth = torch.randn(IMAGES, classes, *MANY_SPACE, requires_grad=True)
    labels = torch.randint(0, classes, (IMAGES, RATERS, *MANY_SPACE))
    parts = tuple(
        torch.randn(IMAGES, RATERS, *shape, *MANY_SPACE, requires_grad=True)
        for shape in ((classes,), (classes, rank), (rank, classes))
    )
    return peak_mb(lambda: low_rank(parts, labels, truth), (truth, *parts))


def ranks() -> None:
    """Print how memory grows with the rank for many classes, and with the classes."""
    full = {}
    for classes in (MANY, 2 * MANY):
        inputs = draw(classes, MANY_SPACE[0])
        full[classes] = peak_mb(step(ours, inputs), inputs[:2])
    print(f"{MANY} classes, {MANY_SPACE[0]} x {MANY_SPACE[1]}: memory of one step")
    print(f"full matrices  {full[MANY]:8.1f} MB")
    for rank in RANKS:
        used = memory_of_rank(rank, MANY)
        print(f"rank {rank}         {used:8.1f} MB {used / full[MANY]:8.2f} of it")
    twice = memory_of_rank(2, 2 * MANY) / memory_of_rank(2, MANY)
    of_full = full[2 * MANY] / full[MANY]
    print(f"twice the classes: {twice:.1f} times the memory at rank 2, {of_full:.1f} times in full")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true", help="eager only: torch.compile waits")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    against_published(chosen.repeats, not chosen.no_compile)
    ranks()


if __name__ == "__main__":
    main()
