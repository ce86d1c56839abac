"""Answers of a table are no axis of raters: who said what survives any order of the rows."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io.rows import Row
from raters.learning.evaluation.watch import true_counts
from raters.learning.methods.registry import METHODS
from raters.learning.networks.normalise import Normalisation
from raters.learning.rater_models.confusion import PixelConfusion, SharedConfusion
from raters.learning.training.dataset import CaseDataset, collate
from raters.metrics.confusion import count_answers, count_case
from raters.study.study import Study
from raters.study.triplets import CaseAnswers
from raters.views.report import TableBlock
from raters.views.report.blocks import all_blocks
from raters.views.report.run import run_report
from tests.support.models import make_model

NAMES = ("ann", "bob", "cy", "dee", "eve")
CLASSES = ("cat", "dog", "fox")
SKILL = {"ann": 0.95, "bob": 0.3, "cy": 0.7, "dee": 0.5}  # eve answers other tasks only


@dataclass
class Crowd:
    """A table in lists, as one would write it by hand.

    Attributes:
        answers: `(task, worker, label)`.
        truth: The class of each task.
    """

    answers: list[tuple[str, str, str]] = field(default_factory=list)
    truth: dict[str, str] = field(default_factory=dict)

    def right(self, rater: str, label: str) -> float:
        """Return how often a rater is right on a true class, by a slow loop over the rows."""
        own = [(task, said) for task, worker, said in self.answers if worker == rater]
        found = [said == label for task, said in own if self.truth.get(task) == label]
        return sum(found) / len(found) if found else float("nan")

    def skill(self, rater: str) -> float:
        """Return the mean over the classes that a rater met."""
        rights = [self.right(rater, label) for label in CLASSES]
        known = [right for right in rights if right == right]
        return sum(known) / len(known) if known else float("nan")


def draw_crowd(every: bool, seed: int = 0) -> Crowd:
    """Draw tasks that all answer once, or some not at all and some several times."""
    rng = random.Random(seed)
    crowd = Crowd()
    for k in range(40):
        task = f"t{k:02d}"
        label = rng.choice(CLASSES)
        crowd.truth[task] = label
        for rater, skill in SKILL.items():
            for _ in range(1 if every else rng.choice([0, 1, 1, 3])):
                said = label if rng.random() < skill else rng.choice(CLASSES)
                crowd.answers.append((task, rater, said))
    if not every:
        crowd.answers.append(("other", "eve", "cat"))  # nobody knows the truth of it
    return crowd


def write_and_read(crowd: Crowd, folder: Path, shuffle: int | None = None) -> Study:
    """Write a crowd as files with its rows in some order, and read them."""
    folder.mkdir(exist_ok=True)
    rows = list(crowd.answers)
    if shuffle is not None:
        random.Random(shuffle).shuffle(rows)
    for name, table in (
        ("crowd.csv", [("task", "worker", "label"), *rows]),
        ("truth.csv", [("task", "label"), *crowd.truth.items()]),
    ):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(table)
    tasks = sorted({task for task, _, _ in rows} | set(crowd.truth))
    features = np.random.default_rng(1).normal(size=(len(tasks), 3))
    np.save(folder / "x.npy", features.astype(np.float32))
    return raters.read(
        folder / "crowd.csv", images=str(folder / "x.npy"), reference=str(folder / "truth.csv")
    )


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model that knows the raters in another order than tables have them."""
    model = make_model(
        "global-cm",
        kind="classification",
        spatial_dims=0,
        channels=3,
        values=CLASSES,
        raters=("cy", "eve", "ann", "dee", "bob"),
    )
    config = model.config.model_copy(
        update={
            "classes": tuple(c.model_copy(update={"name": c.value}) for c in model.config.classes)
        }
    )
    folder = tmp_path_factory.mktemp("run")
    raters.Model(model.method, config).save(folder)
    return folder


