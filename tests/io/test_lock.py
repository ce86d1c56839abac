"""One process at a time in a folder: a live one is named, a dead one leaves nothing locked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.errors import RatersError
from raters.io.results import LOCK_FILE, is_empty, only_one, refuse_locked
from raters.learning.training.options import checked_options
from raters.learning.training.prepare import plan_training
from raters.learning.training.run import Record
from tests.support.command_line import Run, draw_masks, images_option, pattern

PATIENCE = 300  # seconds until a process that says nothing is given up

HOLD = """
import os, sys
from raters.io.results import only_one
with only_one(sys.argv[1]):
    {more}
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(code: str, *words: object, folder: Path | None = None) -> Iterator[subprocess.Popen]:
    """Run code in a Python of its own; it is killed at the end, whatever happens."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def holder(folder: Path, more: str = "pass") -> Iterator[subprocess.Popen]:
    """Let another process hold the lock of a folder."""
    with process(HOLD.format(more=more), folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other


def kill(other: subprocess.Popen) -> None:
    other.kill()
    other.wait()


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


class TestLock:
    """The lock itself."""

    def test_a_live_process_is_named(self, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        with holder(folder) as other:
            said = json.loads((folder / LOCK_FILE).read_text())
            words = rf"run: is in use by process {other.pid} on {socket.gethostname()}, started"
            for enter in (lambda: only_one(folder).__enter__(), lambda: refuse_locked(folder)):
                with pytest.raises(RatersError, match=words) as error:
                    enter()
                assert str(said["started"]) in str(error.value)
                assert error.value.kind == "locked"
            other.communicate("")  # it ends by itself
        assert not folder.exists()  # nothing was written to it
        refuse_locked(folder)

    def test_a_killed_one_is_named_and_its_lock_taken_over(self, tmp_path: Path) -> None:
        with holder(tmp_path) as other:
            kill(other)
        assert (tmp_path / LOCK_FILE).exists()
        assert is_empty(tmp_path)
        refuse_locked(tmp_path)
        with only_one(tmp_path) as notes:
            assert len(notes) == 1
            assert f"process {other.pid} on {socket.gethostname()}" in notes[0]
            assert "is gone; its lock was taken over" in notes[0]
            assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()
        with only_one(tmp_path) as notes:
            assert notes == []

    def test_workers_do_not_keep_the_lock_of_a_killed_process(self, tmp_path: Path) -> None:
        """Data loaders fork: their processes may live on for a while."""
        fork = "os.fork() or (os.close(1), os.close(2), __import__('time').sleep(600), os._exit(0))"
        sleeping = fork.replace("os.fork()", "(pid := os.fork())") + "; print(pid, flush=True)"
        with process(HOLD.format(more=sleeping), tmp_path) as other:
            assert other.stdout is not None
            worker = int(other.stdout.readline())
            assert other.stdout.readline() == "held\n"
            kill(other)
            os.kill(worker, 0)  # it is there
            try:
                with only_one(tmp_path) as notes:
                    assert str(other.pid) in notes[0]
            finally:
                os.kill(worker, signal.SIGKILL)

    def test_once_in_a_process(self, tmp_path: Path) -> None:
        with only_one(tmp_path), pytest.raises(RatersError, match=f"process {os.getpid()}"):
            only_one(tmp_path / "." / "").__enter__()
        with only_one(tmp_path):
            pass

    @pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00", b"7"])
    def test_what_is_no_lock_of_ours(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / LOCK_FILE).write_bytes(content)
        with only_one(tmp_path) as notes:
            assert notes == []

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("mine")
        with pytest.raises(RatersError, match="run: found a file, expected a folder"):
            only_one(tmp_path / "run").__enter__()
        assert (tmp_path / "run").read_text() == "mine"

    def test_only_what_was_made_here_is_removed(self, tmp_path: Path) -> None:
        with only_one(tmp_path / "a/b"):
            pass
        assert list(tmp_path.iterdir()) == []
        with only_one(tmp_path / "a/b"):
            (tmp_path / "a/file").touch()
        assert [p.name for p in tmp_path.rglob("*")] == ["a", "file"]


@pytest.mark.parametrize("verb", ["import", "fuse"])
def test_verbs_that_go_on_take_turns(verb: str, run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    words = [verb, pattern(tmp_path), *images_option(tmp_path), "-o", tmp_path / "out"]
    with holder(tmp_path / "out") as other:
        outcome = run_raters(*words)
        assert outcome.code == 2
        assert f"out: is in use by process {other.pid}" in outcome.err
        assert is_empty(tmp_path / "out")
        kill(other)
        outcome = run_raters(*words)
        assert outcome.code == 0
        assert f"process {other.pid}" in outcome.out + outcome.err
        assert "is gone; its lock was taken over" in " ".join(outcome.out.split())


# Runs: the table is read by the command line, its training stands still after the first epoch.

STOP = """
import pathlib, sys, time
from raters.learning.training.run import Record
real, go = Record.epoch, pathlib.Path("go")
def epoch(self, learner):
    real(self, learner)
    while len(learner.history) == 1 and not go.exists():
        time.sleep(0.02)
