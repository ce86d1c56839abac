"""What names of folders and files tell: images, references, slots of masks, raters, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SETS = r"([-_]?(tr|ts|train|training|test|val|valid|validation))?"
_IMAGE_FOLDER = re.compile(rf"(images?|imgs?|scans?|photos?|inputs?|raw.*){_SETS}")
_REFERENCE_FOLDER = re.compile(
    rf"(references?|truths?|gts?|ground[-_ ]?truths?|gold([-_ ]standards?)?){_SETS}"
)
_IMAGE_WORDS = {
    *("image", "images", "img", "imgs", "ct", "mr", "mri", "flair", "t1", "t1w", "t1ce", "t1c"),
    *("t2", "t2w", "dwi", "adc"),
}
_REFERENCE_WORDS = {"reference", "truth", "gt", "groundtruth", "gold", "goldstandard"}
_DERIVED = re.compile(
    r"(fusions?|fused|consensus|majority|staple|simple|votes?|voting|means?|average|averages|"
    r"overlays?|previews?|thumbnails?|thumbs|figures?|plots?|predictions?|preds?|results?|output|"
    r"outputs|probabilit.*|uncertaint.*|backup|old|tmp|temp|docs?|code|scripts?)"
)
_CONTAINER = re.compile(rf"(masks?|labels?|annotations?|segmentations?|segs?){_SETS}")
SPLIT_NAMES = {
    *("train", "training", "test", "testing", "val", "valid", "validate", "validation", "dev"),
}
LABEL_WORDS = {
    *("mask", "masks", "label", "labels", "labelstr", "labelsts", "annotation", "annotations"),
    *("ann", "anno", "seg", "segs", "segm", "segmentation", "segmentations", "delineation"),
    *("contour", "outline", "dseg", "tr", "ts"),
}
_RATER_WORDS = {
    *("rater", "raters", "reader", "observer", "annotator", "expert", "doctor", "dr", "doc"),
    *("grader", "labeler", "labeller", "worker", "user", "physician", "radiologist", "obs"),
    *("pathologist", "reviewer", "person", "specialist", "rad", "model", "algorithm", "student"),
}
_CASE_WORDS = {
    *("case", "cases", "patient", "pat", "subject", "sub", "subj", "image", "img", "slice"),
    *("slide", "scan", "frame", "volume", "vol", "id", "core", "sample", "visit", "ses", "study"),
    *("session", "exam", "nodule", "lesion", "tile", "patch", "instance", "series", "roi", "crop"),
    *("fold", "batch", "part", "version", "v", "epoch", "run", "task", "t", "z", "page", "step"),
}
# Names of what is drawn, of how it was scanned, of sides and sets: never of who drew it.
_NOT_WHO = {
    *("site", "center", "centre", "hospital", "low", "high", "small", "large", "flip", "orig"),
    *("original", "rot", "rotated", "augmented", "color", "colour", "ids", "week", "day", "month"),
    *("year", "glaucoma", "suspect", "cancer", "sacrum", "hip", "rib", "scapula", "humerus"),
    *("vertebrae", "gallbladder", "duodenum", "colon", "muscle", "adrenal", "thyroid", "breast"),
    *("person", "tree", "building", "sky", "water", "vegetation", "crop", "weed", "plant", "leaf"),
    *("seg", "mask", "label", "ki67", "her2", "er", "pr", "ch", "channel", "z", "level", "size"),
    *("artery", "arteries", "vein", "veins", "vessel", "vessels", "lesion", "lesions", "tumor"),
    *("tumour", "tumors", "tumours", "nodule", "nodules", "disc", "disk", "cup", "fovea", "macula"),
    *(
        "liver",
        "kidney",
        "kidneys",
        "spleen",
        "pancreas",
        "lung",
        "lungs",
        "heart",
        "brain",
        "skin",
    ),
    *("prostate", "bladder", "bone", "bones", "organ", "organs", "aorta", "stomach", "bowel"),
    *("esophagus", "oesophagus", "trachea", "rectum", "femur", "spine", "vertebra", "cord", "wm"),
    *("gm", "csf", "edema", "oedema", "core", "necrosis", "enhancing", "cell", "cells", "nucleus"),
    *("nuclei", "gland", "glands", "tissue", "stroma", "cyst", "polyp", "fluid", "hemorrhage"),
    *("exudates", "haemorrhages", "hemorrhages", "microaneurysms", "hippocampus", "ventricle"),
    *("atrium", "myocardium", "rv", "lv", "la", "ra", "cat", "cats", "dog", "dogs", "road", "car"),
    *("background", "foreground", "fg", "bg", "boundary", "edge", "contours", "object", "objects"),
    *(
        "left",
        "right",
        "od",
        "os",
        "axial",
        "coronal",
        "sagittal",
        "front",
        "back",
        "top",
        "bottom",
    ),
    *("upper", "lower", "anterior", "posterior", "t1", "t1w", "t1c", "t1ce", "t1gd", "t2", "t2w"),
    *("t2star", "flair", "fla", "dwi", "adc", "pd", "ct", "pet", "mr", "mri", "bold", "swi", "hbv"),
    *("benign", "malignant", "normal", "abnormal", "healthy", "positive", "negative", "yes", "no"),
    *("red", "green", "blue", "rgb", "gray", "grey", "depth", "he", "dapi", "fov", "roi", "rois"),
    *("semantic", "instance", "instances", "panoptic", "ed", "es", "pre", "post", "baseline"),
    *SPLIT_NAMES,
}
_ORDINAL = re.compile(r"[0-9]+(st|nd|rd|th)|(first|second|third|fourth|fifth)$")
_BEFORE_NUMBER = re.compile(r"([^\W\d_]+)[-_. ]?#")
_DIGITS = re.compile(r"[0-9]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORDS = re.compile(r"[^\W\d_]+\d*|[0-9]+[^\W\d_]*")
SEPARATORS = "-_. "
MOST_RATERS = 40


def common_start(texts: Sequence[str]) -> str:
    """Return what all texts begin with.

    Example:
        >>> common_start(["mask-0", "mask-1"])
        'mask-'
    """
    first = min(texts, default="")
    last = max(texts, default="")
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]


def role_of_folder(name: str) -> str:
    """Return what a folder holds by its name: 'image', 'reference', 'derived' or ''.

    Example:
        >>> role_of_folder("imagesTr"), role_of_folder("GT"), role_of_folder("alice")
        ('image', 'reference', '')
    """
    lower = name.lower()
    for role, names in (
        ("image", _IMAGE_FOLDER),
        ("reference", _REFERENCE_FOLDER),
        ("derived", _DERIVED),
    ):
        if names.fullmatch(lower):
            return role
    return ""


def role_of_word(word: str) -> str:
    """Return what a file holds by one word of its name."""
    lower = word.lower()
    if lower in _IMAGE_WORDS:
        return "image"
    if lower in _REFERENCE_WORDS:
        return "reference"
    return "derived" if _DERIVED.fullmatch(lower) else ""


def is_container(name: str) -> bool:
    """Return whether a folder of this name holds masks, of whomever."""
    return _CONTAINER.fullmatch(name.lower()) is not None


def is_split(values: Sequence[str]) -> bool:
    """Return whether names are those of splits."""
    return all(value.lower() in SPLIT_NAMES for value in values)


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case.

    Example:
        >>> words_of("Maps1_T"), words_of("labels-disc")
        (['maps1', 't'], ['labels', 'disc'])
    """
    return [word.lower() for word in _WORDS.findall(_CAMEL.sub("_", name))]


