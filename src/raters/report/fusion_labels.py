"""The report of a fused table of class labels: raters against the consensus, unsure tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from raters.agreement.agree import agree
from raters.arrays import Floats, Ints
from raters.confusion import count_triplets
from raters.report.blocks import Block, First, Number, Section, figure, section, table
from raters.report.compare import Compared, counted_rows
from raters.report.first import CARDS, mean_number
from raters.report.fusion_files import FusionFiles, consensus_labels
from raters.report.labels import (
    Parts,
    accuracies,
    answer_matrix,
    disputed_tasks,
    most_labelled,
    task_cards,
    tasks_section,
)
from raters.report.performance import performance_section, scores_figure
from raters.report.say import say
from raters.report.study import study_notes
from raters.rows import Row
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.study.triplets import Triplets
from raters.wording import many

_MOST_LEFT_OUT = 20
_ENOUGH = 10


def fused_parts(files: FusionFiles, study: Study) -> Parts:
    """Return the findings, notes, sections and first screen of a fused table."""
    agreement = agree(study) if len(study.raters) > 1 else None
    consensus = consensus_labels(files.folder, study)
    said, sizes = study.triplets, (len(study.raters), len(study.classes))
    counts = count_triplets(said.task, said.rater, said.label, consensus, *sizes)
    rows = _rater_rows(study, counts)
    number = {row["rater"]: row["labels"] for row in rows}
    names = most_labelled(number, study.raters)
    measured = files.rows or _counted(study, counts)
    leave = most_labelled(number, study.raters, _MOST_LEFT_OUT)
    changed, by, truth = left_out_rows(files, study, leave)
    labelled = np.bincount(said.task, minlength=len(study)) > 0
    undecided = int(((consensus == MISSING) & labelled).sum())
    bare = int((~labelled).sum())
    low, high = _ends(rows)
    most, least = (changed[0], changed[-1]) if changed else (None, None)
    left = say("left_out_worker", most=most, least=least, method=by, number=len(changed))
    findings: list[str] = [say("undecided", undecided=undecided, bare=bare, tasks=len(study))]
    ordered = sorted(names, key=lambda name: -number[name])
    sections = [performance_section(files, measured, counts, study, ordered)]
    if not study.anonymous:
        findings = [say("closest_worker", low=low, high=high), left, *findings]
        key = "fused_labels.without-each-rater"
        without = section(key, [table(key, changed)] if changed else [])
        sections = [_raters(study, rows, names), *sections, without]
    numbers = [_agreed(study, counts, consensus), *_against_reference(study, consensus)]
    numbers.append(Number("tasks without a label", f"{bare:,} of {len(study):,}"))
    tasks: list[str] = []
    notes: list[str] = []
    if truth is not None:
        sure = np.where(labelled, truth.max(axis=1), np.inf)
        order = [k for k in np.argsort(sure, kind="stable")[:CARDS] if labelled[k]]
        tasks, notes = [study.cases[k] for k in order], [f"{sure[k]:.2f} sure" for k in order]
    matrix = None
    if agreement is not None:
        sections.append(tasks_section(study, agreement, consensus, truth))
        matrix = answer_matrix(study, agreement)
        if truth is None:
            tasks = disputed_tasks(agreement.cases)["first"]
    actions = [
        say("act_tasks", first=tasks[:3], sure=truth is not None),
        say("act_worker", most=most, low=low, anonymous=study.anonymous),
        say("act_labels", undecided=undecided, bare=bare),
    ]
    shown = "Least sure" if truth is not None else "Most disputed"
    first = First(numbers, matrix, task_cards(study, tasks[:CARDS], notes), actions, shown)
    return findings, [*files.said_of(study), *study_notes(study)], sections, first


def _agreed(study: Study, counts: Ints, consensus: Any) -> Number:  # noqa: ANN401
    """Return the share of labels that equal the consensus, with its interval over tasks."""
    given = study.triplets
    there = consensus[given.task] != MISSING
    right = there & (consensus[given.task] == given.label)
    sums = [np.bincount(given.task[part], minlength=len(study)) for part in (right, there)]
    about = f"of {many(int(counts.sum()), 'label')}"
    groups = list(study.index.groups)
    return mean_number("labels equal to the consensus", np.stack(sums, axis=1), groups, about)


def _against_reference(study: Study, consensus: Any) -> list[Number]:  # noqa: ANN401
    truth = study.reference_labels
    if truth is None:
        return []
    known = (truth != MISSING) & (consensus != MISSING)
    sums = np.stack([known & (consensus == truth), known], axis=1)
    return [mean_number("consensus equal to the reference", sums, list(study.index.groups))]


def _rater_rows(study: Study, counts: Ints) -> list[Row]:
    truth, rows = study.reference_labels, []
    given = np.bincount(study.triplets.rater, minlength=len(study.raters))
    reference = None if truth is None else accuracies(study, truth)
    for k, rater in enumerate(study.raters):
        row: Row = {"rater": rater, "labels": int(given[k]), "accuracy": None}
        if total := int(counts[k].sum()):
            share = row["accuracy"] = float(np.trace(counts[k]) / total)
            row["accuracy_se"] = float(np.sqrt(share * (1 - share) / total))
        if reference is not None:
            row["accuracy_reference"] = reference[k]
        rows.append(row)
    return rows


def _counted(study: Study, counts: Ints) -> list[Row]:
    """Return measures against the consensus, for methods without matrices."""
    none = np.zeros((0, len(study.raters)))
    whole = Compared(("",), counts[np.newaxis], {}, "", 0, none, none)
    rows = counted_rows(whole, study.raters, study.classes.names)
    return [{k: v for k, v in row.items() if k != "case"} for row in rows]


def _ends(rows: list[Row]) -> tuple[Row | None, Row | None]:
    """Return who is farthest from the consensus and who closest, of those with enough labels."""
    enough = [row for row in rows if row["accuracy"] is not None and row["labels"] >= _ENOUGH]
    enough.sort(key=lambda row: float(row["accuracy"]))
    return (enough[0], enough[-1]) if len(enough) > 1 else (None, None)


def _raters(study: Study, rows: list[Row], names: list[str]) -> Section:
    worst = sorted(rows, key=lambda row: (row["labels"] < _ENOUGH, row["accuracy"] or 0.0))
    blocks: list[Block] = [table("fused_labels.raters-against-consensus", rows, worst)]
    shown = [row for row in rows if row["rater"] in set(names)]
    if any(row["accuracy"] is not None for row in shown):
        drawn = scores_figure(shown, "accuracy", "share equal to the consensus", study.raters)
        caption = say("only_most", shown=len(names), all=len(study.raters), what="labels")
        blocks.append(figure("fused_labels.accuracy", drawn, caption))
    return section("fused_labels.raters-against-consensus", blocks)


def left_out_rows(
    files: FusionFiles, study: Study, names: list[str]
) -> tuple[list[Row], str, Floats | None]:
    """Fuse again without each of some raters, and count the tasks whose label changes.

    Returns:
        A row per rater, the method, and how likely each class of each task is by it; None where a
        vote stands for a slow method.
    """
    refit, by = files.refit("classification")
    triplets, classes = study.triplets, len(study.classes)
    all_ = refit(triplets, classes)
    whole = all_.labels
    rows = []
    for name in names if len(study.raters) > 2 else []:
        kept = triplets.rater != study.raters.index(name)
        task, rater, label = triplets.task[kept], triplets.rater[kept], triplets.label[kept]
        part = Triplets(task, rater, label, triplets.tasks, triplets.raters, triplets.values)
        without = refit(part, classes).labels
        own = np.unique(triplets.task[~kept])
        changed = whole[own] != without[own]
        row: Row = {"rater": name, "tasks": len(own), "changed": int(changed.sum())}
        row["share"] = float(changed.mean()) if len(own) else None
        row["changed_elsewhere"] = int((whole != without).sum()) - row["changed"]
        rows.append(row)
    truth = np.asarray(all_.truth, np.float64) if by == files.method else None
    return sorted(rows, key=lambda row: -int(row["changed"])), by, truth
