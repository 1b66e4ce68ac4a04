"""Which devices are taken together."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from runner.hosts import choose, groups, inventory, widest
from runner.hosts.topology import nearness
from runner.machine import Device, Link

Shape = Callable[[str], Any]


Joined = dict[tuple[int, int], tuple[str, int]]


def gpus(count: int, joined: Joined, numa: Callable[[int], int] = lambda _: 0) -> tuple[Device, ...]:
    """Devices 0 to count-1; ``joined`` gives kind and number of links of a pair."""
    both = joined | {(b, a): link for (a, b), link in joined.items()}
    return tuple(
        Device(
            platform="cuda",
            index=one,
            id=f"GPU-{one}",
            numa_node=numa(one),
            links=tuple(
                Link(to=f"GPU-{other}", kind=both[one, other][0], count=both[one, other][1])
                for other in range(count)
                if (one, other) in both
            ),
        )
        for one in range(count)
    )


def indexes(devices: tuple[Device, ...], count: int) -> list[int]:
    return [device.index for device in choose(devices, count)]


def dgx1() -> tuple[Device, ...]:
    """DGX-1 with V100: quads of NVLink, one or two links a pair, and one link to the twin in the other quad."""
    double = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    single = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}
    joined = dict.fromkeys(double, ("nvlink", 2)) | dict.fromkeys(single, ("nvlink", 1))
    return gpus(8, joined, numa=lambda number: number // 4)


def test_a_pair_with_a_bridge_is_taken_together() -> None:
    devices = gpus(4, {(0, 1): ("sys", 1), (1, 2): ("nvlink", 4), (2, 3): ("phb", 1)})
    assert indexes(devices, 2) == [1, 2]


def test_one_device_leaves_the_bridged_pair_whole() -> None:
    devices = gpus(3, {(0, 1): ("nvlink", 4), (1, 2): ("phb", 1)})
    assert indexes(devices, 1) == [2]


def test_two_links_before_one() -> None:
    assert indexes(dgx1(), 2) == [0, 3]


@pytest.mark.parametrize("taken", [(), (0,), (5,)])
def test_four_of_dgx1_are_a_whole_quad(taken: tuple[int, ...]) -> None:
    free = tuple(device for device in dgx1() if device.index not in taken)
    chosen = indexes(free, 4)
    assert chosen == ([4, 5, 6, 7] if 0 in taken else [0, 1, 2, 3])


def test_one_numa_node_before_two_where_nothing_else_is_known() -> None:
    devices = gpus(4, {}, numa=lambda number: number % 2)
    assert indexes(devices, 2) == [0, 2]


def test_a_switched_host_gives_the_lowest_numbers_of_one_numa_node(shape: Shape) -> None:
    devices = inventory(shape("h100").source).devices
    assert indexes(devices, 2) == [0, 1]
    assert indexes(devices[3:], 4) == [4, 5, 6, 7]
    assert indexes(devices, 8) == list(range(8))


def test_mi300x_stay_within_a_numa_node(shape: Shape) -> None:
    devices = inventory(shape("mi300x").source).devices
    assert indexes(devices[2:], 4) == [4, 5, 6, 7]


def test_partitions_of_one_chip_come_first(shape: Shape) -> None:
    devices = inventory(shape("mi355x").source).devices
    assert indexes(devices, 2) == [0, 1]
    assert indexes(devices[1:], 2) == [2, 3]
    assert indexes(devices, 4) == [0, 1, 2, 3]


def test_f07_a_slice_is_a_device_of_its_own_and_never_half_of_two(shape: Shape) -> None:
    devices = inventory(shape("h100_mig").source).devices
    assert [len(group) for group in groups(devices)] == [1, 1, 1]
    assert choose(devices, 2) == ()
    assert choose(devices, 1)[0].id == "MIG-dddd0001-1111-4222-8333-000000000001"


def test_f07_a_tp4_cell_on_two_devices_is_known_at_plan_time(shape: Shape) -> None:
    devices = inventory(shape("h200").source).devices
    assert widest(devices) == 2
    assert choose(devices, 4) == ()


def test_different_models_do_not_combine(shape: Shape) -> None:
    found = inventory(shape("mixed").source).devices
    assert widest(found) == 1
    assert choose(found, 2) == ()


@pytest.mark.parametrize("count", [0, -1, 5])
def test_what_cannot_be_chosen_is_nothing(count: int) -> None:
    assert choose(gpus(4, {}), count) == ()


def test_the_order_of_devices_does_not_matter() -> None:
    devices = list(dgx1())
    expected = [indexes(tuple(devices), count) for count in range(1, 9)]
    for seed in range(10):
        random.Random(seed).shuffle(devices)
        assert [indexes(tuple(devices), count) for count in range(1, 9)] == expected


def test_no_other_choice_has_a_stronger_weakest_link() -> None:
    kinds = ["sys", "node", "phb", "pix", "nvlink"]
    for seed in range(30):
        dice = random.Random(seed)
        devices = gpus(6, {pair: (dice.choice(kinds), 1) for pair in itertools.combinations(range(6), 2)})
        for count in (2, 3, 4):
            best = max(
                min(nearness(a, b) for a, b in itertools.combinations(each, 2))
                for each in itertools.combinations(devices, count)
            )
            chosen = choose(devices, count)
            assert min(nearness(a, b) for a, b in itertools.combinations(chosen, 2)) == best


def test_large_hosts_are_grown_not_enumerated() -> None:
    """64 partitions on 8 chips: eight of one chip, though C(64,8) sets cannot be compared."""
    joined = {
        (a, b): ("partition" if a // 8 == b // 8 else "xgmi", 1)
        for a, b in itertools.combinations(range(64), 2)
    }
    assert indexes(gpus(64, joined)[3:], 8) == list(range(8, 16))
