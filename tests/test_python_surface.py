"""What people hold goes in, and what they expect comes out: frames, arrays, reprs, torch."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader

import raters
from raters.core.errors import RatersError
from raters.io import formats
from raters.study.study import Study
from tests.support.command_line import draw_masks, pattern
from tests.support.makers import oblique, to_itk

LONG = pd.DataFrame(
    {
        "item": ["t10", "t2", "t2", "t10", "t2"],
        "annotator": ["bob", "ann", "bob", "ann", "cy"],
        "answer": ["cat", "dog", "dog", "cat", "cat"],
        "patient": ["p1", "p2", "p2", "p1", "p2"],
        "gold": ["cat", None, None, "cat", None],
        "split": ["train", "test", "test", "train", "test"],
        "size": [1.5, 2.5, 2.5, 1.5, 2.5],
    }
)
WIDE = pd.DataFrame(
    {"ann": ["dog", "cat"], "bob": ["dog", "cat"], "cy": ["cat", None]}, index=["t2", "t10"]
)
ANSWERS = {("t2", "ann", "dog"), ("t2", "bob", "dog"), ("t2", "cy", "cat")} | {
    ("t10", "ann", "cat"),
    ("t10", "bob", "cat"),
}


def answer_set(study: Study) -> set[tuple[object, ...]]:
    return set(study.triplets.frame().itertuples(index=False, name=None))


class TestFrames:
    """Tables of pandas, long and wide."""

    def test_long_by_usual_names(self) -> None:
        study = raters.read(LONG)
        assert answer_set(study) == ANSWERS
        assert study.cases == ("t2", "t10") and study.raters == ("ann", "bob", "cy")
        assert list(study.index.groups) == ["p2", "p1"]
        assert list(study.index.splits) == ["test", "train"]
        assert study["t10"].reference == study.classes.names.index("cat")
        assert study["t2"].reference is None
        assert (
            Study.from_frame(LONG.iloc[:, :3].set_index(["item", "annotator"])).cases == study.cases
        )

    @pytest.mark.parametrize(
        "frame",
        [
            WIDE,
            WIDE.rename_axis("whatever"),
            WIDE.reset_index(names="case"),
            WIDE.reset_index(names="case").assign(split="train", truth="dog"),
            WIDE.astype("category"),
            WIDE.fillna(""),
        ],
    )
    def test_wide(self, frame: pd.DataFrame) -> None:
        assert answer_set(Study.from_frame(frame)) == ANSWERS

    def test_names_that_are_told(self) -> None:
        odd = LONG.iloc[:, :3].set_axis(["x", "y", "z"], axis=1)
        assert answer_set(raters.read(odd, task="x", worker="y", label="z")) == ANSWERS
        assert Study.from_frame(odd, task="x", worker="y", label="z").raters == ("ann", "bob", "cy")
        study = Study.from_frame(WIDE.assign(label=["a", "b"]), wide=True)
        assert study.raters == ("ann", "bob", "cy", "label")

    def test_numbers_are_classes_also_where_gaps_made_them_floats(self) -> None:
        frame = pd.DataFrame({"ann": [0, 2], "bob": [0.0, np.nan], "cy": [-1, 2]})
        study = Study.from_frame(frame, missing=-1)
        assert answer_set(study) == {
            ("0", "ann", 0),
            ("0", "bob", 0),
            ("1", "ann", 2),
            ("1", "cy", 2),
        }
        assert study.cases == ("0", "1")
        assert Study.from_frame(frame, missing=-1, classes="0=no,2=yes").classes.names == (
            "no",
            "yes",
        )

    def test_as_its_file_is_read(self, tmp_path: Path) -> None:
        LONG.to_csv(tmp_path / "a.csv", index=False)
        names = {"task": "item", "worker": "annotator", "label": "answer"}
        from_file = raters.read(tmp_path / "a.csv", **names)  # type: ignore[arg-type]
        assert from_file.triplets == raters.read(LONG).triplets

    def test_features_and_images(self) -> None:
        study = Study.from_frame(LONG, features=["size"])
        np.testing.assert_array_equal(study["t10"].image, [1.5])
        images = np.arange(2 * 1 * 3 * 3).reshape(2, 1, 3, 3)
        np.testing.assert_array_equal(raters.read(LONG, images=images)["t10"].image, images[1])
        with pytest.raises(RatersError, match="found 3 images, expected 2"):
            Study.from_frame(LONG, images=np.zeros((3, 2)))
        with pytest.raises(RatersError, match=r"features.*cat.*expected numbers"):
            Study.from_frame(LONG, features=["gold"])

    @pytest.mark.parametrize(
        ("frame", "words"),
        [
            (LONG.drop(columns="item"), "columns annotator, .*expected .task.: raters.read.*task="),
            (LONG[["item", "answer", "size"]], "expected 'worker'"),
            (WIDE.set_axis([True, False]), "index of True and False"),
            (WIDE.set_axis(["t", "t"]), "found task 't' in rows 1 and 2"),
            (LONG.assign(patient=list("abcde")), "in column 'patient', expected one value"),
            (WIDE.assign(ann=0.5)[["ann"]], "found label 0.5 by rater 'ann' for task"),
            (WIDE.iloc[:0], "no rows"),
        ],
    )
    def test_what_is_refused(self, frame: pd.DataFrame, words: str) -> None:
        with pytest.raises(RatersError, match=words):
            raters.read(frame)

    def test_a_part(self) -> None:
        study = raters.read(LONG, raters=["ann", "bob"], split="test", anonymous=True)
        assert (len(study), study.raters, study.anonymous) == (1, ("ann", "bob"), True)

    def test_rows_of_a_wide_frame_keep_their_names(self) -> None:
        frame = pd.DataFrame({"a": [0, 1, 2], "b": [0, 1, 1]})
        assert raters.read(frame).cases == ("0", "1", "2")
        kept = raters.read(frame[frame.a > 0])
        assert kept.cases == ("1", "2") and answer_set(kept) == {
            ("1", "a", 1),
            ("1", "b", 1),
            ("2", "a", 2),
            ("2", "b", 1),
        }
        assert answer_set(raters.read(frame.iloc[::-1])) == answer_set(raters.read(frame))


class TestWhatTakesAStudy:
    """Verbs that take more than studies."""

    LABELS = np.array([[[[0, 1, 1]], [[0, 1, 0]], [[0, 1, 1]]]])

    def test_frames(self) -> None:
        assert raters.agree(WIDE).frame("raters")["rater"].nunique() == 3
        assert raters.check(LONG).cases == 2
        assert raters.fuse(LONG, "vote").labels.to_dict() == {"t2": "dog", "t10": "cat"}
        assert repr(raters.fuse(LONG)) == "Consensus(hierarchical, 2 cases, 3 raters)"
        with pytest.raises(
            RatersError, match=r"tables, and staple does not.*one of vote, mean, dawid"
        ):
            raters.fuse(LONG, "staple")

    def test_arrays_and_tensors(self, tmp_path: Path) -> None:
        for given in (self.LABELS, torch.from_numpy(self.LABELS), list(self.LABELS)):
            np.testing.assert_array_equal(raters.fuse(given, "vote").labels["0"], [[0, 1, 1]])
        assert len(raters.agree(self.LABELS).cases) == 1
        assert raters.check(self.LABELS).raters == {"0": 1, "1": 1, "2": 1}
        draw_masks(tmp_path)
        assert raters.agree(pattern(tmp_path)).kind == "segmentation"

    @pytest.mark.parametrize("verb", [raters.agree, raters.check, raters.fuse])
    def test_masks_without_a_case_are_refused(self, verb: object) -> None:
        masks = self.LABELS[0]
        for given in (masks, list(masks), torch.from_numpy(masks), masks.tolist()):
            with pytest.raises(RatersError, match=r"3 axes.*labels\[np.newaxis\].*from_arrays"):
                verb(given)  # type: ignore[operator]
        verb([list(masks)])  # type: ignore[operator]
        assert len(Study.from_arrays(labels=masks)) == 3
        if verb is not raters.fuse:  # STAPLE is for masks
            verb(np.array([[0, 1], [1, 1]]))  # type: ignore[operator]

    def test_fit_and_extend_take_what_read_takes(self, tmp_path: Path) -> None:
        for verb in (raters.fit, partial(raters.extend, None)):
            with pytest.raises(RatersError, match="found NoneType, expected a study, a pattern"):
                verb(None)
            with pytest.raises(RatersError, match="no such file or folder"):
                verb(str(tmp_path / "st"))
        for given in (LONG, self.LABELS):  # read, but there is nothing to learn from
            with pytest.raises(RatersError, match=r"expected .*(image|feature)"):
                raters.fit(given, progress=False)

    def test_frames_and_reports_of_other_things(self, tmp_path: Path) -> None:
        for given in ("x.csv", [[0, 1]], None):
            with pytest.raises(RatersError, match=r"expected a pandas frame: raters.read opens"):
                Study.from_frame(given)  # type: ignore[arg-type]
        for other in (raters.fuse(LONG, "vote"), 3, None):
            with pytest.raises(RatersError, match=r"expected a study, .*consensus.write"):
                raters.report(other, tmp_path / "page")  # type: ignore[arg-type]
        assert raters.report(LONG, tmp_path / "page").exists()

    def test_one_mask_is_no_truth(self) -> None:
        mask = np.pad(np.ones((6, 6), int), 5)
        with pytest.raises(RatersError, match=r"2 axes.*truth\[np.newaxis\]"):
            raters.simulate(mask)
        assert len(raters.simulate(mask[np.newaxis], "good:1")) == 1

    @pytest.mark.parametrize("make", [to_itk, nibabel.Nifti1Image])
    def test_images_keep_their_place_in_space(self, make: object, tmp_path: Path) -> None:
        affine = oblique(np.random.default_rng(0))
        mask = np.arange(24).reshape(2, 3, 4).astype(np.uint8) % 2
        drawn = [[make(mask, affine), make(mask, affine), make(1 - mask, affine)]]  # type: ignore[operator]
        raters.fuse(drawn, "vote").write(tmp_path)
        written = formats.read_labels(next(tmp_path.glob("0.n*")))
        np.testing.assert_array_equal(written.array, mask)
        np.testing.assert_allclose(written.affine, affine, atol=1e-5)  # type: ignore[arg-type]

    @pytest.mark.parametrize("verb", [raters.agree, raters.check, raters.fuse])
    def test_what_is_none(self, verb: object) -> None:
        with pytest.raises(RatersError, match=r"found dict, expected a study, a pattern.*array"):
            verb({"a": 1})  # type: ignore[operator]
        with pytest.raises(RatersError, match="found int, expected a pattern"):
            raters.read(3)  # type: ignore[arg-type]


class TestConsensus:
    """What a consensus says."""

    def test_of_a_table(self) -> None:
        consensus = raters.fuse(LONG, "dawid-skene")
        labels = consensus.labels
        shares = consensus.probabilities
        skills = consensus.skills
        assert labels.to_dict() == {"t2": "dog", "t10": "cat"} and labels.index.name == "task"
        assert list(shares.columns) == ["cat", "dog"]
        assert (shares.idxmax(axis=1) == labels).all()
        np.testing.assert_array_equal(shares.to_numpy(), consensus.truth)
        assert skills.index.tolist() == ["ann", "bob", "cy"] and skills["ann"] > skills["cy"]
        assert raters.fuse(LONG, "vote").skills.isna().all()

    def test_numbers_stay_numbers_and_names_are_used(self) -> None:
        frame = pd.DataFrame({"ann": [1, 0, 1], "bob": [1, 1, None]}, index=list("abc"))
        found = raters.fuse(frame, "vote", ties="undecided")
        assert found.labels.to_dict() == {"a": 1, "b": None, "c": 1}
        assert raters.fuse(frame, "vote").labels.dtype == np.int64
        named = raters.fuse(raters.read(frame, values={0: "no", 1: "yes"}), "vote")
        assert named.labels.tolist() == ["yes", "no", "yes"]
        assert named.probabilities.columns.tolist() == ["no", "yes"]

    def test_of_masks(self) -> None:
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, (2, 8, 8))
        wrong = rng.random((2, 3, 8, 8)) < np.array([0.05, 0.1, 0.3])[:, None, None]
        study = Study.from_arrays(labels=np.where(wrong, 1 - truth[:, None], truth[:, None]))
        consensus = raters.fuse(study, "dawid-skene")
        assert list(consensus.labels) == list(study.cases) == list(consensus.probabilities)
        for case in study.cases:
            np.testing.assert_array_equal(consensus.labels[case], consensus[case].labels)
            np.testing.assert_array_equal(consensus.probabilities[case], consensus[case].truth)
        diagonal = np.einsum("crtt->crt", consensus.confusion).mean(axis=2)
        np.testing.assert_allclose(consensus.skills, diagonal)
        assert consensus.skills.index.tolist() == list(study.cases)
        pooled = raters.fuse(study, "dawid-skene", pool=True).skills
        assert pooled.shape == (3,) and pooled.is_monotonic_decreasing
        simple = raters.fuse(study, "simple").skills  # the Dice with what came out
        for case in study:
            mask = raters.fuse(study, "simple")[case.id].labels
            kept = simple.loc[case.id] > 0
            dice = [2 * (m & mask).sum() / (m.sum() + mask.sum()) for m in case.labels]
            np.testing.assert_allclose(simple.loc[case.id][kept], np.array(dice)[kept])

    @pytest.mark.parametrize("pool", [False, True])
    @pytest.mark.parametrize("method", ["staple", "dawid-skene", "spatial-staple", "simple"])
    def test_no_skill_without_labels_of_masks(self, method: str, pool: bool) -> None:
        if pool and method in ("spatial-staple", "simple"):
            return
        labels = np.random.default_rng(0).integers(0, 2, (2, 4, 6, 6))
        labels[:, 3] = -1
        labels[1, 2] = -1
        skills = raters.fuse(labels, method, pool=pool).skills.to_numpy()
        silent = (
            [False, False, False, True]
            if pool
            else [[False] * 3 + [True], [False] * 2 + [True] * 2]
        )
        np.testing.assert_array_equal(np.isnan(skills), silent)

    @pytest.mark.parametrize("method", ["dawid-skene", "one-coin"])
    def test_no_skill_without_labels_of_a_table(self, method: str) -> None:
        frame = pd.DataFrame({"a": [0, 1, 1], "b": [0, 1, 0], "c": [1, None, None]})
        skills = raters.fuse(raters.read(frame)[["1", "2"]], method).skills
        assert skills.isna().to_dict() == {"a": False, "b": False, "c": True}

    @pytest.mark.slow
    def test_written_as_the_command_line_does(self, tmp_path: Path) -> None:
        draw_masks(tmp_path)
        study = raters.read(pattern(tmp_path))
        result = raters.fuse(study, "vote").write(tmp_path / "out", soft=True)
        assert result.written == len(study) and not result.failures
        words = ["fuse", pattern(tmp_path), "-m", "vote", "--soft", "-o", str(tmp_path / "cli")]
        done = subprocess.run([sys.executable, "-m", "raters", *words], check=False)
        assert done.returncode == 0
        files = sorted(p.relative_to(tmp_path / "cli") for p in (tmp_path / "cli").rglob("*.*"))
        assert files == sorted(
            p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*.*")
        )
        for file in files:
            if not file.name.startswith("."):
                one, other = ((tmp_path / where / file).read_bytes() for where in ("cli", "out"))
                assert one == other, file
        page = raters.report(tmp_path / "out", tmp_path / "page", cases_shown=1)
        assert page.name == "report.html"


class TestStudy:
    """Cases and parts of a study."""

    STUDY = Study.from_arrays(labels=np.zeros((5, 2, 3, 3), int), cases=list("abcde"))

    def test_cases_and_parts(self) -> None:
        study = self.STUDY
        assert study[:3].cases == ("a", "b", "c") and study[::-2].cases == ("e", "c", "a")
        assert study[["d", "b"]].cases == ("d", "b") and study[1:][1:]["c"].id == "c"
        assert study[2].id == study["c"].id == study[-3].id == "c"
        assert len(study[5:]) == 0 and [case.id for case in study[3:]] == ["d", "e"]
        with pytest.raises(RatersError, match="found case number 99, expected 0 to 4"):
            study[99]
        with pytest.raises(RatersError, match="found no case 'f' among 5 cases, expected one of a"):
            study["f"]

    def test_slices_of_tables(self) -> None:
        assert answer_set(raters.read(WIDE)[1:]) == {a for a in ANSWERS if a[0] == "t10"}

    def test_tables_of_agreement(self) -> None:
        with pytest.raises(RatersError, match="found the table 'nope', expected one of overall, "):
            raters.agree(self.STUDY).frame("nope")

    @pytest.mark.parametrize("what", ["labels", "reference"])
    def test_labels_that_are_no_whole_numbers(self, what: str) -> None:
        bad = np.array([[0.0, np.nan], [0.5, 0.0]])
        with pytest.raises(RatersError, match=r"case 1: .*float64, expected whole.*-1 for missing"):
            Study.from_arrays(**{what: bad})
        with pytest.raises(RatersError, match="case 0: found labels of type float64"):
            Study.from_arrays(**{what: bad[1:]}, classes=["a", "b"])
        for words in (np.array([["a", "b"], ["b", "b"]]), np.array([["a", "b"]])):
            with pytest.raises(RatersError, match=r"type <U1.*raters.read takes a frame"):
                Study.from_arrays(**{what: words})

    def test_parts_by_masks_and_numbers(self) -> None:
        study = Study.from_arrays(labels=np.zeros((4, 2, 3, 3), int), cases=list("abcd"))
        mask = [True, False, True, False]
        for key in (mask, np.array(mask), np.array([0, 2]), range(0, 4, 2), ["a", "c"], [0, -2]):
            assert study[key].cases == ("a", "c")
        assert len(study[[]]) == 0 and study[np.int64(1)].id == "b"
        with pytest.raises(RatersError, match="a mask of 3, expected one of 4"):
            study[[True, False, True]]
        for twice in (["c", "c"], [2, -2]):
            with pytest.raises(RatersError, match="'c' twice"):
                study[twice]
        for odd in (1.0, ("a", "b"), None, True, [1.5], [[0]], [True, 0], np.zeros((2, 2), int)):
            with pytest.raises(RatersError, match="expected the name or number of a case"):
                study[odd]


class TestTorch:
    """A study in a loop of torch."""

    def test_batches(self) -> None:
        rng = np.random.default_rng(0)
        labels = rng.integers(-1, 3, (5, 2, 4, 6))
        images = rng.random((5, 3, 4, 6))
        truth = [None, *rng.integers(0, 3, (4, 4, 6))]
        study = Study.from_arrays(images, labels, truth)
        batches = list(DataLoader(study.to_torch(), batch_size=2))
        assert [len(batch["case"]) for batch in batches] == [2, 2, 1]
        np.testing.assert_array_equal(torch.cat([b["labels"] for b in batches]), labels)
        np.testing.assert_array_equal(
            torch.cat([b["image"] for b in batches]), images.astype(np.float32)
        )
        reference = torch.cat([b["reference"] for b in batches])
        assert (reference[0] == raters.MISSING).all()
        np.testing.assert_array_equal(reference[1:], np.stack(truth[1:]))  # type: ignore[arg-type]
        assert [case for b in batches for case in b["case"]] == list(study.cases)
        assert len(list(study.to_torch())) == 5  # a loop over it ends

    def test_answers_geometry_and_transforms(self) -> None:
        items = DataLoader(Study.from_frame(LONG, features=["size"]).to_torch(), batch_size=2)
        batch = next(iter(items))
        assert batch["labels"].tolist() == [[1, 1, 0], [0, 0, -1]]
        assert batch["image"].tolist() == [[2.5], [1.5]]
        affine = np.diag([0.5, 0.75, 3.0, 1.0])
        mask = nibabel.Nifti1Image(np.ones((2, 3, 4), np.uint8), affine)
        study = Study.from_arrays(labels=[[mask, mask]])
        np.testing.assert_array_equal(study.to_torch()[0]["affine"], affine)
        assert study.to_torch(lambda item: item["case"])[0] == "0"

    def test_monai_takes_it(self) -> None:
        from monai.data import CacheDataset
        from monai.transforms import Compose, RandFlipd, ScaleIntensityd

        study = Study.from_arrays(np.ones((2, 1, 4, 4)), np.zeros((2, 3, 4, 4), int))
        both = RandFlipd(["image", "labels"], prob=1.0, spatial_axis=0)
        steps = Compose([ScaleIntensityd("image"), both])
        data = CacheDataset(study.to_torch(), steps, progress=False)
        assert data[1]["image"].shape == (1, 4, 4) and data[1]["labels"].shape == (3, 4, 4)

    def test_answers_that_differ_are_refused(self) -> None:
        said = {"task": ["t", "t", "u", "u"], "worker": ["ann"] * 4, "label": [0, 0, 1, 0]}
        items = raters.read(pd.DataFrame(said)).to_torch()
        assert items[0]["labels"].tolist() == [0]
        with pytest.raises(RatersError, match="different answers by 'ann' to task 'u'"):
            items[1]


class TestNames:
    """What is where a reader looks."""

    def test_packages_and_functions(self) -> None:
        assert {"fusion", "learning", "metrics", "study", "views", "read"} <= set(dir(raters))
        for name in dir(raters):
            assert getattr(raters, name) is not None

    @pytest.mark.slow
    def test_functions_of_the_package(self) -> None:
        from raters.api import report
        from raters.simulation import simulate

        study = raters.simulate(
            np.kron(np.eye(2, dtype=int), np.ones((8, 8), int))[None], "good,over"
        )
        assert isinstance(study, Study)
        assert inspect.signature(raters.report) == inspect.signature(report)
        assert inspect.signature(raters.simulate) == inspect.signature(simulate)

    def test_functions_where_a_reader_looks(self) -> None:
        from raters.fusion._staple import fused, staple

        labels = np.array([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]])
        for name in ("vote", "mean", "staple", "spatial_staple", "simple"):
            found = getattr(raters.fusion, name)(labels, num_classes=2)
            assert found.labels.shape == (5,)
        triplets = raters.read(WIDE).triplets
        for function in (raters.fusion.dawid_skene, raters.fusion.dawid_skene):
            assert function(triplets, 2).labels.shape == (2,)
        assert raters.fusion._staple.staple is staple and raters.fusion._staple.fused is fused
        assert raters.metrics.dice([0, 1], [0, 1], 2).shape == (1,)

    @pytest.mark.slow
    def test_nothing_heavy_for_it(self) -> None:
        code = (
            "import sys, raters, numpy as np\n"
            "raters.fusion.staple(np.array([[0, 1], [0, 1]]), 2); raters.fusion.StapleOptions()\n"
            "raters.learning.methods.PixelOptions(prior=0.1)\n"
            "raters.learning.training.TrainingOptions(epochs=3)\n"
            "sys.exit(bool({'torch', 'monai', 'lightning'} & sys.modules.keys()))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_is_shown() -> None:
    study = raters.read(LONG)
    consensus = raters.fuse(study, "dawid-skene")
    masks = Study.from_arrays(labels=np.zeros((2, 3, 4, 4), int), raters=["<b>", "bob", "cy"])
    things = {
        study: "Study(classification, 2 cases, 3 raters, 2 classes)",
        study["t2"]: "Case('t2', 3 raters)",
        consensus: "Consensus(dawid-skene, 2 cases, 3 raters)",
        raters.fuse(masks, "staple", pool=True): "Consensus(staple, pooled, 2 cases, 3 raters)",
    }
    for thing, text in things.items():
        assert repr(thing) == text
    assert repr(raters.agree(masks)) == "Agreement(segmentation, 2 cases, 3 raters)"
    assert repr(raters.check(LONG)).startswith("CheckReport(classification, 2 cases, 3 raters; ")
    assert repr(raters.fuse(masks, "vote")["0"]) == "Fusion(labels of shape (4, 4))"
    assert "converged after" in repr(consensus.table)
    for thing in (study, masks, consensus, raters.agree(masks), raters.check(masks)):
        page = thing._repr_html_()  # type: ignore[attr-defined]
        assert "<table>" in page and "<b>" not in page.replace("<p><b>", "") and len(page) < 10_000
    many = Study.from_arrays(labels=np.zeros((500, 2), int), cases=[f"c{k}" for k in range(500)])
    assert "the first 10 of 500" in many._repr_html_()


def test_typed_options_are_those_by_name() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 24)
    labels = np.where(rng.random((24, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    study = Study.from_arrays(truth[:, None] + rng.normal(0, 0.1, (24, 1)), labels)
    named = raters.fit(study, "global-cm", trace=0.1, epochs=2, lr=0.01, progress=False)
    typed = raters.fit(
        study,
        raters.learning.methods.GlobalOptions(trace=0.1),
        training=raters.learning.training.TrainingOptions(epochs=2, lr=0.01),
        progress=False,
    )
    assert typed.config == named.config
    for one, other in zip(typed.method.parameters(), named.method.parameters(), strict=True):
        assert torch.equal(one, other)
    assert repr(typed) == "Model(global-cm, 3 raters, 2 classes)"
    assert "<td>0, 1, 2</td>" in typed._repr_html_() and "last epochs" in typed._repr_html_()
    with pytest.raises(RatersError, match="expected a name: one of truth, separate"):
        raters.fit(study, raters.learning.methods.MethodOptions())
