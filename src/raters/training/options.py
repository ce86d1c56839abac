"""The options of training that all methods share, and the check of all options; no torch needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from raters.errors import RatersError
from raters.methods.entry import parse_options
from raters.methods.options import MethodOptions
from raters.methods.registry import METHODS, learning_method
from raters.networks.options import Depth, Dropout, NormOrNone, Own, Width, is_own, own_name
from raters.wording import expected_one_of

DEFAULT_METHOD = "pixel-cm"
"""The default method."""


class TrainingOptions(BaseModel):
    """How a model is trained; None lets the data decide."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    network: str | None = Field(
        default=None,
        description="truth network: unet, segresnet or patch-cnn for masks, cnn, resnet or "
        "resnet-large for images, mlp for features; package.module:factory for your own",
    )
    width: Width = None
    depth: Depth = None
    norm: NormOrNone = None
    dropout: Dropout = 0.0

    epochs: int = Field(default=30, ge=1, description="passes over the training cases")
    batch_size: int = Field(default=16, ge=1, description="cases (or patches) in one step")
    lr: float = Field(default=2e-3, gt=0, description="learning rate of AdamW, at the start")
    confusion_lr_scale: float | None = Field(
        default=None,
        gt=0,
        description="how much faster than the network matrices learn that all images share; "
        "by default 1 for masks and form='paper', 10 for classes (one label where masks have "
        "thousands)",
    )
    weight_decay: float = Field(default=1e-4, ge=0, description="weight decay of AdamW")
    schedule: Literal["cosine", "constant"] = Field(
        default="cosine", description="learning rate: cosine decay to zero, or constant"
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="all randomness comes from it and the epoch"
    )

    normalise: Literal["auto", "study", "case", "none"] = Field(
        default="auto",
        description="zero mean and unit variance over the study, each case, or not at all",
    )
    patch_size: tuple[int, ...] | Literal["auto", "whole"] = Field(
        default="auto", description="sides of the patches that are trained on, or whole images"
    )
    patches_per_case: int = Field(
        default=4, ge=1, description="random patches of a case in an epoch"
    )
    foreground: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="share of patches centred on a pixel that a rater marked",
    )
    augment: Literal["auto", "none", "flip", "full"] = Field(
        default="auto", description="random changes of images; auto: flips for masks"
    )
    class_weights: Literal["none", "balanced"] = Field(
        default="none", description="weigh classes by how rare they are among the raters' labels"
    )

    val_fraction: float = Field(
        default=0.15, ge=0, lt=1, description="share of groups held out, if there is no split 'val'"
    )
    select: Literal["auto", "likelihood", "reference", "last"] = Field(
        default="auto",
        description="the best epoch by the held-out likelihood (guarded by dominance), by the "
        "reference, or the last; auto: by the reference if there is one",
    )
    patience: int | None = Field(
        default=None, ge=1, description="epochs without improvement before it stops; None: never"
    )

    num_workers: int | None = Field(
        default=None,
        ge=0,
        description="processes that read data; by default none if all cases fit into `cache`, "
        "else one or two",
    )
    cache: float = Field(
        default=2.0,
        ge=0,
        description="GB of memory for decoded cases; the rest waits on disk while it trains",
    )
    precision: Literal["auto", "32", "bf16", "16"] = Field(
        default="auto",
        description="bits of the network's numbers; auto: bf16 on GPUs that support it, else 32 "
        "(the likelihood always has 32)",
    )
    devices: int = Field(default=1, ge=1, description="GPUs (or CPU processes) per machine")
    num_nodes: int = Field(default=1, ge=1, description="machines")
    loggers: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = Field(
        default=(), description="also log each epoch to TensorBoard, MLflow or W&B"
    )


class Checked(NamedTuple):
    """Options that were checked, which is done once.

    Attributes:
        method: The name of the method.
        options: Its options.
        training: Those of training.
        network: The user's own network, if one was given.
        given: What was checked.
    """

    method: str
    options: MethodOptions
    training: TrainingOptions
    network: Own | None
    given: Mapping[str, Any]


def checked_options(method: str, given: Mapping[str, Any]) -> Checked:
    """Part the options of a method from those of training, and check both.

    Raises:
        RatersError: that names the unknown option or the impossible value.

    Example:
        >>> checked_options("truth", {"epochs": 5}).training.epochs
        5
    """
    entry, own = learning_method(method), given.get("network")
    own = own if is_own(own) else None
    named = given if own is None else {**given, "network": own_name(own)}
    of_method = {k: v for k, v in given.items() if k in entry.options.model_fields}
    of_training = {k: v for k, v in named.items() if k in TrainingOptions.model_fields}
    for name in given:
        if name not in of_method and name not in of_training:
            raise _unknown_option(name, method)
    options, training = entry.parse(of_method), parse_options(TrainingOptions, of_training)
    share = getattr(options, "warm_up", None)
    if share is not None and share > 1 and share != round(share):
        raise RatersError(
            f"found warm_up={share}, expected a whole number of epochs, or a share of them below 1"
        )
    return Checked(method, options, training, own, given)


def _unknown_option(name: str, method: str) -> RatersError:
    """Report who takes an option, or which one is nearest to it."""
    takers = [k for k, entry in METHODS.items() if name in entry.own_options]
    if takers:
        return RatersError(
            f"found the option {name!r} for {method}, expected it with: {', '.join(takers)}"
        )
    known = [*learning_method(method).own_options, *TrainingOptions.model_fields]
    return RatersError(f"found the option {name!r}, {expected_one_of(known, name)}")
