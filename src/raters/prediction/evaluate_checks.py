"""Whether a study can be scored by a run: classes, images, raters; and what to say of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.prediction.evaluate_sums import MOST_PAIRS
from raters.scores.bootstrap import LEAST_GROUPS
from raters.study.study import many
from raters.training.same_study import refuse_other_study

if TYPE_CHECKING:
    from raters.prediction.evaluate_result import RunScores
    from raters.study.study import Study
    from raters.training.config import ModelConfig

_SHOWN = 5


def refuse_unlike(config: ModelConfig, study: Study) -> None:
    """Refuse a study of another kind, with other classes, or without images."""
    if not len(study):
        raise RatersError("found no cases, expected at least one", kind="empty")
    if study[0].raw_image() is None:
        raise RatersError(
            f"found no image of case {study.index.ids[0]!r}, expected images: a run is scored on "
            "them (--images)",
            case=study.index.ids[0],
        )
    refuse_other_study(config, study, "run")


def shared_raters(
    known: Sequence[str], study: Study, wanted: Sequence[str] | None = None
) -> dict[str, int]:
    """Return the raters that run and study share, and where each is in the study."""
    for name in wanted or ():
        if name not in known:
            raise RatersError(
                f"found the rater {name!r}, expected one that the run knows: "
                f"{', '.join(known[:20]) or 'it knows none'}",
                rater=name,
            )
    chosen = set(known if wanted is None else wanted)
    return {name: k for k, name in enumerate(study.raters) if name in chosen}


def notes_of(
    found: RunScores, config: ModelConfig, study: Study, known: dict[str, int]
) -> list[str]:
    """Return what a reader must know about the tables."""
    notes = []
    strange = [name for name in study.raters if name not in config.raters]
    if strange:
        notes.append(
            f"{many(len(strange), 'rater')} that the run does not know "
            f"(left out of 'as rater'): {_listed(strange)}"
        )
    silent = [name for name in study.raters if name in config.unlabelled]
    if silent:
        notes.append(
            f"{many(len(silent), 'rater')} of whom the run was trained on no label "
            f"(left out of 'as rater' and of matrices): {_listed(silent)}"
        )
    if found.raters and len(study) * len(known) ** 2 > MOST_PAIRS:
        pairs = f"{len(study):,} cases x {len(known):,} x {len(known):,} raters"
        notes.append(
            f"'as X' against every other rater is left out: found {pairs}, expected "
            f"{MOST_PAIRS:,} at most; choose some with --raters"
        )
    if found.likelihood and not any(row["form"] == "joint" for row in found.likelihood):
        notes.append(f"{config.method} has no matrices: there is no joint likelihood")
    if found.sums is not None and len(set(found.sums.groups)) < LEAST_GROUPS:
        notes.append(f"fewer than {LEAST_GROUPS} groups: there are no intervals")
    return notes


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
