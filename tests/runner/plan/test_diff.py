from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.diff import FieldChange, StatusChange, diff, text
from runner.model import (
    Cell,
    CellSettings,
    Limits,
    ModelRef,
    Plan,
    PlanEntry,
    Reason,
    Requirement,
    Status,
    Suite,
)

JAMBA = ModelRef(name="jamba-tiny", recipe="jamba", traits=("mamba", "moe"))
SETTINGS = CellSettings(
    image="images/cpu",
    suite=Suite(),
    limits=Limits(total_s=1800.0, memory_bytes=1 << 30),
    devices=0,
    model=JAMBA,
    engine_args={"max_model_len": 256, "enforce_eager": True},
    env={"VLLM_CPU_KVCACHE_SPACE": "1"},
)
FLOAT16 = Reason(text="float16 fails on CPU", source="matrix.yaml:41")


def entry(
    dtype: str, status: Status = Status.PLANNED, *reasons: Reason, settings: CellSettings = SETTINGS
) -> PlanEntry:
    return PlanEntry(
        cell=Cell.of({"platform": "cpu", "dtype": dtype}), status=status, settings=settings, reasons=reasons
    )


def plan(*entries: PlanEntry, name: str = "matrix.yaml", digest: str = "aaaa", **changes: Any) -> Plan:
    axes = {"platform": ("cpu",), "dtype": tuple(each.cell.get("dtype") for each in entries)}
    return Plan(matrix=name, matrix_hash=digest, axes=changes.pop("axes", axes), entries=entries, **changes)


def changed(**fields: Any) -> tuple[FieldChange, ...]:
    """The field changes between the settings and themselves with some fields replaced."""
    found = diff(plan(entry("bf16")), plan(entry("bf16", settings=replace(SETTINGS, **fields))))
    return found.settings[0].fields if found.settings else ()


def change(path: str, old: str | None, new: str | None) -> FieldChange:
    return FieldChange(path=path, old=old, new=new)


def test_a_plan_does_not_differ_from_itself() -> None:
    there = plan(entry("bf16"), entry("f16", Status.EXCLUDED, FLOAT16))
    found = diff(there, there)
    assert found.empty
    assert found.same_hash
    assert found.unchanged == 2
    assert text(found) == (
        "Plan of matrix.yaml -> plan of matrix.yaml\nmatrix hash: the same, aaaa\nCells: 2 unchanged\n"
    )


def test_added_and_removed_cells_are_told_with_their_status() -> None:
    found = diff(
        plan(entry("bf16"), entry("f16")), plan(entry("bf16"), entry("f32", Status.EXCLUDED, FLOAT16))
    )
    assert [each.cell.id for each in found.added] == ["platform=cpu,dtype=f32"]
    assert [each.cell.id for each in found.removed] == ["platform=cpu,dtype=f16"]
    assert found.plan == (change("axis dtype", "bf16, f16", "bf16, f32"),)
    assert found.unchanged == 1


def test_a_status_changes_with_its_reasons() -> None:
    found = diff(plan(entry("f16", Status.EXCLUDED, FLOAT16)), plan(entry("f16")))
    assert found.statuses == (
        StatusChange(cell=entry("f16").cell, old="excluded", new="planned", old_reasons=(FLOAT16,)),
    )
    assert found.unchanged == 0


def test_a_refused_cell_is_another_status_than_a_planned_one() -> None:
    reason = Reason(text="needs chunked prefill", source="matrix.yaml:50")
    refused = replace(entry("f16", Status.PLANNED, reason), refused=reason)
    found = diff(plan(entry("f16")), plan(refused))
    assert [(each.old, each.new, each.new_reasons) for each in found.statuses] == [
        ("planned", "refused", (reason,))
    ]


def test_the_same_reason_on_another_line_is_no_difference() -> None:
    moved = replace(FLOAT16, source="matrix.yaml:44")
    there, here = entry("f16", Status.EXCLUDED, FLOAT16), entry("f16", Status.EXCLUDED, moved)
    assert diff(plan(there), plan(here)).empty
    needs = Requirement(expression="zen", reason="int8", source="matrix.yaml:7")
    old = replace(SETTINGS, requires=(needs,))
    new = replace(SETTINGS, requires=(replace(needs, source="matrix.yaml:9"),))
    assert diff(plan(entry("f16", settings=old)), plan(entry("f16", settings=new))).empty


def test_another_reason_for_the_same_status_is_a_difference() -> None:
    other = Reason(text="no kernel")
    found = diff(plan(entry("f16", Status.EXCLUDED, FLOAT16)), plan(entry("f16", Status.EXCLUDED, other)))
    assert [(each.old, each.new) for each in found.statuses] == [("excluded", "excluded")]
    assert "excluded, for another reason: float16 fails on CPU (matrix.yaml:41) -> no kernel" in text(found)


