"""The fingerprint of a case, by which a later call sees that it is read from something else."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from raters.core.arrays import Array
from raters.core.geometry import Geometry

if TYPE_CHECKING:
    from raters.study.study import Study


def source_of(study: Study, position: int, *, with_folders: bool = True) -> str:
    """Return a fingerprint of what a case is read from.

    Files are identified by their names, sizes and times; arrays only by what they hold. Without
    their folders, files that are moved together keep their fingerprint.
    """
    digest = blake2b(digest_size=12)
    files = study.backend.files(study.row(position))
    for array in () if files else _arrays(study, study.row(position)):
        digest.update(f"{array.shape} {array.dtype.str}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    for path in files:
        name = path if with_folders else path.name
        try:
            facts = path.stat()
            digest.update(f"{name}|{facts.st_size}|{facts.st_mtime_ns}\n".encode())
        except (OSError, ValueError):  # a name that no file can have
            digest.update(f"{name}|unreadable\n".encode())
    return digest.hexdigest()


def data_of(study: Study, position: int) -> str:
    """Return a fingerprint of all that is learnt from a case.

    As `source_of`, wherever the files lie; of a table with the answers to the task.
    """
    source = source_of(study, position, with_folders=False)
    if study.kind == "segmentation":
        return source
    digest = blake2b(source.encode(), digest_size=12)
    answers = study[position].answers
    digest.update(np.ascontiguousarray(answers.rater, np.int64).data)
    digest.update(np.ascontiguousarray(answers.label, np.int64).data)
    return digest.hexdigest()


def _arrays(study: Study, row: int) -> Iterator[Array]:
    masks = [study.backend.mask(row, rater) for rater in (*study.raters, None)]
    image = study.backend.image(row, None)
    for mask in masks:
        if mask is None:
            yield from _with_affine(np.zeros(0), None)
        else:
            yield from _with_affine(mask.values, mask.geometry)
    if image is None:
        yield from _with_affine(np.zeros(0), None)
    else:
        yield from _with_affine(image.array, image.geometry)


def _with_affine(array: Array, geometry: Geometry | None) -> Iterator[Array]:
    yield array
    yield np.zeros(0) if geometry is None or geometry.affine is None else geometry.affine
