"""Images and arrays of other libraries: SimpleITK, nibabel, torch and MONAI, in our axis order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry, Volume
from raters.core.whole_numbers import whole_numbers
from raters.study.backend_files import refuse_other_grid

Given = Any
"""What a user gives: an array or an image of any library, or a sequence of them."""

Affine = Floats


def is_image(thing: object) -> bool:
    """Return whether something is an image that knows its place in space (SimpleITK, nibabel).

    Example:
        >>> import SimpleITK
        >>> is_image(SimpleITK.Image(4, 5, SimpleITK.sitkUInt8)), is_image(np.zeros((4, 5)))
        (True, False)
    """
    return isinstance(thing, (*library_class("SimpleITK", "Image"), *_nibabel()))


def library_class(module: str, name: str) -> Any:  # noqa: ANN401
    """The class of a library; no object can be of a library that is not loaded."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def _nibabel() -> Any:  # noqa: ANN401
    return library_class("nibabel.spatialimages", "SpatialImage")


def volume_of(thing: Any) -> Volume:  # noqa: ANN401
    """Return the voxels of an image or an array in our axis order, with the affine if it has one.

    `(*space)`, or `(channels, *space)` for images with several values per voxel. SimpleITK's images
    come out as the readers of files give them: `(x, y, z)` in three dimensions, rows and columns
    in two, LPS turned to RAS.

    Raises:
        RatersError: for what is no array of numbers.

    Example:
        >>> import SimpleITK
        >>> image = SimpleITK.Image(4, 5, 6, SimpleITK.sitkUInt8)
        >>> image.SetSpacing((0.5, 0.6, 2.0))
        >>> found = volume_of(image)
        >>> found.array.shape, found.affine.diagonal().tolist()
        ((4, 5, 6), [-0.5, -0.6, 2.0, 1.0])
    """
    if isinstance(thing, library_class("SimpleITK", "Image")):
        return _of_simpleitk(thing)
    if isinstance(thing, _nibabel()):
        return _of_nibabel(thing)
    return Volume(array_of(thing), _meta_affine(thing))


def array_of(thing: Any) -> Array:  # noqa: ANN401
    """Return an array of numbers, of whatever library; images lose their geometry.

    Raises:
        RatersError: for what is no array of numbers.

    Example:
        >>> array_of([[0, 1]]).shape
        (1, 2)
        >>> array_of({"a": 1})
        Traceback (most recent call last):
        raters.core.errors.RatersError: found dict, expected an array of numbers or an image
    """
    if is_image(thing):
        return volume_of(thing).array
    if isinstance(thing, library_class("torch", "Tensor")):
        tensor = thing.detach().cpu()
        half = str(tensor.dtype) == "torch.bfloat16"  # numpy has no such type
        return np.asarray((tensor.float() if half else tensor).numpy())
    array = np.asarray(thing)
    if array.dtype.kind not in "buif":
        raise RatersError(f"found {_named(thing)}, expected an array of numbers or an image")
    return array


def label_array(given: Any) -> Array:  # noqa: ANN401
    """Return labels as whole numbers; what is masked or NaN is MISSING.

    Raises:
        RatersError: for fractions and what is no number.

    Example:
        >>> label_array(np.array([1.0, np.nan])), label_array(np.ma.masked_equal([0, 7], 7))
        (array([ 1, -1], dtype=int32), array([ 0, -1]))
    """
    array = np.asarray(given if isinstance(given, np.ndarray | np.generic) else array_of(given))
    if np.ma.isMaskedArray(given):
        array = np.where(np.ma.getmaskarray(given), np.int16(MISSING), array)
    if array.dtype.kind == "f":
        known = np.where(np.isnan(array), MISSING, array)
        if ((known == np.rint(known)) & (np.abs(known, dtype=float) < 2**31)).all():
            return known.astype(np.int32)
    if array.dtype.kind not in "iub":
        hint = "" if array.dtype.kind == "f" else "; raters.read takes a frame of other labels"
        expected = f"expected whole numbers from 0, and -1 for missing{hint}"
        raise RatersError(f"found labels of type {array.dtype}, {expected}")
    return array.view(np.int8) if array.dtype.kind == "b" else array


