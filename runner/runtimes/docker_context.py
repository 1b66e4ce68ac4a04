"""The build context of an image folder: its files, matching wheels, and what the builder needs to know of the host."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.runtimes.pip_host import PipSettings, matching_wheels, pins, pip_conf

CA_PATH = "/host/ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What goes into one build. ``ca_bundle`` reaches the builder stage only and is no part of the content."""

    folder: Path
    wheels: tuple[Path, ...]
    settings: PipSettings
    ca_bundle: Path | None = None

    def key(self, base: str) -> str:
        """16 hex digits over everything that decides the image: files, base, wheels."""
        digest = hashlib.sha256(f"base {base}\n".encode())
        for path in _files(self.folder):
            digest.update(f"file {path.relative_to(self.folder)} {os.access(path, os.X_OK)} ".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        for wheel in self.wheels:
            digest.update(f"wheel {wheel.name} {wheel.stat().st_size}\n".encode())
        return digest.hexdigest()[:16]

    def write(self, target: Path) -> None:
        """Write the context as a tar file (hundreds of MB where it holds wheels)."""
        with tarfile.open(target, "w") as tar:
            for path in _files(self.folder):
                tar.add(path, arcname=str(path.relative_to(self.folder)), recursive=False)
            for name in ("wheels", "host"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
            for wheel in self.wheels:
                tar.add(wheel, arcname=f"wheels/{wheel.name}")
            certificate = self.ca_bundle.read_bytes() if self.ca_bundle else b""
            if certificate:
                _add(tar, "host/ca.crt", certificate)
            conf = pip_conf(self.settings, certificate=CA_PATH if certificate else "", wheels="/wheels")
            _add(tar, "host/pip.conf", conf.encode())


def context_of(folder: Path, settings: PipSettings) -> Context:
    """The context of an image folder on this host. The CA bundle is the one ``SSL_CERT_FILE`` names, if it is set."""
    requirements = folder / "requirements.txt"
    wanted = pins(requirements.read_text(encoding="utf-8")) if requirements.is_file() else {}
    bundle = os.environ.get("SSL_CERT_FILE", "")
    return Context(
        folder=folder,
        wheels=matching_wheels(settings.wheel_folders, wanted),
        settings=settings,
        ca_bundle=Path(bundle) if bundle and Path(bundle).is_file() else None,
    )


def _files(folder: Path) -> Iterator[Path]:
    skip = {folder / "wheels", folder / "host"}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not skip & set(path.parents):
            yield path


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
