"""Whether somebody said which Docker engine is meant, so that another way to run cells is no answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_TLS = ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


def named_engine(environ: Mapping[str, str]) -> str:
    """What names an engine and what to do where it does not answer; "" where nothing does.

    The engine is looked for at ``DOCKER_HOST``, else at the local socket. Contexts of the docker command are not
    followed: the current one is that of ``DOCKER_CONTEXT``, else of ``config.json`` (docker/cli,
    ``cli/command/cli.go``: ``resolveContextName``), and ``default`` is the local socket.
    """
    host = environ.get("DOCKER_HOST", "")
    if host:
        return f"mend DOCKER_HOST={host} or unset it"
    name, said = environ.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT is"
    if not name:
        name, said = _current_context(environ), "the docker command's context is"
    if name not in ("", "default"):
        return f"{said} {name}, which is not followed here: set DOCKER_HOST to its address (docker context inspect {name})"
    tls = [each for each in _TLS if environ.get(each)]
    return f"mend {' and '.join(tls)} or unset {'it' if len(tls) == 1 else 'them'}" if tls else ""


def _current_context(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    folder = environ.get("DOCKER_CONFIG") or (f"{home}/.docker" if home else "")
    if not folder:
        return ""
    try:
        found = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError):
        return ""
    name = found.get("currentContext") if isinstance(found, dict) else ""
    return name if isinstance(name, str) else ""
