"""Confusion matrices as numbers: `C[t, o] = p(observed o | true t)`, rows sum to one."""

from raters.confusion.counts import (
    Patterns,
    count,
    count_answers,
    count_case,
    count_patterns,
    count_triplets,
    normalise,
    pool,
)
from raters.confusion.matrices import (
    dominance_margin,
    from_crowdkit,
    from_itk,
    from_sklearn,
    from_transpose,
    is_dominant,
    root_mean_square,
    squared_frobenius,
    to_crowdkit,
    to_transpose,
)

__all__ = [
    "Patterns",
    "count",
    "count_answers",
    "count_case",
    "count_patterns",
    "count_triplets",
    "dominance_margin",
    "from_crowdkit",
    "from_itk",
    "from_sklearn",
    "from_transpose",
    "is_dominant",
    "normalise",
    "pool",
    "root_mean_square",
    "squared_frobenius",
    "to_crowdkit",
    "to_transpose",
]
