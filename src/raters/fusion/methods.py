"""The fusion methods by name; a new one is a file and a line here, or a line of your own program.

    from raters.fusion import METHODS, Method
    METHODS["wawa"] = Method("votes weighed by agreement", table="my_package.wawa:wawa")

A method is a function of the labels and the number of classes (and the image, if its entry has
`images`). Its keyword arguments are its
options: their types say what they may be (`Annotated[float, Ge(0)]`), its docstring what they mean.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    get_type_hints,
    overload,
)

from raters.core.errors import RatersError, one_of
from raters.core.wording import expected_one_of, listing

if TYPE_CHECKING:
    from raters.fusion.result import Fusion
    from raters.study.study import Study

P = ParamSpec("P")
KINDS = {"segmentation": "masks", "classification": "tables"}
"""What the kinds of studies are called here."""


@dataclass(frozen=True)
class FusionOptions:
    """A method and its options, as `raters.fusion.StapleOptions(restrict=True)` makes them."""

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Option(NamedTuple):
    """An option of a fusion method, as the function and its docstring say."""

    name: str
    default: Any
    meaning: str
    type: Any


@dataclass(frozen=True)
class Method:
    """A way to fuse labels.

    Attributes:
        about: What it does, in a few words.
        masks: Where the function for masks is, `module:name`; None if there is none.
        table: Where the function for tables is; None if there is none.
        pooled: Where the class is that fits all cases of masks together, as
            `raters.consensus.pooled.PooledStaple` does; None if there is none.
        fixed: Options of the function for masks that make the method what it is.
        errors: The model that standard errors rest on: 'rows' (one matrix per rater), 'coin' (one
            accuracy per rater), 'draws' (the posterior of `hierarchical`); None for a method
            without errors.
        compares: Whether a note says on how many tasks of a table other methods differ.
        slow: Whether fusing a case many times over takes too long for a report.
        images: Whether it looks at images: they are the third argument of the function for masks.
        matrices: Whether it estimates each rater's matrix from masks: `refuse_one_sided`.
        when: When to use it.
    """

    about: str
    masks: str | None = None
    table: str | None = None
    pooled: str | None = None
    fixed: Mapping[str, Any] | None = None
    errors: Literal["rows", "coin", "draws"] | None = None
    compares: bool = True
    slow: bool = False
    images: bool = False
    matrices: bool = False
    when: str = ""

    @property
    def kinds(self) -> list[str]:
        """The kinds of studies that it takes: 'segmentation', 'classification' or both."""
        return [kind for kind, f in zip(KINDS, (self.masks, self.table), strict=True) if f]

    def facts(self, name: str) -> dict[str, Any]:
        """Return what there is to know of the method as plain data."""
        options = {
            KINDS[kind]: [
                {"option": o.name, "default": o.default, "meaning": o.meaning}
                for o in self.options(kind).values()
            ]
            for kind in self.kinds
        }
        about = {"name": name, "verb": "fuse", "about": self.about, "when": self.when}
        return {**about, "options": options}

    def function(self, kind: str) -> Callable[..., Fusion]:
        """Return the function for masks ('segmentation') or tables ('classification')."""
        where = self.masks if kind == "segmentation" else self.table
        if where is None:
            others = [name for name, method in METHODS.items() if kind in method.kinds]
            raise RatersError(
                f"found {KINDS[kind]}, and {self._name} does not take them: "
                f"expected one of {', '.join(others)}"
            )
        function: Callable[..., Fusion] = _imported(where)
        return function

    def options(self, kind: str) -> dict[str, Option]:
        """Return the options for masks or tables, by name."""
        function = self.function(kind)
        hints = get_type_hints(function, include_extras=True)
        meanings = _arguments(inspect.getdoc(function) or "")
        return {
            p.name: Option(p.name, p.default, meanings.get(p.name, ""), hints.get(p.name, Any))
            for p in inspect.signature(function).parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name not in (self.fixed or {})
        }

    @property
    def _name(self) -> str:
        return next((name for name, method in METHODS.items() if method is self), "this method")

    def check_options(self, kind: str, options: Mapping[str, Any], *, pool: bool = False) -> None:
        """Reject options that the method does not have, and values that they cannot have."""
        from raters.fusion.option_values import refuse_value  # `raters --help` needs no numpy

        known = self.options(kind)
        for name, value in options.items():
            one_of(known, name, "the option")
            refuse_value(name, value, known[name].type)
        if not pool:
            return
        if self.pooled is None or kind == "classification":
            listed = " or ".join(name for name, other in METHODS.items() if other.pooled)
            raise RatersError(f"found pool with {self._name!r}, expected {listed} on masks")
        shared = [k for k in inspect.signature(self.pool()).parameters if k in known]
        for name in options:
            if name not in shared:
                listed = expected_one_of(shared, name)
                raise RatersError(f"found the option {name!r} with pool, {listed}")

    def pool(self) -> Callable[..., Any]:
        """Return the class that fits all cases of masks together, where there is one."""
        found: Callable[..., Any] = _imported(self.pooled or "")
        return found


def refuse_no_images(study: Study, why: str = "") -> None:
    """Reject a study without images, and say who needs them."""
    if not study.backend.holds()["images"]:
        raise RatersError(
            f'found no images, expected some{why} (--images "images/{{case}}.png")',
            kind="missing-image",
            file=study.folder,
        )


def refuse_one_sided(study: Study, method: str) -> None:
    """Reject drawings that cannot say each class, of which labels do not tell the matrices.

    'Says so whatever is true' explains all that such a rater said, and then nothing that was drawn
    counts: the consensus would be background everywhere.
    """
    from raters.study.annotations import one_sided  # `raters --help` needs no numpy

    raters = one_sided(study.annotations, study.unmarked)
    if raters:
        boxes = [rater for rater in raters if study.annotations[rater] == "box"]
        rest = "" if boxes else ", or let unmarked pixels be the rest (--unmarked rest)"
        raise RatersError(
            f"found drawings by {listing(raters, 20, repr)} that cannot say each class, expected "
            f"labels that can: {method} could not tell how far to trust them; take -m vote{rest}",
            kind="annotation",
            rater=raters[0],
        )


def _imported(where: str) -> Any:  # noqa: ANN401
    module, name = where.split(":")
    return getattr(import_module(module), name)


def _arguments(docstring: str) -> dict[str, str]:
    """Return what a docstring says of each argument."""
    section = re.search(r"^Args:\n((?: .*\n|\n)*)", docstring + "\n", re.MULTILINE)
    text = section[1] if section else ""
    found = re.findall(r"^    (\w+): ((?:.*\n(?:        .*\n)*))", text, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in found}


@overload
def options_of(
    function: Callable[Concatenate[Any, Any, Any, P], Fusion], name: str = ""
) -> Callable[P, FusionOptions]: ...


@overload
def options_of(
    function: Callable[Concatenate[Any, Any, P], Fusion], name: str = ""
) -> Callable[P, FusionOptions]: ...


def options_of(function: Callable[..., Fusion], name: str = "") -> Callable[..., FusionOptions]:
    """Return a maker of options that takes the keyword arguments of a fusion function."""

    def make(**options: Any) -> FusionOptions:  # noqa: ANN401
        bound.bind(**options)  # refuses what the function does not take, as a call of it would
        return FusionOptions(name, options)

    signature = inspect.signature(function)
    only = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    bound = signature.replace(parameters=only, return_annotation=FusionOptions)
    make.__signature__ = bound  # type: ignore[attr-defined]
    make.__name__ = options_class(name)
    make.__doc__ = f"Return the options of `{name}` for `raters.fuse`."
    return make


def options_class(name: str) -> str:
    """Return what the options of a method are called.

    Example:
        >>> options_class("spatial-staple")
        'SpatialStapleOptions'
    """
    return "".join(part.capitalize() for part in name.split("-")) + "Options"


_POOLED = "raters.consensus.pooled:PooledStaple"

METHODS: dict[str, Method] = {
    "vote": Method(
        "majority vote",
        "raters.fusion._vote:vote",
        "raters.fusion._vote:vote_table",
        when="a first baseline, and hard to beat where most raters are right at most pixels",
    ),
    "mean": Method(
        "mean label (soft)",
        "raters.fusion._vote:mean",
        "raters.fusion._vote:mean_table",
        compares=False,
        when="if probabilities should show how many raters agree",
    ),
    "staple": Method(
        "one matrix per rater, EM",
        "raters.fusion._staple:staple",
        pooled=_POOLED,
        errors="rows",
        matrices=True,
        when="masks by named raters of unlike skill (--pool); not where several over-draw alike",
    ),
    "dawid-skene": Method(
        "STAPLE with the class prior estimated; tables",
        "raters.fusion._staple:staple",
        "raters.fusion._dawid_skene:dawid_skene",
        pooled=_POOLED,
        fixed={"estimate_prior": True},
        errors="rows",
        matrices=True,
        when="a table of class labels, several for each task; also turns consistent errors round",
    ),
    "one-coin": Method(
        "one accuracy per rater; tables",
        table="raters.fusion._dawid_skene:one_coin",
        errors="coin",
        when="a table where errors are alike for all classes, or with too few labels for matrices",
    ),
    "hierarchical": Method(
        "matrices drawn to what raters have in common; tables",
        table="raters.fusion._hierarchical:hierarchical",
        errors="draws",
        when="a table with few labels per rater, or where you cannot tell which to take",
    ),
    "spatial-staple": Method(
        "matrices that vary over the image",
        "raters.fusion._spatial_staple:spatial_staple",
        slow=True,
        matrices=True,
        when="masks by four raters or more whose skill differs over the image",
    ),
    "simple": Method(
        "votes by performance, the worst left out",
        "raters.fusion._simple:simple",
        when="masks by many raters or atlases, some of them useless",
    ),
    "grabcut": Method(
        "masks from marks and images, by mixtures of colours",
        "raters.fusion._grabcut:grabcut",
        slow=True,
        images=True,
        when="marks or boxes instead of masks, and images where colours tell objects apart",
    ),
    "lazy-snapping": Method(
        "masks from marks and images, by superpixels",
        "raters.fusion._lazy_snapping:lazy_snapping",
        slow=True,
        images=True,
        when="marks of objects and background instead of masks, and images",
    ),
}


def method_of(name: str) -> Method:
    """Return a method by name.

    Raises:
        RatersError: that lists the names.
    """
    return METHODS[one_of(METHODS, name, "the method")]
