"""The layout of a plain folder: names of files in, candidate layouts with a score out.

Nothing is read here. A layout says what each level of the paths means: a folder per rater or per
case, the rater in the file's name, slots such as `mask-0`. Each possible meaning is scored by how
many (rater, case) pairs it fills, by what the names look like, and by how many masks it explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from raters.core.wording import listing, many
from raters.io.formats import suffix_of
from raters.study import layout_names as names
from raters.study.layout_beside import LayoutFile, affixes, files_beside
from raters.study.layout_names import SEPARATORS

MOST_LEVELS = 5
SURE = 0.35
"""The least score of a layout that is taken without asking."""

POSSIBLE = 0.08
"""The least score of a layout that is worth showing."""

_RIVAL = 0.5
_FEWEST_SHARED = 0.5
_ONLY_IMAGES = (".jpg", ".jpeg")
_RESERVED = ("rater", "class", "modality", "case", "group", "split", "diagnosis")


@dataclass(frozen=True)
class Layout:
    """A possible meaning of the names below a folder; patterns are relative to it.

    Attributes:
        masks: The pattern of masks.
        raters: The names of the raters.
        cases: The number of cases.
        score: How likely it is, from 0 to 1.
        missing: How many masks there would be more if each rater had drawn each case.
        anonymous: The raters are numbered slots, and need not be the same people in each case.
        images: The pattern of images, if there are any.
        reference: The pattern of references, if there are any.
        used: The files that the patterns take.
        example: A mask of each rater, to look at.
    """

    masks: str
    raters: tuple[str, ...]
    cases: int
    score: float
    missing: int = 0
    anonymous: bool = False
    images: str | None = None
    reference: str | None = None
    used: frozenset[str] = frozenset()
    example: Mapping[str, str] | None = None


@dataclass(frozen=True)
class _Template:
    """What each folder level and the stem say of a file, with the values found in each file."""

    levels: tuple[str, ...]
    stem: str
    values: tuple[Mapping[str, str], ...]

    def pattern(self, suffix: str) -> str:
        return "/".join((*self.levels, self.stem + suffix))


def find_layouts(paths: Sequence[str], images: AbstractSet[str] = frozenset()) -> list[Layout]:
    """Return the layouts that the files of a folder may have, the likeliest first.

    Args:
        paths: The files, relative to the folder, with `/` between levels.
        images: Those that are known to be images and no masks.

    Example:
        >>> files = [f"masks/{rater}/{k}.png" for rater in ("ann", "bob") for k in range(3)]
        >>> [(found.masks, found.raters, found.cases) for found in find_layouts(files)]
        [('masks/{rater}/{case}.png', ('ann', 'bob'), 3)]
    """
    files = [_file(path) for path in sorted(paths) if _is_candidate(path)]
    roles = _roles(files, images)
    masks = [file for file in files if not roles[file.path]]
    groups: dict[tuple[int, str], list[LayoutFile]] = defaultdict(list)
    for file in masks:
        groups[len(file.folders), file.suffix].append(file)

    layouts: dict[str, Layout] = {}
    for (_, suffix), group in groups.items():
        coverage = len(group) / max(len(masks), 1)
        for found in _candidates(group, files, roles):
            layout = replace(found, score=found.score * coverage)
            known = layouts.get(layout.masks)
            if suffix and (known is None or known.score < layout.score):
                layouts[layout.masks] = layout
    ordered = sorted(layouts.values(), key=lambda layout: -layout.score)
    return [layout for layout in ordered if layout.score >= POSSIBLE]


def is_sure(layouts: Sequence[Layout]) -> bool:
    """Return whether the first layout may be taken: likely enough, and without a rival."""
    if not layouts or layouts[0].score < SURE:
        return False
    return len(layouts) == 1 or layouts[1].score < _RIVAL * layouts[0].score


def one_rater_pattern(paths: Sequence[str]) -> str | None:
    """Return the pattern of a single folder of masks, whose name would be the rater's.

    Example:
        >>> one_rater_pattern(["ann/c1.png", "ann/c2.png", "images/c1.png"])
        '{rater}/{case}.png'
    """
    files = [_file(path) for path in paths if _is_candidate(path)]
    roles = _roles(files, frozenset())
    masks = [file for file in files if not roles[file.path]]
    places = {(file.folders, file.suffix) for file in masks}
    if len(places) != 1 or not masks[0].folders:
        return None
    return "/".join((*masks[0].folders[:-1], "{rater}", f"{{case}}{masks[0].suffix}"))


def left_out(layout: Layout, paths: Sequence[str]) -> str:
    """Return what the patterns of a layout do not take, folder by folder; '' for nothing."""
    others: Counter[str] = Counter()
    for path in paths:
        if path not in layout.used:
            folder = path.rpartition("/")[0]
            others[f"{folder}/" if folder else "files beside"] += 1
    parts = [f"{name} ({many(count, 'file')})" for name, count in sorted(others.items())]
    return listing(parts, 3)


def _is_candidate(path: str) -> bool:
    # Slices of a DICOM series are one mask together: which folder is which must be said.
    return suffix_of(path) not in ("", ".dcm") and not any(c in path for c in "{}*")


def _file(path: str) -> LayoutFile:
    *folders, name = path.split("/")
    suffix = name[len(name) - len(suffix_of(name)) :]
    return LayoutFile(path, tuple(folders), name[: len(name) - len(suffix)], suffix)


def _roles(files: Sequence[LayoutFile], images: AbstractSet[str]) -> dict[str, str]:
    """Return which files are images, references or derived; '' may be masks."""
    derivatives = any("derivatives" in file.folders for file in files)
    lossless = any(file.suffix.lower() not in _ONLY_IMAGES for file in files)
    common = _constant_words(files)
    roles: dict[str, str] = {}
    for file in files:
        role = ""
        for folder in file.folders:
            role = role or names.role_of_folder(folder)
        tokens = [token for token in _split(file.stem) if token not in SEPARATORS]
        tokens = [token for token in tokens if token not in common]
        contained = any(map(names.is_container, file.folders))
        for token in (*tokens[:1], *tokens[-1:]):
            word_role = names.role_of_word(token)
            if word_role == "image" and contained:
                continue  # 'masks/image_01.png' is the mask of an image
            role = role or word_role
        if not role and derivatives and "derivatives" not in file.folders:
            role = "image"
        if file.path in images or (lossless and file.suffix.lower() in _ONLY_IMAGES):
            role = "image"
        roles[file.path] = role
    return roles


def _constant_words(files: Sequence[LayoutFile]) -> set[str]:
    """Return the words that are in the names of nearly all files: they tell nothing apart."""
    counts = Counter(token for file in files for token in set(_split(file.stem)))
    return {token for token, count in counts.items() if count >= 0.9 * len(files) and count > 1}


def _split(stem: str) -> list[str]:
    """Split a stem at separators, which stay: 'a_b-1' gives a, _, b, -, 1."""
    tokens: list[str] = []
    for character in stem:
        is_separator = character in SEPARATORS
        if tokens and not is_separator and tokens[-1] not in SEPARATORS:
            tokens[-1] += character
        else:
            tokens.append(character)
    return tokens


def _candidates(
    group: Sequence[LayoutFile], files: Sequence[LayoutFile], roles: Mapping[str, str]
) -> Iterator[Layout]:
    """Try each level, and each end of the stem, as the place of the rater."""
    depth = len(group[0].folders)
    for level in range(depth):
        # A folder 'masks' beside those of raters is not by one of them.
        named = [file for file in group if not names.is_container(file.folders[level])]
        folders = {file.folders[level] for file in named}
        chosen = named if len(folders) > 1 else group
        yield from _layouts(chosen, _with_rater_folder(chosen, level), files, roles)
    yield from _layouts(group, _with_rater_as_stem(group, files, roles), files, roles)
    for end in ("last", "first"):
        yield from _layouts(group, _with_rater_in_stem(group, end), files, roles)


def _level_names(
    group: Sequence[LayoutFile], rater: int | None, case_in_stem: bool
) -> dict[int, str]:
    """Name the folder levels that vary: from the patient down to the case."""
    depth = len(group[0].folders)
    varying = []
    named: dict[int, str] = {}
    for level in range(depth):
        values = {file.folders[level] for file in group}
        if level == rater or len(values) == 1:
            continue
        if names.is_split(list(values)):
            named[level] = "split"
        else:
            varying.append(level)
    if varying and not case_in_stem:
        named[varying.pop()] = "case"
    if varying:
        named[varying.pop(0)] = "group"
    for level in varying:
        word = names.common_start([file.folders[level] for file in group]).strip("0123456789-_. ")
        free = word.isidentifier() and word not in (*_RESERVED, *named.values())
        named[level] = word if free else f"part{level}"
    return named


def _marked(
    group: Sequence[LayoutFile], named: Mapping[int, str], rater: int | None
) -> tuple[list[str], str, str]:
    """Take names of folders off the stems that repeat them.

    Returns:
        What is left of each stem, and what stands before and after it in all of them.
    """
    places = dict(named)
    if rater is not None:
        places[rater] = "rater"
    parts = [_repeated(file, places) for file in group]
    before = {part[0] for part in parts}
    after = {part[2] for part in parts}
    if len(before) > 1 or len(after) > 1:
        return [file.stem for file in group], "", ""
    return [part[1] for part in parts], before.pop(), after.pop()


def _repeated(file: LayoutFile, places: Mapping[int, str]) -> tuple[str, str, str]:
    """Split a stem into folder names that it begins with, the rest, and those it ends with."""
    rest = file.stem
    before = ""
    after = ""
    for level, field in places.items():
        value = file.folders[level]
        tail = rest.removeprefix(value)
        if tail != rest and (not tail or tail[0] in SEPARATORS):
            before += f"{{{field}}}{tail[:1]}"
            rest = tail[1:]
            continue
        head = rest.removesuffix(value)
        if head != rest and (not head or head[-1] in SEPARATORS):
            after = f"{head[-1:]}{{{field}}}{after}"
            rest = head[:-1]
    return before, rest, after


def _with_rater_folder(group: Sequence[LayoutFile], level: int) -> Iterator[_Template]:
    """A folder per rater; the case is in the stem, or a folder too where all stems are equal."""
    raters = {file.folders[level] for file in group}
    if len(raters) < 2:
        return
    slot = names.slot_prefix(sorted(raters))
    named = _level_names(group, level, case_in_stem=True)
    inner, before, after = _marked(group, named, level)
    variants = _case_variants(inner)
    if len(set(inner)) == 1:
        named = _level_names(group, level, case_in_stem=False)
        inner, before, after = _marked(group, named, level)
        if "case" not in named.values() or len(set(inner)) > 1:
            return
        variants = [(inner[0], "", False)]
    for prefix, suffix, has_case in variants:
        field = "{case}" if has_case else ""
        stem = f"{before}{prefix}{field}{suffix}{after}"
        values = []
        for file, text in zip(group, inner, strict=True):
            found = {name: file.folders[k] for k, name in named.items()}
            found["rater"] = file.folders[level][len(slot) :]
            if has_case:
                found["case"] = text[len(prefix) : len(text) - len(suffix)]
            values.append(found)
        levels = _levels(group, {**named, level: "rater"}, {level: slot})
        yield _Template(levels, stem, tuple(values))
    ends = _own_ends(group, inner, level)
    if ends:
        values = []
        for file, text in zip(group, inner, strict=True):
            found = {name: file.folders[k] for k, name in named.items()}
            rater = file.folders[level]
            found |= {"rater": rater[len(slot) :], "case": text.removesuffix(ends[rater])}
            values.append(found)
        levels = _levels(group, {**named, level: "rater"}, {level: slot})
        separator = next(iter(ends.values()))[0]
        yield _Template(levels, f"{before}{{case}}{separator}*{after}", tuple(values))


def _own_ends(group: Sequence[LayoutFile], inner: Sequence[str], level: int) -> dict[str, str]:
    """Return what the names of each rater end with, if it differs, as in ann/c1_1, bob/c1_2."""
    ends: dict[str, set[str]] = defaultdict(set)
    for file, text in zip(group, inner, strict=True):
        ends[file.folders[level]].add("".join(_split(text)[-2:]))
    own = {rater: next(iter(found)) for rater, found in ends.items() if len(found) == 1}
    separators = {end[0] for end in own.values() if end and end[0] in SEPARATORS}
    if len(own) < len(ends) or len(set(own.values())) < len(own) or len(separators) != 1:
        return {}
    return own if all(end[0] in SEPARATORS for end in own.values()) else {}


def _levels(
    group: Sequence[LayoutFile], named: Mapping[int, str], prefixes: Mapping[int, str]
) -> tuple[str, ...]:
    levels = []
    for level, folder in enumerate(group[0].folders):
        field = f"{prefixes.get(level, '')}{{{named[level]}}}" if level in named else folder
        levels.append(field)
    return tuple(levels)


def _case_variants(texts: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return what may stand around the case in a stem: nothing, or what all stems share."""
    prefix, suffix = affixes(texts)
    variants = [("", "", True), ("", suffix, True), (prefix, "", True), (prefix, suffix, True)]
    return list(dict.fromkeys(variants))


