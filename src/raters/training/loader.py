"""Training data in batches: in an order that the epoch decides, read by processes if need be."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from raters.training.collate import Item, collate
from raters.training.dataset import CaseDataset
from raters.training.sampler import EpochSampler

MOST_WORKERS = 2
"""Processes that read data, by default."""


class LateLoader(DataLoader[Item]):
    """A loader whose workers start when the first batch is asked for, not before.

    Lightning makes the iterator of a resumed run before it says which epoch comes: workers that
    started there would give the data of epoch 0.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        yield from super().__iter__()


def loader(
    dataset: CaseDataset, batch_size: int, shuffle: bool, seed: int = 0, num_workers: int | None = 0
) -> DataLoader[Item]:
    """Make a loader of batches; call `set_epoch` before every epoch.

    With workers, cases are kept in the store on disk, where all workers see them: each is a fork
    that lives for one epoch, and what it remembers is lost with it.

    Args:
        dataset: The items.
        batch_size: Items in a step, of all processes together.
        shuffle: Whether to draw a new order each epoch.
        seed: Where randomness starts.
        num_workers: Processes that read data; None lets the data decide.

    Example:
        >>> import numpy as np
        >>> from raters.study.study import Study
        >>> from raters.training.normalise import Normalisation
        >>> study = Study.from_arrays(np.ones((5, 1, 4, 4)), np.zeros((5, 3, 4, 4), int))
        >>> data = CaseDataset(study, Normalisation("none"), patch_size=None)
        >>> [tuple(batch["labels"].shape) for batch in loader(data, 2, shuffle=True)]
        [(2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 4, 4)]
    """
    num_workers = enough_workers(dataset) if num_workers is None else num_workers
    if num_workers or not dataset.cases.fits:
        dataset.cases.open_store()
    return LateLoader(
        dataset,
        batch_sampler=EpochSampler(len(dataset), batch_size, seed, shuffle),
        num_workers=num_workers,
        collate_fn=collate,
        # A loader draws a seed each epoch: not from the stream that dropout draws from.
        generator=torch.Generator().manual_seed(seed),
        multiprocessing_context=multiprocessing.get_context("fork") if num_workers else None,
    )


def enough_workers(dataset: CaseDataset) -> int:
    """Choose how many processes read data: none where all cases fit in memory.

    Example:
        >>> import numpy as np
        >>> from raters.study.study import Study
        >>> from raters.training.normalise import Normalisation
        >>> study = Study.from_arrays(np.ones((5, 1, 4, 4)), np.zeros((5, 3, 4, 4), int))
        >>> enough_workers(CaseDataset(study, Normalisation("none"), patch_size=None))
        0
    """
    return 0 if dataset.cases.fits else min(MOST_WORKERS, max((os.cpu_count() or 1) - 1, 0))


def set_epoch(batches: DataLoader[Item], epoch: int) -> None:
    """Tell the data set and the order of a loader which epoch comes."""
    for part in (batches.dataset, batches.batch_sampler):
        if isinstance(part, CaseDataset | EpochSampler):
            part.set_epoch(epoch)
