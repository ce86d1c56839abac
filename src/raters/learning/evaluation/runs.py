"""Trained runs: which cases each has seen, one scored on new ones, several on the same cases."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from raters.core.errors import RatersError, placed
from raters.core.whole_numbers import at_least
from raters.core.wording import listing, many
from raters.evaluation.case import Scoring
from raters.evaluation.evaluate import SAMPLES, UnionsGiven, inputs_of, score_cases, unions_of
from raters.evaluation.prediction import Prediction
from raters.evaluation.result import Comparison, Evaluation
from raters.evaluation.tables import HALF, MAIN, entry
from raters.io.rows import Row, known
from raters.learning.training.config import ModelConfig, refuse_other_study
from raters.learning.training.model import Model
from raters.learning.training.partition import HELD_OUT as VALIDATION
from raters.learning.training.run import SPLITS, read_splits
from raters.metrics.bootstrap import GroupBootstrap
from raters.metrics.chosen_cut import CutGiven
from raters.study.case import Case
from raters.study.study import Study

TRAIN = "train"
HELD_OUT = "held-out"
NEW = "test"
_OTHER_NAMES = dict.fromkeys(VALIDATION, HELD_OUT)
_OTHER_NAMES["new"] = NEW
_SHOWN = 5
MOST_CASES = 300
"""Cases that a report scores; of more, so many are taken in equal steps."""
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
        rows = read_splits(path)
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
    every = [{run.part(case) for run in runs} for case in study.index.ids]
    parts = [next(p for p in (TRAIN, HELD_OUT, NEW) if p in found) for found in every]
    # A run that wrote nothing down may have seen any case.
    if all(run.known for run in runs):
        chosen = [case for case, part in zip(study.index.ids, parts, strict=True) if part == wanted]
        if chosen:
            return study.select(cases=chosen)
    raise _no_cases(split, own, parts, runs)


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


@dataclass(frozen=True)
class Part:
    """The cases that a report of runs shows.

    Attributes:
        study: Only these cases.
        name: 'test', 'held-out', or '' for all.
        all: How many there are, where not all are shown.
    """

    study: Study
    name: str
    all: int


def shown_part(study: Study, runs: Sequence[Seen], most: int = MOST_CASES) -> Part:
    """Choose the cases to show: 'test' if there are any, else held-out ones, else all."""
    part = study
    name = ""
    for split in ("test", "held-out"):
        try:
            part = choose_split(study, split, runs)
            name = split
            break
        except RatersError as error:
            if error.kind != "empty":
                raise
    number = len(part)
    if number > most:
        places = np.linspace(0, number - 1, most).round().astype(int)
        part = part.select(cases=[part.index.ids[k] for k in places])
    return Part(part, name, number)


def warnings_of(study: Study, seen: Seen, name: str = "") -> list[str]:
    """Report loudly which of the cases are no test of the run."""
    parts = _parts(study, seen)
    of = f" by {name}" if name else ""
    trained = parts.count(TRAIN)
    said = []
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
    number = _parts(study, seen).count(HELD_OUT)
    of = f" by {name}" if name else ""
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
                f"{listing(known) or 'it knows none'}",
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
            f"(left out of 'as rater'): {listing(strange, _SHOWN)}"
        )
    silent = [name for name in study.raters if name in config.unlabelled]
    if silent:
        notes.append(
            f"{many(len(silent), 'rater')} of whom the run was trained on no label "
            f"(left out of 'as rater' and of matrices): {listing(silent, _SHOWN)}"
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


def compare_runs(
    runs: Sequence[Model | str | Path],
    study: Study,
    split: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Comparison:
    """Score several runs on the same cases, and compare each with the first.

    'test' are the cases that none of the runs has seen. 'As rater' and likelihoods are of the
    raters that all runs know. All runs are scored on the same draws of groups, so that differences
    are paired: what makes a case hard cancels.

    Args:
        runs: Models, or folders of runs; they must have the same classes.
        study: The study, with images.
        split: As in `raters.evaluate`.
        **options: As in `raters.evaluate`: `surfaces`, `cut`, `unions`, `samples`, `seed` and
            `progress`.
    """
    found = Comparison(runs=score_runs(runs, study, split, **options))
    sums = [run.sums for run in found.runs if run.sums is not None]
    # Differences are of cases that all runs were scored on.
    everywhere = set.intersection(*(set(one.names) for one in sums))
    shared = [name for name in sums[0].names if name in everywhere]
    group_of = dict(zip(sums[0].names, sums[0].groups, strict=True))
    bootstrap = GroupBootstrap([group_of[name] for name in shared])
    for run in found.runs:
        found.rows.append({"run": run.run, "method": run.method, "cases": run.scored} | run.main)
        found.cases += list(_case_rows(run))
    for run, one in zip(found.runs[1:], sums[1:], strict=True):
        for name, (_, score) in MAIN.items():
            if name in sums[0].vectors and name in one.vectors:
                pair = sums[0].of(name, shared), one.of(name, shared)
                cells = entry("difference", bootstrap.difference(*pair, score))
                place = {"run": run.run, "against": found.runs[0].run, "score": name}
                found.differences.append(place | cells)
    return found


def score_runs(
    runs: Sequence[Model | str | Path],
    study: Study,
    split: str | None = None,
    raters: Sequence[str] | None = None,
    **options: Any,  # noqa: ANN401
) -> list[Evaluation]:
    """Score runs on the same cases; `raters.evaluate` says what the tables hold."""
    if not runs:
        raise RatersError("found no runs, expected at least one")
    from raters import load  # says what to install if torch is not there

    models: list[tuple[Model, Path | None]] = [
        (load(run), Path(run).resolve()) if isinstance(run, str | Path) else (run, None)
        for run in runs
    ]
    for model, folder in models:
        with placed(file=folder):
            refuse_unlike(model.config, study)
    seen = [Seen.by_run(folder) for _, folder in models]
    kept = study.without_negatives()
    part = choose_split(kept, split, seen)
    several = len(runs) > 1
    if several:
        raters = [r for r in kept.raters if all(r in model.config.labelled for model, _ in models)]
    found = []
    for (model, folder), name, used in zip(models, _names(models), seen, strict=True):
        scores = score_model(model, part, raters, **options)
        scores.run = name
        by = name if several else ""
        scores.warnings = warnings_of(part, used, by)
        scores.notes += [*held_out_notes(part, used, by), *kept.notes[len(study.notes) :]]
        scores.split = split or ""
        scores.inputs = inputs_of(folder, study)
        found.append(scores)
    for text in (text for scores in found for text in scores.warnings):
        warnings.warn(text, stacklevel=3)
    return found


def _names(models: Sequence[tuple[Model, Path | None]]) -> list[str]:
    """Name runs by their folders (the whole path where two have the same), or their methods."""
    names = [model.config.method if path is None else path.name for model, path in models]
    if len(set(names)) < len(names):
        paths = [path for _, path in models]
        names = [n if path is None else str(path) for n, path in zip(names, paths, strict=True)]
    return [n if names.count(n) == 1 else f"{n} ({k})" for k, n in enumerate(names, start=1)]


Watch = Callable[[Case, Iterator[Prediction]], Iterator[Prediction]]
"""Returns on what is said of a case, band by band."""


def score_model(
    model: Model,
    part: Study,
    raters: Sequence[str] | None = None,
    *,
    surfaces: bool = True,
    cut: CutGiven = 0.5,
    samples: int = SAMPLES,
    seed: int = 0,
    unions: UnionsGiven = (),
    progress: bool = False,
    watch: Watch = lambda _, bands: bands,
) -> Evaluation:
    """Score a model on all cases of a study; `watch` may look at what it says on the way."""
    from raters.learning.methods.base import Asked
    from raters.learning.prediction.predict import predict_streams

    answers = model.method.answers
    merged = unions_of(unions, part)
    known = shared_raters(model.config.labelled, part, raters) if "as_rater" in answers else {}
    samples = at_least(0, samples, "samples")
    drawn = samples if "samples" in answers and part.kind == "segmentation" else 0
    asked = Asked(tuple(known), bool(known) and "confusion" in answers, drawn, seed)
    labels = model.cut(cut)
    cuts = _cuts(model)
    scoring = Scoring(
        part,
        known,
        [model.config.raters.index(name) for name in known],
        pairs=len(part) * len(known) ** 2 <= MOST_PAIRS,
        cut=labels if cuts else None,
        cuts=cuts,
        surfaces=surfaces,
        unions=merged,
    )
    stream = (
        (case, bands if isinstance(bands, RatersError) else watch(case, bands))
        for case, bands in predict_streams(model, part.iter_cases(), asked)
    )
    found = score_cases(stream, scoring, progress=progress)
    found.method = model.config.method
    found.notes = notes_of(found, model.config, part, known) + found.notes
    return found


def _cuts(model: Model) -> dict[str, Any]:
    """Return the cuts at which Dice of a model is given: 0.5 and those that it knows."""
    if model.config.kind != "segmentation":
        return {}
    known = {} if model.cuts is None else {"best": model.cuts.best, "area": model.cuts.area}
    half = {HALF: np.full(len(model.config.classes) - 1, 0.5)}
    return half | {name: cut for name, cut in known.items() if cut is not None}


def _case_rows(run: Evaluation) -> Iterator[Row]:
    """Return the main scores of each case; a calibration error of one case says little."""
    assert run.sums is not None
    for k, (case, group) in enumerate(zip(run.sums.names, run.sums.groups, strict=True)):
        row: Row = {"run": run.run, "case": case, "group": group}
        for name, parts in run.sums.vectors.items():
            row[name] = known(MAIN[name][1](parts[k]))
        yield row
