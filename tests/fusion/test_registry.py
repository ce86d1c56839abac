"""Every fusion method keeps the same rules; one from outside is found everywhere."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from raters.fusion.methods import KINDS, METHODS, options_class
from raters.study.study import Study
from tests.support.command_line import run_alone

LABELS_ALONE = {name: m for name, m in METHODS.items() if not m.images}
"""Those that look at images have tests of their own."""


def kinds_of(name: str) -> list[str]:
    """Return the kinds of studies that a method takes, in the order of `KINDS`."""
    return [kind for kind in KINDS if kind in LABELS_ALONE[name].kinds]


ROOT = Path(__file__).parents[2]
EACH = [(name, kind) for name in LABELS_ALONE for kind in kinds_of(name)]


@pytest.fixture
def wawa() -> Iterator[str]:
    """Add a method as a user's program does: by importing the file that registers it."""
    sys.modules.pop("tests.support.wawa", None)
    import_module("tests.support.wawa")

    yield "wawa"
    del METHODS["wawa"]


def draw_study_with_gaps(kind: str, seed: int = 0) -> Study:
    """Draw labels by four raters with gaps; one pixel or task that nobody labelled."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 3, 48)
    labels = np.where(random.random((4, 48)) < 0.8, truth, random.integers(0, 3, (4, 48)))
    labels[random.random(labels.shape) < 0.2] = -1
    labels[:, 7] = -1
    labels = labels if kind == "classification" else labels.reshape(4, 6, 8)
    return Study.from_arrays(labels=labels.T if kind == "classification" else labels[np.newaxis])


def fuse_labels(name: str, study: Study, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Return labels, and the probabilities with classes first."""
    found = raters.fuse(study, name, **options)
    one = found.table if study.kind == "classification" else found[0]
    return one.labels, one.truth.T if study.kind == "classification" else one.truth


def keeps_the_rules(name: str, kind: str) -> None:
    study = draw_study_with_gaps(kind)
    labels, truth = fuse_labels(name, study)
    assert np.isfinite(truth).all() and (truth >= 0).all()
    np.testing.assert_allclose(truth.sum(axis=0), 1, atol=1e-5)
    assert labels.dtype == np.int16 and labels.ravel()[7] == raters.MISSING
    again, _ = fuse_labels(name, Study.from_arrays(labels=_arrays(study)[:, ::-1]))
    np.testing.assert_array_equal(again, labels)  # the order of raters does not matter
    same = np.where(_arrays(study) >= 0, 1, -1)
    if kind == "segmentation":
        same[:, :, :, 0] = 0
    alike = Study.from_arrays(labels=same, classes=["a", "b", "c"])
    expected = same.max(axis=1) if kind == "classification" else same[0].max(axis=0)
    np.testing.assert_array_equal(fuse_labels(name, alike)[0], expected)  # all agree
    skills = raters.fuse(study, name).skills
    assert skills.shape[-1] == 4 and np.nanmin([0, *skills.to_numpy().flat]) == 0
    assert np.nanmax([1, *skills.to_numpy().flat]) == 1
    with pytest.raises(RatersError, match="found the option 'nonsense'"):
        raters.fuse(study, name, nonsense=1)
    for option in METHODS[name].options(kind).values():
        assert option.meaning, f"{name} does not say what {option.name} means"
        if isinstance(option.default, float) or type(option.default) is int:
            with pytest.raises(RatersError, match=f"found {option.name}=-1, expected .* from"):
                raters.fuse(study, name, **{option.name: -1})


def _arrays(study: Study) -> np.ndarray:
    if study.kind == "segmentation":
        return np.stack([case.labels for case in study])
    dense = np.full((len(study), len(study.raters)), -1)
    dense[study.triplets.task, study.triplets.rater] = study.triplets.label
    return dense


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_every_method_keeps_the_rules(name: str, kind: str) -> None:
    keeps_the_rules(name, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_from_outside_keeps_them_too(wawa: str, kind: str) -> None:
    keeps_the_rules(wawa, kind)


def test_its_skills_and_labels_are_those_of_a_slow_loop(wawa: str) -> None:
    study = draw_study_with_gaps("classification", seed=3)
    dense = _arrays(study)
    votes = np.zeros((48, 3))
    for task, said in enumerate(dense):
        for label in said[said >= 0]:
            votes[task, label] += 1
    right = [[x == votes[t].argmax() for t, x in enumerate(r) if x >= 0] for r in dense.T]
    skills = [np.mean(each) for each in right]
    consensus = raters.fuse(study, wawa, power=2)
    np.testing.assert_allclose(consensus.skills, skills)
    assert list(consensus.skills.index) == list(study.raters)
    for task, said in enumerate(dense):
        weights = [sum(skills[r] ** 2 for r in range(4) if said[r] == c) for c in range(3)]
        if sum(weights):
            np.testing.assert_allclose(
                consensus.probabilities.iloc[task], np.array(weights) / sum(weights)
            )


@pytest.mark.usefixtures("wawa")
def test_options_of_functions_are_typed() -> None:
    labels = draw_study_with_gaps("segmentation")
    chosen = raters.fusion.StapleOptions(restrict=True, max_iter=3)  # type: ignore[attr-defined]
    one = raters.fuse(labels, chosen)
    other = raters.fuse(labels, "staple", restrict=True, max_iter=3)
    np.testing.assert_array_equal(one[0].truth, other[0].truth)
    with pytest.raises(TypeError, match="rectrict"):
        raters.fusion.StapleOptions(rectrict=True)  # type: ignore[attr-defined]
    for name, method in METHODS.items():
        maker = getattr(raters.fusion, options_class(name))
        kind = "classification" if method.table else "segmentation"
        assert set(method.options(kind)) <= set(inspect.signature(maker).parameters)


@pytest.mark.slow
def test_help_lists_and_tables_find_a_method_from_outside(wawa: str, tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\nt1,cy,dog\nt2,ann,cat\n")
    before = (
        f"sys.path.insert(0, {str(ROOT)!r})\nimport tests.support.wawa\n"
        "from raters.cli import main\nfirst = sys.argv\n"
        "for words in (['fuse', '--help'], ['methods'], ['methods', 'wawa']):\n"
        "    sys.argv = ['raters', *words]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code\n"
        "sys.argv = first"
    )
    done = run_alone("fuse", table, "-m", "wawa", "-o", tmp_path / "out", before=before)
    assert done.code == 0, done.err
    assert (tmp_path / "out/labels.csv").read_text() == "task,label\nt1,dog\nt2,cat\n"
    assert "lazy-snapping, wawa" in " ".join(done.out.replace("│", " ").split())
    assert "votes weighed by agreement" in done.out and "How much skill counts" in done.out
    tables = importlib.util.spec_from_file_location("make_tables", ROOT / "docs/make_tables.py")
    assert tables is not None and tables.loader is not None
    module = importlib.util.module_from_spec(tables)
    tables.loader.exec_module(module)
    assert "| `power` | `1.0` | How much skill counts. |" in module.fusion_options(wawa, "masks")
