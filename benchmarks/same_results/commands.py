"""The commands that are run with both checkouts, by the folder that each writes.

`OUT` in the words of a command stands for this folder; a command without it only prints. A command
reads the results of those that it names.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REFUSED = "refused/"
"""Commands below this name are expected to end with an error."""
KILLED = "killed/"
"""Trainings below this name are killed."""


@dataclass(frozen=True)
class Command:
    """One call of `raters`.

    Attributes:
        name: What it is called, and the folder that it writes.
        words: The words after `raters`, as a shell has them.
        reads: The commands whose results it reads.
        goes_on_with: A result that is copied to its folder before it starts.
        until: A file of its folder; once that is there, the command is sent the signal.
        signal: The signal.
    """

    name: str
    words: str
    reads: tuple[str, ...] = ()
    goes_on_with: str = ""
    until: str = ""
    signal: int = 0

    @cached_property
    def arguments(self) -> list[str]:
        """The words, split, with the folder to write."""
        words = shlex.split(self.words)
        return [re.sub(r"^OUT(?=/|$)", self.name, word) for word in words]

    @property
    def prints_json(self) -> bool:
        """Whether it prints JSON, where it does not fail."""
        return "--json" in self.arguments or self.arguments[-2:] == ["--format", "json"]

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes that are expected."""
        if self.name.startswith(REFUSED):
            return (1, 2)
        if self.name.startswith(KILLED):
            # Ended by the signal, or by its own handler, which exits as a shell would say it.
            return (-self.signal, 128 + self.signal)
        return (0,)


CHASE = '"../inputs/chase_db1/{case}_{rater}.png" --images "../inputs/chase_db1/{case}.jpg"'
NODULES = '"../inputs/nodules/{rater}/{case}.nii.gz" --images "../inputs/nodules/{case}.nii.gz"'
FEW = "--cases 'slide001_core00*,slide007_core00*'"
LATER = "--cases 'slide002_core05*'"

STUDIES = {
    "studies/chase": "prepare chase-db1 ../inputs/chase_db1 -o OUT",
    "studies/lidc": "prepare lidc ../inputs/lidc64 -o OUT",
    "studies/gleason": "prepare gleason2019 ../inputs/gleason2019 -o OUT",
    "studies/labelme": "prepare labelme ../inputs/labelme -o OUT",
    "studies/music": "prepare music-genre ../inputs/music_genre -o OUT",
    "studies/few-nodules": "import studies/lidc --form packed --cases 'LIDC-IDRI-00[0-4]*'"
    " --new-split train=0.6,val=0.1,test=0.3 -o OUT",
    "studies/volumes": f"import {NODULES} --form canonical -o OUT",
    "studies/few-songs": "import studies/music --cases '*.0000*' -o OUT",
    "simulated/vessels": 'simulate "../inputs/chase_db1/{case}_1stHO.png"'
    " --raters good,over,under,wrong --seed 5 --cases Image_01L -o OUT",
    "simulated/lesions": "simulate lesions --number 6 --shape 48x48 --seed 2 --assign one -o OUT",
    "simulated/scenes": "simulate scenes --raters positive@0.5,negative@0.5 --unmarked unknown"
    " --number 4 --shape 64x64 --seed 1 -o OUT",
    "simulated/workers": "simulate studies/labelme --raters 5xhammer-spammer:0.3 --seed 4 -o OUT",
    "simulated/demo": "demo --draw -o OUT",
}

CHECKS = {
    "check/chase": f"check {CHASE}",
    "check/gleason": f"check studies/gleason {FEW}",
    "check/nodules": f"check {NODULES} --json",
    "check/labelme": "check studies/labelme",
    "check/music": "check studies/music --json",
    "check/scenes": "check simulated/scenes",
}

AGREEMENTS = {
    "agree/chase": "agree studies/chase --surfaces --cases 'Image_01*' -o OUT",
    "agree/lidc": "agree studies/lidc -o OUT",
    "agree/gleason": f"agree studies/gleason {FEW} -o OUT",
    "agree/labelme": "agree studies/labelme -o OUT",
    "agree/music": "agree studies/music -o OUT",
    "agree/nodules": f"agree {NODULES} --maps OUT",
    "agree/nodules-json": f"agree {NODULES} --json",
    "agree/music-json": "agree studies/music --json",
}

