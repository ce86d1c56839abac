"""A `Study`: cases, raters and classes over a store that is read one case at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Array, Flags, Floats, Labels
from raters.errors import RatersError
from raters.rows import html
from raters.study import annotations as kinds
from raters.study.annotations import UNMARKED, Annotation, Unmarked
from raters.study.backend import Backend, LabelRules
from raters.study.case import Case
from raters.study.classes import MISSING, Classes
from raters.wording import expected_one_of
from raters.wording import many as many

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from raters.study.backend_files import FilesBackend
    from raters.study.table_files import Missing
    from raters.study.to_torch import TorchDataset
    from raters.study.triplets import Triplets


def assign_splits(
    groups: Iterable[str], fractions: Mapping[str, float], seed: int = 0
) -> list[str]:
    """Assign each case to a split, whole groups at a time, in an order drawn from the seed.

    The fractions are of cases and need not sum to one. Groups are dealt in random order, each to
    the split that is furthest below its share, so that every split with a share gets a group as
    long as there are groups.

    Example:
        >>> assign_splits(["p1", "p1", "p2", "p3"], {"train": 0.5, "test": 0.5}, seed=0)
        ['test', 'test', 'train', 'train']
    """
    total = sum(fractions.values())
    if not fractions or not all(0 < share < np.inf for share in fractions.values()):
        raise RatersError(
            f"found shares {dict(fractions)}, expected positive numbers such as train=0.8, test=0.2"
        )
    if seed < 0:
        raise RatersError(f"found the seed {seed}, expected 0 or more")
    group_of = [str(group) for group in groups]
    names, sizes = np.unique(group_of, return_counts=True)
    if len(names) < len(fractions):
        raise RatersError(
            f"found {len(names)} groups for {len(fractions)} splits, expected a group for each"
        )
    share = np.array(list(fractions.values())) / total * len(group_of)
    filled = np.zeros(len(share))
    split_of: dict[str, str] = {}
    for k in np.random.default_rng(seed).permutation(len(names)):
        goal = int(np.argmin(filled / share))
        filled[goal] += sizes[k]
        split_of[str(names[k])] = list(fractions)[goal]
    return [split_of[group] for group in group_of]


Kind = Literal["segmentation", "classification"]
Names = NDArray[np.object_]


ANONYMOUS = "anonymous"
"""What `about["raters"]` says where columns of labels are not people."""


def name_array(names: Iterable[str]) -> Names:
    """Hold names in an array, so that a selection of cases is one indexing."""
    listed = list(names)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array


@dataclass(frozen=True)
class CaseIndex:
    """The names of cases, the group (patient) of each, its split and its diagnosis ('': none)."""

    ids: Names
    groups: Names
    splits: Names
    diagnoses: Names

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        groups: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
        diagnoses: Sequence[str] | None = None,
    ) -> CaseIndex:
        """Make an index; without groups every case is its own."""
        names, nothing = name_array(ids), [""] * len(ids)
        return cls(
            names,
            names if groups is None else name_array(groups),
            name_array(nothing if splits is None else splits),
            name_array(nothing if diagnoses is None else diagnoses),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.intp]) -> CaseIndex:
        """Keep some cases, by position."""
        columns = (self.ids, self.groups, self.splits, self.diagnoses)
        return CaseIndex(*(column[rows] for column in columns))


@dataclass(frozen=True, eq=False)
class Study:
    """What several raters said of the same cases.

    Make one with `raters.read` (files, folders, tables), `Study.from_arrays` or `Study.from_frame`.

    Attributes:
        backend: The store that is read from.
        index: Names, groups, splits and diagnoses of the cases.
        raters: The names of the raters.
        kind: 'segmentation' (masks) or 'classification' (one label per case).
        rules: How mask files were understood.
        channels: The names of the image channels, where they are known.
        about: Facts to keep with the data: title, licence, citation; `raters: anonymous` where
            a column of labels is not a person.
        problems: What was wrong with the files' names; `raters check` lists it.
        rows: Where the cases of this (selected) study are in the store.
        folder: The folder that it was opened from, if `raters` wrote that.
        notes: What a user should know of how the study was opened, a sentence each.
        sources: Where it was read from: patterns, folders and files, as whole paths.
        opened: The arguments of `raters.read` as plain data, where they alone make this study.
        unmarked: What pixels say that a positive or negative drawing leaves unmarked: that they
            are the 'rest', or that they are 'unknown'.

    Example:
        >>> labels = np.array([[[[0, 1]], [[0, 0]]]])          # 1 case, 2 raters, 1 x 2 pixels
        >>> study = Study.from_arrays(labels=labels, raters=["ann", "bob"])
        >>> study
        Study(segmentation, 1 case, 2 raters, 2 classes)
        >>> [case.labels.shape for case in study.iter_cases()]
        [(2, 1, 2)]
        >>> study.select(raters=["bob"])["0"].labels
        array([[[0, 0]]], dtype=int16)
        >>> study[0], study[:1]                                # a case; a study of the first cases
        (Case('0', 2 raters), Study(segmentation, 1 case, 2 raters, 2 classes))
    """

    backend: Backend
    index: CaseIndex
    raters: tuple[str, ...]
    kind: Kind = "segmentation"
    rules: LabelRules = field(default_factory=LabelRules)
    channels: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[RatersError, ...] = ()
    rows: NDArray[np.intp] | None = None
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    opened: Mapping[str, Any] | None = None
    unmarked: Unmarked = UNMARKED
    _classes: Classes | None = None
    _chosen: tuple[str, ...] | None = None
    _annotations: Mapping[str, Annotation] = field(default_factory=dict)

    @property
    def anonymous(self) -> bool:
        """Whether a rater's name in one case and in the next may be different people.

        Then no rater can be ranked or fitted: `about["raters"]` says 'anonymous'.
        """
        return self.about.get("raters") == ANONYMOUS

    @cached_property
    def annotations(self) -> Mapping[str, Annotation]:
        """What the labels of each rater mean (`raters.study.annotations`): 'mask' unless told."""
        return {rater: self._annotations.get(rater, "mask") for rater in self.raters}

    @property
    def drawn(self) -> bool:
        """Whether a rater gave anything else than masks."""
        return any(kind != "mask" for kind in self.annotations.values())

    @property
    def negatives(self) -> tuple[str, ...]:
        """The raters whose labels say what a pixel is not; none with two classes."""
        return kinds.complementary(self.annotations, len(self.classes)) if self.drawn else ()

    def without_negatives(self) -> Study:
        """Return the study of the raters whose labels say what a pixel is; a note names the others.

        Example:
            >>> names = {"raters": ["ann", "ben"], "annotations": {"ben": "negative"}}
            >>> study = Study.from_arrays(labels=np.array([[[[0, 1, 2]], [[0, 1, 2]]]]), **names)
            >>> study.without_negatives().raters, study.without_negatives().notes
            (('ann',), ('left out, as negative drawings say what a pixel is not: ben',))
        """
        out = self.negatives
        if not out:
            return self
        note = f"left out, as negative drawings say what a pixel is not: {', '.join(out)}"
        others = self.select(raters=[rater for rater in self.raters if rater not in out])
        return replace(others, notes=(*self.notes, note), opened=self.opened)

    def readings(self) -> list[str]:
        """Return how drawings are read, a sentence for each kind; none where all gave masks."""
        if not self.drawn:
            return []
        return kinds.told(self.annotations, self.unmarked, self.classes.names)

    def annotate(self, annotations: Mapping[str, Any] | None, unmarked: str | None = None) -> Study:
        """Return the study with what the labels of some raters mean.

        Args:
            annotations: By rater one of 'mask', 'positive', 'negative', 'scribble' and 'box'; the
                other raters keep theirs.
            unmarked: What pixels say that a positive or negative drawing leaves unmarked: 'rest' or
                'unknown'; None keeps it.

        Example:
            >>> labels = np.array([[[[0, 1]], [[0, 1]]]])
            >>> study = Study.from_arrays(labels=labels, raters=["ann", "ben"])
            >>> study.annotate({"ben": "negative"})[0].labels.tolist()
            [[[0, 1]], [[1, 0]]]
        """
        given = kinds.checked(annotations or {}, self.raters, self.kind)
        if unmarked is not None and self.kind == "classification":
            raise RatersError(
                f"found unmarked={unmarked!r} for a table of class labels, expected none: kinds of "
                "annotation are for masks",
                kind="annotation",
            )
        return replace(
            self,
            _annotations={**self._annotations, **given},
            unmarked=self.unmarked if unmarked is None else kinds.known_unmarked(unmarked),
            opened=None,
        )

    @classmethod
    def from_arrays(
        cls,
        images: Any = None,  # noqa: ANN401
        labels: Any = None,  # noqa: ANN401
        reference: Any = None,  # noqa: ANN401
        raters: Sequence[str] | None = None,
        classes: Any = None,  # noqa: ANN401
        groups: Sequence[str] | None = None,
        cases: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
        diagnoses: Sequence[str] | None = None,
        affines: Sequence[Floats | None] | None = None,
        channels: Sequence[str] = (),
        about: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        unmarked: str | None = None,
    ) -> Study:
        """Make a study from arrays, or from sequences of arrays where cases differ in shape.

        Images of SimpleITK and nibabel are taken with their geometry (one per case for images and
        references, one per rater in the labels of a case), tensors of torch as arrays.

        Args:
            images: `(cases, channels, *space)`, or `(cases, features)` for classes.
            labels: Class numbers with -1 for MISSING: `(cases, raters, *space)`, or
                `(cases, raters)` for classes.
            reference: Truth, class numbers: `(cases, *space)`, or `(cases,)` for classes.
            raters: Names of the raters; by default '0', '1', ...
            classes: Names of the classes, `{value: name}`, or `Classes`; else from the labels.
            groups: The patient (or the like) of each case; splits never tear a group apart.
            cases: Names of the cases; by default '0', '1', ...
            splits: The split of each case.
            diagnoses: What each case was found to be, such as the disease that its masks are drawn
                for; '', None or NaN where nobody knows.
            affines: One affine per case (RAS millimetres).
            channels: Names of the image channels.
            about: Title, licence, citation.
            annotations: What the labels of raters mean that are not masks, as for `annotate`.
            unmarked: What unmarked pixels of drawings say, as for `annotate`.
        """
        from raters.study.backend import arrays_backend, names_of_cases, same_length
        from raters.study.foreign import converted

        images, labels, reference, affines = converted(images, labels, reference, affines)
        number = same_length(
            images=images,
            labels=labels,
            reference=reference,
            groups=groups,
            cases=cases,
            splits=splits,
            diagnoses=diagnoses,
            affines=affines,
        )
        ids = names_of_cases(cases, number)
        index = CaseIndex.of(
            ids,
            None if groups is None else [str(group) for group in groups],
            None if splits is None else [str(split) for split in splits],
            None
            if diagnoses is None
            else ["" if _unknown(name) else str(name) for name in diagnoses],
        )
        backend, kind, names, found = arrays_backend(
            index.ids, images, labels, reference, raters, classes, affines
        )
        study = cls(
            backend,
            index,
            names,
            kind,
            channels=tuple(str(channel) for channel in channels),
            about={str(key): str(value) for key, value in (about or {}).items()},
            _classes=found,
        )
        return study.annotate(annotations, unmarked)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        wide: bool | None = None,
        missing: Missing = None,
        reference: str | None = None,
        group: str | None = None,
        split: str | None = None,
        diagnosis: str | None = None,
        features: Sequence[str] | None = None,
        images: Any = None,  # noqa: ANN401
        classes: Any = None,  # noqa: ANN401
    ) -> Study:
        """Make a study of class labels from a pandas frame.

        Long: one row per label, with columns for task, rater and label. Wide: one row per task and
        one column per rater, tasks named by a column or by the index. A frame with a column of
        raters or of labels is long, any other is wide. Columns are known by usual names
        (`raters.study.frames.USUAL`): task, case or item; worker, rater or annotator; label or
        answer; reference or truth; group or patient; split; diagnosis. All other columns of a wide
        frame are raters.

        Args:
            frame: The frame. Levels of the index that have names count as columns.
            task: The column of tasks.
            worker: The column of raters, in long form.
            label: The column of labels, in long form.
            wide: Whether each column is a rater; None looks.
            missing: A value that means 'no label', or several; empty cells always do.
            reference: The column of true labels, where they are known.
            group: The column of groups (patients); splits never tear a group apart.
            split: The column of splits.
            diagnosis: The column of diagnoses.
            features: Columns of numbers to learn from.
            images: Images or features, one per task in the natural order of their names; or a
                pattern of files, an `.npy` file, or a column of paths.
            classes: Names of the classes, `{value: name}`, or `Classes`; else from the labels.

        Example:
            >>> import pandas as pd
            >>> said = {"rater": ["ann", "bob"], "case": ["t1", "t1"], "label": ["cat", "dog"]}
            >>> Study.from_frame(pd.DataFrame(said))
            Study(classification, 1 case, 2 raters, 2 classes)
            >>> wide = pd.DataFrame({"ann": [0, 1], "bob": [0, None]}, index=["t1", "t2"])
            >>> Study.from_frame(wide).triplets.frame().to_numpy().tolist()
            [['t1', 'ann', 0], ['t1', 'bob', 0], ['t2', 'ann', 1]]
        """
        from raters.study.frames import frame_study

        named = {"task": task, "worker": worker, "label": label}
        beside = {"reference": reference, "group": group, "split": split, "diagnosis": diagnosis}
        return frame_study(frame, wide, missing, features, images, classes, **named, **beside)

    def __repr__(self) -> str:
        classes = (
            "classes not read yet" if self._classes is None else many(len(self.classes), "class")
        )
        parts = [self.kind, many(len(self), "case"), many(len(self.raters), "rater"), classes]
        return f"Study({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Show the study in a notebook; nothing is read for it."""
        index = self.index
        columns = {"case": index.ids, "group": index.groups, "split": index.splits}
        if any(index.diagnoses):
            columns["diagnosis"] = index.diagnoses
        names = {"raters": ", ".join(self.raters[:20])}
        if self._classes is not None:
            names["classes"] = ", ".join(self.classes.names[:20])
        rows = zip(*columns.values(), strict=True)
        cases = [dict(zip(columns, row, strict=True)) for row in rows]
        return html(repr(self), {"": [names], "cases": cases})

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, case: str | int) -> Case: ...

    @overload
    def __getitem__(self, case: slice | range | Sequence[Any] | NDArray[Any]) -> Study: ...

    def __getitem__(self, case: Any) -> Case | Study:
        """Return a case by name or number; a study of several by a list, an array or a mask."""
        if isinstance(case, slice):
            return self.take(np.arange(len(self))[case])
        if isinstance(case, range | list) or (hasattr(case, "__array__") and np.ndim(case) == 1):
            several = list(case) if isinstance(case, range | list) else np.asarray(case).tolist()
            return self.take(self._several(several))
        return Case(self, self._where(case))

    def _where(self, case: Any) -> int:  # noqa: ANN401
        """Return the position of a case by name or number."""
        if isinstance(case, str):
            if case not in self._positions:
                raise RatersError(
                    f"found no case {case!r} among {many(len(self), 'case')}, "
                    f"{expected_one_of(self.cases, case)}"
                )
            return self._positions[case]
        if isinstance(case, bool) or not isinstance(case, int | np.integer):
            raise RatersError(
                f"found {case!r}, expected the name or number of a case, a slice, or a list of "
                "names, of numbers, or of True and False for each case"
            )
        if not -len(self) <= case < len(self):
            last = f"0 to {len(self) - 1}" if len(self) else "none: the study has no cases"
            raise RatersError(f"found case number {case}, expected {last}")
        return range(len(self))[case]

    def _several(self, wanted: list[Any]) -> NDArray[np.intp]:
        """Return the positions of several cases by name, by number or by a mask."""
        if wanted and all(isinstance(one, bool | np.bool_) for one in wanted):
            if len(wanted) != len(self):
                raise RatersError(f"found a mask of {len(wanted)}, expected one of {len(self)}")
            return np.flatnonzero(wanted)
        found = np.array([self._where(one) for one in wanted], np.intp)
        known, times = np.unique(found, return_counts=True)
        if len(known) < len(found):
            twice = self.index.ids[known[times > 1][0]]
            raise RatersError(f"found case {twice!r} twice, expected each once")
        return found

    def take(self, positions: NDArray[np.intp]) -> Study:
        """Return the study of some cases, by position."""
        rows = positions if self.rows is None else self.rows[positions]
        return replace(self, index=self.index.take(positions), rows=rows, opened=None)

    def iter_cases(self) -> Iterator[Case]:
        """Return the cases one by one; nothing is read before it is asked for."""
        return (Case(self, position) for position in range(len(self)))

    __iter__ = iter_cases

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.index.ids)}

    @property
    def cases(self) -> tuple[str, ...]:
        """The names of the cases."""
        return tuple(self.index.ids)

    @cached_property
    def _all_classes(self) -> Classes:
        if self._classes is not None:
            return self._classes
        # Found over the whole store, so that a part of the study numbers its classes as the whole.
        return cast("FilesBackend", self.backend).classes

    @cached_property
    def _choice(self) -> tuple[Classes, Labels | None]:
        if self._chosen is None:
            return self._all_classes, None
        return self._all_classes.choose(self._chosen, keep_background=self.kind == "segmentation")

    @property
    def classes(self) -> Classes:
        """The classes; if they were not named, all masks are read once to find their values."""
        return self._choice[0]

    @property
    def all_classes(self) -> Classes:
        """The classes of the whole study, also those that were not chosen."""
        return self._all_classes

    @property
    def classes_named(self) -> bool:
        """Whether the classes are known without reading the masks."""
        return self._classes is not None

    @property
    def ignored(self) -> tuple[int, ...]:
        """The values in raw masks that mean MISSING."""
        return getattr(self.backend, "ignored", self.rules.ignore)

    def row(self, position: int) -> int:
        """Where a case of this study is in the store."""
        return position if self.rows is None else int(self.rows[position])

    def encode(self, values: Array, coded: bool, ignore: Collection[int] | None = None) -> Labels:
        """Turn the values of a mask into class numbers of this study.

        Args:
            values: Values as files hold them, or class numbers of the whole study if `coded`.
            coded: Whether `values` are class numbers.
            ignore: Values that mean MISSING; by default those of the study's own files.
        """
        table, numbers = self._choice[1], self._numbers(values, coded, ignore)
        return numbers if table is None else table[numbers]

    def _numbers(self, values: Array, coded: bool, ignore: Collection[int] | None = None) -> Labels:
        """Turn the values of a mask into class numbers of the whole study."""
        if coded:
            _refuse_unknown(values, len(self._all_classes))
        ignored = self.ignored if ignore is None else ignore
        labels = values if coded else self._all_classes.encode(values, ignored)
        return labels.astype(np.int16)

    def encode_drawing(
        self, values: Array, coded: bool, rater: str, settle: bool = False
    ) -> Labels:
        """Turn what a rater drew into class numbers of this study, not yet read as its kind.

        Args:
            values: Values as files hold them, or class numbers of the whole study if `coded`.
            coded: Whether `values` are class numbers.
            rater: Who drew it.
            settle: Say with MISSING where nothing is said, so that MISSING may be added.

        Raises:
            RatersError: for boxes that are none.
        """
        kind, every = self.annotations[rater], self._all_classes
        if kind == "mask":
            return self.encode(values, coded)
        labels, table = self._numbers(values, coded), self._choice[1]
        if kind == "box":
            kinds.refuse_no_box(labels, every.names)
        if table is None and not settle:
            return labels
        labels = kinds.explicit(labels, kind, self.unmarked, len(every))
        return labels if table is None else kinds.chosen(labels, kind, table, len(self.classes))

    @cached_property
    def triplets(self) -> Triplets:
        """All answers of a classification study in long form, as selected."""
        from raters.study.triplets import TableBackend

        if not isinstance(self.backend, TableBackend):
            raise RatersError("found masks, expected a table: triplets are for class labels")
        rows = np.arange(len(self)) if self.rows is None else self.rows
        return self.backend.selected(rows, self.raters, self.classes, self._choice[1])

    @cached_property
    def reference_labels(self) -> Labels | None:
        """The true class of each case of a classification study, MISSING where unknown."""
        whole = getattr(self.backend, "reference", None)
        if whole is None or self.kind != "classification":
            return None
        chosen = whole if self.rows is None else whole[self.rows]
        return self.encode(chosen, coded=True)

    def select(
        self,
        raters: Sequence[str] | None = None,
        cases: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        split: str | None = None,
        diagnosis: str | None = None,
    ) -> Study:
        """Select a part of the study; nothing is copied, and read only to find unnamed classes.

        Args:
            raters: Names of raters to keep, in their order in the study.
            cases: Names of cases, or wildcards such as `'slide001*'`.
            classes: Names (or values) of classes; in masks the others become background,
                in tables they become MISSING.
            split: Keep the cases of one split.
            diagnosis: Keep the cases of one diagnosis.
        """
        keep = np.ones(len(self), bool)
        if cases is not None:
            keep &= self._named(cases)
        if split is not None:
            keep &= _those_of("split", split, self.index.splits)
        if diagnosis is not None:
            keep &= _those_of("diagnosis", diagnosis, self.index.diagnoses)
        chosen = replace(
            self.take(np.flatnonzero(keep)),
            raters=self.raters if raters is None else self._known_raters(raters),
        )
        if classes is None:
            return chosen
        self.classes.choose(classes, keep_background=True)  # rejects what is not there (any more)
        return replace(chosen, _classes=self._all_classes, _chosen=tuple(classes))

    def _named(self, wanted: Sequence[str]) -> Flags:
        keep = np.zeros(len(self), bool)
        for name in wanted:
            if name in self._positions:
                keep[self._positions[name]] = True
                continue
            fits = np.array([fnmatchcase(case, name) for case in self.index.ids], bool)
            if not fits.any():
                raise RatersError(
                    f"found no case {name!r}, expected a name like {self.index.ids[0]!r}"
                )
            keep |= fits
        return keep

    def _known_raters(self, wanted: Sequence[str]) -> tuple[str, ...]:
        for name in wanted:
            if name not in self.raters:
                raise RatersError(
                    f"found no rater {name!r}, expected one of {', '.join(self.raters[:20])}"
                )
        return tuple(name for name in self.raters if name in set(wanted))

    def split(self, seed: int = 0, **fractions: float) -> Study:
        """Assign cases to splits by group, so that no group is in two of them.

        Example:
            >>> study = Study.from_arrays(labels=np.zeros((6, 1, 2, 2), int), groups=list("aabbcc"))
            >>> sorted(study.split(train=2, test=1, seed=1).index.splits)
            ['test', 'test', 'train', 'train', 'train', 'train']
        """
        splits = assign_splits(self.index.groups, fractions, seed)
        return replace(self, index=replace(self.index, splits=name_array(splits)))

    def write(self, folder: str | Path, form: str = "canonical", **options: Any) -> Study:  # noqa: ANN401
        """Write the study to a folder and open it from there; see `raters.study.write`."""
        from raters.study.write import write_study

        return write_study(self, folder, form, **options)

    def to_torch(self, transform: Callable[[dict[str, Any]], Any] | None = None) -> TorchDataset:
        """Return a torch `Dataset` over the cases, for any training loop.

        An item is a dictionary, as MONAI's transforms take it: `image` `(channels, *space)` in
        float32 where the study has images, `labels` `(raters, *space)` in int64 with MISSING (-1),
        `reference` `(*space)` likewise where the study has references, `affine` of masks (the
        identity where nobody knows), and `case`, the name. Different answers of one rater to a task
        are refused. Cases of one shape go through torch's own `DataLoader` in batches.

        Args:
            transform: What is done to an item, for example a `monai.transforms.Compose`.

        Example:
            >>> labels = np.array([[[[0, 1]], [[0, -1]]]])
            >>> item = Study.from_arrays(labels=labels, images=np.ones((1, 1, 1, 2))).to_torch()[0]
            >>> {name: getattr(value, "shape", value) for name, value in item.items()}
            {'image': torch.Size([1, 1, 2]), 'labels': torch.Size([2, 1, 2]),
             'affine': torch.Size([4, 4]), 'case': '0'}
        """
        from raters.study.to_torch import TorchDataset

        return TorchDataset(self, transform)


def _unknown(name: object) -> bool:
    return name is None or (isinstance(name, float | np.floating) and bool(np.isnan(name)))


_SEVERAL = {"split": "splits", "diagnosis": "diagnoses"}


def _those_of(column: str, name: str, values: Names) -> Flags:
    """Return which cases are of a split, or of a diagnosis."""
    keep = np.asarray(values == name, bool)
    if not keep.any():
        found = sorted(set(values) - {""})
        nothing = f"this study has no {_SEVERAL[column]}"
        known = f"expected one of {', '.join(found)}" if found else nothing
        raise RatersError(f"found no case in the {column} {name!r}, {known}")
    return keep


def _refuse_unknown(numbers: Array, num_classes: int) -> None:
    if numbers.size and not (int(numbers.min()) >= MISSING and int(numbers.max()) < num_classes):
        raise RatersError(
            f"found class numbers from {numbers.min()} to {numbers.max()}, "
            f"expected {MISSING} (missing) to {num_classes - 1}",
            kind="unknown-value",
        )
