"""The table of a benchmark as an HTML page whose first screen says what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from raters.comparison.scores import SCORES
from raters.io.rows import Row
from raters.learning.methods.registry import METHODS
from raters.views.report.blocks import Block as Shown
from raters.views.report.blocks import First, Matrix, Number, Report, Section, TableBlock, TextBlock
from raters.views.report.page import render
from raters.views.texts.say import plain
from raters_bench.blocks import Block, difference_cell, value_words
from raters_bench.pages import plain_finding
from raters_bench.results import Collected, Summary, paired
from raters_bench.say import say
from raters_bench.table import blocks, claim_blocks, claim_rows

_MOST_COLUMNS = 6
_MOST_ROWS = 8
_FEW_SETTINGS = 2  # whose best rows are named one by one


def to_html(title: str, made: Sequence[Block], first: First | None = None) -> str:
    """Return blocks as one HTML page that fetches nothing; one without a header is notes alone.

    Example:
        >>> page = to_html("a < b", [Block("", ["row"], [["<i>"]])])
        >>> "<td>&lt;i&gt;</td>" in page and "<title>a &lt; b</title>" in page
        True
    """
    sections = []
    for number, block in enumerate(made, 1):
        keys = [str(k) for k in range(len(block.header))]  # heads may be the same
        rows = [dict(zip(keys, line, strict=True)) for line in block.lines]
        heads = dict(zip(keys, block.header, strict=True))
        shown: list[Shown] = [TableBlock(f"table-{number}", rows, "", heads)] if keys else []
        shown += [TextBlock(note, "note" if keys else "plain") for note in block.notes]
        sections.append(Section(block.title or "Table", blocks=shown))
    return render(Report(title, {}, sections, first=first))


def bench_page(found: Collected, title: str) -> str:
    """Return the page of a benchmark."""
    about = found.spec.about.replace("`", "")  # code of Markdown
    texts = {"What was found": plain_finding(found), "What was compared": about}
    told = [Block(head, [], [], (text,)) for head, text in texts.items() if text]
    made = [*told, *blocks(found), *claim_blocks(found)]
    return to_html(title, made, first_screen(found) if found.num_done else None)


def first_screen(found: Collected) -> First:
    """Return what a benchmark found: the best row by setting, claims that hold, and all means."""
    score = found.spec.scores[0]
    claims = claim_rows(found)
    bests = []
    for setting in found.settings:
        best = _best(found, score, setting)
        if best:
            bests.append(best)
    often = Counter(best["row"] for best in bests).most_common(3) if bests[_FEW_SETTINGS:] else []
    numbers = []
    for best in bests[:1] if often else bests:
        of = {"best": best, "bests": bests, "often": often}
        name, value, about = (plain(say(f"bench_{k}", **of)) for k in ("title", "value", "about"))
        numbers.append(Number(name, value, about=about))
    if claims:
        holding = sum(row["answer"] == "yes" for row in claims)
        numbers.append(Number("claims that hold here", f"{holding} of {len(claims)}"))
    numbers.append(Number("cells with a result", f"{found.num_done:,} of {found.num_wanted:,}"))
    actions = [
        say("bench_best", bests=bests, often=often),
        say("bench_claims", claims=claims, comparable=found.comparable),
        say("bench_next", name=found.spec.name, left=found.num_wanted - found.num_done),
    ]
    return First(numbers, _matrix(found, score, [best["row"] for best in bests]), (), actions)


def _ranked(found: Collected, score: str, setting: str) -> list[tuple[Summary, str]]:
    """Return the means of a setting with the names of their rows, the best first."""
    rows = found.rows_of(setting)
    known = []
    for row in rows:
        summary = found.summary(setting, row, score)
        if summary:
            known.append((summary, row))
    return sorted(known, key=lambda item: item[0].mean, reverse=SCORES[score].higher)


def _choices(found: Collected, score: str, setting: str) -> list[tuple[Summary, str]]:
    """Return what can be best: no row that needs the truth, or has fewer seeds than the baseline.

    The mean of few seeds may be that of easy ones. If no other row has as many, all count.
    """
    base = found.spec.baseline
    rows = found.spec.rows
    usable = [name for name, method in METHODS.items() if method.needs != "references"]
    known = [one for one in _ranked(found, score, setting) if rows[one[1]].method in usable]
    least = max((one.n for one, row in known if row == base), default=1)
    enough = [(one, row) for one, row in known if one.n >= least]
    return enough if any(row != base for _, row in enough) else known


def _best(found: Collected, score: str, setting: str) -> Row | None:
    """Return the best row of a setting, rows level with it, and all rows at the best cut."""
    ranked = _choices(found, score, setting)
    if not ranked:
        return None
    one, row = ranked[0]
    cut = next(iter(SCORES[score].cuts), score)
    at_cut = {name: value_words(own, cut) for own, name in _choices(found, cut, setting)}
    return {
        "row": row,
        "setting": setting,
        "seeds": one.n,
        "baseline": found.spec.baseline,
        "than": difference_cell(found.difference(setting, row, score), score),
        "score": SCORES[score].title.replace(", at", " at"),
        "value": value_words(one, score),
        "cut": SCORES[cut].title if cut != score and row in at_cut else "",
        "at_cut": at_cut,
        "ties": [
            other[1] for other in ranked[1:] if _tied(found, score, setting, ranked[0], other)
        ],
    }


def _tied(found: Collected, score: str, setting: str, *two: tuple[Summary, str]) -> bool:
    """Return whether two rows are about level: less than half a point apart, or by the interval."""
    close = abs(two[0][0].mean - two[1][0].mean) < 5 * 10.0 ** -SCORES[score].digits
    more = paired(*(found.by_seed(setting, row, score) for _, row in two))
    if close or more is None or more.low is None or more.high is None:
        return close
    return more.low <= 0 <= more.high


def _matrix(found: Collected, score: str, bests: Sequence[str]) -> Matrix | None:
    """Return the best rows and the baseline by setting; of one setting, at all cuts."""
    settings = list(found.settings)[:_MOST_COLUMNS]
    places = [(setting, score) for setting in settings]
    heads = settings
    if len(settings) == 1:
        places += [(settings[0], cut) for cut in SCORES[score].cuts]
        heads = [SCORES[one].title for _, one in places]
    rows = list(dict.fromkeys(row for s in settings for _, row in _ranked(found, score, s)))
    if not rows:
        return None
    kept = (found.spec.baseline, *bests)
    shown = [row for k, row in enumerate(rows) if k < _MOST_ROWS or row in kept]
    cells = [[found.summary(setting, row, one) for setting, one in places] for row in shown]
    values = [[None if one is None else float(one.mean) for one in line] for line in cells]
    seeds = [say("bench_seeds", counts={one.n for one in line if one}) for line in cells]
    seeds = seeds if len(set(seeds)) > 1 else []
    of = {"shown": len(shown), "rows": len(rows), "settings": found.settings, "seeds": seeds}
    about = plain(say("bench_matrix", most=_MOST_COLUMNS, **of))
    digits = SCORES[score].digits
    return Matrix(SCORES[score].title, shown, heads, values, about, digits=digits, notes=seeds)
