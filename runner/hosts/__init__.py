"""What a host offers: devices and CPU facts, who holds which device, and whether a device is healthy.

This room looks and locks; it never decides what to run. Everything that decides is a pure function over what a
:class:`Source` said, and a source may be a recorded folder.
"""

from runner.hosts.assign import Assigner, Held, widths
from runner.hosts.cpu import format_cores, parse_cores
from runner.hosts.devices import memory_gib, of_platform, physical
from runner.hosts.doctor import describe, problems
from runner.hosts.handover import hand_over, hand_over_process, hidden_env, rank_cores
from runner.hosts.health import Condition, Decision, Process, Reading, charges, decide, settle
from runner.hosts.lease import Lease, Request
from runner.hosts.leases import Leases
from runner.hosts.locks import LeaseError, lease_folder
from runner.hosts.offers import HostOffer, offer
from runner.hosts.read import facts, inventory
from runner.hosts.readings import read_health
from runner.hosts.records import Holder, HolderState, LeaseOwner, Means, process_started
from runner.hosts.sources import LiveHost, RecordedHost, Source, live
from runner.hosts.tickets import Ticket
from runner.hosts.topology import choose, groups, widest

__all__ = [
    "Assigner",
    "Condition",
    "Decision",
    "Held",
    "Holder",
    "HolderState",
    "HostOffer",
    "Lease",
    "LeaseError",
    "LeaseOwner",
    "Leases",
    "LiveHost",
    "Means",
    "Process",
    "Reading",
    "RecordedHost",
    "Request",
    "Source",
    "Ticket",
    "charges",
    "choose",
    "decide",
    "describe",
    "facts",
    "format_cores",
    "groups",
    "hand_over",
    "hand_over_process",
    "hidden_env",
    "inventory",
    "lease_folder",
    "live",
    "memory_gib",
    "of_platform",
    "offer",
    "parse_cores",
    "physical",
    "problems",
    "process_started",
    "rank_cores",
    "read_health",
    "settle",
    "widest",
    "widths",
]
