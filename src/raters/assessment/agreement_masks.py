"""Agreement of raters who drew masks: one pass over the cases, then four tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from raters.assessment.agree import ALL, Agreement, rank_cases
from raters.assessment.agreement_case import CaseAgreement, case_agreement
from raters.core.arrays import Array, Flags, Floats, Ints, Labels, mean_known
from raters.core.errors import enough_memory
from raters.core.progress import ordered_map, track
from raters.core.wording import many
from raters.io.rows import Row, known
from raters.metrics import coefficients
from raters.metrics.overlap import drawn_dice, iou_from_counts
from raters.metrics.surface import surface_distances_by_class
from raters.study.case import Case
from raters.study.study import Study


def mask_agreement(
    study: Study,
    surfaces: bool = False,
    progress: bool = False,
    seen: Callable[[CaseAgreement], None] | None = None,
) -> Agreement:
    """Compare all raters of a study of masks; `raters.agree` says what the tables hold.

    `seen` gets the counts of each case, in order, for those who need more of them.
    """
    total = _Totals(study, surfaces)

    def count(case: Case) -> tuple[CaseAgreement, Floats | None]:
        labels = case.labels
        spacing = case.geometry.spacing
        with enough_memory(case.id):
            counted = case_agreement(case.id, labels, len(study.classes), spacing)
            return counted, _surfaces(labels, len(study.classes), spacing) if surfaces else None

    counted = ordered_map(count, study.iter_cases())
    for position, (case, distances) in enumerate(track(counted, len(study), "comparing", progress)):
        total.add(position, case, distances)
        if seen is not None:
            seen(case)
    return total.result()


def _surfaces(labels: Labels, num_classes: int, spacing: tuple[float, ...]) -> Floats:
    """Return HD95 and the average surface distance of all pairs, `(2, pairs, L - 1)`."""
    found = [
        surface_distances_by_class(a, b, num_classes, spacing) for a, b in combinations(labels, 2)
    ]
    scores = [[(d.hd95, d.assd) for d in by_class] for by_class in found]
    return np.array(scores).reshape(-1, num_classes - 1, 2).transpose(2, 0, 1)


class _Totals:
    """Adds up what the cases say; its size does not depend on how many there are."""

    def __init__(self, study: Study, surfaces: bool) -> None:
        self.study = study
        self.surfaces = surfaces
        raters = len(study.raters)
        classes = len(study.classes)
        self.couples = list(combinations(range(raters), 2))
        self.pair_counts = np.zeros((len(self.couples), classes, classes), np.int64)
        self.rest_counts = np.zeros((raters, classes, classes), np.int64)
        shape = (len(self.couples), classes)  # the last one is the mean over classes
        names = ("dice", "iou", *(("hd95", "surface_distance") if surfaces else ()))
        self.pair_scores = {name: _Means(shape) for name in names}
        self.rest_dice = _Means((raters, classes))
        self.volume = _Means((raters, classes))
        self.bias = _Means((raters, classes))
        self.cases_of_pair = np.zeros(len(self.couples), np.int64)
        self.cases_of_rater = np.zeros(raters, np.int64)
        self.drawn = np.zeros(classes, np.int64)
        self.votes = _Votes(classes)
        self.rows: list[Row] = []

    def add(self, position: int, case: CaseAgreement, distances: Floats | None) -> None:
        self.drawn += case.volumes.sum(axis=0)
        self.pair_counts += case.pairs
        self.rest_counts += case.rest
        self.votes.add(case.votes, case.weights)
        self.cases_of_pair += case.pairs.sum(axis=(1, 2)) > 0
        self.cases_of_rater += case.labelled
        scores = {"dice": case.dice, "iou": iou_from_counts(case.pairs)}
        if distances is not None:
            scores |= {"hd95": distances[0], "surface_distance": distances[1]}
        for name, values in scores.items():
            self.pair_scores[name].add(with_mean(np.where(case.drawn, values, np.nan)))
        self._add_raters(case)
        self.rows.append(self._case_row(position, case))

    def _add_raters(self, case: CaseAgreement) -> None:
        self.rest_dice.add(with_mean(drawn_dice(case.rest)))
        voxels = case.volumes.copy()
        voxels[:, 0] = voxels[:, 1:].sum(axis=1)  # all foreground together, instead of background
        volume = np.where(case.complete[:, np.newaxis], voxels * case.voxel, np.nan)
        self.volume.add(volume)
        self.bias.add(_bias(volume))

    def _case_row(self, position: int, case: CaseAgreement) -> Row:
        index = self.study.index
        dice = with_mean(case.dice)[:, -1]
        dice = dice[~np.isnan(dice)]
        return {
            "case": case.case,
            "group": index.groups[position],
            "raters": int(case.labelled.sum()),
            "dice": float(dice.mean()) if dice.size else None,
            "disagreement": 1 - float(dice.mean()) if dice.size else None,
            "differing": known(case.differing),
            "entropy": known(case.entropy),
        }

    def result(self) -> Agreement:
        result = Agreement("segmentation")
        result.overall = self._overall()
        result.pairs = [row for k in range(len(self.couples)) for row in self._pair_rows(k)]
        result.raters = [row for k in range(len(self.study.raters)) for row in self._rater_rows(k)]
        result.cases = rank_cases(self.rows, "disagreement")
        result.notes = self._notes()
        return result

    @property
    def _names(self) -> list[str]:
        return list(self.study.classes.names[1:])

    def _used(self) -> Flags:
        """Return which foreground classes any rater used."""
        return np.asarray(self.drawn[1:] > 0)

    def _overall(self) -> list[Row]:
        means = {name: scores.means(over=(0,)) for name, scores in self.pair_scores.items()}
        votes, weights = self.votes.merged()
        rows = []
        for k, name in enumerate(self._names):
            own = coefficients.one_against_rest(votes, k + 1) if self._used()[k] else votes[:0]
            row = self._scores(means, k)
            rows.append({"class": name, **row, **_chance_corrected(own, weights[: len(own)])})
        every = {"class": ALL, **self._scores(means, -1), **_chance_corrected(votes, weights)}
        return self._without_twin([*rows, every])

    def _scores(self, means: dict[str, Array], k: int) -> Row:
        return {name: known(values[k]) for name, values in means.items()}

    def _without_twin(self, rows: list[Row]) -> list[Row]:
        """With one foreground class, leave out its row: that of all classes says the same."""
        return rows[-1:] if len(self._names) == 1 else rows

    def _pair_rows(self, k: int) -> list[Row]:
        a, b = self.couples[k]
        names: Row = {"rater_a": self.study.raters[a], "rater_b": self.study.raters[b]}
        names["cases"] = int(self.cases_of_pair[k])
        means = {name: scores.means()[k] for name, scores in self.pair_scores.items()}
        rows = []
        for c, (name, kappa) in enumerate(self._kappas(self.pair_counts[k])):
            rows.append({**names, "class": name, **self._scores(means, c), "kappa": kappa})
        return self._without_twin(rows)

    def _rater_rows(self, k: int) -> list[Row]:
        head = {"rater": self.study.raters[k], "cases": int(self.cases_of_rater[k])}
        dice = self.rest_dice.means()[k]
        volume = self.volume.means()[k]
        bias = self.bias.means()[k]
        rows = []
        for c, (name, kappa) in enumerate(self._kappas(self.rest_counts[k])):
            row = {**head, "class": name, "dice_rest": known(dice[c]), "kappa_rest": kappa}
            drawn = (c + 1) % len(volume)  # the first one is all foreground
            rows.append({**row, "volume": known(volume[drawn]), "bias": known(bias[drawn])})
        return self._without_twin(rows)

    def _kappas(self, counts: Array) -> list[tuple[str, float | None]]:
        """Return Cohen's kappa of each foreground class against all others, and of all."""
        classes = [(n, _class_kappa(counts, c)) for c, n in enumerate(self._names, 1)]
        return [*classes, (ALL, known(coefficients.cohen_kappa(counts)))]

    def _notes(self) -> list[str]:
        names = self.study.raters
        if not self.cases_of_pair.any():
            return ["no two raters labelled the same voxel: there is nothing to compare"]
        notes = [
            f"raters {names[a]!r} and {names[b]!r} have no labelled voxel in common"
            for (a, b), cases in zip(self.couples, self.cases_of_pair, strict=True)
            if cases == 0
        ]
        unused = [n for n, used in zip(self._names, self._used(), strict=True) if not used]
        notes += [f"no rater used the class {name!r}: it has no scores" for name in unused]
        single_rater_cases = sum(row["raters"] < 2 for row in self.rows)
        if single_rater_cases:
            number = many(single_rater_cases, "case")
            notes.append(f"not counted, as fewer than two raters labelled them: {number}")
        if self.study.drawn:
            notes.append("raters are compared only where both say something")
        if len(names) == 2:
            notes.append("with two raters, 'the rest' of each is the other one")
        return notes