FUSIONS = {
    "fused/chase-staple": f"fuse {CHASE} -m staple --soft --cases 'Image_0*' -o OUT",
    "fused/chase-vote": "fuse studies/chase -m vote --option ties=undecided -o OUT",
    "fused/chase-pooled": "fuse studies/chase -m dawid-skene --pool --cases 'Image_0*' -o OUT",
    "fused/chase-spatial": "fuse studies/chase -m spatial-staple --cases Image_01L"
    " --option max_iter=8 --option window=21 -o OUT",
    "fused/lidc-staple": "fuse studies/lidc -m staple --anonymous --option starts=union"
    " --cases 'LIDC-IDRI-00*' -o OUT",
    "fused/lidc-simple": "fuse studies/lidc -m simple --option max_iter=5"
    " --cases 'LIDC-IDRI-00*' -o OUT",
    "fused/lidc-mean": "fuse studies/lidc -m mean --soft --cases 'LIDC-IDRI-01*' -o OUT",
    "fused/gleason-staple": "fuse studies/gleason -m staple --option max_iter=30"
    f" --option tol=1e-5 --option smoothing=0.1 {FEW} -o OUT",
    "fused/gleason-restricted": f"fuse studies/gleason -m staple --option restrict=true {FEW}"
    " -o OUT",
    "fused/gleason-pooled": f"fuse studies/gleason -m staple --pool {FEW} -o OUT",
    "fused/gleason-simple": f"fuse studies/gleason -m simple {FEW} -o OUT",
    "fused/nodules-spatial": f"fuse {NODULES} -m spatial-staple --soft --option window=9 -o OUT",
    "fused/nodules-staple": f"fuse {NODULES} -m dawid-skene -o OUT",
    "fused/labelme-vote": "fuse studies/labelme -m vote -o OUT",
    "fused/labelme-mean": "fuse studies/labelme -m mean --soft -o OUT",
    "fused/labelme-dawid-skene": "fuse studies/labelme -m dawid-skene --soft -o OUT",
    "fused/labelme-one-coin": "fuse studies/labelme -m one-coin --option smoothing=0.5 -o OUT",
    "fused/music-vote": "fuse studies/music -m vote -o OUT",
    "fused/music-mean": "fuse studies/music -m mean --soft -o OUT",
    "fused/music-dawid-skene": "fuse studies/music -m dawid-skene -o OUT",
    "fused/music-hierarchical": "fuse studies/music -m hierarchical --soft -o OUT",
    "fused/music-one-coin": "fuse studies/music -m one-coin -o OUT",
}

TINY = "--width 2 --depth 2 --epochs 2 --batch-size 4 --seed 3"
EVERYTHING = "--probabilities --entropy --confusion"


@dataclass(frozen=True)
class Training:
    """A tiny training, which is then predicted with and evaluated.

    Attributes:
        study: The study, with the choice of cases that are trained on.
        train: The method and options of training.
        images: What is predicted.
        scored: The study that predictions are evaluated on.
        predict: Options of `raters predict`.
        evaluate: Options of `raters evaluate`.
    """

    study: str
    train: str
    images: str
    scored: str
    predict: str = ""
    evaluate: str = ""


def _on_chase(train: str, predict: str = "", evaluate: str = "") -> Training:
    return Training(
        study="studies/chase --cases 'Image_0[1-4]*'",
        train=train,
        images='"../inputs/chase_db1/Image_14{case}.jpg"',
        scored="studies/chase --cases Image_14L",
        predict=predict,
        evaluate=evaluate,
    )


def _on_gleason(train: str, predict: str = "", evaluate: str = "") -> Training:
    return Training(
        study=f"studies/gleason {FEW}",
        train=train,
        images='"../inputs/gleason2019/images/slide002_core05{case}.jpg"',
        scored=f"studies/gleason {LATER}",
        predict=predict,
        evaluate=evaluate,
    )


