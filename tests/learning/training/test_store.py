"""Decoded cases on disk: the same items as from memory, whatever happened to the files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.core.errors import RatersError
from raters.io.results import LOCK_FILE
from raters.learning.networks.normalise import Normalisation, fit_normalisation
from raters.learning.training import store as stores
from raters.learning.training.dataset import CaseDataset, Item
from raters.learning.training.loader import enough_workers, loader
from raters.learning.training.store import CaseStore, cache_folder, key_of
from raters.study.study import Study
from tests.support.learning import equal_items
from tests.support.makers import save

TINY: dict[str, Any] = {"network": "patch-cnn", "width": 2, "depth": 1, "progress": False}


def files_study(folder: Path, suffix: str = ".png", cases: int = 5) -> Study:
    """Write images and masks by two raters; the second left out the first case."""
    rng = np.random.default_rng(0)
    for k in range(cases):
        shape = (10 + k, 9) if suffix == ".png" else (10 + k, 9, 6)
        image: NDArray[Any] = rng.integers(0, 200, shape)
        image = image.astype(np.uint8 if suffix == ".png" else np.int16)
        save(folder / f"images/c{k}{suffix}", image)
        for rater in ("ann", "bob")[: 1 if k == 0 else 2]:
            noise = rng.random(shape) < 0.1
            save(folder / f"masks/{rater}/c{k}{suffix}", ((image > 100) ^ noise).astype(np.uint8))
        save(folder / f"truth/c{k}{suffix}", (image > 100).astype(np.uint8))
    return raters.read(
        f"{folder}/masks/{{rater}}/{{case}}{suffix}",
        images=f"{folder}/images/{{case}}{suffix}",
        reference=f"{folder}/truth/{{case}}{suffix}",
    )


def items(study: Study, cache: Path | None, **options: Any) -> tuple[CaseDataset, list[Item]]:
    normalisation = options.pop("normalisation", None) or fit_normalisation(study)
    room = 10**9 if cache is None else 0
    data = CaseDataset(
        study, normalisation, cache_bytes=room, cache_folder=cache, seed=1, **options
    )
    first = [data[k] for k in range(len(data))]  # decoded and written
    again = [data[k] for k in range(len(data))]  # read from where they are kept
    assert all(map(equal_items, first, again))
    return data, again


@pytest.mark.parametrize("suffix", [".png", ".nii.gz"])
@pytest.mark.parametrize("mode", ["train", "tiles"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_store_gives_what_memory_gives(
    suffix: str, mode: Any, whole: bool, tmp_path: Path
) -> None:
    study = files_study(tmp_path / "study", suffix)
    patch: tuple[int, ...] | None = None
    if not whole:
        patch = (4, 5) if suffix == ".png" else (4, 5, 4)
    options: dict[str, Any] = {"patch_size": patch, "mode": mode, "patches_per_case": 3}
    options["targets"] = lambda case: np.stack([case.labels[0] == 0, case.labels[0] == 1]) / 1.0
    _, expected = items(study, None, **options)
    data, found = items(study, tmp_path / "cache", **options)
    assert data.cases.kept == 0
    assert len(list((tmp_path / "cache").glob("*/*.case"))) == 5
    assert all(map(equal_items, found, expected))


def test_a_patch_of_the_store_reads_a_view(tmp_path: Path) -> None:
    study = files_study(tmp_path / "study", ".nii.gz")
    data, _ = items(study, tmp_path / "cache", patch_size=(4, 4, 4))
    case = data.cases(2)
    assert case.image.dtype == np.int16  # smaller than normalised
    assert case.labels.dtype == np.int8
    base: Any = case.image
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert not case.image.flags.owndata
    assert not case.image.flags.writeable


def test_workers_fill_one_store(tmp_path: Path) -> None:
    study = files_study(tmp_path / "study")
    raw = Normalisation("none")
    expected = list(loader(CaseDataset(study, raw, patch_size=(4, 4)), 2, shuffle=True))
    data = CaseDataset(study, raw, patch_size=(4, 4), cache_folder=tmp_path / "cache")
    for _ in range(2):
        found = list(loader(data, 2, shuffle=True, num_workers=2))
        for a, b in zip(found, expected, strict=True):
            assert all(torch.equal(a[key], b[key]) for key in a)
    assert len(list((tmp_path / "cache").glob("*/*.case"))) == 5
    assert data.cases.kept == 0


def test_arrays_are_not_copied(tmp_path: Path) -> None:
    study = files_study(tmp_path / "study", cases=1)
    packed = study.write(tmp_path / "packed", "packed")
    items(packed, tmp_path / "cache", patch_size=(4, 4))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("damage", ["cut", "mark", "header", "empty", "gone", "longer"])
def test_what_is_damaged_is_made_again(damage: str, tmp_path: Path) -> None:
    study = files_study(tmp_path / "study")
    data, expected = items(study, tmp_path / "cache", patch_size=None)
    for file in (tmp_path / "cache").glob("*/*.case"):
        content = file.read_bytes()
        file.unlink()  # mapped ones must not change under their readers
        damaged = {
            "cut": content[:-100],
            "mark": b"x" + content[1:],
            "header": content[:12] + b"\xff{" + content[14:],
            "empty": b"",
            "longer": content + b"more",
        }
        if damage in damaged:
            file.write_bytes(damaged[damage])
    assert all(data.cases.store is None or data.cases.store.read(k) is None for k in range(5))
    found = [data[k] for k in range(len(data))]
    assert all(map(equal_items, found, expected))
    assert data.cases.store is not None
    assert data.cases.store.read(3) is not None


def test_other_data_has_another_key(tmp_path: Path) -> None:
    study = files_study(tmp_path)
    key = key_of(study, Normalisation("none"))
    assert key == key_of(study, Normalisation("none"))
    assert key != key_of(study, Normalisation("case"))
    assert key != key_of(study.select(raters=["ann"]), Normalisation("none"))
    image = tmp_path / "images/c1.png"
    save(image, np.zeros((11, 9), np.uint8))
    assert key != key_of(study, Normalisation("none"))
    image.unlink()
    assert len({key, key_of(study, Normalisation("none"))}) == 2


def test_a_disk_without_room_is_said_and_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = files_study(tmp_path / "study")
    _, expected = items(study, None, patch_size=None)
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.warns(UserWarning, match="files are read each time"):
        data, found = items(study, tmp_path / "cache", patch_size=None)
    assert data.cases.store is None
    assert all(map(equal_items, found, expected))


def test_a_disk_that_becomes_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = files_study(tmp_path / "study")
    _, expected = items(study, None, patch_size=None)

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores, "written_whole", full)
    with pytest.warns(UserWarning, match="No space left on device") as told:
        _, found = items(study, tmp_path / "cache", patch_size=None)
    assert len(told) == 1
    assert all(map(equal_items, found, expected))


def test_memory_first_then_the_store(tmp_path: Path) -> None:
    study = files_study(tmp_path / "study")
    raw = Normalisation("none")
    one = CaseDataset(study, raw, patch_size=None).cases.first.nbytes
    data = CaseDataset(study, raw, patch_size=None, cache_bytes=2 * one + 50, cache_folder=tmp_path)
    for k in range(5):
        data[k]
    assert data.cases.kept == 2 or data.cases.kept == 1
    assert len(list(tmp_path.glob("*/*.case"))) == 5 - data.cases.kept
    assert enough_workers(data) <= 2
    roomy = CaseDataset(study, raw, patch_size=None)
    assert enough_workers(roomy) == 0
    loader(roomy, 2, shuffle=True, num_workers=None)
    assert roomy.cases.store is None


# Folders


def test_temporary_folders_go_also_after_an_error() -> None:
    with cache_folder() as folder:
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(KeyError), cache_folder() as folder:
        raise KeyError
    assert not folder.exists()


def test_a_run_keeps_its_cache_for_who_resumes(tmp_path: Path) -> None:
    key = key_of(Study.from_arrays(np.ones((1, 1)), np.zeros((1, 1), int)))
    with pytest.raises(KeyError), cache_folder(tmp_path) as folder:
        CaseStore(folder / key).write(0, {"a": np.ones(3)})
        raise KeyError
    assert CaseStore(tmp_path / "cache" / key).read(0) is not None
    with cache_folder(tmp_path):
        pass
    assert not (tmp_path / "cache").exists()


def test_what_somebody_else_put_into_the_cache_stays(tmp_path: Path) -> None:
    (tmp_path / "cache" / "mine").mkdir(parents=True)
    with cache_folder(tmp_path) as folder:
        CaseStore(folder / "0123456789abcdef").write(0, {"a": np.ones(3)})
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["mine"]


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = (
        "import tempfile, sys; tempfile.tempdir = sys.argv[1]\n"
        "from raters.learning.training.store import cache_folder\n"
        "with cache_folder() as folder:\n"
        "    (folder / 'x').write_bytes(b'x'); print(folder, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        other = tmp_path / f"{stores.TEMPORARY}of-somebody"
        other.mkdir()
        begun = tmp_path / f"{stores.TEMPORARY}of-who-is-about-to-lock-it"
        begun.mkdir()
        (begun / LOCK_FILE).touch()
        with cache_folder() as own:
            assert left.exists()  # its process lives
            assert own != left
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()  # closes its pipes
    assert (left / "x").exists()
    with cache_folder() as own:
        assert not left.exists()
        assert other.exists()  # nobody knows whose it is
        assert begun.exists()
    assert not own.exists()


# Training


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pixel-cm", "vote"])
def test_training_is_the_same_from_memory_store_and_workers(method: str, tmp_path: Path) -> None:
    study = files_study(tmp_path / "study")
    found = []
    for options in ({}, {"cache": 0.0, "num_workers": 0}, {"num_workers": 1}):
        model = raters.fit(study, method, epochs=2, batch_size=2, **TINY, **options)
        found.append([row["loss"] for row in model.history])
        assert all(0 <= row["waiting"] <= 1 for row in model.history)
    assert found[0] == found[1] == found[2]


def test_the_cache_of_a_run_is_gone_at_the_end(tmp_path: Path) -> None:
    study = files_study(tmp_path / "study")
    folder = tmp_path / "run"
    raters.fit(study, "pixel-cm", folder=folder, epochs=1, cache=0.0, **TINY)
    assert not (folder / "cache").exists()
    assert "waited for data" in (folder / "log.txt").read_text()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_name_case_and_file(bad: float, tmp_path: Path) -> None:
    files_study(tmp_path, ".nii.gz")
    image = np.ones((12, 9, 6), np.float32)
    image[3, 3, 3] = bad
    file = save(tmp_path / "images/c2.nii.gz", image)
    study = raters.read(
        f"{tmp_path}/masks/{{rater}}/{{case}}.nii.gz", images=f"{tmp_path}/images/{{case}}.nii.gz"
    )
    with pytest.raises(RatersError, match="NaN or infinite") as caught:
        raters.fit(study, "pixel-cm", epochs=1, val_fraction=0.0, **TINY)
    assert caught.value.case == "c2"
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("normalise", ["study", "case"])
def test_constant_images_train_as_zeros(normalise: str) -> None:
    rng = np.random.default_rng(0)
    images = np.full((6, 1, 8, 8), 7.0)
    labels = rng.integers(0, 2, (6, 2, 8, 8))
    study = Study.from_arrays(images, labels)
    model = raters.fit(study, "pixel-cm", epochs=2, normalise=normalise, **TINY)
    assert np.isfinite([row["loss"] for row in model.history]).all()
    assert np.isfinite(model.truth(images[0])).all()
    data = CaseDataset(study, model.config.normaliser(), patch_size=None)
    assert not data[0]["image"].any()


def test_images_smaller_than_a_patch_are_filled_with_missing_labels() -> None:
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(1, 5 + k, 6)) for k in range(6)]
    labels = [np.stack([image[0] > 0, image[0] > 0.2]).astype(int) for image in images]
    study = Study.from_arrays(images, labels)
    data = CaseDataset(study, Normalisation("none"), patch_size=(16, 16))
    assert (data[0]["labels"] >= 0).sum() == labels[0].size
    model = raters.fit(study, "pixel-cm", epochs=1, patch_size=(16, 16), **TINY)
    assert np.isfinite(model.history[-1]["loss"])
    assert model.truth(images[2]).shape == (2, 7, 6)


def test_processes_find_the_classes_that_threads_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_study(tmp_path)
    save(tmp_path / "masks/ann/c1.png", np.full((11, 9), 4, np.uint8))
    (tmp_path / "masks/bob/c2.png").write_bytes(b"no picture")
    found = []
    for many in (1000, 1):
        monkeypatch.setattr("raters.study.scan.MANY", many)
        found.append(raters.read(f"{tmp_path}/masks/{{rater}}/{{case}}.png").classes)
    assert found[0] == found[1]
    assert [c.value for c in found[0]] == [0, 1, 4]
    for file in tmp_path.glob("masks/*/*.png"):
        file.write_bytes(b"no picture")
    for many in (1000, 1):
        monkeypatch.setattr("raters.study.scan.MANY", many)
        with pytest.raises(RatersError, match=r"c0\.png: not a PNG file"):
            _ = raters.read(f"{tmp_path}/masks/{{rater}}/{{case}}.png").classes
