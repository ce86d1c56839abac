"""What is looked at before training: labels, references, classes, folders; all read sparingly."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.training.partition import check_classes, left_out, partition
from raters.learning.training.run import refuse_foreign
from raters.study import survey
from raters.study.backend import LabelRules
from raters.study.case import Case
from raters.study.study import Study
from raters.study.survey import has_reference, labelled
from tests.support.command_line import draw_masks, fingerprint, images_option, pattern
from tests.support.makers import save

TINY: dict[str, Any] = {"epochs": 1, "batch_size": 4, "width": 2, "depth": 2, "progress": False}


@pytest.fixture
def nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Case, rater: str | None) -> None:
        raise AssertionError(f"the mask of {rater} was read")

    monkeypatch.setattr(Case, "raw_mask", refuse)


def sparse(cases: int = 8) -> Study:
    """Ann labels even cases, bob the first; odd cases but the first have nothing; all seen once."""
    rng = np.random.default_rng(0)
    labels = np.full((cases, 2, 8, 8), MISSING)
    labels[::2, 0] = rng.integers(0, 2, (len(labels[::2]), 8, 8))
    labels[0, 1] = labels[0, 0]
    labels[2, 0, :4] = MISSING  # half of a mask, from its first pixel on
    reference = np.full((cases, 8, 8), MISSING)
    reference[1, 5:] = 1
    reference[2] = 0
    names = [f"c{k}" for k in range(cases)]
    pixels = rng.normal(size=(cases, 1, 8, 8))
    return Study.from_arrays(pixels, labels, reference, raters=["ann", "bob"], cases=names)


EVEN = [True, False] * 4


def test_arrays_in_memory_and_on_disk(tmp_path: Path) -> None:
    for study in (sparse(), sparse().write(tmp_path / "packed", "packed")):
        assert labelled(study).tolist() == EVEN
        assert labelled(study.select(raters=["bob"])).tolist() == [True] + 7 * [False]
        assert has_reference(study).tolist() == [False, True, True] + 5 * [False]
        odd = study.select(cases=["c1", "c2", "c5"])
        assert labelled(odd).tolist() == [False, True, False]


@pytest.mark.usefixtures("nothing_read")
def test_files_are_not_read(tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=4)
    (tmp_path / "masks/ann/c1.png").unlink()
    (tmp_path / "masks/bob/c1.png").unlink()
    (tmp_path / "masks/ann/c2.png").unlink()
    save(tmp_path / "truth/c2.png", np.zeros((12, 12), np.uint8))
    study = raters.read(
        pattern(tmp_path),
        images=images_option(tmp_path)[1],
        reference=f"{tmp_path}/truth/{{case}}.png",
    )
    assert labelled(study).tolist() == [True, False, True, True]
    assert labelled(study.select(raters=["ann"])).tolist() == [True, False, False, True]
    assert has_reference(study).tolist() == [False, False, True, False]
    drew_nothing = replace(study, rules=LabelRules(absent="empty"))
    assert labelled(drew_nothing).all()


def test_a_canonical_folder_keeps_what_is_missing(tmp_path: Path) -> None:
    """Files of masks that are nowhere labelled may exist: then all that counts is no error."""
    study = sparse().write(tmp_path / "study")
    assert labelled(study)[::2].all()
    assert has_reference(study)[1:3].all()


def test_answers() -> None:
    answers = np.array([[0, MISSING], [MISSING, MISSING], [MISSING, 1]])
    study = Study.from_arrays(np.ones((3, 2)), answers, reference=np.array([MISSING, 0, 1]))
    assert labelled(study).tolist() == [True, False, True]
    assert labelled(study.select(raters=["0"])).tolist() == [True, False, False]
    assert has_reference(study).tolist() == [False, True, True]


class TestPartition:
    """Which cases are used for what."""

    def test_cases_without_labels_are_left_out(self) -> None:
        study = sparse()
        parts = partition(study, 0.3, 0, "pixel-cm")
        used = np.concatenate(parts)
        assert sorted(used) == [0, 2, 4, 6]
        assert len(parts.held_out) == 1
        assert left_out(study, study.index.ids[used]) == 4

    def test_a_held_out_case_may_have_a_reference_only(self) -> None:
        study = sparse()
        splits = np.array(["train"] + 4 * ["val"] + 3 * ["test"], object)
        study = replace(study, index=replace(study.index, splits=splits))
        parts = partition(study, 0.3, 0, "pixel-cm")
        assert [part.tolist() for part in parts] == [[0], [1, 2, 4]]
        assert left_out(study, study.index.ids[np.concatenate(parts)]) == 1  # of train and val
        assert [part.tolist() for part in partition(study, 0.3, 0)] == [[0], [1, 2, 3, 4]]

    def test_truth_needs_references_only(self) -> None:
        study = sparse()
        assert sorted(np.concatenate(partition(study, 0, 0, "truth"))) == [1, 2]
        with pytest.raises(RatersError, match="found no reference of case 'c3' or any other"):
            partition(study.select(cases=["c3", "c4"]), 0, 0, "truth")

    def test_nothing_to_train_on(self) -> None:
        study = sparse()
        with pytest.raises(RatersError, match="found no labels in the cases to train on"):
            partition(study.select(cases=["c1", "c3"]), 0, 0, "vote")
        test = replace(study, index=replace(study.index, splits=np.full(8, "test", object)))
        with pytest.raises(RatersError, match="only cases of the splits test, expected some of"):
            partition(test, 0, 0, "vote")


def test_a_subset_of_raters_is_all_that_a_model_knows(tmp_path: Path) -> None:
    study = sparse().select(raters=["ann"])
    model = raters.fit(study, "global-cm", folder=tmp_path / "run", **TINY)
    assert model.config.raters == raters.load(tmp_path / "run").config.raters == ("ann",)
    assert model.method.raters.logits.shape[0] == 1
    rows = (tmp_path / "run/splits.csv").read_text().splitlines()[1:]
    parts = dict(row.split(",")[:2] for row in rows)
    assert [parts[f"c{k}"] == "left-out" for k in range(8)] == [not there for there in EVEN]


def test_truth_leaves_out_what_has_no_reference() -> None:
    study = sparse()
    model = raters.fit(study, "truth", val_fraction=0.0, **TINY)
    # Only case 2 has both: ann labelled half of it, and the reference is background.
    known = study[2].labels[0][4:]
    expected = [(known == 0).mean(), (known == 1).mean()]
    assert model.method.rater_matrices[0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def classes_of(labels: Any, names: list[str], cases: int = 6) -> Study:
    """Masks: each rater draws a class on the left, and background elsewhere."""
    masks = np.zeros((cases, len(labels), 8, 8), int)
    for rater, drawn in enumerate(labels):
        masks[:, rater, :, :3] = drawn
    rng = np.random.default_rng(0)
    who = ["ann", "bob", "eve"][: len(labels)]
    pixels = rng.normal(size=(cases, 1, 8, 8))
    return Study.from_arrays(pixels, masks, classes=names, raters=who)


class TestClasses:
    """Classes that nobody used, and raters who have none in common."""

    def test_a_class_that_nobody_used_is_named(self) -> None:
        study = classes_of([1, 1], ["background", "tumour", "cyst", "edema"])
        with pytest.warns(UserWarning, match="the classes 'cyst', 'edema': an unused class"):
            check_classes(study, "pixel-cm")
        with pytest.warns(UserWarning, match="'cyst', 'edema'"):
            raters.fit(study, "vote", network="patch-cnn", **TINY)  # importing MONAI warns, too

    def test_truth_looks_at_references(self) -> None:
        study = classes_of([1, 2], ["background", "tumour", "cyst"])
        masks = np.stack([case.labels for case in study.iter_cases()])
        with_truth = Study.from_arrays(
            np.zeros((6, 1, 8, 8)), masks, masks[:, 0], classes=["background", "tumour", "cyst"]
        )
        with pytest.warns(UserWarning, match="the class 'cyst'"):
            check_classes(with_truth, "truth")

    @pytest.mark.parametrize("method", ["pixel-cm", "global-cm", "low-rank-cm", "single-cm"])
    def test_raters_without_a_common_class(self, method: str) -> None:
        study = classes_of([1, 2], ["background", "tumour", "cyst"])
        with pytest.raises(RatersError, match=r"ann: tumour; bob: cyst\); .*cannot tell"):
            raters.fit(study, method, **TINY)
        with pytest.warns(UserWarning, match="no class that two raters use"):
            check_classes(study, "vote")

    def test_answers_without_a_common_class(self) -> None:
        answers = np.stack([np.arange(8) % 2, 2 + np.arange(8) % 2], 1)
        study = Study.from_arrays(np.ones((8, 2)), answers, raters=["ann", "bob"])
        with pytest.raises(RatersError, match="ann: background, 1; bob: 2, 3"):
            check_classes(study, "global-cm")

    @pytest.mark.parametrize("labels", [[1], [1, 0], [1, 2, 1], [0, 0]])
    def test_what_is_fine(self, labels: list[int]) -> None:
        """One rater; one who drew nothing; two of three who share; nobody drew at all."""
        study = classes_of(labels, ["background", "tumour", "cyst"][: max(2, max(labels) + 1)])
        with warnings.catch_warnings():
            warnings.simplefilter("error" if max(labels) else "ignore")
            check_classes(study, "pixel-cm")

    def test_what_was_not_looked_at_may_hold_a_common_class(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = classes_of([1, 2], ["background", "tumour", "cyst"], cases=6)
        monkeypatch.setattr(survey, "MOST_READ", 5)
        with pytest.warns(UserWarning, match="two raters use in the 5 cases looked at, expected"):
            check_classes(study, "pixel-cm")
        monkeypatch.setattr(survey, "MOST_READ", 6)
        with pytest.raises(RatersError, match=r"two raters use, expected one \(ann: tumour"):
            check_classes(study, "pixel-cm")

    def test_at_most_500_cases_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        masks = np.zeros((1200, 1, 2, 2), int)
        study = Study.from_arrays(np.zeros((1200, 1, 2, 2)), masks, classes=["background", "x"])
        read = []
        facts = Case.mask_facts

        def counted(self: Case, rater: str) -> Any:
            read.append(int(self.id))
            return facts(self, rater)

        monkeypatch.setattr(Case, "mask_facts", counted)
        with pytest.warns(UserWarning, match="'x' in the 500 cases looked at"):
            check_classes(study, "vote")
        assert len(read) == len(set(read)) == survey.MOST_READ
        assert min(read) == 0
        assert max(read) == 1199
        assert max(np.diff(sorted(read))) <= 3

    def test_it_stops_when_there_is_nothing_more_to_find(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = classes_of([1, 1], ["background", "x"], 50)
        read = set()
        facts = Case.mask_facts

        def counted(self: Case, rater: str) -> Any:
            read.add(self.id)
            return facts(self, rater)

        monkeypatch.setattr(Case, "mask_facts", counted)
        check_classes(study, "pixel-cm")
        assert len(read) == 1


def test_images_that_are_not_numbers_name_case_and_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for k in range(4):
        image = rng.normal(size=(12, 12))
        if k == 2:
            image[3, 3] = np.nan
        save(tmp_path / f"images/c{k}.npy", image)
        save(tmp_path / f"masks/ann/c{k}.png", (image > 0).astype(np.uint8))
    study = raters.read(
        f"{tmp_path}/masks/{{rater}}/{{case}}.png", images=f"{tmp_path}/images/{{case}}.npy"
    )
    with pytest.raises(RatersError, match=r"NaN or infinite") as found:
        raters.fit(study, "vote", **TINY)
    assert "c2.npy" in str(found.value)
    assert "'c2'" in str(found.value) or found.value.case == "c2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": "many"}, "found epochs=many, expected a whole number"),
        ({"epochs": 0}, "found epochs=0, expected 1 or more"),
        ({"val_fraction": 1.5}, "found val_fraction=1.5, expected less than 1"),
        ({"augment": "all"}, "found augment=all, expected auto, none, flip or full"),
        ({"epoch": 3}, "found the option 'epoch', expected a known one; did you mean 'epochs'\\?$"),
        ({"rank": 3}, "found the option 'rank' for pixel-cm, expected it with: low-rank-cm"),
        ({"soft": True}, "found the option 'soft' for pixel-cm, expected it with: vote, "),
    ],
)
def test_options_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RatersError, match=message):
        raters.fit(sparse(), "pixel-cm", folder=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    before = fingerprint(tmp_path)
    with pytest.raises(RatersError, match=r"mine: found a folder with other files \(thesis.txt\)"):
        refuse_foreign(tmp_path / "mine")
    with pytest.raises(RatersError, match=re.escape("thesis.txt: found a file, expected a folder")):
        refuse_foreign(tmp_path / "mine/thesis.txt")
    with pytest.raises(RatersError, match="found a folder with other files"):
        raters.fit(sparse(), "vote", folder=tmp_path / "mine", **TINY)
    assert fingerprint(tmp_path) == before
    (tmp_path / "empty/cache").mkdir(parents=True)
    refuse_foreign(tmp_path / "empty")
    refuse_foreign(tmp_path / "new")
