"""What a plan will cost before anything runs: device seconds, makespan, and the bound no order can beat. Pure.

The makespan plays the runner's own scheduler against durations from history or stated guesses. Making images and
models ready is not in it: that happens once, before any cell's clock runs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runner.schedule import Need, free, next_to_start


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """What one cell will take: ``seconds``, and a count of each resource meanwhile.

    ``guess`` is empty for a duration from history, and otherwise names the stated guess, such as ``cpu``.
    """

    key: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    guess: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """When a cell would run, in seconds from the start of the first."""

    key: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A stated guess: what it is for, its seconds, and how many cells rest on it."""

    name: str
    seconds: float
    cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a plan on one host.

    ``resource_s``: seconds times count of each resource. ``makespan_s`` is simulated; ``bound_s`` is the packing lower
    bound and ``bound_by`` says what sets it. ``impossible`` cells need more than this host has and are in neither.
    """

    cells: int
    resource_s: Mapping[str, float]
    makespan_s: float
    bound_s: float
    bound_by: str
    slots: tuple[Slot, ...]
    guesses: tuple[Guess, ...] = ()
    impossible: tuple[str, ...] = ()

    @property
    def guessed(self) -> int:
        """How many cells rest on a guess."""
        return sum(guess.cells for guess in self.guesses)


def cell_cost(
    key: str, kind: str, counts: Mapping[str, int], history: Mapping[str, float], guesses: Mapping[str, float]
) -> CellCost:
    """The cost of a cell by its last known seconds, else by the guess for its kind (its platform). KeyError: neither."""
    if key in history:
        return CellCost(key=key, seconds=history[key], counts=counts)
    return CellCost(key=key, seconds=guesses[kind], counts=counts, guess=kind)


def estimate(needs: Sequence[CellCost], capacity: Mapping[str, int], jobs: int) -> Cost:
    """The cost of cells, given in plan order, with ``jobs`` of them at once at most.

    A lower bound of the makespan is the greatest of: the longest cell; for each resource, its seconds over its
    capacity; all seconds over ``jobs``. Raises ValueError for a key that is there twice, jobs below one or a negative
    duration.
    """
    if (
        jobs < 1
        or any(not need.seconds >= 0 for need in needs)
        or len({need.key for need in needs}) != len(needs)
    ):
        msg = "jobs must be 1 or more, durations 0 or more, and every key there once"
        raise ValueError(msg)
    fits = [
        need for need in needs if all(capacity.get(name, 0) >= count for name, count in need.counts.items())
    ]
    possible = {need.key for need in fits}
    totals: dict[str, float] = {}
    for need in fits:
        for name, count in need.counts.items():
            totals[name] = totals.get(name, 0.0) + need.seconds * count
    slots = tuple(_slots(fits, capacity, jobs))
    bound_s, bound_by = _bound(fits, totals, capacity, jobs)
    return Cost(
        cells=len(fits),
        resource_s=totals,
        makespan_s=max((slot.end_s for slot in slots), default=0.0),
        bound_s=bound_s,
        bound_by=bound_by,
        slots=slots,
        guesses=_guesses(fits),
        impossible=tuple(need.key for need in needs if need.key not in possible),
    )


ORDERS: tuple[Callable[[CellCost], tuple[float, ...]], ...] = (
    lambda cell: (-cell.seconds,),
    lambda cell: (-_width(cell), -cell.seconds),
    lambda cell: (_width(cell), -cell.seconds),
    lambda cell: (-cell.seconds * _width(cell) ** 2,),
)
"""Sort keys of the orders that are tried. Longest first is best for equal widths (LPT: at most 4/3 of the best, Graham
1969); with mixed widths it leaves holes beside wide cells, which widest first does not (benchmarks/schedule.md)."""


def best_order(needs: Sequence[CellCost], capacity: Mapping[str, int], jobs: int) -> tuple[CellCost, ...]:
    """The one of a few good orders that ends first when it is played through; the earlier one of equals."""
    orders = [tuple(sorted(needs, key=key)) for key in ORDERS]
    return min(orders, key=lambda order: estimate(order, capacity, jobs).makespan_s)


def _width(cell: CellCost) -> int:
    return sum(cell.counts.values())


def _bound(
    needs: Sequence[CellCost], totals: Mapping[str, float], capacity: Mapping[str, int], jobs: int
) -> tuple[float, str]:
    longest = max(needs, key=lambda need: need.seconds, default=None)
    if longest is None:
        return 0.0, "nothing to run"
    bounds = [(longest.seconds, f"the longest cell, {longest.key}")]
    for name, total in totals.items():
        if capacity.get(name, 0):
            bounds.append((total / capacity[name], f"{name} x {capacity[name]}"))
    bounds.append((sum(need.seconds for need in needs) / jobs, f"{jobs} job{'s' * (jobs > 1)} at once"))
    return max(bounds, key=lambda bound: bound[0])


def _guesses(needs: Sequence[CellCost]) -> tuple[Guess, ...]:
    counts: dict[tuple[str, float], int] = {}
    for need in needs:
        if need.guess:
            counts[need.guess, need.seconds] = counts.get((need.guess, need.seconds), 0) + 1
    return tuple(Guess(name=name, seconds=seconds, cells=cells) for (name, seconds), cells in counts.items())


def _slots(needs: Sequence[CellCost], capacity: Mapping[str, int], jobs: int) -> Iterator[Slot]:
    """Play the scheduler: start what it picks, else let time pass to the next end. Slots in the order of starts."""
    waiting = _Waiting(needs)
    running: list[tuple[float, int, CellCost]] = []
    now = 0.0
    while waiting or running:
        left = free(capacity, [cost.counts for _, _, cost in running])
        pick = next_to_start(waiting.heads(), left, len(running), jobs)
        if pick is None:
            now = running[0][0]
            while running and running[0][0] <= now:
                heapq.heappop(running)
            continue
        place, cost = waiting.take(pick)
        heapq.heappush(running, (now + cost.seconds, place, cost))
        yield Slot(key=cost.key, start_s=now, end_s=now + cost.seconds)


class _Waiting:
    """The cells that wait. Only the first of those with equal needs is offered: if it cannot start, no other can.

    Without this, ten thousand cells cost ten thousand looks at ten thousand cells.
    """

    def __init__(self, needs: Sequence[CellCost]) -> None:
        self.needs = needs
        self.queues: dict[tuple[tuple[str, int], ...], deque[int]] = defaultdict(deque)
        for place, need in enumerate(needs):
            self.queues[tuple(sorted(need.counts.items()))].append(place)
        self.places = {need.key: place for place, need in enumerate(needs)}

    def __bool__(self) -> bool:
        return bool(self.queues)

    def heads(self) -> list[Need]:
        first = sorted(queue[0] for queue in self.queues.values())
        return [Need(key=self.needs[place].key, counts=self.needs[place].counts) for place in first]

    def take(self, need: Need) -> tuple[int, CellCost]:
        kind = tuple(sorted(need.counts.items()))
        place = self.queues[kind].popleft()
        if not self.queues[kind]:
            del self.queues[kind]
        return place, self.needs[place]


def lines(cost: Cost) -> list[str]:
    """The cost in a few lines for a person."""
    cells = f"{cost.cells} cell{'s' * (cost.cells != 1)}"
    bound = f"not below {duration(cost.bound_s)} in any order ({cost.bound_by})"
    found = [f"about {duration(cost.makespan_s)} for {cells}, {bound}"]
    found += [f"{name}: {duration(total)} of use in all" for name, total in cost.resource_s.items()]
    if cost.guesses:
        said = ", ".join(f"{guess.seconds:g} s {guess.name} ({guess.cells})" for guess in cost.guesses)
        found.append(f"no history for {cost.guessed} of {cost.cells} cells, stated guess: {said}")
    if cost.impossible:
        found.append(f"not counted, since they need more than this host has: {', '.join(cost.impossible)}")
    return found


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``45 s``, ``12 min``, ``3 h 05 min``."""
    if round(seconds) < 100:
        return f"{seconds:.0f} s"
    minutes = int(seconds / 60 + 0.5)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
