"""Each rater's own matrix is the mean over the whole image, whatever its shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from raters.learning.rater_models import PixelConfusion, PixelRaters, near_identity_logits
from raters.learning.rater_models.confusion import OwnMatrices, drawn_places
from raters.learning.rater_models.start import RIGHT

LARGE = [(32, 32, 32), (64, 64, 64), (64, 64, 32), (16, 64, 64), (512, 512), (1024, 1024)]


def scene(*space: int) -> tuple[Tensor, Tensor]:
    """Draw a lesion in the middle and two raters, the second of whom adds a ring around it.

    Returns logits of their matrices `(1, 2, 2, 2, *space)` and the truth `(1, 2, *space)`.
    """
    far = np.sqrt(
        sum(np.square((p - n / 2) / n) for p, n in zip(np.indices(space), space, strict=True))
    )
    inside = far < 0.2
    ring = (far >= 0.2) & (far < 0.27)
    truth = np.where(inside, 0.98, 0.001)
    adds = np.stack([np.full(space, 0.001), np.where(ring, 0.95, 0.001)])
    misses = np.full(adds.shape, 0.02)
    matrices = np.stack([1 - adds, adds, misses, 1 - misses], 1).reshape(1, 2, 2, 2, *space)
    both = np.stack([1 - truth, truth])[None]
    return torch.from_numpy(matrices).float().log(), torch.from_numpy(both).float()


def by_formula(logits: Tensor, truth: Tensor) -> np.ndarray:
    """Return `G[t, o]` over all pixels, in numpy."""
    matrices = np.exp(logits.double().numpy()[0]).reshape(2, 2, 2, -1)
    p = truth.double().numpy()[0].reshape(2, -1)
    said = np.einsum("ts,rtos->ros", p, matrices).mean(0)
    weights = (1 - np.square(said).sum(0)) * p
    sums = np.einsum("ts,rtos->rto", weights, matrices)
    return sums / sums.sum(2, keepdims=True)


def followed_matrices(logits: Tensor, truth: Tensor, case: int = 0) -> np.ndarray:
    """Return what a rater model follows from one image, without the start that is mixed in."""
    space = truth.shape[2:]
    model = PixelRaters(2, 2, 1, len(space), compares="own")
    labels = torch.zeros(1, 2, *space, dtype=torch.int16)
    model.learn(PixelConfusion(logits), truth, labels, torch.tensor([case]))
    assert model.own is not None
    near = near_identity_logits(2, RIGHT).softmax(1)
    return ((model.own.log_matrix().exp() - 0.1 * near) / 0.9).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("space", LARGE)
def test_the_middle_of_an_image_is_seen(space: tuple[int, ...]) -> None:
    logits, truth = scene(*space)
    exact = by_formula(logits, truth)
    assert exact[1, 0, 1] > 0.45  # much of what is disputed is the ring
    found = [followed_matrices(logits, truth, case) for case in range(4)]
    # Thousands of drawn pixels, of which a few percent are disputed.
    assert np.abs(np.mean(found, 0) - exact).max() < 0.03


def test_small_images_are_looked_at_whole() -> None:
    logits, truth = scene(32, 32)
    np.testing.assert_allclose(
        followed_matrices(logits, truth), by_formula(logits, truth), atol=1e-5
    )


def test_drawn_pixels_are_all_alike() -> None:
    """No pixel is more likely than another: each plane, row and column gets its share."""
    space = (32, 32, 32)
    places = drawn_places(32**3, range(40), (0, 0))
    assert places is not None
    counts = np.bincount(places.numpy().ravel(), minlength=32**3).reshape(space)
    mean = places.numel() / 32
    for axes in ((1, 2), (0, 2), (0, 1)):
        away = (counts.sum(axes) - mean) / np.sqrt(mean)
        assert np.abs(away).max() < 5


def test_what_is_drawn_depends_on_seed_epoch_and_case_alone() -> None:
    both = drawn_places(2000, [3, 8], (1, 2))
    alone = drawn_places(2000, [8], (1, 2))
    assert both is not None and alone is not None
    assert torch.equal(both[1:], alone)  # whoever else is in the batch
    for case, seed in ((9, (1, 2)), (8, (2, 2)), (8, (1, 3))):
        other = drawn_places(2000, [case], seed)
        assert other is not None
        assert not torch.equal(other, alone)


def test_unlabelled_pixels_are_not_looked_at_where_pixels_are_drawn() -> None:
    logits, truth = scene(40, 40)
    labels = torch.zeros(1, 2, 40, 40, dtype=torch.int16)
    labels[..., :20] = -1
    own = OwnMatrices(near_identity_logits(2, RIGHT).softmax(1).repeat(2, 1, 1))
    places = drawn_places(1600, [0], (0, 0))
    assert places is not None
    own.follow(logits, truth, labels, places)
    kept = places[0][places[0] % 40 >= 20]
    again = OwnMatrices(own.near)
    again.follow(logits, truth, torch.zeros_like(labels), kept[None])
    # Each draw stands for the whole image, however many pixels were drawn.
    share = len(kept) / places.shape[1]
    torch.testing.assert_close(own.sums, share * again.sums)


def test_images_of_unequal_size_weigh_by_their_pixels() -> None:
    """A homogeneous image of 16 times as many pixels adds 16 times as much."""
    sums = []
    for size in (32, 128):
        logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]]).view(1, 1, 2, 2, 1, 1)
        truth = torch.tensor([0.7, 0.3]).view(1, 2, 1, 1).expand(1, 2, size, size)
        own = OwnMatrices(near_identity_logits(2, RIGHT).softmax(1)[None])
        labels = torch.zeros(1, 1, size, size, dtype=torch.int16)
        places = drawn_places(size * size, [0], (0, 0))
        own.follow(logits.expand(1, 1, 2, 2, size, size), truth, labels, places)
        sums.append(own.sums)
    torch.testing.assert_close(sums[1], 16 * sums[0])


def test_an_image_of_1024_pixels_is_looked_at_whole_and_no_larger_one() -> None:
    assert drawn_places(1024, [0], (0, 0)) is None
    places = drawn_places(1025, [0], (0, 0))
    assert places is not None and places.shape == (1, 1024)


def test_how_much_was_seen_is_no_matter() -> None:
    """Of few pixels or of many, the mean is the same."""
    near = near_identity_logits(3, RIGHT).softmax(1).repeat(2, 1, 1)
    sums = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for scale in (1e-6, 1e3):
        own = OwnMatrices(near)
        own.sums.copy_(scale * sums)
        found.append(own.log_matrix())
    torch.testing.assert_close(*found)
    torch.testing.assert_close(found[0].exp(), 0.9 * sums / sums.sum(2, keepdim=True) + 0.1 * near)
