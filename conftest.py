"""Settings and fixtures of all tests: one thread per process, caches, Ctrl-C, browsers."""

import contextlib
import functools
import gc
import importlib.metadata
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator

import pytest
import typer.main

from tests.support.browser import MISSING as NO_BROWSER
from tests.support.browser import browser

PATIENCE = 300  # seconds until something that does not happen is given up

# Tensors are tiny here, and threads that wait for each other take far longer.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Where Python may keep nothing of what it compiles, each process would compile all tests and all of
# the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A process of a user makes its verbs once, and Lightning looks once at what all installed packages
# offer it; thousands of tests that call `main` or train need no more.
typer.main.get_command = functools.cache(typer.main.get_command)
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)

# Some virtual machines announce AMX and then die of it, in any product of bfloat16 matrices.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# What a shell starts in the background ignores SIGINT, and so would the processes of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

# These register methods when they are imported; the tests that want them do that.
collect_ignore = ["tests/support/toy_methods.py", "tests/support/wawa.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that make a browser a must, and that install the package."""
    parser.addoption(
        "--require-browser",
        action="store_true",
        help="let tests that need a browser fail, and not be skipped, where none is installed",
    )
    parser.addoption(
        "--release",
        action="store_true",
        help="run tests/package too, which installs the package into fresh environments (minutes)",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files with the most slow tests come first: none is left for the end."""
    slow_tests = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow_tests[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a browser, before its fixtures open one, where there is none."""
    if item.get_closest_marker("browser") is None or browser() is not None:
        return

    if item.config.getoption("require_browser"):
        pytest.fail(NO_BROWSER, pytrace=False)
    pytest.skip(NO_BROWSER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped for want of a browser."""
    skipped = [
        report
        for report in terminalreporter.getreports("skipped")
        if NO_BROWSER in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} browser tests were skipped: {NO_BROWSER}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and freeze what is there then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def small_figures() -> Iterator[None]:
    """Write the PNG files of reports with a sixteenth of their pixels: only time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("raters.views.report.figures._DPI", 50)
        yield


@pytest.fixture
def patient_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for a Dask cluster that is there: a machine may stall without being at fault."""
    wait = threading.Event.wait

    def wait_longer(event: threading.Event, timeout: float | None = None) -> bool:
        # Dask gives a thread of its own 10 seconds to start, which cannot be configured.
        return wait(event, PATIENCE if timeout == 10 else timeout)

    monkeypatch.setattr(threading.Event, "wait", wait_longer)
    monkeypatch.setattr("raters.core.cluster.ANSWER", PATIENCE)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread, however many there are: of small tensors a second one only waits."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
