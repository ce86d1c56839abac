"""Maps of disagreement: the entropy of the raters' labels at each voxel, as image files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.agreement.case import entropy_map
from raters.errors import RatersError, enough_memory
from raters.progress import track
from raters.study import formats
from raters.study.parallel import ordered_map
from raters.study.paths import case_path
from raters.study.places import Inputs, refuse_foreign

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

MARK = ".maps"
"""The file that says whose folder it is: maps take the names of images, and replace no others."""


def refuse_place(study: Study, folder: str | Path) -> None:
    """Reject a folder where inputs would be replaced, or that holds other files than maps."""
    Inputs.of(study).refuse(folder)
    refuse_foreign(folder, MARK, "earlier maps")


def write_entropy_maps(
    study: Study,
    folder: str | Path,
    progress: bool = False,
    failures: list[RatersError] | None = None,
) -> int:
    """Write a map per case; give how many were written.

    With a list of `failures`, what goes wrong with a case is added to it and the others continue.

    Volumes with geometry hold bits as floats. Pictures are PNG, where 255 is the highest entropy
    that so many classes can have, `log2(classes)` bits, so that maps of one study compare.
    """
    if study.kind == "classification":
        raise RatersError("found a table, expected masks: tables have no maps")
    refuse_place(study, folder)
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / MARK).touch()
    highest = np.log2(max(len(study.classes), 2))

    def write(case: Case) -> None:
        bits = entropy_map(case.labels, len(study.classes))[np.newaxis]
        affine = case.geometry.affine
        if affine is None and bits.ndim == 3:
            picture = np.rint(bits / highest * 255).astype(np.uint8)
            formats.write_image(Path(folder) / f"{case_path(case.id)}.png", picture)
            return
        suffix = formats.image_suffix(bits, affine)
        formats.write_image(Path(folder) / f"{case_path(case.id)}{suffix}", bits, affine)

    def attempt(case: Case) -> RatersError | None:
        try:
            with enough_memory(case.id):
                write(case)
        except RatersError as error:
            if failures is None:
                raise
            return error.at(case=case.id)
        return None

    done = ordered_map(attempt, study.iter_cases())
    found = list(track(done, len(study), "drawing maps", progress))
    if failures is not None:
        failures += [error for error in found if error is not None]
    return sum(error is None for error in found)
