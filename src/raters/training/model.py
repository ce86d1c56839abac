"""A trained model: truth, matrices and 'as rater X' of an image; saved and loaded as a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.errors import RatersError
from raters.rows import Row
from raters.scores.cut import cut_labels
from raters.study.case import Case
from raters.study.foreign import image_of as given_image
from raters.training.config import ModelConfig, read_config, write_config
from raters.training.cuts import CutGiven, Cuts, chosen_cut, read_cuts, write_cuts
from raters.training.normalise import image_of, in_case
from raters.training.run import (
    CONFIG,
    WEIGHTS,
    read_history,
    refuse_no_model,
    write_progress,
)
from raters.training.weights import build_with_weights, write_weights

if TYPE_CHECKING:
    from raters.methods.base import Method
    from raters.prediction.predict import Predicted
    from raters.study.study import Study

Probabilities = NDArray[np.float32]


class Model:
    """What was learnt from a study.

    Attributes:
        method: The trained method (a torch module).
        config: What the model is, as plain data.
        history: One row per epoch of the training.
        best_epoch: The epoch whose weights were kept, from 1; 0 if unknown.
        cuts: Cuts that were chosen on held-out cases; None for classes, or if unknown.
    """

    def __init__(
        self,
        method: Method,
        config: ModelConfig,
        history: list[Row] | None = None,
        best_epoch: int = 0,
        cuts: Cuts | None = None,
    ) -> None:
        self.method, self.config = method, config
        self.history, self.best_epoch, self.cuts = history or [], best_epoch, cuts
        self._normalise = config.normaliser()

    def __repr__(self) -> str:
        raters = len(self.config.raters)
        return f"Model({self.config.method}, {raters} raters, {len(self.config.classes)} classes)"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.method.parameters()).device

    def truth(self, image: NDArray[Any] | Case) -> Probabilities:
        """Return `p(t | x)`, `(classes, *space)`.

        Images that are larger than the patches trained on are seen in overlapping windows.
        (Instance norm then takes its averages over a window, as it did in training.)

        Args:
            image: `(channels, *space)` (or `(*space)` if there is one channel), features
                `(channels,)`, or a case of a study.
        """
        return self._predicted(image).truth

    def labels(self, image: NDArray[Any] | Case, cut: CutGiven = 0.5) -> NDArray[np.int16]:
        """Return the class, `(*space)`: the most likely one, or masks at another cut.

        Args:
            image: As for `truth`.
            cut: As for `cut`.
        """
        cuts = self.cut(cut)
        found = self._predicted(image)
        return cut_labels(found.truth, cuts) if self.config.label_spatial_dims else found.labels

    def cut(self, given: CutGiven) -> NDArray[np.float64]:
        """Return the cut of each foreground class, `(classes - 1,)`, for `scores.cut_labels`.

        Args:
            given: A number; 'area' (where the predicted area of held-out cases is the raters' mean
                area) or 'area-drawn' (the same without blank masks); 'best' (the best Dice of
                held-out cases that have a reference); by class, as in '2=0.3,3=area'; or a number
                for each foreground class.

        Raises:
            RatersError: For what is no cut, or is not known of this model.
        """
        config = self.config
        return chosen_cut(given, config.classes_of_study(), config.kind, self.cuts)

    def as_rater(self, image: NDArray[Any] | Case, rater: str) -> Probabilities:
        """Return what a rater would say of the image, `p(o | x, rater)`, `(classes, *space)`."""
        return self._predicted(image, raters=[rater]).as_rater[rater]

    def confusion(self, image: NDArray[Any] | Case) -> Probabilities:
        """Return the raters' matrices for an image, `C[t, o]`: `(raters, L, L, *space)`.

        An axis of space has length 1 if the matrices are the same everywhere. Raters of whom no
        label was trained on (`config.unlabelled`) have NaN: nothing is known of them.
        """
        found = self._predicted(image, confusion=True).confusion
        assert found is not None  # it was asked for
        return found

    def predict(self, study: Study) -> Iterator[tuple[Case, Probabilities]]:
        """Return the truth of all cases of a study, one by one; small images go in batches.

        Example:
            for case, truth in model.predict(study):
                print(case.id, truth.argmax(0))
        """
        from raters.prediction.batches import predict_cases
        from raters.prediction.predict import Asked

        for case, found in predict_cases(self, study.iter_cases(), Asked()):
            if isinstance(found, RatersError):
                raise found
            yield case, found.truth

    def _predicted(self, image: NDArray[Any] | Case, **asked: Any) -> Predicted:  # noqa: ANN401
        # The package `prediction` builds on this one; a model is only its handle.
        from raters.prediction.predict import predict_case

        return predict_case(self, image, **asked)

    def number_of(self, rater: str) -> int:
        """Return the position of a rater.

        Raises:
            RatersError: that lists those the model knows; also for a rater of whom no label was
                trained on.
        """
        names = self.config.labelled
        if rater in names:
            return self.config.raters.index(rater)
        known = ", ".join(names[:20]) or "none: this model knows no raters"
        more = ", ..." if len(names) > 20 else ""
        silent = " without a label in the training" if rater in self.config.unlabelled else ""
        raise RatersError(
            f"found the rater {rater!r}{silent}, expected one of {known}{more}", rater=rater
        )

    def pixels(self, image: NDArray[Any] | Case) -> Tensor:
        """Bring an image to what the network takes: `(channels, *space)`, normalised.

        Raises:
            RatersError: for an image that the model cannot take; it names the case and its file.
        """
        if not isinstance(image, Case):
            return self._pixels_of(given_image(image)[0])
        found = image_of(image)
        try:
            return self._pixels_of(found.array)
        except RatersError as error:
            raise in_case(error, image.id, found.source) from None

    def _pixels_of(self, array: NDArray[Any]) -> Tensor:
        channels, spatial_dims = self.config.channels, self.config.spatial_dims
        if array.ndim == spatial_dims and channels == 1 and spatial_dims:
            array = array[np.newaxis]
        if array.ndim != spatial_dims + 1 or array.shape[0] != channels or 0 in array.shape:
            what = (
                f"{channels} channels and {spatial_dims} spatial axes"
                if spatial_dims
                else f"{channels} features"
            )
            found = "x".join(map(str, array.shape)) or "one number"
            raise RatersError(f"found an image of {found}, expected {what}", kind="channels")
        return torch.from_numpy(self._normalise(array))

    def warn_if_not_dominant(self) -> None:
        """Warn if truth and error may be swapped, and say what to do."""
        chosen = [row for row in self.history if row["epoch"] == self.best_epoch]
        margin = chosen[0].get("dominance") if chosen else None
        if margin is not None and margin <= 0:
            warnings.warn(
                f"the raters' mean matrix is not diagonally dominant (margin {margin:.2f}): truth "
                "and errors may be swapped. Try a longer warm_up, a smaller trace, a larger "
                "prior (pixel-cm), or global-cm",
                stacklevel=2,
            )

    def save(self, folder: str | Path) -> Path:
        """Write `config.yaml` and `weights.safetensors`; loading them runs no code.

        Where the model knows how it was trained, also `history.csv` and `scores.json`; where it
        knows its cuts, `cuts.json`.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        write_weights(path / WEIGHTS, self.method)
        write_config(path, self.config)
        if self.cuts:
            write_cuts(path, self.cuts, self.config.classes_of_study())
        if self.history:
            epochs = self.config.training.epochs
            early = len(self.history) < epochs
            write_progress(
                path, self.history, self.best_epoch, epochs, finished=True, stopped_early=early
            )
        return path

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Open a folder that `save` or `raters train` wrote; nothing in it is run as code.

        Raises:
            RatersError: It is no model folder, the run in it is not finished, or its files do not
                fit together.
        """
        path = Path(folder)
        refuse_no_model(path)
        config = read_config(path / CONFIG)
        method = build_with_weights(config, path / WEIGHTS)
        history, best_epoch = read_history(path)
        cuts = read_cuts(path, config.classes_of_study())
        return cls(method.eval(), config, history, best_epoch, cuts)


def load(folder: str | Path) -> Model:
    """Open a model folder: `config.yaml` and `weights.safetensors`.

    Loading runs no code of the folder: its files are plain data, and are checked.
    """
    return Model.load(folder)
