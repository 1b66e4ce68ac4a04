"""The base image of a build: the local one, a pulled one, or a Debian made here where nothing can be pulled."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Final

from runner.errors import PrepareError
from runner.model import Fault
from runner.runtimes import disk, labels
from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_errors import EngineError, from_stream, one_line

SCRIPT: Final = Path("scripts/debootstrap-base.sh")
_BASE_BYTES: Final = 1 << 30
_BASE_S: Final = 900


def default_base(dockerfile: str) -> str:
    """The value of ``ARG BASE=`` in a Dockerfile; "" where it has none."""
    match = re.search(r"^\s*ARG\s+BASE=(\S+)", dockerfile, re.MULTILINE | re.IGNORECASE)
    return match[1].strip("\"'") if match else ""


def local_base(engine: Engine, wanted: str, *, root: Path) -> str:
    """What stands for ``wanted`` among the local images; "" where nothing does. Raises :class:`EngineError`."""
    names = (wanted, _own_base(wanted, root)[0])
    return next((name for name in names if name and engine.image(name) is not None), "")


def make_base(engine: Engine, wanted: str, *, root: Path, cache: Path, log: IO[str]) -> str:
    """Pull ``wanted``, or make a Debian that stands for it. Raises :class:`PrepareError` or :class:`EngineError`."""
    tag, suite = _own_base(wanted, root)
    try:
        pull_once(engine, wanted, log)
    except EngineError as error:
        if not tag:
            raise
        log.write(f"{wanted} cannot be pulled ({error}): making a Debian {suite} with debootstrap\n")
        log.flush()
        return _debootstrap(engine, tag, suite, root / SCRIPT, cache, log)
    return wanted


def _own_base(wanted: str, root: Path) -> tuple[str, str]:
    """Tag and suite of the Debian that stands for ``wanted``; "" where it is no Debian or the script is not here."""
    suite = re.fullmatch(r"(?:.*/)?debian:([a-z]+)(?:-.*)?", wanted)
    script = root / SCRIPT
    if suite is None or not script.is_file():
        return "", ""
    return (
        f"{labels.REPOSITORY}base-{suite[1]}:{hashlib.sha256(script.read_bytes()).hexdigest()[:16]}",
        suite[1],
    )


def pull_once(engine: Engine, ref: str, log: IO[str]) -> None:
    """Pull. Raises :class:`EngineError`, also for an error that only the stream tells."""
    for entry in engine.pull(ref):
        if entry.get("error"):
            raise from_stream(str(entry["error"]))
        if not entry.get("progressDetail"):
            log.write(" ".join(filter(None, (entry.get("id"), str(entry.get("status", ""))))) + "\n")
    log.flush()


def _debootstrap(engine: Engine, tag: str, suite: str, script: Path, cache: Path, log: IO[str]) -> str:
    disk.check_free(cache, _BASE_BYTES, "a base image")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache) as work:
        tar = Path(work) / "root.tar"
        try:
            done = subprocess.run(
                [str(script), str(tar), suite],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_BASE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{script.name} did not finish: {one_line(str(error))}"
            raise PrepareError(message, Fault.BUILD) from error
        log.write(done.stdout)
        if done.returncode:
            message = (
                f"no base image: {one_line(done.stdout.splitlines()[-1] if done.stdout else script.name)}"
            )
            raise PrepareError(message, Fault.NETWORK if "debootstrap failed" in done.stdout else Fault.BUILD)
        engine.load_root(str(tar), tag, [f"LABEL {labels.IMAGE}=base-{suite}", 'CMD ["/bin/sh"]'])
    return tag
