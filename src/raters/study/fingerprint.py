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


def source_of(study: Study, position: int) -> str:
    """Return a fingerprint of what a case is read from.

    Files are identified by their names, sizes and times; arrays only by what they hold.
    """
    digest = blake2b(digest_size=12)
    files = study.backend.files(study.row(position))
    for array in () if files else _arrays(study, study.row(position)):
        digest.update(f"{array.shape} {array.dtype.str}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    for path in files:
        try:
            facts = path.stat()
            digest.update(f"{path}|{facts.st_size}|{facts.st_mtime_ns}\n".encode())
        except (OSError, ValueError):  # a name that no file can have
            digest.update(f"{path}|unreadable\n".encode())
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
