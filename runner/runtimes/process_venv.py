"""A venv from the same pins as an image, kept by content, so a run without Docker has the very same packages."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from runner.errors import PrepareError
from runner.facts import PreparedImage, Watch
from runner.model import Fault
from runner.runtimes import disk, helper, labels
from runner.runtimes.pip_host import explain_failure

MARKER: Final = "complete.txt"
"""Written last, with the packages that are in: a venv without it is one that was never finished."""
_NETWORK = re.compile(
    r"name resolution|Failed to establish a new connection|timed out|ConnectTimeout|SSLError|refused"
)


def prepare(
    ref: str, *, root: Path, cache: Path, log_path: Path, watch: Watch | None = None
) -> PreparedImage:
    """Find or make the venv of an image folder; an interpreter or venv by path is taken as it is."""
    began = time.monotonic()
    folder = root / ref
    if (folder / "requirements.txt").is_file():
        return _venv(ref, folder, cache, log_path, watch, began)
    python = folder if folder.is_file() else folder / "bin" / "python3"
    if not python.is_file() or not os.access(python, os.X_OK):
        message = f"{ref} has no requirements.txt and is no interpreter: the process runtime cannot use images of a registry"
        raise PrepareError(message, Fault.BUILD)
    packages = freeze(python)
    return PreparedImage(
        ref=str(python.parent.parent), digest=_digest(packages), how="as found", seconds=time.monotonic() - began,
        base=_version(python), python=str(python),
    )  # fmt: skip


def _venv(
    ref: str, folder: Path, cache: Path, log_path: Path, watch: Watch | None, began: float
) -> PreparedImage:
    requirements = (folder / "requirements.txt").read_bytes()
    version = platform.python_version()
    key = hashlib.sha256(
        requirements + f"\n{sys.implementation.cache_tag} {platform.machine()}".encode()
    ).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    venv = cache / f"venv-{folder.name}-{key}"
    how = "venv (cached)"
    with (cache / f"{venv.name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two runners make it once
        if not (venv / MARKER).is_file():
            dockerfile = folder / "Dockerfile"
            text = dockerfile.read_text(encoding="utf-8") if dockerfile.is_file() else ""
            disk.check_free(cache, disk.need_of(text, labels.VENV_BYTES), f"the venv for {ref}")
            shutil.rmtree(venv, ignore_errors=True)
            try:
                _make(venv, folder / "requirements.txt", ref, log_path, watch)
            except BaseException:
                shutil.rmtree(venv, ignore_errors=True)
                raise
            how = "venv"
    packages = (venv / MARKER).read_text(encoding="utf-8")
    digest = _digest(f"{requirements.decode()}\n{version}\n{packages}")
    return PreparedImage(
        ref=str(venv), digest=digest, how=how, seconds=time.monotonic() - began, base=f"Python {version}",
        python=str(venv / "bin" / "python3"),
    )  # fmt: skip


def _make(venv: Path, requirements: Path, ref: str, log_path: Path, watch: Watch | None) -> None:
    """Make it in place, since the scripts of a venv hold its path; the marker, renamed into place, makes it valid."""
    with log_path.open("a+", encoding="utf-8") as log:
        _call([sys.executable, "-m", "venv", str(venv)], log, ref, watch)
        python = str(venv / "bin" / "python3")
        command = [python, "-m", "pip", "install", "--no-deps", "--no-input", "-r", str(requirements)]
        _call(command, log, ref, watch)
    with tempfile.NamedTemporaryFile("w", dir=venv, delete=False, encoding="utf-8") as marker:
        marker.write(freeze(venv / "bin" / "python3"))
        marker.flush()
        os.fsync(marker.fileno())
    Path(marker.name).rename(venv / MARKER)


def _call(command: list[str], log: IO[str], ref: str, watch: Watch | None) -> None:
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    start = log.tell()
    if helper.call(command, log, watch) == 0:
        return
    log.seek(start)
    said = log.read()
    lines = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()[-1:]
    if "No space left" in said:
        fault = Fault.DISK
    else:
        fault = Fault.NETWORK if _NETWORK.search(said) and not explain_failure(said) else Fault.BUILD
    message = f"the venv for {ref} could not be made: {explain_failure(said) or ' | '.join(lines[-2:])[:300]}"
    raise PrepareError(message, fault)


def freeze(python: Path) -> str:
    """What is installed, one ``name==version`` a line, sorted."""
    code = (
        "import importlib.metadata as m;"
        "print('\\n'.join(sorted({f\"{d.metadata['Name']}=={d.version}\" for d in m.distributions()}, key=str.lower)))"
    )
    try:
        done = subprocess.run(
            [str(python), "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = f"{python} does not run: {error}"
        raise PrepareError(message, Fault.BUILD) from error
    return done.stdout


def _version(python: Path) -> str:
    done = subprocess.run([str(python), "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
