"""Predicts all cases of a study into a folder; called again, it resumes where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from raters.errors import RatersError
from raters.evaluation.predictions import PREDICT_JOURNAL
from raters.prediction.batches import predict_streams
from raters.prediction.predict import Predicted, same_confusion, together
from raters.prediction.tables import write_confusion, write_tables
from raters.prediction.writing import CaseWriter, Outputs, refuse_case_names
from raters.progress import track
from raters.study.journal import Journal, source_of
from raters.study.lock import only_one
from raters.study.places import Inputs, refuse_foreign

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study
    from raters.training.model import Model


@dataclass
class PredictResult:
    """What became of a prediction.

    Attributes:
        folder: Where it is.
        written: Cases that were predicted.
        skipped: Cases that were there already.
        failures: What went wrong, one error per case.
        seconds: How long it took from the first case on, reading and writing included.
        pixels: Pixels that were predicted (1 for a class).
        notes: What a user should know beside it.
    """

    folder: Path
    written: int = 0
    skipped: int = 0
    failures: list[RatersError] = field(default_factory=list)
    seconds: float = 0.0
    pixels: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        seconds = max(self.seconds, 1e-9)
        return {
            "folder": str(self.folder),
            "written": self.written,
            "skipped": self.skipped,
            "failed": len(self.failures),
            "failures": [str(error) for error in self.failures],
            "seconds": self.seconds,
            "cases_per_second": self.written / seconds,
            "megapixels_per_second": self.pixels / seconds / 1e6,
        }


def predict_study(
    model: Model,
    study: Study,
    folder: str | Path,
    outputs: Outputs | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> PredictResult:
    """Predict all cases and write them; a second call skips what is finished and unchanged.

    Args:
        model: The model.
        study: The cases; only their images are read.
        folder: Where to write; `raters.prediction.writing` says what is in it. Classes go into
            one table, `predictions.csv`; so do matrices that never vary, `confusion.csv`.
        outputs: What to write beside the labels.
        overwrite: Predict all cases again.
        progress: Show a progress bar.
    """
    folder, outputs = Path(folder), outputs or Outputs()
    _refuse(model, outputs)
    refuse_case_names(study.index.ids, outputs)
    Inputs.of(study).refuse(folder)
    refuse_foreign(folder, PREDICT_JOURNAL, "an earlier prediction")
    with only_one(folder) as notes:
        journal = Journal(folder, _plan(model, outputs), PREDICT_JOURNAL, anew=overwrite)
        try:
            if outputs.confusion and not model.method.varies:
                write_confusion(model, folder)
            result = _predict(model, study, folder, outputs, journal, progress)
        finally:  # also after Ctrl-C: what is finished is there
            write_tables(model, list(study.index.ids), folder, outputs, journal)
            journal.close()
    result.notes += notes
    return result


def _refuse(model: Model, outputs: Outputs) -> None:
    for rater in outputs.raters:
        model.number_of(rater)
    if not 0 <= outputs.overlap < 1:
        raise RatersError(f"found overlap {outputs.overlap:g}, expected at least 0 and below 1")
    model.cut(outputs.cut)  # refuses what is none
    if outputs.confusion:
        same_confusion(model)  # refuses where there are none


def _plan(model: Model, outputs: Outputs) -> dict[str, Any]:
    """Return what the predictions depend on beside the images."""
    digest = blake2b(digest_size=12)
    digest.update(json.dumps(model.config.model_dump(mode="json"), sort_keys=True).encode())
    for name, tensor in sorted(model.method.state_dict().items()):
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(name.encode() + plain.numpy().tobytes())
    plan: dict[str, Any] = {"method": model.config.method, "overlap": outputs.overlap}
    cut = model.cut(outputs.cut)
    if (cut != 0.5).any():  # what was predicted at 0.5 before there were cuts stays valid
        plan["cut"] = cut.tolist()
    return {**plan, "weights": digest.hexdigest()}


def _predict(
    model: Model,
    study: Study,
    folder: Path,
    outputs: Outputs,
    journal: Journal,
    progress: bool,
) -> PredictResult:
    result = PredictResult(folder)
    writer = CaseWriter(model, folder, outputs)
    sources = {str(name): source_of(study, k) for k, name in enumerate(study.index.ids)}
    wanted = _wanted_facts(writer, outputs, model)
    left = [
        k
        for k, name in enumerate(study.index.ids)
        if not (journal.has(name, sources[name]) and _is_there(folder, journal.facts(name), wanted))
    ]
    result.skipped = len(study) - len(left)
    began = time.perf_counter()  # of the first case: what comes before is no speed
    found = predict_streams(model, (study[k] for k in left), outputs.asked(model))
    for case, bands in track(found, len(left), "predicting", progress):
        try:
            if isinstance(bands, RatersError):
                raise bands
            facts, pixels = _write(model, writer, case, bands)
        except RatersError as error:
            result.failures.append(error.at(case=case.id))
            continue
        before = journal.facts(case.id) or {}
        same = journal.has(case.id, sources[case.id])
        facts = _with_earlier(folder, before, facts, same)
        journal.finish(case.id, sources[case.id], facts)
        result.written += 1
        result.pixels += pixels
    result.seconds = time.perf_counter() - began
    return result


def _write(
    model: Model, writer: CaseWriter, case: Case, bands: Iterator[Predicted]
) -> tuple[dict[str, Any], int]:
    """Write a case; give what is kept of it, and its pixels."""
    if model.config.kind == "classification":
        found = together(bands)
        facts: dict[str, Any] = {"p": [round(float(p), 7) for p in found.truth]}
        facts["told"] = {
            rater: [round(float(p), 7) for p in part] for rater, part in found.as_rater.items()
        }
        return {**facts, "files": writer.write(case, iter([found]))}, 1
    counted = _Counted(bands)
    return {"files": writer.write(case, iter(counted))}, counted.pixels


class _Counted:
    """Bands that are counted as they pass."""

    def __init__(self, bands: Iterator[Predicted]) -> None:
        self._bands, self.pixels = bands, 0

    def __iter__(self) -> Iterator[Predicted]:
        for band in self._bands:
            self.pixels += prod(band.truth.shape[1:])
            yield band


def _wanted_facts(writer: CaseWriter, outputs: Outputs, model: Model) -> tuple[set[str], set[str]]:
    told = set(outputs.raters) if model.config.kind == "classification" else set()
    return set(writer.kinds), told


def _is_there(folder: Path, facts: Any, wanted: tuple[set[str], set[str]]) -> bool:  # noqa: ANN401
    """Return whether all that is wanted of a case is there."""
    kinds, told = wanted
    files = (facts or {}).get("files", {})
    if not kinds <= set(files) or not told <= set((facts or {}).get("told", {})):
        return False
    return all((folder / files[kind]).exists() for kind in kinds)


def _with_earlier(
    folder: Path, before: dict[str, Any], facts: dict[str, Any], same: bool
) -> dict[str, Any]:
    """Keep what an earlier call wrote of the same image; remove it if the image has changed."""
    files: dict[str, str] = facts["files"]
    for kind, path in before.get("files", {}).items():
        if kind not in files and same:
            files[kind] = path
        elif path not in files.values() and _is_inside(folder, path):
            (folder / path).unlink(missing_ok=True)
    if same and "told" in facts:
        facts["told"] = {**before.get("told", {}), **facts["told"]}
    return facts


def _is_inside(folder: Path, path: str) -> bool:
    """Return whether a path leads into the folder: the journal may have come from anywhere."""
    return (folder / path).resolve().is_relative_to(folder.resolve())
