"""The four raters of global-cm's CIFAR-10 experiments, right 45 % of the time on average."""

from __future__ import annotations

import numpy as np

from raters.simulate.classes import Matrix, hammer_spammer

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

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
