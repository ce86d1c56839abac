"""Reports of class labels: who said what of each task, raters by trouble, classes mixed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from raters import plots
from raters.agreement.agree import Agreement, agree
from raters.agreement.answers import class_confusion, pairs_of_tasks, votes_of, who_said
from raters.arrays import Floats, Ints, Labels
from raters.confusion import count_triplets, normalise
from raters.report.agreement import (
    LEAST_SHARED,
    MOST_RATERS,
    agreement_section,
    alpha_number,
    compared_raters,
)
from raters.report.blocks import Block, Card, First, Matrix, Number, Section, figure, section, table
from raters.report.first import CARDS, agreement_matrix, mean_number
from raters.report.say import in_line, link, say
from raters.rows import Row
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.wording import many

_ENOUGH = 10
_FAR = 0.15
_MOST_CLASSES = 20
_MOST_NAMED = 12
_LINES = 4

Parts = tuple[list[str], list[str], list[Section], First]


def table_parts(study: Study) -> Parts:
    """Return the findings, notes, sections and first screen of a study of class labels."""
    agreement = agree(study)
    tasks = disputed_tasks(agreement.cases)
    workers = troubled(agreement.raters)
    findings = [
        "" if study.anonymous else say("workers", **workers),
        say("alpha", alpha=agreement.overall[-1]["krippendorff_alpha"]),
        say("disputed", **tasks),
    ]
    mixed = class_block(study)
    sections = [agreement_section(study, agreement, more=mixed), tasks_section(study, agreement)]
    if not study.anonymous:
        sections.insert(0, _raters(study, agreement))
    return findings, agreement.notes, sections, _first(study, agreement, workers)


def _first(study: Study, agreement: Agreement, workers: dict[str, Any]) -> First:
    sums = pairs_of_tasks(study)
    pairs = f"over {many(int(sums[:, 1].sum()), 'pair')} of labels of one task by two raters"
    tasks = disputed_tasks(agreement.cases)
    numbers = [
        mean_number("equal labels", sums, list(study.index.groups), pairs),
        alpha_number(agreement.overall[-1]["krippendorff_alpha"]),
        Number("tasks that raters differ on", f"{tasks['split']:,} of {tasks['known']:,}"),
    ]
    low, middle = workers["low"], workers["middle"]
    actions = [
        say("act_tasks", first=tasks["first"], sure=False),
        say("act_workers", low=low, middle=middle, anonymous=study.anonymous),
        say("act_fuse_table"),
    ]
    split = [row["case"] for row in agreement.cases if (row["entropy"] or 0) > 0]
    cards = task_cards(study, split[:CARDS])
    return First(numbers, answer_matrix(study, agreement), cards, actions)


def answer_matrix(study: Study, agreement: Agreement) -> Matrix | None:
    """Return who agrees with whom of the raters with most in common, the worst first."""
    if study.anonymous:
        return None
    least = LEAST_SHARED if len(study.raters) > 10 else 1
    names = compared_raters(agreement.pairs, study.raters, least, 9)
    rest = {row["rater"]: row["agreement_rest"] or 0.0 for row in agreement.raters}
    names.sort(key=lambda name: rest[name])
    pairs = [pair for pair in agreement.pairs if pair["cases"] >= least]
    about = "Raters who agree least with the others come first."
    if len(names) < len(study.raters):
        about = f"{len(names)} of {len(study.raters)} raters: those with most tasks in common."
    title = "Share of equal labels of each pair"
    return agreement_matrix(pairs, names, study.raters, "agreement", title, about)


def task_cards(study: Study, tasks: Sequence[str], notes: Sequence[str] = ()) -> list[Card]:
    """Return tasks with who said what; `notes` take the place of the numbers of labels."""
    place, said = {case: k for k, case in enumerate(study.cases)}, who_said(study)
    cards = []
    for k, task in enumerate(tasks):
        own = said[place[task]]
        lines = [
            Markup("{}: {}").format(study.classes.names[c], _names(study, who, links=True))
            for c, who in own.items()
        ]
        number = many(sum(map(len, own.values())), "label")
        cards.append(Card(task, notes[k] if notes else number, lines=lines[:_LINES]))
    return cards


def _names(study: Study, who: Sequence[str], links: bool = False) -> str:
    if study.anonymous:
        return many(len(who), "rater")
    more = [f"{len(who) - _MOST_NAMED} more"] if len(who) > _MOST_NAMED else []
    if links:
        return Markup(", ").join([*map(link, who[:_MOST_NAMED]), *more])
    return ", ".join([*who[:_MOST_NAMED], *more])


def troubled(rows: Sequence[Row]) -> dict[str, Any]:
    """Return raters far below the median of those with enough labels, the lowest first.

    Example:
        >>> rows = [{"rater": r, "agreement_rest": a, "compared": 50} for r, a in
        ...         (("ann", 0.9), ("bob", 0.9), ("bot", 0.2))]
        >>> [row["rater"] for row in troubled(rows)["low"]]
        ['bot']
    """
    enough = [r for r in rows if r["agreement_rest"] is not None and r["compared"] >= _ENOUGH]
    middle = float(np.median([r["agreement_rest"] for r in enough])) if enough else 0.0
    low = [r for r in enough if r["agreement_rest"] < middle - _FAR]
    low.sort(key=lambda r: float(r["agreement_rest"]))
    return {"enough": len(enough), "low": low, "middle": middle}


def disputed_tasks(cases: Sequence[Row]) -> dict[str, Any]:
    """Return how many tasks raters differ on, and the first of them."""
    known = [row for row in cases if row["entropy"] is not None]
    split = [row["case"] for row in known if row["share"] < 1]
    return {"known": len(known), "split": len(split), "first": split[:3]}


def accuracies(study: Study, truth: Labels) -> list[float | None]:
    """Return the share of each rater's labels that equal those of the tasks; None without any."""
    given, sizes = study.triplets, (len(study.raters), len(study.classes))
    counts = count_triplets(given.task, given.rater, given.label, truth, *sizes)
    return [float(np.trace(one) / one.sum()) if one.any() else None for one in counts]


