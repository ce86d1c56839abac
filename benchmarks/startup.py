"""How long `raters --help` takes, beside an empty Python and an import of numpy and pandas.

Run it as `python benchmarks/startup.py [RUNS]`. The best of all runs counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "raters --help": [str(Path(sys.executable).with_name("raters")), "--help"],
    "raters check --help": [str(Path(sys.executable).with_name("raters")), "check", "--help"],
    "import numpy, pandas": [sys.executable, "-c", "import numpy, pandas"],
}


def best(command: list[str], runs: int) -> float:
    """Run a command some times; give the seconds of the fastest run."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    """Print a line a command."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    found = {name: best(command, runs) for name, command in COMMANDS.items()}
    for name, seconds in found.items():
        print(f"{name:21} {seconds:6.3f} s")
    ratio = found["raters --help"] / found["python -c pass"]
    print(f"raters --help / empty Python: {ratio:.1f}")


if __name__ == "__main__":
    main()
