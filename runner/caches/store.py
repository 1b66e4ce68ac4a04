"""The kept layers of this host: one folder for each key, replaced as a whole, locked while it is read or replaced.

A layer is what passed cells of the same image, engine and kind of device wrote. No cell ever sees it: each gets a copy of
its own, checked against the layer's content hashes, and only what a passed attempt added is merged. A fault of a cache
costs time and no verdict: it becomes a note in the attempt's record.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from runner import codec
from runner.caches import tree
from runner.caches.identity import identity
from runner.caches.tree import Kept
from runner.facts import PreparedImage
from runner.machine import Inventory
from runner.model import PlanEntry
from runner.records import CacheUse
from runner.vendors import CACHE_DIR

MAX_TOTAL_BYTES = 4 << 30
"""What all layers of a host may hold; the least recently used go first, whole."""


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What a layer holds, and what its key stands for."""

    identity: Mapping[str, str]
    files: Mapping[str, Kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """The layers below ``folder``. ``max_bytes`` bounds one, ``max_total_bytes`` all of them."""

    folder: Path
    inventory: Inventory
    max_bytes: int = tree.MAX_BYTES
    max_total_bytes: int = MAX_TOTAL_BYTES

    def layer(
        self,
        entry: PlanEntry,
        image: PreparedImage,
        probe: Mapping[str, object],
        device_ids: tuple[str, ...],
        private: Path,
        seen_at: str,
    ) -> Layer:
        """The layer for an attempt of this image on these devices that sees the folder ``private`` at ``seen_at``."""
        known = identity(image, probe, self.inventory, entry.cell.get("platform"), device_ids)
        return Layer(self, known, private, seen_at)


class Layer:
    """One attempt's way through a cache: :meth:`fill` before it starts, :meth:`keep` or :meth:`leave` after it ended."""

    def __init__(self, caches: Caches, known: Mapping[str, str], private: Path, seen_at: str) -> None:
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:20]
        self._caches = caches
        self._known = known
        self._private = private
        self._seen_at = seen_at
        self._home = caches.folder / key
        self._given: Mapping[str, Kept] = {}
        self.use = CacheUse(key=key)

    def fill(self) -> None:
        """Copy the kept layer into the private folder. A damaged layer is dropped, and the cell starts cold."""
        began = time.monotonic()
        self._private.mkdir(parents=True, exist_ok=True)
        try:
            with _locked(self._home, shared=True):
                files = _read(self._home).files
                whole = all(self._copy(name, kept) for name, kept in files.items())
            if not whole:
                self._start_cold()
                with _locked(self._home):
                    shutil.rmtree(self._home / "layer", ignore_errors=True)
                self._note("the kept layer was damaged: dropped")
                files = {}
            elif files:
                os.utime(self._home / "layer")  # when it was last used
        except OSError as error:
            self._start_cold()
            self._note(f"the kept layer could not be read: {error.strerror}")
            files = {}
        self._given = files
        self.use = replace(
            self.use,
            layer=tree.layer_digest(files),
            files_in=len(files),
            bytes_in=sum(kept.size for kept in files.values()),
            seconds=round(time.monotonic() - began, 3),
        )

    def leave(self, why: str) -> None:
        """Keep nothing of what the attempt wrote, and say why."""
        self._note(why)

    def keep(self) -> None:
        """Merge what the attempt added or changed into the kept layer."""
        began = time.monotonic()
        seen = tree.scan(self._private, self._seen_at)
        new = {name: kept for name, kept in seen.files.items() if self._given.get(name) != kept}
        self.use = replace(self.use, files_out=len(new), bytes_out=sum(kept.size for kept in new.values()))
        if seen.left_out:
            self._note(f"{seen.left_out} files are no plain files or too large: not kept")
        if seen.over:
            self._note("not kept: more than a layer may hold")
        elif new:
            try:
                with _locked(self._home):
                    self._merge(new)
            except OSError as error:
                self._note(f"not kept: {error.strerror}")
            with contextlib.suppress(OSError):
                _evict(self._caches, self._home)
        self.use = replace(self.use, seconds=round(self.use.seconds + time.monotonic() - began, 3))

    def _copy(self, name: str, kept: Kept) -> bool:
        data = _content(self._home / "layer" / "files", name)
        if data is None or hashlib.sha256(data).hexdigest() != kept.sha256:
            return False
        tree.write(self._private / name, tree.moved(name, data, CACHE_DIR, self._seen_at), 0o644)
        return True

    def _start_cold(self) -> None:
        shutil.rmtree(self._private, ignore_errors=True)
        self._private.mkdir(parents=True, exist_ok=True)

    def _merge(self, new: Mapping[str, Kept]) -> None:
        """Build the next layer beside the present one and put it in its place: a crash leaves one of them, or none."""
        old = _read(self._home).files
        files = {**old, **new}
        size = sum(kept.size for kept in files.values())
        if size > self._caches.max_bytes or len(files) > tree.MAX_FILES:
            self._note(f"not kept: the layer is full ({len(files)} files, {size >> 20} MiB with these)")
            return
        for stale in self._home.glob("next-*"):  # of a runner that died here
            shutil.rmtree(stale, ignore_errors=True)
        following, present, past = (
            self._home / f"next-{os.getpid()}",
            self._home / "layer",
            self._home / "past",
        )
        try:
            for name in files:
                self._put(name, new, present / "files", following / "files")
            manifest = {"identity": dict(self._known), "files": {n: asdict(k) for n, k in files.items()}}
            tree.write(following / "manifest.json", codec.dumps(manifest), 0o444)
            shutil.rmtree(past, ignore_errors=True)
            if present.exists():
                present.rename(past)
            following.rename(present)
        finally:
            shutil.rmtree(following, ignore_errors=True)
            shutil.rmtree(past, ignore_errors=True)
        self.use = replace(self.use, kept=True)

    def _put(self, name: str, new: Mapping[str, Kept], present: Path, following: Path) -> None:
        target = following / name
        if name not in new:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(present / name, target, follow_symlinks=False)
            return
        data = tree.read_plain(self._private / name)
        data = None if data is None else tree.moved(name, data, self._seen_at, CACHE_DIR)
        if data is None or hashlib.sha256(data).hexdigest() != new[name].sha256:
            raise OSError(0, f"{name} changed after the cell had ended")
        tree.write(target, data, 0o444)

    def _note(self, text: str) -> None:
        self.use = replace(self.use, note="; ".join(filter(None, (self.use.note, text))))


