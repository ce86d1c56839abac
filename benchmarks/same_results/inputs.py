"""The data that both checkouts read: public data sets, and a few volumes made of slices."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

DATA_SETS = ("chase_db1", "lidc64", "gleason2019", "labelme", "music_genre")


def make_inputs(data: Path, results: Path, inputs: Path) -> None:
    """Link to the data sets, copy the committed results and stack slices to volumes.

    Args:
        data: The folder of the data sets.
        results: The folder of committed results of benchmarks (`docs/results`).
        inputs: The folder to write; what is there is kept.
    """
    inputs.mkdir(parents=True, exist_ok=True)
    for name in DATA_SETS:
        if not (inputs / name).exists():
            (inputs / name).symlink_to((data / name).resolve())
    if not (inputs / "results").exists():
        shutil.copytree(results, inputs / "results")
    if not (inputs / "nodules").exists():
        _stack_slices(inputs / "lidc64" / "lidc_crops_4raters_64.npz", inputs / "nodules")


def _stack_slices(crops: Path, out: Path, number: int = 8, slices: int = 10) -> None:
    """Write the first nodules that have enough slices as volumes, with one mask per reader."""
    import nibabel as nib

    with np.load(crops) as arrays:
        images = arrays["image"]
        nodule_of_slice = arrays["patient_nodule_slice"]
        masks = np.unpackbits(arrays["masks_packed"], axis=-1)

    counts = Counter(map(tuple, nodule_of_slice[:, :2].tolist()))
    large = [nodule for nodule, count in counts.items() if count >= slices]
    affine = np.diag([0.7, 0.7, 2.5, 1.0])
    for patient, nodule in large[:number]:
        is_of_nodule = (nodule_of_slice[:, 0] == patient) & (nodule_of_slice[:, 1] == nodule)
        rows = np.flatnonzero(is_of_nodule)[:slices]
        stacks = {".": images[rows], **{f"r{k}": masks[rows, k] for k in range(4)}}
        for folder, stack in stacks.items():
            (out / folder).mkdir(parents=True, exist_ok=True)
            volume = nib.Nifti1Image(stack.transpose(1, 2, 0).astype(np.uint8), affine)
            nib.save(volume, out / folder / f"n{patient:04d}.nii.gz")
