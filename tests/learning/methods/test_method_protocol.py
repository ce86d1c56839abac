"""What a learning method may need, each by a toy that is defined outside the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import raters
from raters.core.errors import RatersError
from raters.learning.methods import METHODS, MethodEntry
from raters.learning.methods.base import Asked, Method, Step
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.phases import draw_latents
from raters.learning.training.config import read_config
from raters.learning.training.epochs import read_checkpoint
from raters.learning.training.loader import whole_cases
from raters.learning.training.model import Model
from raters.learning.training.options import checked_options
from raters.learning.training.prepare import make_loader, plan_training
from raters.learning.training.run import read_history
from raters.study.study import Study
from tests.support.command_line import Run
from tests.support.distributed_script import PLAIN, make_crowd_table, make_noisy_masks
from tests.support.kill_script import EPOCH, options_of
from tests.support.learning import without_times
from tests.support.toy_methods import TOYS, ToyEM, ToyRounds, ToyTwo, registered, vote_loss

ROOT = Path(__file__).parents[3]
WHOLE: dict[str, Any] = {**options_of(""), "batch_size": 8, "augment": "none", "select": "last"}
WHOLE |= {"weight_decay": 0.1}


@pytest.fixture(scope="module", autouse=True)
def toys() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train all toys without an interruption."""
    folder = tmp_path_factory.mktemp("runs")
    for name in TOYS:
        raters.fit(make_noisy_masks(), name, folder=folder / name, **options_of(name))
    return folder


@pytest.fixture(scope="module")
def killed_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train all toys in processes that are killed."""
    folder = tmp_path_factory.mktemp("killed")
    places = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-m", "tests.support.kill_script", str(folder)],
        env={**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"},
        timeout=600,
        check=True,
    )
    return folder


def history_numbers(folder: Path) -> list[dict[str, Any]]:
    """Return the history of a run without its times."""
    rows, _ = read_history(folder)
    return without_times(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_a_killed_run_resumes_to_the_byte(name: str, runs: Path, killed_runs: Path) -> None:
    assert len(history_numbers(killed_runs / name)) == EPOCH
    assert not (killed_runs / name / "weights.safetensors").exists()
    with pytest.warns(UserWarning, match="its lock was taken over"):
        raters.fit(make_noisy_masks(), folder=killed_runs / name, resume=True, progress=False)
    for file in ("weights.safetensors", "config.yaml", "splits.csv"):
        assert (killed_runs / name / file).read_bytes() == (runs / name / file).read_bytes(), file
    assert history_numbers(killed_runs / name) == history_numbers(runs / name)


def fresh(name: str, folder: Path, seed: int = 0) -> Any:
    """Make a toy as training does before the first step."""
    torch.manual_seed(seed)
    return read_config(folder / name / "config.yaml").build()


def assert_same_tensors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6, msg=name)


def whole_batch(study: Study) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the images of the training cases, normalised, and their labels."""
    cases = [case for case in study.iter_cases() if case.split == "train"]
    plan = plan_training(study, checked_options("global-cm", {}))
    normalise = plan.config.normaliser()
    images = torch.stack([torch.from_numpy(normalise(np.asarray(c.image))) for c in cases])
    labels = torch.stack([torch.from_numpy(c.labels.astype(np.int64)) for c in cases])
    return images, {"image": images, "labels": labels}


