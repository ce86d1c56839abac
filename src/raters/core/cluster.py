"""Fuses cases on a Dask cluster, and says in words what can go wrong with one."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from raters.core.errors import RatersError

T = TypeVar("T")
Tell = Callable[[str], None]

ANSWER = 10
"""Seconds in which a scheduler has to answer."""

LOOK = 5.0
"""Seconds between two looks whether there is a worker."""

_DIED = (
    "the workers that tried it died, one after the other: it may need more memory than they have"
)


def on_cluster(
    work: Callable[[int], T],
    positions: Sequence[int],
    scheduler: str,
    failed: Callable[[int, RatersError], T],
    tell: Tell | None = None,
) -> Iterator[T]:
    """Do work on a Dask cluster; what a lost worker had is done again by another.

    Args:
        work: What to do with a position.
        positions: All of them.
        scheduler: The address of the scheduler.
        failed: Gives the outcome of a position whose workers died, again and again.
        tell: Whom to tell that there is no worker.

    Raises:
        RatersError: No scheduler answers, or it is gone.
    """
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise RatersError(
            "the engine 'dask' needs: pip install 'raters[dask]'", kind="missing-package"
        ) from None
    client = _connected(scheduler)
    with _closing(client), _watched(client, scheduler, tell):
        killed: list[int] = []
        yield from _results(client, work, positions, scheduler, killed)
        # Others that waited at the same workers died with them: each is tried alone.
        for position in killed:
            again: list[int] = []
            yield from _results(client, work, [position], scheduler, again)
            yield from (failed(position, RatersError(_DIED)) for position in again)


def _connected(scheduler: str) -> Any:  # noqa: ANN401
    """Connect to a scheduler, or say why that cannot be done."""
    from distributed import Client

    try:
        return Client(scheduler, timeout=ANSWER)
    except ValueError as error:
        failure = RatersError(
            f"found the scheduler {scheduler!r} ({error}), expected an address such as "
            "tcp://host:8786"
        )
    except (OSError, MemoryError, RuntimeError) as error:  # nobody, or no scheduler, is there
        why = str(error).splitlines()[0] if str(error) else "no answer"
        failure = RatersError(f"no scheduler answers at {scheduler} within {ANSWER} seconds: {why}")
    except AssertionError:  # Dask's own event loop did not start in ten seconds
        failure = RatersError(
            "Dask did not start within 10 seconds: the machine is too busy; the same command "
            "resumes from what is finished"
        )
    # The half-made client closes itself when it is collected; within the start of the next one,
    # which holds the same lock, it would wait for ever. So it is collected now, and the error is
    # raised where it keeps nothing of it.
    gc.collect()
    raise failure


def _results(
    client: Any,  # noqa: ANN401
    work: Callable[[int], T],
    positions: Sequence[int],
    scheduler: str,
    killed: list[int],
) -> Iterator[T]:
    """Return results as they come; positions whose workers died are added to `killed`."""
    from distributed import KilledWorker, as_completed

    with _scheduler_lives(scheduler):
        futures = client.map(work, list(positions), retries=3, pure=False)
        place = dict(zip((future.key for future in futures), positions, strict=True))
        done = iter(as_completed(futures))
    while True:
        with _scheduler_lives(scheduler):
            future = next(done, None)
            if future is None:
                return
            try:
                found = future.result()
            except KilledWorker:
                killed.append(place[future.key])
                continue
        yield found


@contextmanager
def _scheduler_lives(scheduler: str) -> Iterator[None]:
    """Report in words that the scheduler is gone: Dask cancels what it was to do."""
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError, TimeoutError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RatersError(
            f"the scheduler at {scheduler} is gone ({why[:200]}), expected it until the end: what "
            "is finished stays, and the same command resumes from there",
            kind="scheduler",
        ) from None


@contextmanager
def _closing(client: Any) -> Iterator[None]:  # noqa: ANN401
    """Close a client without a word of a scheduler that is not there any more."""
    import logging

    try:
        yield
    finally:
        logger = logging.getLogger("distributed")
        before = logger.level
        logger.setLevel(logging.CRITICAL)
        with suppress(Exception):  # what matters was said
            client.close(timeout=ANSWER)
        logger.setLevel(before)


@contextmanager
def _watched(client: Any, scheduler: str, tell: Tell | None) -> Iterator[None]:  # noqa: ANN401
    """Report, each time the last worker is gone, that the work waits for one."""
    ended = threading.Event()

    def watch() -> None:
        alone = False
        while True:
            with suppress(Exception):  # a scheduler that is gone is said elsewhere
                workers = len(client.scheduler_info(n_workers=-1)["workers"])
                if not workers and not alone and tell is not None:
                    tell(f"no worker at {scheduler}: waiting for one (dask worker {scheduler})")
                alone = not workers
            if ended.wait(LOOK):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    if tell is not None:
        watcher.start()
    try:
        yield
    finally:
        ended.set()
        if tell is not None:
            watcher.join()
