"""The report of a table of class labels: who labelled, who agrees, which tasks are disputed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raters import plots
from raters.agreement.agree import Agreement, agree
from raters.agreement.answers import votes_of
from raters.arrays import Ints, Labels
from raters.report import words
from raters.report.blocks import Block, FigureBlock, Report, Section, TableBlock, TextBlock
from raters.report.study import facts_of, most_labelled, not_two, study_notes
from raters.report.tables import filled, heads
from raters.report.words import begin, named, percent, together
from raters.rows import Row
from raters.study.classes import MISSING
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
    facts = facts_of(study, None) | {"labels": len(study.triplets.label)}
    title = study.about.get("title") or title or "Table of labels"
    if len(study.raters) < 2:
        return Report(title, facts, [Section("Raters", "", [not_two(study)])])
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
        words.short_section(findings, words.notes_block([*agreement.notes, *study_notes(study)])),
        *([] if study.anonymous else [_raters(study, agreement, rows)]),
        _agreement(study, agreement),
        tasks_section(study, agreement),
    ]
    return Report(title, facts, sections)


def worker_rows(study: Study, agreement: Agreement) -> list[Row]:
    """Return the table of raters: agreement with the vote of the others, and with the reference."""
    if study.reference_labels is None:
        return [dict(row) for row in agreement.raters]
    found = accuracies(study, study.reference_labels)
    return [{**row, "accuracy": a} for row, a in zip(agreement.raters, found, strict=True)]


def accuracies(study: Study, truth: Labels) -> list[float | None]:
    """Return the share of each rater's labels that equal those of the tasks; None without any."""
    given = study.triplets
    there = truth[given.task] != MISSING
    right = there & (truth[given.task] == given.label)
    number, equal = (
        np.bincount(given.rater[k], minlength=len(study.raters)) for k in (there, right)
    )
    return [float(e / n) if n else None for e, n in zip(equal, number, strict=True)]


def _raters(study: Study, agreement: Agreement, rows: list[Row]) -> Section:
    columns = heads(
        "rater", cases="tasks", labels="labels", agreement_rest="equal to the others' vote",
        compared="labels compared", agreement_self="equal to own repeats",
        accuracy="equal to the reference",
    )  # fmt: skip
    columns = filled(rows, columns)
    blocks: list[Block] = [TableBlock("raters", rows, workers_sentence(rows), columns)]
    names = most_labelled(agreement.raters, study.raters, MOST_SHOWN)
    if len(study.classes) <= 20:
        chosen = study.select(raters=names)
        figure = plots.volumes(chosen)
        caption = shares_sentence(chosen) + words.only_most(names, study.raters, "labels")
        blocks.append(FigureBlock("shares-of-classes", figure, caption))
    about = "Who labelled how much, and how often each says what most of the others say."
    return Section("Raters", about, blocks)


def _agreement(study: Study, agreement: Agreement) -> Section:
    names = most_labelled(agreement.raters, study.raters, MOST_SHOWN)
    least = _LEAST_SHARED if len(study.raters) > 10 else 1
    pairs = [p for p in agreement.pairs if p["cases"] >= least and not study.anonymous]
    among = [p for p in pairs if {p["rater_a"], p["rater_b"]} <= set(names)]
    blocks: list[Block] = []
    if among:
        order: plots.pairs.Order = "clustered" if len(names) > 8 else "given"
        figure = plots.agreement(among, names, score="agreement", order=order)
        caption = heat_caption(among, least) + words.only_most(names, study.raters, "labels")
        blocks.append(FigureBlock("agreement", figure, caption))
    elif not study.anonymous:
        text = f"No two raters have {least} tasks in common: only the vote of all can be compared."
        blocks.append(TextBlock(text, "note"))
    alpha = words.alpha_sentence(agreement.overall[-1]["krippendorff_alpha"])
    blocks.append(TableBlock("agreement-by-class", agreement.overall, alpha))
    if not study.anonymous:
        ordered = sorted(agreement.pairs, key=lambda p: -int(p["cases"]))
        caption = "Pairs with most tasks in common first; the others are based on few."
        blocks.append(TableBlock("pairs", ordered, caption))
    return Section("Agreement", "Who agrees with whom.", blocks)


def tasks_section(study: Study, agreement: Agreement, consensus: Labels | None = None) -> Section:
    """Show the most disputed tasks with the labels that were given."""
    counts, names = votes_of(study), study.classes.names
    place = {case: k for k, case in enumerate(study.cases)}
    truth = study.reference_labels
    rows = []
    for row in agreement.cases:
        k = place[row["case"]]
        given = given_labels(counts[k], names)
        new = {"task": row["case"], "labels": row["labels"], "given": given}
        new |= {name: row[name] for name in ("majority", "share", "entropy")}
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
    named = {"given": "given (how often)", "majority": "majority label", "share": "majority share"}
    columns = {c: named.get(c, c) for c in rows[0]} if rows else None
    blocks.append(TableBlock("tasks", rows, caption, columns))
    return Section("Tasks", "Which tasks raters differ on, and what they said.", blocks)