class TestPass:
    """All training cases, whole, between epochs."""

    def test_each_tile_is_seen_once_in_order(self, runs: Path) -> None:
        state = read_checkpoint(runs / "toy-em" / "checkpoints" / "last.ckpt")["raters"]["method"]
        study = make_noisy_masks()
        expected = []
        for k, corner in product(range(8), product((0, 5), (0, 4))):
            tile = study[k].labels[:, corner[0] : corner[0] + 5, corner[1] : corner[1] + 4]
            expected.append([k, *corner, 8, 6, int((tile != -1).any(0).sum())])
        assert state["seen"] == expected

    def test_matrices_are_those_of_a_slow_loop(self, runs: Path) -> None:
        """One epoch: the pass sees the network and matrices of the start."""
        model = raters.fit(make_noisy_masks(), "toy-em", **{**options_of("toy-em"), "epochs": 1})
        method = fresh("toy-em", runs)
        images, batch = whole_batch(make_noisy_masks())
        counts = np.full((3, 2, 2), 0.1)
        for k, (i, j) in product(range(len(images)), product((0, 5), (0, 4))):
            tile = np.zeros((1, 1, 5, 4), np.float32)
            image = images[k : k + 1, :, i : i + 5, j : j + 4].numpy()
            tile[:, :, : image.shape[2], : image.shape[3]] = image
            with torch.no_grad():
                truth = method.network(torch.from_numpy(tile))[1].softmax(1)[0].numpy()
            labels = batch["labels"][k, :, i : i + 5, j : j + 4].numpy()
            for place in np.ndindex(labels.shape[1:]):
                q = truth[:, *place].astype(float)
                seen = [(r, o) for r, o in enumerate(labels[:, *place]) if o >= 0]
                for _, o in seen:
                    q = q * np.where(np.arange(2) == o, 0.8, 0.2)
                for r, o in seen:
                    counts[r, :, o] += q / q.sum()
        expected = counts / counts.sum(2, keepdims=True)
        np.testing.assert_allclose(model.method.matrices, expected, rtol=1e-4)

    def test_what_training_alone_needs_is_in_no_weights(self, runs: Path) -> None:
        with safe_open(runs / "toy-em" / "weights.safetensors", "pt") as file:
            names = set(file.keys())
        assert names == set(ToyEM.state_dict(fresh("toy-em", runs)))
        assert not any("before" in name for name in names)
        checkpoint = read_checkpoint(runs / "toy-em" / "checkpoints" / "last.ckpt")
        kept = checkpoint["raters"]["method"]["before"]
        assert kept.keys() == fresh("toy-em", runs).network.state_dict().keys()


def load_batches(study: Study, num_workers: int = 0, **given: Any) -> list[dict[str, Tensor]]:
    """Return the batches of a pass."""
    network = PLAIN if study.kind == "segmentation" else {}  # no MONAI
    options = {**network, "batch_size": 3, "num_workers": num_workers, **given}
    planned = plan_training(study, checked_options("global-cm", options))
    method: Method = planned.config.build()
    return list(whole_cases(make_loader(planned, method, "train"), 3))


class TestCasesOfAPass:
    """Which items a pass consists of."""

    def test_tables(self) -> None:
        study = make_crowd_table()
        batches = load_batches(study)
        cases = torch.cat([batch["case"] for batch in batches]).tolist()
        assert cases == list(range(32))
        for batch in batches:
            assert batch["corner"].shape == batch["space"].shape == (len(batch["case"]), 0)
            for k, case in enumerate(batch["case"].tolist()):
                given = batch["labels"][k] >= 0
                answers = study[case].answers
                assert batch["labels"][k][given].tolist() == answers.label.tolist()
                assert batch["raters"][k][given].tolist() == answers.rater.tolist()

    def test_workers_change_nothing(self) -> None:
        for one, other in zip(
            load_batches(make_noisy_masks(), patch_size=(5, 4)),
            load_batches(make_noisy_masks(), 1, patch_size=(5, 4)),
            strict=True,
        ):
            assert one.keys() == other.keys()
            assert all(torch.equal(value, other[name]) for name, value in one.items())

    @pytest.mark.parametrize("world", [2, 3, 9])
    def test_processes_share_the_cases(self, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []
        owners = dict[int, set[int]]()
        for rank in range(world):
            monkeypatch.setattr(
                "raters.learning.training.loader.processes", lambda r=rank: (r, world)
            )
            for batch in load_batches(make_noisy_masks(), patch_size=(5, 4), batch_size=9):
                for case, corner in zip(
                    batch["case"].tolist(), batch["corner"].tolist(), strict=True
                ):
                    seen.append((case, *corner))
                    owners.setdefault(case, set()).add(rank)
        assert seen == list(product(range(8), (0, 5), (0, 4)))
        assert all(len(ranks) == 1 for ranks in owners.values())


def adam(parameters: Any, steps: int, lr: float = 0.01) -> tuple[Any, Any]:
    optimiser = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)
    return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)


