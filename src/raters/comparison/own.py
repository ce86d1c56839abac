"""Methods compared on your own study, without truth: `raters bench run --study STUDY`.

Cases are dealt into folds by group; each fold is held out once. All methods are trained alike on
the other folds, with several seeds. What is compared on the held-out cases:

    likelihood   mean log-likelihood of a label, all raters of a case together (the joint form)
    left_out     mean log-likelihood of a label, given the image and the other raters' labels
    stability    agreement of what the seeds of a fold predict
    dice, accuracy   where the study has references
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from raters.comparison.cell import refuse_options
from raters.comparison.folds import folded, without_test
from raters.comparison.own_cell import BY_LABEL, score_fold
from raters.comparison.own_table import FILES, StudyComparison, compare_cells
from raters.comparison.plan import Plan
from raters.comparison.run import run_cells
from raters.core.cluster import Tell
from raters.core.errors import RatersError
from raters.core.whole_numbers import at_least
from raters.core.wording import many
from raters.fusion.methods import METHODS as FUSIONS
from raters.learning.methods.registry import learning_method
from raters.study.fingerprint import source_of
from raters.study.places import Inputs, is_path
from raters.study.read import read
from raters.study.study import Study

DEFAULT_METHODS = {
    "segmentation": ("vote", "mean", "staple", "global-cm", "pixel-cm"),
    "classification": ("vote", "mean", "dawid-skene", "global-cm", "pixel-cm"),
}


def compare_study(
    study: Study | str | Path,
    methods: Sequence[str] | None = None,
    folder: str | Path = "bench",
    *,
    seeds: Sequence[int] = (0, 1),
    folds: int = 3,
    num_workers: int | None = None,
    scheduler: str | None = None,
    again: bool = False,
    progress: bool = False,
    tell: Tell | None = None,
    **options: Any,  # noqa: ANN401
) -> StudyComparison:
    """Train methods alike on a study and compare them on held-out cases, without truth.

    Cells lie at `FOLDER/own/laptop/FOLD/METHOD-SEED.json`: a run that was stopped resumes with
    the cells that are missing. The table is written to `FOLDER/comparison.md`, `.csv` and `.json`.

    Args:
        study: What `raters.read` opened, or a path or pattern that it takes. Cases of the split
            'test' are left alone.
        methods: Names of learning methods; by default `DEFAULT_METHODS` of the study's kind.
        folder: Where results are written.
        seeds: Of the training; the folds are the same for all.
        folds: How many; each is held out once.
        num_workers: As in `run_cells`.
        scheduler: As in `run_cells`.
        again: As in `run_cells`.
        progress: As in `run_cells`.
        tell: As in `run_cells`.
        **options: Options of training (`epochs`, `width`, `val_fraction`, ...), for all methods
            alike.

    Raises:
        RatersError: An unknown method or option, a study without images or with one rater only,
            fewer groups than folds, or what `run_cells` raises.
    """
    opened = study if isinstance(study, Study) else read(study)
    chosen = tuple(methods or DEFAULT_METHODS[opened.kind])
    plan = plan_comparison(opened, chosen, seeds, folds, options)
    place = Path(folder)
    cells = plan.cells()
    written = [cell.path(place).relative_to(place).as_posix() for cell in cells]
    Inputs.of(opened).refuse(place, [*written, *FILES])
    refuse_options(cells)
    run = run_cells(
        cells, place, score_fold, num_workers, scheduler, again=again, progress=progress, tell=tell
    )
    found = compare_cells(plan, cells, place, opened, run)
    found.write(place)
    return found


def plan_comparison(
    study: Study,
    methods: Sequence[str],
    seeds: Sequence[int] = (0, 1),
    folds: int = 3,
    options: dict[str, Any] | None = None,
) -> Plan:
    """Plan the comparison of methods on a study.

    Raises:
        RatersError: As `compare_study`.
    """
    folds = at_least(2, folds, "folds")
    if study.opened is None:
        raise RatersError(
            "found a study in memory, expected one that raters.read opened, as cells run in "
            "processes of their own: study.write(FOLDER) writes and opens it"
        )
    for method in methods:
        _refuse_method(method, study)
    _refuse_doubles(methods, seeds)
    part = without_test(study)
    train = {"select": "likelihood", **(options or {})}
    refuse_study(part)
    val_fraction = _checked_fraction(train.get("val_fraction", 0.15))
    folded(part, 0, folds, val_fraction)  # refuses too few groups

    scores = [*BY_LABEL, "stability"]
    if study.backend.holds()["reference"]:
        scores.append("dice" if study.kind == "segmentation" else "accuracy")
    data = {
        "source": "study",
        "read": _whole_paths(study.opened),
        "folds": folds,
        "val_fraction": val_fraction,
        "digest": digest_of(part),
    }
    return Plan(
        methods=tuple(methods),
        folds=tuple(f"fold {k + 1} of {folds}" for k in range(folds)),
        seeds=tuple(seeds),
        scores=tuple(scores),
        baseline="vote" if "vote" in methods else methods[0],
        data=data,
        train=train,
    )


def _checked_fraction(given: Any) -> float:  # noqa: ANN401
    try:
        return float(given)
    except (TypeError, ValueError):
        raise RatersError(f"found val_fraction={given}, expected a number such as 0.15") from None


def _refuse_method(name: str, study: Study) -> None:
    entry = learning_method(name)
    fusion = FUSIONS.get(str(entry.fixed.get("fusion")))
    if fusion is not None and study.kind not in fusion.kinds:
        suits = ", ".join(DEFAULT_METHODS[study.kind])
        raise RatersError(
            f"found the method {name!r} for a study of {study.kind}, expected methods that take "
            f"it, such as {suits}"
        )
    if not entry.raters and not study.backend.holds()["reference"]:
        raise RatersError(f"found no references, expected some: {name} trains on them")


def _refuse_doubles(methods: Sequence[str], seeds: Sequence[int]) -> None:
    for what, given in (("method", methods), ("seed", seeds)):
        if not given:
            raise RatersError(f"found no {what}s, expected at least one")
        for one in given:
            if list(given).count(one) > 1:
                raise RatersError(f"found the {what} {one!r} twice, expected each once")


def refuse_study(study: Study) -> None:
    """Refuse a study whose raters or images do not suffice to compare methods.

    Raises:
        RatersError: that says what is missing.
    """
    if not len(study):
        raise RatersError("found only cases of the split 'test', expected others to choose by")
    if len(study.raters) < 2:
        raise RatersError(
            f"found {many(len(study.raters), 'rater')}, expected at least two: methods are "
            "compared by how well they explain who said what"
        )
    if not study.backend.holds()["images"]:
        raise RatersError(
            "found no images, expected some to train on (--images): of labels alone raters fuse "
            "makes a consensus"
        )


def _whole_paths(opened: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the arguments of `raters.read` that are not empty, with whole paths."""
    kept = {k: v for k, v in opened.items() if v not in (None, [], (), False)}
    for name in ("source", "images", "reference"):
        if name in kept and (name == "source" or is_path(kept[name])):
            kept[name] = os.path.abspath(kept[name])  # noqa: PTH100 (a pattern is no path)
    return kept


def digest_of(study: Study) -> str:
    """Return a fingerprint of what a study holds: names, groups, raters, files or answers."""
    digest = blake2b(digest_size=12)
    index = study.index
    digest.update(repr((list(index.ids), list(index.groups), study.raters)).encode())
    if study.drawn:
        digest.update(repr((study.annotations, study.unmarked)).encode())
    if study.kind == "classification":
        triplets = study.triplets
        for array in (triplets.task, triplets.rater, triplets.label):
            digest.update(array.tobytes())
        features = [Path(text) for text in study.sources if Path(text).is_file()]
        digest.update(repr([(path.name, path.stat().st_size) for path in features]).encode())
        return digest.hexdigest()
    for position in range(len(study)):
        digest.update(source_of(study, position).encode())
    return digest.hexdigest()
