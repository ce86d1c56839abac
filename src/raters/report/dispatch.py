"""`raters.report.report`: the report of a study, a fusion result or a trained run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from raters.errors import RatersError
from raters.report.blocks import Report
from raters.report.cases import SHOWN
from raters.report.page import write
from raters.report.source import kind_of, study_of
from raters.study.pattern import is_pattern
from raters.study.places import Inputs
from raters.study.read import read
from raters.study.study import Study


def report(
    source: str | Path | Study,
    out: str | Path = "report",
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    cases_shown: int = SHOWN,
    progress: bool = False,
) -> Path:
    """Write the report of a study, a fusion result or a trained run into a folder.

    Args:
        source: A study, or the path of one, of a fusion (`raters fuse -o`) or of a run
            (`raters train -o`).
        out: The folder: `report.html`, `figures/` and `tables/` are written into it.
        study: The study that a fusion or a run comes from; by default the one it remembers.
        against: Other runs to compare a run with.
        cases_shown: How many cases can be looked at: the most telling ones.
        progress: Show progress bars.

    Returns:
        The path of `report.html`.

    Example:
        >>> import tempfile
        >>> from raters.simulate import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=2, shape=(32, 32)), "good,over,under")
        >>> report(study, tempfile.mkdtemp()).name
        'report.html'
    """
    refuse_place(out, source, study, against)
    made = make_report(source, study, against, cases_shown, progress)
    return write(made, out)


def refuse_place(
    out: str | Path,
    source: str | Path | Study,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
) -> None:
    """Reject a folder where a report would replace what it is of, or be mixed with it.

    A report may lie in the folder of its run, beside what is read of it.
    """
    if isinstance(source, Study):
        inputs = Inputs.of(source)
    else:
        of_run = not is_pattern(os.fspath(source)) and kind_of(source) == "run"
        inputs = Inputs.run(source, *against) if of_run else Inputs.named(source)
    inputs = inputs.and_of(Inputs.of(study))
    inputs.refuse(out, ["report.html"])
    for part in ("figures", "tables"):
        inputs.refuse(Path(out) / part, stems=[part])


def make_report(
    source: str | Path | Study,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    cases_shown: int = SHOWN,
    progress: bool = False,
    why_not: str = "",
) -> Report:
    """Make a report without writing it; `report` says what the arguments mean.

    `why_not` says why there is no study, if that is known.
    """
    if cases_shown < 0:
        raise RatersError(f"found {cases_shown} cases to show, expected 0 or more")
    kind = "study" if isinstance(source, Study) else kind_of(source)
    if against and kind != "run":
        raise RatersError(f"found runs to compare with, expected a run instead of a {kind}")
    if isinstance(source, Study) or kind == "study":
        from raters.report.study import study_report

        given = source if isinstance(source, Study) else (study or read(source))
        return study_report(given, title_of(source), cases_shown, progress)
    if study is None and not why_not:
        study, why_not = study_of(source)
    if kind == "fusion":
        from raters.report.fusion import fusion_report

        return fusion_report(source, study, why_not, cases_shown, progress)
    from raters.report.run import run_report

    return run_report(source, study, against, cases_shown, progress, why_not)


def title_of(source: str | Path | Study) -> str:
    """Return a heading for a path: its name, or the end of a pattern.

    Example:
        >>> title_of("/data/lesions/masks/{rater}/{case}.png")
        'Study: masks/{rater}/{case}.png'
    """
    if isinstance(source, Study):
        return ""
    text = os.fspath(source)
    if is_pattern(text):
        parts = Path(text).parts
        first = next(k for k, part in enumerate(parts) if "{" in part)
        return f"Study: {'/'.join(parts[max(0, first - 1) :])}"
    return f"Study: {Path(text).resolve().name}"
