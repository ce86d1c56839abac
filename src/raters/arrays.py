"""Short names of array types, for signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.int16]
"""Class numbers with MISSING."""
