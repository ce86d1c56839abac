"""Kinds of annotation: how drawings are read, kept by every writer, and refused in words."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.entry import MethodEntry
from raters.learning.training.store import key_of
from raters.study.annotations import (
    ANNOTATIONS,
    Annotation,
    Unmarked,
    explicit,
    names_by_kind,
    reading,
    refuse_no_box,
    refuse_one_class,
)
from raters.study.study import Study
from raters.study.survey import labelled, survey
from tests.support.makers import few, quick, save, square

Array = NDArray[Any]
BOTH: tuple[Unmarked, ...] = ("rest", "unknown")
KINDS = st.sampled_from(ANNOTATIONS)


def read_by_hand(drawn: Array, kind: str, unmarked: str, num_classes: int) -> Array:
    """Read a drawing pixel by pixel, as the table in `reading` says."""
    holds_missing = MISSING in drawn.ravel().tolist()
    told = np.empty_like(drawn)
    for place in np.ndindex(drawn.shape):
        value = int(drawn[place])
        marked = value > 0 or (value == 0 and holds_missing)
        if value == MISSING or kind == "mask":
            said = value
        elif kind == "box":
            said = MISSING if value > 0 else 0
        elif kind == "scribble" or (kind == "negative" and num_classes > 2):
            said = value if marked else MISSING
        elif unmarked == "unknown" and not marked:
            said = MISSING
        else:
            said = 1 - value if kind == "negative" else value
        told[place] = said
    return told


@pytest.mark.parametrize(("kind", "unmarked"), list(product(ANNOTATIONS, BOTH)))
@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_readings_equal_plain_loops(kind: Annotation, unmarked: Unmarked, num_classes: int) -> None:
    rng = np.random.default_rng(num_classes)
    for lowest, shape in product((MISSING, 0, 1), ((7, 5), (4, 3, 2))):
        drawn = rng.integers(lowest, num_classes, shape).astype(np.int16)
        found = reading(drawn, kind, unmarked, num_classes)
        assert np.array_equal(found, read_by_hand(drawn, kind, unmarked, num_classes))
        assert found.dtype == np.int16
        settled = explicit(drawn, kind, unmarked, num_classes)
        assert np.array_equal(reading(settled, kind, unmarked, num_classes), found)


def draw_every_kind(num_classes: int = 2, cases: int = 3) -> dict[str, Any]:
    """Make the arrays of a study with a rater of every kind; boxes are boxes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, (cases, 5, 6, 8)).astype(np.int16)
    labels[:, 3][rng.random((cases, 6, 8)) < 0.7] = MISSING  # scribbles that mark background too
    labels[:, 4] = 0
    labels[:, 4, 1:4, 2:6] = num_classes - 1
    names = ["mo", "ann", "ben", "cy", "eve"]
    return {
        "labels": labels,
        "images": rng.normal(size=(cases, 1, 6, 8)).astype(np.float32),
        "raters": names,
        "classes": ["background", "core", "edge", "rim"][:num_classes],
        "annotations": dict(zip(names, ANNOTATIONS, strict=True)),
    }


def read_case_by_hand(arrays: dict[str, Any], unmarked: str, case: int) -> Array:
    """Read all drawings of a case pixel by pixel."""
    kinds = arrays["annotations"]
    classes = len(arrays["classes"])
    rows = zip(arrays["raters"], arrays["labels"][case], strict=True)
    return np.stack([read_by_hand(row, kinds[rater], unmarked, classes) for rater, row in rows])