def _chance_corrected(votes: Array, weights: Array) -> Row:
    return {
        "fleiss_kappa": known(coefficients.fleiss_kappa(votes, weights)),
        "krippendorff_alpha": known(coefficients.krippendorff_alpha(votes, weights)),
    }


def _bias(volume: Array) -> Floats:
    """Return the relative difference of each rater's volumes from the mean of the others'."""
    exist = ~np.isnan(volume)
    total = np.where(exist, volume, 0.0).sum(axis=0)
    number = exist.sum(axis=0)
    others = (total - np.where(exist, volume, 0.0)) / np.maximum(number - exist, 1)
    return np.where(exist & (others > 0), volume / np.where(others > 0, others, 1) - 1, np.nan)


def _class_kappa(counts: Array, chosen: int) -> float | None:
    """Return Cohen's kappa of one class against all others; None where neither has it."""
    own = counts[chosen].sum()
    both = counts[chosen, chosen]
    other = counts[:, chosen].sum()
    neither = counts.sum() - own - other + both
    binary = np.array([[neither, other - both], [own - both, both]])
    return known(coefficients.cohen_kappa(binary)) if binary.sum() > binary[0, 0] else None


def with_mean(values: Array) -> Floats:
    """Add a column with the mean over classes that have a value, `(rows, L - 1)` to `(rows, L)`."""
    mean = mean_known(values, ~np.isnan(values), axis=1)
    return np.concatenate([values, mean[:, np.newaxis]], axis=1)


