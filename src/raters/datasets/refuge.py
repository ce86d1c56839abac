"""REFUGE with the masks of seven annotators: optic disc and cup in fundus images."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from raters.datasets.base import Dataset, of_all
from raters.datasets.cup_and_disc import CLASSES, combined
from raters.study.backend import LabelRules, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.pattern import natural_key
from raters.study.study import CaseIndex, Study

RATERS = tuple(f"annotator{k}" for k in range(1, 8))
_FOLDERS = {"Training-400": "train", "Validation-400": "val", "Test-400": "test"}
_EACH = 400
_STRUCTURES = ("disc", "cup")
_RULE = "a pixel in the cup is cup, also where the same annotator's disc leaves it out"


def read(source: Path) -> Study:
    """Open the masks of all annotators; an image without one of them is rejected."""
    REFUGE.need(source)
    cases: dict[str, tuple[str, CaseFiles]] = {}
    for folder, split in _FOLDERS.items():
        for place in _places(source / folder):
            cases[f"{split}/{place.name}"] = split, _files(place)
    if not cases:
        raise REFUGE.missing(source / next(iter(_FOLDERS)))
    counts = Counter(split for split, _ in cases.values())
    notes = (of_all(counts[split], _EACH, f"{split} images") for split in _FOLDERS.values())
    index = CaseIndex.of(list(cases), splits=[split for split, _ in cases.values()])
    backend = _DiscsAndCups([files for _, files in cases.values()], LabelRules())
    return Study(backend, index, RATERS, about=REFUGE.about(_RULE, *notes), _classes=CLASSES)


def _places(folder: Path) -> list[Path]:
    """List the folders of images, in the natural order of their names."""
    below = folder.iterdir() if folder.is_dir() else ()
    places = [path for path in below if path.is_dir() and not path.name.startswith(".")]
    return sorted(places, key=lambda path: natural_key(path.name))


def _files(place: Path) -> CaseFiles:
    masks = {
        rater: {
            what: REFUGE.need(place / f"{place.name}_seg_{what}_{k}.png") for what in _STRUCTURES
        }
        for k, rater in enumerate(RATERS, 1)
    }
    return CaseFiles(masks, {"": REFUGE.need(place / f"{place.name}.jpg")})


class _DiscsAndCups(FilesBackend):
    """Two files per annotator, which overlap."""

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Put an annotator's cup into the disc."""
        files = {} if rater is None else self.cases[case].masks.get(rater, {})
        return combined(files["disc"], files["cup"]) if files else None


REFUGE = Dataset(
    name="refuge",
    title="REFUGE fundus images with optic disc and cup, by seven annotators",
    raters="7 glaucoma experts, by number",
    licence="the copy: Apache-2.0; images: see the terms of the REFUGE challenge",
    citation=(
        "J. I. Orlando et al.: REFUGE challenge: a unified framework for evaluating automated "
        "methods for glaucoma assessment from fundus photographs. Medical Image Analysis 59, 2020. "
        "H. Fang et al.: REFUGE2 challenge: a treasure trove for multi-dimension analysis and "
        "evaluation in glaucoma screening. arXiv:2202.08994, 2022."
    ),
    layout="""
SOURCE/  (REFUGE-MultiRater, as unpacked)
  Training-400/, Validation-400/, Test-400/
    <image>/                                    e.g. 0826/
      <image>.jpg
      <image>_seg_disc_1.png .. _seg_disc_7.png   the disc with the cup, 0 and 255
      <image>_seg_cup_1.png .. _seg_cup_7.png     the cup
""",
    where="https://huggingface.co/datasets/realslimman/REFUGE-MultiRater",
    read=read,
    form="canonical",
)
