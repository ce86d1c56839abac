"""Runs of benchmarks: the same numbers again, and whatever ends a run, the next one resumes."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import distributed
import pytest

from raters.comparison import run as runs
from raters.comparison.cell import Cell, checksum, read_result, run_cell
from raters.io.results import LOCK_FILE, only_one
from raters_bench import run as bench_run
from raters_bench.cells import cells_of
from raters_bench.run import make_and_score, run_benchmarks
from tests.raters_bench.makers import TINY, make_spec, write_spec
from tests.support.command_line import Run, assert_refused, limited

RATERS = {"raters": {"raters": "nobody"}}  # found out only when they are drawn
UNTRAINED = {"annotators": {"method": "annotators"}}
# A group without dominance is looked for among raters of whom there is none, and who are so many
# that it takes a quarter of an hour: it is killed before it ends.
SLOW = {
    "first": {},
    "slow": {"raters": {"raters": "20000xhammer-spammer:0.8", "dominance": False}},
    "third": {},
}
PATIENCE = 300

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning")


@pytest.fixture
def run_bench(run_raters: Run) -> Run:
    """Run `raters bench`."""
    return functools.partial(run_raters, "bench")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder: that of the project may hold data and results."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Write made-up scores, in this process, instead of training; give the cells that were run."""
    ran: list[Cell] = []

    def here(work: partial[runs.Outcome], cells: list[Cell], _: int) -> Iterator[runs.Outcome]:
        return map(work, cells)

    def score(cell: Cell, *_: object) -> dict[str, float]:
        ran.append(cell)
        return {"accuracy": 0.5}

    monkeypatch.setattr(runs, "_run_here", here)
    monkeypatch.setattr(bench_run, "make_data", lambda *_: None)
    monkeypatch.setattr("raters_bench.scoring.score_cell", score)
    return ran


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


class TestNumbers:
    """Real trainings, in this process and in another one."""

    @pytest.mark.slow
    @pytest.mark.usefixtures("patient_cluster")
    def test_the_same_cell_gives_the_same_numbers(self, run_bench: Run, tmp_path: Path) -> None:
        """Once as a user runs it, in a process of its own; once here; and once on a cluster."""
        settings = {"three raters": {}, "no raters": RATERS}
        path = write_spec(tmp_path, settings=settings)
        folder = tmp_path / "results"
        outcome = run_bench("run", path, "-o", folder, "--workers", "1")
        assert outcome.code == 2  # the others are done, and those that failed are named
        failed = outcome.err[outcome.err.index("2 cells failed:") :].splitlines()
        assert failed[1].startswith("  tiny: vote, no raters, seed 0: ")
        assert "nobody" in failed[1]
        assert "accuracy" in outcome.out
        assert "2 cells run: " in outcome.out
        assert "--scale laptop" in outcome.out
        place = "tiny/smoke/three-raters"
        assert files(folder) == [
            f"{place}/{name}-0.json" for name in ("global-cm-paper-s-form", "vote")
        ]

        spec = make_spec(tmp_path, settings=settings)
        cells = [cell for cell in cells_of(spec, "smoke") if cell.setting == "three raters"]
        for cell in cells:
            first = read_result(cell.path(folder))
            again = read_result(
                run_cell(cell, tmp_path / "again", partial(make_and_score, places={}))
            )
            assert first.scores == again.scores
            assert first.scores["accuracy"] > 0.4  # of 1/3 by chance
            assert first.asked == again.asked == cell.asked()
            assert 0 < first.core_seconds <= first.seconds + 1 < PATIENCE
            assert first.versions.keys() >= {"raters", "torch", "numpy"}

        with cluster() as address:
            done = run_benchmarks(cells, tmp_path / "far", {}, scheduler=address)
        assert (done.done, done.failures) == (2, [])
        for cell in cells:
            far = read_result(cell.path(tmp_path / "far"))
            assert far.scores == read_result(cell.path(folder)).scores

        outcome = run_bench("run", path, "-o", folder, "--setting", "three raters", "--json")
        assert outcome.code == 0
        assert json.loads(outcome.out)["cells"] == {"done": 0, "skipped": 2, "failed": 0}


