"""What pip on this host is told: where wheels lie and which indexes to ask. Image builds and venvs follow it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """pip's own settings, merged over its files and the environment (the environment wins)."""

    wheel_folders: tuple[Path, ...] = ()
    remote: Mapping[str, str] = field(default_factory=dict)
    """Settings that mean something on another machine: index-url, extra-index-url, find-links, trusted-host."""


def read_settings() -> PipSettings:
    """Ask pip itself. No pip here: no settings."""
    for command in ([sys.executable, "-m", "pip"], [shutil.which("pip3") or "pip3"]):
        try:
            done = subprocess.run(
                [*command, "config", "list"], capture_output=True, text=True, timeout=30, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return parse_settings(done.stdout)
    return PipSettings()


def parse_settings(text: str) -> PipSettings:
    """Settings from the output of ``pip config list``: lines of ``scope.name='value'``."""
    values: dict[str, str] = {}
    for rank in ("global", "install", ":env:"):
        for line in text.splitlines():
            scope, _, rest = line.partition(".")
            name, _, value = rest.partition("=")
            if scope == rank and value[:1] in {"'", '"'}:
                values[name] = str(ast.literal_eval(value))
    remote = {name: values[name] for name in ("index-url", "trusted-host") if values.get(name)}
    for name in ("extra-index-url", "find-links"):
        addresses = [
            item for item in values.get(name, "").split() if item.startswith(("http://", "https://"))
        ]
        if addresses:
            remote[name] = " ".join(addresses)
    folders = (_folder(item) for item in values.get("find-links", "").split())
    return PipSettings(wheel_folders=tuple(dict.fromkeys(filter(None, folders))), remote=remote)


def _folder(item: str) -> Path | None:
    if item.startswith("file:"):
        return Path(unquote(urlsplit(item).path))
    return None if "://" in item else Path(item)


def pins(requirements: str) -> dict[str, str]:
    """Normalised name -> version of every ``name==version`` line."""
    found = re.findall(r"^\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;#\\]+)", requirements, re.MULTILINE)
    return {_normal(name): version for name, version in found}


def matching_wheels(folders: Iterable[Path], wanted: Mapping[str, str]) -> tuple[Path, ...]:
    """Wheels in these folders that are exactly a pinned name and version, by file name."""
    found: dict[str, Path] = {}
    for folder in folders:
        if folder.is_dir():
            for wheel in sorted(folder.glob("*.whl")):
                name, version = [*wheel.name.split("-"), ""][:2]
                if wanted.get(_normal(name)) == version:
                    found.setdefault(wheel.name, wheel)
    return tuple(found[name] for name in sorted(found))


def pip_conf(settings: PipSettings, *, certificate: str = "", wheels: str = "") -> str:
    """A pip configuration file for another machine, with paths as they are there."""
    lines = {**settings.remote, "disable-pip-version-check": "1", "timeout": "120"}
    if certificate:
        lines["cert"] = certificate
    if wheels:
        lines["find-links"] = " ".join(filter(None, (settings.remote.get("find-links"), wheels)))
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items())


def explain_failure(tail: str) -> str:
    """What to do about a failed installation, where its last lines say so; "" otherwise."""
    # The second form is pip's where a constraints file also speaks of torch.
    match = re.search(r"(?:No matching distribution found for|Cannot install) (torch==\S+)", tail)
    if match is None:
        return ""
    return (
        f"{match[1].rstrip('.')} is not in pip's package index; a CUDA build must not take its place. "
        "Set PIP_FIND_LINKS (or find-links in pip's configuration) to a folder that holds its wheel, "
        "or PIP_EXTRA_INDEX_URL to the index of PyTorch's CPU builds"
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
