"""A sheet per rater, to hand to the person: agreement, bias, examples, drift, gold cases.

One HTML file each, printed on a page or two; the other raters are not named in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from raters.assessment import one_rater
from raters.assessment.agreement_answers import votes_of
from raters.assessment.readings import OneRater, Readings, readings_of
from raters.core.arrays import Array, Floats, Ints
from raters.core.progress import track
from raters.io.claim import claim_folder
from raters.io.paths import file_name
from raters.metrics.bootstrap import Interval
from raters.study.order import Given, Order, order_of
from raters.study.study import Study
from raters.views.report.blocks import (
    Report,
    TableBlock,
    TextBlock,
    all_blocks,
    different_names,
    with_blocks,
)
from raters.views.report.example_pictures import class_colours, mask_examples, task_examples
from raters.views.report.page import OWNER, written
from raters.views.report.tables import headings
from raters.views.texts.say import as_text, filled_page, named, percent

FOLDER = "sheets"
"""Where sheets are written, beside the report."""
_DOTS = 12  # other raters who get a dot each; of more, the middle half is shown
_MATRIX = 10  # classes of a matrix that fits the page
_BINS = 12
_LONGEST = 120  # bytes of a file name
_SIZES = 0.05

ANONYMOUS = (
    "There are no sheets of raters: they are anonymous, so a name in one case and in the next may "
    "be different people."
)
ALONE = "There are no sheets of raters: with fewer than two, nobody can be compared."


@dataclass(frozen=True)
class Sheets:
    """Which sheets were written.

    Attributes:
        files: The name of the file of each rater, in the folder `sheets`.
        note: Why there are none; '' where there are.
    """

    files: dict[str, str] = field(default_factory=dict)
    note: str = ""


def write_sheets(
    study: Study,
    out: str | Path = "report",
    order: Given | None = None,
    gold: bool = False,
    title: str = "",
    progress: bool = False,
    linked: bool = False,
) -> Sheets:
    """Write a sheet per rater, as `sheets/RATER.html`.

    Args:
        study: The study.
        out: The folder that `sheets/` is written into.
        order: When cases were read, for drift: a column, `FILE:COLUMN`, 'listed' or a mapping, as
            `raters.study.order.order_of` takes it; by default what the study says of it, if it
            says anything.
        gold: Also score raters on the cases that have a reference.
        title: The name of the study.
        progress: Show progress bars.
        linked: Whether names of cases open them in `report.html`, which must lie in `out`.

    Returns:
        The files by rater. Anonymous raters have none, and `note` says so.

    Example:
        >>> import tempfile
        >>> from raters.simulation import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=2, shape=(32, 32)), "good,over,under")
        >>> write_sheets(study, tempfile.mkdtemp()).files["over"]
        'over.html'
    """
    study = study.without_negatives()
    if study.anonymous or len(study.raters) < 2:
        return Sheets(note=ANONYMOUS if study.anonymous else ALONE)
    when = order_of(study, order)
    maker = _Maker(study, readings_of(study, gold, progress), when, gold, title, linked)
    # Bytes that any system takes.
    coded = (file_name(as_text(rater)).encode("utf-8")[:_LONGEST] for rater in study.raters)
    names = different_names(name.decode("utf-8", "ignore") for name in coded)
    files = {rater: f"{name}.html" for rater, name in zip(study.raters, names, strict=True)}
    claim_folder(out, OWNER, [f"{FOLDER}/{name}" for name in files.values()])
    for rater, name in track(files.items(), len(files), "writing sheets", progress):
        written(Path(out) / FOLDER / name, maker.page(rater))
    return Sheets(files)


def with_sheets(report: Report, sheets: Sheets | None) -> Report:
    """Link the raters of a report to their sheets, if any, in its first table of raters."""
    if sheets is None:
        return report
    if sheets.note:
        said = TextBlock(sheets.note, "note")
        first = replace(report.sections[0], blocks=[*report.sections[0].blocks, said])
        return replace(report, sections=[first, *report.sections[1:]])
    tables = [block for block in all_blocks(report) if isinstance(block, TableBlock)]
    found = next(filter(_of_raters, tables), None)
    if found is None:
        return report
    rows = found.rows if found.shown is None else found.shown
    shown = [{**row, "sheet": sheets.files.get(row["rater"])} for row in rows]
    heads = headings(shown, found.columns) | {"sheet": "sheet"}
    linked = replace(found, shown=shown, columns=heads)
    return with_blocks(report, lambda block: linked if block is found else block)


def _of_raters(block: TableBlock) -> bool:
    names = [row.get("rater") for row in block.rows]
    return bool(names) and None not in names and len(set(names)) == len(names)


@dataclass(frozen=True)
class _Maker:
    """Makes the sheets of a study, from one pass over it."""

    study: Study
    readings: Readings
    order: Order | None
    gold: bool
    title: str
    linked: bool

    @property
    def masks(self) -> bool:
        return self.study.kind == "segmentation"

    @property
    def crowd(self) -> bool:
        """Whether there are too many raters for a dot each: half of them are a bar."""
        return len(self.study.raters) - 1 > _DOTS

    @cached_property
    def everybody(self) -> Ints:
        """What all raters say together, by what most of the others of each say."""
        numbers = range(len(self.study.raters))
        return np.asarray(sum(self.readings.of(k).confusion for k in numbers))

    @cached_property
    def votes(self) -> Ints:
        return votes_of(self.study) if not self.masks else np.zeros((0, 0), np.int64)

    def page(self, rater: str) -> str:
        """Return the sheet of a rater."""
        number = self.study.raters.index(rater)
        own = self.readings.of(number)
        groups = np.asarray(self.study.index.groups[own.cases], str)
        whose = named(rater, "Rater")  # a number says what it is, a long name stays whole
        return filled_page(
            "report/sheet.html",
            rater=whose if whose.endswith(rater) else rater,
            title=self.title,
            linked=self.linked,
            masks=self.masks,
            two=len(self.study.raters) == 2,
            raters=len(self.study.raters),
            cases=len(self.study),
            labelled=len(np.unique(own.cases)),
            compared=int(np.isfinite(own.scores[:, -1]).sum()),
            enough=one_rater.ENOUGH,
            matrix=self._matrix(own.confusion),
            examples=self._examples(own, rater),
            legend=list(class_colours(self.readings.names).items()) if self.masks else [],
            order=self.order,
            drift=self._drift(own, rater, groups),
            gold=self._judged(number, own, groups, gold=True) if self.gold else None,
            **self._judged(number, own, groups),
        )

    def _judged(
        self, number: int, own: OneRater, groups: Array, gold: bool = False
    ) -> dict[str, Any]:
        """Return the lines of the table of classes, the last one, and classes that are mixed up.

        One class alone is the same as all. Gold cases are those with references.
        """
        scores = one_rater.class_scores(self.readings, number, own, groups, gold)
        if gold:
            counts = own.gold_confusion
            every = own.gold_confusion
        else:
            counts = own.confusion
            every = self.everybody

        names = self.readings.names
        rows = []
        kept = scores[-1:] if len(names) == 1 else scores
        low = _lowest(kept)
        for one in kept:
            row = _scored(one, self.crowd, low)
            name = row["name"] = one.name or (names[0] if len(names) == 1 else "")
            if self.masks:
                column = names.index(one.name) if one.name else len(names)
                if not gold:
                    row["size"] = _size(one_rater.size_ratio(own.sizes[:, column], groups))
                row["beside"] = one_rater.beside(counts, names.index(name) + 1) if name else None
            rows.append(row)
        most = 2 if gold else 4
        mixed = one_rater.mixed_up(counts, every, self.study.classes.names, self.masks, most)
        return {"rows": rows, "whole": rows[-1] if rows else None, "mixed": mixed}

    def _matrix(self, counts: Ints) -> list[dict[str, Any]] | None:
        """Return the shares of a table's classes by row, without rows that nobody uses."""
        names = self.study.classes.names
        if self.masks or len(names) > _MATRIX:
            return None
        rows = [
            {"name": name, "number": own.sum(), "shares": (own / own.sum()).tolist(), "at": k}
            for k, (name, own) in enumerate(zip(names, counts, strict=True))
            if own.any()
        ]
        return [{"names": names, "rows": rows}] if rows else None

    def _examples(self, own: OneRater, rater: str) -> list[dict[str, Any]]:
        if self.masks:
            return mask_examples(self.study, own, rater, one_rater.farthest(own, self.votes, 4))
        chosen = one_rater.farthest(own, self.votes, 6)
        return task_examples(self.study, own, self.votes, chosen, self.gold)

    def _drift(self, own: OneRater, rater: str, groups: Array) -> dict[str, Any] | None:
        if self.order is None:
            return None
        ids = self.study.index.ids
        when = np.array([self.order.at(ids[k], rater) for k in own.cases], np.float64)
        found = one_rater.drift(own, when, groups)
        known = np.isfinite(when)
        score = "{:.2f}".format if self.masks else percent
        charts = [_chart(found.agreement, own.scores[:, -1], self.masks, score)]
        if found.size is not None:
            charts.append(_chart(found.size, own.sizes[:, -1], True, _more, -0.999))
        ends = [self.order.shown(f(when[known])) for f in (np.min, np.max)] if known.any() else []
        return {
            "found": found,
            "charts": charts,
            "ends": ends,
            "sizes": [_percent(found.size.first), _percent(found.size.last)]
            if found.size is not None
            else [],
        }


