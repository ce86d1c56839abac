"""Guesses the pattern that a user may mean by the name of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from raters.study import formats

_BESIDE = {
    "--images": ("images", "image", "imgs", "img"),
    "--reference": ("reference", "references", "truth", "ground_truth", "gt"),
}
_MASKS = ("masks", "labels", "annotations", "segmentations")


def suggest_pattern(folder: Path) -> str | None:
    """Return the pattern and the options that a folder with folders of files may mean; else None.

    `'folder/{rater}/{case}.png'`, or `'folder/masks/{rater}/{case}.png'` where the raters have
    folders below one of its folders; images and references beside them become options.
    """
    beside = [name for names in _BESIDE.values() for name in names]
    folders = [f for f in _folders(folder) if f.name.lower() not in beside]
    # 'masks' surely holds the raters; other folders may be anything, such as a consensus.
    surely = [f for f in folders if f.name.lower() in _MASKS]
    for place in (*surely, folder, *folders):
        for below in folders if place == folder else _folders(place):
            suffix = _suffix(below)
            if suffix:
                return f"{str(place / '{rater}' / '{case}') + suffix!r}{_options(folder)}"
    return None


def _options(folder: Path) -> str:
    """Name the folders of images and references, as on the command line."""
    options = ""
    for option, names in _BESIDE.items():
        found = [f for f in _folders(folder) if f.name.lower() in names and _suffix(f)]
        if found:
            options += f' {option} "{found[0] / "{case}"}{_suffix(found[0])}"'
    return options


def _folders(folder: Path) -> list[Path]:
    names = sorted(n for n in os.listdir(folder) if not n.startswith("."))
    return [folder / name for name in names if (folder / name).is_dir()]


def _suffix(folder: Path) -> str:
    """Return the ending of the first file in a folder that can be read; '' for none."""
    names = sorted(n for n in os.listdir(folder) if not n.startswith("."))
    files = (folder / n for n in names if not (folder / n).is_dir())
    return next((formats.suffix_of(f) for f in files if formats.is_supported(f)), "")
