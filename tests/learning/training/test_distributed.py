"""Several processes train as one would: the same losses, scores and weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.errors import RatersError
from raters.learning.distributed import share
from raters.learning.methods.base import Step
from raters.learning.networks.normalise import Normalisation
from raters.learning.training.dataset import NO_CASE, CaseDataset, collate
from raters.learning.training.engine import StepTerms, mean_terms
from raters.learning.training.epochs import HeldOutScores
from raters.learning.training.loader import EpochSampler, refuse_small_batch
from raters.study.study import Study
from tests.support.distributed_script import RUNS, make_crowd_table, train_models

ROOT = Path(__file__).parents[3]
SCRIPT = ("-m", "tests.support.distributed_script")
TIME = 300  # seconds until a start that hangs is given up; it takes about 20


def run_and_wait(command: list[str], folder: Path, expected: int = 0) -> None:
    """Run a command that starts processes of its own; none of them outlives it."""
    places = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    options = {"OMP_NUM_THREADS": "1", "PYTHONPATH": places}
    with open(folder / "out.txt", "wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, env={**os.environ, **options}
        )
        try:
            code = process.wait(TIME)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            # The group is named by its first process, which may have ended already.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # Where one process died, Lightning may kill the first while it says so.
    assert code == expected or (expected and code == -signal.SIGKILL), (
        folder / "out.txt"
    ).read_text()[-3000:]


def load_result(folder: Path, name: str, rank: int) -> dict[str, Any]:
    read: dict[str, Any] = torch.load(folder / f"{name}-{rank}.pt", weights_only=True)
    return read


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    train_models(folder, 1, RUNS)
    return folder


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train everything with two processes; in a last training the second of them dies."""
    folder = tmp_path_factory.mktemp("together")
    run_and_wait([sys.executable, *SCRIPT, str(folder), "2", *RUNS, "dies"], folder, expected=1)
    return folder


# prob-unet computes in 64 bits here; losses are written in 32. In prism the bias of a key moves all
# scores of a softmax alike: what gradient it has is rounding, which AdamW makes as large as any.
WEIGHTS = {"prob-unet": 1e-9, "prism": 2e-3}


def assert_same_training(
    one: dict[str, Any], other: dict[str, Any], tolerance: float = 1e-4, of_weights: float = 1e-4
) -> None:
    assert one["best"] == other["best"]
    for row, expected in zip(one["history"], other["history"], strict=True):
        assert row.keys() == expected.keys()
        for name in row.keys() - {"epoch", "phase", "seconds", "waiting"}:
            assert row[name] == pytest.approx(expected[name], rel=tolerance, abs=1e-7), name
    assert one["weights"].keys() == other["weights"].keys()
    for name, weights in one["weights"].items():
        scale = float(other["weights"][name].double().abs().max())
        difference = (weights.double() - other["weights"][name].double()).abs().max()
        assert difference <= of_weights * scale, name


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_are_one(name: str, one_process: Path, two_processes: Path) -> None:
    first, second = (load_result(two_processes, name, rank) for rank in range(2))
    assert first["history"] == second["history"]
    assert_same_training(
        first, load_result(one_process, name, 0), of_weights=WEIGHTS.get(name, 1e-4)
    )
    assert_same_training(second, first)


@pytest.mark.slow
def test_the_first_process_writes_the_run(two_processes: Path) -> None:
    folder = two_processes / "run-masks"
    assert (folder / "weights.safetensors").exists()
    assert not (folder / "cache").exists()
    assert len((folder / "history.csv").read_text().splitlines()) == 4


@pytest.mark.slow
def test_torchrun_starts_them_too(one_process: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*torchrun, "--nproc_per_node", "2", *SCRIPT, str(tmp_path), "2", "masks"]
    run_and_wait(command, tmp_path)  # the first process locks the folder of the run for both
    assert_same_training(load_result(tmp_path, "masks", 1), load_result(one_process, "masks", 0))


@pytest.mark.slow
def test_a_process_that_dies_is_said_in_a_line(two_processes: Path) -> None:
    said = (two_processes / "out.txt").read_text()
    assert "error: found a process of this training gone" in said
    assert "Traceback" not in said
    log = (two_processes / "dies/run-masks/log.txt").read_text()
    assert "epoch 1/3" in log and "stopped by an error: found a process" in log