def _with_rater_as_stem(
    group: Sequence[LayoutFile], files: Sequence[LayoutFile], roles: Mapping[str, str]
) -> Iterator[_Template]:
    """A folder per case, in which the files are named by the rater."""
    named = _level_names(group, None, case_in_stem=False)
    if "case" not in named.values():
        named = _single_case(group, files, roles)
    if "case" not in named.values():
        return
    inner, before, after = _marked(group, named, None)
    if len(set(inner)) < 2:
        return
    prefix, suffix = affixes(inner)
    slot = names.slot_prefix(sorted(set(inner)))
    prefix = slot or prefix
    values = []
    for file, text in zip(group, inner, strict=True):
        found = {name: file.folders[k] for k, name in named.items()}
        found["rater"] = text[len(prefix) : len(text) - len(suffix)]
        values.append(found)
    stem = f"{before}{prefix}{{rater}}{suffix}{after}"
    yield _Template(_levels(group, named, {}), stem, tuple(values))


def _single_case(
    group: Sequence[LayoutFile], files: Sequence[LayoutFile], roles: Mapping[str, str]
) -> dict[int, str]:
    """Find the folder of a single case: images in it carry its name."""
    for level, folder in enumerate(group[0].folders):
        for file in files:
            beside = file.folders[: level + 1] == group[0].folders[: level + 1]
            if beside and roles[file.path] == "image" and folder in file.stem:
                return {level: "case"}
    return {}


