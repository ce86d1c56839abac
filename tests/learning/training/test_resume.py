"""Runs that are killed, interrupted, or find no space: resuming gives the very same weights."""

import errno
import itertools
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.errors import RatersError
from raters.learning.methods.base import Batch
from raters.learning.training.engine import Learner
from raters.learning.training.epochs import read_checkpoint, write_checkpoint
from raters.learning.training.run import Record, read_history, read_scores
from raters.study.study import Study
from tests.support.command_line import fingerprint
from tests.support.learning import quiet_fit, simulate_masks, without_times

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["raters.learning.training.fit", __name__])

EPOCHS = 8
FLAT: dict[str, Any] = {"epochs": EPOCHS, "dropout": 0.3, "batch_size": 7, "progress": False}
CHECKPOINT = "checkpoints/last.ckpt"
TEMPORARY = Path("checkpoints/.last.ckpt.tmp")
PATIENCE = 300  # seconds until a process that does nothing is given up


def draw_answers(cases: int = 60, features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, cases)
    images = np.eye(3)[truth] @ rng.normal(size=(3, features)) + rng.normal(
        0, 0.3, (cases, features)
    )
    labels = np.where(rng.random((cases, 3)) < 0.7, truth[:, None], rng.integers(0, 3, (cases, 3)))
    return images, labels


def draw_answer_study() -> Study:
    return Study.from_arrays(*draw_answers())


@pytest.fixture(scope="module")
def simulated_masks() -> Study:
    """Simulate masks by three kinds of raters."""
    return simulate_masks(10, (16, 16), "good,over,under", raters=["good", "over", "under"])


def train_and_resume(folder: Path, **options: Any) -> None:
    """Train in a process of its own; it resumes if there is something to resume."""
    torch.set_num_threads(1)
    quiet_fit(draw_answer_study(), "global-cm", folder=folder, resume=True, **{**FLAT, **options})


def start_process(target: Callable[..., None], *args: Any, **options: Any) -> Any:
    process = processes.Process(target=target, args=args, kwargs=options)
    process.start()
    return process


def join_process(process: Any, code: int = 0) -> None:
    process.join(PATIENCE)
    found = process.exitcode
    process.kill()  # one that hangs
    assert found == code


def wait_until(happened: Callable[[], bool], process: Any) -> bool:
    """Wait for what a process does; False if it ended without it."""
    while process.is_alive():
        if happened():
            return True
        time.sleep(0.02)
    return False


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def train_and_die(folder: Path, at: int) -> None:
    """Train, and be killed before a step of training or scoring, or before a file takes its place.

    Args:
        folder: The run.
        at: The number of that step or file, of all that this process comes to.
    """
    number = itertools.count(1)

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def count_and_work(*words: Any, **options: Any) -> Any:
            if next(number) == at:
                kill_this_process()
            return work(*words, **options)

        return count_and_work

    Learner.training_step = counted(Learner.training_step)  # type: ignore[method-assign]
    Learner.validation_step = counted(Learner.validation_step)  # type: ignore[method-assign]
    os.fsync = counted(os.fsync)
    os.replace = counted(os.replace)
    train_and_resume(folder)


