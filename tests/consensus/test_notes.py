"""What is said beside a consensus: copied raters, two raters; and what is kept of cases."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import nibabel
import numpy as np
import pytest

import raters
from raters.consensus.write import write_consensus
from raters.core.errors import RatersError
from raters.fusion._spatial_staple import spatial_staple
from raters.io.results import Journal
from raters.io.rows import write_json, write_long_json
from raters.study.study import Study


def draw_lesions(seed: int, number: int, cases: int = 4) -> np.ndarray:
    """Draw raters who are right nine times in ten."""
    random = np.random.default_rng(seed)
    truth = np.zeros((cases, 1, 24, 24), bool)
    truth[:, :, 6:15, 8:18] = True
    wrong = random.random((cases, number, 24, 24)) < 0.1
    return (truth ^ wrong).astype(np.int16)


def test_two_raters_give_their_intersection_and_that_is_said() -> None:
    labels = draw_lesions(0, 2)
    consensus = raters.fuse(Study.from_arrays(labels=labels), "staple")
    for case, fused in consensus.iter_cases():
        np.testing.assert_array_equal(fused.labels, case.labels.min(axis=0))
    (note,) = consensus.notes
    assert note.startswith("4 cases have two raters only: the consensus is their intersection (100")
    assert raters.fuse(Study.from_arrays(labels=labels), "vote").notes == []
    assert raters.fuse(Study.from_arrays(labels=draw_lesions(0, 3)), "staple").notes == []


def test_cases_with_two_of_three_raters_count_too() -> None:
    labels = draw_lesions(1, 3)
    labels[0, 1] = -1
    notes = raters.fuse(Study.from_arrays(labels=labels), "staple", pool=True).notes
    assert len(notes) == 1 and notes[0].startswith("1 case has two raters only")


@pytest.mark.parametrize("pool", [False, True])
def test_one_rater_is_said(pool: bool) -> None:
    labels = draw_lesions(1, 1)
    notes = raters.fuse(labels, "staple", pool=pool).notes
    assert notes == ["4 cases have one rater only: the consensus is what this rater drew"]
    assert raters.fuse(labels, "vote").notes == []
    labels = np.concatenate([labels, draw_lesions(2, 3)], axis=1)
    labels[0, 1:] = -1
    notes = raters.fuse(labels, "staple").notes
    assert notes == ["1 case has one rater only: the consensus is what this rater drew"]


def test_classes_that_nobody_gave_are_said() -> None:
    """Raters who say 1 for 2 have matrices that tell so, also where they are alone."""
    random = np.random.default_rng(0)
    truth = random.choice(3, (4, 1, 24, 24), p=(0.4, 0.2, 0.4))
    mixed = np.where(truth == 2, 1, truth)
    labels = np.concatenate([mixed, mixed, truth, truth], axis=1).astype(np.int16)
    said = "1% of the consensus or more is a class that no rater gave there: to dawid-skene"
    study = Study.from_arrays(labels=labels)
    assert not any(said in note for note in raters.fuse(study, "dawid-skene", pool=True).notes)
    labels[0, 2:] = -1
    study = Study.from_arrays(labels=labels)
    consensus = raters.fuse(study, "dawid-skene", pool=True)
    assert set(np.unique(consensus.labels["0"])) == {0, 2}  # both raters gave 0 and 1 there
    assert any(note.startswith(f"in 1 of 4 cases {said}") for note in consensus.notes)
    assert not any(said in note for note in raters.fuse(study, "vote").notes)


@pytest.mark.parametrize("method", ["vote", "staple"])
def test_copied_raters_are_named(method: str) -> None:
    labels = draw_lesions(2, 4, cases=25)
    labels[:, 2] = labels[:, 0]
    names = ["ann", "bob", "cy", "dee"]
    notes = raters.fuse(Study.from_arrays(labels=labels, raters=names), method).notes
    assert len(notes) == 1
    assert notes[0].startswith("ann and cy have the same masks in 25 of the 25 cases")
    labels[3, 2, 0, 0] ^= 1  # nearly all
    again = raters.fuse(Study.from_arrays(labels=labels, raters=names), method).notes
    assert again[0].startswith("ann and cy have the same masks in 24 of the 25 cases")
    labels[:8, 2, 0, 0] ^= 1
    assert raters.fuse(Study.from_arrays(labels=labels, raters=names), method).notes == []


def test_raters_who_draw_nothing_are_no_copies() -> None:
    labels = draw_lesions(3, 4)
    labels[:, 2:] = 0
    assert raters.fuse(Study.from_arrays(labels=labels), "vote").notes == []


def test_notes_are_written_and_those_of_finished_cases_stay(tmp_path: Path) -> None:
    study = Study.from_arrays(labels=draw_lesions(0, 2))
    first = write_consensus(raters.fuse(study, "staple"), tmp_path / "out")
    again = write_consensus(raters.fuse(study, "staple"), tmp_path / "out")
    assert again.skipped == 4 and again.notes == first.notes and "intersection" in first.notes[0]
    content = json.loads((tmp_path / "out/raters.json").read_text())
    assert content["notes"] == first.notes
    assert list(content["cases"]) == list(study.cases) and len(content["raters"]) == 4 * 2 * 2


def test_long_json_is_json(tmp_path: Path) -> None:
    content = {"a": {"x": [1, {"y": float("nan")}]}, "r": [{"q": "ä\n", "z": [1, 2]}, {}], "e": []}
    cases = {"k 1": {"v": [[1.5]]}, "k\n2": {}}
    write_json(tmp_path / "one.json", {**content, "c": cases})
    parts = {**content, "r": iter(content["r"]), "e": iter([]), "c": iter(cases.items())}
    write_long_json(tmp_path / "other.json", parts)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()


def test_a_journal_gives_facts_back_without_keeping_them(tmp_path: Path) -> None:
    facts = {"rows": [{"rater": f"ä{k}", "value": k / 7} for k in range(500)]}
    journal = Journal(tmp_path, {"plan": "é"})
    tracemalloc.start()
    for k in range(100):
        journal.finish(f"case ü{k}", "source", {**facts, "number": k})
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 200_000  # a hundred times these facts are some 10 MB
    assert journal.facts("case ü7") == {**facts, "number": 7}
    journal.close()
    with (tmp_path / ".import.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"case": "cut')  # where the work was stopped
    again = Journal(tmp_path, {"plan": "é"})
    again.finish("last", "source", {"number": -1})
    assert again.facts("case ü99") == {**facts, "number": 99}
    assert again.facts("last") == {"number": -1} and again.facts("cut") is None
    again.close()
    third = Journal(tmp_path, {"plan": "é"})
    assert third.facts("last") == {"number": -1} and third.facts("case ü0") == {
        **facts,
        "number": 0,
    }
    third.close()


def volume(folder: Path, spacing: tuple[float, ...]) -> np.ndarray:
    """Write masks of three raters with anisotropic voxels."""
    random = np.random.default_rng(0)
    truth = np.indices((16, 14, 6)).sum(axis=0) // 4 % 2
    labels = np.where(random.random((3, 16, 14, 6)) < 0.15, 1 - truth, truth).astype(np.uint8)
    for k, mask in enumerate(labels):
        image = nibabel.Nifti1Image(mask, np.diag([*spacing, 1.0]))
        (folder / f"r{k}").mkdir()
        nibabel.save(image, folder / f"r{k}/case.nii.gz")
    return labels


def test_a_window_means_the_same_through_files_and_on_arrays(tmp_path: Path) -> None:
    spacing = (0.5, 0.75, 3.0)
    labels = volume(tmp_path, spacing)
    study = raters.read(str(tmp_path / "{rater}/{case}.nii.gz"))
    options = {"window": 6.0, "prior_weight": 5.0, "max_iter": 4}
    through_file = raters.fuse(study, "spatial-staple", **options)["case"]
    on_array = spatial_staple(labels, 2, spacing=spacing, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(through_file.truth, on_array.truth)
    in_voxels = spatial_staple(labels, 2, **options)  # type: ignore[arg-type]
    assert np.abs(in_voxels.truth - on_array.truth).max() > 0.01
    # A spacing that is given counts in place of the file's: with 1, windows are in voxels.
    given = raters.fuse(study, "spatial-staple", spacing=[1, 1, 1], **options)["case"]
    np.testing.assert_array_equal(given.truth, in_voxels.truth)
    with pytest.raises(RatersError, match="found 2 values of spacing, expected 1 or 3"):
        raters.fuse(study, "spatial-staple", spacing=[1, 1])["case"]
