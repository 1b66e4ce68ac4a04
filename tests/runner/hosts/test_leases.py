"""Leases: real locks, real processes, and the steps of case F07 in its order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.hosts import (
    HolderState,
    LeaseError,
    LeaseOwner,
    Leases,
    Means,
    RecordedHost,
    Request,
    lease_folder,
    live,
    problems,
    process_started,
)
from runner.hosts.locks import FOLDER_NAME
from runner.hosts.records import read_owner
from runner.hosts.tickets import STALE_S, Wanted, unclaimed
from runner.machine import CpuFacts, Device, Inventory

SCENARIO = json.loads((Path(__file__).parent / "data" / "F07-scenario.json").read_text())
ROOT = Path(__file__).parents[3]

WHOLE = tuple(
    Device(platform="cuda", index=index, id=name) for index, name in enumerate(SCENARIO["devices"][:3])
)
SLICES = tuple(
    Device(platform="cuda", index=3, id=name, parent="GPU-dddd", slot=slot)
    for slot, name in enumerate(SCENARIO["devices"][3:])
)
PARENT = Device(platform="cuda", index=3, id="GPU-dddd")
TWO = Request(devices=WHOLE + SLICES, count=2)
ONE = Request(devices=WHOLE, count=1)

OWNER = """
import sys, time
from pathlib import Path
from runner.hosts import Leases, Request
from runner.machine import Device
folder, count, *names = sys.argv[1:]
devices = tuple(Device(platform="cuda", index=index, id=name) for index, name in enumerate(names))
lease = Leases(Path(folder), run="run-1").try_acquire(Request(devices=devices, count=int(count)), cell="tp=2")
print(*(device.id for device in lease.devices), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def owner(folder: Path, count: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Another runner that holds devices until it is killed, and which ones it got."""
    argv = [sys.executable, "-c", OWNER, str(folder), str(count), *(device.id for device in WHOLE)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def ids(lease: Any) -> list[str]:
    return [device.id for device in lease.devices]


def at_boot(tmp_path: Path, boot: str) -> RecordedHost:
    """This host after another start of the kernel."""
    root = tmp_path / boot
    folder = root / "proc/sys/kernel/random"
    folder.mkdir(parents=True)
    (folder / "boot_id").write_text(boot)
    return RecordedHost(root)


def test_f07_runner_1_takes_two_and_runner_2_waits_holding_nothing(folder: Path) -> None:
    first, second = Leases(folder, run="one"), Leases(folder, run="two")
    with first.try_acquire(TWO) as lease:  # type: ignore[union-attr]
        assert ids(lease) == ["GPU-aaaa", "GPU-bbbb"]
        assert second.try_acquire(TWO) is None
        held = [holder.owner.thing for holder in second.holders() if holder.owner]
        assert held == ["GPU-aaaa", "GPU-bbbb"], "runner 2 took none meanwhile"
    taken = second.try_acquire(TWO)
    assert taken is not None
    assert len(ids(taken)) == 2
    taken.release()


def test_f07_a_killed_runner_keeps_its_devices_until_its_container_is_gone(folder: Path) -> None:
    second = Leases(folder, run="two")
    with owner(folder, 2) as (process, held):
        assert held == ["GPU-aaaa", "GPU-bbbb"]
        assert second.orphans() == ()
        process.send_signal(signal.SIGKILL)
        process.wait()
    orphans = second.orphans()
    assert [(each.state, each.owner.thing, each.owner.pid) for each in orphans if each.owner] == [
        (HolderState.DEAD, "GPU-aaaa", process.pid),
        (HolderState.DEAD, "GPU-bbbb", process.pid),
    ]
    assert str(orphans[0]).startswith(f"GPU-aaaa is held by process {process.pid} on ")
    assert ", run run-1, cell tp=2, since " in str(orphans[0])
    assert second.try_acquire(TWO) is None, "its container may still run"
    one = second.try_acquire(ONE)
    assert one is not None
    assert ids(one) == ["GPU-cccc"]
    one.release()
    assert [second.forget(each) for each in orphans] == [True, True]
    lease = second.try_acquire(TWO)
    assert lease is not None
    assert ids(lease) == ["GPU-aaaa", "GPU-bbbb"]
    assert [second.forget(each) for each in orphans] == [False, False], "they have changed hands"
    lease.release()


def test_f07_a_reused_process_id_is_another_process(folder: Path) -> None:
    me = os.getpid()
    with owner(folder, 1) as (process, _):
        pass
    process.wait()
    record = folder / "device-GPU-aaaa.lock"
    record.write_text(record.read_text().replace(f'"pid":{process.pid}', f'"pid":{me}'))
    (orphan,) = Leases(folder).orphans()
    assert orphan.state is HolderState.DEAD, "the lock says so, whatever runs under that number now"


def test_f07_after_a_reboot_all_leases_are_void(folder: Path, tmp_path: Path) -> None:
    before = Leases(folder, source=at_boot(tmp_path, "boot-1")).try_acquire(TWO)
    assert before is not None
    before.abandon()  # locks do not survive a boot, files may
    after = Leases(folder, source=at_boot(tmp_path, "boot-2"))
    assert after.orphans() == ()
    lease = after.try_acquire(TWO)
    assert lease is not None
    assert ids(lease) == ["GPU-aaaa", "GPU-bbbb"]
    lease.release()


def test_f07_a_dirty_device_is_no_candidate(folder: Path) -> None:
    """Runner 3 asks for one device while GPU-cccc is dirty (judged in test_health): it is left out by name."""
    leases = Leases(folder)
    clean = tuple(device for device in WHOLE if device.id != "GPU-cccc")
    with leases.try_acquire(Request(devices=clean, count=2)) as lease:  # type: ignore[union-attr]
        assert ids(lease) == ["GPU-aaaa", "GPU-bbbb"]
        assert leases.try_acquire(Request(devices=clean, count=1)) is None


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_f07_a_record_cut_in_half_is_an_unknown_holder(folder: Path, cut: int) -> None:
    leases = Leases(folder)
    lease = leases.try_acquire(ONE)
    assert lease is not None
    record = folder / "device-GPU-aaaa.lock"
    os.truncate(record, cut)
    (holder,) = leases.holders()
    assert holder.state is HolderState.LIVE
    assert (
        str(holder) == "device-GPU-aaaa is held by an unknown holder (its record is cut: was the disk full?)"
    )
    assert leases.try_acquire(Request(devices=WHOLE[:1], count=1)) is None, (
        "the lock still holds: no double use"
    )
    lease.abandon()
    (orphan,) = leases.orphans()
    assert orphan.state is HolderState.UNKNOWN
    assert leases.try_acquire(Request(devices=WHOLE[:1], count=1)) is None
    bare = Inventory(hostname="h", boot_id="b", cpu=CpuFacts())
    assert problems(bare, holders=leases.holders()) == (
        f"{orphan}: `clean` removes what still runs of it and frees it, or says why not",
    )
    assert leases.forget(orphan)
    again = leases.try_acquire(Request(devices=WHOLE[:1], count=1))
    assert again is not None
    again.release()


def test_f07_two_cells_get_a_slice_each(folder: Path) -> None:
    leases = Leases(folder)
    request = Request(devices=SLICES, count=1)
    first, second = leases.try_acquire(request), leases.try_acquire(request)
    assert first is not None
    assert second is not None
    assert (ids(first), ids(second)) == (["MIG-dddd-1"], ["MIG-dddd-2"])
    assert leases.try_acquire(request) is None
    first.release()
    second.release()


def test_f07_every_step_of_the_scenario_has_a_test() -> None:
    assert [step["do"] for step in SCENARIO["steps"]] == [
        "runner 1 takes 2 devices",
        "runner 2 takes 2 devices at the same moment",
        "runner 1 is killed with SIGKILL, its container still runs",
        "process id of runner 1 is reused by another program",
        "host reboots, lease files stay",
        "runner 3 asks for 1 device while GPU-cccc shows 40 GB used and no process",
        "lease file is cut in half (disk was full)",
        "two cells each ask for one MIG slice",
    ]


def test_f07_a_whole_device_and_its_slices_exclude_each_other(folder: Path) -> None:
    leases = Leases(folder)
    whole = Request(devices=(PARENT,), count=1)
    with leases.try_acquire(Request(devices=SLICES, count=1)):  # type: ignore[union-attr]
        assert leases.try_acquire(whole) is None
    with leases.try_acquire(whole):  # type: ignore[union-attr]
        assert leases.try_acquire(Request(devices=SLICES, count=1)) is None


def test_what_a_dead_owner_left_on_a_slice_keeps_its_parent(folder: Path) -> None:
    leases = Leases(folder)
    lease = leases.try_acquire(Request(devices=SLICES, count=1))
    assert lease is not None
    lease.abandon()
    assert leases.try_acquire(Request(devices=(PARENT,), count=1)) is None
    other = leases.try_acquire(Request(devices=SLICES, count=1))
    assert other is not None
    assert ids(other) == ["MIG-dddd-2"]
    other.release()


def test_a_lease_ends_with_its_block_also_on_an_error(folder: Path) -> None:
    leases = Leases(folder)
    with pytest.raises(ZeroDivisionError), leases.try_acquire(ONE):  # type: ignore[union-attr]
        raise ZeroDivisionError
    assert leases.holders() == ()
    assert leases.orphans() == ()


def test_an_abandoned_lease_waits_for_a_clean_up(folder: Path) -> None:
    leases = Leases(folder)
    with leases.try_acquire(Request(devices=WHOLE[:1], count=1)) as lease:  # type: ignore[union-attr]
        lease.abandon()
    assert [each.state for each in leases.orphans()] == [HolderState.DEAD]
    assert leases.try_acquire(Request(devices=WHOLE[:1], count=1)) is None


def test_cores_are_leased_like_devices(folder: Path) -> None:
    leases = Leases(folder)
    request = Request(cores=(0, 1, 2, 3, 4), core_count=2)
    first, second = leases.try_acquire(request), leases.try_acquire(request)
    assert first is not None
    assert second is not None
    assert (first.cores, second.cores) == ((0, 1), (2, 3))
    assert leases.try_acquire(request) is None
    first.release()
    third = leases.try_acquire(Request(cores=(0, 1, 2, 3, 4), core_count=3))
    assert third is not None
    assert third.cores == (0, 1, 4), "no three in a row are free"
    second.release()
    third.release()


def test_memory_never_adds_up_to_more_than_the_host_has(folder: Path) -> None:
    one, other = Leases(folder), Leases(folder)
    request = Request(memory_bytes=6, memory_total=10)
    lease = one.try_acquire(request)
    assert lease is not None
    assert other.try_acquire(request) is None
    small = other.try_acquire(Request(memory_bytes=4, memory_total=10))
    assert small is not None
    small.release()
    lease.abandon()
    assert other.try_acquire(request) is None, "a dead owner's container still uses it"
    assert [other.forget(each) for each in other.orphans()] == [True]
    again = other.try_acquire(request)
    assert again is not None
    again.release()
    assert [path.name for path in folder.glob("memory-*")] == []


def test_all_or_nothing_over_kinds(folder: Path) -> None:
    leases = Leases(folder)
    assert leases.try_acquire(Request(devices=WHOLE, count=2, cores=(0,), core_count=2)) is None
    assert leases.holders() == ()
    lease = leases.try_acquire(Request(devices=WHOLE, count=3, cores=(0,), core_count=1))
    assert lease is not None
    lease.release()


def test_f07_a_wide_cell_is_not_starved_by_narrow_ones(folder: Path) -> None:
    """Two narrow cells come and go in turn; the wide one needs both devices at once, and gets them."""
    pair = WHOLE[:2]
    narrow, wide = Request(devices=pair, count=1), Request(devices=pair, count=2)
    one, other = Leases(folder, run="narrow"), Leases(folder, run="wide")
    running = [one.try_acquire(narrow), one.try_acquire(narrow)]
    with other.queue(wide) as ticket:
        for place in (0, 1):
            lease = running[place]
            assert lease is not None
            lease.release()
            running[place] = one.try_acquire(narrow)
            assert running[place] is None, "what is free is kept for the wide cell"
        got = other.try_acquire(wide, ticket=ticket)
    assert got is not None
    assert len(got.devices) == 2
    got.release()
    after = one.try_acquire(narrow)
    assert after is not None
    after.release()


def test_tickets_are_served_in_order_and_spare_what_they_do_not_need(folder: Path) -> None:
    leases = Leases(folder)
    with leases.queue(TWO) as older, leases.queue(TWO) as younger:
        assert leases.try_acquire(TWO, ticket=younger) is None
        last = leases.try_acquire(ONE, ticket=younger)
        assert last is not None
        assert ids(last) == ["GPU-cccc"]
        first = leases.try_acquire(TWO, ticket=older)
        assert first is not None
        first.release()
        last.release()


def test_a_dead_owners_ticket_reserves_nothing(folder: Path) -> None:
    leases = Leases(folder)
    ticket = leases.queue(TWO)
    os.close(ticket._descriptor)
    ticket._descriptor = -1
    lease = leases.try_acquire(Request(devices=WHOLE, count=3))
    assert lease is not None
    lease.release()
    assert list(folder.glob("want-*")) == []


def test_a_ticket_that_no_longer_asks_reserves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases(folder)
    with leases.queue(TWO):
        assert leases.try_acquire(Request(devices=WHOLE, count=3)) is None
        later = time.monotonic() + STALE_S + 1
        monkeypatch.setattr(time, "monotonic", lambda: later)
        lease = leases.try_acquire(Request(devices=WHOLE, count=3))
        assert lease is not None
        lease.release()


def test_a_ticket_that_cannot_be_met_yet_claims_what_it_could_use() -> None:
    wanted = [Wanted(devices=("GPU-aaaa", "GPU-bbbb"), count=2)]
    assert [device.id for device in unclaimed(WHOLE[1:], wanted)] == ["GPU-cccc"]


def test_a_child_that_outlives_its_runner_keeps_no_lease(folder: Path) -> None:
    script = OWNER.replace(
        "time.sleep(600)",
        "import subprocess; child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); time.sleep(600)",
    )
    argv = [sys.executable, "-c", script, str(folder), "1", "GPU-aaaa"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "GPU-aaaa\n"
        child = int(process.stdout.readline())
        try:
            process.kill()
            process.wait()
            assert process_started(live, child) is not None
            assert [each.state for each in Leases(folder).holders()] == [HolderState.DEAD]
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_busy_gate_gives_nothing_after_a_bounded_wait(folder: Path) -> None:
    leases = Leases(folder, wait_s=0.05)
    from runner.hosts.locks import gate

    with gate(folder, 0.0) as mine:
        assert mine
        assert leases.try_acquire(ONE) is None
        with pytest.raises(LeaseError, match="the gate stays locked"):
            leases.queue(ONE)


def test_the_folder_and_its_files_are_for_all_users(folder: Path) -> None:
    old = os.umask(0o077)
    try:
        lease = Leases(folder).try_acquire(ONE)
        assert lease is not None
        lease.release()
    finally:
        os.umask(old)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666}


def test_a_link_in_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    leases = Leases(folder)
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (folder / "device-GPU-aaaa.lock").symlink_to(victim)
    with pytest.raises(LeaseError, match=r"device-GPU-aaaa\.lock: the lock file cannot be opened"):
        leases.try_acquire(ONE)
    assert victim.read_text() == "keep"


def test_a_full_disk_leases_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases(folder)
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: whole(descriptor, data[:9], offset))
    with pytest.raises(LeaseError, match=r"a lease cannot be written .* free space there"):
        leases.try_acquire(TWO)
    monkeypatch.undo()
    assert leases.holders() == ()
    lease = leases.try_acquire(Request(devices=WHOLE, count=3))
    assert lease is not None
    lease.release()


def test_odd_identities_make_file_names(folder: Path) -> None:
    odd = Device(platform="rocm", index=0, id="GPU-feed/../1", parent="GPU-feed/..", slot=1)
    lease = Leases(folder).try_acquire(Request(devices=(odd,), count=1))
    assert lease is not None
    assert sorted(path.name for path in folder.iterdir()) == [
        "device-GPU-feed_...lock",
        "device-GPU-feed_..@GPU-feed_.._1.lock",
        "gate.lock",
    ]
    lease.release()


@pytest.mark.parametrize(
    ("modes", "chosen"),
    [((0o1777, 0o1777), 0), ((0o755, 0o1777), 1)],
    ids=["both are open", "the first is an administrator's"],
)
def test_the_place_depends_on_the_host_and_not_on_the_user(
    tmp_path: Path, modes: tuple[int, int], chosen: int
) -> None:
    places = (tmp_path / "run-lock", tmp_path / "tmp")
    for place, mode in zip(places, modes, strict=True):
        place.mkdir()
        place.chmod(mode)
    assert lease_folder(places) == places[chosen] / FOLDER_NAME
    (places[0] / FOLDER_NAME).mkdir(exist_ok=True)
    assert lease_folder(places) == places[0] / FOLDER_NAME, "an administrator's folder is taken"


def test_no_place_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LeaseError, match=r"no place for device leases: .* make .* mode 1777"):
        lease_folder((tmp_path / "a", tmp_path / "b"))


def test_f07_an_owner_killed_while_another_takes_keeps_its_device(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner lives at the first look and is dead when its lock is tried: found by the chaos benchmark."""
    import runner.hosts.leases as room

    leases = Leases(folder)
    with owner(folder, 1) as (process, held):
        assert held == ["GPU-aaaa"]

        def kill_now(*_: object) -> tuple[Wanted, ...]:
            process.kill()
            process.wait()
            return ()

        monkeypatch.setattr(room, "ahead", kill_now)
        assert leases.try_acquire(Request(devices=WHOLE[:1], count=1)) is None
    assert [each.state for each in leases.holders()] == [HolderState.DEAD]


def test_memory_given_back_at_the_same_moment_leaves_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Leases(folder)
    lease = leases.try_acquire(Request(memory_bytes=1, memory_total=9))
    assert lease is not None
    (path,) = folder.glob("memory-*")
    listed = Path.glob

    def glob_then_release(self: Path, pattern: str) -> list[Path]:
        found = list(listed(self, pattern))
        if pattern == "*.lock":
            lease.release()
        return found

    monkeypatch.setattr(Path, "glob", glob_then_release)
    assert leases.holders() == ()
    assert not path.exists()


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (TWO, ""),
        (Request(devices=WHOLE, count=4), "needs 4 devices of one kind, and one cell gets 3 here at most"),
        (Request(devices=SLICES, count=2), "needs 2 devices of one kind, and one cell gets 1 here at most"),
        (Request(cores=(0, 1), core_count=4), "needs 4 cores of 2"),
        (Request(memory_bytes=3 << 30, memory_total=2 << 30), "needs 3072 MiB of host memory of 2048"),
    ],
)
def test_f07_what_can_never_be_met_is_known_without_waiting(
    folder: Path, request_: Request, reason: str
) -> None:
    assert request_.never() == reason
    if reason:
        assert Leases(folder).try_acquire(request_) is None


