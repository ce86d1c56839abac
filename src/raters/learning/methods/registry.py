"""The learning methods by name; a new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from raters.core.errors import RatersError, one_of
from raters.learning.methods import mask_options as m
from raters.learning.methods import options as o
from raters.learning.methods.entry import MethodEntry as MethodEntry

_NO_TRACE: dict[str, Any] = {"trace": 0.0, "trace_over": "truth"}

_masks = partial(MethodEntry, kinds=("segmentation",))
_bootstrap = partial(
    MethodEntry,
    fixed={"fusion": "vote", "soft": False, "pool": False},
    paper="Reed et al., Training deep neural networks on noisy labels with bootstrapping, ICLR "
    "workshop 2015",
    learns_from="the vote, or all labels",
)


def _fused(
    about: str,
    fusion: str,
    make: Callable[..., MethodEntry] = MethodEntry,
    **more: Any,  # noqa: ANN401
) -> MethodEntry:
    """Return the entry of a method that fuses the labels first, and trains on what comes out."""
    given: dict[str, Any] = {
        "where": "raters.learning.methods.supervised:FusedMethod",
        "options": o.FusedOptions,
        "fixed": {"fusion": fusion, **more.pop("fixed", {})},
        "learns_from": "fused labels",
    }
    return make(about, **{**given, **more})


METHODS: dict[str, MethodEntry] = {
    "vote": _fused(
        "train on the majority vote",
        "vote",
        when="a first baseline, and hard to beat where most raters are right at most pixels",
    ),
    "mean": _fused(
        "train on the mean label",
        "mean",
        fixed={"soft": True},
        when="if probabilities should show how many raters agree",
    ),
    "staple": _fused(
        "train on STAPLE",
        "staple",
        _masks,
        paper="Warfield, Zou and Wells, Simultaneous truth and performance level estimation "
        "(STAPLE), IEEE Transactions on Medical Imaging 23, 2004",
        when="masks by raters of different skill; not where several raters over-draw alike",
    ),
    "spatial-staple": _fused(
        "train on Spatial STAPLE",
        "spatial-staple",
        _masks,
        paper="Asman and Landman, Formulating spatially varying performance in the statistical "
        "fusion framework, IEEE Transactions on Medical Imaging 31, 2012",
        when="masks by raters whose skill differs over the image",
    ),
    "dawid-skene": _fused(
        "train on Dawid-Skene",
        "dawid-skene",
        paper="Dawid and Skene, Maximum likelihood estimation of observer error-rates using the "
        "EM algorithm, Applied Statistics 28, 1979",
        when="class labels, several for each case",
    ),
    "hierarchical": _fused(
        "train on hierarchical Dawid-Skene",
        "hierarchical",
        paper="after Kim and Ghahramani, Bayesian classifier combination, AISTATS 2012",
        when="class labels by a crowd, also where many workers have few labels each",
        kinds=("classification",),
    ),
    "truth": MethodEntry(
        "train on the reference: the ceiling",
        "raters.learning.methods.supervised:TruthMethod",
        raters=False,
        when="to know what learning from raters could reach at best; needs references",
        learns_from="references",
        needs="references",
    ),
    "separate": MethodEntry(
        "one network per rater, outputs averaged",
        "raters.learning.methods.separate:Separate",
        when="few raters with many labels each, if each one's own network is wanted",
        costs="one pass per rater",
    ),
    "global-cm": MethodEntry(
        "one learnt matrix per rater",
        "raters.learning.methods.global_cm:GlobalCM",
        o.GlobalOptions,
        paper_form=o.GLOBAL_PAPER,
        paper="Tanno et al., Learning from noisy labels by regularized estimation of annotator "
        "confusion, CVPR 2019",
        when="class labels by named raters, also with one label for each case",
    ),
    "single-cm": MethodEntry(
        "one learnt matrix for all raters",
        "raters.learning.methods.global_cm:SingleCM",
        o.SingleOptions,
        paper_form=o.SINGLE_PAPER,
        paper="Sukhbaatar et al., Training convolutional networks with noisy labels, ICLR "
        "workshop 2015",
        when="class labels by anonymous raters, or by many with few labels each",
        learns_from="all labels, or the vote",
    ),
    "pixel-cm": MethodEntry(
        "matrices at each pixel",
        "raters.learning.methods.pixel_cm:PixelCM",
        o.PixelOptions,
        paper_form=o.PIXEL_PAPER,
        paper="Zhang et al., Disentangling human error from the ground truth in segmentation of "
        "medical images, NeurIPS 2020",
        when="masks by named raters (--shared: anonymous ones), also with one mask for each case",
        costs="one pass and the likelihood: about 1.4",
    ),
    "low-rank-cm": MethodEntry(
        "low-rank matrices at each pixel",
        "raters.learning.methods.pixel_cm:LowRankCM",
        o.LowRankOptions,
        paper_form=o.LOW_RANK_PAPER,
        paper="after Zhang et al., Disentangling human error from the ground truth in "
        "segmentation of medical images, NeurIPS 2020, appendix A.4",
        when="masks of many classes, where full matrices at each pixel take too much memory",
        costs="one pass and the likelihood: about 1.4",
    ),
    "coarse": _masks(
        "positive and negative drawings, through matrices at each pixel",
        "raters.learning.methods.coarse:Coarse",
        o.CoarseOptions,
        {"shared": False},
        paper_form=o.COARSE_PAPER,
        paper="Zhang et al., Emerging semantic segmentation from positive and negative coarse "
        "label learning, arXiv:2508.18186, 2025",
        when="rough drawings of what is there or of what is not, alone or beside full masks",
        costs="one pass and the likelihood: about 1.4",
        takes_negatives=True,
    ),
    "mrnet": _masks(
        "a prediction that follows any weighting of the raters",
        "raters.learning.methods.mrnet:MRNet",
        paper="Ji et al., Learning calibrated medical image segmentation via multi-rater agreement "
        "modeling, CVPR 2021",
        when="masks by named raters, if predictions should follow whom you trust (--weights)",
        least_raters=2,
        costs="one pass and three small heads, for three weightings each: about 2",
    ),
    "prism": _masks(
        "a truth and the raters' confidences refine each other in recurrences",
        "raters.learning.methods.prism:Prism",
        m.PrismOptions,
        paper="Wu et al., Multi-rater prism: learning self-calibrated medical image segmentation "
        "from multiple raters, preprint, 2022",
        when="2D masks by named raters, if you want to see how confidences settle, or to say whom "
        "to trust (--weights)",
        least_raters=2,
        costs="an encoder once, two decoders three times each",
    ),
    "diag": _masks(
        "train on masks weighted by what they tell of the diagnosis",
        "raters.learning.methods.diag:Diag",
        paper="after Wu et al., Opinions vary? Diagnosis first!, arXiv:2202.06505, 2022",
        when="masks by named raters, drawn for a diagnosis that is known of most cases",
        least_raters=2,
        learns_from="fused labels",
        needs="diagnoses",
    ),
    "oracle-cm": MethodEntry(
        "the raters' matrices are known",
        "raters.learning.methods.global_cm:OracleCM",
        o.OracleOptions,
        {**_NO_TRACE, "warm_up": 0, "warm_up_on": "labels", "init_accuracy": 0.9},
        when="to know what knowing the matrices would bring; needs references",
        needs="references",
    ),
    "gem": MethodEntry(
        "EM: matrices counted against the posterior, in turns with the network",
        "raters.learning.methods.em:GeneralizedEM",
        o.GemOptions,
        paper="Raykar et al., Learning from crowds, JMLR 11, 2010; as Algorithm 2 of Tanno et al., "
        "CVPR 2019",
        when="class labels by named raters, also with one label for each case",
        costs="one pass, and one forward",
    ),
    "mbem": MethodEntry(
        "EM: matrices counted against the network's predictions",
        "raters.learning.methods.em:ModelBootstrappedEM",
        o.EMOptions,
        paper="Khetan, Lipton and Anandkumar, Learning from noisy singly-labeled data, ICLR 2018",
        when="class labels by named raters, in few and long rounds",
    ),
    "soft-bootstrap": _bootstrap(
        "train on the vote mixed with the network's probabilities",
        "raters.learning.methods.bootstrap:SoftBootstrap",
        o.SoftBootstrapOptions,
        when="a baseline for labels that are wrong at random; raters are all alike to it",
    ),
    "hard-bootstrap": _bootstrap(
        "train on the vote mixed with the network's likeliest class",
        "raters.learning.methods.bootstrap:HardBootstrap",
        o.HardBootstrapOptions,
        when="as soft-bootstrap, with more trust in the network",
    ),
    "label-sampling": MethodEntry(
        "train on a random rater of each case at a time",
        "raters.learning.methods.supervised:LabelSampling",
        paper="Jensen et al., Improving uncertainty estimation in convolutional neural networks "
        "using inter-rater agreement, MICCAI 2019",
        when="a baseline beside mean, if probabilities should show how many raters agree",
        learns_from="one rater of each case at a time",
    ),
    "multi-hypothesis": MethodEntry(
        "several heads, each label teaches the best",
        "raters.learning.methods.multi_hypothesis:MultiHypothesis",
        o.HypothesesOptions,
        paper="Rupprecht et al., Learning in an uncertain world: representing ambiguity through "
        "multiple hypotheses, ICCV 2017",
        when="samples where labels fall into a few kinds, by raters named or anonymous",
    ),
    "prob-unet": _masks(
        "a latent variable of each image, as many samples as wanted",
        "raters.learning.methods.prob_unet:ProbUNet",
        o.LatentOptions,
        paper="Kohl et al., A probabilistic U-Net for segmentation of ambiguous images, "
        "NeurIPS 2018",
        when="samples of whole masks that vary as raters do, named or anonymous",
        learns_from="one rater of each case at a time",
        costs="one pass and two encoders: about 1.6",
    ),
    "pionono": _masks(
        "a latent variable of each rater",
        "raters.learning.methods.pionono:Pionono",
        o.LatentOptions,
        paper="Schmidt et al., Probabilistic modeling of inter- and intra-observer variability in "
        "medical image segmentation, ICCV 2023",
        when="samples and 'as rater X' of named raters, who vary among and within themselves",
        least_raters=2,
        learns_from="one rater of each case at a time",
        costs="one pass and a small head",
    ),
    "wdn": MethodEntry(
        "one head per rater, learnt weights of raters",
        "raters.learning.methods.wdn:WeightedDoctorNet",
        o.WdnOptions,
        paper="Guan et al., Who said what: modeling individual labelers improves classification, "
        "AAAI 2018",
        when="raters of unlike skill with many labels each, if each one's prediction is wanted, or "
        "the truth in other weightings of raters",
        least_raters=2,
    ),
    "crowd-layer": MethodEntry(
        "a layer per rater on the truth's probabilities",
        "raters.learning.methods.crowd_layer:CrowdLayer",
        o.CrowdLayerOptions,
        paper="Rodrigues and Pereira, Deep learning from crowds, AAAI 2018",
        when="class labels by many workers, as a rival of global-cm",
    ),
    "agg-net": MethodEntry(
        "counted matrices aggregate labels in each batch",
        "raters.learning.methods.agg_net:AggNet",
        o.AggNetOptions,
        {"likelihood": "joint", **_NO_TRACE},
        paper="Albarqouni et al., AggNet: deep learning from crowds for mitosis detection in "
        "breast cancer histology images, IEEE Transactions on Medical Imaging 35, 2016",
        when="class labels by named raters, also many with few labels each",
    ),
    "max-mig": MethodEntry(
        "network and label aggregator share information",
        "raters.learning.methods.max_mig:MaxMIG",
        o.MaxMigOptions,
        {"likelihood": "marginal", **_NO_TRACE},
        paper="Cao et al., Max-MIG: an information theoretic approach for joint learning from "
        "crowds, ICLR 2019",
        when="raters who make the same mistakes, if these have nothing to do with the image",
    ),
    "grabcut": _fused(
        "train on masks that GrabCut makes of marks or boxes",
        "grabcut",
        _masks,
        fixed={"soft": False, "pool": False},
        paper="Rother, Kolmogorov and Blake, GrabCut: interactive foreground extraction using "
        "iterated graph cuts, ACM Transactions on Graphics 23, 2004",
        when="marks or boxes on 2D images whose objects have colours of their own",
        learns_from="masks from marks",
        needs="raters[opencv]",
        takes_one_class=True,
    ),
    "lazy-snapping": _fused(
        "train on masks that lazy snapping makes of marks",
        "lazy-snapping",
        _masks,
        where="raters.learning.methods.region_method:FromMarks",
        fixed={"soft": False, "pool": False},
        paper="Li, Sun, Tang and Shum, Lazy snapping, ACM Transactions on Graphics 23, 2004",
        when="marks of each class in each image, of objects that have colours of their own",
        learns_from="masks from marks",
    ),
    "scribble-sup": _masks(
        "a graph of superpixels spreads marks, in turns with the network",
        "raters.learning.methods.scribble_sup:ScribbleSup",
        m.ScribbleSupOptions,
        paper="Lin et al., ScribbleSup: scribble-supervised convolutional networks for semantic "
        "segmentation, CVPR 2016",
        when="marks of each class in each image, where colours alone do not tell classes apart",
        learns_from="marks spread over superpixels",
    ),
    "cycle-mix": _masks(
        "images and their marks are mixed, predictions must agree",
        "raters.learning.methods.cycle_mix:CycleMix",
        m.CycleMixOptions,
        paper="Zhang and Zhuang, CycleMix: a holistic strategy for medical image segmentation from "
        "scribble supervision, CVPR 2022",
        when="marks in few images, of one object of each class",
        costs="two passes, and one backward",
    ),
    "box-sup": _masks(
        "candidate masks in boxes, chosen in turns with the network",
        "raters.learning.methods.box_sup:BoxSup",
        m.BoxSupOptions,
        paper="Dai, He and Sun, BoxSup: exploiting bounding boxes to supervise convolutional "
        "networks for semantic segmentation, ICCV 2015",
        when="boxes around the objects of one class",
        learns_from="candidate masks in boxes",
        needs="boxes",
        takes_one_class=True,
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
        found = type(options).__name__
        names = ", ".join(best or METHODS)
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
    return METHODS[one_of(METHODS, name, "the method")]