def clear(folder: Path) -> int:
    """Drop every layer below ``folder``; the bytes that were freed."""
    freed = 0
    for home in _homes(folder):
        with _locked(home):
            freed += _size(home)
            shutil.rmtree(home / "layer", ignore_errors=True)
    return freed


def _evict(caches: Caches, own: Path) -> None:
    """Drop whole layers, the least recently used first, until all fit."""
    sizes = {home: _size(home) for home in _homes(caches.folder)}
    oldest = sorted(sizes, key=_used)
    for home in oldest:
        if sum(sizes.values()) <= caches.max_total_bytes:
            return
        if home != own:
            with _locked(home):
                shutil.rmtree(home / "layer", ignore_errors=True)
            del sizes[home]


def _homes(folder: Path) -> list[Path]:
    return sorted(home for home in folder.glob("*") if (home / "layer").is_dir())


def _used(home: Path) -> float:
    try:
        return (home / "layer").stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(home: Path) -> int:
    try:
        return sum(kept.size for kept in _read(home).files.values())
    except OSError:
        return 0


def _content(files: Path, name: str) -> bytes | None:
    try:
        return (files / name).read_bytes()
    except OSError:
        return None


def _read(home: Path) -> _Manifest:
    """What a layer holds; nothing where there is none, or where its list cannot be understood."""
    nothing = _Manifest({}, {})
    try:
        found = codec.loads((home / "layer" / "manifest.json").read_bytes(), _Manifest)
    except (FileNotFoundError, ValueError):
        return nothing
    return found if all(map(tree.usable, found.files)) else nothing


@contextlib.contextmanager
def _locked(home: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a layer: many may read it, one may replace it. The kernel frees it with its owner."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
