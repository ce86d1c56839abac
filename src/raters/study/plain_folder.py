"""What a plain folder holds: its layout, guessed from names, and said in one line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.core.wording import many
from raters.io import formats
from raters.io.paths import PREDICT_JOURNAL
from raters.io.results import JOURNAL_FILE
from raters.study import layout_names
from raters.study.exports import known_export
from raters.study.layouts import (
    MOST_LEVELS,
    Layout,
    find_layouts,
    is_sure,
    left_out,
    one_rater_pattern,
)
from raters.study.pattern import Pattern, is_pattern, there
from raters.study.places import StudySource, is_source, read_source
from raters.study.plain_table import guess_table, is_labels, is_truth, may_hold_labels, said
from raters.study.study_file import STUDY_FILE
from raters.study.table_columns import ROLES

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".csv.gz", ".xlsx")

_MOST_FILES = 200_000
_MOST_SHOWN = 3
_FEWEST_COLOURS = 3
_WRITTEN = (STUDY_FILE, JOURNAL_FILE, PREDICT_JOURNAL, "raters.json", ".fuse.jsonl", "config.yaml")
"""Files of folders that `raters` wrote: these are never plain folders."""


@dataclass(frozen=True)
class Guess:
    """What a source was taken as.

    Attributes:
        arguments: Arguments of `raters.read` that say it in full.
        line: The same for people, in one line.
    """

    arguments: dict[str, Any]
    line: str


def guess_source(given: Mapping[str, Any]) -> Guess | None:
    """Return what a source is taken as where it does not say so itself; None where it does.

    Args:
        given: The arguments of `raters.read`; what they say wins over any guess.

    Raises:
        RatersError: A folder may mean several things.
    """
    source = Path(os.fspath(given["source"]))
    if is_pattern(str(source)):
        return None
    file = source / STUDY_FILE if source.is_dir() else source
    if file.suffix in (".yaml", ".yml") and file.is_file() and is_source(file):
        return _saved(file, given)
    if is_plain(source):
        guess = guess_folder(source, given)
        return _tables(source, given) if guess is None else guess
    is_table = source.is_file() and source.name.lower().endswith(TABLE_SUFFIXES)
    return _of_table(source, given) if is_table else None


def _of_table(path: Path, given: Mapping[str, Any], truth: Path | None = None) -> Guess | None:
    """Return how a table is taken; None where its columns are called as usual."""
    arguments = guess_table(path, given)
    if not arguments and truth is None:
        return None
    arguments = {**{role: given.get(role, role) for role in ROLES}, **arguments}
    if truth is not None and given.get("reference") is None:
        arguments["reference"] = str(truth)
    return Guess({"source": str(path), **arguments}, said(path, arguments))


def _tables(folder: Path, given: Mapping[str, Any]) -> Guess | None:
    """Take a folder that holds one table of labels, and perhaps one of true labels."""
    paths = [folder / name for name in files_below(folder) if "/" not in name]
    tables = [path for path in paths if path.name.lower().endswith(TABLE_SUFFIXES)]
    tables = [path for path in tables if _is_readable(path)]
    labels = [path for path in tables if is_labels(path)]
    truths = [path for path in tables if is_truth(path)]
    if len(labels) > 1:
        commands = [f"\n  {shlex.join(['raters', 'check', str(path)])}" for path in labels]
        message = f"found {len(labels)} tables of labels; which one is meant?{''.join(commands)}"
        raise RatersError(message, kind="layout", file=folder)
    if labels:
        guess = _of_table(labels[0], given, truths[0] if len(truths) == 1 else None)
        return guess or Guess({"source": str(labels[0])}, f"taken as {labels[0]}")
    return None


def _is_readable(path: Path) -> bool:
    try:
        is_labels(path)
    except RatersError:
        return False
    return True


def _saved(file: Path, given: Mapping[str, Any]) -> Guess:
    """Return what a saved study says; what is given otherwise than usual wins."""
    arguments = read_source(file)
    for name, value in given.items():
        field = StudySource.model_fields.get(name)
        if name != "source" and field is not None and value not in (field.default, None, [], ()):
            arguments.pop(name, None)
    return Guess(arguments, f"taken from {file}: {arguments['source']}")


def is_plain(folder: Path) -> bool:
    """Return whether a path is a folder that `raters` did not write."""
    return folder.is_dir() and not any((folder / name).exists() for name in _WRITTEN)


def guess_folder(folder: Path, given: Mapping[str, Any]) -> Guess | None:
    """Return what the masks below a folder mean; None where nothing looks like masks of raters.

    Args:
        folder: The folder.
        given: Arguments of `raters.read`; images and references that are given are kept.

    Raises:
        RatersError: Several layouts are nearly as likely, which it lists as commands, or the
            pattern of the likeliest takes files that are no masks of it.
    """
    paths = files_below(folder)
    layouts = _layouts(folder, paths)
    if not layouts:
        return None
    if not is_sure(layouts):
        raise RatersError(_choices(folder, layouts), kind="layout", file=folder)
    layout = layouts[0]
    _refuse_other_files(folder, layout)
    arguments: dict[str, Any] = {"source": _below(folder, layout.masks)}
    words = [f"taken as {arguments['source']}"]
    for name, pattern in (("images", layout.images), ("reference", layout.reference)):
        if pattern is not None and given.get(name) is None:
            arguments[name] = _below(folder, pattern)
            words.append(f"{name}={arguments[name]}")
    if layout.anonymous:
        arguments["anonymous"] = True
    who = "anonymous rater" if layout.anonymous else "rater"
    counted = f"{many(len(layout.raters), who)}, {many(layout.cases, 'case')}"
    if layout.missing:
        counted += f", {many(layout.missing, 'mask')} missing"
    others = left_out(layout, [path for path in paths if formats.suffix_of(path)])
    rest = f"; left out: {others}" if others else ""
    return Guess(arguments, f"{', '.join(words)}: {counted}{rest}")


def _refuse_other_files(folder: Path, layout: Layout) -> None:
    """Reject a layout whose pattern would also take files that it does not count."""
    others = []
    for match in Pattern(_below(folder, layout.masks)).walk([]):
        path = match.path.relative_to(folder).as_posix()
        if path not in layout.used:
            others.append(path)
    if others:
        raise RatersError(
            f"found masks at {_below(folder, layout.masks)}, a pattern that {others[0]} fits too "
            f"({many(len(others), 'other file')}); expected a pattern of the masks alone, such as "
            f"raters check '{_below(folder, 'masks/{rater}/{case}.png')}'",
            kind="layout",
            file=folder,
        )


def no_layout(folder: Path) -> RatersError:
    """Return what is in a folder in which no layout was found, and what was expected."""
    if (folder / JOURNAL_FILE).exists():
        message = "holds an import that is not finished: run the same 'raters import' again"
        return RatersError(message, kind="not-a-study", file=folder)
    paths = files_below(folder)
    pattern = one_rater_pattern(paths)
    table = _first_table(folder, paths)
    export = next(
        (e for e in (known_export(folder / path) for path in paths if "/" not in path) if e), None
    )
    if pattern is not None:
        hint = f"; did you mean the pattern {_below(folder, pattern)!r}?"
    elif table is not None:
        hint = f"; tables are read one by one: {shlex.join(['raters', 'check', table])}"
    elif export is not None:
        hint = f"; {export}"
    elif _is_flat(paths):
        hint = "; if these are the masks of one rater, name the folder above"
    else:
        hint = "; 'raters prepare --help' lists the public data sets that are read as they are"
    message = (
        f"found no {STUDY_FILE} in it, and no names that tell raters from cases; expected a folder "
        "per rater ('masks/{rater}/{case}.nii.gz') or per case ('masks/{case}/{rater}.nii.gz'), or "
        f"the rater in names of files ('masks/{{case}}_{{rater}}.nii.gz'); {there(folder)}{hint}"
    )
    return RatersError(message, kind="not-a-study", file=folder)


def files_below(folder: Path) -> list[str]:
    """Return the files below a folder, hidden ones left out, with `/` between levels."""
    return sorted(_walk(folder))[:_MOST_FILES]


def _walk(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder, followlinks=False):
        relative = Path(place).relative_to(folder)
        if relative.parts and any(name in names for name in _WRITTEN):
            folders.clear()  # a study or a result beside the data is not part of it
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(relative.parts) >= MOST_LEVELS:
            folders.clear()
        for name in names:
            if not name.startswith("."):
                yield (relative / name).as_posix()


def _first_table(folder: Path, paths: Sequence[str]) -> str | None:
    """Return the first table that may hold labels of raters."""
    tables = [path for path in paths if path.lower().endswith(TABLE_SUFFIXES)]
    for path in tables:
        if _is_readable(folder / path) and may_hold_labels(folder / path):
            return _below(folder, path)
    return None


def _is_flat(paths: Sequence[str]) -> bool:
    names = [path for path in paths if formats.suffix_of(path) not in ("", ".dcm", ".npy")]
    return len(names) > 1 and not any("/" in name for name in names)


def _layouts(folder: Path, paths: Sequence[str]) -> list[Layout]:
    """Find the layouts; raters whose files have colours, unlike those of others, are images."""
    if any(character in str(folder) for character in "{}*"):
        return []  # the path could not be written in a pattern
    layouts = find_layouts(paths)
    if not layouts:
        return []
    coloured = _coloured(folder, layouts[0])
    if coloured and len(coloured) < len(layouts[0].raters):
        images = {path for path in layouts[0].used if _is_of(path, coloured, layouts[0])}
        return find_layouts(paths, images)
    if coloured and not _holds_masks(layouts[0]):
        return []  # pictures of classes, with nothing that says 'mask'
    return layouts


def _coloured(folder: Path, layout: Layout) -> set[str]:
    """Return the raters whose first file has colours, by its header."""
    found = set()
    for rater, path in (layout.example or {}).items():
        try:
            channels = formats.probe(folder / path).channels
        except RatersError:
            continue  # whoever reads it will say what is wrong with it
        if channels is not None and channels >= _FEWEST_COLOURS:
            found.add(rater)
    return found


def _is_of(path: str, raters: set[str], layout: Layout) -> bool:
    match = Pattern(layout.masks).match(path)
    return match is not None and match["rater"] in raters


def _holds_masks(layout: Layout) -> bool:
    """Return whether names say that coloured files are masks."""
    folders = layout.masks.split("/")
    words = [word for folder in folders for word in layout_names.words_of(folder)]
    return layout.images is not None or any(word in layout_names.LABEL_WORDS for word in words)


def _below(folder: Path, pattern: str) -> str:
    return str(folder / pattern)


def _choices(folder: Path, layouts: Sequence[Layout]) -> str:
    """List the layouts that a folder may have, each as a command."""
    lines = ["the names of its files allow several layouts, or none for sure; which one is meant?"]
    for layout in layouts[:_MOST_SHOWN]:
        command = ["raters", "check", _below(folder, layout.masks)]
        if layout.images is not None:
            command += ["--images", _below(folder, layout.images)]
        if layout.reference is not None:
            command += ["--reference", _below(folder, layout.reference)]
        counted = f"{many(len(layout.raters), 'rater')}, {many(layout.cases, 'case')}"
        lines.append(f"  {shlex.join(command)}  # {counted}")
    return "\n".join(lines)
