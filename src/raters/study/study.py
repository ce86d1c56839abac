"""A `Study`: cases, raters and classes over a store that is read one case at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats
from raters.core.errors import RatersError, one_of
from raters.core.wording import listing, many
from raters.io.rows import html
from raters.study import annotations as kinds
from raters.study.case import Case
from raters.study.cases import CaseIndex, assign_splits, name_array
from raters.study.data import StudyData

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from raters.io.table_files import Missing
    from raters.learning.training.to_torch import TorchDataset


class Study(StudyData):
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

    def annotate(self, annotations: Mapping[str, Any] | None, unmarked: str | None = None) -> Study:
        """Return the study with what the labels of some raters mean.

        Args:
            annotations: By rater one of 'mask', 'positive', 'negative', 'scribble' and 'box'; the
                other raters keep theirs.
            unmarked: What pixels say that a positive or negative drawing leaves unmarked: 'rest' or
                'unknown'; None keeps it (at first 'unknown' where both kinds were drawn).

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
        told = {**self._annotations, **given}
        usual = self.unmarked if self.drawn else kinds.usual_unmarked(told)
        how = usual if unmarked is None else kinds.known_unmarked(unmarked)
        return replace(self, _annotations=told, unmarked=how, opened=None)

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
            labels: Class numbers; -1, NaN and masked are MISSING: `(cases, raters, *space)`, or
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

        arrays = converted(images, labels, reference, affines)
        number = same_length(
            **arrays, groups=groups, cases=cases, splits=splits, diagnoses=diagnoses
        )
        if diagnoses is not None:
            diagnoses = ["" if _unknown(name) else name for name in diagnoses]
        index = CaseIndex.of(names_of_cases(cases, number), groups, splits, diagnoses)
        backend, kind, names, found = arrays_backend(
            index.ids, **arrays, raters=raters, classes=classes
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
        (`raters.study.table_study.USUAL`): task, case or item; worker, rater or annotator; label or
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
        from raters.study.table_study import frame_study

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
        names = {"raters": listing(self.raters)}
        if self._classes is not None:
            names["classes"] = listing(self.classes.names)
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
            return self.take(self.index.several(several))
        return Case(self, self.index.where(case))

    def take(self, positions: NDArray[np.intp]) -> Study:
        """Return the study of some cases, by position."""
        rows = positions if self.rows is None else self.rows[positions]
        return replace(self, index=self.index.take(positions), rows=rows, opened=None)

    def iter_cases(self) -> Iterator[Case]:
        """Return the cases one by one; nothing is read before it is asked for."""
        return (Case(self, position) for position in range(len(self)))

    __iter__ = iter_cases

    @property
    def cases(self) -> tuple[str, ...]:
        """The names of the cases."""
        return tuple(self.index.ids)

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
            keep &= self.index.named(cases)
        if split is not None:
            keep &= self.index.of_column("split", split)
        if diagnosis is not None:
            keep &= self.index.of_column("diagnosis", diagnosis)
        kept = self.raters
        if raters is not None:
            wanted = {one_of(self.raters, name, "no rater") for name in raters}
            kept = tuple(name for name in self.raters if name in wanted)
        chosen = replace(self.take(np.flatnonzero(keep)), raters=kept)
        if classes is None:
            return chosen
        self.classes.choose(classes, keep_background=True)  # rejects what is not there (any more)
        return replace(chosen, _classes=self.all_classes, _chosen=tuple(classes))

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
        from raters.learning.training.to_torch import TorchDataset

        return TorchDataset(self, transform)


def _unknown(name: object) -> bool:
    return name is None or (isinstance(name, float | np.floating) and bool(np.isnan(name)))
