"""Truth networks: sizes, gradients, seeds, errors, and the patch network against its plain form."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from raters.core.errors import RatersError
from raters.learning.networks import (
    NETWORKS,
    NetworkOptions,
    TruthNetwork,
    build_backbone,
    choose_network,
    parameter_count,
)
from raters.learning.networks.backbones import PatchCNN
from raters.learning.rater_models.start import pointwise
from tests.support.pairs import all_pairs

CASES = []
for name, kind in NETWORKS.items():
    CASES += list(itertools.product([name], kind.spatial_dims, ("instance", "group", "none")))

SIZES = {0: (), 2: (20, 13), 3: (9, 5, 7)}


def small(name: str, **changes: object) -> NetworkOptions:
    """Return options of a network that is small enough to test."""
    depth = {"resnet": 18, "resnet-large": 18, "unet": 3, "segresnet": 3}.get(name)
    return NetworkOptions(**{"name": name, "width": 4, "depth": depth, **changes})


def truth_network(
    options: NetworkOptions, spatial_dims: int, seed: int = 0, classes: int = 3
) -> nn.Module:
    torch.manual_seed(seed)
    backbone = build_backbone(options, channels=2, spatial_dims=spatial_dims)
    return TruthNetwork(backbone, classes, spatial_dims if backbone.dense else 0)


def draw_images(spatial_dims: int, size: tuple[int, ...] | None = None, cases: int = 2) -> Tensor:
    space = SIZES[spatial_dims] if size is None else size
    return torch.randn(cases, 2, *space, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(("name", "spatial_dims", "norm"), CASES)
def test_shapes_and_gradients(name: str, spatial_dims: int, norm: str) -> None:
    network = truth_network(small(name, norm=norm), spatial_dims)
    image = draw_images(spatial_dims)
    features, logits = network(image)
    space = image.shape[2:] if NETWORKS[name].dense else ()
    assert network.backbone.dense == NETWORKS[name].dense
    assert features.shape == (2, network.backbone.features, *space)
    assert logits.shape == (2, 3, *space)
    assert torch.isfinite(logits).all()
    (logits * torch.randn(logits.shape)).sum().backward()
    for key, weights in network.named_parameters():
        assert weights.grad is not None and weights.grad.any(), key


@pytest.mark.parametrize(
    ("name", "size", "norm"),
    all_pairs(
        [name for name in NETWORKS if name != "mlp"],
        [(1, 1), (8, 8), (28, 28), (33, 47), (1, 50), (5, 7, 9)],
        ["instance", "group", "none"],
    ),
    ids=str,
)
def test_any_size_of_image_even_a_single_one(name: str, size: tuple[int, ...], norm: str) -> None:
    depth = {"unet": 4, "segresnet": 4, "cnn": 3}.get(name, small(name).depth)
    network = truth_network(small(name, depth=depth, norm=norm, width=2), len(size))
    features, logits = network(draw_images(len(size), size, cases=1))
    assert features.shape[2:] == logits.shape[2:] == (size if network.backbone.dense else ())
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", ["unet", "segresnet"])
def test_images_of_fitting_size_are_not_changed(name: str) -> None:
    network = truth_network(small(name), 2)
    image = draw_images(2, (16, 8))
    assert torch.equal(network(image)[0], network.backbone(image))


def test_padding_repeats_the_edge_on_both_sides_and_is_cropped() -> None:
    network = truth_network(small("unet", norm="none"), 2)
    image = draw_images(2, (13, 10))
    padded = functional.pad(image, (1, 1, 1, 2), mode="replicate")
    expected = network.backbone(padded)[:, :, 1:14, 1:11]
    assert torch.equal(network(image)[0], expected)


def test_unet_sees_single_pixels_at_full_resolution() -> None:
    network = truth_network(small("unet", norm="none"), 2)
    image = draw_images(2, (16, 16))
    changed = image.clone()
    changed[:, :, 8, 8] += 1
    difference = (network(changed)[0] - network(image)[0]).abs().sum((0, 1))
    assert difference[8, 8] > 2 * difference.mean()
    with torch.no_grad():  # without what comes from below, the skip still tells pixels apart
        for weights in network.backbone.down.parameters():
            weights.zero_()
    assert network(image)[0].std((2, 3)).max() > 0


@pytest.mark.parametrize(
    ("name", "spatial_dims"), [(n, d) for n, d, norm in CASES if norm == "none"]
)
def test_the_seed_decides(name: str, spatial_dims: int) -> None:
    image = draw_images(spatial_dims)
    first, again, other = (
        truth_network(small(name), spatial_dims, s).eval()(image)[1] for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_weights_can_be_saved_and_loaded(name: str) -> None:
    spatial_dims = NETWORKS[name].spatial_dims[0]
    one, two = (truth_network(small(name), spatial_dims, seed).eval() for seed in (1, 2))
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    two.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(one(draw_images(spatial_dims))[1], two(draw_images(spatial_dims))[1])


@pytest.mark.parametrize("name", list(NETWORKS))
def test_wider_is_larger(name: str) -> None:
    spatial_dims = NETWORKS[name].spatial_dims[0]
    counts = [
        parameter_count(truth_network(small(name, width=w), spatial_dims)) for w in (4, 8, 16)
    ]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("name", ["unet", "segresnet", "patch-cnn", "mlp"])
def test_deeper_is_larger(name: str) -> None:
    spatial_dims = NETWORKS[name].spatial_dims[0]
    counts = [parameter_count(truth_network(small(name, depth=d), spatial_dims)) for d in (1, 2, 3)]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_dropout_only_in_training(name: str) -> None:
    spatial_dims = NETWORKS[name].spatial_dims[0]
    network = truth_network(small(name, dropout=0.5, width=8), spatial_dims)
    image = draw_images(spatial_dims)
    assert not torch.equal(network(image)[1], network(image)[1])
    network.eval()
    assert torch.equal(network(image)[1], network(image)[1])


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "mlp"])
@pytest.mark.parametrize("norm", ["instance", "group"])
def test_no_layer_looks_at_other_images_of_the_batch(name: str, norm: str) -> None:
    network = truth_network(small(name, norm=norm), 2)  # in training mode, where batch norm would
    image = draw_images(2, cases=3)
    torch.testing.assert_close(network(image)[1][:1], network(image[:1])[1], rtol=1e-3, atol=1e-4)
    kinds = {type(module).__name__ for module in network.modules()}
    assert not any("BatchNorm" in kind for kind in kinds)
    assert any(norm in kind.lower() for kind in kinds)


# --- the patch network ---------------------------------------------------------------------------


def run_on_patch(network: PatchCNN, patch: Tensor) -> Tensor:
    """Run the plain network with strides on one patch, with the weights of the dense one."""
    spatial_dims = patch.ndim - 2
    convolve = {2: functional.conv2d, 3: functional.conv3d}[spatial_dims]
    pool = {2: functional.max_pool2d, 3: functional.max_pool3d}[spatial_dims]
    features = patch
    for stage in network.stages:
        for layer in stage:
            if isinstance(layer, nn.Conv2d | nn.Conv3d):
                features = convolve(features, layer.weight, layer.bias)
            else:
                features = layer(features)
        features = pool(features, 2)
    weight = network.connected.weight.flatten(1)
    assert features.shape[2:] == (2,) * spatial_dims
    return network.activation(
        functional.linear(features.flatten(1), weight, network.connected.bias)
    )


@pytest.mark.parametrize(("spatial_dims", "depth"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
def test_patch_network_equals_its_plain_form_on_each_patch(spatial_dims: int, depth: int) -> None:
    network = truth_network(small("patch-cnn", norm="none", depth=depth), spatial_dims).backbone
    side = network.patch_side
    before = network.before
    image = draw_images(spatial_dims, tuple(side + more for more in (3, 2, 1)[:spatial_dims]))
    dense = network(image)
    count = 0
    for start in itertools.product(*(range(length - side + 1) for length in image.shape[2:])):
        patch = image[(slice(None), slice(None), *(slice(at, at + side) for at in start))]
        found = dense[(slice(None), slice(None), *(at + before for at in start))]
        torch.testing.assert_close(found, run_on_patch(network, patch), rtol=1e-4, atol=1e-5)
        count += 1
    assert count == (12 if spatial_dims == 2 else 24)
    assert before == side // 2


def test_patch_of_the_published_depth() -> None:
    network = build_backbone(NetworkOptions("patch-cnn"), 1, 3)
    assert isinstance(network, PatchCNN)
    assert (network.patch_side, network.features) == (20, 256)


# --- what the papers say -------------------------------------------------------------------------


def test_cnn_has_the_layers_of_the_paper() -> None:
    network = build_backbone(NetworkOptions("cnn"), 1, 2)
    channels = [m.out_channels for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert channels == [32, 32, 64, 64]
    kinds = [type(module).__name__ for module in network.layers]
    kinds = [kind for kind in kinds if kind != "Identity"]
    assert kinds == [*["Conv2d", "ReLU"] * 2, "MaxPool2d", *["Conv2d", "ReLU"] * 2]
    other = build_backbone(NetworkOptions("cnn", depth=3), 1, 2)
    other.load_state_dict(network.state_dict(), strict=False)
    assert parameter_count(other) == parameter_count(network)


@pytest.mark.parametrize("depth", [18, 34, 50])
def test_resnet_has_as_many_layers_as_it_says(depth: int) -> None:
    network = build_backbone(NetworkOptions("resnet", width=2, depth=depth), 3, 2)
    convolutions = [
        key
        for key, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and "downsample" not in key
    ]
    assert len(convolutions) + 1 == depth  # and the head


def test_resnet_50_has_the_published_number_of_weights() -> None:
    network = build_backbone(NetworkOptions("resnet-large"), 3, 2)
    assert parameter_count(network) + 2048 * 1000 + 1000 == 25_557_032  # torchvision's resnet50


def test_resnet_without_norm_does_not_explode() -> None:
    network = truth_network(small("resnet", depth=50, norm="none", width=8), 2)
    assert network(draw_images(2, (16, 16)))[0].std() < 10


def test_mlp_without_layers_is_logistic_regression() -> None:
    network = truth_network(NetworkOptions("mlp", depth=0), 0)
    image = draw_images(0)
    features, logits = network(image)
    assert torch.equal(features, image)
    torch.testing.assert_close(logits, image @ network.head.weight.T + network.head.bias)
    assert parameter_count(network) == 2 * 3 + 3


@pytest.mark.parametrize("spatial_dims", [0, 1, 2, 3])
def test_pointwise_is_linear_at_each_pixel(spatial_dims: int) -> None:
    head = pointwise(4, 3, spatial_dims)
    features = torch.randn(2, 4, *(5, 2, 3)[:spatial_dims])
    expected = torch.einsum("oi,bi...->bo...", head.weight.reshape(3, 4), features)
    torch.testing.assert_close(
        head(features),
        expected + head.bias.reshape(1, 3, *(1,) * spatial_dims),
        rtol=1e-4,
        atol=1e-5,
    )


# --- choice and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("classification", (), ("mlp", None)),
        ("classification", (28, 28), ("cnn", None)),
        ("classification", (64, 64), ("cnn", None)),
        ("classification", (96, 64), ("resnet-large", 18)),
        ("segmentation", (8, 8), ("unet", 2)),
        ("segmentation", (28, 28), ("unet", 3)),
        ("segmentation", (64, 64), ("unet", 4)),
        ("segmentation", (192, 192), ("unet", 4)),
        ("segmentation", (584, 565), ("unet", 5)),
        ("segmentation", (64, 64, 64), ("unet", 4)),
        ("segmentation", (128, 128, 10), ("unet", 3)),
    ],
)
def test_choice_by_the_data(kind: str, shape: tuple[int, ...], expected: tuple[str, int]) -> None:
    options = choose_network(kind, 1, shape)
    assert (options.name, options.depth) == expected
    backbone = build_backbone(options, 1, len(shape))
    TruthNetwork(backbone, 2, len(shape) if kind == "segmentation" else 0)


@pytest.mark.parametrize(
    ("options", "spatial_dims", "says"),
    [
        ({"name": "vgg"}, 2, "'vgg', expected one of unet, segresnet"),
        ({"name": "cnn"}, 0, "feature vectors for the network 'cnn'.*mlp can take"),
        ({"name": "mlp"}, 2, "2D images for the network 'mlp', expected feature vectors"),
        ({"name": "unet"}, 4, "4D images.*expected 2D images or 3D images; no network"),
        ({"name": "unet", "width": 0}, 2, "width=0, expected 1 or more.*'unet'"),
        ({"name": "unet", "depth": 0}, 2, "depth 0.*at least 1"),
        ({"name": "mlp", "depth": -1}, 0, "depth=-1, expected 0 or more"),
        ({"name": "resnet", "depth": 20}, 2, "depth 20.*18 or 34 or 50"),
        ({"name": "cnn", "depth": 4}, 2, "depth 4.*2 or 3"),
        ({"name": "unet", "norm": "batch"}, 2, "norm=batch, expected"),
        ({"name": "unet", "dropout": 1.0}, 2, "dropout=1.0, expected less than 1"),
        ({"name": "unet", "kernel": 3}, 2, "unknown key 'kernel'"),
    ],
)
def test_what_cannot_be_built_says_why(
    options: dict[str, Any], spatial_dims: int, says: str
) -> None:
    with pytest.raises(RatersError, match=says):
        build_backbone(NetworkOptions(**options), 1, spatial_dims)


def test_no_channels_no_pixels_no_space() -> None:
    with pytest.raises(RatersError, match="0 channels"):
        build_backbone(NetworkOptions("unet"), 0, 2)
    with pytest.raises(RatersError, match="0 channels"):
        choose_network("segmentation", 0, (8, 8))
    with pytest.raises(RatersError, match="expected images to segment"):
        choose_network("segmentation", 3, ())


def test_a_network_for_the_other_kind_of_question() -> None:
    with pytest.raises(RatersError, match=r"whole image \(CNN\), expected one for segmentation"):
        TruthNetwork(build_backbone(NetworkOptions("cnn"), 1, 2), 2, spatial_dims=2)
    with pytest.raises(RatersError, match=r"each pixel \(UNet\), expected one for classification"):
        TruthNetwork(build_backbone(NetworkOptions("unet"), 1, 2), 2, spatial_dims=0)


@pytest.mark.slow
def test_monai_is_imported_only_where_it_is_used() -> None:
    code = (
        "import sys\n"
        "from raters.learning.networks import NetworkOptions, build_backbone\n"
        "build_backbone(NetworkOptions('cnn'), 1, 2)\n"
        "assert 'monai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
