"""Draws the demo's study: lesions in textured images, and raters who err on purpose."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from raters.simulate.phantoms import phantom_study
from raters.simulate.study import simulate
from raters.study import formats
from raters.study.classes import MISSING

CASES = 24
RATERS = "careful=good@0.95,generous=over@0.8,hasty=under@0.75"
SHARES = (1.0, 1.0, 0.75)
"""'hasty' leaves out every fourth case."""


def draw_study(folder: Path, seed: int = 0) -> None:
    """Write images, true masks, and masks by three raters, as a user's folders would have them.

    'careful' errs a little, 'generous' draws too much, 'hasty' draws too little and leaves out
    some cases.
    """
    truth = phantom_study("lesions", CASES, (128, 128), seed)
    study = simulate(truth, RATERS, assign=SHARES, seed=seed)
    for case in study.iter_cases():
        assert case.image is not None and case.reference is not None  # phantoms have both
        picture = np.rint(case.image * 255).astype(np.uint8)
        formats.write_image(folder / f"images/{case.id}.png", picture)
        formats.write_labels(folder / f"truth/{case.id}.png", case.reference * 255)
        for rater, labels in zip(study.raters, case.labels, strict=True):
            if (labels != MISSING).any():
                formats.write_labels(folder / f"masks/{rater}/{case.id}.png", labels * 255)