def _with_rater_in_stem(group: Sequence[LayoutFile], end: str) -> Iterator[_Template]:
    """The rater is the first or last part of the stem that varies, the case is the rest."""
    named = _level_names(group, None, case_in_stem=True)
    inner, before, after = _marked(group, named, None)
    prefix, suffix = affixes(inner)
    middles = [text[len(prefix) : len(text) - len(suffix)] for text in inner]
    parted = [_split(middle) for middle in middles]
    if any(len(tokens) < 3 for tokens in parted):
        return
    raters = [tokens[0] if end == "first" else tokens[-1] for tokens in parted]
    separators = {tokens[1] if end == "first" else tokens[-2] for tokens in parted}
    if len(separators) > 1:
        return
    separator = separators.pop()
    if separator not in SEPARATORS:
        return
    slot = names.slot_prefix(sorted(set(raters)))
    rests = []
    for rater, middle in zip(raters, middles, strict=True):
        cut = len(rater) + 1
        rests.append(middle[cut:] if end == "first" else middle[:-cut])
    for kept_prefix in dict.fromkeys(("", prefix)):
        own = "" if end == "first" else prefix[len(kept_prefix) :]
        trims = [*_label_end(rests), ""] if end == "last" else [""]
        for trim in trims:
            values = []
            for file, rater, rest in zip(group, raters, rests, strict=True):
                found = {name: file.folders[k] for k, name in named.items()}
                found["rater"] = rater[len(slot) :]
                found["case"] = own + rest.removesuffix(trim)
                values.append(found)
            if end == "last":
                stem = f"{kept_prefix}{{case}}{trim}{separator}{slot}{{rater}}{suffix}"
            else:
                stem = f"{prefix}{slot}{{rater}}{separator}{{case}}{suffix}"
            yield _Template(_levels(group, named, {}), f"{before}{stem}{after}", tuple(values))


