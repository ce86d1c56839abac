"""Raters who give class labels by a confusion matrix: `C[t, o] = p(says o | true t)`.

The kinds are those of global-cm: R. Tanno, A. Saeedi, S. Sankaranarayanan, D. C. Alexander,
N. Silberman: Learning from noisy labels by regularized estimation of annotator confusion.
CVPR 2019, section 3.1 and appendix B.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics.confusion.matrices import dominance_margin, is_dominant

CIFAR_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

_SIMILAR = ((0, 8), (1, 9), (2, 6), (3, 5), (4, 7))
_RIGHT = 0.6


def cifar_raters() -> dict[str, Matrix]:
    """Return the matrices of four raters over the classes of CIFAR-10, in its order.

    global-cm shows its matrices as a picture only (Fig. 2); these follow its words. The first
    three are right with probability 0.6, the fourth never: 0.45 on average, exactly.

    - hammer-spammer: errs on each of the other nine classes alike.
    - similar: takes a class for the one like it: airplane and ship, automobile and truck,
      bird and frog, cat and dog, deer and horse.
    - neighbours: takes a class for the one before or after it in the list (0.2 each; the first
      and the last class have one neighbour, 0.4).
    - adversary: has learnt the names wrongly, each is five further in the list: says dog for
      airplane, frog for automobile, and so on.

    The mean matrix is column-dominant.

    Example:
        >>> raters = cifar_raters()
        >>> [round(float(np.trace(matrix)) / 10, 3) for matrix in raters.values()]
        [0.6, 0.6, 0.6, 0.0]
        >>> float(raters["similar"][CIFAR_CLASSES.index("cat"), CIFAR_CLASSES.index("dog")])
        0.4
    """
    same = np.eye(10)
    similar = np.zeros((10, 10))
    for a, b in _SIMILAR:
        similar[a, b] = similar[b, a] = 1
    beside = np.eye(10, k=1) + np.eye(10, k=-1)
    beside /= beside.sum(axis=1, keepdims=True)
    return {
        "hammer-spammer": hammer_spammer(_RIGHT, 10, guess="other"),
        "similar": _RIGHT * same + (1 - _RIGHT) * similar,
        "neighbours": _RIGHT * same + (1 - _RIGHT) * beside,
        "adversary": np.roll(same, 5, axis=1),
    }


Matrix = Floats
SPREAD = 0.01
"""The standard deviation of skills in a group (global-cm, appendix B)."""


def pairwise_flipper(p: float, num_classes: int, rng: np.random.Generator) -> Matrix:
    """Return the matrix of a rater who is right with probability `p`, else flips.

    Each class has one other class that it is flipped to, chosen uniformly at random:
    `C[t, t] = p`, `C[t, f(t)] = 1 - p`.

    Example:
        >>> pairwise_flipper(0.75, 2, np.random.default_rng(0))
        array([[0.75, 0.25],
               [0.25, 0.75]])
    """
    _refuse(p, num_classes)
    true = np.arange(num_classes)
    flipped = (true + rng.integers(1, num_classes, num_classes)) % num_classes
    matrix = np.zeros((num_classes, num_classes))
    matrix[true, flipped] = 1 - p
    matrix[true, true] = p
    return matrix


def hammer_spammer(
    p: float,
    num_classes: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001
    guess: Literal["any", "other"] = "any",
) -> Matrix:
    """Return the matrix of a rater who knows with probability `p`, else guesses uniformly.

    The paper's text lets the guess fall on any label, the right one too:
    `C = p I + (1 - p) / L`, so that `p + (1 - p) / L` are right. The caption of its Fig. 8 says
    that the diagonal itself is `p`; that is `guess="other"`.

    Args:
        p: The skill.
        num_classes: The number of classes L.
        rng: Not used: this kind has no other randomness; all kinds are called alike.
        guess: 'any' label, or any 'other' than the right one.

    Example:
        >>> hammer_spammer(0.5, 2)
        array([[0.75, 0.25],
               [0.25, 0.75]])
        >>> hammer_spammer(0.5, 2, guess="other")
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """
    _refuse(p, num_classes)
    same = np.eye(num_classes)
    others = np.full((num_classes, num_classes), 1 / num_classes)
    if guess == "other":
        others = (1 - same) / (num_classes - 1)
    return np.asarray(p * same + (1 - p) * others)


Kind = Callable[[float, int, np.random.Generator], Matrix]

KINDS: dict[str, Kind] = {"pairwise-flipper": pairwise_flipper, "hammer-spammer": hammer_spammer}
"""Kinds of raters by name; a new one is a function of skill, number of classes and randomness."""


def skilled(
    kind: Kind, p: float, num_classes: int, rng: np.random.Generator, spread: float
) -> Matrix:
    """Draw one rater of a group: the skill is `p` plus noise of that spread, within 0 and 1."""
    return kind(float(np.clip(p + rng.normal(0, spread), 0, 1)), num_classes, rng)


def group(
    kind: Kind,
    p: float,
    num_classes: int,
    rng: np.random.Generator,
    raters: int = 5,
    spread: float = SPREAD,
    *,
    require_dominance: bool = False,
    tries: int = 1000,
) -> Matrix:
    """Draw a group of raters of one kind around a mean skill.

    Args:
        kind: `pairwise_flipper`, `hammer_spammer` or the like.
        p: The mean skill.
        num_classes: The number of classes L.
        rng: Randomness.
        raters: The number of raters R.
        spread: The standard deviation of their skills.
        require_dominance: Draw again until the mean matrix is column-dominant, the condition
            under which truth and confusion can be told apart.
        tries: How often to draw.

    Returns:
        Matrices `(R, L, L)`.

    Example:
        >>> group(pairwise_flipper, 0.6, 10, np.random.default_rng(0)).shape
        (5, 10, 10)
    """

    def draw(attempt: int) -> Matrix:  # noqa: ARG001
        return np.stack([skilled(kind, p, num_classes, rng, spread) for _ in range(raters)])

    return dominant(draw, tries) if require_dominance else draw(0)


def dominant(draw: Callable[[int], Matrix], tries: int = 1000) -> Matrix:
    """Draw matrices `(R, L, L)` until their mean is column-dominant.

    Args:
        draw: Draws matrices; it is given the number of the attempt.
        tries: How often to draw.

    Raises:
        RatersError: with the best margin that was found.
    """
    best = -np.inf
    for attempt in range(tries):
        matrices = draw(attempt)
        if is_dominant(matrices):
            return matrices
        best = max(best, dominance_margin(matrices))
    raise RatersError(
        f"found no column-dominant group in {tries} draws (the best margin is {best:.3f}), "
        "expected C*[i, i] > C*[j, i] in the mean matrix: take more skilled or more raters",
        kind="dominance",
    )


def draw_labels(truth: NDArray[np.integer], confusions: Matrix, rng: np.random.Generator) -> Labels:
    """Draw what each rater says of each case.

    Args:
        truth: True classes `(N,)`; MISSING gives MISSING.
        confusions: `(R, L, L)`, `C[t, o]`.
        rng: Randomness.

    Returns:
        Labels `(N, R)`.

    Example:
        >>> draw_labels(np.array([0, 1, -1]), np.eye(2)[None], np.random.default_rng(0))
        array([[ 0],
               [ 1],
               [-1]], dtype=int16)
    """
    return labels_at(truth, confusions, rng.random((len(truth), len(confusions))))


def labels_at(truth: NDArray[np.integer], confusions: Matrix, uniform: Matrix) -> Labels:
    """Invert the cumulative rows of the matrices at uniform numbers `(N, R)` below 1."""
    labels = np.full(uniform.shape, MISSING, np.int16)
    cases_of = [(t, np.flatnonzero(truth == t)) for t in np.unique(truth) if t != MISSING]
    for r, matrix in enumerate(confusions):
        steps = np.cumsum(matrix, axis=1)
        steps /= steps[:, -1:]  # the last step is 1 exactly, above every number
        for t, cases in cases_of:
            labels[cases, r] = np.searchsorted(steps[t], uniform[cases, r], side="right")
    return labels


def _refuse(p: float, num_classes: int) -> None:
    if not 0 <= p <= 1:
        raise RatersError(f"found the skill {p}, expected a probability from 0 to 1")
    if num_classes < 2:
        raise RatersError(f"found {num_classes} class, expected at least 2 to confuse")
