"""How fast and in how much memory a table of 20 million labels opens, as CSV and as Parquet.

Run it as `python benchmarks/table_memory.py [LABELS]`. Each reader has a process of its own, and
the peak of its resident memory is what Linux measured. What a process needs for importing is
part of it; the line `import` says how much that is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

BLOCK = 1_000_000
READERS = {
    "import": "import pandas, raters.study.tables",
    "raters csv": "from raters.study.tables import read_table; read_table('{csv}')",
    "raters parquet": "from raters.study.tables import read_table; read_table('{parquet}')",
    "pandas csv": "import pandas; pandas.read_csv('{csv}')",
    "pandas parquet": "import pandas; pandas.read_parquet('{parquet}')",
}
# Not getrusage for memory: its peak starts with that of the process that started this one.
MEASURE = """
import os
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], os.times().user)"""


def write(folder: Path, labels: int) -> dict[str, Path]:
    """Write one random table in both formats: ten labels a task, 5,000 workers, 10 classes."""
    files = {"csv": folder / "labels.csv", "parquet": folder / "labels.parquet"}
    schema = pa.schema([("task", pa.string()), ("worker", pa.string()), ("label", pa.int8())])
    rng = np.random.default_rng(0)
    with (
        pa_csv.CSVWriter(files["csv"], schema) as csv,
        pq.ParquetWriter(files["parquet"], schema) as parquet,
    ):
        for start in range(0, labels, BLOCK):
            size = min(BLOCK, labels - start)
            table = pa.table(
                {
                    "task": _names("task-", rng.integers(max(1, labels // 10), size=size)),
                    "worker": _names("w", rng.integers(5000, size=size)),
                    "label": pa.array(rng.integers(10, size=size), pa.int8()),
                }
            )
            csv.write_table(table)
            parquet.write_table(table)
    return files


def _names(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(np.char.add(prefix, numbers.astype(str)), pa.string())


def measure(code: str) -> tuple[float, float, float]:
    """Run code in a process of its own; give seconds, those of user CPU time, and peak GB."""
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", code + MEASURE], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    peak, user = run.stdout.split()
    return seconds, float(user), int(peak) * 1024 / 1e9


def main() -> None:
    """Print a line a reader, and how raters compares with pandas."""
    labels = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), labels)
        sizes = ", ".join(
            f"{kind} {file.stat().st_size / 1e6:.0f} MB" for kind, file in files.items()
        )
        print(f"{labels:,} labels of {labels // 10:,} tasks ({sizes})")
        peaks = {}
        for name, code in READERS.items():
            seconds, user, peaks[name] = measure(code.format(**files))
            print(f"{name:15} {seconds:6.1f} s  user {user:6.1f} s  peak {peaks[name]:5.2f} GB")
    for kind in files:
        ratio = peaks[f"raters {kind}"] / peaks[f"pandas {kind}"]
        print(f"peak memory, raters / pandas, {kind}: {ratio:.2f}")


if __name__ == "__main__":
    main()
