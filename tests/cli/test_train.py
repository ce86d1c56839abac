"""`raters train` and `raters methods`: typed options, files of options, stops, and dry runs."""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import raters
from raters.cli.train import next_commands, study_words
from raters.cli.train_options import (
    FACTS,
    FEW,
    PREFIX,
    given_options,
    method_options,
    names_of,
    train_options,
)
from raters.fusion.methods import METHODS as FUSION
from raters.learning.methods import METHODS
from raters.learning.methods.base import Batch
from raters.learning.methods.fields import limits_of
from raters.learning.methods.pixel_cm import PixelCM
from raters.learning.networks import NETWORKS
from raters.learning.training.config import ModelConfig
from raters.learning.training.engine import Learner
from raters.learning.training.estimate import estimate
from raters.learning.training.options import TrainingOptions
from raters.learning.training.run import read_splits
from raters.study.study import Study
from tests.support.command_line import (
    Run,
    draw_masks,
    fingerprint,
    images_option,
    pattern,
    run_alone,
)

SMALL = ["--epochs", "2", "--width", "2", "--depth", "2", "--batch-size", "4"]


@pytest.fixture
def study_arguments(tmp_path: Path) -> list[str]:
    """The words that name a study of six cases by two raters."""
    draw_masks(tmp_path / "data", cases=6)
    return [pattern(tmp_path / "data"), *images_option(tmp_path / "data")]


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "config.yaml").read_text())
    return found


