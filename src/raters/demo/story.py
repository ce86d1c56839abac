"""The two stories of the demo as data: what is drawn, by whom, and the commands that follow."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

MASKS = "masks/{rater}/{split}/{case}.png"
FILES = (MASKS, "--images", "images/{split}/{case}.png", "--reference", "truth/{split}/{case}.png")
FUSED = ("vote", "staple", "spatial-staple")
BASE, OURS, CEILING = "vote", "pixel-cm", "truth"
TRAINED = (BASE, OURS, CEILING)
"""Networks of the story: labels as they are, labels by raters who err, and what can be reached."""

REPORT = "report/report.html"
PARTS = ("images", "masks", "truth", "study", "fused", "runs", "scores", "report")
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
        seed: Randomness of the data.
    """

    kind: str
    raters: str
    train: int
    test: int
    shape: tuple[int, int]
    noise: float
    training: tuple[str, ...]
    seed: int = 0


LESIONS = Story(
    kind="lesions",
    raters="careful=good,generous=over@0.6,thin=thin@0.35,broken=fracture@0.5,absent=blank",
    train=300,
    test=60,
    shape=(64, 64),
    noise=0.0,
    training=("--epochs", "16", "--width", "8", "--lr", "0.004"),
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
        raters report runs/pixel-cm --against runs/vote -o report
    """
    test = ("--split", "test")
    found = [
        Step("What is there?", ("check", *FILES)),
        Step("Convert it to one folder that opens at once.", ("import", *FILES, "-o", "study")),
        Step("Who agrees with whom, where all five labelled?", ("agree", "study", *test)),
    ]
    why = "Fuse the five labels of each test image, and compare with the truth."
    for method in FUSED:
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
    written = ("report", f"runs/{OURS}", *against[:2], "-o", "report")
    found.append(Step("Write all of it into one report.", written))
    return found


def line(arguments: tuple[str, ...]) -> str:
    r"""Return a command as a user would type it.

    Example:
        >>> line(("agree", "my study", "--images", "{case}.png"))
        'raters agree \'my study\' --images "{case}.png"'
    """
    return " ".join(["raters", *(f'"{a}"' if "{" in a else shlex.quote(a) for a in arguments)])
