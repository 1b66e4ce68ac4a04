"""Classes of results over runs: the handed case D01, and the stated bounds of the sequential test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.records import Seen
from runner.triage import Class, judge, since
from runner.triage.flaky import STREAK

CASES = json.loads((Path(__file__).parent / "data" / "D01-history.json").read_text())
COMMITS = ["c1", "c2", "c3", "c4", "c5", "c5", "c7", "c8", "c9", "c10", "c11", "c12"]


def seen(results: str, hosts: str = "", commits: list[str] | None = None) -> list[Seen]:
    return [
        Seen(
            run_id=str(n + 1),
            result=result,
            host=hosts[n] if hosts else "a",
            candidate=commits[n] if commits else f"c{n}",
        )
        for n, result in enumerate(results)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"D01-{case['test']}-{case['class']}")
def test_d01(case: dict[str, str]) -> None:
    found = judge(seen(case["runs"], case.get("hosts", ""), COMMITS))
    assert found.kind == case["class"]
    if "since" in case:
        assert found.since == str(case["since"])


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        ("PPPP", Class.UNSURE),
        ("PPPPP", Class.UNSURE),
        ("P" * (STREAK - 1), Class.UNSURE),
        ("P" * STREAK, Class.STABLE),
        ("PPPPPPPPPPPF", Class.UNSURE),  # one failure at the end: 1 in 12 by chance
        ("PPPPPPPPPPFF", Class.REGRESSION),  # 1 in 66
        ("PPPPPFPPPPPP", Class.UNSURE),  # one failure, each result of another candidate
        ("PFPPFPPPP", Class.FLAKY),
        ("PFF" + "P" * STREAK, Class.STABLE),  # a streak clears a flaky cell
        ("PFF" + "P" * (STREAK - 1), Class.FLAKY),
        ("IIIIFFFFF", Class.BROKEN),
        ("----IIII", Class.UNSURE),
    ],
)
def test_bounds_of_the_sequential_test(results: str, kind: Class) -> None:
    assert judge(seen(results)).kind is kind


def test_unsure_says_how_many_passes_would_settle_it() -> None:
    assert judge(seen("PPPPPP")).more == STREAK - 6
    found = judge(seen("PPPPPPPPPPPF"))
    assert judge(seen("PPPPPPPPPPPF" + "P" * found.more)).kind is Class.STABLE
    assert judge(seen("PPPPPPPPPPPF" + "P" * (found.more - 1))).kind is Class.UNSURE


def test_a_host_that_changed_once_is_a_change_not_a_bound() -> None:
    assert judge(seen("PPPPFFFF", "aaaabbbb")).kind is Class.REGRESSION


@pytest.mark.parametrize(
    ("results", "first"),
    [("PPFF", "3"), ("PFPF", "4"), ("PFIF-", "2"), ("PFP", ""), ("FFF", "1"), ("PfF", "2"), ("", "")],
)
def test_since_is_the_first_bad_run_of_the_present_failing(results: str, first: str) -> None:
    assert since(seen(results)) == first
