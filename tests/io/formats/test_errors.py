"""Broken, hostile and missing files end in one clear error, at once and without a sound."""

from __future__ import annotations

import gzip
import io
import struct
import threading
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from raters.core.errors import RatersError
from raters.io import formats

NOISE = np.random.default_rng(0).integers(0, 255, (40, 50, 30), np.uint8)
READERS: list[Callable[[Path], object]] = [formats.read_image, formats.read_labels]


def assert_readers_refuse(file: Path, match: str, kind: str = "unreadable") -> None:
    """Both readers refuse a file, quickly and without taking memory."""
    for read in READERS:
        tracemalloc.start()
        start = time.process_time()
        with pytest.raises(RatersError, match=match) as caught:
            read(file)
        seconds = time.process_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert caught.value.kind == kind and caught.value.file == str(file)
        assert seconds < 30 and peak < 100e6  # of the processor; to read them would take days


@pytest.mark.parametrize("suffix", list(formats.BY_SUFFIX))
def test_empty_text_and_missing_files(
    tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"a{suffix}"
    kind = "lossy" if suffix in (".jpg", ".jpeg") else "unreadable"
    with pytest.raises(RatersError, match="no such file") as caught:
        formats.probe(file)
    assert caught.value.kind == "missing-file"
    file.touch()
    assert_readers_refuse(file, r"file is empty \(0 bytes\)")
    file.write_text("this is a text that nobody should take for an image\n" * 20)
    for read in [formats.probe, *READERS]:
        with pytest.raises(RatersError) as caught:
            read(file)
        assert caught.value.kind in ("unreadable", kind) and "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".nrrd", ".mha", ".tif", ".npy"])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.9, 0.9999])
def test_cut_volumes(
    tmp_path: Path, suffix: str, part: float, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"a{suffix}"
    formats.write_labels(file, NOISE)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    if suffix == ".nrrd" and part > 0.999:
        return  # only gzip's checksum is gone, which the NRRD library does not miss
    assert_readers_refuse(file, "truncated|not a readable|corrupt")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.gif", "a.jpg", "p.jpg"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.95, 0.998])
def test_cut_pictures(tmp_path: Path, name: str, part: float) -> None:
    file = tmp_path / name
    Image.fromarray(NOISE[..., 0]).save(file, progressive=name == "p.jpg")
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(RatersError, match=r"truncated|not a readable"):
        formats.read_image(file)


def test_png_without_its_last_byte(tmp_path: Path) -> None:
    Image.fromarray(NOISE[..., 0]).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:-1])
    assert_readers_refuse(tmp_path / "a.png", "truncated: the file ends after")


def test_cut_tiff_codecs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import tifffile

    file = tmp_path / "a.tif"
    for codec in (None, "lzw", "jpeg", "packbits"):
        tifffile.imwrite(file, NOISE, compression=codec, photometric="minisblack")
        data = file.read_bytes()
        # The last bytes of a plain stack are no pixels but the last page's tags.
        for cut in (len(data) // 3, len(data) * 2 // 3, len(data) - (9000 if not codec else 3)):
            file.write_bytes(data[:cut])
            with pytest.raises(RatersError, match="truncated"):
                formats.read_image(file)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".mha", ".png", ".tif"])
def test_one_wrong_bit_in_compressed_files(
    tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"a{suffix}"
    formats.write_labels(file, NOISE[..., 0] if suffix == ".png" else NOISE)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)
    with pytest.raises(RatersError) as caught:
        formats.read_labels(file)
    assert caught.value.kind == "unreadable"
    assert capfd.readouterr() == ("", "")


def bomb_header(shape: tuple[int, ...]) -> bytes:
    header = nibabel.Nifti2Header()
    header.set_data_shape(shape)
    header.set_data_dtype(np.float64)
    header["vox_offset"] = 544
    header["magic"] = b"n+2"
    return header.structarr.tobytes() + bytes(4)


