"""Verbs that fail: other cases go on, every file is named, and no traceback is ever shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from raters.assessment.performance import worst_first
from raters.io.paths import written_whole
from raters.simulation.specs import parse_raters
from tests.support.command_line import (
    Outcome,
    Run,
    assert_refused,
    draw_masks,
    limited,
    pattern,
    save_png,
)
from tests.support.command_line import images_option as images_of

SMALL = ("--epochs", "1", "--network", "patch-cnn", "--width", "2", "--depth", "1")


def assert_refused_in_last_line(outcome: Outcome, *words: object) -> None:
    """Assert that the last line says what is wrong."""
    assert_refused(outcome, *words)
    assert outcome.err.splitlines()[-1].startswith("error: "), outcome


class TestBadFiles:
    """One bad file neither stops the others nor hides them."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Draw six cases; of two of them three masks are no PNG."""
        draw_masks(tmp_path, cases=6)
        for rater, case in (("ann", "c1"), ("bob", "c1"), ("bob", "c4")):
            (tmp_path / f"masks/{rater}/{case}.png").write_bytes(b"nonsense")
        return tmp_path

    @staticmethod
    def listed(outcome: Outcome) -> list[str]:
        """Return the files that are listed at the end."""
        assert outcome.code == 2, outcome
        lines = outcome.err.splitlines()
        start = lines.index("2 cases left out because of unreadable files:")
        return [line.strip().split(": ")[0] for line in lines[start + 1 :]]

    def test_agree_compares_the_others(self, run_raters: Run, folder: Path) -> None:
        whole = run_raters("agree", pattern(folder), "--json", "--cases", "c0,c2,c3,c5")
        out = folder / "agreement"
        words = ("agree", pattern(folder), "-o", out, "--maps", folder / "maps")
        outcome = run_raters(*words, "--json")
        bad = [f"{folder}/masks/{who}.png" for who in ("ann/c1", "bob/c4")]
        assert self.listed(outcome) == bad
        found = json.loads(outcome.out)
        expected = json.loads(whole.out)
        note = "2 cases were left out because of unreadable files: c1, c4"
        assert found.pop("notes") == [*expected.pop("notes"), note]
        assert found == expected
        assert sorted(p.name for p in (folder / "maps").glob("*.png")) == [
            f"c{k}.png" for k in (0, 2, 3, 5)
        ]
        assert note in (out / "agreement.json").read_text()

    @pytest.mark.slow
    def test_report_shows_the_others(self, run_raters: Run, folder: Path) -> None:
        (folder / "images/c3.png").write_bytes(b"nonsense")
        outcome = run_raters("report", pattern(folder), *images_of(folder), "-o", folder / "report")
        assert outcome.code == 2
        assert "3 cases left out because of unreadable files:" in outcome.err
        for name in ("masks/ann/c1.png", "images/c3.png", "masks/bob/c4.png"):
            assert f"\n  {folder}/{name}: " in outcome.err
        page = (folder / "report/report.html").read_text()
        assert "3 cases were left out because of unreadable files: c1, c3, c4" in page

    def test_train_names_all_and_trains_on_none(self, run_raters: Run, folder: Path) -> None:
        (folder / "images/c3.png").write_bytes(b"nonsense")
        words = ("train", pattern(folder), *images_of(folder), "-o", folder / "run", *SMALL)
        for more in ((), ("--num-workers", "1")):
            outcome = run_raters(*words, *more)
            assert outcome.code == 2
            said = outcome.err[outcome.err.index("error: ") :].splitlines()
            assert said[0] == "error: found 4 files that cannot be used, expected none:"
            assert [line.split(": ")[0].strip() for line in said[1:]] == [
                f"{folder}/{name}.png"
                for name in ("masks/ann/c1", "masks/bob/c1", "images/c3", "masks/bob/c4")
            ]
            assert not (folder / "run").exists()

    def test_where_nothing_is_left(self, run_raters: Run, tmp_path: Path) -> None:
        draw_masks(tmp_path, cases=2)
        for rater in ("ann", "bob"):
            (tmp_path / f"masks/{rater}/c0.png").write_bytes(b"nonsense")
        save_png(tmp_path / "masks/bob/c1.png", np.zeros((5, 4), np.uint8))  # another shape
        outcome = run_raters("agree", pattern(tmp_path))
        assert outcome.code == 2
        assert "2 cases left out" in outcome.err
        assert "agreement" not in outcome.out

    def test_what_is_not_about_a_case_is_said_at_once(self, run_raters: Run, folder: Path) -> None:
        assert_refused_in_last_line(
            run_raters("agree", pattern(folder), "--raters", "ann"), "only the rater 'ann'"
        )


