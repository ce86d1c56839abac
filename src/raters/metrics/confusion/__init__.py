"""Confusion matrices as numbers: `C[t, o] = p(observed o | true t)`, rows sum to one."""

from raters.metrics.confusion.counts import Patterns as Patterns
from raters.metrics.confusion.counts import count as count
from raters.metrics.confusion.counts import count_answers as count_answers
from raters.metrics.confusion.counts import count_case as count_case
from raters.metrics.confusion.counts import count_patterns as count_patterns
from raters.metrics.confusion.counts import count_triplets as count_triplets
from raters.metrics.confusion.counts import normalise as normalise
from raters.metrics.confusion.counts import pool as pool
from raters.metrics.confusion.matrices import dominance_margin as dominance_margin
from raters.metrics.confusion.matrices import from_crowdkit as from_crowdkit
from raters.metrics.confusion.matrices import from_itk as from_itk
from raters.metrics.confusion.matrices import from_sklearn as from_sklearn
from raters.metrics.confusion.matrices import from_transpose as from_transpose
from raters.metrics.confusion.matrices import is_dominant as is_dominant
from raters.metrics.confusion.matrices import matrix_skills as matrix_skills
from raters.metrics.confusion.matrices import root_mean_square as root_mean_square
from raters.metrics.confusion.matrices import squared_frobenius as squared_frobenius
from raters.metrics.confusion.matrices import to_crowdkit as to_crowdkit
from raters.metrics.confusion.matrices import to_transpose as to_transpose
