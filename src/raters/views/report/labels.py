"""Reports of class labels, as they are and fused: who said what, raters by trouble, classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from raters.assessment import agreement_findings
from raters.assessment.against import counted_rows
from raters.assessment.agree import Agreement, agree
from raters.assessment.agreement_answers import class_confusion, pairs_of_tasks, votes_of, who_said
from raters.assessment.fusion_findings import ends_of, fused_rater_rows, least_sure, left_out_tasks
from raters.consensus.read import FusionFiles
from raters.core.arrays import Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.io.rows import Row
from raters.metrics.confusion import count_triplets, normalise
from raters.study.study import Study
from raters.study.table_study import labels_of_tasks
from raters.views import plots
from raters.views.report.agreement import agreement_matrix, agreement_section, alpha_number
from raters.views.report.blocks import (
    Block,
    Card,
    First,
    Number,
    Report,
    Section,
    figure,
    section,
    table,
)
from raters.views.report.first import CARDS, mean_number, short_section
from raters.views.report.performance import performance_section, scores_block
from raters.views.texts.say import joined, link, plain, say

_MOST_CLASSES = 20
_MOST_NAMED = 12
_LINES = 4
_LABELS = "labels.csv"
_MOST_LEFT_OUT = 20


def table_report(study: Study, notes: Sequence[str]) -> Report:
    """Return what a study of class labels shows; `notes` are those of the study."""
    agreement = agree(study)
    rows = [dict(row) for row in agreement.raters]
    if study.reference_labels is not None:
        found = agreement_findings.accuracies(study, study.reference_labels)
        rows = [{**row, **right} for row, right in zip(rows, found, strict=True)]
    tasks = agreement_findings.disputed_tasks(agreement.cases)
    workers = agreement_findings.troubled(rows)
    alpha = agreement.overall[-1]["krippendorff_alpha"]
    short = [
        "" if study.anonymous else say("workers", **workers),
        say("alpha", alpha=alpha),
        say("disputed", **tasks),
    ]
    sections = [
        short_section(short, [*agreement.notes, *notes]),
        *([] if study.anonymous else [_raters(study, rows)]),
        agreement_section(study, agreement, more=_class_confusion(study)),
        tasks_section(study, agreement),
    ]
    sums = pairs_of_tasks(study)
    pairs = f"over {many(int(sums[:, 1].sum()), 'pair')} of labels of one task by two raters"
    numbers = [
        mean_number("equal labels", sums, list(study.index.groups), pairs),
        alpha_number(alpha),
        Number("tasks that raters differ on", f"{tasks['split']:,} of {tasks['known']:,}"),
    ]
    actions = [
        say("act_tasks", first=tasks["first"], sure=False),
        say("act_workers", anonymous=study.anonymous, **workers),
        say("act_fuse_table", anonymous=study.anonymous),
    ]
    split = [row["case"] for row in agreement.cases if (row["entropy"] or 0) > 0]
    cards = task_cards(study, split[:CARDS])
    first = First(numbers, agreement_matrix(study, agreement), cards, actions)
    return Report("", {}, sections, first=first)


def task_cards(study: Study, tasks: Sequence[str], notes: Sequence[str] = ()) -> list[Card]:
    """Return tasks with who said what; `notes` take the place of the numbers of labels."""
    place = {case: k for k, case in enumerate(study.cases)}
    said = who_said(study)
    names = study.classes.names
    cards = []
    for k, task in enumerate(tasks):
        own = said[place[task]]
        lines = [Markup("{}: {}").format(names[c], _names(study, who)) for c, who in own.items()]
        if len(lines) > _LINES:
            lines[_LINES - 1 :] = [Markup(f"and {len(lines) - _LINES + 1} more classes")]
        number = many(sum(map(len, own.values())), "label")
        cards.append(Card(task, notes[k] if any(notes) else number, lines=lines))
    return cards


def _names(study: Study, who: Sequence[str]) -> str:
    if study.anonymous:
        return many(len(who), "rater")
    more = [f"{len(who) - _MOST_NAMED} more"] if len(who) > _MOST_NAMED else []
    return Markup(", ").join([*map(link, who[:_MOST_NAMED]), *more])


def _raters(study: Study, rows: Sequence[Row]) -> Section:
    shares = None
    if len(study.classes) <= _MOST_CLASSES:
        names = agreement_findings.with_most(
            {row["rater"]: row["labels"] for row in rows}, study.raters
        )
        chosen = study.select(raters=names)
        only = say("only_most", shown=len(names), all=len(study.raters), what="labels")
        caption = joined(say("class_shares", **agreement_findings.unusual_shares(chosen)), only)
        shares = figure("labels.shares-of-classes", plots.volumes(chosen), caption)

    def trouble(row: Row) -> tuple[bool, float]:
        rest = row["agreement_rest"]  # those with too few labels to tell come last
        return rest is None or row[
            "compared"
        ] < agreement_findings.ENOUGH, 1.0 if rest is None else rest

    shown = sorted(rows, key=trouble)
    return section("labels.raters", table("labels.raters", rows, shown), shares)


def _class_confusion(study: Study) -> Block | None:
    """Show which classes two raters of one task take for each other."""
    counts = class_confusion(study)
    names = study.classes.names
    if len(counts) > _MOST_CLASSES or not counts.any():
        return None
    shares = normalise(counts)
    caption = say("class_confusion", **agreement_findings.most_mixed(shares, names))
    title = ["two raters of one task"]
    drawn = plots.confusion(shares, names, title, rows="one says", columns="the other says")
    return figure("labels.class-confusion", drawn, caption)


def tasks_section(
    study: Study, agreement: Agreement, consensus: Labels | None = None, truth: Floats | None = None
) -> Section:
    """Show tasks with who said what, the most disputed first.

    Of a fusion, `consensus` is the class of each task and `truth` `(tasks, L)` how likely each
    class is: tasks that are least sure come first then.
    """
    counts = votes_of(study)
    names = study.classes.names
    said = who_said(study)
    place = {case: k for k, case in enumerate(study.cases)}
    fixed = {"consensus": consensus, "reference": study.reference_labels}
    rows: list[Row] = []
    shown: list[Row] = []
    for row in agreement.cases:
        k = place[row["case"]]
        new = {"task": row["case"], "labels": row["labels"]}
        new["given"] = agreement_findings.given_labels(counts[k], names)
        new |= {name: row[name] for name in ("majority", "share", "entropy")}
        for name, labels in fixed.items():
            if labels is not None:
                new[name] = None if labels[k] == MISSING else names[labels[k]]
        rows.append(new)
        who = "; ".join(f"{names[c]}: {plain(_names(study, of))}" for c, of in said[k].items())
        sure = None if truth is None or not counts[k].any() else float(truth[k].max())
        most = agreement_findings.majority(counts[k], names)
        shown.append({**new, "who": who, "majority": most, "p": sure})
    if truth is not None:
        shown.sort(key=lambda row: (row["p"] is None, row["p"]))
    tasks = table("labels.tasks", rows, shown, sure=truth is not None)
    several = any(row["labels"] >= 2 for row in agreement.cases)
    hard = figure("labels.difficulty", plots.difficulty(agreement)) if several else None
    return section("labels.tasks", tasks, hard)


# Fused labels


def fused_report(files: FusionFiles, study: Study, notes: Sequence[str]) -> Report:
    """Return what a fused table shows; `notes` are those of the fusion and the study."""
    consensus = _consensus_labels(files.folder, study)
    said = study.triplets
    sizes = (len(study.raters), len(study.classes))
    counts = count_triplets(said.task, said.rater, said.label, consensus, *sizes)
    rows = fused_rater_rows(study, counts)
    number = {row["rater"]: row["labels"] for row in rows}
    refit, by = files.refit("classification")
    changed, fused = left_out_tasks(
        study, agreement_findings.with_most(number, study.raters, _MOST_LEFT_OUT), refit
    )
    # A vote that stands for a slow method does not know how sure that method was.
    truth = np.asarray(fused.truth, np.float64) if by == files.method else None
    labelled = np.bincount(said.task, minlength=len(study)) > 0
    undecided = int(((consensus == MISSING) & labelled).sum())
    bare = int((~labelled).sum())
    low, high = ends_of(rows)
    reference = study.reference_labels
    right = agreement_findings.accuracies(study, consensus if reference is None else reference)
    told = [{"rater": name, **own} for name, own in zip(study.raters, right, strict=True)]
    judged = {**agreement_findings.troubled(told), "known": reference is not None}
    most = changed[0] if changed else None
    least = changed[-1] if changed else None
    short: list[str] = [say("undecided", undecided=undecided, bare=bare, tasks=len(study))]
    names = agreement_findings.with_most(number, study.raters)
    ordered = sorted(names, key=lambda name: -number[name])
    measured = files.rows or counted_rows(counts, study.raters, study.classes.names)
    sections = [performance_section(files, measured, counts, study, ordered)]
    if not study.anonymous:
        left = say("left_out_worker", most=most, least=least, method=by, number=len(changed))
        short = [say("closest_worker", low=low, high=high), left, *short]
        key = "fused_labels.without-each-rater"
        without = section(key, table(key, changed) if changed else None)
        sections = [_fused_raters(study, rows, names), *sections, without]
    tasks = {} if truth is None else least_sure(study, truth, labelled, CARDS)
    matrix = None
    if len(study.raters) > 1:
        agreement = agree(study)
        sections.append(tasks_section(study, agreement, consensus, truth))
        matrix = agreement_matrix(study, agreement)
        if truth is None:
            tasks = dict.fromkeys(agreement_findings.disputed_tasks(agreement.cases)["first"], "")
    actions = [
        say("act_tasks", first=list(tasks)[:3], sure=truth is not None),
        say("act_worker", most=most, anonymous=study.anonymous, **judged),
        say("act_labels", undecided=undecided, bare=bare, anonymous=study.anonymous),
    ]
    without_label = Number("tasks without a label", f"{bare:,} of {len(study):,}")
    shown = "Least sure" if truth is not None else "Most disputed"
    cards = task_cards(study, list(tasks), list(tasks.values()))
    first = First([*_agreed(study, consensus), without_label], matrix, cards, actions, shown)
    return Report("", {}, [short_section(short, notes), *sections], first=first)


def _consensus_labels(folder: Path, study: Study) -> Labels:
    """Read the consensus of a table as class numbers, `(tasks,)`; MISSING where there is none.

    (`read_classes` takes predictions from anywhere, and rejects a table without any; a consensus
    may be undecided everywhere.)
    """
    from raters.evaluation.sources import class_numbers  # it loads torch

    path = folder / _LABELS
    if not path.exists():
        raise RatersError(f"found no {_LABELS}, expected the labels of a fused table", file=folder)
    found = labels_of_tasks(path, list(study.index.ids), "task", "label")
    known = {str(c.value): k for k, c in enumerate(study.classes)}
    return class_numbers(found, known, study, path)


def _agreed(study: Study, consensus: Labels) -> list[Number]:
    """Return the share of labels that equal the consensus, and of a consensus that is right."""
    given = study.triplets
    groups = list(study.index.groups)
    there = consensus[given.task] != MISSING
    right = there & (consensus[given.task] == given.label)
    sums = [np.bincount(given.task[part], minlength=len(study)) for part in (right, there)]
    about = f"of {many(int(there.sum()), 'label')}"
    equal = np.stack(sums, axis=1)
    numbers = [mean_number("labels equal to the consensus", equal, groups, about)]
    truth = study.reference_labels
    if truth is not None:
        known = (truth != MISSING) & (consensus != MISSING)
        right = np.stack([known & (consensus == truth), known], axis=1)
        numbers.append(mean_number("consensus equal to the reference", right, groups))
    return numbers


def _fused_raters(study: Study, rows: list[Row], names: list[str]) -> Section:
    worst = sorted(
        rows, key=lambda row: (row["labels"] < agreement_findings.ENOUGH, row["accuracy"] or 0.0)
    )
    key = "fused_labels.raters-against-consensus"
    title = "share equal to the consensus"
    shown = [row for row in rows if row["rater"] in set(names)]
    only = {"shown": len(names), "all": len(study.raters)}
    drawn = scores_block("fused_labels.accuracy", shown, "accuracy", title, study.raters, **only)
    return section(key, table(key, rows, worst), drawn)