def test_a_cell_that_is_not_selected_needs_no_reason() -> None:
    said = Reason(text="not selected on the command line")
    assert diff(plan(entry("f16", Status.NOT_SELECTED, said)), plan(entry("f16", Status.NOT_SELECTED))).empty


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({"image": "images/other"}, [("image", "images/cpu", "images/other")]),
        ({"limits": Limits(total_s=60.0)}, [("limits.total_s", "1800.0", "60.0"), ("limits.memory_bytes", "1073741824", None)]),
        ({"devices": 2}, [("devices", "0", "2")]),
        ({"model": None}, [("model.name", "jamba-tiny", None), ("model.recipe", "jamba", None), ("model.traits", "mamba moe", None)]),
        ({"model": replace(JAMBA, traits=("moe", "mamba"))}, []),
        ({"extra_models": (JAMBA,)}, [("extra_models.jamba-tiny.name", None, "jamba-tiny"), ("extra_models.jamba-tiny.recipe", None, "jamba"), ("extra_models.jamba-tiny.traits", None, "mamba moe")]),
        ({"engine_args": {"max_model_len": 512, "enforce_eager": True}}, [("engine_args.max_model_len", "256", "512")]),
        ({"engine_args": {"enforce_eager": "true", "max_model_len": "256"}}, [("engine_args.max_model_len", "256", "'256'"), ("engine_args.enforce_eager", "true", "'true'")]),
        ({"engine_args": {"enforce_eager": True, "max_model_len": 256, "seed": None}}, [("engine_args.seed", None, "null")]),
        ({"env": {}}, [("env.VLLM_CPU_KVCACHE_SPACE", "'1'", None)]),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "1", "EMPTY": ""}}, [("env.EMPTY", None, "''")]),
        ({"suite": Suite(tests=("a b", "c"))}, [("suite.tests", None, "'a b' c")]),
        ({"requires": (Requirement(expression=None, reason="no kernel"), Requirement(expression="zen", reason=""))}, [("requires", None, "never (no kernel); zen")]),
    ],
)  # fmt: skip
def test_settings_differ_field_by_field(
    fields: dict[str, object], changes: list[tuple[str, str | None, str | None]]
) -> None:
    assert changed(**fields) == tuple(change(*each) for each in changes)


def test_the_order_of_keys_is_no_difference() -> None:
    assert changed(engine_args={"enforce_eager": True, "max_model_len": 256}) == ()


def test_what_the_plan_says_beside_cells_differs_too() -> None:
    found = diff(
        plan(entry("f16")), plan(entry("f16"), infra_retries=3, selection="-k 'tp=1'", digest="bbbb")
    )
    assert found.plan == (change("infra_retries", "1", "3"), change("selection", None, "-k 'tp=1'"))
    assert not found.same_hash
    assert not found.empty


def test_a_new_axis_replaces_every_cell_and_is_named() -> None:
    cell = Cell.of({"platform": "cpu", "dtype": "f16", "mode": "a"})
    axes = {"platform": ("cpu",), "dtype": ("f16",), "mode": ("a",)}
    found = diff(plan(entry("f16")), plan(replace(entry("f16"), cell=cell), axes=axes))
    assert (len(found.added), len(found.removed), found.unchanged) == (1, 1, 0)
    assert found.plan == (change("axis mode", None, "a"),)


def test_the_text_groups_cells_with_the_same_change() -> None:
    longer = replace(SETTINGS, limits=replace(SETTINGS.limits, total_s=3600.0))
    old = plan(entry("bf16"), entry("f16", Status.EXCLUDED, FLOAT16), entry("f32"), entry("fp8"))
    new = plan(
        entry("bf16", settings=longer),
        entry("f16", settings=longer),
        entry("f32"),
        entry("int8", Status.NOT_RUNNABLE, Reason(text="no device")),
        name="new.yaml",
        digest="bbbb",
    )
    assert (
        text(diff(old, new), 80)
        == """\
Plan of matrix.yaml -> plan of new.yaml
matrix hash: aaaa -> bbbb
Cells: 1 added, 1 removed, 1 with another status or reason, 2 with other
    settings, 1 unchanged

Plan
  axis dtype: bf16, f16, f32, fp8 -> bf16, f16, f32, int8

Added
  + not_runnable: no device  [1 cell]
      platform=cpu,dtype=int8

Removed
  - planned  [1 cell]
      platform=cpu,dtype=fp8

Status
  excluded: float16 fails on CPU (matrix.yaml:41) -> planned  [1 cell]
      platform=cpu,dtype=f16

Settings
  limits.total_s: 1800.0 -> 3600.0  [2 cells]
      platform=cpu,dtype=bf16
      platform=cpu,dtype=f16
"""
    )


def test_many_cells_are_counted_after_the_first_twenty() -> None:
    found = diff(plan(), plan(*(entry(f"d{at}") for at in range(25)), axes={}))
    lines = text(found).splitlines()
    assert lines[-1] == "      and 5 more"
    assert sum(line.startswith("      platform=cpu") for line in lines) == 20


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    settings = replace(SETTINGS, env={"VLLM_CPU_KVCACHE_SPACE": "1", "BELL": "\x1b[2J\u202e"})
    shown = text(diff(plan(entry("f16")), plan(entry("f16", settings=settings))))
    assert "\x1b" not in shown
    assert "env.BELL: (not set) -> \\x1b[2J\\u202e" in shown


entries = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(st.sampled_from(Status), st.sampled_from([FLOAT16, Reason(text="other")]), st.integers(0, 2)),
).map(
    lambda cells: plan(
        *(entry(name, status, why, settings=replace(SETTINGS, devices=number)) for name, (status, why, number) in cells.items())
    )
)  # fmt: skip


@given(entries, entries)
def test_the_opposite_difference_mirrors_and_cells_add_up(old: Plan, new: Plan) -> None:
    there, back = diff(old, new), diff(new, old)
    assert (there.added, there.removed) == (tuple(back.removed), tuple(back.added))
    assert {(each.cell, each.old, each.new) for each in there.statuses} == {
        (each.cell, each.new, each.old) for each in back.statuses
    }
    touched = {each.cell for each in there.statuses} | {each.cell for each in there.settings}
    assert len(touched) + len(there.added) + there.unchanged == len(new.entries)
    assert len(touched) + len(there.removed) + there.unchanged == len(old.entries)
    assert there.empty == (there.unchanged == len(old.entries) == len(new.entries) and not there.plan)