class TestPhases:
    """Optimisers, schedules, restarts: as a plain loop of torch takes them."""

    def test_rounds_are_a_plain_loop(self, runs: Path) -> None:
        found = raters.fit(make_noisy_masks(), "toy-rounds", **WHOLE)
        _, batch = whole_batch(make_noisy_masks())
        method: ToyRounds = fresh("toy-rounds", runs)
        sgd = torch.optim.SGD(method.scale.parameters(), lr=0.1, momentum=0.9)
        slower = torch.optim.lr_scheduler.ExponentialLR(sgd, 0.9)
        for epoch in range(4):
            if epoch % 2 == 0:
                if epoch == 2:
                    other = fresh("toy-rounds", runs, seed=2)
                    method.network.load_state_dict(other.network.state_dict())
                optimiser, schedule = adam(method.network.parameters(), 1)
            else:
                optimiser = sgd
                schedule = slower
            method.zero_grad()
            method.step(batch).loss.backward()
            optimiser.step()
            schedule.step()
        assert_same_tensors(found.method.state_dict(), method.state_dict())
        phases = ["round 1 network", "round 1 scale", "round 2 network", "round 2 scale"]
        assert [row["phase"] for row in found.history] == phases

    def test_only_the_last_round_is_chosen_from(self, runs: Path) -> None:
        assert raters.load(runs / "toy-rounds").best_epoch > 2

    def test_two_networks_in_turns_are_a_plain_loop(self, runs: Path) -> None:
        found = raters.fit(make_noisy_masks(), "toy-two", **WHOLE)
        _, batch = whole_batch(make_noisy_masks())
        method: ToyTwo = fresh("toy-two", runs)
        first, slow_first = adam(method.first.parameters(), 4)
        second, slow_second = adam(method.second.parameters(), 4, 3e-3)
        for epoch in range(4):
            if epoch:
                target = method.first(batch["image"])[1].softmax(1).detach()
                log_truth = method.second(batch["image"])[1].log_softmax(1)
                method.zero_grad()
                (-(target * log_truth).sum(1).mean()).backward()
                second.step()
                slow_second.step()
            method.zero_grad()
            vote_loss(method.first(batch["image"])[1].log_softmax(1), batch).loss.backward()
            first.step()
            slow_first.step()
        assert_same_tensors(found.method.state_dict(), method.state_dict())
        assert ["second" in row for row in found.history] == [False, True, True, True]


class TestExtra:
    """Inputs of a case that travel with it."""

    @pytest.mark.parametrize("mode", ["train", "tiles"])
    @pytest.mark.parametrize("patch_size", ["whole", (5, 4)])
    def test_they_stay_with_their_case(self, mode: Any, patch_size: Any) -> None:
        given = {**options_of(""), "patch_size": patch_size, "augment": "flip"}
        given.pop("progress")
        planned = plan_training(make_noisy_masks(), checked_options("toy-extra", given))
        part = planned.train if mode == "train" else planned.held_out
        seen = 0
        for batch in make_loader(planned, planned.config.build(), mode):
            for k, case in enumerate(batch["case"].tolist()):
                number = int(part.cases[case].lstrip("case"))
                assert batch["grade"][k] == number % 3
                assert batch["kind"][k].tolist() == [(number + r) % 2 for r in range(3)]
                seen += 1
        assert seen >= len(part)

    def test_shapes_that_differ_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        toy: Any = TOYS["toy-extra"]
        monkeypatch.setattr(toy, "extra", lambda _, case: {"kind": np.ones(int(case.id[-1]))})
        with pytest.raises(RatersError, match=r"found \{'kind': \(1,\)\} beside the image of case"):
            raters.fit(make_noisy_masks(), "toy-extra", **options_of(""))
        monkeypatch.setattr(toy, "extra", lambda *_: {"labels": np.ones(1)})
        with pytest.raises(RatersError, match="expected other names"):
            raters.fit(make_noisy_masks(), "toy-extra", **options_of(""))


