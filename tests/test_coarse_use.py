"""`coarse` in use: how it is trained, extended and fused with, and who refuses what it takes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.errors import RatersError
from raters.methods.phases import Optimiser
from raters.study.annotations import Annotation
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.training.dataset import CaseDataset, collate
from raters.training.normalise import Normalisation
from raters.training.survey import check_classes

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


def drawn(classes: int = 3, number: int = 8, size: int = 12, seed: int = 0) -> tuple[Array, Array]:
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


def study_of(classes: int = 3, **kinds: tuple[Annotation, Array]) -> Study:
    """Return a study of drawings, by the names of the raters."""
    images, truth = drawn(classes)
    return Study.from_arrays(
        images,
        np.stack([labels for _, labels in kinds.values()], 1),
        reference=truth,
        raters=list(kinds),
        annotations={name: kind for name, (kind, _) in kinds.items()},
        classes=["background", "bright", "dark"][:classes],
    )


IMAGES, TRUTH = drawn()
NEGATIVE = negatives(TRUTH)


# The rate of the matrices


def test_matrices_have_a_chance_after_the_warm_up() -> None:
    """A rater misses two fifths of all objects: matrices that are held so long find it out yet."""
    images, truth = drawn(classes=2, number=16)
    random = np.random.default_rng(0)
    missed = np.where(random.random(truth.shape) < 0.4, 0, truth)
    labels = np.stack([missed, truth, truth], 1)
    kinds: dict[str, Annotation] = {name: "positive" for name in ("ann", "ben", "cy")}
    study = Study.from_arrays(images, labels, raters=list(kinds), annotations=kinds)
    more = {"epochs": 25, "lr": 0.02, "augment": "none"}
    model = raters.fit(study, "coarse", **{**TINY, **more})
    assert model.config.options["warm_up"] == 20
    found = [np.asarray(model.confusion(case))[0] for case in study]
    said = [m[1, 1][mask == 1] for m, mask in zip(found, truth, strict=True)]
    assert abs(np.concatenate(said).mean() - 0.6) < 0.1  # they start at 0.9


@pytest.mark.parametrize("form", ["own", "paper"])
def test_the_rates_of_matrices_start_afresh_where_they_were_held(form: str) -> None:
    """The paper's form holds nothing: there, all have one schedule."""
    study = study_of(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    model = raters.fit(study, "coarse", **{**TINY, "epochs": 10}, form=form)
    method = model.method
    method.steps_per_epoch = 3
    last = method.warm_up * 3

    def make(*_: Any, **__: Any) -> Optimiser:
        every = list(method.parameters())
        shared = {id(p) for p in method.matrix_parameters()}
        groups = [
            {"params": [p for p in every if (id(p) in shared) == of_m]} for of_m in (False, True)
        ]
        optimiser = torch.optim.AdamW(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 30)
        return Optimiser(optimiser, schedule)

    made = method.optimisers(make)["main"]
    rates: dict[int, list[float]] = {id(p): [] for p in method.parameters()}
    for _ in range(30):
        for group in made.optimiser.param_groups:
            for parameter in group["params"]:
                rates[id(parameter)].append(group["lr"])
        made.optimiser.step()
        made.step_schedule()
    usual = [0.1 * (1 + np.cos(np.pi * k / 30)) / 2 for k in range(30)]
    afresh = [0.1 * (1 + np.cos(np.pi * max(k - last, 0) / (30 - last))) / 2 for k in range(30)]
    held = {id(p) for p in method.raters.head.parameters()} if form == "own" else set()
    assert len(rates) == sum(len(g["params"]) for g in made.optimiser.param_groups)
    for name, parameter in method.named_parameters():
        expected = afresh if id(parameter) in held else usual
        np.testing.assert_allclose(rates[id(parameter)], expected, atol=1e-9, err_msg=name)


def test_a_run_that_was_stopped_keeps_both_rates(tmp_path: Path) -> None:
    study = study_of(2, ann=("positive", (TRUTH == 1).astype(int)))
    options = {**TINY, "epochs": 5, "lr": 0.05, "warm_up": 2}
    whole = raters.fit(study, "coarse", **options)

    def stop(line: str) -> None:
        if line.startswith("epoch 4"):
            raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt):
        raters.fit(study, "coarse", **{**options, "progress": stop}, folder=tmp_path / "run")
    model = raters.fit(study, folder=tmp_path / "run", resume=True, progress=False)
    for key, value in whole.method.state_dict().items():
        torch.testing.assert_close(model.method.state_dict()[key], value, rtol=0, atol=0)


# Raters who come later


@pytest.mark.parametrize("kind", ["mask", "positive"])
def test_raters_who_come_later_do_not_change_whom_is_trusted(kind: Annotation) -> None:
    other: Annotation = "positive" if kind == "mask" else "mask"
    before = study_of(2, ann=(kind, (TRUTH == 1).astype(int)))
    after = study_of(
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
    study = study_of(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    return raters.fit(study, "coarse", **{**TINY, "epochs": 12}, lr=0.02)


def test_negative_drawings_are_fused_with_a_model(model: raters.Model) -> None:
    alone = study_of(ben=("negative", NEGATIVE))
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
    both = study_of(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    fused = raters.fuse(both, model=model)[0]
    counts = np.zeros((3, 3))
    for truth, said in zip(np.moveaxis(fused.truth, 0, -1).reshape(-1, 3), TRUTH[0].ravel(), strict=True):
        counts[:, said] += truth
    np.testing.assert_allclose(fused.confusion[0], counts / counts.sum(1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(fused.confusion[1], 1 / 3)


def test_negative_drawings_are_refused_in_words_by_others(model: raters.Model) -> None:
    both = study_of(ann=("positive", TRUTH), ben=("negative", NEGATIVE))
    with pytest.raises(RatersError, match="a consensus of labels cannot use what it is not"):
        raters.fuse(both, "staple")
    plain = raters.fit(study_of(ann=("positive", TRUTH), ben=("mask", TRUTH)), "pixel-cm", **TINY)
    with pytest.raises(RatersError, match="by 'ben', .* pixel-cm cannot use what it is not"):
        raters.fuse(both, model=plain)
    other = study_of(ann=("positive", TRUTH), ben=("mask", TRUTH))
    with pytest.raises(
        RatersError, match="found labels that say .* by 'ben', expected negative drawings as in"
    ):
        raters.fuse(other, model=model)
    turned = study_of(ann=("negative", NEGATIVE), ben=("negative", NEGATIVE))
    with pytest.raises(RatersError, match="found negative drawings by 'ann', expected labels that"):
        raters.fuse(turned, model=model)
    with pytest.raises(RatersError, match="by 'ben', .* truth cannot use what it is not"):
        raters.fit(both, "truth", **TINY)


# Warnings


def test_classes_that_negatives_leave_open_are_not_unused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_classes(study_of(ben=("negative", NEGATIVE)), "coarse")
        check_classes(
            study_of(
                ann=("positive", np.where(TRUTH == 1, 1, MISSING)),
                ben=("negative", np.where(TRUTH == 0, MISSING, 3 - TRUTH)),
            ),
            "coarse",
        )
    only = study_of(ann=("negative", np.where(TRUTH == 1, 2, MISSING)))  # 'not dark', and no more
    with pytest.warns(UserWarning, match="found no label of the class 'dark'"):
        check_classes(only, "coarse")


# The share


def test_what_fills_patches_up_is_no_part_of_the_share() -> None:
    """Images are a quarter of a patch: the share is that of the images, not of the patches."""
    images, truth = drawn(classes=2)
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
