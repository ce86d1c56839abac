"""`lazy-snapping` (and `grabcut`): masks from marks and images first, then a network on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raters.methods.region_method import refuse_one_class
from raters.methods.supervised import FusedMethod

if TYPE_CHECKING:
    from raters.study.study import Study


class FromMarks(FusedMethod):
    """Makes masks from marks of two classes or more, then trains on the masks."""

    def prepare(self, study: Study) -> None:
        """Refuse marks that tell nothing apart."""
        refuse_one_class(study, self.options.fusion)
        super().prepare(study)
