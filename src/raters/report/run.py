"""The report of a trained run: how it went, what it says, how good it is, and beside other runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.errors import RatersError
from raters.evaluation.runs import Seen, held_out_notes, refuse_unlike, warnings_of
from raters.report.blocks import Block, Report, Section, TextBlock
from raters.report.run_cases import answer_section, case_section
from raters.report.run_curves import epoch_section, training_section
from raters.report.run_pass import Part, Watched, score_and_watch, shown_part
from raters.report.run_raters import Estimated, rater_section
from raters.report.run_scores import (
    as_rater_section,
    calibration_section,
    comparison_section,
    score_section,
)
from raters.report.study import study_notes
from raters.study.study import many
from raters.training.run import read_scores

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.config import ModelConfig
    from raters.training.model import Model

_MISSING = (
    "There is no study here: cases, scores and calibration are left out. Give it with --study, "
    "for example: raters report RUN --study STUDY --images IMAGES."
)


def run_report(
    folder: str | Path,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    shown: int = 12,
    progress: bool = False,
    why_not: str = "",
) -> Report:
    """Make the report of a trained run.

    Args:
        folder: The folder of the run (`raters train -o`).
        study: The study to look at, with images; without it the report shows what the folder holds.
        against: Folders of other runs to compare with, on the same cases.
        shown: How many cases the viewer has at most.
        progress: Show progress bars.
        why_not: Why there is no study, if that is known.

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
    seen = Seen.by_run(path)
    name = path.resolve().name
    sections = [training_section(model.history, read_scores(path), _steps(model.config, seen))]
    if study is None:
        sections += [*_without_study(model, why_not), *_epochs(model)]
        return Report(f"Run {name}", _facts(model, seen), sections, _about(model))
    refuse_unlike(model.config, study)
    part = shown_part(study, [seen])
    scores, watched = score_and_watch(model, part.study, progress)
    scores.run, scores.split = name, part.name
    sections += _with_study(model, part, seen, scores, watched, shown, progress)
    if against:
        sections.append(_compared([path, *map(Path, against)], study, progress))
    sections += _epochs(model)
    facts = _facts(model, seen) | {"cases scored": scores.scored}
    return Report(f"Run {name}", facts, sections, f"{_about(model)} {part.said}")


def _epochs(model: Model) -> list[Section]:
    return [epoch_section(model.history)] if model.history else []


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
        names = [c.name for c in model.config.classes]
        labelled = [model.config.raters.index(name) for name in model.config.labelled]
        found = Estimated(
            model.config.labelled,
            names,
            matrices.reshape(-1, size, size)[labelled].astype(np.float64),
            over="all cases: this method has one matrix per rater",
            masks=model.config.kind == "segmentation",
            shared=model.method.shares_matrix,
        )
        sections.insert(0, rater_section(found))
    return sections


def unanswered_section(model: Model) -> Section | None:
    """Report what the method cannot answer of raters; None if it answers all."""
    words = {"as_rater": "what a rater would say", "confusion": "the raters' matrices"}
    lacking = [said for answer, said in words.items() if answer not in model.method.answers]
    if not lacking:
        return None
    can = ", ".join(sorted(model.method.answers))
    text = f"{model.config.method} does not answer {' or '.join(lacking)}. It answers: {can}."
    return Section("What is not here", blocks=[TextBlock(text)])


def _with_study(
    model: Model,
    part: Part,
    seen: Seen,
    scores: Evaluation,
    watched: Watched,
    shown: int,
    progress: bool,
) -> list[Section]:
    masks = part.study.kind == "segmentation"
    if masks:
        cases = case_section(model, part.study, scores, watched, shown, progress)
    else:
        cases = answer_section(part.study, watched, shown)
    sections = [cases]
    if watched.matrices is not None:
        what = "pixels" if masks else "cases"
        found = Estimated(
            watched.raters,
            part.study.classes.names,
            watched.matrices,
            watched.true_matrices,
            watched.draws_more,
            f"the {what} of {many(scores.scored, 'case')} by the predicted true class",
            masks,
            watched.pixels,
            part.study.raters,
            part.study.anonymous,
            model.method.shares_matrix,
        )
        sections.append(rater_section(found))
    judged = score_section(scores, part.study.anonymous)
    before = _judged(part, seen, scores)
    sections.append(Section(judged.title, judged.about, [*before, *judged.blocks]))
    # 'As X' means nothing where X is not one person.
    told = None if part.study.anonymous else as_rater_section(scores)
    further = told, unanswered_section(model), calibration_section(scores)
    return [*sections, *(section for section in further if section is not None)]


def _judged(part: Part, seen: Seen, scores: Evaluation) -> list[Block]:
    """Report of which cases the scores are, and what makes them worth less."""
    blocks: list[Block] = [TextBlock(part.said)]
    blocks += [TextBlock(f"{text}.", "warning") for text in warnings_of(part.study, seen)]
    chosen = held_out_notes(part.study, seen) if part.name != "held-out" else []  # said already
    notes = [*scores.notes, *chosen, *study_notes(part.study)]
    blocks += [TextBlock(f"{text[:1].upper()}{text[1:]}.", "note") for text in notes]
    if scores.failures:
        first = "; ".join(str(error) for error in scores.failures[:3])
        failed = many(len(scores.failures), "case")
        blocks.append(TextBlock(f"{failed} could not be scored: {first}", "warning"))
    return blocks


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
    return Section(section.title, section.about, [*said, *section.blocks])
