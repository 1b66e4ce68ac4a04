"""Fails unless a run folder shows that real cells ran in Docker with evidence of the engine, two at once on other cores."""

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

Evidence = dict[str, Any]


def at_once(evidence: dict[str, Evidence]) -> list[str]:
    """Pairs of cells that ran at the same time and saw cores of their own, by what they say themselves."""
    return [
        f"{one} on cores {first['sight']['cores']} beside {other} on cores {second['sight']['cores']}"
        for (one, first), (other, second) in combinations(evidence.items(), 2)
        if first["first_event_at"] < second["last_event_at"]
        and second["first_event_at"] < first["last_event_at"]
        and not set(first["sight"]["cores"]) & set(second["sight"]["cores"])
    ]


def main(path: Path) -> str:
    """Return what is wrong with a run, or an empty text."""
    run = json.loads(path.read_text())["data"]
    records = {
        ",".join("=".join(pair) for pair in record["cell"]["axes"]): record for record in run["records"]
    }
    passed = [key for key, record in records.items() if record["verdict"]["outcome"] == "passed"]
    last = {key: records[key]["attempts"][-1] for key in passed}
    proven = {key: attempt["evidence"] for key, attempt in last.items() if attempt["evidence"]["ranks"]}
    int8 = {"zen", "amx_int8"} & set(run["inventory"]["cpu"]["facts"])
    need = 6 if int8 else 2
    print(f"{len(proven)} cells passed with evidence in {run['runtime']}; {need} are expected on this CPU")
    if run["runtime"] != "docker":
        return "the cells did not run in Docker"
    if not len(proven) == need == len(records):
        return f"passed with evidence: {list(proven)}"
    strayed = [key for key, found in proven.items() if found["sight"]["cores"] != last[key]["given"]["cores"]]
    if strayed:
        return f"saw other cores than were leased: {strayed}"
    together = at_once(proven) if int8 else ["one tp 1 cell only on this CPU"]
    print("at once:", *together, sep="\n  ")
    return "" if together else "no two cells ran at once on cores of their own"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or 0)
