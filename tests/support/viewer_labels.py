"""What the viewer of a report holds of a case, and its labels, decoded again."""

from __future__ import annotations

import zlib
from base64 import b64decode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.study.study import Study
from raters.views.report.case_view import viewer_case
from raters.views.report.viewer import ViewerCase


def labels_by_layer(case: ViewerCase) -> dict[str, NDArray[Any]]:
    """Return the class numbers `(slices, rows, columns)` of all layers."""
    found = {}
    for one in case.labels:
        kind = np.uint8 if len(one.patterns) <= 256 else np.dtype("<u2")
        index = np.frombuffer(zlib.decompress(b64decode(one.data)), kind).reshape(case.shape)
        for place, name in enumerate(one.layers):
            found[name] = np.array([pattern[place] for pattern in one.patterns])[index]
    return found


def view_case(study: Study, case: int = 0, **options: Any) -> ViewerCase:
    """Return what the viewer of a report shows of a case."""
    return viewer_case(
        study[case], study.raters, study.classes.names, channels=study.channels, **options
    )
