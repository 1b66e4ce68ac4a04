"""A run on the fake runtime: four cells with engine proof, judged for real, in a run folder on disk."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from runner import hosts, pipeline, report
from runner.facts import PreparedImage, Watch
from runner.interrupt import CancelToken
from runner.pipeline.gate import GateResult, gate
from runner.runtimes import FakeCell, FakeRuntime

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
"""When each run begins: ages count in days, and no run of these tests may have two of them."""
TODAY = NOON.date()
DIGEST = "sha256:" + "0123456789abcdef" * 4

MATRIX = """\
version: 1
suite: {path: suite, proof: engine, command: [run]}
axes:
  platform: [cpu, rocm]
  dtype: [bfloat16]
  tp: [1, 2]
  quantization: [none, experts_int8]
quantizations:
  none: {expect: {moe_method: UnquantizedFusedMoEMethod}}
  experts_int8: {expect: {moe_method: Int8OnlineMoEMethod, expert_weight_dtype: int8}}
rules:
  - {exclude: {platform: rocm, quantization: experts_int8}, reason: not on the allow-list}
"""
POLICY = """\
version: 1
blocking: platform=cpu
coverage:
  platform: {cpu: 4}
  quantization: {none: 2, experts_int8: 2}
engine_version: 0.32.0
"""
WEIGHTS = {
    "none": ("UnquantizedFusedMoEMethod", "bfloat16"),
    "experts_int8": ("Int8OnlineMoEMethod", "int8"),
}
PASS = '<testcase classname="t" name="test_generates" time="0.1"/>'
SKIP = '<testcase classname="t" name="test_generates"><skipped message="no AMX"/></testcase>'
FAIL = (
    '<testcase classname="t" name="test_generates"><failure message="KeyError: scale">no</failure></testcase>'
)


def junit(*cases: str) -> str:
    return f'<testsuites><testsuite name="s">{"".join(cases)}</testsuite></testsuites>\n'


def evidence(tp: int, quantization: str, version: str = "0.32.0") -> str:
    method, weights = WEIGHTS[quantization]
    layer = {"name": "l0", "moe_method": method, "expert_weight_dtype": weights, "backend": "CPU"}
    events: list[dict[str, object]] = [{"event": "start", "schema": 1, "sees": "@sees"}]
    events.append(
        {
            "event": "engine",
            "name": "vllm",
            "version": version,
            "platform": "CpuPlatform",
            "device_type": "cpu",
            "dtype": "bfloat16",
            "tp": tp,
            "quantization": "" if quantization == "none" else quantization,
        }
    )
    events += [
        {"event": "rank", "rank": rank, "world_size": tp, "device": "cpu", "layers": [layer]}
        for rank in range(tp)
    ]
    events += [
        {
            "event": "agreement",
            "prompts": 8,
            "tokens_equal": True,
            "max_abs_diff": 0.1,
            "bound": 0.5,
            "agrees": True,
        },
        {"event": "shutdown", "seconds": 1.0, "children_left": 0},
        {"event": "end"},
    ]
    return "".join(json.dumps({"t": 1.0 + number} | event) + "\n" for number, event in enumerate(events))


def good(tp: int, quantization: str, version: str = "0.32.0") -> FakeCell:
    out = {"junit.xml": junit(PASS), "evidence.jsonl": evidence(tp, quantization, version)}
    return FakeCell(out=out, log="engine log\n")


def slug(tp: int, quantization: str) -> str:
    return f"cpu-bfloat16-tp{tp}-{quantization}"


ALL_GOOD = {f"*{slug(tp, q)}-*": good(tp, q) for tp in (1, 2) for q in WEIGHTS}


class Scripted(FakeRuntime):
    """The fake runtime under the name and with the image digest of one that a policy takes."""

    name = "docker"

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        return replace(super().image(ref, log_path), digest=DIGEST)


@dataclass(frozen=True)
class Gated:
    """A run folder with a policy beside it."""

    folder: Path
    policy: Path

    def gate(self, waivers: str = "", *, today: date = TODAY, policy: str = "") -> GateResult:
        if policy:
            self.policy.write_text(policy)
        file = self.policy.with_name("waivers.yaml")
        file.write_text(waivers)
        return gate(self.folder, self.policy, file if waivers else None, today)

    def cell(self, tp: int, quantization: str) -> Path:
        return next((self.folder / "cells").glob(slug(tp, quantization) + "-*"))

    def attempt(self, tp: int = 2, quantization: str = "experts_int8") -> Path:
        return self.cell(tp, quantization) / "attempt-1"


def go(
    place: Path,
    cells: Mapping[str, FakeCell] | None = None,
    *,
    matrix: str = MATRIX,
    runtime: type[FakeRuntime] = Scripted,
    select: str = "",
    expect_engine: str | None = None,
    began: datetime = NOON,
) -> Path:
    """A finished run in ``place``; ``cells`` replaces what single cells do, by a pattern of their slug.

    It runs on the day of ``began``; what reads the real clock afterwards (the command line) needs a run of now.
    """
    (place / "suite").mkdir(exist_ok=True)
    (place / "leases").mkdir(exist_ok=True)
    (place / "matrix.yaml").write_text(matrix)
    wish = pipeline.Wish(
        matrix=place / "matrix.yaml",
        out=place / "reports",
        cache=place / "cache",
        select=select,
        expect_engine=expect_engine,
    )
    with pytest.MonkeyPatch.context() as patch, time_machine.travel(began, tick=True):
        # Real leases of this host's cores would make these cells wait for whatever else runs on it.
        patch.setattr(hosts, "lease_folder", lambda: place / "leases")
        done = pipeline.run(
            wish,
            lambda run: report.progress(len(run.plan.planned()), io.StringIO()),
            CancelToken(),
            runtime=runtime({**ALL_GOOD, **(cells or {})}),
        )
    return done.folder


def days(number: int) -> date:
    return TODAY + timedelta(days=number)
