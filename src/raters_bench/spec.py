"""What a benchmark is: one small YAML file that says what is trained on what, and what is scored.

    title: Digits in noise by five raters, all labels
    paper: "Zhang et al. (2020), Table 1, MNIST"
    data: {source: mnist-masks, images: 1500, noise: 0.3}     # see raters_bench.data.SOURCES
    raters: {raters: "good,over,under,wrong,blank"}           # as raters.simulate; none: real ones
    train: {epochs: 20, width: 8}                             # as raters.fit, for all rows alike
    scores: [dice, error]                                     # see raters.comparison.scores.SCORES
    baseline: vote                                            # the row that others are compared to
    settings:                                                 # columns; parts are merged into above
      all labels: {raters: {assign: all}}
      one label: {raters: {assign: one}}
    rows:
      vote: {method: vote, published: {all labels: {dice: 62.89}}}
      pixel-cm: {method: pixel-cm, options: {prior: 0.3}, published: {all labels: {dice: 82.92}}}
    claims:
      - {says: "ahead of the vote", check: ["dice: pixel-cm @ all labels > vote @ all labels"]}
    scales:
      smoke: {data: {source: drawn-masks, images: 24}, train: {epochs: 1}, seeds: [0]}
      laptop: {seeds: [0, 1, 2]}
      paper: {data: {images: 48000}, train: {epochs: 200}, seeds: [0, 1, 2]}

A scale is merged last; one that names another `source` replaces the data as a whole.

Tables and figures of one paper share trainings. So a file may show the cells of another one, and
then only selects and claims:

    title: Digits in noise, five labels per image
    paper: "Zhang et al. (2020), Table 1, MNIST"
    cells: pixel-cm-digits                                    # whose cells these are
    scores: [dice, error]
    settings: [usual raters, vote fails]                      # of those there, in this order
    rows: [vote, pixel-cm]                                    # by default all
    scales: {smoke: {settings: [usual raters]}}               # fewer of them at a scale
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field, model_validator

from raters.comparison.cell import slug
from raters.comparison.scores import SCORES
from raters.core.errors import RatersError, one_of, placed
from raters.core.validation import Validated
from raters.core.wording import expected_one_of
from raters.io.paths import read_text
from raters.io.plain_yaml import read_plain_yaml

SCALES = ("smoke", "laptop", "paper")
FOLDER = Path(__file__).parent / "specs"
T = TypeVar("T")
Options = dict[str, Any]
ScaleName = Literal["smoke", "laptop", "paper"]


class _Part(Validated):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BenchRow(_Part):
    """One row of a table: a method with options, or published values alone.

    Attributes:
        method: A learning method, or 'annotators'; None for a row that stays published-only. A
            method that raters does not have (yet) is a row without results that says so.
        options: Options of the method.
        published: Values that the paper prints, by setting and score, in the units shown.
        note: What a reader must know of the row; by setting where it is true of some only.
        settings: The settings that it is run in; by default all.
        seeds: At most so many of the scale's seeds.
        matrices: Whose matrices are scored: the model's, or those of its fusion of validation
            cases.
    """

    method: str | None = None
    options: Options = Field(default_factory=dict)
    published: dict[str, dict[str, float]] = Field(default_factory=dict)
    note: str | dict[str, str] = ""
    settings: tuple[str, ...] | None = None
    seeds: int | None = Field(default=None, ge=1)
    matrices: Literal["model", "fusion"] = "model"

    def note_in(self, setting: str) -> str:
        """Return what a reader must know of the row in a setting."""
        return self.note if isinstance(self.note, str) else self.note.get(setting, "")

    @property
    def named_settings(self) -> list[str]:
        """All settings that the row names anywhere."""
        noted = () if isinstance(self.note, str) else self.note
        return [*(self.settings or ()), *self.published, *noted]

    def within(self, settings: Collection[str]) -> BenchRow:
        """Return the row with what it says of some settings only."""

        def kept(said: Mapping[str, T]) -> dict[str, T]:
            return {setting: said[setting] for setting in said if setting in settings}

        note = self.note if isinstance(self.note, str) else kept(self.note)
        own = {"published": kept(self.published), "note": note}
        return self.model_copy(update={**own, "settings": _kept(self.settings, settings)})


class Setting(_Part):
    """One column (or group of columns) of a table: what differs in the data or the training.

    Attributes:
        data: Merged into the data.
        raters: Merged into the raters.
        train: Merged into the training.
        note: What a reader must know of it.
    """

    data: Options = Field(default_factory=dict)
    raters: Options = Field(default_factory=dict)
    train: Options = Field(default_factory=dict)
    note: str = ""


class Selection(_Part):
    """What is run at a scale; by default all, of a view what the benchmark behind it runs."""

    settings: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None


class Scale(Selection):
    """How large a benchmark is run.

    Attributes:
        data: Merged into the data, or in place of it if it names a source.
        raters: Merged into the raters.
        train: Merged into the training.
        seeds: The seeds.
    """

    data: Options = Field(default_factory=dict)
    raters: Options = Field(default_factory=dict)
    train: Options = Field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)


class Claim(_Part):
    """What a paper's text claims, and the comparisons that answer it.

    Attributes:
        says: The claim, in our words, with where it stands.
        check: Comparisons as `raters_bench.claims` reads them; all must hold.
    """

    says: str
    check: tuple[str, ...] = ()


class _Shown(_Part):
    """What a benchmark says and shows, of cells of its own or of another.

    Attributes:
        cells: The benchmark whose cells it shows; '' for its own.
        title: What is compared, in a line.
        paper: What of which paper it repeats; '' for none.
        about: A paragraph for its page: the data, the raters, what the paper leaves open.
        chosen: On what data and seeds options were chosen.
        finding: A paragraph for its page: what was reproduced, what not, and why.
        scores: What is shown, by name.
        baseline: The row that others are compared with.
        order_only: Whether published values can only be compared by their order.
        axis: What the settings' numbers mean, where they are the points of a curve.
        claims: What the paper's text claims.
    """

    cells: str = ""
    title: str
    paper: str = ""
    about: str = ""
    chosen: str = ""
    finding: str = ""
    scores: tuple[str, ...]
    baseline: str = ""
    order_only: bool = False
    axis: str = ""
    claims: tuple[Claim, ...] = ()


class Specification(_Shown):
    """A benchmark; the module shows one.

    Attributes:
        name: The name of its file.
        data: A source of images with references or raters, and its options.
        raters: Options of `raters.simulate`; empty for data with raters of their own.
        train: Options of training, for all rows alike.
        settings: By name.
        rows: By name.
        scales: By name.
    """

    name: str = ""
    data: Options
    raters: Options = Field(default_factory=dict)
    train: Options = Field(default_factory=dict)
    settings: dict[str, Setting] = Field(default_factory=lambda: {"": Setting()})
    rows: dict[str, BenchRow]
    scales: dict[ScaleName, Scale]

    @model_validator(mode="after")
    def _names_exist(self) -> Specification:
        if "source" not in self.data:
            raise RatersError("found data without a source, expected data: {source: NAME, ...}")
        for what, used, known in self._used():
            for name in used:
                one_of(known, name, f"the {what}")
        for what, names in (("row", self.rows), ("setting", self.settings)):
            files: dict[str, str] = {}
            for name in names:
                other = files.setdefault(slug(name), name)
                if other != name:
                    raise RatersError(
                        f"found the {what}s {other!r} and {name!r}, expected names that differ in "
                        f"letters or digits: results of both would be at {slug(name)!r}"
                    )
        for scale, size in self.scales.items():
            if len(set(size.seeds)) < len(size.seeds):
                raise RatersError(
                    f"found the seeds {list(size.seeds)} of {scale}, expected each once"
                )
        return self

    def _used(self) -> list[tuple[str, list[str], list[str]]]:
        rows = list(self.rows)
        settings = list(self.settings)
        scales = self.scales.values()
        printed: list[str] = []
        for row in self.rows.values():
            for published in row.published.values():
                printed += published
        return [
            ("baseline", [self.baseline] if self.baseline else [], rows),
            ("score", [*self.scores, *printed], list(SCORES)),
            ("setting", [s for scale in scales for s in scale.settings or ()], settings),
            ("setting", [s for row in self.rows.values() for s in row.named_settings], settings),
            ("row", [r for scale in scales for r in scale.rows or ()], rows),
        ]

    def scale(self, name: str) -> Scale:
        """Return a scale by name.

        Raises:
            RatersError: that lists those there are.
        """
        if name not in self.scales:
            known = expected_one_of(self.scales, name)
            raise RatersError(f"found the scale {name!r} for {self.name}, {known}")
        return self.scales[name]

    def with_seeds(self, scale: str, seeds: tuple[int, ...]) -> Specification:
        """Return the benchmark with other seeds at a scale; none leaves those of the scale."""
        size = self.scale(scale)
        if not seeds:
            return self
        other = size.model_copy(update={"seeds": seeds})
        return self.model_copy(update={"scales": {**self.scales, scale: other}})


def merged(spec: Specification, setting: str, scale: str) -> dict[str, Options]:
    """Return data, raters and training of a setting at a scale.

    Example:
        >>> spec = Specification(
        ...     title="t", data={"source": "mnist", "images": 9}, scores=["accuracy"],
        ...     settings={"one": {"raters": {"assign": "one"}}}, rows={"vote": {"method": "vote"}},
        ...     scales={"smoke": {"data": {"source": "drawn-classes"}, "train": {"epochs": 1}}})
        >>> merged(spec, "one", "smoke")
        {'data': {'source': 'drawn-classes'}, 'raters': {'assign': 'one'}, 'train': {'epochs': 1}}
    """
    own = spec.settings[setting]
    last = spec.scale(scale)
    data = {**spec.data, **own.data, **last.data}
    return {
        "data": dict(last.data) if "source" in last.data else data,
        "raters": {**spec.raters, **own.raters, **last.raters},
        "train": {**spec.train, **own.train, **last.train},
    }


class View(_Shown, Selection):
    """A benchmark that shows cells of another: a table or figure with claims of its own.

    Attributes:
        cells: The benchmark that has the cells.
        settings: The settings that are shown; by default all.
        rows: The rows that are shown; by default all.
        scales: Fewer of them at a scale.

    Data, raters, training and published values are of the benchmark that has the cells. A scale at
    which it runs nothing of the view is none of its own.
    """

    cells: str
    scales: dict[ScaleName, Selection] = Field(default_factory=dict)

    def of(self, whole: Specification, name: str) -> Specification:
        """Return the selected part of a benchmark, with the words of this one.

        Raises:
            RatersError: that names a row or setting that is not there.
        """
        settings = _selected("setting", self.settings, whole.settings)
        rows = {
            key: row.within(settings)
            for key, row in _selected("row", self.rows, whole.rows).items()
        }
        scales = {}
        for scale, size in whole.scales.items():
            own = self.scales.get(scale, Selection())
            chosen = {
                "settings": own.settings or _kept(size.settings, settings),
                "rows": own.rows or _kept(size.rows, rows),
            }
            if () not in chosen.values():
                scales[scale] = size.model_copy(update=chosen)
        words = {key: getattr(self, key) for key in View.model_fields}
        parts = {"settings": settings, "rows": rows, "scales": scales}
        found = whole.model_copy(update={**words, **parts, "name": name})
        return Specification.model_validate(found.model_dump())


def _selected(what: str, names: tuple[str, ...] | None, known: dict[str, T]) -> dict[str, T]:
    return {name: known[one_of(known, name, f"the {what}")] for name in names or known}


def _kept(names: tuple[str, ...] | None, known: Collection[str]) -> tuple[str, ...] | None:
    return None if names is None else tuple(name for name in names if name in known)


@cache
def builtin() -> Mapping[str, Path]:
    """Return the specifications that come along, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def read_spec(name: str | Path) -> Specification:
    """Read a specification that comes along, or a YAML file.

    Raises:
        RatersError: that names the file and the key, or lists the names.

    Example:
        >>> read_spec("no-such-thing")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found the benchmark 'no-such-thing', expected ...
    """
    known = builtin()
    path = known.get(str(name), Path(name))
    if path.suffix not in (".yaml", ".yml"):
        hint = expected_one_of(known, str(name))
        message = f"found the benchmark {str(name)!r}, {hint}; or a file NAME.yaml"
        raise RatersError(message, kind="unknown-benchmark")
    with placed(file=path):
        if not _is_view(path):
            whole = read_plain_yaml(path, Specification, "raters-bench")
            return whole.model_copy(update={"name": path.stem})
        view = read_plain_yaml(path, View, "raters-bench")
        whole = read_spec(view.cells)
        if whole.cells:
            raise RatersError(
                f"found the cells of {view.cells!r}, expected {whole.cells!r}: it has none itself"
            )
        return view.of(whole, path.stem)


def _is_view(path: Path) -> bool:
    try:
        return re.search(r"^cells:", read_text(path), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False  # who reads it next says what is wrong