def _raters(study: Study, agreement: Agreement) -> Section:
    rows = [dict(row) for row in agreement.raters]
    if study.reference_labels is not None:
        found = accuracies(study, study.reference_labels)
        rows = [{**row, "accuracy": a} for row, a in zip(rows, found, strict=True)]
    blocks: list[Block] = [table("labels.raters", rows, sorted(rows, key=_trouble))]
    number = {row["rater"]: row["labels"] for row in rows}
    names = most_labelled(number, study.raters)
    if len(study.classes) <= _MOST_CLASSES:
        chosen = study.select(raters=names)
        only = say("only_most", shown=len(names), all=len(study.raters), what="labels")
        caption = in_line(say("class_shares", **_shares(chosen)), only)
        blocks.append(figure("labels.shares-of-classes", plots.volumes(chosen), caption))
    return section("labels.raters", blocks)


def _trouble(row: Row) -> tuple[bool, float]:
    """Sort by agreement; those with too few labels to tell come last."""
    few = row["agreement_rest"] is None or row["compared"] < _ENOUGH
    return few, 1.0 if row["agreement_rest"] is None else row["agreement_rest"]


def most_labelled(
    number: dict[str, int], raters: Sequence[str], most: int = MOST_RATERS
) -> list[str]:
    """Return the raters with most labels, in the order of the study."""
    kept = set(sorted(raters, key=lambda r: -number.get(r, 0))[:most])
    return [r for r in raters if r in kept]


