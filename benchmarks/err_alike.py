"""Whether anything in images and labels tells who is right where most raters err alike.

    python benchmarks/err_alike.py DATA --out runs.jsonl [--seeds 3] [--train]

DATA holds mnist/ and mnist_noisy_seg/. Each row fuses the labels of drawn or real masks, each
column is another kind of raters (`raters_bench` and `em_starts.py`); Dice of all pixels with
the truth, of 240 images (80 noisy digits, 40 of twins). With --train a network learns from what was
fused of streaks, and Dice is that of 100 test images at 0.5 and at the best cut of held-out ones.

    vote, Dawid-Skene   pooled; the likeliest of several starts
    contexts            Dawid-Skene in each of some contexts, which images give and all cases share:
                        6 of brightness, 8 or 32 of brightness and edges. One class or two: BIC
    few errors          the mask with the least sum over raters of log(0.03 + error): a prior by
                        which some raters hardly ever err. Errors as a share of the pixels that
                        anybody marks, or of the object
    latent classes      as many as BIC says, of which those count as object that raters mark more
                        often than not
    (known map)         the same, but the truth says which of them are object
    (one reference)     Dawid-Skene's posterior, matrices counted on the first image with its truth
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude, gaussian_laplace
from sklearn.cluster import MiniBatchKMeans

from em_starts import twins
from learning import Row, Runs, arguments, dice_at_cuts, mean_and_spread, table, trained
from raters.metrics.overlap import dice
from raters.study.study import Study
from raters_bench.data import make_data

Numbers = NDArray[np.float64]
Masks = NDArray[np.bool_]

SIZES = {"images": 200, "val": 40, "test": 100}
DIGITS = {"source": "mnist-masks", "noise": 0.3, **SIZES}
TRAIN = {"epochs": 20, "batch_size": 16, "lr": 0.004, "width": 8, "augment": "none"}
"""As in the benchmark of streaks."""

KINDS: dict[str, tuple[Row, Row]] = {
    "streaks": ({"source": "streaks", **SIZES}, {}),
    "usual digits": (DIGITS, {"raters": "good,over,under,wrong,blank"}),
    "vote fails": (DIGITS, {"raters": "good,thicken,thin@0.4,fracture@0.6,blank"}),
    "noisy digits": ({"source": "public", "name": "noisy-mnist"}, {}),
}
"""Data and simulated raters; noisy digits and streaks have their own."""


class Drawn(NamedTuple):
    """Images `(cases, *space)`, masks `(cases, raters, *space)` and truth; all pixels in a row."""

    images: Numbers
    masks: Masks
    truth: Masks

    @property
    def codes(self) -> NDArray[np.intp]:
        """The number of the pattern of labels of each pixel."""
        bits = 1 << np.arange(self.masks.shape[1])
        return np.tensordot(self.masks, bits, axes=(1, 0)).ravel()

    @property
    def patterns(self) -> Numbers:
        """What each rater marks in each pattern, `(patterns, raters)`."""
        raters = self.masks.shape[1]
        return (np.arange(2**raters)[:, None] >> np.arange(raters) & 1).astype(float)


class Fitted(NamedTuple):
    """The log-likelihood, how often raters mark each class `(K, raters)`, and posteriors."""

    log_likelihood: float
    marks: Numbers
    posterior: Numbers


def em(counts: Numbers, patterns: Numbers, posterior: Numbers) -> Fitted:
    """Fit K classes in which raters mark independently; K = 2 is Dawid-Skene.

    Args:
        counts: How often each pattern occurs.
        patterns: The patterns `(patterns, raters)`.
        posterior: Where to start, `(patterns, K)`.
    """
    before = -np.inf
    for _ in range(300):
        weights = counts[:, None] * posterior
        marks = (weights.T @ patterns + 0.5) / (weights.sum(0)[:, None] + 1)
        share = (weights.sum(0) + 1e-9) / (counts.sum() + 1e-9)
        joint = np.log(share) + patterns @ np.log(marks.T) + (1 - patterns) @ np.log1p(-marks.T)
        each = np.logaddexp.reduce(joint, axis=1)
        posterior = np.exp(joint - each[:, None])
        now = float(counts @ each)
        if now - before < 1e-8 * abs(now):
            break
        before = now
    return Fitted(now, marks, posterior)


def starts(patterns: Numbers) -> Iterator[Numbers]:
    """Return the share of object to start from: vote, mean, union and each rater."""
    mean = patterns.mean(axis=1)
    yield from ((mean > 0.5).astype(float), mean, (mean > 0).astype(float), *patterns.T)


def two_classes(counts: Numbers, patterns: Numbers) -> Fitted:
    """Return the likeliest Dawid-Skene of several starts; class 1 is marked more often."""
    found = []
    for start in starts(patterns):
        object_ = 0.05 + 0.9 * start
        found.append(em(counts, patterns, np.stack([1 - object_, object_], axis=1)))
    best = max(found, key=lambda fitted: fitted.log_likelihood)
    order = best.marks.mean(axis=1).argsort()
    return Fitted(best.log_likelihood, best.marks[order], best.posterior[:, order])


def latent_classes(counts: Numbers, patterns: Numbers, classes: int) -> Fitted:
    """Return the likeliest K classes of 40 starts."""
    random = np.random.default_rng(0)
    often = np.argsort(-counts)[:12]
    found = []
    for _ in range(20):
        chosen = patterns[random.choice(often, classes, replace=False)]
        near = np.exp(-2 * np.abs(patterns[:, None] - chosen).sum(axis=2))
        found.append(em(counts, patterns, near / near.sum(axis=1, keepdims=True)))
        even = random.dirichlet(np.full(classes, 0.5), len(patterns))
        found.append(em(counts, patterns, even))
    return max(found, key=lambda fitted: fitted.log_likelihood)


def bic(fitted: Fitted, number: float) -> float:
    """Return the log-likelihood less what its free numbers cost."""
    classes, raters = fitted.marks.shape
    return fitted.log_likelihood - 0.5 * (classes * (raters + 1) - 1) * np.log(max(number, 1))


def count(codes: NDArray[np.intp], patterns: Numbers) -> Numbers:
    """Return how often each pattern occurs."""
    return np.bincount(codes, minlength=len(patterns)).astype(float)


def vote(drawn: Drawn) -> Masks:
    """Return what more than half of the raters mark."""
    return drawn.masks.mean(axis=1).ravel() > 0.5


def dawid_skene(drawn: Drawn) -> Masks:
    """Return what pooled Dawid-Skene takes for object."""
    fitted = two_classes(count(drawn.codes, drawn.patterns), drawn.patterns)
    return fitted.posterior[drawn.codes, 1] > 0.5


def brightness(images: Numbers) -> Numbers:
    """Return the smoothed brightness of each pixel, `(pixels, 1)`."""
    return np.stack([gaussian_filter(image, 1.5) for image in images]).reshape(-1, 1)


def appearance(images: Numbers) -> Numbers:
    """Return brightness at three scales and edges, each of unit spread, `(pixels, 6)`."""
    looks: list[Callable[[Numbers], Numbers]] = [
        *(lambda image, s=s: gaussian_filter(image, s) for s in (0.7, 1.5, 3)),
        lambda image: gaussian_gradient_magnitude(image, 1),
        *(lambda image, s=s: gaussian_laplace(image, s) for s in (1, 2)),
    ]
    found = np.stack([[look(image).ravel() for look in looks] for image in images])
    pixels = np.moveaxis(found, 1, 2).reshape(-1, len(looks))
    return pixels / pixels.std(axis=0)


def contexts(drawn: Drawn, look: Callable[[Numbers], Numbers], number: int) -> Masks:
    """Fit Dawid-Skene in each context; where one class is enough, what most raters say."""
    features = look(drawn.images)
    patterns = drawn.patterns
    codes = drawn.codes
    # Rare appearances count as much as frequent ones: objects are small.
    random = np.random.default_rng(0)
    _, cell, often = np.unique(
        (2 * features / features.std(axis=0)).round(),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    weights = often[cell.ravel()] ** -0.5
    some = random.choice(len(features), 20_000, p=weights / weights.sum())
    means = MiniBatchKMeans(number, random_state=0, n_init=1, max_iter=50).fit(features[some])
    context = means.predict(features)
    fused = np.zeros(len(codes), bool)
    for k in range(number):
        here = context == k
        counts = count(codes[here], patterns)
        one = em(counts, patterns, np.ones((len(patterns), 1)))
        two = two_classes(counts, patterns)
        split = bic(two, counts.sum()) > bic(one, counts.sum())
        fused[here] = two.posterior[codes[here], 1] > 0.5 if split else one.marks.mean() > 0.5
    return fused


def few_errors(drawn: Drawn, of_object: bool) -> Masks:
    """Minimise the sum of log errors: each vote weighs raters by their errors at the last one."""
    patterns = drawn.patterns
    counts = count(drawn.codes, drawn.patterns)
    found = []
    for start in starts(patterns):
        object_ = start > 0.5
        for _ in range(50):
            wrong = counts @ np.abs(patterns - object_[:, None])
            among = object_ if of_object else patterns.any(axis=1)
            error = 0.03 + wrong / max(counts @ among, 1)
            before = object_
            object_ = patterns @ (1 / error) > 0.5 * (1 / error).sum()
            if (before == object_).all():
                break
        found.append((np.log(error).sum(), object_))
    return min(found, key=lambda one: one[0])[1][drawn.codes]


def best_latent_classes(drawn: Drawn) -> Fitted:
    """Return as many classes as BIC says, two at least."""
    counts = count(drawn.codes, drawn.patterns)
    fits = [latent_classes(counts, drawn.patterns, classes) for classes in (2, 3, 4, 5)]
    return max(fits, key=lambda fitted: bic(fitted, counts.sum()))


def voted_classes(drawn: Drawn) -> Masks:
    """Map latent classes by what most raters say of them."""
    fitted = best_latent_classes(drawn)
    return fitted.posterior[drawn.codes] @ (fitted.marks.mean(axis=1) > 0.5) > 0.5


def known_map(drawn: Drawn) -> Masks:
    """Map latent classes as fits the truth best."""
    fitted = best_latent_classes(drawn)
    posterior = fitted.posterior[drawn.codes]
    truth = drawn.truth.ravel()
    guesses = [posterior @ np.array(m) > 0.5 for m in product((0, 1), repeat=len(fitted.marks))]
    return max(guesses, key=lambda guess: float(dice(guess, truth)[0]))


def one_reference(drawn: Drawn) -> Masks:
    """Take the matrices and the share of object from the first image and its truth."""
    first = Drawn(drawn.images[:1], drawn.masks[:1], drawn.truth[:1])
    truth = first.truth.ravel()
    patterns = drawn.patterns
    labels = patterns[first.codes]
    marks = [(labels[part].sum(axis=0) + 0.5) / (part.sum() + 1) for part in (~truth, truth)]
    joint = [patterns @ np.log(rate) + (1 - patterns) @ np.log1p(-rate) for rate in marks]
    odds = joint[1] - joint[0] + np.log(truth.mean() / (1 - truth.mean()))
    return odds[drawn.codes] > 0


WAYS: dict[str, Callable[[Drawn], Masks]] = {
    "vote": vote,
    "Dawid-Skene": dawid_skene,
    "contexts of brightness, 6": lambda drawn: contexts(drawn, brightness, 6),
    "contexts of appearance, 8": lambda drawn: contexts(drawn, appearance, 8),
    "contexts of appearance, 32": lambda drawn: contexts(drawn, appearance, 32),
    "few errors, per pixel": lambda drawn: few_errors(drawn, of_object=False),
    "few errors, per object": lambda drawn: few_errors(drawn, of_object=True),
    "latent classes": voted_classes,
    "(known map)": known_map,
    "(one reference)": one_reference,
}
TRAINED = ("contexts of brightness, 6", "(one reference)")


def opened(kind: str, seed: int, data: Path) -> Study:
    """Return the study of a kind of raters."""
    places = {"": data, "noisy-mnist": data / "mnist_noisy_seg"}
    return make_data(*KINDS[kind], seed, places).study


def before_test(study: Study) -> Study:
    """Return the cases to train on and those held out."""
    return study.select(cases=[str(name) for name in study.index.ids[study.index.splits != "test"]])


def pictures(study: Study) -> Drawn:
    """Return all images, masks and references of a study."""
    cases = list(study.iter_cases())
    images = np.stack([np.asarray(case.image, float)[0] for case in cases])
    masks = np.stack([case.labels for case in cases]) == 1
    return Drawn(images, masks, np.stack([case.reference for case in cases]) == 1)


def fused_dice(kind: str, way: str, seed: int, data: Path) -> Row:
    """Return the Dice of what is fused, over all pixels."""
    if kind == "twins":
        masks, truth = twins(seed)
        drawn = Drawn(np.zeros(truth.shape), masks == 1, truth == 1)
    else:
        drawn = pictures(before_test(opened(kind, seed, data)))
    return {"dice": float(dice(WAYS[way](drawn), drawn.truth.ravel())[0])}


def network_dice(kind: str, way: str, seed: int, data: Path) -> Row:
    """Return the Dice on test images of a network that learns from what was fused."""
    study = opened(kind, seed, data)
    seen = before_test(study)
    drawn = pictures(seen)
    masks = WAYS[way](drawn).reshape(drawn.truth.shape)
    target = Study.from_arrays(
        images=drawn.images[:, None].astype(np.float32),
        labels=masks[:, None].astype(np.int8),
        reference=drawn.truth.astype(np.int8),
        splits=seen.index.splits,
    )
    model = trained(target, "vote", seed=seed, select="likelihood", **TRAIN)
    return dice_at_cuts(model, target.select(split="val"), study.select(split="test"))


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__, "the folder with mnist/ and mnist_noisy_seg/")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--train", action="store_true", help="a network on what is fused, too")
    chosen = parser.parse_args()
    runs = Runs(chosen.out)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    fused = [(kind, way) for kind in (*KINDS, "twins") for way in ways_of(kind)]
    show(runs, "fused", fused, seeds, partial(fused_dice, data=chosen.data))
    if chosen.train:
        learnt = [("streaks", way) for way in TRAINED]
        show(runs, "network", learnt, seeds, partial(network_dice, data=chosen.data))


def ways_of(kind: str) -> Iterator[str]:
    """Return the rows of a kind of raters; twins have no images."""
    yield from (way for way in WAYS if kind != "twins" or "contexts" not in way)


def show(
    runs: Runs,
    what: str,
    cells: Sequence[tuple[str, str]],
    seeds: Sequence[int],
    measure: Callable[[str, str, int], Row],
) -> None:
    """Measure what is missing, and print the table."""
    shown = {}
    kinds, ways = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    for kind, seed, way in product(kinds, seeds, ways):  # data of one seed are read once
        if (kind, way) in cells:
            key = {"what": what, "kind": kind, "way": way, "seed": seed}
            row = runs.once(key, partial(measure, kind, way, seed))
            shown.setdefault((kind, way), []).append(row)
    lines = [[way, *(_cell(shown.get((kind, way), [])) for kind in kinds)] for way in ways]
    print("\n" + table([what, *kinds], lines) + "\n")


def _cell(rows: Sequence[Row]) -> str:
    cuts = [cut for cut in ("dice", "dice_best") if rows and cut in rows[0]]
    return " / ".join(mean_and_spread([row[cut] for row in rows]) for cut in cuts)


if __name__ == "__main__":
    main()
