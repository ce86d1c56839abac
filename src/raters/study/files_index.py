"""Which files belong together: matches of patterns become cases, by name and never by order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from raters.core.errors import RatersError, placed
from raters.io import formats
from raters.io.rows import read_cells
from raters.study.annotations import Annotation, known_annotation, names_by_kind
from raters.study.backend_files import CaseFiles
from raters.study.cases import CaseIndex
from raters.study.pattern import Match, Pattern, natural_key

NOT_IDENTITY = ("rater", "class", "modality")
"""Names in a pattern that do not tell one case from another; all others do."""

FACTS = ("group", "split", "diagnosis")
"""What names of files, or the rows of a manifest, may tell of a case."""

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
    diagnoses: list[str] | None = None
    annotations: dict[str, Annotation] = field(default_factory=dict)

    def cases(self) -> CaseIndex:
        """Return the names of the cases, with what the file names tell of each."""
        return CaseIndex.of(self.ids, self.groups, self.splits, self.diagnoses)


def index_patterns(
    labels: Pattern, images: Pattern | None, reference: Pattern | None
) -> FilesIndex:
    """Find the files of all patterns and match them by the names that they share."""
    _refuse_bad_fields(labels, images, reference)
    return _indexed(labels, "mask", image=images, reference=reference)


def index_truth(reference: Pattern, images: Pattern | None) -> FilesIndex:
    """Find true masks and their images where there are no raters (yet)."""
    _refuse_bad_fields(reference, images, None, needed=("case",))
    return _indexed(reference, "reference", image=images)


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
    return _indexed(images, "image")


def _indexed(own: Pattern, role: str, **others: Pattern | None) -> FilesIndex:
    """Match the files of a pattern, and those of others by their role."""
    table = _Table(own)
    beside = [(table.found(p), p, other) for other, p in others.items() if p]
    # '{case}/{rater}.nii.gz' also fits '{case}/image.nii.gz': what is an image is not a mask.
    taken = {match.path for matches, _, _ in beside for match in matches}
    matches = [match for match in table.found(own) if match.path not in taken]
    if role == "mask" and not matches:
        raise own.nothing_found()
    for group in ((matches, own, role), *beside):
        table.add(*group)
    return table.index()


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

    def __init__(self, pattern: Pattern) -> None:
        self.identity = tuple(name for name in pattern.fields if name not in NOT_IDENTITY)
        self.problems: list[RatersError] = []
        self.files: dict[Identity, CaseFiles] = {}
        self.extra: dict[Identity, dict[str, str]] = {}
        self.raters: set[str] = set()
        self.class_names: set[str] = set()
        self.modalities: set[str] = set()

    def found(self, pattern: Pattern) -> list[Match]:
        before = len(self.problems)
        matches = list(pattern.walk(self.problems))
        if pattern.levels[-1].endswith("*"):
            # 'Thumbs.db' fits '{case}.*' too, and is never meant.
            matches = [m for m in matches if m.path.is_dir() or formats.is_supported(m.path)]
        if not matches and len(self.problems) == before:
            raise pattern.nothing_found()
        return matches

    def add(self, matches: Iterable[Match], pattern: Pattern, role: str) -> None:
        """Add masks, images or references; what they share with the first says of which case."""
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
        case = self.files[key]
        fields = match.fields
        files = case.images if role == "image" else case.reference
        if role == "mask":
            self.raters.add(fields["rater"])
            files = case.masks.setdefault(fields["rater"], {})
        if role == "image":
            part = "modality"
            names = self.modalities
        else:
            part = "class"
            names = self.class_names
        names.update([fields[part]] if part in fields else [])
        self._put(files, fields.get(part, ""), match.path, key)
        known = self.extra.setdefault(key, {})
        known |= {n: v for n, v in fields.items() if n in FACTS and n not in known}

    def _put(self, files: dict[str, Path], name: str, path: Path, key: Identity) -> None:
        if name in files:
            self.problems.append(
                RatersError(
                    f"found a second file for case {'/'.join(key)!r} (the first is {files[name]}), "
                    "expected one: two cases with one name, or parts that {modality} or {class} "
                    "should name?",
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
            diagnoses=self._column("diagnosis", keys),
            files=[self.files[key] for key in keys],
            raters=sorted(self.raters, key=natural_key),
            class_names=sorted(self.class_names, key=natural_key),
            modalities=sorted(self.modalities, key=natural_key),
            problems=self.problems,
        )

    def _column(self, name: str, keys: Sequence[Identity]) -> list[str] | None:
        """Return one of the facts of each case, from the masks' names or else the images'."""
        if name in self.identity:
            return [self._part(key, [name])[0] for key in keys]
        if not any(name in extra for extra in self.extra.values()):
            return None
        unnamed = "/".join if name == "group" else (lambda _: "")
        return [self.extra.get(key, {}).get(name) or unnamed(key) for key in keys]


COLUMNS = ("case", "rater", "mask", "image", "reference", *FACTS, "modality", "class", "annotation")
"""The columns of a manifest; `case` is needed, and `rater` with `mask` where there are masks."""


def is_manifest(columns: list[str]) -> bool:
    """Return whether a table lists files of masks (and not class labels)."""
    # A slip such as 'masks' or semicolons is for the manifest's reader to name.
    lower = [part.strip().lower() for column in columns for part in column.split(";")]
    return "mask" in lower or ({"case", "rater"} <= set(lower) and "masks" in lower)


def index_manifest(path: Path) -> FilesIndex:
    """Read a manifest; paths in it are relative to the folder it is in."""
    columns, cells = read_cells(path)
    rows = [dict(zip(columns, (c.strip() for c in row), strict=True)) for row in cells]
    with placed(file=path):
        return _index_rows(columns, rows, path)


def _index_rows(columns: list[str], rows: list[dict[str, str]], path: Path) -> FilesIndex:
    _refuse_bad_columns(columns)
    annotations = _name_by_kind(rows) if "annotation" in columns else {}
    files: dict[str, CaseFiles] = {}
    facts: dict[str, dict[str, str]] = {}
    problems: list[RatersError] = []
    for line, row in enumerate(rows, start=2):
        if not row["case"]:
            raise RatersError(f"found no case in row {line}, expected a name")
        case = files.setdefault(row["case"], CaseFiles())
        problems += _add_row(row, case, path, line)
        _add_facts(row, facts.setdefault(row["case"], {}), line)
    if not files:
        raise RatersError("found no rows, expected a row per mask", kind="empty")
    ids = sorted(files, key=natural_key)
    cases = files.values()
    named: set[str] = set()
    for case in cases:
        for group in (*case.masks.values(), case.reference):
            named.update(group)
    modalities = {name for case in cases for name in case.images}
    return FilesIndex(
        ids=ids,
        groups=[facts[c].get("group", c) for c in ids] if "group" in columns else None,
        splits=[facts[c].get("split", "") for c in ids] if "split" in columns else None,
        diagnoses=[facts[c].get("diagnosis", "") for c in ids],
        files=[files[case] for case in ids],
        raters=sorted({r for case in cases for r in case.masks}, key=natural_key),
        class_names=sorted(named - {""}, key=natural_key),
        modalities=sorted(modalities - {""}, key=natural_key),
        problems=problems,
        annotations=annotations,
    )


def _name_by_kind(rows: list[dict[str, str]]) -> dict[str, Annotation]:
    """Name a rater with several kinds of drawings once for each; return the kinds by name."""
    found: dict[str, list[Annotation]] = {}
    for line, row in enumerate(rows, start=2):
        kind = known_annotation(row["annotation"] or "mask", f" in row {line}")
        if row.get("mask"):
            found.setdefault(row["rater"], []).append(kind)
    names = names_by_kind(found)
    for row in rows:
        if row.get("mask"):
            row["rater"] = names[row["rater"], known_annotation(row["annotation"] or "mask")]
    return {name: kind for (_, kind), name in names.items()}


def _refuse_bad_columns(columns: list[str]) -> None:
    if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
        raise RatersError(
            f"found the header {columns[0]!r}, expected commas between the columns of a manifest",
            kind="columns",
        )
    for column in columns:
        close = get_close_matches(column.lower(), COLUMNS, n=1, cutoff=0.75)
        if column not in COLUMNS and close and not column.lower().startswith("annotator"):
            message = (
                f"found column {column!r}, expected {close[0]!r} "
                f"(the columns of a manifest are {', '.join(COLUMNS)})"
            )
            raise RatersError(message, kind="columns")
    only_images = "image" in columns and "mask" not in columns
    for needed in ("case",) if only_images else ("case", "rater"):
        if needed not in columns:
            message = (
                f"found columns {', '.join(columns)}, expected a column {needed!r} "
                f"(the columns of a manifest are {', '.join(COLUMNS)})"
            )
            raise RatersError(message, kind="columns")


def _add_row(row: dict[str, str], case: CaseFiles, path: Path, line: int) -> Iterator[RatersError]:
    """Add the files of one row; the same image may be named again, another one may not."""
    name = row.get("class", "")
    modality = row.get("modality", "")
    given = [(case.images, modality, "image"), (case.reference, name, "reference")]
    if row.get("mask"):
        if not row["rater"]:
            raise RatersError(f"found a mask without a rater in row {line}")
        given.insert(0, (case.masks.setdefault(row["rater"], {}), name, "mask"))
    for files, key, role in given:
        if row.get(role):
            known = files.get(key)
            file = path.parent / row[role]
            files.setdefault(key, file)
            if known is not None and known != file:
                message = f"found {file} in row {line}, expected {known} as in an earlier row"
                yield RatersError(message, kind="duplicate", file=path)
            elif known is not None and role == "mask":
                message = f"row {line} repeats an earlier row"
                yield RatersError(message, kind="duplicate", file=path)


def _add_facts(row: dict[str, str], facts: dict[str, str], line: int) -> None:
    for column in FACTS:
        value = row.get(column)
        if value and facts.setdefault(column, value) != value:
            raise RatersError(
                f"found {column} {value!r} for case {row['case']!r} in row {line}, "
                f"expected {facts[column]!r} as in an earlier row"
            )
