"""The texts of a MONAI bundle: its README and its LICENSE."""

from __future__ import annotations

from raters.export.truth import Truth

LICENCE = """\
No licence has been given to this bundle yet.

The weights were learnt from somebody's images and somebody's labels. Whoever exported this bundle
must say here under which terms it may be used before passing it on.
"""


def readme(truth: Truth) -> str:
    """Return what a bundle is and how it is run."""
    config, metadata = truth.config, truth.metadata
    ending = "nii.gz" if config.spatial_dims == 3 else "png"
    written = "predictions/predictions.csv" if config.kind == "classification" else "predictions/"
    classes = "\n".join(f"| {k} | {c.name} | {c.value} |" for k, c in enumerate(config.classes))
    return f"""\
# {config.network.name} trained by {config.method}
Predicts the consensus of labels by {len(config.raters)} raters who disagree. Exported by raters \
{metadata["raters_version"]}; raters is not needed to run it.

    pip install monai pytorch-ignite nibabel pillow fire
    python -m monai.bundle run --config_file configs/inference.json --dataset_dir IMAGES

reads `IMAGES/*.{ending}` and writes `{written}` (run it in this folder, or add `--bundle_root`). \
`--output_dir`, `--output_ext` and `--datalist` change what is read and written.

| channel | class | value in files |
| --- | --- | --- |
{classes}

- Images: {config.channels} channels. `configs/inference.json` normalises them as in training \
({config.normaliser().mode}); the network alone has normalised images as its input, of any size.
- Windows: {metadata["windows"]}.
- Geometry: images are neither turned nor resampled; give them as those trained on.
- `models/model.pt2` is the network (a program of torch.export), `models/model.pt` its weights \
(`torch.load(..., weights_only=True)`).
"""
