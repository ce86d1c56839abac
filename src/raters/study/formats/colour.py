"""From colours, palettes and transparency to images or labels; shared by pictures and TIFF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raters.errors import RatersError
from raters.study.formats.base import Array, one_channel


@dataclass(frozen=True)
class Pixels:
    """Pixels as a file stores them.

    Attributes:
        values: `(*space)`, or `(*space, samples)` if `sampled`.
        sampled: Whether the last axis holds the samples of a colour.
        palette: `(entries, 3)` if `values` are indices into it.
        alpha: `(*space)`, the largest value of its type where opaque.
    """

    values: Array
    sampled: bool = False
    palette: Array | None = None
    alpha: Array | None = None


def image_of(pixels: Pixels) -> tuple[Array, bool]:
    """What a viewer shows: `(*space)` or `(channels, *space)`, and whether it has channels.

    1-bit pictures become 0 and 255; palettes are looked up (one channel if all their entries
    are grey); alpha is dropped if everything is opaque and is the last channel otherwise.
    """
    values, sampled = pixels.values, pixels.sampled
    if pixels.palette is not None:
        sampled = not is_grey(pixels.palette)
        values = padded(pixels.palette, values)[values]
        values = values if sampled else values[..., 0]
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    if _transparent(pixels):
        values = values if sampled else values[..., None]
        values = np.concatenate([values, np.asarray(pixels.alpha)[..., None]], axis=-1)
        sampled = True
    return (np.moveaxis(values, -1, 0) if sampled else values), sampled


def labels_of(pixels: Pixels, path: Path) -> Array:
    """One label per pixel, `(*space)`.

    The label of a palette picture is the grey value if all used entries are grey and differ,
    else the index (as Pascal VOC has it; what is transparent then does not matter).

    Raises:
        RatersError: If the picture is coloured, or partly transparent.
    """
    if pixels.palette is not None:
        used = np.unique(pixels.values)
        shades = padded(pixels.palette, used)[used]
        if not is_grey(shades) or len(np.unique(shades[:, 0])) < len(used):
            return pixels.values
        _check_opaque(pixels, path)
        return padded(pixels.palette, used)[..., 0][pixels.values]
    _check_opaque(pixels, path)
    if not pixels.sampled:
        return pixels.values
    first = pixels.values[..., 0]
    if (pixels.values == first[..., None]).all():
        return first
    if pixels.values.shape[-1] != 3:
        one_channel(path, pixels.values.shape[-1])
    raise RatersError(_describe_colours(pixels.values), kind="colours", file=path)


def is_grey(palette: Array) -> bool:
    """Whether red, green and blue are equal in all entries."""
    return bool((palette == palette[:, :1]).all())


def padded(palette: Array, indices: Array) -> Array:
    """The palette with black entries up to the largest index, as decoders fill them."""
    missing = int(indices.max()) + 1 - len(palette)
    return np.pad(palette, ((0, max(missing, 0)), (0, 0)))


def _transparent(pixels: Pixels) -> int:
    """The number of pixels that are not opaque."""
    if pixels.alpha is None:
        return 0
    return int(np.count_nonzero(pixels.alpha != np.iinfo(pixels.alpha.dtype).max))


def _check_opaque(pixels: Pixels, path: Path) -> None:
    if count := _transparent(pixels):
        message = f"found {count:,} transparent pixels, expected an opaque mask"
        raise RatersError(message, kind="transparent", file=path)


def _describe_colours(values: Array) -> str:
    wide = values.reshape(-1, 3).astype(np.uint64)
    codes = np.unique((wide[:, 0] << 32) | (wide[:, 1] << 16) | wide[:, 2])
    first = ", ".join(str((c >> 32, c >> 16 & 0xFFFF, c & 0xFFFF)) for c in codes[:4].tolist())
    return (
        f"found {len(codes):,} colours, e.g. {first}; "
        "expected one channel, or a palette whose indices are the labels"
    )
