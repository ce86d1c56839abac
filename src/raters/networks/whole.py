"""Networks that give features of whole images or of vectors: residual, small CNN, perceptron."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from raters.networks.backbone import Backbone, convolution, least_side, monai_norm, normalisation
from raters.networks.options import Norm

# layers in all -> blocks in each of the four stages
BLOCKS: dict[int, tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
}
_POOL: dict[int, type[nn.MaxPool2d | nn.MaxPool3d]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}


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
        kernel, stride = (7, 2) if coarse else (3, 1)
        first = convolve(channels, width, kernel, stride=stride, padding=kernel // 2)
        pool = [_POOL[spatial_dims](3, 2, 1)] if coarse else []
        self.first = nn.Sequential(first, normed(width), nn.ReLU(inplace=True), *pool)
        stages: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(BLOCKS[depth]):
            inner = width * 2**stage
            for place in range(count):
                stride = 2 if stage > 0 and place == 0 else 1
                out, around = inner * kind.expansion, None
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
                layers.append(_POOL[spatial_dims](2))
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
