"""The options of training that all methods share: typed, with what each means; no torch needed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_METHOD = "pixel-cm"
"""The default method."""


class TrainingOptions(BaseModel):
    """How a model is trained; None lets the data decide."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    network: str | None = Field(
        None,
        description="truth network: unet, segresnet or patch-cnn for masks, cnn, resnet or "
        "resnet-large for images, mlp for features",
    )
    width: int | None = Field(None, ge=1, description="channels of the network's first level")
    depth: int | None = Field(None, ge=0, description="levels of the network")
    norm: Literal["instance", "group", "none"] | None = Field(
        None, description="what normalises features; None: the network's own"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="share of features left out in training")

    epochs: int = Field(30, ge=1, description="passes over the training cases")
    batch_size: int = Field(16, ge=1, description="cases (or patches) in one step")
    lr: float = Field(2e-3, gt=0, description="of AdamW, at the start")
    confusion_lr_scale: float | None = Field(
        None,
        gt=0,
        description="how much faster than the network matrices learn that all images share; "
        "by default 1 for masks and form='paper', 10 for classes (one label where masks have "
        "thousands)",
    )
    weight_decay: float = Field(1e-4, ge=0, description="of AdamW")
    schedule: Literal["cosine", "constant"] = Field(
        "cosine", description="learning rate: cosine decay to zero, or constant"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="all randomness comes from it and the epoch")

    normalise: Literal["auto", "study", "case", "none"] = Field(
        "auto", description="zero mean and unit variance over the study, each case, or not at all"
    )
    patch_size: tuple[int, ...] | Literal["auto", "whole"] = Field(
        "auto", description="sides of the patches that are trained on, or whole images"
    )
    patches_per_case: int = Field(4, ge=1, description="random patches of a case in an epoch")
    foreground: float = Field(
        0.5, ge=0, le=1, description="share of patches centred on a pixel that a rater marked"
    )
    augment: Literal["auto", "none", "flip", "full"] = Field(
        "auto", description="random changes of images; auto: flips for masks"
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="weigh classes by how rare they are among the raters' labels"
    )

    val_fraction: float = Field(
        0.15, ge=0, lt=1, description="share of groups held out, if there is no split 'val'"
    )
    select: Literal["auto", "likelihood", "reference", "last"] = Field(
        "auto",
        description="the best epoch by the held-out likelihood (guarded by dominance), by the "
        "reference, or the last; auto: by the reference if there is one",
    )
    patience: int | None = Field(
        None, ge=1, description="epochs without improvement before it stops; None: never"
    )

    num_workers: int | None = Field(
        None,
        ge=0,
        description="processes that read data; by default none if all cases fit into `cache`, "
        "else one or two",
    )
    cache: float = Field(
        2.0,
        ge=0,
        description="GB of memory for decoded cases; the rest waits on disk while it trains",
    )
    precision: Literal["auto", "32", "bf16", "16"] = Field(
        "auto",
        description="bits of the network's numbers; auto: bf16 on GPUs that support it, else 32 "
        "(the likelihood always has 32)",
    )
    devices: int = Field(1, ge=1, description="GPUs (or CPU processes) per machine")
    num_nodes: int = Field(1, ge=1, description="machines")
    loggers: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = Field(
        (), description="also log each epoch to TensorBoard, MLflow or W&B"
    )
