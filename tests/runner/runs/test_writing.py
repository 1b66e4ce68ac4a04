"""A write replaces a plain file or makes one, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.runs import write_atomic


def test_a_plain_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    for text in (b"one", b"two"):
        write_atomic(path, text)
        assert path.read_bytes() == text
    assert [each.name for each in tmp_path.iterdir()] == ["page.md"]


def test_a_pipe_a_folder_and_a_link_to_a_device_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stdout").symlink_to("/dev/null")  # as /dev/stdout may be
    for name in ("folder", "pipe", "stdout"):
        with pytest.raises(OSError, match="not a plain file"):
            write_atomic(tmp_path / name, b"x")
    assert (tmp_path / "stdout").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe", "stdout"]