@pytest.mark.parametrize("length", [1, 5, 12, 13])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_processes_share_each_batch(length: int, world: int, monkeypatch: Any) -> None:
    whole = EpochSampler(length, 5, seed=3)
    parts = []
    for rank in range(world):
        with monkeypatch.context() as patch:
            patch.setattr("raters.learning.training.loader.processes", lambda r=rank: (r, world))
            parts.append(list(EpochSampler(length, 5, seed=3)))
    assert {len(part) for part in parts} == {len(whole)}
    for batch, *shares in zip(whole, *parts, strict=True):
        items = [[item for item in part if item is not None] for part in shares]
        assert [item for part in items for item in part] == batch
        sizes = [len(part) for part in items]
        assert max(sizes) - min(sizes) <= 1
        assert all(part for part in shares)  # padded, never empty


def test_parts_of_a_batch() -> None:
    assert [list(share([1, 2, 3, 4, 5], r, 2)) for r in range(2)] == [[1, 2, 3], [4, 5]]
    with pytest.raises(RatersError, match="found batch_size=3 for 4 processes, expected at least"):
        refuse_small_batch(3, 4)
    with pytest.raises(RatersError, match="found batch_size=2 for 3 processes"):
        raters.fit(
            make_crowd_table(), "global-cm", batch_size=2, devices=3
        )  # before any is started


@pytest.mark.parametrize("patch", [None, (2, 2)])
def test_padding_has_an_image_and_no_labels(patch: tuple[int, ...] | None) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (3, 2, 4, 4))
    study = Study.from_arrays(rng.normal(size=(3, 1, 4, 4)), labels, reference=labels[:, 0])
    for mode in ("train", "tiles"):
        for soft in (True, False):
            data = CaseDataset(
                study,
                Normalisation("none"),
                patch_size=patch,
                mode=mode,
                targets=lambda case, soft=soft: (
                    np.full((2, 4, 4), 0.5) if soft else case.labels[0]  # type: ignore[misc]
                ),
            )
            real = collate([data[0]])
            nothing = collate([data[None]])
            assert {k: v.shape for k, v in real.items()} == {k: v.shape for k, v in nothing.items()}
            assert nothing["case"].tolist() == [NO_CASE]
            assert nothing["image"].abs().sum() > 0
            assert (nothing["labels"] == -1).all()
            assert (nothing["target"] == (0 if soft else -1)).all()
            assert mode == "train" or (nothing["reference"] == -1).all()


def test_scores_of_processes_are_added_before_they_are_divided() -> None:
    rng = np.random.default_rng(0)
    counts = {case: torch.from_numpy(rng.integers(1, 9, (2, 3))) for case in range(4)}
    whole = HeldOutScores(6.0, 12, torch.ones(1, 2, 2), torch.full((2,), 2.0), dict(counts))
    one = HeldOutScores(2.0, 3, torch.full((1, 2, 2), 0.25), torch.full((2,), 0.5))
    two = HeldOutScores(4.0, 9, torch.full((1, 2, 2), 0.75), torch.full((2,), 1.5))
    one.overlaps = {2: counts[2], 0: counts[0] // 2, 1: counts[1]}
    two.overlaps = {3: counts[3], 0: counts[0] - counts[0] // 2}  # tiles of case 0 on both
    found = HeldOutScores.merged([one, two])
    assert found.mean_loss == whole.mean_loss == 0.5
    assert found.reference_score == whole.reference_score
    assert found.dominance == whole.dominance
    assert list(found.overlaps) == [0, 1, 2, 3]


def test_terms_are_means_over_the_labels_of_all() -> None:
    rng = np.random.default_rng(0)
    observed = rng.integers(0, 5, (2, 6))
    observed[:, 3] = 0
    values = rng.random((2, 6))
    processes = [StepTerms(), StepTerms()]
    for terms, counts, means in zip(processes, observed, values, strict=True):
        for count, mean in zip(counts, means, strict=True):
            loss = torch.tensor(mean)
            terms.add(Step(loss, torch.tensor(count), {"loss": loss}))
    each = (observed * values).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    assert mean_terms([p.sums() for p in processes])["loss"] == pytest.approx(each.mean())
