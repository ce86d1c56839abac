"""How a learning method is listed: what it is called, takes, needs, gives and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from raters.core.errors import RatersError
from raters.core.validation import own_errors
from raters.core.wording import many, worded
from raters.learning.methods import options as o
from raters.learning.methods.fields import described
from raters.study.annotations import Annotation, refuse_complementary

if TYPE_CHECKING:
    from raters.learning.methods.base import Answer, Method

T = TypeVar("T", bound=BaseModel)
Kind = Literal["segmentation", "classification"]
BOTH: tuple[Kind, ...] = ("segmentation", "classification")
LABELS_OF: dict[Kind, str] = {"segmentation": "masks", "classification": "class labels"}
"""What the labels of each kind of study are called."""

FIRST = (
    ("anything", "vote", "vote, the baseline"),
    ("masks by named raters", "staple --pool", "pixel-cm, the default"),
    ("masks of many classes", "staple --pool", "low-rank-cm"),
    ("class labels by named raters", "dawid-skene, hierarchical", "global-cm"),
    ("raters without names", "vote", "single-cm, pixel-cm --shared"),
    ("rough drawings of what is there or not", "vote", "coarse"),
    ("a few strokes in each image, or boxes", "lazy-snapping, grabcut", "scribble-sup, box-sup"),
    ("the wish to see several plausible masks", "mean", "prob-unet, multi-hypothesis"),
)
"""What you have, and what to take first: to fuse labels, and to train on images too."""


@dataclass(frozen=True)
class MethodEntry:
    """A learning method as it is listed.

    Attributes:
        about: What it does, in a few words.
        where: Where its class is, `module:name`; imported when it is used.
        options: The class of its options.
        fixed: Options that make the method what it is.
        raters: Whether it learns from raters; else a reference is enough.
        paper: Where it comes from, to cite.
        paper_form: The options that make it what its paper describes: those of `form='paper'`.
        when: When to use it.
        kinds: The kinds of studies that it takes.
        least_raters: How many raters it needs at least.
        learns_from: What the network learns from.
        needs: What a study must have beside images and labels.
        costs: What a step costs, in passes through the truth network.
        takes_negatives: Whether it learns from negative drawings of several classes, whose labels
            say what a pixel is not.
        takes_one_class: Whether it learns from drawings that say one class alone, as boxes do.
    """

    about: str
    where: str
    options: type[o.MethodOptions] = o.MethodOptions
    fixed: Mapping[str, Any] = field(default_factory=dict)
    raters: bool = True
    paper: str = ""
    paper_form: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""
    kinds: tuple[Kind, ...] = BOTH
    least_raters: int = 1
    learns_from: str = "all labels"
    needs: str = ""
    costs: str = "one pass"
    takes_negatives: bool = False
    takes_one_class: bool = False

    @property
    def own_options(self) -> dict[str, FieldInfo]:
        """The options that a user may set, by name."""
        return {k: v for k, v in self.options.model_fields.items() if k not in self.fixed}

    def facts(self, name: str) -> dict[str, Any]:
        """Return what there is to know of the method as plain data."""
        return {
            "name": name,
            "verb": "train",
            "about": self.about,
            "when": self.when,
            "paper": self.paper or None,
            "for": [LABELS_OF[kind] for kind in self.kinds],
            "learns_from": self.learns_from,
            "needs": self.needs or None,
            "costs": self.costs,
            "fixed": dict(self.fixed),
            "options": [described(k, info) for k, info in self.own_options.items()],
        }

    @property
    def answers(self) -> frozenset[Answer]:
        """What its models can say of an image, before options decide; it imports the class.

        Example:
            >>> sorted(MethodEntry("", "raters.learning.methods.separate:Separate").answers)
            ['as_rater', 'truth']
        """
        found = self.load().answers
        return found if isinstance(found, frozenset) else frozenset()

    def load(self) -> type[Method]:
        """Import the class."""
        module, name = self.where.split(":")
        found: type[Method] = getattr(import_module(module), name)
        return found

    def refuse_study(self, name: str, kind: Kind, raters: int) -> None:
        """Refuse a kind of study that the method does not take, and too few raters.

        Raises:
            RatersError: that names the method, what was found and what was expected.

        Example:
            >>> entry = MethodEntry("", "", kinds=("segmentation",))
            >>> entry.refuse_study("mrnet", "classification", 3)
            Traceback (most recent call last):
            ...
            raters.core.errors.RatersError: found class labels, expected masks: mrnet takes ...
        """
        if kind not in self.kinds:
            expected = " or ".join(LABELS_OF[k] for k in self.kinds)
            raise RatersError(
                f"found {LABELS_OF[kind]}, expected {expected}: {name} takes no others"
            )
        if self.raters and raters < self.least_raters:
            raise RatersError(
                f"found {many(raters, 'rater')} with labels, expected at least "
                f"{self.least_raters}: {name} learns from how raters differ"
            )

    def refuse_drawings(
        self, name: str, annotations: Mapping[str, Annotation], classes: Sequence[str]
    ) -> None:
        """Refuse labels that say what a pixel is not, if the method does not take them.

        Raises:
            RatersError: that names the method, the raters, and what can be done.
        """
        if not self.takes_negatives:  # nor could `truth` count the raters' matrices
            refuse_complementary(annotations, classes, name)

    def parse(self, given: Mapping[str, Any]) -> o.MethodOptions:
        """Check options and fill in the defaults.

        Raises:
            RatersError: that names the option, the value found and what was expected.
        """
        for name in given:
            if name in self.fixed:
                fixed = f"{name}={self.fixed[name]!r}"
                raise RatersError(f"found the option {name!r}, expected none: it is {fixed} here")
        form = self.paper_form if given.get("form") == "paper" else {}
        return parse_options(self.options, {**self.fixed, **form, **given})


def parse_options(model: type[T], given: Mapping[str, Any]) -> T:
    """Make options of a pydantic class; what is wrong with them is said in one sentence."""
    for name, value in given.items():
        field = model.model_fields.get(name)
        if isinstance(value, bool) and field is not None and "bool" not in str(field.annotation):
            numeric = "int" in str(field.annotation) or "float" in str(field.annotation)
            expected = "a number" if numeric else "a word"  # True is no 1 here
            raise RatersError(f"found {name}={value}, expected {expected}")
    try:
        with own_errors():
            return model.model_validate(dict(given))
    except ValidationError as error:
        raise RatersError(worded(error)) from None
