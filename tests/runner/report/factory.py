"""Small runs built in code: the shipped shape (3 platforms x 2 dtypes x 4 tp x 3 methods) and anything around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runner.facts import CellExit, Evidence, PreparedImage, RankFacts, Tally, TestCase, TestResult
from runner.machine import CpuFacts, Inventory
from runner.model import (
    Cell,
    CellSettings,
    Culprit,
    Limits,
    ModelRef,
    Outcome,
    Plan,
    PlanEntry,
    Proof,
    Reason,
    Status,
    Suite,
    Verdict,
)
from runner.records import Attempt, CellRecord, Prepared, Run

AXES: Mapping[str, tuple[str, ...]] = {
    "platform": ("cuda", "rocm", "cpu"),
    "dtype": ("bfloat16", "float16"),
    "tp": ("1", "2", "4", "8"),
    "quantization": ("none", "experts_int8", "quark_int8"),
}
DIGEST = "sha256:" + "0123456789ab" * 5 + "cdef"
FILES = {f"attempt-1/{name}": "0" * 64 for name in ("log.txt", "junit.xml", "evidence.jsonl", "tests.jsonl")}
METHODS = {
    "none": "UnquantizedFusedMoEMethod",
    "experts_int8": "Int8OnlineMoEMethod",
    "quark_int8": "QuarkW8A8Int8MoEMethod",
}


def cell(text: str) -> Cell:
    """A cell from its id."""
    return Cell.of(dict(part.split("=", 1) for part in text.split(",")))


def short(tp: int, quantization: str) -> Cell:
    """One of the cells that the shipped matrix plans on a CPU host."""
    return cell(f"platform=cpu,dtype=bfloat16,tp={tp},quantization={quantization}")


def settings(platform: str, proof: Proof = Proof.ENGINE) -> CellSettings:
    return CellSettings(
        image=f"images/{platform}",
        suite=Suite(proof=proof),
        limits=Limits(),
        devices=0,
        model=ModelRef(name="qwen3moe-tiny", recipe="qwen3moe"),
    )


def shipped_status(axes: Mapping[str, str]) -> tuple[Status, tuple[Reason, ...]]:
    """What the shipped matrix says on a host with a processor and no accelerator."""
    platform = axes["platform"]
    if platform == "cpu" and axes["dtype"] == "float16":
        return Status.EXCLUDED, (Reason(text="float16 is not qualified on CPU", source="matrix.yaml:41"),)
    if platform == "cpu" and int(axes["tp"]) > 2:
        return Status.EXCLUDED, (Reason(text="CPU lane qualifies tp 1 and 2", source="matrix.yaml:43"),)
    if platform == "cuda":
        return Status.NOT_RUNNABLE, (Reason(text="no NVIDIA device: /dev/nvidiactl is missing"),)
    if platform == "rocm":
        reasons = [Reason(text="no AMD device: /dev/kfd is missing")]
        if axes["quantization"] == "experts_int8":
            reasons.append(Reason(text="experts_int8 is not qualified on rocm", source="matrix.yaml:29"))
        return Status.NOT_RUNNABLE, tuple(reasons)
    return Status.PLANNED, ()


Decide = Callable[[Mapping[str, str]], tuple[Status, tuple[Reason, ...]]]


def plan(
    axes: Mapping[str, tuple[str, ...]] = AXES, decide: Decide = shipped_status, proof: Proof = Proof.ENGINE
) -> Plan:
    entries = []
    for values in itertools.product(*axes.values()):
        named = dict(zip(axes, values, strict=True))
        status, reasons = decide(named)
        entries.append(
            PlanEntry(
                cell=Cell.of(named),
                status=status,
                settings=settings(named.get("platform", "cpu"), proof),
                reasons=reasons,
            )
        )
    return Plan(matrix="matrix.yaml", matrix_hash="5f3c9a1be2d4", axes=axes, entries=tuple(entries))


def everything(_: Mapping[str, str]) -> tuple[Status, tuple[Reason, ...]]:
    return Status.PLANNED, ()


def evidence(where: Cell) -> Evidence:
    tp = int(where.get("tp", "1"))
    method = METHODS.get(where.get("quantization"), "UnquantizedFusedMoEMethod")
    dtype = where.get("dtype") if where.get("quantization") == "none" else "int8"
    return Evidence(
        started=True,
        ended=True,
        engine="vllm",
        engine_version="0.32.0",
        platform=where.get("platform"),
        device_type=where.get("platform"),
        dtype=where.get("dtype"),
        tp=tp,
        quantization=where.get("quantization"),
        ranks=tuple(
            RankFacts(
                rank=rank,
                world_size=tp,
                moe_methods=(method,),
                expert_weight_dtypes=(dtype,),
                backends=("zentorch",),
                device="cpu",
            )
            for rank in range(tp)
        ),
        phases={"import": 6.2, "load": 3.1, "ready": 14.9, "generate": 9.4, "shutdown": 1.2},
        tokens_equal=True,
        max_abs_logprob_diff=0.0013,
        logprob_bound=0.01,
        children_left=0,
        memory_left=("shared memory vllm_a of 4 bytes",),
    )


def record(
    where: Cell,
    outcome: Outcome = Outcome.PASSED,
    *,
    culprit: Culprit = Culprit.NONE,
    cause: str = "",
    duration_s: float = 41.0,
    failing: Sequence[TestCase] = (),
    failed: int | None = None,
) -> CellRecord:
    verdict = Verdict(outcome=outcome, culprit=culprit, cause=cause)
    bad = len(failing) if failed is None else failed
    attempt = Attempt(
        number=1,
        verdict=verdict,
        exit=CellExit(exit_code=0 if outcome is Outcome.PASSED else 1, duration_s=duration_s, log_bytes=4096),
        started_at="2026-03-01T10:00:00Z",
        tally=Tally(total=9 + bad, passed=9, failed=bad),
        evidence=evidence(where),
        failing=tuple(failing),
        files=FILES,
    )
    return CellRecord(cell=where, verdict=verdict, attempts=(attempt,), duration_s=duration_s)


def failing_case(name: str, message: str, classname: str = "t") -> TestCase:
    return TestCase(name=name, classname=classname, result=TestResult.FAILED, messages=(message,))


def run(a_plan: Plan | None = None, records: Sequence[CellRecord] | None = None, **changes: object) -> Run:
    """A finished run in which every planned cell passed, unless told."""
    the_plan = a_plan or plan()
    made = tuple(record(entry.cell) for entry in the_plan.planned()) if records is None else tuple(records)
    base = Run(
        run_id="20260301-100000-a1b2",
        plan=the_plan,
        runtime="docker",
        runtime_detail="docker 20.10.24",
        inventory=Inventory(hostname="builder-1", boot_id="b", cpu=CpuFacts(model="AMD EPYC 9654")),
        prepared=Prepared(images={"images/cpu": PreparedImage(ref="images/cpu", digest=DIGEST, how="built")}),
        records=made,
        started_at="2026-03-01T10:00:00Z",
        ended_at="2026-03-01T10:04:30Z",
        finished=True,
        command="python -m runner matrix.yaml",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def mixed() -> Run:
    """Six planned cells: three passed, one failed, one fell back, one refused by a rule."""
    rank = "rank 1: expert weights are float32, expected int8"
    records = [
        record(short(1, "none"), duration_s=41.2),
        record(
            short(1, "experts_int8"),
            Outcome.FELL_BACK,
            culprit=Culprit.PRODUCT,
            cause="every rank reports UnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod",
            duration_s=52.0,
        ),
        record(short(1, "quark_int8"), duration_s=44.0),
        record(short(2, "none"), duration_s=61.0),
        CellRecord(
            cell=short(2, "experts_int8"),
            verdict=Verdict(
                outcome=Outcome.REFUSED,
                culprit=Culprit.CONFIG,
                cause="mamba cache mode 'align' needs chunked prefill (matrix.yaml:47)",
            ),
            refused=True,
        ),
        record(
            short(2, "quark_int8"),
            Outcome.FAILED,
            culprit=Culprit.PRODUCT,
            cause=rank,
            duration_s=75.4,
            failing=[
                failing_case("test_weights[rank1]", f"AssertionError: {rank}\nassert 'float32' == 'int8'")
            ],
        ),
    ]
    return run(records=records)


def ten_thousand() -> Run:
    """A run of 10,000 cells, a tenth of them failed."""
    axes = {
        "platform": ("cuda", "rocm", "cpu", "xpu"),
        "dtype": ("bfloat16", "float16"),
        "tp": ("1", "2", "4", "8", "16"),
        "quantization": tuple(f"method_{n}" for n in range(10)),
        "model": tuple(f"model-{n}" for n in range(25)),
    }
    plan_ = plan(axes, everything)
    records = [
        record(
            entry.cell,
            Outcome.FAILED,
            culprit=Culprit.PRODUCT,
            cause=f"rank {n}: expert weights are float32, expected int8",
            failing=[failing_case(f"test_{n}", "assert x == y\n" * 200)],
        )
        if n % 10 == 0
        else record(entry.cell, duration_s=40 + n % 30)
        for n, entry in enumerate(plan_.entries)
    ]
    return run(plan_, records)