def report_rows(run: Path, study: Study) -> dict[str, list[Row]]:
    """Return all tables of a run's report."""
    report = run_report(run, study, shown=0)
    return {b.name: b.rows for b in all_blocks(report) if isinstance(b, TableBlock)}


@pytest.mark.slow
@pytest.mark.parametrize("every", [True, False])
def test_a_run_reports_what_each_rater_said(run_folder: Path, tmp_path: Path, every: bool) -> None:
    crowd = draw_crowd(every)
    study = write_and_read(crowd, tmp_path, shuffle=3)
    found = {
        row["rater"]: row["true_balanced_accuracy"]
        for row in report_rows(run_folder, study)["raters"]
    }
    assert set(found) == set(study.raters)
    for rater in study.raters:
        assert found[rater] == pytest.approx(crowd.skill(rater), nan_ok=True)
    assert np.isnan(found["eve"]) if not every else "eve" not in found


def make_comparable(rows: list[Row]) -> list[dict[str, Any]]:
    """Make rows comparable: numbers nearly so, and answers in any order."""
    comparable_rows = []
    for row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.items():
            if isinstance(value, float):
                cells[name] = pytest.approx(value, nan_ok=True)
            elif name == "answers":
                cells[name] = sorted(value.split(", "))
            else:
                cells[name] = value
        comparable_rows.append(cells)
    return comparable_rows


def sort_answers(rows: list[Row]) -> list[dict[str, Any]]:
    """Turn answers round to the same order."""
    return [
        {n: sorted(v.split(", ")) if n == "answers" else v for n, v in row.items()} for row in rows
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_rows_changes_no_number(run_folder: Path, tmp_path: Path, seed: int) -> None:
    crowd = draw_crowd(every=False)
    one = write_and_read(crowd, tmp_path / "one")
    other = write_and_read(crowd, tmp_path / "other", shuffle=seed)
    reports = [report_rows(run_folder, study) for study in (one, other)]
    assert reports[0].keys() == reports[1].keys()
    for name, rows in reports[0].items():
        assert sort_answers(reports[1][name]) == make_comparable(rows), name
    first, second = (raters.evaluate(run_folder, study) for study in (one, other))
    for name in ("summary", "likelihood", "raters", "as_rater", "calibration"):
        assert getattr(second, name) == make_comparable(getattr(first, name)), name
    first_agreed = raters.agree(one)
    second_agreed = raters.agree(other)
    for name in ("overall", "raters", "pairs", "cases"):
        assert getattr(second_agreed, name) == make_comparable(getattr(first_agreed, name)), name


def test_matrices_of_a_case_equal_a_loop(tmp_path: Path) -> None:
    crowd = draw_crowd(every=False, seed=5)
    study = write_and_read(crowd, tmp_path, shuffle=0)
    total = sum(
        true_counts(case, study, range(len(study.raters)))
        for case in study
        if case.reference is not None
    )
    names = study.classes.names
    expected = np.zeros((len(study.raters), 3, 3))
    for task, rater, label in crowd.answers:
        if task in crowd.truth:
            cell = names.index(crowd.truth[task]), names.index(label)
            expected[(study.raters.index(rater), *cell)] += 1
    assert np.array_equal(total, expected)
    some = [study.raters.index("dee"), study.raters.index("ann")]
    case = study["t00"]
    assert np.array_equal(true_counts(case, study, some), true_counts(case, study, range(5))[some])


def test_soft_targets_are_shared_out() -> None:
    answers = CaseAnswers(np.array([2, 0, 2]), np.array([1, 0, 1]), NAMES)
    found = count_answers(answers, np.array([0.25, 0.75]), num_classes=2)
    assert found[2].tolist() == [[0, 0.5], [0, 1.5]]
    assert found[0].tolist() == [[0.25, 0], [0.75, 0]]
    assert not found[[1, 3, 4]].any()
    assert not count_answers(answers, np.array(MISSING), num_classes=2).any()


def test_counts_of_masks_and_of_their_pixels_as_tasks_are_the_same() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, (1, 4, 30))
    truth = rng.integers(-1, 3, (1, 30))
    # All classes are there.
    labels[0, :, 0] = 2
    truth[0, 0] = 2
    mask = Study.from_arrays(labels=labels, reference=truth)[0]
    table = Study.from_arrays(labels=labels[0].T, reference=truth[0])
    for target in (truth[0], rng.dirichlet(np.ones(3), 30).T):
        answers = [count_case(case, target[..., k], 3) for k, case in enumerate(table)]
        assert np.allclose(sum(answers), count_case(mask, target, 3))


