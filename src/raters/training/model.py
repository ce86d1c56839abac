"""A trained model: truth, matrices and 'as rater X' of an image; saved and loaded as a folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from raters.errors import RatersError
from raters.methods.registry import worded
from raters.rows import Row
from raters.study.case import Case
from raters.training.config import ModelConfig
from raters.training.normalise import image_of, in_case

if TYPE_CHECKING:
    from raters.methods.base import Method
    from raters.study.study import Study

CONFIG, WEIGHTS = "config.yaml", "weights.safetensors"

Probabilities = NDArray[np.float32]


class Model:
    """What was learnt from a study.

    Attributes:
        method: The trained method (a torch module).
        config: What the model is, as plain data.
        history: One row an epoch of the training; empty after loading.
        best_epoch: The epoch whose weights were kept, from 1; 0 after loading.
    """

    def __init__(
        self,
        method: Method,
        config: ModelConfig,
        history: list[Row] | None = None,
        best_epoch: int = 0,
    ) -> None:
        self.method, self.config = method, config
        self.history, self.best_epoch = history or [], best_epoch
        self._normalise = config.normaliser()

    def __repr__(self) -> str:
        raters = len(self.config.raters)
        return f"Model({self.config.method}, {raters} raters, {len(self.config.classes)} classes)"

    def truth(self, image: NDArray[Any] | Case) -> Probabilities:
        """Give `p(t | x)`, `(classes, *space)`.

        Args:
            image: `(channels, *space)` (or `(*space)` if there is one channel), features
                `(channels,)`, or a case of a study.
        """
        return self._maps(image, self.method.truth)

    def labels(self, image: NDArray[Any] | Case) -> NDArray[np.int16]:
        """Give the most likely class, `(*space)`."""
        found: NDArray[np.int16] = self.truth(image).argmax(0).astype(np.int16)
        return found

    def as_rater(self, image: NDArray[Any] | Case, rater: str) -> Probabilities:
        """Give what a rater would say of the image, `p(o | x, rater)`, `(classes, *space)`."""
        if rater not in self.config.raters:
            known = ", ".join(self.config.raters[:20])
            raise RatersError(f"found the rater {rater!r}, expected one of {known}", rater=rater)
        number = self.config.raters.index(rater)
        return self._maps(image, lambda batch: self.method.as_rater(batch, number))

    def confusion(self, image: NDArray[Any] | Case) -> Probabilities:
        """Give the raters' matrices for an image, `C[t, o]`: `(raters, L, L, *space)`.

        An axis of space has length 1 if the matrices are the same everywhere.
        """
        batch = self._batch(image)
        if not self.method.varies:
            with torch.inference_mode():
                return _numpy(self.method.confusion(batch[..., :1] if batch.ndim > 2 else batch)[0])
        flat = self._window(batch, lambda x: self.method.confusion(x).flatten(1, 3))[0]
        classes = len(self.config.classes)
        space = batch.shape[2:] if self.config.label_dims else ()  # a class has no pixels
        return _numpy(flat.view(-1, classes, classes, *space))

    def predict(self, study: Study) -> Iterator[tuple[Case, Probabilities]]:
        """Give the truth of all cases of a study, one by one."""
        for case in study.iter_cases():
            yield case, self.truth(case)

    def _maps(
        self, image: NDArray[Any] | Case, function: Callable[[Tensor], Tensor]
    ) -> Probabilities:
        return _numpy(self._window(self._batch(image), function)[0])

    def _batch(self, image: NDArray[Any] | Case) -> Tensor:
        """Bring an image to what the network takes; an error names the case and its file."""
        if not isinstance(image, Case):
            return self._batch_of(np.asarray(image))
        array = image.image  # read once, whatever is asked of the case
        try:
            return self._batch_of(image_of(image).array if array is None else array)
        except RatersError as error:
            if array is None:
                raise
            raise in_case(error, image.id, image_of(image).source) from None

    def _batch_of(self, array: NDArray[Any]) -> Tensor:
        if array.ndim == self.config.dims and self.config.channels == 1 and self.config.dims:
            array = array[np.newaxis]
        expected = self.config.channels
        if array.ndim != self.config.dims + 1 or array.shape[0] != expected:
            raise RatersError(
                f"found an image of {'x'.join(map(str, array.shape))}, expected "
                f"{expected} channels and {self.config.dims} spatial axes"
            )
        device = next(self.method.parameters()).device
        return torch.from_numpy(self._normalise(array))[None].to(device)

    def _window(self, batch: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Run a function on a whole image, or on overlapping windows of the size of a patch."""
        with torch.inference_mode():
            patch = self.config.patch
            if patch is None or all(s <= p for s, p in zip(batch.shape[2:], patch, strict=True)):
                return function(batch)
            from monai.inferers.utils import sliding_window_inference

            found = sliding_window_inference(
                batch, patch, 4, function, overlap=0.25, mode="gaussian"
            )
            assert isinstance(found, Tensor)  # as the function gives one tensor
            return found

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
        """Write `config.yaml` and `weights.safetensors`; loading them runs no code."""
        from safetensors.torch import save

        from raters.study.paths import written_whole

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        state = {k: v.contiguous().cpu() for k, v in self.method.state_dict().items()}
        with written_whole(path / WEIGHTS, "wb") as file:
            file.write(save(state))
        with written_whole(path / CONFIG) as file:
            yaml.safe_dump(self.config.model_dump(mode="json"), file, sort_keys=False)
        return path

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Open a folder that `save` wrote."""
        path = Path(folder)
        config = _read_config(path / CONFIG)
        method = config.build()
        _load_weights(method, path / WEIGHTS)
        return cls(method.eval(), config)


def load(folder: str | Path) -> Model:
    """Open a model folder: `config.yaml` and `weights.safetensors`."""
    return Model.load(folder)


def _read_config(path: Path) -> ModelConfig:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = f"cannot be read ({error}), expected a model's {CONFIG}"
        raise RatersError(why, file=path) from None
    try:
        return ModelConfig.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        why = f"found no plain YAML ({str(error).splitlines()[0]}), expected a model's {CONFIG}"
        raise RatersError(why, file=path) from None
    except ValidationError as error:
        raise RatersError(worded(error), file=path) from None


def _load_weights(method: Method, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
        why = f"cannot be read ({error}), expected safetensors weights"
        raise RatersError(why, file=path) from None
    expected = method.state_dict()
    for name, tensor in expected.items():
        found = state.get(name)
        if found is None or found.shape != tensor.shape:
            shape = "nothing" if found is None else tuple(found.shape)
            raise RatersError(
                f"found {shape} for the weight {name!r}, expected {tuple(tensor.shape)}", file=path
            )
    extra = sorted(set(state) - set(expected))
    if extra:
        raise RatersError(f"found the weight {extra[0]!r}, expected none of this name", file=path)
    method.load_state_dict(state)


def _numpy(tensor: Tensor) -> Probabilities:
    return tensor.float().cpu().numpy()