class TestAnswers:
    """What a method says of images, by name."""

    def method(self, name: str, runs: Path) -> tuple[Method, Tensor]:
        return raters.load(runs / name).method, whole_batch(make_noisy_masks())[0][:3]

    def test_a_sample_depends_on_its_case_and_number_alone(self, runs: Path) -> None:
        method, images = self.method("toy-sampler", runs)
        few = Asked(samples=2, seed=5)
        many = Asked(samples=4, seed=5)
        drawn = draw_latents(method, many, ["a", "b", "c"])
        assert torch.equal(draw_latents(method, few, ["b"])[1][0], drawn[1][1])
        assert len({tuple(z.tolist()) for part in drawn for z in part}) == 12
        other = draw_latents(method, Asked(samples=2, seed=6), ["b"])
        assert not torch.equal(other[1][0], drawn[1][1])
        found = method.maps(images, many, drawn)
        assert list(found) == ["truth", "sample:0", "sample:1", "sample:2", "sample:3"]
        alone = method.maps(images[1:2], few, draw_latents(method, few, ["b"]))
        torch.testing.assert_close(alone["sample:1"][0], found["sample:1"][1])

    def test_weights_of_raters(self, runs: Path) -> None:
        method, images = self.method("toy-weighted", runs)
        asked = Asked(raters=("rater2", 0), weights=(0.0, 0.0, 2.0))
        names = method.task.raters
        found = method.maps(images, Asked((names[2], 0), weights=asked.weights))
        assert list(found) == ["truth", f"as:{names[2]}", f"as:{names[0]}"]
        torch.testing.assert_close(found["truth"], found[f"as:{names[2]}"])
        plain = method.maps(images, Asked(tuple(names)))
        mean = torch.stack([plain[f"as:{name}"] for name in names]).mean(0)
        torch.testing.assert_close(plain["truth"], mean)

    @pytest.mark.parametrize("name", TOYS)
    def test_what_is_not_declared_is_refused_in_words(self, name: str, runs: Path) -> None:
        model = raters.load(runs / name)
        everything = {
            "as_rater": Asked(raters=(0,)),
            "confusion": Asked(confusion=True),
            "samples": Asked(samples=1),
            "weights": Asked(weights=(1.0, 1.0, 1.0)),
        }
        images = whole_batch(make_noisy_masks())[0][:1]
        for answer, asked in everything.items():
            if answer in model.method.answers:
                assert len(model.method.maps(images, asked)) == 2 - (answer == "weights")
            else:
                with pytest.raises(RatersError, match="it has none"):
                    model.method.maps(images, asked)
        with pytest.raises(RatersError, match="cannot be extended"):
            raters.extend(model, make_noisy_masks())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "study"
    make_noisy_masks().write(folder)
    return folder


