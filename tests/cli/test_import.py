"""`raters import`: written whole, resumed after anything, and never outside its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

import raters
from tests.support.command_line import (
    Outcome,
    Run,
    assert_succeeded,
    blob,
    draw_masks,
    fingerprint,
    images_option,
    pattern,
    run_alone,
    save_png,
)

JOURNAL = ".import.jsonl"
FORMS = pytest.mark.parametrize("form", ["canonical", "packed"])

# Kills the process when the k-th case is noted as finished.
AFTER_CASES = """
import os, signal
from raters.io.results import Journal
real, seen = Journal.finish, []
def finish(self, *arguments):
    real(self, *arguments)
    seen.append(1)
    if len(seen) == {k}:
        os.kill(os.getpid(), signal.{signal})
Journal.finish = finish
"""

# Kills the process when everything is written but the last files.
BEFORE_END = """
import os, signal
import raters.study.study_file as study_file
study_file.{function} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
"""

# Kills the process in the middle of writing a line of the journal.
IN_A_LINE = """
import os, signal
from raters.io.results import Journal
real, seen = Journal._line, []
def line(self, entry):
    seen.append(1)
    if len(seen) == {k}:
        self._file.write('{{"case": "c')
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, entry)
Journal._line = line
"""


def import_words(folder: Path, out: str, form: str, *more: object) -> list[object]:
    """Return the import of what `draw` drew."""
    reference = f"{folder}/truth/{{case}}.png"
    return [
        "import",
        pattern(folder),
        *images_option(folder),
        "--reference",
        reference,
        "-o",
        folder / out,
        "--form",
        form,
        *more,
    ]


def draw_with_reference(folder: Path, cases: int = 6) -> Path:
    """Draw masks and images, and a reference for every other case."""
    draw_masks(folder, cases=cases)
    for k in range(0, cases, 2):
        save_png(folder / f"truth/c{k}.png", blob(k % 5))
    return folder


def content(out: Path) -> dict[str, str]:
    """Return the hash of every file of a study but the journal and the lock."""
    found = fingerprint(out)
    passing = (JOURNAL, ".lock")
    kept = [path for path in found if Path(path).name not in passing]
    return {str(Path(path).relative_to(out)): found[path] for path in kept}


# Written whole.


@FORMS
def test_what_is_written_is_what_was_read(run_raters: Run, tmp_path: Path, form: str) -> None:
    draw_with_reference(tmp_path)
    (tmp_path / "masks/bob/c3.png").unlink()
    before = fingerprint(tmp_path)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)), "6 cases written")
    after = fingerprint(tmp_path)
    assert {f for f in after if not f.startswith(f"{tmp_path}/out")} == set(before)
    assert all(after[f] == before[f] for f in before)
    study = raters.read(tmp_path / "out")
    assert (study.raters, len(study)) == (("ann", "bob"), 6)
    for k, case in enumerate(study.iter_cases()):
        assert case.image is not None
        assert (case.image[0] == np.asarray(Image.open(tmp_path / f"images/c{k}.png"))).all()
        assert (case.reference is not None) == (k % 2 == 0)
        for r, rater in enumerate(study.raters):
            source = tmp_path / f"masks/{rater}/c{k}.png"
            expected = np.asarray(Image.open(source)) if source.exists() else raters.MISSING
            assert (case.labels[r] == expected).all()


@FORMS
def test_study_file_comes_last(
    run_raters: Run, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raters.study import study_file

    draw_with_reference(tmp_path)
    seen: dict[str, str] = {}
    real = study_file.write_study_file

    def last(folder: Path, study: study_file.StudyFile) -> None:
        seen.update(content(folder))
        real(folder, study)

    monkeypatch.setattr(study_file, "write_study_file", last)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    whole = content(tmp_path / "out")
    assert whole.pop("study.yaml")
    assert seen == whole
    assert not [name for name in whole if ".part" in name or name.startswith(".tmp")]


def test_geometry_and_values_are_kept(run_raters: Run, tmp_path: Path) -> None:
    affine = np.array([[0, -0.5, 0, 10], [0.5, 0, 0, -20], [0, 0, 3, 5], [0, 0, 0, 1.0]])
    for rater in ("ann", "bob"):
        (tmp_path / rater).mkdir()
        volume = np.zeros((6, 5, 4), np.int16)
        volume[2:4] = 300 if rater == "ann" else 7
        nib.save(nib.Nifti1Image(volume, affine), tmp_path / rater / "c0.nii.gz")
    out = tmp_path / "out"
    assert_succeeded(run_raters("import", f"{tmp_path}/{{rater}}/{{case}}.nii.gz", "-o", out))
    study = raters.read(out)
    assert study.classes.values == (0, 7, 300)
    assert np.allclose(study["c0"].geometry.affine, affine)
    written = nib.load(next(out.glob("labels/ann/c0.nii.gz")))
    assert sorted(np.unique(np.asarray(written.dataobj))) == [0, 300]


def test_tables_with_features_in_both_forms(run_raters: Run, tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    features = tmp_path / "features.npy"
    table.write_text("task,worker,label\nt1,ann,cat\nt1,ann,dog\nt2,bob,dog\n")
    np.save(features, np.arange(6, dtype=np.float32).reshape(2, 3))
    for form in ("canonical", "packed"):
        out = tmp_path / form
        assert_succeeded(
            run_raters("import", table, "--images", features, "-o", out, "--form", form)
        )
        study = raters.read(out)
        assert len(study.triplets) == 3
        assert study["t2"].image is not None
        assert study["t2"].image.tolist() == [3, 4, 5]


# Interrupted.


def finish_after(
    run_raters: Run, folder: Path, form: str, before: str, signal: int = -9
) -> tuple[Outcome, Outcome]:
    """Stop an import, see that the folder is no study yet, go on, and compare with a whole one."""
    draw_with_reference(folder)
    stopped = run_alone(*import_words(folder, "out", form), before=before)
    assert stopped.code == signal, stopped
    opened = run_raters("check", folder / "out")
    assert opened.code == 2
    assert "not finished" in opened.err
    done = run_raters(*import_words(folder, "out", form))
    assert_succeeded(done)
    assert_succeeded(run_raters(*import_words(folder, "whole", form)))
    assert content(folder / "out") == content(folder / "whole")
    return stopped, done


@pytest.mark.slow
@FORMS
@pytest.mark.parametrize("k", [1, 4])
def test_killed_after_some_cases(run_raters: Run, tmp_path: Path, form: str, k: int) -> None:
    code = AFTER_CASES.format(k=k, signal="SIGKILL")
    _, done = finish_after(run_raters, tmp_path, form, code)
    expected = {
        1: "5 cases written, 1 was there already",
        4: "2 cases written, 4 were there already",
    }
    assert expected[k] in done.out


@pytest.mark.slow
@FORMS
@pytest.mark.parametrize("function", ["write_cases_file", "write_study_file"])
def test_killed_before_the_end(run_raters: Run, tmp_path: Path, form: str, function: str) -> None:
    _, done = finish_after(run_raters, tmp_path, form, BEFORE_END.format(function=function))
    assert "0 cases written, 6 were there already" in done.out


@pytest.mark.parametrize("k", [1, 3])
def test_killed_within_a_line_of_the_journal(run_raters: Run, tmp_path: Path, k: int) -> None:
    finish_after(run_raters, tmp_path, "canonical", IN_A_LINE.format(k=k))
    again = run_raters(*import_words(tmp_path, "out", "canonical"))
    assert_succeeded(again, "0 cases written, 6 were there already")


@pytest.mark.slow
def test_killed_twice(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path)
    code = AFTER_CASES.format(k=2, signal="SIGKILL")
    assert run_alone(*import_words(tmp_path, "out", "packed"), before=code).code == -9
    finish_after(run_raters, tmp_path, "packed", code)


def test_finished_cases_are_left_alone(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path)
    code = AFTER_CASES.format(k=3, signal="SIGKILL")
    run_alone(*import_words(tmp_path, "out", "canonical"), before=code)
    lines = (tmp_path / "out" / JOURNAL).read_text().splitlines()[1:]
    finished = [json.loads(line)["case"] for line in lines]
    assert finished == ["c0", "c1", "c2"]
    files = [p for c in finished for p in (tmp_path / "out").rglob(f"{c}.png")]
    assert len(files) == 3 * 3 + 2
    before = {path: path.stat().st_mtime_ns for path in files}
    assert_succeeded(run_raters(*import_words(tmp_path, "out", "canonical")))
    assert {path: path.stat().st_mtime_ns for path in files} == before


def test_ctrl_c_says_how_to_go_on(run_raters: Run, tmp_path: Path) -> None:
    code = AFTER_CASES.format(k=2, signal="SIGINT")
    stopped, _ = finish_after(run_raters, tmp_path, "canonical", code, signal=130)
    assert "stopped" in stopped.err
    assert "resumes" in stopped.err
    assert "Traceback" not in stopped.err


# Called again.


@FORMS
def test_nothing_to_do(run_raters: Run, tmp_path: Path, form: str) -> None:
    draw_with_reference(tmp_path)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    before = content(tmp_path / "out")
    assert_succeeded(
        run_raters(*import_words(tmp_path, "out", form)), "0 cases written, 6 were there already"
    )
    assert content(tmp_path / "out") == before


def change_mask(folder: Path) -> None:
    save_png(folder / "masks/bob/c1.png", blob(4))


def remove_mask(folder: Path) -> None:
    (folder / "masks/bob/c1.png").unlink()


def remove_reference(folder: Path) -> None:
    (folder / "truth/c2.png").unlink()


def remove_image(folder: Path) -> None:
    (folder / "images/c1.png").unlink()


def add_mask(folder: Path) -> None:
    save_png(folder / "masks/bob/c5.png", blob(2))


@FORMS
@pytest.mark.parametrize(
    "change", [change_mask, remove_mask, remove_reference, remove_image, add_mask]
)
def test_a_case_whose_files_changed_is_written_again(
    run_raters: Run, tmp_path: Path, form: str, change: Callable[[Path], None]
) -> None:
    draw_with_reference(tmp_path)
    if change is add_mask:
        (tmp_path / "masks/bob/c5.png").unlink()
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    change(tmp_path)
    assert_succeeded(
        run_raters(*import_words(tmp_path, "out", form)), "1 case written, 5 were there already"
    )
    assert_succeeded(run_raters(*import_words(tmp_path, "whole", form)))
    out = content(tmp_path / "out")
    whole = content(tmp_path / "whole")
    assert out == whole


@FORMS
def test_a_repaired_file_is_added(run_raters: Run, tmp_path: Path, form: str) -> None:
    draw_with_reference(tmp_path)
    bad = tmp_path / "masks/bob/c2.png"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:40])
    first = run_raters(*import_words(tmp_path, "out", form))
    assert first.code == 2
    assert "5 cases written" in first.out
    assert str(bad) in first.err
    assert raters.read(tmp_path / "out").cases == ("c0", "c1", "c3", "c4", "c5")
    assert run_raters("check", tmp_path / "out").code == 0
    bad.write_bytes(whole)
    assert_succeeded(
        run_raters(*import_words(tmp_path, "out", form)), "1 case written, 5 were there already"
    )
    assert_succeeded(run_raters(*import_words(tmp_path, "whole", form)))
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@FORMS
def test_a_file_that_broke_takes_its_case_out(run_raters: Run, tmp_path: Path, form: str) -> None:
    draw_with_reference(tmp_path)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    bad = tmp_path / "masks/bob/c2.png"
    whole = bad.read_bytes()
    times = bad.stat()
    bad.write_bytes(whole[:40])
    assert run_raters(*import_words(tmp_path, "out", form)).code == 2
    assert "c2" not in raters.read(tmp_path / "out").cases
    bad.write_bytes(whole)
    os.utime(bad, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a backup restores it
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    study = raters.read(tmp_path / "out")
    assert "c2" in study.cases
    assert (study["c2"].labels[1] == np.asarray(Image.open(bad))).all()


@FORMS
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--raters", "ann"], "raters"),
        (["--values", "0=nothing,1=lesion"], "classes"),
        (["--absent", "empty"], "rules"),
        (["--cases", "c0,c1"], "case"),
    ],
)
def test_another_plan_is_refused_and_overwriting_leaves_nothing_stale(
    run_raters: Run, tmp_path: Path, form: str, options: list[str], word: str
) -> None:
    draw_with_reference(tmp_path)
    (tmp_path / "masks/bob/c1.png").unlink()
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    before = content(tmp_path / "out")
    outcome = run_raters(*import_words(tmp_path, "out", form, *options))
    assert outcome.code == 2
    for expected in (str(tmp_path / "out"), word, "--overwrite"):
        assert expected in outcome.err
    assert content(tmp_path / "out") == before
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form, *options, "--overwrite")))
    assert_succeeded(run_raters(*import_words(tmp_path, "whole", form, *options)))
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@FORMS
@pytest.mark.parametrize("part", ["images", "reference"])
def test_other_parts_are_another_plan(
    run_raters: Run, tmp_path: Path, form: str, part: str
) -> None:
    draw_with_reference(tmp_path)
    whole = import_words(tmp_path, "out", form)
    where = whole.index(f"--{part}")
    without = whole[:where] + whole[where + 2 :]
    for first, second in ((whole, without), (without, whole)):
        assert_succeeded(run_raters(*first, "--overwrite"))
        before = content(tmp_path / "out")
        outcome = run_raters(*second)
        assert outcome.code == 2
        for expected in ("holds other work", part, "--overwrite"):
            assert expected in outcome.err
        assert content(tmp_path / "out") == before


@pytest.mark.parametrize("part", ["images", "reference"])
def test_other_parts_of_a_table_are_another_plan(
    run_raters: Run, tmp_path: Path, part: str
) -> None:
    table = tmp_path / "answers.csv"
    truth = tmp_path / "truth.txt"
    table.write_text("task,worker,label\nt1,ann,cat\nt2,bob,dog\n")
    truth.write_text("cat\ndog\n")
    np.save(tmp_path / "features.npy", np.zeros((2, 3)))
    beside = {"images": tmp_path / "features.npy", "reference": truth}
    assert_succeeded(run_raters("import", table, f"--{part}", beside[part], "-o", tmp_path / "out"))
    outcome = run_raters("import", table, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert f"holds other work ({part} true there, false now)" in outcome.err


def test_overwriting_with_another_form(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path)
    for form, other in (("canonical", "packed"), ("packed", "canonical")):
        assert_succeeded(run_raters(*import_words(tmp_path, "out", form, "--overwrite")))
        outcome = run_raters(*import_words(tmp_path, "out", other))
        assert outcome.code == 2
        assert f'"{form}" there, "{other}" now' in outcome.err
        assert_succeeded(run_raters(*import_words(tmp_path, other, other)))
        assert_succeeded(run_raters(*import_words(tmp_path, "out", other, "--overwrite")))
        assert content(tmp_path / "out") == content(tmp_path / other)


def test_overwriting_keeps_what_is_not_ours(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", "canonical")))
    (tmp_path / "out/notes.txt").write_text("mine")
    assert_succeeded(run_raters(*import_words(tmp_path, "out", "packed", "--overwrite")))
    assert (tmp_path / "out/notes.txt").read_text() == "mine"


def test_a_mistake_in_the_options_does_not_cost_the_old_study(
    run_raters: Run, tmp_path: Path
) -> None:
    draw_with_reference(tmp_path)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", "canonical")))
    before = content(tmp_path / "out")
    for mistake in (["--raters", "carl"], ["--form", "zip"], ["--new-split", "x=0"]):
        assert (
            run_raters(*import_words(tmp_path, "out", "canonical", "--overwrite", *mistake)).code
            == 2
        )
        assert content(tmp_path / "out") == before
    for path in [*tmp_path.glob("masks/*/*.png"), *tmp_path.glob("truth/*.png")]:
        path.write_text("the disk is gone")
    assert run_raters(*import_words(tmp_path, "out", "canonical", "--overwrite")).code == 2
    assert content(tmp_path / "out") == before


@FORMS
def test_new_cases_are_added(run_raters: Run, tmp_path: Path, form: str) -> None:
    draw_with_reference(tmp_path, cases=3)
    assert_succeeded(run_raters(*import_words(tmp_path, "out", form)))
    draw_with_reference(tmp_path, cases=4)
    outcome = run_raters(*import_words(tmp_path, "out", form))
    if form == "packed":  # its arrays have a fixed number of rows
        assert outcome.code == 2
        assert "cases" in outcome.err
    else:
        assert_succeeded(outcome)
        assert len(raters.read(tmp_path / "out")) == 4


@FORMS
def test_packed_form_needs_one_shape_and_says_so(
    run_raters: Run, tmp_path: Path, form: str
) -> None:
    draw_masks(tmp_path)
    for rater in ("ann", "bob"):
        save_png(tmp_path / f"masks/{rater}/c1.png", blob(size=14))
    outcome = run_raters("import", pattern(tmp_path), "-o", tmp_path / "out", "--form", form)
    if form == "canonical":
        assert_succeeded(outcome)
        return
    assert outcome.code == 2
    for expected in ("14, 14", "12, 12", "c1", "canonical form takes any"):
        assert expected in outcome.err


# Splits.


def test_new_split_is_stored_and_stable(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path, cases=10)
    split = ["--new-split", "train=.6,val=.2,test=.2"]
    for form in ("canonical", "packed"):
        assert_succeeded(run_raters(*import_words(tmp_path, form, form, *split, "--seed", 5)))
    assert_succeeded(run_raters(*import_words(tmp_path, "other", "packed", *split, "--seed", 6)))
    cases = [(tmp_path / form / "cases.csv").read_text() for form in ("canonical", "packed")]
    assert cases[0] == cases[1]
    splits = raters.read(tmp_path / "canonical").index.splits.tolist()
    assert [splits.count(name) for name in ("train", "val", "test")] == [6, 2, 2]
    assert splits != raters.read(tmp_path / "other").index.splits.tolist()
    assert_succeeded(
        run_raters(*import_words(tmp_path, "canonical", "canonical", *split, "--seed", 5))
    )
    assert (tmp_path / "canonical/cases.csv").read_text() == cases[0]
    assert "test 2" in run_raters("check", tmp_path / "canonical", "--split", "test").out


def test_shares_of_more_than_everything(run_raters: Run, tmp_path: Path) -> None:
    draw_with_reference(tmp_path)
    outcome = run_raters(
        *import_words(tmp_path, "out", "packed", "--new-split", "train=.8,test=.4")
    )
    assert outcome.code == 2
    assert "sum to 1.2" in outcome.err
    for fine in ("train=8,test=4", "a=.67,b=.17,c=.17", "a=.3,b=.3"):
        assert_succeeded(
            run_raters(*import_words(tmp_path, "out", "packed", "--overwrite", "--new-split", fine))
        )


def test_new_split_keeps_groups_together(run_raters: Run, tmp_path: Path) -> None:
    for k in range(12):
        save_png(tmp_path / f"masks/ann/p{k // 3}_{k}.png", blob(k % 5))
    source = f"{tmp_path}/masks/{{rater}}/{{group}}_{{case}}.png"
    assert_succeeded(
        run_raters("import", source, "-o", tmp_path / "out", "--new-split", "a=.5,b=.5")
    )
    index = raters.read(tmp_path / "out").index
    pairs = set(zip(index.groups, index.splits, strict=True))
    assert len(pairs) == 4
    assert {split for _, split in pairs} == {"a", "b"}


@pytest.mark.slow
def test_folders_with_braces_in_their_names_are_folders(run_raters: Run, tmp_path: Path) -> None:
    """What raters writes it reads, too; only what is not there is a pattern."""
    draw_masks(tmp_path)
    study = tmp_path / "my {x} study"
    fused = tmp_path / "fu{s}ed"
    assert run_raters("import", pattern(tmp_path), *images_option(tmp_path), "-o", study).code == 0
    assert "no problems" in run_raters("check", study).out
    assert run_raters("fuse", study, "-m", "vote", "-o", fused).code == 0
    scored = run_raters("evaluate", fused, study)
    assert scored.code == 0, scored.err
    told = run_raters("report", fused, "-o", tmp_path / "{report}")
    assert told.code == 0, told.err
