"""`raters.report`: the report of a study, a fusion result or a trained run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from raters.core.errors import RatersError
from raters.io.claim import check_folder
from raters.io.paths import PREDICT_JOURNAL, refuse_file
from raters.io.results import only_one
from raters.study.foreign import library_class
from raters.study.order import Given
from raters.study.pattern import is_pattern, there
from raters.study.places import SOURCE_FILE, Inputs, remembered_options, remembered_study
from raters.study.plain_folder import guess_source, is_plain
from raters.study.read import read
from raters.study.study import Study
from raters.study.study_file import STUDY_FILE
from raters.views.report.blocks import Report
from raters.views.report.case_view import SHOWN
from raters.views.report.page import OWNER, write
from raters.views.report.sheet import Sheets, with_sheets, write_sheets

if TYPE_CHECKING:
    import pandas as pd

    from raters.learning.networks.options import Own

Kind = Literal["study", "fusion", "run"]


def kind_of(path: str | Path) -> Kind:
    """Return what a path is.

    Raises:
        RatersError: A folder that is none of the three.

    Example:
        >>> kind_of("masks/{rater}/{case}.png")
        'study'
    """
    folder = Path(path)

    def has(*names: str) -> bool:
        return any((folder / name).exists() for name in names)

    if not folder.is_dir():
        return "study"  # a pattern, a manifest or a table: reading it says what is wrong
    fused = has("raters.json", ".fuse.jsonl")
    if has("config.yaml") and (has("weights.safetensors", "history.csv") or not fused):
        return "run"
    if fused:
        return "fusion"
    if has(STUDY_FILE):
        return "study"
    expected = (
        "expected a study (a folder of 'raters import', a pattern, a table), a fusion "
        "(raters fuse -o) or a run (raters train -o)"
    )
    if has(PREDICT_JOURNAL):
        raise RatersError(f"found predictions, {expected}", kind="not-a-report", file=folder)
    if guess_source({"source": folder}) is not None:
        return "study"
    found = f"found none of study, fusion and run in it, {expected}; {there(folder)}"
    raise RatersError(found, kind="not-a-report", file=folder)


def study_of(folder: str | Path, changed: dict[str, Any] | None = None) -> tuple[Study | None, str]:
    """Open the study that a run or a fusion comes from; None and why, where there is none.

    That is no error: the report shows what the folder holds. `changed` are arguments of
    `raters.read` that take the place of the remembered ones.

    Raises:
        RatersError: `source.yaml` holds what it must not.
    """
    missing = f"found no study of {folder}, expected --study STUDY to show what raters drew"
    if remembered_options(folder) is None:
        return None, f"{missing}: there is no {SOURCE_FILE} in it"
    try:
        return remembered_study(folder, **(changed or {})), ""
    except (RatersError, OSError) as error:
        return None, f"{missing}: {error}"


def report(
    source: str | Path | Study | pd.DataFrame,
    out: str | Path = "report",
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    cases_shown: int = SHOWN,
    *,
    progress: bool = False,
    network: Own | None = None,
    all_cases: bool = False,
    sheets: bool = False,
    order: Given | None = None,
    gold: bool = False,
) -> Path:
    """Write the report of a study, a fusion result or a trained run into a folder.

    Args:
        source: A study or a frame of one, or the path of one, of a fusion (`raters fuse -o`) or
            of a run (`raters train -o`).
        out: The folder: `report.html`, `figures/` and `tables/` are written into it.
        study: The study that a fusion or a run comes from; by default the one it remembers.
        against: Other runs to compare a run with.
        cases_shown: How many cases can be looked at: the most telling ones.
        progress: Show progress bars.
        network: The user's own network, where runs were trained with one, as for `raters.load`.
        all_cases: Write all other cases beside it, as `cases/*.html`, which it links to.
        sheets: Write a sheet per rater beside it, as `sheets/*.html`, which it links to.
        order: When cases were read, for the drift of raters, as for
            `raters.views.report.write_sheets`.
        gold: Score raters on cases with references, in their sheets.

    Returns:
        The path of `report.html`.

    Example:
        >>> import tempfile
        >>> from raters.simulation import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=2, shape=(32, 32)), "good,over,under")
        >>> report(study, tempfile.mkdtemp()).name
        'report.html'
    """
    from raters.learning.networks.options import allowing

    if isinstance(source, library_class("pandas", "DataFrame")):
        source = read(source)
    if not isinstance(source, str | os.PathLike | Study):
        raise RatersError(
            f"found {type(source).__name__}, expected a study, a pandas frame, or the path of a "
            "study, of a run or of a fusion (consensus.write(folder) writes one)"
        )
    refuse_place(out, source, study, against, all_cases, sheets)
    refuse_without_sheets(sheets, order, gold)
    with allowing(network), only_one(out):
        if isinstance(source, Study):
            study = source if study is None else study
        elif sheets and study is None:
            study = read(source) if kind_of(source) == "study" else study_of(source)[0]
        files = sheets_of(study, out, order, gold, progress) if sheets else None
        made = make_report(source, study, against, cases_shown, progress)
        return write(with_sheets(made, files), out, all_cases, progress)


def refuse_without_sheets(sheets: bool, order: Given | None, gold: bool) -> None:
    """Reject what only sheets show, where none are asked for."""
    given = [name for name, value in (("--order", order), ("--gold", gold)) if value]
    if given and not sheets:
        raise RatersError(
            f"found {' and '.join(given)} without --sheets, expected it: sheets of "
            "raters show drift and gold cases"
        )


def sheets_of(
    study: Study | None, out: str | Path, order: Given | None, gold: bool, progress: bool
) -> Sheets:
    """Write the sheets of a report's raters.

    Raises:
        RatersError: There is no study, or it has no such order or no references.
    """
    if study is None:
        raise RatersError("found no study, expected one to make sheets of its raters (--study)")
    title = study.about.get("title") or title_of(study)
    return write_sheets(study, out, order, gold, title, progress, linked=True)


def refuse_place(
    out: str | Path,
    source: str | Path | Study,
    study: Study | None = None,
    against: Sequence[str | Path] = (),
    all_cases: bool = False,
    sheets: bool = False,
) -> None:
    """Reject a folder where a report would replace what it is of, or be mixed with it.

    A report may lie in the folder of its run, beside what is read of it.
    """
    refuse_file(Path(out))
    if isinstance(source, Study):
        inputs = Inputs.of(source)
    else:
        inputs = _inputs_of_path(source, against, study)
    inputs = inputs.and_of(Inputs.of(study))
    inputs.refuse(out, ["report.html"])
    parts = ["figures", "tables"]
    if all_cases:
        parts.append("cases")
    if sheets:
        parts.append("sheets")
    for part in parts:
        inputs.refuse(Path(out) / part, stems=[part])
    check_folder(out, OWNER, ["report.html"])


def _inputs_of_path(
    source: str | Path, against: Sequence[str | Path], study: Study | None
) -> Inputs:
    """Return what is read of a path: of a plain folder only the files that its layout takes."""
    if is_pattern(os.fspath(source)):
        return Inputs.named(source)
    kind = kind_of(source)
    if kind == "run":
        return Inputs.run(source, *against)
    if kind == "study" and is_plain(Path(source)):
        return Inputs.of(study if study is not None else read(source))
    return Inputs.named(source)


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
        from raters.views.report.study import study_report

        if isinstance(source, Study):
            study = source
        elif not study:
            study = read(source)
        return study_report(study, title_of(source), cases_shown, progress)
    if study is None and not why_not:
        study, why_not = study_of(source)
    name = "" if study is None else title_of(study)
    if kind == "fusion":
        from raters.views.report.fusion import fusion_report

        return fusion_report(source, study, why_not, cases_shown, progress, name)
    from raters.views.report.run import run_report

    return run_report(source, study, against, cases_shown, progress, why_not, name)


_PLAIN = ("masks", "labels", "annotations", "segmentations", "answers", "data", "study", "images")


def title_of(source: str | Path | Study) -> str:
    """Return a study's name: that of its folder or file, without what every study has.

    Example:
        >>> title_of("/data/lesions/masks/{rater}/{case}.png"), title_of("/data/crowd/answers.csv")
        ('lesions', 'crowd')
    """
    if isinstance(source, Study):
        return title_of(source.sources[0]) if source.sources else ""
    text = os.fspath(source)
    path = Path(text.split("{")[0])
    if is_pattern(text) and not text.split("{")[0].endswith(("/", os.sep)):
        path = path.parent  # the beginning of a name, such as 'mask-{rater}'
    path = path.resolve()
    names = [path.name if path.is_dir() or is_pattern(text) else path.stem]
    names += [parent.name for parent in path.parents]
    return next((name for name in names if name and name.lower() not in _PLAIN), "Study")
