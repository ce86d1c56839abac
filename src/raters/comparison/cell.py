"""A cell: one method in one setting with one seed, and the JSON file of its result.

Results are files of their own and no lines of a journal (`raters.io.results`), so that several
processes and machines can write them side by side.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.core.wording import first_difference
from raters.io.paths import read_text, written_whole
from raters.io.rows import Row, to_json
from raters.learning.methods.registry import METHODS

FORMAT = "raters-bench-cell 1"
"""The number is raised when cells are computed in another way."""

ANNOTATORS = "annotators"
"""The method of a cell that trains nothing: the raters' own labels are scored."""


def slug(text: str) -> str:
    """Return a name as part of a file's name.

    Example:
        >>> slug("pixel-cm, paper's form"), slug("")
        ('pixel-cm-paper-s-form', 'default')
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "default"


@dataclass(frozen=True)
class Cell:
    """One training with all that its numbers depend on.

    Attributes:
        benchmark: The name of the specification that has it.
        scale: The name of the scale.
        setting: The name of the setting.
        row: The name of the row.
        seed: All randomness.
        method: The learning method, or 'annotators'.
        options: Options of the method.
        data: A source and its options.
        raters: Options of the simulation.
        train: Options of the training.
        matrices: Whose matrices are scored.
    """

    benchmark: str
    scale: str
    setting: str
    row: str
    seed: int
    method: str
    options: Mapping[str, Any]
    data: Mapping[str, Any]
    raters: Mapping[str, Any]
    train: Mapping[str, Any]
    matrices: str = "model"

    @property
    def name(self) -> str:
        """The cell as people call it."""
        return ", ".join(filter(None, (self.row, self.setting, f"seed {self.seed}")))

    def path(self, folder: Path) -> Path:
        """Return where its result lies below a folder of results."""
        place = folder / self.benchmark / self.scale / slug(self.setting)
        return place / f"{slug(self.row)}-{self.seed}.json"

    def asked(self) -> Row:
        """Return all that the numbers depend on, as JSON has it."""
        names = ("seed", "method", "options", "data", "raters", "train", "matrices")
        found: Row = json.loads(to_json({name: getattr(self, name) for name in names}))
        return found


def why_empty(method: str | None) -> str:
    """Return why a row cannot have results: '' if it can.

    Example:
        >>> why_empty("vote"), why_empty(None), why_empty("telepathy"), why_empty("diag")
        ('', 'published only', 'not in raters yet', 'not for data without diagnoses')
    """
    if method is None:
        return "published only"
    if method in METHODS and METHODS[method].needs == "diagnoses":
        return "not for data without diagnoses"  # studies of cells have none
    return "" if method in METHODS or method == ANNOTATORS else "not in raters yet"


def refuse_options(cells: list[Cell]) -> None:
    """Reject options that a method or the training does not take, before anything is trained."""
    from raters.learning.training.options import checked_options

    for cell in cells:
        if cell.method == ANNOTATORS:
            continue
        try:
            checked_options(cell.method, {**cell.train, **cell.options, "seed": cell.seed})
        except RatersError as error:
            raise RatersError(f"{cell.benchmark}, row {cell.row!r}: {error}") from None


ScoreCell = Callable[[Cell, Path], Row]
"""Trains and scores a cell; beside its result, at the path, it may keep what is predicted."""


def run_cell(cell: Cell, folder: Path, score: ScoreCell) -> Path:
    """Train and score a cell, and write its result whole or not at all.

    Args:
        cell: The cell.
        folder: The folder of results.
        score: Trains and scores it.

    Returns:
        The path of the result.

    Example:
        >>> import tempfile
        >>> cell = Cell("try", "smoke", "", "vote", 0, "vote", {}, {}, {}, {})
        >>> path = run_cell(cell, Path(tempfile.mkdtemp()), lambda cell, _: {"accuracy": 0.5})
        >>> read_result(path).scores
        {'accuracy': 0.5}
    """
    reset_peak()
    started = time.perf_counter()
    used = time.process_time()
    path = cell.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    scores = score(cell, path.with_suffix(".npz"))
    content: Row = {
        "format": FORMAT,
        "cell": {k: getattr(cell, k) for k in ("benchmark", "scale", "setting", "row", "seed")},
        "asked": cell.asked(),
        "scores": scores,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "peak_memory_mb": peak_memory(),
        "versions": versions(),
    }
    with written_whole(path) as file:
        file.write(to_json({**content, "checksum": checksum(content)}) + "\n")
    return path


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    import platform
    from importlib.metadata import version

    from raters.version import __version__

    names = ("torch", "numpy", "monai", "lightning")
    return {"raters": __version__, "python": platform.python_version()} | {
        name: version(name) for name in names
    }


def checksum(content: Mapping[str, Any]) -> str:
    """Return a checksum of a result, by which it is seen that it was edited."""
    plain = json.loads(to_json(content))
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """What a cell found.

    Attributes:
        cell: Benchmark, scale, setting, row and seed.
        asked: All that the numbers depend on.
        scores: By name; cuts and the like beside them.
        seconds: How long it took, by the clock.
        peak_memory_mb: The most memory that its process held; None where it is not known.
        versions: Of raters and what it runs on.
        cpu_seconds: How long it took of one core; None if it was not measured.
    """

    cell: Row
    asked: Row
    scores: Row
    seconds: float
    peak_memory_mb: float | None
    versions: dict[str, str]
    cpu_seconds: float | None = None

    @property
    def core_seconds(self) -> float:
        """How long it took of one core; on a busy machine the clock says more."""
        return self.seconds if self.cpu_seconds is None else self.cpu_seconds


def read_result(path: Path) -> Result:
    """Read the result of a cell.

    Raises:
        RatersError: The file is no result, was edited, or is of another version.
    """
    try:
        content = json.loads(read_text(path))
        form = content["format"]
        told = content.pop("checksum")
        rest = {k: v for k, v in content.items() if k != "format"}
    except RatersError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"cannot be read ({type(error).__name__}), expected a result of raters bench"
        raise RatersError(why, kind="unreadable", file=path) from None
    if form != FORMAT:
        message = f"found the format {form!r}, expected {FORMAT!r}: run the cell again"
        raise RatersError(message, kind="other-version", file=path)
    if checksum(content) != told:
        raise RatersError(
            "found other content than was written (its checksum differs), expected a result that "
            "nobody edited: remove the file and run the cell again",
            kind="edited",
            file=path,
        )
    try:
        return Result(**rest)
    except TypeError:  # parts that are missing, or new
        message = f"found the parts {', '.join(rest)}, expected those of {FORMAT!r}"
        raise RatersError(message, kind="other-version", file=path) from None


def result_of(cell: Cell, folder: Path) -> Result | None:
    """Return the result of a cell; None if there is none.

    Raises:
        RatersError: The file was edited, or is of another version of the benchmark.
    """
    path = cell.path(folder)
    if not path.exists():
        return None
    result = read_result(path)
    asked = cell.asked()
    if result.asked != asked:
        raise RatersError(
            f"is of another version of the benchmark ({first_difference(result.asked, asked)}), "
            "expected the same: --again runs such cells again",
            kind="other-version",
            file=path,
        )
    return result


_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Forget the peak so far; where the system cannot, the peak is that of the whole process."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak_memory() -> float:
    """Return the peak in MB since `reset_peak`.

    Example:
        >>> reset_peak()
        >>> peak_memory() > 1
        True
    """
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    import resource  # Windows has none

    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