def slot_prefix(values: Sequence[str]) -> str:
    """Return a word for labels that all names begin with, as in 'mask-0', 'mask-1'; else ''.

    Example:
        >>> slot_prefix(["mask-0", "mask-1"]), slot_prefix(["alice", "bob"])
        ('mask-', '')
    """
    prefix = common_start(values).rstrip("0123456789")
    rests = [value[len(prefix) :] for value in values]
    words = words_of(prefix)
    if not words or words[-1] not in LABEL_WORDS or not all(rests):
        return ""
    numbered = all(map(str.isdecimal, rests))
    return prefix if numbered or prefix[-1] in SEPARATORS else ""


def rater_likeness(values: Sequence[str]) -> float:
    """Return how much names look like those of raters, from 0 (surely not) to 1.

    Example:
        >>> rater_likeness(["alice", "bob"]), rater_likeness(["01", "02"])
        (1.0, 0.1)
        >>> rater_likeness(["veins", "arteries"])
        0.0
    """
    if not 2 <= len(values) <= MOST_RATERS:
        return 0.0
    for value in values:
        if is_container(value):
            return 0.0
    slot = slot_prefix(values)
    if slot:
        rests = [value[len(slot) :] for value in values]
        return 0.9 if all(map(str.isdecimal, rests)) else rater_likeness(rests)
    if any(_is_no_name(word) for value in values for word in words_of(value)):
        return 0.0
    if all(any(map(_ORDINAL.match, words_of(value))) for value in values):
        return 0.9
    skeletons = {_DIGITS.sub("#", value.lower()) for value in values}
    words = {word for skeleton in skeletons for word in re.split("[-_. ]", skeleton)}
    if {word.strip("#") for word in words} & _RATER_WORDS:
        return 1.0
    if {word for text in skeletons for word in _BEFORE_NUMBER.findall(text)} & _CASE_WORDS:
        return 0.02
    if all(map(str.isdecimal, values)):
        return 0.1
    if all(_DIGITS.search(value) for value in values):
        return 0.3
    # An odd name out among names of letters is still a name; single letters say little.
    return 0.3 if max(map(len, values)) == 1 else 1.0


def _is_no_name(word: str) -> bool:
    """Return whether a word names what is drawn, or a side or a set; never who drew it."""
    plain = word.rstrip("0123456789")
    return bool({word, plain, plain.removesuffix("s")} & _NOT_WHO)


def case_likeness(values: Sequence[str]) -> float:
    """Return how much names look like those of cases."""
    words = {re.sub("[0-9]+$", "", word) for value in values[:50] for word in words_of(value)}
    if words & _RATER_WORDS:
        return 0.1
    if slot_prefix(values):
        return 0.2
    numbered = sum(bool(_DIGITS.search(value)) for value in values)
    return 1.0 if numbered >= 0.8 * len(values) or words & _CASE_WORDS else 0.5
