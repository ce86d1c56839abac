"""`raters fuse` as a user runs it: files, resuming, failing cases, tables, and a Dask cluster."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

import raters
from raters.io import formats
from raters.io.results import Journal
from tests.support.command_line import Outcome
from tests.support.makers import save

AFFINE = np.diag([1.0, 2.0, 3.0, 1.0])


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    random = np.random.default_rng(0)
    for case in ("a", "b", "p/c"):
        truth = random.choice([0, 2, 4], (5, 6, 4))
        for rater in ("ann", "bob", "cy"):
            noise = random.choice([0, 2, 4], truth.shape)
            mask = np.where(random.random(truth.shape) < 0.85, truth, noise)
            save(tmp_path / f"masks/{rater}/{case}.nii.gz", mask.astype(np.uint8), AFFINE)
    (tmp_path / "masks/cy/b.nii.gz").unlink()
    return f"{tmp_path}/masks/{{rater}}/{{group}}/{{case}}.nii.gz"


def without_groups(pattern: str) -> str:
    return pattern.replace("/{group}", "")


def test_masks_have_the_values_and_the_geometry_of_the_input(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    out = tmp_path / "out"
    done: Outcome = run_raters("fuse", without_groups(pattern), "-o", out, "--soft")  # type: ignore[operator]
    assert done.code == 0, done.err
    study = raters.read(without_groups(pattern))
    for case in study:
        volume = formats.read_labels(out / f"{case.id}.nii.gz")
        expected = raters.fuse(study, "staple")[case.id]
        np.testing.assert_array_equal(volume.array, np.array([0, 2, 4])[expected.labels])
        np.testing.assert_array_equal(volume.affine, AFFINE)
        soft = formats.read_image(out / f"soft/{case.id}.nii.gz")
        np.testing.assert_allclose(soft.array, expected.truth, atol=1e-6)
    content = json.loads((out / "raters.json").read_text())
    assert content["cases"]["a"]["converged"] is True
    assert len(content["cases"]["a"]["confusion"]) == 3
    rows = (out / "raters.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 3 * 3
    scored: Outcome = run_raters("evaluate", out, without_groups(pattern), "--no-surfaces")  # type: ignore[operator]
    assert scored.code == 0 and "belong to no case" not in scored.out


def test_finished_cases_are_skipped_and_changed_ones_are_not(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    out = tmp_path / "out"
    words = ("fuse", without_groups(pattern), "-o", out)
    assert "2 cases fused:" in run_raters(*words).out  # type: ignore[operator]
    before = (out / "raters.csv").read_text()
    assert "0 cases fused, 2 were there already" in run_raters(*words).out  # type: ignore[operator]
    assert (out / "raters.csv").read_text() == before
    save(tmp_path / "masks/ann/b.nii.gz", np.zeros((5, 6, 4), np.uint8), AFFINE)
    assert "1 case fused, 1 was there already" in run_raters(*words).out  # type: ignore[operator]
    refused: Outcome = run_raters(*words, "-m", "vote")  # type: ignore[operator]
    assert refused.code == 2 and "holds other work" in refused.err
    assert run_raters(*words, "-m", "vote", "--overwrite").code == 0  # type: ignore[operator]


def test_a_failing_case_is_named_while_the_others_finish(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    (tmp_path / "masks/ann/a.nii.gz").write_bytes(b"broken")
    done: Outcome = run_raters("fuse", without_groups(pattern), "-o", tmp_path / "out")  # type: ignore[operator]
    assert done.code == 2
    assert "1 case fused" in done.out and "a.nii.gz" in done.err
    assert (tmp_path / "out/b.nii.gz").exists()


def test_a_failing_case_does_not_stop_a_pooled_fusion(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    (tmp_path / "masks/ann/a.nii.gz").write_bytes(b"broken")
    words = ("fuse", without_groups(pattern), "--pool", "-o", tmp_path / "out")
    done: Outcome = run_raters(*words)  # type: ignore[operator]
    assert done.code == 2 and "1 case fused" in done.out and "a.nii.gz" in done.err


@pytest.mark.parametrize("other", [("--raters", "ann,bob"), ("--classes", "2"), ("--ignore", "4")])
def test_other_raters_classes_or_rules_are_other_work(
    pattern: str, tmp_path: Path, run_raters: object, other: tuple[str, str]
) -> None:
    words = ("fuse", without_groups(pattern), "-o", tmp_path / "out", "-m", "vote")
    assert run_raters(*words).code == 0  # type: ignore[operator]
    refused: Outcome = run_raters(*words, *other)  # type: ignore[operator]
    assert refused.code == 2 and "holds other work" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mean", "dawid-skene", "one-coin", "hierarchical"])
def test_every_method_for_tables_runs(tmp_path: Path, run_raters: object, method: str) -> None:
    random = np.random.default_rng(0)
    lines = [
        f"{t},{w},{t % 3 if random.random() < 0.8 else random.integers(3)}"
        for t in range(60)
        for w in "abcd"
    ]
    (tmp_path / "t.csv").write_text("\n".join(["task,worker,label", *lines]))
    done: Outcome = run_raters("fuse", tmp_path / "t.csv", "-m", method, "-o", tmp_path / "out")  # type: ignore[operator]
    assert done.code == 0, done.err
    fused = [line.split(",") for line in (tmp_path / "out/labels.csv").read_text().splitlines()[1:]]
    assert sum(int(task) % 3 == int(label) for task, label in fused) > 54
    content = json.loads((tmp_path / "out/raters.json").read_text())
    if method != "mean":
        assert len(content["confusion"]) == 4 and content["raters"][0]["sensitivity"] > 0.6
    assert (tmp_path / "out/tasks.csv").exists() == (method == "hierarchical")
    if method in ("dawid-skene", "hierarchical"):
        row = content["raters"][0]
        assert 0 < row["sensitivity_low"] < row["sensitivity"] < row["sensitivity_high"] <= 1
        assert "95 %" in done.out


def test_tables_are_fused_whole(tmp_path: Path, run_raters: object) -> None:
    (tmp_path / "t.csv").write_text(
        "task,worker,label\n"
        + "".join(f"{t},{w},{'cat' if t % 2 else 'dog'}\n" for t in range(6) for w in "abc")
    )
    done: Outcome = run_raters(
        "fuse", tmp_path / "t.csv", "-m", "vote", "-o", tmp_path / "out", "--soft"
    )  # type: ignore[operator]
    assert done.code == 0, done.err
    lines = (tmp_path / "out/labels.csv").read_text().splitlines()
    assert lines[:3] == ["task,label,cat,dog", "0,dog,0.0,1.0", "1,cat,1.0,0.0"]
    scored: Outcome = run_raters("evaluate", tmp_path / "out/labels.csv", tmp_path / "t.csv")  # type: ignore[operator]
    assert scored.code == 0 and "1.000" in scored.out


def test_a_study_is_all_that_it_needs(
    pattern: str, tmp_path: Path, run_raters: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks by staple, tables by hierarchical, into `consensus`, which is no input."""
    monkeypatch.chdir(tmp_path)
    said: Outcome = run_raters("fuse", without_groups(pattern))  # type: ignore[operator]
    assert said.code == 0, said.err
    assert json.loads(Path("consensus/raters.json").read_text())["fusion"]["method"] == "staple"
    Path("table").mkdir()
    monkeypatch.chdir(tmp_path / "table")
    answers = [
        f"t{k},{who},{'cat' if k % 2 else 'dog'}" for k in range(6) for who in ("ann", "bob")
    ]
    Path("answers.csv").write_text("\n".join(["task,worker,label", *answers, ""]))
    said = run_raters("fuse", "answers.csv")  # type: ignore[operator]
    assert said.code == 0, said.err
    assert (
        json.loads(Path("consensus/raters.json").read_text())["fusion"]["method"] == "hierarchical"
    )
    assert raters.fuse("answers.csv").description["method"] == "hierarchical"
    said = run_raters("import", "answers.csv", "-o", tmp_path / "new/consensus")  # type: ignore[operator]
    assert said.code == 0, said.err
    monkeypatch.chdir(tmp_path / "new")
    said = run_raters("fuse", "consensus")  # type: ignore[operator]
    assert said.code == 2
    assert "expected another one" in said.err