def still_there(owner: LeaseOwner | None) -> str:
    return "" if owner is not None and owner.run == "gone" else "it is still there"


def test_f07_only_what_nothing_runs_on_is_reclaimed(folder: Path) -> None:
    leases = Leases(folder)
    for run in ("gone", "container still there"):
        lease = Leases(folder, run=run).try_acquire(ONE)
        assert lease is not None
        lease.abandon()
    live_lease = leases.try_acquire(ONE)
    assert live_lease is not None
    freed, kept = leases.reclaim(leases.orphans(), still_there)
    assert len(kept) == 1
    assert kept[0].startswith("GPU-bbbb is held by process ")
    assert kept[0].endswith(
        f"; once nothing of it runs, `truncate -s 0 {folder}/device-GPU-bbbb.lock` frees it"
    )
    assert leases.reclaim(leases.orphans(), still_there) == ((), ()), "said once, not at every look"
    assert [each.owner.thing for each in freed if each.owner] == ["GPU-aaaa"]
    assert [(each.owner.thing, each.state) for each in leases.holders() if each.owner] == [
        ("GPU-bbbb", HolderState.DEAD),
        ("GPU-cccc", HolderState.LIVE),
    ]
    live_lease.release()


def test_f07_an_owner_that_dies_during_the_clean_up_keeps_its_lease_until_the_next(folder: Path) -> None:
    owner = Leases(folder, run="dies late").try_acquire(ONE)
    assert owner is not None
    leases = Leases(folder)
    before = leases.orphans()
    owner.abandon()  # the look for leftovers saw it alive, and so removed nothing of it
    assert leases.reclaim(before, lambda _: "") == ((), ())
    freed, _ = leases.reclaim(leases.orphans(), lambda _: "")
    assert [each.owner.run for each in freed if each.owner] == ["dies late"]


