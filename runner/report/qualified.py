"""What a run qualifies: engine and version, images with their digests, what ran them, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.records import Run
from runner.report.text import clean, short_digest


@dataclass(frozen=True, slots=True)
class Qualified:
    """Lines for a person. ``engine`` says where the version is known from; ``mismatch`` is set when it is not asked."""

    engine: str
    images: tuple[str, ...]
    runtime: str
    host: str
    mismatch: str = ""


def qualified(run: Run) -> Qualified:
    """Read engine, images, runtime and host from a run; what the cells reported outranks the probe."""
    reported = _reported(run)
    probed = _probed(run)
    versions = reported or probed
    if not versions:
        engine = "engine version not known"
    else:
        engine = " and ".join(versions) + ("" if reported else " (probed)")
    wanted = clean(run.expect_engine or "")
    asked = [f"{clean(name)} in {clean(image)}" for name, image in run.images.items()]
    if wanted:
        asked.insert(0, f"engine {wanted}")
    if asked:
        engine += f" (candidate: {', '.join(asked)})"
    wrong = [version for version in versions if wanted and version.split()[-1] != wanted]
    return Qualified(
        engine=engine,
        images=tuple(_image(run, key) for key in run.prepared.images),
        runtime=clean(run.runtime_detail or run.runtime),
        host=clean(run.inventory.hostname),
        mismatch=f"expected {wanted}, got {' and '.join(wrong)}" if wrong else "",
    )


def _reported(run: Run) -> list[str]:
    seen: dict[str, None] = {}
    for record in run.records:
        for attempt in record.attempts:
            evidence = attempt.evidence
            if evidence and evidence.engine_version:
                seen[_engine(evidence.engine, evidence.engine_version)] = None
    return list(seen)


def _probed(run: Run) -> list[str]:
    seen: dict[str, None] = {}
    for probe in run.prepared.probes.values():
        version = probe.get("engine_version") or probe.get("version")
        if isinstance(version, str) and version:
            seen[_engine(str(probe.get("engine") or ""), version)] = None
    return list(seen)


def _engine(name: str, version: str) -> str:
    shown = "vLLM" if name.lower() in {"", "vllm"} else clean(name)
    return f"{shown} {clean(version)}"


def _image(run: Run, key: str) -> str:
    image = run.prepared.images[key]
    ref = re.sub(r"sha256:[0-9a-f]{64}", lambda found: short_digest(found[0]), clean(image.ref or key))
    digest = f"@{short_digest(clean(image.digest))}" if image.digest else ", digest not known"
    if "sha256:" in ref:  # a reference that names its content says it once
        digest = ""
    return f"{ref}{digest}" + (f" ({clean(image.how)})" if image.how else "")
