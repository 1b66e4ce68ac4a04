"""Images ready to run: built from a folder with a Dockerfile and kept by content, or pulled and resolved to a digest."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from runner.errors import PrepareError
from runner.facts import PreparedImage, Watch
from runner.model import Fault
from runner.runtimes import disk, labels
from runner.runtimes.docker_base import WORK, default_base, local_base, make_base, pull, pull_once
from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_context import Context, context_of
from runner.runtimes.docker_errors import EngineError, one_line
from runner.runtimes.pip_host import explain_failure, read_settings

BUILD_PAUSES_S: Final = (5.0, 20.0)
"""Pauses between tries of a build that failed for want of a network, seconds."""
_SAY: Final = f"say with {disk.PULL_VARIABLE} how many GiB this image takes"
_TAIL: Final = 25
_CONTEXT: Final = "context-"
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

# A build says by its last lines whether the network or the recipe failed.
_NETWORK = re.compile(
    r"name resolution|Could not resolve|Failed to establish a new connection|Connection (timed out|refused|reset)"
    r"|ReadTimeoutError|ConnectTimeout|SSLError|Unable to fetch some archives|Failed to fetch|Network is unreachable"
)


def prepare(
    make_engine: Callable[[], Engine],
    ref: str,
    *,
    root: Path,
    cache: Path,
    log_path: Path,
    watch: Watch | None = None,
) -> PreparedImage:
    """An image by reference: a folder (relative to ``root``) with a Dockerfile, or a name. Raises :class:`PrepareError`."""
    began = time.monotonic()
    folder = root / ref
    try:
        with log_path.open("a", encoding="utf-8") as log, make_engine() as engine:
            if (folder / "Dockerfile").is_file():
                tag, how, base = _build(engine, folder, root, cache, log, watch)
            else:
                tag, how, base = *_pull(engine, ref, log), ""
            facts = engine.image(tag)
    except EngineError as error:
        message = f"image {ref}: {error}"
        raise PrepareError(message, error.fault) from error
    except OSError as error:
        message = f"image {ref}: {error.filename}: {error.strerror}"
        raise PrepareError(message, Fault.DISK) from error
    if facts is None:
        message = f"image {ref}: {tag} vanished after it was {how}"
        raise PrepareError(message, Fault.DAEMON)
    found = (facts.get("Config") or {}).get("Labels") or {}
    held, named = str(facts["Id"]), tag.rpartition("@")[2]
    return PreparedImage(
        ref=tag, digest=named if named.startswith("sha256:") else held, id=held, how=how,
        seconds=time.monotonic() - began, base=base, python=found.get(labels.PYTHON, "python3"),
    )  # fmt: skip


# ---- pull ----


def _pull(engine: Engine, ref: str, log: IO[str]) -> tuple[str, str]:
    local = engine.image(ref)
    if local is not None and "sha256:" in ref:
        # A digest names one content: what is here is what a registry would send.
        return _immutable(local, ref), "local"
    try:
        _check_disk(engine, disk.need_of_pull(os.environ), f"pulling {ref}", _SAY)
    except PrepareError as error:
        if local is None:
            raise
        log.write(f"the local image is used: {error}\n")
        return _immutable(local, ref), "local, no room to pull"
    try:
        (pull if local is None else pull_once)(engine, ref, log)
    except EngineError as error:
        if local is None:
            raise
        # The registry's own words name hosts and addresses: they belong in the log, not on every page.
        log.write(f"the local image is used, since a pull failed: {error}\n")
        return _immutable(local, ref), "local, no registry gave it"
    return _immutable(engine.image(ref) or {}, ref), "pulled"


def _immutable(facts: dict[str, Any], ref: str) -> str:
    """The reference by the registry's digest, or else the engine's id: a tag may move between two cells of one run.

    An engine keeps the digests under which it was given an image (``RepoDigests``): that of the repository asked for is
    taken, or the only one there is. An image that was asked for by its id has been named already.
    """
    if ref.startswith("sha256:"):
        return str(facts.get("Id", ref))
    repository, _, asked = ref.partition("@")
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    if asked:
        return f"{repository}@{asked}"
    known = [
        str(item) for item in facts.get("RepoDigests") or () if "@sha256:" in item and "<none>" not in item
    ]
    same = [item for item in known if _full_name(item.partition("@")[0]) == _full_name(repository)]
    return next(iter(same or (known if len(known) == 1 else ())), str(facts.get("Id", ref)))


def _full_name(repository: str) -> str:
    """With the registry and the folder that engines leave out (distribution/reference, normalize.go, v0.6.0)."""
    from docker.auth import INDEX_NAME

    first, slash, rest = repository.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = INDEX_NAME, repository
    return f"{first}/{rest if '/' in rest or first != INDEX_NAME else f'library/{rest}'}"


# ---- build ----


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An image folder on a base: what it is called once it is built."""

    context: Context
    base: str
    base_id: str

    @property
    def tag(self) -> str:
        return f"{labels.REPOSITORY}{self.context.folder.name.lower()}:{self.context.key(self.base_id)}"

    @property
    def base_text(self) -> str:
        return f"{self.base} {self.base_id}".strip()


