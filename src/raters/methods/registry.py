"""The learning methods by name; a new one is a file and a line here."""

from __future__ import annotations

from typing import Any

from raters.errors import RatersError
from raters.methods import options as o
from raters.methods.entry import MethodEntry as MethodEntry
from raters.wording import expected_one_of

_FUSED = "raters.methods.supervised:FusedMethod"

METHODS: dict[str, MethodEntry] = {
    "vote": MethodEntry(
        "train on the majority vote",
        _FUSED,
        o.FusedOptions,
        {"fusion": "vote"},
        when="a first baseline, and hard to beat where most raters are right at most pixels",
        learns_from="fused labels",
    ),
    "mean": MethodEntry(
        "train on the mean label",
        _FUSED,
        o.FusedOptions,
        {"fusion": "mean", "soft": True},
        when="if probabilities should show how many raters agree",
        learns_from="fused labels",
    ),
    "staple": MethodEntry(
        "train on STAPLE",
        _FUSED,
        o.FusedOptions,
        {"fusion": "staple"},
        paper="Warfield, Zou and Wells, Simultaneous truth and performance level estimation "
        "(STAPLE), IEEE Transactions on Medical Imaging 23, 2004",
        when="masks by raters of different skill; not where several raters over-draw alike",
        kinds=("segmentation",),
        learns_from="fused labels",
    ),
    "spatial-staple": MethodEntry(
        "train on Spatial STAPLE",
        _FUSED,
        o.FusedOptions,
        {"fusion": "spatial-staple"},
        paper="Asman and Landman, Formulating spatially varying performance in the statistical "
        "fusion framework, IEEE Transactions on Medical Imaging 31, 2012",
        when="masks by raters whose skill differs over the image",
        kinds=("segmentation",),
        learns_from="fused labels",
    ),
    "dawid-skene": MethodEntry(
        "train on Dawid-Skene",
        _FUSED,
        o.FusedOptions,
        {"fusion": "dawid-skene"},
        paper="Dawid and Skene, Maximum likelihood estimation of observer error-rates using the "
        "EM algorithm, Applied Statistics 28, 1979",
        when="class labels, several for each case",
        learns_from="fused labels",
    ),
    "truth": MethodEntry(
        "train on the reference: the ceiling",
        "raters.methods.supervised:TruthMethod",
        raters=False,
        when="to know what learning from raters could reach at best; needs references",
        learns_from="references",
        needs="references",
    ),
    "separate": MethodEntry(
        "one network per rater, outputs averaged",
        "raters.methods.separate:Separate",
        when="few raters with many labels each, if each one's own network is wanted",
        costs="one pass per rater",
    ),
    "global-cm": MethodEntry(
        "one learnt matrix per rater",
        "raters.methods.global_cm:GlobalCM",
        o.GlobalOptions,
        paper_form=o.GLOBAL_PAPER,
        paper="Tanno et al., Learning from noisy labels by regularized estimation of annotator "
        "confusion, CVPR 2019",
        when="class labels by named raters, also with one label for each case",
    ),
    "single-cm": MethodEntry(
        "one learnt matrix for all raters",
        "raters.methods.global_cm:SingleCM",
        o.SingleOptions,
        paper_form=o.SINGLE_PAPER,
        paper="Sukhbaatar et al., Training convolutional networks with noisy labels, ICLR "
        "workshop 2015",
        when="class labels by anonymous raters, or by many with few labels each",
        learns_from="all labels, or the vote",
    ),
    "pixel-cm": MethodEntry(
        "matrices at each pixel",
        "raters.methods.pixel_cm:PixelCM",
        o.PixelOptions,
        paper_form=o.PIXEL_PAPER,
        paper="Zhang et al., Disentangling human error from the ground truth in segmentation of "
        "medical images, NeurIPS 2020",
        when="masks by named raters (--shared: anonymous ones), also with one mask for each case",
        costs="one pass and the likelihood: about 1.4",
    ),
    "low-rank-cm": MethodEntry(
        "low-rank matrices at each pixel",
        "raters.methods.pixel_cm:LowRankCM",
        o.LowRankOptions,
        paper_form=o.LOW_RANK_PAPER,
        paper="after Zhang et al., Disentangling human error from the ground truth in "
        "segmentation of medical images, NeurIPS 2020, appendix A.4",
        when="masks of many classes, where full matrices at each pixel take too much memory",
        costs="one pass and the likelihood: about 1.4",
    ),
    "mrnet": MethodEntry(
        "a prediction that follows any weighting of the raters",
        "raters.methods.mrnet:MRNet",
        paper="Ji et al., Learning calibrated medical image segmentation via multi-rater agreement "
        "modeling, CVPR 2021",
        when="masks by named raters, if predictions should follow whom you trust (--weights)",
        kinds=("segmentation",),
        least_raters=2,
        costs="one pass and three small heads, for three weightings each: about 2",
    ),
    "diag": MethodEntry(
        "train on masks weighted by what they tell of the diagnosis",
        "raters.methods.diag:Diag",
        paper="after Wu et al., Opinions vary? Diagnosis first!, arXiv:2202.06505, 2022",
        when="masks by named raters, drawn for a diagnosis that is known of most cases",
        kinds=("segmentation",),
        least_raters=2,
        learns_from="fused labels",
        needs="diagnoses",
    ),
    "oracle-cm": MethodEntry(
        "the raters' matrices are known",
        "raters.methods.global_cm:OracleCM",
        o.OracleOptions,
        {
            "trace": 0.0,
            "trace_over": "truth",
            "warm_up": 0,
            "warm_up_on": "labels",
            "init_accuracy": 0.9,
        },
        when="to know what knowing the matrices would bring; needs references",
        needs="references",
    ),
}


def method_of_options(options: o.MethodOptions) -> tuple[str, dict[str, Any]]:
    """Return the name of the method that typed options are for, and those that were given.

    Raises:
        RatersError: where several methods, or none, have them.

    Example:
        >>> method_of_options(o.PixelOptions(prior=0.1))
        ('pixel-cm', {'prior': 0.1})
        >>> method_of_options(o.FusedOptions(fusion="staple", pool=True))
        ('staple', {'pool': True})
    """
    given = options.model_dump(exclude_unset=True)
    fits = {
        name: sum(getattr(options, k) == v for k, v in entry.fixed.items())
        for name, entry in METHODS.items()
        if entry.options is type(options)
        and all(entry.fixed.get(k, v) == v for k, v in given.items())
    }
    best = [name for name, same in fits.items() if same == max(fits.values())]
    if len(best) != 1:
        found, names = type(options).__name__, ", ".join(best or METHODS)
        raise RatersError(f"found {found} of no one method, expected a name: one of {names}")
    return best[0], {k: v for k, v in given.items() if k not in METHODS[best[0]].fixed}


def learning_method(name: str) -> MethodEntry:
    """Return a method by name.

    Raises:
        RatersError: that lists the names.

    Example:
        >>> learning_method("pixel-cm").about
        'matrices at each pixel'
    """
    if name not in METHODS:
        raise RatersError(f"found the method {name!r}, {expected_one_of(METHODS, name)}")
    return METHODS[name]
