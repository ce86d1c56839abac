"""A checkout of raters, and a folder in which its commands are run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from same_results.commands import Command

SERVER = Path(__file__).with_name("serve.py")


class Tree:
    """A checkout: its hash, and the environment in which its packages are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.hash = self._hash()

    def _hash(self) -> str:
        """Hash names and contents of all files of all packages, and pyproject.toml."""
        digest = hashlib.sha256()
        for path in [self.folder / "pyproject.toml", *sorted((self.folder / "src").rglob("*"))]:
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            name = path.relative_to(self.folder).as_posix()
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
        return digest.hexdigest()

    def environment(self, metadata: Path, caches: Path) -> dict[str, str]:
        """Return the environment of its commands; nothing is written into the checkout.

        Args:
            metadata: A folder for the distribution's metadata, as an installation writes them.
            caches: A folder for compiled code.
        """
        self._write_metadata(metadata)
        return {
            **os.environ,
            "PYTHONPATH": f"{metadata}{os.pathsep}{self.folder / 'src'}",
            "PYTHONPYCACHEPREFIX": str(caches / "python"),
            "NUMBA_CACHE_DIR": str(caches / "numba"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }

    def _write_metadata(self, metadata: Path) -> None:
        """Write the entry points of this checkout where they hide those of the installed one.

        `importlib.metadata` takes the first distribution of a name along the path, and so finds
        verbs, methods and formats of this checkout, and not those of the editable installation.
        """
        project = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))["project"]
        groups = {**project.get("entry-points", {}), "console_scripts": project.get("scripts", {})}
        lines = []
        for group, entries in groups.items():
            lines.append(f"[{group}]")
            lines += [f"{name} = {target}" for name, target in entries.items()]

        folder = metadata / f"{project['name']}-0.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n"
        (folder / "METADATA").write_text(head, "utf-8")
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    key: str
    code: int
    last_line: str
    seconds: float


class Side:
    """A checkout and the folder that its commands write to.

    Args:
        tree: The checkout.
        folder: The working folder.
        origin: Another side, whose results the commands go on with; they are copied first.
    """

    def __init__(self, tree: Tree, folder: Path, origin: Side | None = None) -> None:
        self.tree = tree
        self.folder = folder.resolve()
        self.origin = origin
        self.keys: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        (self.folder / "terminal").mkdir(parents=True, exist_ok=True)
        (self.folder / "done").mkdir(exist_ok=True)

    def printed(self, name: str, stream: str) -> Path:
        """Return the file with what a command printed; `stream` is out or err."""
        return self.folder / "terminal" / f"{name.replace('/', '.')}.{stream}"

    def run(self, command: Command) -> Ended:
        """Run a command, unless this checkout has run it on the same inputs before."""
        key = self._key(command)
        self.keys[command.name] = key
        record = self.folder / "done" / f"{command.name.replace('/', '.')}.json"
        if record.exists():
            known = Ended(**json.loads(record.read_text()))
            if known.key == key and known.code in command.codes:
                return known

        result = self.folder / command.name
        shutil.rmtree(result, ignore_errors=True)
        result.parent.mkdir(parents=True, exist_ok=True)
        if command.goes_on_with:
            shutil.copytree(self._copied(command.goes_on_with), result, symlinks=True)
        for name in command.reads:
            if name not in self.keys:
                self._copied(name)

        answer = self._ask(command)
        errors = self.printed(command.name, "err").read_text("utf-8").strip().splitlines()
        ended = Ended(key, answer["code"], "".join(errors[-1:]), answer["seconds"])
        record.write_text(json.dumps(vars(ended)))
        return ended

    def close(self) -> None:
        """End the process that runs the commands."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _key(self, command: Command) -> str:
        """Return what the result of a command depends on, as a hash."""
        origin = {} if self.origin is None else self.origin.keys
        known = {**origin, **self.keys}
        inputs = [known[name] for name in (*command.reads, command.goes_on_with) if name in known]
        parts = [self.tree.hash, command.words, command.until, str(command.signal), *inputs]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _copied(self, name: str) -> Path:
        """Return this side's copy of a result of the origin; make it if it is old or absent."""
        assert self.origin is not None, f"{name} is not made by a command before"
        copy = self.folder / name
        record = self.folder / "done" / f"copy.{name.replace('/', '.')}"
        key = self.origin.keys[name]
        if not record.exists() or record.read_text() != key:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.origin.folder / name, copy, symlinks=True)
            record.write_text(key)
        return copy

    def _ask(self, command: Command) -> dict[str, Any]:
        """Have the command run by the process that has the libraries imported."""
        if self._process is None:
            metadata = self.folder / "metadata"
            environment = self.tree.environment(metadata, self.folder / "caches")
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(SERVER), str(self.tree.folder)],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        request: dict[str, Any] = {
            "words": command.arguments,
            "out": str(self.printed(command.name, "out")),
            "err": str(self.printed(command.name, "err")),
        }
        if command.until:
            request["until"] = f"{command.name}/{command.until}"
            request["signal"] = int(command.signal)

        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.tree.folder}: its process ended, see the errors above")
        answer: dict[str, Any] = json.loads(line)
        return answer
