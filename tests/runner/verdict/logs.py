"""The labelled logs, and lines as the engine writes them, for the tests of causes."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from runner.facts import CellExit, CellFacts, Finding
from runner.model import Proof, Verdict
from runner.verdict import judge

LOGS = Path(__file__).parent / "data" / "logs"
LABELS: dict[str, dict[str, Any]] = json.loads((LOGS / "labels.json").read_text())


def lines_of(name: str) -> list[str]:
    return (LOGS / name).read_bytes().decode("utf-8", "replace").split("\n")


def judged(finding: Finding | None, code: int = 1) -> Verdict:
    """The verdict of a cell that ended with exit 1 and left nothing but this finding."""
    ended = CellExit(exit_code=code, duration_s=1.0)
    return judge(CellFacts(exit=ended, proof=Proof.TESTS, report_missing=True, finding=finding))


TRACE = "Traceback (most recent call last):"
FRAME = '  File "/opt/vllm/vllm/v1/worker/gpu_worker.py", line 7, in load_model'


def log(*bodies: str, prefix: str = "") -> list[str]:
    return [prefix + body for body in bodies]


def error_log(process: str, pid: int, *bodies: str, where: str = "multiproc_executor.py:953") -> list[str]:
    return [f"({process} pid={pid}) ERROR 11-30 12:40:38 [{where}] {body}" for body in bodies]


def renamed(text: str, draw: random.Random, folder: str, model: str) -> str:
    """Other process numbers, folders, model names and ranks, the same text otherwise."""
    pids: dict[str, str] = {}
    shift = draw.randrange(1, 4)
    text = re.sub(
        r"pid[= ](\d+)", lambda m: m[0][:4] + pids.setdefault(m[1], str(draw.randrange(2, 99999))), text
    )
    text = re.sub(r"(?<![\w.])/(?:opt|usr|root|cell|tmp|sbin|model)\b", f"/{folder}", text)
    text = re.sub(r"(_TP|VllmWorker-|\[rank|\brank=)(\d+)", lambda m: m[1] + str(int(m[2]) + shift), text)
    return re.sub(r"\b(jamba64|jamba|qwen3moe_quark|qwen3moe|experts-only|nobody/nothing)\b", model, text)
