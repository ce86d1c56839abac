"""What every public data set says of itself, the checks that loaders share, studies from arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from raters.core.arrays import Array, Labels
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.core.wording import listing
from raters.datasets.files import Download
from raters.study.backend import ArraysBackend, Backend, LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex, name_array
from raters.study.data import ANONYMOUS
from raters.study.pattern import natural_key, there
from raters.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["canonical", "packed"]


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    Attributes:
        name: The name on the command line.
        title: What it is, in a line.
        raters: Who labelled it.
        licence: Its terms.
        citation: What to cite.
        layout: The files expected, as a small tree.
        where: Where to get it.
        read: Opens the source as a study.
        form: How `prepare` writes it, unless asked otherwise.
        downloads: Files that `prepare --download` fetches.
        form_of: Says the form where it depends on the source.
        anonymous: Whether a column of labels is not one person.
        part: A regular expression: a last name of the source that fits chooses a part of it.
    """

    name: str
    title: str
    raters: str
    licence: str
    citation: str
    layout: str
    where: str
    read: Callable[[Path], Study]
    form: Form
    downloads: tuple[Download, ...] = ()
    form_of: Callable[[Path], Form] | None = None
    anonymous: bool = False
    part: str = ""

    def place(self, source: Path) -> Path:
        """Return the file or folder that a source names, without the name of a part."""
        if self.part and re.fullmatch(self.part, source.name):
            return source.parent
        return source

    def about(self, *notes: str) -> dict[str, str]:
        """Return the facts to keep with the study; empty notes are left out."""
        facts = {"title": self.title, "licence": self.licence, "citation": self.citation}
        note = "; ".join(filter(None, notes))
        who = {"raters": ANONYMOUS} if self.anonymous else {}
        return facts | who | ({"note": note} if note else {})

    def need(self, *paths: Path) -> Path:
        """Return back a file or folder that must be there, under one of its names.

        Raises:
            RatersError: that names the first, says what is there instead, and shows the layout.
        """
        found = first_there(paths)
        if found is None:
            raise self.missing(paths[0])
        return found

    def need_nifti(self, *names: Path) -> Path:
        """Return a NIfTI file that must be there under one of its names, packed or not.

        Raises:
            RatersError: that names the first, as `need` does.
        """
        return self.need(*(path for name in names for path in (name, _packed_or_not(name))))

    def missing(self, path: Path) -> RatersError:
        """Report that a file or folder is missing, what is there instead, and what was expected."""
        above = next((p for p in path.parents if p.exists()), path.parent)
        what = "no such folder" if not path.suffix else "no such file"
        found = f"{above} is a file" if above.is_file() else there(above)
        return RatersError(f"{what}; {found}. {self.expected()}", kind="missing-file", file=path)

    def wrong(self, message: str, file: Path) -> RatersError:
        """Report that a file holds something else than this data set."""
        return RatersError(message, kind="dataset", file=file)

    @contextmanager
    def reading(self, path: Path, what: str, *also: type[Exception]) -> Iterator[None]:
        """Report what a file is not (`what`) where reading it fails; `also` are further errors."""
        errors: tuple[type[Exception], ...] = (OSError, ValueError, EOFError, *also)
        try:
            yield
        except RatersError:  # it says more
            raise
        except errors as error:
            raise self.wrong(f"{what}: {error}", path) from None

    def table(self, path: Path, **options: Any) -> pd.DataFrame:  # noqa: ANN401
        """Read a CSV file as texts; options are those of pandas."""
        import pandas as pd

        with self.reading(path, "not a table"):
            given = {"dtype": str, "keep_default_na": False, **options}
            frame: pd.DataFrame = pd.read_csv(path, **given)
        return frame

    def only(self, files: Sequence[Path], source: Path, hint: str) -> Path | None:
        """Return the only file of some, None if there is none; several are rejected."""
        if len(files) > 1:
            names = ", ".join(path.name for path in files)
            raise self.wrong(f"found {names}, expected one {hint}", source)
        return files[0] if files else None

    def expected(self) -> str:
        """Show the layout."""
        tree = "\n".join(f"    {line}" for line in self.layout.strip().splitlines())
        return f"Expected for {self.name}:\n{tree}"


def of_all(found: int, official: int, what: str) -> str:
    """Note where a source is not the whole data set; '' where it is.

    Example:
        >>> of_all(141, 244, "images"), of_all(28, 28, "images")
        ('141 of 244 images', '')
    """
    return "" if found == official else f"{found:,} of {official:,} {what}"


