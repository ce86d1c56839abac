"""Runs cells side by side; what is finished is skipped, what fails is named."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, current_thread, main_thread

from raters.comparison.cell import Cell, ScoreCell, result_of, run_cell
from raters.core.cluster import Tell, on_cluster
from raters.core.errors import RatersError, enough_memory
from raters.core.progress import track
from raters.core.wording import many
from raters.io.results import only_one

_NO_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@dataclass(frozen=True)
class Outcome:
    """What became of one cell; small enough to be sent between machines."""

    cell: Cell
    error: str = ""


@dataclass
class CellsRun:
    """What a run did.

    Attributes:
        done: How many cells were run.
        skipped: How many were there already.
        failures: What could not be run, each with its cell.
        notes: What a reader must know.
    """

    done: int = 0
    skipped: int = 0
    failures: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    score: ScoreCell,
    num_workers: int | None = None,
    scheduler: str | None = None,
    *,
    again: bool = False,
    progress: bool = False,
    tell: Tell | None = None,
) -> CellsRun:
    """Run cells and write one JSON file for each; cells with a result are skipped.

    Args:
        cells: The cells.
        folder: Where results are written.
        score: Trains and scores a cell; it is sent to other processes.
        num_workers: Processes, one thread each; by default one per core.
        scheduler: The address of a Dask scheduler whose workers do the work and see the same
            files; None works on this machine.
        again: Run cells again whose result is of another version.
        progress: Show how many cells are done and the time left.
        tell: Whom to tell what is happening.

    Raises:
        RatersError: A result was edited or is of another version, or another process works in the
            folder.
    """
    names = sorted({cell.benchmark for cell in cells})
    with _locked([folder / name for name in names]) as notes:
        left = [cell for cell in cells if not _is_done(cell, folder, again)]
        run = CellsRun(skipped=len(cells) - len(left), notes=notes)
        work = partial(_run_one, folder=folder, score=score)
        workers = min(num_workers or os.cpu_count() or 1, max(len(left), 1))
        if scheduler:
            done = _run_on_cluster(work, left, scheduler, tell)
        else:
            done = _run_here(work, left, workers)
        with _stoppable(), closing(track(done, len(left), "cells", progress)) as outcomes:
            for number, outcome in enumerate(outcomes, start=1):
                if outcome.error:
                    state = f"failed: {outcome.error}"
                    run.failures.append(outcome)
                else:
                    state = "done"
                    run.done += 1
                if tell is not None:
                    tell(f"{number} of {many(len(left), 'cell')}: {outcome.cell.name}: {state}")
    return run


@contextmanager
def _locked(folders: Sequence[Path]) -> Iterator[list[str]]:
    """Lock several folders, one after the other."""
    if not folders:
        yield []
        return
    with only_one(folders[0]) as notes, _locked(folders[1:]) as others:
        yield [*notes, *others]


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that all processes have ended when this one ends.

    By themselves they notice it only once they have imported torch, many seconds after their start.
    """
    if current_thread() is not main_thread():  # no other may set a handler
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_done(cell: Cell, folder: Path, again: bool) -> bool:
    try:
        return result_of(cell, folder) is not None
    except RatersError as error:
        if again and error.kind == "other-version":
            return False
        raise


def _run_one(cell: Cell, folder: Path, score: ScoreCell) -> Outcome:
    """Run a cell on one thread; what goes wrong is part of the outcome."""
    import torch

    torch.set_num_threads(1)
    try:
        with enough_memory(cell.name):
            run_cell(cell, folder, score)
    except Exception as error:  # one cell must not stop the others
        if isinstance(error, OSError) and error.errno in _NO_DISK:
            raise  # nothing that comes will fare better
        text = str(error) if isinstance(error, RatersError) else f"{type(error).__name__}: {error}"
        return Outcome(cell, text or type(error).__name__)
    return Outcome(cell)


def _end_with_parent() -> None:
    """Leave Ctrl-C to the process that started this one, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = parent_process()
    assert first is not None  # this is the start of a process of a pool

    def watch() -> None:
        wait([first.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


class _Worker:
    """One process that takes cell after cell, and is replaced where it dies."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False
        self._starting = Lock()

    def run(self, work: partial[Outcome], cell: Cell) -> Outcome:
        try:
            with self._starting:
                if self._closed:
                    return Outcome(cell, "stopped")
                if self._pool is None:
                    # Threads of torch do not survive a fork.
                    context = get_context("spawn")
                    self._pool = ProcessPoolExecutor(1, context, initializer=_end_with_parent)
                found = self._pool.submit(work, cell)
            return found.result()
        except BrokenProcessPool:
            if self._pool is not None:
                self._pool.shutdown(wait=False)
            self._pool = None
            return Outcome(cell, "its process died: killed, or out of memory")

    def close(self) -> None:
        """End the process, without waiting for what it does."""
        with self._starting:  # a process that is half started cannot be ended
            self._closed = True
            pool = self._pool
        if pool is None:
            return
        for process in list((pool._processes or {}).values()):
            process.kill()  # while it trains, Lightning takes a mere SIGTERM as a request
        pool.shutdown(wait=True, cancel_futures=True)


def _run_here(work: partial[Outcome], cells: Sequence[Cell], workers: int) -> Iterator[Outcome]:
    """Run cells in several processes; neighbours, which share a study, in the same one."""
    lanes: SimpleQueue[_Worker] = SimpleQueue()
    every = [_Worker() for _ in range(workers)]
    for lane in every:
        lanes.put(lane)

    def one(cell: Cell) -> Outcome:
        lane = lanes.get()
        try:
            return lane.run(work, cell)
        finally:
            lanes.put(lane)

    pool = ThreadPoolExecutor(workers)
    try:
        for future in as_completed([pool.submit(one, cell) for cell in cells]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for lane in every:
            lane.close()


def _run_on_cluster(
    work: partial[Outcome], cells: Sequence[Cell], scheduler: str, tell: Tell | None
) -> Iterator[Outcome]:
    def failed(position: int, error: RatersError) -> Outcome:
        return Outcome(cells[position], str(error))

    numbered = partial(_numbered, work=work, cells=cells)
    return on_cluster(numbered, range(len(cells)), scheduler, failed, tell)


def _numbered(position: int, work: partial[Outcome], cells: Sequence[Cell]) -> Outcome:
    """Work on a cell by its number, as a cluster takes it."""
    return work(cells[position])
