"""Rules about how a cell ended: by the runner, the host, the kernel, the engine's word, or a signal.

Each docstring is the rule's reason; :mod:`runner.verdict.rules` holds their order.
"""

from __future__ import annotations

from dataclasses import replace

from runner.model import Culprit, Fault, Outcome, Stop, Verdict
from runner.verdict.case import Case, say
from runner.verdict.causes import CRASHED, EXCEPTION, MEANINGS
from runner.verdict.exits import NOT_STARTED, TIMEOUT_WRAPPER, exit_words, foreign_signal, own_signal


def cancelled(case: Case) -> Verdict | None:
    """A person or the CI stopped it: nothing that follows from the stop says anything about the product."""
    if case.facts.exit.stopped is not Stop.CANCELLED:
        return None
    return case.verdict(Outcome.CANCELLED, Culprit.NONE, _so_far(case.facts.exit.message or "stopped", case))


def host_fault(case: Case) -> Verdict | None:
    """The runtime itself failed: the cell was not tested. A build step that fails is the image's fault."""
    fault, message = case.facts.exit.fault, case.facts.exit.message
    if fault is None:
        return None
    if fault is Fault.BUILD:
        return case.verdict(Outcome.CRASHED, Culprit.IMAGE, message or "the image could not be built")
    return replace(
        case.verdict(Outcome.INFRA, Culprit.HOST, message or f"a fault of this host: {fault.value}"),
        fault=fault,
    )


def hung(case: Case) -> Verdict | None:
    """No progress within the idle limit: the engine's fault once it had begun, otherwise nobody knows."""
    if case.facts.exit.stopped is not Stop.HUNG:
        return None
    evidence = case.facts.evidence
    started = evidence is not None and bool(evidence.phase)
    culprit = Culprit.PRODUCT if started else Culprit.UNKNOWN
    words = case.facts.exit.message or "no progress within the idle limit"
    if evidence is not None and evidence.phase and evidence.phase not in words:
        words += f" in phase {evidence.phase}"
    return case.verdict(Outcome.HUNG, culprit, _so_far(words, case))


def timed_out(case: Case) -> Verdict | None:
    """Alive but past the total limit: slow is not broken, so the culprit stays unknown."""
    if case.facts.exit.stopped is not Stop.TIMED_OUT:
        return None
    words = case.facts.exit.message or "past its total limit"
    return case.verdict(Outcome.TIMED_OUT, Culprit.UNKNOWN, _so_far(words, case))


def kernel_out_of_memory(case: Case) -> Verdict | None:
    """The kernel's own word. Exit 0 with the flag is no such word: a child may be killed and replaced (C02).

    A cell with a memory limit of its own used more than that, on every host; without one the host was too small.
    """
    if not case.facts.exit.oom_killed or case.code == 0:
        return None
    limit = case.facts.memory_limit_bytes
    above = f" above its limit of {limit >> 20} MiB" if limit else ""
    words = f"the kernel's out-of-memory killer ended it{above}; {case.ending()}"
    return case.verdict(Outcome.OUT_OF_MEMORY, Culprit.PRODUCT if limit else Culprit.HOST, words)


def timeout_wrapper(case: Case) -> Verdict | None:
    """124 is what `timeout` inside the cell returns: its own limit ended the tests, passed or not."""
    if case.code != TIMEOUT_WRAPPER:
        return None
    return case.verdict(
        Outcome.TIMED_OUT,
        Culprit.UNKNOWN,
        _so_far("exit code 124: a `timeout` inside the cell ended it", case),
    )


def engine_says(case: Case) -> Verdict | None:
    """An error that explains the end decides: a refusal, a gate, memory, a host fault, or the engine's death.

    Exit 0 without a report stays `no_report`: an error in the log may have been survived, a lost report was not. A
    kill from elsewhere is only explained by an error that the table knows, or one of an engine process.
    """
    found = case.explanation
    if found is None or (case.report is None and case.code == 0):
        return None
    vague = found.kind == EXCEPTION or (found.kind == CRASHED and not found.process)
    if vague and (own_signal(case.code) or foreign_signal(case.code)):
        return None
    return case.by_finding(found)


def died(case: Case) -> Verdict | None:
    """Died by its own signal, be the report green or not: the report says what ran before that (C06)."""
    number = own_signal(case.code)
    if number is None:
        return None
    after = "after the report was written" if case.report is not None else ""
    words = " ".join(filter(None, (f"{case.counted()}, then {number.name}".removeprefix(", then "), after)))
    return case.verdict(Outcome.CRASHED, Culprit.PRODUCT, f"{words}; exit code {case.code}")


def killed(case: Case) -> Verdict | None:
    """SIGKILL (137) or another signal from elsewhere: never called out of memory without the kernel's word (C02).

    A whole report with a failed test is known in spite of the kill, so that one is left to the report.
    """
    number = foreign_signal(case.code)
    if number is None or case.bad:
        return None
    words = f"ended by {number.name} from elsewhere, without an out-of-memory event"
    return case.verdict(Outcome.KILLED, Culprit.UNKNOWN, f"{words}; {case.ending()}")


def not_started(case: Case) -> Verdict | None:
    """126 and 127 without a report: the program is not in the image, or is no program."""
    if case.code not in NOT_STARTED or case.report is not None:
        return None
    words = "the cell's program could not be started in this image"
    return case.verdict(Outcome.CRASHED, Culprit.IMAGE, f"{words}: {exit_words(case.code)}")


def _so_far(words: str, case: Case) -> str:
    parts = [words, case.counted()]
    found = case.facts.finding
    if found is not None and found.kind in MEANINGS and case.report is None:
        parts.append(f"first error of the log: {say(found)}")
    return "; ".join(filter(None, parts))
