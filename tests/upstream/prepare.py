"""Makes a suite of vLLM's own quantization tests, from its source distribution, that runs as cells with `proof: tests`.

    python tests/upstream/prepare.py vllm-0.32.0.tar.gz OUT

Nothing of vLLM is kept in this project: the files named below are taken out of the archive into OUT, and this folder's
`conftest.py` and `pytest.ini` are put beside them. docs/upstream.md says how to fetch the archive and what each test asserts.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
OURS = ("conftest.py", "pytest.ini")
WANTED = (
    "tests/__init__.py",
    "tests/ci_envs.py",
    "tests/conftest.py",
    "tests/utils.py",
    "tests/models/__init__.py",
    "tests/models/registry.py",
    "tests/models/utils.py",
    "tests/prompts/example.txt",
    "tests/prompts/summary.txt",
    "tests/quantization/__init__.py",
    "tests/quantization/reference_mxfp4.py",
    "tests/quantization/utils.py",
    "tests/quantization/test_experts_int8.py",
    "tests/quantization/test_quark.py",
)
"""The two test files, and what they import from the rest of vLLM's tests (0.32.0)."""
LARGEST = 4 << 20
"""Bytes of one file; the largest of WANTED has 0.1 MB."""


def prepare(archive: Path, out: Path) -> None:
    """Writes the suite to `out`, which must be new or empty.

    Raises FileExistsError where it is not, KeyError naming a file that the archive lacks, tarfile.TarError for a bad archive.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        msg = f"{out} is not empty"
        raise FileExistsError(msg)
    missing = set(WANTED)
    with tarfile.open(archive) as content:
        for member in content:
            inner = PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix()
            if inner not in missing or not member.isfile() or member.size > LARGEST:
                continue
            source = content.extractfile(member)
            if source is not None:
                target = out / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
                missing.discard(inner)
    if missing:
        msg = f"{archive} has no {', '.join(sorted(missing))}"
        raise KeyError(msg)
    for name in OURS:
        shutil.copyfile(HERE / name, out / name)


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when made, 1 with one line where not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args(argv)
    try:
        prepare(given.archive, given.out)
    except (OSError, KeyError, tarfile.TarError) as error:
        sys.stderr.write(f"prepare: {' '.join(str(error).split())}\n")
        return 1
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
