"""The report of a fused table of class labels: raters against the consensus, disputed tasks."""

from __future__ import annotations

import numpy as np

from raters.agreement.agree import agree
from raters.arrays import Ints
from raters.confusion import count_triplets
from raters.report import fusion_words as words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock
from raters.report.compare import Compared, counted_rows
from raters.report.fusion_files import (
    FusionFiles,
    consensus_labels,
    performance_section,
    scores_figure,
)
from raters.report.study import most_labelled, study_notes
from raters.report.study_table import MOST_SHOWN, accuracies, tasks_section
from raters.report.tables import filled, heads
from raters.report.words import named, notes_block, only_most, percent, short_section
from raters.rows import Row
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.study.triplets import Triplets

_MOST_LEFT_OUT = 20


def table_fusion_report(files: FusionFiles, study: Study, title: str) -> Report:
    """Make the report of a fused table; `fusion_report` says what the arguments mean."""
    agreement = agree(study) if len(study.raters) > 1 else None
    consensus = consensus_labels(files.folder, study)
    said, sizes = study.triplets, (len(study.raters), len(study.classes))
    counts = count_triplets(said.task, said.rater, said.label, consensus, *sizes)
    rows = _rater_rows(study, counts)
    names = most_labelled(rows, study.raters, MOST_SHOWN)
    measured = files.rows or _counted(study, counts)
    changed, by = left_out_rows(files, study, most_labelled(rows, study.raters, _MOST_LEFT_OUT))
    undecided = int((consensus == MISSING).sum())
    findings = [
        "" if study.anonymous else _closest(rows),
        "" if study.anonymous else _left_words(changed, by),
        words.undecided_sentence(undecided, len(study)),
    ]
    number = {row["rater"]: row["labels"] for row in rows}
    ordered = sorted(names, key=lambda name: -number[name])
    performance = performance_section(files, measured, study.classes.names, counts, study, ordered)
    sections = [short_section(findings, notes_block([*files.said_of(study), *study_notes(study)]))]
    if study.anonymous:
        sections.append(performance)
    else:
        sections += [_raters(study, rows, names), performance, _left_section(changed, by)]
    if agreement is not None:
        sections.append(tasks_section(study, agreement, consensus))
    facts: dict[str, object] = {"tasks": len(study), "raters": len(study.raters)}
    facts |= {"labels": len(study.triplets.label), "method": files.method, "undecided": undecided}
    truth = study.reference_labels
    if truth is not None:
        known = (truth != MISSING) & (consensus != MISSING)
        same = consensus[known] == truth[known]
        facts["equal to the reference"] = float(same.mean()) if same.size else None
    return Report(title, facts, sections)


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


def _closest(rows: list[Row]) -> str:
    enough = [row for row in rows if row["accuracy"] is not None and row["labels"] >= 10]
    if len(enough) < 2:
        return "There are fewer than two raters with ten labels to compare with the consensus."
    low = min(enough, key=lambda row: float(row["accuracy"]))
    high = max(enough, key=lambda row: float(row["accuracy"]))
    return (
        f"Of raters with ten labels or more, {named(high['rater'])} is closest to the consensus "
        f"({percent(high['accuracy'])} of {high['labels']:,} labels), {named(low['rater'])} "
        f"farthest from it ({percent(low['accuracy'])} of {low['labels']:,}): check what "
        f"{named(low['rater'])} understood."
    )


def _raters(study: Study, rows: list[Row], names: list[str]) -> Section:
    shown = [row for row in rows if row["rater"] in set(names)]
    blocks: list[Block] = []
    if any(row["accuracy"] is not None for row in shown):
        figure = scores_figure(shown, "accuracy", "share equal to the consensus", study.raters)
        caption = _closest(rows) + only_most(names, study.raters, "labels")
        blocks.append(FigureBlock("accuracy", figure, caption))
    equal = {"accuracy": "equal to the consensus", "accuracy_reference": "equal to the reference"}
    columns = filled(rows, heads("rater", "labels", **equal))
    about = "A rater who is right against a wrong consensus looks bad here: see disputed tasks."
    blocks.append(TableBlock("raters-against-consensus", rows, about, columns))
    return Section("Raters and consensus", "How close each rater is to the consensus.", blocks)


def left_out_rows(files: FusionFiles, study: Study, names: list[str]) -> tuple[list[Row], str]:
    """Fuse again without each of some raters, and count the tasks whose label changes."""
    refit, by = files.refit("classification")
    triplets, classes = study.triplets, len(study.classes)
    whole = refit(triplets, classes).labels
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
    return sorted(rows, key=lambda row: -int(row["changed"])), by


def _left_words(rows: list[Row], by: str) -> str:
    if not rows:
        return "Leave-one-out needs at least three raters."
    most, least = rows[0], rows[-1]
    return (
        f"Without {named(most['rater'])} the consensus changes on {most['changed']:,} of "
        f"{most['tasks']:,} tasks: make sure that this rater is right. Without "
        f"{named(least['rater'])} it changes on {least['changed']:,} of {least['tasks']:,}. "
        f"Refitted by {by} without each of the {len(rows)} raters with most labels."
    )


def _left_section(rows: list[Row], by: str) -> Section:
    changed = {"changed": "changed", "share": "share changed"}
    columns = {"rater": "left out", "tasks": "tasks of this rater", **changed}
    columns["changed_elsewhere"] = "changed elsewhere"
    table = TableBlock("without-each-rater", rows, _left_words(rows, by), columns)
    about = "How the consensus changes when one rater is left out."
    return Section("Without a rater", about, [table] if rows else [])