class TestOptions:
    """Options of the command line are the fields of the pydantic classes, all of them."""

    def test_every_field_is_there_once(self) -> None:
        named = [option.field for option in train_options()]
        own = {name for entry in METHODS.values() for name in entry.own_options}
        assert sorted(named) == sorted([*own, *TrainingOptions.model_fields])

    def test_no_name_stands_twice_on_the_command_line(self) -> None:
        from raters.cli.study_options import USUAL
        from raters.cli.train import train

        taken = {*USUAL, *names_of(train)}
        flags = [option.flag(taken) for option in train_options()]
        assert len(flags) == len(set(flags))
        assert not taken & set(flags)
        assert train_options()[0].flag([train_options()[0].field]).startswith("option-")

    def test_the_help_shows_all_of_it(self) -> None:
        wide = "import os; os.environ['COLUMNS'] = '400'"
        said = run_alone("train", "--help-all", before=wide)
        assert said.code == 0
        for option in train_options():
            assert f"--{option.field.replace('_', '-')} " in said.out, option.field
            assert limits_of(option.info) in said.out
        for panel in ("Training", "Network", "Data", "Machine", "Method"):
            assert f"─ {panel} ─" in said.out
        assert "[low-rank-cm] kinds of error" in said.out
        assert "joint|marginal" in said.out
        assert 'raters train "masks/{rater}/{case}.png"' in said.out

    def test_the_short_help_shows_ten_options_and_where_the_rest_is(self) -> None:
        said = run_alone("train", "--help", before="import os; os.environ['COLUMNS'] = '400'")
        assert said.code == 0
        shown = re.findall(r"^│ (?:\*  )?(--[\w-]+)", said.out, re.MULTILINE)
        few = {f"--{name.removeprefix(PREFIX).replace('_', '-')}" for name in FEW}
        pages = {"--help", "--help-all"}
        assert set(shown) == {
            *few,
            "--out",
            "--method",
            "--resume",
            "--images",
            "--reference",
            *pages,
        }
        assert len(few) == 7
        assert re.search(r"--help-all shows \d\d more options", said.out)
        assert len(said.out.splitlines()) < 40

    def test_the_takers_of_an_option_take_it(self) -> None:
        for option in method_options():
            for method, entry in METHODS.items():
                takes = method in option.takers
                assert takes == (option.field in entry.own_options)

    def test_only_what_was_given_is_passed_on(self) -> None:
        options = train_options()
        assert given_options(options, {}) == {}
        values = {"set_patch_size": "96, 32", "set_loggers": "tensorboard,wandb"}
        values["set_shared"] = False
        assert given_options(options, values) == {
            "patch_size": (96, 32),
            "loggers": ("tensorboard", "wandb"),
            "shared": False,
        }
        assert given_options(options, {"set_patch_size": "whole"}) == {"patch_size": "whole"}

    def test_they_reach_the_model(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        folder = tmp_path / "run"
        more = ["--warm-up", "0.5", "--patch-size", "8,8", "--no-shared", "--trace", "0.1"]
        said = run_raters(
            "train", *study_arguments, "-o", folder, *SMALL, *more, "--select", "last"
        )
        assert said.code == 0, said.err
        config = config_of(folder)
        assert config["method"] == "pixel-cm"
        assert config["patch_size"] == config["training"]["patch_size"] == [8, 8]
        assert config["options"]["warm_up"] == 1
        assert config["options"]["trace"] == 0.1
        assert config["training"]["lr"] == TrainingOptions().lr
        assert config["training"]["width"] == 2


class TestTrain:
    """A run from the command line."""

    def test_without_a_name_the_folder_is_run(
        self,
        run_raters: Run,
        study_arguments: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        words = ["train", *study_arguments, "-m", "vote", *SMALL]
        said = run_raters(*words, "--dry-run")
        assert said.code == 0, said.err
        assert list(Path().iterdir()) == []
        assert run_raters(*words).code == 0
        assert config_of(Path("run"))["method"] == "vote"
        again = run_raters(*words)
        assert again.code == 2
        assert "run: found a run, expected a new folder" in again.err

    def test_it_says_how_it_went_and_what_comes_next(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        folder = tmp_path / "run"
        (tmp_path / "data/masks/ann/c5.png").unlink()
        (tmp_path / "data/masks/bob/c5.png").unlink()
        said = run_raters("train", *study_arguments, "-m", "vote", "-o", folder, *SMALL)
        assert said.code == 0, said.err
        assert "1 case is left out: none of the raters labelled it" in said.out
        assert "best epoch" in said.out
        assert "held-out loss" in said.out
        best = json.loads((folder / "scores.json").read_text())["best"]
        assert f"{best['held_out']:.3f}" in said.out
        lines = [line.strip() for line in said.out.splitlines() if line.startswith("  raters ")]
        words = {"study": study_arguments[0], "images": study_arguments[2]}
        assert lines == next_commands(str(folder), words, "held-out")
        split = ["--split", "held-out"]
        assert shlex.split(lines[0]) == [
            "raters",
            "evaluate",
            str(folder),
            *study_arguments,
            *split,
        ]
        assert run_raters(*shlex.split(lines[0])[1:]).code == 0
        assert shlex.split(lines[1])[3] == "NEW/{case}.png"
        assert said.err.splitlines()[:2] == ["reading the study", "loading torch"]
        assert sum(line.startswith("epoch ") for line in said.err.splitlines()) == 2
        model = raters.load(folder)
        assert model.config.raters == ("ann", "bob")

    def test_some_raters_only(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        said = run_raters(
            "train", *study_arguments, "-o", tmp_path / "run", *SMALL, "--raters", "bob"
        )
        assert said.code == 0, said.err
        assert config_of(tmp_path / "run")["raters"] == ["bob"]

    def test_a_run_is_not_overwritten_but_resumed(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        words = ["train", *study_arguments, "-m", "vote", "-o", tmp_path / "run", *SMALL]
        assert run_raters(*words).code == 0
        before = fingerprint(tmp_path / "run")
        refused = run_raters(*words)
        assert refused.code == 2
        assert "--resume" in refused.err
        assert fingerprint(tmp_path / "run") == before
        resumed = run_raters(
            "train", *study_arguments, "-o", tmp_path / "run", "--resume"
        )  # -m is not needed
        assert resumed.code == 0, resumed.err
        assert "best epoch" in resumed.out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["-m", "pixelcm"], "did you mean 'pixel-cm'"),
            (["--rank", "2"], "'rank' for pixel-cm, expected it with: low-rank-cm"),
            (["--epochs", "0"], "found epochs=0, expected 1 or more"),
            (["--val-fraction", "2"], "found val_fraction=2.0, expected less than 1"),
            (["--likelihood", "all"], "found likelihood=all, expected joint or marginal"),
            (["--patch-size", "8,a"], "--patch-size: found '8,a', expected whole numbers"),
            (
                ["--loggers", "tensorbord"],
                "found loggers=tensorbord, expected tensorboard, mlflow or wandb",
            ),
            (["--split", "foo"], "found no case in the split 'foo'"),
            (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
            (["--warm-up", "1.5"], "found warm_up=1.5"),
        ],
    )
    def test_what_is_refused(
        self,
        run_raters: Run,
        study_arguments: list[str],
        tmp_path: Path,
        words: list[str],
        message: str,
    ) -> None:
        said = run_raters("train", *study_arguments, "-o", tmp_path / "run", *words)
        assert said.code == 2
        assert said.err.removeprefix("reading the study\n").startswith("error: ")
        assert message in said.err
        assert not (tmp_path / "run").exists()

    def test_mistakes_are_refused_without_torch(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        folder = tmp_path / "run"
        assert run_raters("train", *study_arguments, "-o", folder, *SMALL, "-m", "vote").code == 0
        refused: list[tuple[list[Any], str]] = [
            (["-o", "new", "-m", "pixelcm"], "did you mean 'pixel-cm'"),
            (["-o", "new", "--epochs", "0"], "found epochs=0"),
            (["-o", "new", "--warm-up", "1.5"], "found warm_up=1.5"),
            (["-o", folder], "found a run, expected a new folder"),
            (["-o", folder, "--resume", "--epochs", "9"], "start a new one (--config"),
            (["-o", folder, "--resume", "-m", "mean"], "found method=mean, expected vote"),
            (["-o", tmp_path / "data"], "found a folder with other files"),
            (["-o", "new", "--extend", "nowhere"], "no such folder, expected a model folder"),
        ]
        commands = [["raters", "train", *study_arguments, *map(str, words)] for words, _ in refused]
        code = (
            "import sys\nfrom raters.cli import main\n"
            f"for words in {commands!r}:\n    sys.argv = words\n"
            "    try:\n        main()\n"
            "    except SystemExit as end:\n        assert end.code == 2\n"
            "assert not {'torch', 'monai', 'lightning'} & sys.modules.keys()"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        said = done.stderr.decode()
        assert done.returncode == 0, said
        assert "reading" not in said
        for line, (_, message) in zip(said.splitlines(), refused, strict=True):
            assert message in line

    def test_what_is_missing_is_named_by_its_option(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        said = run_raters("train", study_arguments[0], "-o", tmp_path / "run")
        assert said.code == 2
        assert '--images "images/{case}.png"' in said.err
        said = run_raters("train", *study_arguments, "-m", "truth", "-o", tmp_path / "run")
        assert said.code == 2
        assert "--reference" in said.err

    def test_a_number_that_is_none(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        said = run_raters("train", *study_arguments, "-o", tmp_path / "run", "--epochs", "ten")
        assert said.code == 2
        assert "--epochs" in said.err
        assert not (tmp_path / "run").exists()

    def test_a_foreign_folder_stays_as_it_is(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        before = fingerprint(tmp_path / "data")
        for more in ([], ["--resume"]):
            said = run_raters("train", *study_arguments, "-o", tmp_path / "data", *SMALL, *more)
            assert said.code == 2
            assert "found a folder with other files" in said.err
        assert fingerprint(tmp_path / "data") == before

    def test_nothing_labelled(self, run_raters: Run, tmp_path: Path) -> None:
        table = tmp_path / "table.csv"
        table.write_text("task,worker,label\nt1,ann,-\nt2,bob,-\n")
        np.save(tmp_path / "inputs.npy", np.ones((2, 3)))
        words = [table, "--images", tmp_path / "inputs.npy", "--missing", "-"]
        said = run_raters("train", *words, "-o", tmp_path / "run")
        assert said.code == 2
        assert "no label" in said.err
        assert not (tmp_path / "run").exists()

    def test_a_warning_is_a_sentence(self, run_raters: Run, tmp_path: Path) -> None:
        draw_masks(tmp_path, cases=4)
        words = [pattern(tmp_path), *images_option(tmp_path), "--values", "0=background,1=a,2=b"]
        said = run_raters("train", *words, "-m", "vote", "-o", tmp_path / "run", *SMALL)
        assert said.code == 0, said.err
        assert "warning: found no label of the class 'b'" in said.err
        assert ".py" not in said.err


class TestConfigFile:
    """`--config`: files that people write, and those that runs write."""

    def test_the_file_of_a_run_gives_the_same_model(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        more = ["-m", "mean", "--lr", "0.01"]
        assert (
            run_raters("train", *study_arguments, "-o", tmp_path / "one", *SMALL, *more).code == 0
        )
        file = tmp_path / "one/config.yaml"
        said = run_raters("train", *study_arguments, "-o", tmp_path / "two", "--config", file)
        assert said.code == 0, said.err
        assert said.out.count("facts of that run's data are not used") == 1
        assert (tmp_path / "two/config.yaml").read_text() == file.read_text()
        weights = [
            (tmp_path / name / "weights.safetensors").read_bytes() for name in ("one", "two")
        ]
        assert weights[0] == weights[1]

    def test_the_command_line_comes_first(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        file = tmp_path / "my.yaml"
        training = {"epochs": 9, "width": 2, "depth": 2, "seed": 5, "patch_size": [8, 8]}
        file.write_text(
            yaml.safe_dump({"method": "global-cm", "options": {"trace": 0.5}, "training": training})
        )
        words = ["--config", file, "--epochs", "1", "--trace", "0.25"]
        assert run_raters("train", *study_arguments, "-o", tmp_path / "run", *words).code == 0
        config = config_of(tmp_path / "run")
        assert config["method"] == "global-cm"
        assert config["options"]["trace"] == 0.25
        assert config["training"]["epochs"] == 1
        assert config["training"]["seed"] == 5
        assert config["patch_size"] == [8, 8]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("trainig: {}", "found the key 'trainig', expected .*did you mean 'training'"),
            (
                "training: {epoch: 3}",
                "'training.epoch', expected a known one; did you mean 'epochs'",
            ),
            ("options: {traces: 3}", "the key 'options.traces', .*did you mean 'trace"),
            ("training: 3", "found training as int, expected keys and values"),
            ("- a\n- b", "found the file as list"),
            ("method: !!python/object/apply:os.system ['touch HERE']", "found no plain YAML"),
            ("a: [", "found no plain YAML"),
            ("method: pixelcm", "did you mean 'pixel-cm'"),
            ("method: [vote]", r"found the method \['vote'\], expected a name"),
            ("options: " + "[" * 1500, "found no plain YAML"),
            ("training: {epochs: two}", "found epochs=two, expected a whole number"),
            ("training: {width: true}", "found width=True, expected a number"),
            ("training: {network: true}", "found network=True, expected a word"),
            ("training: {lr: .inf}", "found lr=inf, expected a finite"),
            ("options: {trace: .nan}", "found trace=nan, expected a finite number"),
        ],
    )
    def test_what_is_refused(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path, text: str, message: str
    ) -> None:
        file = tmp_path / "my.yaml"
        mark = tmp_path / "mark"
        file.write_text(text.replace("HERE", str(mark)))
        said = run_raters("train", *study_arguments, "-o", tmp_path / "run", "--config", file)
        assert said.code == 2
        assert "my.yaml" in said.err
        assert re.search(message, said.err), said.err
        assert not mark.exists()
        assert not (tmp_path / "run").exists()

    def test_an_unknown_method_without_a_file(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        said = run_raters("train", *study_arguments, "-o", tmp_path / "run", "-m", "pixelcm")
        assert said.code == 2
        assert said.err.startswith("error: found the method 'pixelcm'")

    def test_all_facts_of_a_run_are_known(self) -> None:
        """A key that is added to `config.yaml` has to be added to the facts, too."""
        assert set(ModelConfig.model_fields) == {"method", "options", "training", *FACTS}


class TestDryRun:
    """`--dry-run`: what would be trained, and nothing written."""

    def test_nothing_is_written(
        self,
        run_raters: Run,
        study_arguments: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        before = fingerprint(tmp_path)
        (tmp_path / "temporary").mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
        said = run_raters("train", *study_arguments, "--dry-run", "-o", tmp_path / "run", *SMALL)
        assert said.code == 0, said.err
        assert list((tmp_path / "temporary").iterdir()) == []
        (tmp_path / "temporary").rmdir()
        assert fingerprint(tmp_path) == before
        for words in ("5 trained on, 1 held out, 0 left out", "2 (ann, bob)", "unet (width 2"):
            assert words in said.out
        assert "2 steps per epoch" in said.out

    def test_it_counts_what_training_counts(self) -> None:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 2, (10, 2, 12, 12))
        labels[3] = -1
        study = Study.from_arrays(rng.normal(size=(10, 1, 12, 12)), labels)
        options: dict[str, Any] = {"width": 2, "depth": 2, "batch_size": 4, "patch_size": (8, 8)}
        found = estimate(study, "global-cm", epochs=2, **options)
        model = raters.fit(study, "global-cm", epochs=2, progress=False, **options)
        parameters = sum(weights.numel() for weights in model.method.parameters())
        assert found.parameters == parameters
        assert found.left_out == 1
        assert len(found.planned.parts.train) + len(found.planned.parts.held_out) == 9
        items = len(found.planned.parts.train) * 4
        assert found.steps == -(-items // 4)
        assert found.planned.config.model_dump(exclude={"training"}) == model.config.model_dump(
            exclude={"training"}
        )

    def test_time_and_memory_are_of_the_right_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Against a real run, by a clock that only work moves: a busy machine changes nothing."""
        seconds = [0.0]

        def takes(name: str, cost: float) -> None:
            original = getattr(PixelCM, name)

            def work(self: PixelCM, batch: Batch) -> Any:
                seconds[0] += cost
                return original(self, batch)

            monkeypatch.setattr(PixelCM, name, work)

        takes("step", 5)
        takes("held_out", 2)
        clock = SimpleNamespace(perf_counter=lambda: seconds[0])
        monkeypatch.setattr("raters.learning.training.estimate.time", clock)
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, (24, 1, 48, 48))
        study = Study.from_arrays(truth + rng.normal(size=truth.shape), truth.repeat(2, 1))
        options: dict[str, Any] = {"width": 8, "depth": 3, "batch_size": 4, "epochs": 4}
        found = estimate(study, "pixel-cm", **options)
        seconds[0] = 0
        model = raters.fit(study, "pixel-cm", progress=False, **options)
        assert len(model.history) == 4
        assert found.seconds == seconds[0] > 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        assert found.memory is not None
        assert 1 / 3 < found.memory / peak < 3


def test_a_run_that_refuses_a_study_remembers_its_own(
    run_raters: Run, study_arguments: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert run_raters("train", *study_arguments, "-o", folder, "-m", "vote", *SMALL).code == 0
    before = fingerprint(folder)
    draw_masks(tmp_path / "other", cases=5)
    other = [pattern(tmp_path / "other"), *images_option(tmp_path / "other")]
    for words in ([], ["--resume"]):
        said = run_raters("train", *other, "-o", folder, "-m", "vote", *SMALL, *words)
        assert said.code == 2
        assert fingerprint(folder) == before


class TestCtrlC:
    """Ctrl-C ends a run with the command that resumes it."""

    def test_the_line_that_is_printed_goes_on(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        epoch_end = Learner.on_train_epoch_end

        def stopped(self: Learner) -> None:
            if self.current_epoch == 1:
                os.kill(os.getpid(), signal.SIGINT)
            epoch_end(self)

        words = ["train", *study_arguments, "-m", "vote", "-o", str(tmp_path / "my run"), *SMALL]
        words[words.index("--epochs") + 1] = "4"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Learner, "on_train_epoch_end", stopped)
            said = run_raters(*words)
        assert said.code == 130, said.err
        line = next(line for line in said.err.splitlines() if line.startswith("stopped; "))
        again = shlex.split(line.removeprefix("stopped; resume with: "))
        assert again[1:] == [*words, "--resume"]
        assert not (tmp_path / "my run/weights.safetensors").exists()
        done = run_raters(*again[1:])
        assert done.code == 0, done.err
        assert len(raters.load(tmp_path / "my run").history) == 4

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("verb", "message"), [("import", "raters import resumes"), ("agree", "\nstopped\n")]
    )
    def test_each_verb_says_its_own(self, verb: str, message: str, tmp_path: Path) -> None:
        draw_masks(tmp_path)
        before = (
            "import raters.study.read\n"
            "def stop(*a, **k): raise KeyboardInterrupt\n"
            "raters.study.read.read = stop"
        )
        said = run_alone(verb, pattern(tmp_path), "-o", tmp_path / "out", before=before)
        assert said.code == 130
        assert message in said.err
        assert "--resume" not in said.err


class TestExtendCommand:
    """`--extend`: a rater who comes later."""

    def test_a_late_rater(
        self, run_raters: Run, study_arguments: list[str], tmp_path: Path
    ) -> None:
        first = tmp_path / "first"
        said = run_raters(
            "train", *study_arguments, "-o", first, *SMALL, "-m", "global-cm", "--raters", "ann"
        )
        assert said.code == 0, said.err
        before = fingerprint(first)
        said = run_raters(
            "train", *study_arguments, "--extend", first, "-o", tmp_path / "both", "--epochs", "1"
        )
        assert said.code == 0, said.err
        assert "added to" in said.out
        assert "bob" in said.out
        assert fingerprint(first) == before
        model = raters.load(tmp_path / "both")
        assert model.config.raters == ("ann", "bob")
        assert [row["epoch"] for row in model.history] == [1]
        both = tmp_path / "both"
        assert read_splits(both) == read_splits(first)  # the same cases, held out alike
        assert "extended" in (both / "log.txt").read_text()
        assert "epoch 1/1" in (both / "log.txt").read_text()
        assert "best epoch" in said.out
        line = next(line for line in said.out.splitlines() if line.startswith("  raters evaluate"))
        assert run_raters(*shlex.split(line)[1:]).code == 0
        again = run_raters(
            "train", *study_arguments, "--extend", tmp_path / "both", "-o", tmp_path / "more"
        )
        assert again.code == 2
        assert "expected one that the model does not know" in again.err
        taken = run_raters("train", *study_arguments, "--extend", first, "-o", tmp_path / "both")
        assert taken.code == 2
        assert "expected a new folder" in taken.err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "expected a model folder"),
            (["-m", "vote"], "found --method together with --extend"),
            (["--resume"], "found --resume together with --extend"),
        ],
    )
    def test_what_is_refused(
        self,
        run_raters: Run,
        study_arguments: list[str],
        tmp_path: Path,
        words: list[str],
        message: str,
    ) -> None:
        said = run_raters(
            "train",
            *study_arguments,
            "--extend",
            tmp_path / "data",
            "-o",
            tmp_path / "both",
            *words,
        )
        assert said.code == 2
        assert message in said.err
        assert not (tmp_path / "both").exists()


class TestMethods:
    """`raters methods` lists and shows them, without torch."""

    def test_all_of_them(self, run_raters: Run) -> None:
        said = run_raters("methods")
        assert said.code == 0
        for name in (*METHODS, *FUSION):
            assert f"\n{name} " in said.out
        listed = json.loads(run_raters("methods", "--json").out)
        assert [entry["name"] for entry in listed] == [*METHODS, *FUSION]
        assert all(entry["when"] for entry in listed if entry["verb"] == "train")

    def test_one_of_them(self, run_raters: Run) -> None:
        said = run_raters("methods", "low-rank-cm")
        for words in ("--rank", "INTEGER", "NeurIPS 2020", "many classes", "(0 or more)"):
            assert words in said.out
        found = json.loads(run_raters("methods", "low-rank-cm", "--json").out)
        rank = next(option for option in found["options"] if option["option"] == "rank")
        assert rank["default"] == METHODS["low-rank-cm"].options.model_fields["rank"].default
        assert run_raters("methods", "low-rank").code == 2
        both = run_raters("methods", "staple").out
        assert "--soft" in both and "--option restrict=False" in both

    @pytest.mark.slow
    def test_nothing_heavy_is_imported(self) -> None:
        code = (
            "import sys\nfrom raters.cli import main\n"
            "for words in (['methods'], ['methods', 'mean'], ['train', '--help'], ['--help']):\n"
            "    sys.argv = ['raters', *words]\n"
            "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code\n"
            "assert not {'torch', 'monai', 'lightning'} & sys.modules.keys()"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def test_the_list_of_verbs_needs_no_pydantic(self) -> None:
        code = "import sys, raters.cli; sys.exit('pydantic' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_words_of_a_study_name_it_again() -> None:
    given = {
        "study": "a b.csv",
        "raters": "ann,bob",
        "wide": True,
        "header": None,
        "task": "item",
        "split": "",
        "threshold": 0.5,
    }
    expected = ["a b.csv", "--raters", "ann,bob", "--wide", "--task", "item", "--threshold", "0.5"]
    assert study_words(given) == expected
    assert next_commands("run", given, "test")[0].endswith(" --split test")
    assert "--split" not in next_commands("run", {**given, "split": ""})[0]


def test_the_help_names_all_networks() -> None:
    described = TrainingOptions.model_fields["network"].description or ""
    assert set(NETWORKS) <= set(re.findall(r"[a-z-]+", described))
