"""The version of this program, read by packaging and written into every run folder, and when two versions are the same."""

import re

VERSION = "0.1.0"

_COMMIT = re.compile(r"g?[0-9a-f]{7,40}")


def same_version(version: str, wanted: str) -> bool:
    """Whether a reported engine version is the wanted one: equal, equal but for a local part, or built from that commit.

    A ``v`` in front of either means nothing. A local part that is asked for must be there, beside a commit or not.
    """
    public, _, local = version.removeprefix("v").partition("+")
    parts = local.split(".") if local else []
    wanted = wanted.removeprefix("v")
    if wanted in {public, f"{public}+{local}"}:
        return True
    built = [part for part in parts if re.fullmatch(r"g[0-9a-f]{7,40}", part)]
    if built and wanted == f"{public}+{'.'.join(part for part in parts if part not in built)}":
        return True
    if not _COMMIT.fullmatch(wanted):
        return False
    asked = wanted.removeprefix("g")
    return any(commit.startswith(asked) or asked.startswith(commit) for commit in (b[1:] for b in built))
