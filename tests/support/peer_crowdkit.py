"""crowd-kit in an environment of its own, asked through JSON: it declares transformers and more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

REQUIREMENTS = Path(__file__).with_name("crowdkit.txt")

_SCRIPT = """
import json
import sys
import pandas as pd
from crowdkit import aggregation

answers = []
for job in json.load(sys.stdin):
    method = getattr(aggregation, job["method"])(**job["options"])
    method.fit(pd.DataFrame(job["table"]))
    answers.append({
        "tasks": method.probas_.index.tolist(),
        "classes": method.probas_.columns.tolist(),
        "probabilities": method.probas_.to_numpy().tolist(),
        "labels": method.labels_.loc[method.probas_.index].tolist(),
    })
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Job:
    """A method of crowd-kit, and the table of tasks, workers and labels that it is fitted to."""

    method: str
    table: pd.DataFrame
    options: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What crowd-kit says of the tasks of a job."""

    probabilities: pd.DataFrame
    labels: pd.Series

    def truth(self, tasks: NDArray[Any], classes: int) -> NDArray[np.float64]:
        """Return the probabilities of some tasks, `(tasks, classes)`."""
        return self.probabilities.loc[tasks, list(range(classes))].to_numpy()


def install(root: Path) -> Path:
    """Return the Python that has crowd-kit; it is installed unless it is there already."""
    folder = root / ".venv-crowdkit"
    python = folder / "bin" / "python"
    installed = folder / "installed.txt"
    wanted = REQUIREMENTS.read_text("utf-8")
    if installed.exists() and installed.read_text("utf-8") == wanted:
        return python

    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
    installed.write_text(wanted, "utf-8")
    return python


def fit(root: Path, jobs: Sequence[Job]) -> list[Answer]:
    """Fit each method to its table, all in one process."""
    asked = [
        {
            "method": job.method,
            "options": job.options,
            "table": {name: column.tolist() for name, column in job.table.items()},
        }
        for job in jobs
    ]
    done = subprocess.run(
        [install(root), "-W", "ignore", "-c", _SCRIPT],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    answers = []
    for said in json.loads(done.stdout):
        frame = pd.DataFrame(said["probabilities"], said["tasks"], said["classes"])
        answers.append(Answer(frame, pd.Series(said["labels"], said["tasks"])))
    return answers
