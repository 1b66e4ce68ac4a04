"""The base image of a build: the local one, a pulled one, or a Debian made here where nothing can be pulled."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from runner.errors import PrepareError
from runner.facts import Watch
from runner.model import Fault
from runner.runtimes import disk, helper, labels
from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_errors import EngineError, from_stream, one_line

PULL_PAUSES_S: Final = (2.0, 8.0, 20.0)
"""Pauses between tries of a pull that may succeed later, seconds."""
SCRIPT: Final = Path("scripts/debootstrap-base.sh")
_BASE_BYTES: Final = 1 << 30
WORK: Final = "base-"
"""What the names of folders begin with in which a base is made."""


def default_base(dockerfile: str) -> str:
    """The value of ``ARG BASE=`` in a Dockerfile; "" where it has none."""
    match = re.search(r"^\s*ARG\s+BASE=(\S+)", dockerfile, re.MULTILINE | re.IGNORECASE)
    return match[1].strip("\"'") if match else ""


def local_base(engine: Engine, wanted: str, *, root: Path) -> str:
    """What stands for ``wanted`` among the local images; "" where nothing does. Raises :class:`EngineError`."""
    names = (wanted, _own_base(wanted, root)[0])
    return next((name for name in names if name and engine.image(name) is not None), "")


def make_base(
    engine: Engine, wanted: str, *, root: Path, cache: Path, log: IO[str], watch: Watch | None = None
) -> str:
    """Pull ``wanted``, or make a Debian that stands for it. Raises :class:`PrepareError` or :class:`EngineError`."""
    tag, suite = _own_base(wanted, root)
    if not tag:
        pull(engine, wanted, log)
        return wanted
    try:
        pull_once(engine, wanted, log)
    except EngineError as error:
        log.write(f"{wanted} cannot be pulled ({error}): making a Debian {suite} with debootstrap\n")
        log.flush()
        return _debootstrap(engine, tag, suite, root / SCRIPT, cache, log, watch)
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


def pull(engine: Engine, ref: str, log: IO[str]) -> None:
    """Pull, again after pauses where that may help. Raises :class:`EngineError`."""
    for pause in (*PULL_PAUSES_S, None):
        try:
            pull_once(engine, ref, log)
        except EngineError as error:
            if pause is None or not error.again:
                raise
            log.write(f"{error}; trying again in {pause:g} s\n")
            log.flush()
            time.sleep(pause)
        else:
            return


def pull_once(engine: Engine, ref: str, log: IO[str]) -> None:
    """Pull. Raises :class:`EngineError`, also for an error that only the stream tells."""
    for entry in engine.pull(ref):
        if entry.get("error"):
            raise from_stream(str(entry["error"]))
        if not entry.get("progressDetail"):
            log.write(" ".join(filter(None, (entry.get("id"), str(entry.get("status", ""))))) + "\n")
    log.flush()


def _debootstrap(
    engine: Engine, tag: str, suite: str, script: Path, cache: Path, log: IO[str], watch: Watch | None
) -> str:
    disk.check_free(cache, _BASE_BYTES, "a base image")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORK, dir=cache) as work:
        tar, said = Path(work) / "root.tar", Path(work) / "said.txt"
        try:
            with said.open("w", encoding="utf-8") as output:
                code = helper.call([str(script), str(tar), suite], output, watch)
        except OSError as error:
            message = f"{script.name} did not run: {error.strerror}"
            raise PrepareError(message, Fault.BUILD) from error
        text = said.read_text(encoding="utf-8", errors="replace")
        log.write(text)
        if code:
            message = f"no base image: {one_line(text.splitlines()[-1] if text else script.name)}"
            raise PrepareError(message, Fault.NETWORK if "debootstrap failed" in text else Fault.BUILD)
        engine.load_root(str(tar), tag, [f"LABEL {labels.IMAGE}=base-{suite}", 'CMD ["/bin/sh"]'])
    return tag
