"""Public data sets as studies: `prepare` turns what was downloaded into a folder for `raters`.

A new data set is one module with a `Dataset` and one entry in `DATASETS`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.datasets import cityscapes
from raters.datasets.base import Dataset
from raters.datasets.brats import BRATS2019, QU_BRATS2020, SLICES
from raters.datasets.challenges import GLEASON, ISBI2015, QUBIQ
from raters.datasets.cifar10 import CIFAR10
from raters.datasets.crowds import LABELME, MUSIC
from raters.datasets.cup_and_disc import REFUGE, RIGA
from raters.datasets.files import Download, fetch
from raters.datasets.label_tables import ANAESTHETIST, IMAGE_TABLE
from raters.datasets.lidc import LIDC
from raters.datasets.lidc_dicom import DICOM
from raters.datasets.mnist import MASKS, MNIST, NOISY
from raters.datasets.vessels import CHASE, KINDS, LES_AV
from raters.io.paths import refuse_file

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.study.write import ImportResult

__all__ = ["DATASETS", "Dataset", "Download", "fetch", "find", "open_dataset", "prepare"]

DATASETS: dict[str, Dataset] = {
    "anaesthetist": ANAESTHETIST,
    "brats2019": BRATS2019,
    "brats2019-slices": SLICES,
    "chase-db1": CHASE,
    "cifar10": CIFAR10,
    "cityscapes": cityscapes.FINE,
    "cityscapes-coarse": cityscapes.COARSE,
    "cityscapes-kinds": cityscapes.KINDS,
    "gleason2019": GLEASON,
    "image-table": IMAGE_TABLE,
    "isbi2015-ms": ISBI2015,
    "labelme": LABELME,
    "les-av": LES_AV,
    "les-av-kinds": KINDS,
    "lidc": LIDC,
    "lidc-dicom": DICOM,
    "mnist": MNIST,
    "mnist-masks": MASKS,
    "music-genre": MUSIC,
    "noisy-mnist": NOISY,
    "qu-brats2020": QU_BRATS2020,
    "qubiq": QUBIQ,
    "refuge": REFUGE,
    "riga": RIGA,
}


def find(name: str) -> Dataset:
    """Return the data set of that name; refuse one that there is not with a list of names.

    Example:
        >>> find("lidc").licence
        'CC BY 3.0'
    """
    if name in DATASETS:
        return DATASETS[name]
    known = expected_one_of(DATASETS, name.lower().replace("_", "-"))
    message = f"found the data set {name!r}, {known} (raters prepare --list)"
    raise RatersError(message, kind="unknown-dataset")


def open_dataset(name: str, source: str | Path) -> Study:
    """Open a data set where it lies, without writing anything.

    Args:
        name: One of `DATASETS`.
        source: The folder or file it is in; where the data set has parts, the part's name too.
    """
    dataset = find(name)
    path = Path(source)
    dataset.need(dataset.place(path))
    return dataset.read(path)


def prepare(
    name: str,
    source: str | Path,
    out: str | Path,
    form: str | None = None,
    *,
    overwrite: bool = False,
    download: bool = False,
    progress: bool = False,
) -> ImportResult:
    """Write a data set as a study folder.

    Args:
        name: One of `DATASETS`.
        source: The folder or file it is in; with `download` the folder to fetch it to.
        out: The folder to write.
        form: 'canonical' or 'packed'; by default what suits the data set.
        overwrite: Write all cases again.
        download: Fetch what is not there yet, where that is allowed.
        progress: Show progress bars.
    """
    from raters.study.places import Inputs
    from raters.study.write import import_study

    dataset = find(name)
    path = Path(source)
    Inputs.named(dataset.place(path)).refuse(out)
    if download:
        _fetch_all(dataset, path, progress)
    suits = dataset.form_of(path) if dataset.form_of else dataset.form
    try:
        study = open_dataset(name, path)
        result = import_study(study, out, form or suits, overwrite=overwrite, progress=progress)
    except RatersError as error:
        raise _without_options(error, name) from None
    return replace(result, failures=[_without_options(error, name) for error in result.failures])


_BY_OPTIONS = ("unknown-value", "grey", "not-whole", "overlap", "geometry")
"""Problems whose messages name options that say how files are read."""


def _without_options(error: RatersError, name: str) -> RatersError:
    """Say where the options are that a message names: a data set is read without any."""
    if error.kind not in _BY_OPTIONS:
        return error
    return RatersError(
        f"{error.message}; raters prepare takes {name} as it is published and has no options for "
        "other files: those of raters import read them",
        kind=error.kind,
        file=error.file,
        case=error.case,
        rater=error.rater,
    )


def _fetch_all(dataset: Dataset, folder: Path, progress: bool) -> None:
    if not dataset.downloads:
        raise RatersError(
            f"{dataset.name} must be fetched by hand: get it from {dataset.where} "
            f"({dataset.licence}) and put it in {folder}. {dataset.expected()}",
            kind="download",
        )
    refuse_file(folder)
    for item in dataset.downloads:
        fetch(item, folder, progress=progress)
