"""Which share of the time training waits for data.

Run it as `python benchmarks/data_waiting.py`: a study of 200 PNG images of 256 x 256, and patches
of twelve compressed 3D NIfTI volumes of 96 x 96 x 96, both with masks by three raters, with a tiny
network (the smaller the network, the more data it asks for) and with one of the usual size. Cases
are kept in memory, or on disk (`cache=0`), and read by the loop itself or by worker processes. The
first epoch, which decodes all files, is printed beside the last.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

import raters
from raters.study.study import Study
from training_memory import RATERS, draw

SIDE = 96
NETWORKS: dict[str, dict[str, Any]] = {
    "tiny": {"width": 2, "depth": 1},
    "usual": {"width": 16, "depth": 3},
}
WAYS: dict[str, dict[str, Any]] = {
    "memory, no workers": {"num_workers": 0},
    "disk, no workers": {"num_workers": 0, "cache": 0.0},
    "disk, 1 worker": {"num_workers": 1, "cache": 0.0},
    "disk, 2 workers": {"num_workers": 2, "cache": 0.0},
}


def pictures(folder: Path, cases: int = 200) -> Study:
    """Write PNG images and masks."""
    draw(folder, cases, size=256)
    masks = f"{folder}/masks/{{rater}}/{{case}}.png"
    images = f"{folder}/images/{{case}}.png"
    return raters.read(masks, images=images)


def volumes(folder: Path, cases: int = 12) -> Study:
    """Write NIfTI volumes and masks."""
    rng = np.random.default_rng(0)
    for name in ("images", *(f"masks/r{k}" for k in range(RATERS))):
        (folder / name).mkdir(parents=True)
    distance = np.sqrt(sum(axis**2 for axis in np.mgrid[:SIDE, :SIDE, :SIDE] - SIDE // 2))
    for case in range(cases):
        radius = rng.uniform(10, 30)
        image = (300 * (distance < radius) + rng.normal(0, 100, distance.shape)).astype(np.int16)
        save(image, folder / f"images/c{case}.nii.gz")
        for rater in range(RATERS):
            mask = (distance < radius + rater).astype(np.uint8)
            save(mask, folder / f"masks/r{rater}/c{case}.nii.gz")
    masks = f"{folder}/masks/{{rater}}/{{case}}.nii.gz"
    images = f"{folder}/images/{{case}}.nii.gz"
    return raters.read(masks, images=images)


def save(array: NDArray[Any], file: Path) -> None:
    """Write a NIfTI volume."""
    nib.save(nib.Nifti1Image(array, np.eye(4)), file)  # type: ignore[no-untyped-call]


def main() -> None:
    """Print a line a study, network and way of reading."""
    names = sys.argv[1:] or list(NETWORKS)
    with tempfile.TemporaryDirectory() as folder:
        studies: dict[str, tuple[Study, dict[str, Any]]] = {
            "PNG": (pictures(Path(folder) / "png"), {"batch_size": 8, "patch_size": (128, 128)}),
            "NIfTI": (volumes(Path(folder) / "nii"), {"batch_size": 2, "patch_size": (48, 48, 48)}),
        }
        print("study  network  way                 first epoch: waited  last epoch: waited")
        for name, (study, options) in studies.items():
            for size in names:
                for way, reading in WAYS.items():
                    more = {**options, **NETWORKS[size], **reading}
                    model = raters.fit(study, "pixel-cm", epochs=3, progress=False, **more)
                    first = model.history[0]
                    last = model.history[-1]
                    times = [
                        f"{r['seconds']:6.1f} s {100 * r['waiting']:5.1f} %" for r in (first, last)
                    ]
                    print(f"{name:6} {size:8} {way:19} {times[0]:>20} {times[1]:>19}", flush=True)


if __name__ == "__main__":
    main()