class TestModels:
    """Trained toys predict and are scored, by what they declare."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", TOYS)
    def test_by_command(
        self, name: str, runs: Path, data: Path, tmp_path: Path, run_raters: Run
    ) -> None:
        can = TOYS[name].answers
        rater = make_noisy_masks().raters[2]
        asked = {
            "as_rater": ["--as-rater", rater],
            "confusion": ["--confusion"],
            "samples": ["--samples", 2],
            "weights": ["--weights", f"{rater}=1"],
        }
        for answer in asked.keys() - can:
            said = run_raters("predict", runs / name, data, "-o", tmp_path / "no", *asked[answer])
            assert said.code == 2
            assert f"found {name}, expected a method with" in said.err
        words: list[Any] = []
        for answer, more in asked.items():
            if answer in can:
                words += more
        said = run_raters(
            "predict", runs / name, data, "-o", tmp_path / "out", *words, "--probabilities"
        )
        assert said.code == 0, said.err
        said = run_raters(
            "evaluate", runs / name, data, "--split", "val", "-o", tmp_path / "scores"
        )
        assert said.code == 0, said.err
        assert (tmp_path / "scores" / "summary.csv").exists()

    @pytest.mark.parametrize("name", TOYS)
    def test_scores_are_those_of_what_is_declared(self, name: str, runs: Path) -> None:
        found = raters.evaluate(runs / name, make_noisy_masks(), "val", surfaces=False, samples=3)
        can = TOYS[name].answers
        assert bool(found.as_rater) == ("as_rater" in can)
        sampled = any("ged" in row for row in found.variability)
        assert sampled == ("samples" in can)
        joint = [row["form"] for row in found.likelihood if row.get("form") == "joint"]
        assert bool(joint) == ("confusion" in can)


class Bold(MethodOptions):
    """Options of a method from outside."""

    boldness: int = 3


class TestFromOutside:
    """One line makes a method known everywhere."""

    @pytest.fixture(autouse=True)
    def line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = MethodEntry("bold as brass", "tests.support.toy_methods:Toy", Bold, when="never")
        monkeypatch.setitem(METHODS, "bold", entry)

    def test_it_is_listed(self, run_raters: Run) -> None:
        assert "bold as brass" in run_raters("methods").out
        assert "--boldness" in run_raters("methods", "bold").out
        assert json.loads(run_raters("methods", "bold", "--json").out)["name"] == "bold"
        said = run_raters("train", "--help-all").out
        assert "--boldness" in said
        said = run_raters("train", "nowhere", "-m", "blod", "-o", "run").err
        assert "bold" in said

    def test_it_trains(self, tmp_path: Path) -> None:
        model = raters.fit(
            make_noisy_masks(), "bold", boldness=5, **{**options_of(""), "epochs": 1}
        )
        found = raters.load(model.save(tmp_path / "model"))
        assert isinstance(found, Model)
        assert found.config.options == {"boldness": 5}
        np.testing.assert_array_equal(
            found.truth(make_noisy_masks()[0]), model.truth(make_noisy_masks()[0])
        )


class Once(ToyEM):
    """Takes its copy once, in the pass before the first epoch."""

    stop: int | None = None
    mean: Any = torch.ones(2)
    training_only = ("before", "seen", "mean")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.mean = type(self).mean

    def needs_pass(self, epoch: int) -> bool:
        return epoch == 0

    def start_epoch(self, epoch: int) -> None:
        if epoch == self.stop:
            raise InterruptedError

    def turns(self, epoch: int, step: int) -> list[str]:  # noqa: ARG002
        return list(turns_of_once)

    def step(self, batch: dict[str, Tensor]) -> Step:
        return super().step(batch)._replace(terms={})


turns_of_once: list[str] = []


class TestProtocol:
    """What the engine does for a method, and what it refuses."""

    @pytest.fixture(autouse=True)
    def once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(METHODS, "once", MethodEntry("once", f"{__name__}:Once"))

    @pytest.mark.slow
    def test_a_copy_of_a_pass_resumes_to_the_byte_in_16_bits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {**options_of("toy-em"), "precision": "bf16"}
        raters.fit(make_noisy_masks(), "once", folder=tmp_path / "whole", **options)
        monkeypatch.setattr(Once, "stop", 2)
        with pytest.raises(InterruptedError):
            raters.fit(make_noisy_masks(), "once", folder=tmp_path / "parts", **options)
        monkeypatch.setattr(Once, "stop", None)
        raters.fit(make_noisy_masks(), folder=tmp_path / "parts", resume=True, progress=False)
        whole, parts = (tmp_path / n / "weights.safetensors" for n in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()
        found = history_numbers(tmp_path / "parts")
        assert found == history_numbers(tmp_path / "whole")
        assert all(np.isfinite(row["loss"]) for row in found)  # though no step names its loss

    def test_what_training_alone_needs_follows_to_a_device(self) -> None:
        config = plan_training(make_noisy_masks(), checked_options("once", PLAIN)).config
        method: Any = config.build()
        state = {"mean": method.training_state()["mean"]}
        method.to("meta")
        assert {p.device.type for p in method.before.copy.parameters()} == {"meta"}
        assert method.mean.device.type == "meta"
        method.load_training_state(state)
        assert method.mean.device.type == "meta"

    def test_unknown_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(globals(), "turns_of_once", ["mian"])
        with pytest.raises(RatersError, match=r"found 'mian' in turns\(\) of Once, .*: main"):
            raters.fit(make_noisy_masks(), "once", **options_of("toy-em"))

    @pytest.mark.parametrize("value", [np.ones(2), [np.float64(1)], {"a": {1}}])
    def test_no_plain_data(self, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Once, "mean", value)
        with pytest.raises(RatersError, match=r"found \w+ in Once.mean, which training_only"):
            plan = plan_training(make_noisy_masks(), checked_options("once", PLAIN))
            plan.config.build().training_state()
