"""What this image and machine can do, as one JSON object on the last line of stdout. Never raises.

Run as a script inside the image, with no cell: `python probe.py`. A fact that cannot be had is null (or an empty list) and
`problems` says why, so that a broken image is told from a missing feature.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CPU_FLAGS = (
    "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni",
    "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve",
)  # fmt: skip
"""/proc/cpuinfo flags that decide which kernels vLLM, oneDNN and ZenDNN pick."""

INT8_EXPERTS: tuple[tuple[str, str], ...] = (
    ("ZenCPUExpertsInt8", "zen"),
    ("PowerCPUExpertsInt8", "power"),
    ("ArmCPUExpertsInt8", "arm"),
    ("CPUExpertsInt8", "amx"),
)
"""vLLM's CPU classes for int8 experts in its own order of choice (fused_moe/oracle/int8.py, 0.32.0) -> what they need."""


def probe() -> dict[str, Any]:
    """All facts; `problems` lists those that could not be had."""
    problems: list[str] = []

    def ask(name: str, question: Callable[[], Any], otherwise: Any = None) -> Any:
        try:
            return question()
        except BaseException as error:  # an image may break in any way, SystemExit included
            if isinstance(error, KeyboardInterrupt):
                raise
            problems.append(f"{name}: {type(error).__name__}: {error}"[:300])
            return otherwise

    facts: dict[str, Any] = {
        "engine": "vllm",
        "version": ask("version", _engine_version),
        "commit": ask("commit", _commit),
        "quantization_methods": ask("quantization_methods", _methods, []),
        "platform_class": ask("platform_class", lambda: type(_current()).__name__),
        "device_type": ask("device_type", lambda: str(_current().device_type)),
        "capability": ask("capability", _capability),
        "devices": ask("devices", _devices, []),
        "cpu_flags": ask("cpu_flags", cpu_flags, []),
        "cpu_model": ask("cpu_model", cpu_model),
        "zentorch": ask("zentorch", lambda: _version("zentorch")),
        "int8_moe_backend": ask("int8_moe_backend", _int8_backend),
        "torch": ask("torch", lambda: _version("torch")),
        "transformers": ask("transformers", lambda: _version("transformers")),
        "python": platform.python_version(),
        "supported_quantization": ask(
            "supported_quantization", lambda: list(_current().supported_quantization), []
        ),
        "supported_dtypes": ask("supported_dtypes", _dtypes, []),
        "support": ask("support", _support),
    }
    return {**facts, "problems": problems}


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The flags of the first processor that are in CPU_FLAGS (x86 writes `flags`, Arm `Features`)."""
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            present = set(value.split())
            return [flag for flag in CPU_FLAGS if flag in present]
    return []


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The first processor's model name, or None."""
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None


def _engine_version() -> str:
    import vllm

    return str(vllm.__version__)


def _commit() -> str | None:
    from engine import commit

    return commit()


def _current() -> Any:
    from vllm.platforms import current_platform

    current_platform.device_type  # noqa: B018 - resolves the lazy platform
    return current_platform


def _methods() -> list[str]:
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS

    return sorted(str(m) for m in QUANTIZATION_METHODS)


def _support() -> dict[str, Any]:
    """What methods.yaml expects, for the runner to hold against the rest."""
    import methods

    return methods.support()


def _capability() -> str | None:
    found = _current().get_device_capability()
    return None if found is None else f"{found.major}.{found.minor}"


def _devices() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    devices = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "name": properties.name,
                "capability": f"{properties.major}.{properties.minor}",
                "memory_bytes": int(properties.total_memory),
            }
        )
    return devices


def _version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _dtypes() -> list[str]:
    return [str(d).removeprefix("torch.") for d in _current().supported_dtypes]


def _int8_backend() -> str | None:
    """What would run int8 experts here, by asking vLLM's own classes; None where nothing would."""
    if _current().device_type != "cpu":
        return "triton"
    from vllm.model_executor.layers.fused_moe.experts import cpu_moe

    for name, need in INT8_EXPERTS:
        experts = getattr(cpu_moe, name, None)
        if experts is not None and experts._supports_current_device():
            return need
    return None


def main() -> int:
    """Prints the facts on the last line of stdout; always 0."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    facts = probe()
    sys.stdout.write("\n" + json.dumps(facts, sort_keys=True) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
