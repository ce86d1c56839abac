"""A network of the user's own: trained, saved, opened only where it is allowed, and exported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from monai.networks.nets import UNet
from torch import Tensor, nn

import raters
from raters.core.errors import RatersError
from raters.learning.networks import options as network_options
from raters.learning.networks.options import is_own, own_name
from raters.learning.networks.registry import OwnBackbone, maker
from raters.learning.training.options import checked_options
from raters.learning.training.prepare import make_method, plan_training
from raters.study.study import Study
from tests.support.command_line import Outcome, Run, draw_masks, images_option, pattern

SHORT: dict[str, Any] = {"epochs": 2, "batch_size": 3, "progress": False}
SOURCE = """
from torch import nn
def make(in_channels):
    return nn.Sequential(nn.Conv2d(in_channels, 5, 3, padding=1), nn.ReLU())
def features_of_images(in_channels):
    return nn.Sequential(nn.Conv2d(in_channels, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
number = 3
def text():
    return "net"
def broken():
    raise OSError("no weights here")
"""


@pytest.fixture(autouse=True)
def no_allowed_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_options, "_allowed", {})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder has a module `my_nets`."""
    (tmp_path / "my_nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_nets", None)


def draw_mask_study(cases: int = 6, side: int = 18) -> Study:
    rng = np.random.default_rng(0)
    truth = rng.random((cases, 1, side, side)) < 0.4
    found = np.where(rng.random((cases, 2, side, side)) < 0.9, truth, ~truth)
    return Study.from_arrays(truth + rng.normal(0, 0.2, truth.shape), found.astype(int))


def plain() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())


def monai(spatial_dims: int, in_channels: int) -> nn.Module:
    return UNet(spatial_dims, in_channels, 6, channels=(4, 8, 8), strides=(2, 2), norm="instance")


class TestTrial:
    """What a module must give, found by trying it."""

    def test_the_smallest_divisor_that_works_is_found(self) -> None:
        found = OwnBackbone(monai(2, 1), "monai", 1, 2, dense=True)
        assert (found.divisor, found.least, found.features) == (4, 8, 6)
        assert OwnBackbone(plain(), "plain", 1, 2, dense=True).divisor == 1
        given = plain()
        given.divisor = 8  # type: ignore[assignment]
        given.least = 24  # type: ignore[assignment]
        found = OwnBackbone(given, "plain", 1, 2, dense=True)
        assert (found.divisor, found.least) == (8, 24)

    def test_trying_changes_nothing(self) -> None:
        net = plain()
        before = {k: v.clone() for k, v in net.state_dict().items()}
        state = torch.get_rng_state()
        OwnBackbone(net, "plain", 1, 2, dense=True)
        assert net.training
        assert torch.equal(torch.get_rng_state(), state)
        for name, value in net.state_dict().items():
            assert torch.equal(value, before[name])

    @pytest.mark.parametrize(
        ("net", "dense", "says"),
        [
            (nn.Conv2d(1, 4, 3), True, r"found \(2, 4, 31, 31\) as the output.*\(2, features, 33"),
            (nn.Conv3d(1, 4, 3), True, r"RuntimeError.*image of shape \(2, 1, 33, 33\)"),
            (nn.Conv2d(3, 4, 3, padding=1), True, r"expected features of shape \(2, features, 33"),
            (nn.Conv2d(1, 4, 3, padding=1), False, r"expected \(2, features\)"),
            (nn.Flatten(), True, r"found \(2, 1089\)"),
            (nn.MultiheadAttention(33, 1), True, "TypeError"),
        ],
    )
    def test_what_cannot_be_used_says_why(self, net: nn.Module, dense: bool, says: str) -> None:
        with pytest.raises(RatersError, match=says):
            OwnBackbone(net, "net", 1, 2, dense)

    def test_a_list_of_outputs_is_refused(self) -> None:
        class Several(nn.Module):
            def forward(self, image: Tensor) -> list[Tensor]:
                return [image, image]

        with pytest.raises(RatersError, match="found list as the output of the network 'several'"):
            OwnBackbone(Several(), "several", 1, 2, dense=True)


class TestNames:
    """Modules, factories and names."""

    def test_names(self) -> None:
        assert own_name(plain) == own_name(f"{__name__}:plain") == f"{__name__}:plain"
        assert own_name(nn.Conv2d(1, 1, 1)) == "torch.nn.modules.conv:Conv2d"
        assert own_name(nn.Identity) == "torch.nn.modules.linear:Identity"
        assert not is_own("unet")

    def test_a_module_is_copied_and_a_factory_called_each_time(self) -> None:
        net = plain()
        first = maker(net, 1, 2)()
        second = maker(net, 1, 2)()
        assert first is not second is not net
        assert torch.equal(first[0].weight, net[0].weight)  # type: ignore[index]
        made = [maker(monai, 1, 3)() for _ in range(2)]
        assert made[0] is not made[1]
        assert made[0](torch.zeros(1, 1, 8, 8, 8)).shape == (1, 6, 8, 8, 8)

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("nowhere.at_all:make", "ModuleNotFoundError on importing the network 'nowhere.at_all"),
            ("my_nets:missing", "AttributeError on importing.*expected package.module:factory"),
            ("my_nets:number", "found int as the network 'my_nets:number', expected a torch"),
            ("my_nets:text", "found str made by 'my_nets:text', expected a torch module"),
            ("my_nets:broken", r"OSError when the network .* was made \(no weights here\)"),
        ],
    )
    @pytest.mark.usefixtures("package")
    def test_what_cannot_be_imported_or_made(self, name: str, says: str) -> None:
        with pytest.raises(RatersError, match=says):
            raters.fit(draw_mask_study(4), "vote", network=name, **SHORT)


