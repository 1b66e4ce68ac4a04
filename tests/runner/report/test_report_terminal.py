"""The terminal's text, exactly, at 100 columns; and what must hold at any width and for any text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from runner.facts import Evidence, PreparedImage
from runner.model import Culprit, Outcome, PlanEntry, Proof, Reason, Status
from runner.records import CellRecord, Prepared
from runner.report import plan_text, terminal
from runner.report.text import columns
from tests.runner.report import factory as make

GRID = """\
platform  dtype             tp       none            experts_int8         quark_int8
────────────────────────────────────────────────────────────────────────────────────────────
cuda      bfloat16 float16  1 2 4 8  · not runnable  · not runnable       · not runnable
rocm      bfloat16 float16  1 2 4 8  · not runnable  · not runnable       · not runnable

cpu       bfloat16          1        ✓ passed   41s  ↓ fell back (1) 52s  ✓ passed       44s
                            2        ✓ passed 1m01s  ⊘ refused (2)        ✗ failed (3) 1m15s
                            4 8      – excluded      – excluded           – excluded
          float16           1 2 4 8  – excluded      – excluded           – excluded
rocm: the ROCm path has never run on hardware
"""  # noqa: RUF001 (the en dash is the symbol of excluded cells)

HEAD = """\
vLLM 0.32.0 on docker 20.10.24, host builder-1
  image images/cpu@sha256:0123456789ab (built)
product 72 = 6 planned + 18 excluded + 48 not runnable + 0 not selected
"""

LEFT_OUT = """\
Left out (66 cells)
  cuda  24  · not runnable  no NVIDIA device: /dev/nvidiactl is missing
  rocm  24  · not runnable  no AMD device: /dev/kfd is missing
                            8: experts_int8 is not qualified on rocm (matrix.yaml:29)
                            [quantization=experts_int8]
  cpu   18  – excluded      12: float16 is not qualified on CPU (matrix.yaml:41) [dtype=float16]
                            6: CPU lane qualifies tp 1 and 2 (matrix.yaml:43) [dtype=bfloat16
                            tp=4|8]
"""  # noqa: RUF001 (the en dash is the symbol of excluded cells)

RED = """\
✗ failed  platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8
  culprit  product
  cause    rank 1: expert weights are float32, expected int8
  log      reports/20260301-100000-a1b2/cells/cpu-bfloat16-tp2-quark_int8-01ad2fa3/attempt-1/log.txt
  rerun    python -m runner matrix.yaml --cell platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8 --runtime docker

Triage (3 causes over 3 red cells)
  (1)      1  ↓ fell back, product: every rank reports UnquantizedFusedMoEMethod, expected…
         one failing cell makes no rule; narrowest guess quantization=experts_int8 (1 of 1 fail
         inside, 0 of 3 outside)
         the engine ran without the method that was asked: report it, or ask for what it supports
  (2)      1  ⊘ refused, config: mamba cache mode 'align' needs chunked prefill (matrix.yaml:47)
         one failing cell makes no rule; narrowest guess quantization=experts_int8 (1 of 1 fail
         inside, 0 of 3 outside)
         follow the rule that refused it, or ask the engine with --no-rules
  (3)      1  ✗ failed, product: rank 1: expert weights are float32, expected int8
         one failing cell makes no rule; narrowest guess tp=2 and quantization=quark_int8 (1 of 1
         fail inside, 0 of 3 outside)
         report it to the engine with its log; the rerun line shows it again

