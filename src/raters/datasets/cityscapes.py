"""Cityscapes: street scenes, with fine labels as reference or masks, and coarse ones as drawings.

Masks are read from `labelIds.png`, or drawn from the polygons where that file is not there, object
by object in the order of the file, so that later ones lie over earlier ones.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from raters.core.arrays import Array
from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError
from raters.core.whole_numbers import value_counts
from raters.datasets.base import CodedFiles, Dataset, coded, listed, of_all
from raters.io import formats
from raters.study.annotations import Annotation
from raters.study.backend import RawMask
from raters.study.backend_files import CaseFiles
from raters.study.cases import CaseIndex
from raters.study.study import Study

CLASSES = {
    0: "void",
    7: "road",
    8: "sidewalk",
    11: "building",
    12: "wall",
    13: "fence",
    17: "pole",
    19: "traffic light",
    20: "traffic sign",
    21: "vegetation",
    22: "terrain",
    23: "sky",
    24: "person",
    25: "rider",
    26: "car",
    27: "truck",
    28: "bus",
    31: "train",
    32: "motorcycle",
    33: "bicycle",
}
"""The 19 classes of the benchmark by label id, after void: class 0 is left out of all scores."""

IGNORED = {
    0: "unlabeled",
    1: "ego vehicle",
    2: "rectification border",
    3: "out of roi",
    4: "static",
    5: "dynamic",
    6: "ground",
    9: "parking",
    10: "rail track",
    14: "guard rail",
    15: "bridge",
    16: "tunnel",
    18: "polegroup",
    29: "caravan",
    30: "trailer",
}
"""Label ids that the benchmark does not score: MISSING."""

_RATERS = {"gtFine": "fine", "gtCoarse": "coarse"}
_KINDS: dict[str, Annotation] = {"fine": "mask", "coarse": "positive"}
_NOT_DRAWN = "license plate"
_IMAGES = {"train": 2975, "val": 500, "test": 1525, "train_extra": 19998}
_NUMBERS = {number: k for k, number in enumerate(CLASSES)} | dict.fromkeys(IGNORED, MISSING)
_IDS = {
    name: number for number, name in (IGNORED | {k: CLASSES[k] for k in list(CLASSES)[1:]}).items()
}
_SUFFIX = "_leftImg8bit.png"
_ENDINGS = ("labelIds.png", "polygons.json")


@dataclass(frozen=True)
class _Scene:
    """An image: the folder of its split, its city, its name, and its files."""

    folder: str
    city: str
    name: str
    files: CaseFiles


def _read(
    dataset: Dataset, source: Path, folders: tuple[str, ...], needed: str, masks: str = ""
) -> Study:
    """Open images: coarse labels are a rater's; fine ones the reference, of `masks` a rater's."""
    root = dataset.need(source / "leftImg8bit")
    there = [folder for folder in folders if (root / folder).is_dir()]
    scenes = [s for folder in there for s in _scenes(dataset, source, folder, needed, masks)]
    if not scenes:
        raise dataset.missing(root / folders[0] / "aachen" / f"aachen_000000_000019{_SUFFIX}")
    if not any(scene.files.masks or scene.files.reference for scene in scenes):
        raise dataset.missing(source / needed)
    counts = Counter(scene.folder for scene in scenes)
    index = CaseIndex.of(
        [f"{scene.folder}/{scene.name}" for scene in scenes],
        [scene.city for scene in scenes],
        [scene.folder.removesuffix("_extra") for scene in scenes],
    )
    drawn = {rater for scene in scenes for rater in scene.files.masks}
    kinds = {rater: kind for rater, kind in _KINDS.items() if rater in drawn}
    notes = (of_all(counts[folder], _IMAGES[folder], f"{folder} images") for folder in folders)
    void = "pixels of classes that the benchmark does not score are MISSING; void has no pixels"
    backend = CodedFiles([scene.files for scene in scenes], _mask)
    about = dataset.about(void, *notes)
    study = Study(backend, index, tuple(kinds), about=about, _classes=Classes.of(CLASSES))
    # Coarse polygons leave pixels unlabelled that belong to the classes as well.
    return study.annotate(kinds, "unknown")


def _scenes(dataset: Dataset, source: Path, folder: str, needed: str, masks: str) -> list[_Scene]:
    """Match images and labels of a split by name, and reject one without the other."""
    kinds = [
        kind
        for kind in ("gtFine", "gtCoarse")
        # The labels of test images are withheld: their files hold nothing but void.
        if folder != "test"
        and (kind == needed or folder == masks or (source / kind / folder).is_dir())
    ]
    scenes = []
    for city in sorted(p for p in (source / "leftImg8bit" / folder).iterdir() if p.is_dir()):
        for image in (p for p in listed(city, ".png") if p.name.endswith(_SUFFIX)):
            name = image.name.removesuffix(_SUFFIX)
            found = {}
            for kind in kinds:  # the picture, or the polygons
                stem = source / kind / folder / city.name / f"{name}_{kind}"
                found[kind] = dataset.need(*(Path(f"{stem}_{ending}") for ending in _ENDINGS))
            labels = {_RATERS[kind]: {"": file} for kind, file in found.items()}
            reference = {} if folder == masks else labels.pop("fine", {})
            files = CaseFiles(labels, {"": image}, reference)
            scenes.append(_Scene(folder, city.name, name, files))
    for kind in kinds:
        _refuse_stray(dataset, source, folder, kind)
    return scenes


def _refuse_stray(dataset: Dataset, source: Path, folder: str, kind: str) -> None:
    """Reject labels without an image."""
    for ending in _ENDINGS:
        end = f"_{kind}_{ending}"
        for path in sorted((source / kind / folder).glob(f"*/*{end}")):
            name = f"{path.name.removesuffix(end)}{_SUFFIX}"
            dataset.need(source / "leftImg8bit" / folder / path.parent.name / name)


def _mask(path: Path) -> RawMask:
    """Read a file of label ids, or of polygons, as class numbers."""
    ids = draw(path) if path.suffix == ".json" else formats.read_labels(path).array
    if ids.dtype.kind not in "ui":
        raise FINE.wrong(f"found numbers of type {ids.dtype}, expected label ids", path)
    table = np.full(256, MISSING, np.int16)
    for number, k in _NUMBERS.items():
        table[number] = k
    unknown = sorted(value_counts(ids).keys() - _NUMBERS.keys())
    if unknown:
        highest = max(_NUMBERS)
        raise FINE.wrong(f"found the label id {unknown[0]}, expected 0 to {highest}", path)
    return coded(table[ids], path)


# Polygons.


def draw(path: Path) -> Array:
    """Draw label ids from a file of polygons, as the official script does.

    A label that is not known is tried without 'group' at its end (`cargroup`); deleted objects and
    license plates are not drawn.
    """
    from PIL import Image, ImageDraw

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        size = int(content["imgWidth"]), int(content["imgHeight"])
        objects = [_outline(entry, path) for entry in content["objects"]]
    except RatersError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"found no polygons ({type(error).__name__}: {error}), expected imgWidth, "
        raise FINE.wrong(f"{message}imgHeight and objects with label and polygon", path) from None
    canvas = Image.new("L", size, 0)
    pen = ImageDraw.Draw(canvas)
    for number, outline in filter(None, objects):
        pen.polygon(outline, fill=number)
    return np.array(canvas)


def _outline(entry: dict[str, Any], path: Path) -> tuple[int, list[tuple[float, float]]] | None:
    """Return the label id and the points of an object; None if it is not to be drawn."""
    label = str(entry["label"])
    points = [(float(x), float(y)) for x, y in entry["polygon"]]
    label = label if label in (*_IDS, _NOT_DRAWN) else label.removesuffix("group")
    if entry.get("deleted") or label == _NOT_DRAWN:
        return None
    if label not in _IDS:
        raise FINE.wrong(f"found the label {entry['label']!r}, expected one of Cityscapes'", path)
    if len(points) < 2:
        raise FINE.wrong(f"found {len(points)} points of a {label}, expected a polygon", path)
    return _IDS[label], points


FINE: Dataset = Dataset(
    name="cityscapes",
    title="Cityscapes street scenes, finely labelled in 19 classes",
    raters="none, or 'coarse' where gtCoarse/ is there; the fine labels are the reference",
    licence="non-commercial research, terms of the data set",
    citation=(
        "M. Cordts, M. Omran, S. Ramos, T. Rehfeld, M. Enzweiler, R. Benenson, U. Franke, S. Roth, "
        "B. Schiele: The Cityscapes dataset for semantic urban scene understanding. CVPR 2016."
    ),
    layout="""
