"""The shipped Dockerfiles, linted: by hadolint where pip has it, and by rules of our own that hold everywhere."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[3] / "images"
DOCKERFILES = sorted(IMAGES.glob("*/Dockerfile"))


HADOLINT = Path(sys.executable).parent / "hadolint"
needs_hadolint = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="pip has hadolint for Linux on x86_64"
)


def hadolint(*files: Path) -> subprocess.CompletedProcess[str]:
    argv = [str(HADOLINT), "--no-color", "--config", str(IMAGES / ".hadolint.yaml"), *map(str, files)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@needs_hadolint
def test_hadolint_has_nothing_to_say() -> None:
    done = hadolint(*DOCKERFILES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_hadolint
def test_hadolint_looks_at_shell_and_instructions(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && echo $y\n")
    done = hadolint(tmp_path / "Dockerfile")
    assert done.returncode == 1
    assert {word for word in done.stdout.split() if word in {"DL3006", "SC2086"}} == {"DL3006", "SC2086"}


def instructions(text: str) -> list[tuple[str, str]]:
    """Word and rest of every instruction, continued lines joined, comments left out."""
    bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n", " ", bare)
    return [
        (line.split(None, 1)[0].upper(), line.split(None, 1)[1])
        for line in joined.splitlines()
        if line.strip()
    ]


def lint(text: str) -> list[str]:
    """What is wrong with a Dockerfile."""
    found = instructions(text)
    wrong = []
    default = next((rest for word, rest in found if word == "ARG" and rest.startswith("BASE=")), "")
    if not re.fullmatch(r"BASE=[a-z0-9./-]+(:[\w][\w.-]*|@sha256:[0-9a-f]{64})", default):
        wrong.append("ARG BASE has no default with a tag or a digest")
    if default.endswith(":latest"):
        wrong.append("the tag latest moves")
    stages = {rest.split()[-1] for word, rest in found if word == "FROM" and " AS " in rest}
    for word, rest in found:
        if word == "FROM" and rest.split()[0] not in {"${BASE}", *stages}:
            wrong.append(f"FROM {rest}: not the argument BASE")
        if word == "ADD":
            wrong.append("ADD unpacks and downloads: use COPY")
        if word == "RUN":
            wrong += lint_run(rest)
    users = [rest for word, rest in found if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        wrong.append("the last USER must be an unprivileged user by number")
    if not any("vllm-matrix.build-bytes=" in rest for word, rest in found if word == "LABEL"):
        wrong.append("no label says how much room a build needs")
    return wrong


def lint_run(rest: str) -> list[str]:
    wrong = []
    if "apt-get install" in rest and "--no-install-recommends" not in rest:
        wrong.append("apt-get install without --no-install-recommends")
    if "apt-get update" in rest and "rm -rf /var/lib/apt/lists/*" not in rest:
        wrong.append("package lists stay in the image")
    if "pip install" in rest and "--no-cache-dir" not in rest:
        wrong.append("pip's cache stays in the image")
    after = rest.partition("pip install")[2].partition(";")[0]
    names = [word for word in after.split() if re.fullmatch(r"[A-Za-z][\w-]*", word)]
    wrong += [f"pip install {name}: no version" for name in names if f"--target {name}" not in after]
    if re.search(r"\bsudo\b|curl[^|]*\|\s*(ba)?sh", rest):
        wrong.append("sudo, or a script from the network")
    return wrong


def test_every_platform_has_a_dockerfile() -> None:
    assert [path.parent.name for path in DOCKERFILES] == ["cpu", "cuda", "rocm"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_dockerfile(path: Path) -> None:
    assert lint(path.read_text()) == []


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_gpu_images_derive_from_the_official_ones_and_invent_no_digest(platform: str) -> None:
    text = (IMAGES / platform / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE=vllm/vllm-openai(-rocm)?:v\d+\.\d+\.\d+$", text, re.MULTILINE)
    assert "sha256:" not in text


GOOD = """\
ARG BASE=debian:bookworm-slim
FROM ${BASE}
LABEL vllm-matrix.build-bytes=1000
RUN apt-get update && apt-get install -y --no-install-recommends g++ \\
 && rm -rf /var/lib/apt/lists/*
USER 65532:65532
"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("", "", None),
        ("debian:bookworm-slim", "debian", "ARG BASE has no default with a tag or a digest"),
        ("bookworm-slim", "latest", "the tag latest moves"),
        ("${BASE}", "debian:12", "FROM debian:12: not the argument BASE"),
        (" --no-install-recommends", "", "apt-get install without --no-install-recommends"),
        ("rm -rf /var/lib/apt/lists/*", "true", "package lists stay in the image"),
        ("USER 65532:65532", "USER root", "the last USER must be an unprivileged user by number"),
        ("USER", "ADD a /a\nUSER", "ADD unpacks and downloads: use COPY"),
        ("USER", "RUN pip install --no-cache-dir six\nUSER", "pip install six: no version"),
        ("USER", "RUN pip install six==1.17.0\nUSER", "pip's cache stays in the image"),
        ("USER", "RUN curl http://x | sh\nUSER", "sudo, or a script from the network"),
        ("LABEL vllm-matrix.build-bytes=1000\n", "", "no label says how much room a build needs"),
    ],
)
def test_the_lint_finds_what_it_is_for(old: str, new: str, what: str | None) -> None:
    assert lint(GOOD.replace(old, new, 1)) == ([what] if what else [])
