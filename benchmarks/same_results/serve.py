"""Runs commands of one checkout: imports the libraries once, then forks for each command.

    python -P serve.py TREE

Each line of the standard input is a request in JSON: `words` after `raters`, the files `out` and
`err` for what the command prints, and, where the command is to be killed, the file `until` and the
number of a `signal`, which is sent as soon as that file is there. The answer is a line of JSON:
exit code (negative: killed by this signal) and CPU seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve the requests of the standard input."""
    tree = Path(sys.argv[1]).resolve()

    # Libraries only: what is imported before the fork is not imported again by each command.
    import monai.networks.nets  # noqa: F401
    import torch  # noqa: F401

    import raters.cli

    _refuse_other_trees(tree)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(raters.cli.main, request, tree)

        if "until" in request:
            _kill(child, Path(request["until"]), request["signal"])
        _, status, usage = os.wait4(child, 0)
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": round(usage.ru_utime + usage.ru_stime, 2),
        }
        print(json.dumps(answer), flush=True)


def _run(raters_main: Any, request: dict[str, Any], tree: Path) -> None:  # noqa: ANN401
    """Run one command in this process, which ends with it."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(request["out"], flags), 1)
    os.dup2(os.open(request["err"], flags), 2)
    sys.argv = ["raters", *request["words"]]
    try:
        raters_main()
    finally:
        _refuse_other_trees(tree)
    sys.exit()


def _kill(child: int, until: Path, signal: int) -> None:
    """Send a signal to a process once a file is there; do nothing if it ends before."""
    while not until.exists():
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return
        time.sleep(0.005)
    os.kill(child, signal)


def _refuse_other_trees(tree: Path) -> None:
    """End if a package of raters was imported from another place than the tree.

    An editable installation adds its own `src` to the path: what this tree does not have would
    be found there.
    """
    for name, module in list(sys.modules.items()):
        package = name.partition(".")[0]
        file = getattr(module, "__file__", None)
        of_raters = package == "raters" or package.startswith("raters_")
        if of_raters and file is not None and not Path(file).resolve().is_relative_to(tree):
            sys.exit(f"found {name} in {file}, expected it in {tree}")


if __name__ == "__main__":
    main()
