"""The network that suits the data, if the user names none."""

from __future__ import annotations

from typing import Literal

from raters.errors import RatersError
from raters.networks.options import NetworkOptions

SMALL_IMAGE = 64  # pixels per side up to which the small network sees enough of an image
# Below so many pixels along the shortest side a U-Net has so many levels.
_LEVELS_2D = ((16, 2), (64, 3), (256, 4))
_LEVELS_3D = ((16, 3),)


def choose_network(
    kind: Literal["segmentation", "classification"], channels: int, shape: tuple[int, ...]
) -> NetworkOptions:
    """Choose a network by what the data looks like.

    Feature vectors get a perceptron with a hidden layer, small images that are classified as a
    whole the small CNN of global-cm, larger ones a ResNet of 18 layers. Masks are drawn by a U-Net
    that has more levels the larger the images are.

    Args:
        kind: What is wanted.
        channels: Channels of the image, or the number of features.
        shape: Pixels along each spatial axis (of a patch, if patches are trained on); `()` for
            feature vectors.

    Example:
        >>> choose_network("segmentation", channels=1, shape=(28, 28)).depth
        3
        >>> choose_network("classification", channels=3, shape=(224, 224)).name
        'resnet-large'
    """
    if channels < 1 or any(side < 1 for side in shape):
        raise RatersError(
            f"found images of {channels} channels and {shape} pixels, expected at least 1 of each",
            kind="network",
        )
    if kind == "segmentation":
        return NetworkOptions("unet", width=16, depth=_levels(shape))
    if not shape:
        return NetworkOptions("mlp")
    if max(shape) <= SMALL_IMAGE:
        return NetworkOptions("cnn")
    return NetworkOptions("resnet-large", depth=18)


def _levels(shape: tuple[int, ...]) -> int:
    if not shape:
        raise RatersError("found feature vectors, expected images to segment", kind="network")
    table, most = (_LEVELS_3D, 4) if len(shape) == 3 else (_LEVELS_2D, 5)
    return next((levels for below, levels in table if min(shape) < below), most)