def _label_end(rests: Sequence[str]) -> list[str]:
    """Return the word for labels that stands between case and rater, as in 'a_seg_ann'."""
    ends = {"".join(_split(rest)[-2:]) for rest in rests}
    if len(ends) != 1:
        return []
    end = ends.pop()
    is_label = end[:1] in SEPARATORS and end[1:].lower() in names.LABEL_WORDS
    return [end] if is_label else []


def _layouts(
    group: Sequence[LayoutFile],
    templates: Iterator[_Template],
    files: Sequence[LayoutFile],
    roles: Mapping[str, str],
) -> Iterator[Layout]:
    """Score the templates that differ in what surrounds the case; the one with images wins."""
    found = []
    for template in templates:
        layout = _scored(group, template)
        if layout is None:
            continue
        identities = _identities(template)
        images, image_files = files_beside(files, roles, "image", identities)
        reference, reference_files = files_beside(files, roles, "reference", identities)
        matched = len(image_files) + len(reference_files)
        used = layout.used | image_files | reference_files
        whole = replace(layout, images=images, reference=reference, used=used)
        found.append((matched, whole))
    if not found:
        return
    best = max(matched for matched, _ in found)
    chosen = next(layout for matched, layout in found if matched == best)
    # Folders beside one of images, with its names: labels, even if their names say little.
    boost = 2.0 if chosen.images and 0.2 < chosen.score < 2 * SURE else 1.0
    yield replace(chosen, score=min(1.0, boost * chosen.score))


