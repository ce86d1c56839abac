"""Tests of fetching: resuming after a cut, checksums, servers that refuse, and no network."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import raters
from raters import RatersError
from raters.datasets import DATASETS, Download, fetch, prepare
from raters.datasets import files as download_module
from tests.support.datasets import MADE, mnist

CONTENT = np.random.default_rng(0).integers(0, 256, 700_000, np.uint8).tobytes()
CUT = 300_000


class Handler(BaseHTTPRequestHandler):
    """Serves files from memory; the first folder of the address says how."""

    files: dict[str, bytes]
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        _, how, name = self.path.split("/", 2)
        wanted = self.headers.get("Range")
        self.seen.append((how, wanted))
        if how == "refuse" or name not in self.files:
            self.send_error(404)
            return
        content = self.files[name]
        start = int(wanted[6:-1]) if wanted and how != "plain" else 0
        if wanted and how != "plain":
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + CUT if how in ("cut", "plain") and start + CUT < len(content) else None
        if how == "plain" and len(self.seen) > 1:
            end = None
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        """Report nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files = {"a.bin": CONTENT}
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


def make_download(address: str, content: bytes = CONTENT, kind: str = "sha256") -> Download:
    digest = hashlib.new(kind, content).hexdigest()
    return Download(address, address.rpartition("/")[2], f"{kind}:{digest}", len(content))


def test_whole_file(server: str, tmp_path: Path) -> None:
    path = fetch(make_download(f"{server}/good/a.bin", kind="md5"), tmp_path / "new", progress=True)
    assert path == tmp_path / "new/a.bin" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]
    fetch(make_download(f"{server}/good/a.bin"), tmp_path / "new")
    assert Handler.seen == [("good", None)]  # a file that is there is left alone


def test_goes_on_after_a_cut(server: str, tmp_path: Path) -> None:
    fetch(make_download(f"{server}/cut/a.bin"), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert Handler.seen == [("cut", None), ("cut", f"bytes={CUT}-"), ("cut", f"bytes={2 * CUT}-")]


def test_goes_on_in_a_later_call(server: str, tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="300,000 of 700,000 bytes came"):
        fetch(make_download(f"{server}/cut/a.bin"), tmp_path, tries=1)
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin.part"]
    fetch(make_download(f"{server}/good/a.bin"), tmp_path)
    assert Handler.seen[-1] == ("good", f"bytes={CUT}-")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_server_that_knows_no_ranges(server: str, tmp_path: Path) -> None:
    fetch(make_download(f"{server}/plain/a.bin"), tmp_path)
    assert Handler.seen == [("plain", None), ("plain", f"bytes={CUT}-")]
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_wrong_checksum_is_not_kept(server: str, tmp_path: Path) -> None:
    expected = make_download(f"{server}/good/a.bin", CONTENT[:-1] + b"x")
    with pytest.raises(RatersError, match=r"a.bin: found sha256 .* expected .* not kept") as caught:
        fetch(expected, tmp_path)
    assert caught.value.kind == "checksum" and not list(tmp_path.iterdir())


def test_rest_of_another_file_does_not_stay(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"x" * 800_000)
    fetch(make_download(f"{server}/good/a.bin"), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_file_that_is_too_long(server: str, tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="500,001 of 500,000 bytes came"):
        fetch(make_download(f"{server}/good/a.bin", CONTENT[:500_000]), tmp_path, tries=2)
    assert not (tmp_path / "a.bin").exists()


def test_refused(server: str, tmp_path: Path) -> None:
    address = f"{server}/refuse/a.bin"
    with pytest.raises(RatersError, match="could not be fetched") as caught:
        fetch(make_download(address), tmp_path)
    for word in ("Not Found", address, "700,000 bytes", str(tmp_path / "a.bin")):
        assert word in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_offline(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/a.bin"
        with pytest.raises(RatersError, match=r"could not be fetched .*refused") as caught:
            fetch(make_download(address), tmp_path)
    assert address in str(caught.value) and not list(tmp_path.iterdir())


def test_silent_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "TIMEOUT", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/a.bin"
        with pytest.raises(RatersError, match="timed out"):
            fetch(make_download(address), tmp_path, tries=2)


def test_only_http(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(CONTENT)
    with pytest.raises(RatersError, match="expected http or https"):
        fetch(make_download((tmp_path / "a.bin").as_uri()), tmp_path / "other")


def test_prepare_fetches_what_is_not_there(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mnist(tmp_path)
    Handler.files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    items = tuple(make_download(f"{server}/good/{n}", c) for n, c in Handler.files.items())
    changed = DATASETS["mnist"].__class__(**{**vars(DATASETS["mnist"]), "downloads": items})
    monkeypatch.setitem(DATASETS, "mnist", changed)
    prepare("mnist", tmp_path / "fetched", tmp_path / "study", download=True)
    MADE["mnist"][1](raters.read(tmp_path / "study"))
    prepare("mnist", tmp_path / "fetched", tmp_path / "study", download=True)
    assert len(Handler.seen) == 4


def test_prepare_says_what_is_fetched_by_hand(tmp_path: Path) -> None:
    with pytest.raises(RatersError, match="lidc must be fetched by hand") as caught:
        prepare("lidc", tmp_path / "lidc", tmp_path / "study", download=True)
    for word in (DATASETS["lidc"].where, "CC BY 3.0", "Expected for lidc:"):
        assert word in str(caught.value)
    assert not list(tmp_path.iterdir())
