"""C10: what a cell leaves in its folder is not trusted."""

import os
from pathlib import Path

import pytest

from runner.cells import collect as module
from runner.cells.collect import collect, safe_name


def test_plain_files_are_moved_and_the_folder_goes(tmp_path: Path) -> None:
    out, into = tmp_path / "out", tmp_path
    (out / "deep").mkdir(parents=True)
    (out / "junit.xml").write_text("<a/>")
    (out / "deep" / "b.txt").write_text("b")
    found = collect(out, into)
    assert sorted(found.names) == ["deep/b.txt", "junit.xml"]
    assert (into / "junit.xml").read_text() == "<a/>"
    assert not out.exists()
    assert found.remarks == ()


def test_links_fifos_and_hard_links_are_left_behind_and_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("host file")
    (out / "link.txt").symlink_to(secret)
    (out / "hard.txt").hardlink_to(secret)
    (out / "folder").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(out / "fifo")
    found = collect(out, tmp_path)
    assert found.names == ()
    assert [r.split(":")[0] for r in found.remarks] == [
        "left behind fifo",
        "left behind folder",
        "left behind hard.txt",
        "left behind link.txt",
    ]
    assert secret.read_text() == "host file"
    assert not out.exists()


def test_a_read_only_tree_is_read_and_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "closed").mkdir(parents=True)
    (out / "closed" / "a.txt").write_text("a")
    (out / "closed").chmod(0o500)
    assert collect(out, tmp_path).names == ("closed/a.txt",)
    assert not out.exists()


def test_names_that_break_logs_are_made_safe(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a\nb$.txt").write_text("x")
    assert collect(out, tmp_path).names == ("a_b_.txt",)
    assert safe_name("../../x") == "_/_/x"


def test_count_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    out = tmp_path / "out"
    out.mkdir()
    for name in "abc":
        (out / name).write_text(name)
    found = collect(out, tmp_path)
    assert found.names == ("a", "b")
    assert found.remarks == ("left behind c: over the limits on files kept (1 bytes)",)


def test_no_number_of_files_costs_the_verdict_what_it_rests_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 4)
    out = tmp_path / "out"
    out.mkdir()
    for name in (*(f"a{n}" for n in range(9)), "evidence.jsonl", "junit.xml", "tests.jsonl"):
        (out / name).write_text(name)
    kept = collect(out, tmp_path).names
    assert kept == ("evidence.jsonl", "junit.xml", "tests.jsonl", "a0")


def test_c10_a_folder_that_was_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "theirs.txt").write_text("not a cell's")
    into = tmp_path / "attempt"
    into.mkdir()
    (into / "out").symlink_to(elsewhere, target_is_directory=True)
    module.make_readable(into / "out")
    found = collect(into / "out", into)
    assert found.names == ()
    assert found.remarks == ("left behind out: the cell replaced its own folder",)
    assert (elsewhere / "theirs.txt").exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o700
    assert not (into / "out").is_symlink()


def test_c10_a_tree_deeper_than_a_path_can_be_costs_no_verdict(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "junit.xml").write_text("<a/>")
    descriptor = os.open(out, os.O_RDONLY)
    for _ in range(25):  # 25 x 200 characters: no single path reaches the end
        os.mkdir("d" * 200, dir_fd=descriptor)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("last.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    found = collect(out, tmp_path)
    assert found.names == ("junit.xml",)


def test_c10_two_names_that_become_one_file_and_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "a_b").mkdir(parents=True)
    (out / "a b").write_text("file")
    (out / "a_b" / "c").write_text("below")
    found = collect(out, tmp_path)
    assert found.names == ("a_b", "cell-a_b/c")
    assert found.remarks == ("a_b/c is kept as cell-a_b/c: its name is taken",)


def test_a_file_with_a_name_of_the_runner_is_kept_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in (
        "log.txt",
        "cell-input.json",
        "log.txt.tail",
        "in/cell.json",
        "matrix/a",
        "cache/b",
        "out/x",
    ):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(f"the cell's {name}")
    (tmp_path / "log.txt").write_text("the runner's")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cell.json").write_text("the runner's")
    found = collect(out, tmp_path)
    assert found.names == (
        "cell-cache/b",
        "cell-cell-input.json",
        "cell-in/cell.json",
        "cell-log.txt",
        "cell-log.txt.tail",
        "cell-matrix/a",
        "cell-out/x",
    )
    assert "log.txt is kept as cell-log.txt: its name is taken" in found.remarks
    assert len(found.remarks) == len(found.names)
    assert {(tmp_path / name).read_text() for name in ("log.txt", "in/cell.json")} == {"the runner's"}
    assert (tmp_path / "cell-out" / "x").read_text() == "the cell's out/x"
    assert not out.exists()


def test_no_file_takes_the_place_of_another(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    names = ("a b", "a$b", "a_b", "cell-a_b")
    for name in names:
        (out / name).write_text(name)
    (tmp_path / "theirs").mkdir()
    (out / "theirs").write_text("a file where a folder is")
    found = collect(out, tmp_path)
    kept = [(tmp_path / name).read_text() for name in found.names]
    assert kept == [*names, "a file where a folder is"]
    assert len(set(found.names)) == 5
    assert (tmp_path / "theirs").is_dir()


def test_no_file_is_kept_through_a_link_in_the_folder_of_the_attempt(tmp_path: Path) -> None:
    into, elsewhere = tmp_path / "attempt", tmp_path / "elsewhere"
    (into / "out" / "deep").mkdir(parents=True)
    elsewhere.mkdir()
    (into / "out" / "deep" / "x").write_text("x")
    (into / "deep").symlink_to(elsewhere, target_is_directory=True)  # a process of this host can put it there
    assert collect(into / "out", into).names == ("cell-deep/x",)
    assert list(elsewhere.iterdir()) == []


def test_more_collisions_than_a_name_can_tell_apart_are_left_behind_and_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    names = [f"{'x' * 99}{chr(number)}" for number in range(0x21, 0x7F) if not chr(number).isalnum()]
    names = [name for name in names if name[-1] not in "/._-"]
    for name in names:
        (out / name).write_text(name)
    found = collect(out, tmp_path)
    said = [remark for remark in found.remarks if remark.endswith(": File name too long")]
    assert len(found.names) + len(said) == len(names) > 25
