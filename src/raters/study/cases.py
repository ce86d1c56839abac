"""The cases of a study: their names, groups, splits and diagnoses; finding some, dealing splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of, many

Names = NDArray[np.object_]


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
    numbers = all(isinstance(share, int | float | np.number) for share in fractions.values())
    if not fractions or not numbers or not all(0 < v < np.inf for v in fractions.values()):
        raise RatersError(
            f"found shares {dict(fractions)}, expected positive numbers such as train=0.8, test=0.2"
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise RatersError(f"found the seed {seed!r}, expected 0 or more, a whole number")
    group_of = [str(group) for group in groups]
    names, sizes = np.unique(group_of, return_counts=True)
    if len(names) < len(fractions):
        raise RatersError(
            f"found {len(names)} groups for {len(fractions)} splits, expected a group for each"
        )
    share = np.array(list(fractions.values())) / sum(fractions.values()) * len(group_of)
    filled = np.zeros(len(share))
    split_of: dict[str, str] = {}
    for k in np.random.default_rng(seed).permutation(len(names)):
        goal = int(np.argmin(filled / share))
        filled[goal] += sizes[k]
        split_of[str(names[k])] = list(fractions)[goal]
    return [split_of[group] for group in group_of]


def name_array(names: Iterable[str]) -> Names:
    """Hold names in an array, so that a selection of cases is one indexing."""
    listed = [str(name) for name in names]
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
        names = name_array(ids)
        nothing = [""] * len(ids)
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

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each case is, by name."""
        return {name: k for k, name in enumerate(self.ids)}

    def where(self, case: Any) -> int:  # noqa: ANN401
        """Return the position of a case by name or number."""
        if isinstance(case, str):
            if case not in self.positions:
                raise RatersError(
                    f"found no case {case!r} among {many(len(self), 'case')}, "
                    f"{expected_one_of(self.ids, case)}"
                )
            return self.positions[case]
        if isinstance(case, bool) or not isinstance(case, int | np.integer):
            raise RatersError(
                f"found {case!r}, expected the name or number of a case, a slice, or a list of "
                "names, of numbers, or of True and False for each case"
            )
        if not -len(self) <= case < len(self):
            last = f"0 to {len(self) - 1}" if len(self) else "none: the study has no cases"
            raise RatersError(f"found case number {case}, expected {last}")
        return range(len(self))[case]

    def several(self, wanted: list[Any]) -> NDArray[np.intp]:
        """Return the positions of several cases by name, by number or by a mask."""
        if wanted and all(isinstance(one, bool | np.bool_) for one in wanted):
            if len(wanted) != len(self):
                raise RatersError(f"found a mask of {len(wanted)}, expected one of {len(self)}")
            return np.flatnonzero(wanted)
        found = np.array([self.where(one) for one in wanted], np.intp)
        known, times = np.unique(found, return_counts=True)
        if len(known) < len(found):
            twice = self.ids[known[times > 1][0]]
            raise RatersError(f"found case {twice!r} twice, expected each once")
        return found

    def named(self, wanted: Sequence[str]) -> Flags:
        """Return which cases have one of some names, or fit a wildcard such as `'slide001*'`."""
        keep = np.zeros(len(self), bool)
        for name in wanted:
            if name in self.positions:
                keep[self.positions[name]] = True
                continue
            fits = np.array([fnmatchcase(case, name) for case in self.ids], bool)
            if not fits.any():
                raise RatersError(f"found no case {name!r}, expected a name like {self.ids[0]!r}")
            keep |= fits
        return keep

    def of_column(self, column: str, name: str) -> Flags:
        """Return which cases are of a split, or of a diagnosis."""
        values, several = {
            "split": (self.splits, "splits"),
            "diagnosis": (self.diagnoses, "diagnoses"),
        }[column]
        keep = np.asarray(values == name, bool)
        if not keep.any():
            found = sorted(set(values) - {""})
            known = (
                f"expected one of {', '.join(found)}" if found else f"this study has no {several}"
            )
            raise RatersError(f"found no case in the {column} {name!r}, {known}")
        return keep