def _identities(template: _Template) -> list[dict[str, str]]:
    """Return what tells the cases apart, a row per case."""
    rows = {
        tuple(sorted((k, v) for k, v in found.items() if k != "rater")) for found in template.values
    }
    return [dict(row) for row in sorted(rows)]


def _scored(group: Sequence[LayoutFile], template: _Template) -> Layout | None:
    """Score a template by its pairs and names; None where it tells masks apart wrongly."""
    by_case: dict[tuple[tuple[str, str], ...], set[str]] = defaultdict(set)
    example: dict[str, str] = {}
    used = set()
    for file, found in zip(group, template.values, strict=True):
        rater = found["rater"]
        if not rater or not found.get("case"):
            return None
        if names.role_of_word(rater):
            return None
        case = tuple(sorted((k, v) for k, v in found.items() if k != "rater"))
        if rater in by_case[case]:
            return None
        by_case[case].add(rater)
        example.setdefault(rater, file.path)
        used.add(file.path)
    raters = sorted(example)
    if len(raters) < 2:
        return None
    pairs = sum(len(found) for found in by_case.values())
    shared = sum(len(found) > 1 for found in by_case.values()) / len(by_case)
    if shared < _FEWEST_SHARED:
        return None
    slots = _slots(template, raters)
    score = pairs / (len(raters) * len(by_case))
    score *= 0.9 if slots else names.rater_likeness(raters)
    score *= names.case_likeness([dict(case)["case"] for case in by_case])
    if len(raters) > len(by_case):
        score *= 0.6
    pattern = template.pattern(group[0].suffix)
    return Layout(
        masks=pattern,
        raters=tuple(raters),
        cases=len(by_case),
        score=score,
        missing=len(raters) * len(by_case) - pairs,
        anonymous=slots,
        used=frozenset(used),
        example=example,
    )


def _slots(template: _Template, raters: Sequence[str]) -> bool:
    """Return whether raters are numbers after a word for labels, as in 'mask-{rater}'."""
    if not all(rater.isdecimal() for rater in raters):
        return False
    text = "/".join((*template.levels, template.stem))
    before = names.words_of(text[: text.index("{rater}")].rpartition("}")[2])
    return bool(before) and before[-1] in names.LABEL_WORDS