def test_options_and_folders_that_are_refused(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    words = ("fuse", without_groups(pattern), "-o", tmp_path / "out")
    for more, message in (
        (("-m", "stapel"), "did you mean 'staple'"),
        (("--option", "foo=1"), "found the option 'foo'"),
        (("--option", "foo"), "expected NAME=VALUE"),
        (("--option", "restrict=["), "expected NAME=VALUE in YAML"),
        (
            ("-m", "staple", "--option", "restrict=maybe"),
            "found restrict=maybe, expected yes or no",
        ),
        (("-m", "staple", "--option", "max_iter=abc"), "expected a whole number from 1 on"),
        (("-m", "staple", "--option", "max_iter=-1"), "found max_iter=-1, expected a whole"),
        (("-m", "staple", "--option", "max_iter=yes"), "found max_iter=True, expected a whole"),
        (("-m", "staple", "--option", "tol=.nan"), "found tol=nan, expected a number"),
        (("-m", "staple", "--option", "smoothing=-5"), "found smoothing=-5, expected a number"),
        (("-m", "staple", "--option", "smoothing=[1, 2]"), "found smoothing=[1, 2], expected a"),
        (("-m", "staple", "--option", "prior=abc"), "found prior=abc, expected numbers from 0 on"),
        (("-m", "vote", "--option", "ties=maybe"), "found ties=maybe, expected one of lowest"),
        (("--engine", "slurm"), "expected 'local' or 'dask'"),
        (("--engine", "dask"), "together with --scheduler"),
        (("-m", "one-coin"), "does not take them"),
    ):
        done: Outcome = run_raters(*words, *more)  # type: ignore[operator]
        assert done.code == 2 and message in done.err, more
    fine = run_raters(
        *words, "-m", "staple", "--option", "tol=1e-5", "--option", "prior=[0.8, 0.1, 0.1]"
    )  # type: ignore[operator]
    assert fine.code == 0, fine.err  # YAML takes 1e-5 for text
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    done = run_raters("fuse", without_groups(pattern), "-o", tmp_path / "full")  # type: ignore[operator]
    assert done.code == 2 and (tmp_path / "full/notes.txt").read_text() == "mine"


def test_a_list_of_numbers_needs_no_brackets(
    pattern: str, tmp_path: Path, run_raters: object
) -> None:
    found = []
    for k, prior in enumerate(("prior=0.8,0.1,0.1", "prior=[0.8, 0.1, 0.1]")):
        words = ("fuse", without_groups(pattern), "-m", "staple", "--option", prior)
        done: Outcome = run_raters(*words, "-o", tmp_path / str(k))  # type: ignore[operator]
        assert done.code == 0, done.err
        found.append(json.loads((tmp_path / str(k) / "raters.json").read_text()))
    assert found[0] == found[1] and found[0]["fusion"]["options"]["prior"] == [0.8, 0.1, 0.1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("patient_cluster")
def test_a_cluster_with_a_worker_killed_midway_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    for case in range(12):
        for rater in ("ann", "bob", "cy"):
            mask = (random.random((40, 40)) < 0.4).astype(np.uint8)
            save(tmp_path / f"masks/{rater}/{case}.png", mask)
    study = raters.read(f"{tmp_path}/masks/{{rater}}/{{case}}.png")
    from raters.consensus.write import write_consensus

    write_consensus(raters.fuse(study, "staple"), tmp_path / "local")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        with distributed.Client(cluster) as client:
            victim = next(iter(client.run(os.getpid).values()))
        finish = Journal.finish
        finished = []

        def finish_and_kill(self: Journal, *words: Any) -> None:
            finish(self, *words)
            finished.append(words)
            if len(finished) == 3:
                os.kill(victim, signal.SIGKILL)

        monkeypatch.setattr(Journal, "finish", finish_and_kill)
        result = write_consensus(
            raters.fuse(study, "staple"), tmp_path / "dask", scheduler=cluster.scheduler_address
        )
    assert result.written == 12 and not result.failures
    for case in range(12):
        both = [
            formats.read_labels(tmp_path / where / f"{case}.png").array
            for where in ("local", "dask")
        ]
        np.testing.assert_array_equal(*both)
    assert (tmp_path / "local/raters.csv").read_text() == (tmp_path / "dask/raters.csv").read_text()
