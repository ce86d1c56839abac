"""The options of training, checked, and compared with those of a run to resume; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.io.plain_yaml import read_yaml
from raters.learning.methods.entry import parse_options
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.registry import METHODS, learning_method
from raters.learning.networks.options import (
    Depth,
    Dropout,
    NormOrNone,
    Own,
    Width,
    allowed,
    is_own,
    own_name,
)
from raters.learning.training.run import (
    CHECKPOINT,
    CONFIG,
    SPLITS,
    first_process,
    holds_run,
    read_splits,
)

if TYPE_CHECKING:
    from raters.learning.training.config import ModelConfig
    from raters.learning.training.prepare import Planned
    from raters.study.study import Study

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

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return self.devices * self.num_nodes

    @property
    def writes(self) -> bool:
        """Whether this process writes the run: the first of several, or one that trains alone.

        A process that trains alone may have a number of another work (an array of SLURM's).
        """
        return self.processes == 1 or first_process()


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
    entry = learning_method(method)
    own = given.get("network")
    own = own if is_own(own) else None
    named = given if own is None else {**given, "network": own_name(own)}
    of_method = {k: v for k, v in given.items() if k in entry.options.model_fields}
    of_training = {k: v for k, v in named.items() if k in TrainingOptions.model_fields}
    for name in given:
        if name not in of_method and name not in of_training:
            raise _unknown_option(name, method)
    options = entry.parse(of_method)
    training = parse_options(TrainingOptions, of_training)
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


FREE = ("num_workers", "cache", "devices", "num_nodes", "loggers")
"""Options that may change when a run is resumed: they do not change what is learnt.

`devices` and `nodes` change one thing: each process draws its own dropout.
"""

COMPLETE = ("network", "width", "depth", "norm", "dropout", "patch_size")
"""Options that are complete elsewhere: what the user left open may be given later."""

_CHOSEN = ("warm_up", "select", "normalise")  # planning may write them in other words


def refuse_run(folder: Path) -> None:
    """Raise if a folder holds a run and --resume was not given."""
    if holds_run(folder):
        raise RatersError(
            "found a run, expected a new folder; to resume the run, use --resume (resume=True)",
            kind="exists",
            file=folder,
        )


def is_writer(folder: Path, given: Mapping[str, Any]) -> bool:
    """Return what `TrainingOptions.writes` will be, before all options are known."""
    chosen = {**_before(folder), **given}
    return first_process() or (chosen.get("devices", 1) == chosen.get("num_nodes", 1) == 1)


def refuse_other_options(folder: Path, method: str | None, given: Mapping[str, Any]) -> None:
    """Refuse, of what was given, what is plainly not as in the run; the rest is compared later."""
    before = _before(folder)
    if method is not None and "method" in before:
        refuse_unlike("method", method, before["method"], folder)
    for name, found in given.items():
        settled = name in before and name not in (*FREE, *COMPLETE, *_CHOSEN)
        if settled and found != "auto" and isinstance(found, int | float | str):
            refuse_unlike(name, found, before[name], folder)


def _before(folder: Path) -> dict[str, Any]:
    """Read the options of a run as far as they can be read: what is wrong is said when needed."""
    try:
        config = read_yaml(folder / CONFIG, f"a model's {CONFIG}")
    except RatersError:
        return {}
    found: dict[str, Any] = {}
    for part in ("training", "options") if isinstance(config, dict) else ():
        found |= config[part] if isinstance(config.get(part), dict) else {}
    if isinstance(config, dict) and isinstance(config.get("method"), str):
        found["method"] = config["method"]
    return found


def refuse_unlike(name: str, found: object, expected: object, folder: Path) -> None:
    """Refuse an option that is not as in the run."""
    if found == expected:
        return
    message = f"found {name}={_shown(found)}, expected {_shown(expected)} as in {folder / CONFIG}"
    if name == "epochs":
        message += (
            ": the length of a run is fixed by the schedule of its learning rate; start a new one "
            f"(--config {folder / CONFIG} --epochs {found} -o NEW)"
        )
    raise RatersError(message)


def earlier_run(folder: Path, resume: bool) -> ModelConfig | None:
    """Return the configuration of the run that a folder holds; None if there is none yet.

    Raises:
        RatersError: if there is one, and `resume` was not given.
    """
    from raters.learning.training.config import read_config

    if not holds_run(folder):
        return None  # also with `resume`: the run may have ended before it wrote anything
    if not resume:
        refuse_run(folder)
    return read_config(folder / CONFIG)


def plan_again(
    study: Study, method: str | None, given: Mapping[str, Any], earlier: ModelConfig, folder: Path
) -> Planned:
    """Plan as before; options that were not given are those of the run.

    Raises:
        RatersError: that names the first option, rater or case that is not as it was.
    """
    from raters.learning.training.prepare import plan_training

    name = earlier.method if method is None else method
    refuse_unlike("method", name, earlier.method, folder)
    fixed = learning_method(name).fixed
    own = {option: value for option, value in earlier.options.items() if option not in fixed}
    options = {**earlier.training.model_dump(), **own, **given}
    if is_own(earlier.network.name) and "network" not in given:
        options["network"] = allowed(earlier.network.name)
    planned = plan_training(study, checked_options(name, options), earlier.normalisation)
    _refuse_other_config(planned.config, earlier, folder)
    if (folder / SPLITS).exists() or (folder / CHECKPOINT).exists():
        _refuse_other_cases(planned, folder)
    return planned


def _refuse_other_config(config: ModelConfig, earlier: ModelConfig, folder: Path) -> None:
    for name, expected in earlier.training:
        if name not in (*FREE, *COMPLETE):
            refuse_unlike(name, getattr(config.training, name), expected, folder)
    for name, expected in earlier.options.items():
        refuse_unlike(name, config.options[name], expected, folder)
    for name, expected in earlier.network.model_dump().items():
        shown = "network" if name == "name" else name
        refuse_unlike(shown, getattr(config.network, name), expected, folder)
    same = ("patch_size", "kind", "raters", "classes", "channels", "spatial_dims")
    for name in (*same, "annotations", "unmarked"):
        refuse_unlike(name, getattr(config, name), getattr(earlier, name), folder)


def _refuse_other_cases(planned: Planned, folder: Path) -> None:
    for now, then in zip_longest(planned.splits, read_splits(folder)):
        if now != then:
            raise RatersError(f"found {_case(now)}, expected {_case(then)} as in {folder / SPLITS}")


def _case(split: tuple[str, str, str] | None) -> str:
    if split is None:
        return "no further case"
    case, part, group = split
    return f"the case {case!r} ({part}, group {group!r})"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(item, "name", item)) for item in value)
    return str(value)
