"""Sentences under the figures of a study: what they show and what to do about it.

All of them are computed from the numbers that the figure shows; names are plain text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from raters.arrays import Floats
from raters.report.blocks import Section, TextBlock
from raters.rows import Row
from raters.study.study import many

NOTABLE = 0.1
"""Volumes that differ by less than this from those of the others are not worth a word."""
_NAMED = 3
_OWN_WORDS = ("rater ", "class ", "case ", "task ", "all raters")
_LONGEST = 40
_MOST_NOTES = 8
_STRONG = 0.3
_APART = 0.05
_EQUAL = 0.02
_RELIABLE, _DOUBTFUL = 0.8, 0.667


def percent(share: float) -> str:
    """Return a share in per cent.

    Example:
        >>> percent(0.253), percent(0.004), percent(0)
        ('25 %', '0.4 %', '0 %')
    """
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.0f} %"


def named(name: object, what: str = "rater") -> str:
    """Return a name that fits into a sentence; a number says what it is the name of.

    Example:
        >>> named("ann"), named("7"), named("3", "class")
        ('ann', 'rater 7', 'class 3')
    """
    text = " ".join(str(name).split()) or "(no name)"
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{what} {text}" if re.fullmatch(r"[\d.,-]+", text) else text


def between(low: float, high: float) -> str:
    """Return two numbers, or one where they are written alike.

    Example:
        >>> between(0.871, 0.889), between(0.999, 1.0)
        ('0.87 to 0.89', '1.00')
    """
    ends = f"{low:.2f}", f"{high:.2f}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def begin(text: str) -> str:
    """Begin a sentence with a capital, unless it begins with a name.

    Example:
        >>> begin("rater 7 draws less."), begin("ann draws less.")
        ('Rater 7 draws less.', 'ann draws less.')
    """
    return text[0].upper() + text[1:] if text.startswith(_OWN_WORDS) else text


def together(parts: Sequence[str], most: int = _NAMED) -> str:
    """List parts of a sentence; only the first ones if there are many.

    Example:
        >>> together(["a"]), together(["a", "b", "c"]), together(["a", "b", "c", "d", "e"])
        ('a', 'a, b and c', 'a, b, c and 2 more')
    """
    if len(parts) > most + 1:
        parts = [*parts[:most], f"{len(parts) - most} more"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def only_most(names: Sequence[str], raters: Sequence[str], what: str) -> str:
    """Return that a figure shows only the raters with most cases (or labels), if it does."""
    few = f" Shown are the {len(names)} of {len(raters):,} raters with most {what}."
    return few if len(names) < len(raters) else ""


def typical_ratios(relative: Floats, raters: Sequence[str]) -> dict[str, float]:
    """Return by rater the median of `volume / mean volume of the others`, from relative volumes.

    Args:
        relative: `(v - o) / (v + o)` by case and rater, as `relative_volumes` gives it.
        raters: Names of the raters.

    Example:
        >>> typical_ratios(np.array([[1 / 3, -1.0], [1 / 3, 0.0]]), ["ann", "bob"])
        {'ann': 2.0, 'bob': 0.33}
    """
    found = {}
    for name, column in zip(raters, relative.T, strict=True):
        known = column[np.isfinite(column)]
        if known.size:
            middle = float(np.median(known))
            found[name] = math.inf if middle >= 1 else round((1 + middle) / (1 - middle), 2)
    return found


def volumes_sentence(ratios: Mapping[str, float]) -> str:
    """Report who draws more and who less than the others.

    Example:
        >>> volumes_sentence({"ann": 1.02, "bob": 1.01, "hasty": 0.75})
        'In the typical case hasty draws 25 % less than the others. Review the guideline with \
these raters on example cases before their labels are taken as true.'
    """
    more = sorted((r for r in ratios if ratios[r] > 1 + NOTABLE), key=lambda r: -ratios[r])
    less = sorted((r for r in ratios if ratios[r] < 1 - NOTABLE), key=lambda r: ratios[r])
    if not more and not less:
        return (
            "In the typical case no rater draws 10 % more or less than others: sizes are alike, "
            "which says nothing of where they are."
        )
    advice = (
        "Review the guideline with these raters on example cases before their labels are taken "
        "as true."
    )
    if len(ratios) == 2 and more:
        other = next(r for r in ratios if r != more[0])
        much = f"{named(more[0])} draws {_more(ratios[more[0]])} than {named(other)}"
        return f"In the typical case {much}. {advice}"
    parts = []
    if more:
        parts.append(
            together([f"{named(r)} draws {_more(ratios[r])}" for r in more]) + " than the others"
        )
    if less:
        words = [f"{named(r)} draws {percent(1 - ratios[r])} less" for r in less]
        parts.append(together(words) + ("" if more else " than the others"))
    return f"In the typical case {', and '.join(parts)}. {advice}"


def spread_sentence(volumes: Floats) -> str:
    """Report how far sizes differ within a case, where raters are anonymous.

    Args:
        volumes: `(cases, raters)`; NaN where unknown.

    Example:
        >>> spread_sentence(np.array([[10.0, 20.0], [10.0, 12.0], [8.0, 8.0]]))
        'Raters are anonymous, so no names are given. In the typical case the largest mask is 1.2 \
times the smallest.'
    """
    begun = "Raters are anonymous, so no names are given."
    several = np.isfinite(volumes).sum(axis=1) > 1
    if not several.any():
        return f"{begun} No case was labelled wholly by two raters."
    low, high = np.nanmin(volumes[several], axis=1), np.nanmax(volumes[several], axis=1)
    empty = int(((low == 0) & (high > 0)).sum())
    text = f"{begun} "
    if (low > 0).any():
        ratio = float(np.median(high[low > 0] / low[low > 0]))
        drawn = " of those that all drew on" if empty else ""
        text += f"In the typical case{drawn} the largest mask is {ratio:.1f} times the smallest."
    if empty:
        text += (
            f" On {empty:,} of {int(several.sum()):,} cases a rater drew nothing where others did."
        )
    return text.strip()


def _more(ratio: float) -> str:
    if math.isinf(ratio):
        return "where no other rater does, more"
    return f"{ratio:.1f} times as much, more" if ratio >= 3 else f"{percent(ratio - 1)} more"


def pairs_sentence(pairs: Sequence[Row], raters: Sequence[Row]) -> str:
    """Return which pair agrees least and most, and whether one rater stands apart.

    Args:
        pairs: Rows of `Agreement.pairs` over all classes.
        raters: Rows of `Agreement.raters` over all classes.
    """
    known = sorted((p for p in pairs if p["dice"] is not None), key=lambda p: float(p["dice"]))
    if not known:
        return "No two raters labelled the same: there is nothing to compare."
    low, high = known[0]["dice"], known[-1]["dice"]
    least, most = couple(known[0]), couple(known[-1])
    over = f"over {many(known[0]['cases'], 'case')}"
    if len(known) == 1:
        return begin(f"{least} reach a Dice of {low:.2f} {over}.")
    if high - low < _EQUAL:
        return (
            f"All pairs agree about equally (Dice {low:.2f} to {high:.2f}): no rater stands apart."
        )
    text = begin(f"{least} agree least (Dice {low:.2f} {over}), {most} most ({high:.2f}).")
    apart = standing_apart(raters)
    if apart is None:
        return f"{text} Ask {least} to review the disputed cases together."
    name, own, next_best = apart
    return (
        f"{text} {begin(named(name))} stands apart: {own:.2f} against the vote of the others, "
        f"where everybody else has {next_best:.2f} or more. Look at these cases first."
    )


def couple(pair: Row) -> str:
    """Return the names of a pair of raters."""
    return f"{named(pair['rater_a'])} and {named(pair['rater_b'])}"


def standing_apart(raters: Sequence[Row]) -> tuple[str, float, float] | None:
    """Return the one rater who agrees clearly less with the rest than all others do, if any.

    Example:
        >>> rows = [{"rater": n, "dice_rest": d} for n, d in (("a", 0.9), ("b", 0.88), ("c", 0.5))]
        >>> standing_apart(rows)
        ('c', 0.5, 0.88)
    """
    known = [(float(r["dice_rest"]), str(r["rater"])) for r in raters if r["dice_rest"] is not None]
    known.sort()
    if len(known) < 3 or known[1][0] - known[0][0] < _APART:
        return None
    return known[0][1], known[0][0], known[1][0]


def cases_sentence(cases: Sequence[Row]) -> str:
    """Return which cases to look at first, from rows with the most disputed first."""
    known = [row for row in cases if row["dice"] is not None]
    if not known:
        return "No case was drawn on by two raters: no case can be called disputed."
    if len(cases) == 1:
        return f"The mean pairwise Dice of the only case is {known[0]['dice']:.2f}."
    first = [f"{named(row['case'], 'case')} (Dice {row['dice']:.2f})" for row in known[:_NAMED]]
    text = f"Look first at {together(first)}: raters differ most there."
    low = sum(row["dice"] < 0.5 for row in known)
    if low and len(known) > _NAMED:
        text += (
            f" On {low:,} of {len(known):,} cases ({percent(low / len(known))}) the mean pairwise "
            "Dice is below 0.5: ask for another opinion on those."
        )
    return text


def size_sentence(sizes: Floats, dice: Floats) -> str:
    """Return whether agreement depends on the size of what is drawn."""
    from scipy.stats import spearmanr

    both = np.isfinite(sizes) & np.isfinite(dice)
    if both.sum() < 8 or np.ptp(sizes[both]) == 0 or np.ptp(dice[both]) == 0:
        return "Each dot is a case; there are too few to say whether size matters."
    rank = float(spearmanr(sizes[both], dice[both]).statistic)
    shown = f"(rank correlation {rank:.2f})"
    if rank > _STRONG:
        return (
            f"Raters agree better where more is drawn {shown}. Dice does so by itself: one pixel "
            "of border is a larger part of a small region. So small ones need not be harder."
        )
    if rank < -_STRONG:
        return (
            f"Raters agree less where more is drawn {shown}, although Dice is kinder to large "
            "regions: look at the large cases."
        )
    return (
        f"Agreement hardly depends on size {shown}: what makes a case hard is something else, "
        "which the most disputed ones below may show."
    )


def coverage_sentence(raters: Sequence[Row], cases: int, alone: int) -> str:
    """Report who labelled how much.

    Args:
        raters: Rows with `rater` and `cases`.
        cases: How many cases there are.
        alone: How many have fewer than two raters.
    """
    few = sorted((int(row["cases"]), str(row["rater"])) for row in raters)
    if few and few[0][0] == cases:
        return "Every rater labelled every case."
    words = [f"{named(rater)}: {number:,}" for number, rater in few if number < cases / 2]
    text = f"Every rater labelled at least half of the {cases:,} cases."
    if words:
        text = (
            f"Some labelled less than half of the {cases:,} cases ({together(words)}): their "
            "numbers are based on few cases."
        )
    if alone:
        text += f" {many(alone, 'case')} with fewer than two raters: ask for a second opinion."
    return text


def alpha_sentence(alpha: float | None) -> str:
    """Return what Krippendorff's alpha means, by his own rule of thumb."""
    if alpha is None:
        return "There is no chance-corrected agreement: all labels are the same, or none compare."
    verdict = (
        "reliable"
        if alpha >= _RELIABLE
        else "good enough for tentative conclusions only"
        if alpha >= _DOUBTFUL
        else "not reliable as they are: fuse them, and let experts settle the disputed ones"
    )
    return (
        f"Krippendorff's alpha is {alpha:.2f} (1 is perfect, 0 is chance): by his rule of thumb "
        f"the labels are {verdict}."
    )


def short_section(findings: Sequence[str], *more: TextBlock | None) -> Section:
    """Return the findings as one section.

    Example:
        >>> [block.text for block in short_section(["Ann draws less.", ""], None).blocks]
        ['Ann draws less.']
    """
    text = "\n\n".join(" ".join(one.split()) for one in findings if one)
    blocks = [TextBlock(text)] if text else []
    return Section("In short", "", [*blocks, *(block for block in more if block is not None)])


def notes_block(notes: Sequence[str]) -> TextBlock | None:
    """Return notes as a block; None without any."""
    kept = [_sentence(note) for note in dict.fromkeys(notes)]
    if len(kept) > _MOST_NOTES:
        kept = [*kept[:_MOST_NOTES], f"And {len(kept) - _MOST_NOTES:,} more notes."]
    return TextBlock("\n\n".join(kept), "note") if kept else None


def _sentence(note: str) -> str:
    text = " ".join(note.split())
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