def of_named(found: Collection[str], official: Sequence[str], what: str) -> str:
    """Note where a source is not the whole data set, and name what is missing; '' where it is.

    Example:
        >>> of_named(["a", "c"], ["a", "b", "c"], "cases"), of_named(["a"], ["a"], "cases")
        ('2 of 3 cases: no b', '')
    """
    missing = [name for name in official if name not in found]
    if not missing:
        return ""
    count = of_all(len(official) - len(missing), len(official), what)
    return f"{count}: no {listing(missing, 5)}"


def _packed_or_not(path: Path) -> Path:
    return path.with_suffix("") if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")


def first_there(candidates: Iterable[Path]) -> Path | None:
    """Return the first path that exists."""
    return next((path for path in candidates if path.exists()), None)


def listed(folder: Path, *suffixes: str) -> list[Path]:
    """List the files of a folder with one of the suffixes, sorted; hidden ones are left out."""
    return sorted(
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.suffix.lower() in suffixes and not path.name.startswith(".")
    )


def folders_in(folder: Path, name: str = r"[^.].*") -> list[Path]:
    """List the folders in a folder whose name fits a regular expression, in natural order."""
    inside = folder.iterdir() if folder.is_dir() else ()
    fitting = [path for path in inside if re.fullmatch(name, path.name) and path.is_dir()]
    return sorted(fitting, key=lambda path: natural_key(path.name))


Arrays = Any
"""An array, or a sequence of arrays (or None) by case."""


_REMEMBERED = 8


class Lazy(Sequence[Any]):
    """Arrays that are made when they are asked for; the last few are remembered.

    The masks of all raters of a case are made at once and asked for one by one.

    Example:
        >>> list(Lazy(3, lambda k: k * k))
        [0, 1, 4]
    """

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self._length = length
        self._make = lru_cache(_REMEMBERED)(make)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: Any) -> Any:  # noqa: ANN401
        return self._make(range(self._length)[position])

    def __iter__(self) -> Iterator[Any]:
        return (self._make(k) for k in range(self._length))


class SourceArrays(ArraysBackend):
    """Arrays that know which files they were read from, so a changed file is imported again."""

    def __init__(self, sources: Sequence[Path], *args: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._sources = list(sources)

    def files(self, case: int) -> list[Path]:  # noqa: ARG002
        """List the files of the whole data set: each holds all cases."""
        return self._sources


class CodedFiles(FilesBackend):
    """Files whose masks a function turns into class numbers, as `coded` makes them."""

    def __init__(self, cases: Sequence[CaseFiles], read: Callable[..., RawMask]) -> None:
        super().__init__(cases, LabelRules())
        self._coded = read

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read one rater's mask, or the reference."""
        found = self.cases[case]
        files = found.reference if rater is None else found.masks.get(rater)
        return self._coded(*files.values()) if files else None


def coded(values: Labels, file: Path) -> RawMask:
    """Return a mask of class numbers that came from a file without geometry."""
    return RawMask(values, Geometry(values.shape), str(file), coded=True)


def masks_study(
    sources: Sequence[Path],
    index: CaseIndex,
    classes: Classes,
    about: dict[str, str],
    *,
    images: Arrays = None,
    labels: Arrays = None,
    reference: Arrays = None,
    raters: Sequence[str] = (),
    affines: Arrays = None,
) -> Study:
    """Make a study of masks; nothing is looked at before it is asked for."""
    backend = SourceArrays(sources, raters, labels, images, reference, affines, index.ids)
    return Study(backend, index, tuple(raters), about=about, _classes=classes)


def class_study(
    inputs: Backend | None,
    index: CaseIndex,
    classes: Classes,
    about: dict[str, str],
    reference: Array,
    *,
    raters: Sequence[str] = (),
    answers: Array | tuple[Any, ...] = ((), (), ()),
) -> Study:
    """Make a study of class labels.

    Args:
        inputs: Where images or features come from.
        index: The cases.
        classes: The classes.
        about: Title, licence, citation.
        reference: The true class of each case, MISSING where unknown.
        raters: The names of the raters.
        answers: Positions of task, rater and label of each answer; or class numbers `(cases,
            raters)`, negative where there is no answer.
    """
    from raters.study.triplets import TableBackend, Triplets

    if isinstance(answers, np.ndarray):
        given = np.nonzero(answers >= 0)
        answers = (*given, answers[given])
    task, rater, label = (np.asarray(column, np.int32) for column in answers)
    triplets = Triplets(task, rater, label, index.ids, tuple(raters), classes.values)  # type: ignore[arg-type]
    backend = TableBackend(triplets, inputs, np.asarray(reference, np.int16))
    return Study(backend, index, tuple(raters), "classification", about=about, _classes=classes)


def grouped(study: Study, group: Callable[[str], str]) -> Study:
    """Return cases the group that their name tells."""
    groups = name_array(group(case) for case in study.index.ids)
    return replace(study, index=replace(study.index, groups=groups))
