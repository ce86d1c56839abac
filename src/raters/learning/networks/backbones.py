"""The truth networks: of pixels (U-Net, SegResNet, patches), of whole images and of vectors."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.learning.networks.backbone import (
    Backbone,
    convolution,
    least_side,
    monai_norm,
    normalisation,
)
from raters.learning.networks.options import Norm

_ACTIVATION = ("LeakyReLU", {"negative_slope": 0.1, "inplace": True})


class UNet(Backbone):
    """Two convolutions per level, max-pooling down, transposed convolutions up, skips in between.

    O. Ronneberger, P. Fischer and T. Brox, U-Net: convolutional networks for biomedical image
    segmentation, MICCAI 2015. Channels double from level to level: `width * 2 ** level`.

    The blocks are those of MONAI's `BasicUNet`, which itself always has five levels. MONAI's `UNet`
    is cheaper (on a CPU a seventh with stride 2 in its first layer, a third with stride 1), but has
    no skip at full resolution in the first form and one convolution per level in both.

    Example:
        >>> import torch
        >>> net = UNet(1, 2, width=8, depth=3, norm="instance", dropout=0.0)
        >>> net.divisor, net.features, net(torch.zeros(1, 1, 16, 24)).shape
        (4, 8, torch.Size([1, 8, 16, 24]))
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        from monai.networks.nets.basic_unet import Down, TwoConv, UpCat

        super().__init__()
        # A norm has a shift of its own, which makes the bias before it idle.
        rest = (_ACTIVATION, monai_norm(norm, width), norm == "none", dropout)
        widths = [width * 2**level for level in range(depth)]
        steps = list(pairwise(widths))
        self.first = TwoConv(spatial_dims, channels, widths[0], *rest)
        self.down = nn.ModuleList(Down(spatial_dims, upper, lower, *rest) for upper, lower in steps)
        self.up = nn.ModuleList(
            UpCat(spatial_dims, lower, upper, upper, *rest) for upper, lower in reversed(steps)
        )
        self.features = width
        self.divisor = 2 ** (depth - 1)
        self.least = least_side(norm, self.divisor)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width, *space)`."""
        features: Tensor = self.first(image)
        skipped = []
        for down in self.down:
            skipped.append(features)
            features = down(features)
        for up in self.up:
            features = up(features, skipped.pop())
        return features


class SegResNet(Backbone):
    """An encoder of residual blocks, deep at the bottom, and a light decoder.

    A. Myronenko, 3D MRI brain tumor segmentation using autoencoder regularization, BrainLes 2018.
    The encoder has 1, 2, ..., 2, 4 blocks by level, the decoder one. The paper has group norm and
    four levels, which are the defaults; its autoencoder branch is left out.

    Example:
        >>> import torch
        >>> net = SegResNet(1, 2, width=8, depth=3, norm="group", dropout=0.0)
        >>> net(torch.zeros(1, 1, 16, 24)).shape
        torch.Size([1, 8, 16, 24])
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        from monai.networks.nets.segresnet import SegResNet as Whole

        super().__init__()
        self.net = Whole(
            spatial_dims=spatial_dims,
            init_filters=width,
            in_channels=channels,
            out_channels=1,
            dropout_prob=dropout or None,
            norm=monai_norm(norm, width),
            blocks_down=((1, *[2] * (depth - 2), 4) if depth > 1 else (1,)),
            blocks_up=(1,) * (depth - 1),
        )
        # The last convolution is the head's work; norm and activation before it stay.
        self.net.conv_final = nn.Sequential(*list(self.net.conv_final)[:-1])
        self.features = width
        self.divisor = 2 ** (depth - 1)
        self.least = least_side(norm, self.divisor)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width, *space)`."""
        features: Tensor = self.net(image)
        return features


class PatchCNN(Backbone):
    """Classifies each pixel by the patch around it.

    S. Valverde et al., Improving automated multiple sclerosis lesion segmentation with a cascaded
    3D convolutional neural network approach, NeuroImage 155, 2017: two 3 x 3 x 3 convolutions of
    32 channels, max-pooling, two of 64, max-pooling, 256 fully connected units (with dropout 0.5),
    PReLU throughout. `width` is 32, `depth` the number of poolings, 2.

    A patch network repeats nearly all of its work at the next pixel. Here what follows a pooling
    is dilated instead of strided ('a trous'; A. Giusti et al., Fast image scanning with deep
    max-pooling convolutional neural networks, ICIP 2013), so that the features at a pixel are those
    of the strided network on the patch around it, where the patch lies within the image and the
    norm is 'none'. (Instance and group norm take their averages over the image, not the patch.)

    NicMSlesions pads its 11 x 11 x 11 patches with zeros before each convolution. No dense network
    can do that, as the zeros would be elsewhere for each patch: here convolutions see what is
    really there, which makes the patch `patch_side` = 20 wide: 10 pixels before, 9 after. Beyond
    the image features are zero. Batch norm is replaced as everywhere here, because processes on
    the CPU do not share its averages.

    Attributes:
        patch_side: Pixels along a side of the patch that features at a pixel depend on.
        before: How many of them come before the pixel.

    Example:
        >>> import torch
        >>> net = PatchCNN(1, 2, width=4, depth=2, norm="none", dropout=0.0)
        >>> net.patch_side, net(torch.zeros(1, 1, 9, 13)).shape
        (20, torch.Size([1, 32, 9, 13]))
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        for stage in range(depth):
            out = width * 2**stage
            step = 2**stage
            layers = []
            for _ in range(2):
                layers += [
                    convolution(spatial_dims, channels, out, 3, padding=step, dilation=step),
                    normalisation(norm, out, spatial_dims),
                    nn.PReLU(out),
                ]
                channels = out
            self.stages.append(nn.Sequential(*layers))
        step = 2**depth
        self.features = 8 * width
        self.connected = convolution(spatial_dims, channels, self.features, 2, dilation=step)
        self.activation = nn.PReLU(self.features)
        self.dropouts = nn.ModuleList([nn.Dropout(dropout) for _ in range(2)])
        self.least = 2 if norm == "instance" else 1
        self.patch_side = 6 * step - 4  # two convolutions, a pooling per stage; and the last layer
        self.before = 3 * step - 2

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, 8 * width, *space)`."""
        features = image
        spatial_dims = image.ndim - 2
        for stage, layers in enumerate(self.stages):
            features = _pool(layers(features), 2**stage)
        # The poolings looked ahead, so the last layer looks back: the pixel is in the middle.
        step = 2 ** len(self.stages)
        before, after = self.dropouts
        features = self.connected(pad(before(features), (step, 0) * spatial_dims))
        activated: Tensor = after(self.activation(features))
        return activated


def _pool(features: Tensor, step: int) -> Tensor:
    """Return at each pixel the largest of it and those `step` further on, by each axis."""
    for axis in range(2, features.ndim):
        length = features.shape[axis]
        ahead = pad(features, (0, 0) * (features.ndim - 1 - axis) + (0, step))
        features = torch.maximum(features, ahead.narrow(axis, step, length))
    return features


# layers in all -> blocks in each of the four stages
BLOCKS: dict[int, tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
}


class ResNet(Backbone):
    """A residual network of 18, 34 or 50 layers.

    K. He, X. Zhang, S. Ren and J. Sun, Deep residual learning for image recognition, CVPR 2016.
    global-cm takes the one of 50 layers for the 32 x 32 images of CIFAR-10.

    Small images keep their size in the first layer (3 x 3, stride 1); with `coarse` it is the
    paper's for large images: 7 x 7 with stride 2, then 3 x 3 max-pooling with stride 2.

    The blocks are MONAI's, the assembly is not: MONAI's own passes its `norm` to the first layer
    only, the blocks keep batch norm. Group norm in its place, the default, is Y. Wu and K. He,
    Group normalization, ECCV 2018. With norm 'none' what each block adds starts smaller, else the
    features would double their variance at every block.

    Example:
        >>> import torch
        >>> net = ResNet(3, 2, width=8, depth=18, norm="group", dropout=0.0)
        >>> net(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 64])
    """

    dense = False

    def __init__(
        self,
        channels: int,
        spatial_dims: int,
        *,
        width: int,
        depth: int,
        norm: Norm,
        dropout: float,
        coarse: bool = False,
    ) -> None:
        super().__init__()
        from monai.networks.nets.resnet import ResNetBlock, ResNetBottleneck

        kind = ResNetBottleneck if depth >= 50 else ResNetBlock
        block = partial(kind, spatial_dims=spatial_dims, norm=monai_norm(norm, width))
        convolve = partial(convolution, spatial_dims, bias=False)
        normed = partial(normalisation, norm, spatial_dims=spatial_dims)
        if coarse:
            kernel = 7
            stride = 2
        else:
            kernel = 3
            stride = 1
        first = convolve(channels, width, kernel, stride=stride, padding=kernel // 2)
        pool = [getattr(nn, f"MaxPool{spatial_dims}d")(3, 2, 1)] if coarse else []
        self.first = nn.Sequential(first, normed(width), nn.ReLU(inplace=True), *pool)
        stages: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(BLOCKS[depth]):
            inner = width * 2**stage
            for place in range(count):
                stride = 2 if stage > 0 and place == 0 else 1
                out = inner * kind.expansion
                around = None
                if stride > 1 or channels != out:  # the way around a block that changes the shape
                    way = convolve(channels, out, 1, stride=stride)
                    around = nn.Sequential(way, normed(out))
                stages.append(block(channels, inner, stride=stride, downsample=around))
                channels = out
        self.blocks = nn.Sequential(*stages)
        self.dropout = nn.Dropout(dropout)
        self.features = channels
        self.least = least_side(norm, 32 if coarse else 8)
        _start(self, small=norm == "none")

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, 8 * width)`, four times as many with 50 layers."""
        features: Tensor = self.blocks(self.first(image))
        pooled: Tensor = self.dropout(features.flatten(2).mean(2))
        return pooled


def _start(net: ResNet, *, small: bool) -> None:
    """Draw the weights as He et al. do."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if small:
        for block in net.blocks:
            last = list(block.children())
            weight = [m for m in last if isinstance(m, nn.Conv2d | nn.Conv3d)][-1].weight
            weight.data /= len(net.blocks)


