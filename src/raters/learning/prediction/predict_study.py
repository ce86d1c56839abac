"""Predicts all cases of a study into a folder; called again, it resumes where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import torch

from raters.core.errors import RatersError
from raters.core.progress import track
from raters.evaluation.prediction import Prediction, together
from raters.io.claim import Owner, check_folder
from raters.io.paths import PREDICT_JOURNAL, map_folder, read_text
from raters.io.results import Journal, only_one
from raters.learning.prediction.predict import predict_streams
from raters.learning.prediction.writing import (
    TABLE,
    CaseWriter,
    Outputs,
    write_confusion,
    write_tables,
    write_transition,
)
from raters.learning.training.model import Model
from raters.study.case import Case
from raters.study.fingerprint import source_of
from raters.study.places import Inputs
from raters.study.study import Study
from raters.study.write import ImportResult

_OWNER = Owner("predict", "one of an earlier prediction", journals=(PREDICT_JOURNAL,))


@dataclass
class PredictResult(ImportResult):
    """What became of a prediction: cases predicted, cases found finished, what failed; and notes.

    Attributes:
        seconds: How long it took from the first case on, reading and writing included.
        pixels: Pixels that were predicted (1 for a class).
    """

    seconds: float = 0.0
    pixels: int = 0

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
    *,
    overwrite: bool = False,
    progress: bool = False,
) -> PredictResult:
    """Predict all cases and write them; a second call skips what is finished and unchanged.

    Args:
        model: The model.
        study: The cases; only their images are read.
        folder: Where to write; `raters.learning.prediction.writing` says what is in it. Classes go
            into one table, `predictions.csv`; so do matrices that never vary, `confusion.csv`.
        outputs: What to write beside the labels.
        overwrite: Predict all cases again.
        progress: Show a progress bar.
    """
    folder = Path(folder)
    outputs = outputs or Outputs()
    _refuse(model, outputs)
    writer = CaseWriter(model, folder, outputs)
    writer.refuse_cases(study.index.ids)
    Inputs.of(study).refuse(folder)
    check_folder(folder, _OWNER)
    with only_one(folder) as notes:
        if overwrite:
            _remove_earlier(folder)
        journal = Journal(folder, _plan(model, outputs), PREDICT_JOURNAL, anew=overwrite)
        try:
            if outputs.confusion and not model.method.varies:
                write_confusion(model, folder)
            if outputs.confusion:
                write_transition(model, folder)
            result = _predict(study, writer, journal, progress)
        finally:  # also after Ctrl-C: what is finished is there
            write_tables(model, list(study.index.ids), folder, outputs, journal)
            journal.close()
    result.notes += notes
    if outputs.raters and model.method.untied:
        why = model.method.untied
        result.notes.append(f"what is written as a rater may be nobody's: {why}")
    return result


def _refuse(model: Model, outputs: Outputs) -> None:
    model.refuse_unanswered(replace(outputs.asked(model), confusion=outputs.confusion))
    if not 0 <= outputs.overlap < 1:
        raise RatersError(f"found overlap {outputs.overlap:g}, expected at least 0 and below 1")
    if outputs.samples < 0:
        raise RatersError(f"found {outputs.samples} samples, expected at least 0")
    model.cut(outputs.cut)  # refuses what is none


def _plan(model: Model, outputs: Outputs) -> dict[str, Any]:
    """Return what the predictions depend on beside the images."""
    plan: dict[str, Any] = {"method": model.config.method, "overlap": outputs.overlap}
    cut = model.cut(outputs.cut)
    if (cut != 0.5).any():  # what was predicted at 0.5 before there were cuts stays valid
        plan["cut"] = cut.tolist()
    if outputs.weights is not None:
        plan["rater_weights"] = model.weighting(outputs.weights)
    return {**plan, "weights": digest_of(model)}


def digest_of(model: Model) -> str:
    """Return a fingerprint of a model: its configuration and all weights."""
    digest = blake2b(digest_size=12)
    digest.update(json.dumps(model.config.model_dump(mode="json"), sort_keys=True).encode())
    for name, tensor in sorted(model.method.state_dict().items()):
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(name.encode() + plain.numpy().tobytes())
    return digest.hexdigest()


def _predict(study: Study, writer: CaseWriter, journal: Journal, progress: bool) -> PredictResult:
    model = writer.model
    outputs = writer.outputs
    result = PredictResult(writer.folder)
    sources = {str(name): source_of(study, k) for k, name in enumerate(study.index.ids)}
    left = [
        k
        for k, name in enumerate(study.index.ids)
        if not (journal.has(name, sources[name]) and _is_there(writer, journal.facts(name) or {}))
    ]
    result.skipped = len(study) - len(left)
    began = time.perf_counter()  # of the first case: what comes before is no speed
    cases = (study[k] for k in left)
    found = predict_streams(model, cases, outputs.asked(model), outputs.overlap)
    for case, bands in track(found, len(left), "predicting", progress):
        try:
            if isinstance(bands, RatersError):
                raise bands
            facts = _write(writer, case, bands)
        except RatersError as error:
            result.failures.append(error.at(case=case.id))
            continue
        before = journal.facts(case.id) or {}
        same = journal.has(case.id, sources[case.id])
        facts = _with_earlier(writer.folder, before, facts, same)
        journal.finish(case.id, sources[case.id], facts)
        result.written += 1
        result.pixels += prod(case.geometry.shape)  # 1 for a class
    result.seconds = time.perf_counter() - began
    return result


def _write(writer: CaseWriter, case: Case, bands: Iterator[Prediction]) -> dict[str, Any]:
    """Write a case; return what is kept of it."""
    outputs = writer.outputs
    facts: dict[str, Any] = {"seed": outputs.seed} if outputs.samples else {}
    if writer.masks:
        return {**facts, "files": writer.write(case, bands)}
    found = together(bands)
    kept = {name: [round(float(p), 7) for p in found.maps[name]] for name in outputs.beside}
    facts |= {"p": [round(float(p), 7) for p in found.truth], "maps": kept}
    return {**facts, "files": writer.write(case, [found])}


def _is_there(writer: CaseWriter, facts: dict[str, Any]) -> bool:
    """Return whether all that is wanted of a case is there.

    Raises:
        RatersError: Its samples are of another seed.
    """
    outputs = writer.outputs
    folder = writer.folder
    seed = facts.get("seed", outputs.seed)
    if outputs.samples and seed != outputs.seed:
        raise RatersError(
            f"holds samples of seed {seed}, expected {outputs.seed}: choose another folder, or "
            "--overwrite to write it anew",
            kind="folder-taken",
            file=folder,
        )
    maps = [] if writer.masks else outputs.beside
    files = facts.get("files", {})
    if not set(maps) <= set(facts.get("maps", {})):
        return False
    return all(kind in files and (folder / files[kind]).exists() for kind in writer.kinds)


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
    if same:
        facts = {**before, **facts}
        if "maps" in facts:
            facts["maps"] = {**before.get("maps", {}), **facts["maps"]}
    return facts


def _remove_earlier(folder: Path) -> None:
    """Remove what an earlier call wrote: fewer samples now must leave none of others behind."""
    path = folder / PREDICT_JOURNAL
    for line in read_text(path).split("\n")[1:] if path.exists() else []:
        try:
            facts = json.loads(line)["facts"]
            tables = [f"{map_folder(name)}/{TABLE}" for name in facts.get("maps", {})]
            earlier = [str(name) for name in (*facts["files"].values(), *tables)]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # cut where it was stopped, or not ours
        for file in (folder / name for name in earlier if _is_inside(folder, name)):
            file.unlink(missing_ok=True)
            with suppress(OSError, ValueError):  # it holds more
                for place in file.relative_to(folder).parents[:-1]:
                    (folder / place).rmdir()


def _is_inside(folder: Path, path: str) -> bool:
    """Return whether a path leads into the folder: the journal may have come from anywhere."""
    return (folder / path).resolve().is_relative_to(folder.resolve())