def _shares(study: Study) -> dict[str, Any]:
    """Return who uses a class far more or less than the others."""
    triplets, names = study.triplets, study.classes.names
    counts = np.zeros((len(study.raters), len(names)))
    np.add.at(counts, (triplets.rater, triplets.label), 1)
    total = counts.sum(axis=1)
    usual = counts.sum(axis=0) / max(1.0, counts.sum())
    enough = np.flatnonzero(total >= 2 * _ENOUGH)
    if not enough.size:
        return {"rater": None, "class_": None, "share": None, "usual": None}
    shares = counts[enough] / total[enough, np.newaxis]
    r, c = np.unravel_index(np.abs(shares - usual).argmax(), shares.shape)
    who = {"rater": study.raters[enough[r]], "class_": names[c]}
    return who | {"share": float(shares[r, c]), "usual": float(usual[c])}


def class_block(study: Study) -> list[Block]:
    """Show which classes two raters of one task take for each other."""
    counts = class_confusion(study)
    if len(counts) > _MOST_CLASSES or not counts.any():
        return []
    shares = normalise(counts)
    caption = say("class_confusion", **_most_mixed(shares, study.classes.names))
    title, names = ["two raters of one task"], study.classes.names
    drawn = plots.confusion(shares, names, title, rows="one says", columns="the other says")
    return [figure("labels.class-confusion", drawn, caption)]


def _most_mixed(shares: Floats, names: Sequence[str]) -> dict[str, Any]:
    errors = np.where(np.eye(len(shares), dtype=bool), 0.0, np.nan_to_num(shares))
    said, other = divmod(int(errors.argmax()), len(errors))
    if not errors[said, other]:
        return {"said": None, "other": None, "share": None}
    return {"said": names[said], "other": names[other], "share": float(errors[said, other])}


def tasks_section(
    study: Study, agreement: Agreement, consensus: Labels | None = None, truth: Floats | None = None
) -> Section:
    """Show tasks with who said what, the most disputed first.

    Args:
        study: The study.
        agreement: That of its raters.
        consensus: The class of each task, if it was fused.
        truth: How likely each class is, `(tasks, L)`: tasks that are least sure come first then.
    """
    counts, names, said = votes_of(study), study.classes.names, who_said(study)
    place = {case: k for k, case in enumerate(study.cases)}
    reference = study.reference_labels
    rows: list[Row] = []
    shown: list[Row] = []
    for row in agreement.cases:
        k = place[row["case"]]
        new = {"task": row["case"], "labels": row["labels"]}
        new["given"] = given_labels(counts[k], names)
        new |= {name: row[name] for name in ("majority", "share", "entropy")}
        if consensus is not None:
            new["consensus"] = None if consensus[k] == MISSING else names[consensus[k]]
        if reference is not None:
            new["reference"] = None if reference[k] == MISSING else names[reference[k]]
        rows.append(new)
        who = "; ".join(f"{names[c]}: {_names(study, of)}" for c, of in said[k].items())
        sure = None if truth is None or not counts[k].any() else float(truth[k].max())
        shown.append({**new, "who": who, "majority": majority(counts[k], names), "p": sure})
    if truth is not None:
        shown.sort(key=lambda row: (row["p"] is None, row["p"]))
    blocks: list[Block] = [table("labels.tasks", rows, shown, sure=truth is not None)]
    if any(row["labels"] >= 2 for row in agreement.cases):
        blocks.append(figure("labels.difficulty", plots.difficulty(agreement)))
    return section("labels.tasks", blocks)


def given_labels(counts: Ints, names: tuple[str, ...]) -> str:
    """List the labels of a task, the most frequent first.

    Example:
        >>> given_labels(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow (3), cat (1)'
    """
    order = np.argsort(-counts, kind="stable")
    return ", ".join(f"{names[k]} ({counts[k]})" for k in order if counts[k])


def majority(counts: Ints, names: tuple[str, ...]) -> str | None:
    """Return the label of most raters; a tie is a tie.

    Example:
        >>> majority(np.array([1, 0, 3]), ("cat", "dog", "cow"))
        'cow'
        >>> majority(np.array([1, 0, 1]), ("cat", "dog", "cow"))
        'tie: cat, cow'
    """
    if not counts.any():
        return None
    most = [names[k] for k in np.flatnonzero(counts == counts.max())]
    return most[0] if len(most) == 1 else f"tie: {', '.join(most)}"
