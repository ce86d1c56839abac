"""Manifests: a CSV with one row per mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from tests.support.makers import save, square


def write_manifest(folder: Path, text: str, name: str = "manifest.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_column(tmp_path: Path) -> None:
    """Paths are relative to the manifest; an image may be named again; order does not matter."""
    for value, name in enumerate(["a1", "a2", "b1", "t1", "x1 T1", "x1-T2", "x2"], start=1):
        save(tmp_path / f"deep/{name}.png", square(value=value))
    path = write_manifest(
        tmp_path,
        "case,rater,mask,image,reference,group,split,modality,site\n"
        "c2,ann,deep/a2.png,deep/x2.png,,P,test,T1,x\n"
        "c2,,,deep/x2.png,,P,,T2,x\n"
        "c1,bob,deep/b1.png,deep/x1-T2.png,deep/t1.png,P,train,T2,\n"
        "c1,ann,deep/a1.png,deep/x1 T1.png,deep/t1.png,,train,T1,\n",
    )
    study = raters.read(path)
    assert study.raters == ("ann", "bob")
    assert study.channels == ("T1", "T2")
    assert [(c.id, c.group, c.split) for c in study] == [("c1", "P", "train"), ("c2", "P", "test")]
    c1, c2 = study
    values = [int(v) for v in study.classes.values]
    assert [values[k] for k in c1.labels.max(axis=(1, 2))] == [1, 3]
    assert (c2.labels[1] == MISSING).all()
    assert c1.image is not None
    assert c1.image.max(axis=(1, 2)).tolist() == [5, 6]
    assert c1.reference is not None
    assert values[c1.reference.max()] == 4
    assert c2.reference is None


def test_absolute_paths_and_a_file_a_class(tmp_path: Path) -> None:
    disc = save(tmp_path / "disc.png", square(value=255))
    cup = save(tmp_path / "cup.png", square(value=255, corner=2))
    text = f"case,rater,mask,class\nc1,ann,{disc},disc\nc1,ann,{cup},cup\n"
    study = raters.read(write_manifest(tmp_path, text))
    assert study.classes.names == ("background", "cup", "disc")
    assert np.array_equal(study["c1"].labels[0], 2 * square() + square(corner=2))


def test_odd_text(tmp_path: Path) -> None:
    """A byte-order mark, blanks around cells, quotes, Windows line ends and blank lines."""
    save(tmp_path / "my, mask.png", square())
    text = '\ufeff case , rater,mask\r\n c1 ,Jürgen K,"my, mask.png"\r\n\r\n'
    path = write_manifest(tmp_path, text)
    study = raters.read(path)
    assert (study.cases, study.raters) == (("c1",), ("Jürgen K",))
    assert study["c1"].labels.max() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case,rater,mask,imagee\n", "found column 'imagee', expected 'image'"),
        ("case,Rater,mask\n", "found column 'Rater', expected 'rater'"),
        ("rater,mask\nann,a.png\n", "expected a column 'case'"),
        ("case,mask\nc1,a.png\n", "expected a column 'rater'"),
        ("case,rater,mask\nc1,ann\n", "found 2 cells in row 2, expected 3"),
        ("case,rater,mask\nc1,ann,a.png\nc1,bob,b.png,x\n", "found 4 cells in row 3, expected 3"),
        ("case,rater,mask\n,ann,a.png\n", "found no case in row 2"),
        ("case,rater,mask\nc1,,a.png\n", "found a mask without a rater in row 2"),
        ("case,rater,mask\n", "found no rows"),
        (
            "case,rater,mask,group\nc1,ann,a.png,P\nc1,bob,b.png,Q\n",
            "found group 'Q' for case 'c1' in row 3, expected 'P'",
        ),
        (
            "case,rater,mask,split\nc1,ann,a.png,train\nc1,bob,b.png,test\n",
            "found split 'test' for case 'c1' in row 3, expected 'train'",
        ),
        ("case,rater,mask\nc1,ann,a.png\nc1,ann,b.png\n", r"b.png in row 3, expected .*a.png"),
        ("case,rater,mask\nc1,ann,a.png\nc1,ann,a.png\n", "row 3 repeats an earlier row$"),
        (
            "case,rater,mask,image\nc1,ann,a.png,x.png\nc1,bob,b.png,y.png\n",
            r"y.png in row 3, expected .*x.png",
        ),
        (
            "case,rater,mask,reference\nc1,ann,a.png,x.png\nc1,bob,b.png,y.png\n",
            r"y.png in row 3, expected .*x.png",
        ),
    ],
)
def test_faults_are_named_with_file_and_row(tmp_path: Path, text: str, words: str) -> None:
    path = write_manifest(tmp_path, text)
    with pytest.raises(RatersError, match=words) as caught:
        raters.read(path)
    assert caught.value.file == str(path)


def test_a_missing_mask_file_is_an_error_of_its_case_alone(tmp_path: Path) -> None:
    save(tmp_path / "b.png", square())
    study = raters.read(write_manifest(tmp_path, "case,rater,mask\nc1,ann,a.png\nc2,ann,b.png\n"))
    assert study["c2"].labels.max() == 1
    with pytest.raises(RatersError, match=r"a.png: there is no such file") as caught:
        _ = study["c1"].labels
    assert (caught.value.case, caught.value.rater) == ("c1", "ann")


def test_a_case_with_nothing_but_an_image(tmp_path: Path) -> None:
    save(tmp_path / "a.png", square())
    save(tmp_path / "x.png", square(value=9))
    text = "case,rater,mask,image\nc1,ann,a.png,\nc2,,,x.png\n"
    study = raters.read(write_manifest(tmp_path, text))
    assert (study["c2"].labels == MISSING).all()
    assert study["c1"].image is None


def test_no_file_and_no_table(tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="no such file or folder"):
        raters.read(tmp_path / "nothing.csv")
    path = save(tmp_path / "a.png", square())
    with pytest.raises(RatersError, match=r"found a file that is not a table.*\{rater\}"):
        raters.read(path)
