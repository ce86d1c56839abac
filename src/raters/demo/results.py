"""The tables at the end of the demo, from the files that `raters evaluate` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raters.demo.story import BASE, CEILING, FUSED, OURS, TRAINED
from raters.rows import Row

NETWORKS = {
    BASE: "network on one label per image, as it is (vote)",
    OURS: "network on one label per image, pixel-cm",
    CEILING: "network on the truth of each image",
}
"""What the rows of networks are called."""

BEST, AREA = "at best cut", "at area cut"


def results(folder: Path) -> list[Row]:
    """Return Dice against the truth on the test images: of fused labels, and of networks.

    Networks are cut at 0.5, at the cut that is best on held-out images with a reference, and at
    the cut where as much is predicted as raters draw; fused labels have no cut.

    Args:
        folder: Where `scores/` of the demo is.
    """
    rows: list[Row] = []
    for method in FUSED:
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


def sentence(rows: list[Row]) -> str:
    """Return what the table shows, whatever that is.

    Example:
        >>> dice = {"vote": (0.5, 0.7), "pixel-cm": (0.75, 0.73), "truth": (0.8, 0.8)}
        >>> rows = [{"": NETWORKS[k], "Dice": half, BEST: best} for k, (half, best) in dice.items()]
        >>> print(sentence(rows))
        With one label per image there is nothing to vote about. A network that takes the labels as
        they are has a Dice of 0.500, one that also learns how each rater errs (pixel-cm) 0.750.
        That is with masks cut at 0.5. Each at the cut that is best on held-out images with a
        reference, they have 0.700 and 0.730 (+0.030). Trained on the truth it is 0.800.
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
            f"a reference, they have {base[BEST]:.3f} and {ours[BEST]:.3f} "
            f"({ours[BEST] - base[BEST]:+.3f})."
        )
    return f"{text} Trained on the truth it is {ceiling['Dice']:.3f}."


def _row(name: str, found: Row, score: str) -> Row:
    low, high = found.get(f"{score}_low"), found.get(f"{score}_high")
    ends = None if low is None else f"{low:.3f} to {high:.3f}"
    return {"": name, "Dice": found[score], "95 %": ends}


def _read(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8"))