def given_labels(counts: Ints, names: tuple[str, ...]) -> str:
    """List the labels of a task, the most frequent first.

    Example:
        >>> given_labels(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow (3), cat (1)'
    """
    order = np.argsort(-counts, kind="stable")
    return ", ".join(f"{names[k]} ({counts[k]})" for k in order if counts[k])


_ENOUGH = 10
_NAMED = 3
_FAR = 0.15


def workers_sentence(rows: Sequence[Row]) -> str:
    """Report who differs most from the others, of those with enough labels to tell.

    Example:
        >>> rows = [{"rater": "ann", "agreement_rest": 0.9, "compared": 50},
        ...         {"rater": "bot", "agreement_rest": 0.2, "compared": 40}]
        >>> workers_sentence(rows)[:60]
        'bot says what most of the others say on only 20 % of 40 labe'
    """
    enough = [r for r in rows if r["agreement_rest"] is not None and r["compared"] >= _ENOUGH]
    if not enough:
        return (
            f"No rater has {_ENOUGH} labels that can be compared with the vote of the others: "
            "collect more labels per task before raters are judged."
        )
    middle = float(np.median([r["agreement_rest"] for r in enough]))
    low = [r for r in enough if r["agreement_rest"] < middle - _FAR]
    low.sort(key=lambda r: float(r["agreement_rest"]))
    if not low:
        return (
            f"Raters with {_ENOUGH} labels or more all stay near the median: "
            f"{percent(middle)} of their labels equal the vote of the others."
        )
    first = low[0]
    others = together([named(r["rater"]) for r in low[1:]]) if len(low) > 1 else ""
    more = f" Also far below: {others}." if others else ""
    return begin(
        f"{named(first['rater'])} says what most of the others say on only "
        f"{percent(first['agreement_rest'])} of {first['compared']:,} labels (the median rater: "
        f"{percent(middle)}).{more} Check whether they understood the task; a fusion with "
        "matrices (raters fuse -m dawid-skene) gives their labels less weight."
    )


def disputed_sentence(cases: Sequence[Row]) -> str:
    """Return which tasks to look at first."""
    known = [row for row in cases if row["entropy"] is not None]
    split = [row for row in known if row["share"] < 1]
    if not known:
        return "No task has two labels: no task can be called disputed."
    if not split:
        return f"Raters are unanimous on all {len(known):,} tasks with two labels or more."
    first = together([named(row["case"], "task") for row in split[:_NAMED]])
    return (
        f"Raters differ on {len(split):,} of {len(known):,} tasks "
        f"({percent(len(split) / len(known))}). Look first at {first}."
    )


def heat_caption(pairs: Sequence[Row], least: int) -> str:
    """Return which pair agrees least and most, of those that are shown."""
    known = [p for p in pairs if p["agreement"] is not None]
    low = min(known, key=lambda p: (p["agreement"], -p["cases"]))
    high = max(known, key=lambda p: (p["agreement"], p["cases"]))
    share = percent(low["agreement"])
    text = begin(f"{words.couple(low)} agree least ({share} of {low['cases']:,} tasks)")
    if high is not low:
        share = percent(high["agreement"])
        text += f", {words.couple(high)} most ({share} of {high['cases']:,})"
    gaps = f" Grey: fewer than {least} tasks in common." if least > 1 else ""
    return f"{text}. Raters who agree stand next to each other.{gaps}"


def shares_sentence(study: Study) -> str:
    """Report who uses a class far more or less than the others."""
    triplets, names = study.triplets, study.classes.names
    counts = np.zeros((len(study.raters), len(names)))
    np.add.at(counts, (triplets.rater, triplets.label), 1)
    total = counts.sum(axis=1)
    all_shares = counts.sum(axis=0) / max(1.0, counts.sum())
    enough = np.flatnonzero(total >= 2 * _ENOUGH)
    if not enough.size:
        return "One bar per rater: how often each class was given."
    gap = counts[enough] / total[enough, np.newaxis] - all_shares
    r, c = np.unravel_index(np.abs(gap).argmax(), gap.shape)
    share = counts[enough[r], c] / total[enough[r]]
    who = begin(named(study.raters[enough[r]]))
    return (
        f"One bar per rater: how often each class was given. {who} differs most: "
        f"{percent(share)} {named(names[c], 'class')}, where all together give it "
        f"{percent(all_shares[c])}. That may be the tasks, or a habit: see which tasks these were."
    )
