"""What a model is, as plain data, and its weights: all that is needed to build it again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from raters.core.classes import Classes, LabelClass
from raters.core.errors import RatersError
from raters.core.validation import Validated
from raters.core.wording import listing, many, worded
from raters.io.formats.base import usable_memory
from raters.io.paths import refuse_special, written_whole
from raters.io.plain_yaml import read_yaml, write_yaml
from raters.learning.methods.base import Method, Task
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.registry import learning_method
from raters.learning.networks.normalise import Normalisation
from raters.learning.networks.options import NetworkOptions, Own, network_error, own_name
from raters.learning.training.options import TrainingOptions
from raters.learning.training.run import CONFIG
from raters.study.annotations import Annotation, Unmarked
from raters.study.study import Study

COPIES = 4
"""Weights, their gradients, and the two means of AdamW."""

DEEPEST = 1000

Shapes = dict[str, tuple[int, ...]]


class ClassEntry(BaseModel):
    """A class: its name and the value that stands for it in files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    value: int | str


class ModelConfig(Validated):
    """A model without its weights.

    Attributes:
        format: The version of this layout.
        method: The name of the method.
        options: The options of the method, complete.
        training: How it was trained, complete.
        network: The truth network.
        kind: 'segmentation' or 'classification'.
        raters: The names of the raters, in the order of the matrices.
        classes: The classes in order.
        channels: Channels of an image, or the number of features.
        spatial_dims: Spatial axes of an image; 0 for features.
        patch_size: Sides of the patches that it was trained on; None for whole images.
        normalisation: As `Normalisation.to_dict` gives it.
        unlabelled: Those of the raters who labelled none of the cases that were trained on:
            nothing is known of them.
        image_size: Sides of the first image, for a network of the user's own that takes no others.
        annotations: What the labels of each rater mean, in the order of `raters`; () where all
            gave masks.
        unmarked: What unmarked pixels of drawings say; None where all gave masks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    method: str
    options: dict[str, Any]
    training: TrainingOptions
    network: NetworkOptions
    kind: Literal["segmentation", "classification"]
    raters: tuple[str, ...]
    classes: tuple[ClassEntry, ...]
    channels: int
    spatial_dims: int
    patch_size: tuple[int, ...] | None
    normalisation: dict[str, Any]
    unlabelled: tuple[str, ...] = ()
    image_size: tuple[int, ...] | None = None
    annotations: tuple[Annotation, ...] = ()
    unmarked: Unmarked | None = None
    _own: Own | None = PrivateAttr(None)
    _parsed: tuple[dict[str, Any], MethodOptions] | None = PrivateAttr(None)

    @property
    def own(self) -> Own | None:
        """The user's own network, as an object or a name that may be imported."""
        return self._own

    def with_network(self, own: Own | None) -> ModelConfig:
        """Return the configuration together with the user's own network that it names.

        Raises:
            RatersError: The configuration names another one, or none.
        """
        if own is None:
            return self
        if self.network.name != own_name(own):
            raise network_error(
                f"found the network {own_name(own)!r}, expected {self.network.name!r} as in the "
                "model"
            )
        found = self.model_copy()
        found._own = own
        return found

    def with_parsed(self, options: MethodOptions) -> ModelConfig:
        """Note options of the method that were checked already."""
        self._parsed = self.options, options
        return self

    @property
    def labelled(self) -> tuple[str, ...]:
        """The raters whose labels were trained on, in order."""
        return tuple(name for name in self.raters if name not in self.unlabelled)

    def task(self) -> Task:
        """Return what the method must know."""
        return Task(
            kind=self.kind,
            raters=self.raters,
            num_classes=len(self.classes),
            spatial_dims=self.label_spatial_dims,
            network=self._network,
            epochs=self.training.epochs,
            channels=self.channels,
            annotations=self.annotations,
            unlabelled=self.unlabelled,
        )

    @property
    def label_spatial_dims(self) -> int:
        """Spatial axes of the labels."""
        return self.spatial_dims if self.kind == "segmentation" else 0

    def _network(self) -> Any:  # noqa: ANN401
        from raters.learning.networks.backbone import TruthNetwork
        from raters.learning.networks.registry import build_backbone

        backbone = build_backbone(
            self.network,
            self.channels,
            self.spatial_dims,
            dense=self.label_spatial_dims > 0,
            own=self._own,
            size=self.patch_size or self.image_size,
        )
        return TruthNetwork(backbone, len(self.classes), self.label_spatial_dims)

    def build(self) -> Any:  # noqa: ANN401
        """Make the method with fresh weights; its options are checked once."""
        entry = learning_method(self.method)
        if self._parsed is None or self._parsed[0] is not self.options:
            given = {name: value for name, value in self.options.items() if name not in entry.fixed}
            self._parsed = self.options, entry.parse(given)
        return entry.load()(self.task(), self._parsed[1])

    def classes_of_study(self) -> Classes:
        """Return the classes as a study has them."""
        return Classes(tuple(LabelClass(c.name, c.value) for c in self.classes))

    def normaliser(self) -> Normalisation:
        """Return the normalisation."""
        return Normalisation.from_dict(self.normalisation)


