"""Which options `raters train` has: those of training and of all methods, sorted into panels."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from raters.cli.typed_options import TypedOption
from raters.methods.registry import METHODS
from raters.training.options import TrainingOptions

PANELS = {
    "Network": ("network", "width", "depth", "norm", "dropout"),
    "Data": (
        "normalise",
        "patch_size",
        "patches_per_case",
        "foreground",
        "augment",
        "class_weights",
        "val_fraction",
    ),
    "Machine": ("num_workers", "cache", "precision", "devices", "num_nodes", "loggers"),
}
"""Where options of training stand in the help; the others stand under 'Training'."""


def training_options() -> list[TypedOption]:
    """Return the options of training.

    Example:
        >>> {option.field: option.panel for option in training_options()}["width"]
        'Network'
    """
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    fields = TrainingOptions.model_fields
    made = [TypedOption(k, info, panel_of.get(k, "Training")) for k, info in fields.items()]
    order = ["Training", *PANELS]
    return sorted(made, key=lambda option: order.index(option.panel))


def method_options() -> list[TypedOption]:
    """Return the options of all methods; each says which methods take it.

    Example:
        >>> {option.field: option.takers for option in method_options()}["rank"]
        ('low-rank-cm',)
    """
    found: dict[str, tuple[FieldInfo, list[str]]] = {}
    for method, entry in METHODS.items():
        for name, info in entry.own_options.items():
            found.setdefault(name, (info, []))[1].append(method)
    return [TypedOption(k, info, "Method", tuple(who)) for k, (info, who) in found.items()]


def train_options() -> list[TypedOption]:
    """Return all of them."""
    return [*method_options(), *training_options()]
