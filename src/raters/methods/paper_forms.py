"""The options that make a method what its paper describes: `form='paper'`; no torch is needed.

What papers leave open is chosen here, and stated: it should not be taken for theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GLOBAL_PAPER: Mapping[str, Any] = {
    "likelihood": "marginal",  # eq. 2 and 3
    "trace": 0.01,  # appendix A
    "trace_over": "listing",  # F.1
    "warm_up": 0,
    "positivity": "softplus",  # F.2
    "start": "listing",  # F.2: 6 I - 5
}
"""`global-cm` of Tanno et al. (2019): eq. 4 as their listings (appendix F) have it.

The matrices learn at the rate of the network (`confusion_lr_scale=1`)."""

SINGLE_PAPER: Mapping[str, Any] = {**GLOBAL_PAPER, "on": "vote"}
"""`single-cm` as the baseline of Tanno et al. (2019), section 3.3: on the vote, with the trace."""

PIXEL_PAPER: Mapping[str, Any] = {
    "likelihood": "marginal",  # eq. 1 to 3
    "trace": 0.01,  # ours: the paper sweeps 0 to 0.9 and names none
    "trace_over": "all",  # eq. 4
    "prior": 0.0,
    "warm_up": 2,  # ours: the paper says 'sufficient iterations'
    # Section 3.4. Two epochs of a small study do not bring random matrices to the identity, which
    # is what it is for: here they also start near it (`right`).
    "warm_up_on": "trace",
    "annotator": "cnn",  # section 3.2, appendix A.2
    "positivity": "softplus",  # ours: that of Tanno et al. (2019); the paper names none
}
"""`pixel-cm` of Zhang et al. (2020)."""

LOW_RANK_PAPER: Mapping[str, Any] = {
    **{name: value for name, value in PIXEL_PAPER.items() if name != "prior"},
    "factors": "product",  # appendix A.4
    "rank": 2,  # ours: theirs is 1, where rows are all equal and the truth network learns nothing
}
"""`low-rank-cm` of Zhang et al. (2020), appendix A.4."""