def write_config(folder: Path, config: ModelConfig) -> None:
    """Write `config.yaml`, whole or not at all."""
    unset = {n for n in ("image_size", "annotations", "unmarked") if not getattr(config, n)}
    plain = config.model_dump(mode="json", exclude=unset)
    write_yaml(folder / CONFIG, plain, allow_unicode=False)


def read_config(path: Path) -> ModelConfig:
    """Read a `config.yaml`; reading it runs no code."""
    plain = read_yaml(path, f"a model's {CONFIG}")
    try:
        config = ModelConfig.model_validate(plain)
        _refuse_odd(config)
    except ValidationError as error:
        raise RatersError(worded(error), file=path) from None
    except RatersError as error:
        raise error.at(file=path) from None
    return config


def _refuse_odd(config: ModelConfig) -> None:
    """Refuse what no training writes and prediction would stumble over."""
    spatial_dims = config.spatial_dims
    patch = config.patch_size
    least = 1 if config.kind == "segmentation" else 0
    if not least <= spatial_dims <= 3:
        raise RatersError(f"found spatial_dims={spatial_dims}, expected {least} to 3")
    if len(config.classes) < 2:
        raise RatersError(f"found {many(len(config.classes), 'class')}, expected at least two")
    if config.channels < 1:
        raise RatersError(f"found channels={config.channels}, expected 1 or more")
    if patch is not None and (len(patch) != spatial_dims or min(patch, default=0) < 1):
        shown = f"{list(patch[:5])}{' ...' if len(patch) > 5 else ''}"
        sides = many(spatial_dims, "positive side") if spatial_dims else "none"
        raise RatersError(f"found patch_size={shown}, expected {sides}")
    classes = config.classes_of_study()
    if config.kind == "segmentation":
        classes.refuse_text()


def refuse_other_study(config: ModelConfig, study: Study, whose: str = "model") -> None:
    """Refuse a study of another kind, or with other classes, than a model.

    Args:
        config: The model.
        study: What is to be predicted, scored or learnt from.
        whose: What the model is called in messages: 'model' or 'run'.

    Raises:
        RatersError: that shows both.
    """
    if study.kind != config.kind:
        raise RatersError(
            f"found a study of {study.kind}, expected one of {config.kind} as the {whose} is",
            kind="other-kind",
            file=study.folder,
        )
    # A table may have read the value 1 as text.
    both = (study.classes, config.classes)
    found, expected = ([(str(c.value), c.name) for c in classes] for classes in both)
    if found != expected:
        raise RatersError(
            f"found the classes {listing(found, form='='.join)}, expected those of the {whose}: "
            f"{listing(expected, form='='.join)}; in masks --values says what values mean",
            kind="other-classes",
            file=study.folder,
        )


