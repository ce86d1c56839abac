"""GrabCut: colours of object and background, and a graph cut, in turns (by OpenCV).

C. Rother, V. Kolmogorov and A. Blake, "GrabCut": interactive foreground extraction using iterated
graph cuts, ACM Transactions on Graphics 23(3), 2004.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from raters.core.arrays import Array, Flags
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.marks import as_fusion, distances, marks_of
from raters.fusion.option_values import Count
from raters.fusion.result import Fusion
from raters.fusion.superpixels import in_range


def grabcut(labels: Array, num_classes: int, image: Array, *, max_iter: Count = 5) -> Fusion:
    """Make a mask of what raters marked and the image, in 2D.

    Colours inside and outside of the object are mixtures of Gaussians; mixtures and mask are found
    in turns, and marked pixels keep their class. Unmarked pixels start as the class that is marked
    with the nearest colour. Where only the object is marked they start as background. Where only
    background is (outside of a box), they start as object, as in the paper; of three classes or
    more nobody knows then which, and all is background.

    Of three classes or more, each is cut out against all others. A pixel that several claim is
    MISSING, one that none claims is background. Without any marks all is MISSING.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        image: `(channels, *space)`, of 1 or 3 channels.
        max_iter: How often mixtures and mask are found.

    Raises:
        RatersError: OpenCV is not installed, the image is a volume, or has 2 or more than 3
            channels.
    """
    _refuse(image)
    marks = marks_of(labels, num_classes)
    if (marks == MISSING).all():
        return as_fusion(marks, num_classes)
    pixels = in_range(image)
    objects = [c for c in range(1, num_classes) if (marks == c).any()]
    if num_classes == 2:
        objects = [1]
    claims = np.zeros((num_classes, *marks.shape), bool)
    for number in objects:
        claims[number] = _object(pixels, marks, number, max_iter)
    mask = np.where(claims.sum(axis=0) > 1, MISSING, claims.argmax(axis=0))
    return as_fusion(np.where(marks == MISSING, mask, marks), num_classes)


def _object(pixels: Array, marks: Array, number: int, rounds: int) -> Flags:
    """Cut one class out against all others."""
    import cv2

    free = marks == MISSING
    there = marks == number
    if not free.any():
        return np.asarray(there)
    starts = _start(pixels, marks, number)
    known = np.where(there, cv2.GC_FGD, cv2.GC_BGD)
    state = np.where(free, np.where(starts, cv2.GC_PR_FGD, cv2.GC_PR_BGD), known).astype(np.uint8)
    colour = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
    colour = np.ascontiguousarray(np.rint(255 * colour).astype(np.uint8))
    cv2.setRNGSeed(0)  # mixtures start at random
    state, _, _ = cv2.grabCut(colour, state, None, None, None, rounds, cv2.GC_INIT_WITH_MASK)
    return np.asarray((state == cv2.GC_FGD) | (state == cv2.GC_PR_FGD))


def _start(pixels: Array, marks: Array, number: int) -> Flags:
    """Return which pixels start as object."""
    rest = (marks != MISSING) & (marks != number)
    if not rest.any():
        return np.zeros(marks.shape, bool)
    if not (marks == number).any():
        return np.ones(marks.shape, bool)
    seen = marks != MISSING
    far = distances(pixels[seen], marks[seen] == number, 2, pixels.reshape(-1, pixels.shape[-1]))
    return np.asarray(far[:, 1] < far[:, 0]).reshape(marks.shape)


def _refuse(image: Array) -> None:
    if find_spec("cv2") is None:
        raise RatersError(
            "grabcut needs another package: pip install 'raters[opencv]'", kind="missing-package"
        )
    if image.ndim != 3:
        raise RatersError(
            f"found an image with {image.ndim - 1} spatial axes, expected 2: grabcut takes no "
            "volumes (lazy-snapping does)"
        )
    if len(image) not in (1, 3):
        raise RatersError(
            f"found {len(image)} channels, expected 1 or 3: grabcut takes no others "
            "(lazy-snapping does)",
            kind="channels",
        )
