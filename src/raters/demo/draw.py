"""Draws the data of a story: one label for each training image, all raters' for test images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.demo.folder import claim, drawn_before
from raters.demo.story import PARTS, Story
from raters.errors import RatersError
from raters.progress import track
from raters.simulate.noise import generator
from raters.simulate.specs import parse_raters
from raters.study import formats
from raters.study.places import Inputs

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

DARKEST, BRIGHTEST = -0.9, 1.9
"""Noisy images from 0 to 1 are cut here: three standard deviations of the digits' noise."""


def draw_story(story: Story, folder: Path, mnist: str = "", progress: bool = False) -> int:
    """Write images, truth and raters' masks; what is there already is left as it is.

    Args:
        story: What to draw.
        folder: A new folder, or one that this story was drawn into before.
        mnist: The folder of MNIST's files for digits; '' fetches them into the folder.
        progress: Show a progress bar.

    Returns:
        How many images were drawn; 0 if all were there.

    Raises:
        RatersError: The folder holds something else.
    """
    for part in PARTS:
        Inputs.named(mnist).refuse(folder / part)
    if not drawn_before(story, folder):
        if mnist:
            _digits(mnist)  # what is wrong with it is said before anything is written
        claim(story, folder)
    plan = _plan(story)
    left = [k for k, (split, who) in enumerate(plan) if not _there(story, folder, k, split, who)]
    if not left:
        return 0
    study = _simulated(story, folder, mnist, progress)
    alone = {rater: study.select(raters=[rater]) for rater in study.raters}
    for k in track(left, len(left), "drawing", progress):
        split, who = plan[k]
        # A drawn study draws only the raters that are asked for.
        case = study[k] if len(who) > 1 else alone[who[0]][k]
        _write(story, folder, case, k, split, who)
    return len(left)


def _plan(story: Story) -> list[tuple[str, list[str]]]:
    """Return for each image in which split it is and who labels it."""
    from raters.simulate.assign import assign

    names = [spec.name for spec in parse_raters(story.raters)]
    given = assign(story.train, len(names), "one", generator(story.seed, "assign"))
    train = [("train", [names[int(row.argmax())]]) for row in given]
    return train + [("test", names)] * story.test


def _file(story: Story, k: int) -> str:
    return f"{story.kind}{k:04d}.png"


def _files(story: Story, folder: Path, k: int, split: str, who: list[str]) -> list[Path]:
    parts = [*(f"masks/{rater}" for rater in who), "truth", "images"]
    return [folder / part / split / _file(story, k) for part in parts]


def _there(story: Story, folder: Path, k: int, split: str, who: list[str]) -> bool:
    return all(path.exists() for path in _files(story, folder, k, split, who))


def _write(story: Story, folder: Path, case: Case, k: int, split: str, who: list[str]) -> None:
    assert case.image is not None and case.reference is not None  # both stories have both
    *masks, truth, image = _files(story, folder, k, split, who)
    for path, labels in zip(masks, case.labels, strict=True):
        formats.write_labels(path, labels * 255)
    formats.write_labels(truth, case.reference * 255)
    formats.write_image(image, _noisy(story, case.image, k))


def _noisy(story: Story, image: NDArray[Any], k: int) -> NDArray[np.uint8]:
    """Add the story's noise and give 8 bits."""
    if not story.noise:
        return np.asarray(np.rint(image * 255), np.uint8)
    noise = generator(story.seed, "noise", str(k)).normal(0, story.noise, image.shape)
    cut = (image / 255 + noise - DARKEST) / (BRIGHTEST - DARKEST)
    return np.asarray(np.rint(cut.clip(0, 1) * 255), np.uint8)


def _simulated(story: Story, folder: Path, mnist: str, progress: bool) -> Study:
    from raters.simulate.study import simulate

    return simulate(_truth(story, folder, mnist, progress), story.raters, seed=story.seed)


def _truth(story: Story, folder: Path, mnist: str, progress: bool) -> Study:
    number = story.train + story.test
    if story.kind == "lesions":
        from raters.simulate.phantoms import phantom_study

        return phantom_study("lesions", number, story.shape, story.seed)
    whole = _digits(mnist or fetched_digits(folder / "mnist", progress))
    order = generator(story.seed, "digits").permutation(len(whole))[:number]
    return whole.select(cases=[str(whole.index.ids[k]) for k in sorted(order)])


def _digits(source: str | Path) -> Study:
    from raters.datasets import open_dataset

    return open_dataset("mnist-masks", source)


def fetched_digits(folder: Path, progress: bool) -> Path:
    """Fetch MNIST's files; those that are there are left as they are.

    Raises:
        RatersError: that says how to give the folder instead.
    """
    from raters.datasets import fetch, find

    try:
        for item in find("mnist-masks").downloads:
            fetch(item, folder, progress)
    except RatersError as error:
        hint = "if you have MNIST's files, name their folder: raters demo --digits MNIST_FOLDER"
        raise RatersError(f"{error}; {hint}", kind="download") from None
    return folder
