"""The report of a trained run: how good it is, how it went, what it says, and beside other runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import mean_known
from raters.errors import RatersError
from raters.evaluation.case import REFERENCE
from raters.evaluation.masks import ALL
from raters.evaluation.runs import Seen, held_out_notes, refuse_unlike, warnings_of
from raters.report.agreement import case_bins
from raters.report.blocks import (
    Block,
    Card,
    First,
    Matrix,
    Number,
    Report,
    Section,
    TextBlock,
    section,
    table,
)
from raters.report.first import MOST_NAMES, agreement_matrix, mean_number
from raters.report.run_cases import answer_section, case_section
from raters.report.run_methods import negatives_of, recurrence_section
from raters.report.run_pass import Part, Watched, score_and_watch, shown_part
from raters.report.run_raters import Estimated, draws_unlike, one_way, rater_section, skill_rows
from raters.report.run_samples import samples_section
from raters.report.run_scores import (
    as_rater_section,
    calibration_section,
    comparison_section,
    score_name,
    score_section,
)
from raters.report.run_training import training_section
from raters.report.say import say
from raters.report.study import study_notes
from raters.report.viewer import free_name
from raters.rows import Row, known
from raters.scores.bootstrap import mean_sums
from raters.training.run import read_scores
from raters.wording import many

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.config import ModelConfig
    from raters.training.model import Model

_KINDS = 12  # raters whose kinds of annotation stand at the top
_MORE = 0.02  # Dice that another cut must gain to be advised
_MISSING = (
    "There is no study here: cases, scores and calibration are left out. Give it with --study, "
    "for example: raters report RUN --study STUDY --images IMAGES."
)
PREDICTED = "prediction"


def weight_section(model: Model, study: Study | None) -> Section | None:  # noqa: ARG001
    """Show the weights of raters, if the method learnt any."""
    from raters.training.model import rows_of_weights

    rows = sorted(rows_of_weights(model.rater_weights), key=lambda row: -row["weight"])
    key = "run.rater_weights"
    return section(key, [table(key, rows)]) if rows else None


def unanswered_section(model: Model, study: Study | None = None) -> Section | None:  # noqa: ARG001
    """Report what the method cannot answer of raters; None if it answers all."""
    words = {"as_rater": "what a rater would say", "confusion": "the raters' matrices"}
    lacking = [said for answer, said in words.items() if answer not in model.method.answers]
    if not lacking:
        return None
    can = ", ".join(sorted(model.method.answers))
    text = f"{model.config.method} does not answer {' or '.join(lacking)}. It answers: {can}."
    return Section("What is not here", blocks=[TextBlock(text)])


SECTIONS: dict[str, Callable[[Model, Study | None], Section | None]] = {
    "weights": weight_section,
    "negatives": negatives_of,
    "recurrences": recurrence_section,
    "samples": samples_section,
    "unanswered": unanswered_section,
}
"""Sections of methods that have something of their own to show, given the model and the cases
(None without a study); one that has nothing to show returns None. Add a line for yours."""


def run_report(
    folder: str | Path,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    shown: int = 12,
    progress: bool = False,
    why_not: str = "",
    title: str = "",
) -> Report:
    """Make the report of a trained run.

    Args:
        folder: The folder of the run (`raters train -o`).
        study: The study to look at, with images; without it the report shows what the folder holds.
        against: Folders of other runs to compare with, on the same cases.
        shown: How many cases the viewer has at most.
        progress: Show progress bars.
        why_not: Why there is no study, if that is known.
        title: The name of the study.

    Raises:
        RatersError: The run is not finished, or the study does not fit it.
    """
    from raters import load  # says what to install if torch is not there

    path = Path(folder)
    if against and study is None:
        raise RatersError("found other runs but no study, expected one to compare on (--study)")
    model = load(path)
    for other in against:
        load(other)  # so that a wrong folder is reported before the long work
    seen, run = Seen.by_run(path), path.resolve().name
    training = training_section(model.history, read_scores(path), _steps(model.config, seen))
    name = title if study is None else study.about.get("title") or title
    called = run if run.startswith("run") else f"run {run}"
    title = f"{name}: {called}" if name else called[0].upper() + called[1:]
    if study is None:
        sections = [training, *_without_study(model, why_not), *_own(model, None), *_epochs(model)]
        return Report(title, _facts(model, seen), sections, _about(model))
    refuse_unlike(model.config, study)
    whole, study = study, study.without_negatives()
    part = shown_part(study, [seen])
    scores, watched = score_and_watch(model, part.study, progress)
    scores.run, scores.split = run, part.name
    estimated = _estimated(model, part.study, scores, watched)
    if part.study.kind == "segmentation":
        cases, cards = case_section(model, part.study, scores, watched, shown, progress)
    else:
        cases, cards = answer_section(part.study, watched, shown)
    sections = [_scores(part, seen, scores), cases]
    sections += [] if estimated is None else [rater_section(estimated)]
    sections += _own(model, whole.select(cases=list(part.study.index.ids)))
    # 'As X' means nothing where X is not one person.
    told = None if part.study.anonymous else as_rater_section(scores)
    sections += [one for one in (told, calibration_section(scores)) if one is not None]
    if against:
        sections.append(_compared([path, *map(Path, against)], study, progress))
    first = _first(part, scores, watched, estimated, cards, training)
    facts = _facts(model, seen) | {"cases scored": scores.scored}
    about = f"{_about(model)} {part.said}"
    return Report(title, facts, [*sections, training, *_epochs(model)], about, first)


def _own(model: Model, study: Study | None) -> list[Section]:
    made = [make(model, study) for make in SECTIONS.values()]
    return [section for section in made if section is not None]


def _epochs(model: Model) -> list[Section]:
    """Show the numbers of all epochs, if there are any."""
    block = table("run.history", list(model.history))
    return [section("run.history", [block])] if model.history else []


def _about(model: Model) -> str:
    from raters.methods.registry import learning_method

    return f"{model.config.method}: {learning_method(model.config.method).about}."


def _facts(model: Model, seen: Seen) -> dict[str, object]:
    config = model.config
    parts = list(seen.parts.values())
    width = f", width {config.network.width}" if config.network.width else ""
    facts: dict[str, object] = {"method": config.method, "network": config.network.name + width}
    if model.history:
        facts["epochs"] = len(model.history)
    if model.best_epoch:
        facts["best epoch"] = model.best_epoch
    facts |= {"raters": len(config.raters), "classes": len(config.classes)}
    if config.annotations:
        both = zip(config.raters[:_KINDS], config.annotations[:_KINDS], strict=True)
        facts["annotations"] = ", ".join(f"{rater}: {kind}" for rater, kind in both)
    if config.unlabelled:
        facts["raters without labels"] = ", ".join(config.unlabelled)
    if seen.known:
        facts["cases trained on"] = parts.count("train")
        facts["cases held out"] = parts.count("held-out")
    return facts


def _steps(config: ModelConfig, seen: Seen) -> int | None:
    """Return about how many steps there were per epoch; None if unknown."""
    trained = list(seen.parts.values()).count("train")
    patches = config.training.patches_per_case if config.patch_size else 1
    return -(-trained * patches // config.training.batch_size) or None


def _without_study(model: Model, why_not: str) -> list[Section]:
    """Return what a model knows by itself: matrices that are the same everywhere."""
    from raters.prediction.predict import same_confusion

    missing = f"{_MISSING}\n\n{why_not}" if why_not else _MISSING
    sections = [Section("Cases and scores", blocks=[TextBlock(missing, "warning")])]
    method, matrices = model.method, None
    if "confusion" in method.answers and not method.varies:
        matrices = same_confusion(model)
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
    model: Model, study: Study, scores: Evaluation, watched: Watched
) -> Estimated | None:
    if watched.matrices is None:
        return None
    masks = study.kind == "segmentation"
    what = "pixels" if masks else "cases"
    return Estimated(
        watched.raters,
        study.classes.names,
        watched.matrices,
        watched.true_matrices,
        watched.draws_more,
        f"the {what} of {many(scores.scored, 'case')} by the predicted true class",
        masks,
        watched.pixels,
        study.raters,
        study.anonymous,
        model.method.shares_matrix,
    )


def _scores(part: Part, seen: Seen, scores: Evaluation) -> Section:
    """Show the scores, of which cases they are, and what makes them worth less."""
    blocks: list[Block] = [TextBlock(part.said)]
    blocks += [TextBlock(f"{text}.", "warning") for text in warnings_of(part.study, seen)]
    chosen = held_out_notes(part.study, seen) if part.name != "held-out" else []  # said already
    notes = [*scores.notes, *chosen, *study_notes(part.study)]
    blocks += [TextBlock(f"{text[:1].upper()}{text[1:]}.", "note") for text in notes]
    if scores.failures:
        first = "; ".join(str(error) for error in scores.failures[:3])
        failed = many(len(scores.failures), "case")
        blocks.append(TextBlock(f"{failed} could not be scored: {first}", "warning"))
    section = score_section(scores, part.study.anonymous)
    return replace(section, blocks=[*blocks, *section.blocks])


def _compared(runs: Sequence[Path], study: Study, progress: bool) -> Section:
    """Compare runs on cases that none of them was trained on, if there are any."""
    from raters.evaluation.runs import compare_runs

    part = shown_part(study, [Seen.by_run(run) for run in runs])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are shown below
        found = compare_runs(list(runs), part.study, progress=progress)
    section = comparison_section(found)
    said = [TextBlock(f"{many(len(part.study), 'case')} that the runs share. {part.said}")]
    said += [TextBlock(f"{text}.", "warning") for text in found.warnings]
    return replace(section, blocks=[*said, *section.blocks])


def _first(
    part: Part,
    scores: Evaluation,
    watched: Watched,
    estimated: Estimated | None,
    cards: list[Card],
    training: Section,
) -> First:
    study, masks = part.study, part.study.kind == "segmentation"
    numbers = [_score(scores, part), _baseline(scores, watched, masks)]
    row = scores.cuts[0] if scores.cuts else {}
    best, half = row.get("dice_best"), row.get("dice_half")
    gain = best is not None and half is not None and best - half >= _MORE
    if masks:
        about = "" if best is None else f"{best:.2f} at the best cut, chosen on held-out cases"
        numbers.append(Number("cut", 0.5, about=about))
    whole = [r for r in scores.summary if r.get("class", ALL) in (ALL, study.classes.names[1])]
    fit = "dice" if masks else "accuracy"
    fits = {r["against"]: known(r.get(fit)) for r in whole if r["against"] != REFERENCE}
    ranked = sorted((d, r) for r, d in fits.items() if d is not None)
    low = (ranked[0][1], ranked[0][0]) if len(ranked) > 1 and not study.anonymous else None
    named = estimated is not None and not estimated.anonymous and not estimated.shared
    rows = skill_rows(estimated) if named and estimated is not None else []
    more = [] if watched.draws_more is None else (100 * watched.draws_more).tolist()
    cut = {"best": best if gain else None, "half": half, "cut": row.get("cut_best")}
    way = one_way([known(value) for value in more])
    advice = [b.text for b in training.blocks if isinstance(b, TextBlock) and b.kind != "plain"]
    advice = [text for text in advice if "waited for data" not in text]  # slow is not wrong
    judged = [r for r in rows if not masks and np.isfinite(r["balanced_accuracy"])]
    least = min(judged, key=lambda r: r["balanced_accuracy"], default=None)
    first = [(card.case, card.note) for card in cards[:3]]
    actions = [
        say("act_run_cases", cases=first, what="case" if masks else "task"),
        say(
            "act_run_raters",
            way=way,
            rows=draws_unlike(rows)[:2],
            low=low,
            least=least,
            known=bool(fits or rows),
            **cut,
        ),
        say("act_run_train", said=advice[0] if advice else "", part=part.name),
    ]
    said = "To look at first (prediction in white)" if masks else "Least sure"
    return First(numbers, _matrix(study, watched, fits), cards, actions, said)


def _score(scores: Evaluation, part: Part) -> Number:
    main, name = scores.main, score_name(scores.score) if scores.score else "score"
    of = f"of {many(scores.scored, f'{part.name} case'.strip())}"
    ends = main.get("score_low"), main.get("score_high")
    return Number(name, main.get("score"), *ends, of)


def _baseline(scores: Evaluation, watched: Watched, masks: bool) -> Number:
    """Return what the vote of the raters, or one rater beside another, scores on these cases."""
    names, groups = ([], []) if scores.sums is None else (scores.sums.names, scores.sums.groups)
    if any(np.isfinite(list(watched.vote.values()))):
        values = [watched.vote.get(name, np.nan) for name in names]
        about = "of the same cases, seen with their labels: a baseline"
        return mean_number("vote of the raters", mean_sums(values), groups, about)
    if not masks or not any(len(pairs) for pairs in watched.pairs.values()):
        about = "no labels of these cases to compare with: train a baseline (-m vote)"
        return Number("baseline", "none", about=about)
    rows = np.array([watched.pairs[name] for name in names])
    exist = np.isfinite(rows)
    sums = np.stack([np.where(exist, rows, 0.0).sum(axis=1), exist.sum(axis=1)], axis=1)
    return mean_number("raters among each other", sums, groups, "Dice of their pairs: a baseline")


def _matrix(study: Study, watched: Watched, fits: dict[Any, float | None]) -> Matrix | None:
    """Return who agrees with whom, the prediction among them."""
    if study.kind != "segmentation":
        from raters.agreement.agree import agree
        from raters.report.labels import answer_matrix

        return answer_matrix(study, agree(study)) if len(study.raters) > 1 else None
    rows = np.array(list(watched.pairs.values()))
    if not rows.size:
        return None
    if study.anonymous:
        own = mean_known(rows, axis=1)
        return case_bins(own[np.isfinite(own)].tolist())
    name = free_name(PREDICTED, study.raters)
    means = zip(combinations(study.raters, 2), mean_known(rows).tolist(), strict=True)
    pairs: list[Row] = [{"rater_a": a, "rater_b": b, "dice": known(d)} for (a, b), d in means]
    pairs += [{"rater_a": name, "rater_b": r, "dice": d} for r, d in fits.items()]
    order = sorted(study.raters, key=lambda r: fits.get(r) or 0.0)[: MOST_NAMES - 1]
    about = "Raters whom the prediction fits least come first."
    return agreement_matrix(pairs, [*order, name], study.raters, "dice", "Dice of each pair", about)
