"""TIFF (.tif, .tiff), by tifffile: pages are the first spatial axis; no geometry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.core.arrays import Array
from raters.core.geometry import Header, Volume
from raters.io.formats import base

if TYPE_CHECKING:
    from tifffile import TiffPageSeries

# By the numbers of the TIFF tag: none, LZW, old and new JPEG, deflate twice, PackBits.
_FACTORS = {
    1: base.RAW,
    5: base.LZW,
    6: base.JPEG,
    7: base.JPEG,
    8: base.DEFLATE,
    32946: base.DEFLATE,
    32773: 128.0,
}
_JPEGS = (6, 7)
_WHITE_IS_ZERO = 0
_PALETTE = 3
_ALPHA = (1, 2)  # associated and unassociated


def probe(path: Path) -> Header:
    """The header of the only picture or stack in a TIFF file."""
    with _open(path) as (series, order, axes):
        shape = tuple(series.shape[i] for i in order)
        channels = shape[-1] if axes[-1] in "SC" else None
        space = shape if channels is None else shape[:-1]
        palette = _palette(series)
        if palette is not None and not base.is_grey(palette):
            channels = 3
        return Header(space, series.dtype.newbyteorder("="), channels=channels)


def read_image(path: Path) -> Volume:
    """Read what a viewer shows; see `picture.read_image` for palettes and 1-bit pictures."""
    return base.image_of(_read(path))


def read_labels(path: Path) -> Volume:
    """Read one label per pixel; a palette counts as `base.labels_of` says."""
    return Volume(base.labels_of(_read(path, lossless=True)))


def write_image(path: Path, array: Array, affine: base.Affine) -> None:  # noqa: ARG001
    """Write `(channels, *space)`, three channels of 8 bits as colours; an affine is not kept."""
    if array.ndim == 3 and len(array) == 3 and array.dtype == np.uint8:
        _write(path, np.moveaxis(array, 0, -1), "YXS", "rgb")
    else:
        _write(path, array, "CZYX" if array.ndim == 4 else "CYX")


def write_labels(path: Path, array: Array, affine: base.Affine) -> None:  # noqa: ARG001
    """Write `(*space)`; an affine is not kept."""
    _write(path, array, "ZYX"[-array.ndim :])


FORMAT = base.Format(
    "TIFF", (".tif", ".tiff"), probe, read_image, read_labels, write_image, write_labels
)


class _Complaints(logging.Handler):
    """Collects what tifffile logs as an error in this thread, instead of raising it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.thread == self._thread:
            self.found.append(record.getMessage())


@contextmanager
def _strict() -> Iterator[None]:
    """Make errors of what tifffile only logs (pages that are cut off), and keep it quiet."""
    logger = logging.getLogger("tifffile")
    handler = _Complaints()
    logger.addHandler(handler)
    try:
        yield
        if handler.found:
            raise base.unreadable(f"truncated or corrupt TIFF: {handler.found[0]}")
    finally:
        logger.removeHandler(handler)


@contextmanager
def _open(path: Path) -> Iterator[tuple[TiffPageSeries, list[int], str]]:
    """The checked series, and its axes in our order: page, row, column, sample."""
    import tifffile

    with _strict(), tifffile.TiffFile(path) as file:
        if len(file.series) != 1:
            shapes = ", ".join(str(series.shape) for series in file.series[:5])
            message = f"found {len(file.series)} pictures of shapes {shapes}; expected one shape"
            raise base.unreadable(message)
        series = file.series[0]
        order, axes = _order(series)
        page = series.keyframe
        factor = _FACTORS.get(int(page.compression), base.UNLIMITED)
        base.check_dtype(series.dtype)
        base.check_claim(path, tuple(series.shape), int(page.bitspersample), factor=factor)
        yield series, order, axes


def _order(series: TiffPageSeries) -> tuple[list[int], str]:
    lengths = dict(zip(series.axes, series.shape, strict=True))
    kept = [axis for axis, length in lengths.items() if length > 1 or axis in "ZYX"]
    channels = [axis for axis in kept if axis in "SC"]
    pages = [axis for axis in kept if axis not in "SCYX"]
    if len(channels) > 1 or len(pages) > 1 or not {"Y", "X"} <= set(kept):
        message = f"found axes {series.axes} of shape {series.shape}; expected rows, columns"
        raise base.unreadable(f"{message}, pages and channels")
    axes = "".join([*pages, "Y", "X", *channels])
    return [series.axes.index(axis) for axis in axes], axes


def _read(path: Path, *, lossless: bool = False) -> base.Pixels:
    with _open(path) as (series, order, axes):
        if lossless and int(series.keyframe.compression) in _JPEGS:
            base.refuse_jpeg()
        _check_segments(path, series)
        array = base.native(series.asarray())
        dropped = tuple(i for i in range(array.ndim) if i not in order)
        array = np.transpose(array, [*order, *dropped]).reshape([array.shape[i] for i in order])
        if int(series.keyframe.photometric) == _WHITE_IS_ZERO and array.dtype.kind in "bu":
            array = ~array
        alpha = any(int(kind) in _ALPHA for kind in series.keyframe.extrasamples)
        if alpha and axes[-1] == "S" and array.shape[-1] in (2, 4) and array.dtype.kind == "u":
            return base.Pixels(array[..., :-1], True, alpha=array[..., -1])
        return base.Pixels(array, axes[-1] in "SC", _palette(series))


def _check_segments(path: Path, series: TiffPageSeries) -> None:
    """Every strip and tile lies within the file; decoders may pad what is cut off."""
    size = path.stat().st_size
    pages: list[Any] = [page for page in series.pages if page is not None]
    for page in pages:
        ends = (a + b for a, b in zip(page.dataoffsets, page.databytecounts, strict=True))
        end = max(ends, default=0)
        if end > size:
            raise base.unreadable(f"truncated: pixels end at byte {end:,}, file has {size:,}")


def _palette(series: TiffPageSeries) -> Array | None:
    colours: Any = getattr(series.keyframe, "colormap", None)
    if int(series.keyframe.photometric) != _PALETTE or colours is None:
        return None
    return (np.asarray(colours).T >> 8).astype(np.uint8)


def _write(path: Path, array: Array, axes: str, photometric: str = "minisblack") -> None:
    import tifffile

    tifffile.imwrite(
        path,
        np.ascontiguousarray(array),
        photometric=photometric,
        metadata={"axes": axes},
        compression="zlib",
    )
