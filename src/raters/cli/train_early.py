"""What `raters train` refuses at once: all mistakes that need neither the study nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study


def asked(
    method: str | None, config: str, options: dict[str, Any], resume: bool
) -> tuple[str | None, dict[str, Any], list[str]]:
    """Put command line and file together; check all before anything is read.

    A resumed run has a method of its own: then None is passed on.
    """
    from raters.cli.train_config import read_config
    from raters.training.given import checked_options
    from raters.training.options import DEFAULT_METHOD

    notes: list[str] = []
    if config:
        found = read_config(config, method)
        method, notes = method or found.method, found.notes
        try:
            checked_options(method or DEFAULT_METHOD, found.options)
        except RatersError as error:
            raise error.at(file=config) from None
        options = {**found.options, **options}
    if method is None and not resume:
        method = DEFAULT_METHOD
    if method is not None:
        checked_options(method, options)
    return method, options, notes


def refuse_place(
    out: str, resume: bool, method: str | None = None, options: Mapping[str, Any] | None = None
) -> None:
    """Refuse a folder with other files, one with a run, or a run that was asked otherwise."""
    from raters.study.lock import refuse_locked
    from raters.training.checks import refuse_foreign
    from raters.training.going_on import refuse_other_options, refuse_run
    from raters.training.run import first_process

    if not out or not first_process():
        return  # the first process may have written already
    refuse_locked(out)
    refuse_foreign(out)
    if resume:
        refuse_other_options(Path(out), method, options or {})
    else:
        refuse_run(Path(out))


def refuse_extension(run: str, out: str, **given: Any) -> None:  # noqa: ANN401
    """Refuse what cannot go with --extend, a run that is none, and a folder in use."""
    from raters.training.run import refuse_no_model

    for name, value in given.items():
        if value:
            flag = f"--{name.replace('_', '-')}"
            raise RatersError(
                f"found {flag} together with --extend, expected one of them: the model stays what "
                "it is, and only new raters are fitted"
            )
    refuse_no_model(run)
    refuse_used(out)


def refuse_used(out: str) -> None:
    """Refuse a folder that somebody writes to, or that holds anything."""
    from raters.study.lock import is_empty
    from raters.training.checks import refuse_foreign

    refuse_foreign(out)
    if Path(out).is_dir() and not is_empty(Path(out)):
        raise RatersError("found a run, expected a new folder", kind="exists", file=out)


def refuse_no_images(study: Study) -> None:
    """Refuse a study without any image, before torch is loaded."""
    if len(study) and not study.backend.holds()["images"]:
        raise RatersError(
            "found no images, expected some: a network needs them "
            '(--images "images/{case}.png") or features (--images features.npy)',
            kind="missing-image",
        )
