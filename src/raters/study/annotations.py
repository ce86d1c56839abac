"""Kinds of annotation: what a label means that a rater drew, and how it is read as a class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from raters.core.arrays import Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of, listing

Annotation = Literal["mask", "positive", "negative", "scribble", "box"]
"""What a rater's labels mean.

mask: a pixel is of the class that it is labelled with, background included. positive: a drawing of
what is there. negative: a drawing of what is not there. (In 'Emerging semantic segmentation from
positive and negative coarse label learning', section 3.1: objective and complementary labels.)
scribble: only the marks say something. box: each object lies somewhere within its box.
"""

Unmarked = Literal["rest", "unknown"]
"""What a drawing says where nothing is marked: that this is the rest, or nothing."""

ANNOTATIONS: tuple[Annotation, ...] = get_args(Annotation)
WORDS: tuple[Unmarked, ...] = get_args(Unmarked)
UNMARKED: Unmarked = "rest"
"""What unmarked pixels of drawings of one kind say, unless the study says otherwise."""


def usual_unmarked(annotations: Mapping[str, Annotation]) -> Unmarked:
    """Return what unmarked pixels say unless told: beside drawings of the other kind nothing."""
    both = {"positive", "negative"} <= set(annotations.values())
    return "unknown" if both else UNMARKED


def reading(labels: Labels, annotation: Annotation, unmarked: Unmarked, num_classes: int) -> Labels:
    """Return what a drawing says of each pixel, as class numbers with MISSING.

    A mask stays as it is. Of the others, with 0 where nothing is marked:

        positive         c where c is drawn; unmarked: 0 (rest), MISSING (unknown)
        negative, L = 2  0 where 1 is drawn; unmarked: 1 (rest), MISSING (unknown)
        negative, L > 2  c where c is drawn, which says 'not c'; MISSING elsewhere
        scribble         c where c is marked; MISSING elsewhere
        box              0 outside all boxes; MISSING inside

    So only a negative drawing of more than two classes does not say what a pixel is: see
    `complementary`. What is MISSING already stays so. Where unmarked pixels say nothing and the
    drawing holds MISSING, MISSING is what is unmarked and 0 is a mark of class 0. (In a file, that
    is the value that is ignored.)

    Args:
        labels: Class numbers with MISSING, as they are drawn.
        annotation: The kind of drawing.
        unmarked: What unmarked pixels of positive and negative drawings say.
        num_classes: How many classes there are, with background.

    Example:
        >>> drawn = np.array([0, 1, 1], np.int16)
        >>> [reading(drawn, kind, "rest", 2).tolist() for kind in ANNOTATIONS]
        [[0, 1, 1], [0, 1, 1], [1, 0, 0], [-1, 1, 1], [0, -1, -1]]
        >>> [reading(drawn, kind, "unknown", 2).tolist() for kind in ("positive", "negative")]
        [[-1, 1, 1], [-1, 0, 0]]
        >>> reading(np.array([0, 1, 2], np.int16), "negative", "rest", 3).tolist()  # not 1, not 2
        [-1, 1, 2]
    """
    told = explicit(labels, annotation, unmarked, num_classes)
    if annotation != "negative" or num_classes != 2:
        return told
    return np.where(told == MISSING, told, 1 - told).astype(labels.dtype)


def explicit(
    labels: Labels, annotation: Annotation, unmarked: Unmarked, num_classes: int
) -> Labels:
    """Return the same drawing, with MISSING wherever it says nothing.

    It may be put on a larger grid, or lose classes, and means the same; read as the same kind once
    more, it does not change.

    Example:
        >>> explicit(np.array([0, 1]), "negative", "unknown", 2).tolist()
        [-1, 1]
    """
    if annotation == "box":
        return np.where(labels > 0, MISSING, labels).astype(labels.dtype)
    if says_rest(annotation, unmarked, num_classes) or (labels == MISSING).any():
        return labels
    return np.where(labels == 0, MISSING, labels).astype(labels.dtype)


def says_rest(annotation: Annotation, unmarked: Unmarked, num_classes: int) -> bool:
    """Return whether pixels that are not marked are labelled all the same."""
    if annotation in ("mask", "box"):
        return True
    if annotation == "scribble" or (annotation == "negative" and num_classes > 2):
        return False
    return unmarked == "rest"


def one_sided(annotations: Mapping[str, Annotation], unmarked: Unmarked) -> list[str]:
    """Return whose drawings can never say the background, or nothing else.

    Example:
        >>> one_sided({"ann": "positive", "bea": "box", "cy": "mask"}, "unknown")
        ['ann', 'bea']
    """
    drawn = ("box", "positive", "negative") if unmarked == "unknown" else ("box",)
    return [rater for rater, kind in annotations.items() if kind in drawn]


def absent_is_empty(annotation: Annotation) -> bool:
    """Return whether 'drew nothing' says background; who marked nothing has said nothing."""
    return annotation not in ("negative", "scribble")


def chosen(labels: Labels, annotation: Annotation, table: Labels, num_classes: int) -> Labels:
    """Return an explicit drawing in some of its classes.

    Args:
        labels: Class numbers with MISSING.
        annotation: The kind of drawing.
        table: From class numbers to those among the chosen; the others are 0, background.
        num_classes: How many classes are chosen, with background.

    A negative drawing of a class that becomes background rules out nothing any more.

    Example:
        >>> table = np.array([0, 0, 1, -1], np.int16)  # of 0, 1, 2 the class 2 is kept
        >>> drawn = np.array([-1, 1, 2], np.int16)
        >>> [chosen(drawn, kind, table, 2).tolist() for kind in ("positive", "negative")]
        [[-1, 0, 1], [-1, -1, 1]]
    """
    kept = table[labels]
    if annotation == "negative" and num_classes < len(table) - 1:
        return np.where(kept == 0, MISSING, kept).astype(kept.dtype)
    return np.asarray(kept)


def complementary(annotations: Mapping[str, Annotation], num_classes: int) -> tuple[str, ...]:
    """Name the raters whose labels say what a pixel is not: negative drawings of several classes.

    Example:
        >>> kinds = {"ann": "positive", "ben": "negative"}
        >>> complementary(kinds, 2), complementary(kinds, 3)
        ((), ('ben',))
    """
    names = (rater for rater, kind in annotations.items() if kind == "negative")
    return tuple(names) if num_classes > 2 else ()


def refuse_complementary(
    annotations: Mapping[str, Annotation], classes: Sequence[str], what: str
) -> None:
    """Refuse raters whose labels say what a pixel is not, where that cannot be made use of.

    Args:
        annotations: The kinds of the raters.
        classes: The names of the classes, with background.
        what: What cannot make use of them, such as 'staple'.

    Example:
        >>> refuse_complementary({"ben": "negative"}, ["background", "car", "road"], "staple")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found negative drawings of 2 classes by 'ben', expected ...
    """
    found = complementary(annotations, len(classes))
    if not found:
        return
    others = [rater for rater in annotations if rater not in found]
    listed = f" {','.join(others)}" if len(others) <= 5 else ""
    keep = f"leave them out (--raters{listed}), " if others else ""
    raise RatersError(
        f"found negative drawings of {len(classes) - 1} classes by {listing(found, 20, repr)}, "
        f"expected labels that say what a pixel is: {what} cannot use what it is not; {keep}take "
        f"one class at a time (--classes {classes[1]}), or train a method that learns from both "
        "(raters train -m coarse)",
        kind="annotation",
        rater=found[0],
    )


def refuse_one_class(
    said: Sequence[bool],
    classes: Sequence[str],
    annotations: Mapping[str, Annotation],
    unmarked: Unmarked,
) -> None:
    """Refuse drawings that say nothing but one class: nothing stops 'the object is everywhere'.

    Masks are not drawings: where all raters gave masks, one class may well be all that there is.
    Neither are negative drawings of several classes refused, which rule classes out.

    Args:
        said: Whether any label to learn from says each class, `(L,)`.
        classes: The names of the classes.
        annotations: The kinds of the raters.
        unmarked: What unmarked pixels of positive and negative drawings say.

    Example:
        >>> names = ["background", "tumour"]
        >>> refuse_one_class([False, True], names, {"ann": "positive"}, "unknown")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found nothing but 'tumour' in the labels to train on (...
    """
    drawn = told(annotations, unmarked, classes)
    if not drawn or sum(said) != 1 or complementary(annotations, len(classes)):
        return
    only = classes[list(said).index(True)]
    ways = "; ".join(_ways_out(set(annotations.values()), unmarked, only == classes[0]))
    raise RatersError(
        f"found nothing but {only!r} in the labels to train on ({'; '.join(drawn)}), expected "
        f"another class too: nothing stops a network from saying {only!r} everywhere. {ways}",
        kind="annotation",
    )


def _ways_out(kinds: set[Annotation], unmarked: Unmarked, background: bool) -> Iterator[str]:
    """Name what helps where the labels say background alone, or an object alone."""
    drawings = "positive drawings" if background else "negative drawings"
    yield f"Add {drawings}, masks, or scribbles of {'objects' if background else 'background'}"
    if kinds == {"box"}:
        yield "or train a method that looks for objects in boxes (-m box-sup, -m grabcut)"
    if unmarked == "unknown" and kinds & {"positive", "negative"}:
        yield "or let unmarked pixels be the rest (--unmarked rest)"
    yield "or say how much of all pixels is object (-m coarse --share 0.1)"


def told(
    annotations: Mapping[str, Annotation], unmarked: Unmarked, classes: Sequence[str]
) -> list[str]:
    """Return how the drawings of a study are read, a sentence for each kind; none for masks.

    Example:
        >>> kinds = {"ann": "positive", "ben": "negative", "cy": "mask"}
        >>> for sentence in told(kinds, "rest", ["background", "tumour"]):
        ...     print(sentence)
        positive drawings by ann: what is drawn is of its class, all else is background
        negative drawings by ben: what is drawn is background, all else is 'tumour'
    """
    sentences = []
    for kind in ANNOTATIONS[1:]:
        names = [rater for rater, own in annotations.items() if own == kind]
        if names:
            meaning = _meaning(kind, unmarked, classes)
            sentences.append(f"{_CALLED[kind]} by {listing(names, 20)}: {meaning}")
    return sentences


_CALLED: dict[Annotation, str] = {
    "mask": "masks",
    "positive": "positive drawings",
    "negative": "negative drawings",
    "scribble": "scribbles",
    "box": "boxes",
}


def _meaning(kind: Annotation, unmarked: Unmarked, classes: Sequence[str]) -> str:
    if kind == "scribble":
        return "what is marked is of its class, all else says nothing"
    if kind == "box":
        return "what is outside all boxes is background, what is inside says nothing"
    if kind == "positive":
        rest = "is background" if unmarked == "rest" else "says nothing"
        return f"what is drawn is of its class, all else {rest}"
    if len(classes) > 2:
        return "what is drawn is not of that class, all else says nothing"
    rest = f"is {classes[-1]!r}" if unmarked == "rest" else "says nothing"
    return f"what is drawn is background, all else {rest}"


def checked(
    given: Mapping[str, Any], raters: Sequence[str], kind: str = "segmentation"
) -> dict[str, Annotation]:
    """Return the kinds of raters that were given; those of masks need not be.

    Raises:
        RatersError: for a rater or a kind that there is not, and for a table of classes.

    Example:
        >>> checked({"ann": "positive"}, ["ann", "ben"])
        {'ann': 'positive'}
        >>> checked({"ann": "sketch"}, ["ann", "ben"])
        Traceback (most recent call last):
        raters.core.errors.RatersError: found the annotation 'sketch' of rater 'ann', ...
    """
    found: dict[str, Annotation] = {}
    for rater, name in given.items():
        if rater not in raters:
            raise RatersError(
                f"found an annotation of the rater {rater!r} ({name}), "
                f"{expected_one_of(list(raters), rater)}",
                kind="annotation",
            )
        if kind == "classification":
            raise RatersError(
                f"found the annotation {name!r} of rater {rater!r} in a table of class labels, "
                "expected none: kinds of annotation are for masks",
                kind="annotation",
                rater=rater,
            )
        found[rater] = known_annotation(name, f" of rater {rater!r}")
    return found


def known_annotation(name: Any, whose: str = "") -> Annotation:  # noqa: ANN401
    """Return a kind by its name; refuse one that is none."""
    for kind in ANNOTATIONS:
        if name == kind:
            return kind
    expected = expected_one_of(ANNOTATIONS, str(name))
    raise RatersError(f"found the annotation {name!r}{whose}, {expected}", kind="annotation")


def known_unmarked(name: Any) -> Unmarked:  # noqa: ANN401
    """Return what unmarked pixels say, by its name; refuse one that is none."""
    for word in WORDS:
        if name == word:
            return word
    raise RatersError(f"found unmarked={name!r}, expected 'rest' or 'unknown'", kind="annotation")


def names_by_kind(kinds: Mapping[str, Iterable[Annotation]]) -> dict[tuple[str, Annotation], str]:
    """Name a rater for each kind of what they drew: a column of labels has one kind.

    The first of a rater's kinds, in the order of `ANNOTATIONS`, keeps the plain name. A name that
    is taken is refused.

    Example:
        >>> names_by_kind({"ann": ["negative", "positive"], "ben": ["mask"]})
        {('ann', 'positive'): 'ann', ('ann', 'negative'): 'ann [negative]', ('ben', 'mask'): 'ben'}
    """
    names: dict[tuple[str, Annotation], str] = {}
    for rater, found in kinds.items():
        drawn = [kind for kind in ANNOTATIONS if kind in set(found)]
        for k, kind in enumerate(drawn):
            name = f"{rater} [{kind}]" if k else rater
            if k and name in kinds:
                raise RatersError(
                    f"found the rater {name!r} beside {rater!r}, whose {_CALLED[kind]} would be "
                    "called the same, expected another name",
                    kind="annotation",
                    rater=name,
                )
            names[rater, kind] = name
    return names


def refuse_no_box(labels: Labels, classes: Sequence[str]) -> None:
    """Refuse a drawing of boxes that are none.

    Each connected part of a class must fill its bounding box, but for what a box of another class
    covers.

    Args:
        labels: Class numbers with MISSING, as they are drawn.
        classes: The names of the classes.

    Example:
        >>> refuse_no_box(np.array([[1, 1], [0, 1]]), ["background", "car"])
        Traceback (most recent call last):
        raters.core.errors.RatersError: found 3 of 4 pixels of a box of 'car' filled ...
    """
    from scipy.ndimage import find_objects, label

    for c in range(1, len(classes)):
        parts, _ = label(labels == c)
        for k, place in enumerate(find_objects(parts), start=1):
            inside = (parts[place] == k) | ((labels[place] > 0) & (labels[place] != c))
            if not inside.all():
                raise RatersError(
                    f"found {int(inside.sum()):,} of {inside.size:,} pixels of a box of "
                    f"{classes[c]!r} filled ({_place(place)}), expected all of them: the "
                    "annotation is 'box'",
                    kind="annotation",
                )


def _place(place: Sequence[slice]) -> str:
    names = ("rows", "columns") if len(place) == 2 else [f"axis {k}" for k in range(len(place))]
    parts = zip(names, place, strict=True)
    return ", ".join(f"{name} {part.start} to {part.stop - 1}" for name, part in parts)
