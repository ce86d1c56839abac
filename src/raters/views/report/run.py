"""The report of a trained run: how good it is, how it went, what it says, and beside other runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.assessment.agree import agree
from raters.assessment.agreement_findings import ENOUGH
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.evaluation.case import REFERENCE
from raters.evaluation.masks import ALL
from raters.io.rows import known
from raters.learning.evaluation.runs import Part, Seen, refuse_unlike, shown_part
from raters.learning.evaluation.watch import (
    Estimated,
    Watched,
    draws_unlike,
    one_way,
    score_and_watch,
)
from raters.learning.training.run import read_scores
from raters.metrics.bootstrap import mean_sums
from raters.views.report.agreement import agreement_matrix, matrix_beside
from raters.views.report.blocks import (
    Card,
    First,
    Number,
    Report,
    Section,
    TextBlock,
    section,
    there,
)
from raters.views.report.first import mean_number
from raters.views.report.run_cases import answer_section, case_section
from raters.views.report.run_raters import SECTIONS, rater_section, skill_rows
from raters.views.report.run_scores import (
    as_rater_section,
    calibration_section,
    comparison_section,
    epochs_section,
    part_said,
    score_name,
    score_section,
    training_section,
)
from raters.views.texts.say import joined, say, text_of

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.learning.training.model import Model
    from raters.study.study import Study

_KINDS = 12  # raters whose kinds of annotation stand at the top
_MORE = 0.02  # Dice that another cut must gain to be advised


def run_report(
    folder: str | Path,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    shown: int = 12,
    progress: bool = False,
    why_not: str = "",
    title: str = "",
) -> Report:
    """Make the report of a trained run; `raters.report` says what the arguments mean.

    Without a study it shows what the folder holds, and `why_not` there is none.

    Raises:
        RatersError: The run is not finished, or the study does not fit it.
    """
    from raters import load  # says what to install if torch is not there
    from raters.learning.methods.registry import learning_method

    path = Path(folder)
    if against and study is None:
        raise RatersError("found other runs but no study, expected one to compare on (--study)")
    model = load(path)
    for other in against:
        load(other)  # so that a wrong folder is reported before the long work
    seen = Seen.by_run(path)
    run = path.resolve().name
    trained = list(seen.parts.values()).count("train")
    patches = model.config.training.patches_per_case if model.config.patch_size else 1
    steps = -(-trained * patches // model.config.training.batch_size) or None  # about, per epoch
    training = training_section(model.history, read_scores(path), steps)
    name = title if study is None else study.about.get("title") or title
    called = run if run.startswith("run") else f"run {run}"
    title = f"{name}: {called}" if name else called[0].upper() + called[1:]
    about = f"{model.config.method}: {learning_method(model.config.method).about}."
    epochs = epochs_section(model.history)
    if study is None:
        own = [make(model, None) for make in SECTIONS.values()]
        sections = there(training, *_without_study(model, why_not), *own, epochs)
        return Report(title, _facts(model, seen), sections, about)
    refuse_unlike(model.config, study)
    whole = study
    study = study.without_negatives()
    part = shown_part(study, [seen])
    scores, watched = score_and_watch(model, part.study, progress)
    scores.run = run
    scores.split = part.name
    estimated = _estimated(model, part.study, scores, watched, _few(whole))
    if part.study.kind == "segmentation":
        cases, cards = case_section(model, part.study, scores, watched, shown, progress)
    else:
        cases, cards = answer_section(part.study, watched, shown)
    looked_at = whole.select(cases=list(part.study.index.ids))
    sections = there(
        score_section(scores, part, seen),
        cases,
        None if estimated is None else rater_section(estimated),
        *(make(model, looked_at) for make in SECTIONS.values()),
        # 'As X' means nothing where X is not one person.
        None if part.study.anonymous else as_rater_section(scores),
        calibration_section(scores),
        comparison_section([path, *map(Path, against)], study, progress) if against else None,
        training,
        epochs,
    )
    first = _first(part, scores, watched, estimated, cards, training, bool(against))
    facts = _facts(model, seen) | {"cases scored": scores.scored}
    return Report(title, facts, sections, f"{about} {part_said(part)}", first)


def _facts(model: Model, seen: Seen) -> dict[str, object]:
    config = model.config
    parts = list(seen.parts.values())
    width = f", width {config.network.width}" if config.network.width else ""
    kinds = zip(config.raters[:_KINDS], config.annotations[:_KINDS], strict=False)
    facts = {
        "method": config.method,
        "network": config.network.name + width,
        "epochs": len(model.history) or None,
        "best epoch": model.best_epoch or None,
        "raters": len(config.raters),
        "classes": len(config.classes),
        "annotations": ", ".join(f"{rater}: {kind}" for rater, kind in kinds) or None,
        "raters without labels": ", ".join(config.unlabelled) or None,
        "cases trained on": parts.count("train") if seen.known else None,
        "cases held out": parts.count("held-out") if seen.known else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _without_study(model: Model, why_not: str) -> list[Section]:
    """Return what a model knows by itself: matrices that are the same everywhere."""
    from raters.learning.prediction.predict import same_confusion

    missing = TextBlock(joined(say("no_study"), why_not, by="\n\n"), "warning")
    sections = [section("run.no_cases", missing)]
    fixed = "confusion" in model.method.answers and not model.method.varies
    matrices = same_confusion(model) if fixed else None
    if matrices is not None and len(matrices):
        size = len(model.config.classes)
        labelled = [model.config.raters.index(name) for name in model.config.labelled]
        found = Estimated(
            model.config.labelled,
            [c.name for c in model.config.classes],
            matrices.reshape(-1, size, size)[labelled].astype(np.float64),
            over="all cases: this method has one matrix per rater",
            masks=model.config.kind == "segmentation",
            shared=model.method.shares_matrix,
        )
        sections.insert(0, rater_section(found))
    return sections


def _estimated(
    model: Model, study: Study, scores: Evaluation, watched: Watched, few: set[str]
) -> Estimated | None:
    if watched.matrices is None:
        return None
    masks = study.kind == "segmentation"
    scored = ("the pixels of " if masks else "") + many(scores.scored, "case")
    return Estimated(
        watched.raters,
        study.classes.names,
        watched.matrices,
        watched.true_matrices,
        watched.draws_more,
        f"{scored} by the predicted true class",
        masks,
        watched.pixels,
        study.raters,
        study.anonymous,
        model.method.shares_matrix,
        few,
        _cut_off(scores),
    )


def _cut_off(scores: Evaluation) -> bool:
    """Return whether the best cut scores clearly more than 0.5."""
    row = scores.cuts[0] if scores.cuts else {}
    best = row.get("dice_best")
    half = row.get("dice_half")
    return best is not None and half is not None and bool(best - half >= _MORE)


def _few(study: Study) -> set[str]:
    """Return raters of a table whom a handful of labels says nothing of."""
    table = study.kind != "segmentation"
    given = np.bincount(study.triplets.rater, minlength=len(study.raters)) if table else ()
    return {rater for rater, n in zip(study.raters, given, strict=table) if n < ENOUGH}


def _first(
    part: Part,
    scores: Evaluation,
    watched: Watched,
    estimated: Estimated | None,
    cards: list[Card],
    training: Section,
    compared: bool,
) -> First:
    study = part.study
    masks = part.study.kind == "segmentation"
    main = scores.main
    name = score_name(scores.score) if scores.score else "score"
    of = f"{part.name} case".strip()
    ends = main.get("score"), main.get("score_low"), main.get("score_high")
    score = Number(name, *ends, f"of {many(scores.scored, of)}")
    numbers = [score, _baseline(scores, watched, masks)]
    row = scores.cuts[0] if scores.cuts else {}
    best = row.get("dice_best")
    half = row.get("dice_half")
    if masks:
        numbers.append(Number("cut", 0.5, about=say("best_cut", best=best)))
    fit = "dice" if masks else "accuracy"
    whole = [r for r in scores.summary if r.get("class", ALL) in (ALL, study.classes.names[1])]
    fits = {r["against"]: known(r.get(fit)) for r in whole if r["against"] != REFERENCE}
    first = [(card.case, card.note) for card in cards[:3]]
    cut = {"best": best if _cut_off(scores) else None, "half": half, "cut": row.get("cut_best")}
    judged = _judged(study, watched, estimated, fits)
    advice = [b.text for b in training.blocks if isinstance(b, TextBlock) and b.kind != "plain"]
    advice = [text for text in advice if "waited for data" not in text]  # slow is not wrong
    actions = [
        say("act_run_cases", cases=first, what="case" if masks else "task"),
        say("act_run_raters", **judged, **cut),
        say("act_run_train", said=advice[0] if advice else "", part=part.name, compared=compared),
    ]
    title = text_of("first.cards-prediction", "title", masks=masks)
    matrix = None
    if masks:
        dice = np.array(list(watched.pairs.values()))
        if dice.size:
            matrix = matrix_beside(study, dice, "prediction", fits)
    elif len(study.raters) > 1:
        matrix = agreement_matrix(study, agree(study))
    return First(numbers, matrix, cards, actions, title)


def _judged(
    study: Study, watched: Watched, estimated: Estimated | None, fits: dict[Any, float | None]
) -> dict[str, Any]:
    """Return which raters stand out by a run; `fits` is how well its prediction fits each."""
    masks = study.kind == "segmentation"
    few = _few(study)
    ranked = sorted((d, r) for r, d in fits.items() if d is not None and r not in few)
    low = (ranked[0][1], ranked[0][0]) if len(ranked) > 1 and not study.anonymous else None
    named = estimated is not None and not estimated.anonymous and not estimated.shared
    rows = skill_rows(estimated) if named and estimated is not None else []
    more = [] if watched.draws_more is None else (100 * watched.draws_more).tolist()
    skilled = [r for r in rows if not masks and np.isfinite(r["balanced_accuracy"])]
    skilled = [r for r in skilled if estimated is not None and r["rater"] not in estimated.few]
    return {
        "way": one_way([known(value) for value in more]),
        "rows": draws_unlike(rows)[:2],
        "low": low,
        "least": min(skilled, key=lambda r: r["balanced_accuracy"], default=None),
        "known": bool(fits or rows),
    }


def _baseline(scores: Evaluation, watched: Watched, masks: bool) -> Number:
    """Return what the vote of the raters, or one rater beside another, scores on these cases."""
    names = [] if scores.sums is None else scores.sums.names
    groups = [] if scores.sums is None else scores.sums.groups
    key = "first.baseline-none"
    sums = None
    if any(np.isfinite(list(watched.vote.values()))):
        key = "first.baseline-vote"
        sums = mean_sums([watched.vote.get(n, np.nan) for n in names])
    elif masks and any(len(pairs) for pairs in watched.pairs.values()):
        dice = np.array([watched.pairs[name] for name in names])
        key = "first.baseline-pairs"
        sums = mean_sums(dice).sum(axis=1)
    title = text_of(key, "title")
    about = text_of(key, "about")
    if sums is None:
        return Number(title, "none", about=about)
    return mean_number(title, sums, groups, about)
