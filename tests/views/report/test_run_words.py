"""What reports of runs say of probabilities, raters and references: no more than is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raters.evaluation import evaluate
from raters.evaluation.result import Evaluation
from raters.learning.evaluation.watch import Estimated
from raters.study.study import Study
from raters.views.report import Report, TextBlock
from raters.views.report.run import run_report
from raters.views.report.run_raters import said_of, skill_rows
from raters.views.report.run_scores import as_rater_section, calibration_section
from raters.views.texts.say import plain, say
from tests.support.models import make_model
from tests.support.reports import first_screen_of, texts_and_captions

pytestmark = pytest.mark.usefixtures("small_figures")


def words_and_numbers_of(report: Report) -> str:
    """Return all paragraphs, captions, heads and the first screen."""
    texts = texts_and_captions(report)
    for number in first_screen_of(report).numbers:
        texts.append(number.about)
    return "\n".join(map(plain, texts))


def calibration_words(
    sure: np.ndarray[Any, Any], right: np.ndarray[Any, Any], seed: int = 0
) -> str:
    """Return what is said where `sure` are the model's, and `right` the true probabilities."""
    truth = (np.random.default_rng(seed).random(len(sure)) >= right).astype(int)
    study = Study.from_arrays(labels=truth[:, None], reference=truth, raters=["ann"])
    section = calibration_section(evaluate(np.stack([sure, 1 - sure], axis=1), study))
    assert section is not None
    return plain(section.blocks[0].caption)


SPREAD = np.linspace(0.52, 0.98, 150)


@pytest.mark.slow
def test_an_error_that_chance_makes_is_no_alarm() -> None:
    text = calibration_words(SPREAD, SPREAD)
    assert "no larger than 150 labels give by chance" in text or "The error is small" in text
    assert "too sure" not in text and "Do not read" not in text
    many = [calibration_words(SPREAD, SPREAD, seed) for seed in range(20)]
    assert sum("by chance" in text or "is small" in text for text in many) >= 17  # 95 % of them
    assert sum("by chance" in text for text in many) > 10  # 15 bins of 10: mostly above 0.05


def test_too_sure_and_too_unsure_are_said_where_it_is_clear() -> None:
    sure = np.full(150, 0.95)
    half = np.full(150, 0.7)
    assert "too sure (ECE" in calibration_words(sure, half)
    assert "too unsure (ECE" in calibration_words(half, sure)


def test_right_on_average_but_not_at_each_level() -> None:
    sure = np.repeat([0.95, 0.65], 400)
    right = np.repeat([0.65, 0.95], 400)
    text = calibration_words(sure, right)
    assert "right on average (mean confidence 0.80, right" in text and "not at each level" in text
    assert "too" not in text


def test_overconfidence_has_an_interval() -> None:
    """Against the mean confidence and accuracy, and the interval of a mean over cases."""
    truth = np.repeat([0, 1], [70, 30])
    study = Study.from_arrays(labels=truth[:, None], reference=truth, raters=["ann"])
    found = evaluate(np.tile([0.9, 0.1], (100, 1)), study)
    row = next(row for row in found.calibration if row["of"] == "truth")
    assert row["overconfidence"] == pytest.approx(0.9 - 0.7)
    half = 1.96 * np.sqrt(0.7 * 0.3 / 100)
    assert row["overconfidence_low"] == pytest.approx(0.2 - half, abs=0.02)
    assert row["overconfidence_high"] == pytest.approx(0.2 + half, abs=0.02)


def test_without_intervals_as_x_must_fit_clearly_better() -> None:
    def sentence_of(gains: list[float], low: list[float | None]) -> str:
        rows = [
            {
                "rater": f"r{k}",
                "labels": 9,
                "dice": 0.5,
                "dice_better": gain,
                "dice_better_low": end,
            }
            for k, (gain, end) in enumerate(zip(gains, low, strict=True))
        ]
        section = as_rater_section(Evaluation(raters=rows))
        assert section is not None
        return plain(section.blocks[0].text)  # type: ignore[union-attr]

    assert "for 1 of 3 raters. Not for r0 and r1:" in sentence_of([0.0001, 0.015, 0.05], [None] * 3)
    assert "for 1 of 2 raters. Not for r1:" in sentence_of([0.001, 0.05], [0.0005, -0.01])


def test_raters_of_few_labels_are_not_named() -> None:
    skills = [0.9, 0.8, 0.6]
    matrices = np.array([[[s, 1 - s], [1 - s, s]] for s in skills])
    found = Estimated(["ann", "bob", "once"], ["4", "6"], matrices, few={"once"})
    (text,) = map(plain, said_of(skill_rows(found), found.few))
    assert "once" not in text
    assert text.endswith("bob the lowest (0.80): bob takes 20 % of class 4 for class 6.")
    assert "once" in plain(said_of(skill_rows(found))[0])


def test_labels_of_the_whole_study_count_not_only_those_that_are_shown(tmp_path: Path) -> None:
    """Of 40 tasks 6 are for tests: ann and bob labelled all of them, once only four."""
    who = ("ann", "bob", "once")
    model = make_model("global-cm", kind="classification", spatial_dims=0, channels=3, raters=who)
    model.save(tmp_path)
    random = np.random.default_rng(0)
    labels = random.integers(0, len(model.config.classes), (40, 3))
    labels[:36, 2] = -1
    study = Study.from_arrays(
        random.normal(size=(40, 3)),
        labels,
        raters=who,
        classes={c.value: c.name for c in model.config.classes},
        splits=["train"] * 34 + ["test"] * 6,
    )
    report = run_report(tmp_path, study, shown=0)
    for part in report.sections:
        if part.title == "Raters":
            texts = [plain(block.text) for block in part.blocks if isinstance(block, TextBlock)]
            assert "once" not in "".join(texts)


@pytest.mark.parametrize("known", [True, False])
def test_a_reference_is_spoken_of_only_where_there_is_one(known: bool, tmp_path: Path) -> None:
    model = make_model(values=(0, 1), raters=("ann", "bob"))
    model.save(tmp_path)
    reference = np.zeros((2, 8, 8), np.int16)
    reference[:, :, 4:] = 1
    study = Study.from_arrays(
        np.random.default_rng(0).normal(size=(2, 1, 8, 8)),
        np.stack([reference, np.zeros_like(reference)], 1),
        reference=reference if known else None,
        raters=model.config.raters,
        classes={c.value: c.name for c in model.config.classes},
    )
    text = words_and_numbers_of(run_report(tmp_path, study, shown=1))
    for words in ("Trust the rows of the reference", "and reference in white", "The true matrices"):
        assert (words in text) == known
    assert "averaged over the pixels of 2 cases" in text


def test_how_much_more_is_said_in_words() -> None:
    more = [("over", 14.0), ("wrong", 2.14), ("a", 1.2)]
    less = [("b", 0.8), ("under", 0.0)]
    text = plain(say("volumes", more=more, less=less, other=None))
    assert (
        "compared with the others, over draws 14 times as much, wrong draws 2.1 times as much and "
        "a draws 20 % more, and b draws 20 % less and under draws nothing." in text
    )