def train_and_tear(folder: Path, at: int) -> None:
    """Train, and be killed when half of a checkpoint is written: the first or a later one."""
    number, fsync = itertools.count(1), os.fsync

    def tear(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        if name == TEMPORARY.name and next(number) == at:
            os.ftruncate(file, os.fstat(file).st_size // 2)
            kill_this_process()
        fsync(file)

    os.fsync = tear
    train_and_resume(folder)


def train_and_stand_still(folder: Path) -> None:
    """Train two epochs, and do nothing more until somebody asks this process to end."""
    original = Record.epoch

    def epoch(self: Record, learner: Learner) -> None:
        original(self, learner)
        while len(learner.history) == 2 and not learner.trainer.received_sigterm:
            time.sleep(0.02)

    Record.epoch = epoch  # type: ignore[method-assign]
    train_and_resume(folder)


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights to the bit, and all numbers of all epochs."""
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (found, expected)]
    assert weights[0] == weights[1]
    rows, best = read_history(found)
    assert without_times(rows) == without_times(read_history(expected)[0])
    assert best == read_history(expected)[1]
    assert read_scores(found)["finished"] is True
    assert (found / "splits.csv").read_text() == (expected / "splits.csv").read_text()


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], epoch: int, step: int = 1
) -> None:
    """Let an error come in the middle of an epoch."""
    original = Learner.training_step

    def stumble(self: Learner, batch: Batch, k: int) -> torch.Tensor:
        if (self.current_epoch, k) == (epoch, step):
            raise error("stumbled")
        return original(self, batch, k)

    monkeypatch.setattr(Learner, "training_step", stumble)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    join_process(start_process(train_and_resume, folder))
    return folder


@pytest.mark.slow
class TestKilled:
    """A process that gets SIGKILL: it can do nothing about it."""

    def test_five_kills_change_nothing(self, tmp_path: Path, whole_run: Path) -> None:
        """At random points, each in another epoch; each time another process resumes."""
        folder, rng = tmp_path / "killed", random.Random(0)
        for _ in range(5):
            # A process writes 4 files, and an epoch is 14 steps and files: it dies in its second.
            join_process(
                start_process(train_and_die, folder, at=rng.randint(19, 32)), -signal.SIGKILL
            )
            with pytest.raises(RatersError, match="found an unfinished run"):
                raters.load(folder)
        join_process(start_process(train_and_resume, folder))
        assert_same_run(folder, whole_run)

    def test_a_polite_end_from_outside_is_no_success(self, tmp_path: Path) -> None:
        """SIGTERM, as queues send it when the time is over."""
        process = start_process(train_and_stand_still, tmp_path)
        assert wait_until(lambda: read_scores(tmp_path).get("epochs", 0) > 1, process)
        os.kill(process.pid, signal.SIGTERM)
        join_process(process, 128 + signal.SIGTERM)
        assert "stopped from outside (SIGTERM)" in (tmp_path / "log.txt").read_text()
        assert read_checkpoint(tmp_path / CHECKPOINT)

    def test_a_kill_while_a_checkpoint_is_written(self, tmp_path: Path, whole_run: Path) -> None:
        """The first one of a run, and then one that would take the place of another."""
        folder = tmp_path / "killed"
        join_process(start_process(train_and_tear, folder, at=1), -signal.SIGKILL)
        assert (folder / TEMPORARY).exists()
        assert not (folder / CHECKPOINT).exists()
        join_process(start_process(train_and_tear, folder, at=3), -signal.SIGKILL)
        assert (folder / TEMPORARY).exists()
        assert len(read_checkpoint(folder / CHECKPOINT)["raters"]["history"]) == 2
        join_process(start_process(train_and_resume, folder))
        assert not (folder / TEMPORARY).exists()
        assert_same_run(folder, whole_run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "epoch", "error"),
    [
        ("separate", {}, 1, KeyboardInterrupt),
        ("vote", {"augment": "full", "patch_size": (8, 8), "patches_per_case": 2}, 2, RuntimeError),
        ("global-cm", {"warm_up": 3, "patience": 4}, 4, KeyboardInterrupt),
        ("global-cm", {"warm_up": 3, "schedule": "constant"}, 2, RuntimeError),
        ("pixel-cm", {"num_workers": 1, "class_weights": "balanced"}, 3, RuntimeError),
        ("pixel-cm", {"precision": "bf16"}, 2, RuntimeError),
        ("wdn", {"weight_epochs": 2}, 4, RuntimeError),
        ("max-mig", {"warm_up": 1}, 3, RuntimeError),
        # So many pixels that some are drawn to follow each rater's own matrix.
        (
            "pixel-cm",
            {"patch_size": (40, 40), "patches_per_case": 1, "warm_up": 1},
            3,
            RuntimeError,
        ),
    ],
)
def test_an_interrupted_run_of_masks_goes_on_exactly(
    method: str,
    options: dict[str, Any],
    epoch: int,
    error: type[BaseException],
    simulated_masks: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"epochs": 5, "batch_size": 4, "width": 2, "depth": 2, "dropout": 0.2, **options}
    quiet_fit(simulated_masks, method, progress=False, folder=tmp_path / "whole", **given)
    with monkeypatch.context() as patch, pytest.raises(error):
        interrupt_at(patch, error, epoch)
        quiet_fit(simulated_masks, method, progress=False, folder=tmp_path / "broken", **given)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    log = (tmp_path / "broken" / "log.txt").read_text()
    assert ("stopped by Ctrl-C" if error is KeyboardInterrupt else "stumbled") in log
    model = quiet_fit(simulated_masks, progress=False, folder=tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "broken", tmp_path / "whole")
    assert without_times(model.history) == without_times(read_history(tmp_path / "whole")[0])


def test_a_run_that_ended_before_its_weights_were_written(tmp_path: Path) -> None:
    """Killed after the last epoch, or after it stopped early: nothing is trained again."""
    options = {**FLAT, "schedule": "constant", "lr": 0.3, "patience": 2, "epochs": 30}
    quiet_fit(draw_answer_study(), "global-cm", folder=tmp_path / "whole", **options)
    assert read_scores(tmp_path / "whole")["stopped_early"]
    shutil.copytree(tmp_path / "whole", tmp_path / "late")
    (tmp_path / "late" / "weights.safetensors").unlink()
    (tmp_path / "late" / "scores.json").unlink()
    quiet_fit(draw_answer_study(), folder=tmp_path / "late", resume=True, progress=False)
    assert_same_run(tmp_path / "late", tmp_path / "whole")
    assert read_scores(tmp_path / "late")["stopped_early"]


class TestNoRoom:
    """A full disk: the last whole checkpoint stays, and the user is informed."""

    @pytest.mark.slow
    def test_a_limit_of_the_system(self, tmp_path: Path, whole_run: Path) -> None:
        folder = tmp_path / "full"
        told = tmp_path / "told.txt"
        join_process(start_process(train_without_room, folder, told))
        assert "last.ckpt: found no space for it" in told.read_text()
        assert "use --resume" in told.read_text()
        assert [path.name for path in (folder / "checkpoints").iterdir()] == ["last.ckpt"]
        assert len(read_checkpoint(folder / CHECKPOINT)["raters"]["history"]) == 2
        quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)
        assert_same_run(folder, whole_run)

    def test_in_the_middle_of_writing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "last.ckpt"
        whole = dict.fromkeys(("raters", "state_dict", "optimizer_states", "loops"), 1)
        write_checkpoint(path, {**whole, "lr_schedulers": 7})

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RatersError, match=r"last\.ckpt: found no space for it \(No space"):
            write_checkpoint(path, {**whole, "lr_schedulers": 8})
        assert read_checkpoint(path)["lr_schedulers"] == 7
        assert os.listdir(tmp_path) == ["last.ckpt"]


def train_without_room(folder: Path, told: Path) -> None:
    """Allow no file larger than a checkpoint, once two epochs are done."""
    original = Record.epoch

    def epoch(self: Record, learner: Learner) -> None:
        original(self, learner)
        if len(learner.history) == 2:
            sys.dont_write_bytecode = True  # what is cut off could not be imported again
            limit = self.checkpoint.stat().st_size // 2
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    Record.epoch = epoch  # type: ignore[method-assign]
    try:
        train_and_resume(folder)
    except RatersError as error:
        told.write_text(str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestBadCheckpoints:
    """What is no whole checkpoint of ours is refused, and never run."""

    @pytest.fixture(scope="class")
    @classmethod
    def stopped(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("stopped") / "run"
        with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):
            interrupt_at(patch, RuntimeError, epoch=2)
            quiet_fit(draw_answer_study(), "global-cm", folder=folder, **FLAT)
        return folder

    @pytest.fixture
    def folder(self, stopped: Path, tmp_path: Path) -> Path:
        return shutil.copytree(stopped, tmp_path / "run")

    def test_torn(self, folder: Path) -> None:
        path = folder / CHECKPOINT
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(RatersError, match=r"last\.ckpt: found a damaged file"):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)

    def test_one_wrong_bit(self, folder: Path) -> None:
        path = folder / CHECKPOINT
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(RatersError, match=r"last\.ckpt: found a damaged file"):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)

    def test_a_stranger_runs_no_code(self, folder: Path, tmp_path: Path) -> None:
        whole = read_checkpoint(folder / CHECKPOINT)
        write_checkpoint(folder / CHECKPOINT, {**whole, "evil": Evil(tmp_path / "hacked")})
        with pytest.raises(RatersError, match="expected a checkpoint of raters train"):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)
        assert not (tmp_path / "hacked").exists()

    def test_of_another_version(self, folder: Path) -> None:
        whole = read_checkpoint(folder / CHECKPOINT)
        write_checkpoint(folder / CHECKPOINT, {**whole, "raters": {"history": []}})
        with pytest.raises(RatersError, match="checkpoint of another version of raters"):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)

    def test_of_something_else(self, folder: Path) -> None:
        write_checkpoint(folder / CHECKPOINT, {"state_dict": {}})
        with pytest.raises(RatersError, match="expected a checkpoint of raters train"):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False)


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


class TestWhatMustBeTheSame:
    """Options, raters, classes and cases of a run; what does not change the result may change."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("runs") / "run"
        quiet_fit(
            draw_answer_study(), "global-cm", folder=folder, **{**FLAT, "epochs": 4, "warm_up": 0.5}
        )
        return folder

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"epochs": 40}, "found epochs=40, expected 4 as in .*config.yaml"),
            ({"method": "vote"}, "found method=vote, expected global-cm as in .*config.yaml"),
            ({"trace": 0.5}, "found trace=0.5, expected 0.0"),
            ({"warm_up": 1}, "found warm_up=1, expected 2"),
            ({"width": 5}, "found width=5, expected"),
            ({"val_fraction": 0.5}, "found val_fraction=0.5, expected 0.15"),
        ],
    )
    def test_other_options_are_refused(
        self, folder: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(RatersError, match=message):
            quiet_fit(draw_answer_study(), folder=folder, resume=True, progress=False, **options)

    def test_other_studies_are_refused(self, folder: Path) -> None:
        study = draw_answer_study()
        again: dict[str, Any] = {"folder": folder, "resume": True, "progress": False}
        with pytest.raises(RatersError, match="found raters=0, 1, expected 0, 1, 2 as in"):
            quiet_fit(study.select(raters=["0", "1"]), **again)
        ids = list(study.index.ids)
        message = "found the case '3' .*, expected the case '2' .* as in .*splits.csv"
        with pytest.raises(RatersError, match=message):
            quiet_fit(study.select(cases=ids[:2] + ids[3:]), **again)
        with pytest.raises(RatersError, match=r"found the case '0' \(.*group 'x'\), expected"):
            quiet_fit(regroup(study, {"0": "x"}), **again)

    def test_a_finished_run_is_given_back(self, folder: Path) -> None:
        """The same options, in other words, and options that do not change the result."""
        options = {**FLAT, "epochs": 4, "warm_up": 0.5, "augment": "auto", "num_workers": 2}
        before = (folder / "weights.safetensors").stat().st_mtime_ns
        model = quiet_fit(draw_answer_study(), "global-cm", folder=folder, resume=True, **options)
        assert (folder / "weights.safetensors").stat().st_mtime_ns == before
        assert "the run is finished" in (folder / "log.txt").read_text().splitlines()[-1]
        case = draw_answer_study()[0]
        assert np.array_equal(model.truth(case), raters.load(folder).truth(case))

    def test_a_run_without_resume_is_refused(self, folder: Path) -> None:
        with pytest.raises(RatersError, match=r"found a run, expected a new folder.*--resume"):
            quiet_fit(draw_answer_study(), "global-cm", folder=folder, **FLAT)


class TestOtherData:
    """A run learns from the data that it was started with."""

    @pytest.fixture(scope="class")
    @classmethod
    def stopped(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Write a study, and a run on it that was interrupted in its third epoch."""
        folder = tmp_path_factory.mktemp("data")
        simulate_masks(6, (16, 16), "good,over", raters=["good", "over"]).write(folder / "study")
        options = {"epochs": 4, "network": "patch-cnn", "width": 2, "depth": 1, "batch_size": 2}
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            interrupt_at(patch, KeyboardInterrupt, 2, 0)
            quiet_fit(cls.study(folder), "vote", folder=folder / "run", progress=False, **options)
        return folder

    @pytest.fixture
    def folder(self, stopped: Path, tmp_path: Path) -> Path:
        shutil.copytree(stopped, tmp_path / "moved")  # with the files' times
        return tmp_path / "moved"

    @staticmethod
    def study(folder: Path) -> Study:
        return raters.read(folder / "study")

    def resume(self, folder: Path) -> None:
        quiet_fit(self.study(folder), folder=folder / "run", resume=True, progress=False)
        assert read_scores(folder / "run")["finished"]

    def swap_masks(self, folder: Path) -> None:
        first, second, *_ = sorted((folder / "study/labels/over").iterdir())
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)

    def test_files_that_were_moved_together_are_the_same(self, folder: Path) -> None:
        self.resume(folder)

    def test_changed_masks_are_refused(self, folder: Path) -> None:
        self.swap_masks(folder)
        before = fingerprint(folder)
        case = self.study(folder).index.ids[0]
        message = f"other data: that of case {case!r} and 1 other case has changed .*sources.json"
        with pytest.raises(RatersError, match=message):
            self.resume(folder)
        assert fingerprint(folder) == before
        (folder / "run/.sources.json").unlink()
        self.resume(folder)

    def test_runs_of_older_versions_are_resumed(self, folder: Path) -> None:
        (folder / "run/.sources.json").unlink()
        self.swap_masks(folder)
        self.resume(folder)

    def test_a_damaged_list_is_named(self, folder: Path) -> None:
        (folder / "run/.sources.json").write_text("[")
        with pytest.raises(RatersError, match=r"\.sources\.json: found no JSON"):
            self.resume(folder)

    @pytest.mark.parametrize("changed", ["image", "label"])
    def test_changed_arrays_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
    ) -> None:
        images, labels = draw_answers()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            interrupt_at(patch, KeyboardInterrupt, 2)
            quiet_fit(draw_answer_study(), "global-cm", folder=tmp_path / "run", **FLAT)
        if changed == "image":
            images[7] += 0.5
        else:
            labels[7, 0] = (labels[7, 0] + 1) % 3
        again = Study.from_arrays(images, labels)
        with pytest.raises(RatersError, match="that of case '7' has changed"):
            quiet_fit(again, folder=tmp_path / "run", resume=True, progress=False)


def regroup(study: Study, groups: dict[str, str]) -> Study:
    """Return some cases another group."""
    names = [groups.get(case, case) for case in study.index.ids]
    images = np.stack([np.asarray(case.image) for case in study.iter_cases()])
    labels = np.array(
        [[said.item() for said in case.answers.by_rater()] for case in study.iter_cases()]
    )
    return Study.from_arrays(images, labels, groups=names)