class TestTypes:
    """A table's case cannot be taken for one of masks, nor the other way round."""

    def test_a_case_of_a_table_has_no_labels(self, tmp_path: Path) -> None:
        study = write_and_read(draw_crowd(every=True), tmp_path)
        with pytest.raises(RatersError, match=r"take case\.answers"):
            _ = study[0].labels
        with pytest.raises(RatersError, match=r"take consensus\.table"):
            raters.fuse(study, "vote")[0]

    def test_a_case_of_masks_has_no_answers(self) -> None:
        study = Study.from_arrays(labels=np.zeros((1, 2, 3, 3), int))
        with pytest.raises(RatersError, match=r"take case\.labels"):
            _ = study[0].answers

    def test_what_was_given_has_no_axis(self) -> None:
        masks = Study.from_arrays(labels=np.array([[[0, 1], [-1, 1]]]))
        assert sorted(masks[0].given) == [0, 1, 1]
        table = Study.from_arrays(labels=np.array([[0, 1, -1]]))
        assert sorted(table[0].given) == [0, 1]

    def test_answers_go_by_name(self) -> None:
        answers = CaseAnswers(np.array([3, 0, 3]), np.array([1, 0, 2]), NAMES)
        assert answers.of("dee").tolist() == [1, 2]
        assert answers.of("eve").tolist() == []
        with pytest.raises(RatersError, match=re.escape("found no rater 'zoe'")):
            answers.of("zoe")
        assert [found.tolist() for found in answers.by_rater()] == [[0], [], [], [1, 2], []]
        assert CaseAnswers(np.zeros(0, int), np.zeros(0, int), ()).by_rater() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: SharedConfusion(torch.zeros(1, 3, 2, 2)),
        lambda: PixelConfusion(torch.zeros(4, 3, 2, 2)),
    ],
)
def test_answers_of_nobody_knows_whom_are_refused(make: Callable[[], Any]) -> None:
    labels = torch.zeros(4, 2, dtype=torch.long)
    with pytest.raises(RatersError, match="found 2 labels of each case for 3 raters"):
        make().see(labels)
    assert make().see(labels, torch.tensor([[2, 0]] * 4)).log_column.shape == (4, 2, 2)


FOR_TABLES = [m for m, e in METHODS.items() if e.raters and "classification" in e.kinds]


@pytest.mark.parametrize("method", FOR_TABLES)
def test_the_order_of_answers_changes_no_loss(method: str, tmp_path: Path) -> None:
    crowd = draw_crowd(every=False, seed=7)
    losses = []
    for name, shuffle in (("one", None), ("other", 11)):
        study = write_and_read(crowd, tmp_path / name, shuffle)
        study = study.select(cases=list(crowd.truth))  # oracle-cm wants to know the truth
        model = make_model(
            method,
            kind="classification",
            spatial_dims=0,
            channels=3,
            values=CLASSES,
            raters=study.raters,
        )
        model.method.train().prepare(study)
        target = model.method.target if model.method.has_targets else None
        data = CaseDataset(study, Normalisation("none"), patch_size=None, targets=target)
        batch = collate([data[k] for k in range(len(data))])
        model.method.start_epoch(99)
        torch.manual_seed(0)
        losses.append(model.method.step(batch).loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