def assert_reads(study: Study, arrays: dict[str, Any], unmarked: str) -> None:
    """Compare a study with readings by hand, and its kinds with those that were given."""
    assert dict(study.annotations) == arrays["annotations"]
    assert study.unmarked == unmarked
    for k, case in enumerate(study):
        assert np.array_equal(case.labels, read_case_by_hand(arrays, unmarked, k))
        assert np.array_equal(case.drawings, arrays["labels"][k])


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("unmarked", BOTH)
def test_every_writer_keeps_kinds(tmp_path: Path, num_classes: int, unmarked: Unmarked) -> None:
    """Drawings stay as they are drawn, so that they can be read otherwise later."""
    arrays = draw_every_kind(num_classes)
    study = Study.from_arrays(**arrays, unmarked=unmarked)
    assert_reads(study, arrays, unmarked)
    packed = study.write(tmp_path / "packed", "packed")
    canonical = packed.write(tmp_path / "canonical")
    again = canonical.write(tmp_path / "again", "packed")
    for written in (packed, canonical, again):
        assert_reads(written, arrays, unmarked)
    other: Unmarked = "rest" if unmarked == "unknown" else "unknown"
    assert_reads(raters.read(tmp_path / "again", unmarked=other), arrays, other)


def test_parts_keep_kinds() -> None:
    arrays = draw_every_kind()
    study = Study.from_arrays(**arrays, splits=["train", "test", "train"], unmarked="rest")
    part = study.select(raters=["ben", "ann"], split="train")
    assert dict(part.annotations) == {"ann": "positive", "ben": "negative"}
    assert np.array_equal(part[1].labels, read_case_by_hand(arrays, "rest", 2)[[1, 2]])
    assert np.array_equal(
        study.to_torch()[1]["labels"].numpy(), read_case_by_hand(arrays, "rest", 1)
    )
    assert study.annotate({"ben": "mask"}).annotations["ben"] == "mask"


@few
@given(st.integers(2, 4), st.lists(st.integers(0, 2**16), min_size=1, max_size=3), st.booleans())
def test_masks_are_unchanged(num_classes: int, seeds: list[int], empty: bool) -> None:
    """Without kinds nothing is read otherwise, written otherwise, or said of it."""
    rng = np.random.default_rng(seeds)
    labels = rng.integers(MISSING, num_classes, (len(seeds), 2, 3, 4)).astype(np.int16)
    if empty:
        labels[:, 0] = 0
    study = Study.from_arrays(labels=labels, classes=list("abcd")[:num_classes], raters=["p", "q"])
    for told in (study, study.annotate({"p": "mask", "q": "mask"}, "unknown")):
        for k, case in enumerate(told):
            assert np.array_equal(case.labels, labels[k])
            assert case.drawings is case.labels
        assert not told.drawn
        assert told.readings() == []
        assert told.without_negatives() is told
        assert key_of(told) == key_of(study)


def test_files_of_masks_are_as_before(tmp_path: Path) -> None:
    """No key is added to `study.yaml` or to the journal of a study without kinds."""
    arrays = draw_every_kind()
    del arrays["annotations"]
    Study.from_arrays(**arrays).write(tmp_path / "study")
    content = yaml.safe_load((tmp_path / "study/study.yaml").read_text())
    assert list(content) == ["format", "form", "kind", "raters", "classes", "ignore"]
    plan = json.loads((tmp_path / "study/.import.jsonl").read_text().splitlines()[0])
    assert not {"annotations", "unmarked"} & set(json.dumps(plan).replace('"', " ").split())
    assert dict(raters.read(tmp_path / "study").annotations) == dict.fromkeys(
        arrays["raters"], "mask"
    )