@pytest.mark.parametrize(
    ("method", "network"),
    [("pixel-cm", monai), ("separate", plain()), ("vote", plain)],
)
def test_trained_saved_and_opened(method: str, network: Any, tmp_path: Path) -> None:
    study = draw_mask_study()
    model = raters.fit(study, method, network=network, folder=tmp_path / "run", **SHORT)
    again = raters.fit(study, method, network=network, **SHORT)
    assert np.array_equal(model.truth(study[0]), again.truth(study[0]))  # one seed, one result
    assert model.config.network.name == own_name(network)
    with pytest.raises(RatersError, match=r"leave to import and run it: --network .*network="):
        raters.load(tmp_path / "run")
    opened = raters.load(tmp_path / "run", network=network)
    assert np.array_equal(opened.truth(study[0]), model.truth(study[0]))
    with pytest.raises(RatersError, match=r"found the network 'torch.*Identity', expected"):
        raters.load(tmp_path / "run", network=nn.Identity)
    with pytest.raises(RatersError, match=r"found the network 'torch.*expected 'unet' as in the"):
        opened.config.model_copy(
            update={"network": network_options.NetworkOptions("unet")}
        ).with_network(nn.Identity)


def test_the_copies_learn_apart_and_the_given_module_stays() -> None:
    net = plain()
    before = net[0].weight.clone()  # type: ignore[index, operator]
    model = raters.fit(draw_mask_study(), "separate", network=net, **SHORT)
    assert torch.equal(net[0].weight, before)  # type: ignore[index]
    first, second = (n.backbone.net[0].weight for n in model.method.networks)  # type: ignore
    assert not torch.equal(first, before)
    assert not torch.equal(first, second)


def test_what_is_learnt_is_what_a_network_of_raters_would_learn() -> None:
    """The U-Net of the package, given as one's own, ends with the same weights to the bit."""
    from raters.learning.networks.backbones import UNet as Inside

    def same(in_channels: int, spatial_dims: int) -> nn.Module:
        return Inside(in_channels, spatial_dims, 2, 2, "instance", 0.0)

    study = draw_mask_study()
    own = raters.fit(study, "pixel-cm", network=same, **SHORT).method.state_dict()
    named = raters.fit(study, "pixel-cm", network="unet", width=2, depth=2, **SHORT)
    for name, value in named.method.state_dict().items():
        assert torch.equal(value, own[name.replace("backbone.", "backbone.net.")]), name


def test_sizes_are_those_of_the_networks_of_raters() -> None:
    with pytest.raises(RatersError, match=r"found width=4 with the network .*expected none"):
        raters.fit(draw_mask_study(4), "vote", network=plain, width=4, **SHORT)


@pytest.mark.usefixtures("package")
def test_images_that_are_classified() -> None:
    rng = np.random.default_rng(0)
    study = Study.from_arrays(rng.normal(size=(8, 1, 12, 12)), rng.integers(0, 2, (8, 3)))
    made = raters.fit(study, "global-cm", network="my_nets:features_of_images", **SHORT)
    assert made.truth(study[0]).shape == (2,)
    with pytest.raises(RatersError, match=r"found \(2, 5, 33, 33\).*expected \(2, features\)"):
        raters.fit(study, "global-cm", network="my_nets:make", **SHORT)


