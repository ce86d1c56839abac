"""A trained model: truth, matrices and 'as rater X' of an image; saved and loaded as a folder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.errors import RatersError, in_case
from raters.core.whole_numbers import at_least
from raters.core.wording import expected_one_of, listing, many
from raters.io.paths import refuse_file
from raters.io.rows import Row, html, write_csv
from raters.learning.methods.base import Asked, Method, refuse_unanswered
from raters.learning.methods.registry import METHODS
from raters.learning.networks.options import Own
from raters.learning.training.config import (
    ModelConfig,
    build_with_weights,
    read_config,
    write_config,
    write_weights,
)
from raters.learning.training.run import (
    CONFIG,
    RATER_WEIGHTS,
    WEIGHTS,
    read_history,
    refuse_no_model,
    write_progress,
)
from raters.metrics.chosen_cut import CutGiven, Cuts, by_name, chosen_cut, read_cuts, write_cuts
from raters.metrics.cut import cut_labels
from raters.study.case import Case
from raters.study.foreign import image_of as given_image
from raters.study.study import Study

if TYPE_CHECKING:
    from raters.evaluation.prediction import Prediction

T = TypeVar("T", bound=np.generic)
Probabilities = NDArray[np.float32]
Image = NDArray[Any] | Case
Many = Study | str | Path
Cases = Iterator[tuple[Case, NDArray[T]]]
Weights = Mapping[str, float] | str | None
Weighting = tuple[float, ...] | None


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
        self.method = method
        self.config = config
        self.history = history or []
        self.best_epoch = best_epoch
        self.cuts = cuts
        self._normalise = config.normaliser()

    def __repr__(self) -> str:
        raters = len(self.config.raters)
        classes = len(self.config.classes)
        return f"Model({self.config.method}, {many(raters, 'rater')}, {many(classes, 'class')})"

    def _repr_html_(self) -> str:
        """Show the model in a notebook: its raters, and the last epochs of its training."""
        names = {"raters": listing(self.config.raters), "best epoch": self.best_epoch}
        return html(repr(self), {"": [names], "last epochs": self.history[-5:]})

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.method.parameters()).device

    @overload
    def predict(self, x: Many, cut: CutGiven = ..., weights: Weights = ...) -> Cases[np.int16]: ...

    @overload
    def predict(
        self, x: Image, cut: CutGiven = ..., weights: Weights = ...
    ) -> NDArray[np.int16]: ...

    def predict(
        self, x: Image | Many, cut: CutGiven = 0.5, weights: Weights = None
    ) -> NDArray[np.int16] | Cases[np.int16]:
        """Return the class, `(*space)`: the most likely one, or masks at another cut.

        Images that are larger than the patches trained on are seen in overlapping windows.
        (Instance norm then takes its averages over a window, as it did in training.)

        Args:
            x: An image `(channels, *space)` (or `(*space)` if there is one channel), features
                `(channels,)`, several of them as one array, or a case of a study. Of a study, or
                of images as `raters predict` takes them (`"images/{case}.png"`), pairs of a case
                and its labels come one by one; small images go in batches.
            cut: As for `cut`.
            weights: As for `weighting`.

        Example:
            for case, labels in model.predict("images/{case}.png"):
                print(case.id, (labels > 0).sum())
        """
        cuts = self.cut(cut)
        masks = self.config.label_spatial_dims
        return self._each(
            x, lambda said: cut_labels(said.truth, cuts) if masks else said.labels, weights
        )

    @overload
    def predict_proba(self, x: Many, weights: Weights = ...) -> Cases[np.float32]: ...

    @overload
    def predict_proba(self, x: Image, weights: Weights = ...) -> Probabilities: ...

    def predict_proba(
        self, x: Image | Many, weights: Weights = None
    ) -> Probabilities | Cases[np.float32]:
        """Return the probability of each class, `(classes, *space)`; `x` is as for `predict`."""
        return self._each(x, lambda said: said.truth, weights)

    def truth(self, image: Image) -> Probabilities:
        """Return `p(t | x)` of an image, `(classes, *space)`."""
        return self.predict_proba(image)

    def as_rater(self, image: Image, rater: str) -> Probabilities:
        """Return what a rater would say of the image, `p(o | x, rater)`, `(classes, *space)`."""
        return self._said(image, raters=(str(rater),)).as_rater(str(rater))

    def confusion(self, image: Image) -> Probabilities:
        """Return the raters' matrices for an image, `C[t, o]`: `(raters, L, L, *space)`.

        An axis of space has length 1 if the matrices are the same everywhere. Raters of whom no
        label was trained on (`config.unlabelled`) have NaN: nothing is known of them.
        """
        return self._said(image, confusion=True).maps["confusion"]

    def recurrences(self, image: Image) -> tuple[Probabilities, Probabilities]:
        """Return the truth of each recurrence, and the trust in each rater after it.

        Returns:
            `(recurrences, classes, *space)` and `(recurrences, raters, *space)`, from 0 to 1. What
            the trust is, the page of the method says; images that changed little any more before
            the last recurrence stay as they are.

        Raises:
            RatersError: The method has no recurrences.
        """
        maps = self._said(image, recurrences=True).maps
        turns = [found for name, found in maps.items() if name.startswith("recurrence:")]
        return np.stack(turns), maps["confidence"]

    def transition(self) -> Probabilities | None:
        """Return which class raters exclude who draw what is not there: `(raters, L, L)`.

        `M[o, q] = p(said 'not q' | would have said o)`; rows sum to one, and the diagonal is 0.
        Only negative drawings of more than two classes have it: NaN of other raters, None of none.
        """
        found = self.method.transition()
        return None if found is None else found.float().cpu().numpy()

    def samples(self, image: Image, num_samples: int = 1, seed: int = 0) -> Probabilities:
        """Return samples of the labels of an image, `(num_samples, classes, *space)`.

        Sample k depends on the seed, the name of the case and k only.

        Raises:
            RatersError: The method gives no samples.
        """
        number = at_least(1, num_samples, "samples")
        return np.stack(self._said(image, samples=number, seed=seed).samples)

    def _said(self, image: Image, **asked: Any) -> Prediction:  # noqa: ANN401
        # The package `prediction` builds on this one; a model is only its handle.
        from raters.learning.prediction.predict import predict_case

        return predict_case(self, image, Asked(**asked))

    def _each(
        self, x: Image | Many, take: Callable[[Prediction], NDArray[T]], weights: Weights
    ) -> NDArray[T] | Cases[T]:
        """Return one part of what is said of an image, or of each of many."""
        from raters.learning.prediction.images import open_images

        weighting = self.weighting(weights)
        if isinstance(x, str | Path):
            x = open_images(str(x), self.config)
        if isinstance(x, Study):
            return self._cases(x, take, weighting)
        if isinstance(x, np.ndarray | Tensor) and x.ndim == self.config.spatial_dims + 2:
            cases = self._cases(Study.from_arrays(images=np.asarray(x)), take, weighting)
            return np.stack([found for _, found in cases])
        return take(self._said(x, weights=weighting))

    def _cases(
        self, study: Study, take: Callable[[Prediction], NDArray[T]], weights: Weighting
    ) -> Cases[T]:
        from raters.learning.prediction.predict import predict_cases

        for case, found in predict_cases(self, study.iter_cases(), Asked(weights=weights)):
            if isinstance(found, RatersError):
                raise found
            yield case, take(found)

    def cut(self, given: CutGiven) -> NDArray[np.float64]:
        """Return the cut of each foreground class, `(classes - 1,)`, as `cut_labels` takes it.

        Args:
            given: A number; 'area' (where the predicted area of held-out cases is the raters' mean
                area) or 'area-drawn' (the same without blank masks); 'best' (the best Dice of
                held-out cases that have a reference); by class, as in '2=0.3,3=area'; or a number
                for each foreground class.

        Raises:
            RatersError: For what is no cut, or is not known of this model.
        """
        return chosen_cut(given, self.config.classes_of_study(), self.config.kind, self.cuts)

    def weighting(self, given: Weights) -> Weighting:
        """Return the weight of each rater of the model; they sum to one.

        Args:
            given: Weights by rater, as in `{"alice": 0.7, "bob": 0.3}` or 'alice=0.7,bob=0.3';
                raters who are not named weigh nothing. None asks for no weighting.

        Raises:
            RatersError: For a rater that the model does not know, and for what is no weight.
        """
        if given is None:
            return None
        config = self.config
        weights = [0.0] * len(self.config.raters)
        places = {name: config.raters.index(name) for name in config.labelled}
        for place, word in by_name(given, places, "rater", "weight").items():
            weights[place] = _weight(word, config.raters[place])
        if not any(weights):
            some = expected_one_of(places, "").removeprefix("expected ")
            raise RatersError(f"found no weight above 0, expected that of {some} to be above it")
        return tuple(value / sum(weights) for value in weights)

    @property
    def rater_weights(self) -> dict[str, float]:
        """How much each rater counts in the truth, where the method learns that; else nothing."""
        learnt = self.method.learnt_weights()
        found = [] if learnt is None else learnt.detach().cpu().tolist()
        return dict(zip(self.config.raters, found, strict=learnt is not None))

    def refuse_unanswered(self, asked: Asked) -> None:
        """Refuse what the method cannot answer, and raters that the model does not know.

        Raises:
            RatersError: that names the method, what it can answer, and the methods that can.
        """
        name = self.config.method
        answers = self.method.answers
        try:
            refuse_unanswered(name, answers, asked)
        except RatersError as error:
            lacking = sorted(asked.needed - answers)[0]
            can = [m for m, entry in METHODS.items() if lacking in entry.answers]
            raise RatersError(
                f"{error}. {name} can answer {', '.join(sorted(answers))}; methods that can answer "
                f"{lacking}: {', '.join(can) or 'none of this version'}",
                kind="unanswered",
            ) from None
        for rater in asked.raters:
            self.number_of(str(rater))

    def number_of(self, rater: str) -> int:
        """Return the position of a rater.

        Raises:
            RatersError: that lists those the model knows; also for a rater of whom no label was
                trained on.
        """
        if rater in self.config.labelled:
            return self.config.raters.index(rater)
        known = listing(self.config.labelled) or "none: this model knows no raters"
        why = " without a label in the training" if rater in self.config.unlabelled else ""
        raise RatersError(f"found the rater {rater!r}{why}, expected one of {known}", rater=rater)

    def pixels(self, image: NDArray[Any] | Case) -> Tensor:
        """Bring an image to what the network takes: `(channels, *space)`, normalised.

        Raises:
            RatersError: for an image that the model cannot take; it names the case and its file.
        """
        if not isinstance(image, Case):
            array, grid = given_image(image)
            bare = grid is None and array.ndim == self.config.spatial_dims > 0
            return self._pixels_of(array[None] if bare and self.config.channels == 1 else array)
        found = image.needed_image()
        with in_case(image.id, found.source):
            return self._pixels_of(found.array)

    def _pixels_of(self, array: NDArray[Any]) -> Tensor:
        channels = self.config.channels
        axes = self.config.spatial_dims
        if array.ndim != axes + 1 or array.shape[0] != channels or 0 in array.shape:
            found = "x".join(map(str, array.shape)) or "one number"
            space = f" followed by {axes} spatial axes" if axes else ""
            expected = many(channels, "channel" if axes else "feature") + space
            raise RatersError(f"found an image of {found}, expected {expected}", kind="channels")
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
        knows its cuts, `cuts.json`; where it learnt weights of raters, `rater_weights.csv`.
        """
        path = Path(folder)
        epochs = self.config.training.epochs
        refuse_file(path)
        path.mkdir(parents=True, exist_ok=True)
        write_weights(path / WEIGHTS, self.method)
        write_config(path, self.config)
        if self.cuts:
            write_cuts(path, self.cuts, self.config.classes_of_study())
        weights = self.rater_weights
        if weights:
            write_csv(path / RATER_WEIGHTS, rows_of_weights(weights))
        if self.history:
            state = {"finished": True, "stopped_early": len(self.history) < epochs}
            write_progress(path, self.history, self.best_epoch, epochs, **state)
        return path

    @classmethod
    def load(cls, folder: str | Path, network: Own | None = None) -> Model:
        """Open a folder that `save` or `raters train` wrote; nothing in it is run as code.

        Raises:
            RatersError: It is no model folder, the run in it is not finished, or its files do not
                fit together.
        """
        refuse_no_model(folder)
        path = Path(folder)
        config = read_config(path / CONFIG).with_network(network)
        method = build_with_weights(config, path / WEIGHTS).eval()
        cuts = read_cuts(path, config.classes_of_study())
        return cls(method, config, *read_history(path), cuts)


def rows_of_weights(weights: Mapping[str, float]) -> list[Row]:
    """Return a row per rater.

    Example:
        >>> rows_of_weights({"ann": 0.75, "bob": 0.25})
        [{'rater': 'ann', 'weight': 0.75}, {'rater': 'bob', 'weight': 0.25}]
    """
    return [{"rater": name, "weight": weight} for name, weight in weights.items()]


def _weight(word: str, rater: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        why = f"found the weight {word!r} of the rater {rater!r}, expected a number of at least 0"
        raise RatersError(why, rater=rater)
    return value


def load(folder: str | Path, network: Own | None = None) -> Model:
    """Open a model folder: `config.yaml` and `weights.safetensors`.

    Loading runs no code of the folder: its files are plain data, and are checked.

    Args:
        folder: The folder.
        network: The user's own network, where the model was trained with one: a module, a function
            or class that makes one, or 'package.module:factory'. It is never imported only because
            the folder names it.
    """
    return Model.load(folder, network)