def write_weights(path: Path, method: Method) -> None:
    """Write the weights of a method as safetensors, whole or not at all."""
    from safetensors.torch import save

    state = {k: v.contiguous().cpu() for k, v in method.state_dict().items()}
    with written_whole(path, "wb") as file:
        file.write(save(state))


def build_with_weights(config: ModelConfig, path: Path) -> Method:
    """Make the method that a configuration describes, with weights from a file.

    The file's header is compared with the configuration first, on tensors that take no memory: a
    configuration of absurd sizes is refused before anything of that size is made.

    Raises:
        RatersError: The file is no safetensors file, or does not fit the configuration.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found = shapes_in(path)
    for text in chain(_absurd(config, found), _unlike(config, found)):  # the second only then
        raise RatersError(text, kind="weights", file=path)
    method: Method = config.build()
    try:
        method.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise _unreadable(path, error) from None
    for name, tensor in method.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            text = f"found NaN or infinity in the weight {name!r}, expected finite numbers"
            raise RatersError(text, kind="weights", file=path)
    return method


def shapes_in(path: Path) -> Shapes:
    """Read the names and shapes of all weights; safetensors checks them against the file's size."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise RatersError(
            "there is no such file, expected safetensors weights", kind="missing-file", file=path
        )
    refuse_special(path)
    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None


def _absurd(config: ModelConfig, shapes: Shapes) -> Iterator[str]:
    """Name sizes that no network with these weights can have, before it is outlined."""
    longest = max((side for shape in shapes.values() for side in shape), default=0)
    # A network may have no layer of its width (a perceptron without hidden layers).
    for name, most in (("depth", max(len(shapes), 50)), ("width", max(longest, 1024))):
        found = getattr(config.network, name)
        if found is not None and found > most:
            yield (
                f"found {name} {found} in the configuration, expected at most {most} for these "
                "weights"
            )


def _unlike(config: ModelConfig, found: Shapes) -> Iterator[str]:
    """Name weights of other shapes than the configuration's, on a device that holds no numbers."""
    try:
        outline = _outline(config)
    except RatersError:
        raise
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0]
        yield (
            f"found sizes in the configuration that cannot be built ({why}), expected those of the "
            "weights"
        )
        return
    expected = {name: tuple(tensor.shape) for name, tensor in outline.state_dict().items()}
    for name, shape in expected.items():
        if found.get(name) != shape:
            there = found.get(name, "nothing")
            yield f"found {there} for the weight {name!r}, expected {shape}"
    for name in sorted(set(found) - set(expected)):
        yield f"found the weight {name!r}, expected none of this name"


def _unreadable(path: Path, error: Exception) -> RatersError:
    why = f"cannot be read ({error}), expected safetensors weights"
    return RatersError(why, kind="unreadable", file=path)


def refuse_too_large(config: ModelConfig) -> None:
    """Refuse a network that takes more memory to train than there is.

    Raises:
        RatersError: that names width and depth, and how much they take.
    """
    size = math.inf  # where weights are uncountable
    if (config.network.depth or 0) <= DEEPEST:
        with suppress(RuntimeError, OverflowError, MemoryError, TypeError):
            size = sum(w.numel() for w in _outline(config).parameters()) * 4.0 * COPIES
    if size <= usable_memory():
        return
    takes = f"{size / 1e9:,.0f} GB" if math.isfinite(size) else "more than can be counted"
    raise network_error(
        f"found width={config.network.width} and depth={config.network.depth}, which take {takes} "
        f"to train, expected less than the {usable_memory() / 1e9:.0f} GB that may be used here: "
        "try a smaller width or depth"
    )


def _outline(config: ModelConfig) -> Method:
    """Make the method on a device that holds no numbers."""
    with torch.device("meta"):
        method: Method = config.build()
    return method
