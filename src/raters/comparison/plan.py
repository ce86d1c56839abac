"""What a comparison on one's own study trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raters.comparison.cell import Cell, why_empty

NAME = "own"
SCALE = "laptop"
"""Results lie at FOLDER/own/laptop/."""


@dataclass(frozen=True)
class Plan:
    """What a comparison trains: each method on each fold with each seed.

    Attributes:
        methods: Names of learning methods.
        folds: Names of the folds.
        seeds: Of the training.
        scores: What is shown, by name.
        baseline: The method that others are compared with.
        data: How the study is read and dealt into folds.
        train: Options of training, for all methods alike.
    """

    methods: tuple[str, ...]
    folds: tuple[str, ...]
    seeds: tuple[int, ...]
    scores: tuple[str, ...]
    baseline: str
    data: Mapping[str, Any]
    train: Mapping[str, Any]

    def cells(self) -> list[Cell]:
        """Return the cells; those that share a fold are neighbours.

        A method that needs more than a study has (`why_empty`) has no cells.
        """
        cells = []
        for number, fold in enumerate(self.folds):
            for seed in self.seeds:
                for method in self.methods:
                    if why_empty(method):
                        continue
                    cell = Cell(
                        benchmark=NAME,
                        scale=SCALE,
                        setting=fold,
                        row=method,
                        seed=seed,
                        method=method,
                        options={},
                        data={**self.data, "fold": number},
                        raters={},
                        train=self.train,
                    )
                    cells.append(cell)
        return cells
