"""A study as a torch `Dataset`: one dictionary per case, as MONAI and others take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.study.case import Case
from raters.study.study import Study


class TorchDataset(Dataset[Any]):
    """The cases of a study; `Study.to_torch` says what an item holds."""

    def __init__(
        self, study: Study, transform: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        self.study = study
        self.transform = transform
        self._holds = study.backend.holds()

    def __len__(self) -> int:
        return len(self.study)

    def __getitem__(self, position: int) -> Any:  # noqa: ANN401
        if not -len(self) <= position < len(self):
            raise IndexError(position)  # so that a loop over it ends
        case = self.study[int(position)]
        item: dict[str, Any] = {}
        if self._holds["images"]:
            if case.image is None:
                raise RatersError(f"found no image of case {case.id!r}, expected one", case=case.id)
            item["image"] = torch.from_numpy(np.ascontiguousarray(case.image, np.float32))
        labels = _answers(case) if case.kind == "classification" else case.labels
        item["labels"] = torch.from_numpy(labels.astype(np.int64))
        if self._holds["reference"]:
            empty = np.full(labels.shape[1:], MISSING)
            known = empty if case.reference is None else case.reference
            item["reference"] = torch.from_numpy(np.asarray(known, np.int64))
        if case.kind == "segmentation":
            affine = case.geometry.affine
            item["affine"] = torch.from_numpy(np.array(np.eye(4) if affine is None else affine))
        item["case"] = case.id
        return item if self.transform is None else self.transform(item)


def _answers(case: Case) -> np.ndarray[Any, Any]:
    """Return one label per rater, MISSING for one who did not answer."""
    answers = case.answers
    labels = np.full(len(case.answers.raters), MISSING)
    labels[answers.rater] = answers.label
    other = np.flatnonzero(labels[answers.rater] != answers.label)
    if len(other):
        rater = answers.raters[answers.rater[other[0]]]
        raise RatersError(
            f"found different answers by {rater!r} to task {case.id!r}, expected one per rater",
            case=case.id,
            rater=rater,
        )
    return labels
