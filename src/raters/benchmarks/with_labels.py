"""What papers on weighing raters score beside a prediction: its recurrences, and fused labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raters.benchmarks.overlaps import Overlaps
from raters.methods.registry import METHODS
from raters.rows import Row

if TYPE_CHECKING:
    from raters.fusion.consensus import Consensus
    from raters.study.study import Study
    from raters.training.model import Model

RECURRENCES = 4
"""Recurrences that there are scores of, from 0 (the first) on."""


def recurrence_scores(model: Model, test: Study) -> Row:
    """Return soft Dice with the truth of each recurrence, of methods that have some.

    The first is number 0, as papers count what comes before anything recurs.
    """
    if "recurrences" not in model.method.answers:
        return {}
    found: dict[str, Overlaps] = {}
    for case in test.iter_cases():
        if case.reference is not None:
            for k, truth in enumerate(model.recurrences(case)[0][:RECURRENCES]):
                each = found.setdefault(f"soft_dice_rec{k}", Overlaps(len(truth)))
                each.add(case.id, case.reference, truth)
    return {name: each.scores().get("soft_dice_truth") for name, each in found.items()}


def fusion_scores(model: Model, test: Study) -> Row:
    """Return soft Dice with the truth of the test cases' labels, fused.

    Methods that fuse image and labels do so by the model (`soft_dice_fused`); those that train on
    fused labels fuse these likewise. Methods with recurrences can also fuse what they think that
    raters would say (`soft_dice_unseen`). Drawings that are no masks are left out.
    """
    from raters import fuse

    if test.kind != "segmentation" or test.drawn or not test.backend.holds()["reference"]:
        return {}
    answers, way = model.method.answers, METHODS[model.config.method].fixed.get("fusion")
    found: Row = {}
    if "fusion" in answers:
        found["soft_dice_fused"] = _scored(fuse(test, model=model))
    elif way:
        found["soft_dice_fused"] = _scored(fuse(test, str(way)))
    if "recurrences" in answers:
        found["soft_dice_unseen"] = _scored(fuse(test, model=model, use_labels=False))
    return found


def _scored(consensus: Consensus) -> float | None:
    overlaps = Overlaps(len(consensus.study.classes))
    for case, fusion in consensus.iter_cases():
        if case.reference is not None:
            overlaps.add(case.id, case.reference, fusion.truth)
    return overlaps.scores().get("soft_dice_truth")
