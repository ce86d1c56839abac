"""What users get wrong, through the command line: each ends with one message that helps."""

from __future__ import annotations

import gzip
import json
import os
import struct
import time
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

import raters
from raters.io import formats
from tests.support.command_line import (
    Outcome,
    Run,
    assert_refused,
    assert_words,
    blob,
    draw_masks,
    fingerprint,
    images_option,
    pattern,
    save_png,
)
from tests.support.makers import save


@pytest.fixture
def run_safely(run_raters: Run, tmp_path: Path) -> Run:
    """Run a command, and see to it that no file changes but in the folder of its results."""

    def run_and_compare(*arguments: object) -> Outcome:
        before = fingerprint(tmp_path)
        outcome = run_raters(*arguments)
        after = fingerprint(tmp_path)

        outputs = {str(value) for option, value in pairwise(arguments) if option == "-o"}
        for file, content in before.items():
            assert is_within(file, outputs) or after.get(file) == content, f"{file} changed"
        for file in set(after) - set(before):
            assert is_within(file, outputs), f"{file} is new"
        return outcome

    return run_and_compare


def is_within(file: str, folders: set[str]) -> bool:
    """Say whether a file is one of some folders or in one of them."""
    return any(file == folder or file.startswith(f"{folder}/") for folder in folders)


def listed_problems(outcome: Outcome) -> list[dict[str, str]]:
    return json.loads(outcome.out)["problems"]


def assert_error(outcome: Outcome, *words: object) -> None:
    """Assert that a command said what is wrong, once, and nothing else on stdout."""
    assert_refused(outcome, *words)
    assert outcome.out == ""
    assert outcome.err.count("error: ") == 1


def assert_check_finds(
    run_safely: Run, folder: Path, kind: str, *words: object, options: tuple = ()
) -> None:
    """Assert that `check` names a problem, as text and as JSON, with its rater and case."""
    suffix = next(p.name for p in folder.glob("masks/*/c1.*")).removeprefix("c1")
    shown = run_safely("check", pattern(folder, suffix), *options)
    assert shown.code == 2, shown
    assert_words(shown.out, kind, *words)
    listed = listed_problems(run_safely("check", pattern(folder, suffix), "--json", *options))
    bad = next(p for p in listed if p["kind"] == kind)
    assert (bad["level"], bad["case"], bad["rater"]) == ("error", "c1", "bob")


def draw_volumes(folder: Path, suffix: str = ".nii.gz", cases: int = 3) -> Path:
    for k in range(cases):
        for r, rater in enumerate(("ann", "bob")):
            volume = np.zeros((8, 9, 5), np.uint8)
            volume[k : k + 3, 2:5, r:3] = 1
            save(folder / "masks" / rater / f"c{k}{suffix}", volume)
    return folder


# Places and patterns.


