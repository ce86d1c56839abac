"""Draws the small study of the docs: lesions in textured images, and three raters who err."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from raters.simulate.phantoms import phantom_study
from raters.simulate.study import simulate
from raters.study import formats
from raters.study.classes import MISSING
from raters.study.read import read
from raters.study.write import import_study

CASES = 24
RATERS = "careful=good@0.95,generous=over@0.8,hasty=under@0.75"
SHARES = (1.0, 1.0, 0.75)
"""'hasty' leaves out every fourth case."""


def draw_study(folder: Path, seed: int = 0) -> None:
    """Write images, true masks, and masks by three raters, as a user's folders would have them.

    'careful' errs a little, 'generous' draws too much, 'hasty' draws too little and leaves out
    some cases. `study/` holds the same as `raters import` writes it, split into train and test.
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
    drawn = read(
        f"{folder}/masks/{{rater}}/{{case}}.png",
        images=f"{folder}/images/{{case}}.png",
        reference=f"{folder}/truth/{{case}}.png",
    )
    import_study(drawn.split(seed=0, train=0.7, test=0.3), folder / "study")
