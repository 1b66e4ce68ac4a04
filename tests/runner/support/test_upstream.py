"""The prepared suite of upstream tests: what is taken out of an archive, and what is refused."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

UPSTREAM = Path(__file__).resolve().parents[2] / "upstream"
WANTED = (
    "tests/quantization/test_quark.py",
    "tests/quantization/test_experts_int8.py",
    "tests/conftest.py",
)


def archive(path: Path, names: tuple[str, ...]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name in names:
            content = f"# {name}\n".encode()
            member = tarfile.TarInfo(f"vllm-9.9.9/{name}")
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


def prepare(*arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(UPSTREAM / "prepare.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def wanted() -> tuple[str, ...]:
    text = (UPSTREAM / "prepare.py").read_text(encoding="utf-8")
    block = text.partition("WANTED = (")[2].partition(")")[0]
    return tuple(line.strip().strip('",') for line in block.splitlines() if line.strip())


def test_takes_the_named_files_and_puts_ours_beside_them(tmp_path: Path) -> None:
    names = wanted()
    assert set(WANTED) <= set(names)
    source = archive(tmp_path / "v.tar.gz", (*names, "tests/other.py", "../evil.py", "setup.py"))
    done = prepare(source, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    made = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert made == {*names, "conftest.py", "pytest.ini"}
    assert (tmp_path / "out" / WANTED[0]).read_text() == f"# {WANTED[0]}\n"


def test_a_file_that_the_archive_lacks_is_named(tmp_path: Path) -> None:
    source = archive(tmp_path / "v.tar.gz", tuple(n for n in wanted() if n != WANTED[1]))
    done = prepare(source, tmp_path / "out")
    assert done.returncode == 1
    assert WANTED[1] in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("what", ["missing", "no archive", "folder in use"])
def test_mistakes_are_one_line(what: str, tmp_path: Path) -> None:
    source = tmp_path / "v.tar.gz"
    out = tmp_path / "out"
    if what == "no archive":
        source.write_text("x")
    if what == "folder in use":
        archive(source, wanted())
        out.mkdir()
        (out / "mine").write_text("x")
    done = prepare(source, out)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("prepare: ")