def _on_slices(train: str, predict: str = "", evaluate: str = "") -> Training:
    return Training(
        study="studies/few-nodules",
        train=train,
        images="studies/few-nodules",
        scored="studies/few-nodules --split test",
        predict=predict,
        evaluate=evaluate,
    )


def _on_table(name: str, train: str, predict: str = "") -> Training:
    return Training(
        study=f"studies/{name}",
        train=train,
        images=f"studies/{name}",
        scored=f"studies/{name} --split test",
        predict=predict,
    )


TRAININGS = {
    "chase-pixel-cm": _on_chase(
        "-m pixel-cm --patch-size 48,48 --lr 0.01 --val-fraction 0.25 --num-workers 0",
        "--as-rater 1stHO --entropy --cut area",
        "--no-surfaces",
    ),
    "gleason-global-cm": _on_gleason(
        "-m global-cm --patch-size 64,64 --patches-per-case 2 --class-weights balanced"
        " --trace 0.01 --trace-over all --likelihood marginal --val-fraction 0.2",
        "--as-rater pathologist3",
        "--no-surfaces",
    ),
    "gleason-low-rank-cm": _on_gleason(
        "-m low-rank-cm --patch-size 64,64 --rank 2 --augment full --normalise case"
        " --schedule constant",
        "--probabilities",
        "--no-surfaces --cut area",
    ),
    "lidc-pixel-cm": _on_slices(
        "-m pixel-cm --prior-to identity --prior 0.2 --annotator cnn --trace 0.001",
        f"{EVERYTHING} --as-rater reader1",
    ),
    "lidc-single-cm": _on_slices(
        "-m single-cm --anonymous --network segresnet --select likelihood --patience 1", "--cut 0.3"
    ),
    "lidc-vote": _on_slices("-m vote --soft"),
    "lidc-mean": _on_slices("-m mean --dropout 0.2"),
    "lidc-staple": _on_slices("-m staple --pool --norm group"),
    "lidc-spatial": _on_slices("-m spatial-staple --epochs 1"),
    "lidc-separate": _on_slices("-m separate --network patch-cnn"),
    "nodules-pixel-cm": Training(
        study=NODULES,
        train="-m pixel-cm --patch-size 32,32,8 --shared --val-fraction 0.3",
        images='"../inputs/nodules/{case}.nii.gz"',
        scored=f"{NODULES} --split held-out",
        predict=EVERYTHING,
    ),
    "labelme-global-cm": _on_table(
        "labelme",
        "-m global-cm --batch-size 32 --confusion-lr-scale 5 --init-accuracy 0.8 --warm-up 1",
        "--probabilities --confusion",
    ),
    "labelme-pixel-cm": _on_table(
        "labelme", "-m pixel-cm --form paper --batch-size 64", "--probabilities"
    ),
    "labelme-dawid-skene": _on_table("labelme", "-m dawid-skene --batch-size 64 --weight-decay 0"),
    "labelme-oracle-cm": _on_table("labelme", "-m oracle-cm --by rater --batch-size 64"),
    "labelme-truth": _on_table("labelme", "-m truth --batch-size 64"),
    "music-global-cm": _on_table("music", "-m global-cm --batch-size 32", "--confusion"),
    "music-hierarchical": _on_table("music", "-m hierarchical --soft --batch-size 32"),
}


def _trainings() -> dict[str, str]:
    """Return the commands of the trainings: train, predict, evaluate."""
    commands = {}
    for name, training in TRAININGS.items():
        commands[f"runs/{name}"] = f"train {training.study} {TINY} {training.train} -o OUT"
        commands[f"predicted/{name}"] = (
            f"predict runs/{name} {training.images} {training.predict} --device cpu -o OUT"
        )
        commands[f"scores/{name}"] = (
            f"evaluate runs/{name} {training.scored} {training.evaluate} -o OUT"
        )
    return commands


