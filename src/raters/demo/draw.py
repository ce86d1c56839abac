"""Draws data: that of a story (one label per training image), and a small study for the docs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.progress import track
from raters.demo.story import PARTS, Story
from raters.io import formats
from raters.io.claim import Owner, check_folder, claim_folder
from raters.io.paths import refuse_file, written_whole
from raters.simulation.phantoms import phantom_study
from raters.simulation.shape import generator
from raters.simulation.specs import parse_raters
from raters.simulation.study import simulate
from raters.study.case import Case
from raters.study.places import Inputs
from raters.study.read import read
from raters.study.study import Study
from raters.study.write import import_study

CASES = 24
RATERS = "careful=good@0.95,generous=over@0.8,hasty=under@0.75"
SHARES = (1.0, 1.0, 0.75)
"""'hasty' leaves out every fourth case."""


def draw_study(folder: Path, seed: int = 0) -> None:
    """Write images, true masks, and masks by three raters, as a user's folders would have them.

    'careful' errs a little, 'generous' draws too much, 'hasty' draws too little and leaves out
    some cases. `study/` holds the same as `raters import` writes it, split into train and test.
    Called again, what is there is left as it is.

    Raises:
        RatersError: The folder holds other files.
    """
    owner = Owner(f"demo --draw, seed {seed}", "one of the same demo: raters demo --draw -o NEW")
    check_folder(folder, owner)
    truth = phantom_study("lesions", CASES, (128, 128), seed)
    study = simulate(truth, RATERS, assign=SHARES, seed=seed)
    images: dict[str, Array] = {}
    labels: dict[str, Array] = {}
    for case in study.iter_cases():
        assert case.image is not None and case.reference is not None  # phantoms have both
        images[f"images/{case.id}.png"] = np.rint(case.image * 255).astype(np.uint8)
        labels[f"truth/{case.id}.png"] = case.reference * 255
        for rater, mask in zip(study.raters, case.labels, strict=True):
            if (mask != MISSING).any():
                labels[f"masks/{rater}/{case.id}.png"] = mask * 255

    claim_folder(folder, owner, [*images, *labels])
    for name, picture in images.items():
        if not (folder / name).exists():
            formats.write_image(folder / name, picture)
    for name, mask in labels.items():
        if not (folder / name).exists():
            formats.write_labels(folder / name, mask)
    drawn = read(
        f"{folder}/masks/{{rater}}/{{case}}.png",
        images=f"{folder}/images/{{case}}.png",
        reference=f"{folder}/truth/{{case}}.png",
    )
    import_study(drawn.split(seed=0, train=0.7, test=0.3), folder / "study")


READ_ME = "README.txt"


def drawn_before(story: Story, folder: Path) -> bool:
    """Return whether the folder is this story's already.

    Raises:
        RatersError: It holds something else.
    """
    note = folder / READ_ME
    if note.exists() and note.read_text(encoding="utf-8", errors="replace") == _text(story):
        return True
    refuse_file(folder)
    first = next((path.name for path in sorted(folder.glob("*"))), None)
    if first is not None:
        raise RatersError(
            f"found other files ({first}), expected a new folder or one of the same demo: "
            "raters demo -o NEW",
            kind="exists",
            file=folder,
        )
    return False


def _text(story: Story) -> str:
    what = (
        "drawn lesions in textured images" if story.kind == "lesions" else "noisy digits of MNIST"
    )
    return (
        f"Written by raters demo: {what}, {story.shape[0]} x {story.shape[1]}, seed {story.seed}.\n"
        f"{story.train} training images with one label each, by one of five raters at random,\n"
        f"{story.test} test images with a label by each rater.\n"
        f"Raters, as raters simulate --raters has them: {story.raters}\n\n"
        "images/, masks/, truth/: what was drawn     study/: the same, imported\n"
        "fused/: consensus of test images            runs/: trained networks\n"
        "scores/: all scores                         report/report.html: to look at first\n"
        "report-networks/report.html: what the network learnt\n"
    )


DARKEST = -0.9
BRIGHTEST = 1.9
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
        with written_whole(folder / READ_ME) as file:  # what it holds, and that it is this story's
            file.write(_text(story))
    plan = _plan(story)
    files = [_files(story, folder, k, split, who) for k, (split, who) in enumerate(plan)]
    left = [k for k, paths in enumerate(files) if not all(path.exists() for path in paths)]
    if not left:
        return 0
    truth = _truth(story, folder, mnist, progress)
    study = simulate(truth, story.raters, seed=story.seed)
    alone = {rater: study.select(raters=[rater]) for rater in study.raters}
    for k in track(left, len(left), "drawing", progress):
        split, who = plan[k]
        # A drawn study draws only the raters that are asked for.
        case = study[k] if len(who) > 1 else alone[who[0]][k]
        _write(story, folder, case, k, split, who)
    return len(left)


def _plan(story: Story) -> list[tuple[str, list[str]]]:
    """Return for each image in which split it is and who labels it."""
    from raters.simulation.specs import assign

    names = [spec.name for spec in parse_raters(story.raters)]
    given = assign(story.train, names, "one", generator(story.seed, "assign"))
    train = [("train", [names[int(row.argmax())]]) for row in given]
    return train + [("test", names)] * story.test


def _files(story: Story, folder: Path, k: int, split: str, who: list[str]) -> list[Path]:
    parts = [*(f"masks/{rater}" for rater in who), "truth", "images"]
    return [folder / part / split / f"{story.kind}{k:04d}.png" for part in parts]


def _write(story: Story, folder: Path, case: Case, k: int, split: str, who: list[str]) -> None:
    assert case.image is not None and case.reference is not None  # both stories have both
    *masks, truth, image = _files(story, folder, k, split, who)
    for path, labels in zip(masks, case.labels, strict=True):
        formats.write_labels(path, labels * 255)
    formats.write_labels(truth, case.reference * 255)
    formats.write_image(image, _noisy(story, case.image, k))


def _noisy(story: Story, image: Array, k: int) -> NDArray[np.uint8]:
    """Add the story's noise and give 8 bits."""
    if not story.noise:
        return np.asarray(np.rint(image * 255), np.uint8)
    noise = generator(story.seed, "noise", str(k)).normal(0, story.noise, image.shape)
    cut = (image / 255 + noise - DARKEST) / (BRIGHTEST - DARKEST)
    return np.asarray(np.rint(cut.clip(0, 1) * 255), np.uint8)


def _truth(story: Story, folder: Path, mnist: str, progress: bool) -> Study:
    number = story.train + story.test
    if story.kind == "lesions":
        return phantom_study("lesions", number, story.shape, story.seed)
    digits = mnist if mnist else fetched_digits(folder / "mnist", progress)
    whole = _digits(digits)
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
            fetch(item, folder, progress=progress)
    except RatersError as error:
        hint = "if you have MNIST's files, name their folder: raters demo --digits MNIST_FOLDER"
        raise RatersError(f"{error}; {hint}", kind="download") from None
    return folder