def _lowest(scores: Sequence[one_rater.ClassScore]) -> float:
    """Return where the strips of a table begin: below the lowest score of all, at a tenth."""
    ends = [v for one in scores for v in (one.score.estimate, one.score.low, *one.others)]
    least = min((value for value in ends if np.isfinite(value)), default=0.0)
    return float(max(0.0, np.floor(10 * least - 0.5) / 10))


def _scored(one: one_rater.ClassScore, crowd: bool, low: float) -> dict[str, Any]:
    """Return a score beside those of the others; strips show them in per cent of their width."""

    def at(value: float) -> float:
        return round(100 * (min(max(value, low), 1.0) - low) / (1 - low), 2)

    score = one.score
    others = np.array(one.others)
    middle = float(np.median(others)) if others.size else None
    where = ""
    if middle is not None and score.exists:
        if score.high < middle:
            where = "below"
        elif score.low > middle:
            where = "above"
        else:
            where = "like"
    ends = np.quantile(others, [0.25, 0.75] if crowd else [0, 1]).tolist() if others.size else None
    bar = [at(score.low), at(score.high)] if score.exists else None
    strip = {
        "at": at(score.estimate),
        "bar": bar,
        "low": low,
        "band": [at(value) for value in ends] if crowd and ends else None,
        "dots": [] if crowd else [at(value) for value in one.others],
    }
    return {
        "score": score,
        "readings": one.readings,
        "middle": middle,
        "where": where,
        "range": ends,
        "half": crowd,
        "strip": strip,
    }


