"""Cases to look at in the report: pictures by slice, outlines and maps over them.

Everything here is data for the page's script. `viewer_case` makes a `ViewerCase` of a case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from raters.plots.style import rater_colours, rater_lines
from raters.report.tables import shown_value
from raters.rows import Row

REFERENCE = "reference"
DISAGREEMENT = "disagreement"
NOT_LABELLED = "not labelled"

_DASHES = ("7 4", "2 3", "9 3 2 3")


@dataclass(frozen=True)
class Layer:
    """Outlines of one rater (or the consensus, the reference), with one toggle.

    Attributes:
        name: Whose outlines they are: the key of `Slice.outlines`.
        colour: Of the line and of the toggle, `#rrggbb`.
        dash: Dashes as in SVG ('4 2'), '' for a solid line.
        edge: Whether the line gets a black edge: for white ones.
        shown: Whether it is shown at the start.
    """

    name: str
    colour: str
    dash: str = ""
    edge: bool = False
    shown: bool = True


@dataclass(frozen=True)
class MapLayer:
    """A map that can be laid over the picture.

    Attributes:
        name: The key of `Slice.maps`.
        legend: Colours of the map by what they mean, `{"all agree": "#000000"}`.
        shown: Whether it is shown at the start; the first such one is.
        opacity: At the start, from 0 to 1.
    """

    name: str
    legend: Mapping[str, str] = field(default_factory=dict)
    shown: bool = False
    opacity: float = 0.7


@dataclass(frozen=True)
class Slice:
    """One picture with what lies over it.

    Attributes:
        picture: Data URI; '' for a black one.
        outlines: SVG paths by layer and class, `{"ann": {"lesion": "M1 1h3v2h-3z"}}`.
        maps: Data URIs by name of the map.
        name: Shown beside the slider, such as 'slice 12'.
    """

    picture: str
    outlines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    maps: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it takes in the page."""
        paths = (path for paths in self.outlines.values() for path in paths.values())
        return len(self.picture) + sum(map(len, paths)) + sum(map(len, self.maps.values())) + 200


@dataclass(frozen=True)
class ViewerCase:
    """One case of the viewer.

    Attributes:
        id: The name of the case.
        slices: At least one.
        facts: Shown beside the case, `{"dice": 0.71}`; the list shows the first one.
        shape: Rows and columns that outlines are counted in.
        aspect: Height of a pixel over its width.
        start: The slice that is shown first, a position in `slices`.
        letters: The sides of the patient at the left, right, top and bottom; none if unknown.
        empty: The layers that have a mask of the case with nothing in it.
    """

    id: str
    slices: Sequence[Slice]
    facts: Mapping[str, object] = field(default_factory=dict)
    shape: tuple[int, int] = (1, 1)
    aspect: float = 1.0
    start: int = 0
    letters: Sequence[str] = ()
    empty: Sequence[str] = ()

    @property
    def size(self) -> int:
        """About how many bytes it takes in the page."""
        return sum(part.size for part in self.slices) + 200

    def within(self, budget: int) -> ViewerCase:
        """Leave out the slices that are farthest from the first one, until it fits the budget."""
        kept, start = list(self.slices), self.start
        size = self.size
        while size > budget and len(kept) > 1:
            at = 0 if start > len(kept) - 1 - start else len(kept) - 1
            size -= kept.pop(at).size
            start -= at == 0
        return replace(self, slices=kept, start=start)


def within(cases: Sequence[ViewerCase], budget: int) -> list[ViewerCase]:
    """Return as many cases as fit a number of bytes: first slices are left out, then cases.

    Example:
        >>> case = ViewerCase("a", [Slice("x" * 1000)] * 3, start=1)
        >>> [len(kept.slices) for kept in within([case, case], 6000)]
        [2, 2]
        >>> [len(kept.slices) for kept in within([case, case], 2000)]
        [1]
    """
    if sum(case.size for case in cases) <= budget:
        return list(cases)
    kept: list[ViewerCase] = []
    for k, case in enumerate(cases):
        smaller = case.within(budget // (len(cases) - k))
        if kept and smaller.size > budget:
            break
        kept.append(smaller)
        budget -= smaller.size
    return kept


def rater_layers(raters: Sequence[str], shown: int = 8) -> list[Layer]:
    """Return the outlines of raters the colours and dashes that they have in all figures.

    Args:
        raters: All raters, in the order of the study.
        shown: How many are shown at the start.

    Example:
        >>> rater_layers(["ann", "bob"])[1].colour
        '#56b4e9'
    """
    colours, lines = rater_colours(raters), rater_lines(raters)
    return [
        Layer(name, colours[name], _dash(lines[name]), shown=k < shown)
        for k, name in enumerate(raters)
    ]


def extra_layers(names: Sequence[str]) -> list[Layer]:
    """Return further outlines (consensus, prediction, reference) white lines with a black edge.

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


def disagreement_map(shown: bool = False) -> MapLayer:
    """Return the legend of the map of disagreement that `viewer_case` makes."""
    return MapLayer(DISAGREEMENT, {"raters differ most": "#e040fb"}, shown)


def all_layers(cases: Sequence[ViewerCase], known: Sequence[Layer]) -> list[Layer]:
    """Return the known layers, and one for each further name of outlines in the cases."""
    names = dict.fromkeys(n for case in cases for part in case.slices for n in part.outlines)
    return [*known, *extra_layers([n for n in names if n not in {layer.name for layer in known}])]


def all_maps(cases: Sequence[ViewerCase], known: Sequence[MapLayer]) -> list[MapLayer]:
    """Return the known maps, and a plain one for each further name in the cases."""
    names = dict.fromkeys(n for case in cases for part in case.slices for n in part.maps)
    new = [n for n in names if n not in {layer.name for layer in known}]
    return [*known, *(disagreement_map() if n == DISAGREEMENT else MapLayer(n) for n in new)]


def _dash(line: object) -> str:
    """Turn a line style of matplotlib into dashes of SVG."""
    if not isinstance(line, tuple):
        return ""
    return " ".join(f"{2 * length:g}" for length in line[1])


def index_data(
    cases: Sequence[ViewerCase], layers: Sequence[Layer], maps: Sequence[MapLayer]
) -> Row:
    """Return what the script needs before any case is shown: layers, classes, maps, the list."""
    classes = dict.fromkeys(
        name
        for case in cases
        for part in case.slices
        for paths in part.outlines.values()
        for name in paths
    )
    return {
        "layers": [asdict(layer) for layer in layers],
        "classes": list(classes),
        "maps": [{**asdict(one), "legend": dict(one.legend)} for one in maps],
        "cases": [
            {"id": case.id, "facts": [(k, shown_value(v)) for k, v in case.facts.items()]}
            for case in cases
        ],
    }


def case_data(case: ViewerCase) -> Row:
    """Return what the script needs to show one case."""
    return {
        "shape": list(case.shape),
        "aspect": case.aspect,
        "start": case.start,
        "letters": list(case.letters),
        "empty": list(case.empty),
        "slices": [asdict(part) for part in case.slices],
    }
