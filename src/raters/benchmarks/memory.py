"""The most memory that a process held while it did one thing."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Forget the peak so far; where the system cannot, the peak is that of the whole process."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak_memory() -> float:
    """Return the peak in MB since `reset_peak`.

    Example:
        >>> reset_peak()
        >>> peak_memory() > 1
        True
    """
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
