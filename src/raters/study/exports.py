"""Files that are no study yet: exports of tools, sheets and archives, and what to do with them."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

from raters.core.errors import RatersError

_HEAD = 1 << 20

_NOT_YET = "which raters does not read yet"
_MASKS = (
    "write a mask per annotator (masks/ANNOTATOR/IMAGE.png), and then: raters check masks/, or, of "
    "one class per task, a CSV with the columns task, worker, label"
)
_SENTENCES = {
    "label-studio": (
        f"found a Label Studio export, {_NOT_YET}; expected masks or a table: export 'CSV' for "
        "classes, whose column annotator is the worker, or 'Brush labels to PNG' for masks, put "
        "into a folder per annotator (masks/ANNOTATOR/IMAGE.png)"
    ),
    "cvat": (
        f"found a CVAT export, {_NOT_YET}; expected masks: export 'Segmentation mask 1.1' of each "
        "annotator's job, and put them into a folder per annotator (masks/ANNOTATOR/IMAGE.png)"
    ),
    "coco": f"found COCO annotations, {_NOT_YET}; expected masks or a table: {_MASKS}",
    "geojson": (
        f"found GeoJSON outlines (QuPath and others), {_NOT_YET}; expected masks: export them as "
        "label images, one per annotator (masks/ANNOTATOR/IMAGE.png)"
    ),
    "json": f"found a JSON file, {_NOT_YET}; expected masks or a table: {_MASKS}",
    "xml": f"found an XML file, {_NOT_YET}; expected masks or a table: {_MASKS}",
    "zip": "found a zip file, expected what is in it: unzip it, and name the folder",
    "sheet": "found a spreadsheet, expected a table: save the sheet as CSV (UTF-8), or as .xlsx",
}


def known_export(path: Path) -> RatersError | None:
    """Return what a file is and what to do with it; None for files that are none of these.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "instances.json")
        >>> _ = file.write_text('{"images": [], "annotations": [], "categories": []}')
        >>> known_export(file).message[:22]
        'found COCO annotations'
    """
    kind = _kind(path)
    if kind is None:
        return None
    return RatersError(_SENTENCES[kind], kind="pattern", file=path)


def _kind(path: Path) -> str | None:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".json", ".geojson")):
        return _kind_of_json(_head(path))
    if name.endswith(".xml"):
        return "cvat" if "<annotations" in _head(path) else "xml"
    if name.endswith(".zip"):
        return _kind_of_zip(path)
    return "sheet" if name.endswith((".xls", ".ods", ".numbers")) else None


def _kind_of_json(text: str) -> str:
    start = text.lstrip()[:1]
    if '"coordinates"' in text and '"type"' in text:
        return "geojson"
    if start == "[" or '"result"' in text:
        marks = ('"annotations"', '"completions"', '"completed_by"')
        is_export = '"result"' in text or '"data"' in text or '"annotator"' in text
        return "label-studio" if is_export and any(mark in text for mark in marks) else "json"
    coco_marks = ('"categories"', '"segments_info"', '"annotations"', '"images"', '"licenses"')
    return "coco" if sum(mark in text for mark in coco_marks) >= 2 else "json"


def _kind_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(name).name for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return "zip"
    is_backup = "task.json" in names and "annotations.json" in names
    return "cvat" if is_backup or "annotations.xml" in names else "zip"


def _head(path: Path) -> str:
    """Return the beginning of a file, decompressed."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            return file.read(_HEAD).decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""
