"""The folder of a run, early stopping, precision, loggers, and what `fit` leaves as it was."""

import json
import random
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from lightning.pytorch.utilities.exceptions import MisconfigurationException

import raters
from raters.core.errors import RatersError
from raters.learning.networks import TruthNetwork
from raters.learning.training.engine import Learner, precision_of
from raters.learning.training.epochs import Best
from raters.learning.training.run import (
    first_process,
    log,
    read_history,
    read_scores,
    read_splits,
    refuse_unfinished,
    room_for,
    write_splits,
)
from raters.study.study import Study
from tests.support.learning import quiet_fit, simulate_masks

FLAT: dict[str, Any] = {"epochs": 4, "batch_size": 8, "progress": False}
TINY: dict[str, Any] = {"epochs": 2, "batch_size": 4, "width": 4, "depth": 2, "progress": False}

LONG = {**FLAT, "epochs": 25, "schedule": "constant", "lr": 0.05, "width": 64}


def draw_answer_study(**more: Any) -> Study:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    labels = np.where(rng.random((60, 3)) < 0.7, truth[:, None], 1 - truth[:, None])
    return Study.from_arrays(truth[:, None] + rng.normal(0, 1.0, (60, 1)), labels, **more)


def simulate_two_raters() -> Study:
    """Simulate masks by two kinds of raters."""
    return simulate_masks(8, (16, 16), "good,over")


class TestFolder:
    """What a run writes."""

    SPLITS = ["train"] * 40 + ["val"] * 12 + ["test"] * 8

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, raters.Model]:
        folder = tmp_path_factory.mktemp("runs") / "deep" / "run"
        return folder, quiet_fit(
            draw_answer_study(splits=cls.SPLITS), "global-cm", folder=folder, **FLAT
        )

    def test_all_files_are_there_and_no_others(self, run: tuple[Path, raters.Model]) -> None:
        folder, _ = run
        found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
        plain = (
            "config.yaml",
            "history.csv",
            "log.txt",
            "scores.json",
            "splits.csv",
            ".sources.json",
        )
        assert found == {*plain, "weights.safetensors", "checkpoints/last.ckpt"}

    def test_history_and_scores_are_those_of_the_model(
        self, run: tuple[Path, raters.Model]
    ) -> None:
        folder, model = run
        table = pd.read_csv(folder / "history.csv")
        assert table["epoch"].tolist() == [1, 2, 3, 4]
        assert table["phase"].tolist() == ["warm-up", "warm-up", "main", "main"]
        assert table["held_out"].tolist() == [row["held_out"] for row in model.history]
        assert read_history(folder) == (model.history, model.best_epoch)
        scores = json.loads((folder / "scores.json").read_text())
        assert scores["finished"] is True
        assert scores["stopped_early"] is False
        assert scores["best"] == model.history[model.best_epoch - 1]
        assert scores["seconds"] == pytest.approx(table["seconds"].sum(), abs=1e-3)
        assert (scores["epochs"], scores["expected_epochs"]) == (4, 4)

    def test_splits_say_what_each_case_was_used_for(self, run: tuple[Path, raters.Model]) -> None:
        table = pd.read_csv(run[0] / "splits.csv", dtype=str)
        named = {"train": "train", "val": "held-out", "test": "left-out"}
        assert table["part"].tolist() == [named[name] for name in self.SPLITS]
        assert table["case"].tolist() == list(draw_answer_study().index.ids)

    def test_configuration_is_complete(self, run: tuple[Path, raters.Model]) -> None:
        config = yaml.safe_load((run[0] / "config.yaml").read_text())
        assert config["training"]["precision"] in ("32", "bf16")
        assert config["options"]["warm_up"] == 2
        assert config["training"]["patience"] is None

    def test_log_has_times_versions_and_every_epoch(self, run: tuple[Path, raters.Model]) -> None:
        lines = (run[0] / "log.txt").read_text().splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*  \S", line) for line in lines)
        text = "\n".join(lines)
        assert "40 cases to train on, 12 held out, 3 raters, 2 classes" in text
        assert f"raters {raters.__version__}, torch {torch.__version__}, python 3" in text
        for epoch in range(1, 5):
            assert f"epoch {epoch}/4" in text
        assert f"finished: epoch {run[1].best_epoch} of 4 is the best" in text

    def test_it_is_a_model(self, run: tuple[Path, raters.Model]) -> None:
        folder, model = run
        case = draw_answer_study()[0]
        assert np.array_equal(raters.load(folder).truth(case), model.truth(case))

    def test_a_folder_makes_no_difference(self, run: tuple[Path, raters.Model]) -> None:
        model = quiet_fit(draw_answer_study(splits=self.SPLITS), "global-cm", **FLAT)
        for name, tensor in model.method.state_dict().items():
            assert torch.equal(tensor, run[1].method.state_dict()[name])


