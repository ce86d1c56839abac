"""The stories of the demo as data: what is drawn, the commands that follow, the results."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.io.rows import Row, interval

MASKS = "masks/{rater}/{split}/{case}.png"
FILES = (MASKS, "--images", "images/{split}/{case}.png", "--reference", "truth/{split}/{case}.png")
FUSED = ("vote", "staple", "spatial-staple")
BASE = "vote"
SHOWN = "staple"
"""The fusion whose report the demo ends with."""
OURS = "pixel-cm"
CEILING = "truth"
TRAINED = (BASE, OURS, CEILING)
"""Networks of the story: labels as they are, labels by raters who err, and what can be reached."""

REPORT = "report/report.html"
NETWORKS_REPORT = "report-networks/report.html"
PARTS = (
    *("images", "masks", "truth", "study", "fused", "runs", "scores"),
    *("report", "report-networks"),
)
"""The folders that the demo writes."""


@dataclass(frozen=True)
class Story:
    """What the demo draws and how it trains.

    Attributes:
        kind: 'lesions' (drawn) or 'digits' (MNIST).
        raters: Who draws, as `raters simulate --raters` has it.
        train: Images with one label each.
        test: Images that all raters label.
        shape: The shape of a drawn image.
        noise: The standard deviation of the noise that is added, for images from 0 to 1.
        training: Options of `raters train`, the same for all methods.
        takes: How long all of it takes, on two cores.
        fused: How the labels of test images are fused.
        one_thread: Compute with one thread: on small images several only wait for each other.
        seed: Randomness of the data.
    """

    kind: str
    raters: str
    train: int
    test: int
    shape: tuple[int, int]
    noise: float
    training: tuple[str, ...]
    takes: str
    fused: tuple[str, ...] = FUSED
    one_thread: bool = False
    seed: int = 0


LESIONS = Story(
    kind="lesions",
    raters="careful=good,generous=over@0.6,thin=thin@0.35,broken=fracture@0.5,absent=blank",
    train=300,
    test=60,
    shape=(64, 64),
    noise=0.0,
    training=("--epochs", "16", "--width", "8", "--lr", "0.004"),
    takes="about three minutes",
)
QUICK = replace(
    LESIONS,
    # Severities that give about the mean Dice above: to search for them takes longer than to draw.
    raters="careful=good:0.43,generous=over:2.2,thin=thin:1.1,broken=fracture:20,absent=blank",
    train=100,
    test=30,
    shape=(48, 48),
    # Chosen on the seeds 1 and 2, so that the network on the labels as they are stays ten points
    # below the one on the truth at its best cut too.
    training=("--epochs", "20", "--width", "8", "--lr", "0.006", "--batch-size", "8"),
    takes="about a minute",
    fused=("vote", "staple"),
    one_thread=True,
)
DIGITS = Story(
    kind="digits",
    raters="careful=good,thick=thicken,thin=thin@0.4,broken=fracture@0.6,absent=blank",
    train=1500,
    test=100,
    shape=(28, 28),
    noise=0.3,
    # Digits are no longer digits when they are flipped.
    training=(
        *("--epochs", "12", "--width", "8", "--lr", "0.004"),
        *("--batch-size", "32", "--augment", "none"),
    ),
    takes="some minutes",
)


@dataclass(frozen=True)
class Step:
    """One command of the demo.

    Attributes:
        why: What the command is for; '' if the one before says it.
        arguments: The words after `raters`.
        run: The run folder that it trains, '' for other verbs.
    """

    why: str
    arguments: tuple[str, ...]
    run: str = ""


_WHY = {
    BASE: "Train on one label per image, as it is; the epoch is chosen by raters' labels too.",
    OURS: "The same, but also learn how each rater errs.",
    CEILING: "What could be reached: the same network, trained on the truth.",
}


def steps(story: Story) -> list[Step]:
    """Return the commands of a story, in order; they run in the folder of the demo.

    Example:
        >>> print(line(steps(LESIONS)[-1].arguments))
        raters report fused/staple -o report
    """
    test = ("--split", "test")
    found = [
        Step("What is there?", ("check", *FILES)),
        Step("Convert it to one folder that opens at once.", ("import", *FILES, "-o", "study")),
        Step("Who agrees with whom, where all five labelled?", ("agree", "study", *test)),
    ]
    why = "Fuse the five labels of each test image, and compare with the truth."
    for method in story.fused:
        out = f"fused/{method}"
        found.append(Step(why, ("fuse", "study", *test, "-m", method, "-o", out)))
        masks = f"{out}/{{split}}/{{case}}.png"
        found.append(Step("", ("evaluate", masks, "study", *test, "-o", f"scores/{method}")))
        why = ""
    for method in TRAINED:
        run = f"runs/{method}"
        asked = ("train", "study", "-m", method, "-o", run, *story.training)
        found.append(Step(_WHY[method], (*asked, "--select", "likelihood"), run))
    against = ("--against", f"runs/{BASE}", "--against", f"runs/{CEILING}")
    compared = ("evaluate", f"runs/{OURS}", "study", *test, *against, "-o", "scores/runs")
    found.append(Step("Compare the networks on the test images.", compared))
    networks = ("report", f"runs/{OURS}", *against[:2], "-o", "report-networks")
    found.append(Step("Write what the network learnt into a report.", networks))
    why = "And what the raters drew, with the fused labels and the vote against the truth."
    found.append(Step(why, ("report", f"fused/{SHOWN}", "-o", "report")))
    return found


def refuse_without_training() -> None:
    """Report at once, and not after minutes, that the parts for training are not installed."""
    absent = [name for name in ("torch", "lightning", "monai") if find_spec(name) is None]
    if absent:
        raise RatersError(
            f"found no {absent[0]}, expected it for training: pip install 'raters[train]'; "
            "raters demo --draw needs none"
        )


def line(arguments: tuple[str, ...]) -> str:
    r"""Return a command as a user would type it.

    Example:
        >>> line(("agree", "my study", "--images", "{case}.png"))
        'raters agree \'my study\' --images "{case}.png"'
    """
    return " ".join(["raters", *(f'"{a}"' if "{" in a else shlex.quote(a) for a in arguments)])


NETWORKS = {
    BASE: "network on one label per image, as it is (vote)",
    OURS: "network on one label per image, pixel-cm",
    CEILING: "network on the truth of each image",
}
"""What the rows of networks are called."""

BEST = "at best cut"
AREA = "at area cut"
LAST_WORDS = (
    "Labels are the more likely the nearer to 0. The reports show what each rater drew, what "
    "the network expects of them, and which images to look at first."
)


def results(folder: Path, fused: tuple[str, ...] = FUSED) -> list[Row]:
    """Return Dice against the truth on the test images: of fused labels, and of networks.

    Networks are cut at 0.5, at the cut that is best on held-out images with a reference, and at
    the cut where as much is predicted as raters draw; fused labels have no cut.

    Args:
        folder: Where `scores/` of the demo is.
        fused: How labels were fused.
    """
    rows: list[Row] = []
    for method in fused:
        summary = _read(folder / f"scores/{method}/evaluation.json")["summary"]
        found = next(row for row in summary if row["against"] == "reference")
        rows.append(_row(f"{method} of five labels", found, "dice"))
    compared = _read(folder / "scores/runs/comparison.json")["rows"]
    by_run = {Path(row["run"]).name: row for row in compared}
    for name in TRAINED:
        cuts = {BEST: by_run[name].get("score_best"), AREA: by_run[name].get("score_area")}
        rows.append(_row(NETWORKS[name], by_run[name], "score") | cuts)
    return rows


def rater_rows(folder: Path) -> list[Row]:
    """Return what the network that learns how raters err knows of each, on the test images.

    Dice of a rater's masks with the truth that it predicts says how far the rater is from it; the
    log-likelihood of a label under 'as this rater would' and under 'as another one would' (their
    mean) says whether it knows who draws how: the first is then nearer to 0.

    Args:
        folder: Where `scores/` of the demo is.
    """
    runs = _read(folder / "scores/runs/comparison.json")["runs"]
    found = next(run for run in runs if run["run"] == OURS)
    truth = {row["against"]: row["dice"] for row in found["summary"]}
    return [
        {
            "labels of": row["rater"],
            "Dice, predicted truth": truth.get(row["rater"]),
            "log-likelihood as this rater": row["log_likelihood"],
            "as another one": row["log_likelihood_of_others"],
        }
        for row in found["raters"]
    ]


def gain(folder: Path) -> tuple[float, float, float] | None:
    """Return how much more pixel-cm has than the vote, each at its best cut, with its interval.

    None where there are too few images for an interval.

    Args:
        folder: Where `scores/` of the demo is.
    """
    for row in _read(folder / "scores/runs/comparison.json")["differences"]:
        if Path(row["run"]).name != BASE or row["score"] != "score_best":
            continue
        ends = [row[name] for name in ("difference", "difference_high", "difference_low")]
        if None not in ends:
            more, low, high = (-end for end in ends)
            return more, low, high
    return None


def sentence(rows: list[Row], at_best: tuple[float, float, float] | None = None) -> str:
    """Return what the table shows, whatever that is.

    Args:
        rows: What `results` gives.
        at_best: What `gain` gives.

    Example:
        >>> dice = {"vote": (0.5, 0.7), "pixel-cm": (0.75, 0.73), "truth": (0.8, 0.8)}
        >>> rows = [{"": NETWORKS[k], "Dice": half, BEST: best} for k, (half, best) in dice.items()]
        >>> print(sentence(rows, (0.03, -0.01, 0.07)))
        With one label per image there is nothing to vote about. A network that takes the labels as
        they are has a Dice of 0.500, one that also learns how each rater errs (pixel-cm) 0.750.
        That is with masks cut at 0.5. Each at the cut that is best on held-out images with a
        reference, they have 0.700 and 0.730 (+0.030, 95 % -0.010 to +0.070): at these cuts no gain
        is shown. Trained on the truth it is 0.800.
    """
    base, ours, ceiling = (
        next(row for row in rows if row[""] == NETWORKS[name]) for name in TRAINED
    )
    text = (
        "With one label per image there is nothing to vote about. A network that takes the labels "
        f"as they are has a Dice of {base['Dice']:.3f}, one that also learns how each rater errs "
        f"({OURS}) {ours['Dice']:.3f}."
    )
    if base.get(BEST) is not None and ours.get(BEST) is not None:
        text += (
            " That is with masks cut at 0.5. Each at the cut that is best on held-out images with "
            f"a reference, they have {base[BEST]:.3f} and {ours[BEST]:.3f}{_gained(at_best)}."
        )
    return f"{text} Trained on the truth it is {ceiling['Dice']:.3f}."


def _gained(at_best: tuple[float, float, float] | None) -> str:
    """Return the difference at the best cuts, and plainly whether it is one."""
    if at_best is None:
        return ""
    more, low, high = at_best
    if low > 0:
        said = "a gain that is left at these cuts"
    elif high < 0:
        said = "at these cuts the vote is ahead"
    else:
        said = "at these cuts no gain is shown"
    return f" ({more:+.3f}, 95 % {low:+.3f} to {high:+.3f}): {said}"


def _row(name: str, found: Row, score: str) -> Row:
    return {"": name, "Dice": found[score], "95 %": interval(found, score)}


def _read(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8"))