SCORES = {
    "scores/two-runs": "evaluate runs/lidc-pixel-cm studies/few-nodules --split test"
    " --against runs/lidc-vote -o OUT",
    "scores/predictions": "evaluate predicted/lidc-vote studies/few-nodules --split test -o OUT",
    "scores/json": "evaluate predicted/lidc-mean studies/few-nodules --split test --json",
    "scores/fused-chase-staple": "evaluate fused/chase-staple studies/chase"
    " --cases 'Image_0[12]*' -o OUT",
    "scores/fused-gleason-staple": f"evaluate fused/gleason-staple studies/gleason {FEW} -o OUT",
    "scores/fused-lidc-simple": "evaluate fused/lidc-simple studies/lidc"
    " --cases 'LIDC-IDRI-00*' --no-surfaces -o OUT",
    "scores/fused-nodules-spatial": f"evaluate fused/nodules-spatial {NODULES} -o OUT",
    "scores/fused-labelme-dawid-skene": "evaluate fused/labelme-dawid-skene studies/labelme -o OUT",
    "scores/fused-music-hierarchical": "evaluate fused/music-hierarchical studies/music -o OUT",
    "scores/fused-music-vote": "evaluate fused/music-vote studies/music -o OUT",
}

WITH_RUNS = {
    "plans/lidc": "train studies/few-nodules -m pixel-cm --dry-run",
    "fused/with-model": "fuse studies/few-nodules --split test --model runs/lidc-pixel-cm -o OUT",
    "suggested/lidc": "suggest runs/lidc-pixel-cm studies/few-nodules --split test -o OUT",
    "suggested/nodules": 'suggest runs/nodules-pixel-cm "../inputs/nodules/{case}.nii.gz"'
    " --num-cases 3 --num-patches 5 --json",
    "exported/bundle": "export runs/lidc-vote --to monai-bundle -o OUT",
    "exported/onnx": "export runs/lidc-vote --to onnx -o OUT/model.onnx",
    "exported/torch": "export runs/labelme-truth --to torch -o OUT/model.pt2",
}

REPORTS = {
    "reports/chase": "report studies/chase --cases 'Image_0[12]*' -o OUT",
    "reports/gleason": f"report studies/gleason {FEW} --sheets --cases-shown 3 -o OUT",
    "reports/nodules": f"report {NODULES} --sheets --all-cases --cases-shown 2 -o OUT",
    "reports/lidc": "report studies/few-nodules --anonymous --cases-shown 4 -o OUT",
    "reports/scenes": "report simulated/scenes --sheets --gold -o OUT",
    "reports/labelme": "report studies/labelme -o OUT",
    "reports/music": "report studies/few-songs --sheets --order listed --gold -o OUT",
    "reports/fused-chase": "report fused/chase-staple --cases-shown 2 -o OUT",
    "reports/fused-nodules": "report fused/nodules-spatial --cases-shown 2 -o OUT",
    "reports/fused-gleason": "report fused/gleason-pooled --cases-shown 2 -o OUT",
    "reports/fused-labelme": "report fused/labelme-dawid-skene -o OUT",
    "reports/fused-music": "report fused/music-hierarchical -o OUT",
    "reports/run-lidc": "report runs/lidc-pixel-cm --against runs/lidc-vote -o OUT",
    "reports/run-nodules": "report runs/nodules-pixel-cm --cases-shown 2 -o OUT",
    "reports/run-labelme": "report runs/labelme-global-cm -o OUT",
    "reports/run-music": "report runs/music-global-cm --against runs/music-hierarchical -o OUT",
}

VERBS = (
    "check import prepare simulate agree fuse methods predict evaluate suggest report export demo"
)
SHOWN_METHODS = "pixel-cm coarse prism gem staple spatial-staple dawid-skene hierarchical simple"


def _help() -> dict[str, str]:
    """Return the commands that print help and lists of methods and data sets."""
    commands = {
        "help/raters": "--help",
        "help/train": "train --help",
        "help/train-all": "train --help-all",
        "help/methods": "methods",
        "help/methods-json": "methods --json",
        "help/data-sets": "prepare --list",
    }
    for verb in VERBS.split():
        commands[f"help/{verb}"] = f"{verb} --help"
    for verb in ("", "list", "run", "table", "plot"):
        commands[f"help/bench-{verb or 'verbs'}"] = f"bench {verb} --help"
    for method in SHOWN_METHODS.split():
        commands[f"help/method-{method}"] = f"methods {method}"
    return commands


