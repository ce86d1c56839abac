"""Which columns of a table name the task, the rater, the label and the truth, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROLES = ("task", "worker", "label")

_TASK = {
    *("task", "item", "image", "img", "case", "question", "document", "doc", "sentence", "example"),
    *("instance", "sample", "song", "audio", "file", "filename", "path", "unit", "video", "tweet"),
    *("post", "url", "object", "slide", "record", "scan", "text", "comment", "picture", "photo"),
}
_WEAK_TASK = {"patient", "subject", "study", "id", "hit"}
"""Words that name the task only where no other column does."""

_WORKER = {
    *("worker", "annotator", "rater", "observer", "labeler", "labeller", "coder", "reader", "user"),
    *("judge", "grader", "turker", "contributor", "expert", "reviewer", "radiologist", "doctor"),
    *("assessor", "evaluator", "participant", "pathologist", "crowdworker"),
}
_LABEL = {
    *("label", "answer", "class", "diagnosis", "category", "response", "rating", "annotation"),
    *("judgment", "judgement", "choice", "vote", "grade", "verdict", "decision"),
}
_TRUTH = {
    *("truth", "true", "gold", "gt", "groundtruth", "reference", "correct", "goldstandard"),
    *("gold_standard", "expected"),
}
_SAYS_NOTHING = {"id", "name", "no", "number", "key", "index", "code", "pred", "the", "of", "given"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_FORM_PREFIXES = {"input": "task", "answer": "label"}
"""What crowd platforms put in front of the columns that were shown, and of what was answered."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they hold.

    Attributes:
        found: By role ('task', 'worker', 'label', 'truth') the columns that may hold it.
    """

    found: Mapping[str, tuple[str, ...]]

    def only(self, role: str) -> str | None:
        """Return the column of a role, if there is exactly one."""
        names = self.found[role]
        return names[0] if len(names) == 1 else None

    @property
    def is_complete(self) -> bool:
        """Whether task, rater and label are each told by one column."""
        return all(self.only(role) is not None for role in ROLES)


def guess_columns(names: Sequence[str], known: Mapping[str, str | None]) -> Columns:
    """Return what the columns of a table hold.

    Args:
        names: The columns.
        known: The columns that are known by role.

    Example:
        >>> names = ["WorkerId", "Input.song", "Input.true_label", "Answer.pred_label"]
        >>> guess_columns(names, {}).found["label"], guess_columns(names, {}).only("truth")
        (('Answer.pred_label',), 'Input.true_label')
    """
    taken = {name for name in known.values() if name is not None}
    free = [name for name in names if name not in taken and names.count(name) == 1]
    found: dict[str, tuple[str, ...]] = {}
    for role in (*ROLES, "truth"):
        name = known.get(role)
        found[role] = _of_role(free, role) if name is None else (name,)
    return Columns(found)


def _of_role(names: Sequence[str], role: str) -> tuple[str, ...]:
    """Return the columns of a role: those that say nothing else, else those that also say it."""
    ranked = {name: _rank(name, role) for name in names}
    best = max(ranked.values(), default=0)
    return tuple(name for name, rank in ranked.items() if rank == best and rank > 0)


def _rank(name: str, role: str) -> int:
    """Return how clearly a name says a role: 0 is not at all."""
    prefix, words = _words(name)
    if any(word in _TRUTH for word in words):
        return 3 if role == "truth" else 0
    said = [word for word in words if word not in _SAYS_NOTHING]
    if not said:
        is_plain_id = role == "task" and words == ["id"]
        return 1 if is_plain_id or prefix == role else 0
    last = _role_of(said[-1])
    if last == role:
        is_weak = role == "task" and said[-1] in _WEAK_TASK
        plain = 2 if len(said) == 1 else 0
        return 1 if is_weak else 4 + plain + (prefix == role)
    unknown = last is None and len(said) == 1
    return 3 if unknown and prefix == role else 0


def _role_of(word: str) -> str | None:
    for role, words in (
        ("task", _TASK | _WEAK_TASK),
        ("worker", _WORKER),
        ("label", _LABEL),
    ):
        if word in words or (word.endswith("s") and word[:-1] in words):
            return role
    return None


def _words(name: str) -> tuple[str | None, list[str]]:
    """Return what the prefix of a form says, and the words after it."""
    front, dot, rest = name.partition(".")
    prefix = _FORM_PREFIXES.get(front.strip().lower()) if dot else None
    text = rest if prefix is not None else name
    return prefix, [word.lower() for word in _WORDS.findall(text)]


def rater_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are numbered raters, as in human1, human2, human3.

    Example:
        >>> rater_columns(["path", "class", "human1", "human2"])
        ('human1', 'human2')
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        start = name.rstrip("0123456789")
        if start and start != name:
            groups.setdefault(start, []).append(name)
    several = [group for group in groups.values() if len(group) > 1]
    return tuple(several[0]) if len(several) == 1 else ()