@pytest.mark.parametrize("verb", [["check"], ["import", "-o", "out"]])
def test_missing_folder(run_safely: Run, tmp_path: Path, verb: list[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mask").mkdir()
    outcome = run_safely(*verb, f"{tmp_path}/data/masks/{{rater}}/{{case}}.png")
    assert_error(outcome, f"{tmp_path}/data/masks: no such folder", "'mask'")
    assert not Path("out").exists()


def test_missing_file(run_safely: Run, tmp_path: Path) -> None:
    outcome = run_safely("check", tmp_path / "answers.csv")
    assert_error(outcome, tmp_path / "answers.csv", "no such file or folder", "{rater}/{case}")


def test_pattern_that_matches_nothing_says_what_is_there(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for verb in (["check"], ["import", "-o", tmp_path / "out"]):
        outcome = run_safely(*verb, pattern(tmp_path, ".nii.gz"))
        assert_error(outcome, "'{case}.nii.gz'", f"in {tmp_path}/masks/ann", "'c0.png'")
    assert not (tmp_path / "out").exists()


def test_images_that_match_nothing(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    wrong = f"{tmp_path}/images/{{case}}.tif"
    assert_error(run_safely("check", pattern(tmp_path), "--images", wrong), wrong, "'c0.png'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("masks/{case}.png", ("{rater}", "masks/{case}.png")),
        ("masks/{rater}.png", ("{case}", "masks/{rater}.png")),
        ("masks/{rater}/{case id}.png", ("{case id}", "letters and digits")),
    ],
)
def test_bad_patterns(run_safely: Run, text: str, words: tuple[str, ...]) -> None:
    assert_error(run_safely("check", text), *words)


def test_other_files_beside_masks_under_a_wildcard(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for name in ("Thumbs.db", "notes.txt"):
        (tmp_path / "masks/ann" / name).write_text("x")
    shown = run_safely("check", pattern(tmp_path, ".*"), "--strict")
    assert shown.code == 0
    assert_words(shown.out, "cases  3", "no problems")


def test_images_among_masks(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    shown = run_safely("check", f"{tmp_path}/{{rater}}/{{case}}.png")
    assert shown.code == 2
    assert_words(shown.out, "if this is an image, name it with --images")


def test_a_wide_table_without_saying_so(run_safely: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    path.write_text("\n".join(["1 -1 0 1 0 2 2 1 1"] * 4))
    outcome = run_safely("check", path)
    assert_error(outcome, path, "a table with one column per rater needs --wide")
    assert run_safely("check", path, "--wide", "--missing=-1,2").code == 0
    labels = raters.read(path, wide=True, missing=[-1, 2]).classes.names
    assert labels == ("0", "1")


def test_a_rater_who_skipped_cases_is_fine(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=4)
    (tmp_path / "masks/bob/c2.png").unlink()
    shown = run_safely("check", pattern(tmp_path), "--strict")
    assert shown.code == 0
    assert_words(shown.out, "bob        3   75%", "ann        4  100%", "no problems")
    done = run_safely("import", pattern(tmp_path), "-o", tmp_path / "out")
    assert done.code == 0
    assert (raters.read(tmp_path / "out")["c2"].labels[1] == raters.MISSING).all()


def test_spaces_and_letters_of_other_languages(run_safely: Run, tmp_path: Path) -> None:
    folder = tmp_path / "Ärzte und Ärztinnen"
    draw_masks(folder, raters=("Jürgen K.", "李 医生"))
    (folder / "masks/李 医生/c1.png").write_bytes(b"not a picture")
    outcome = run_safely("check", pattern(folder))
    assert outcome.code == 2
    assert_words(outcome.out, "Jürgen K.", "李 医生", f"{folder}/masks/李 医生/c1.png: ")
    done = run_safely("import", pattern(folder), "-o", tmp_path / "neue Studie")
    assert done.code == 2
    study = raters.read(tmp_path / "neue Studie")
    assert study.raters == ("Jürgen K.", "李 医生")
    assert study.cases == ("c0", "c2")


def test_a_name_that_is_not_text(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    old = os.fsencode(tmp_path / "masks/bob") + b"/Kn\xf6chel.png"
    os.link(tmp_path / "masks/bob/c0.png", old)
    outcome = run_safely("check", pattern(tmp_path))
    assert outcome.code == 2
    assert_words(outcome.out, "Kn", "UTF-8")
    assert_error(run_safely("import", pattern(tmp_path), "-o", tmp_path / "out"), "UTF-8")


def test_link_loops(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    (tmp_path / "masks/carl").symlink_to(tmp_path / "masks/carl")
    (tmp_path / "masks/bob/again").symlink_to(tmp_path / "masks")
    outcome = run_safely("check", pattern(tmp_path))
    assert outcome.code == 2
    assert_words(outcome.out, f"{tmp_path}/masks/carl: a link that leads nowhere")
    (tmp_path / "masks/carl").unlink()
    assert run_safely("check", pattern(tmp_path)).code == 0  # a loop of folders is not walked into


def test_a_mask_that_is_a_dead_link_spoils_its_case_only(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    (tmp_path / "masks/bob/c1.png").unlink()
    (tmp_path / "masks/bob/c1.png").symlink_to(tmp_path / "moved/c1.png")
    outcome = run_safely("check", pattern(tmp_path))
    assert outcome.code == 2
    assert_words(outcome.out, f"{tmp_path}/masks/bob/c1.png: ", f"{tmp_path}/moved/c1.png")
    done = run_safely("import", pattern(tmp_path), "-o", tmp_path / "out")
    assert done.code == 2
    assert_words(done.err, f"{tmp_path}/masks/bob/c1.png: ")
    assert raters.read(tmp_path / "out").cases == ("c0", "c2")


def test_two_cases_with_one_name(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    second = save_png(tmp_path / "masks/bob/late/c1.png", blob())
    save_png(tmp_path / "masks/bob/early/c1.png", blob())
    twice = f"{tmp_path}/masks/{{rater}}/*/{{case}}.png"
    outcome = run_safely("check", twice)
    assert outcome.code == 2
    assert_words(
        outcome.out, "duplicate", f"{second}: ", "case 'c1'", "early/c1.png", "expected one"
    )
    assert_error(run_safely("import", twice, "-o", tmp_path / "out"), second, "case 'c1'")


# Files that cannot be read.


def test_truncated_nifti(run_safely: Run, tmp_path: Path) -> None:
    draw_volumes(tmp_path, ".nii")
    bad = tmp_path / "masks/bob/c1.nii"
    bad.write_bytes(bad.read_bytes()[:500])
    assert_check_finds(run_safely, tmp_path, "unreadable", f"{bad}: ", "truncated", "(8, 9, 5)")


def test_truncated_gzip(run_safely: Run, tmp_path: Path) -> None:
    draw_volumes(tmp_path)
    bad = tmp_path / "masks/bob/c1.nii.gz"
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2 + 40])
    assert_check_finds(run_safely, tmp_path, "unreadable", f"{bad}: ", "truncated")
    done = run_safely("import", pattern(tmp_path, ".nii.gz"), "-o", tmp_path / "out")
    assert done.code == 2
    assert_words(done.out, "2 cases written")
    assert_words(done.err, "1 case left out", f"{bad}: ", "truncated")


def test_text_named_as_nifti(run_safely: Run, tmp_path: Path) -> None:
    draw_volumes(tmp_path)
    bad = tmp_path / "masks/bob/c1.nii.gz"
    bad.write_text("see the other folder\n")
    assert_check_finds(run_safely, tmp_path, "unreadable", f"{bad}: ", "NIfTI")


def test_empty_file(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    bad = tmp_path / "masks/bob/c1.png"
    bad.write_bytes(b"")
    assert_check_finds(run_safely, tmp_path, "unreadable", f"{bad}: ", "0 bytes")


def _huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _huge_nifti() -> bytes:
    header = nib.Nifti1Header()
    header.set_data_dtype(np.uint8)
    header.set_data_shape((32767, 32767, 32767))
    return gzip.compress(header.binaryblock + bytes(100))


def _huge_npy() -> bytes:
    return (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (9999999, 9999999), }".ljust(117)
        + b"\n"
    )


@pytest.mark.parametrize(
    ("suffix", "make", "number"),
    [
        (".png", _huge_png, "2147483647"),
        (".nii.gz", _huge_nifti, "32767"),
        (".npy", _huge_npy, "9999999"),
    ],
)
def test_a_header_that_claims_a_huge_shape_is_refused_at_once(
    run_safely: Run, tmp_path: Path, suffix: str, make: Callable[[], bytes], number: str
) -> None:
    for rater in ("ann", "bob"):
        for k in range(2):
            path = tmp_path / "masks" / rater / f"c{k}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            good = np.ones((4, 5) if suffix == ".png" else (4, 5, 6), np.uint8)
            formats.write_labels(path, good, np.eye(4) if suffix == ".nii.gz" else None)
    bad = tmp_path / f"masks/bob/c1{suffix}"
    bad.write_bytes(make())
    start = time.process_time()
    assert_check_finds(run_safely, tmp_path, "unreadable", f"{bad}: ", number)
    assert time.process_time() - start < 30  # of the processor; to read it would take days


# Values of masks.


def test_opaque_alpha_is_dropped_and_transparent_refused(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, value=255)
    grey = blob(1, value=255)
    rgba = np.dstack([grey, grey, grey, np.full_like(grey, 255)])
    bad = save_png(tmp_path / "masks/bob/c1.png", rgba)
    assert run_safely("check", pattern(tmp_path)).code == 0
    rgba[5, 5, 3] = 100
    save_png(bad, rgba)
    shown = run_safely("check", pattern(tmp_path))
    assert shown.code == 2
    assert_words(shown.out, f"{bad}: ", "100")
    assert "transparen" in shown.out or "alpha" in shown.out


def test_palette_keeps_its_indices(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    picture = Image.fromarray(blob(2))
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    picture.save(tmp_path / "masks/bob/c1.png")
    assert run_safely("check", pattern(tmp_path)).code == 0
    assert run_safely("import", pattern(tmp_path), "-o", tmp_path / "out").code == 0
    assert (raters.read(tmp_path / "out")["c1"].labels[1] == blob(2)).all()


def test_sixteen_bits(run_safely: Run, tmp_path: Path) -> None:
    for k in range(2):
        mask = blob(k).astype(np.uint16) * 40_000
        mask[0, 0] = 300
        save_png(tmp_path / f"masks/ann/c{k}.png", mask)
    shown = run_safely("check", pattern(tmp_path))
    assert shown.code == 0
    assert_words(shown.out, "300", "40000")
    assert run_safely("import", pattern(tmp_path), "-o", tmp_path / "out").code == 0
    study = raters.read(tmp_path / "out")
    assert study.classes.values == (0, 300, 40_000)
    assert study["c1"].labels[0, 0, 0] == 1


def test_floats_that_are_whole_are_labels_and_others_are_not(
    run_safely: Run, tmp_path: Path
) -> None:
    draw_volumes(tmp_path)
    bad = save(tmp_path / "masks/bob/c1.nii.gz", np.ones((8, 9, 5), np.float32))
    assert run_safely("check", pattern(tmp_path, ".nii.gz")).code == 0
    soft = np.ones((8, 9, 5), np.float32)
    soft[4, 4, 4] = 0.7
    save(bad, soft)
    assert_check_finds(
        run_safely, tmp_path, "not-whole", f"{bad}: ", "0.7", "whole numbers", "--threshold"
    )
    mended = run_safely("check", pattern(tmp_path, ".nii.gz"), "--threshold", "0.5")
    assert mended.code == 0
    done = run_safely(
        "import", pattern(tmp_path, ".nii.gz"), "-o", tmp_path / "out", "--threshold", 0.75
    )
    assert done.code == 0
    assert raters.read(tmp_path / "out")["c1"].labels[1].sum() == soft.size - 1


def test_grey_mask(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, value=255)
    grey = np.arange(144, dtype=np.uint8).reshape(12, 12)
    bad = save_png(tmp_path / "masks/bob/c1.png", grey)
    assert_check_finds(
        run_safely, tmp_path, "grey", f"{bad}: ", "144 values from 0 to 143", "--threshold"
    )
    done = run_safely("import", pattern(tmp_path), "-o", tmp_path / "out")
    assert done.code == 2
    assert_words(done.err, f"{bad}: ", "--threshold")
    assert raters.read(tmp_path / "out").cases == ("c0", "c2")
    cut = ("--threshold", "127")
    assert run_safely("check", pattern(tmp_path), *cut).code == 0
    assert run_safely("import", pattern(tmp_path), "-o", tmp_path / "cut", *cut).code == 0
    assert raters.read(tmp_path / "cut")["c1"].labels[1].sum() == 143 - 127


def test_numbers_of_segments(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    segments = np.arange(144, dtype=np.uint8).reshape(12, 12) // 3
    save_png(tmp_path / "masks/bob/c1.png", segments)
    assert_check_finds(
        run_safely, tmp_path, "grey", "48 values", "find_boundaries", "one class at a time"
    )
    options = ("--values", "0,1")
    assert_check_finds(run_safely, tmp_path, "unknown-value", "boundaries", options=options)


def test_matlab_files(run_safely: Run, tmp_path: Path) -> None:
    (tmp_path / "masks/ann").mkdir(parents=True)
    (tmp_path / "masks/ann/c1.mat").write_bytes(b"MATLAB 5.0 MAT-file")
    outcome = run_safely("check", pattern(tmp_path, ".mat"))
    assert outcome.code == 2
    assert_words(
        outcome.out, tmp_path / "masks/ann/c1.mat", "one file per rater", "scipy.io.loadmat"
    )


def test_only_grey_masks(run_safely: Run, tmp_path: Path) -> None:
    for rater in ("ann", "bob"):
        save_png(tmp_path / f"masks/{rater}/c1.png", np.arange(144, dtype=np.uint8).reshape(12, 12))
    assert_error(
        run_safely("import", pattern(tmp_path), "-o", tmp_path / "out"), "--threshold", "144 values"
    )


def test_zero_and_255_beside_zero_and_1(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(tmp_path / "masks/bob/c1.png", blob(1, value=255))
    shown = run_safely("check", pattern(tmp_path))
    assert shown.code == 0
    assert_words(shown.out, "foreground")
    assert run_safely("import", pattern(tmp_path), "-o", tmp_path / "out").code == 0
    study = raters.read(tmp_path / "out")
    assert len(study.classes) == 2
    assert (study["c1"].labels[1] == blob(1)).all()


def test_unknown_value(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    mask = blob(1)
    mask[0, 5] = 7
    bad = save_png(tmp_path / "masks/bob/c1.png", mask)
    named = ("--values", "0=background,1=lesion")
    words = (f"{bad}: ", "value 7", "expected one of 0, 1", "--ignore")
    assert_check_finds(run_safely, tmp_path, "unknown-value", *words, options=named)
    done = run_safely("import", pattern(tmp_path), "-o", tmp_path / "out", *named)
    assert done.code == 2
    assert_words(done.err, *words)
    assert raters.read(tmp_path / "out").cases == ("c0", "c2")


def test_ignored_value_is_not_labelled(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    mask = blob(1)
    mask[0, 5] = 7
    save_png(tmp_path / "masks/bob/c1.png", mask)
    options = ("--values", "0=background,1=lesion", "--ignore", "7")
    assert run_safely("check", pattern(tmp_path), *options).code == 0
    assert run_safely("import", pattern(tmp_path), "-o", tmp_path / "out", *options).code == 0
    labels = raters.read(tmp_path / "out")["c1"].labels[1]
    assert labels[0, 5] == raters.MISSING
    assert (labels == raters.MISSING).sum() == 1


def test_colour_mask(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    colours = np.zeros((12, 12, 3), np.uint8)
    colours[3:6, 3:6] = (255, 0, 0)
    bad = save_png(tmp_path / "masks/bob/c1.png", colours)
    shown = run_safely("check", pattern(tmp_path))
    assert shown.code == 2
    assert_words(shown.out, f"{bad}: ", "expected")
    assert "colour" in shown.out


def test_jpeg_as_mask(run_safely: Run, tmp_path: Path) -> None:
    for rater in ("ann", "bob"):
        save_png(tmp_path / f"masks/{rater}/c1.jpg", blob(value=255))
    shown = run_safely("check", pattern(tmp_path, ".jpg"))
    assert shown.code == 2
    assert_words(shown.out, f"{tmp_path}/masks/ann/c1.jpg: ", "JPEG", "expected PNG")
    assert_error(
        run_safely("import", pattern(tmp_path, ".jpg"), "-o", tmp_path / "out"), "JPEG", "c1.jpg"
    )


def test_other_grid_names_both_files_and_values_and_resampling_mends_it(
    run_safely: Run, tmp_path: Path
) -> None:
    draw_volumes(tmp_path)
    for k in range(3):
        save(tmp_path / f"images/c{k}.nii.gz", np.full((8, 9, 5), k, np.int16))
    coarse = np.zeros((4, 9, 5), np.uint8)
    coarse[1:3] = 1
    bad = save(tmp_path / "masks/bob/c1.nii.gz", coarse, np.diag([2.0, 1, 1, 1]))
    pictures = ("--images", f"{tmp_path}/images/{{case}}.nii.gz")
    words = (f"{bad}: ", "shape 4 x 9 x 5", "8 x 9 x 5", f"{tmp_path}/images/c1.nii.gz")
    assert_check_finds(
        run_safely, tmp_path, "geometry", *words, "--resample nearest", options=pictures
    )
    done = run_safely("import", pattern(tmp_path, ".nii.gz"), *pictures, "-o", tmp_path / "out")
    assert done.code == 2
    assert_words(done.err, *words)
    mended = (*pictures, "--resample", "nearest")
    assert run_safely("check", pattern(tmp_path, ".nii.gz"), *mended).code == 0
    done = run_safely("import", pattern(tmp_path, ".nii.gz"), *mended, "-o", tmp_path / "new")
    assert done.code == 0
    labels = raters.read(tmp_path / "new")["c1"].labels[1]
    assert labels.shape == (8, 9, 5)
    assert labels[2:5].all() and not labels[:2].any()


def test_other_spacing(run_safely: Run, tmp_path: Path) -> None:
    draw_volumes(tmp_path)
    bad = save(
        tmp_path / "masks/bob/c1.nii.gz", np.ones((8, 9, 5), np.uint8), np.diag([1, 1, 3.0, 1])
    )
    words = (f"{bad}: ", "spacing (1, 1, 3)", "(1, 1, 1)", f"{tmp_path}/masks/ann/c1.nii.gz")
    assert_check_finds(run_safely, tmp_path, "geometry", *words)


# Manifests and tables.


def write_mask_manifest(folder: Path, *rows: str, header: str = "case,rater,mask") -> Path:
    draw_masks(folder)
    path = folder / "manifest.csv"
    path.write_text("\n".join([header, *rows, ""]))
    return path


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("case,rator,mask", ("'rator'", "'rater'")),
        ("case,rater,masks", ("'masks'", "'mask'")),
        ("Case,rater,mask", ("'Case'", "'case'")),
        ("case;rater;mask", ("comma",)),
        ("scan,rater,mask", ("scan, rater, mask", "'case'")),
    ],
)
def test_manifest_with_a_wrong_column(
    run_safely: Run, tmp_path: Path, header: str, words: tuple[str, ...]
) -> None:
    row = "c0,ann,masks/ann/c0.png".replace(",", ";" if ";" in header else ",")
    path = write_mask_manifest(tmp_path, row, header=header)
    assert_error(run_safely("check", path), path, *words)


def test_manifest_rows(run_safely: Run, tmp_path: Path) -> None:
    path = write_mask_manifest(tmp_path, "c0,ann,masks/ann/c0.png", "c1,ann")
    assert_error(run_safely("check", path), path, "2 cells in row 3, expected 3")
    path = write_mask_manifest(tmp_path, "c0,ann,masks/ann/c0.png", "c0,ann,masks/ann/c1.png")
    outcome = run_safely("check", path)
    assert outcome.code == 2
    assert_words(outcome.out, path, "masks/ann/c1.png in row 3", "masks/ann/c0.png")
    path = write_mask_manifest(tmp_path, "c0,ann,masks/ann/c0.png", "c1,ann,masks/ann/gone.png")
    outcome = run_safely("check", path)
    assert outcome.code == 2
    assert_words(outcome.out, f"{tmp_path}/masks/ann/gone.png: there is no such file")
    assert run_safely("import", path, "-o", tmp_path / "out").code == 2
    assert raters.read(tmp_path / "out").cases == ("c0",)


@pytest.mark.parametrize(
    ("text", "words"),
    [("case,rater,mask\n", ("no rows",)), ("", ("empty",)), ("task,worker,label\n", ("no",))],
)
def test_empty_tables(run_safely: Run, tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    for verb in (["check"], ["import", "-o", tmp_path / "out"]):
        assert_error(run_safely(*verb, path), path, *words)
    assert not (tmp_path / "out").exists()


def test_empty_folder(run_safely: Run, tmp_path: Path) -> None:
    (tmp_path / "masks").mkdir()
    assert_error(
        run_safely("check", tmp_path / "masks"), tmp_path / "masks", "is empty", "study.yaml"
    )
    assert_error(run_safely("check", pattern(tmp_path)), pattern(tmp_path), "is empty")


@pytest.mark.parametrize("form", ["canonical", "packed"])
@pytest.mark.parametrize("name", ["../x", "..", "/etc/x", "a/../../b", "x/", "con.", "<b>&%2E"])
def test_a_name_that_is_a_path_stays_a_name(
    run_safely: Run, tmp_path: Path, name: str, form: str
) -> None:
    rows = [
        "good,ann,masks/ann/c0.png,images/c0.png",
        f"{name},{name},masks/bob/c1.png,images/c1.png",
    ]
    path = write_mask_manifest(tmp_path, *rows, header="case,rater,mask,image")
    out = tmp_path / "deep/down/out"
    out.parent.mkdir(parents=True)
    done = run_safely("import", path, "-o", out, "--form", form)  # the fixture sees what is written
    assert done.code == 0, done
    study = raters.read(out)
    assert set(study.raters) == {"ann", name}
    assert set(study.cases) == {"good", name}
    mask = np.asarray(Image.open(tmp_path / "masks/bob/c1.png"))
    assert (study[name].labels[study.raters.index(name)] == mask).all()
    assert study[name].image is not None
    assert run_safely("check", out).code == 0


def test_a_rater_of_a_table_that_is_a_path_stays_a_name(run_safely: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("task,worker,label\n../t,../x,cat\n../t,ann,dog\n")
    out = tmp_path / "deep/out"
    out.parent.mkdir()
    assert run_safely("import", path, "-o", out).code == 0
    study = raters.read(out)
    assert set(study.raters) == {"../x", "ann"}
    assert study.cases == ("../t",)


def test_markup_in_names_is_shown_as_it_is(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, raters=("[red]ann", "[b]"))
    (tmp_path / "masks/[b]/c1.png").write_bytes(b"x")
    shown = run_safely("check", pattern(tmp_path), "--values", "0=[b]x[/b],1=[x]")
    assert shown.code == 2
    assert_words(shown.out, "[red]ann", "[b]", "[b]x[/b]", "masks/[b]/c1.png: ")


# Folders that raters wrote and something spoilt.


def import_masks(run_safely: Run, folder: Path, form: str = "canonical") -> Path:
    draw_masks(folder)
    out = folder / "study"
    assert (
        run_safely(
            "import", pattern(folder), *images_option(folder), "-o", out, "--form", form
        ).code
        == 0
    )
    return out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("form:", "fork: 1\nform:", ("fork", "raters-study/1")),
        ("raters-study/1", "raters-study/9", ("raters-study/9", "raters-study/1")),
        ("kind: segmentation", "kind: !!python/object/apply:os.system ['true']", ("python/",)),
        ("raters:", "raters: 3\nchannels:", ("raters", "3")),
        ("form: canonical", "form: [", ("not a YAML file",)),
    ],
)
def test_spoilt_study_file(
    run_safely: Run, tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    out = import_masks(run_safely, tmp_path)
    text = (out / "study.yaml").read_text()
    assert old in text
    (out / "study.yaml").write_text(text.replace(old, new))
    assert_error(run_safely("check", out), out / "study.yaml", *words)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_study_file_that_is_none(run_safely: Run, tmp_path: Path, text: str) -> None:
    out = import_masks(run_safely, tmp_path)
    (out / "study.yaml").write_text(text)
    assert_error(run_safely("check", out), out / "study.yaml", "raters-study/1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case,group,split\nc0,c0,\nc0,c0,\n", ("'c0' twice",)),
        ("name,group,split\nc0,c0,\n", ("name, group, split", "'case'")),
        ("case,group,split\nc0\n", ("1 cells in row 2, expected 3",)),
        ("case,group,split\n", ("no cases",)),
        ("case,group,split\n,x,\n", ("without a case",)),
        ("case,group,split,row\nc0,c0,,first\n", ("'first'", "row")),
        ("case,group,split,row\nc0,c0,,-1\n", ("-1", "row")),
    ],
)
@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_spoilt_cases_file(
    run_safely: Run, tmp_path: Path, text: str, words: tuple[str, ...], form: str
) -> None:
    out = import_masks(run_safely, tmp_path, form)
    (out / "cases.csv").write_text(text)
    assert_error(run_safely("check", out), out, *words)


def test_files_that_belong_to_no_case(run_safely: Run, tmp_path: Path) -> None:
    out = import_masks(run_safely, tmp_path)
    save_png(out / "labels/ann/c9.png", blob())
    save_png(out / "labels/eve/c0.png", blob())
    shown = run_safely("check", out)
    assert shown.code == 2
    assert_words(
        shown.out, f"{out}/labels/ann/c9.png: ", "not in cases.csv", f"{out}/labels/eve", "'eve'"
    )


def test_packed_arrays_with_other_numbers_of_rows(run_safely: Run, tmp_path: Path) -> None:
    out = import_masks(run_safely, tmp_path, "packed")
    labels = np.load(out / "labels.npy")
    np.save(out / "labels.npy", labels[:2])
    assert_error(run_safely("check", out), out / "labels.npy", "2 rows", "expected 3")
    np.save(out / "labels.npy", labels[:, :1])
    assert_error(run_safely("check", out), out / "labels.npy", "1 raters", "expected 2")
    (out / "labels.npy").write_bytes(b"\x93NUMPY\x01\x00")
    assert_error(run_safely("check", out), out / "labels.npy", "not a whole array")
    np.save(out / "labels.npy", labels + 5)
    shown = run_safely("check", out)
    assert shown.code == 2
    assert_words(shown.out, "6", "expected")


def test_packed_labels_missing(run_safely: Run, tmp_path: Path) -> None:
    out = import_masks(run_safely, tmp_path, "packed")
    (out / "labels.npy").unlink()
    assert_error(run_safely("check", out), out / "labels.npy", "no such file")


def test_answers_missing(run_safely: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
    out = tmp_path / "out"
    assert run_safely("import", path, "-o", out).code == 0
    (out / "labels.parquet").unlink()
    assert_error(run_safely("check", out), out / "labels.parquet")
    (out / "labels.parquet").write_bytes(b"PAR1 and nothing else")
    assert_error(run_safely("check", out), out / "labels.parquet", "cannot be read")


# Options.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--raters", "ann,carl"], ("'carl'", "ann, bob")),
        (["--cases", "c7"], ("'c7'", "c0")),
        (["--cases", "d*"], ("'d*'", "c0")),
        (["--classes", "tumour"], ("'tumour'", "background, foreground")),
        (["--split", "test"], ("'test'", "no splits")),
        (["--ignore", "white"], ("--ignore", "'white'", "whole numbers")),
        (["--absent", "gone"], ("--absent", "'gone'", "'missing' or 'empty'")),
        (["--overlap", "last"], ("--overlap", "'last'", "'priority'")),
        (["--resample", "linear"], ("--resample", "'linear'", "'nearest'")),
        (["--values", "zero=background"], ("zero=background", "0=background")),
        (["--values", "0=a,1=a"], ("'a' twice",)),
    ],
)
def test_options_that_fit_nothing(
    run_safely: Run, tmp_path: Path, options: list[str], words: tuple[str, ...]
) -> None:
    draw_masks(tmp_path)
    for verb in (["check"], ["import", "-o", tmp_path / "out"]):
        assert_error(run_safely(*verb, pattern(tmp_path), *options), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--new-split", "train"], ("--new-split", "'train'", "train=0.7")),
        (["--new-split", "train=much"], ("--new-split", "train=much")),
        (["--new-split", "train=-1,test=2"], ("-1",)),
        (["--new-split", "train=nan"], ("nan",)),
        (["--new-split", "train=.5,train=.5"], ("train=.5,train=.5", "different names")),
        (["--new-split", "=.5"], ("--new-split",)),
        (["--new-split", "seed=.5"], ("--new-split", "'seed=.5'")),
        (["--form", "zarr"], ("'zarr'", "'canonical' or 'packed'")),
    ],
)
def test_options_of_import(
    run_safely: Run, tmp_path: Path, options: list[str], words: tuple[str, ...]
) -> None:
    draw_masks(tmp_path)
    assert_error(run_safely("import", pattern(tmp_path), "-o", tmp_path / "out", *options), *words)
    assert not (tmp_path / "out").exists()


def test_unknown_split_of_a_study_lists_those_it_has(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    out = tmp_path / "out"
    options = ("--new-split", "train=.7,test=.3")
    assert run_safely("import", pattern(tmp_path), "-o", out, *options).code == 0
    assert_error(run_safely("check", out, "--split", "val"), "'val'", "test, train")


def test_out_folder_that_holds_other_things(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    out = tmp_path / "thesis"
    (out / "labels").mkdir(parents=True)
    (out / "labels/precious.png").write_bytes(b"years of work")
    before = fingerprint(out)
    for options in ([], ["--overwrite"], ["--form", "packed", "--overwrite"]):
        outcome = run_safely("import", pattern(tmp_path), "-o", out, *options)
        assert_error(outcome, out, "other files (labels), expected a new one or a study")
        assert fingerprint(out) == before


def test_out_path_that_is_a_file(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    out = tmp_path / "study"
    out.write_text("notes")
    assert_error(run_safely("import", pattern(tmp_path), "-o", out), out, "found a file")
    below = run_safely("import", pattern(tmp_path), "-o", out / "deeper")
    assert_error(below, out / "deeper", "Not a directory")
    assert out.read_text() == "notes"


def test_out_folder_that_is_the_source(run_safely: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    assert_error(
        run_safely("import", pattern(tmp_path), "-o", tmp_path / "masks"), tmp_path / "masks"
    )


def test_a_study_imported_onto_itself_is_refused(run_safely: Run, tmp_path: Path) -> None:
    out = import_masks(run_safely, tmp_path)
    before = fingerprint(out)
    assert_error(run_safely("import", out, "-o", out, "--overwrite"), out, "which is read")
    assert_error(run_safely("import", out, "-o", out, "--raters", "ann"), out)
    assert fingerprint(out) == before


# One bad file never hides the others.


def test_five_bad_files_are_all_listed_and_the_rest_is_imported(
    run_safely: Run, tmp_path: Path
) -> None:
    draw_masks(tmp_path, raters=("ann", "bob", "cy"), cases=8)
    bad = {
        "unreadable": tmp_path / "masks/ann/c1.png",
        "geometry": tmp_path / "masks/bob/c2.png",
        "grey": tmp_path / "masks/cy/c3.png",
        "colour": tmp_path / "masks/ann/c4.png",
        "unreadable image": tmp_path / "images/c5.png",
    }
    whole = bad["unreadable"].read_bytes()
    bad["unreadable"].write_bytes(whole[: len(whole) // 2])
    save_png(bad["geometry"], np.pad(blob(), 1))
    save_png(bad["grey"], np.arange(144, dtype=np.uint8).reshape(12, 12))
    save_png(bad["colour"], np.random.default_rng(0).integers(0, 9, (12, 12, 3), dtype=np.uint8))
    bad["unreadable image"].write_text("gone")

    shown = run_safely("check", pattern(tmp_path), *images_option(tmp_path))
    assert shown.code == 2
    assert_words(shown.out, "5 errors", *(f"{path}: " for path in bad.values()))
    listed = listed_problems(
        run_safely("check", pattern(tmp_path), *images_option(tmp_path), "--json")
    )
    errors = [p for p in listed if p["level"] == "error"]
    assert {p["file"] for p in errors} == {str(p) for p in bad.values()}
    assert [p["case"] for p in errors] == ["c1", "c2", "c3", "c4", "c5"]
    assert len({p["kind"] for p in errors}) == 4

    for form in ("canonical", "packed"):
        out = tmp_path / form
        done = run_safely(
            "import", pattern(tmp_path), *images_option(tmp_path), "-o", out, "--form", form
        )
        assert done.code == 2
        assert_words(done.out, "3 cases written")
        assert_words(done.err, "5 cases left out", *(f"{path}: " for path in bad.values()))
        study = raters.read(out)
        assert study.cases == ("c0", "c6", "c7")
        for case in study.iter_cases():
            for r, rater in enumerate(study.raters):
                mask = np.asarray(Image.open(tmp_path / f"masks/{rater}/{case.id}.png"))
                assert (case.labels[r] == mask).all()
        assert run_safely("check", out).code == 0


def test_a_failing_reader_is_no_traceback(
    run_safely: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails in the middle of writing is a message, too."""
    draw_masks(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "out/labels.npy"))

    monkeypatch.setattr("raters.study.packed.PackedWriter.write", full)
    outcome = run_safely("import", pattern(tmp_path), "-o", tmp_path / "out", "--form", "packed")
    assert_error(outcome, tmp_path / "out/labels.npy", "No space left")


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 10)]
    + ["raters: *a9"]
)
ODD = {
    LAUGHS: "found the alias '*a0'",
    "raters: [" + "a, " * 5_000 + "{}]": "raters.5000",
    f"ignore: {'9' * 5000}": "5,000 digits",
    f"about: {'[' * 5000}": "nested too deep",
    "classes: [{name: a, value: 0}, {name: b, value: 1180591620717411303424}]": "64 bits",
    "classes: [{name: a, value: 0}, {name: b, value: b}]": "the value 'b' of the class 'b'",
}


@pytest.mark.parametrize("line", ODD)
def test_study_file_that_unfolds_without_end(run_safely: Run, tmp_path: Path, line: str) -> None:
    raters.Study.from_arrays(labels=np.zeros((1, 2, 4, 4), int)).write(tmp_path / "s")
    path = tmp_path / "s" / "study.yaml"
    kept = [k for k in path.read_text().split("\n") if not k.startswith(("-", " ", "raters:"))]
    kept = [k for k in kept if k.split(":")[0] != line.split(":")[0]]  # no key twice
    kept += [] if "raters:" in line else ["raters: ['0', '1']"]
    kept = [k + " []" if k == "classes:" else k for k in kept]
    path.write_text("\n".join([*kept, line]))
    outcome = run_safely("check", tmp_path / "s")
    assert_error(outcome, path, ODD[line])
    assert len(outcome.err) < 1000
