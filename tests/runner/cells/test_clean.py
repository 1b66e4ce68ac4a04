"""What cannot be cleaned of secrets does not stay, and no verdict goes with it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.cells.clean import clean_file, clean_folder
from runner.cells.redact import Redactor

SECRET = Redactor({"T": "topsecret"})


@contextmanager
def full_behind(size: int) -> Iterator[None]:
    """No file can be written behind its first ``size`` bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_a_file_is_cleaned_in_itself(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_bytes(b"a topsecret b\n" + b"x" * 5000)
    with full_behind(1000):
        assert clean_folder(tmp_path, SECRET) == ("a secret was taken out of junit.xml",)
    assert file.read_bytes() == b"a ********* b\n" + b"x" * 5000
    assert list(tmp_path.iterdir()) == [file]


def test_in_itself_a_secret_across_two_pieces_is_found(tmp_path: Path) -> None:
    file = tmp_path / "big"
    before, after = b"x" * ((1 << 20) - 4), b"y" * (1 << 20)
    file.write_bytes(before + b"topsecret" + after + b"topsecr")
    with full_behind((1 << 20) + 100):
        assert clean_file(file, SECRET)
    assert file.read_bytes() == before + b"*********" + after + b"topsecr"


def test_what_cannot_be_cleaned_is_removed_and_said_before_all_else(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    lost = tmp_path / "deep" / "x.txt"
    lost.write_bytes(b"x" * 5000 + b"topsecret")
    (tmp_path / "a.txt").write_bytes(b"topsecret")
    untouched = tmp_path / "large.bin"
    untouched.write_bytes(b"x" * 5000)
    with full_behind(1000):
        assert clean_folder(tmp_path, SECRET) == (
            "deep/x.txt was removed: it could not be searched for secrets (File too large)",
            "a secret was taken out of a.txt",
        )
    assert not lost.exists()
    assert untouched.read_bytes() == b"x" * 5000
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.txt", "deep", "large.bin"]


def test_a_cleaned_name_takes_no_other_files_place(tmp_path: Path) -> None:
    for folder in ("", "d"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "_secret_T_").write_text("theirs")
        (tmp_path / folder / "topsecret").write_text("first")
        (tmp_path / folder / "topsecret ").write_text("second")
    (tmp_path / "dtopsecret").mkdir()
    (tmp_path / "d_secret_T_").mkdir()
    assert len(clean_folder(tmp_path, SECRET)) == 5
    for folder in ("", "d"):
        kept = {p.name: p.read_text() for p in (tmp_path / folder).iterdir() if p.is_file()}
        assert kept == {"_secret_T_": "theirs", "2-_secret_T_": "first", "3-_secret_T_": "second"}
    assert (tmp_path / "2-d_secret_T_").is_dir()


def test_nothing_is_written_through_links_and_nothing_is_read_from_pipes(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("topsecret of somebody else")
    left = tmp_path / "left"
    left.mkdir()
    (left / "a.txt").write_text("topsecret")
    (left / ".a.txt.redacting").symlink_to(elsewhere)
    (left / "link").symlink_to(elsewhere)
    (left / "folder").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(left / "pipe")
    assert clean_folder(left, SECRET) == ("a secret was taken out of a.txt",)
    assert elsewhere.read_text() == "topsecret of somebody else"


def test_what_lies_deeper_than_a_path_can_say_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=descriptor)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    file = os.open("last.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor)
    os.write(file, b"topsecret")
    os.close(file)
    os.close(descriptor)
    (remark,) = clean_folder(tmp_path, SECRET)
    assert remark.endswith("it could not be searched for secrets (File name too long)")
    assert len(list(tmp_path.rglob("d*"))) < 20
    assert (tmp_path / "kept.txt").exists()


def test_a_folder_that_is_not_there_holds_no_secret(tmp_path: Path) -> None:
    assert clean_folder(tmp_path / "none", SECRET) == ()


@pytest.mark.skipif(os.getuid() == 0, reason="root may read and remove everything")
def test_what_cannot_be_removed_either_is_said(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "x").write_text("topsecret")
    (tmp_path / "closed" / "x").chmod(0)
    (tmp_path / "closed").chmod(0o500)
    (remark,) = clean_folder(tmp_path, SECRET)
    (tmp_path / "closed").chmod(0o700)
    assert remark.startswith("closed/x may hold a secret, remove it by hand: ")