def test_what_fails_before_it_starts_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="no reference"):
        quiet_fit(draw_answer_study(), "oracle-cm", folder=tmp_path / "run", **FLAT)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RatersError, match="found epochs=0"):
        quiet_fit(draw_answer_study(), "vote", folder=tmp_path / "run", epochs=0)
    assert not (tmp_path / "run").exists()


def test_warnings_are_logged_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(_: raters.Model) -> None:
        warnings.warn("look out", stacklevel=2)

    monkeypatch.setattr(raters.Model, "warn_if_not_dominant", warn)
    with pytest.warns(UserWarning, match="look out"):
        raters.fit(draw_answer_study(), "vote", folder=tmp_path, **{**FLAT, "epochs": 1})
    assert "  warning: look out\n" in (tmp_path / "log.txt").read_text()


def test_an_unfinished_run_is_told_from_a_broken_model(tmp_path: Path) -> None:
    quiet_fit(draw_answer_study(), "vote", folder=tmp_path / "run", **FLAT)
    (tmp_path / "run" / "weights.safetensors").unlink()
    with pytest.raises(RatersError, match=r"found an unfinished run \(epoch 4 of 4\).*--resume"):
        refuse_unfinished(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "my 'run")
    with pytest.raises(RatersError) as told:
        refuse_unfinished(tmp_path / "my 'run")
    assert shlex.quote(str(tmp_path / "my 'run")) in str(told.value)  # it can be pasted
    refuse_unfinished(tmp_path)  # nothing at all: others say what is missing


def test_odd_names_come_back_from_splits(tmp_path: Path) -> None:
    splits = [("a,b", "train", 'say "hi"'), ("re\rturn", "held-out", "line\nbreak"), ("", "x", " ")]
    for rows in (splits, splits[:1]):
        write_splits(tmp_path, rows)
        assert read_splits(tmp_path) == rows


def test_a_log_line_is_one_line(tmp_path: Path) -> None:
    log(tmp_path, "first\nof  all")
    log(tmp_path, "second")
    assert [line.split("  ")[1] for line in (tmp_path / "log.txt").read_text().splitlines()] == [
        "first of all",
        "second",
    ]


def test_only_a_full_disk_is_about_room(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), room_for(tmp_path):
        raise PermissionError(13, "not allowed")


def test_only_the_first_process_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert first_process()
    monkeypatch.setenv("RANK", "0")
    assert first_process()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not first_process()


def test_devices_that_are_not_there_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise MisconfigurationException("You requested gpu: [0, 1]\n But your machine has: [0]")

    monkeypatch.setattr("lightning.Trainer", refuse)
    with pytest.raises(RatersError, match=r"found devices=1 .* your machine has: \[0\]"):
        quiet_fit(draw_answer_study(), "vote", **FLAT)


def test_a_gpu_without_room_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has ...")

    monkeypatch.setattr(Learner, "training_step", full)
    with pytest.raises(RatersError, match=r"on the GPU \(CUDA out of memory\), expected .*batch"):
        quiet_fit(draw_answer_study(), "vote", folder=tmp_path, **FLAT)
    assert "stopped by an error: found no memory on the GPU" in (tmp_path / "log.txt").read_text()


