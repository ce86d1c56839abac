"""A case that needs more memory than there is: named, and the others continue."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from raters.consensus.write import write_consensus
from raters.core.errors import RatersError
from raters.study.write import import_study
from tests.support.command_line import draw_masks, pattern, run_alone

LIMIT = """
import resource
import imagecodecs, PIL.Image, rich.table, rich.console, raters.study.check, raters.cli
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + 300_000_000
resource.setrlimit(resource.RLIMIT_AS, (room, room))
"""


def large_png(path: Path, side: int) -> Path:
    """Write a black picture row by row, so that the test itself needs no memory for it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(side + 1)) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


@pytest.mark.slow
def test_one_large_file_does_not_end_a_verb(tmp_path: Path) -> None:
    draw_masks(tmp_path)
    large = large_png(tmp_path / "masks/bob/c1.png", 20_000)  # 400 MB of voxels
    checked = run_alone("check", pattern(tmp_path), before=LIMIT)
    assert checked.code == 2 and "Traceback" not in checked.err, checked.err
    assert str(large) in checked.out and "memory" in checked.out and "1 error" in checked.out


class Hungry:
    """A store whose second case needs more memory than there is."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def files(self, case: int) -> list[Path]:  # noqa: ARG002
        return [Path(__file__)]

    def mask(self, case: int, rater: str | None) -> Any:
        if case == 1:
            raise MemoryError("Unable to allocate 9 GiB")
        return self.backend.mask(case, rater)


@pytest.fixture
def hungry_study() -> raters.Study:
    labels = np.zeros((3, 2, 6, 6), int)
    labels[:, :, 1:3] = 1
    plain = raters.Study.from_arrays(labels=labels, raters=["ann", "bob"])
    return replace(plain, backend=Hungry(plain.backend))


def test_check_names_the_case(hungry_study: raters.Study) -> None:
    report = raters.check(hungry_study)
    found = [(p.case, p.rater) for p in report.problems if p.kind == "memory"]
    assert found[:2] == [("1", "ann"), ("1", "bob")]
    assert report.raters == {"ann": 2, "bob": 2}


def test_fusing_and_importing_go_on(hungry_study: raters.Study, tmp_path: Path) -> None:
    fused = write_consensus(raters.fuse(hungry_study, "vote"), tmp_path / "fused")
    written = import_study(hungry_study, tmp_path / "study")
    for result in (fused, written):
        assert result.written == 2
        assert [error.case for error in result.failures] == ["1"]
        assert "9 GiB" in str(result.failures[0])


def test_labels_name_the_case(hungry_study: raters.Study) -> None:
    with pytest.raises(RatersError, match="too little memory for case '1'") as caught:
        _ = hungry_study["1"].labels
    assert caught.value.kind == "memory"
