"""Warnings of what is read without an error and is likely wrong all the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from raters.core.errors import RatersError
from raters.core.wording import many
from raters.study import layout_names
from raters.study.check_report import CheckReport, Problem
from raters.study.layouts import MOST_LEVELS
from raters.study.pattern import Pattern, is_pattern
from raters.study.plain_folder import files_below, guess_folder
from raters.study.study import Study
from raters.study.triplets import Triplets

_FEWEST_SWAPPED = 6  # raters
_FEWEST_ANSWERS = 20
_FEWEST_LABELLED = 10  # cases
_FEWEST_MASKS = 3
_ALWAYS = 0.98
_CHANCE = 1e-6
_RARE_BACKGROUND = 0.1
_USUAL_BACKGROUND = 0.5
_PARTS = re.compile(r"(\{[^{}]*\}|\*)")


def layout_hints(study: Study, report: CheckReport, shared: bool) -> Iterator[Problem]:
    """Warn of a pattern that swaps raters and cases, or misses files that nearly match."""
    source = next((text for text in study.sources[:1] if is_pattern(text)), None)
    if source is None or study.kind != "segmentation":
        return
    raters = [rater for rater, cases in report.raters.items() if cases]
    if _looks_swapped(raters, study):
        swapped = source.replace("{rater}", "{}").replace("{case}", "{rater}")
        swapped = swapped.replace("{}", "{case}")
        counted = f"{many(len(raters), 'rater')}, {many(len(study), 'case')}"
        message = f"{counted}: swapped? {{rater}} and {{case}} may be meant as in {swapped!r}"
        yield Problem("warning", "swapped", message)
    elif len(raters) > 1 and not shared:
        other = _other_pattern(source)
        if other is not None:
            message = f"no two raters share a case in {source!r}, but they do in {other!r}"
            yield Problem("warning", "pattern", message)
    yield from _near_misses(source, study.sources)


def _looks_swapped(raters: Sequence[str], study: Study) -> bool:
    """Return whether raters are many, named as cases are, and cases few."""
    cases = [str(name) for name in study.index.ids]
    if len(raters) < max(_FEWEST_SWAPPED, 2 * len(cases)) or len(cases) < 2:
        return False
    # However many they are, names of raters may look like names of raters.
    as_raters = layout_names.rater_likeness(raters[: layout_names.MOST_RATERS])
    like_cases = layout_names.case_likeness(raters) > as_raters
    return like_cases and layout_names.rater_likeness(cases) > as_raters


def _other_pattern(source: str) -> str | None:
    """Return the pattern that the names of the files suggest, if it is another one."""
    pattern = Pattern(source)
    try:
        guess = guess_folder(pattern.root, {})
    except RatersError:
        return None
    if guess is None or Path(guess.arguments["source"]) == Path(source):
        return None
    return str(guess.arguments["source"])


def _near_misses(source: str, sources: Sequence[str]) -> Iterator[Problem]:
    """Name files that differ from the pattern in upper and lower case or separators only."""
    pattern = Pattern(source)
    if len(pattern.levels) > MOST_LEVELS + 1:
        return
    taken = [Pattern(text) for text in sources if is_pattern(text)]
    near = re.compile(_loose("/".join(pattern.levels)), re.IGNORECASE)
    missed: dict[str, list[tuple[str, re.Match[str]]]] = defaultdict(list)
    for path in files_below(pattern.root):
        whole = str(pattern.root / path)
        match = near.fullmatch(path)
        if match is None or any(_takes(other, whole) for other in taken):
            continue
        missed[path.rpartition("/")[0]].append((path, match))
    for folder, found in missed.items():
        path, match = found[0]
        other = _wider(source, pattern, match, [name for name, _ in found])
        hint = "" if other is None else f"; {other!r} reads them too"
        yield Problem(
            "warning",
            "near-match",
            f"{many(len(found), 'file')} nearly match the pattern and were not read, such as "
            f"{path.rpartition('/')[2]!r} (expected names like {pattern.levels[-1]!r}){hint}",
            str(pattern.root / folder),
        )


def _takes(pattern: Pattern, path: str) -> bool:
    try:
        relative = Path(path).relative_to(pattern.root).as_posix()
    except ValueError:
        return False
    return pattern.match(relative) is not None


def _loose(text: str) -> str:
    """Write a regular expression in which separators are any; each literal part is a group."""
    parts = []
    for part in _PARTS.split(text):
        if _PARTS.fullmatch(part):
            parts.append("[^/]+" if part.startswith("{") else "[^/]*")
        elif part:
            loose = re.sub(r"(\\?[-_ ])+", "[-_ ]?", re.escape(part))
            parts.append(f"({loose})")
    return "".join(parts)


def _wider(
    source: str, pattern: Pattern, match: re.Match[str], missed: Sequence[str]
) -> str | None:
    """Return the pattern with `*` where the names differ, if it reads all files once."""
    literals = iter(match.groups())
    parts = []
    for part in _PARTS.split("/".join(pattern.levels)):
        if not part or _PARTS.fullmatch(part):
            parts.append(part)
        else:
            parts.append(_blurred(part, next(literals)))
    root = source[: len(source) - len("/".join(pattern.levels))]
    wider = root + re.sub(r"\*+", "*", "".join(parts))
    other = Pattern(wider)
    if any(other.match(path) is None for path in missed):
        return None
    seen = set()
    for found in other.walk([]):
        key = tuple(sorted(found.fields.items()))
        if key in seen:
            return None
        seen.add(key)
    return wider


def _blurred(expected: str, found: str) -> str:
    """Put `*` where two texts differ."""
    if len(expected) != len(found):
        return "*"
    return "".join(a if a == b else "*" for a, b in zip(expected, found, strict=True))


def inverted_hints(report: CheckReport) -> Iterator[Problem]:
    """Warn of masks of two values in which the background is the rare one."""
    classes = report.classes
    if classes is None or len(classes) != 2:
        return
    shares: dict[str, float] = {}
    for rater, counts in report.counts.items():
        if sum(counts) and report.raters[rater] >= _FEWEST_MASKS:
            shares[rater] = counts[0] / sum(counts)
    low = [rater for rater, share in shares.items() if share < _RARE_BACKGROUND]
    first, second = (one.value for one in classes)
    cure = f"--values {second}=background,{first}=object"
    if low and len(low) == len(shares):
        share = float(np.mean(list(shares.values())))
        message = (
            f"the background (value {first}) is the rare value, {share:.2%} of all pixels: are the "
            f"masks inverted? ({cure})"
        )
        yield Problem("warning", "inverted", message)
        return
    others = [share for rater, share in shares.items() if rater not in low]
    if low and min(others) > _USUAL_BACKGROUND:
        for rater in low:
            message = (
                f"the background (value {first}) is {shares[rater]:.2%} of this rater's pixels, "
                f"and {min(others):.0%} or more of the others': are these masks inverted?"
            )
            yield Problem("warning", "inverted", message, rater=rater)


def constant_hints(triplets: Triplets) -> Iterator[Problem]:
    """Warn of raters who always say the same of tasks of which others say different things."""
    raters = len(triplets.raters)
    classes = len(triplets.values)
    counts = np.zeros((raters, classes), np.int64)
    np.add.at(counts, (triplets.rater, triplets.label), 1)
    answers = counts.sum(1)
    usual = counts.argmax(1)
    most = counts.max(1, initial=0)
    odd = (answers >= _FEWEST_ANSWERS) & (most >= _ALWAYS * answers)
    for rater in np.flatnonzero(odd):
        share = _share_of_others(triplets, int(rater), int(usual[rater]))
        if share is None or most[rater] * np.log(max(share, 1e-12)) > np.log(_CHANCE):
            continue
        value = triplets.values[usual[rater]]
        message = (
            f"said {str(value)!r} in {most[rater]:,} of {many(int(answers[rater]), 'label')}, "
            f"where the others say it of the same tasks in {share:.0%}: always the same?"
        )
        yield Problem("warning", "constant-rater", message, rater=triplets.raters[rater])


def _share_of_others(triplets: Triplets, rater: int, label: int) -> float | None:
    """Return how often others say a label of the tasks of one rater; None without others."""
    tasks = np.zeros(len(triplets.tasks), bool)
    tasks[triplets.task[triplets.rater == rater]] = True
    others = tasks[triplets.task] & (triplets.rater != rater)
    if not others.any():
        return None
    return float((triplets.label[others] == label).mean())


def alone_hints(cases_by_raters: Mapping[int, int], shared: bool) -> Iterator[Problem]:
    """Warn where most cases have labels by a single rater, so that few tell of agreement."""
    labelled = sum(count for raters, count in cases_by_raters.items() if raters)
    alone = cases_by_raters.get(1, 0)
    if shared and labelled >= _FEWEST_LABELLED and alone > 0.5 * labelled:
        message = (
            f"{alone:,} of {many(labelled, 'labelled case')} have labels by one rater only: "
            "agreement and trust rest on the others"
        )
        yield Problem("warning", "alone", message)
