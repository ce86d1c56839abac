"""Fusion by a trained model: the truth that image and labels show together, `p(t | x, labels)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.consensus.consensus import Consensus
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.evaluation.prediction import Floats, most_likely
from raters.fusion.methods import Method, refuse_no_images
from raters.fusion.result import Fusion
from raters.io.rows import Row
from raters.learning.methods.base import Batch
from raters.learning.methods.registry import METHODS
from raters.learning.prediction.predict import AT_ONCE, in_bands, window_of
from raters.learning.prediction.predict_study import digest_of
from raters.learning.training.config import refuse_other_study
from raters.learning.training.dataset import Item, collate
from raters.learning.training.model import Model, load
from raters.metrics.confusion import count_case, normalise
from raters.study.annotations import Annotation, complementary
from raters.study.case import Case
from raters.study.study import Study
from raters.study.survey import survey

_MOST = 256  # tasks at once, where each is a few features only


def fuse_as_asked(
    study: Study,
    method: str | None,
    model: Model | str | Path,
    pool: bool = False,
    **options: Any,  # noqa: ANN401
) -> ModelConsensus:
    """Fuse with a model as `raters.fuse` is asked to: of all options there is `use_labels` only."""
    use_labels = options.pop("use_labels", True)
    for name in (*(["pool"] if pool else []), *options):
        raise RatersError(f"found {name} with a model, expected none: the model is trained")
    if not isinstance(use_labels, bool):
        raise RatersError(f"found use_labels={use_labels!r}, expected true or false")
    return fuse_with(study, method, model, use_labels)


def fuse_with(
    study: Study, method: str | None, model: Model | str | Path, use_labels: bool = True
) -> ModelConsensus:
    """Fuse the labels of a study with what a model says of the images.

    Args:
        study: The study; raters are matched with those of the model by name.
        method: The method that the model was trained with, to be checked; None takes any.
        model: The model, or its folder.
        use_labels: Whether to look at the labels; else what the model thinks that raters would
            say is fused, of methods that can.

    Raises:
        RatersError: A model of another method, or of one that does not fuse; no images; raters
            that the model does not know; another kind of study, or other classes.
    """
    if not isinstance(model, Model):
        model = load(model)
    _refuse(study, method, model)
    if not use_labels and "recurrences" not in model.method.answers:
        raise RatersError(
            f"found use_labels=false with a model of {model.config.method}, expected one of prism: "
            "others fuse labels only"
        )
    return ModelConsensus(study, model, use_labels)


def _refuse(study: Study, method: str | None, model: Model) -> None:
    found = model.config.method
    if method not in (None, found):
        raise RatersError(f"found a model of {found}, expected one of {method}, as -m says")
    if "fusion" not in model.method.answers:
        can = ", ".join(name for name, entry in METHODS.items() if "fusion" in entry.answers)
        raise RatersError(
            f"found a model of {found}, which does not fuse labels, expected one of: {can}",
            kind="unanswered",
        )
    refuse_other_study(model.config, study)
    _refuse_other_drawings(study, model)
    refuse_no_images(study, ": a model fuses what labels and images say")


def _refuse_other_drawings(study: Study, model: Model) -> None:
    """Refuse raters who exclude classes where the model takes them to say one, or the reverse."""
    config = model.config
    if study.drawn:
        entry = METHODS[config.method]
        entry.refuse_drawings(config.method, study.annotations, study.classes.names)
    drawn: Sequence[Annotation] = config.annotations or ["mask"] * len(config.raters)
    kinds = dict(zip(config.raters, drawn, strict=True))
    known = complementary(kinds, len(config.classes))
    for rater in study.raters:
        if rater not in kinds or (rater in known) == (rater in study.negatives):
            continue
        says = "labels that say what a pixel is"
        excludes = "negative drawings"
        if rater in known:
            found = says
            expected = excludes
        else:
            found = excludes
            expected = says
        raise RatersError(
            f"found {found} by {rater!r}, expected {expected} as in the model (--annotation says "
            "what the labels of a rater mean)",
            kind="annotation",
            rater=rater,
        )


class ModelConsensus(Consensus):
    """The labels of a study, fused with what a model says of the images.

    How far raters can be trusted is counted against the result, as the last step of EM counts it;
    the matrices that the model itself has are those of `raters predict --confusion`.

    Attributes:
        model: The model.
        use_labels: Whether labels are looked at.
    """

    def __init__(self, study: Study, model: Model, use_labels: bool = True) -> None:
        self.use_labels = use_labels
        self._agreed: dict[str, float] = {}  # of labels fused with and without a look at them
        self.study = study
        self.model = model
        self.pooled = False
        self._progress = False
        self._name = model.config.method
        self._options = {}
        self._method = Method(METHODS[self._name].about)
        self.description = {
            "method": self._name,
            "pool": False,
            "options": {} if use_labels else {"use_labels": False},
            "model": digest_of(model),
        }
        self._places = _places(study, model)
        self._one = Lock()  # cases are read side by side; the network has all cores for itself

    def fuse_case(self, case: Case) -> Fusion:
        """Fuse the labels of one case of masks; a table is fused as a whole (`table`)."""
        if case.kind == "classification":
            raise RatersError("found a table, expected masks; take consensus.table instead")
        truths = self.truths(case)
        truth = truths[self.use_labels]
        if len(truths) > 1:
            same = truth.argmax(0) == truths[not self.use_labels].argmax(0)
            self._agreed[case.id] = float(same.mean())
        return self._counted(truth, most_likely(truth), count_case(case, truth, len(truth)))

    def truths(self, case: Case) -> dict[bool, Floats]:
        """Return the fusion of masks by whether labels are looked at; both of methods with both."""
        image = self.model.pixels(case)
        labels = torch.from_numpy(self._labels(case))
        both = "recurrences" in self.model.method.answers
        with self._one:
            ways = (True, False) if both else (self.use_labels,)
            return {use_labels: self._fused(image, labels, use_labels) for use_labels in ways}

    @cached_property
    def table(self) -> Fusion:
        """The fusion of a table; tasks without an image are undecided."""
        if self.study.kind != "classification":
            raise RatersError("found masks, expected a table; take consensus[case] instead")
        classes = len(self.study.classes)
        truth = np.full((len(self.study), classes), 1 / classes, np.float32)
        labels = np.full(len(self.study), MISSING, np.int16)
        for positions, batch in self._batches():
            with torch.inference_mode():
                truth[positions] = self.model.method.fused(batch).float().cpu().numpy()
            labels[positions] = truth[positions].argmax(1)
        triplets = self.study.triplets
        counts = np.zeros((len(self.study.raters), classes, classes))
        seen = (triplets.label != MISSING) & (labels[triplets.task] != MISSING)
        said = triplets.rater[seen], triplets.label[seen]
        np.add.at(counts.transpose(0, 2, 1), said, truth[triplets.task[seen]])
        return self._counted(truth, labels, counts)

    def _counted(self, truth: Floats, labels: NDArray[Any], counts: NDArray[np.float64]) -> Fusion:
        total = counts.sum(axis=(0, 2))
        said = np.array([rater not in self.study.negatives for rater in self.study.raters])
        # What a rater excludes says nothing of what they would call it: left open.
        confusion = normalise(counts * said[:, np.newaxis, np.newaxis], "uniform")
        prior = total / total.sum() if total.any() else np.full(len(total), 1 / len(total))
        return Fusion(truth, labels, confusion, prior, voxels=int((labels != MISSING).sum()))

    def _labels(self, case: Case) -> NDArray[np.int64]:
        """Return the labels of a case on the model's axis of raters."""
        raters = len(self.model.config.raters)
        found = case.labels
        if self.model.method.shares_matrix:
            return found.astype(np.int64)
        labels = np.full((raters, *found.shape[1:]), MISSING, np.int64)
        known = self._places >= 0
        labels[self._places[known]] = found[known]
        return labels

    @torch.inference_mode()
    def _fused(self, image: Tensor, labels: Tensor, use_labels: bool) -> Floats:
        """Fuse an image `(channels, *space)`; large ones in the windows that `predict` takes."""
        model = self.model
        channels = len(image)
        both = torch.cat([image, labels.to(image.dtype)])  # class numbers are exact in floats

        def function(batch: Tensor) -> Tensor:
            if not use_labels:
                return model.method.fused_unseen(batch[:, :channels])
            seen = {"image": batch[:, :channels], "labels": batch[:, channels:].long()}
            cases = torch.zeros(len(batch), dtype=torch.long, device=batch.device)
            return model.method.fused({**seen, "case": cases})

        space = tuple(image.shape[1:])
        window = window_of(model, space) or space
        truth = np.empty((len(model.config.classes), *space), np.float32)
        for start, rows in in_bands(both, function, window, device=model.device):
            truth[:, start : start + rows.shape[1]] = rows.float().numpy()
        return truth

    def _batches(self) -> Iterator[tuple[list[int], Batch]]:
        """Return tasks that have an image, in batches of one shape."""
        positions: list[int] = []
        items: list[Item] = []
        for position, case in enumerate(self.study.iter_cases()):
            if case.image is None:
                continue
            image = self.model.pixels(case).numpy()
            raters = self._places[case.answers.rater]
            item = Item(image=image, labels=case.answers.label, raters=raters, case=0)
            room = max(1, min(_MOST, AT_ONCE // max(image[0].size, 1)))
            if items and (len(items) >= room or items[0]["image"].shape != image.shape):
                yield positions, self._batch(items)
                positions = []
                items = []
            positions.append(position)
            items.append(item)
        if items:
            yield positions, self._batch(items)

    def _batch(self, items: list[Item]) -> Batch:
        return {name: part.to(self.model.device) for name, part in collate(items).items()}

    @cached_property
    def notes(self) -> list[str]:
        """What has to be said about the result; of masks, every case is fused for it."""
        if self.study.kind == "segmentation":
            return super().notes
        left = int((self.table.labels == MISSING).sum())
        has = "has" if left == 1 else "have"
        return [f"{many(left, 'task')} {has} no image: undecided"] if left else []

    def notes_from(self, remarks: Iterable[Row]) -> list[str]:
        """Return the notes on masks; that two raters are too few is none where images help."""
        kept = ({k: v for k, v in row.items() if k != "two"} for row in remarks)
        notes = super().notes_from(kept)
        if self._agreed:  # of methods that fuse with and without a look at labels
            share = float(np.mean(list(self._agreed.values())))
            written = "y_fuse" if self.use_labels else "y_self"
            cases = many(len(self._agreed), "case")
            notes = [
                *notes,
                f"labels fused (y_fuse) and what the model thinks that raters would say, fused "
                f"(y_self), agree on {share:.1%} of the pixels of {cases}; {written} was written",
            ]
        return notes


def _places(study: Study, model: Model) -> NDArray[np.int64]:
    """Return where the model has each rater of a study; -1 for one who labelled nothing in it.

    Where all raters share one matrix it does not matter who they are.

    Raises:
        RatersError: For a rater that the model does not know, or of whom it saw no label.
    """
    if model.method.shares_matrix:
        return np.zeros(len(study.raters), np.int64)
    known = set(model.config.labelled)
    silent = set() if known.issuperset(study.raters) else set(survey(study).without_labels())
    found = [-1 if rater in silent - known else model.number_of(rater) for rater in study.raters]
    return np.array(found, np.int64)
