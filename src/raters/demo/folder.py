"""The folder of a demo: a note says which story it holds; folders of others are rejected."""

from __future__ import annotations

from pathlib import Path

from raters.demo.story import Story
from raters.errors import RatersError
from raters.study.paths import written_whole

READ_ME = "README.txt"


def drawn_before(story: Story, folder: Path) -> bool:
    """Return whether the folder is this story's already.

    Raises:
        RatersError: It holds something else.
    """
    note = folder / READ_ME
    if note.exists() and note.read_text(encoding="utf-8", errors="replace") == _text(story):
        return True
    if folder.exists() and not folder.is_dir():
        raise RatersError("found a file, expected a folder to write the demo to", file=folder)
    first = next((path.name for path in sorted(folder.glob("*"))), None)
    if first is not None:
        raise RatersError(
            f"found other files ({first}), expected a new folder or one of the same demo: "
            "raters demo -o NEW",
            kind="exists",
            file=folder,
        )
    return False


def claim(story: Story, folder: Path) -> None:
    """Write the note that says what the folder holds, and marks it as this story's."""
    with written_whole(folder / READ_ME) as file:
        file.write(_text(story))


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
        "scores/: all scores                         report/report.html: to look at\n"
    )