Record.epoch = epoch
from raters.cli import main
main()
"""
SMALL = ("-m", "global-cm", "--epochs", "2", "--width", "4", "--depth", "1", "--warm-up", "0")


def write_crowd(folder: Path) -> list[str]:
    """Write a small table with features; give the words that name it."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 40)
    np.save(folder / "features.npy", truth[:, None] + rng.normal(0, 0.2, (40, 2)))
    answers = np.where(rng.random((40, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    rows = [f"t{t},w{w},{answers[t, w]}" for t in range(40) for w in range(3)]
    (folder / "crowd.csv").write_text("task,worker,label\n" + "\n".join(rows) + "\n")
    return ["crowd.csv", "--images", "features.npy"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return raters.load(folder).method.state_dict()


def assert_same(one: Path, other: Path) -> None:
    first = weights(one)
    second = weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@contextmanager
def waiting_training(folder: Path, *words: str) -> Iterator[subprocess.Popen]:
    """Start a training that waits after its first epoch until there is a file `go`."""
    with process(STOP, "train", *words, folder=folder) as other:
        there = folder / "run/checkpoints/last.ckpt"
        wait_for(lambda: there.exists() or other.poll() is not None)
        assert other.poll() is None, other.communicate()
        yield other


@pytest.mark.slow
def test_two_trainings_in_one_folder(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused, whenever it looks; the first ends as if it had been alone."""
    monkeypatch.chdir(tmp_path)
    study = write_crowd(tmp_path)
    with waiting_training(tmp_path, *study, *SMALL, "-o", "run", "--seed", "6") as first:
        words = f"run: is in use by process {first.pid} on {socket.gethostname()}, started"
        for more in ([], ["--resume"]):
            outcome = run_raters("train", *study, *SMALL, "-o", "run", "--seed", "5", *more)
            assert (outcome.code, words in outcome.err) == (2, True), outcome
        # It looked before the first had written anything, and comes to train after that.
        monkeypatch.setattr("raters.cli.train.refuse_place", lambda *_, **__: None)
        outcome = run_raters("train", *study, *SMALL, "-o", "run", "--seed", "5")
        assert (outcome.code, words in outcome.err) == (2, True), outcome
        assert not (tmp_path / "run/source.yaml").exists()  # the second wrote nothing at all
        (tmp_path / "go").touch()
        out, err = first.communicate(timeout=PATIENCE)
        assert first.returncode == 0, (out, err)
    # Now it comes when the first has just ended.
    outcome = run_raters("train", *study, *SMALL, "-o", "run", "--seed", "5")
    assert (outcome.code, "found a run, expected a new folder" in outcome.err) == (2, True)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert run_raters("train", *study, *SMALL, "-o", "alone", "--seed", "6").code == 0
    assert "seed: 6" in (tmp_path / "run/config.yaml").read_text()
    assert_same(tmp_path / "run", tmp_path / "alone")
    assert "resumed" not in (tmp_path / "run/log.txt").read_text()
    assert not (tmp_path / "run" / LOCK_FILE).exists()


@pytest.mark.slow
def test_a_killed_training_goes_on_and_says_so(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = write_crowd(tmp_path)
    with waiting_training(tmp_path, *study, *SMALL, "-o", "run") as first:
        kill(first)
    assert json.loads((tmp_path / "run" / LOCK_FILE).read_text())["pid"] == first.pid
    outcome = run_raters("train", *study, *SMALL, "-o", "run", "--resume")
    assert outcome.code == 0, outcome
    gone = f"process {first.pid} on {socket.gethostname()}"
    assert gone in outcome.err
    log = (tmp_path / "run/log.txt").read_text()
    assert gone in log
    assert "is gone; its lock was taken over" in log
    assert "resumed after epoch 1" in log
    assert run_raters("train", *study, *SMALL, "-o", "alone").code == 0
    assert_same(tmp_path / "run", tmp_path / "alone")


def test_no_checkpoint_is_read_unless_asked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    study = raters.Study.from_arrays(rng.normal(size=(12, 2)), rng.integers(0, 2, (12, 3)))
    options: dict[str, Any] = {"epochs": 1, "width": 2, "depth": 1}
    planned = plan_training(study, checked_options("global-cm", options))
    fresh, again = (Record(tmp_path, planned, [], resume) for resume in (False, True))
    assert fresh.earlier is again.earlier is None
    fresh.checkpoint.parent.mkdir()
    fresh.checkpoint.touch()
    assert fresh.earlier is None
    assert again.earlier == fresh.checkpoint


def test_a_process_that_trains_alone_takes_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of another work (an array of jobs) does not make it one of several."""
    monkeypatch.setenv("SLURM_PROCID", "3")
    rng = np.random.default_rng(0)
    study = raters.Study.from_arrays(rng.normal(size=(12, 2)), rng.integers(0, 2, (12, 3)))
    options: dict[str, Any] = {"epochs": 1, "width": 2, "depth": 1, "progress": False}
    folder = tmp_path / "run"
    with only_one(folder), pytest.raises(RatersError, match="in use"):
        raters.fit(study, "vote", folder=folder, **options)
    raters.fit(study, "vote", folder=folder, **options)
    with pytest.raises(RatersError, match="found a run"):
        raters.fit(study, "vote", folder=folder, **options)
    shutil.rmtree(folder)
