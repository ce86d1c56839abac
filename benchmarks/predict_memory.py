"""Peak memory and speed of prediction: large pictures, and a brain in 3D from training on.

`python benchmarks/predict_memory.py picture` predicts a picture of 4,000 x 4,000 (`--side`) with 2
and 6 classes, 1 and 3 channels: labels, probabilities and entropy, by a U-Net in windows of 128.
`python benchmarks/predict_memory.py brain FOLDER` trains pixel-cm on patches of the patient of the
BraTS toolkit (240 x 240 x 155, four modalities, five raters) for a few epochs, and predicts it.
`python benchmarks/predict_memory.py digits` predicts 10,000 images of 28 x 28.

Each row has a process of its own, and the peak of its resident memory is what Linux measured
(VmHWM): all of it, with Python and torch, which take some 0.4 GB by themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PEAK = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) / 1e6"

TRAIN_SMALL = """
import sys, warnings
import numpy as np, raters
warnings.simplefilter('ignore')
folder, classes, channels, side, width, kind = sys.argv[1:]
rng = np.random.default_rng(0)
number = (4, int(channels), int(side), int(side))
masks = rng.integers(0, int(classes), (4, 3, int(side), int(side)))
if kind == 'classes':
    masks = rng.integers(0, int(classes), (4, 3))
study = raters.Study.from_arrays(
    rng.integers(0, 255, number).astype(np.uint8), masks, classes=list(range(int(classes))),
)
patch = 'whole' if int(side) < 64 else (128, 128)
options = dict(epochs=1, width=int(width), patch_size=patch, progress=False)
raters.fit(study, 'pixel-cm', **options).save(folder)
"""

PREDICT = f"""
import sys
from raters.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print({PEAK}, file=sys.stderr)
"""

BRAIN = f"""
import sys, time, warnings
import raters
from raters.learning.prediction.images import open_images
from raters.learning.prediction.predict_study import predict_study
from raters.learning.prediction.writing import Outputs
warnings.simplefilter('ignore')
source, out, epochs, width, confusion = sys.argv[1:]
masks = source + '/{{case}}/segmentation/{{rater}}-20.nii.gz'
images = source + '/{{case}}/raw_bet/{{case}}_{{modality}}_bet.nii.gz'
study = raters.read(masks, images=images)
start = time.perf_counter()
model = raters.fit(study, 'pixel-cm', epochs=int(epochs), width=int(width), batch_size=2,
                   patch_size=(64, 64, 64), patches_per_case=8, progress=False, folder=out + '/run')
seconds, trained = time.perf_counter() - start, {PEAK}
model = raters.load(out + '/run')
outputs = Outputs(True, True, (study.raters[0],), confusion == 'True')
result = predict_study(model, open_images(images, model.config), out + '/predicted', outputs)
assert not result.failures, result.failures
print(seconds, trained, result.seconds, result.pixels / result.seconds / 1e6, {PEAK})
"""


def run(code: str, *arguments: object) -> tuple[str, str]:
    """Run code in a Python of its own; give what it wrote on both streams."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout, done.stderr


def pictures(side: int, width: int, confusion: bool) -> None:
    """Print a row for each number of classes and channels."""
    print("| classes | channels | megapixels/s | peak GB |\n| --- | --- | --- | --- |", flush=True)
    rng = np.random.default_rng(0)
    for classes in (2, 6):
        for channels in (1, 3):
            with tempfile.TemporaryDirectory() as folder:
                from PIL import Image

                pixels = rng.integers(0, 255, (side, side, channels), dtype=np.uint8)
                Path(folder, "images").mkdir()
                Image.fromarray(pixels.squeeze()).save(f"{folder}/images/a.png", compress_level=1)
                run(TRAIN_SMALL, f"{folder}/model", classes, channels, 128, width, "masks")
                options = ["--probabilities", "--entropy", "--json"]
                options += ["--confusion"] if confusion else []
                where = ["predict", f"{folder}/model", f"{folder}/images", "-o", f"{folder}/out"]
                said, peak = run(PREDICT, *where, *options)
                speed = json.loads(said)["megapixels_per_second"]
                last = float(peak.split()[-1])
                print(f"| {classes} | {channels} | {speed:.2f} | {last:.2f} |", flush=True)


def digits(number: int) -> None:
    """Print how fast many small images are predicted, as classes and as masks."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (number, 1, 28, 28)).astype(np.uint8)
    for kind in ("classes", "masks"):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/images.npy", images)
            run(TRAIN_SMALL, f"{folder}/model", 10, 1, 28, 8, kind)
            where = ["predict", f"{folder}/model", f"{folder}/images.npy", "-o", f"{folder}/out"]
            said, peak = run(PREDICT, *where, "--json")
            facts = json.loads(said)
            print(
                f"{number:,} images of 28 x 28, {kind}: {facts['seconds']:.1f} s, "
                f"{facts['cases_per_second']:.0f} cases/s, peak {float(peak.split()[-1]):.2f} GB"
            )


def brain(source: str, epochs: int, width: int, confusion: bool) -> None:
    """Print the memory of training and prediction of one patient."""
    with tempfile.TemporaryDirectory() as folder:
        said, _ = run(BRAIN, source, folder, epochs, width, confusion)
    seconds, trained, predicting, speed, peak = map(float, said.split()[-5:])
    print(f"training: {seconds:.0f} s, peak {trained:.2f} GB")
    print(f"prediction: {predicting:.0f} s, {speed:.2f} megavoxels/s, peak {peak:.2f} GB in all")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["picture", "brain", "digits"])
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--side", type=int, default=4000)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--confusion", action="store_true")
    given = parser.parse_args()
    if given.what == "picture":
        pictures(given.side, given.width, given.confusion)
    elif given.what == "digits":
        digits(given.number)
    else:
        brain(given.folder, given.epochs, given.width, given.confusion)


if __name__ == "__main__":
    main()
