"""Confusion as torch modules, and the likelihood that all of them share."""

from raters.learning.rater_models.complement import CoarseRaters as CoarseRaters
from raters.learning.rater_models.complement import ComplementConfusion as ComplementConfusion
from raters.learning.rater_models.complement import log_transitions as log_transitions
from raters.learning.rater_models.confusion import Confusion as Confusion
from raters.learning.rater_models.confusion import PixelConfusion as PixelConfusion
from raters.learning.rater_models.confusion import Seen as Seen
from raters.learning.rater_models.confusion import SharedConfusion as SharedConfusion
from raters.learning.rater_models.confusion import log_column as log_column
from raters.learning.rater_models.likelihood import FORMS as FORMS
from raters.learning.rater_models.likelihood import from_listing as from_listing
from raters.learning.rater_models.likelihood import listing_trace as listing_trace
from raters.learning.rater_models.likelihood import log_likelihood as log_likelihood
from raters.learning.rater_models.likelihood import (
    negative_log_likelihood as negative_log_likelihood,
)
from raters.learning.rater_models.likelihood import pixel_weights as pixel_weights
from raters.learning.rater_models.likelihood import posterior as posterior
from raters.learning.rater_models.likelihood import prior_term as prior_term
from raters.learning.rater_models.likelihood import sum_and_count as sum_and_count
from raters.learning.rater_models.likelihood import trace_term as trace_term
from raters.learning.rater_models.low_rank import LowRankConfusion as LowRankConfusion
from raters.learning.rater_models.low_rank import product_of as product_of
from raters.learning.rater_models.models import FixedRaters as FixedRaters
from raters.learning.rater_models.models import GlobalRaters as GlobalRaters
from raters.learning.rater_models.models import LowRankRaters as LowRankRaters
from raters.learning.rater_models.models import PixelRaters as PixelRaters
from raters.learning.rater_models.models import ProductRaters as ProductRaters
from raters.learning.rater_models.models import RaterModel as RaterModel
from raters.learning.rater_models.start import near_identity_logits as near_identity_logits
