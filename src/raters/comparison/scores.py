"""What comparisons of methods score: names, titles, units, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """A score as tables show it.

    Attributes:
        title: The head of its column.
        factor: What values are multiplied by when shown (100: percent).
        digits: Digits behind the point.
        higher: Whether higher is better.
        cuts: Its twins at the other cuts, which are shown beside it.
    """

    title: str
    factor: float = 100.0
    digits: int = 1
    higher: bool = True
    cuts: tuple[str, ...] = ()


SCORES: dict[str, Score] = {
    "dice": Score("Dice, at 0.5", cuts=("dice_best", "dice_area")),
    "dice_best": Score("Dice, best cut"),
    "dice_area": Score("Dice, area cut"),
    "soft_dice": Score("soft Dice with the mean label"),
    "soft_dice_truth": Score("soft Dice with the truth"),
    **{
        f"soft_dice_rec{k}": Score(f"of recurrence {k}, soft Dice with the truth") for k in range(4)
    },
    "soft_dice_fused": Score("fused labels, soft Dice with the truth"),
    "soft_dice_unseen": Score("fused without labels, soft Dice with the truth"),
    "miou": Score("mIoU"),
    "miou_background": Score("mIoU, with background"),
    "accuracy": Score("accuracy"),
    "error": Score("error of the matrices", 1.0, 3, higher=False),
    "frobenius": Score("error of the matrices, squared Frobenius / L x 100", higher=False),
    "likelihood": Score("log-likelihood of raters' labels", 1.0, 4),
    "left_out": Score("log-likelihood of a left-out rater", 1.0, 4),
    "likelihood_counted": Score("of raters' labels, counted matrices", 1.0, 4),
    "left_out_counted": Score("of a left-out rater, counted matrices", 1.0, 4),
    "stability": Score("agreement of seeds"),
    "cross_entropy": Score("cross entropy with the mean label", 1.0, 4, higher=False),
    "ged": Score("generalized energy distance (V form, 1 - IoU)", 1.0, 3, higher=False),
    "matched_dice": Score("matched Dice of samples"),
    "ece": Score("calibration error", higher=False),
    "as_rater": Score("'as A' with the labels of A"),
    "as_rater_better": Score("log-likelihood of A's labels, 'as A' minus 'as others'", 1.0, 4),
}
"""The scores by name. Dice is always given at three cuts: at 0.5, at the cut that is best on
validation cases, and at the cut where the predicted area is the raters' mean area."""


def columns(scores: tuple[str, ...]) -> list[str]:
    """Return the scores with their twins at the other cuts.

    Example:
        >>> columns(("dice", "error"))
        ['dice', 'dice_best', 'dice_area', 'error']
    """
    return [name for score in scores for name in (score, *SCORES[score].cuts)]


def signed(value: float, score: str) -> str:
    """Return a difference with its sign; what is rounded to zero has none.

    Example:
        >>> signed(1.25, "error"), signed(-0.01, "dice")
        ('+1.250', '0.0')
    """
    text = f"{value:+.{SCORES[score].digits}f}"
    return text if float(text) else text[1:]