def test_nifti_bombs(tmp_path: Path) -> None:
    file = tmp_path / "a.nii.gz"
    file.write_bytes(gzip.compress(bomb_header((30000, 30000, 30000)) + bytes(10_000_000)))
    assert_readers_refuse(
        file, r"header claims shape \(30000, 30000, 30000\) = 216,000,000,000,000 bytes, but"
    )
    file.write_bytes(gzip.compress(bomb_header((800, 800, 100)) + bytes(100_000)))
    assert_readers_refuse(file, "compressed bytes cannot hold")
    file.write_bytes(gzip.compress(bomb_header((30, 30, 30)) + NOISE.tobytes()))
    assert_readers_refuse(file, "truncated: expected 216,000 bytes of voxels, found 60,000")
    file.write_bytes(gzip.compress(bomb_header((-30, 30, 30)) + bytes(1000)))
    assert_readers_refuse(file, "at least one voxel")
    plain = tmp_path / "a.nii"
    plain.write_bytes(bomb_header((30, 30, 30)) + bytes(1000))
    assert_readers_refuse(
        plain, r"truncated: header claims shape \(30, 30, 30\) = 216,000 bytes, file has 1,000"
    )


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_png_bomb(tmp_path: Path) -> None:
    start = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 6, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(100_000))) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + start + body)
    assert_readers_refuse(
        tmp_path / "a.png", r"header claims shape \(100000, 100000\) = 40,000,000,000 bytes"
    )


@pytest.mark.parametrize("encoding", ["gzip", "raw", "bzip2"])
def test_nrrd_bombs(tmp_path: Path, encoding: str) -> None:
    header = "NRRD0004\ntype: double\ndimension: 3\nsizes: 30000 30000 30000\nendian: little\n"
    data = gzip.compress(bytes(1_000_000))
    file = tmp_path / "a.nrrd"
    file.write_bytes(f"{header}encoding: {encoding}\n\n".encode() + data)
    assert_readers_refuse(file, r"header claims shape \(30000, 30000, 30000")


def test_mha_npy_and_tiff_bombs(tmp_path: Path) -> None:
    import tifffile

    meta = "ObjectType = Image\nNDims = 3\nDimSize = 30000 30000 30000\nCompressedData = True\n"
    (tmp_path / "a.mha").write_bytes(
        f"{meta}ElementType = MET_DOUBLE\nElementDataFile = LOCAL\n".encode() + bytes(100)
    )
    assert_readers_refuse(tmp_path / "a.mha", "header claims shape")
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    )
    (tmp_path / "a.npy").write_bytes(stream.getvalue())
    assert_readers_refuse(tmp_path / "a.npy", "truncated: header claims shape")
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((64, 64), np.uint8), compression="lzw")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        for tag in ("ImageWidth", "ImageLength"):
            file.pages[0].tags[tag].overwrite(60000)
    assert_readers_refuse(tmp_path / "a.tif", "header claims shape|corrupt|not a readable")


def test_missing_data_file(tmp_path: Path) -> None:
    (tmp_path / "a.mhd").write_text(
        "ObjectType = Image\nNDims = 2\nDimSize = 3 4\nElementType = MET_UCHAR\n"
        "ElementDataFile = gone.raw\n"
    )
    assert_readers_refuse(tmp_path / "a.mhd", "its data file gone.raw is not there", "missing-file")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.array([["a"], [None]], object), "Python objects"),
        (np.zeros((3, 3), complex), "complex128"),
        (np.zeros(3), r"found shape \(3,\)"),
        (np.zeros((0, 3)), "at least one voxel"),
    ],
)
def test_npy_of_other_things(tmp_path: Path, array: np.ndarray, match: str) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    assert_readers_refuse(tmp_path / "a.npy", match)


def test_unknown_suffix() -> None:
    with pytest.raises(RatersError, match=r"suffix '.docx' is not supported; expected one of .nii"):
        formats.read_image("a.docx")
    assert formats.is_supported("A.NII.GZ") and not formats.is_supported("a.gz")


def test_reading_changes_nothing(tmp_path: Path) -> None:
    for suffix in (".nii", ".nii.gz", ".nrrd", ".mha", ".tif", ".npy", ".png"):
        file = tmp_path / f"a{suffix}"
        formats.write_labels(file, NOISE[..., 0])
        file.chmod(0o444)
        before = file.read_bytes(), file.stat().st_mtime_ns
        for read in [formats.probe, *READERS]:
            read(file)
        assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_threads_leave_the_warning_filters_alone(tmp_path: Path) -> None:
    for suffix in (".nii.gz", ".nrrd"):
        formats.write_labels(tmp_path / f"a{suffix}", NOISE)
    before = list(warnings.filters)
    jobs = [
        threading.Thread(target=formats.read_labels, args=(tmp_path / f"a{suffix}",))
        for suffix in (".nii.gz", ".nrrd") * 8
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert warnings.filters == before