planned 6 = 3 passed + 1 failed + 1 fell back + 1 refused
! 3 of 6 planned cells did not pass: 1 failed, 1 fell back, 1 refused.
page  reports/20260301-100000-a1b2/index.html
"""


def test_the_shipped_shape_at_100_columns() -> None:
    text = terminal(make.mixed(), color=False, width=100)
    assert text.startswith(HEAD + "\n" + GRID + "\n" + LEFT_OUT + "\n")
    assert text.endswith("\n\n" + RED)
    assert "  log      none: refused before any container\n" in text


@pytest.mark.parametrize(
    ("ref", "shown"),
    [
        ("reg.example/vllm@sha256:" + "ab" * 32, "reg.example/vllm@sha256:abababababab (pulled)"),
        ("sha256:" + "cd" * 32, "sha256:cdcdcdcdcdcd (pulled)"),
        ("vllm-matrix/cpu:1f", "vllm-matrix/cpu:1f@sha256:cdcdcdcdcdcd (pulled)"),
    ],
)
def test_an_image_by_digest_says_it_once(ref: str, shown: str) -> None:
    image = PreparedImage(ref=ref, digest="sha256:" + "cd" * 32, how="pulled")
    run = replace(make.run(), prepared=Prepared(images={"images/cpu": image}))
    assert terminal(run, color=False, width=100).splitlines()[1] == f"  image {shown}"


def test_a_green_run_ends_with_its_verdict_and_page() -> None:
    text = terminal(make.run(), color=False, width=100, folder="/srv/run-7/")
    assert text.endswith("planned 6 = 6 passed\n✓ All 6 planned cells passed.\npage  /srv/run-7/index.html\n")
    assert "Not passed" not in text


def test_an_unfinished_run_says_so_and_names_missing_cells() -> None:
    text = terminal(make.run(records=make.run().records[:5], finished=False), color=False, width=100)
    assert (
        "! Incomplete: the run did not finish, 1 planned cell without a result; 5 of 6 planned cells passed\nso far."
        in text
    )
    assert "◌ missing  platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8" in text
    assert "planned 6 = 5 passed + 1 missing" in text
    assert "✓ Incomplete" not in text


def test_color_changes_nothing_but_escapes() -> None:
    colored = terminal(make.mixed(), color=True, width=100)
    assert "\x1b[31m✗ failed\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == terminal(make.mixed(), color=False, width=100)


def test_plain_is_ascii() -> None:
    assert terminal(make.mixed(), color=False, width=100, plain=True).isascii()
    assert plan_text(make.plan(), "docker 20.10.24", plain=True).isascii()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_only_lines_to_copy_are_wider_than_the_terminal(width: int) -> None:
    for line in terminal(make.mixed(), color=False, width=width).splitlines():
        copied = line.startswith(
            ("  log ", "  rerun ", "page ", "✗ failed  ", "↓ fell back  ", "⊘ refused  ")
        )
        assert copied or columns(line) <= width, line


def test_columns_that_do_not_fit_follow_below_with_their_rows() -> None:
    text = terminal(make.mixed(), color=False, width=60)
    heads = [line for line in text.splitlines() if line.startswith("platform  dtype")]
    assert len(heads) > 1
    assert [word for head in heads for word in head.split()[3:]] == ["none", "experts_int8", "quark_int8"]


def test_cells_without_engine_proof_are_marked() -> None:
    text = terminal(make.run(make.plan(proof=Proof.TESTS)), color=False, width=100)
    assert "✓ passed* 41s" in text
    assert "* no engine proof: judged by tests and exit code alone" in text


def test_hostile_cause_cannot_forge_lines_or_colours() -> None:
    cause = "boom\n+++ forged section\n✓ All 6 planned cells passed.\x1b[2J\x1b]0;owned\x07\r\u202e"
    records = [
        make.record(make.short(1, "none"), Outcome.FAILED, culprit=Culprit.PRODUCT, cause=cause),
        *make.run().records[1:],
    ]
    text = terminal(make.run(records=records), color=False, width=100)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith(("+++", "✓ All")) for line in text.splitlines())
    assert "cause    " in text


def test_many_red_cells_are_grouped_and_counted() -> None:
    plan = make.plan({**make.AXES, "model": tuple(f"m{n}" for n in range(5))}, make.everything)
    records = [
        make.record(e.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause=f"rank {n}: off by {n}")
        for n, e in enumerate(plan.entries)
    ]
    text = terminal(make.run(plan, records), color=False, width=100)
    assert (
        "Triage (1 cause over 360 red cells)\n    360  ✗ failed, product: rank 0..359: off by 0..359\n"
        "         fails in every cell that ran (360 of 360 fail inside, none ran outside; confidence 92%)\n"
    ) in text
    assert "showing 50 of 360; the rest is in the page" in text
    assert text.count("\n  rerun    ") == 50


def test_another_engine_than_expected_is_said_first() -> None:
    text = terminal(make.run(expect_engine="0.33.0"), color=False, width=100)
    assert text.splitlines()[2] == "  expected 0.33.0, got vLLM 0.32.0"


def test_engine_is_known_from_the_probe_or_not_at_all() -> None:
    def bare(record: CellRecord) -> CellRecord:
        return replace(record, attempts=tuple(replace(a, evidence=Evidence()) for a in record.attempts))

    run = make.run()
    run = replace(run, records=tuple(map(bare, run.records)))
    assert terminal(run, color=False, width=100).startswith("engine version not known on docker")
    probed = replace(run, prepared=replace(run.prepared, probes={"cpu": {"engine_version": "0.31.1"}}))
    assert terminal(probed, color=False, width=100).startswith("vLLM 0.31.1 (probed) on docker")


def test_plan_text_names_order_refusals_and_reasons() -> None:
    plan = make.plan()
    reason = Reason(text="mamba cache mode 'align' needs chunked prefill", source="matrix.yaml:47")

    def refuse(entry: PlanEntry) -> PlanEntry:
        return replace(entry, refused=reason) if entry.cell == make.short(2, "experts_int8") else entry

    plan = replace(
        plan, entries=tuple(map(refuse, plan.entries)), remarks=("prefix caching default: not probed",)
    )
    lines = plan_text(plan, "docker 20.10.24").splitlines()
    assert lines[:4] == [
        "Plan of matrix.yaml on docker 20.10.24",
        "product 72 = 6 planned + 18 excluded + 48 not runnable + 0 not selected",
        "matrix hash 5f3c9a1be2d4",
        "note: prefix caching default: not probed",
    ]
    at = lines.index("Would run, in this order (5 cells)")
    assert (
        lines[at + 1]
        == "  1  platform=cpu,dtype=bfloat16,tp=1,quantization=none          images/cpu, qwen3moe-tiny"
    )
    assert [line.split()[0] for line in lines[at + 1 : at + 6]] == ["1", "2", "3", "4", "5"]
    at = lines.index("Refused before any container, red in the run (1 cell)")
    assert lines[at + 1 : at + 3] == [
        "  ⊘ refused  platform=cpu,dtype=bfloat16,tp=2,quantization=experts_int8",
        "      mamba cache mode 'align' needs chunked prefill (matrix.yaml:47)",
    ]
    counts = [int(m[1]) for line in lines if (m := re.match(r"  \w+ +(\d+)  [–·◦] ", line))]  # noqa: RUF001
    assert sum(counts) == 66


def test_plan_text_of_nothing() -> None:
    plan = make.plan(decide=lambda _: (Status.NOT_SELECTED, (Reason(text="-k tp=16"),)))
    text = plan_text(plan, "process")
    assert "Nothing would run." in text
    assert "72  ◦ not selected  -k tp=16" in text
