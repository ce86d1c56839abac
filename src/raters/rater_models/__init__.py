"""Confusion as torch modules, and the likelihood that all of them share."""

from raters.rater_models.complement import CoarseRaters, ComplementConfusion, log_transitions
from raters.rater_models.confusion import (
    Confusion,
    PixelConfusion,
    Seen,
    SharedConfusion,
    log_column,
)
from raters.rater_models.likelihood import (
    FORMS,
    from_listing,
    listing_trace,
    log_likelihood,
    negative_log_likelihood,
    pixel_weights,
    posterior,
    prior_term,
    sum_and_count,
    trace_term,
)
from raters.rater_models.low_rank import LowRankConfusion, product_of
from raters.rater_models.models import (
    FixedRaters,
    GlobalRaters,
    LowRankRaters,
    PixelRaters,
    ProductRaters,
    RaterModel,
)
from raters.rater_models.start import near_identity_logits

__all__ = [
    "FORMS",
    "CoarseRaters",
    "ComplementConfusion",
    "Confusion",
    "FixedRaters",
    "GlobalRaters",
    "LowRankConfusion",
    "LowRankRaters",
    "PixelConfusion",
    "PixelRaters",
    "ProductRaters",
    "RaterModel",
    "Seen",
    "SharedConfusion",
    "from_listing",
    "listing_trace",
    "log_column",
    "log_likelihood",
    "log_transitions",
    "near_identity_logits",
    "negative_log_likelihood",
    "pixel_weights",
    "posterior",
    "prior_term",
    "product_of",
    "sum_and_count",
    "trace_term",
]
