"""Kept layers: private copies, merged only when asked, bounded, checked, and never led astray by what a cell left."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.caches import Caches, Layer, clear, tree
from runner.facts import PreparedImage
from runner.machine import CpuFacts, Device, Inventory
from runner.model import Cell, CellSettings, Limits, PlanEntry, Status, Suite

H200 = Device(platform="cuda", index=0, id="GPU-0", name="NVIDIA H200", capability="9.0")
OTHER = replace(H200, index=1, id="GPU-1")
H100 = replace(H200, index=2, id="GPU-2", name="NVIDIA H100")
INVENTORY = Inventory(
    hostname="h", boot_id="b", cpu=CpuFacts(model="Zen", facts=("avx2",)), devices=(H200, OTHER, H100),
    drivers={"cuda": "580.1"},
)  # fmt: skip
IMAGE = PreparedImage(ref="i", digest="sha256:1", how="built", engine_digest="sha256:2")
ENTRY = PlanEntry(
    cell=Cell.of({"platform": "cuda"}), status=Status.PLANNED,
    settings=CellSettings(image="i", suite=Suite(), limits=Limits(), devices=1),
)  # fmt: skip


@pytest.fixture
def caches(tmp_path: Path) -> Caches:
    return Caches(folder=tmp_path / "kept", inventory=INVENTORY)


def layer(caches: Caches, private: Path, seen_at: str = "/caches", **other: object) -> Layer:
    image = replace(IMAGE, **{k: v for k, v in other.items() if k in {"digest", "engine_digest"}})  # type: ignore[arg-type]
    probe = {"version": other.get("version", "0.26.0"), "problems": ["?"]}
    devices = (str(other.get("device", "GPU-0")),)
    return caches.layer(ENTRY, image, probe, devices, private, seen_at)


def passed(caches: Caches, private: Path, files: Mapping[str, str], seen_at: str = "/caches") -> Layer:
    """An attempt that writes some files and passes."""
    made = layer(caches, private, seen_at)
    made.fill()
    for name, text in files.items():
        (private / name).parent.mkdir(parents=True, exist_ok=True)
        (private / name).write_text(text)
    made.keep()
    return made


def given(caches: Caches, private: Path, seen_at: str = "/caches") -> dict[str, str]:
    """What the next attempt starts with."""
    layer(caches, private, seen_at).fill()
    return {p.relative_to(private).as_posix(): p.read_text() for p in private.rglob("*") if p.is_file()}


def test_what_a_passed_attempt_added_is_what_the_next_one_starts_with(caches: Caches, tmp_path: Path) -> None:
    first = passed(caches, tmp_path / "1", {"triton/ab/k.json": "kernel", "vllm/modelinfos/m.json": "{}"})
    assert first.use == replace(
        first.use, layer="", files_in=0, bytes_in=0, files_out=2, bytes_out=8, kept=True, note=""
    )
    second = layer(caches, tmp_path / "2")
    second.fill()
    assert second.use.key == first.use.key
    assert (second.use.files_in, second.use.bytes_in) == (2, 8)
    assert second.use.layer.startswith("sha256:")
    assert (tmp_path / "2/triton/ab/k.json").read_text() == "kernel"
    second.keep()
    assert (second.use.files_out, second.use.kept, second.use.note) == (0, False, "")


def test_layers_grow_together_and_a_changed_file_replaces_the_kept_one(
    caches: Caches, tmp_path: Path
) -> None:
    one, two = layer(caches, tmp_path / "1"), layer(caches, tmp_path / "2")
    for each in (one, two):
        each.fill()  # both start cold, as two runners do
    (tmp_path / "1/a").write_text("of one")
    (tmp_path / "1/same").write_text("of one")
    (tmp_path / "2/b").write_text("of two")
    (tmp_path / "2/same").write_text("of two")
    for each in (one, two):
        each.keep()
    assert given(caches, tmp_path / "3") == {"a": "of one", "b": "of two", "same": "of two"}


def test_what_an_attempt_changes_in_its_copy_is_not_in_the_kept_layer(caches: Caches, tmp_path: Path) -> None:
    passed(caches, tmp_path / "1", {"k": "good"})
    failed = layer(caches, tmp_path / "2")
    failed.fill()
    (tmp_path / "2/k").write_text("bad")
    (tmp_path / "2/more").write_text("bad")
    failed.leave("not kept: the attempt did not pass")
    assert (failed.use.kept, failed.use.note) == (False, "not kept: the attempt did not pass")
    assert given(caches, tmp_path / "3") == {"k": "good"}


@pytest.mark.parametrize(
    "other",
    [{"digest": "sha256:x"}, {"engine_digest": "sha256:x"}, {"version": "0.27.0"}, {"device": "GPU-2"}],
    ids=["image", "engine", "version", "kind of device"],
)
def test_another_identity_has_another_layer(caches: Caches, tmp_path: Path, other: dict[str, str]) -> None:
    assert layer(caches, tmp_path, **other).use.key != layer(caches, tmp_path).use.key


def test_driver_and_processor_count_and_which_device_of_a_kind_does_not(
    caches: Caches, tmp_path: Path
) -> None:
    key = layer(caches, tmp_path).use.key
    assert layer(caches, tmp_path, device="GPU-1").use.key == key
    driver = replace(caches, inventory=replace(INVENTORY, drivers={"cuda": "581.0"}))
    flags = replace(caches, inventory=replace(INVENTORY, cpu=CpuFacts(model="Zen", facts=("avx512f",))))
    assert len({key, layer(driver, tmp_path).use.key, layer(flags, tmp_path).use.key}) == 3


def test_links_pipes_hard_links_locks_and_odd_names_do_not_get_in(caches: Caches, tmp_path: Path) -> None:
    private, outside = tmp_path / "1", tmp_path / "secret"
    outside.write_text("of the host")
    made = layer(caches, private)
    made.fill()
    (private / "good").write_text("good")
    (private / "link").symlink_to(outside)
    (private / "folder").symlink_to(tmp_path)
    os.mkfifo(private / "pipe")
    os.link(outside, private / "hard")
    (private / "a\nname").write_text("breaks a line")
    (private / "k.lock").write_text("")
    (private / "tmp.pid_7_x").mkdir()
    (private / "tmp.pid_7_x/half").write_text("unfinished")
    made.keep()
    assert made.use.kept
    assert made.use.note == "5 files are no plain files or too large: not kept"
    assert given(caches, tmp_path / "2") == {"good": "good"}


def test_a_folder_that_became_a_link_is_not_read(caches: Caches, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    made = layer(caches, tmp_path / "1")
    made.fill()
    (tmp_path / "1").rmdir()
    (tmp_path / "1").symlink_to(outside)
    made.keep()
    assert (made.use.files_out, made.use.kept) == (0, False)


def test_a_path_too_long_for_the_system_is_left_where_it_is(caches: Caches, tmp_path: Path) -> None:
    made = layer(caches, tmp_path / "1")
    made.fill()
    (tmp_path / "1/good").write_text("good")
    at = os.open(tmp_path / "1", os.O_RDONLY)
    for _ in range(45):  # 45 * 101 bytes are more than PATH_MAX
        os.mkdir("d" * 100, dir_fd=at)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    made.keep()
    assert (made.use.files_out, made.use.kept) == (1, True)


def test_a_flood_of_files_is_not_read_to_its_end(
    caches: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_BYTES", 1000)
    read: list[Path] = []
    plain = tree.read_plain

    def counted(path: Path) -> bytes | None:
        read.append(path)
        return plain(path)

    monkeypatch.setattr(tree, "read_plain", counted)
    made = passed(caches, tmp_path / "1", {f"f{number:02}": "x" * 100 for number in range(50)})
    assert (len(read), made.use.kept) == (11, False)
    assert made.use.note == "not kept: more than a layer may hold"


def test_a_layer_that_would_be_too_large_stays_as_it_is(caches: Caches, tmp_path: Path) -> None:
    small = replace(caches, max_bytes=10)
    passed(small, tmp_path / "1", {"a": "12345678"})
    more = passed(small, tmp_path / "2", {"b": "123"})
    assert (more.use.files_out, more.use.kept) == (1, False)
    assert more.use.note == "not kept: the layer is full (2 files, 0 MiB with these)"
    assert given(small, tmp_path / "3") == {"a": "12345678"}


def test_the_least_recently_used_layers_make_room(caches: Caches, tmp_path: Path) -> None:
    small = replace(caches, max_total_bytes=25)
    images = [replace(small, inventory=replace(INVENTORY, drivers={"cuda": str(n)})) for n in range(3)]
    for number in (0, 1):
        passed(images[number], tmp_path / f"fill-{number}", {"k": "0123456789"})
        os.utime(small.folder / layer(images[number], tmp_path).use.key / "layer", (number, number))
    given(images[0], tmp_path / "used")  # the older one, used again
    passed(images[2], tmp_path / "last", {"k": "0123456789"})
    left = [bool(given(each, tmp_path / f"look-{n}")) for n, each in enumerate(images)]
    assert left == [True, False, True]


@pytest.mark.parametrize("how", ["changed", "shorter", "gone", "a link"])
def test_a_damaged_layer_is_dropped_and_the_cell_starts_cold(
    caches: Caches, tmp_path: Path, how: str
) -> None:
    first = passed(caches, tmp_path / "1", {"a": "one", "b": "two"})
    kept = caches.folder / first.use.key / "layer/files/b"
    kept.unlink()
    if how == "a link":
        kept.symlink_to("/etc/passwd")
    elif how != "gone":
        kept.write_text({"changed": "TWO", "shorter": "t"}[how])
    second = layer(caches, tmp_path / "2")
    second.fill()
    assert list((tmp_path / "2").iterdir()) == []
    assert (second.use.layer, second.use.files_in) == ("", 0)
    assert second.use.note == "the kept layer was damaged: dropped"
    assert given(caches, tmp_path / "3") == {}


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b'{"identity": {}, "files": {"../../x": {"size": 1, "sha256": "0"}}}'],
    ids=["empty", "another shape", "leads elsewhere"],
)
def test_a_list_that_cannot_be_understood_is_no_layer(
    caches: Caches, tmp_path: Path, manifest: bytes
) -> None:
    first = passed(caches, tmp_path / "1", {"a": "one"})
    path = caches.folder / first.use.key / "layer/manifest.json"
    path.unlink()
    path.write_bytes(manifest)
    assert given(caches, tmp_path / "2") == {}
    passed(caches, tmp_path / "3", {"b": "two"})
    assert given(caches, tmp_path / "4") == {"b": "two"}


def test_lists_with_absolute_paths_serve_cells_that_see_the_cache_elsewhere(
    caches: Caches, tmp_path: Path
) -> None:
    """Triton's list of a kernel's files is useless where its paths do not exist."""
    here, there = str(tmp_path / "1"), str(tmp_path / "2")
    name = "triton/ab/__grp__k.json"
    passed(caches, tmp_path / "1", {name: json.dumps({"child_paths": {"k": f"{here}/triton/ab/k"}})}, here)
    assert json.loads(given(caches, tmp_path / "2", there)[name]) == {
        "child_paths": {"k": f"{there}/triton/ab/k"}
    }
    assert json.loads(given(caches, tmp_path / "3")[name]) == {"child_paths": {"k": "/caches/triton/ab/k"}}
    same = layer(caches, tmp_path / "4", str(tmp_path / "4"))
    same.fill()
    same.keep()
    assert same.use.files_out == 0, "only the path differs"


def test_readers_wait_while_a_layer_is_replaced(caches: Caches, tmp_path: Path) -> None:
    first = passed(caches, tmp_path / "1", {"a": "one"})
    found: list[dict[str, str]] = []
    with (caches.folder / first.use.key / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reader = threading.Thread(target=lambda: found.append(given(caches, tmp_path / "2")))
        reader.start()
        reader.join(0.1)
        assert not found
    reader.join()
    assert found == [{"a": "one"}]


def test_what_a_dead_runner_left_half_built_is_removed(caches: Caches, tmp_path: Path) -> None:
    first = passed(caches, tmp_path / "1", {"a": "one"})
    home = caches.folder / first.use.key
    (home / "next-1/files").mkdir(parents=True)
    (home / "past").mkdir()
    passed(caches, tmp_path / "2", {"b": "two"})
    assert sorted(path.name for path in home.iterdir()) == ["layer", "lock"]
    assert given(caches, tmp_path / "3") == {"a": "one", "b": "two"}


def test_a_folder_that_cannot_be_used_costs_time_and_no_cell(caches: Caches, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    made = passed(caches, tmp_path / "1", {"a": "one"})
    assert not made.use.kept
    assert made.use.note == "the kept layer could not be read: Not a directory; not kept: Not a directory"


def test_clear_drops_all_and_says_how_much(caches: Caches, tmp_path: Path) -> None:
    passed(caches, tmp_path / "1", {"a": "12345"})
    assert clear(caches.folder) == 5
    assert given(caches, tmp_path / "2") == {}
    assert clear(tmp_path / "nothing") == 0
