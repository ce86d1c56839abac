"""Palettes, transparency and depths of pictures, as images and as labels."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from PIL import Image

from raters.core.errors import RatersError
from raters.io import formats

VALUES = np.array([[0, 1, 2, 1], [2, 2, 0, 0], [1, 0, 0, 2]], np.uint8)
VOC = [0, 0, 0, 128, 0, 0, 0, 128, 0]
GREY = [0, 0, 0, 100, 100, 100, 255, 255, 255]


def palette_picture(palette: list[int], values: np.ndarray = VALUES) -> Image.Image:
    picture = Image.fromarray(values).convert("P")
    picture.putdata(values.ravel())
    picture.putpalette(palette)
    return picture


def check_probe(file: Path) -> None:
    header = formats.probe(file)
    image = formats.read_image(file)
    space = image.array.shape[1:] if image.has_channels else image.array.shape
    assert header.shape == space
    assert header.channels == (len(image.array) if image.has_channels else None)


@pytest.mark.parametrize("suffix", [".png", ".gif", ".bmp", ".tif"])
def test_coloured_palette_means_indices(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    palette_picture(VOC).save(file)
    np.testing.assert_array_equal(formats.read_labels(file).array, VALUES)
    image = formats.read_image(file)
    assert image.has_channels
    expected = np.array(VOC, np.uint8).reshape(3, 3)[VALUES]
    np.testing.assert_array_equal(image.array, expected.transpose(2, 0, 1))
    check_probe(file)


@pytest.mark.parametrize("suffix", [".png", ".gif", ".bmp", ".tif"])
def test_grey_palette_means_grey_values(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    palette_picture(GREY).save(file)
    expected = np.array([0, 100, 255], np.uint8)[VALUES]
    np.testing.assert_array_equal(formats.read_labels(file).array, expected)
    np.testing.assert_array_equal(formats.read_image(file).array, expected)
    assert not formats.read_image(file).has_channels
    check_probe(file)


def test_only_used_palette_entries_decide(tmp_path: Path) -> None:
    palette_picture([*GREY, 200, 0, 0]).save(tmp_path / "a.png")
    assert formats.read_labels(tmp_path / "a.png").array.max() == 255
    palette_picture([7, 7, 7, 7, 7, 7, 9, 9, 9]).save(tmp_path / "b.png")  # would merge 0 and 1
    np.testing.assert_array_equal(formats.read_labels(tmp_path / "b.png").array, VALUES)


def test_transparent_palette(tmp_path: Path) -> None:
    palette_picture(VOC).save(tmp_path / "a.png", transparency=0)
    np.testing.assert_array_equal(formats.read_labels(tmp_path / "a.png").array, VALUES)
    image = formats.read_image(tmp_path / "a.png").array
    assert image.shape == (4, 3, 4) and ((image[3] == 0) == (VALUES == 0)).all()
    palette_picture(GREY).save(tmp_path / "b.png", transparency=bytes([255, 0, 255]))
    with pytest.raises(RatersError, match="3 transparent pixels"):
        formats.read_labels(tmp_path / "b.png")


def test_grey_in_three_channels(tmp_path: Path) -> None:
    Image.fromarray(np.repeat(VALUES[..., None], 3, axis=-1)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(formats.read_labels(tmp_path / "a.png").array, VALUES)
    assert formats.read_image(tmp_path / "a.png").array.shape == (3, 3, 4)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_coloured_mask_is_refused(tmp_path: Path, suffix: str) -> None:
    palette_picture(VOC).convert("RGB").save(tmp_path / f"a{suffix}")
    with pytest.raises(RatersError, match=r"3 colours, e.g. \(0, 0, 0\), \(0, 128, 0\)") as caught:
        formats.read_labels(tmp_path / f"a{suffix}")
    assert caught.value.kind == "colours"


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha(tmp_path: Path, mode: str, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    colours = len(mode) - 1
    pixels = np.repeat(VALUES[..., None], len(mode), axis=-1)
    pixels[..., -1] = 255
    Image.fromarray(pixels).save(file)
    np.testing.assert_array_equal(formats.read_labels(file).array, VALUES)
    assert formats.read_image(file).array.squeeze().ndim == (2 if colours == 1 else 3)
    pixels[0, :3, -1] = 254
    Image.fromarray(pixels).save(file)
    with pytest.raises(RatersError, match="found 3 transparent pixels"):
        formats.read_labels(file)
    np.testing.assert_array_equal(formats.read_image(file).array, pixels.transpose(2, 0, 1))


def test_colour_key(tmp_path: Path) -> None:
    Image.fromarray(VALUES).save(tmp_path / "a.png", transparency=1)
    with pytest.raises(RatersError, match="3 transparent pixels"):
        formats.read_labels(tmp_path / "a.png")
    colours = palette_picture(VOC).convert("RGB")
    colours.save(tmp_path / "b.png", transparency=(128, 0, 0))
    assert ((formats.read_image(tmp_path / "b.png").array[3] == 0) == (VALUES == 1)).all()


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_one_bit(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    mask = VALUES > 0
    Image.fromarray(mask).save(file)
    labels = formats.read_labels(file).array
    image = formats.read_image(file).array
    np.testing.assert_array_equal(labels > 0, mask)
    np.testing.assert_array_equal(image, mask * np.uint8(255))
    assert image.dtype == np.uint8 and (suffix == ".bmp" or labels.dtype == bool)
    check_probe(file)


def test_white_is_zero(tmp_path: Path) -> None:
    import tifffile

    tifffile.imwrite(tmp_path / "a.tif", 255 - VALUES, photometric="miniswhite")
    np.testing.assert_array_equal(formats.read_labels(tmp_path / "a.tif").array, VALUES)


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_sixteen_bits(tmp_path: Path, samples: int) -> None:
    file = tmp_path / "a.png"
    pixels = np.random.default_rng(0).integers(0, 65536, (20, 30, samples)).astype(np.uint16)
    file.write_bytes(imagecodecs.png_encode(pixels.squeeze()))
    image = formats.read_image(file)
    array = image.array if image.has_channels else image.array[None]
    assert array.dtype == np.uint16
    np.testing.assert_array_equal(array, pixels.transpose(2, 0, 1))
    check_probe(file)


def test_jpeg(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 64 * 64).reshape(64, 64).astype(np.uint8)
    for name in ("a.jpg", "a.jpeg"):
        Image.fromarray(smooth).save(tmp_path / name)
        assert np.abs(formats.read_image(tmp_path / name).array - smooth.astype(int)).max() < 9
        with pytest.raises(RatersError, match="JPEG changes values") as caught:
            formats.read_labels(tmp_path / name)
        assert caught.value.kind == "lossy"
    (tmp_path / "a.png").write_bytes((tmp_path / "a.jpg").read_bytes())
    with pytest.raises(RatersError, match="JPEG changes values"):
        formats.read_labels(tmp_path / "a.png")
    Image.fromarray(np.zeros((8, 8, 4), np.uint8), "CMYK").save(tmp_path / "c.jpg")
    assert formats.read_image(tmp_path / "c.jpg").array.shape == (3, 8, 8)
    check_probe(tmp_path / "c.jpg")


def test_frames(tmp_path: Path) -> None:
    frames = [Image.fromarray(VALUES * k) for k in (1, 2, 3)]
    for name in ("a.gif", "a.png"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        with pytest.raises(RatersError, match="found 3 frames"):
            formats.read_image(tmp_path / name)


def test_pillows_limit_is_neither_met_nor_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(np.zeros((600, 500), np.uint8)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert formats.read_image(tmp_path / "a.png").array.shape == (600, 500)
    assert Image.MAX_IMAGE_PIXELS == 1000


ADAM7 = [
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
]


def write_png(file: Path, rows: list[np.ndarray], *, colour: int, interlaced: bool) -> None:
    """Write 8-bit samples from the specification, without filters; rows are those of all passes."""
    height = 9
    width = 11
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, interlaced)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    chunks = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    made = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(made))


@pytest.mark.parametrize(("colour", "samples"), [(0, ()), (2, (3,)), (4, (2,)), (6, (4,))])
def test_png_of_all_kinds_of_samples_interlaced_or_not(
    tmp_path: Path, colour: int, samples: tuple[int, ...]
) -> None:
    values = np.random.default_rng(colour).integers(0, 255, (9, 11, *samples), np.uint8)
    passes = [values[y::dy, x::dx] for y, x, dy, dx in ADAM7]
    write_png(tmp_path / "a.png", list(values), colour=colour, interlaced=False)
    rows = []
    for part in passes:
        if part.size:
            rows += list(part)
    write_png(tmp_path / "b.png", rows, colour=colour, interlaced=True)
    for name in ("a.png", "b.png"):
        image = formats.read_image(tmp_path / name)
        found = np.moveaxis(image.array, 0, -1) if image.has_channels else image.array
        np.testing.assert_array_equal(found, values)
        check_probe(tmp_path / name)