def _named(thing: object) -> str:
    kind = type(thing)
    if isinstance(thing, np.ndarray):
        return f"an array of {thing.dtype}"
    inside = f" of {_named(thing[0])}" if isinstance(thing, list | tuple) and thing else ""
    module = kind.__module__.partition(".")[0]
    return f"{'' if module == 'builtins' else f'{module}.'}{kind.__name__}{inside}"


def _of_simpleitk(image: Any) -> Volume:  # noqa: ANN401
    from raters.core import geometry
    from raters.io.formats import itk

    dims = image.GetDimension()
    if dims not in (2, 3):
        raise RatersError(f"found a SimpleITK image of {dims} axes, expected 2 or 3")
    affine = geometry.from_itk(image.GetDirection(), image.GetSpacing(), image.GetOrigin(), dims)
    return Volume(itk.array_of(image), affine, image.GetNumberOfComponentsPerPixel() > 1)


def _of_nibabel(image: Any) -> Volume:  # noqa: ANN401
    from raters.core import geometry

    array = np.asanyarray(image.dataobj)
    space = array.shape[:3]
    if not 2 <= array.ndim <= 4 or image.affine is None:
        raise RatersError(f"found a nibabel image of shape {array.shape}, expected 2 to 4 axes")
    if array.dtype.kind not in "buif":
        raise RatersError(f"found a nibabel image of {array.dtype}, expected real numbers")
    affine = np.asarray(image.affine, np.float64)
    affine = geometry.plane(affine) if len(space) == 2 else affine
    has_channels = array.ndim == 4
    return Volume(np.moveaxis(array, 3, 0) if has_channels else array, affine, has_channels)


def _meta_affine(thing: Any) -> Affine | None:  # noqa: ANN401
    """The affine of MONAI's MetaTensor, `(channels, *space)` in three dimensions, RAS."""
    if not (isinstance(thing, library_class("torch", "Tensor")) and hasattr(thing, "meta")):
        return None
    found = np.asarray(thing.affine.detach().cpu(), np.float64)
    return found if found.shape == (4, 4) and thing.ndim == 4 else None


def image_of(given: Any) -> tuple[Array, Geometry | None]:  # noqa: ANN401
    """Return the image of a case as `(channels, *space)`, and its grid if it knows it.

    Args:
        given: An array with channels, an image, or a sequence of images, one per channel.
    """
    if isinstance(given, list | tuple) and any(map(is_image, given)):
        parts = [image_of(part) for part in given]
        grid = _common([g for _, g in parts], "the image")
        return np.concatenate([array for array, _ in parts]), grid
    volume = volume_of(given)
    array = volume.array
    if is_image(given) and not volume.has_channels:
        array = array[np.newaxis]
    grid = None if volume.affine is None else Geometry(array.shape[1:], volume.affine)
    return array, grid


def labels_of(given: Any) -> tuple[Array, Geometry | None]:  # noqa: ANN401
    """Return the masks of a case as `(raters, *space)`, and their grid if they know it.

    Args:
        given: An array, or a sequence with one mask per rater; None for one who did not label.
    """
    if is_image(given):
        raise RatersError("found one image as the labels of a case, expected one per rater")
    if not isinstance(given, list | tuple) or all(isinstance(one, _NUMBERS) for one in given):
        return label_array(given), None
    volumes = [None if mask is None else mask_of(mask) for mask in given]
    known = [volume for volume in volumes if volume is not None]
    if not known:
        raise RatersError("found no mask by any rater of a case, expected one at least")
    grids = [Geometry(volume.array.shape, volume.affine) for volume in known]
    grid = _common(grids, "a mask")
    empty = np.full(known[0].array.shape, MISSING, np.int16)
    return np.stack([empty if v is None else v.array for v in volumes]), grid


def mask_of(given: Any) -> Volume:  # noqa: ANN401
    """Return one mask, `(*space)`, with its affine if it has one."""
    if not is_image(given):
        return Volume(label_array(given), _meta_affine(given))
    volume = volume_of(given)
    if volume.has_channels:
        raise RatersError(f"found {len(volume.array)} channels in a mask, expected one label")
    return replace(volume, array=whole_numbers(volume.array))


