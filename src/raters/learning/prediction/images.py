"""Opens what is to be predicted: a file, a folder, a pattern, a study, a manifest or an array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.core.wording import listing
from raters.io import formats
from raters.io.rows import read_cells
from raters.learning.training.config import ModelConfig, refuse_other_study
from raters.study.backend import Axes, Image, LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.files_index import FilesIndex, index_images, index_manifest
from raters.study.packed import open_array
from raters.study.pattern import Pattern, is_pattern, natural_key, there
from raters.study.study import Study
from raters.study.study_file import STUDY_FILE, files_below


class ImageFiles(FilesBackend):
    """Image files without masks; the model says how many axes an image has."""

    def __init__(self, cases: Sequence[CaseFiles], modalities: Sequence[str], axes: int) -> None:
        super().__init__(cases, LabelRules(), modalities=modalities)
        self._axes = axes

    def image(self, case: int, *_: Axes, **__: Axes) -> Image | None:
        """Read the image."""
        return super().image(case, self._axes)

    def image_grid(self, case: int, *_: Axes, **__: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image from its header."""
        return super().image_grid(case, self._axes)


def open_images(source: str, config: ModelConfig) -> Study:
    """Open images as a study without raters.

    Args:
        source: An image file, a folder of images, a pattern (`'images/{case}.nii.gz'`), a folder
            written by raters, a manifest (CSV: case, image), or, where the model takes features or
            classifies images, an array (.npy, a row per case) or a table of features (.csv).
        config: What the model takes.

    Raises:
        RatersError: There are no images, or they are of another kind than the model.
    """
    return replace(_opened(source, config), sources=(os.path.abspath(source),))  # noqa: PTH100


def _opened(source: str, config: ModelConfig) -> Study:
    path = Path(source)
    if is_pattern(source):
        return _of_index(index_images(Pattern(source)), config)
    if not path.exists():
        raise RatersError(
            "no such file or folder; expected an image, a folder of images, or a pattern such as "
            "'images/{case}.nii.gz'",
            kind="missing-file",
            file=path,
        )
    if (path / STUDY_FILE).exists():
        return _of_study(path, config)
    if path.suffix.lower() == ".csv":
        return _features(path, config) if config.spatial_dims == 0 else _manifest(path, config)
    if path.suffix.lower() == ".npy":
        rows = _rows(path, config)
        if rows is not None:
            # No bare numbers: they would be taken for tasks of these names, which may be others.
            return _of_arrays(rows, [f"row{k}" for k in range(len(rows))], config)
    return _of_files(path, config)


def _of_study(path: Path, config: ModelConfig) -> Study:
    from raters.study.read import open_folder

    study = open_folder(path)
    refuse_other_study(config, study)
    if not study.backend.holds()["images"]:
        raise RatersError("found no images in the study, expected some", kind="empty", file=path)
    return study.select(raters=[])  # no mask has to be read


def _of_files(path: Path, config: ModelConfig) -> Study:
    """Take a file, a DICOM series, or all images below a folder, named by their paths."""
    if path.is_file() or formats.is_supported(path):
        formats.format_of(path)  # refuses what is no image
        name = path.name[: len(path.name) - len(formats.suffix_of(path))]
        files = {name: path}
    else:
        files = _below(path)
    if not files:
        raise RatersError(
            f"found no images in it, expected some ({', '.join(formats.BY_SUFFIX)}); {there(path)}",
            kind="empty",
            file=path,
        )
    names = sorted(files, key=natural_key)
    cases = [CaseFiles(images={"": files[name]}) for name in names]
    return _of_index(FilesIndex(names, None, None, cases, []), config)


def _below(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    series = [p for p in sorted(folder.iterdir()) if p.is_dir() and formats.is_supported(p)]
    found = [(p.name, p) for p in series]
    found += [
        (name, path)
        for name, path in files_below(folder)
        if formats.is_supported(path) and not any(p in path.parents for p in series)
    ]
    for name, path in found:
        if name in files:
            raise RatersError(
                f"found a second image of the name {name!r} beside {files[name]}, expected one; "
                "a pattern such as 'images/{case}.png' chooses",
                kind="duplicate",
                file=path,
            )
        files[name] = path
    return files


def _manifest(path: Path, config: ModelConfig) -> Study:
    columns, _ = read_cells(path)
    if "case" not in columns or "image" not in columns:
        raise RatersError(
            f"found the columns {listing(columns)}, expected 'case' and 'image': a manifest "
            "of images",
            kind="columns",
            file=path,
        )
    found = index_manifest(path)
    found.files = [CaseFiles(images=case.images) for case in found.files]
    found.raters = []
    found.class_names = []
    return _of_index(found, config)


def _of_index(found: FilesIndex, config: ModelConfig) -> Study:
    if found.problems:
        raise found.problems[0]
    backend = ImageFiles(found.files, found.modalities, config.spatial_dims)
    channels = tuple(found.modalities)
    return Study(backend, found.cases(), (), channels=channels, _classes=config.classes_of_study())


def _rows(path: Path, config: ModelConfig) -> NDArray[Any] | None:
    """Open an array with a row per case; None if it is a single image."""
    array = open_array(path, 0)
    assert array is not None  # it exists
    axes = array.ndim
    channels = config.channels
    if axes == config.spatial_dims + 2:
        return array
    if config.kind == "classification" and axes == config.spatial_dims + 1 and channels == 1:
        return array[:, np.newaxis]
    if config.spatial_dims == 0:
        found = "x".join(map(str, array.shape))
        raise RatersError(
            f"found an array of {found}, expected cases x {channels} features",
            kind="channels",
            file=path,
        )
    return None


def _features(path: Path, config: ModelConfig) -> Study:
    """Read a table of numbers; a column 'case' or 'task' names the rows."""
    columns, cells = read_cells(path)
    named = next((k for k, name in enumerate(columns) if name in ("case", "task")), None)
    names = [str(k) if named is None else row[named].strip() for k, row in enumerate(cells)]
    numbers = [[cell for k, cell in enumerate(row) if k != named] for row in cells]
    if not cells or len(numbers[0]) != config.channels:
        found = len(columns) - (named is not None) if cells else "no rows and 0"
        raise RatersError(
            f"found {found} columns of features, expected {config.channels} (and 'case')",
            kind="columns",
            file=path,
        )
    try:
        features = np.array(numbers, np.float64)
    except ValueError as error:
        raise RatersError(f"{error}, expected numbers", kind="value", file=path) from None
    return _of_arrays(features, names, config)


def _of_arrays(arrays: NDArray[Any], names: list[str], config: ModelConfig) -> Study:
    if not len(arrays):
        raise RatersError("found no rows, expected a row per case", kind="empty")
    study = Study.from_arrays(images=arrays, cases=names)
    return replace(study, _classes=config.classes_of_study())