class _Means:
    """Means over cases, leaving out what does not exist."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total = np.zeros(shape)
        self.number = np.zeros(shape, np.int64)

    def add(self, values: Array) -> None:
        exist = ~np.isnan(values)
        self.total += np.where(exist, values, 0.0)
        self.number += exist

    def means(self, over: tuple[int, ...] = ()) -> Floats:
        """Average over cases, and over axes such as that of pairs."""
        total = self.total.sum(axis=over)
        number = self.number.sum(axis=over)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


class _Votes:
    """How often which votes occur; equal ones are merged as they come."""

    def __init__(self, num_classes: int) -> None:
        self._rows = np.zeros((0, num_classes), np.int64)
        self._weights = np.zeros(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, votes: Ints, weights: Ints) -> None:
        self._waiting.append((votes, weights))
        if len(self._waiting) >= 64:
            self._merge()

    def _merge(self) -> None:
        rows = np.concatenate([self._rows, *(v for v, _ in self._waiting)])
        weights = np.concatenate([self._weights, *(w for _, w in self._waiting)])
        self._rows, place = np.unique(rows, axis=0, return_inverse=True)
        self._weights = np.zeros(len(self._rows), np.int64)
        np.add.at(self._weights, place.ravel(), weights)
        self._waiting.clear()

    def merged(self) -> tuple[Ints, Ints]:
        self._merge()
        return self._rows, self._weights
