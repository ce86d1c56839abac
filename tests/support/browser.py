"""Open a page in a real browser without a window, let a script use it, and read what it found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = (
    f"found no browser, expected one of {', '.join(NAMES)} (on Debian: apt-get install chromium)"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_WRAPPED = """(async () => {{
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const until = async (holds) => {{
    for (let k = 0; k < 100 && !holds(); k += 1) await wait(20);
    if (!holds()) throw new Error("timed out waiting for " + holds);
  }};
  const answer = {{}};
  try {{ {script} }} catch (error) {{ answer.failed = String(error.stack); }}
  const pre = document.createElement("pre");
  pre.id = "test-answer";
  pre.textContent = JSON.stringify(answer);
  document.body.append(pre);
}})();"""


@dataclass(frozen=True)
class Visit:
    """What came of a visit: the answer of the script, and the lines of the console."""

    answer: dict[str, Any]
    console: list[str]


def browser() -> str | None:
    """Return the path of an installed browser."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def visit(page: str, script: str, folder: Path, width: int = 1280) -> Visit:
    """Open a page and run a script in it, which fills the object `answer`.

    The page's policy allows no scripts but its own, so the hash of this one is added to it.
    """
    program = browser()
    assert program is not None, MISSING
    wrapped = _WRAPPED.format(script=script)
    digest = b64encode(sha256(wrapped.encode()).digest()).decode()
    assert "script-src " in page, "found no policy for scripts, expected one"
    allowed = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    copy = folder / "visited.html"
    copy.write_text(allowed.replace("</body>", f"<script>{wrapped}</script></body>"), "utf-8")
    profile = tempfile.mkdtemp(prefix="profile-", dir=folder)
    command = [program, *FLAGS, "--enable-logging=stderr"]
    command += [f"--user-data-dir={profile}", f"--window-size={width},900"]
    command += ["--virtual-time-budget=20000", "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    found = re.search(r'<pre id="test-answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the script gave no answer: {done.stderr[-2000:]}"
    answer = json.loads(unescape(found[1]))
    assert "failed" not in answer, answer["failed"]
    return Visit(answer, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