def test_a_process_that_trains_alone_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of processes of some other work (a sweep, say) are not those of training."""
    monkeypatch.setenv("RANK", "3")
    quiet_fit(draw_answer_study(), "vote", folder=tmp_path, **{**FLAT, "epochs": 1})
    assert len(raters.load(tmp_path).history) == 1


@pytest.mark.parametrize("first", [True, False])
def test_an_epoch_without_a_score_is_not_the_best(first: bool) -> None:
    best = Best()
    network = torch.nn.Linear(1, 1)
    scores = [float("nan"), 0.5, 0.4] if first else [0.5, float("nan"), 0.4]
    for epoch, score in enumerate(scores, start=1):
        best.offer((True, True, score), epoch, network)
    assert best.epoch == best.improved == (2 if first else 1)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("history.csv", b"epoch,loss\n\xff,1\n", "history.csv: cannot be read"),
        ("history.csv", b"epoch,loss\n1,2,3\n", "history.csv: cannot be read"),
        ("scores.json", b'{"best_epoch": "two"}', "found the best epoch 'two', expected a number"),
    ],
)
def test_a_damaged_record_is_named(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text("epoch,loss\n1,0.5\n")
    (tmp_path / file).write_bytes(content)
    with pytest.raises(RatersError, match=message):
        read_history(tmp_path)


@pytest.mark.parametrize("method", ["vote", "no such method"])
def test_the_callers_random_numbers_stay(method: str) -> None:
    """A stream that the user draws from goes on as if `fit` were not there, also on errors."""
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    try:
        quiet_fit(draw_answer_study(), method, **{**FLAT, "dropout": 0.5})
    except RatersError:
        assert method == "no such method"
    assert torch.equal(torch.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]


class TestPatience:
    """It stops when no epoch was better for some time, and says so."""

    @pytest.mark.slow
    def test_it_stops_where_the_history_says(self, tmp_path: Path) -> None:
        """With a constant rate the epochs are the same ones, so the end can be foretold."""
        for warm_up in (0, 6):
            options = {**LONG, "warm_up": warm_up}
            losses = [
                row["held_out"]
                for row in quiet_fit(draw_answer_study(), "global-cm", **options).history
            ]
            best = np.inf
            improved = warm_up
            for epoch, loss in enumerate(losses[warm_up:], start=warm_up + 1):
                if loss < best:
                    best = loss
                    improved = epoch
                if epoch - improved == 3:
                    break
            assert epoch < 25  # else the data show nothing
            folder = tmp_path / str(warm_up)
            model = quiet_fit(
                draw_answer_study(), "global-cm", patience=3, folder=folder, **options
            )
            assert len(model.history) == epoch
            assert model.best_epoch == improved
            assert read_scores(folder)["stopped_early"] is True
            assert "finished early" in (folder / "log.txt").read_text()

    def test_it_needs_scores(self) -> None:
        with pytest.raises(RatersError, match="found patience=2 and no held-out cases"):
            quiet_fit(draw_answer_study(), "vote", patience=2, val_fraction=0.0, **FLAT)
        with pytest.raises(RatersError, match="found patience=2 and select='last'"):
            quiet_fit(draw_answer_study(), "vote", patience=2, select="last", **FLAT)


class TestPrecision:
    """The network may have 16 bits; the likelihood has 32."""

    @pytest.mark.slow
    def test_bf16_is_close_to_32(self) -> None:
        losses = {
            precision: [
                row["loss"]
                for row in quiet_fit(
                    simulate_two_raters(), "pixel-cm", precision=precision, **TINY
                ).history
            ]
            for precision in ("32", "bf16")
        }
        assert np.isfinite(losses["bf16"]).all()
        assert losses["bf16"] == pytest.approx(losses["32"], rel=0.02)
        assert losses["bf16"] != losses["32"]

    def test_only_the_backbone_is_rounded(self) -> None:
        model = quiet_fit(simulate_two_raters(), "pixel-cm", precision="bf16", **TINY)
        network = model.method.network
        assert isinstance(network, TruthNetwork)
        assert network.half_type is None  # predictions have 32 bits
        image = torch.rand(1, 1, 16, 16)
        full = network(image)
        network.half_type = torch.bfloat16
        features, logits = network(image)
        assert features.dtype == logits.dtype == torch.float32
        assert torch.equal(features, features.bfloat16().float())
        assert not torch.equal(logits, logits.bfloat16().float())
        assert torch.allclose(logits, full[1], atol=0.1)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_without_a_gpu(self) -> None:
        assert precision_of("auto") == "32"
        with pytest.raises(RatersError, match="found precision='16' without a GPU"):
            quiet_fit(draw_answer_study(), "vote", precision="16", **FLAT)


class TestLoggers:
    """The rows of history, told to others."""

    def test_tensorboard_has_the_history(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own imports
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        model = quiet_fit(
            draw_answer_study(), "global-cm", folder=tmp_path, loggers=("tensorboard",), **FLAT
        )
        found: dict[str, list[tuple[int, float]]] = {}
        for path in (tmp_path / "tensorboard").glob("events*"):
            for event in EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    number = value.tensor.float_val
                    if number:
                        found.setdefault(value.tag, []).append((event.step, number[0]))
        for name in ("loss", "held_out", "dominance"):
            assert [step for step, _ in found[name]] == [1, 2, 3, 4]
            expected = [row[name] for row in model.history]
            assert [number for _, number in found[name]] == pytest.approx(expected)
        assert "phase" not in found

    @pytest.mark.parametrize("name", ["mlflow", "wandb"])
    def test_a_missing_one_is_named(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
        message = rf"found no {name}, expected pip install 'raters\[{name}\]'"
        with pytest.raises(RatersError, match=message):
            quiet_fit(draw_answer_study(), "vote", folder=tmp_path / "run", loggers=[name], **FLAT)
        assert not (tmp_path / "run").exists()

    def test_they_need_a_folder(self) -> None:
        with pytest.raises(RatersError, match="'tensorboard' and no folder"):
            quiet_fit(draw_answer_study(), "vote", loggers=["tensorboard"], **FLAT)