@contextlib.contextmanager
def another_user(folder: Path) -> Iterator[None]:
    """What is removed from the folder is somebody else's: its sticky bit for root in another's place, or its mode."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield
        folder.chmod(0o1777)
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_another_users_memory_lease_is_freed_although_its_file_cannot_be_removed() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # pytest's own folders are closed to others
        leases = Leases(Path(place) / "leases")
        request = Request(memory_bytes=6, memory_total=10)
        lease = leases.try_acquire(request)
        assert lease is not None
        lease.abandon()
        (orphan,) = leases.orphans()
        (path,) = leases.folder.glob("memory-*")
        with another_user(leases.folder):
            with pytest.raises(PermissionError):
                path.unlink()
            assert leases.forget(orphan)
            assert leases.holders() == ()
            again = leases.try_acquire(request)
        assert again is not None
        again.release()


def test_a_lease_says_by_what_its_cell_runs_and_an_old_record_that_this_is_not_known(folder: Path) -> None:
    means = Means(runtime="docker", engine="unix:///e.sock", namespace="17")
    with Leases(folder, means=means).try_acquire(Request(devices=WHOLE[:1], count=1)):  # type: ignore[union-attr]
        (holder,) = Leases(folder).holders()
        assert holder.owner is not None
        said = holder.owner.runtime, holder.owner.engine, holder.owner.namespace, holder.owner.uid
        assert said == ("docker", "unix:///e.sock", "17", os.geteuid())
    old = read_owner(b'{"lease":"1-1-1","thing":"core 0","pid":1,"started":1,"boot_id":"b","version":1}')
    assert old is not None
    assert (old.runtime, old.engine, old.namespace, old.uid) == ("", "", "", -1)
