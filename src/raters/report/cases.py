"""The viewer of some cases of a study: outlines of all raters, and of what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from raters.progress import track
from raters.report.blocks import ViewerBlock
from raters.report.case_view import viewer_case
from raters.report.viewer import (
    REFERENCE,
    ViewerCase,
    disagreement_map,
    extra_layers,
    free_name,
    rater_layers,
)
from raters.study.parallel import ordered_map

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

SHOWN = 24
"""How many cases a report shows by default."""
_BUDGET = 6_000_000


def cases_block(
    study: Study,
    cases: Sequence[str],
    facts: Mapping[str, Mapping[str, object]],
    caption: str,
    found: Callable[[Case], Mapping[str, ArrayLike]] | None = None,
    extra: Sequence[str] = (),
    progress: bool = False,
    name: str = "cases",
) -> ViewerBlock:
    """Make a viewer of some cases.

    Args:
        study: The study of masks.
        cases: Names of cases, the most telling ones first.
        facts: What is said beside each case.
        caption: What to look for.
        found: Gives further outlines of a case, such as `{"consensus": labels}`.
        extra: The names of those outlines.
        progress: Show a progress bar.
        name: The name of the block.
    """
    budget = min(300_000, _BUDGET // max(1, len(cases)))

    def view(case: str) -> ViewerCase:
        one = study[case]
        layers = {} if found is None else found(one)
        return viewer_case(
            one,
            study.raters,
            study.classes.names,
            layers=layers,
            facts=facts.get(case, {}),
            budget=budget,
        )

    made = list(track(ordered_map(view, cases), len(cases), "drawing cases", progress))
    reference = free_name(REFERENCE, study.raters)
    with_reference = any(reference in case.slices[0].outlines for case in made)
    names = [*extra, *([reference] if with_reference else [])]
    layers = [*rater_layers(study.raters), *extra_layers(names)]
    return ViewerBlock(name, made, caption, layers, [disagreement_map()])
