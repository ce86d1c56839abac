"""Training data in batches: in an order that the epoch decides, read by processes if need be."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from raters.core.errors import RatersError
from raters.learning.distributed import processes, share
from raters.learning.training.dataset import CaseDataset, Item, collate

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
        >>> from raters.learning.networks.normalise import Normalisation
        >>> study = Study.from_arrays(np.ones((5, 1, 4, 4)), np.zeros((5, 3, 4, 4), int))
        >>> data = CaseDataset(study, Normalisation("none"), patch_size=None)
        >>> [tuple(batch["labels"].shape) for batch in loader(data, 2, shuffle=True)]
        [(2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 4, 4)]
    """
    num_workers = enough_workers(dataset) if num_workers is None else num_workers
    if num_workers or not dataset.cases.fits:
        dataset.cases.open_store()
    order = EpochSampler(len(dataset), batch_size, seed, shuffle)
    return _batches(dataset, order, num_workers, seed)


def whole_cases(batches: DataLoader[Item], batch_size: int) -> DataLoader[Item]:
    """Return the cases of a loader whole, as they are and in order; each process has its part."""
    dataset = batches.dataset
    assert isinstance(dataset, CaseDataset)
    whole = dataset.whole()
    mine = share(range(len(whole.study)), *processes())
    items = [k for k, case in enumerate(whole.positions) if case in mine]
    parts = [items[start : start + batch_size] for start in range(0, len(items), batch_size)]
    return _batches(whole, parts, batches.num_workers)


def _batches(
    dataset: CaseDataset, order: Iterable[list[Any]], num_workers: int, seed: int = 0
) -> DataLoader[Item]:
    return LateLoader(
        dataset,
        batch_sampler=order,
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
        >>> from raters.learning.networks.normalise import Normalisation
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


PADDING = None
"""Stands for an item without labels: what a process gets for whom a batch has no item left."""


def refuse_small_batch(batch_size: int, world: int) -> None:
    """Refuse batches that cannot give an item to each process.

    Example:
        >>> refuse_small_batch(2, world=4)
        Traceback (most recent call last):
        ...
        raters.core.errors.RatersError: found batch_size=2 for 4 processes, expected at least 4: ...
    """
    if batch_size < world:
        raise RatersError(
            f"found batch_size={batch_size} for {world} processes, expected at least {world}: "
            "a batch is shared by all processes"
        )


class EpochSampler(Sampler[list[int | None]]):
    """Batches of items in an order from `(seed, epoch)` only; each process gets its part of each.

    Several processes together see in every step exactly the items that one process would see, and
    all make the same number of steps: where a batch has fewer items than there are processes,
    those who go without get `PADDING`. Who this process is is asked when the iteration starts.

    Args:
        length: How many items there are.
        batch_size: Items in a step, of all processes together.
        seed: Where randomness starts.
        shuffle: Whether to draw a new order each epoch.

    Example:
        >>> sampler = EpochSampler(5, batch_size=2, shuffle=False)
        >>> list(sampler), len(sampler)
        ([[0, 1], [2, 3], [4]], 3)
    """

    def __init__(
        self, length: int, batch_size: int = 1, seed: int = 0, shuffle: bool = True
    ) -> None:
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that comes."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.length // self.batch_size)

    def __iter__(self) -> Iterator[list[int | None]]:
        rank, world = processes()
        refuse_small_batch(self.batch_size, world)
        order: Sequence[int] = range(self.length)
        if self.shuffle:
            rng = np.random.default_rng((self.seed, self.epoch))
            order = rng.permutation(self.length).tolist()
        for start in range(0, self.length, self.batch_size):
            part = share(order[start : start + self.batch_size], rank, world)
            yield list(part) if part else [PADDING]
