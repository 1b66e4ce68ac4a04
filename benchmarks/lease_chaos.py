"""Kill lease owners at random instants, and look for a device held twice or lost.

    python benchmarks/lease_chaos.py --kills 1000 --seed 1

Real processes on real locks and a fake set of devices. A holder writes down what it holds in a second way, a file per
device and lease, which stays when it is killed, as a container would. Two such files for one device at one time are a
double hold. At the end everything must be had again. Exit code 0 only if neither was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from runner.hosts import Lease, LeaseError, Leases, Request
from runner.machine import Device

WHOLE = tuple(Device(platform="cuda", index=index, id=f"GPU-{index}") for index in range(4))
SLICES = tuple(
    Device(platform="cuda", index=3, id=f"MIG-{slot}", parent="GPU-3", slot=slot) for slot in range(2)
)
CORES = tuple(range(6))
MEMORY = 100

Units = tuple[str, ...]


def units(lease: Lease) -> Units:
    """What a lease holds, chips cut down to their slices so that a whole one and a slice of it collide."""
    found: list[str] = [f"core-{core}" for core in lease.cores]
    for device in lease.devices:
        found += [each.id for each in SLICES] if device.id == "GPU-3" else [device.id]
    return tuple(found)


def draw(dice: random.Random) -> Request:
    """One of the requests that cells make."""
    devices = dice.choice([WHOLE, WHOLE[:3], SLICES, WHOLE[3:], WHOLE[:3] + SLICES])
    return Request(
        devices=devices,
        count=dice.choice([0, 1, 1, 2, 3]),
        cores=CORES,
        core_count=dice.choice([0, 1, 2, 4]),
        memory_bytes=dice.choice([0, 10, 40, 60]),
        memory_total=MEMORY,
    )


class Board:
    """The second account of who holds what."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def enter(self, lease: Lease) -> None:
        """Write down a lease, then look whether another holds any of it."""
        mine = [f"{unit}~{lease.id}" for unit in units(lease)] + [f"memory={lease.memory_bytes}~{lease.id}"]
        for name in mine:
            (self.folder / name).touch()
        names = [path.name for path in self.folder.iterdir()]
        for unit in units(lease):
            holders = [name for name in names if name.startswith(f"{unit}~")]
            if len(holders) != 1:
                self.violation(f"{unit} is held by {holders}")
        used = sum(int(name[7:].partition("~")[0]) for name in names if name.startswith("memory="))
        if used > MEMORY:
            self.violation(f"memory {used} of {MEMORY}")

    def leave(self, lease: str) -> None:
        """Remove what a lease has written, as removing a container by its label would."""
        for path in self.folder.glob(f"*~{lease}"):
            path.unlink(missing_ok=True)

    def violation(self, text: str) -> None:
        (self.folder.parent / f"violation-{os.getpid()}-{time.monotonic_ns()}").write_text(text)


def clean_up(leases: Leases, board: Board) -> int:
    """What every runner does first: remove what dead owners left running, then free what they held."""
    orphans = leases.orphans()
    for orphan in orphans:
        if orphan.owner is not None:
            board.leave(orphan.owner.lease)
        leases.forget(orphan)
    return len(orphans)


def work(folder: Path, seed: str) -> None:
    """A runner: clean up, take, hold for an instant, give back, for ever."""
    dice = random.Random(seed)
    leases, board = Leases(folder / "leases", run=seed), Board(folder / "board")
    count = os.open(folder / "acquired", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        clean_up(leases, board)
        request = draw(dice)
        ticket = leases.queue(request) if dice.random() < 0.2 else None
        lease = leases.try_acquire(request, cell="chaos", ticket=ticket)
        if ticket is not None:
            ticket.close()
        if lease is None:
            continue
        board.enter(lease)
        os.write(count, b".")
        time.sleep(dice.random() * 0.03)
        board.leave(lease.id)
        lease.release()


def start(folder: Path, seed: str) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(folder, seed)
        except LeaseError as error:
            Board(folder / "board").violation(str(error))
        finally:
            os._exit(1)
    return child


def chaos(folder: Path, kills: int, seed: int, runners: int = 4) -> dict[str, object]:
    """Run and kill; what was seen."""
    dice = random.Random(seed)
    began = time.monotonic()
    running = [start(folder, f"{seed}-{number}") for number in range(runners)]
    holding = died = 0
    leases, board = Leases(folder / "leases"), Board(folder / "board")
    for kill in range(kills):
        time.sleep(dice.random() * 0.05)
        place = dice.randrange(runners)
        gone, _ = os.waitpid(running[place], os.WNOHANG)
        if gone:
            died += 1
        else:
            os.kill(running[place], signal.SIGKILL)
            os.waitpid(running[place], 0)
        holding += any(board.folder.glob(f"*~{running[place]}-*"))
        running[place] = start(folder, f"{seed}-{runners + kill}")
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    left = clean_up(leases, board)
    lost = not everything(leases)
    violations = sorted(path.read_text() for path in folder.glob("violation-*"))
    return {
        "kills": kills,
        "seed": seed,
        "runners": runners,
        "acquired": (folder / "acquired").stat().st_size,
        "killed_while_holding": holding,
        "left_by_the_last_killed": left,
        "died_by_themselves": died,
        "double_holds": len(violations),
        "lost": lost,
        "seconds": round(time.monotonic() - began, 1),
        "violations": violations[:5],
    }


def everything(leases: Leases) -> bool:
    """Whether all devices, all slices, all cores and all memory can be had again."""
    whole = Request(
        devices=WHOLE, count=4, cores=CORES, core_count=6, memory_bytes=MEMORY, memory_total=MEMORY
    )
    first = leases.try_acquire(whole)
    if first is None:
        return False
    first.release()
    pieces = [leases.try_acquire(Request(devices=SLICES, count=1)) for _ in SLICES]
    for piece in pieces:
        if piece is not None:
            piece.release()
    return None not in pieces


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill lease owners at random and look for double or lost devices."
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runners", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = chaos(Path(folder), options.kills, options.seed, options.runners)
    print(json.dumps(seen))
    return 1 if seen["double_holds"] or seen["lost"] or seen["died_by_themselves"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
