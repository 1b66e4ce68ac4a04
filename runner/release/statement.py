"""An in-toto statement of what was qualified, unsigned.

Predicate test-result v0.1 (in-toto/attestation, spec/predicates/test-result.md at 051624c) has three lists and no
words for waived, missing or not run: cells that passed are ``passedTests``; waived, flaky and non-blocking red ones
``warnedTests``; everything else that counts against the run, missing cells too, ``failedTests``. Names are cell ids.
The ledger of all cells, which says exactly what each came to, goes in as a configuration by its digest; so do the
policy and the canonical cells and settings of the matrix (``#cells``: the matrix hash, not the hash of the file).
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from runner.model import Outcome
from runner.records import Run
from runner.release.values import Because, Decision

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})$")


def statement(run: Run, decision: Decision, *, policy_digest: str = "") -> dict[str, Any]:
    """The statement as JSON values. Subjects are the images that were run; one without a digest is none."""
    warned, failed = _warned(run, decision), _failed(decision)
    result = "FAILED" if decision.reasons else "WARNED" if warned else "PASSED"
    digests = {
        f"{Path(run.plan.matrix).name}#cells": run.plan.matrix_hash,
        Path(decision.policy).name: policy_digest.removeprefix("sha256:"),
        "ledger.jsonl": hashlib.sha256(ledger(run, decision)).hexdigest(),
    }
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": image.ref, "digest": {"sha256": found[1]}}
            for image in run.prepared.images.values()
            if (found := _SHA256.search(image.digest))
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "result": result,
            "configuration": [
                {"name": name, "digest": {"sha256": digest}} for name, digest in digests.items() if digest
            ],
            "passedTests": sorted(cell.id for cell in decision.passed),
            "warnedTests": sorted(warned),
            "failedTests": sorted(failed - warned),
        },
    }


def _warned(run: Run, decision: Decision) -> set[str]:
    flaky = {record.cell.id for record in run.records if record.verdict.outcome is Outcome.FLAKY}
    waived = {each.cell.id for each in decision.waived}
    return flaky | waived | {each.cell.id for each in decision.also_red}


def _failed(decision: Decision) -> set[str]:
    kinds = {Because.MISSING, Because.NOT_RUN, Because.NOT_PASSED, Because.UNPROVEN}
    return {seen.cell.id for reason in decision.reasons if reason.kind in kinds for seen in reason.cells}


def ledger(run: Run, decision: Decision) -> bytes:
    """Every cell of the product with its status, outcome and waiver, one JSON object a line, in plan order."""
    records = {record.cell: record.verdict for record in run.records}
    waivers = {each.cell: each.waiver.source for each in decision.waived}
    lines = []
    for entry in run.plan.entries:
        verdict = records.get(entry.cell)
        line = {
            "cell": entry.cell.id,
            "status": entry.status.value,
            "outcome": verdict.outcome.value if verdict else None,
            "waiver": waivers.get(entry.cell),
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines).encode()