ERRORS = {
    "refused/no-verb": "fusee studies/chase",
    "refused/no-study": "agree nowhere",
    "refused/no-images": 'check "../inputs/chase_db1/{case}_{rater}.png"'
    ' --images "../inputs/gleason2019/{case}.jpg"',
    "refused/no-method": "fuse studies/chase -m stapel -o OUT",
    "refused/no-option": "fuse studies/chase -m staple --option windows=3 -o OUT",
    "refused/kind": "fuse studies/labelme -m spatial-staple -o OUT",
    "refused/value": "train studies/few-nodules -m pixel-cm --epochs 0 -o OUT",
    "refused/rater": "agree studies/chase --raters 3rdHO",
    "refused/split": "evaluate runs/lidc-vote studies/few-nodules --split tests",
    "refused/run-is-there": "train studies/few-nodules -m vote -o runs/lidc-vote",
    "refused/classes": "evaluate fused/labelme-vote studies/music",
    "refused/no-report": "report ../inputs/results -o OUT",
    "refused/suggest-table": "suggest runs/labelme-truth studies/nowhere",
}

PLOTTED = ("chase-db1", "pixel-cm-table-1", "music-genre", "coarse-figure-3")


def _benchmarks(results: Path) -> dict[str, str]:
    """Return the commands that show committed results, and run a small benchmark."""
    here = "-o ../inputs/results"
    commands = {
        "bench/list": f"bench list {here}",
        "bench/list-json": f"bench list {here} --json",
        "bench/own": "bench run --study studies/few-nodules --methods vote,mean --folds 2"
        " --option epochs=1 --option width=2 --seeds 0 --workers 1 -o OUT",
    }
    names = sorted(page.stem for page in results.glob("*.md") if page.stem != "index")
    for name in names:
        for form in ("md", "json"):
            commands[f"bench/{name}-{form}"] = f"bench table {name} {here} --format {form}"
    for name in PLOTTED:
        commands[f"bench/{name}"] = f"bench table {name} {here}"
        commands[f"bench/{name}-csv"] = f"bench table {name} {here} --format csv"
        commands[f"bench/{name}-html"] = f"bench table {name} {here} --out OUT/table.html"
        commands[f"bench/{name}-plot"] = f"bench plot {name} {here} --out OUT/plot.png"
    return commands


ENDLESS = "--width 2 --depth 2 --epochs 12 --seed 3"


def all_commands(results: Path) -> dict[str, Command]:
    """Return the commands that both checkouts run from the data on.

    Args:
        results: The folder of committed results of benchmarks.
    """
    return with_inputs(
        {
            **STUDIES,
            **CHECKS,
            **AGREEMENTS,
            **FUSIONS,
            **_trainings(),
            **SCORES,
            **WITH_RUNS,
            **REPORTS,
            **_help(),
            **ERRORS,
            **_benchmarks(results),
        }
    )


KILLED_TRAININGS = {
    "killed/slices": (
        f"train studies/few-nodules -m pixel-cm {ENDLESS} --batch-size 4 -o OUT",
        signal.SIGKILL,
    ),
    "killed/volumes": (
        f"train {NODULES} -m global-cm --patch-size 32,32,8 {ENDLESS} --batch-size 2 -o OUT",
        signal.SIGTERM,
    ),
    "killed/labelme": (
        f"train studies/labelme -m global-cm {ENDLESS} --batch-size 8 -o OUT",
        signal.SIGKILL,
    ),
}
"""Trainings that the older checkout starts; they are killed once their first epoch is written."""


def killed_trainings(commands: Mapping[str, Command]) -> list[Command]:
    """Return the trainings that are killed."""
    killed = []
    for name, (words, number) in KILLED_TRAININGS.items():
        reads = _inputs_of(words, commands)
        until = "checkpoints/last.ckpt"
        killed.append(Command(name, words, reads, until=until, signal=number))
    return killed


