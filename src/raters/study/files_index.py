"""Which files belong together: matches of patterns become cases, by name and never by order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raters.errors import RatersError
from raters.study import formats
from raters.study.backend_files import CaseFiles
from raters.study.pattern import Match, Pattern, natural_key

NOT_IDENTITY = ("rater", "class", "modality")
"""Names in a pattern that do not tell one case from another; all others do."""

Identity = tuple[str, ...]


@dataclass
class FilesIndex:
    """Cases, raters, classes and modalities as the file names tell them."""

    ids: list[str]
    groups: list[str] | None
    splits: list[str] | None
    files: list[CaseFiles]
    raters: list[str]
    class_names: list[str] = field(default_factory=list)
    modalities: list[str] = field(default_factory=list)
    problems: list[RatersError] = field(default_factory=list)


def index_patterns(
    labels: Pattern, images: Pattern | None, reference: Pattern | None
) -> FilesIndex:
    """Find the files of all patterns and match them by the names that they share."""
    _refuse_bad_fields(labels, images, reference)
    problems: list[RatersError] = []
    beside = [
        (p, role, _found(p, problems))
        for p, role in ((images, "image"), (reference, "reference"))
        if p
    ]
    # '{case}/{rater}.nii.gz' also fits '{case}/image.nii.gz': what is an image is not a mask.
    taken = {match.path for _, _, matches in beside for match in matches}
    masks = [match for match in _found(labels, problems) if match.path not in taken]
    if not masks:
        raise labels.nothing_found()
    identity = tuple(name for name in labels.fields if name not in NOT_IDENTITY)
    table = _Table(identity, problems)
    for match in masks:
        table.add_mask(match)
    for pattern, role, matches in beside:
        table.add_beside(matches, pattern, role)
    return table.index()


def index_truth(reference: Pattern, images: Pattern | None) -> FilesIndex:
    """Find true masks and their images where there are no raters (yet)."""
    _refuse_bad_fields(reference, images, None, needed=("case",))
    problems: list[RatersError] = []
    identity = tuple(name for name in reference.fields if name not in NOT_IDENTITY)
    table = _Table(identity, problems)
    pictures = [] if images is None else _found(images, problems)
    taken = {match.path for match in pictures}
    masks = [match for match in _found(reference, problems) if match.path not in taken]
    table.add_beside(masks, reference, "reference")
    if images is not None:
        table.add_beside(pictures, images, "image")
    return table.index()


def index_images(images: Pattern) -> FilesIndex:
    """Find images where there are neither raters nor references."""
    for name in ("rater", "class"):
        if name in images.fields:
            raise RatersError(
                f"found {{{name}}} in the pattern {images.text!r}, expected one of images, as in "
                "'images/{case}.nii.gz'",
                kind="pattern",
            )
    _refuse_bad_fields(images, None, None, needed=("case",))
    problems: list[RatersError] = []
    table = _Table(tuple(n for n in images.fields if n not in NOT_IDENTITY), problems)
    table.add_beside(_found(images, problems), images, "image")
    return table.index()


def _found(pattern: Pattern, problems: list[RatersError]) -> list[Match]:
    before = len(problems)
    matches = list(pattern.walk(problems))
    if pattern.levels[-1].endswith("*"):
        # 'Thumbs.db' fits '{case}.*' too, and is never meant.
        matches = [m for m in matches if m.path.is_dir() or formats.is_supported(m.path)]
    if not matches and len(problems) == before:
        raise pattern.nothing_found()
    return matches


def _refuse_bad_fields(
    labels: Pattern,
    images: Pattern | None,
    reference: Pattern | None,
    needed: tuple[str, ...] = ("rater", "case"),
) -> None:
    for name in needed:
        if name not in labels.fields:
            both = " and ".join(f"{{{n}}}" for n in needed)
            example = "/".join(f"{{{n}}}" for n in needed)
            raise RatersError(
                f"found no {{{name}}} in the pattern {labels.text!r}, "
                f"expected {both}, as in 'masks/{example}.nii.gz'",
                kind="pattern",
            )
    for what, pattern in (("images", images), ("reference", reference)):
        shared = set(pattern.fields if pattern else labels.fields) & set(labels.fields)
        if pattern is not None and not shared - set(NOT_IDENTITY):
            raise RatersError(
                f"found nothing in the pattern of {what} {pattern.text!r} that tells the case, "
                f"expected {{case}} as in {labels.text!r}",
                kind="pattern",
            )


class _Table:
    """Collects the files of each case under its identity."""

    def __init__(self, identity: tuple[str, ...], problems: list[RatersError]) -> None:
        self.identity, self.problems = identity, problems
        self.files: dict[Identity, CaseFiles] = {}
        self.extra: dict[Identity, dict[str, str]] = {}
        self.raters: set[str] = set()
        self.class_names: set[str] = set()
        self.modalities: set[str] = set()

    def add_mask(self, match: Match) -> None:
        fields = match.fields
        key = tuple(fields[name] for name in self.identity)
        case = self.files.setdefault(key, CaseFiles())
        self.raters.add(fields["rater"])
        self.class_names |= {fields["class"]} if "class" in fields else set()
        self._put(
            case.masks.setdefault(fields["rater"], {}), fields.get("class", ""), match.path, key
        )

    def add_beside(self, matches: Iterable[Match], pattern: Pattern, role: str) -> None:
        """Add images or references; what they share with the masks says which case they are of."""
        shared = [name for name in self.identity if name in pattern.fields]
        cases: dict[Identity, list[Identity]] = {}
        for key in self.files:
            cases.setdefault(self._part(key, shared), []).append(key)
        for match in matches:
            own = tuple(match.fields[name] for name in shared)
            if own not in cases and len(shared) == len(self.identity):
                self.files[own] = CaseFiles()
                cases[own] = [own]
            for key in cases.get(own, []):
                self._add_file(key, match, role)

    def _part(self, key: Identity, names: Sequence[str]) -> Identity:
        fields = dict(zip(self.identity, key, strict=True))
        return tuple(fields[name] for name in names)

    def _add_file(self, key: Identity, match: Match, role: str) -> None:
        case, fields = self.files[key], match.fields
        if role == "image":
            self.modalities |= {fields["modality"]} if "modality" in fields else set()
            self._put(case.images, fields.get("modality", ""), match.path, key)
        else:
            self.class_names |= {fields["class"]} if "class" in fields else set()
            self._put(case.reference, fields.get("class", ""), match.path, key)
        known = self.extra.setdefault(key, {})
        known |= {n: v for n, v in fields.items() if n in ("group", "split") and n not in known}

    def _put(self, files: dict[str, Path], name: str, path: Path, key: Identity) -> None:
        if name in files:
            self.problems.append(
                RatersError(
                    f"found a second file for case {'/'.join(key)!r} (the first is {files[name]}), "
                    "expected one: two cases with one name?",
                    kind="duplicate",
                    file=path,
                    case="/".join(key),
                )
            )
            return
        files[name] = path

    def index(self) -> FilesIndex:
        keys = sorted(self.files, key=lambda key: [natural_key(part) for part in key])
        return FilesIndex(
            ids=["/".join(key) for key in keys],
            groups=self._column("group", keys),
            splits=self._column("split", keys),
            files=[self.files[key] for key in keys],
            raters=sorted(self.raters, key=natural_key),
            class_names=sorted(self.class_names, key=natural_key),
            modalities=sorted(self.modalities, key=natural_key),
            problems=self.problems,
        )

    def _column(self, name: str, keys: Sequence[Identity]) -> list[str] | None:
        """Return the group or split of each case, from the masks' names or else the images'."""
        if name in self.identity:
            return [self._part(key, [name])[0] for key in keys]
        if not any(name in extra for extra in self.extra.values()):
            return None
        unnamed = "/".join if name == "group" else (lambda _: "")
        return [self.extra.get(key, {}).get(name) or unnamed(key) for key in keys]
