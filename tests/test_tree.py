"""The tree: who may import whom, no name of the first tree is left, everything can be imported."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import raters

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
MOVED_MODULES = ROOT / "tests" / "moved_modules.yaml"

KNOWN_OFFENDERS = 22
"""Imports against the arrows that pyproject.toml lists, each once; it only goes down."""

IMPORTING_BY_STRING = {
    # Facades: names are imported when they are first used.
    "raters/__init__.py",
    "raters/consensus/__init__.py",
    "raters/fusion/__init__.py",
    "raters/learning/__init__.py",
    "raters/learning/networks/__init__.py",
    "raters/views/__init__.py",
    # Registries: of fusion, of learning methods, of networks, of export, of verbs, of formats.
    "raters/fusion/methods.py",
    "raters/learning/methods/entry.py",
    "raters/learning/networks/registry.py",
    "raters/learning/export/run.py",
    "raters/cli/verbs.py",
    "raters/io/formats/base.py",
}

EXEMPT = {ROOT / "CHANGELOG.md", MOVED_MODULES, Path(__file__)}
"""Files that may name modules of the first tree."""

CALLED = {"raters.report", "raters.simulate"}
"""Packages of the first tree whose names are functions now, and are everywhere in the docs."""


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def test_no_import_against_the_arrows() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_offenders_are_listed_one_by_one() -> None:
    offenders = {line for one in contracts() for line in one.get("ignore_imports", [])}
    assert len(offenders) == KNOWN_OFFENDERS
    assert not any("*" in line for line in offenders)
    for contract in contracts():
        if "ignore_imports" in contract:
            assert contract["unmatched_ignore_imports_alerting"] == "error"


def test_only_registries_and_facades_import_by_string() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if words & {"import_module", "__import__", "lazy_loader", "entry_points"}:
            found.add(path.relative_to(SOURCE).as_posix())
    assert found == IMPORTING_BY_STRING


DOTTED = re.compile(r"(?<![\w/])raters(?:\.\w+)+(?: import\b)?")
PATH = re.compile(r"(?<![\w.])raters(?:/\w+)+(?:\.py|/)")


def old_modules(text: str, moved: dict[str, str]) -> Iterator[str]:
    """Find the modules of the first tree that a text names, dotted or as paths."""
    for match in DOTTED.finditer(text):
        name, _, statement = match[0].partition(" ")
        parts = name.split(".")
        for length in range(2, len(parts) + 1):
            old = ".".join(parts[:length])
            if old not in moved:
                continue
            is_called = old in CALLED or moved[old].startswith("raters.fusion._")
            if is_called and length == len(parts) and not statement:
                continue  # the function of that name
            yield match[0]

    for match in PATH.finditer(text):
        parts = match[0].removesuffix(".py").strip("/").split("/")
        if any(".".join(parts[:length]) in moved for length in range(2, len(parts) + 1)):
            yield match[0]


def test_old_modules_are_found() -> None:
    moved = {"raters.scores": "raters.metrics", "raters.report": "raters.views.report"}
    texts = ("from raters.scores import dice", "raters.report.page", "src/raters/scores/overlap.py")
    for text in texts:
        assert list(old_modules(text, moved))
    for text in ("raters.report(study)", "raters.metrics", "scores/overlap.py", "raters.scored"):
        assert not list(old_modules(text, moved))


def test_no_old_name_is_left() -> None:
    moved: dict[str, str] = yaml.safe_load(MOVED_MODULES.read_text(encoding="utf-8"))
    listing = ["git", "ls-files", "-z"]
    tracked = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    left = []
    for name in filter(None, tracked.split("\0")):
        path = ROOT / name
        if path in EXEMPT or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        left += [f"{name}: {old}" for old in old_modules(text, moved)]
    assert not left, "\n".join(left)


def test_moved_modules_are_where_the_map_says() -> None:
    moved: dict[str, str] = yaml.safe_load(MOVED_MODULES.read_text(encoding="utf-8"))
    for new in moved.values():
        path = SOURCE.joinpath(*new.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), new


def test_no_package_bears_the_name_of_a_public_function() -> None:
    packages = {path.parent.name for path in (SOURCE / "raters").glob("*/__init__.py")}
    assert not packages & set(raters.__all__)


IMPORT_AND_CALL = """
import importlib, pkgutil, sys, warnings
import raters

warnings.simplefilter("ignore")
folder, *packages = sys.argv[1:]
for package in map(importlib.import_module, packages):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

truth = raters.simulation.phantom_study("lesions", cases=8, shape=(16, 16))
study = raters.simulate(truth, "good,over,under")
two = raters.simulate(truth, "good,over")

raters.agree(study)
raters.check(study)
raters.read(study.write(folder + "/study").sources[0])
consensus = raters.fuse(study, "staple")
consensus.write(folder + "/consensus")
raters.evaluate(folder + "/consensus", study)
raters.report(study, folder + "/report")
model = raters.fit(two, "global-cm", epochs=1, width=2, depth=2, progress=False)
model.save(folder + "/model")
raters.load(folder + "/model")
raters.extend(model, study, epochs=1, progress=False)
raters.suggest(model, two)

import pandas as pd

labels = study["lesions0"].labels
for name in ("vote", "mean", "staple", "spatial_staple", "simple"):
    getattr(raters.fusion, name)(labels, num_classes=2)
answers = {"task": ["t", "t", "u"], "worker": ["a", "b", "a"], "label": [0, 1, 1]}
crowd = raters.read(pd.DataFrame(answers))
for name in ("dawid_skene", "one_coin", "hierarchical"):
    getattr(raters.fusion, name)(crowd.triplets, 2)

called = {"agree", "check", "evaluate", "extend", "fit", "fuse", "load", "read"}
called |= {"report", "simulate", "suggest"}
functions = {name for name in raters.__all__ if name[0].islower()}
assert functions == called, functions ^ called
"""


@pytest.mark.slow
def test_public_functions_after_all_modules_are_imported(tmp_path: Path) -> None:
    """A module that bears the name of a function must not stand in its place."""
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    command = [sys.executable, "-c", IMPORT_AND_CALL, str(tmp_path), *packages]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
