"""What a plan says before anything runs: each cause once, with its place in the file and the number of cells."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import pipeline
from runner.errors import UsageError
from runner.model import Plan
from runner.pipeline.planning import make_plan

HEAD = """\
version: 1
axes: {platform: [cpu], tp: [1], case: [a, b]}
"""

TWO = """\
version: 1
axes: {platform: [cpu, rocm], tp: [1]}
suite: {path: suite, proof: tests}
platforms:
  cpu: {image: skeleton, python: /opt/a/bin/python3}
  rocm: {image: skeleton, python: /opt/%s/bin/python3%s}
"""

Noted = Callable[..., list[str]]


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Plan]:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "empty").mkdir()

    def make(text: str, **environ: str) -> Plan:
        (tmp_path / "matrix.yaml").write_text(HEAD + text)
        wish = pipeline.Wish(matrix=tmp_path / "matrix.yaml", cache=tmp_path / "cache", environ=environ)
        return make_plan(wish)[0]

    return make


@pytest.mark.parametrize(
    ("python", "more", "differ"),
    [
        ("b", "", "python"),
        ("a", ", mounts: [/srv]", "mounts"),
        ("b", ", engine_digest: [/srv]", "python, engine_digest"),
    ],
)
def test_one_image_in_two_ways_is_refused_at_its_place(
    tmp_path: Path, python: str, more: str, differ: str
) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "matrix.yaml").write_text(TWO % (python, more))
    wish = pipeline.Wish(matrix=tmp_path / "matrix.yaml", cache=tmp_path / "cache")
    said = f"matrix.yaml:5:16: cpu and rocm share the image skeleton but not {differ}; "
    with pytest.raises(UsageError, match=f"^{re.escape(said)}an image is prepared once"):
        make_plan(wish)


def test_one_image_in_one_way_is_shared(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "matrix.yaml").write_text(TWO % ("a", ""))
    made, _ = make_plan(pipeline.Wish(matrix=tmp_path / "matrix.yaml", cache=tmp_path / "cache"))
    assert len(made.entries) == 2


GOOD = "suite: {path: suite, proof: tests}\n"


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        (GOOD, []),
        (GOOD + "platforms: {cpu: {image: images/cpu}}\n", []),  # this project's own, wherever the file lies
        (GOOD + "platforms: {cpu: {image: team/app:v1}}\n", []),  # only a registry knows
        (
            "suite: {path: tests/mo, proof: tests}\n",
            ["matrix.yaml:3:15: there is no suite folder tests/mo beside the file: no_tests (2 cells)"],
        ),
        (
            "suite: {path: suite, proof: tests, tests: [test_a.py::test_a, test_b.py]}\n",
            ["matrix.yaml:3:63: the suite suite has no test_b.py (2 cells)"],
        ),
        (
            GOOD + "secrets: [HF_TOKEN, SET]\n",
            ["matrix.yaml:4:11: the secret HF_TOKEN is not set in this environment (2 cells)"],
        ),
        (
            GOOD + "overrides: [{when: case=b, secrets: [EMPTY]}]\n",
            ["matrix.yaml:4:38: the secret EMPTY is not set in this environment (1 cell)"],
        ),
        (
            GOOD + "platforms: {cpu: {image: ./gone}}\n",
            ["matrix.yaml:4:26: there is no image folder or interpreter ./gone (2 cells)"],
        ),
        (
            GOOD + "platforms: {cpu: {image: images/gone}}\n",
            [
                "matrix.yaml:4:26: there is no image folder images/gone beside the file: it will be asked of a registry (2 cells)"
            ],
        ),
        (
            GOOD + "platforms: {cpu: {image: Team/App}}\n",
            [
                (
                    "matrix.yaml:4:26: Team/App is no image reference that a registry takes: [HOST[:PORT]/]name[:TAG] or"
                    " [...]name@sha256:DIGEST, names in small letters (2 cells)"
                )
            ],
        ),
        (
            GOOD + "platforms: {cpu: {image: empty}}\n",
            ["matrix.yaml:4:26: the image folder empty has no Dockerfile (2 cells)"],
        ),
        (
            GOOD + "platforms: {cpu: {mounts: [/no/such], engine_digest: [/no/engine]}}\n",
            [
                "matrix.yaml:4:19: this host has no /no/such, which the platform mounts or hashes: refused (2 cells)",
                "matrix.yaml:4:55: this host has no /no/engine, which the platform mounts or hashes: refused (2 cells)",
            ],
        ),
        (
            GOOD + "models: {far: {hub: org/far}}\nmodel: far\n",
            [
                "matrix.yaml:4:15: model far names hub: org/far, and HF_HUB_OFFLINE forbids to ask it (2 cells)"
            ],
        ),
        (
            GOOD
            + "engine_args: {a: 2}\nrules: [{require: {a: 1}, when: {case: a}, reason: r}]\nsecrets: [HF_TOKEN]\n",
            [
                "matrix.yaml:6:11: the secret HF_TOKEN is not set in this environment (1 cell)"
            ],  # b; a is refused
        ),
    ],
)
def test_a_plan_notes_what_cannot_go_well(plan: Any, text: str, noted: list[str]) -> None:
    made = plan(text, SET="x" * 8, EMPTY="", HF_HUB_OFFLINE="1")
    assert [line for line in made.remarks if not line.startswith("rules take")] == noted


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("{recipe: qwen3moe}", None),
        ("{recipe: jamba_fp8_block, fault: corrupt_expert}", None),
        (
            "{recipe: qwen3mo}",
            "m names recipe: qwen3mo, which the shipped suite does not have, did you mean qwen3moe?",
        ),
        ("{recipe: jamba, fault: corupt}", "m names fault: corupt, known: corrupt_expert, "),
    ],
)
def test_a_recipe_that_is_not_there(plan: Any, model: str, note: str | None) -> None:
    remarks = plan(GOOD + f"models: {{m: {model}}}\nmodel: m\n").remarks
    assert len(remarks) == (note is not None)
    assert all(remark.startswith(f"matrix.yaml:4:13: model {note}") for remark in remarks)


def test_a_suites_own_recipes_are_never_run_on_the_host(plan: Any, tmp_path: Path) -> None:
    own = tmp_path / "suite" / "recipes"
    own.mkdir()
    (own / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef names(): return ()\n")
    assert plan(GOOD + "models: {m: {recipe: mine}}\nmodel: m\n").remarks == ()
    assert not (tmp_path / "ran").exists()


def test_a_hub_that_may_be_asked_is_not_noted(plan: Any) -> None:
    assert plan(GOOD + "models: {far: {hub: org/far}}\nmodel: far\n").remarks == ()


def test_a_cell_that_asks_for_more_memory_than_there_is(plan: Any) -> None:
    (note,) = plan(GOOD + "limits: {memory: 900000g}\n").remarks
    assert note.startswith("limits.memory 900000.0 GiB is more than this host has (")
    assert note.endswith(" GiB) (2 cells)")
