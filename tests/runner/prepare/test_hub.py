"""Models from a hub, against a stand-in that speaks the hub's HTTP on this machine. The public hub is never asked."""

from __future__ import annotations

import hashlib
import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.model import Fault, ModelRef
from runner.prepare.hub import fetch

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b'{"model_type": "tiny"}', "sub/weights.bin": b"\x00\x01\x02" * 100}


@dataclass
class Hub:
    """What the stand-in holds, and what it was asked."""

    address: str = ""
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, "v1": COMMIT, COMMIT: COMMIT})
    refuses: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a path without its query."""
        parts = path.strip("/").split("/")
        if self.refuses:
            return (
                self.refuses,
                {"X-Error-Code": "GatedRepo", "X-Error-Message": "ask for access first"},
                b"{}",
            )
        match parts:
            case ["api", "models", "org", "tiny", *rest]:
                return self._api(rest)
            case ["org", "tiny", "resolve", commit, *name] if commit in self.revisions:
                data = FILES.get("/".join(name))
                if data is not None:
                    tag = hashlib.sha1(data, usedforsecurity=False).hexdigest()
                    return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, data
        return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"

    def _api(self, rest: list[str]) -> tuple[int, dict[str, str], bytes]:
        match rest:
            case []:
                return self._info("main")
            case ["revision", revision]:
                return self._info(revision)
            case ["tree", revision, *_] if revision in self.revisions:
                tree = [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in FILES.items()
                ]
                return 200, {}, json.dumps(tree).encode()
        return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"

    def _info(self, revision: str) -> tuple[int, dict[str, str], bytes]:
        if revision not in self.revisions:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        siblings = [{"rfilename": name, "size": self.sizes.get(name, len(FILES[name]))} for name in FILES]
        info = {"id": "org/tiny", "modelId": "org/tiny", "sha": COMMIT, "siblings": siblings, "tags": []}
        return 200, {}, json.dumps(info | {"private": False, "downloads": 0, "likes": 0}).encode()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on a port of this machine, gone after the test."""
    held = Hub()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self, *, body: bool) -> None:
            held.asked.append(f"{self.command} {self.path}")
            status, headers, data = held.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def do_GET(self) -> None:
            self._reply(body=True)

        def do_HEAD(self) -> None:
            self._reply(body=False)

        def log_message(self, *_: object) -> None:
            """Nothing: the test has ``asked``."""

    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def model(revision: str | None = None) -> ModelRef:
    return ModelRef(name="mine", hub="org/tiny", revision=revision)


@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_a_revision_is_resolved_to_a_commit_and_its_files_are_hashed(
    hub: Hub, tmp_path: Path, revision: str | None
) -> None:
    made = fetch(model(revision), tmp_path, endpoint=hub.address)
    assert (made.name, made.source, made.revision) == ("mine", "hub org/tiny", COMMIT)
    folder = Path(made.path)
    assert folder == tmp_path / f"org--tiny@{COMMIT[:20]}"
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o644 for name in FILES)
    assert fetch(model(revision), tmp_path, endpoint=hub.address).digest == made.digest
    assert made.digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("ref", "refuses", "said"),
    [
        (model("v9"), 0, "hub refused org/tiny: "),
        (ModelRef(name="mine", hub="org/none"), 0, "hub refused org/none: "),
        (model(), 403, "hub refused org/tiny: "),
    ],
)
def test_what_the_hub_refuses_is_a_pull_fault_in_one_line(
    hub: Hub, tmp_path: Path, ref: ModelRef, refuses: int, said: str
) -> None:
    hub.refuses = refuses
    with pytest.raises(PrepareError) as caught:
        fetch(ref, tmp_path, endpoint=hub.address)
    assert caught.value.fault is Fault.PULL
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_model_that_does_not_fit_is_not_begun(hub: Hub, tmp_path: Path) -> None:
    hub.sizes["sub/weights.bin"] = 9 << 50
    with pytest.raises(
        PrepareError, match=r"^model org/tiny needs 9,437,184\.00 GiB free .*VLLM_MATRIX_CACHE"
    ) as caught:
        fetch(model(), tmp_path, endpoint=hub.address)
    assert caught.value.fault is Fault.DISK
    assert list(tmp_path.iterdir()) == []
    assert not [line for line in hub.asked if "/resolve/" in line]


def test_a_hub_that_does_not_answer_is_a_network_fault(tmp_path: Path) -> None:
    with pytest.raises(PrepareError) as caught:
        fetch(model(), tmp_path, endpoint="http://127.0.0.1:9")
    assert caught.value.fault is Fault.NETWORK
    assert str(caught.value).startswith("hub did not answer for org/tiny: ")
