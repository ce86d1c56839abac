"""Guesses the pattern that a user may mean by the name of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from raters.study import formats


def suggest_pattern(folder: Path) -> str | None:
    """Give `folder/{rater}/{case}.nii.gz` where the folder has folders with files; else None."""
    for name in sorted(os.listdir(folder)):
        below = folder / name
        if name.startswith(".") or not below.is_dir():
            continue
        for file in sorted(os.listdir(below)):
            if not file.startswith(".") and formats.is_supported(below / file):
                return str(folder / "{rater}" / ("{case}" + formats.suffix_of(below / file)))
    return None
