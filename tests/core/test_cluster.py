"""A Dask cluster that fails: in words, in bounded time, and without losing the other cases."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed
import pytest

from raters.core import cluster
from raters.core.cluster import on_cluster
from raters.core.errors import RatersError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("patient_cluster"),
]

PATIENCE = 300


def describe_failure(position: int, error: RatersError) -> str:
    return f"{position}: {error}"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Hold a port where nobody listens: connections are refused."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a scheduler of its own process; give it and its address."""
    file = folder / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *words]
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            end = time.monotonic() + PATIENCE
            while not file.exists():
                assert time.monotonic() < end and process.poll() is None
                time.sleep(0.05)
            yield process, json.loads(file.read_text())["address"]
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense", "found the scheduler 'nonsense'.*expected an address such as tcp://"),
        ("foo://host:1", "unknown address scheme 'foo'"),
        ("tcp://127.0.0.1:{port}", r"no scheduler answers at tcp://127\.0\.0\.1:\d+ within 1 sec"),
    ],
)
def test_an_address_that_is_none(
    address: str, words: str, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER", 1)
    with pytest.raises(RatersError, match=words):
        list(on_cluster(abs, [1], address.format(port=closed_port), describe_failure))


def test_without_distributed_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    with pytest.raises(RatersError, match=r"pip install 'raters\[dask\]'") as caught:
        list(on_cluster(abs, [1], "tcp://127.0.0.1:1", describe_failure))
    assert caught.value.kind == "missing-package"


def test_nothing_is_left_of_a_client_that_did_not_connect(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would close itself within the start of the next one, and wait there for ever."""
    from distributed import Client

    monkeypatch.setattr(cluster, "ANSWER", 1)
    gc.disable()
    try:
        with pytest.raises(RatersError) as caught:
            list(on_cluster(abs, [1], f"tcp://127.0.0.1:{closed_port}", describe_failure))
        assert not [one for one in gc.get_objects() if type(one) is Client]
        assert caught.value.__context__ is None
    finally:
        gc.enable()


def test_no_worker_and_then_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it waits for a worker; when the scheduler dies it ends, and says why."""
    monkeypatch.setattr(cluster, "LOOK", 0.1)
    told: list[str] = []
    with scheduler(tmp_path) as (process, address):

        def tell(text: str) -> None:
            told.append(text)
            process.kill()

        with pytest.raises(RatersError, match=f"the scheduler at {address} is gone"):
            list(on_cluster(abs, [1, 2], address, describe_failure, tell))
    assert told == [f"no worker at {address}: waiting for one (dask worker {address})"]


def test_a_case_that_kills_its_workers_does_not_stop_the_others() -> None:
    def work(position: int) -> str:
        if position == 2:
            os._exit(1)
        return str(position)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as local,
    ):
        found = sorted(on_cluster(work, range(4), local.scheduler_address, describe_failure))
        # Dask fails if it is closed while it starts a worker in the place of one that died.
        with distributed.Client(local) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
    assert [one[0] for one in found] == list("0123")
    assert [one for one in found if len(one) > 1] == [describe_failure(2, RatersError(DIED))]


DIED = "the workers that tried it died, one after the other: it may need more memory than they have"
