"""The digest of an engine that lies on the host: content, not times; and read once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.model import CellSettings, Culprit, HostFolder, Limits, Suite
from runner.prepare.engines import check_mounts, engine_digest


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    (folder / "pkg" / "__pycache__").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("a = 1\n")
    (folder / "pkg" / "b.so").write_bytes(b"\0" * 1000)
    (folder / "pkg" / "__pycache__" / "a.pyc").write_bytes(b"compiled")
    (folder / "link").symlink_to("pkg")
    return folder


def digest(folder: Path) -> str:
    return engine_digest((str(folder),), folder.parent / "cache" / "files.json")


def test_the_same_content_has_the_same_digest_whatever_its_times(engine: Path) -> None:
    first = digest(engine)
    os.utime(engine / "pkg" / "a.py", (1, 1))
    (engine / "pkg" / "__pycache__" / "a.pyc").write_bytes(b"compiled again")
    assert digest(engine) == first


@pytest.mark.parametrize("change", ["content", "name", "new", "link"])
def test_every_change_shows(engine: Path, change: str) -> None:
    first = digest(engine)
    match change:
        case "content":
            (engine / "pkg" / "a.py").write_text("a = 2\n")
        case "name":
            (engine / "pkg" / "a.py").rename(engine / "pkg" / "c.py")
        case "new":
            (engine / "empty").touch()
        case _:
            (engine / "link").unlink()
            (engine / "link").symlink_to("pkg/a.py")
    assert digest(engine) != first


def test_a_file_that_kept_size_and_time_is_not_read_again(engine: Path) -> None:
    first = digest(engine)
    cache = engine.parent / "cache" / "files.json"
    known = json.loads(cache.read_text())
    assert set(known) == {str(engine / "pkg" / "a.py"), str(engine / "pkg" / "b.so")}
    known[str(engine / "pkg" / "b.so")][2] = "0" * 64
    cache.write_text(json.dumps(known))
    assert digest(engine) != first
    cache.write_text("{ no JSON")
    assert digest(engine) == first


def test_no_folders_no_digest(tmp_path: Path) -> None:
    assert engine_digest((), tmp_path / "files.json") == ""
    assert not (tmp_path / "files.json").exists()


def test_host_paths_that_are_missing_are_named_together() -> None:
    settings = CellSettings(
        image="host",
        suite=Suite(),
        limits=Limits(),
        devices=0,
        mounts=(HostFolder(source="/", target="/x"), HostFolder(source="/no/b", target="/b")),
        engine_folders=("/no/a",),
    )
    with pytest.raises(PrepareError, match="this host has no /no/a, /no/b, which") as caught:
        check_mounts(settings)
    assert caught.value.culprit is Culprit.CONFIG