class CNN(Backbone):
    """Four 3 x 3 convolutions with ReLU, of `width` (32) times 1, 1, 2, 2 channels.

    R. Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019, appendix A: "After the first two convolution layers, we perform 2 x 2 max-pooling,
    and after the last one [...] Global Average Pooling prior to the final fully connected layer".
    That can mean one pooling behind the second layer, or one behind each of the first two. It is
    read as one here, `depth` 2 (levels of resolution); `depth` 3 is the other reading, with the
    same weights, four times as fast and a wider view. The text says nothing of padding (here
    images keep their size) and has no norm, so there is none unless asked for. For the paper's
    ultrasound data all layers have 128 channels; the nearest here is `width` 64.

    Example:
        >>> import torch
        >>> net = CNN(1, 2, width=32, depth=2, norm="none", dropout=0.0)
        >>> net(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 64])
    """

    dense = False

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        pooled = {1} if depth == 2 else {0, 1}
        layers: list[nn.Module] = []
        for layer, out in enumerate((width, width, 2 * width, 2 * width)):
            plain = norm == "none"
            layers.append(convolution(spatial_dims, channels, out, 3, padding=1, bias=plain))
            layers.append(normalisation(norm, out, spatial_dims))
            layers.append(nn.ReLU(inplace=True))
            if layer in pooled:
                layers.append(getattr(nn, f"MaxPool{spatial_dims}d")(2))
            channels = out
        self.layers = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.features = channels
        self.least = least_side(norm, 2 ** len(pooled))

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, 2 * width)`."""
        features: Tensor = self.dropout(self.layers(image).flatten(2).mean(2))
        return features


class MLP(Backbone):
    """`depth` hidden layers of `width` units with ReLU and dropout.

    With `depth` 0 the features are the input, and the head on them is logistic regression.

    Example:
        >>> import torch
        >>> net = MLP(124, 0, width=128, depth=1, norm="none", dropout=0.5)
        >>> net(torch.zeros(3, 124)).shape
        torch.Size([3, 128])
    """

    dense = False

    def __init__(
        self, channels: int, *_: int, width: int, depth: int, dropout: float, **__: Norm
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        self.features = channels
        for _layer in range(depth):
            layers += [nn.Linear(self.features, width), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            self.features = width
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width)` of vectors `(B, channels)`."""
        features: Tensor = self.layers(image)
        return features
