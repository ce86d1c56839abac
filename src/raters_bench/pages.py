"""The pages of benchmarks in the docs, and numbers that other pages quote: made from results alone.

`python docs/make_tables.py` renews all of them; the same results give the same text. A page, or the
`finding` of a benchmark, quotes a value, a paired difference or a whole table by comments (`;`
between names):

    <!-- bench pixel-cm-table-1; usual raters; vote; dice -->92.4 ± 0.2<!-- /bench -->
    <!-- bench pixel-cm-table-1; usual raters; pixel-cm; dice; difference -->...<!-- /bench -->
    <!-- bench-table pixel-cm-table-1; usual raters -->...<!-- /bench-table -->
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path

from raters.comparison.scores import SCORES, columns
from raters.core.errors import RatersError
from raters.core.wording import duration, expected_one_of, many
from raters.io.rows import Row, to_markdown
from raters_bench.blocks import difference_cell, seeds_words, value_words
from raters_bench.claims import refuse_checks
from raters_bench.data import needed
from raters_bench.results import Collected, Summary, collect, largest_scale, rank_correlations
from raters_bench.spec import Specification, builtin, merged, read_spec
from raters_bench.table import blocks, claim_rows, differences_block, to_markdown_page, values_block

MADE = "<!-- Made by docs/make_tables.py from the results beside this page. -->"
QUOTE = re.compile(r"(<!-- bench ([a-z0-9][^\n>]*?) -->).*?(<!-- /bench -->)", re.DOTALL)
QUOTED_TABLE = re.compile(
    r"(<!-- bench-table ([a-z0-9][^\n>]*?) -->).*?(<!-- /bench-table -->)", re.DOTALL
)
_MARKUP = re.compile(r"<!--.*?-->|\s*\(\[[^]]*\]\([^)]*\)\)|;\s*\[[^]]*\]\([^)]*\)|\*\*|`")
INDEX = "index.md"
Reader = Callable[[str], Collected]
_LEAST = 3  # rows that a rank correlation of the index needs


def shown_benchmarks() -> list[str]:
    """Return the benchmarks that have a page: not those that lend cells and find nothing."""
    specs = {name: read_spec(name) for name in builtin()}
    lenders = {spec.cells for spec in specs.values()}
    return sorted((n for n in specs if n not in lenders or specs[n].finding), key=_by_number)


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a key that puts figure 3 before figure 11."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def committed(name: str, folder: Path) -> Collected:
    """Collect the results of a benchmark for its page, of the largest scale that has some.

    Raises:
        RatersError: There are none, or one was edited or is of another version.
    """
    spec = read_spec(name)
    refuse_checks(spec)
    found = collect(spec, largest_scale(spec, folder), folder)
    for problem in found.problems:
        raise RatersError(problem)
    return found


def reader(folder: Path) -> Reader:
    """Return `committed` of a folder that reads each benchmark once, however often it is quoted."""
    return cache(partial(committed, folder=folder))


def all_committed(read: Reader) -> dict[str, Collected | None]:
    """Collect the results of all benchmarks that have a page; None of those without results."""
    found: dict[str, Collected | None] = {}
    for name in shown_benchmarks():
        try:
            found[name] = read(name)
        except RatersError as error:
            if error.kind != "no-results":
                raise
            found[name] = None
    return found


def pages(read: Reader) -> dict[str, str]:
    """Return the text of all pages by the name of their file."""
    found = all_committed(read)
    made = {INDEX: index_page(found)}
    told = {f"{name}.md": page(one) for name, one in found.items() if one is not None}
    return made | {file: quoted(text, read) for file, text in told.items()}


def page(found: Collected) -> str:
    """Return the page of a benchmark."""
    spec = found.spec
    parts = [
        f"# {spec.title}\n{MADE}",
        f"Repeats: {spec.paper}." if spec.paper else "",
        _paragraph(spec.about),
        "## How it was run",
        _how(found),
        "## Results",
        f"![{spec.title}: each seed, the mean and what was published]({spec.name}.png)",
        to_markdown_page(blocks(found)).strip(),
        *(_claims(found)),
        "## What was found" if spec.finding else "",
        _paragraph(spec.finding),
        "## Run it again",
        f"```text\n{command(found)}\nraters bench table {spec.name} -o results\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain_finding(found: Collected) -> str:
    """Return what was found without Markdown; '' if these results lack a number that it quotes."""
    spec = found.spec
    folder = found.folder
    try:
        text = quoted(spec.finding, lambda n: found if n == spec.name else committed(n, folder))
    except RatersError:
        return ""
    return _paragraph(_MARKUP.sub("", text)) if found.comparable else ""


def _paragraph(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def _how(found: Collected) -> str:
    spec = found.spec
    size = found.spec.scale(found.scale)
    seeds = ", ".join(map(str, size.seeds))
    lines = [
        f"Scale `{found.scale}`, seeds {seeds}; {found.num_done:,} of "
        f"{many(found.num_wanted, 'cell')} have a result.",
        f"All cells together took {duration(found.seconds)}, each on one core, and at most "
        f"{found.memory:,.0f} MB.",
        "Versions: " + "; ".join(f"{k} {', '.join(v)}" for k, v in found.versions.items()) + ".",
    ]
    if spec.cells:
        lines.append(f"The cells are those of `{spec.cells}`, which other pages show, too.")
    if spec.chosen:
        lines.append(f"Options were chosen so: {_paragraph(spec.chosen)}")
    left = [name for name in spec.settings if name not in found.settings]
    if left:
        lines.append(f"Settings that are not run at this scale: {'; '.join(left)}.")
    return "\n".join(f"- {line}" for line in lines)


def command(found: Collected) -> str:
    """Return the command that repeats a benchmark."""
    spec = found.spec
    parts = [merged(spec, setting, found.scale)["data"] for setting in found.settings]
    data = " --data DATA_SETS" if needed(parts) else ""
    return f"raters bench run {spec.name} --scale {found.scale}{data} -o results"


def _claims(found: Collected) -> list[str]:
    rows = claim_rows(found)
    if not rows:
        return []
    lines = [[row["claim"], row["answer"], "<br>".join(map(_check, row["checks"]))] for row in rows]
    table = to_markdown(["claim", "holds here", "by"], lines)
    return ["## What the text claims", table.strip(), CLAIMS_NOTE]


def _check(row: Row) -> str:
    """Return a check with its answer; what Markdown would take for a tag is written out."""
    text = row["check"].replace("<", "&lt;").replace(">", "&gt;")
    return f"{text}: {row['answer']}" + (f" ({row['why']})" if row["why"] else "")


CLAIMS_NOTE = (
    "'Yes' and 'no': the 95 % interval of the paired difference over seeds is on that side; "
    "'unclear': it is on both, there is one seed, or a part was not run."
)


def index_page(found: Mapping[str, Collected | None]) -> str:
    """Return the page that lists all benchmarks in a line each."""
    lines = [
        _index_line(read_spec(name) if one is None else one.spec, one)
        for name, one in found.items()
    ]
    header = ["benchmark", "repeats", "scale", "cells", "rank correlation", "claims"]
    about = (
        "Tables and figures of papers, run again with `raters bench`: [how to run, read and add "
        "them](../benchmarks.md). The rank correlation is Spearman's, between the published and "
        "our order of methods by the first score, for each setting with three or more of them; "
        "claims are what the text of a paper says, answered by our results."
    )
    return f"# Benchmarks\n{MADE}\n\n{about}\n\n{to_markdown(header, lines)}"


def _index_line(spec: Specification, found: Collected | None) -> list[str]:
    if found is None:
        left = f"{len(spec.claims)} to answer" if spec.claims else ""
        return [spec.title, spec.paper, "", "not run yet", "", left]
    return [
        f"[{spec.title}]({spec.name}.md)",
        spec.paper,
        found.scale,
        f"{found.num_done:,} of {found.num_wanted:,}",
        "; ".join(_ranks(found)),
        ", ".join(_counted(row["answer"] for row in claim_rows(found))),
    ]


def _ranks(found: Collected) -> list[str]:
    first = found.spec.scores[0]
    return [
        f"{one.setting}: {one.rho:.2f}" if one.setting else f"{one.rho:.2f}"
        for one in rank_correlations(found)
        if one.score == first and one.rho is not None and one.rows >= _LEAST
    ]


def _counted(answers: Iterable[str]) -> list[str]:
    counts = Counter(answers)
    order = ("yes", "no", "unclear", "not run", "not checked")
    return [f"{counts[answer]} {answer}" for answer in order if counts[answer]]


# Quotes in other pages.


def quoted(text: str, read: Reader) -> str:
    """Return a page with all that it quotes of benchmarks up to date.

    Args:
        text: The page.
        read: Returns the results of a benchmark, as `reader` of their folder does.

    Raises:
        RatersError: A quote names what there is not, or what has no result.
    """
    text = QUOTE.sub(lambda m: f"{m[1]}{_value(m[2], read)}{m[3]}", text)
    return QUOTED_TABLE.sub(lambda m: f"{m[1]}\n\n{_table(m[2], read)}\n{m[3]}", text)


def _value(names: str, read: Reader) -> str:
    name, *words = _words(names)
    kind = words.pop() if words and words[-1] in ("mean", "difference", "seeds") else "value"
    found = read(name)
    if len(words) == 2 and len(found.spec.settings) == 1:
        words.insert(0, next(iter(found.spec.settings)))
    if len(words) != 3:
        raise _wrong(names, "found too few or too many names, expected NAME; SETTING; ROW; SCORE")
    setting, row, score = words
    _refuse(names, "setting", setting, found.spec.settings)
    _refuse(names, "row", row, found.spec.rows)
    _refuse(names, "score", score, SCORES)
    text = _quote(found, setting, row, score, kind)
    if not text:
        raise _wrong(names, f"found no result ({found.why.get((setting, row), 'no such score')})")
    return text


def _quote(found: Collected, setting: str, row: str, score: str, kind: str) -> str:
    if kind == "difference":
        return difference_cell(found.difference(setting, row, score), score)
    one = found.summary(setting, row, score)
    if one is None:
        return ""
    if kind == "seeds":
        return seeds_words(one.n, one.n)
    return value_words(Summary(one.mean, None, 1) if kind == "mean" else one, score)


def _table(names: str, read: Reader) -> str:
    name, *words = _words(names)
    kind = words.pop() if words and words[-1] == "differences" else "values"
    found = read(name)
    setting = words[0] if words else next(iter(found.spec.settings))
    _refuse(names, "setting", setting, found.settings)
    make = differences_block if kind == "differences" else values_block
    block = make(found, setting, columns(found.spec.scores))
    if block is None or len(words) > 1:
        raise _wrong(names, "found nothing to show, expected NAME; SETTING")
    return to_markdown(block.header, block.lines)


def _words(names: str) -> list[str]:
    return [part.strip() for part in names.split(";")]


def _refuse(names: str, what: str, found: str, known: Iterable[str]) -> None:
    listed = list(known)
    if found not in listed:
        raise _wrong(names, f"found the {what} {found!r}, {expected_one_of(listed, found)}")


def _wrong(names: str, message: str) -> RatersError:
    return RatersError(f"the quote 'bench {names}': {message}", kind="quote")
