"""The report of a table of class labels: who labelled, who agrees, which tasks are disputed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raters import plots
from raters.agreement.agree import agree
from raters.agreement.result import Agreement
from raters.report import words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.notes import notes_block, short_section
from raters.report.table_words import (
    disputed_sentence,
    heat_caption,
    shares_sentence,
    workers_sentence,
)
from raters.rows import Row
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.study.study import Study

MOST_SHOWN = 30
"""How many raters a figure shows at most: those with most labels."""
_LEAST_SHARED = 5
"""Pairs of raters with fewer tasks in common are gaps in the heat map of many raters."""


def table_report(study: Study, title: str = "") -> Report:
    """Make the report of a study of class labels.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 0]])
        >>> report = table_report(Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"]))
        >>> [section.title for section in report.sections]
        ['In short', 'Raters', 'Agreement', 'Tasks']
    """
    from raters.report.study import facts_of, study_notes

    facts = facts_of(study, None) | {"labels": len(study.triplets.label)}
    title = study.about.get("title") or title or "Table of labels"
    if len(study.raters) < 2:
        who = f"only the rater {study.raters[0]}" if study.raters else "no raters"
        warning = TextBlock(f"Found {who}, expected at least two to compare.", "warning")
        return Report(title, facts, [Section("Raters", "", [warning])])
    agreement = agree(study)
    overall = agreement.overall[-1]
    facts["equal labels"] = overall["agreement"]
    facts["Krippendorff's alpha"] = overall["krippendorff_alpha"]
    rows = worker_rows(study, agreement)
    findings = [
        "" if study.anonymous else workers_sentence(rows),
        words.alpha_sentence(overall["krippendorff_alpha"]),
        disputed_sentence(agreement.cases),
    ]
    sections = [
        short_section(findings, notes_block([*agreement.notes, *study_notes(study)])),
        *([] if study.anonymous else [_raters(study, agreement, rows)]),
        _agreement(study, agreement),
        tasks_section(study, agreement),
    ]
    return Report(title, facts, sections)


def vote_counts(study: Study) -> NDArray[np.int64]:
    """Count the labels of each task, `(tasks, classes)`."""
    counts = np.zeros((len(study), len(study.classes)), np.int64)
    np.add.at(counts, (study.triplets.task, study.triplets.label), 1)
    return counts


def worker_rows(study: Study, agreement: Agreement) -> list[Row]:
    """Return the table of raters: agreement with the vote of the others, and with the reference."""
    triplets, truth = study.triplets, study.reference_labels
    right = np.zeros(len(study.raters))
    known = np.zeros(len(study.raters))
    if truth is not None:
        there = truth[triplets.task] != MISSING
        np.add.at(known, triplets.rater[there], 1)
        np.add.at(right, triplets.rater[there & (truth[triplets.task] == triplets.label)], 1)
    rows = []
    for row, n, ok in zip(agreement.raters, known, right, strict=True):
        extra = {"accuracy": float(ok / n) if n else None} if truth is not None else {}
        rows.append({**row, **extra})
    return rows


def _raters(study: Study, agreement: Agreement, rows: list[Row]) -> Section:
    from raters.report.study import most_labelled

    columns = {
        "rater": "rater",
        "cases": "tasks",
        "labels": "labels",
        "agreement_rest": "equal to the others' vote",
        "compared": "labels compared",
        "agreement_self": "equal to own repeats",
        "accuracy": "equal to the reference",
    }
    kept = {c: h for c, h in columns.items() if any(row.get(c) is not None for row in rows)}
    blocks: list[Block] = [TableBlock("raters", rows, workers_sentence(rows), kept)]
    names = most_labelled(agreement.raters, study.raters, MOST_SHOWN)
    if len(study.classes) <= 20:
        chosen = study.select(raters=names)
        figure = plots.volumes(chosen)
        caption = shares_sentence(chosen) + left_out(study, names)
        blocks.append(FigureBlock("shares-of-classes", figure, caption))
    about = "Who labelled how much, and how often each says what most of the others say."
    return Section("Raters", about, blocks)


def left_out(study: Study, names: list[str]) -> str:
    """Return which raters a figure shows."""
    if len(names) == len(study.raters):
        return ""
    return f" Shown are the {len(names)} of {len(study.raters):,} raters with most labels."


def _agreement(study: Study, agreement: Agreement) -> Section:
    from raters.report.study import most_labelled

    names = most_labelled(agreement.raters, study.raters, MOST_SHOWN)
    least = _LEAST_SHARED if len(study.raters) > 10 else 1
    pairs = [p for p in agreement.pairs if p["cases"] >= least and not study.anonymous]
    among = [p for p in pairs if {p["rater_a"], p["rater_b"]} <= set(names)]
    blocks: list[Block] = []
    if among:
        order: plots.pairs.Order = "clustered" if len(names) > 8 else "given"
        figure = plots.agreement(among, names, score="agreement", order=order)
        caption = heat_caption(among, least) + left_out(study, names)
        blocks.append(FigureBlock("agreement", figure, caption))
    elif not study.anonymous:
        text = f"No two raters have {least} tasks in common: only the vote of all can be compared."
        blocks.append(TextBlock(text, "note"))
    blocks.append(
        TableBlock(
            "agreement-by-class",
            agreement.overall,
            words.alpha_sentence(agreement.overall[-1]["krippendorff_alpha"]),
        )
    )
    if not study.anonymous:
        ordered = sorted(agreement.pairs, key=lambda p: -int(p["cases"]))
        caption = "Pairs with most tasks in common first; the others are based on few."
        blocks.append(TableBlock("pairs", ordered, caption))
    return Section("Agreement", "Who agrees with whom.", blocks)


def tasks_section(
    study: Study, agreement: Agreement, consensus: NDArray[np.int16] | None = None
) -> Section:
    """Show the most disputed tasks with the labels that were given."""
    counts, names = vote_counts(study), study.classes.names
    place = {case: k for k, case in enumerate(study.cases)}
    truth = study.reference_labels
    rows = []
    for row in agreement.cases:
        k = place[row["case"]]
        new = {
            "task": row["case"],
            "labels": row["labels"],
            "given": given_labels(counts[k], names),
            "majority": row["majority"],
            "share": row["share"],
            "entropy": row["entropy"],
        }
        if consensus is not None:
            new["consensus"] = None if consensus[k] == MISSING else names[consensus[k]]
        if truth is not None:
            new["reference"] = None if truth[k] == MISSING else names[truth[k]]
        rows.append(new)
    blocks: list[Block] = []
    if any(row["labels"] >= 2 for row in agreement.cases):
        caption = disputed_sentence(agreement.cases)
        blocks.append(FigureBlock("difficulty", plots.difficulty(agreement), caption))
    caption = "All tasks, the most disputed first. Let an expert settle the first ones."
    heads = {"given": "given (how often)", "majority": "majority label", "share": "majority share"}
    given = {c: heads.get(c, c) for c in rows[0]} if rows else None
    blocks.append(TableBlock("tasks", rows, caption, given))
    return Section("Tasks", "Which tasks raters differ on, and what they said.", blocks)


def given_labels(counts: NDArray[np.int64], names: tuple[str, ...]) -> str:
    """List the labels of a task, the most frequent first.

    Example:
        >>> given_labels(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow (3), cat (1)'
    """
    order = np.argsort(-counts, kind="stable")
    return ", ".join(f"{names[k]} ({counts[k]})" for k in order if counts[k])
