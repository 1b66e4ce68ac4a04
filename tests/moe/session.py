"""One engine per cell: started once, with evidence for every phase, shared by all tests."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agreement
import control
import engine
import leftovers
import methods
import oracle
from cell import Cell
from incell.evidence import Evidence
from incell.proctree import Process, descendants
from oracle import Answer, Reference

LEAVE_S = 60.0
"""Seconds that a process may take to go after the engine has stopped. On a starved host a killed worker takes ten and
more; what stays longer is left behind."""


@dataclass(repr=False)
class Session:
    """The running engine with what it said when it became ready."""

    cell: Cell
    evidence: Evidence
    llm: Any
    facts: dict[str, Any]
    ranks: list[dict[str, Any]]
    seconds: dict[str, float] = field(default_factory=dict)
    before: leftovers.Holdings = field(default_factory=leftovers.Holdings)
    leavings: list[str] = field(default_factory=list)
    """What the engine left beside processes, known after `close`."""
    _answers: list[list[Answer]] = field(default_factory=list)
    _agreement: agreement.Agreement | None = None
    _control: dict[str, Any] | None = None

    @classmethod
    def open(cls, cell: Cell, evidence: Evidence, errors: Path) -> Session:
        """Imports vllm, starts the engine, asks every rank. Raises engine.EngineStartFailed."""
        seconds: dict[str, float] = {}
        started = time.monotonic()
        with evidence.phase("import"):
            from vllm import LLM  # noqa: F401 - `import vllm` alone is lazy and takes nothing
        seconds["import"] = time.monotonic() - started
        before = leftovers.look(cell.platform)
        started = time.monotonic()
        with evidence.phase("load"):
            llm = engine.start(cell, errors)
        seconds["load"] = time.monotonic() - started
        with evidence.phase("ready"):
            facts = engine.engine_facts(llm)
            evidence.write("engine", **facts)
            ranks = engine.rank_facts(llm)
            for rank in ranks:
                evidence.write("rank", **rank)
        return cls(cell, evidence, llm, facts, ranks, seconds, before)

    def experts_class(self) -> str | None:
        """The kernel class of the first expert layer of rank 0."""
        layers = self.ranks[0]["layers"] if self.ranks else []
        return layers[0]["experts_class"] if layers else None

    def reference(self) -> Reference:
        """The reference this cell is compared with. Raises oracle.NoReference."""
        if self.cell.model is None:
            msg = "the cell has no model"
            raise oracle.NoReference(msg)
        content = oracle.load(self.cell.model.path)
        return oracle.choose(content, self.cell.quantization, self.experts_class())

    def answers(self, run: int = 0) -> list[Answer]:
        """Greedy answers to the reference's prompts; each `run` is generated once and written as evidence."""
        reference = self.reference()
        while len(self._answers) <= run:
            with self.evidence.phase("generate"):
                made = engine.ask(self.llm, reference.prompts, reference.new_tokens)
            if not self._answers:
                for prompt, answer in zip(reference.prompts, made, strict=True):
                    chosen = [round(p[t], 6) for t, p in zip(answer.tokens, answer.top, strict=True)]
                    self.evidence.write(
                        "generation", prompt=prompt, tokens=list(answer.tokens), logprobs=chosen
                    )
            self._answers.append(made)
        return self._answers[run]

    def agreement(self) -> agreement.Agreement:
        """The first run's answers against the reference, compared and written as evidence once."""
        if self._agreement is not None:
            return self._agreement
        reference = self.reference()
        followed = agreement.follow(reference, self.answers(), self._again)
        found = agreement.compare(reference, followed, self._bound(reference))
        self.evidence.write(
            "agreement",
            prompts=found.prompts,
            positions=found.positions,
            compared=found.compared,
            near_ties=found.near_ties,
            tokens_equal=found.tokens_equal,
            max_abs_diff=found.max_abs_diff,
            mean_abs_diff=found.mean_abs_diff,
            bound=found.bound.largest,
            mean_bound=found.bound.mean,
            reference=found.reference,
            agrees=found.agrees,
        )
        self._agreement = found
        return found

    def control(self) -> dict[str, Any] | None:
        """What other cells of the same model are compared with, written as evidence once; None for an unknown model."""
        if self._control is None and self.cell.model is not None:
            recipe = oracle.load(self.cell.model.path).get("recipe")
            if recipe and methods.get(self.cell.quantization):
                with self.evidence.phase("generate"):
                    made = engine.ask(self.llm, control.TEXTS, 1)
                self._control = control.event(str(recipe), self.cell.quantization, made)
                self.evidence.write("control", **self._control)
        return self._control

    def _bound(self, reference: Reference) -> agreement.Bound:
        """The reference's own bound, or that of the cell's method where the reference is only the closest there is."""
        method = methods.get(self.cell.quantization)
        if reference.note and method is not None:
            return agreement.Bound(method.largest, method.mean)
        return agreement.bound_for(reference.variant)

    def _again(self, prompts: list[list[int]], new_tokens: int) -> list[Answer]:
        with self.evidence.phase("generate"):
            return engine.ask(self.llm, prompts, new_tokens)

    def close(self) -> tuple[float, list[Process]]:
        """Stops the engine; (seconds, processes of this session still alive a moment later). Safe to call twice."""
        if self.llm is None:
            return 0.0, self.left()
        with self.evidence.phase("shutdown"):
            seconds = engine.stop(self.llm)
            self.llm = None
            deadline = time.monotonic() + LEAVE_S
            while self.left() and time.monotonic() < deadline:
                time.sleep(0.2)
            left = self.left()
            self.leavings = leftovers.left(self.before, leftovers.look(self.cell.platform))
            while leftovers.unexpected(self.leavings) and time.monotonic() < deadline:
                time.sleep(0.5)
                self.leavings = leftovers.left(self.before, leftovers.look(self.cell.platform))
        self.evidence.write(
            "shutdown", seconds=round(seconds, 3), children_left=len(left), left=self.leavings
        )
        return seconds, left

    @staticmethod
    def left() -> list[Process]:
        """Live descendants, without multiprocessing's resource tracker, which lives as long as Python does."""
        return [p for p in descendants(os.getpid()) if not _is_tracker(p.pid)]


def _is_tracker(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