class TestNoRoom:
    """A full disk: the message names the file, and nothing is half there."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("size", "words", "file"),
        [
            (150, ("import", "--form", "canonical"), r"\.import\.jsonl"),
            (3000, ("import", "--form", "packed"), r"images\.npy\.part"),
            (150, ("fuse", "-m", "vote"), r"\.fuse\.jsonl"),
            (150, ("agree",), r"\.raters\.json"),
            (600, ("agree",), r"\w+\.csv"),
            (600, ("evaluate",), r"\w+\.csv"),
            (20_000, ("report",), r"figures/\w+\.png"),
        ],
    )
    def test_verbs_name_the_file(
        self, size: int, words: tuple[str, ...], file: str, run_raters: Run, tmp_path: Path
    ) -> None:
        draw_masks(tmp_path, cases=30)
        verb, *more = words
        given = [verb, *([tmp_path / "masks/ann"] if verb == "evaluate" else [])]
        out = tmp_path / "out"
        with limited(size):
            outcome = run_raters(*given, pattern(tmp_path), *images_of(tmp_path), "-o", out, *more)
        assert_refused_in_last_line(outcome)
        assert re.fullmatch(rf"error: {out}/{file}: File too large", outcome.err.strip())
        assert len(outcome.err.splitlines()) == 1
        left = [p for p in out.rglob("*") if p.is_file() and not p.name.endswith(".part")]
        assert all(p.stat().st_size <= size for p in left)
        assert not [p for p in left if p.name.startswith(".tmp")]

    def test_training_keeps_the_message_of_its_checkpoint(
        self, run_raters: Run, tmp_path: Path
    ) -> None:
        draw_masks(tmp_path)
        words = ("train", pattern(tmp_path), *images_of(tmp_path), "-o", tmp_path / "run", *SMALL)
        with limited(4000):
            outcome = run_raters(*words)
        assert_refused_in_last_line(
            outcome, "last.ckpt: found no space for it (File too large)", "use --resume"
        )
        assert run_raters(*words, "--resume").code == 0

    def test_a_file_that_is_written_whole_is_named(self, tmp_path: Path) -> None:
        full = pytest.raises(OSError, match=r"File too large: '.*/a\.csv'")
        with limited(10), full, written_whole(tmp_path / "a.csv") as file:
            file.write("a" * 100)
        assert list(tmp_path.iterdir()) == []


class TestNoTraceback:
    """What once ended in a traceback, or never."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("check", ""), "STUDY: found no name"),
            (("import", "{masks}", "--seed", "-1", "--new-split", "train=1"), "found the seed -1"),
            (("simulate", "lesions", "--shape", "99999999x99999999"), "found too little memory"),
            (("simulate", "lesions", "--raters", "99999999xgood"), "expected at most 100,000"),
            (("simulate", "lesions", "--raters", f"{'9' * 99}xgood"), "expected at most 100,000"),
            (("import", "{folder}/nul.csv"), "there is no such file"),
            (("fuse", "{masks}", "--engine", "dask", "--scheduler", "nonsense"), "tcp://host"),
        ],
    )
    def test_a_line_instead(
        self, words: tuple[str, ...], message: str, run_raters: Run, tmp_path: Path
    ) -> None:
        draw_masks(tmp_path)
        rows = "c0,ann,masks/ann/c0.png,images/c\0.png\nc1,ann,masks/a\0/c0.png,\n"
        (tmp_path / "nul.csv").write_text("case,rater,mask,image\n" + rows)
        given = [w.format(masks=pattern(tmp_path), folder=tmp_path) for w in words]
        out = [] if words[0] == "check" else ["-o", tmp_path / "out"]
        assert_refused_in_last_line(run_raters(*given, *out), message)

    @pytest.mark.parametrize(
        "size", [("--width", "999999999"), ("--depth", "40"), ("--depth", "999999999")]
    )
    def test_networks_of_absurd_sizes(
        self, size: tuple[str, str], run_raters: Run, tmp_path: Path
    ) -> None:
        draw_masks(tmp_path)
        words = ("train", pattern(tmp_path), *images_of(tmp_path), "-o", tmp_path / "run")
        assert_refused_in_last_line(
            run_raters(*words, "--epochs", "1", *size), f"{size[0][2:]}={size[1]}", "smaller width"
        )
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "error",
        [
            MemoryError("Unable to allocate 8 PiB"),
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nto allocate 9"),
            RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        ],
    )
    def test_no_memory(
        self, error: Exception, run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draw_masks(tmp_path)

        def full(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("raters.assessment.agree.agree", full)
        outcome = run_raters("agree", pattern(tmp_path))
        assert_refused_in_last_line(outcome, "found too little memory", "llocate", "expected more")
        assert len(outcome.err.splitlines()) == 1

    def test_an_error_of_our_own_keeps_its_traceback(
        self, run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draw_masks(tmp_path)

        def wrong(*_: object, **__: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr("raters.assessment.agree.agree", wrong)
        with pytest.raises(RuntimeError, match="a bug"):
            run_raters("agree", pattern(tmp_path))


def test_many_raters_of_a_kind_are_numbered_in_no_time() -> None:
    specs = parse_raters("20000xhammer-spammer,hammer-spammer2=spammer,2xhammer-spammer")
    names = [spec.name for spec in specs]
    assert len(set(names)) == len(names) == 20_003
    assert names[1] == "hammer-spammer2" and names[-1] == "hammer-spammer20002"


class TestFuseSays:
    """What `raters fuse` prints of raters."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        """Write answers of 40 raters to 30 tasks of three classes; w7 is wrong half the time."""
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 3, 30)
        rows = []
        for w in range(40):
            wrong = rng.random(30) < (0.5 if w == 7 else 0.05)
            said = np.where(wrong, (truth + 1) % 3, truth)
            rows += [f"t{t},w{w},{label}" for t, label in enumerate(said)]
        file = tmp_path / "answers.csv"
        file.write_text("task,worker,label\n" + "\n".join(rows) + "\n")
        return file

    def test_the_worst_first_and_how_many_are_left(
        self, run_raters: Run, table: Path, tmp_path: Path
    ) -> None:
        outcome = run_raters("fuse", table, "-m", "one-coin", "-o", tmp_path / "fused")
        assert outcome.code == 0, outcome
        rows = [line.split() for line in outcome.out.splitlines() if line.startswith("w")]
        assert len(rows) == 20
        assert [row[0] for row in rows[:3]] == ["w7"] * 3
        assert "and 100 more" in outcome.out  # 40 raters by 3 classes
        assert "30 cases fused" in outcome.out

    def test_one_case(self, run_raters: Run, tmp_path: Path) -> None:
        draw_masks(tmp_path, cases=1)
        words = ("fuse", pattern(tmp_path), "-m", "vote", "-o", tmp_path / "fused")
        assert "1 case fused: " in run_raters(*words).out
        assert "0 cases fused, 1 was there already: " in run_raters(*words).out

    def test_raters_without_a_number_come_last(self) -> None:
        rows = [{"rater": "a", "sensitivity": None}, {"rater": "b", "sensitivity": 0.9}]
        assert [row["rater"] for row in worst_first(rows)] == ["b", "a"]
