"""The engine's log: every process's console output as usual, its errors in a file too, and the first of them as the cause."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any


def logging_config(errors: Path) -> dict[str, Any]:
    """A logging configuration for every vLLM process: console as by default, errors to `errors` as well."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "console": {
                "class": "logging.Formatter",
                "datefmt": "%m-%d %H:%M:%S",
                "format": "(%(processName)s pid=%(process)d) %(levelname)s %(asctime)s "
                "[%(filename)s:%(lineno)d] %(message)s",
            },
            "file": {
                "class": "logging.Formatter",
                "format": "@ %(created).3f %(processName)s %(process)d: %(message)s",
            },
        },
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": "console",
                "level": os.environ.get("VLLM_LOGGING_LEVEL", "INFO"),
                "stream": "ext://sys.stdout",
            },
            "errors": {
                "class": "logging.FileHandler",
                "formatter": "file",
                "level": "ERROR",
                "filename": str(errors),
                "mode": "a",
                "delay": True,
            },
        },
        "loggers": {"vllm": {"handlers": ["console", "errors"], "level": "DEBUG", "propagate": False}},
    }


_RECORD = re.compile(r"^@ (\d+\.\d+) (\S+) (\d+): ", re.MULTILINE)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)


def first_error(errors: Path) -> str:
    """The first error that any engine process logged, with the process that did, or an empty text.

    "Engine core initialization failed. See root cause above" is only what the parent says: this is the root cause.
    """
    try:
        text = errors.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    starts = list(_RECORD.finditer(text))
    records = [
        (
            float(m.group(1)),
            m.group(2),
            text[m.end() : (starts[i + 1].start() if i + 1 < len(starts) else None)],
        )
        for i, m in enumerate(starts)
    ]
    for _, process, body in sorted(records, key=lambda r: r[0]):
        raised = _EXCEPTION.findall(body)
        if raised:
            return f"{process}: {raised[0]}"
    return f"{records[0][1]}: {records[0][2].strip().splitlines()[0]}" if records else ""
