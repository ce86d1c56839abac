"""Do two versions of raters give the same numbers? Real data, one fixed set of commands.

    python benchmarks/same_results.py DATA --before TREE --after TREE [--work FOLDER] [--only WORD]

DATA holds chase_db1, lidc64, gleason2019 and labelme. A tree is a checkout: its `src` is used. Each
command is a process of its own (forked from one that has the libraries imported), in
`FOLDER/before` or `FOLDER/after`; what an unchanged tree has run is not run again. Masks, weights
and all numbers in CSV, JSON and YAML are compared bit for bit; wall-clock times, versions and
sentences are not. What only the newer version has (files, columns, keys, tensors) is listed but is
no difference; what is missing there is one.

The commands are written in the older version's words: whoever renames adds a line to `RENAMED`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

Array = NDArray[Any]

RENAMED: dict[str, tuple[str, ...]] = {
    # Options: the command line has --max-iter, `fuse --option` has max_iter.
    "iterations": ("max_iter",),
    "tolerance": ("tol",),
    "workers": ("num_workers",),
    "nodes": ("num_nodes",),
    "patch": ("patch_size",),
    "patches_per_case": ("num_patches", "num_samples", "samples_per_volume"),
    "learning_rate": ("lr",),
    "epochs": ("max_epochs",),
    "normalise": ("normalize",),
    "matrix_rate": ("confusion_lr_scale",),
    "right": ("init_accuracy", "accuracy"),
    # Options, keys and columns.
    "held_out": ("val_fraction", "val_loss", "val"),
    "held-out": ("val",),
    "dims": ("spatial_dims",),
    "normalisation": ("normalization",),
    "classes": ("num_classes",),
    # Files.
}
"""Words of the older version, with those that may stand in their place in the newer one."""
LEFT_OUT = re.compile(
    r"seconds|waiting|notes?|about|version|versions|created|command|format|stopped|memory", re.I
)
"""Keys and columns that are not compared."""
NOT_COMPARED = (".txt", ".ckpt", ".html", ".jsonl", ".log", ".lock")
TINY = "--width 2 --depth 2 --epochs 2 --batch-size 4 --seed 3"
CHASE = '"../inputs/chase_db1/{case}_{rater}.png" --images "../inputs/chase_db1/{case}.jpg"'
NODULES = '"../inputs/nodules/{rater}/{case}.nii.gz" --images "../inputs/nodules/{case}.nii.gz"'
FEW = "--cases 'slide001_core00*,slide007_core00*'"
LATER = "--cases 'slide002_core05*'"

COMMANDS: dict[str, str] = {
    "studies/chase": "prepare chase-db1 ../inputs/chase_db1",
    "studies/lidc": "prepare lidc ../inputs/lidc64",
    "studies/gleason": "prepare gleason2019 ../inputs/gleason2019",
    "studies/labelme": "prepare labelme ../inputs/labelme",
    "studies/few-nodules": "import studies/lidc --form packed --cases 'LIDC-IDRI-00[0-4]*'"
    " --new-split train=0.6,val=0.1,test=0.3",
    "studies/drawn": 'simulate "../inputs/chase_db1/{case}_1stHO.png"'
    " --raters good,over,under,wrong --seed 5 --cases Image_01L",
    "agree/chase": "agree studies/chase --surfaces --cases 'Image_01*' --json",
    "agree/lidc": "agree studies/lidc --json",
    "agree/gleason": f"agree studies/gleason {FEW} --json",
    "agree/labelme": "agree studies/labelme --json",
    "agree/nodules": f"agree {NODULES} --json",
    "fused/chase-staple": f"fuse {CHASE} -m staple --soft --cases 'Image_0*'",
    "fused/chase-vote": "fuse studies/chase -m vote --option ties=undecided",
    "fused/chase-pooled": "fuse studies/chase -m dawid-skene --pool",
    "fused/chase-spatial": "fuse studies/chase -m spatial-staple --cases Image_01L"
    " --option iterations=8 --option window=21",
    "fused/lidc-staple": "fuse studies/lidc -m staple --anonymous --option starts=union"
    " --cases 'LIDC-IDRI-00*'",
    "fused/lidc-simple": "fuse studies/lidc -m simple --option iterations=5",
    "fused/lidc-mean": "fuse studies/lidc -m mean --soft --cases 'LIDC-IDRI-01*'",
    "fused/gleason-staple": f"fuse studies/gleason -m staple --option iterations=30"
    f" --option tolerance=1e-5 --option smoothing=0.1 {FEW}",
    "fused/gleason-restricted": f"fuse studies/gleason -m staple --option restrict=true {FEW}",
    "fused/gleason-pooled": f"fuse studies/gleason -m staple --pool {FEW}",
    "fused/gleason-simple": f"fuse studies/gleason -m simple {FEW}",
    "fused/nodules-spatial": f"fuse {NODULES} -m spatial-staple --soft --option window=9",
    "fused/nodules-staple": f"fuse {NODULES} -m dawid-skene",
    "fused/labelme-vote": "fuse studies/labelme -m vote",
    "fused/labelme-mean": "fuse studies/labelme -m mean --soft",
    "fused/labelme-dawid-skene": "fuse studies/labelme -m dawid-skene --soft",
    "fused/labelme-one-coin": "fuse studies/labelme -m one-coin --option smoothing=0.5",
    "scores/fused-chase-staple": "evaluate fused/chase-staple studies/chase --cases 'Image_0[12]*'"
    " --json",
    "scores/fused-gleason-staple": f"evaluate fused/gleason-staple studies/gleason {FEW} --json",
    "scores/fused-lidc-simple": "evaluate fused/lidc-simple studies/lidc --no-surfaces --json",
    "scores/fused-nodules-spatial": f"evaluate fused/nodules-spatial {NODULES} --json",
    "scores/fused-labelme-dawid-skene": "evaluate fused/labelme-dawid-skene studies/labelme --json",
}
"""By the folder that a command writes, which is given to it as `-o`."""

ON_CHASE = (
    "--cases 'Image_0[1-4]*'",
    '"../inputs/chase_db1/Image_14{case}.jpg"',
    "studies/chase --cases Image_14L",
)
ON_GLEASON = (
    FEW,
    '"../inputs/gleason2019/images/slide002_core05{case}.jpg"',
    f"studies/gleason {LATER}",
)
ON_LIDC = ("", "studies/few-nodules", "studies/few-nodules --split test")
ON_LABELME = ("", "studies/labelme", "studies/labelme --split test")
ON_NODULES = ("", '"../inputs/nodules/{case}.nii.gz"', f"{NODULES} --split held-out")
EVERYTHING = "--probabilities --entropy --confusion"

TRAININGS: dict[str, tuple[str, str, str, str, str]] = {
    # name: study and method; options of train; of predict; of evaluate; the parts of the study
    "chase-pixel-cm": (
        "studies/chase -m pixel-cm",
        "--patch 48,48 --learning-rate 0.01 --held-out 0.25 --workers 0",
        "--as-rater 1stHO --entropy --cut area",
        "--no-surfaces",
        "chase",
    ),
    "gleason-global-cm": (
        "studies/gleason -m global-cm",
        "--patch 64,64 --patches-per-case 2 --class-weights balanced --trace 0.01"
        " --trace-over all --likelihood marginal --held-out 0.2",
        "--as-rater pathologist3",
        "--no-surfaces",
        "gleason",
    ),
    "gleason-low-rank-cm": (
        "studies/gleason -m low-rank-cm",
        "--patch 64,64 --rank 2 --augment full --normalise case --schedule constant",
        "--probabilities",
        "--no-surfaces --cut area",
        "gleason",
    ),
    "lidc-pixel-cm": (
        "studies/few-nodules -m pixel-cm",
        "--prior-to identity --prior 0.2 --annotator cnn --trace 0.001",
        f"{EVERYTHING} --as-rater reader1",
        "",
        "lidc",
    ),
    "lidc-single-cm": (
        "studies/few-nodules -m single-cm --anonymous",
        "--network segresnet --select likelihood --patience 1",
        "--cut 0.3",
        "",
        "lidc",
    ),
    "lidc-vote": ("studies/few-nodules -m vote", "--soft", "", "", "lidc"),
    "lidc-mean": ("studies/few-nodules -m mean", "--dropout 0.2", "", "", "lidc"),
    "lidc-staple": ("studies/few-nodules -m staple", "--pool --norm group", "", "", "lidc"),
    "lidc-spatial": ("studies/few-nodules -m spatial-staple", "--epochs 1", "", "", "lidc"),
    "lidc-separate": ("studies/few-nodules -m separate", "--network patch-cnn", "", "", "lidc"),
    "nodules-pixel-cm": (
        f"{NODULES} -m pixel-cm",
        "--patch 32,32,8 --shared --held-out 0.3",
        EVERYTHING,
        "",
        "nodules",
    ),
    "labelme-global-cm": (
        "studies/labelme -m global-cm",
        "--batch-size 32 --matrix-rate 5 --right 0.8 --warm-up 1",
        "--probabilities --confusion",
        "",
        "labelme",
    ),
    "labelme-pixel-cm": (
        "studies/labelme -m pixel-cm",
        "--form paper --batch-size 64",
        "--probabilities",
        "",
        "labelme",
    ),
    "labelme-dawid-skene": (
        "studies/labelme -m dawid-skene",
        "--batch-size 64 --weight-decay 0",
        "",
        "",
        "labelme",
    ),
    "labelme-oracle-cm": (
        "studies/labelme -m oracle-cm",
        "--by rater --batch-size 64",
        "",
        "",
        "labelme",
    ),
    "labelme-truth": ("studies/labelme -m truth", "--batch-size 64", "", "", "labelme"),
}
PARTS = {
    "chase": ON_CHASE,
    "gleason": ON_GLEASON,
    "lidc": ON_LIDC,
    "nodules": ON_NODULES,
    "labelme": ON_LABELME,
}

for _name, (_study, _train, _predict, _evaluate, _part) in TRAININGS.items():
    _learnt, _images, _scored = PARTS[_part]
    COMMANDS[f"runs/{_name}"] = f"train {_study} {_learnt} {TINY} {_train}"
    COMMANDS[f"predicted/{_name}"] = f"predict runs/{_name} {_images} {_predict} --device cpu"
    COMMANDS[f"scores/{_name}"] = f"evaluate runs/{_name} {_scored} {_evaluate} --json"
COMMANDS["scores/two-runs"] = (
    "evaluate runs/lidc-pixel-cm studies/few-nodules --split test --against runs/lidc-vote --json"
)
COMMANDS["scores/predictions"] = (
    "evaluate predicted/lidc-vote studies/few-nodules --split test --json"
)


# The data ----------------------------------------------------------------------------------------


def make_inputs(data: Path, inputs: Path) -> None:
    """Link to the data sets, and stack the slices of some nodules to volumes."""
    inputs.mkdir(parents=True, exist_ok=True)
    for name in ("chase_db1", "lidc64", "gleason2019", "labelme"):
        if not (inputs / name).exists():
            (inputs / name).symlink_to((data / name).resolve())
    if not (inputs / "nodules").exists():
        _stack(inputs / "lidc64" / "lidc_crops_4raters_64.npz", inputs / "nodules")


def _stack(crops: Path, out: Path, number: int = 8, slices: int = 10) -> None:
    import nibabel as nib

    with np.load(crops) as arrays:
        image, where = arrays["image"], arrays["patient_nodule_slice"]
        masks = np.unpackbits(arrays["masks_packed"], axis=-1)
    counts = Counter(map(tuple, where[:, :2].tolist()))
    affine = np.diag([0.7, 0.7, 2.5, 1.0])
    for patient, nodule in [key for key, n in counts.items() if n >= slices][:number]:
        rows = np.flatnonzero((where[:, 0] == patient) & (where[:, 1] == nodule))[:slices]
        arrays_by_name = {".": image[rows], **{f"r{k}": masks[rows, k] for k in range(4)}}
        for folder, array in arrays_by_name.items():
            (out / folder).mkdir(parents=True, exist_ok=True)
            volume = nib.Nifti1Image(array.transpose(1, 2, 0).astype(np.uint8), affine)
            nib.save(volume, out / folder / f"n{patient:04d}.nii.gz")


# Running -----------------------------------------------------------------------------------------


class Side:
    """One version of raters, and the folder that its commands write to."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree, self.folder = tree.resolve(), folder.resolve()
        path = {"PYTHONPATH": str(self.tree / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        self.environment = {**os.environ, **path}
        sources = sorted((self.tree / "src" / "raters").rglob("*.py"))
        self.hash = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()
        fusion = [p.read_text("utf-8") for p in sources if "fusion" in p.parts]
        self.fusion_words = frozenset(re.findall(r"^    (\w+): ", "\n".join(fusion), re.M))
        self.options_of = cache(self._options_of)
        self.process: subprocess.Popen[str] | None = None

    def raters(self, *arguments: str) -> dict[str, Any]:
        """Run the command line of this version; return its exit code, seconds and output."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--serve", str(self.tree)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(arguments), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer | {n: (self.folder / f"{n}.txt").read_text("utf-8") for n in ("out", "err")}

    def _options_of(self, verb: str) -> frozenset[str]:
        said = "".join(self.raters(verb, flag)["out"] for flag in ("--help", "--help-all"))
        return frozenset(re.findall(r"--[a-z][a-z-]+", said))

    def words(self, command: str) -> list[str]:
        """Split a command, with the names that this version knows."""
        verb, *words = shlex.split(command)
        known = self.options_of(verb)
        return [verb, *(self._word(word, known) for word in words)]

    def _word(self, word: str, known: frozenset[str]) -> str:
        if word.startswith("--") and word not in known:
            others = RENAMED.get(word[2:].replace("-", "_"), ())
            return next((o for o in map(_as_option, others) if o in known), word)
        name, equals, value = word.partition("=")
        if equals and name in RENAMED and name not in self.fusion_words:
            return f"{next((o for o in RENAMED[name] if o in self.fusion_words), name)}={value}"
        return word

    def run(self, name: str, command: str) -> dict[str, Any]:
        """Run a command, unless this tree has run it before; return what became of it."""
        done = self.folder / "done" / f"{name.replace('/', '-')}.json"
        key = [self.hash, command]
        if done.exists():
            kept: dict[str, Any] = json.loads(done.read_text())
            if kept["key"] == key and kept["code"] == 0:
                return kept
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        done.parent.mkdir(parents=True, exist_ok=True)
        ended = self._try(name, command)
        if "--json" in command and ended["code"] == 0:
            (self.folder / name / "printed.json").write_text(ended["out"], "utf-8")
        found = {
            "key": key,
            "code": ended["code"],
            "error": ended["err"].strip().splitlines()[-1:],
            "seconds": ended["seconds"],
        }
        done.write_text(json.dumps(found))
        return found

    def _try(self, name: str, command: str) -> dict[str, Any]:
        """Run it; where a value is refused (a split's name), once more with its new name."""
        words = self.words(command)
        ended = self.raters(*words, "-o", name)
        other = [RENAMED[w][0] if "-" in w and w in RENAMED else w for w in words]
        if ended["code"] and other != words:
            ended = self.raters(*other, "-o", name)
        return ended


def _as_option(word: str) -> str:
    return "--" + word.replace("_", "-")


def serve(tree: Path) -> None:
    """Import the libraries once; then run each command that is asked for in a fork of this one."""
    import monai.networks.nets  # noqa: F401

    import raters.cli

    if not Path(raters.cli.__file__).is_relative_to(tree):
        sys.exit(f"found raters in {raters.cli.__file__}, expected it in {tree}")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            for number, name in ((1, "out.txt"), (2, "err.txt")):
                os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            sys.argv = ["raters", *json.loads(line)]
            raters.cli.main()
            sys.exit()
        _, status, used = os.wait4(child, 0)
        seconds = round(used.ru_utime + used.ru_stime, 2)
        answer = {"code": os.waitstatus_to_exitcode(status), "seconds": seconds}
        print(json.dumps(answer), flush=True)


def needed(only: str | None) -> dict[str, str]:
    """Return the commands whose name holds a word, and those whose results they read."""
    chosen = [name for name in COMMANDS if only is None or only in name]
    for name in chosen:
        chosen += [w for w in shlex.split(COMMANDS[name]) if w in COMMANDS and w not in chosen]
    return {name: command for name, command in COMMANDS.items() if name in chosen}


# Comparing ---------------------------------------------------------------------------------------


class Found:
    """Differences and additions, by file."""

    def __init__(self) -> None:
        self.differences: dict[str, list[str]] = {}
        self.new: dict[str, list[str]] = {}
        self.values = 0

    def differs(self, where: str, what: str) -> None:
        """Note a difference."""
        self.differences.setdefault(where, []).append(what)

    def is_new(self, where: str, what: str) -> None:
        """Note what only the newer version has."""
        self.new.setdefault(where, []).append(what)


def compare_folders(before: Path, after: Path, name: str, found: Found) -> None:
    """Compare all files that a command has written."""
    old = {p.relative_to(before / name).as_posix(): p for p in _files(before / name)}
    new = {p.relative_to(after / name).as_posix(): p for p in _files(after / name)}
    for inner, path in old.items():
        other = _find(inner, new) or _find_stem(inner, new)
        if other is None:
            found.differs(f"{name}/{inner}", "only before")
            continue
        compare_files(path, new.pop(other), f"{name}/{inner}", found)
    for inner in new:
        found.is_new(name, inner)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path.suffix not in NOT_COMPARED:
            yield path


def _find(word: str, among: Container[str]) -> str | None:
    """Return the word or the one that took its place, if it is there."""
    return next((w for w in (word, *RENAMED.get(word, ())) if w in among), None)


def _find_stem(inner: str, among: dict[str, Path]) -> str | None:
    parts = [RENAMED.get(part.partition(".")[0], (None,))[0] for part in inner.split("/")]
    named = [
        f"{new}.{old.partition('.')[2]}" if new and "." in old else new or old
        for new, old in zip(parts, inner.split("/"), strict=True)
    ]
    return "/".join(named) if "/".join(named) in among else None


def compare_files(before: Path, after: Path, where: str, found: Found) -> None:
    """Compare two files by what is in them."""
    for suffix, compare in COMPARE.items():
        if before.name.endswith(suffix):
            compare(before, after, where, found)
            return
    found.values += 1
    if before.read_bytes() != after.read_bytes():
        found.differs(where, "bytes differ")


def _compare_json(before: Path, after: Path, where: str, found: Found) -> None:
    if before.suffix == ".json":
        old, new = (json.loads(p.read_text("utf-8")) for p in (before, after))
    else:
        old, new = (yaml.safe_load(p.read_text("utf-8")) for p in (before, after))
    compare_values(old, new, where, "", found)


def compare_values(old: object, new: object, where: str, path: str, found: Found) -> None:
    """Compare what JSON or YAML hold: numbers, names, lists and dictionaries of them."""
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_dictionaries(old, new, where, path, found)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, where, path, found)
    elif not _equal(old, new):
        found.differs(where, f"{path}: {old!r} -> {new!r}")
    else:
        found.values += 1


def _compare_dictionaries(
    old: dict[str, Any], new: dict[str, Any], where: str, path: str, found: Found
) -> None:
    seen = set()
    for key, value in old.items():
        if LEFT_OUT.fullmatch(str(key)):
            continue
        other = _find(key, new)
        if other is None:
            found.differs(where, f"{path}.{key}: only before")
        else:
            seen.add(other)
            compare_values(value, new[other], where, f"{path}.{key}", found)
    for key in new:
        if key not in seen and key not in old and not LEFT_OUT.fullmatch(str(key)):
            found.is_new(where, f"{path}.{key}")


def _compare_lists(old: list[Any], new: list[Any], where: str, path: str, found: Found) -> None:
    if len(old) != len(new):
        if not all(isinstance(row, dict) for row in [*old, *new]):
            found.differs(where, f"{path}: {len(old)} values -> {len(new)}")
            return
        old, new = _rows_in_both(old, new, where, path, found)
    for k, (a, b) in enumerate(zip(old, new, strict=True)):
        compare_values(a, b, where, f"{path}[{k}]", found)


def _rows_in_both(
    old: list[Any], new: list[Any], where: str, path: str, found: Found
) -> tuple[list[Any], list[Any]]:
    """Match rows by their names, where the newer version has more of them."""

    def names(row: dict[str, Any], columns: list[str]) -> tuple[str, ...]:
        return tuple(str(row.get(c)) for c in columns)

    columns = [c for c, v in old[0].items() if isinstance(v, str) and _number(v) is None]
    rows = {names(row, columns): row for row in new}
    kept = [row for row in old if names(row, columns) in rows]
    if len(kept) < len(old):
        found.differs(where, f"{path}: {len(old) - len(kept)} rows only before")
    if len(new) > len(kept):
        found.is_new(where, f"{path}: {len(new) - len(kept)} rows")
    return kept, [rows[names(row, columns)] for row in kept]


def _equal(old: object, new: object) -> bool:
    if isinstance(old, str) and isinstance(new, str):
        a, b = _number(old), _number(new)
        if a is None or b is None:
            sentence = " " in old and " " in new
            return sentence or new in (old, *RENAMED.get(old, ()))
        old, new = a, b
    if isinstance(old, float) and isinstance(new, float) and math.isnan(old):
        return math.isnan(new)
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _compare_csv(before: Path, after: Path, where: str, found: Found) -> None:
    with before.open(newline="") as one, after.open(newline="") as two:
        old, new = list(csv.DictReader(one)), list(csv.DictReader(two))
    if not old:
        found.values += 1
        if new:
            found.is_new(where, f"{len(new)} rows")
        return
    new_columns = [c for c in (new[0] if new else {}) if c not in old[0]]
    taken = {_find(c, new[0]) for c in old[0]} if new else set()
    added = [c for c in new_columns if c not in taken]  # said once, not once per row
    new = [{c: v for c, v in row.items() if c not in added} for row in new]
    for column in added:
        if not LEFT_OUT.fullmatch(column):
            found.is_new(where, f"column {column}")
    compare_values(old, new, where, "", found)


def _compare_arrays(old: Array, new: Array, where: str, found: Found) -> None:
    found.values += 1
    if old.shape != new.shape or old.dtype != new.dtype:
        found.differs(where, f"{old.dtype}{old.shape} -> {new.dtype}{new.shape}")
    elif old.tobytes() != new.tobytes():
        where_not = np.flatnonzero(np.atleast_1d(old != new))
        found.differs(where, f"{len(where_not):,} of {old.size:,} values differ")


def _compare_pictures(before: Path, after: Path, where: str, found: Found) -> None:
    from PIL import Image

    with Image.open(before) as old, Image.open(after) as new:
        _compare_arrays(np.asarray(old), np.asarray(new), where, found)


def _compare_volumes(before: Path, after: Path, where: str, found: Found) -> None:
    old, new = (
        gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()
        for p in (before, after)
    )
    _compare_arrays(np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8), where, found)


def _compare_numpy(before: Path, after: Path, where: str, found: Found) -> None:
    _compare_arrays(np.load(before, mmap_mode="r"), np.load(after, mmap_mode="r"), where, found)


def _compare_named(
    old: dict[str, Any], new: dict[str, Any], where: str, found: Found, what: str
) -> None:
    """Compare arrays by name; one whose name is gone may be there under another."""
    left = {name: array for name, array in new.items() if name not in old}
    for name, array in old.items():
        other = _find(name, new)
        if other is not None:
            left.pop(other, None)
            _compare_arrays(array, new[other], f"{where} {name}", found)
            continue
        same = [n for n, a in left.items() if a.dtype == array.dtype and _same_bytes(a, array)]
        if not same:
            found.differs(where, f"{what} {name}: only before")
        else:
            left.pop(same[0])
            found.is_new(where, f"{what} {name} is called {same[0]}")
    for name in left:
        found.is_new(where, f"{what} {name}")


def _same_bytes(one: Array, two: Array) -> bool:
    return bool(one.shape == two.shape) and bool(one.tobytes() == two.tobytes())


def _compare_npz(before: Path, after: Path, where: str, found: Found) -> None:
    with np.load(before) as old, np.load(after) as new:
        _compare_named(dict(old), dict(new), where, found, "array")


def _compare_weights(before: Path, after: Path, where: str, found: Found) -> None:
    from safetensors.numpy import load_file

    _compare_named(load_file(before), load_file(after), where, found, "tensor")


def _compare_parquet(before: Path, after: Path, where: str, found: Found) -> None:
    import pandas as pd

    found.values += 1
    if not pd.read_parquet(before).equals(pd.read_parquet(after)):
        found.differs(where, "tables differ")


COMPARE: dict[str, Callable[[Path, Path, str, Found], None]] = {
    ".json": _compare_json,
    ".yaml": _compare_json,
    ".csv": _compare_csv,
    ".png": _compare_pictures,
    ".nii.gz": _compare_volumes,
    ".npy": _compare_numpy,
    ".npz": _compare_npz,
    ".parquet": _compare_parquet,
    ".safetensors": _compare_weights,
}


def show(found: Found, shown: int) -> int:
    """Print what was found in the results of one command; return the number of differences."""
    for where, what in found.new.items():
        print(f"  new      {where}: {'; '.join(what[:shown])}{_more(what, shown)}")
    for where, what in found.differences.items():
        for line in what[:shown]:
            print(f"  DIFFERS  {where}: {line}")
        if len(what) > shown:
            print(f"  DIFFERS  {where}:{_more(what, shown)}")
    sys.stdout.flush()
    return sum(map(len, found.differences.values()))


def _more(what: list[str], shown: int) -> str:
    return f" and {len(what) - shown} more" if len(what) > shown else ""


def main() -> int:
    """Run the commands with both trees and compare what they wrote."""
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/same"))
    parser.add_argument("--only", help="commands whose name holds this word, and their inputs")
    parser.add_argument("--shown", type=int, default=6, help="differences printed per file")
    asked = parser.parse_args()
    make_inputs(asked.data, asked.work / "inputs")
    sides = []
    for name, tree in (("before", asked.before), ("after", asked.after)):
        (asked.work / name).mkdir(parents=True, exist_ok=True)
        sides.append(Side(tree, asked.work / name))
    start, seconds, values, differences = time.monotonic(), [0.0, 0.0], 0, 0
    commands = needed(asked.only)
    for name, command in commands.items():
        found = Found()
        with ThreadPoolExecutor() as pool:
            ended = list(pool.map(Side.run, sides, [name] * 2, [command] * 2))
        seconds = [a + e["seconds"] for a, e in zip(seconds, ended, strict=True)]
        print(f"{name:28} {ended[0]['seconds']:6.1f} s {ended[1]['seconds']:6.1f} s", flush=True)
        for side, end in zip(("before", "after"), ended, strict=True):
            if end["code"]:
                found.differs(name, f"{side} ended with {end['code']}: {' '.join(end['error'])}")
        compare_folders(sides[0].folder, sides[1].folder, name, found)
        differences += show(found, asked.shown)
        values += found.values
    took = time.monotonic() - start
    print(f"{len(commands)} commands: {seconds[0]:.0f} and {seconds[1]:.0f} CPU-s, {took:.0f} s")
    print(f"{values:,} values and arrays compared, {differences:,} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
