"""Which images and references belong to the cases of a layout, by names alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raters.study.layout_names import SEPARATORS, common_start

_MOST_MODALITIES = 12


@dataclass(frozen=True)
class LayoutFile:
    """The parts of a path below a folder."""

    path: str
    folders: tuple[str, ...]
    stem: str
    suffix: str


def affixes(texts: Sequence[str]) -> tuple[str, str]:
    """Return what all texts begin and end with, cut at a separator."""
    if len(set(texts)) < 2:
        return "", ""
    prefix = common_start(texts)
    while prefix and prefix[-1] not in SEPARATORS:
        prefix = prefix[:-1]
    suffix = common_start([text[len(prefix) :][::-1] for text in texts])[::-1]
    while suffix and suffix[0] not in SEPARATORS:
        suffix = suffix[1:]
    return prefix, suffix


def files_beside(
    files: Sequence[LayoutFile],
    roles: Mapping[str, str],
    role: str,
    identities: Sequence[Mapping[str, str]],
) -> tuple[str | None, frozenset[str]]:
    """Return the pattern of images or references that fits most cases, and its files."""
    groups: dict[tuple[int, str], list[LayoutFile]] = defaultdict(list)
    for file in files:
        if roles[file.path] == role:
            groups[len(file.folders), file.suffix].append(file)
    best: tuple[str | None, frozenset[str]] = (None, frozenset())
    # A folder of references may hold only some cases; an image belongs to most of them.
    fewest = max(1, len(identities) // 2) if role == "image" else 1
    most = (0, 0)
    for group in groups.values():
        for pattern, cases in _patterns_beside(group, identities, role == "image").items():
            matched = frozenset().union(*cases.values())
            size = (len(cases), len(matched))
            if len(cases) >= fewest and size > most:
                most = size
                best = (pattern, matched)
    return best


def _patterns_beside(
    group: Sequence[LayoutFile], identities: Sequence[Mapping[str, str]], modalities: bool
) -> dict[str, dict[int, frozenset[str]]]:
    """Return the patterns that name a case for each file, and which cases they find."""
    finders = _Finder(identities)
    found: dict[tuple[tuple[str, ...], str, str], dict[int, set[str]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for file in group:
        for levels, before, after, case in finders.find(file):
            found[levels, before, after][case].add(file.path)
    suffix = group[0].suffix
    patterns: dict[str, dict[int, frozenset[str]]] = {}
    for (levels, before, after), cases in found.items():
        pattern = "/".join((*levels, f"{before}{after}{suffix}"))
        if all(len(paths) == 1 for paths in cases.values()):
            patterns[pattern] = {case: frozenset(paths) for case, paths in cases.items()}
    if modalities:
        patterns |= _with_modalities(found, suffix)
    return patterns


def _with_modalities(
    found: Mapping[tuple[tuple[str, ...], str, str], Mapping[int, set[str]]], suffix: str
) -> dict[str, dict[int, frozenset[str]]]:
    """Join patterns that differ in one word after the case: one file per modality."""
    by_start: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for levels, before, after in found:
        by_start[levels, before].append(after)
    patterns = {}
    for (levels, before), afters in by_start.items():
        if not 2 <= len(afters) <= _MOST_MODALITIES:
            continue
        head, tail = affixes(afters)
        # Or all of the name tells the modality, as in '{case}/flair.nii.gz'.
        if not head and not all(after and after[0] not in SEPARATORS for after in afters):
            continue
        cases: dict[int, frozenset[str]] = {}
        for after in afters:
            for case, paths in found[levels, before, after].items():
                cases[case] = cases.get(case, frozenset()) | paths
        if all(len(paths) > 1 for paths in cases.values()):
            patterns["/".join((*levels, f"{before}{head}{{modality}}{tail}{suffix}"))] = cases
    return patterns


class _Finder:
    """Finds the case that a file's name tells, by the values of its fields."""

    def __init__(self, identities: Sequence[Mapping[str, str]]) -> None:
        self._identities = identities
        self._by_value: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for k, row in enumerate(identities):
            for field, value in row.items():
                self._by_value[field][value].append(k)

    def find(self, file: LayoutFile) -> Iterator[tuple[tuple[str, ...], str, str, int]]:
        """Return levels, what is before and after the case in the stem, and the case."""
        levels = []
        cases = set(range(len(self._identities)))
        named = set()
        for folder in file.folders:
            fields = [
                f for f, known in self._by_value.items() if folder in known and f not in named
            ]
            if not fields:
                levels.append(folder)
                continue
            field = fields[0]
            named.add(field)
            levels.append(f"{{{field}}}")
            cases &= set(self._by_value[field][folder])
        for start, end in _spans(file.stem):
            value = file.stem[start:end]
            for field in ("case", "group"):
                here = cases & set(self._by_value[field].get(value, ()))
                if len(here) == 1:
                    before = f"{file.stem[:start]}{{{field}}}"
                    yield tuple(levels), before, file.stem[end:], here.pop()
                    return
        if len(cases) == 1 and "case" in named:
            yield tuple(levels), "", file.stem, cases.pop()


def _spans(stem: str) -> Iterator[tuple[int, int]]:
    """Return the parts of a stem between separators, the longest first."""
    cuts = [0]
    for k, character in enumerate(stem):
        if character in SEPARATORS:
            cuts += [k, k + 1]
    cuts.append(len(stem))
    spans = {(a, b) for a in cuts for b in cuts if a < b}
    yield from sorted(spans, key=lambda span: (span[0] - span[1], span))
