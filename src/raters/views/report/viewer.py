"""Cases to look at in the report: pictures and labels as the page's script takes them.

Everything here is data. `viewer_case` makes a `ViewerCase` of a case; the browser draws outlines,
areas and differences from the labels themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from raters.io.rows import Row
from raters.views.plots.style import ERROR_LEGEND, rater_colours, rater_lines
from raters.views.report.tables import shown_value

REFERENCE = "reference"
DIFFER = "#e040fb"
"""Where raters differ, and where a model is unsure."""

_DASHES = ("7 4", "2 3", "9 3 2 3")


@dataclass(frozen=True)
class Layer:
    """How the labels of one rater (or the consensus, the reference) look.

    Attributes:
        name: Whose labels they are, as `Labels.layers` says.
        colour: Of the line and of the toggle, `#rrggbb`.
        dash: Dashes as in SVG ('4 2'), '' for a solid line.
        edge: Whether the line gets a black edge: for white ones.
        shown: Whether it is shown at the start.
        excludes: Whether a label says what a pixel is not (complementary labels).
    """

    name: str
    colour: str
    dash: str = ""
    edge: bool = False
    shown: bool = True
    excludes: bool = False


@dataclass(frozen=True)
class MapLayer:
    """A map that can be laid over the picture.

    Attributes:
        name: The key of `ViewerCase.maps`.
        legend: Colours of the map by what they mean, `{"all agree": "#000000"}`.
        shown: Whether it is shown at the start; the first such one is.
        opacity: At the start, from 0 to 1.
    """

    name: str
    legend: Mapping[str, str] = field(default_factory=dict)
    shown: bool = False
    opacity: float = 0.7


@dataclass(frozen=True)
class Plane:
    """How a stack `(slices, rows, columns)` is cut: `raters.views.plots.pictures.View` of it.

    Attributes:
        name: 'axial', 'coronal', 'sagittal', or the axis where the orientation is unknown.
        order: The axes of the stack that become slices, rows and columns.
        flipped: Which of these run backwards.
        letters: The sides of the patient at the left, right, top and bottom; none if unknown.
    """

    name: str = ""
    order: Sequence[int] = (0, 1, 2)
    flipped: Sequence[bool] = (False, False, False)
    letters: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """A channel of an image, one picture per slice of the stack.

    Attributes:
        name: The channel, such as 'flair'.
        slices: Data URIs of 8 bits; codes of values.
        colours: Whether they are coloured.
        knots: `(value, code)`, ascending: values in between lie on straight lines.
        windows: The darkest and the brightest value by name; the first one is shown at first.
    """

    name: str
    slices: Sequence[str]
    colours: bool = False
    knots: Sequence[tuple[float, int]] = ((0, 0), (255, 255))
    windows: Mapping[str, tuple[float, float]] = field(default_factory=lambda: {"all": (0, 255)})


@dataclass(frozen=True)
class Labels:
    """What some layers say at each pixel, as numbers of patterns.

    Attributes:
        layers: The names of the layers.
        patterns: The classes (or MISSING) that the layers say, by number of the pattern.
        data: The numbers `(slices, rows, columns)`, of 8 bits or (more than 256 patterns) 16,
            deflated, in base64.
    """

    layers: Sequence[str]
    patterns: Sequence[Sequence[int]]
    data: str


@dataclass(frozen=True)
class ViewerCase:
    """One case of the viewer: a stack of slices, one for a picture in two dimensions.

    Attributes:
        id: The name of the case.
        facts: Shown beside the case, `{"dice": 0.71}`; the list shows the first one.
        shape: Slices, rows and columns of the labels; pictures and maps may have fewer pixels.
        spacing: The size of a pixel of the labels along these axes.
        start: What is shown first, a place in the stack.
        planes: The ways to cut it; the first one is that of the slices.
        numbers: By axis of the stack, the number in the file of its first place, and the step.
        slices: How many slices the file has; the stack may hold those with labels only.
        classes: The names of all classes, with background; the same in all cases of a viewer.
        labels: What raters and others said.
        pictures: The channels of the image; none without an image.
        maps: Pictures with transparency by name, one per slice.
        empty: The layers that have a mask of the case with nothing in it.
    """

    id: str
    facts: Mapping[str, object] = field(default_factory=dict)
    shape: tuple[int, int, int] = (1, 1, 1)
    spacing: Sequence[float] = (1.0, 1.0, 1.0)
    start: Sequence[int] = (0, 0, 0)
    planes: Sequence[Plane] = (Plane(),)
    numbers: Sequence[tuple[int, int]] = ((0, 1), (0, 1), (0, 1))
    slices: int = 1
    classes: Sequence[str] = ()
    labels: Sequence[Labels] = ()
    pictures: Sequence[Picture] = ()
    maps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    empty: Sequence[str] = ()

    @property
    def size(self) -> int:
        """About how many bytes it takes in the page."""
        stacks = [*(one.slices for one in self.pictures), *self.maps.values()]
        tables = sum(len(one.data) + len(str(one.patterns)) for one in self.labels)
        return sum(len(uri) + 3 for uris in stacks for uri in uris) + tables + 1000

    @property
    def layers(self) -> list[str]:
        """The names of all layers that have labels of the case."""
        return [name for one in self.labels for name in one.layers]


def within(cases: Iterable[ViewerCase], budget: int) -> list[ViewerCase]:
    """Return as many of the first cases as fit a number of bytes, at least one.

    Example:
        >>> case = ViewerCase("a", pictures=[Picture("", ["x" * 4000])])
        >>> [len(within([case] * 3, budget)) for budget in (0, 11_000, 20_000)]
        [1, 2, 3]
    """
    kept: list[ViewerCase] = []
    for case in cases:
        budget -= case.size
        if kept and budget < 0:
            break
        kept.append(case)
    return kept


def rater_layers(
    raters: Sequence[str], shown: int = 8, excluding: Sequence[str] = ()
) -> list[Layer]:
    """Return the raters' layers, in the colours and dashes that they have in all figures.

    Args:
        raters: All raters, in the order of the study.
        shown: How many are shown at the start.
        excluding: The raters whose labels say what a pixel is not.

    Example:
        >>> rater_layers(["ann", "bob"])[1].colour
        '#56b4e9'
    """
    colours = rater_colours(raters)
    lines = rater_lines(raters)
    return [
        Layer(name, colours[name], _dash(lines[name]), False, k < shown, name in excluding)
        for k, name in enumerate(raters)
    ]


def extra_layers(names: Sequence[str]) -> list[Layer]:
    """Return further layers (consensus, prediction, reference) as white lines with a black edge.

    The reference is a solid line, as in the figures; the others are dashed, each in its way.

    Example:
        >>> [layer.dash for layer in extra_layers(["consensus", "reference"])]
        ['7 4', '']
    """
    dashes = iter(_DASHES * len(names))
    return [
        Layer(name, "#ffffff", "" if name == REFERENCE else next(dashes), edge=True)
        for name in names
    ]


def free_name(name: str, raters: Sequence[str], more: str = " (not the rater)") -> str:
    """Return a name for a layer that is not the name of a rater.

    Example:
        >>> free_name("consensus", ["ann"]), free_name("consensus", ["ann", "consensus"])
        ('consensus', 'consensus (not the rater)')
    """
    while name in raters:
        name += more
    return name


def _dash(line: object) -> str:
    """Turn a line style of matplotlib into dashes of SVG."""
    return " ".join(f"{2 * length:g}" for length in line[1]) if isinstance(line, tuple) else ""


def index_data(
    cases: Sequence[ViewerCase],
    layers: Sequence[Layer],
    maps: Sequence[MapLayer],
    elsewhere: Sequence[tuple[str, str]] = (),
) -> Row:
    """Return what the script needs before any case is shown: layers, classes, maps, the list.

    Layers and maps that only the cases name get a plain look; `elsewhere` are the cases of other
    pages, with their addresses.
    """
    named = dict.fromkeys(name for case in cases for name in case.layers)
    layers = [*layers, *extra_layers([n for n in named if n not in {one.name for one in layers}])]
    mapped = dict.fromkeys(name for case in cases for name in case.maps)
    maps = [*maps, *(MapLayer(n) for n in mapped if n not in {one.name for one in maps})]
    classes = cases[0].classes if cases else ()
    return {
        "layers": [asdict(layer) for layer in layers],
        "classes": list(zip(classes, ["", *rater_colours(classes[1:]).values()], strict=False)),
        "maps": [{**asdict(one), "legend": dict(one.legend)} for one in maps],
        "differ": {"differ": DIFFER, **{key: ERROR_LEGEND[text] for key, text in _ERRORS.items()}},
        "cases": [
            {"id": case.id, "facts": [(k, shown_value(v)) for k, v in case.facts.items()]}
            for case in cases
        ],
        "elsewhere": list(elsewhere),
    }


_ERRORS = {"missed": "missed (false negative)", "more": "too much (false positive)"}


def case_data(case: ViewerCase) -> Row:
    """Return what the script needs to show one case; the index has the rest."""
    data = asdict(case)
    return {name: data[name] for name in data if name not in ("id", "facts", "classes")}