CONTINUED = {
    "agree/chase": "agree studies/chase --cases 'Image_0[12]*' -o OUT",
    "agree/music": "agree studies/music -o OUT",
    "check/lidc": "check studies/few-nodules",
    "fused/lidc": "fuse studies/few-nodules -m staple --pool -o OUT",
    "predicted/lidc": f"predict runs/lidc-pixel-cm studies/few-nodules {EVERYTHING} -o OUT",
    "predicted/nodules": 'predict runs/nodules-pixel-cm "../inputs/nodules/{case}.nii.gz" -o OUT',
    "predicted/labelme": "predict runs/labelme-global-cm studies/labelme --confusion -o OUT",
    "scores/lidc": "evaluate runs/lidc-pixel-cm studies/few-nodules --split test -o OUT",
    "scores/music": "evaluate runs/music-global-cm studies/music --split test -o OUT",
    "scores/predicted": "evaluate predicted/lidc-vote studies/few-nodules --split test -o OUT",
    "scores/fused-chase": "evaluate fused/chase-staple studies/chase --cases Image_01L -o OUT",
    "scores/fused-music": "evaluate fused/music-hierarchical studies/music -o OUT",
    "suggested/lidc": "suggest runs/lidc-pixel-cm studies/few-nodules --split test -o OUT",
    "exported/bundle": "export runs/lidc-vote --to monai-bundle -o OUT",
    "reports/study": "report studies/few-nodules --cases-shown 2 -o OUT",
    "reports/table": "report studies/few-songs --sheets --order listed --gold -o OUT",
    "reports/fused-nodules": "report fused/nodules-spatial --cases-shown 2 -o OUT",
    "reports/fused-music": "report fused/music-hierarchical -o OUT",
    "reports/run-lidc": "report runs/lidc-pixel-cm --cases-shown 2 -o OUT",
    "reports/run-music": "report runs/music-global-cm -o OUT",
}
"""What both checkouts do with results of the older one."""
RESUMED = {
    "resumed/slices": ("train studies/few-nodules --resume -o OUT", "killed/slices"),
    "resumed/volumes": (f"train {NODULES} --resume -o OUT", "killed/volumes"),
    "resumed/labelme": ("train studies/labelme --resume -o OUT", "killed/labelme"),
    "resumed/finished-run": ("train studies/few-nodules --resume -o OUT", "runs/lidc-pixel-cm"),
    "resumed/fusion": (
        "fuse studies/lidc -m mean --soft --cases 'LIDC-IDRI-01[0-2]*,LIDC-IDRI-02*' -o OUT",
        "fused/lidc-mean",
    ),
    "resumed/predictions": (
        "predict runs/lidc-vote studies/few-nodules --device cpu -o OUT",
        "predicted/lidc-vote",
    ),
    "resumed/import": (f"import {NODULES} --form canonical -o OUT", "studies/volumes"),
}
"""What both checkouts go on with, and the result of the older one that they start from."""


def continued_commands(made: Mapping[str, Command]) -> dict[str, Command]:
    """Return the commands that go on with results of the older checkout.

    Args:
        made: The commands whose results are there, with the killed trainings.
    """
    starts = {f"continued/{name}": (words, "") for name, words in CONTINUED.items()}
    commands = {}
    for name, (words, start) in {**starts, **RESUMED}.items():
        # A run and a fusion read their study too, which the words do not name.
        reads = list(_inputs_of(words, made))
        for read in reads:
            reads += [one for one in made[read].reads if one not in reads]
        commands[name] = Command(name, words, tuple(reads), goes_on_with=start)
    return commands


def with_inputs(words_by_name: Mapping[str, str]) -> dict[str, Command]:
    """Return commands that know which of them they read."""
    return {
        name: Command(name, words, _inputs_of(words, words_by_name))
        for name, words in words_by_name.items()
    }


def _inputs_of(words: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in shlex.split(words) if word in names)


def needed(commands: Mapping[str, Command], names: Iterable[str]) -> dict[str, Command]:
    """Return some of the commands, and those whose results they read, in order."""
    chosen = list(names)
    for name in chosen:
        command = commands[name]
        inputs = (*command.reads, command.goes_on_with)
        chosen += [one for one in inputs if one in commands and one not in chosen]
    return {name: command for name, command in commands.items() if name in chosen}
