"""An image from a registry: the real engine pulls it by tag and by digest, and it is recorded by the registry's digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runner.facts import Runtime
from runner.runtimes.docker_client import connect
from runner.runtimes.labels import RUN

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Registry:
    """Serves one image of one small layer (distribution, HTTP API V2). ``host`` is an address on this host alone."""

    host: str
    digest: str
    id: str


@pytest.fixture
def registry() -> Iterator[Registry]:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as made:
        text = f"of {os.getpid()}".encode()
        member = tarfile.TarInfo("file")
        member.size = len(text)
        made.addfile(member, io.BytesIO(text))
    layer = gzip.compress(tar.getvalue(), mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/file"]},
            "rootfs": {"type": "layers", "diff_ids": [sha256(tar.getvalue())]},
        }
    ).encode()
    parts = {
        kind: {"mediaType": f"application/vnd.docker.{word}", "size": len(data), "digest": sha256(data)}
        for kind, word, data in (
            ("config", "container.image.v1+json", config),
            ("layer", "image.rootfs.diff.tar.gzip", layer),
        )
    }
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts["config"], "layers": [parts["layer"]]}
    ).encode()
    blobs = {sha256(config): config, sha256(layer): layer}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, name = self.path.rpartition("/")
            found = manifest if kind.endswith("manifests") else blobs.get(name, b"{}")
            self.send_response(200)
            self.send_header("Content-Type", MANIFEST if found is manifest else "application/octet-stream")
            self.send_header("Content-Length", str(len(found)))
            self.send_header("Docker-Content-Digest", sha256(found))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(found)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

        def log_message(self, *_: object) -> None:
            """A test's output is no access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Registry(f"127.0.0.1:{server.server_port}", sha256(manifest), sha256(config))
        server.shutdown()


@pytest.mark.docker
def test_what_is_recorded_is_what_the_registry_calls_it(
    docker_runtime: Runtime, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MATRIX_PULL_GIB", "0")
    by_digest = f"{registry.host}/team/app@{registry.digest}"
    try:
        pulled = docker_runtime.image(f"{registry.host}/team/app:v1", tmp_path / "log")
        again = docker_runtime.image(by_digest, tmp_path / "log")
        for image, how in ((pulled, "pulled"), (again, "local")):
            assert (image.ref, image.digest, image.id, image.how) == (
                by_digest,
                registry.digest,
                registry.id,
                how,
            )
        assert docker_runtime.image(registry.id, tmp_path / "log").digest == registry.id
        let_go = docker_runtime.keep(pulled, {RUN: f"test-{os.getpid()}"})
        with connect() as engine:
            (kept,) = engine.client.containers(all=True, filters={"ancestor": registry.id})
        assert kept["ImageID"] == registry.id
        assert let_go() == ""
    finally:
        with connect() as engine:
            engine.client.remove_image(registry.id, force=True)
