"""Pipes, devices and links to them: refused at once, wherever a file is read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raters
from raters.core.errors import RatersError
from raters.io import formats
from raters.io.paths import refuse_special
from raters.learning.training.run import read_history, read_scores, read_splits
from tests.support.command_line import draw_masks, pattern, run_alone
from tests.support.makers import square

ENDINGS = [".nii", ".nii.gz", ".nrrd", ".mha", ".mhd", ".png", ".tif", ".npy", ".dcm"]


def pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def endless(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("read", [formats.probe, formats.read_labels, formats.read_image])
def test_every_format(
    tmp_path: Path, read: Callable[[Path], object], ending: str, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path / f"a{ending}")
    with pytest.raises(RatersError, match="expected a regular file") as caught:
        read(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("data", ["a.raw\n\n", "LIST\na.raw\nb.raw\n", "%01d.raw 0 1 1\n\n"])
def test_data_file_of_a_header(tmp_path: Path, data: str) -> None:
    pipe(tmp_path / "a.raw")
    (tmp_path / "1.raw").symlink_to("a.raw")
    header = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 4 4 2\nencoding: raw\ndata file: "
    (tmp_path / "a.nhdr").write_text(header + data)
    with pytest.raises(RatersError, match="expected a regular file"):
        formats.read_labels(tmp_path / "a.nhdr")


def test_pipe_among_the_slices_of_a_series(tmp_path: Path) -> None:
    pipe(tmp_path / "series" / "1.dcm")
    with pytest.raises(RatersError, match="named pipe"):
        formats.read_image(tmp_path / "series")


def test_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(RatersError, match="found a socket"):
            refuse_special(Path("s"))


def test_the_other_cases_are_checked(tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for place in ("masks/bob/c1.png", "images/c2.png"):
        (tmp_path / place).unlink()
        pipe(tmp_path / place)
    arguments = ["check", pattern(tmp_path), "--images", f"{tmp_path}/images/{{case}}.png"]
    outcome = run_alone(*arguments)
    assert outcome.code == 2
    for place in ("masks/bob/c1.png", "images/c2.png"):
        assert f"{tmp_path}/{place}: found a named pipe" in outcome.out
    assert "2 errors" in outcome.out


@pytest.mark.parametrize(
    "place", ["study.yaml", "cases.csv", "labels.npy", "images.npy", "labels.parquet"]
)
def test_files_of_a_study(tmp_path: Path, place: str) -> None:
    masks = [square(4), square(4, corner=1)]
    table = place == "labels.parquet"
    arrays = {"labels": [[0, 1]]} if table else {"labels": [masks], "images": [[square(4)]]}
    raters.Study.from_arrays(**arrays).write(tmp_path / "s", "packed")
    (tmp_path / "s" / place).unlink()
    pipe(tmp_path / "s" / place)
    with pytest.raises(RatersError, match="named pipe"):
        raters.read(tmp_path / "s")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet"])
def test_tables(tmp_path: Path, name: str) -> None:
    with pytest.raises(RatersError, match="named pipe"):
        raters.read(pipe(tmp_path / name))
    (tmp_path / "t.csv").write_text("task,worker,label\nx,ann,1\nx,bob,2\n")
    with pytest.raises(RatersError, match="named pipe"):
        raters.read(tmp_path / "t.csv", reference=tmp_path / name)


@pytest.mark.parametrize(
    ("name", "read"),
    [("history.csv", read_history), ("scores.json", read_scores), ("splits.csv", read_splits)],
)
def test_files_of_a_run(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    pipe(tmp_path / name)
    with pytest.raises(RatersError, match="named pipe"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["config.yaml", "weights.safetensors"])
def test_files_of_a_model(tmp_path: Path, name: str) -> None:
    from raters.learning.training.config import read_config, shapes_in

    path = pipe(tmp_path / name)
    read_model_file: Any = read_config if name == "config.yaml" else shapes_in
    with pytest.raises(RatersError, match="named pipe"):
        read_model_file(path)