@contextmanager
def cluster() -> Iterator[str]:
    here = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with distributed.LocalCluster(**here) as local:
        yield local.scheduler_address


@pytest.mark.slow
class TestInterrupted:
    """Whatever ends a run, what was finished stays, and nothing else is there."""

    def test_a_process_that_dies(self, tmp_path: Path) -> None:
        """Its cell is named, a new process takes the next one, and a new run does the rest."""
        spec = make_spec(tmp_path, rows=UNTRAINED, baseline="", settings=SLOW)
        cells = cells_of(spec, "smoke")

        def tell(text: str) -> None:
            if text.startswith("1 of 3"):
                for child in multiprocessing.active_children():
                    os.kill(child.pid or 0, signal.SIGKILL)

        done = run_benchmarks(cells, tmp_path, {}, num_workers=1, tell=tell)
        assert done.done == 2
        assert [(one.cell.setting, one.error) for one in done.failures] == [
            ("slow", "its process died: killed, or out of memory")
        ]
        there = [cell.setting for cell in cells if cell.path(tmp_path).exists()]
        assert there == ["first", "third"]

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    def test_a_run_that_is_stopped(
        self, how: signal.Signals, run_bench: Run, no_training: list[Cell], tmp_path: Path
    ) -> None:
        path = write_spec(tmp_path, rows=UNTRAINED, baseline="", settings=SLOW)
        folder = tmp_path / "results"
        script = [sys.executable, "-c", "from raters.cli import main; main()", "bench", "run"]
        process = subprocess.Popen(
            [*script, str(path), "-o", str(folder), "--workers", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "1 of 3 cells: annotators, first, seed 0: done\n"
            # Ctrl-C reaches all processes of a terminal; what kills one leaves the others.
            (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
            _, err = process.communicate(timeout=PATIENCE)  # until all its processes have ended
        finally:
            process.kill()
        assert "Traceback" not in err
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert err == "\nstopped: raters bench resumes from here when it is called again\n"
        finished = "tiny/smoke/first/annotators-0.json"
        assert [name for name in files(folder) if LOCK_FILE not in name] == [finished]

        outcome = run_bench("run", path, "-o", folder)
        assert outcome.code == 0, outcome
        assert [cell.setting for cell in no_training] == ["slow", "third"]
        assert "2 cells run, 1 was there already" in outcome.out
        assert ("its lock was taken over" in outcome.out) == (how == signal.SIGKILL)

    def test_sigterm_ends_all_processes(self, tmp_path: Path) -> None:
        """Also those that are still importing, and so cannot see that the first one is gone."""
        path = write_spec(tmp_path, rows=UNTRAINED, baseline="", settings=SLOW)
        script = [sys.executable, "-c", "from raters.cli import main; main()", "bench", "run"]
        process = subprocess.Popen(
            [*script, str(path), "-o", str(tmp_path / "results"), "--workers", "2"],
            start_new_session=True,
        )

        def workers() -> list[str]:
            listed = subprocess.run(["ps", "-wweo", "pgid=,args="], capture_output=True, text=True)
            lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
            return [
                args for group, args in lines if group == str(process.pid) and "spawn_main" in args
            ]

        try:
            until = time.monotonic() + PATIENCE
            while not workers() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            assert workers()
            process.terminate()
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
            assert workers() == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert not list((tmp_path / "results").rglob(LOCK_FILE))


class TestRefused:
    """What a user can act on: one line, exit code 2, and nothing is written."""

    @pytest.fixture
    def spec(self, tmp_path: Path) -> Path:
        return write_spec(tmp_path)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["no-such-thing"], "found the benchmark 'no-such-thing', expected"),
            (["absent.yaml"], "absent.yaml: cannot be read (No such file"),
            ([], "expected the name of a benchmark"),
            (["{spec}", "--scale", "large"], "the scale 'large' for tiny, expected one of smoke"),
            (["{spec}", "--row", "vot"], "--row: found 'vot', expected one of vote"),
            (["{spec}", "--setting", "x"], "--setting: found 'x'"),
            (["{spec}", "--seeds", "a"], "--seeds: found 'a', expected whole numbers"),
            (["{spec}", "--seeds", "-1"], "--seeds: found '-1'"),
            (["{spec}", "--data", "=x"], "--data: found '=x'"),
            (["{spec}", "--methods", "vote"], "without --study"),
            (["{spec}", "--study", "x"], "expected the name of a benchmark"),
            (["pixel-cm-table-1", "--scale", "laptop"], "found no data set 'mnist' at data/mnist"),
            (["pixel-cm-table-1", "--scale", "paper", "--data", "mnist=nowhere"], "nowhere"),
        ],
    )
    def test_options(self, run_bench: Run, spec: Path, words: list[str], said: str) -> None:
        folder = spec.parent / "results"
        outcome = run_bench("run", *(word.format(spec=spec) for word in words), "-o", folder)
        assert_refused(outcome, said)
        assert not folder.exists()

    def test_a_folder_of_other_data_is_found_once_and_before_all_cells(
        self, run_bench: Run, no_training: list[Cell], tmp_path: Path
    ) -> None:
        (tmp_path / "sets/mnist").mkdir(parents=True)
        (tmp_path / "sets/mnist/notes.txt").write_text("nothing here\n")
        words = ("run", "pixel-cm-table-1", "--scale", "laptop", "--data", tmp_path / "sets")
        outcome = run_bench(*words, "-o", tmp_path / "results")
        assert_refused(outcome, "sets/mnist/train-images-idx3-ubyte.gz: no such file", "notes.txt")
        assert outcome.err.count("Expected for mnist") == 1
        assert no_training == []
        assert not (tmp_path / "results").exists()
        checked = run_bench(*words, "-o", tmp_path / "results", "--dry-run")
        assert checked.code == 2
        assert checked.err.count("Expected for mnist") == 1

    def test_all_data_that_are_missing_are_named(self, run_bench: Run, tmp_path: Path) -> None:
        path = write_spec(
            tmp_path,
            "two",
            data={"source": "public"},
            raters={},
            settings={name: {"data": {"name": name}} for name in ("labelme", "music-genre")},
        )
        assert_refused(
            run_bench("run", path), "found no data set 'labelme'", "found no data set 'music-genre'"
        )

    def test_options_of_methods_and_checks(self, run_bench: Run, tmp_path: Path) -> None:
        rows = {"vote": {"method": "vote", "options": {"temper": 3}}}
        assert_refused(
            run_bench("run", write_spec(tmp_path, "a", rows=rows)), "a, row 'vote': ", "temper"
        )
        claims = [{"says": "ahead", "check": ["accuracy: vote > staple"]}]
        path = write_spec(tmp_path, "b", claims=claims)
        assert_refused(
            run_bench("run", path), "b, check 'accuracy: vote > staple': found the row 'staple'"
        )

    def test_a_dry_run_checks_and_writes_nothing(
        self, run_bench: Run, spec: Path, no_training: list[Cell], tmp_path: Path
    ) -> None:
        words = ("run", spec, "-o", tmp_path / "results")
        outcome = run_bench(*words, "--dry-run", "--scale", "laptop")
        assert outcome.code == 0
        assert "tiny: vote, three raters, seed 1: to run\n" in outcome.out
        assert "4 of 4 cells to run; time on one core: unknown" in outcome.out
        assert not (tmp_path / "results").exists()
        assert run_bench(*words, "--scale", "laptop", "--row", "vote", "--seeds", "1").code == 0
        assert [(cell.row, cell.seed) for cell in no_training] == [("vote", 1)]
        told = json.loads(run_bench(*words, "--dry-run", "--scale", "laptop", "--json").out)
        states = [(one["row"], one["seed"], one["state"]) for one in told["cells"]]
        assert states[2] == ("vote", 1, "done")
        assert told["seconds"] == pytest.approx(0, abs=1)  # as much as the one that is done
        absent = run_bench("run", "pixel-cm-table-1", "--scale", "paper", "--dry-run")
        assert absent.code == 2
        assert "1 problem found before anything is run:\n  found no data set 'mnist'" in absent.err

    def test_two_runs_on_one_folder(self, run_bench: Run, spec: Path, tmp_path: Path) -> None:
        with only_one(tmp_path / "results/tiny"):
            assert_refused(
                run_bench("run", spec, "-o", tmp_path / "results"),
                "results/tiny: is in use by proc",
            )

    def test_edited_and_other_versions(
        self, run_bench: Run, spec: Path, no_training: list[Cell], tmp_path: Path
    ) -> None:
        words = ("run", spec, "-o", tmp_path / "results")
        assert run_bench(*words).code == 0
        path = tmp_path / "results/tiny/smoke/three-raters/vote-0.json"
        good = path.read_text()
        path.write_text(good.replace("0.5", "0.9"))
        assert_refused(run_bench(*words), path, "nobody edited")
        assert_refused(run_bench(*words, "--again"), path, "nobody edited")
        shown = run_bench("table", spec, "-o", tmp_path / "results")
        assert shown.code == 2
        assert f"1 result left out:\n  {path}: found other content" in shown.err
        assert "edited" in shown.out
        content = {**json.loads(good), "colour": "blue"}
        del content["checksum"]
        path.write_text(json.dumps({**content, "checksum": checksum(content)}))
        assert_refused(run_bench(*words), path, "found the parts cell, ", "colour")
        path.write_text("[]")
        assert_refused(run_bench(*words), path, "cannot be read")
        path.write_text(good)
        write_spec(tmp_path, train={**TINY["train"], "epochs": 5})
        assert_refused(
            run_bench(*words),
            "another version of the benchmark (train epochs 2 there, 5 now)",
            "--again",
        )
        assert "other version" in run_bench("table", spec, "-o", tmp_path / "results").out
        assert len(no_training) == 2
        assert run_bench(*words, "--again").code == 0
        assert len(no_training) == 4
        assert run_bench("table", spec, "-o", tmp_path / "results").code == 0

    def test_a_full_disk(
        self, run_bench: Run, spec: Path, no_training: list[Cell], tmp_path: Path
    ) -> None:
        with limited(100):
            outcome = run_bench("run", spec, "-o", tmp_path / "results")
        path = tmp_path / "results/tiny/smoke/three-raters/vote-0.json"
        assert_refused(outcome, path, "File too large")
        assert files(tmp_path / "results") == []
        assert len(no_training) == 1  # nothing that comes would fare better


@pytest.mark.slow
def test_list(run_bench: Run, tmp_path: Path) -> None:
    outcome = run_bench("list", "-o", tmp_path)
    assert outcome.code == 0
    assert "\npixel-cm-table-1: " in outcome.out
    assert "\n  smoke: 0 of " in outcome.out
    listed = json.loads(run_bench("list", "-o", tmp_path, "--json").out)
    assert {"name", "title", "paper", "scales"} == listed[0].keys()


def test_cells_that_tables_share_run_once(
    run_bench: Run, no_training: list[Cell], tmp_path: Path
) -> None:
    path = write_spec(tmp_path)
    outcome = run_bench("run", path, path, "-o", tmp_path / "results")
    assert outcome.code == 0
    assert len(no_training) == 2
    assert outcome.out.count("tiny: Clouds of points") == 2
