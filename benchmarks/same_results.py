"""Do two versions of raters give the same results? Real data, one fixed set of commands.

    python benchmarks/same_results.py DATA --before TREE --after TREE [--work FOLDER] [--only WORD]

DATA holds chase_db1, lidc64, gleason2019, labelme and music_genre. A tree is a checkout: the
packages below its `src` are used, with the entry points of its `pyproject.toml`, and nothing of it
but its command line. Each command is a process of its own, in `FOLDER/before` or `FOLDER/after`;
what an unchanged tree has run on unchanged inputs is not run again.

Then both trees go on with copies of what the older one made: they predict, evaluate and report,
and resume trainings that were killed (`--handover only` does nothing else than what this needs,
`--handover no` leaves it out).

All that commands write and print is compared: masks, weights, numbers and the content of
checkpoints to the bit; notes, the terminal and the text of pages as whole strings. What is only on
one side is a difference. Left out, with the reason beside it, is what is another in every run:
`MEASURED` and `_CHANGING` in `same_results/texts.py` (times, speeds, memory, versions);
`LEFT_OUT`, `_compare_journals`, `_onnx_parts` and `_SOURCE_KEYS` in `same_results/compare.py`
(lock files, dates of files, lines of source in exported networks). Styles and scripts of pages are
not compared, nor is the order of keys in JSON and YAML. The pages in `docs/` are made by
`docs/make_tables.py`, and a test compares them; here `bench table` shows the same results.

The libraries are those of this Python, and the data are taken to be unchanged: after either has
changed, start with an empty FOLDER.

295 commands, 1.9 million values: 9 CPU-minutes a side. On two cores with a load of 9 by others,
one side took 21 minutes and both at once 26; comparing again takes half a minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from same_results.commands import (
    Command,
    all_commands,
    continued_commands,
    killed_trainings,
    needed,
)
from same_results.compare import Differences, compare_folders, compare_json, compare_text
from same_results.inputs import make_inputs
from same_results.texts import Cleaner
from same_results.trees import Ended, Side, Tree


class Totals:
    """Counts over all commands."""

    def __init__(self) -> None:
        self.commands = 0
        self.values = 0
        self.differences = 0
        self.seconds = [0.0, 0.0]


def run_both(
    sides: tuple[Side, Side],
    commands: Iterable[Command],
    cleaner: Cleaner,
    totals: Totals,
    shown: int,
) -> None:
    """Run commands with both trees, and compare and print what they wrote."""
    with ThreadPoolExecutor() as pool:
        for command in commands:
            old, new = pool.map(lambda side, one=command: side.run(one), sides)
            print(f"{command.name:36} {old.seconds:6.1f} s {new.seconds:6.1f} s", flush=True)
            differences = compare_results(sides, (old, new), command, cleaner)
            print_differences(differences, shown)
            totals.commands += 1
            totals.values += differences.values
            totals.differences += len(differences)
            totals.seconds[0] += old.seconds
            totals.seconds[1] += new.seconds


def compare_results(
    sides: tuple[Side, Side], ends: tuple[Ended, Ended], command: Command, cleaner: Cleaner
) -> Differences:
    """Compare exit codes, what was printed and all files of one command."""
    differences = Differences(cleaner)
    for label, end in zip(("before", "after"), ends, strict=True):
        if end.code not in command.codes:
            differences.add(command.name, f"{label} ended with {end.code}: {end.last_line}")
    if ends[0].code != ends[1].code:
        differences.add(command.name, f"exit code {ends[0].code} -> {ends[1].code}")

    for stream in ("out", "err"):
        old, new = (side.printed(command.name, stream) for side in sides)
        is_json = stream == "out" and command.prints_json and ends[0].code == ends[1].code == 0
        compare = compare_json if is_json else compare_text
        compare(old, new, f"{command.name} ({stream})", differences)
    old_folder, new_folder = (side.folder / command.name for side in sides)
    compare_folders(old_folder, new_folder, command.name, differences)
    return differences


def print_differences(differences: Differences, shown: int) -> None:
    """Print the first differences of each file."""
    for where, lines in differences.by_file.items():
        for line in lines[:shown]:
            print(f"  DIFFERS  {where}: {line}")
        if len(lines) > shown:
            print(f"  DIFFERS  {where}: and {len(lines) - shown:,} more")
    sys.stdout.flush()


def hand_over(
    before: Side, commands: dict[str, Command], only: str, totals: Totals
) -> list[Command]:
    """Make what both trees go on with, by the older tree; return the commands that go on."""
    made = {**commands, **{one.name: one for one in killed_trainings(commands)}}
    going_on = continued_commands(made)
    asked_for = [name for name in going_on if only in name]
    chosen = needed({**made, **going_on}, asked_for)
    for command in chosen.values():
        if command.name in going_on:
            continue
        end = before.run(command)
        if command.name not in commands:
            totals.seconds[0] += end.seconds
        if end.code not in command.codes:
            print(f"  DIFFERS  {command.name}: before ended with {end.code}: {end.last_line}")
            totals.differences += 1
    return [command for name, command in chosen.items() if name in going_on]


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/same"))
    parser.add_argument(
        "--only", default="", help="commands whose name holds this word, and their inputs"
    )
    parser.add_argument(
        "--handover",
        choices=("yes", "no", "only"),
        default="yes",
        help="whether both trees go on with results of the older one",
    )
    parser.add_argument("--shown", type=int, default=6, help="differences printed per file")
    return parser.parse_args()


def main() -> int:
    """Run the commands with both trees and compare what they wrote."""
    asked = parse_arguments()
    work = asked.work.resolve()
    make_inputs(asked.data, asked.before / "docs" / "results", work / "inputs")
    trees = (Tree(asked.before), Tree(asked.after))
    sides = (Side(trees[0], work / "before"), Side(trees[1], work / "after"))
    continued = (
        Side(trees[0], work / "before-continued", origin=sides[0]),
        Side(trees[1], work / "after-continued", origin=sides[0]),
    )
    cleaner = Cleaner(
        [
            *((side.folder, "FOLDER") for side in (*sides, *continued)),
            *((tree.folder, "TREE") for tree in trees),
        ]
    )
    totals = Totals()
    start = time.monotonic()
    print(f"before: {trees[0].folder} {trees[0].hash[:12]}")
    print(f"after:  {trees[1].folder} {trees[1].hash[:12]}", flush=True)

    commands = all_commands(work / "inputs" / "results")
    if asked.handover != "only":
        asked_for = [name for name in commands if asked.only in name]
        chosen = needed(commands, asked_for)
        run_both(sides, chosen.values(), cleaner, totals, asked.shown)
    if asked.handover != "no":
        going_on = hand_over(sides[0], commands, asked.only, totals)
        for side in sides:
            side.close()
        run_both(continued, going_on, cleaner, totals, asked.shown)

    took = time.monotonic() - start
    print(
        f"{totals.commands} commands: {totals.seconds[0]:.0f} and {totals.seconds[1]:.0f} CPU-s,"
        f" {took:.0f} s"
    )
    print(f"{totals.values:,} values compared, {totals.differences:,} differences")
    return 1 if totals.differences else 0


if __name__ == "__main__":
    sys.exit(main())