def _common(grids: Sequence[Geometry | None], what: str) -> Geometry | None:
    """Return the grid of the first that knows it; all others must lie on it."""
    known = [grid for grid in grids if grid is not None]
    first = next((grid for grid in known if grid.affine is not None), None)
    for grid in known:
        refuse_other_grid(grid, what, first or known[0], "the first one", hint=_HINT)
    return first


_HINT = "resample them first"


def converted(images: Given, labels: Given, reference: Given, affines: Given) -> dict[str, Given]:
    """Turn what other libraries hold into arrays and affines; plain arrays stay as they are.

    Raises:
        RatersError: for what is no array, and for images of one case on different grids; it names
            the case.
    """
    groups = {"images": images, "labels": labels, "reference": reference}
    for what, given in groups.items():
        groups[what] = _outer(given, what)
    number = max((len(given) for given in groups.values() if given is not None), default=0)
    grids: list[list[tuple[str, Geometry]]] = [[] for _ in range(number)]
    readers = {"images": image_of, "labels": labels_of, "reference": _reference_of}
    for what, given in groups.items():
        if given is not None and _holds_foreign(given, what):
            groups[what] = [
                _case(readers[what], one, what, k, grids[k]) for k, one in enumerate(given)
            ]
    if any(grids):
        affines = [_grid_of_case(k, grids[k], affines) for k in range(number)]
    return {**groups, "affines": affines}


def _outer(given: Any, what: str) -> Any:  # noqa: ANN401
    """Reject what is no sequence of cases; a tensor becomes an array as a whole."""
    if isinstance(given, library_class("torch", "Tensor")):
        given = array_of(given)
    if isinstance(given, library_class("pandas", "DataFrame")):
        raise RatersError(
            f"found a DataFrame as {what}, expected arrays: Study.from_frame and raters.read take "
            "frames"
        )
    single = is_image(given) or getattr(given, "ndim", 1) == 0 or not hasattr(given, "__len__")
    if given is not None and (single or isinstance(given, str | bytes | dict)):
        raise RatersError(f"found {_named(given)} as {what}, expected a sequence, one per case")
    return given


def _holds_foreign(given: Any, what: str) -> bool:  # noqa: ANN401
    """Return whether a group needs to be converted; arrays of numbers do not, and stay lazy."""
    plain = "buif" if what == "images" else "iub"
    if isinstance(given, np.ndarray) and given.dtype != object:
        return _is_foreign(given, plain)
    if what == "images" and not isinstance(given, list | tuple | np.ndarray):
        return False  # rows of a file, which give arrays
    return any(_is_foreign(one, plain) for one in given)


_NUMBERS = int, float, np.generic


def _is_foreign(one: Any, plain: str) -> bool:  # noqa: ANN401
    if isinstance(one, list | tuple):
        return any(not isinstance(part, _NUMBERS) or _is_foreign(part, plain) for part in one)
    if isinstance(one, (*_NUMBERS, np.ndarray)):
        return np.asarray(one).dtype.kind not in plain or np.ma.isMaskedArray(one)
    return one is not None


def _case(
    reader: Given, given: Given, what: str, case: int, grids: list[tuple[str, Geometry]]
) -> Array | None:
    if given is None:
        return None
    try:
        array, grid = reader(given)
    except RatersError as error:
        raise RatersError(f"{what} of case {case}: {error}", kind=error.kind) from None
    except ValueError as error:  # of numpy, for arrays of different shapes
        raise RatersError(f"{what} of case {case}: {error}, expected one shape") from None
    if grid is not None:
        grids.append((what, grid))
    return np.asarray(array)


def _reference_of(given: Any) -> tuple[Array, Geometry | None]:  # noqa: ANN401
    volume = mask_of(given)
    return volume.array, Geometry(volume.array.shape, volume.affine)


def _grid_of_case(case: int, grids: list[tuple[str, Geometry]], affines: Any) -> Affine | None:  # noqa: ANN401
    """Return the one affine of a case; images, masks and a given affine must agree."""
    given = None if affines is None or case >= len(affines) else affines[case]
    known = [(what, grid) for what, grid in grids if grid.affine is not None]
    if given is not None and known:
        known = [("affines", Geometry(known[0][1].shape, np.asarray(given, np.float64))), *known]
    for what, grid in known[1:]:
        first, expected = known[0]
        refuse_other_grid(grid, f"{what} of case {case}", expected, first, hint=_HINT)
    return known[0][1].affine if known else given
