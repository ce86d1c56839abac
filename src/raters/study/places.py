"""Where nothing may be written: what a verb reads is never replaced, and never mixed with results.

Every verb and every function that writes asks here, and nowhere else.

Remembers in a folder of results which study they come from, and opens it again.

`source.yaml` of a run or a fusion holds the arguments of `raters.read`. Paths are relative to the
folder where that is possible, so that folder and data may be moved together. It is plain data: a
stranger's file can name images and labels to read, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from raters.core.errors import RatersError
from raters.io.paths import case_path, refuse_special
from raters.io.plain_yaml import read_plain_yaml, write_yaml
from raters.study.annotations import Annotation, Unmarked
from raters.study.backend import Absent, Overlap, Resample
from raters.study.pattern import Pattern, is_pattern

if TYPE_CHECKING:
    from raters.study.study import Study

RUN_FILES = (
    "config.yaml",
    "weights.safetensors",
    "history.csv",
    "scores.json",
    "splits.csv",
    "log.txt",
    "source.yaml",
    "cuts.json",
    "checkpoints/last.ckpt",
)
"""What is read of a run; other files of its folder (a report, an export) may lie beside them."""


@dataclass(frozen=True)
class Inputs:
    """What is read, and what must stay as it is.

    Attributes:
        files: Files that are read, and folders that are one image (DICOM).
        folders: Folders that are read as a whole: a study, predictions, images.
        patterns: Patterns; what fits one of them would be read the next time.
        studies: Studies, whose files are listed when they are asked for.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> inputs = Inputs.named(f"{folder}/masks/{{rater}}/{{case}}.png")
        >>> inputs.refuse(folder / "consensus", stems=["c1"])
        >>> inputs.refuse(folder / "masks/consensus", stems=["c1"])
        Traceback (most recent call last):
        raters.core.errors.RatersError: ...: found a folder to write to whose files ...
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    patterns: tuple[str, ...] = ()
    studies: tuple[Study, ...] = ()

    @classmethod
    def of(cls, *studies: Study | None) -> Inputs:
        """Return all that studies are read from."""
        found = cls(studies=tuple(study for study in studies if study is not None))
        for study in found.studies:
            found = found.and_of(cls.named(*study.sources))
            if study.folder is not None:
                found = found.and_of(cls(folders=(study.folder,)))
        return found

    @classmethod
    def named(cls, *sources: str | Path) -> Inputs:
        """Return what the command line names: patterns, folders and files; others are ignored."""
        texts = [os.fspath(source) for source in sources if os.fspath(source)]
        patterns = [text for text in texts if is_pattern(text)]
        paths = [Path(text) for text in texts if text not in patterns]
        return cls(
            files=tuple(path for path in paths if path.is_file()),
            folders=tuple(path for path in paths if path.is_dir()),
            patterns=tuple(patterns),
        )

    @classmethod
    def run(cls, *folders: str | Path) -> Inputs:
        """Return what is read of runs."""
        return cls(files=tuple(Path(folder) / name for folder in folders for name in RUN_FILES))

    def and_of(self, *others: Inputs) -> Inputs:
        """Put several together."""
        fields = zip(*(vars(one).values() for one in (self, *others)), strict=True)
        return Inputs(*(tuple(chain(*field)) for field in fields))

    def refuse(
        self,
        out: str | Path,
        files: Sequence[str] | None = None,
        stems: Iterable[str] | None = None,
    ) -> None:
        """Reject a folder to write to where an input would be replaced, or mixed with results.

        Args:
            out: The folder.
            files: All that is written, as paths in the folder; by default anything may be.
            stems: If anything may be written: what files are called, without their endings; by
                default as the cases of the studies are.

        Raises:
            RatersError: that names the folder and the input.
        """
        if stems is None:
            stems = (case_path(case) for study in self.studies for case in study.index.ids)
        names = list(stems)  # each pattern is held against all
        for place in _with_links(Path(out)):
            self._refuse_within(place, out)
            self._refuse_over(place, out, files)
            self._refuse_fitting(place, out, files, names)

    def refuse_file(self, path: str | Path) -> None:
        """Refuse to write one file where an input would be replaced, or mixed with it."""
        self.refuse(Path(path).parent, [Path(path).name])

    def _refuse_within(self, place: Path, out: str | Path) -> None:
        """Reject what is, or lies inside, a folder that is read as a whole."""
        around = {place, *place.parents}
        for folder in self.folders:
            if folder.resolve() in around:
                raise _refused(out, f"in {folder}, which is read")

    def _refuse_over(self, place: Path, out: str | Path, files: Sequence[str] | None) -> None:
        """Reject what holds inputs: all of them, or those of certain names."""
        around = {place, *place.parents}
        ours = None if files is None else {(place / name).resolve() for name in files}
        read = _resolved([*self._files(), *self.folders], links=place.exists())
        for file in read:
            if file in around:
                raise _refused(out, f"in {file}, which is read")
            if ours is None and place in file.parents:
                raise _refused(out, f"that holds {file}, which is read")
            if ours is not None and file in ours:
                raise _refused(out, f"where {file} would be replaced, which is read")

    def _refuse_fitting(
        self, place: Path, out: str | Path, files: Sequence[str] | None, stems: Sequence[str]
    ) -> None:
        """Reject files that a pattern would find the next time, as masks or images."""
        for text in self.patterns:
            pattern = Pattern(text)
            root = pattern.root.resolve()
            if not place.is_relative_to(root):
                continue
            inside = place.relative_to(root).as_posix()
            front = "" if inside == "." else f"{inside}/"
            ending = "." + pattern.levels[-1].rpartition("}")[2].partition(".")[2]
            for name in files if files is not None else (f"{stem}{ending}" for stem in stems):
                if pattern.match(f"{front}{name}") is not None:
                    raise _refused(out, f"whose files would be read as {text} the next time")

    def _files(self) -> Iterator[Path]:
        yield from self.files
        for study in self.studies:
            for position in range(len(study)):
                yield from study.backend.files(study.row(position))


