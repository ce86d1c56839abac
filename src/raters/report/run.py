"""The report of a trained run: how it went, what it says, how good it is, and beside other runs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters import plots
from raters.errors import RatersError
from raters.evaluation.runs import Seen, held_out_notes, refuse_unlike, warnings_of
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.run_cases import answer_section, case_section
from raters.report.run_pass import Part, Watched, score_and_watch, shown_part
from raters.report.run_raters import Estimated, rater_section
from raters.report.run_scores import (
    as_rater_section,
    calibration_section,
    comparison_section,
    score_section,
)
from raters.report.study import study_notes
from raters.rows import Row
from raters.study.study import many
from raters.training.run import read_scores

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.config import ModelConfig
    from raters.training.model import Model

_KINDS = 12  # raters whose kinds of annotation stand on a card
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
    study = study.without_negatives()
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
    """Show the numbers of all epochs, if there are any."""
    caption = "All numbers of all epochs; 'waiting' is the share of the time that data took."
    block = TableBlock("history", list(model.history), caption)
    return [Section("Epochs", blocks=[block])] if model.history else []


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


_NOT_DRAWN = ("epoch", "phase", "seconds", "waiting")
_CAPTION = (
    "One panel per number, by epoch: the loss on the training cases and on the held-out ones "
    "(lower is better), the score by the reference, the trace of the raters' matrices, and the "
    "dominance margin, which must stay above 0. The dashed line is the epoch that was kept."
)
_HELP = "try a longer --warm-up, a smaller --trace, a larger --prior (pixel-cm), or global-cm."
_MUCH_WAITING = 0.3
_FEW_STEPS = 200
_TRENDS = {
    "held_out": ("held_out", 1.0, "held-out loss", "falling"),
    "reference": ("reference", -1.0, "score by the reference", "rising"),
}
_RISE = 0.1  # of the whole way, from which on a loss rises again


def training_section(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> Section:
    """Show the curves of a run, and a sentence or more on them.

    Args:
        history: A row per epoch.
        scores: `scores.json` of the run.
        steps: Steps per epoch; None if unknown.
    """
    if not history:
        missing = "The folder has no history.csv: how the training went is unknown."
        return Section("Training", blocks=[TextBlock(missing, "note")])
    best = int(scores.get("best_epoch", 0))
    warm_up = sum(row.get("phase") == "warm-up" for row in history)
    drawn = dict.fromkeys(k for row in history for k in row if k not in _NOT_DRAWN)
    shaded = " The shaded epochs are the warm-up." if warm_up else ""
    blocks: list[Block] = [*told(history, scores, steps)]
    figure = plots.curves(history, warm_up, best or None, list(drawn))
    blocks.append(FigureBlock("training_curves", figure, _CAPTION + shaded))
    return Section("Training", "How did it go, and would longer training help?", blocks)


def told(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> list[TextBlock]:
    """Return what the curves mean and what to do about it.

    Example:
        >>> rows = [{"epoch": k, "loss": 1 / k, "held_out": 10 - k} for k in range(1, 9)]
        >>> told(rows, {"best_epoch": 8})[0].text
        'The held-out loss was still falling at the end (epoch 8): train longer (--epochs 16).'
    """
    best, last = int(scores.get("best_epoch", 0)), int(history[-1].get("epoch", len(history)))
    said = []
    if any(_number(row.get("loss", 0.0)) is None for row in history):
        text = "The loss was not a number in some epoch: lower --lr."
        said.append(TextBlock(text, "warning"))
    said += _trend_told(history, last, bool(scores.get("stopped_early")))
    if steps is not None and steps * len(history) < _FEW_STEPS:
        text = (
            f"It took only {steps * len(history):,} steps in all ({steps} per epoch): more "
            "--epochs or a smaller --batch-size would teach it more."
        )
        said.append(TextBlock(text, "note"))
    if best:
        said.append(TextBlock(f"The weights of epoch {best} of {last} were kept."))
    said += _dominance_told(history, best)
    waiting = float(scores.get("waiting", 0.0))
    if waiting > _MUCH_WAITING:
        text = (
            f"It waited for data {100 * waiting:.0f} % of the time: more --num-workers or a larger "
            "--cache make it faster."
        )
        said.append(TextBlock(text, "note"))
    return said


def _trend_told(history: Sequence[Row], last: int, stopped: bool) -> list[TextBlock]:
    """Return whether longer training would help."""
    if stopped:
        text = f"It stopped early, after epoch {last}: none had been better for --patience epochs."
        return [TextBlock(text)]
    trained = [row for row in history if row.get("phase") != "warm-up"]
    by_reference = bool(_values(trained, "reference"))  # it chooses by default
    column, sign, name, way = _TRENDS["reference" if by_reference else "held_out"]
    values = [sign * value for value in _values(trained, column)]
    if still_falling(values):
        text = f"The {name} was still {way} at the end (epoch {last}): train longer"
        return [TextBlock(f"{text} (--epochs {2 * last}).", "note")]
    if len(values) < 3:
        return []
    loss = _values(history, "held_out")
    if loss and loss[-1] > min(loss) + _RISE * (max(loss) - min(loss)):
        text = (
            f"The held-out loss was {min(loss):.3g} at its best and {loss[-1]:.3g} at the end: it "
            "began to overfit. More cases, --augment full or less --width help."
        )
        return [TextBlock(text, "note")]
    return [TextBlock(f"The {name} had settled at the end: longer training gains little.")]


def still_falling(values: Sequence[float]) -> bool:
    """Return whether values were falling up to the end.

    The last third must be well below the third before it (by a tenth of the whole way that they
    went), and its own second half below its first one (by a twentieth): else they have settled.

    Example:
        >>> still_falling([9, 8, 7, 6, 5, 4, 3, 2]), still_falling([9, 4, 2, 1, 1, 1, 1, 1])
        (True, False)
        >>> still_falling([9, 8, 7, 6, 5, 4, 1, 1, 1])  # it fell late, and settled
        False
    """
    if len(values) < 3:
        return False
    part, way = len(values) // 3, max(values) - min(values)
    before, after = values[-2 * part : -part], values[-max(2, part) :]
    if (sum(before) - sum(values[-part:])) / part <= 0.1 * way:
        return False
    half = len(after) // 2
    return (sum(after[:half]) - sum(after[-half:])) / half > 0.05 * way


def _values(history: Sequence[Row], column: str) -> list[float]:
    found = [_number(row.get(column)) for row in history]
    return [value for value in found if value is not None]


def _dominance_told(history: Sequence[Row], best: int) -> list[TextBlock]:
    """Return whether truth and errors may be swapped."""
    found = {row.get("epoch"): _number(row.get("dominance")) for row in history}
    margins = {epoch: margin for epoch, margin in found.items() if margin is not None}
    if margins.get(best, 1.0) <= 0:
        text = (
            f"The raters' mean matrix is not diagonally dominant (margin {margins[best]:.2f}): "
            f"truth and errors may be swapped, so do not trust this run; {_HELP}"
        )
        return [TextBlock(text, "warning")]
    lost = [epoch for epoch, margin in margins.items() if margin <= 0]
    if lost:
        text = (
            f"Rater matrices were not diagonally dominant in {len(lost)} of {len(margins)} epochs "
            f"(first in {lost[0]}), but are in the one that was kept. If that worries you, {_HELP}"
        )
        return [TextBlock(text, "note")]
    if margins:
        text = "Rater matrices stayed diagonally dominant: no sign of label swapping."
        return [TextBlock(text)]
    return []


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]
