"""Whether a choice of method without truth is worth something: simulated studies, drawn beforehand.

    OMP_NUM_THREADS=1 python benchmarks/advice.py --out rows.jsonl    # resumes; --until 13:25 stops
    python benchmarks/advice.py --out rows.jsonl --keep benchmarks/results/advice.jsonl

The recipe was fixed before any outcome was seen. Study k (k = 0, 1, ..., 39) is drawn from seed k;
even ones are masks, odd ones class labels. Studies are run in this order; the table is of all that
are finished when the time that was set is up, 24 at least.

Masks: lesions, disc-cup or vessels, 32, 40 or 48 pixels a side, 60 to 150 images, 3 to 6 raters. A
rater is 'good' (severity 0.3 to 0.8) with probability 0.3, else one of ten other kinds (severity
0.5 to 2.5 pixels; 'blank' 0.2 to 1). All raters label every image, or one random rater does, with
probability one half each.

Class labels: 2 to 6 classes, 200 to 600 tasks of 16 features (clouds of unit variance around
centres of standard deviation 0.4 to 1.2), 3 to 15 raters, 1 to 5 answers for each task. A rater
is a hammer-spammer, a pairwise flipper, one who prefers a class, or one whose skill depends on the
class; skills are 0.3 to 0.95.

Methods: vote, mean, staple (dawid-skene for class labels), global-cm, pixel-cm, with the same small
budget, in 2 folds with one seed. No method sees a reference. By truth: Dice of 60 fresh images at
the cut that is best on 30 other fresh images; accuracy on 1,000 fresh tasks; the mean over folds.

Criteria, each of which chooses the method with the highest value, the first in the list if equal:
    likelihood_counted   held-out likelihood of all labels together, with counted matrices for all
                         methods alike (the primary one)
    left_out_counted     likewise, of a left-out rater given the others
    likelihood, left_out the same with the matrices that a method learns, if it does
    likelihood_targets, left_out_targets     the same with the matrices that models have: those of
                         methods that learn none are counted against the targets of the training
    ranks                the mean rank by likelihood and left_out
    guarded              by left_out, of methods with diagonally dominant matrices, if the
                         difference from vote is above 0 (95 % interval over 20 blocks of
                         held-out cases); else vote
    guarded_counted      the same by likelihood_counted

Advice is worth giving if the mean regret (best by truth minus chosen by criterion, in points) of
the primary criterion is below that of always taking vote, with a 95 % interval (paired bootstrap
over studies) below 0; one of the other eight needs an interval of 1 - 0.05 / 8 for that.
How matrices are counted was settled on studies 900 and 901, which are not among the forty.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from raters.learning.training.model import Model
    from raters.study.study import Study

Floats = NDArray[np.float64]
Row = dict[str, Any]

STUDIES = 40
FOLDS = 2
BLOCKS = 10
TUNED = 30
TESTED = 60
TASKS = 1000
METHODS = {
    "masks": ("vote", "mean", "staple", "global-cm", "pixel-cm"),
    "classes": ("vote", "mean", "dawid-skene", "global-cm", "pixel-cm"),
}
BUDGET = {
    "masks": {"epochs": 20, "width": 8, "depth": 3, "batch_size": 8, "lr": 0.004},
    "classes": {"epochs": 20},
}
OTHERS = (
    "over",
    "under",
    "wrong",
    "blank",
    "shift",
    "smooth",
    "jitter",
    "miss-small",
    "left-right",
    "fracture",
)
FORMS = ("own", "counted", "targets")
TRUTHS = {"truth": "the best cut", "area": "the area cut", "half": "0.5"}
VOTE = "always vote"
KEPT = Path(__file__).parent / "results" / "advice.jsonl"
"""What is kept of each study; `docs/make_tables.py` makes the tables of it."""
POINT = 1.0


class Drawn(NamedTuple):
    """A study to choose a method on, and fresh cases with the truth."""

    kind: str
    study: Study
    fresh: Study
    about: str


def draw(seed: int) -> Drawn:
    """Draw a study by the recipe above."""
    random = np.random.default_rng(seed)
    return draw_masks(seed, random) if seed % 2 == 0 else draw_classes(random)


def draw_masks(seed: int, random: np.random.Generator) -> Drawn:
    """Draw a study of masks."""
    from raters.simulation import phantom_study, simulate
    from raters.study.study import Study

    what = str(random.choice(["lesions", "disc-cup", "vessels"]))
    side = int(random.choice([32, 40, 48]))
    images = int(random.integers(60, 151))
    raters = ",".join(_mask_rater(random) for _ in range(random.integers(3, 7)))
    assign = "all" if random.random() < 0.5 else "one"
    whole = phantom_study(what, images + TUNED + TESTED, (side, side), seed)
    cases = list(whole.iter_cases())
    pictures, truth = (np.stack([getattr(c, n) for c in cases]) for n in ("image", "reference"))
    known = Study.from_arrays(
        images=pictures[:images], reference=truth[:images], classes=whole.classes
    )
    labels = [case.labels for case in simulate(known, raters, assign=assign, seed=seed)]
    study = Study.from_arrays(images=pictures[:images], labels=labels, classes=whole.classes)
    fresh = Study.from_arrays(
        images=pictures[images:], reference=truth[images:], classes=whole.classes
    )
    return Drawn("masks", study, fresh, f"{what} {side}, {images} images, {raters}, {assign}")


def _mask_rater(random: np.random.Generator) -> str:
    if random.random() < 0.3:
        return f"good:{random.uniform(0.3, 0.8):.2f}"
    kind = str(random.choice(OTHERS))
    if kind == "blank":
        low = 0.2
        high = 1.0
    else:
        low = 0.5
        high = 2.5
    return f"{kind}:{random.uniform(low, high):.2f}"


def draw_classes(random: np.random.Generator) -> Drawn:
    """Draw a study of class labels."""
    from raters.study.study import Study

    classes = int(random.integers(2, 7))
    tasks = int(random.integers(200, 601))
    spread = random.uniform(0.4, 1.2)
    number = int(random.integers(3, 16))
    truth = random.integers(0, classes, tasks + TASKS)
    centres = random.normal(0, spread, (classes, 16))
    features = (centres[truth] + random.normal(0, 1, (len(truth), 16))).astype(np.float32)
    drawn = [_class_rater(classes, random) for _ in range(number)]
    answers = int(random.integers(1, min(5, number) + 1))
    labels = np.full((tasks, number), -1)
    for task in range(tasks):
        for rater in random.permutation(number)[:answers]:
            labels[task, rater] = random.choice(classes, p=drawn[rater][1][truth[task]])
    names = [str(k) for k in range(classes)]
    study = Study.from_arrays(images=features[:tasks], labels=labels, classes=names)
    fresh = Study.from_arrays(images=features[tasks:], reference=truth[tasks:], classes=names)
    who = ",".join(name for name, _ in drawn)
    about = f"{classes} classes, {tasks} tasks, spread {spread:.2f}, {answers} answers of {who}"
    return Drawn("classes", study, fresh, about)


def _class_rater(classes: int, random: np.random.Generator) -> tuple[str, Floats]:
    from raters.simulation.classes import hammer_spammer, pairwise_flipper

    skill = float(random.uniform(0.3, 0.95))
    kind = str(random.choice(["hammer", "flipper", "prefers", "by-class"]))
    if kind == "hammer":
        matrix = hammer_spammer(skill, classes)
    elif kind == "flipper":
        matrix = pairwise_flipper(skill, classes, random)
    elif kind == "prefers":
        liked = np.eye(classes)[random.integers(classes)]
        matrix = skill * np.eye(classes) + (1 - skill) * liked
    else:
        skills = random.uniform(0.3, 0.95, classes)
        rest = random.dirichlet(np.ones(classes), classes)
        matrix = skills[:, None] * np.eye(classes) + (1 - skills[:, None]) * rest
    return f"{kind}:{skill:.2f}", np.asarray(matrix)


def run_one(drawn: Drawn, seed: int, fold: int, method: str) -> Row:
    """Train a method on one fold, and return sums of held-out labels and scores by truth."""
    from raters import fit
    from raters.comparison.folds import folded

    started = time.process_time()
    parted = folded(drawn.study, fold, FOLDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(
            parted, method, progress=False, seed=seed, select="likelihood", **BUDGET[drawn.kind]
        )
    last = model.history[-1].get("dominance") if model.history else None
    row = {"study": seed, "kind": drawn.kind, "about": drawn.about, "fold": fold, "method": method}
    row |= {"epoch": model.best_epoch, "dominance": last, "blocks": held_out_blocks(model, parted)}
    row |= by_truth(model, drawn.fresh)
    return row | {"cpu_seconds": round(time.process_time() - started, 1)}


def held_out_blocks(model: Model, study: Study) -> list[list[float]]:
    """Return sums over blocks of held-out cases: labels, then two likelihoods of each form."""
    from raters.comparison.own_cell import LabelFit, counted_matrices, has_matrices
    from raters.learning.methods.base import Asked
    from raters.learning.prediction.predict import predict_streams

    test = study.select(split="test")
    rest = study.take(np.flatnonzero(study.index.splits != "test"))
    names = [name for name in study.raters if name in model.config.labelled]
    places = [study.raters.index(name) for name in names]
    columns = [model.config.raters.index(name) for name in names]
    counted = counted_matrices(model, rest)
    own = None if has_matrices(model) else counted
    fits = [LabelFit(columns, places, matrices) for matrices in (own, counted, None)]
    stream: Any = predict_streams(model, test.iter_cases(), Asked(confusion=True))
    for one in fits:
        stream = one(stream)
    for _, bands in stream:
        for _ in bands:
            pass
    blocks = np.zeros((BLOCKS, 1 + 2 * len(FORMS)))
    for k, case in enumerate(fits[0].sums):
        sums = [one.sums[case] for one in fits]
        blocks[k % BLOCKS] += [sums[0][2], *chain(*(one[:2] for one in sums))]
    return [[round(float(value), 4) for value in block] for block in blocks]


def by_truth(model: Model, fresh: Study) -> Row:
    """Return accuracy, or Dice at three cuts, in points; that at the best one is the truth."""
    from raters.metrics import CutTally, cut_labels, mean_dice

    found = [(truth, case.reference) for case, truth in model.predict_proba(fresh)]
    if fresh.kind == "classification":
        return {"truth": 100 * float(np.mean([p.argmax() == int(t) for p, t in found]))}
    size = len(fresh.classes)
    tally = CutTally(size)
    for probabilities, truth in found[:TUNED]:
        tally.add(probabilities, reference=truth)
    assert model.cuts is not None
    assert model.cuts.area is not None
    cuts = {"truth": tally.best(), "area": model.cuts.area, "half": np.full(size - 1, 0.5)}
    return {
        name: 100
        * float(np.mean([mean_dice(cut_labels(p, cut), t, size) for p, t in found[TUNED:]]))
        for name, cut in cuts.items()
    }


# What is made of it.

CRITERIA = (
    "likelihood_counted",
    "left_out_counted",
    "likelihood",
    "left_out",
    "likelihood_targets",
    "left_out_targets",
    "ranks",
    "guarded",
    "guarded_counted",
)


def chosen(rows: Sequence[Row]) -> dict[str, str]:
    """Return the choice of each criterion for one study, of the rows of all methods and folds."""
    methods = METHODS[rows[0]["kind"]]
    blocks = {
        m: np.concatenate([row["blocks"] for row in rows if row["method"] == m]) for m in methods
    }
    scores: dict[str, list[float]] = {}
    for k, form in enumerate(FORMS):
        for j, name in enumerate(("likelihood", "left_out")):
            value = [b[:, 1 + 2 * k + j].sum() / b[:, 0].sum() for b in blocks.values()]
            scores[name if form == "own" else f"{name}_{form}"] = value
    best = {name: methods[int(np.argmax(values))] for name, values in scores.items()}
    ranks = [np.argsort(np.argsort(-np.array(scores[n]))) for n in ("left_out", "likelihood")]
    best["ranks"] = methods[int(np.argmin(ranks[0] + ranks[1]))]
    dominant = [
        all(row["dominance"] is None or row["dominance"] > 0 for row in rows if row["method"] == m)
        for m in methods
    ]
    for name, by, column in (
        ("guarded", "left_out", 2),
        ("guarded_counted", "likelihood_counted", 3),
    ):
        allowed = [v if ok else -np.inf for v, ok in zip(scores[by], dominant, strict=True)]
        first = methods[int(np.argmax(allowed))]
        best[name] = first if _above(blocks[first], blocks["vote"], column) else "vote"
    return best


def _above(a: Floats, b: Floats, column: int) -> bool:
    """Whether a mean difference over blocks is above 0, by its 95 % interval."""
    from scipy.stats import t

    kept = a[:, 0] > 0
    difference = (a[kept, column] - b[kept, column]) / a[kept, 0]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() > t.ppf(0.975, len(difference) - 1) * error)


def outcomes(rows: Sequence[Row]) -> list[Row]:
    """Return, for each finished study, the points of each method by truth and all choices."""
    found = []
    for seed in sorted({row["study"] for row in rows}):
        own = [row for row in rows if row["study"] == seed]
        methods = METHODS[own[0]["kind"]]
        if len(own) < FOLDS * len(methods):
            continue
        by = chosen(own)
        line = {name: own[0][name] for name in ("study", "kind", "about")}
        for truth in (name for name in TRUTHS if name in own[0]):
            line[truth] = {
                m: round(float(np.mean([row[truth] for row in own if row["method"] == m])), 3)
                for m in methods
            }
        found.append(line | {"choices": {name: by[name] for name in CRITERIA}})
    return found


def regrets(found: Sequence[Row], truth: str = "truth") -> dict[str, Floats]:
    """Return best by truth minus chosen, in points, `(studies,)`, of criteria and fixed methods."""
    points: list[dict[str, float]] = [one[truth] if truth in one else one["truth"] for one in found]
    best = np.array([max(own.values()) for own in points])
    choices = {name: [str(one["choices"][name]) for one in found] for name in CRITERIA}
    for k, name in enumerate(METHODS["masks"]):
        both = " or ".join(dict.fromkeys((name, METHODS["classes"][k])))
        choices[f"always {both}"] = [METHODS[one["kind"]][k] for one in found]
    return {
        name: best - np.array([own[m] for own, m in zip(points, which, strict=True)])
        for name, which in choices.items()
    }


def summary(found: Sequence[Row], truth: str = "truth", repeats: int = 10_000) -> list[Row]:
    """Return regret of each criterion and of each fixed method, with paired bootstrap intervals."""
    regret = regrets(found, truth)
    drawn = np.random.default_rng(0).integers(0, len(found), (repeats, len(found)))
    rows = []
    for name, own in regret.items():
        difference = own - regret[VOTE]
        level = 0.05 / (len(CRITERIA) - 1) if name in CRITERIA[1:] else 0.05
        low, high = np.quantile(difference[drawn].mean(axis=1), [level / 2, 1 - level / 2])
        rows.append(
            {
                "choice": name,
                "best": float((own <= 1e-9).mean()),
                "within_a_point": float((own <= POINT).mean()),
                "regret": float(own.mean()),
                "against_vote": float(difference.mean()),
                "low": float(low),
                "high": float(high),
            }
        )
    return rows


KINDS = {"all": ("masks", "classes"), "masks": ("masks",), "classes": ("classes",)}


def table(kind: str, truth: str = "truth", found: Sequence[Row] | None = None) -> str:
    """Return the summary of all studies, of masks or of class labels as Markdown.

    Args:
        kind: A name of `KINDS`.
        truth: A name of `TRUTHS`.
        found: What `outcomes` returns; by default what is kept.
    """
    from raters.io.rows import to_markdown

    part = [one for one in found or read_rows(KEPT) if one["kind"] in KINDS[kind]]
    lines = []
    for row in summary(part, truth) if part else ():
        difference = f"{row['against_vote']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
        lines.append(
            [
                row["choice"].replace("_", " "),
                f"{row['best']:.0%}",
                f"{row['within_a_point']:.0%}",
                f"{row['regret']:.2f}",
                "" if row["choice"] == VOTE else difference,
            ]
        )
    head = [f"choice ({len(part)} studies)", "best", "within a point", "regret", "minus vote's"]
    return to_markdown(head, lines)


def read_rows(path: Path) -> list[Row]:
    """Read the rows that are there; a line that was cut off is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def missing(rows: Sequence[Row], studies: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Return what is still to be run: study, fold and method."""
    done = {(row["study"], row["fold"], row["method"]) for row in rows}
    for seed in studies:
        for fold in range(FOLDS):
            for method in METHODS["masks" if seed % 2 == 0 else "classes"]:
                if (seed, fold, method) not in done:
                    yield seed, fold, method


def run_all(out: Path, studies: Sequence[int], stop: Callable[[], bool]) -> None:
    """Run what is missing, one line of JSON for each, until it is done or time is up."""
    import torch

    torch.set_num_threads(1)
    now = -1
    drawn = None
    for seed, fold, method in list(missing(read_rows(out), studies)):
        if stop():
            return
        if now != seed:
            now = seed
            drawn = draw(seed)
        assert drawn is not None
        row = run_one(drawn, seed, fold, method)
        with out.open("a", encoding="utf-8") as file:
            file.write("\n" * _cut_off(out) + json.dumps(row) + "\n")
        print(f"study {seed} fold {fold} {method}: {row['cpu_seconds']} s", flush=True)


def _cut_off(path: Path) -> bool:
    """Whether the last line of a file has no end: the run was killed while it wrote."""
    text = path.read_bytes() if path.exists() else b""
    return bool(text) and not text.endswith(b"\n")


def main() -> None:
    """Run, or show the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="rows, one a line; kept")
    parser.add_argument("--keep", type=Path, help="only write points and choices of each study")
    parser.add_argument("--until", help="start nothing after this time, as in 13:25")
    parser.add_argument("--studies", type=int, nargs="*", default=list(range(STUDIES)))
    asked = parser.parse_args()

    def stop() -> bool:
        return bool(asked.until) and f"{datetime.now():%H:%M}" >= asked.until

    if not asked.keep:
        run_all(asked.out, asked.studies, stop)
        return
    found = outcomes(read_rows(asked.out))
    asked.keep.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    for kind, truth in [*((kind, "truth") for kind in KINDS), ("masks", "area"), ("masks", "half")]:
        print(f"\n{kind}, {TRUTHS[truth]}\n{table(kind, truth, found)}")


if __name__ == "__main__":
    main()
