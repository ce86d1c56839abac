"""Patterns: what a name in braces stands for, and which files fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raters.core.errors import RatersError
from raters.study.pattern import Match, Pattern, is_pattern
from tests.support.makers import quick

words = st.text(st.sampled_from("abc_-. 12é漢"), min_size=1, max_size=6).filter(
    lambda w: not w.startswith(".")
)


def find_files(root: Path, pattern: str) -> dict[str, dict[str, str]]:
    """Return what a pattern finds below a folder, and hold it to having no problems."""
    problems: list[RatersError] = []
    matches = list(Pattern(str(root / pattern)).walk(problems))
    assert not problems
    return {m.path.relative_to(root).as_posix(): m.fields for m in matches}


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_rater_folders_with_case_files(tmp_path: Path) -> None:
    touch(tmp_path, "ann/c1.png", "ann/c2.png", "bob/c1.png", "bob/c1.txt", "readme.png")
    assert find_files(tmp_path, "{rater}/{case}.png") == {
        "ann/c1.png": {"rater": "ann", "case": "c1"},
        "ann/c2.png": {"rater": "ann", "case": "c2"},
        "bob/c1.png": {"rater": "bob", "case": "c1"},
    }


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("{case}_{rater}.png", "scan_0_1_ann.png"), ("{rater}_{case}.png", "ann_scan_0_1.png")],
)
def test_the_case_takes_the_underscores(pattern: str, name: str) -> None:
    assert Pattern(pattern).match(name) == {"rater": "ann", "case": "scan_0_1"}


@pytest.mark.slow
@quick
@given(st.from_regex("[a-z0-9]{1,5}", fullmatch=True), words)
def test_a_name_without_separator_is_told_from_any_case(rater: str, case: str) -> None:
    assert Pattern("{rater}_{case}.x").match(f"{rater}_{case}.x") == {"rater": rater, "case": case}
    assert Pattern("{case}_{rater}.x").match(f"{case}_{rater}.x") == {"rater": rater, "case": case}


@quick
@given(words, words)
def test_whatever_fits_gives_its_own_name_back(rater: str, case: str) -> None:
    """Filled in again, the names make the path: nothing is lost or made up."""
    path = f"masks-{rater}/x {case}!.nii.gz"
    fields = Pattern("masks-{rater}/x {case}!.nii.gz").match(path)
    assert fields == {"rater": rater, "case": case}


def test_characters_of_regular_expressions_mean_themselves(tmp_path: Path) -> None:
    touch(tmp_path, "a+(1)/c.png", "aa1/c.png", "a+(1)/cxpng")
    assert list(find_files(tmp_path, "a+(1)/{case}.png")) == ["a+(1)/c.png"]


def test_lidc_like_levels(tmp_path: Path) -> None:
    name = "LIDC-1/nodule-0/mask-2/slice-07.png"
    touch(tmp_path, name, "LIDC-1/nodule-0/images/slice-07.png")
    pattern = "{group}/nodule-{nodule}/mask-{rater}/slice-{case}.png"
    assert find_files(tmp_path, pattern) == {
        name: {"group": "LIDC-1", "nodule": "0", "rater": "2", "case": "07"}
    }


def test_a_name_that_comes_again_must_be_the_same(tmp_path: Path) -> None:
    touch(tmp_path, "c1/c1_ann.png", "c1/c2_ann.png", "c2/c2_bob.png")
    assert list(find_files(tmp_path, "{case}/{case}_{rater}.png")) == [
        "c1/c1_ann.png",
        "c2/c2_bob.png",
    ]


def test_a_star_is_anything_within_a_level(tmp_path: Path) -> None:
    touch(tmp_path, "ann_2019/c1.png", "bob/c1.png", "bob/deep/c2.png", "_/c1.png")
    assert {k: v["rater"] for k, v in find_files(tmp_path, "{rater}_*/{case}.png").items()} == {
        "ann_2019/c1.png": "ann"
    }
    assert set(find_files(tmp_path, "*/{case}.png")) == {
        "ann_2019/c1.png",
        "bob/c1.png",
        "_/c1.png",
    }


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "ann/c1.png", "ann/.c2.png", "ann/._c1.png", ".trash/c1.png")
    assert list(find_files(tmp_path, "{rater}/{case}.png")) == ["ann/c1.png"]


def test_blanks_and_letters_of_all_kinds(tmp_path: Path) -> None:
    name = "Zürich 1/Jürgen K/漢字 scan.png"
    touch(tmp_path, name)
    assert find_files(tmp_path, "Zürich 1/{rater}/{case}.png") == {
        name: {"rater": "Jürgen K", "case": "漢字 scan"}
    }


def test_folders_are_matches_too(tmp_path: Path) -> None:
    (tmp_path / "ann" / "series 1").mkdir(parents=True)
    assert list(find_files(tmp_path, "{rater}/{case}")) == ["ann/series 1"]
    assert list(find_files(tmp_path, "{rater}/{case}/")) == ["ann/series 1"]


def test_links_that_lead_nowhere_are_named_and_hide_nothing(tmp_path: Path) -> None:
    touch(tmp_path, "ann/c1.png", "ann/c9.png")
    (tmp_path / "ann" / "c2.png").symlink_to(tmp_path / "gone.png")
    (tmp_path / "ann" / "c3.png").symlink_to("c3.png")
    (tmp_path / "bob").symlink_to("carl")
    (tmp_path / "carl").symlink_to("bob")
    (tmp_path / "ann" / "unrelated.txt").symlink_to("nowhere")
    problems: list[RatersError] = []
    matches = list(Pattern(f"{tmp_path}/{{rater}}/{{case}}.png").walk(problems))
    # Files are matched, and say what is wrong when they are read; folders say it now.
    assert [m.fields["case"] for m in matches] == ["c1", "c2", "c3", "c9"]
    assert {Path(str(p.file)).name for p in problems} == {"bob", "carl"}
    assert all("link that leads nowhere" in str(p) for p in problems)


def test_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    touch(tmp_path, "ann/c1.png")
    (tmp_path / "ann" / "again").symlink_to(tmp_path / "ann", target_is_directory=True)
    assert list(find_files(tmp_path, "{rater}/{case}.png")) == ["ann/c1.png"]
    assert list(find_files(tmp_path, "{rater}/{x}/{case}.png")) == ["ann/again/c1.png"]


def test_links_to_files_and_folders_are_followed(tmp_path: Path) -> None:
    touch(tmp_path, "store/one.png")
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "ann").symlink_to(tmp_path / "store", target_is_directory=True)
    assert list(find_files(tmp_path, "masks/{rater}/{case}.png")) == ["masks/ann/one.png"]


def test_the_order_does_not_depend_on_the_disk(tmp_path: Path) -> None:
    names = [f"r{k}/c{j}.png" for k in range(3) for j in range(5)]
    touch(tmp_path, *reversed(names))
    assert list(find_files(tmp_path, "{rater}/{case}.png")) == names


def test_nothing_found_says_what_is_there(tmp_path: Path) -> None:
    touch(tmp_path, "ann/c1.jpg", "ann/c2.jpg")
    error = Pattern(f"{tmp_path}/{{rater}}/{{case}}.png").nothing_found()
    assert "{case}.png" in str(error)
    assert f"in {tmp_path / 'ann'}" in str(error)
    assert "'c1.jpg', 'c2.jpg'" in str(error)
    many = [f"deep/c{k}.txt" for k in range(9)]
    touch(tmp_path, *many)
    assert "and 3 more" in str(Pattern(f"{tmp_path}/deep/{{case}}.png").nothing_found())


def test_a_missing_folder_is_named_with_what_is_beside_it(tmp_path: Path) -> None:
    touch(tmp_path, "masks/ann/c1.png")
    error = Pattern(f"{tmp_path}/mask/deep/{{rater}}/{{case}}.png").nothing_found()
    assert error.kind == "missing-folder"
    assert error.file == str(tmp_path / "mask")
    assert "there is 'masks'" in str(error)


def test_a_relative_pattern_starts_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "ann/c1.png")
    monkeypatch.chdir(tmp_path)
    matches = list(Pattern("{rater}/{case}.png").walk([]))
    assert matches == [Match(Path("ann/c1.png"), {"rater": "ann", "case": "c1"})]
    assert "'ann'" in str(Pattern("{case}.png").nothing_found())


@pytest.mark.parametrize("pattern", ["{}/{case}.png", "{the rater}/{case}.png", "{1}/{case}"])
def test_names_in_braces_are_words(pattern: str) -> None:
    with pytest.raises(RatersError, match="expected a name of letters and digits"):
        Pattern(pattern)


def test_a_pattern_may_be_longer_than_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "{x}").mkdir()
    assert is_pattern(str(tmp_path / ("{case}" + "*" * 300)))
    assert not is_pattern(str(tmp_path / "{x}"))