def _size(ratio: Interval) -> dict[str, Any] | None:
    """Return whether a rater draws more or less than the others; None where unknown."""
    if not np.isfinite(ratio.estimate):
        return None
    sure = ratio.exists and (ratio.low > 1 or ratio.high < 1)
    return {"ratio": ratio, "sure": sure and abs(ratio.estimate - 1) >= _SIZES}


def _percent(relative: float) -> float | None:
    """Return how many per cent more than the others `(v - o) / (v + o)` is."""
    return 100 * 2 * relative / (1 - relative) if relative < 1 else None


def _more(relative: float) -> str:
    more = _percent(relative)
    return "alone" if more is None else f"{more:+.0f} %".replace("-", "−")


def _chart(
    found: one_rater.Trend,
    scores: Floats,
    dots: bool,
    shown: Callable[[float], str],
    least: float = 0.0,
) -> dict[str, Any] | None:
    """Return the points of a chart (of labels: shares of about equal parts), and the line."""
    there = np.isfinite(found.place) & np.isfinite(scores)
    if not found.exists or not there.any():
        return None
    x = found.place[there]
    y = scores[there]
    order = np.argsort(x, kind="stable")
    x = x[order]
    y = y[order]
    if not dots:
        parts = np.array_split(np.arange(len(x)), min(_BINS, max(1, len(x) // 5)))
        x, y = (np.array([one[part].mean() for part in parts]) for one in (x, y))
    ends = [*y.tolist(), found.first, found.last]
    low = min(ends)
    high = max(ends)
    room = max(0.02, 0.1 * (high - low))
    low = max(low - room, least)
    high = min(high + room, 1.0)

    def up(value: float) -> float:
        return float(round(100 * (high - value) / (high - low), 2))

    both = zip(x.tolist(), y.tolist(), strict=True)
    return {
        "points": [(round(100 * a, 2), up(b)) for a, b in both],
        "line": [up(found.first), up(found.last)],
        "ends": [shown(found.first), shown(found.last)],
        "scale": [shown(low), shown(high)],
        "zero": up(0.0) if low < 0 < high else None,
    }
