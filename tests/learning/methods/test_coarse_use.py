"""`coarse` in use: how it is trained, extended and fused with, and who refuses what it takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.networks.normalise import Normalisation
from raters.learning.training.dataset import CaseDataset, collate
from raters.learning.training.partition import check_classes
from raters.study.annotations import Annotation
from raters.study.study import Study

Array = NDArray[Any]
TINY: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 4,
    "width": 4,
    "depth": 2,
    "val_fraction": 0,
    "select": "last",
    "progress": False,
}


def draw_squares(
    classes: int = 3, number: int = 8, size: int = 12, seed: int = 0
) -> tuple[Array, Array]:
    """Draw squares of each class, with noise."""
    random = np.random.default_rng(seed)
    truth = np.zeros((number, size, size), int)
    for mask in truth:
        for c in range(1, classes):
            y, x = random.integers(0, size - 5, 2)
            mask[y : y + 5, x : x + 5] = c
    levels = np.array([0.0, 1.0, -1.0])
    return levels[truth][:, np.newaxis] + random.normal(0, 0.2, (number, 1, size, size)), truth


def negatives(truth: Array, classes: int = 3, seed: int = 1) -> Array:
    """Exclude one class of each pixel, rightly; a fifth says nothing."""
    random = np.random.default_rng(seed)
    said = (truth + random.integers(1, classes, truth.shape)) % classes
    return np.where(random.random(truth.shape) < 0.2, MISSING, said)


def make_study_of_kinds(classes: int = 3, **kinds: tuple[Annotation, Array]) -> Study:
    """Return a study of drawings, by the names of the raters."""
    images, truth = draw_squares(classes)
    return Study.from_arrays(
        images,
        np.stack([labels for _, labels in kinds.values()], 1),
        reference=truth,
        raters=list(kinds),
        annotations={name: kind for name, (kind, _) in kinds.items()},
        classes=["background", "bright", "dark"][:classes],
    )


IMAGES, TRUTH = draw_squares()
NEGATIVE = negatives(TRUTH)


# What matrices learn


@pytest.mark.slow
def test_matrices_have_a_chance_after_the_warm_up() -> None:
    """A rater misses two fifths of all objects: matrices find it out in what the warm-up leaves."""
    images, truth = draw_squares(classes=2, number=16)
    random = np.random.default_rng(0)
    missed = np.where(random.random(truth.shape) < 0.4, 0, truth)
    labels = np.stack([missed, truth, truth], 1)
    kinds: dict[str, Annotation] = dict.fromkeys(("ann", "ben", "cy"), "positive")
    study = Study.from_arrays(images, labels, raters=list(kinds), annotations=kinds)
    more = {"epochs": 25, "lr": 0.02, "augment": "none", "warm_up": 0.4}
    model = raters.fit(study, "coarse", **{**TINY, **more})
    assert model.config.options["warm_up"] == 10
    found = [np.asarray(model.confusion(case))[0] for case in study]
    said = [m[1, 1][mask == 1] for m, mask in zip(found, truth, strict=True)]
    assert abs(np.concatenate(said).mean() - 0.6) < 0.1  # they start at 0.9


def test_who_never_says_background_keeps_the_matrix_of_the_start() -> None:
    """'Background everywhere, drawn as it looks' would explain all that both say."""
    study = make_study_of_kinds(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    assert study.unmarked == "unknown"
    model = raters.fit(study, "coarse", **{**TINY, "epochs": 3, "warm_up": 1, "lr": 0.05})
    found = np.asarray(model.confusion(IMAGES[0]))[0]
    np.testing.assert_allclose(found[1, 1], 0.9, atol=1e-3)
    rest = study.annotate(None, "rest")
    learnt = raters.fit(rest, "coarse", **{**TINY, "epochs": 3, "warm_up": 1, "lr": 0.05})
    assert np.abs(np.asarray(learnt.confusion(IMAGES[0]))[0][1, 1] - 0.9).max() > 1e-3


@pytest.mark.slow
def test_who_says_one_class_alone_keeps_the_matrix_of_the_start() -> None:
    """'Says object, whatever is true' would explain every mark, and leave the truth open."""
    images, truth = draw_squares(classes=2)
    inside, outside = (np.where(truth == c, c, MISSING) for c in (1, 0))
    kinds: dict[str, Annotation] = {"pos": "positive", "neg": "negative", "cy": "positive"}
    labels = np.stack([inside, np.where(outside == 0, 1, MISSING), truth], 1)
    study = Study.from_arrays(
        images, labels, raters=list(kinds), annotations=kinds, unmarked="unknown"
    )
    assert set(np.unique(study[0].labels[1])) == {MISSING, 0}  # turned round
    more = {"epochs": 3, "warm_up": 1, "lr": 0.05}
    start = np.array([[0.9, 0.1], [0.1, 0.9]])
    for form, moved in (("own", [False, False]), ("paper", [True, True])):
        model = raters.fit(study, "coarse", **{**TINY, **more}, form=form)
        found = np.asarray(model.confusion(images[0]))
        far = np.abs(found - start[..., None, None]).max(axis=(1, 2, 3, 4))
        assert (far[:2] > 1e-3).tolist() == moved
        assert far[2] > 1e-3 or set(np.unique(study[0].labels[2])) == {MISSING, 1}
    longer = raters.extend(
        raters.fit(study.select(raters=["cy"]).annotate({"cy": "mask"}), "coarse", **TINY),
        study.select(raters=["pos"]),
        epochs=1,
        progress=False,
    )
    assert np.allclose(np.asarray(longer.confusion(images[0]))[1], start[..., None, None])


# Raters who come later


@pytest.mark.parametrize("kind", ["mask", "positive"])
def test_raters_who_come_later_do_not_change_whom_is_trusted(kind: Annotation) -> None:
    other: Annotation = "positive" if kind == "mask" else "mask"
    before = make_study_of_kinds(2, ann=(kind, (TRUTH == 1).astype(int)))
    after = make_study_of_kinds(
        2, ann=(kind, (TRUTH == 1).astype(int)), ben=(other, (TRUTH == 1).astype(int))
    )
    model = raters.fit(before, "coarse", **TINY)
    assert model.config.options["trust_masks"] == (kind == "positive")
    longer = raters.extend(model, after, epochs=2, progress=False)
    assert longer.config.options["trust_masks"] == (kind == "positive")
    one, two = (np.asarray(m.confusion(IMAGES[0])) for m in (model, longer))
    np.testing.assert_array_equal(one[0], two[0])
    trusted = np.allclose(two[1], np.eye(2)[..., None, None], atol=1e-3)
    assert trusted == (kind == "positive")


# Fusion with a model


@pytest.fixture(scope="module")
def model() -> raters.Model:
    study = make_study_of_kinds(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    return raters.fit(study, "coarse", **{**TINY, "epochs": 12}, lr=0.02)


def test_negative_drawings_are_fused_with_a_model(model: raters.Model) -> None:
    alone = make_study_of_kinds(ben=("negative", NEGATIVE))
    fused = raters.fuse(alone, model=model)
    p = np.asarray(model.truth(IMAGES[0]))
    a = np.asarray(model.confusion(IMAGES[0]))[1]
    m = np.asarray(model.transition())[1]
    column = np.einsum("to...,oq->tq...", a, m)
    expected = p.copy()
    for y, x in np.ndindex(12, 12):
        q = NEGATIVE[0, y, x]
        if q != MISSING:
            expected[:, y, x] *= column[:, q, y, x]
    expected /= expected.sum(0)
    found = fused[0]
    np.testing.assert_allclose(found.truth, expected, atol=1e-5)
    denied = NEGATIVE[0] != MISSING
    assert not (found.labels[denied] == NEGATIVE[0][denied]).any()
    # Nothing is known of what they would call a class: 'not q' is no q.
    np.testing.assert_allclose(found.confusion, 1 / 3)


def test_who_denies_does_not_spoil_the_matrices_of_others(model: raters.Model) -> None:
    both = make_study_of_kinds(ann=("positive", TRUTH), ben=("negative", NEGATIVE)).annotate(
        None, "rest"
    )
    consensus = raters.fuse(both, model=model)
    fused = consensus[0]
    rows = consensus.rows
    shown = {row["rater"] for row in rows if row["sensitivity"] is not None}
    assert shown == {"ann"} and {row["rater"] for row in rows} == {"ann", "ben"}
    counts = np.zeros((3, 3))
    found = np.moveaxis(fused.truth, 0, -1).reshape(-1, 3)
    for truth, said in zip(found, TRUTH[0].ravel(), strict=True):
        counts[:, said] += truth
    np.testing.assert_allclose(fused.confusion[0], counts / counts.sum(1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(fused.confusion[1], 1 / 3)


def test_negative_drawings_are_refused_in_words_by_others(model: raters.Model) -> None:
    both = make_study_of_kinds(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    with pytest.raises(RatersError, match="a consensus of labels cannot use what it is not"):
        raters.fuse(both, "staple")
    plain = raters.fit(
        make_study_of_kinds(ann=("positive", TRUTH), ben=("mask", TRUTH)), "pixel-cm", **TINY
    )
    with pytest.raises(RatersError, match=r"by 'ben', .* pixel-cm cannot use what it is not"):
        raters.fuse(both, model=plain)
    other = make_study_of_kinds(ann=("positive", TRUTH), ben=("mask", TRUTH))
    with pytest.raises(
        RatersError, match=r"found labels that say .* by 'ben', expected negative drawings as in"
    ):
        raters.fuse(other, model=model)
    turned = make_study_of_kinds(ann=("negative", NEGATIVE), ben=("negative", NEGATIVE))
    with pytest.raises(RatersError, match="found negative drawings by 'ann', expected labels that"):
        raters.fuse(turned, model=model)
    with pytest.raises(RatersError, match=r"by 'ben', .* truth cannot use what it is not"):
        raters.fit(both, "truth", **TINY)


# Warnings


def test_classes_that_negatives_leave_open_are_not_unused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_classes(make_study_of_kinds(ben=("negative", NEGATIVE)), "coarse")
        check_classes(
            make_study_of_kinds(
                ann=("positive", np.where(TRUTH == 1, 1, MISSING)),
                ben=("negative", np.where(TRUTH == 0, MISSING, 3 - TRUTH)),
            ),
            "coarse",
        )
    only = make_study_of_kinds(
        ann=("negative", np.where(TRUTH == 1, 2, MISSING))
    )  # 'not dark', and no more
    with pytest.warns(UserWarning, match="found no label of the class 'dark'"):
        check_classes(only, "coarse")


# The share


def test_what_fills_patches_up_is_no_part_of_the_share() -> None:
    """Images are a quarter of a patch: the share is that of the images, not of the patches."""
    images, truth = draw_squares(classes=2)
    labels = np.where(truth == 1, 1, MISSING)[:, np.newaxis]
    study = Study.from_arrays(
        images, labels, raters=["ann"], annotations={"ann": "positive"}, unmarked="unknown"
    )
    share = float(truth.mean())
    model = raters.fit(study, "coarse", **{**TINY, "patch_size": (24, 24)}, share=share)
    method = model.method.eval()
    assert method.has_regions
    data = CaseDataset(
        study, Normalisation("none"), patch_size=(24, 24), regions=method.regions, augment="flip"
    )
    batch = collate([data[k] for k in range(4)])
    assert batch["image"].shape[2:] == (24, 24)
    objects = method.truth(batch["image"])[:, 1].detach().numpy()
    pixels = [objects[k][batch["regions"][k].numpy() == 0] for k in range(4)]
    assert [len(part) for part in pixels] == [144] * 4
    m = float(np.mean(pixels))
    expected = share * np.log(share / m) + (1 - share) * np.log((1 - share) / (1 - m))
    found = method.step(batch).terms["share"].item()
    assert found == pytest.approx(expected, rel=1e-4)
    assert abs(m - objects.mean()) > 0.01  # the rest of the patch looks otherwise