@pytest.mark.usefixtures("package")
def test_a_run_resumes_to_the_same_weights() -> None:
    study = draw_mask_study()
    given: dict[str, Any] = {**SHORT, "network": "my_nets:make"}
    raters.fit(study, "pixel-cm", folder="whole", **given)

    def stop(line: str) -> None:
        raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt):
        raters.fit(study, "pixel-cm", folder="run", **{**given, "progress": stop})
    with pytest.raises(RatersError, match="--network my_nets:make"):
        raters.fit(study, folder="run", resume=True)
    raters.fit(study, folder="run", resume=True, progress=False, network="my_nets:make")
    weights = [Path(folder, "weights.safetensors").read_bytes() for folder in ("whole", "run")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_all_verbs(package: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_masks(package / "data", cases=6)
    study = [pattern(package / "data"), *images_option(package / "data")]
    words = [*study, "-m", "global-cm", "--epochs", "1", "--batch-size", "4"]
    own = ["--network", "my_nets:make"]

    def run_anew(*arguments: object) -> Outcome:
        """Run a command to which no network is allowed or known yet."""
        monkeypatch.setattr(network_options, "_allowed", {})
        sys.modules.pop("my_nets", None)
        return run_raters(*arguments)

    assert run_anew("train", *words, *own, "-o", "run").code == 0
    verbs: list[list[object]] = [
        ["predict", "run", study[2], "-o", "predictions"],
        ["evaluate", "run", *study, "--split", "held-out"],
        ["report", "run", "-o", "report"],
        ["export", "run", "-o", "net.pt2", "--to", "torch"],
        ["train", *study, "-o", "run", "--resume"],
        ["train", *study, "-o", "other", "--config", "run/config.yaml"],
    ]
    for verb in verbs:
        refused = run_anew(*verb)
        assert refused.code == 2, (verb, refused)
        assert "--network my_nets:make" in refused.err
        assert "my_nets" not in sys.modules  # nothing was imported because a folder names it
        said = run_anew(*verb, *own)
        assert said.code == 0, (verb, said.err)
    monkeypatch.setattr(network_options, "_allowed", {})
    raters.learning.networks.allow("my_nets:make")
    assert raters.load("run").config.network.name == "my_nets:make"


def test_options_are_checked_without_torch() -> None:
    code = (
        "import sys\nfrom raters.learning.training.options import checked_options\n"
        "assert checked_options('vote', {'network': 'a.b:c'}).network == 'a.b:c'\n"
        "assert not {'torch', 'monai', 'lightning'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def flat_network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 5))


@pytest.mark.slow
def test_a_network_of_one_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    study = Study.from_arrays(rng.normal(size=(8, 1, 12, 12)), rng.integers(0, 2, (8, 3)))
    model = raters.fit(study, "global-cm", network=flat_network, folder=tmp_path / "run", **SHORT)
    opened = raters.load(tmp_path / "run", network=flat_network)
    assert raters.report(tmp_path / "run", tmp_path / "report", network=flat_network).exists()
    with pytest.warns(UserWarning, match="train"):
        scores = raters.evaluate(tmp_path / "run", study, network=flat_network)
    assert scores.main == raters.evaluate(opened, study).main
    with pytest.raises(RatersError, match="expected leave to import and run it"):
        raters.evaluate(tmp_path / "run", study)
    np.testing.assert_array_equal(opened.truth(study[0]), model.truth(study[0]))
    with pytest.raises(RatersError, match=r"found an image of \(13, 12\).*expected \(12, 12\)"):
        opened.truth(np.zeros((1, 13, 12), np.float32))
    other = Study.from_arrays(rng.normal(size=(8, 1, 9, 9)), rng.integers(0, 2, (8, 3)))
    with pytest.raises(RatersError, match="RuntimeError when the network"):
        raters.fit(other, "global-cm", network=flat_network, **SHORT)


def test_features_that_depend_on_the_size() -> None:
    found = OwnBackbone(nn.Flatten(), "flat", 1, 2, False, (12, 12))
    assert found.features == 144
    with pytest.raises(RatersError, match="takes no other size"):
        found(torch.zeros(1, 1, 9, 9))


def test_batch_norm_in_several_processes() -> None:
    planned = plan_training(
        draw_mask_study(),
        checked_options("global-cm", {"network": plain(), "devices": 2, "batch_size": 2}),
    )
    with pytest.warns(UserWarning, match="has batch norm, which is not the same in all processes"):
        make_method(planned)


def test_a_network_of_patches_of_one_size() -> None:
    class Fixed(nn.Conv2d):
        def forward(self, image: Tensor) -> Tensor:
            return super().forward(image.reshape(-1, 1, 10, 10))

    model = raters.fit(
        draw_mask_study(),
        "pixel-cm",
        network=Fixed(1, 3, 3, padding=1),
        patch_size=(10, 10),
        **SHORT,
    )
    assert model.truth(draw_mask_study()[0]).shape == (2, 18, 18)


def test_outputs_of_another_type_are_refused() -> None:
    class Half(nn.Conv2d):
        def forward(self, image: Tensor) -> Tensor:
            return super().forward(image).half()

    with pytest.raises(RatersError, match=r"found an output of type torch.float16.*torch.float32"):
        OwnBackbone(Half(1, 4, 3, padding=1), "half", 1, 2, dense=True)