SOURCE/
  leftImg8bit/{train,val,test}/<city>/    <city>_<seq>_<frame>_leftImg8bit.png
  gtFine/{train,val}/<city>/              <city>_<seq>_<frame>_gtFine_labelIds.png
                                          or ..._gtFine_polygons.json
  gtCoarse/{train,val}/<city>/            ..._gtCoarse_labelIds.png or ..._polygons.json (if there)
""",
    where="https://www.cityscapes-dataset.com/ (leftImg8bit_trainvaltest, gtFine_trainvaltest)",
    read=lambda source: _read(FINE, source, ("train", "val", "test"), "gtFine"),
    form="canonical",
)
COARSE: Dataset = replace(
    FINE,
    name="cityscapes-coarse",
    title="Cityscapes street scenes, coarsely labelled in 19 classes",
    raters="1, called 'coarse'; the fine labels are the reference where gtFine/ is there",
    layout="""
SOURCE/
  leftImg8bit/{train,train_extra,val}/<city>/    <city>_<seq>_<frame>_leftImg8bit.png
  gtCoarse/{train,train_extra,val}/<city>/       <city>_<seq>_<frame>_gtCoarse_labelIds.png
                                                 or ..._gtCoarse_polygons.json
  gtFine/{train,val}/<city>/                     ..._gtFine_labelIds.png or ..._polygons.json
                                                 (if there)
""",
    where="https://www.cityscapes-dataset.com/ (gtCoarse, leftImg8bit_trainextra; images as above)",
    read=lambda source: _read(COARSE, source, ("train", "train_extra", "val"), "gtCoarse"),
)
KINDS: Dataset = replace(
    COARSE,
    name="cityscapes-kinds",
    title="Cityscapes street scenes, finely and coarsely labelled in 19 classes",
    raters="2: 'fine' (masks, train/ only) and 'coarse'; in val/ the fine labels are the reference",
    layout=COARSE.layout.replace("(if there)", "(val: if there)"),
    read=lambda source: _read(KINDS, source, ("train", "train_extra", "val"), "gtCoarse", "train"),
)