def _build(
    engine: Engine, folder: Path, root: Path, cache: Path, log: IO[str], watch: Watch | None
) -> tuple[str, str, str]:
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8")
    default = default_base(dockerfile)
    context = context_of(folder, read_settings())
    base = local_base(engine, default, root=root) if default else ""
    if base or not default:
        wanted = _on_base(engine, context, base)
        if engine.image(wanted.tag) is not None:
            return wanted.tag, "cached", wanted.base_text
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache):
        # Before the base is pulled: it is most of what takes room.
        _check_disk(engine, disk.need_of(dockerfile, labels.BUILD_BYTES), f"building the image {folder.name}")
        if default:
            base = local_base(engine, default, root=root) or make_base(
                engine, default, root=root, cache=cache, log=log, watch=watch
            )
        wanted = _on_base(engine, context, base)
        if engine.image(wanted.tag) is not None:  # another runner built it meanwhile
            return wanted.tag, "cached", wanted.base_text
        _build_again(engine, wanted, cache, log)
    return wanted.tag, "built", wanted.base_text


def _build_again(engine: Engine, wanted: _Wanted, cache: Path, log: IO[str]) -> None:
    """Build, again after pauses where only the network failed. Raises :class:`PrepareError` or :class:`EngineError`."""
    for pause in (*BUILD_PAUSES_S, None):
        try:
            _run_build(engine, wanted, cache, log)
        except PrepareError as error:
            if pause is None or error.fault is not Fault.NETWORK:
                raise
            log.write(f"{error}; trying again in {pause:g} s\n")
            log.flush()
            time.sleep(pause)
        else:
            return


def _on_base(engine: Engine, context: Context, base: str) -> _Wanted:
    facts = engine.image(base) if base else None
    return _Wanted(context, base, str(facts["Id"]) if facts else "")


@contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """One build at a time: the same image is made once, and no build drops a stage that another needs."""
    with (cache / "build.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for left in (*cache.glob(f"{_CONTEXT}*"), *cache.glob(f"{WORK}*")):
            # Of a runner that was killed: none other can be building now.
            shutil.rmtree(left, ignore_errors=True)
        yield


def _check_disk(engine: Engine, need_bytes: int, what: str, remedy: str = "") -> None:
    for store in disk.stores(engine.info()):
        disk.check_free(store, need_bytes, what, remedy)


def _run_build(engine: Engine, wanted: _Wanted, cache: Path, log: IO[str]) -> None:
    arguments = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    if wanted.base:
        arguments["BASE"] = wanted.base
    context = wanted.context
    tail: deque[str] = deque(maxlen=_TAIL)
    with tempfile.TemporaryDirectory(prefix=_CONTEXT, dir=cache) as work:
        tar = Path(work) / "context.tar"
        context.write(tar)
        with tar.open("rb") as source:
            entries = engine.build(
                fileobj=source, custom_context=True, tag=wanted.tag, rm=True, forcerm=True, buildargs=arguments,
                labels={labels.IMAGE: context.folder.name}, network_mode=engine.build_network(),
            )  # fmt: skip
            made: set[str] = set()
            try:
                for entry in entries:
                    text = str(entry.get("stream") or entry.get("error") or "")
                    log.write(text if not entry.get("error") else f"{text}\n")
                    log.flush()
                    tail.extend(text.splitlines())
                    made.update(re.findall(r"^ ---> ([0-9a-f]{12})", text, re.MULTILINE))
                    if entry.get("error"):
                        raise _failed(context.folder.name, tail)
            finally:
                _drop_builder_stage(engine, made)


def _failed(name: str, tail: deque[str]) -> PrepareError:
    text = "\n".join(tail)
    lines = [line for line in tail if line.strip()]
    if re.search(r"no space left on device", text, re.IGNORECASE):
        fault = Fault.DISK
    else:
        fault = Fault.NETWORK if _NETWORK.search(text) else Fault.BUILD
    hint = explain_failure(text)
    said = hint or one_line(" | ".join(lines[-3:]))
    return PrepareError(f"image {name} could not be built: {said}", Fault.BUILD if hint else fault)


def _drop_builder_stage(engine: Engine, made: set[str]) -> None:
    """Remove what the builder stage of this build leaves: gigabytes, and the host's certificates."""
    for image in engine.images({"dangling": True, "label": f"{labels.STAGE}=builder"}):
        held = str(image["Id"])
        if held.removeprefix("sha256:")[:12] in made:
            with suppress(
                EngineError
            ):  # a container of somebody may use it: it stays, and harms nothing but the disk
                engine.remove_image(held)
