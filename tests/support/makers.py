"""Small makers that the tests of studies share; files are written by other libraries than ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import SimpleITK as sitk  # noqa: N813
import tifffile
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[Any]

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
few = settings(quick, max_examples=15)

ODD_NAMES = [
    "../x",
    "a/b",
    "a//b",
    "/a",
    "a/",
    "..",
    ".",
    ".hidden",
    "100%",
    "%2F",
    "a b",
    " a ",
    "Jürgen",
    "<script>",
    "dots...",
    "a,b",
    'say "hi"',
    "line\nbreak",
    "re\rturn",
    "null",
    "1",
    "007",
    "7",
    "1e5",
    "a.png",
    "a.nii",
    "x.nii.gz",
    "~",
    "#",
    "- a",
    "{case}",
    "*",
    "漢字",
    "\u2028",
    "CON",
]


def save(path: Path, array: Any, affine: Array | None = None) -> Path:
    """Write labels or a grey image in the format that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.asarray(array)
    name = path.name.lower()
    if name.endswith((".nii", ".nii.gz")):
        nib.save(nib.Nifti1Image(values, np.eye(4) if affine is None else affine), path)
    elif name.endswith((".mha", ".nrrd")):
        sitk.WriteImage(to_itk(values, affine), str(path))
    elif name.endswith(".png"):
        Image.fromarray(values).save(path)
    elif name.endswith(".tif"):
        tifffile.imwrite(path, values)
    else:
        np.save(path, values)
    return path


def to_itk(values: Array, affine: Array | None) -> sitk.Image:
    """Turn an array in our axis order with a RAS affine into an ITK image (LPS)."""
    image = sitk.GetImageFromArray(values.T)
    if affine is not None:
        flip = np.diag([-1.0, -1.0, 1.0][: values.ndim])
        lps = flip @ affine[:-1, :-1]
        spacing = np.linalg.norm(lps, axis=0)
        image.SetSpacing(spacing.tolist())
        image.SetDirection((lps / spacing).ravel().tolist())
        image.SetOrigin((flip @ affine[:-1, -1]).tolist())
    return image


def square(size: int = 4, value: int = 1, corner: int = 0) -> Array:
    """Draw a 2 x 2 square of one value, somewhere on the diagonal."""
    mask = np.zeros((size, size), np.uint8)
    mask[corner : corner + 2, corner : corner + 2] = value
    return mask


def oblique(rng: np.random.Generator, ndim: int = 3) -> Array:
    """Draw a rotated grid with spacings from .5 to 2 mm."""
    axes, _ = np.linalg.qr(rng.normal(size=(ndim, ndim)))
    affine = np.eye(ndim + 1)
    affine[:-1, :-1] = axes * rng.uniform(0.5, 2, ndim)
    affine[:-1, -1] = rng.uniform(-3, 3, ndim)
    return affine