def _with_links(out: Path) -> Iterator[Path]:
    """Return a folder as it really is, and the folders that links in it lead to."""
    yield out.resolve()
    if out.is_dir():
        yield from (e.resolve() for e in sorted(out.iterdir()) if e.is_symlink() and e.is_dir())


def _resolved(files: Iterable[Path], links: bool) -> Iterator[Path]:
    """Return files as they really are: folders are followed once each, links to files if asked."""
    folders: dict[Path, Path] = {}
    for file in dict.fromkeys(files):
        folder = file.parent
        if folder not in folders:
            folders[folder] = _followed(folder)
        yield folders[folder] / file.name
        if links and os.path.islink(file):  # noqa: PTH114 (there may be millions)
            yield file.resolve()


def _followed(folder: Path) -> Path:
    try:
        return folder.resolve()
    except ValueError:  # a name that no folder can have
        return folder


def _refused(out: str | Path, why: str) -> RatersError:
    return RatersError(
        f"found a folder to write to {why}; expected another one", kind="folder-taken", file=out
    )


SOURCE_FILE = "source.yaml"
FORMAT = "raters-source/1"
_PATHS = ("source", "images", "reference")


class StudySource(BaseModel):
    """The arguments of `raters.read`, as `source.yaml` of a folder of results holds them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["raters-source/1"] = "raters-source/1"
    source: str
    images: str | None = None
    reference: str | None = None
    values: str | None = None
    ignore: list[int] = []
    absent: Absent = "missing"
    threshold: float | None = None
    overlap: Overlap = "error"
    resample: Resample | None = None
    raters: list[str] | None = None
    cases: list[str] | None = None
    classes: list[str] | None = None
    split: str | None = None
    diagnosis: str | None = None
    task: str = "task"
    worker: str = "worker"
    label: str = "label"
    wide: bool = False
    missing: list[str] | None = None
    header: bool | None = None
    anonymous: bool = False
    annotations: dict[str, Annotation] | None = None
    unmarked: Unmarked | None = None


def remember_study(folder: str | Path, options: Mapping[str, Any]) -> Path:
    """Write `source.yaml` into a folder of results.

    Args:
        folder: The folder, which is there.
        options: `source` and further arguments of `raters.read`, as plain data.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "run")
        >>> folder.mkdir()
        >>> path = remember_study(folder, {"source": str(folder.parent / "{rater}/{case}.png")})
        >>> path.read_text().splitlines()
        ['format: raters-source/1', 'source: ../{rater}/{case}.png']
    """
    path = Path(folder) / SOURCE_FILE
    write_source(path, options)
    return path


def write_source(path: Path, options: Mapping[str, Any]) -> None:
    """Write the arguments of `raters.read` into a file; paths are relative to its folder."""
    content = StudySource(**options).model_dump(exclude_defaults=True)
    home = os.path.realpath(path.parent)
    for name in _PATHS:
        if name in content:
            content[name] = relative_path(content[name], home)
    write_yaml(path, {"format": FORMAT, **content}, width=1000)


def remembered_options(folder: str | Path) -> dict[str, Any] | None:
    """Return the arguments of `raters.read` that a folder remembers; None if it does not.

    Raises:
        RatersError: The file holds something else; what it holds is never run.
    """
    path = Path(folder) / SOURCE_FILE
    return read_source(path) if path.exists() else None


def read_source(path: Path) -> dict[str, Any]:
    """Return the arguments of `raters.read` that a file holds.

    Raises:
        RatersError: The file holds something else; what it holds is never run.
    """
    content = read_plain_yaml(path, StudySource, FORMAT).model_dump(exclude_defaults=True)
    content.pop("format", None)
    home = os.path.realpath(path.parent)
    for name in _PATHS:
        if name in content:
            whole = Path(os.path.normpath(Path(home) / content[name]))
            if _looks_like_path(content[name]) or whole.exists():
                content[name] = str(whole)
    return content


def is_source(path: Path) -> bool:
    """Return whether a file holds the arguments of `raters.read`, by its first line."""
    try:
        refuse_special(path)
        with open(path, encoding="utf-8") as file:
            return file.readline().strip() == f"format: {FORMAT}"
    except (OSError, UnicodeDecodeError):
        return False


def refuse_saving(path: Path) -> None:
    """Reject a name under which no study can be saved, or that is taken by something else."""
    if path.suffix not in (".yaml", ".yml"):
        raise RatersError("found a name to save the study under, expected NAME.yaml", file=path)
    if not path.parent.is_dir():
        raise RatersError("no such folder to save the study in", file=path.parent)
    if path.exists() and not is_source(path):
        raise RatersError("found another file there, expected a new name", file=path)


def remembered_study(folder: str | Path, **changed: Any) -> Study | None:  # noqa: ANN401
    """Open the study that a folder remembers; None if it does not.

    Args:
        folder: A run, or a fusion.
        changed: Arguments of `raters.read` that take the place of the remembered ones.
    """
    from raters.study.read import read

    options = remembered_options(folder)
    return None if options is None else read(**{**options, **changed})


def relative_path(text: str, home: str) -> str:
    """Return a path as seen from a folder; the name of a column stays what it is."""
    if not is_path(text):
        return text
    whole = Path(text).resolve()
    try:
        return os.path.relpath(whole, home).replace(os.sep, "/")
    except ValueError:  # on another drive
        return str(whole)


def is_path(text: str) -> bool:
    """Return whether a text is a pattern or a path, and no name of a column."""
    return _looks_like_path(text) or Path(text).exists()


def _looks_like_path(text: str) -> bool:
    return "{" in text or "/" in text or os.sep in text
