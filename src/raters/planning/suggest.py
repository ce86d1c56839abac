"""Where more drawing would gain most: images and patches by what one more label would tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.core.progress import track
from raters.core.whole_numbers import at_least
from raters.core.wording import many
from raters.evaluation.prediction import Floats, entropy_bits
from raters.fusion.methods import refuse_no_images
from raters.io.claim import Owner, check_folder, claim_folder
from raters.io.paths import written_whole
from raters.io.rows import Row, html, write_csv, write_json
from raters.learning.methods.base import Asked
from raters.learning.prediction.fuse_model import fuse_with
from raters.learning.prediction.predict import predict_cases, starts_of
from raters.learning.training.config import refuse_other_study
from raters.learning.training.model import Model
from raters.study.case import Case, labelled_by
from raters.study.places import Inputs
from raters.study.study import Study

TABLES = ("cases", "patches")
PICTURE = "suggestions.png"
FILES = (*(f"{table}.csv" for table in TABLES), "suggestions.json", PICTURE)
_OWNER = Owner("suggest", "one that raters suggest wrote to")
"""What is written."""

_SHOWN = 12  # cases in the picture
_OVERLAP = 0.75  # of patches that are compared; none that overlap are returned
_LEAST = 16  # pixels along a side of a patch, where nobody says how large patches are


def label_bits(truth: Floats, confusion: Floats | None = None) -> Floats:
    r"""Return how many bits one more label would tell of the truth, `(*space)`.

    It is the mutual information of the truth and what a rater will say of the pixel, averaged
    over raters:

    .. math:: I(t; o) = \sum_t p(t) \sum_o C[t, o] \log_2 \frac{C[t, o]}{\sum_s p(s) C[s, o]}

    A rater who says the same whatever is there tells nothing; one who never errs tells the entropy
    of the truth, which is also what is taken where matrices are unknown.

    Args:
        truth: `p(t)`, `(L, *space)`.
        confusion: `C[t, o]`, `(raters, L, L, *space or ones)`; raters with NaN do not count.

    Example:
        >>> unsure = np.full((2, 1), 0.5, np.float32)
        >>> blank = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
        >>> right = np.eye(2, dtype=np.float32)
        >>> matrices = np.stack([right, blank])[..., None]
        >>> label_bits(unsure), label_bits(unsure, matrices)
        (array([1.], dtype=float32), array([0.5], dtype=float32))
    """
    known = [] if confusion is None else [c for c in confusion if not np.isnan(c).any()]
    if not known:
        return entropy_bits(truth)
    total = np.zeros(truth.shape[1:], np.float32)
    for matrix in known:  # one rater at a time: matrices at pixels are large
        said = np.einsum("t...,to...->o...", truth, matrix)
        total += entropy_bits(said)
        for p, row in zip(truth, matrix, strict=True):
            total -= p * entropy_bits(row)
    return np.maximum(total / len(known), 0)


class Window(NamedTuple):
    """A patch of an image: where it starts, how large it is, and how many bits it holds."""

    start: tuple[int, ...]
    size: tuple[int, ...]
    bits: float


def best_windows(bits: Floats, size: Sequence[int], most: int) -> list[Window]:
    """Return the windows that hold most bits, best first; they do not overlap.

    Windows start at steps of a quarter of their sides; the last one ends where the image does.

    Args:
        bits: `(*space)`.
        size: The sides of a window; where the image is shorter, its own side is taken.
        most: How many to return at most; windows without any bits are not returned.

    Example:
        >>> bits = np.zeros((8, 8), np.float32)
        >>> bits[5, 1], bits[2, 6] = 2, 1
        >>> [(w.start, w.bits) for w in best_windows(bits, (4, 4), 3)]
        [((2, 0), 2.0), ((0, 4), 1.0)]
    """
    sides = tuple(min(n, s) for n, s in zip(size, bits.shape, strict=True))
    axes = zip(bits.shape, sides, strict=True)
    steps = [np.array(starts_of(n, side, _OVERLAP)) for n, side in axes]
    sums = window_sums(bits, sides)[np.ix_(*steps)]
    found: list[Window] = []
    while len(found) < most and sums.max() > 0:
        best = np.unravel_index(int(sums.argmax()), sums.shape)
        start = tuple(int(step[k]) for step, k in zip(steps, best, strict=True))
        found.append(Window(start, sides, float(sums[best])))
        near = [np.abs(step - a) < n for step, a, n in zip(steps, start, sides, strict=True)]
        sums[np.ix_(*near)] = 0
    return found


def window_sums(values: Floats, size: Sequence[int]) -> NDArray[np.float64]:
    """Return the sum of each window of a size, by where the window starts.

    Example:
        >>> window_sums(np.array([1.0, 2.0, 4.0], np.float32), (2,))
        array([3., 6.])
    """
    sums = values.astype(np.float64)
    for axis, side in enumerate(size):
        running = np.cumsum(sums, axis)
        before = np.insert(running, 0, 0, axis)
        ends = np.arange(side, before.shape[axis])
        sums = np.take(before, ends, axis) - np.take(before, ends - side, axis)
    return np.maximum(sums, 0)  # differences of sums may fall a rounding error below


@dataclass(repr=False)
class Suggestions:
    """Where more drawing would gain most, best first.

    Attributes:
        cases: A row per case: what one more label of the whole image would tell, in bits.
        patches: A row per patch, where the study has masks.
        failures: Cases that could not be looked at.
        inputs: What they were made from, where nothing is written.
    """

    cases: list[Row] = field(default_factory=list)
    patches: list[Row] = field(default_factory=list)
    failures: list[RatersError] = field(default_factory=list)
    inputs: Inputs = field(default_factory=Inputs)

    def __repr__(self) -> str:
        sizes = f"{many(len(self.cases), 'case')}, {many(len(self.patches), 'patch')}"
        return f"Suggestions({sizes})"

    def _repr_html_(self) -> str:
        """Show the tables in a notebook, the first rows of each."""
        return html(repr(self), {table: getattr(self, table) for table in TABLES})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        failures = [str(error) for error in self.failures]
        return {"cases": self.cases, "patches": self.patches, "failures": failures}

    def write(self, folder: str | Path) -> None:
        """Write `cases.csv`, `patches.csv` (of masks) and `suggestions.json`."""
        refuse_place(self.inputs, folder)
        claim_folder(folder, _OWNER, FILES)
        for table in TABLES:
            rows = getattr(self, table)
            if rows:
                write_csv(Path(folder) / f"{table}.csv", rows)
        write_json(Path(folder) / "suggestions.json", self.to_dict())

    def draw(self, model: Model, study: Study, folder: str | Path) -> None:
        """Draw the first images with what a label would tell and the patches, as a PNG."""
        from raters.views.plots.overlays import Suggested, suggestions

        first = [str(row["case"]) for row in self.cases[:_SHOWN]]
        if study.kind == "classification" or not first:
            return
        shown = {}
        for case, bits in _bits(model, study.select(cases=first)):
            assert not isinstance(bits, RatersError)  # it was looked at before
            places = [_place(row) for row in self.patches if row["case"] == case.id]
            title = f"{first.index(case.id) + 1}. {case.id}: {bits.sum():.0f} bits"
            shown[case.id] = Suggested(title, case.image, bits, places, case.geometry)
        figure = suggestions([shown[name] for name in first])
        with written_whole(Path(folder) / PICTURE, "wb") as file:
            figure.savefig(file, format="png", dpi=150)


def refuse_place(inputs: Inputs, folder: str | Path) -> None:
    """Reject a folder where tables would replace inputs, or what an earlier call did not write."""
    inputs.refuse(folder, FILES)
    check_folder(folder, _OWNER, FILES)


def suggest(
    model: Model,
    study: Study,
    num_cases: int = 20,
    num_patches: int = 20,
    patch_size: Sequence[int] | None = None,
    *,
    progress: bool = False,
) -> Suggestions:
    """Rank images and patches by how much one more label would tell of the truth.

    At each pixel this is `label_bits` of the model's truth and of its raters' matrices, if it has
    any. Where a case has labels and the method can fuse them (`raters fuse --model`), they are
    counted in: what is known already tells nothing again. A case has the sum over its pixels, a
    patch that over its own.

    Args:
        model: The model.
        study: Images, with labels or without.
        num_cases: How many cases to return.
        num_patches: How many patches to return; those of one case do not overlap.
        patch_size: Sides of a patch; by default a quarter of the image's, and at least 16.
        progress: Show a progress bar.

    Raises:
        RatersError: Sizes that are no sizes, or a study without images.
    """
    _refuse(model, study, num_cases, num_patches, patch_size)
    found = Suggestions(inputs=Inputs.of(study))
    for case, bits in track(_bits(model, study), len(study), "looking at cases", progress):
        if isinstance(bits, RatersError):
            found.failures.append(bits)
            continue
        known = {"case": case.id, "group": case.group, "labelled_by": labelled_by(case)}
        found.cases.append(
            {**known, "bits": float(bits.sum()), "bits_per_pixel": float(bits.mean())}
        )
        if bits.ndim:
            windows = best_windows(bits, patch_size or quarter(bits.shape), num_patches)
            for window in windows:
                start, size = (",".join(map(str, of)) for of in (window.start, window.size))
                found.patches.append({**known, "start": start, "size": size, "bits": window.bits})
    found.cases = _ranked(found.cases, num_cases)
    found.patches = _ranked(found.patches, num_patches)
    return found


def quarter(space: Sequence[int]) -> tuple[int, ...]:
    """Return the sides of patches of an image, if nobody says otherwise.

    Example:
        >>> quarter((256, 40, 8))
        (64, 16, 8)
    """
    return tuple(min(n, max(_LEAST, n // 4)) for n in space)


def _place(row: Row) -> tuple[slice, ...]:
    sides = ((int(n) for n in row[name].split(",")) for name in ("start", "size"))
    return tuple(slice(start, start + size) for start, size in zip(*sides, strict=True))


def _ranked(rows: list[Row], most: int) -> list[Row]:
    best = sorted(rows, key=lambda row: -row["bits"])[:most]
    return [{"rank": k, **row} for k, row in enumerate(best, 1)]


def _refuse(
    model: Model, study: Study, num_cases: int, num_patches: int, patch_size: Sequence[int] | None
) -> None:
    at_least(0, num_cases, "cases")
    at_least(0, num_patches, "patches")
    axes = model.config.label_spatial_dims
    if patch_size is not None and (len(patch_size) != axes or min(patch_size, default=0) < 1):
        sides = f"{axes} sides of at least 1 pixel" if axes else "none: classes have no patches"
        raise RatersError(f"found patches of {tuple(patch_size)}, expected {sides}")
    if study.raters:  # images alone have no classes
        refuse_other_study(model.config, study)
    refuse_no_images(study)


def _bits(model: Model, study: Study) -> Iterator[tuple[Case, Floats | RatersError]]:
    """Return each case with the bits at its pixels."""
    answers = model.method.answers
    labelled = bool(study.raters) and study.kind == "segmentation"
    fused = fuse_with(study, None, model) if labelled and "fusion" in answers else None
    asked = Asked(confusion="confusion" in answers)
    transition = model.transition()
    for case, said in predict_cases(model, study.iter_cases(), asked):
        if isinstance(said, RatersError):
            yield case, said
            continue
        truth = said.truth
        if fused is not None and labelled_by(case):
            truth = np.asarray(fused.fuse_case(case).truth, np.float32)
        yield case, label_bits(truth, _said(said.confusion, transition))


def _said(confusion: Floats | None, transition: Floats | None) -> Floats | None:
    """Return matrices of what raters will say: of those who exclude classes, `A M`."""
    if confusion is None or transition is None:
        return confusion
    found = [
        matrix if np.isnan(m).any() else np.einsum("to...,oq->tq...", matrix, m)
        for matrix, m in zip(confusion, transition, strict=True)
    ]
    return np.stack(found)