@quick
@given(KINDS, st.sampled_from(BOTH), st.integers(0, 2**16))
def test_chosen_classes_say_what_they_said(kind: Annotation, unmarked: Unmarked, seed: int) -> None:
    """A part of the classes claims nothing that the whole did not, in memory and in files."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 4, (1, 1, 5, 6)).astype(np.int16)
    if kind == "box":
        drawn = np.zeros_like(drawn)
        drawn[0, 0, 1:3, 1:4] = 2
        drawn[0, 0, 3:5, 2:3] = 1
    names = ["background", "a", "b", "c"]
    study = Study.from_arrays(
        labels=drawn, classes=names, annotations={"0": kind}, unmarked=unmarked
    )
    whole = study[0].labels
    part = study.select(classes=["b"])[0].labels
    for place in np.ndindex(whole.shape):
        said = int(whole[place])
        told = int(part[place])
        if kind == "negative":
            assert told == (0 if said == 2 else MISSING)  # 'not b' is background; 'not a' may be b
        elif said == MISSING:
            assert told == MISSING
        elif said in (1, 3):
            assert told in (0, MISSING)  # MISSING where nothing at all is left unmarked
        else:
            assert told == {0: 0, 2: 1}[said]


def test_chosen_classes_are_written_as_they_are_read(tmp_path: Path) -> None:
    arrays = draw_every_kind(4)
    for unmarked in BOTH:
        part = Study.from_arrays(**arrays, unmarked=unmarked).select(classes=["core", "rim"])
        for form in ("canonical", "packed"):
            written = part.write(tmp_path / unmarked / form, form)
            assert dict(written.annotations) == arrays["annotations"]
            for one, other in zip(part, written, strict=True):
                assert np.array_equal(one.labels, other.labels)


def test_resampled_drawings_say_nothing_outside(tmp_path: Path) -> None:
    """MISSING beyond the edge of a drawing does not turn its unmarked pixels into marks."""
    near = np.eye(4)
    far = np.eye(4)
    far[0, 3] = 2.0
    save(tmp_path / "images/c.nii.gz", np.zeros((6, 4, 1), np.int16), near)
    save(tmp_path / "masks/ann/c.nii.gz", np.pad(square(), ((0, 0), (0, 0)))[..., None], far)
    for kind, said in (("scribble", {MISSING, 1}), ("positive", {MISSING, 0, 1})):
        study = raters.read(
            f"{tmp_path}/masks/{{rater}}/{{case}}.nii.gz",
            images=f"{tmp_path}/images/{{case}}.nii.gz",
            resample="nearest",
            annotations={"ann": kind},
        )
        labels = study["c"].labels[0, :, :, 0]
        assert set(np.unique(labels)) == said
        assert (labels[:2] == MISSING).all()
        assert np.array_equal(labels[2:] == 1, square() == 1)


def test_absent_files(tmp_path: Path) -> None:
    """'Drew nothing' is background for who draws objects, and says nothing for the others."""
    for rater, kind in zip("abcde", ANNOTATIONS, strict=True):
        save(tmp_path / f"masks/{rater}/c1.png", square())
        kinds = dict(zip("abcde", ANNOTATIONS, strict=True))
        assert kinds[rater] == kind
    save(tmp_path / "masks/a/c2.png", square())
    save(tmp_path / "masks/d/c2.png", 0 * square())
    study = raters.read(
        f"{tmp_path}/masks/{{rater}}/{{case}}.png",
        absent="empty",
        annotations=kinds,
        unmarked="rest",
    )
    rows = study["c2"].labels
    assert np.array_equal(rows[0], square())
    assert [set(np.unique(row)) for row in rows[1:]] == [{0}, {MISSING}, {MISSING}, {0}]
    assert labelled(study.select(raters=["b"])).tolist() == [True, True]
    assert labelled(study.select(raters=["c"])).tolist() == [True, False]
    assert survey(study).without_labels() == ()


# Manifests.


def write_manifest(folder: Path, text: str) -> Path:
    path = folder / "manifest.csv"
    path.write_text(text)
    return path


def test_a_rater_with_two_kinds_is_two_raters(tmp_path: Path) -> None:
    for name, corner in (("p1", 0), ("n1", 2), ("n2", 1), ("m2", 0)):
        save(tmp_path / f"{name}.png", square(corner=corner))
    path = write_manifest(
        tmp_path,
        "case,rater,mask,annotation\nc1,ann,n1.png,negative\nc1,ann,p1.png,positive\n"
        "c2,ann,n2.png,negative\nc2,bob,m2.png,\n",
    )
    kinds = {"ann": "positive", "ann [negative]": "negative", "bob": "mask"}
    usual = raters.read(path, values="0=background,1=lesion")
    assert dict(usual.annotations) == kinds and usual.unmarked == "unknown"
    assert np.array_equal(usual["c1"].labels[0], np.where(square(), 1, MISSING))
    study = raters.read(path, values="0=background,1=lesion", unmarked="rest")
    assert np.array_equal(study["c1"].labels[0], square())
    assert np.array_equal(study["c1"].labels[1], 1 - square(corner=2))
    assert (study["c2"].labels[0] == MISSING).all()
    assert np.array_equal(study["c2"].labels[2], square())
    written = study.write(tmp_path / "study", "packed")
    assert dict(written.annotations) == kinds
    told = raters.read(path, annotations={"bob": "scribble"})
    assert told.annotations["bob"] == "scribble"


def test_manifests_that_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "m.png", square())
    bad = write_manifest(tmp_path, "case,rater,mask,annotation\nc1,ann,m.png,sketch\n")
    with pytest.raises(RatersError, match=r"manifest.csv: found the annotation 'sketch' in row 2"):
        raters.read(bad)
    taken = "c1,ann,m.png,mask\nc1,ann,m.png,box\nc1,ann [box],m.png,mask\n"
    path = write_manifest(tmp_path, f"case,rater,mask,annotation\n{taken}")
    with pytest.raises(RatersError, match=r"the rater 'ann \[box\]' beside 'ann'"):
        raters.read(path)
    # A column that was there before kinds were: it is still no slip.
    path = write_manifest(tmp_path, "case,rater,mask,annotator\nc1,ann,m.png,Ann Lee\n")
    assert raters.read(path).raters == ("ann",)


def test_names_by_kind_do_not_depend_on_the_order() -> None:
    kinds: list[Annotation] = ["box", "scribble", "negative"]
    expected = {("a", "negative"): "a", ("a", "scribble"): "a [scribble]", ("a", "box"): "a [box]"}
    assert names_by_kind({"a": kinds}) == names_by_kind({"a": kinds[::-1]}) == expected


# Refusals.


def test_unknown_names_are_refused() -> None:
    arrays: dict[str, Any] = {"labels": np.zeros((1, 1, 2, 2), int), "raters": ["ann"]}
    for options, message in (
        ({"annotations": {"ann": "sketch"}}, "'sketch' of rater 'ann', expected one of mask, pos"),
        ({"annotations": {"bob": "box"}}, "found an annotation of the rater 'bob' .* ann"),
        ({"unmarked": "nothing"}, "found unmarked='nothing', expected 'rest' or 'unknown'"),
    ):
        with pytest.raises(RatersError, match=message):
            Study.from_arrays(**arrays, **options)


def test_tables_have_no_kinds(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
    with pytest.raises(RatersError, match="'box' of rater 'ann' in a table of class labels"):
        raters.read(table, annotations={"ann": "box"})
    with pytest.raises(RatersError, match="unmarked='rest' for a table of class labels"):
        raters.read(table, unmarked="rest")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("annotations: {mo: sketch}", "annotations.mo: .*'mask', 'positive'.*'sketch'"),
        ("annotations: {nobody: box}", "study.yaml: found an annotation of the rater 'nobody'"),
        ("unmarked: maybe", "unmarked: .*'rest' or 'unknown'.*'maybe'"),
    ],
)
def test_odd_study_files_are_refused(tmp_path: Path, line: str, message: str) -> None:
    arrays = draw_every_kind()
    del arrays["annotations"]
    Study.from_arrays(**arrays).write(tmp_path / "study", "packed")
    with open(tmp_path / "study/study.yaml", "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RatersError, match=message):
        raters.read(tmp_path / "study")


def test_boxes_must_be_boxes() -> None:
    names = ["background", "car", "van"]
    box = np.zeros((6, 7), np.int16)
    box[1:4, 1:5] = 1
    box[4:6, 5:7] = 1  # touches at a corner only
    box[2:5, 3:6] = 2  # lies over both
    refuse_no_box(box, names)
    refuse_no_box(np.zeros((3, 3), np.int16), names)
    solid = np.zeros((4, 4, 4), np.int16)
    solid[1:3, 0:2, 1:4] = 2
    refuse_no_box(solid, names)
    solid[1, 0, 1] = 0
    with pytest.raises(RatersError, match=r"found 11 of 12 pixels of a box of 'van' filled"):
        refuse_no_box(solid, names)
    box[1, 1] = 0
    with pytest.raises(RatersError, match=r"of 'car' filled \(rows 1 to 3, columns 1 to 4\)"):
        refuse_no_box(box, names)


def test_a_box_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    save(tmp_path / "masks/eve/c1.png", np.eye(4, dtype=np.uint8) + np.eye(4, 4, 1, np.uint8))
    study = raters.read(f"{tmp_path}/masks/{{rater}}/{{case}}.png", annotations={"eve": "box"})
    with pytest.raises(RatersError, match=r"masks/eve/c1.png: found 7 of 16 pixels") as caught:
        _ = study["c1"].labels
    assert (caught.value.rater, caught.value.case) == ("eve", "c1")
    report = raters.check(study)
    assert [(p.kind, p.rater) for p in report.problems if p.level == "error"] == [
        ("annotation", "eve")
    ]


# What commands are made of.


def test_negatives_of_several_classes_are_left_out_or_refused() -> None:
    arrays = draw_every_kind(3)
    study = Study.from_arrays(**arrays)
    assert study.negatives == ("ben",)
    agreement = raters.agree(study)
    assert {row["rater"] for row in agreement.raters} == {"mo", "ann", "cy", "eve"}
    assert "left out, as negative drawings say what a pixel is not: ben" in agreement.notes
    alone = raters.agree(study.select(raters=["mo", "ann", "cy", "eve"]))
    assert alone.pairs == agreement.pairs
    with pytest.raises(RatersError, match=r"by 'ben', expected .*--raters mo,ann,cy,eve.*coarse"):
        raters.fuse(study, "vote")
    with pytest.raises(RatersError, match=r"only the rater 'ann' \(left out, .*: ben\)"):
        raters.agree(study.select(raters=["ann", "ben"]))
    entry = MethodEntry("", "")
    with pytest.raises(RatersError, match=r"'ben', expected .* some-method cannot use"):
        entry.refuse_drawings("some-method", study.annotations, study.classes.names)
    MethodEntry("", "", takes_negatives=True).refuse_drawings("", study.annotations, ["", "", ""])


def test_evaluate_compares_with_who_says_what_a_pixel_is() -> None:
    arrays = draw_every_kind(3)
    reference = np.zeros((3, 6, 8), int)
    reference[:, 2:5, 2:5] = 1
    study = Study.from_arrays(**arrays, reference=reference)
    found = raters.evaluate(reference, study, surfaces=False)
    assert {row["against"] for row in found.cases} == {"reference", "mo", "ann", "cy", "eve"}
    assert "left out, as negative drawings say what a pixel is not: ben" in found.notes


def test_agreement_of_drawings_by_hand() -> None:
    """Positive and negative drawings that say nothing elsewhere meet where they contradict."""
    drawn = np.array([[[[1, 1, 0, 0, 0]], [[0, 1, 1, 1, 0]], [[1, 1, 1, 0, 0]]]])
    kinds = {"ann": "positive", "ben": "negative"}
    study = Study.from_arrays(
        labels=drawn, raters=["ann", "ben", "mo"], annotations=kinds, unmarked="unknown"
    )
    found = raters.agree(study)
    dice = {(row["rater_a"], row["rater_b"]): row["dice"] for row in found.pairs}
    # ann says 1 1 - - -, ben - 0 0 0 -, mo 1 1 1 0 0.
    assert dice == {("ann", "ben"): 0.0, ("ann", "mo"): 1.0, ("ben", "mo"): 0.0}
    assert "raters are compared only where both say something" in found.notes


def test_fusion_reads_drawings() -> None:
    """Two classes: a vote over drawings is the vote over what they say."""
    arrays = draw_every_kind()
    for unmarked in BOTH:
        fused = raters.fuse(Study.from_arrays(**arrays, unmarked=unmarked), "vote")
        for k in range(3):
            said = read_case_by_hand(arrays, unmarked, k)
            votes = np.stack([(said == c).sum(axis=0) for c in range(2)])
            clear = votes[0] != votes[1]
            assert clear.any()
            assert np.array_equal(fused[k].labels[clear], votes.argmax(axis=0)[clear])


def test_counts_before_training_are_of_what_is_said() -> None:
    arrays = draw_every_kind(3)
    study = Study.from_arrays(**arrays)
    assert study.unmarked == "unknown" and study.annotate({"ben": "mask"}).unmarked == "unknown"
    assert Study.from_arrays(**{**arrays, "annotations": {"ann": "positive"}}).unmarked == "rest"
    said = np.stack([read_case_by_hand(arrays, "unknown", k) for k in range(3)])
    rows = [k for k, name in enumerate(arrays["raters"]) if name != "ben"]
    expected = [int((said[:, rows] == c).sum()) for c in range(3)]
    assert survey(study).class_counts().tolist() == expected
    used = survey(study).used_by_raters()
    ben = arrays["raters"].index("ben")
    denied = {int(c) for c in np.unique(said[:, ben]) if c != MISSING}
    open_ = [bool(denied - {c}) for c in range(3)]  # 'not q' speaks of the other classes
    assert used[ben].tolist() == open_
    assert survey(study).without_labels() == ()
    silent = study.select(raters=["cy"]).annotate({"cy": "scribble"})
    assert survey(silent).case(0).pixels == int((said[0, 3] != MISSING).sum())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["staple", "dawid-skene", "spatial-staple"])
def test_matrices_of_drawings_that_cannot_say_each_class_are_refused(method: str) -> None:
    """'Says so whatever is true' would explain them, and the consensus be empty."""
    truth = np.zeros((1, 24, 24), np.int16)
    truth[0, 6:16, 8:20] = 1
    inner = np.zeros_like(truth)
    inner[0, 8:14, 9:18] = 1
    for other, kind, unmarked in ((1 - truth, "negative", "unknown"), (truth, "box", "rest")):
        kinds = {"a": "positive", "b": kind}
        given = {"labels": np.stack([inner, other], 1), "raters": ["a", "b"], "annotations": kinds}
        study = Study.from_arrays(**given, unmarked=unmarked)
        assert (raters.fuse(study, "vote")[0].labels[inner[0] == 1] == 1).all()
        named = "'a', 'b'" if unmarked == "unknown" else "'b'"
        with pytest.raises(RatersError, match=f"drawings by {named} that cannot say each class"):
            raters.fuse(study, method)
        with pytest.raises(RatersError, match="take -m vote"):
            raters.fuse(study)
    whole = Study.from_arrays(**{**given, "annotations": {"a": "positive", "b": "mask"}})
    assert raters.fuse(whole, method)[0].labels.any()


NAMES = ["background", "lesion"]
ONLY = [False, True]


def test_one_class_is_refused_only_of_drawings() -> None:
    with pytest.raises(RatersError, match="nothing but 'lesion'"):
        refuse_one_class(ONLY, NAMES, {"ann": "positive", "mo": "mask"}, "unknown")
    with pytest.raises(RatersError, match="nothing but 'background'"):
        refuse_one_class([True, False], NAMES, {"eve": "box"}, "rest")
    refuse_one_class(ONLY, NAMES, {"mo": "mask"}, "unknown")
    refuse_one_class([True, True], NAMES, {"ann": "positive"}, "unknown")
    three = [*NAMES, "edge"]
    kinds = {"ann": "positive", "ben": "negative"}
    refuse_one_class([False, True, False], three, kinds, "unknown")


@pytest.mark.parametrize(
    ("kind", "unmarked", "said", "helps", "not_said"),
    [
        ("positive", "unknown", 1, ("negative drawings, ", "--unmarked rest"), ("box",)),
        ("positive", "rest", 0, ("all else is background",), ("--unmarked", "says nothing")),
        ("negative", "unknown", 0, ("positive drawings, ", "--unmarked rest"), ("box",)),
        ("scribble", "unknown", 1, ("scribbles of background",), ("--unmarked", "box")),
        ("box", "unknown", 0, ("-m box-sup, -m grabcut", "outside all boxes"), ("--unmarked",)),
    ],
)
def test_one_class_is_refused_with_what_helps_by_kind(
    kind: str, unmarked: str, said: int, helps: tuple[str, ...], not_said: tuple[str, ...]
) -> None:
    with pytest.raises(RatersError) as refused:
        refuse_one_class(np.arange(2) == said, NAMES, {"bea": kind}, unmarked)
    message = str(refused.value)
    assert "by bea: " in message
    assert all(words in message for words in (*helps, "-m coarse --share"))
    assert not any(words in message for words in not_said)


def test_check_names_what_is_odd() -> None:
    marks = np.zeros((4, 4), np.int16)
    marks[:2, :2] = 1
    some = np.full((4, 4), MISSING, np.int16)
    some[0, :2] = (0, 1)
    full = np.ones((4, 4), np.int16)
    labels = np.array([[marks, marks.T, some, 0 * marks], [0 * marks, marks, marks, full]])
    kinds = {"ann": "positive", "ben": "negative", "cy": "scribble", "dan": "scribble"}
    told = {"annotations": kinds, "unmarked": "rest"}
    study = Study.from_arrays(labels=labels, raters=list(kinds), **told)
    report = raters.check(study)
    found = {(p.kind, p.case, p.rater): p.message for p in report.problems}
    assert "4 pixels drawn as not of a class" in found["contradiction", "0", "ben"]
    assert "rater 'ann'" in found["contradiction", "0", "ben"]
    assert "says background everywhere" in found["empty-mask", "1", "ann"]
    assert "says nothing at all" in found["empty-mask", "0", "dan"]
    assert "no unmarked pixel" in found["full-drawing", "1", "dan"]
    assert "in 1 file, where it is a mark of background" in found["unmarked", None, "cy"]
    assert report.to_dict()["raters"][1]["annotation"] == "negative"
    assert report.to_dict()["unmarked"] == "rest"
    assert not report.errors
    said = np.stack([case.labels for case in study])
    assert report.counts == {
        name: [int((said[:, k] == c).sum()) for c in (0, 1)] for k, name in enumerate(kinds)
    }
    assert report.shares == pytest.approx([(said == c).sum() / (said >= 0).sum() for c in (0, 1)])


@pytest.mark.parametrize(
    ("kind", "unmarked", "shares"),
    [
        ("positive", "rest", [0.75, 0.25]),
        ("positive", "unknown", [0, 1]),
        ("negative", "rest", [0.25, 0.75]),
        ("negative", "unknown", [1, 0]),
        ("scribble", "rest", [0, 1]),
        ("box", "rest", [1, 0]),
    ],
)
def test_check_counts_what_drawings_say(
    tmp_path: Path, kind: str, unmarked: str, shares: list[float]
) -> None:
    """Values of files are those of a study without named classes."""
    drawn = np.zeros((4, 4), np.uint8)
    drawn[:2, :2] = 255
    save(tmp_path / "ann/a.png", drawn)
    study = raters.read(f"{tmp_path}/{{rater}}/{{case}}.png").annotate({"ann": kind}, unmarked)
    assert raters.check(study).shares == shares
    assert raters.check(study.write(tmp_path / "study")).shares == shares
    three = np.array([[[[0, 1, 2, 2]]]])
    study = Study.from_arrays(labels=three, annotations={"0": "negative"})
    assert raters.check(study).shares == [0, 0, 0]  # no label says what a pixel is


def test_problems_of_arrays_name_the_case(tmp_path: Path) -> None:
    labels = np.ones((2, 2, 4, 4), int)
    labels[..., 0] = 0
    named = {"raters": ["ann", "ben"], "cases": ["lesion1", "lesion2"]}
    kinds = {"ann": "positive", "ben": "negative"}
    study = Study.from_arrays(labels=labels, **named, annotations=kinds)
    packed = study.write(tmp_path / "packed", "packed")
    for opened in (study, packed, packed.select(cases=["lesion2"])):
        found = [str(p) for p in raters.check(opened).problems if p.kind == "contradiction"]
        assert found[-1].startswith("rater 'ben' of case 'lesion2': found 12 pixels")
        assert "(rater 'ann' of case 'lesion2')" in found[-1]
