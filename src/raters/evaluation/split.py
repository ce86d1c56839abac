"""Which cases a run is scored on, whether it has seen them, and whether the study fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.study.study import many
from raters.training.config import refuse_other_study
from raters.training.run import SPLITS, read_splits
from raters.training.survey import HELD_OUT as VALIDATION

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.config import ModelConfig

TRAIN, HELD_OUT, NEW = "train", "held-out", "test"
_OTHER_NAMES = dict.fromkeys(VALIDATION, HELD_OUT)
_OTHER_NAMES["new"] = NEW
_SHOWN = 5
MOST_PAIRS = 200_000
"""Cases times raters times raters, up to which every pair is kept with its interval."""


@dataclass(frozen=True)
class Seen:
    """What a run used its cases for.

    Attributes:
        parts: 'train', 'held-out' or 'left-out' by the name of the case.
        groups: The groups (patients) of the cases that were trained on.
        known: Whether the run wrote it down; else nothing is known.
    """

    parts: dict[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    known: bool = True

    @classmethod
    def by_run(cls, folder: str | Path | None) -> Seen:
        """Read `splits.csv` of a run."""
        path = None if folder is None else Path(folder)
        if path is None or not (path / SPLITS).exists():
            return cls(known=False)
        try:
            rows = read_splits(path)
        except (OSError, ValueError) as error:
            raise RatersError(
                f"cannot be read ({error}), expected case, part and group", file=path / SPLITS
            ) from None
        trained = frozenset(group for _, part, group in rows if part == TRAIN)
        return cls({case: part for case, part, _ in rows}, trained)

    def part(self, case: str) -> str:
        """Return what a case was for: 'train', 'held-out', or 'test' where it was for neither."""
        found = self.parts.get(case, NEW)
        return found if found in (TRAIN, HELD_OUT) else NEW


def choose_split(study: Study, split: str | None, runs: Sequence[Seen]) -> Study:
    """Return the cases of a split: of the study's own, or else of what the runs used them for.

    'train' are the cases that any of the runs was trained on, 'held-out' (or 'val') those that
    chose the epoch, 'test' (or 'new') those that none of them saw.
    """
    if not split:
        return study
    own = sorted(set(study.index.splits) - {""})
    if split in own:
        return study.select(split=split)
    wanted = _OTHER_NAMES.get(split, split)
    parts = [_part_of(case, runs) for case in study.index.ids]
    # A run that wrote nothing down may have seen any case.
    if all(run.known for run in runs):
        chosen = [case for case, part in zip(study.index.ids, parts, strict=True) if part == wanted]
        if chosen:
            return study.select(cases=chosen)
    raise _no_cases(split, own, parts, runs)


def _part_of(case: str, runs: Sequence[Seen]) -> str:
    parts = {run.part(case) for run in runs}
    return next(part for part in (TRAIN, HELD_OUT, NEW) if part in parts)


def _no_cases(split: str, own: list[str], parts: list[str], runs: Sequence[Seen]) -> RatersError:
    there = [f"{name} (of the study)" for name in own]
    if all(run.known for run in runs):
        counts = {name: parts.count(name) for name in (TRAIN, HELD_OUT, NEW)}
        # A name of the study's own means the study's split.
        there += [
            f"{name} ({many(n, 'case')})" for name, n in counts.items() if n and name not in own
        ]
    expected = f"expected one of {', '.join(there)}" if there else "this study has no splits"
    why = "" if all(run.known for run in runs) else f"; a run has no {SPLITS} to tell by"
    return RatersError(f"found no case in the split {split!r}, {expected}{why}", kind="empty")


def warnings_of(study: Study, seen: Seen, name: str = "") -> list[str]:
    """Report loudly which of the cases are no test of the run."""
    parts, of = _parts(study, seen), f" by {name}" if name else ""
    trained, said = parts.count(TRAIN), []
    if trained:
        said.append(
            f"{trained:,} of {many(len(study), 'case')} were trained on{of}: "
            "their scores are too good, and say nothing of new cases"
        )
    places = zip(parts, study.index.groups, strict=True)
    mates = sum(part == NEW and group in seen.groups for part, group in places)
    if mates:
        said.append(f"{many(mates, 'case')} of groups (patients) that were trained on{of}")
    return said


def held_out_notes(study: Study, seen: Seen, name: str = "") -> list[str]:
    """Return which of the cases chose the epoch."""
    number, of = _parts(study, seen).count(HELD_OUT), f" by {name}" if name else ""
    if not number:
        return []
    said = f"{number:,} of {many(len(study), 'case')} chose the epoch{of}"
    return [f"{said}: their scores are a little too good"]


def _parts(study: Study, seen: Seen) -> list[str]:
    """Return what each case was for; a run that wrote nothing down took the split 'train'."""
    if not seen.known:
        return [TRAIN if split == TRAIN else NEW for split in study.index.splits]
    return [seen.part(case) for case in study.index.ids]


def refuse_unlike(config: ModelConfig, study: Study) -> None:
    """Refuse a study of another kind, with other classes, or without images."""
    if not len(study):
        raise RatersError("found no cases, expected at least one", kind="empty")
    if study[0].raw_image() is None:
        raise RatersError(
            f"found no image of case {study.index.ids[0]!r}, expected images: a run is scored on "
            "them (--images)",
            case=study.index.ids[0],
        )
    refuse_other_study(config, study, "run")


def shared_raters(
    known: Sequence[str], study: Study, wanted: Sequence[str] | None = None
) -> dict[str, int]:
    """Return the raters that run and study share, and where each is in the study."""
    for name in wanted or ():
        if name not in known:
            raise RatersError(
                f"found the rater {name!r}, expected one that the run knows: "
                f"{', '.join(known[:20]) or 'it knows none'}",
                rater=name,
            )
    chosen = set(known if wanted is None else wanted)
    return {name: k for k, name in enumerate(study.raters) if name in chosen}


def notes_of(
    found: Evaluation, config: ModelConfig, study: Study, known: dict[str, int]
) -> list[str]:
    """Return what a reader must know about the tables of a run."""
    notes = []
    strange = [name for name in study.raters if name not in config.raters]
    if strange:
        notes.append(
            f"{many(len(strange), 'rater')} that the run does not know "
            f"(left out of 'as rater'): {_listed(strange)}"
        )
    silent = [name for name in study.raters if name in config.unlabelled]
    if silent:
        notes.append(
            f"{many(len(silent), 'rater')} of whom the run was trained on no label "
            f"(left out of 'as rater' and of matrices): {_listed(silent)}"
        )
    if found.raters and len(study) * len(known) ** 2 > MOST_PAIRS:
        pairs = f"{len(study):,} cases x {len(known):,} x {len(known):,} raters"
        notes.append(
            f"'as X' against every other rater is left out: found {pairs}, expected "
            f"{MOST_PAIRS:,} at most; choose some with --raters"
        )
    if found.likelihood and not any(row["form"] == "joint" for row in found.likelihood):
        notes.append(f"{config.method} has no matrices: there is no joint likelihood")
    return notes


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
