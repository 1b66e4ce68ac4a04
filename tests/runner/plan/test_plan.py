import pytest

from runner import plan
from runner.errors import UsageError
from runner.machine import CpuFacts, Device, Inventory
from runner.model import (
    Cell,
    CellSettings,
    Limits,
    Matrix,
    MatrixCell,
    Plan,
    Reason,
    Requirement,
    Status,
    Suite,
)

HERE = Inventory(
    hostname="h",
    boot_id="b",
    cpu=CpuFacts(cores=(0, 1), facts=("zen",)),
    devices=(Device(platform="cuda", index=0, id="GPU-0", capability="9.0"),),
    absent={"rocm": "no /dev/kfd"},
)


def facts(platform: str) -> dict[str, object]:
    known: dict[str, dict[str, object]] = {"cpu": {"zen": True}, "cuda": {"capability": "9.0"}, "rocm": {}}
    return known[platform]


def item(
    platform: str,
    tp: str = "1",
    *,
    refused: bool = False,
    excluded: str = "",
    requires: tuple[Requirement, ...] = (),
) -> MatrixCell:
    return MatrixCell(
        cell=Cell.of({"platform": platform, "tp": tp, "quantization": "none"}),
        settings=CellSettings(
            image="i",
            suite=Suite(),
            limits=Limits(),
            devices=0 if platform == "cpu" else int(tp),
            requires=requires,
        ),
        excluded=(Reason(text=excluded, source="m:1"),) if excluded else (),
        refused=Reason(text="against a rule", source="m:9") if refused else None,
    )


def made(*items: MatrixCell, select: str = "", cells: tuple[str, ...] = ()) -> Plan:
    axes = {"platform": ("cuda", "rocm", "cpu"), "tp": ("1", "2", "4"), "quantization": ("none",)}
    matrix = Matrix(path="m", hash="x", axes=axes, cells=items)
    return plan.make(matrix, HERE, facts, {"cuda": 1, "rocm": 0, "cpu": 0}, select=select, cells=cells)


def statuses(p: Plan) -> list[Status]:
    return [entry.status for entry in p.entries]


def test_totals_add_up_to_the_product() -> None:
    p = made(item("cpu"), item("cuda", "2"), item("rocm"), item("cpu", "2", excluded="no"), select="tp=1")
    assert p.totals() == {"planned": 1, "excluded": 1, "not_runnable": 2, "not_selected": 0}
    assert sum(p.totals().values()) == len(p.entries)


def test_a_platform_without_a_device_says_why() -> None:
    (entry,) = made(item("rocm")).entries
    assert entry.reasons == (Reason(text="no rocm device on this host: no /dev/kfd"),)


def test_too_few_devices_are_counted() -> None:
    (entry,) = made(item("cuda", "2")).entries
    assert [r.text for r in entry.reasons] == ["needs 2 cuda devices, this host has 1"]


def test_more_ranks_than_cores_do_not_run() -> None:
    (entry,) = made(item("cpu", "4")).entries
    assert [r.text for r in entry.reasons] == ["needs one core per rank: tp 4, this host offers 2"]


def test_an_unmet_requirement_shows_its_reason_and_line() -> None:
    need = Requirement(expression="amx_int8", reason="int8 experts need AMX", source="m:7")
    (entry,) = made(item("cpu", requires=(need,))).entries
    assert entry.reasons == (Reason(text="int8 experts need AMX", source="m:7"),)


def test_a_capability_is_not_called_too_low_where_there_is_no_device() -> None:
    need = Requirement(expression="gfx = gfx942", reason="needs MI300", source="m:7")
    never = Requirement(expression=None, reason="not on the allow-list", source="m:8")
    (entry,) = made(item("rocm", requires=(need, never))).entries
    assert [r.text for r in entry.reasons] == [
        "not on the allow-list",
        "no rocm device on this host: no /dev/kfd",
    ]


def test_a_met_requirement_plans_the_cell() -> None:
    need = Requirement(expression="capability >= 8.0", reason="", source="m:7")
    assert statuses(made(item("cuda", requires=(need,)))) == [Status.PLANNED]


def test_a_refused_cell_is_planned_even_where_it_could_not_run() -> None:
    (entry,) = made(item("rocm", refused=True)).entries
    assert (entry.status, entry.refused) == (Status.PLANNED, Reason(text="against a rule", source="m:9"))


def test_excluded_comes_before_refused() -> None:
    assert statuses(made(item("cpu", refused=True, excluded="no"))) == [Status.EXCLUDED]


def test_selection_by_expression_id_and_slug() -> None:
    cells = (item("cpu"), item("cpu", "2"))
    assert statuses(made(*cells, select="tp=2")) == [Status.NOT_SELECTED, Status.PLANNED]
    assert statuses(made(*cells, cells=(cells[0].cell.id,))) == [Status.PLANNED, Status.NOT_SELECTED]
    assert statuses(made(*cells, cells=(cells[1].cell.slug,))) == [Status.NOT_SELECTED, Status.PLANNED]


def test_an_unknown_cell_is_a_usage_error_with_the_nearest_id() -> None:
    with pytest.raises(UsageError, match=r"no such cell in m \(nearest: platform=cpu,tp=1,quantization=none"):
        made(item("cpu"), cells=("platform=cpu,tp=1,quantization=non",))
